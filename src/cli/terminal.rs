//! Standard output: buffered, with colour on a terminal, and with errors returned as values.

use std::cell::RefCell;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::rc::Rc;

/// The output of a command.
pub(crate) struct Terminal {
    out: Box<dyn Write>,
    colour: bool,
}

/// The role of a text, which determines its style on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// The most important text: bold.
    Strong,
    /// Less important text: faint.
    Faint,
    /// Success: green.
    Good,
    /// A problem: red.
    Bad,
}

impl Style {
    /// The parameters of the terminal's escape sequence (ECMA-48, "select graphic rendition").
    fn code(self) -> &'static str {
        match self {
            Style::Strong => "1",
            Style::Faint => "2",
            Style::Good => "32",
            Style::Bad => "31",
        }
    }
}

impl Terminal {
    /// The standard output, coloured if it is a terminal and the environment variable `NO_COLOR` is not set.
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = stdout.is_terminal() && !refused;
        Self { out: Box::new(BufWriter::new(stdout)), colour }
    }

    /// A terminal without colours whose output is kept in memory.
    pub(crate) fn buffer() -> (Self, Buffer) {
        let buffer = Buffer::default();
        (Self { out: Box::new(buffer.clone()), colour: false }, buffer)
    }

    /// The text in its style, or unchanged if colours are disabled.
    pub(crate) fn paint(&self, style: Style, text: impl std::fmt::Display) -> String {
        if self.colour { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { text.to_string() }
    }

    /// Writes a value as indented JSON, followed by a line break.
    pub(crate) fn json(&mut self, value: &serde_json::Value) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.out, value).map_err(io::Error::from)?;
        writeln!(self)
    }
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Output that is kept in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Buffer(Rc<RefCell<Vec<u8>>>);

impl Buffer {
    /// All that was written so far.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.0.take()
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals() {
        let plain = Terminal { out: Box::new(Vec::new()), colour: false };
        let coloured = Terminal { out: Box::new(Vec::new()), colour: true };
        assert_eq!(plain.paint(Style::Good, "PASS"), "PASS");
        assert_eq!(coloured.paint(Style::Good, "PASS"), "\x1b[32mPASS\x1b[0m");
    }

    #[test]
    fn a_buffer_has_what_was_written() {
        let (mut terminal, output) = Terminal::buffer();
        write!(terminal, "a").unwrap();
        write!(terminal, "b").unwrap();
        assert_eq!(output.take(), b"ab");
    }
}
