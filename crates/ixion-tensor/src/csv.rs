//! Reading tables of numbers from text.

use super::file::{in_file, io_error, open};
use super::{Element, Result, Tensor, TensorError};
use crate::Limits;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

impl Tensor {
    /// Reads a table of numbers, one row per line, as a tensor with two axes (`numpy.loadtxt`).
    ///
    /// Numbers are separated by semicolons, commas or tabs (the first of these that the first row contains), otherwise by
    /// whitespace. Empty lines and everything after a `#` are ignored.
    ///
    /// # Errors
    /// [`TensorError::Parse`], with line and column, for a field that is not a number of type `T` and for a row whose length
    /// differs from the first row's; [`TensorError::Malformed`] for a file without rows; [`TensorError::Limit`] for a size
    /// above `limits`. The error names the file.
    pub fn load_csv<T: Element + FromStr>(path: impl AsRef<Path>, limits: &Limits) -> Result<Self> {
        let path = path.as_ref();
        let load = || {
            let (file, len) = open(path)?;
            limits.check_tensor("the text", len.unwrap_or(0))?;
            let mut text = String::new();
            let most = limits.max_tensor_bytes.saturating_add(1);
            file.take(most).read_to_string(&mut text).map_err(io_error("read"))?;
            Self::from_csv::<T>(&text, limits)
        };
        in_file(path, load())
    }

    /// Reads a table of numbers from text, as [`Tensor::load_csv`] does.
    ///
    /// ```
    /// use ixion_tensor::{Limits, Tensor};
    /// let x = Tensor::from_csv::<f32>("# width, height\n1.5, 2\n3, 4e-1\n", &Limits::default())?;
    /// assert_eq!((x.shape().dims(), x.to_vec::<f32>()?), (&[2, 2][..], vec![1.5, 2.0, 3.0, 0.4]));
    /// # Ok::<(), ixion_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::load_csv`].
    pub fn from_csv<T: Element + FromStr>(text: &str, limits: &Limits) -> Result<Self> {
        limits.check_tensor("the text", text.len() as u64)?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let mut rows = lines.enumerate().filter(|(_, line)| !line.trim().is_empty()).peekable();
        let Some(&(_, first)) = rows.peek() else {
            return Err(TensorError::Malformed { format: "table of numbers", problem: "no rows".into() });
        };
        let separator = [';', ',', '\t'].into_iter().find(|&separator| first.contains(separator));
        let (mut values, mut count, mut cols) = (Vec::new(), 0, 0);
        for (line, row) in rows {
            let before = values.len();
            for (column, field) in fields(row, separator) {
                let number = field.parse::<T>().map_err(|_| not_a_number::<T>(line, row, column, field))?;
                values.push(number);
                limits.check_tensor("the table", (values.len() * size_of::<T>()) as u64)?;
            }
            let len = values.len() - before;
            if count == 0 {
                cols = len;
            } else if len != cols {
                let problem = format!("expected {cols} numbers as in the first row, got {len}");
                return Err(parse_error(line, row, row.trim_end().len(), problem));
            }
            count += 1;
        }
        Self::from_vec(values, &[count, cols])
    }
}

/// The trimmed fields of a row, each with its byte offset.
fn fields(row: &str, separator: Option<char>) -> Vec<(usize, &str)> {
    let start_of = |field: &str| field.as_ptr() as usize - row.as_ptr() as usize;
    match separator {
        Some(separator) => {
            let fields = row.split(separator).map(|field| (field, field.trim()));
            fields
                .map(|(whole, field)| (start_of(if field.is_empty() { whole } else { field }), field))
                .collect()
        }
        None => row.split_whitespace().map(|field| (start_of(field), field)).collect(),
    }
}

