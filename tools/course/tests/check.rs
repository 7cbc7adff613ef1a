//! Tests of `cargo xtask lessons`: what it accepts and what it reports.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::Fixture;
use course::book::Book;
use course::check::paper;
use course::check::report::Finding;
use insta::assert_snapshot;

const TOML: &str = "lessons/01_sum/lesson.toml";
const TESTS: &str = "lessons/01_sum/tests/tasks/mod.rs";
const PAGE: &str = "book/src/lessons/01_sum.md";
const TEMPLATE: &str = "lessons/01_sum/starter.tmpl";
const SOURCE: &str = "src/graph/mod.rs";

/// The findings of the static checks, as lines.
fn read(course: &Fixture) -> Vec<String> {
    let mut findings: Vec<Finding> = Vec::new();
    let book = Book::read(course.root()).unwrap();
    paper::check(&course.workspace(), &book, &course.subject("1"), &mut findings).unwrap();
    findings
        .iter()
        .filter(|finding| finding.error)
        .map(|finding| format!("{}: {}", finding.rule, finding.what))
        .collect()
}

#[test]
fn good_lessons_pass() {
    let course = Fixture::new();
    let all = course.call(&["lessons", "check"]);
    assert_eq!(all.code, 0, "{}", all.text);
    assert_snapshot!("good", all.text);
    let one = course.call(&["lessons", "check", "mean", "--json"]);
    assert_snapshot!("good_json", one.text);
}

/// If no test could be built, the check must fail, wherever the error is.
#[test]
fn a_framework_that_does_not_compile_is_no_proof() {
    let course = Fixture::new();
    course.replace(SOURCE, "let mut total", "let mut sum");
    course.call(&["lessons", "generate"]);
    let answer = course.call(&["lessons", "check"]);
    assert_eq!(answer.code, 2, "{}", answer.text);
    assert!(answer.text.contains("ixion does not compile"), "{}", answer.text);
    assert!(answer.text.contains("cannot find value `total`"), "{}", answer.text);
}

#[test]
fn each_fault_on_paper_is_found() {
    let faults: &[(&str, &str, &str, &str)] = &[
        (
            TEMPLATE,
            "Lesson 01: sums",
            "Lesson 01: summing",
            "starter: lessons/01_sum/src/lib.rs is out of date with its template",
        ),
        (
            "lessons/01_sum/src/lib.rs",
            "row.len()",
            "row.len() + 0",
            "starter: lessons/01_sum/src/lib.rs differs from its template",
        ),
        (TESTS, "6.5", "7.5", "handout: handout.toml is out of date with the starter or the tests"),
        (SOURCE, "    let mut total", "    unsafe {};\n    let mut total", "plain: the starter has `unsafe`"),
        (SOURCE, "task 2: keep", "task 3: keep", "todo: task 2 has no todo"),
        (
            SOURCE,
            "task 2: keep",
            "task 3: keep",
            "todo: the todo 'keep the larger of two, beginning with the first' belongs to task 3",
        ),
        (TOML, "number = 2", "number = 3", "tasks: tasks are numbered [1, 3]"),
        (
            TOML,
            "hints = [\"What is the largest of none?\", ",
            "hints = [",
            "hints: task 2 has 1 hint, expected 2 or 3",
        ),
        (TOML, "task = 2\nwhy", "task = 1\nwhy", "mistake: task 2 has no planted mistake"),
        (TOML, "task = 2\nwhy", "task = 4\nwhy", "mistake: 'takes the smallest' belongs to task 4"),
        (TESTS, "fn task2_the", "fn task3_the", "tests: task 2 has no test"),
        (
            TESTS,
            "fn given_",
            "fn that_",
            "tests: lessons/01_sum/tests/tasks/mod.rs:20: the test that_numbers_are_what_they_are belongs to no task",
        ),
        (
            PAGE,
            "## Task 2",
            "## Part 2",
            "page: lessons/01_sum.md has headings for tasks [1], lesson.toml has [1, 2]",
        ),
        (
            "book/src/SUMMARY.md",
            "lessons/01_sum.md",
            "lessons/02_mean.md",
            "page: book/src/SUMMARY.md does not list lessons/01_sum.md",
        ),
        (
            TOML,
            "page = \"lessons/01_sum.md\"",
            "page = \"lessons/01.md\"",
            "page: there is no page book/src/lessons/01.md",
        ),
        (PAGE, "one to\ntwo", "three", "page: lessons/01_sum.md does not state how long it takes"),
        (
            "lessons/parts.toml",
            "[[part]]\ntitle = \"Adding\"\nfirst = 1\n",
            "",
            "part: lessons/parts.toml has no part that begins with this lesson or one before it",
        ),
        (
            "tests/it/lessons.rs",
            "lessons/01_sum/tests",
            "lessons/01/tests",
            "alias: tests/it/lessons.rs doesn't run",
        ),
    ];
    assert_eq!(read(&Fixture::new()), [""; 0]);
    for (file, old, new, wanted) in faults {
        let course = Fixture::new();
        course.replace(file, old, new);
        let found = read(&course);
        assert!(found.iter().any(|found| found.starts_with(wanted)), "wanted {wanted}, found {found:#?}");
    }
}

