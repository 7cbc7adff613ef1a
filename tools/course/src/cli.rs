//! The two commands: what can be typed, and what the exit codes mean.

use crate::book::{build, formulas};
use crate::learn::Course;
use crate::learn::task::Verdict;
use crate::lesson::Lesson;
use crate::progress::Progress;
use crate::trouble::{Result, Trouble};
use crate::workspace::Workspace;
use crate::{check, ci, generate, starter, style};
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// All is well.
const GOOD: u8 = 0;
/// What was checked is not right.
const RED: u8 = 1;
/// The command could not do what it was asked to.
const TROUBLE: u8 = 2;

/// It doesn't even compile.
const BROKEN: u8 = 3;

#[derive(Parser)]
#[command(
    name = "cargo learn",
    bin_name = "cargo learn",
    about = "The way through the lessons: where you are, and what comes next"
)]
#[command(after_help = "Lessons are called by number or name: 8, 08, lesson08, conv.\n\
    Exit codes: 0 all is well, 1 a test is red, 2 the command could not do what it was asked to, 3 the lesson does not compile.")]
struct Learn {
    #[command(subcommand)]
    order: Option<Step>,
}

#[derive(Subcommand)]
enum Step {
    /// Runs the tests of a lesson, or of one of its tasks, and says what is wrong first
    Check {
        /// The lesson; without one, that of this folder or of your last change
        lesson: Option<String>,
        /// The task
        task: Option<u32>,
    },
    /// Shows one more hint for a task
    Hint {
        /// The lesson; without one, that of this folder or of your last change
        lesson: Option<String>,
        /// The task; without one, the first that isn't done
        task: Option<u32>,
    },
    /// Gives you the starter again; your work is kept
    Reset {
        /// The lesson
        lesson: String,
    },
    /// Puts the solution in your file, once the lesson is solved; your work is kept
    Solution {
        /// The lesson
        lesson: String,
        /// Even if the lesson isn't solved
        #[arg(long)]
        give_up: bool,
    },
    /// Compares your work with the solution, once the lesson is solved
    Diff {
        /// The lesson
        lesson: String,
        /// Even if the lesson isn't solved
        #[arg(long)]
        give_up: bool,
    },
}

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "For those who write the course")]
#[command(
    after_help = "Exit codes: 0 all is well, 1 something is wrong with the lessons or the book, 2 the command itself failed."
)]
struct Xtask {
    #[command(subcommand)]
    order: Order,
}

#[derive(Subcommand)]
enum Order {
    /// Writes and checks lessons
    #[command(subcommand)]
    Lessons(Lessons),
    /// Builds the book
    #[command(subcommand)]
    Book(Book),
    /// Does everything that the continuous integration does
    Ci,
}

#[derive(Subcommand)]
enum Lessons {
    /// Writes src/lib.rs of every lesson from its starter.tmpl
    Generate,
    /// Proves that lessons are as they should be: starters, solutions, planted mistakes, pages
    Check {
        /// The lessons to check, all without any: 8, 08, conv
        lessons: Vec<String>,
        /// Writes the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows the solution of a lesson, which planted mistakes are applied to
    Show {
        /// The lesson: 8, 08, conv
        lesson: String,
    },
}

#[derive(Subcommand)]
enum Book {
    /// Checks includes and formulas, runs mdBook, and follows all links
    Build,
    /// The preprocessor that book.toml names: formulas in TeX become MathML
    #[command(hide = true)]
    Preprocess {
        #[command(subcommand)]
        question: Option<Question>,
    },
}

#[derive(Subcommand)]
enum Question {
    /// Whether the preprocessor can do with a renderer
    Supports { renderer: String },
}

/// Runs the command that the process was called with.
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
    std::env::current_dir().map_err(|error| Trouble::new(format!("there is no folder here: {error}")))
}

fn here() -> Result<Workspace> {
    Workspace::find(&folder()?)
}

fn learn(arguments: Vec<OsString>) -> Result<u8> {
    let name = [OsString::from("cargo learn")];
    let parsed = Learn::try_parse_from(name.into_iter().chain(arguments.iter().cloned()));
    let order = match parsed {
        Ok(parsed) => parsed.order,
        // `cargo learn 8` is worth a try.
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
