//! Standard output: buffered, with colour on a terminal, and with errors as values.

use std::io::{self, BufWriter, IsTerminal, Write};

/// Where a command writes its result.
pub(crate) struct Screen {
    out: Box<dyn Write>,
    colour: bool,
}

/// What a piece of text is, which decides its colour on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// What the eye should find first.
    Strong,
    /// What may be passed over.
    Faint,
    /// All is well.
    Good,
    /// Something is wrong.
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

impl Screen {
    /// The standard output. It is coloured on a terminal, unless the variable `NO_COLOR` is set.
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = stdout.is_terminal() && !refused;
        Self { out: Box::new(BufWriter::new(stdout)), colour }
    }

    /// The text in the colour of its style; as it is where there are no colours.
    pub(crate) fn paint(&self, style: Style, text: impl std::fmt::Display) -> String {
        if self.colour { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { text.to_string() }
    }

    /// Writes a value as JSON, indented, and a line break.
    pub(crate) fn json(&mut self, value: &serde_json::Value) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.out, value).map_err(io::Error::from)?;
        writeln!(self)
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals() {
        let plain = Screen { out: Box::new(Vec::new()), colour: false };
        let coloured = Screen { out: Box::new(Vec::new()), colour: true };
        assert_eq!(plain.paint(Style::Good, "PASS"), "PASS");
        assert_eq!(coloured.paint(Style::Good, "PASS"), "\x1b[32mPASS\x1b[0m");
    }
}
