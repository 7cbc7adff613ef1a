//! Static checks of starter, tasks, hints, tests and page.

use super::Subject;
use super::proof::tests_of_task;
use super::report::{Finding, Summary};
use crate::book::Book;
use crate::book::page::Page;
use crate::files;
use crate::handout::Handout;
use crate::lesson::Lesson;
use crate::libtest;
use crate::part;
use crate::style;
use crate::trouble::{Result, Trouble};
use crate::workspace::Workspace;

/// Where lessons may take code from. Optimised kernels are excluded, because lessons teach plain code.
const TAUGHT: &[&str] = &[
    "crates/ixion-tensor/src/",
    "crates/ixion-pnnx/src/",
    "crates/ixion-ops/src/",
    "src/graph/",
    "src/passes/",
    "src/shape/",
    "src/memory/",
    "src/engine/",
    "crates/ixion-vision/src/",
    "crates/ixion-kernels/src/naive",
    "crates/ixion-kernels/src/quantization.rs",
    "crates/ixion-kernels/src/window.rs",
];

/// Code that a starter must not contain.
const FORBIDDEN: &[&str] =
    &["unsafe", "cfg", "cfg_attr", "core::arch", "std::arch", "std::simd", "core::simd", "target_feature"];

/// The allowed number of words of a page.
const WORDS: std::ops::RangeInclusive<usize> = 1000..=1600;

struct Paper<'a> {
    workspace: &'a Workspace,
    subject: &'a Subject,
    findings: &'a mut Vec<Finding>,
}

/// Checks a lesson and adds problems to the findings.
pub fn check(
    workspace: &Workspace,
    book: &Book,
    subject: &Subject,
    findings: &mut Vec<Finding>,
) -> Result<Summary> {
    let lesson = &subject.lesson;
    let mut paper = Paper { workspace, subject, findings };
    paper.starter();
    paper.pieces();
    paper.tasks();
    paper.tests();
    paper.alias();
    paper.part()?;
    let words = paper.page(book);
    Ok(Summary {
        number: lesson.number,
        name: lesson.name(),
        title: lesson.title.clone(),
        tasks: lesson.tasks.len(),
        mistakes: lesson.wrongs.len(),
        words,
        ..Summary::default()
    })
}

