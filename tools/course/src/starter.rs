//! Builds a lesson's starter and its solution from a template and the anchors that it takes.
//!
//! A template line `//@ take crates/ixion-kernels/src/naive/conv.rs:im2col` is replaced by that piece of the framework. In the
//! starter, each part between `ANCHOR: …_todo -- task 1: what to write` and its end becomes a `todo!` with that text; in the
//! solution it is kept. `//@ give …` takes a piece with its bodies in both.

use crate::anchors::{self, Marker};
use crate::files;
use crate::lesson::Lesson;
use crate::trouble::{Result, Trouble};
use std::path::Path;

/// rustfmt's `max_width` in this repository.
const WIDTH: usize = 110;

/// A starter and the solution from the same template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starter {
    /// What the learner is given.
    pub starter: String,
    /// The same code with all bodies.
    pub solution: String,
    /// The bodies to write, in order.
    pub todos: Vec<Todo>,
    /// The anchors that it takes: the file, relative to the repository, and the name.
    pub taken: Vec<(String, String)>,
}

/// A body that the learner writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Todo {
    /// The task's number.
    pub task: u32,
    /// What to write.
    pub what: String,
    /// The text that `todo!` panics with, after `not yet implemented: `.
    pub message: String,
}

/// Builds the starter and the solution of a lesson of the repository in `root`.
pub fn make(root: &Path, lesson: &Lesson) -> Result<Starter> {
    let path = lesson.folder.join("starter.tmpl");
    let read = |file: &str| files::read(&root.join(file));
    make_from(&files::read(&path)?, lesson.number, &read)
        .map_err(|trouble| Trouble { what: format!("{}: {}", path.display(), trouble.what), ..trouble })
}

/// Like [`make`], but from the template's text; `read` returns the text of a file of the repository.
pub fn make_from(template: &str, lesson: u32, read: &dyn Fn(&str) -> Result<String>) -> Result<Starter> {
    let mut made =
        Starter { starter: String::new(), solution: String::new(), todos: Vec::new(), taken: Vec::new() };
    for (number, line) in template.lines().enumerate() {
        let at =
            |trouble: Trouble| Trouble { what: format!("line {}: {}", number + 1, trouble.what), ..trouble };
        let Some(order) = line.trim_start().strip_prefix("//@") else {
            push(&mut made.starter, line);
            push(&mut made.solution, line);
            continue;
        };
        let indent = &line[..line.len() - line.trim_start().len()];
        let (verb, file, anchor) = parse_order(order.trim()).map_err(at)?;
        let text = read(file).map_err(at)?;
        let (first, lines) = anchors::piece(&text, anchor)
            .map_err(|trouble| at(in_file(trouble, &format!("{file}:{anchor}"))))?;
        let piece = Piece { lines: &lines, file, first, indent, lesson, keep: verb == "give" };
        piece.append(&mut made).map_err(at)?;
        made.taken.push((file.to_owned(), anchor.to_owned()));
    }
    Ok(made)
}

fn in_file(trouble: Trouble, file: &str) -> Trouble {
    Trouble { what: format!("{file}: {}", trouble.what), ..trouble }
}

fn parse_order(order: &str) -> Result<(&str, &str, &str)> {
    let parsed = order.split_once(' ').and_then(|(verb, place)| {
        let (file, anchor) = place.trim().rsplit_once(':')?;
        (["take", "give"].contains(&verb) && !file.is_empty() && !anchor.is_empty())
            .then_some((verb, file, anchor))
    });
    parsed.ok_or_else(|| {
        Trouble::new(format!("'//@ {order}' is not a directive"))
            .next("Write `//@ take src/path/file.rs:anchor` (or `give`).")
    })
}

fn push(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

struct Piece<'a> {
    lines: &'a [&'a str],
    file: &'a str,
    first: usize,
    indent: &'a str,
    lesson: u32,
    keep: bool,
}

