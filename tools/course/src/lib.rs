//! The tool of the course.
//!
//! A lesson's starter is the framework's own code between two anchors, with the bodies that the learner is to write taken
//! out. `cargo xtask` writes the starters, proves that every lesson can be solved and that its tests bite, and builds the
//! book; `cargo learn` shows the way through the lessons.
//!
//! | module | what it does |
//! |---|---|
//! | [`anchors`] | finds the pieces of source between `ANCHOR` and `ANCHOR_END` |
//! | [`starter`] | from a template and anchors to a starter, or to its solution |
//! | [`lesson`] | `lesson.toml`: tasks, hints, planted mistakes |
//! | [`part`] | `parts.toml`: which lessons belong together |
//! | [`workspace`] | where the repository is and what lessons it has |
//! | [`files`] | files, written atomically |
//! | [`handout`] | what was handed out, to tell a learner's work from it |
//! | [`generate`] | `cargo xtask lessons generate` |
//! | [`learn`] | `cargo learn` |
//! | [`check`] | `cargo xtask lessons check` |
//! | [`book`] | `cargo xtask book build`: includes, formulas, links |
//! | [`ci`] | `cargo xtask ci` |
//! | [`backup`] | copies of the learner's work |
//! | [`cargo`], [`libtest`] | build tests, run them, and read the answers |
//! | [`progress`], [`style`], [`parallel`] | a line while it takes long, colours, many things at once |
//! | [`cli`] | the two commands |

pub mod anchors;
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
