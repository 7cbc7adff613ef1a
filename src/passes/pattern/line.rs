//! Parsing the lines of a pattern or a replacement into words.

use crate::passes::PatternError;

/// One line: an operator.
#[derive(Debug, Clone)]
pub(in crate::passes) struct Line {
    /// The line number, counted from 1.
    pub(in crate::passes) number: usize,
    pub(in crate::passes) op_type: String,
    /// Whether the type has the prefix `?`.
    pub(in crate::passes) optional: bool,
    /// Whether the type has the prefix `=`.
    pub(in crate::passes) stays: bool,
    pub(in crate::passes) name: String,
    pub(in crate::passes) inputs: Vec<String>,
    /// Whether `...` follows the inputs.
    pub(in crate::passes) further: bool,
    pub(in crate::passes) outputs: Vec<String>,
    pub(in crate::passes) words: Vec<Word>,
}

/// A word after the operands.
#[derive(Debug, Clone)]
pub(in crate::passes) struct Word {
    pub(in crate::passes) kind: WordKind,
    pub(in crate::passes) optional: bool,
    pub(in crate::passes) key: String,
    pub(in crate::passes) value: Option<String>,
}

/// The kind of a word, by its first character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::passes) enum WordKind {
    Param,
    /// `@`
    Attribute,
    /// `$`
    InputName,
    /// `#`
    Fact,
    /// `%*=%*` or `%*=%name`
    Open,
}

impl Line {
    /// An error about this line.
    pub(in crate::passes) fn error(&self, problem: impl Into<String>) -> PatternError {
        PatternError::new(self.number, problem)
    }

    /// The argument name that the line gives to an operand.
    pub(in crate::passes) fn input_name(&self, operand: &str) -> Option<&str> {
        let is_name =
            |word: &&Word| word.kind == WordKind::InputName && word.value.as_deref() == Some(operand);
        self.words.iter().find(is_name).map(|word| word.key.as_str())
    }

    /// Replaces the operand `old` by `new` among the line's inputs.
    fn rename(&mut self, old: &str, new: &str) {
        for word in &mut self.words {
            match word.kind {
                WordKind::Fact if word.key == old => new.clone_into(&mut word.key),
                WordKind::InputName if word.value.as_deref() == Some(old) => {
                    word.value = Some(new.to_owned())
                }
                _ => {}
            }
        }
        for name in self.inputs.iter_mut().filter(|name| *name == old) {
            new.clone_into(name);
        }
    }
}

/// The maximum number of optional operators in a pattern. Each one doubles the number of variants to search for.
const MAX_OPTIONAL: usize = 6;

/// All variants of the lines, with and without each optional one. Those with most lines come first. Consumers of a line
/// that is left out read its first input.
///
/// # Errors
/// Fails if there are more than [`MAX_OPTIONAL`] optional lines.
pub(super) fn variants(lines: Vec<Line>) -> Result<Vec<Vec<Line>>, PatternError> {
    if let Some(line) = lines.iter().filter(|line| line.optional).nth(MAX_OPTIONAL) {
        return Err(line.error(format!("at most {MAX_OPTIONAL} operators may be optional")));
    }
    let mut all = with_and_without(lines);
    all.sort_by_key(|lines| std::cmp::Reverse(lines.len()));
    Ok(all)
}

fn with_and_without(mut lines: Vec<Line>) -> Vec<Vec<Line>> {
    let Some(at) = lines.iter().position(|line| line.optional) else { return vec![lines] };
    let mut without = lines.clone();
    let left_out = without.remove(at);
    if let (Some(input), Some(output)) = (left_out.inputs.first(), left_out.outputs.first()) {
        without.iter_mut().for_each(|line| line.rename(output, input));
    }
    if let Some(line) = lines.get_mut(at) {
        line.optional = false;
    }
    [with_and_without(lines), with_and_without(without)].concat()
}