impl Piece<'_> {
    fn append(&self, made: &mut Starter) -> Result<()> {
        let margin = self.margin();
        let mut inside: Option<(&str, Todo)> = None;
        for (number, line) in self.lines.iter().enumerate() {
            match anchors::marker(line) {
                Some(Marker::Open { name, note }) if name.ends_with("_todo") && !self.keep => {
                    if let Some((open, _)) = inside {
                        return self.wrong(number, &format!("the todo '{name}' begins inside '{open}'"));
                    }
                    let Some(todo) = self.todo(note) else {
                        return self.wrong(number, "a todo needs ` -- task 1: what to write` after its name");
                    };
                    let column = line.len() - line.trim_start().len() - margin + self.indent.len();
                    made.starter.push_str(&todo.code(column));
                    inside = Some((name, todo));
                }
                Some(Marker::Close { name }) => {
                    if let Some((_, todo)) = inside.take_if(|(open, _)| *open == name) {
                        made.todos.push(todo);
                    }
                }
                Some(Marker::Open { .. }) => {}
                None => {
                    let line = self.moved(line, margin);
                    push(&mut made.solution, &line);
                    if inside.is_none() {
                        push(&mut made.starter, &line);
                    }
                }
            }
        }
        match inside {
            Some((open, _)) => {
                self.wrong(self.lines.len(), &format!("the todo '{open}' has no end in its anchor"))
            }
            None => Ok(()),
        }
    }

    fn wrong<T>(&self, line: usize, what: &str) -> Result<T> {
        Err(Trouble::new(format!("{}, line {}: {what}", self.file, self.first + line)))
    }

    /// The indentation of the piece in the framework.
    fn margin(&self) -> usize {
        let lines = self.lines.iter().filter(|line| !line.trim().is_empty());
        lines.map(|line| line.len() - line.trim_start_matches(' ').len()).min().unwrap_or(0)
    }

    /// A line as written outside the crate, with the template's indentation.
    fn moved(&self, line: &str, margin: usize) -> String {
        let line = line.get(margin..).unwrap_or_default();
        if line.is_empty() { String::new() } else { outside(&format!("{}{line}", self.indent), self.file) }
    }

    /// Parses `task 1: what to write`.
    fn todo(&self, note: &str) -> Option<Todo> {
        let (task, what) = note.strip_prefix("task ")?.split_once(':')?;
        let (task, what, lesson) = (task.trim().parse().ok()?, what.trim().to_owned(), self.lesson);
        let message = format!(
            "lesson {lesson:02}, task {task}: {what} (book chapter {lesson}; stuck? cargo learn hint {lesson})"
        );
        (!what.is_empty()).then_some(Todo { task, what, message })
    }
}

impl Todo {
    /// The message as a string literal's content.
    pub fn escaped(&self) -> String {
        self.message.replace('\\', "\\\\").replace('"', "\\\"").replace('{', "{{").replace('}', "}}")
    }

    /// The macro call, formatted as by rustfmt.
    fn code(&self, column: usize) -> String {
        let pad = " ".repeat(column);
        let text = self.escaped();
        let line = format!("{pad}todo!(\"{text}\")\n");
        if line.chars().count() <= WIDTH + 1 {
            line
        } else {
            format!("{pad}todo!(\n{pad}    \"{text}\"\n{pad})\n")
        }
    }
}

/// The name of a file's crate, as written in code.
fn crate_of(file: &str) -> String {
    let package = file.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
    package.map_or_else(|| "ixion".to_owned(), |(package, _)| package.replace('-', "_"))
}

/// The crate of the operators. Lessons about them use `ixion` as a whole, which re-exports it, and what it depends on.
const OPERATORS: &str = "ixion_ops";

/// A line of a file as written in another crate.
fn outside(line: &str, file: &str) -> String {
    let name = crate_of(file);
    let line = renamed(line, &name);
    if name != OPERATORS {
        return line;
    }
    let line = line
        .replace("ixion_ops::op::", "ixion::op::")
        .replace("ixion_ops::operator", "ixion::operator")
        .replace("ixion_ops::", "ixion::ops::");
    ["tensor", "pnnx", "kernels"]
        .iter()
        .fold(line, |line, part| line.replace(&format!("ixion_{part}::"), &format!("ixion::{part}::")))
}

