//! The tool of the course.
//!
//! A lesson's starter is the framework's own code between two anchors, without the bodies that the learner writes.
//! `cargo xtask` generates the starters, checks that every lesson can be solved and that its tests catch mistakes, and builds
//! the book. `cargo learn` guides learners through the lessons.
//!
//! | module | what it does |
//! |---|---|
//! | [`anchors`] | extracts source between `ANCHOR` and `ANCHOR_END` |
//! | [`starter`] | builds a starter and its solution from a template and anchors |
//! | [`lesson`] | `lesson.toml`: tasks, hints, planted mistakes |
//! | [`part`] | `parts.toml`: groups of lessons |
//! | [`workspace`] | the repository and its lessons |
//! | [`files`] | file access, with atomic writes |
//! | [`handout`] | fingerprints of what was handed out, to detect a learner's work |
//! | [`generate`] | `cargo xtask lessons generate` |
//! | [`learn`] | `cargo learn` |
//! | [`check`] | `cargo xtask lessons check` |
//! | [`book`] | `cargo xtask book build`: includes, formulas, links |
//! | [`ci`] | `cargo xtask ci` |
//! | [`api`] | `cargo xtask api`: a listing of the library's public API |
//! | [`backup`] | backups of the learner's work |
//! | [`cargo`], [`libtest`] | build and run tests and parse the results |
//! | [`progress`], [`style`], [`parallel`] | a progress line, colours, parallel execution |
//! | [`cli`] | the two commands |

pub mod anchors;
pub mod api;
pub mod backup;
pub mod book;
pub mod cargo;
pub mod check;
pub mod ci;
pub mod cli;
pub mod files;
pub mod generate;
pub mod handout;
pub mod learn;
pub mod lesson;
pub mod libtest;
pub mod parallel;
pub mod part;
pub mod progress;
pub mod starter;
pub mod style;
pub mod trouble;
pub mod workspace;