/// Reads the magic number, the counts and the lines. The counts must be right, so that the text is a valid graph.
pub(in crate::passes) fn read_lines(text: &str) -> Result<Vec<Line>, PatternError> {
    let mut rows = text.lines().enumerate().map(|(at, row)| (at + 1, row));
    match rows.next() {
        Some((_, magic)) if magic.trim() == "7767517" => {}
        _ => return Err(PatternError::new(1, "expected the magic number `7767517`")),
    }
    let counts = rows.next().map_or("", |(_, row)| row).trim();
    let lines = read_rows(rows)?;
    let mut operands: Vec<&String> =
        lines.iter().flat_map(|line| line.inputs.iter().chain(&line.outputs)).collect();
    operands.sort();
    operands.dedup();
    let found = format!("{} {}", lines.len(), operands.len());
    if counts.split_whitespace().collect::<Vec<_>>().join(" ") != found {
        return Err(PatternError::new(
            2,
            format!("expected the counts of operators and operands `{found}`, got `{counts}`"),
        ));
    }
    Ok(lines)
}

/// Reads lines without magic number and counts, as generated for one match.
pub(in crate::passes) fn read_body(text: &str) -> Result<Vec<Line>, PatternError> {
    read_rows((1..).zip(text.lines()))
}

fn read_rows<'a>(rows: impl Iterator<Item = (usize, &'a str)>) -> Result<Vec<Line>, PatternError> {
    let rows = rows.filter(|(_, row)| !row.trim().is_empty());
    rows.map(|(number, row)| read_line(number, row)).collect()
}

fn read_line(number: usize, row: &str) -> Result<Line, PatternError> {
    let error = |problem: &str| PatternError::new(number, problem);
    let mut words = row.split_whitespace();
    let mut next = |what: &str| words.next().ok_or_else(|| error(&format!("{what} is missing")));
    let (op_type, name) = (next("the type")?, next("the name")?.to_owned());
    let (optional, op_type) = op_type.strip_prefix('?').map_or((false, op_type), |rest| (true, rest));
    let (stays, op_type) = op_type.strip_prefix('=').map_or((false, op_type), |rest| (true, rest));
    let mut count =
        |what: &str| next(what)?.parse::<usize>().map_err(|_| error(&format!("{what} is not a number")));
    let (inputs, outputs) = (count("the number of inputs")?, count("the number of outputs")?);
    let mut operands = |count: usize| -> Result<Vec<String>, PatternError> {
        (0..count).map(|_| next("an operand").map(str::to_owned)).collect()
    };
    let (mut inputs, outputs) = (operands(inputs)?, operands(outputs)?);
    let further = inputs.pop_if(|name| name == FURTHER).is_some();
    if inputs.iter().chain(&outputs).any(|name| name == FURTHER) {
        return Err(error("`...` must follow all other inputs"));
    }
    if optional && (inputs.is_empty() || outputs.len() != 1) {
        return Err(error("an optional operator must have inputs and exactly one output"));
    }
    let words =
        words.map(|word| read_word(word).ok_or_else(|| error(&format!("`{word}` is not understood"))));
    let words = words.collect::<Result<_, _>>()?;
    let op_type = op_type.to_owned();
    Ok(Line { number, op_type, optional, stays, name, inputs, further, outputs, words })
}

/// The placeholder for any further inputs.
const FURTHER: &str = "...";

fn read_word(word: &str) -> Option<Word> {
    let (optional, word) = word.strip_prefix('?').map_or((false, word), |rest| (true, rest));
    let (key, value) =
        word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value.to_owned())));
    let (kind, key) = match key.chars().next()? {
        '@' => (WordKind::Attribute, key.get(1..)?),
        '$' => (WordKind::InputName, key.get(1..)?),
        '#' => (WordKind::Fact, key.get(1..)?),
        '%' => (WordKind::Open, key.strip_prefix("%*").filter(|rest| rest.is_empty())?),
        _ => (WordKind::Param, key),
    };
    if value.is_none() && kind != WordKind::Attribute {
        return None;
    }
    Some(Word { kind, optional, key: key.to_owned(), value })
}

/// Returns true if a text is a valid name of a capture.
pub(in crate::passes) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.')
}
