//! The lines of a text, and errors that point into them.

use crate::error::{PnnxError, Position};
use crate::problem::SyntaxProblem;
use crate::text::{Stop, is_blank};

/// One line of a text, with its line number.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) number: usize,
    pub(super) text: &'a str,
}

/// The non-blank lines of a text. Lines end with `\n` or `\r\n`.
pub(super) fn lines<'a>(file: &'a str, text: &'a str) -> Vec<Source<'a>> {
    let numbered = (1..).zip(text.split('\n'));
    let lines = numbered.map(|(number, text)| Source { file, number, text });
    lines.filter(|line| !line.text.chars().all(is_blank)).collect()
}

/// An error at a position of a file.
pub(super) fn error_at(file: &str, line: usize, column: usize, problem: SyntaxProblem) -> PnnxError {
    let at = Box::new(Position { file: file.to_owned(), line, column });
    PnnxError::Syntax { at, problem: Box::new(problem) }
}

impl<'a> Source<'a> {
    /// An error at the first word.
    pub(super) fn error(&self, problem: SyntaxProblem) -> PnnxError {
        self.error_before(self.text.trim_start_matches(is_blank), problem)
    }

    /// An error at a word, which must be a slice of this line and not a copy.
    pub(super) fn error_at_word(&self, word: &'a str, problem: SyntaxProblem) -> PnnxError {
        let offset = nom::Offset::offset(self.text, word);
        self.error_before(self.text.get(offset..).unwrap_or_default(), problem)
    }

    /// An error at the position where a parser stopped.
    pub(super) fn error_at_stop(&self, stop: Stop<'_>) -> PnnxError {
        let rest = stop.at.trim_start_matches(is_blank);
        let found = match rest.split(is_blank).next() {
            None | Some("") => "the end of the line".to_owned(),
            Some(word) => format!("`{}`", shorten(word)),
        };
        self.error_before(rest, SyntaxProblem::Unexpected { wanted: stop.wanted, found })
    }

    /// An error at the start of `rest`, which is the end of this line.
    fn error_before(&self, rest: &str, problem: SyntaxProblem) -> PnnxError {
        let before = self.text.get(..self.text.len().saturating_sub(rest.len())).unwrap_or_default();
        error_at(self.file, self.number, before.chars().count().saturating_add(1), problem)
    }
}

/// Error messages quote at most this many characters.
const MAX_QUOTED: usize = 40;

/// Shortens a text for quoting in an error message.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_are_counted_but_not_kept() {
        let found: Vec<_> =
            lines("f", "\n a\r\n\r\nb\n").iter().map(|line| (line.number, line.text)).collect();
        assert_eq!(found, [(2, " a\r"), (4, "b")]);
    }

    #[test]
    fn columns_are_counted_in_characters() {
        let line = Source { file: "f", number: 3, text: " äö ü b" };
        let column = |error: PnnxError| error.position().unwrap().column;
        assert_eq!(column(line.error(SyntaxProblem::Empty)), 2);
        assert_eq!(column(line.error_at_word(line.text.split(' ').nth(2).unwrap(), SyntaxProblem::Empty)), 5);
        let error = line.error_at_stop(Stop { at: " b", wanted: "x" });
        assert_eq!(error.to_string(), "f:3:7: expected x, found `b`");
        let error = line.error_at_stop(Stop { at: "", wanted: "x" });
        assert_eq!(error.to_string(), "f:3:8: expected x, found the end of the line");
    }

    #[test]
    fn long_words_are_shortened() {
        assert_eq!(shorten(&"é".repeat(100)), format!("{}…", "é".repeat(40)));
        assert_eq!(shorten("short"), "short");
    }
}
