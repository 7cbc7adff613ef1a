//! The command lines of both commands, and their exit codes.

use crate::book::{build, formulas};
use crate::learn::Course;
use crate::learn::task::Verdict;
use crate::lesson::Lesson;
use crate::progress::Progress;
use crate::trouble::{Result, Trouble};
use crate::workspace::Workspace;
use crate::{api, check, ci, generate, starter, style};
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Success.
const GOOD: u8 = 0;
/// A check failed.
const RED: u8 = 1;
/// The command itself failed.
const TROUBLE: u8 = 2;

/// The lesson does not compile.
const BROKEN: u8 = 3;

#[derive(Parser)]
#[command(
    name = "cargo learn",
    bin_name = "cargo learn",
    about = "Guides you through the lessons: shows your progress and the next step"
)]
#[command(after_help = "Lessons are selected by number or name: 8, 08, lesson08, conv.\n\
    Exit codes: 0 success, 1 a test is red, 2 the command itself failed, 3 the lesson does not compile.")]
struct Learn {
    #[command(subcommand)]
    order: Option<Step>,
}

#[derive(Subcommand)]
enum Step {
    /// Runs the tests of a lesson or of one of its tasks and shows the first failure
    Check {
        /// The lesson [default: that of the current folder or of your last change]
        lesson: Option<String>,
        /// The task [default: all]
        task: Option<u32>,
    },
    /// Shows one more hint for a task
    Hint {
        /// The lesson [default: that of the current folder or of your last change]
        lesson: Option<String>,
        /// The task [default: the first that isn't done]
        task: Option<u32>,
    },
    /// Restores the starter; your work is backed up
    Reset {
        /// The lesson
        lesson: String,
    },
    /// Replaces your file by the solution once the lesson is solved; your work is backed up
    Solution {
        /// The lesson
        lesson: String,
        /// Allows this even if the lesson isn't solved
        #[arg(long)]
        give_up: bool,
    },
    /// Compares your work with the solution, once the lesson is solved
    Diff {
        /// The lesson
        lesson: String,
        /// Allows this even if the lesson isn't solved
        #[arg(long)]
        give_up: bool,
    },
}

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Tools for the authors of the course")]
#[command(
    after_help = "Exit codes: 0 success, 1 a check of the lessons or the book failed, 2 the command itself failed."
)]
struct Xtask {
    #[command(subcommand)]
    order: Order,
}

#[derive(Subcommand)]
enum Order {
    /// Generates and checks lessons
    #[command(subcommand)]
    Lessons(Lessons),
    /// Builds the book
    #[command(subcommand)]
    Book(Book),
    /// Prints the public API of the library, as in tests/api.txt
    Api,
    /// Runs everything that continuous integration runs
    Ci,
}

#[derive(Subcommand)]
enum Lessons {
    /// Generates src/lib.rs of every lesson from its starter.tmpl
    Generate,
    /// Checks lessons: starters, solutions, planted mistakes and pages
    Check {
        /// The lessons to check, such as 8, 08 or conv [default: all]
        lessons: Vec<String>,
        /// Prints the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Prints the solution of a lesson, to which planted mistakes are applied
    Show {
        /// The lesson, such as 8, 08 or conv
        lesson: String,
    },
}

#[derive(Subcommand)]
enum Book {
    /// Checks includes and formulas, runs mdBook, and checks all links
    Build,
    /// The preprocessor named in book.toml: renders TeX formulas as MathML
    #[command(hide = true)]
    Preprocess {
        #[command(subcommand)]
        question: Option<Question>,
    },
}

#[derive(Subcommand)]
enum Question {
    /// Tells mdBook whether the preprocessor supports a renderer
    Supports { renderer: String },
}

/// Runs the command given on the command line.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let answer = match arguments.next().zip(arguments.next()) {
        Some((_, first)) if first == "learn" => learn(arguments.collect()),
        _ => xtask(Xtask::parse().order),
    };
    match answer {
        Ok(code) => ExitCode::from(code),
        Err(trouble) => {
            anstream::eprintln!("{} {}", style::bad("✘"), trouble.what);
            trouble.next.iter().for_each(|next| anstream::eprintln!("  {next}"));
            ExitCode::from(TROUBLE)
        }
    }
}

fn folder() -> Result<PathBuf> {
    std::env::current_dir()
        .map_err(|error| Trouble::new(format!("cannot determine the current folder: {error}")))
}

fn here() -> Result<Workspace> {
    Workspace::find(&folder()?)
}

fn learn(arguments: Vec<OsString>) -> Result<u8> {
    let name = [OsString::from("cargo learn")];
    let parsed = Learn::try_parse_from(name.into_iter().chain(arguments.iter().cloned()));
    let order = match parsed {
        Ok(parsed) => parsed.order,
        // `cargo learn 8` means `cargo learn check 8`.
        Err(error) if error.kind() == ErrorKind::InvalidSubcommand => {
            let lesson = arguments.first().and_then(|first| here().ok()?.lesson(first.to_str()?).ok());
            let lesson = lesson.unwrap_or_else(|| error.exit());
            Some(Step::Check { lesson: Some(lesson.name()), task: None })
        }
        Err(error) => error.exit(),
    };
    let course = Course::open(here()?, folder()?)?;
    let text = match order {
        None => course.board()?,
        Some(Step::Check { lesson, task }) => {
            let (verdict, text) = course.check(lesson.as_deref(), task)?;
            anstream::print!("{text}");
            return Ok(match verdict {
                Verdict::Green => GOOD,
                Verdict::Red => RED,
                Verdict::Broken => BROKEN,
            });
        }
        Some(Step::Hint { lesson, task }) => course.hint(lesson.as_deref(), task)?,
        Some(Step::Reset { lesson }) => course.reset(&lesson)?,
        Some(Step::Solution { lesson, give_up }) => course.solution(&lesson, give_up)?,
        Some(Step::Diff { lesson, give_up }) => course.diff(&lesson, give_up)?,
    };
    anstream::print!("{text}");
    Ok(GOOD)
}

fn xtask(order: Order) -> Result<u8> {
    match order {
        Order::Lessons(Lessons::Generate) => anstream::print!("{}", generate::generate(&here()?)?),
        Order::Lessons(Lessons::Check { lessons, json }) => return check_lessons(&lessons, json),
        Order::Lessons(Lessons::Show { lesson }) => {
            let workspace = here()?;
            print!("{}", starter::make(&workspace.root, &workspace.lesson(&lesson)?)?.solution);
        }
        Order::Book(Book::Build) => anstream::print!("{}", build::build(&here()?)?),
        Order::Book(Book::Preprocess { question: None }) => {
            print!("{}", formulas::preprocess(std::io::stdin())?)
        }
        Order::Book(Book::Preprocess { question: Some(Question::Supports { renderer }) }) => {
            return Ok(if renderer == "html" { GOOD } else { RED });
        }
        Order::Api => print!("{}", api::list(&here()?.root)?),
        Order::Ci => return ci::run(&here()?),
    }
    Ok(GOOD)
}

fn check_lessons(wanted: &[String], json: bool) -> Result<u8> {
    let workspace = here()?;
    let wanted = wanted.iter().map(|wanted| workspace.lesson(wanted)).collect::<Result<Vec<Lesson>>>()?;
    let shown = Progress::start("checking lessons");
    let report = check::check(&workspace, &wanted, &shown)?;
    drop(shown);
    if json {
        print!("{}", style::plain(&report.json()));
    } else {
        anstream::print!("{}", report.text());
    }
    Ok(if report.is_good() { GOOD } else { RED })
}
