//! Colours. Text is always written with them; `anstream` takes them out where nobody sees them: in a pipe, or with
//! `NO_COLOR`.

use anstyle::{AnsiColor, Style};
use std::fmt::Display;

const fn coloured(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(colour)))
}

fn painted(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// What is right.
pub fn good(text: impl Display) -> String {
    painted(coloured(AnsiColor::Green), text)
}

/// What is wrong.
pub fn bad(text: impl Display) -> String {
    painted(coloured(AnsiColor::Red).bold(), text)
}

/// What deserves a look.
pub fn warn(text: impl Display) -> String {
    painted(coloured(AnsiColor::Yellow), text)
}

/// What a person can type, or open.
pub fn code(text: impl Display) -> String {
    painted(coloured(AnsiColor::Cyan), text)
}

/// What stands out.
pub fn strong(text: impl Display) -> String {
    painted(Style::new().bold(), text)
}

/// What stays in the background.
pub fn faint(text: impl Display) -> String {
    painted(Style::new().dimmed(), text)
}

/// The text without colours.
pub fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// `1 test`, `2 tests`.
pub fn count(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// Every line indented by some spaces.
pub fn indent(text: &str, spaces: usize) -> String {
    let pad = " ".repeat(spaces);
    let lines = text.lines().map(|line| if line.is_empty() { String::new() } else { format!("{pad}{line}") });
    lines.collect::<Vec<_>>().join("\n")
}

/// The text in lines that are no wider than a book's, broken between words; lines that are there stay apart.
pub fn wrap(text: &str, width: usize) -> String {
    let mut wrapped: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut open = String::new();
        for word in line.split(' ') {
            if !open.is_empty() && open.chars().count() + 1 + word.chars().count() > width {
                wrapped.push(std::mem::take(&mut open));
            } else if !open.is_empty() {
                open.push(' ');
            }
            open.push_str(word);
        }
        wrapped.push(open);
    }
    wrapped.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 7), "one two\nthree");
        assert_eq!(wrap("muchlongerthanthat a\nb", 4), "muchlongerthanthat\na\nb");
        assert_eq!(indent(&wrap("a b", 1), 2), "  a\n  b");
        assert_eq!((count(1, "test"), count(2, "test")), ("1 test".to_owned(), "2 tests".to_owned()));
    }
}
