//! `cargo xtask lessons check`: checks that every lesson is sound.
//!
//! Static checks come first ([`paper`]): the starter is up to date with its template, and page, tasks, hints, tests and todos
//! agree. Then every lesson is built as handed out, solved, and with each planted mistake ([`variants`]), and run
//! ([`proof`]).

pub mod paper;
pub mod proof;
pub mod report;
pub mod variants;

use crate::book::Book;
use crate::lesson::Lesson;
use crate::progress::Progress;
use crate::starter::{self, Starter};
use crate::trouble::{Result, Trouble};
use crate::workspace::Workspace;
use report::{Finding, Report};

/// A lesson with everything built from its template.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The lesson.
    pub lesson: Lesson,
    /// Its starter and its solution.
    pub made: Starter,
}

/// Checks the `wanted` lessons, or all if it is empty, and the includes of the whole book.
pub fn check(workspace: &Workspace, wanted: &[Lesson], shown: &Progress) -> Result<Report> {
    let all = workspace.lessons()?;
    let chosen = if wanted.is_empty() { &all[..] } else { wanted };
    let mut report = Report::default();
    let book = Book::read(&workspace.root)?;
    report.findings.extend(book.includes().into_iter().map(|wrong| Finding::error(None, "include", wrong)));
    let mut subjects = Vec::new();
    for lesson in chosen {
        shown.detail(lesson.name());
        match starter::make(&workspace.root, lesson) {
            Ok(made) => subjects.push(Subject { lesson: lesson.clone(), made }),
            Err(trouble) => report.findings.push(Finding::error(Some(lesson.number), "starter", trouble)),
        }
    }
    for subject in &subjects {
        report.lessons.push(paper::check(workspace, &book, subject, &mut report.findings)?);
    }
    proof::check(workspace, &subjects, &mut report, shown)?;
    for subject in &subjects {
        promise(&book, subject, &mut report);
    }
    report.findings.sort_by_key(|finding| finding.lesson);
    Ok(report)
}

/// Checks that the page states how many tests are red at first: otherwise learners would think that their setup is broken.
fn promise(book: &Book, subject: &Subject, report: &mut Report) {
    let (number, name) = (subject.lesson.number, &subject.lesson.page);
    let red = report.lessons.iter().find(|lesson| lesson.number == number).map_or(0, |lesson| lesson.red);
    let promised = book.page(name).map(|page| paper::promised_red(&page.text));
    let finding = match promised {
        Some(Some(promised)) if red > 0 && promised != red => Finding::error(
            Some(number),
            "page",
            Trouble::new(format!("{name} promises {promised} red tests, but {red} are red")),
        ),
        Some(None) => {
            let trouble = Trouble::new(format!("{name} doesn't state how many tests are red at first"));
            Finding::warning(
                Some(number),
                "page",
                trouble.next(format!("Red in `cargo test -p {}`: {red}.", subject.lesson.package())),
            )
        }
        _ => return,
    };
    report.findings.push(finding);
}
