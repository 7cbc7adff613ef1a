//! Tests that never end or crash the program don't hide the results of the others.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::Fixture;
use course::cargo;
use course::libtest::Program;
use course::progress::Progress;
use std::time::Duration;

#[test]
fn endless_loops_and_endless_calls() {
    let course = Fixture::new();
    course.solve_sum("    if row.is_empty() { loop { std::hint::spin_loop() } } else { sum(row) + 1.0 }");
    let target = course.path("target");
    let shown = Progress::start("building");
    let packages = ["lesson01".to_owned()];
    let build = cargo::build_tests(&course.path("Cargo.toml"), &packages, Some(&target), &shown).unwrap();
    let binary = build.binaries.iter().find(|binary| binary.target == "chapter").unwrap();
    let patience = (Duration::from_secs(2), Duration::from_secs(3));
    let program = Program { path: binary.path.clone(), folder: course.path("lessons/01_sum"), patience };
    let mut tests = program.run(&[]);
    tests.sort_by(|a, b| a.name.cmp(&b.name));
    let says: Vec<String> = tests
        .iter()
        .map(|test| {
            let said =
                test.failure.as_ref().map_or("green", |failure| failure.message.lines().next().unwrap());
            format!("{}: {}", test.name, said.split(" (book").next().unwrap())
        })
        .collect();
    insta::assert_snapshot!(says.join("\n"));
}
