//! Tables of text with aligned columns.

use super::terminal::{Style, Terminal};
use std::io::{self, Write};

/// A table: a heading for each column, and rows with one cell for each column.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// The heading of each column, and whether it is aligned to the right.
    columns: Vec<(&'static str, bool)>,
    rows: Vec<Vec<String>>,
}

/// The number of spaces between two columns.
const GAP: usize = 2;

impl Table {
    /// A table without rows. A column whose heading begins with `>` is aligned to the right.
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        let column = |&heading: &&'static str| match heading.strip_prefix('>') {
            Some(heading) => (heading, true),
            None => (heading, false),
        };
        Self { columns: headings.iter().map(column).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes headings and rows. Columns without content are omitted.
    pub(crate) fn write(&self, terminal: &mut Terminal) -> io::Result<()> {
        let widths = self.widths();
        let headings: Vec<String> = self.columns.iter().map(|(heading, _)| (*heading).to_owned()).collect();
        let heading = terminal.paint(Style::Faint, self.line(&headings, &widths));
        writeln!(terminal, "{heading}")?;
        self.rows.iter().try_for_each(|row| writeln!(terminal, "{}", self.line(row, &widths)))
    }

    /// The width of each column; 0 for a column without content.
    fn widths(&self) -> Vec<usize> {
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max();
        let widths = self.columns.iter().enumerate().map(|(column, (heading, _))| match width(column) {
            None | Some(0) => 0,
            Some(widest) => widest.max(self::width(heading)),
        });
        widths.collect()
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        let columns = cells.iter().zip(&self.columns).zip(widths).filter(|(_, room)| **room > 0);
        for ((cell, (_, is_right)), &room) in columns {
            let blanks = " ".repeat(room.saturating_sub(width(cell)));
            let (left, right) = if *is_right { (&blanks, cell) } else { (cell, &blanks) };
            line.extend([left.as_str(), right.as_str()]);
            line.push_str(&" ".repeat(GAP));
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// The items, separated by commas.
pub(crate) fn list(items: impl IntoIterator<Item = impl ToString>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// The width of a text on a terminal, counted as one column for each character.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let mut table = Table::new(&["name", "note", ">MACs"]);
        table.row(["conv×1".to_owned(), String::new(), "12".to_owned()]);
        table.row(["a".to_owned(), String::new(), "1,234,567".to_owned()]);
        let widths = table.widths();
        assert_eq!(widths, [6, 0, 9]);
        let lines: Vec<String> = table.rows.iter().map(|row| table.line(row, &widths)).collect();
        assert_eq!(lines, ["conv×1         12", "a       1,234,567"]);
    }
}