fn not_a_number<T: Element>(line: usize, row: &str, column: usize, field: &str) -> TensorError {
    let found = if field.is_empty() { "nothing".into() } else { format!("{field:?}") };
    let advice = match field.chars().next() {
        Some(first) if first.is_alphabetic() || first == '"' => "; begin headings with #",
        _ => "",
    };
    parse_error(line, row, column, format!("expected a number of type {}, got {found}{advice}", T::DTYPE))
}

/// An error at a byte offset of a line; `line` is counted from 0.
fn parse_error(line: usize, row: &str, byte: usize, problem: String) -> TensorError {
    TensorError::Parse {
        line: line + 1,
        column: row.get(..byte).map_or(0, |before| before.chars().count()) + 1,
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Tensor> {
        Tensor::from_csv::<f32>(text, &Limits::default())
    }

    fn message(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn separators_blanks_and_comments() {
        let want = Tensor::from_vec(vec![1.0f32, -2.5, 3e4, 4.0], &[2, 2]).unwrap();
        for text in [
            "1,-2.5\n3e4,4",
            " 1 ; -2.5 \r\n 3e4;4 \r\n",
            "# heading\n\n1\t-2.5\n3e4\t+4 # last\n\n",
            "\u{feff}1   -2.5\n  3e4 4",
        ] {
            assert_eq!(read(text).unwrap(), want, "{text:?}");
        }
        let integers = Tensor::from_csv::<i64>("9007199254740993", &Limits::default()).unwrap();
        assert_eq!(integers.item::<i64>().unwrap(), 9007199254740993);
        let special = read("nan inf -inf").unwrap().to_vec::<f32>().unwrap();
        assert!(special[0].is_nan() && special[1..] == [f32::INFINITY, f32::NEG_INFINITY]);
    }

    #[test]
    fn errors_have_a_position() {
        assert_eq!(
            message("1,2\n3,x"),
            "line 2, column 3: expected a number of type f32, got \"x\"; begin headings with #"
        );
        assert_eq!(message("1, 2\n3,"), "line 2, column 3: expected a number of type f32, got nothing");
        assert_eq!(
            message("# a\n1;2\n\n3;4;5"),
            "line 4, column 6: expected 2 numbers as in the first row, got 3"
        );
        assert_eq!(message("1,5;2\n3;4"), "line 1, column 1: expected a number of type f32, got \"1,5\"");
        assert_eq!(
            message("é 1"),
            "line 1, column 1: expected a number of type f32, got \"é\"; begin headings with #"
        );
        assert!(message("# nothing\n \n").contains("no row") && message("").contains("no row"));
        assert!(Tensor::from_csv::<u8>("256", &Limits::default()).is_err());
        let small = Limits { max_tensor_bytes: 7, ..Limits::default() };
        assert!(Tensor::from_csv::<f32>("1 2", &small).is_err());
    }

    #[test]
    fn files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        std::fs::write(&path, "1,2\n").unwrap();
        let load = || Tensor::load_csv::<f64>(&path, &Limits::default());
        assert_eq!(load().unwrap().to_vec::<f64>().unwrap(), [1.0, 2.0]);
        std::fs::write(&path, "1,2\n3\n").unwrap();
        assert!(load().unwrap_err().to_string().contains("table.csv: line 2, column 2: "));
        std::fs::write(&path, [0xff]).unwrap();
        assert!(load().unwrap_err().to_string().contains("table.csv: cannot read"));
    }

    proptest! {
        #[test]
        fn written_tables_read_back(rows in 1usize..5, cols in 1usize..5, seed: u64, separator in "[;,\t ]") {
            let x = Tensor::randn(&[rows, cols], seed).unwrap();
            let lines: Vec<String> = x.array::<f32>().unwrap().outer_iter()
                .map(|row| row.iter().map(f32::to_string).collect::<Vec<_>>().join(&separator))
                .collect();
            prop_assert_eq!(read(&lines.join("\n")).unwrap(), x);
        }

        #[test]
        fn no_text_panics(text in "[0-9,;\t .#é\nx-]{0,40}") {
            let _ = read(&text);
        }
    }
}