#[test]
fn anchors_are_in_places_that_are_taught() {
    let course = Fixture::new();
    course.write("src/kernels/gemm.rs", &course.read(SOURCE));
    course.replace(TEMPLATE, "//@ take src/graph/mod.rs:sum", "//@ take src/kernels/gemm.rs:sum");
    let found = read(&course);
    assert!(
        found.iter().any(|found| found.starts_with("anchor: src/kernels/gemm.rs:sum is not in a place")),
        "{found:#?}"
    );
}

#[test]
fn each_fault_in_what_runs_is_found() {
    let course = Fixture::new();
    let mistake = |why: &str, find: &str, put: &str| {
        let text = format!("\n[[wrong]]\ntask = 1\nwhy = \"{why}\"\nfind = \"{find}\"\nput = \"{put}\"\n");
        course.write(TOML, &(course.read(TOML) + &text));
    };
    mistake("is another text", "let mut total = 0.0;", "let mut total = \\\"0\\\";");
    mistake("is not noticed", "let mut total = 0.0;", "let mut total = -0.0;");
    mistake("panics by itself", "total += value;", "total += row[row.len()];");
    mistake("is nowhere", "let mut total = 9.0;", "");
    course.replace(TEMPLATE, "    row.len()\n", "    let mut unneeded = row.len();\n    unneeded\n");
    course.replace(
        "lessons/01_sum/Cargo.toml",
        "unused = { level = \"allow\", priority = -1 }",
        "unused = \"warn\"",
    );
    let tests = "
#[test]
fn task1_green_from_the_start() {}

#[test]
fn task1_red_for_another_reason() {
    assert_eq!([0; 2].len(), 3);
}

#[test]
fn given_red() {
    sum(&[]);
}
";
    course.write(TESTS, &(course.read(TESTS) + tests));
    course.call(&["lessons", "generate"]);
    let found = course.call(&["lessons", "check", "1"]);
    assert_eq!(found.code, 1);
    // The compiler's messages are indented further and differ between versions.
    let heads = found.text.lines().filter(|line| !line.starts_with("      "));
    assert_snapshot!(heads.collect::<Vec<_>>().join("\n"));
}

#[test]
fn starters_are_written_all_or_none_and_work_is_kept() {
    let course = Fixture::new();
    course.solve_sum("    row.iter().sum()");
    let mine = course.read("lessons/01_sum/src/lib.rs");
    course.replace("lessons/02_mean/starter.tmpl", ":mean", ":men");
    let broken = course.call(&["lessons", "generate"]);
    assert_eq!(broken.code, 2);
    assert!(
        broken.text.contains("line 5: src/graph/mod.rs:men: there is no anchor 'men'"),
        "{}",
        broken.text
    );
    assert_eq!(course.read("lessons/01_sum/src/lib.rs"), mine);

    course.replace("lessons/02_mean/starter.tmpl", ":men", ":mean");
    assert_snapshot!(course.call(&["lessons", "generate"]).text);
    assert_eq!(course.read(".learn/backup/01_sum-1.rs"), mine);
    assert!(course.call(&["lessons", "show", "2"]).text.contains("sum(row) / row.len() as f32"));
}

#[test]
fn includes_of_the_whole_book_are_resolved() {
    let course = Fixture::new();
    course.replace(PAGE, "mod.rs:sum", "mod.rs:summ");
    course.write("book/src/lost.md", "# Lost\n\n{{#include nothing.rs}}\n");
    let book = Book::read(course.root()).unwrap();
    let wrong: Vec<String> = book.includes().iter().map(ToString::to_string).collect();
    let wrong = wrong.join("\n").replace(&*course.root().to_string_lossy(), "HERE").replace('\\', "/");
    assert_snapshot!(wrong);
    let build = course.call(&["book", "build"]);
    assert_eq!(build.code, 2);
    assert!(build.text.contains("book/src/lost.md is not in book/src/SUMMARY.md"), "{}", build.text);
}

#[test]
fn without_mdbook_it_is_said_how_to_get_it() {
    let course = Fixture::new();
    let answer = course.call_in(course.root(), &["book", "build"], &[("PATH", "")]);
    assert_eq!(answer.code, 2);
    assert!(answer.text.contains("cargo install mdbook --locked --version"), "{}", answer.text);
}