impl Paper<'_> {
    fn lesson(&self) -> &Lesson {
        &self.subject.lesson
    }

    fn error(&mut self, rule: &'static str, trouble: Trouble) {
        self.findings.push(Finding::error(Some(self.subject.lesson.number), rule, trouble));
    }

    fn warning(&mut self, rule: &'static str, trouble: Trouble) {
        self.findings.push(Finding::warning(Some(self.subject.lesson.number), rule, trouble));
    }

    /// The committed starter is up to date with its template.
    fn starter(&mut self) {
        let (work, path) = (self.lesson().work(), self.workspace.relative(&self.lesson().work()));
        let generate = "Run `cargo xtask lessons generate` and commit the result.";
        // Byte for byte: line ends changed by git count as a difference, too.
        let committed = std::fs::read_to_string(&work).unwrap_or_default();
        if committed != self.subject.made.starter {
            let edited = !Handout::read(self.lesson()).is_ok_and(|handout| handout.is_starter(&committed));
            let trouble = if edited {
                Trouble::new(format!("{path} differs from its template: is it a solution?")).next(format!(
                    "Keep solutions on a branch of your own. To restore the starter: `cargo learn reset {}`.",
                    self.lesson().number
                ))
            } else {
                Trouble::new(format!(
                    "{path} is out of date with its template or with the source that it takes"
                ))
                .next(generate)
            };
            return self.error("starter", trouble);
        }
        let handout = Handout::of(self.lesson(), &self.subject.made.starter);
        if handout.is_ok_and(|handout| Handout::read(self.lesson()) != Ok(handout)) {
            self.error(
                "handout",
                Trouble::new("handout.toml is out of date with the starter or the tests").next(generate),
            );
        }
    }

    /// A starter takes only plain code from allowed places.
    fn pieces(&mut self) {
        for (file, anchor) in self.subject.made.taken.clone() {
            if !TAUGHT.iter().any(|place| file.starts_with(place)) {
                let places = TAUGHT.join(", ");
                let trouble =
                    Trouble::new(format!("{file}:{anchor} is not in a place that lessons may take from"));
                self.error("anchor", trouble.next(format!("Lessons take from {places}.")));
            }
        }
        for word in FORBIDDEN {
            if has_word(&code_of(&self.subject.made.solution), word) {
                let trouble = Trouble::new(format!("the starter has `{word}`"));
                self.error("plain", trouble.next("Take another piece, or simplify the framework's code."));
            }
        }
    }

    /// Tasks are numbered, and each has hints, a todo, a test and a planted mistake.
    fn tasks(&mut self) {
        let numbers: Vec<u32> = self.lesson().tasks.iter().map(|task| task.number).collect();
        if numbers.is_empty() || !numbers.iter().copied().eq(1..=numbers.len() as u32) {
            self.error(
                "tasks",
                Trouble::new(format!("tasks are numbered {numbers:?}, not consecutively from 1")),
            );
        }
        for task in self.lesson().tasks.clone() {
            let number = task.number;
            let is_hint = |hint: &String| !hint.trim().is_empty();
            if !(2..=3).contains(&task.hints.len()) || !task.hints.iter().all(is_hint) {
                let found = style::count(task.hints.len(), "hint");
                self.error("hints", Trouble::new(format!("task {number} has {found}, expected 2 or 3")));
            }
            if !self.subject.made.todos.iter().any(|todo| todo.task == number) {
                self.error("todo", Trouble::new(format!("task {number} has no todo in the starter")));
            }
            if tests_of_task(&self.lesson().folder, number) == 0 {
                self.error("tests", Trouble::new(format!("task {number} has no test: fn task{number}_…")));
            }
            if !self.lesson().wrongs.iter().any(|wrong| wrong.task == number) {
                self.error(
                    "mistake",
                    Trouble::new(format!("task {number} has no planted mistake: [[wrong]]")),
                );
            }
        }
        for todo in self.subject.made.todos.clone() {
            if self.lesson().task(todo.task).is_none() {
                let what = format!(
                    "the todo '{}' belongs to task {}, which is not in lesson.toml",
                    todo.what, todo.task
                );
                self.error("todo", Trouble::new(what));
            }
        }
        for wrong in self.lesson().wrongs.clone() {
            if self.lesson().task(wrong.task).is_none() {
                let what = format!("'{}' belongs to task {}, which does not exist", wrong.why, wrong.task);
                self.error("mistake", Trouble::new(what));
            }
        }
    }

    /// Each test belongs to a task or tests given code.
    fn tests(&mut self) {
        for (name, path, line) in libtest::tests_of(&self.lesson().folder) {
            let known = libtest::task_of(&name).map(|task| self.lesson().task(task).is_some());
            if !known.unwrap_or(name.starts_with("given_")) {
                let place = format!("{}:{line}", self.workspace.relative(&path));
                let trouble = Trouble::new(format!("{place}: the test {name} belongs to no task"));
                self.error(
                    "tests",
                    trouble.next("Name it task1_… for a task, or given_… if it tests given code."),
                );
            }
        }
    }

    /// The framework is tested with the lesson's tests.
    fn alias(&mut self) {
        let alias =
            files::read(&self.workspace.root.join("tests").join("it").join("lessons.rs")).unwrap_or_default();
        let wanted = format!("#[path = \"../../lessons/{}/tests\"]", self.lesson().name());
        if !alias.lines().any(|line| line.trim() == wanted) {
            let package = self.lesson().package();
            let trouble =
                Trouble::new("tests/it/lessons.rs doesn't run this lesson's tests on the framework itself");
            let module = format!("mod {package} {{ mod subject {{ pub use ixion::…; }} mod tasks; }}");
            self.error("alias", trouble.next(format!("Add\n{wanted}\n{module}")));
        }
    }

    /// The lesson belongs to a part of the course.
    fn part(&mut self) -> Result<()> {
        if part::of(&self.workspace.parts()?, self.lesson()).is_none() {
            let trouble =
                Trouble::new("lessons/parts.toml has no part that begins with this lesson or one before it");
            self.error("part", trouble);
        }
        Ok(())
    }

    /// The page has a heading for each task and can be read in one sitting. Returns its number of words.
    fn page(&mut self, book: &Book) -> usize {
        let name = self.lesson().page.clone();
        let Some(page) = book.page(&name) else {
            self.error("page", Trouble::new(format!("there is no page book/src/{name}")));
            return 0;
        };
        if !book.lists(&name) {
            self.error("page", Trouble::new(format!("book/src/SUMMARY.md does not list {name}")));
        }
        let headings = task_headings(page);
        let tasks: Vec<(u32, String)> =
            self.lesson().tasks.iter().map(|task| (task.number, plain(&task.title))).collect();
        let numbers = |list: &[(u32, String)]| list.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        if numbers(&headings) != numbers(&tasks) {
            let what = format!(
                "{name} has headings for tasks {:?}, lesson.toml has {:?}",
                numbers(&headings),
                numbers(&tasks)
            );
            self.error("page", Trouble::new(what).next("A task's heading is `## Task 1: title`."));
        } else {
            for ((number, heading), (_, title)) in headings.iter().zip(&tasks) {
                if heading != title {
                    let what =
                        format!("task {number} is '{heading}' in {name}, and '{title}' in lesson.toml");
                    self.warning("page", Trouble::new(what));
                }
            }
        }
        let hours = self.lesson().hours.in_words();
        let text: Vec<&str> = page.text.split_whitespace().collect();
        if !text.join(" ").contains(&format!("ount on {hours}")) {
            let what = format!("{name} does not state how long it takes");
            self.error(
                "page",
                Trouble::new(what).next(format!("Write, as in lesson.toml: \"Count on {hours}\".")),
            );
        }
        let words = page.words();
        if !WORDS.contains(&words) {
            let range = format!("{} to {}", WORDS.start(), WORDS.end());
            self.warning(
                "words",
                Trouble::new(format!("{name} has {words} words, expected {range} (one sitting)")),
            );
        }
        words
    }
}

