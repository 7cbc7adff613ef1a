//! The report of a check, as text and as JSON.

use crate::style;
use crate::trouble::Trouble;
use serde::Serialize;
use std::fmt::Write;

/// All findings of a check.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// The lessons that were checked.
    pub lessons: Vec<Summary>,
    /// The errors and warnings.
    pub findings: Vec<Finding>,
}

/// A lesson in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The lesson's number.
    pub number: u32,
    /// Its folder's name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The number of tasks.
    pub tasks: usize,
    /// The number of tests that are red in the starter.
    pub red: usize,
    /// The number of tests that are green in the solution.
    pub green: usize,
    /// The number of planted mistakes.
    pub mistakes: usize,
    /// The number of planted mistakes that the tests catch.
    pub caught: usize,
    /// The number of words of its page.
    pub words: usize,
}

/// An error or a warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The lesson; `None` for the book.
    pub lesson: Option<u32>,
    /// Whether it makes the check fail.
    pub error: bool,
    /// The short name of the rule.
    pub rule: &'static str,
    /// The problem.
    pub what: String,
    /// What to do about it.
    pub next: Option<String>,
}

impl Finding {
    /// An error.
    pub fn error(lesson: Option<u32>, rule: &'static str, trouble: Trouble) -> Self {
        Self { lesson, error: true, rule, what: trouble.what, next: trouble.next }
    }

    /// A warning.
    pub fn warning(lesson: Option<u32>, rule: &'static str, trouble: Trouble) -> Self {
        Self { error: false, ..Self::error(lesson, rule, trouble) }
    }
}

impl Report {
    /// Returns true if there are no errors.
    pub fn is_good(&self) -> bool {
        !self.findings.iter().any(|finding| finding.error)
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for lesson in &self.lessons {
            let _ = writeln!(text, "{}", self.line(lesson));
            self.findings_of(Some(lesson.number), &mut text);
        }
        for finding in self.findings.iter().filter(|finding| self.is_homeless(finding)) {
            finding.show(&mut text);
        }
        let errors = self.findings.iter().filter(|finding| finding.error).count();
        let warnings = self.findings.len() - errors;
        let lessons = style::count(self.lessons.len(), "lesson");
        let _ = writeln!(
            text,
            "{}",
            match (errors, warnings) {
                (0, 0) => style::good(format!("{lessons}: all is well")),
                (0, _) =>
                    style::good(format!("{lessons}: all is well, with {}", style::count(warnings, "warning"))),
                _ => style::bad(format!(
                    "{lessons}: {}, {}",
                    style::count(errors, "error"),
                    style::count(warnings, "warning")
                )),
            }
        );
        text
    }

    fn is_homeless(&self, finding: &Finding) -> bool {
        !self.lessons.iter().any(|lesson| Some(lesson.number) == finding.lesson)
    }

    fn line(&self, lesson: &Summary) -> String {
        let good =
            !self.findings.iter().any(|finding| finding.error && finding.lesson == Some(lesson.number));
        let numbers = format!(
            "{}, {} red then {} green, {} of {} caught, {}",
            style::count(lesson.tasks, "task"),
            style::count(lesson.red, "test"),
            lesson.green,
            lesson.caught,
            style::count(lesson.mistakes, "mistake"),
            style::count(lesson.words, "word"),
        );
        let mark = if good { style::good("ok ") } else { style::bad("BAD") };
        format!("{mark} {:<18} {}", lesson.name, style::faint(numbers))
    }

    fn findings_of(&self, lesson: Option<u32>, text: &mut String) {
        self.findings
            .iter()
            .filter(|finding| finding.lesson == lesson)
            .for_each(|finding| finding.show(text));
    }

    /// The report as JSON.
    pub fn json(&self) -> String {
        let value = serde_json::json!({
            "version": 1,
            "ok": self.is_good(),
            "lessons": self.lessons,
            "findings": self.findings,
        });
        format!("{value:#}\n")
    }
}

impl Finding {
    fn show(&self, text: &mut String) {
        let head = if self.error { style::bad(self.rule) } else { style::warn(self.rule) };
        let _ = writeln!(text, "    {head}: {}", style::indent(&self.what, 6).trim_start());
        if let Some(next) = &self.next {
            let _ = writeln!(text, "      {}", style::faint(style::indent(next, 6).trim_start()));
        }
    }
}
