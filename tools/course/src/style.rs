//! Colours. Text always contains them; `anstream` removes them where they aren't supported: in a pipe, or with `NO_COLOR`.

use anstyle::{AnsiColor, Style};
use std::fmt::Display;

const fn coloured(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(colour)))
}

fn painted(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Success.
pub fn good(text: impl Display) -> String {
    painted(coloured(AnsiColor::Green), text)
}

/// Errors.
pub fn bad(text: impl Display) -> String {
    painted(coloured(AnsiColor::Red).bold(), text)
}

/// Warnings.
pub fn warn(text: impl Display) -> String {
    painted(coloured(AnsiColor::Yellow), text)
}

/// Commands and paths.
pub fn code(text: impl Display) -> String {
    painted(coloured(AnsiColor::Cyan), text)
}

/// Emphasis.
pub fn strong(text: impl Display) -> String {
    painted(Style::new().bold(), text)
}

/// Less important text.
pub fn faint(text: impl Display) -> String {
    painted(Style::new().dimmed(), text)
}

/// The text without colours.
pub fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// A number with its noun: `1 test`, `2 tests`.
pub fn count(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// Indents every line that is not empty.
pub fn indent(text: &str, spaces: usize) -> String {
    let pad = " ".repeat(spaces);
    let lines = text.lines().map(|line| if line.is_empty() { String::new() } else { format!("{pad}{line}") });
    lines.collect::<Vec<_>>().join("\n")
}

/// Wraps lines between words at `width` characters; existing line breaks are kept.
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