/// The number of red tests that a page promises: the first number before the word "red", if any.
pub fn promised_red(text: &str) -> Option<usize> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pair = words.windows(2).find(|pair| {
        pair[1].trim_end_matches([',', '.', ':', ';']) == "red" && pair[0].parse::<usize>().is_ok()
    });
    pair.and_then(|pair| pair[0].parse().ok())
}

/// The number and title of each heading `Task 1: title`.
fn task_headings(page: &Page) -> Vec<(u32, String)> {
    let task = |text: &String| {
        let (number, title) = text.strip_prefix("Task ")?.split_once(':')?;
        Some((number.trim().parse().ok()?, plain(title)))
    };
    page.headings().iter().filter_map(|heading| task(&heading.text)).collect()
}

/// A title without Markdown that only a page can show.
fn plain(title: &str) -> String {
    title.replace('`', "").trim().to_lowercase()
}

/// Code without comments and without the contents of string literals.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    for line in text.lines() {
        let mut quoted = false;
        let mut before = ' ';
        for (at, c) in line.char_indices() {
            if !quoted && line[at..].starts_with("//") {
                break;
            }
            let quote = c == '"' && before != '\\' && before != '\'';
            quoted ^= quote;
            if !quoted && !quote {
                code.push(c);
            }
            before = c;
        }
        code.push('\n');
    }
    code
}

fn has_word(code: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    code.match_indices(word)
        .any(|(at, _)| !part(code[..at].chars().next_back()) && !part(code[at + word.len()..].chars().next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_promises_red_tests() {
        assert_eq!(promised_red("which shows 22 red tests and a green one, not 3 red"), Some(22));
        assert_eq!(promised_red("the red ones"), None);
    }

    #[test]
    fn words_are_found_in_code_alone() {
        let code = code_of("// unsafe\nlet a = \"unsafe\"; // cfg\nlet unsafely = 1;\n");
        assert!(!has_word(&code, "unsafe") && !has_word(&code, "cfg"), "{code}");
        assert!(has_word(&code_of("let c = '\"'; unsafe { }"), "unsafe"));
        assert!(has_word(&code_of("#[cfg(test)]"), "cfg"));
        assert!(has_word(&code_of("use std::arch::x86_64::*;"), "std::arch"));
    }
}