/// A line with the crate's name instead of `crate`.
fn renamed(line: &str, name: &str) -> String {
    let mut moved = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("crate::") {
        let (before, from) = rest.split_at(at);
        let part_of_a_name = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        moved.push_str(before);
        moved.push_str(if part_of_a_name { "crate" } else { name });
        moved.push_str("::");
        rest = &from["crate::".len()..];
    }
    moved + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
mod inner {
    // ANCHOR: count
    /// Counts, see [`crate::tensor`].
    pub fn count(x: &crate::tensor::Tensor) -> usize {
        // ANCHOR: count_todo -- task 1: count the "elements" of {x}
        let all = my_crate::all(x);

        all.len()
        // ANCHOR_END: count_todo
    }
    // ANCHOR_END: count
}
"#;

    fn made(template: &str) -> Result<Starter> {
        make_from(template, 8, &|_| Ok(SOURCE.to_owned()))
    }

    #[test]
    fn a_starter_has_todos_where_the_solution_has_bodies() {
        let made = made("//! Docs.\n\n//@ take src/count.rs:count\n").unwrap();
        insta::assert_snapshot!(made.starter, @r#"
        //! Docs.

        /// Counts, see [`ixion::tensor`].
        pub fn count(x: &ixion::tensor::Tensor) -> usize {
            todo!("lesson 08, task 1: count the \"elements\" of {{x}} (book chapter 8; stuck? cargo learn hint 8)")
        }
        "#);
        insta::assert_snapshot!(made.solution, @r"
        //! Docs.

        /// Counts, see [`ixion::tensor`].
        pub fn count(x: &ixion::tensor::Tensor) -> usize {
            let all = my_crate::all(x);

            all.len()
        }
        ");
        assert_eq!(made.todos[0].task, 1);
        assert_eq!(made.todos[0].what, "count the \"elements\" of {x}");
    }

    #[test]
    fn a_crate_is_named_by_its_folder() {
        let made = made("//@ take crates/my-crate/src/count.rs:count\n").unwrap();
        assert!(made.solution.contains("pub fn count(x: &my_crate::tensor::Tensor)"), "{}", made.solution);
    }

    #[test]
    fn operators_are_those_of_ixion() {
        let moved = |line: &str| outside(line, "crates/ixion-ops/src/count.rs");
        assert_eq!(moved("crate::operator! { crate::op::Layer }"), "ixion::operator! { ixion::op::Layer }");
        assert_eq!(
            moved("/// See [`operator!`](crate::operator)."),
            "/// See [`operator!`](ixion::operator)."
        );
        assert_eq!(
            moved("crate::naive::map(ixion_tensor::view)"),
            "ixion::ops::naive::map(ixion::tensor::view)"
        );
    }

    #[test]
    fn what_is_given_keeps_its_body_and_takes_the_indent_of_its_order() {
        let made = made("mod a {\n    //@ give src/count.rs:count\n}\n").unwrap();
        assert_eq!(made.starter, made.solution);
        assert!(made.todos.is_empty());
        assert!(made.starter.contains("\n    pub fn count("), "{}", made.starter);
    }

    #[test]
    fn a_long_todo_breaks_as_rustfmt_does() {
        let todo = Todo { task: 1, what: String::new(), message: "x".repeat(110 - 4 - 9) };
        assert_eq!(todo.code(4).lines().count(), 1);
        let todo = Todo { message: format!("{}x", todo.message), ..todo };
        assert_eq!(todo.code(4).lines().count(), 3);
    }

    #[test]
    fn bad_orders_say_line_and_remedy() {
        let says = |template: &str| made(template).unwrap_err().to_string();
        insta::assert_snapshot!(says("\n//@ tak src/count.rs:count"), @r"
        line 2: '//@ tak src/count.rs:count' is not a directive
        Write `//@ take src/path/file.rs:anchor` (or `give`).
        ");
        insta::assert_snapshot!(says("//@ take src/count.rs:cuont"), @r"
        line 1: src/count.rs:cuont: there is no anchor 'cuont'
        Did you mean 'count'?
        ");
    }
}
