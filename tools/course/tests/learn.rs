//! Tests of `cargo learn` from the learner's point of view.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::Fixture;
use insta::assert_snapshot;

const WORK: &str = "lessons/01_sum/src/lib.rs";

#[test]
fn the_board_is_there_at_once() {
    let course = Fixture::new();
    course.write(".git/HEAD", "ref: refs/heads/main\n");
    let board = course.call(&["learn"]);
    assert_eq!(board.code, 0);
    assert_snapshot!(board.text);
    assert!(!course.path("target").exists(), "untouched lessons are not built");
    assert_eq!(course.call_in(&course.path("lessons/02_mean"), &["learn"], &[]).text, board.text);
}

#[test]
fn the_way_through_a_lesson() {
    let course = Fixture::new();
    let untouched = course.call(&["learn", "check", "1"]);
    assert_eq!(untouched.code, 1);
    assert_snapshot!("untouched", untouched.text);

    course.solve_sum("    dbg!(row.len());\n    row.iter().sum::<f32>() + 1.0");
    let wrong = course.call(&["learn", "check", "1"]);
    assert_eq!(wrong.code, 1);
    assert_snapshot!("wrong", wrong.text);

    course.replace(WORK, "row.iter().sum::<f32>() + 1.0", "\"six\"");
    let broken = course.call(&["learn", "check", "1"]);
    assert_eq!(broken.code, 3);
    assert!(broken.text.contains("error[E0308]"), "{}", broken.text);
    let advice = "It does not compile yet. Stuck? cargo learn hint 1. Start over (your work is kept)? cargo learn reset 1";
    assert_eq!(broken.text.lines().last(), Some(advice));
    assert_snapshot!("board_broken", course.call(&["learn"]).text);

    course.replace(WORK, "\"six\"", "row.iter().sum()");
    let half = course.call(&["learn", "check", "1", "1"]);
    assert_eq!(half.code, 0);
    assert_snapshot!("half", half.text);
    assert_eq!(course.call(&["learn", "check", "1"]).code, 1);
    assert_snapshot!("board_half", course.call(&["learn"]).text);
    assert_eq!(course.call(&["learn", "diff", "1"]).code, 2, "a diff would reveal the solution");

    let mine = course.read(WORK);
    let solution = course.call(&["learn", "solution", "1", "--give-up"]);
    assert_eq!(solution.code, 0);
    assert_snapshot!("solution", solution.text);
    assert_eq!(course.read(".learn/backup/01_sum-1.rs"), mine);
    let solved = course.call(&["learn", "check"]);
    assert_eq!(solved.code, 1, "without a number, the next lesson is checked: {}", solved.text);
    let solved = course.call(&["learn", "check", "1"]);
    assert_eq!(solved.code, 0);
    assert_snapshot!("solved", solved.text);
    let board = course.call(&["learn"]).text;
    assert!(board.contains("●●     the solution"), "not solved by the learner: {board}");
    assert_snapshot!("diff", course.call(&["learn", "diff", "1"]).text);

    assert_eq!(course.call(&["learn", "reset", "1"]).code, 0);
    assert_eq!(course.read(WORK), course.subject("1").made.starter);
    assert!(!course.path(".learn/backup/01_sum-2.rs").exists(), "the solution is not backed up");
}

#[test]
fn hints_come_one_by_one() {
    let course = Fixture::new();
    let hint = || course.call(&["learn", "hint", "1"]).text;
    assert_snapshot!("hint_1", hint());
    hint();
    let last = hint();
    assert_snapshot!("hint_3", last);
    assert_eq!(hint(), last);
    let other = course.call(&["learn", "hint", "1", "2"]).text;
    assert!(other.contains("What is the largest of none?") && other.contains("1 hint left"), "{other}");
    course.call(&["learn", "reset", "1"]);
    assert!(hint().contains("2 hints left"), "a reset also resets the hints");
}

#[test]
fn lessons_have_many_names() {
    let course = Fixture::new();
    let hint = |name: &str| course.call(&["learn", "hint", name, "1"]);
    for name in [
        "2",
        "02",
        "lesson02",
        "lesson2",
        "02_mean",
        "mean",
        "MEAN",
        "the mean",
        "lessons/02_mean/src/lib.rs",
        "lessons\\02_mean",
    ] {
        assert!(hint(name).text.starts_with("Lesson 2, task 1"), "{name}: {}", hint(name).text);
    }
    let inside = course.call_in(&course.path("lessons/02_mean/src"), &["learn", "hint"], &[]);
    assert!(inside.text.starts_with("Lesson 2, task 1"), "{}", inside.text);
    let answers = ["meen", "summs", "9", "", "n"].map(|name| format!("{name}: {}", hint(name).text));
    assert_snapshot!(answers.join("\n"));
    assert_eq!(hint("meen").code, 2);
    assert_snapshot!("no_such_task", course.call(&["learn", "check", "1", "7"]).text);
    assert!(course.call(&["learn", "2"]).text.starts_with("Lesson 2: The mean"));
    let typo = course.call(&["learn", "chek", "1"]);
    assert_eq!(typo.code, 2);
    assert!(typo.text.contains("'check'"), "{}", typo.text);
}

#[test]
fn obstacles_are_reported() {
    let course = Fixture::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = course.call_in(elsewhere.path(), &["learn"], &[]);
    assert_eq!(outside.code, 2);
    assert!(outside.text.contains("is not inside the course's repository"), "{}", outside.text);
    assert!(outside.text.contains("Change into the folder that you cloned"), "{}", outside.text);

    course.replace("Cargo.toml", "rust-version = \"1.85\"", "rust-version = \"9.0\"");
    let old = course.call(&["learn"]);
    assert_eq!(old.code, 2);
    assert!(old.text.contains("expected Rust 9.0 or newer, found 1."), "{}", old.text);
    assert!(old.text.contains("rustup update stable"), "{}", old.text);
    course.replace("Cargo.toml", "rust-version = \"9.0\"", "rust-version = \"1.85\"");

    std::fs::remove_file(course.path(WORK)).unwrap();
    let gone = course.call(&["learn"]);
    assert_eq!(gone.code, 2);
    assert!(gone.text.contains("`cargo learn reset 1` restores the starter."), "{}", gone.text);
    assert_eq!(course.call(&["learn", "reset", "1"]).code, 0);
    assert_eq!(course.call(&["learn"]).code, 0);
}

#[test]
fn edits_elsewhere_are_noticed() {
    let course = Fixture::new();
    course.replace("lessons/01_sum/tests/tasks/mod.rs", "6.5", "7.5");
    let note = course.call(&["learn", "check", "1"]).text;
    assert!(note.contains("note: lessons/01_sum/tests differs from what was handed out"), "{note}");
    assert!(note.contains("git restore lessons/01_sum/tests"), "{note}");

    course.replace("src/graph/mod.rs", "let mut total = 0.0;", "let mut total = ;");
    course.solve_sum("    row.iter().sum()");
    let broken = course.call(&["learn", "check", "1"]);
    assert_eq!(broken.code, 2);
    assert!(broken.text.contains("ixion does not compile"), "{}", broken.text);
    assert!(broken.text.contains("`git restore src` restores the framework."), "{}", broken.text);
}
