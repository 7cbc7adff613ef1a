//! Checks that editor tasks run commands that exist.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::Fixture;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn settings(name: &str) -> Value {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../editor/vscode");
    serde_json::from_str(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap()
}

#[test]
fn tasks_call_commands_of_the_tool() {
    let course = Fixture::new();
    let tasks = settings("tasks.json");
    for task in tasks["tasks"].as_array().unwrap() {
        assert_eq!(task["command"], "cargo");
        let arguments: Vec<&str> =
            task["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        match arguments[..] {
            ["learn", "check", "${relativeFile}"] => {
                let answer = course.call(&["learn", "check", "lessons/02_mean/src/lib.rs"]);
                assert!(answer.text.starts_with("Lesson 2"), "{}", answer.text);
            }
            ["learn", "hint", "${relativeFile}"] => {
                let answer = course.call(&["learn", "hint", "lessons\\02_mean\\src\\lib.rs"]);
                assert!(answer.text.starts_with("Lesson 2"), "{}", answer.text);
            }
            ["learn"] => assert_eq!(course.call(&arguments).code, 0),
            ["xtask", ref order @ ..] => assert_eq!(course.call(&[order, &["--help"]].concat()).code, 0),
            _ => assert_eq!(arguments, ["test"]),
        }
    }
}

#[test]
fn all_settings_are_json() {
    assert!(settings("launch.json")["configurations"][0]["cargo"].is_object());
    assert!(settings("settings.json")["files.readonlyInclude"]["lessons/*/tests/**"].as_bool().unwrap());
    assert!(settings("extensions.json")["recommendations"].is_array());
}
