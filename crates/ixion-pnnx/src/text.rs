//! The grammar of the `.param` text, read with nom.
//!
//! ```text
//! file  = "7767517" newline operators " " operands newline {line}
//! line  = type " " name " " inputs " " outputs {" " operand} {" " field} newline
//! field = key "=" value                       a parameter
//!       | "@" key "=" "(" sizes ")" dtype     an attribute
//!       | "$" key "=" operand                 the argument name of an input
//!       | "#" operand "=" "(" sizes ")" dtype the shape of an input or output
//! ```
//!
//! Words are separated by blanks and there is no quoting: a value can hold `=` and `,`, but no blank. This
//! module turns one line into a [`Line`]; what the lines mean together is the business of loading, which begins
//! with [`link`](super::link).

use super::operand::Dim;
use ixion_tensor::DType;
use nom::branch::alt;
use nom::bytes::complete::{take_till, take_till1, take_while};
use nom::character::complete::{char, digit1, satisfy};
use nom::combinator::{cut, map, map_opt, map_res, not, peek, value};
use nom::error::{ContextError, ErrorKind, FromExternalError, ParseError, context};
use nom::multi::separated_list1;
use nom::sequence::{delimited, preceded, separated_pair, terminated};
use nom::{IResult, Parser};
use std::str::FromStr;

/// The number with which every `.param` text starts.
pub(super) const MAGIC: &str = "7767517";

// ANCHOR: line
/// One operator line, all words of which point into the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Line<'a> {
    /// The type, such as `nn.Conv2d`.
    pub op_type: &'a str,
    /// The name.
    pub name: &'a str,
    /// The operands that it reads.
    pub inputs: Vec<&'a str>,
    /// The operands that it computes.
    pub outputs: Vec<&'a str>,
    /// All that follows them.
    pub fields: Vec<Field<'a>>,
}

/// What follows the operands of an operator.
#[derive(Debug, Clone, PartialEq)]
pub enum Field<'a> {
    /// `key=value`: a setting.
    Param {
        /// Its name.
        key: &'a str,
        /// Its value, as text: what type it has is decided later.
        value: &'a str,
    },
    /// `@key=(sizes)dtype`: a weight, whose bytes are in the archive.
    Attr {
        /// Its name.
        key: &'a str,
        /// Its sizes.
        shape: Vec<usize>,
        /// Its element type.
        dtype: DType,
    },
    /// `$key=operand`: the argument name of an input.
    InputName {
        /// The argument name.
        key: &'a str,
        /// The input.
        operand: &'a str,
    },
    /// `#operand=(sizes)dtype`: the shape that an operand had in the sample run.
    Shape {
        /// The operand.
        operand: &'a str,
        /// Its sizes.
        shape: Vec<Dim>,
        /// Its element type; `None` for what is no tensor.
        dtype: Option<DType>,
    },
}
// ANCHOR_END: line

/// Where a parser stopped, and what it wanted there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop<'a> {
    /// The rest of the line from there on.
    pub at: &'a str,
    /// What was wanted; empty where no [`context`] says it.
    pub wanted: &'static str,
}

impl<'a> ParseError<&'a str> for Stop<'a> {
    fn from_error_kind(at: &'a str, _: ErrorKind) -> Self {
        Self { at, wanted: "" }
    }

    fn append(_: &'a str, _: ErrorKind, inner: Self) -> Self {
        inner
    }
}

/// The innermost context is the most exact one, so it stays. It points to where its parser started.
impl<'a> ContextError<&'a str> for Stop<'a> {
    fn add_context(at: &'a str, wanted: &'static str, inner: Self) -> Self {
        if inner.wanted.is_empty() { Self { at, wanted } } else { inner }
    }
}

impl<'a, E> FromExternalError<&'a str, E> for Stop<'a> {
    fn from_external_error(at: &'a str, _: ErrorKind, _: E) -> Self {
        Self { at, wanted: "" }
    }
}

// ANCHOR: parsed
/// What a parser of this grammar returns: the rest of the line, and what it found before it; or where it stopped.
pub type Parsed<'a, T> = IResult<&'a str, T, Stop<'a>>;
// ANCHOR_END: parsed

/// Reads the second line: how many operators and operands there are.
pub(super) fn counts(line: &str) -> Result<(usize, usize), Stop<'_>> {
    let operators = context("the number of operators", number);
    let operands = context("the number of operands", number);
    whole((operators, operands), line)
}

// ANCHOR: whole
/// Runs a parser over a whole line; nothing but blanks may be left.
fn whole<'a, T>(
    mut parser: impl Parser<&'a str, Output = T, Error = Stop<'a>>,
    line: &'a str,
) -> Result<T, Stop<'a>> {
    match parser.parse(line) {
        Ok((rest, found)) => match rest.trim_start_matches(is_blank) {
            "" => Ok(found),
            at => Err(Stop { at, wanted: "the end of the line" }),
        },
        Err(nom::Err::Error(stop) | nom::Err::Failure(stop)) => Err(stop),
        Err(nom::Err::Incomplete(_)) => Err(Stop { at: "", wanted: "more text" }),
    }
}
// ANCHOR_END: whole

// ANCHOR: blanks
/// What separates words. A line break ends the line before any of this is asked.
pub fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\x0b' | '\x0c')
}

/// Any number of blanks, or none.
fn blanks(input: &str) -> Parsed<'_, &str> {
    take_while(is_blank).parse(input)
}

/// Nothing, but only where a word ends: before a blank, or at the end of the line.
fn word_end(input: &str) -> Parsed<'_, ()> {
    not(satisfy(|c| !is_blank(c))).parse(input)
}
// ANCHOR_END: blanks

// ANCHOR: word
/// A word, after any blanks: all characters up to the next blank or the end of the line, at least one.
pub fn word(input: &str) -> Parsed<'_, &str> {
    // ANCHOR: word_todo -- task 1: skip blanks, take everything up to the next one
    preceded(blanks, take_till1(is_blank)).parse(input)
    // ANCHOR_END: word_todo
}

/// A word that is a whole number, after any blanks.
pub fn number(input: &str) -> Parsed<'_, usize> {
    // ANCHOR: number_todo -- task 1: digits only, and the word ends after them
    delimited(blanks, map_res(digit1, str::parse), word_end).parse(input)
    // ANCHOR_END: number_todo
}
// ANCHOR_END: word

// ANCHOR: dim
/// A whole number below 2^64, with no blanks before it. A negative size is none: the text has `?` for what is not known.
fn size<T: FromStr>(input: &str) -> Parsed<'_, T> {
    context("a size below 2^64", map_res(digit1, str::parse)).parse(input)
}

/// One size of an operand: a number, `?`, or `%name`.
pub fn dim(input: &str) -> Parsed<'_, Dim> {
    // ANCHOR: dim_todo -- task 2: one of three
    let name = preceded(char('%'), take_till1(|c| is_blank(c) || c == ',' || c == ')'));
    let named = map(name, |name: &str| Dim::Named(name.to_owned()));
    let any = alt((value(Dim::Unknown, char('?')), named, map(size, Dim::Fixed)));
    context("a size (a number, `?` or `%name`)", any).parse(input)
    // ANCHOR_END: dim_todo
}

/// Sizes between round brackets, separated by commas; `()` is the shape of a scalar.
pub fn shape<'a, T>(input: &'a str, size: impl Fn(&'a str) -> Parsed<'a, T>) -> Parsed<'a, Vec<T>> {
    // ANCHOR: shape_todo -- task 2: brackets around nothing, or around sizes with commas between them
    let empty = map(peek(char(')')), |_| Vec::new());
    let sizes = alt((empty, separated_list1(char(','), cut(size))));
    delimited(context("`(`", char('(')), sizes, cut(context("`,` or `)`", char(')')))).parse(input)
    // ANCHOR_END: shape_todo
}
// ANCHOR_END: dim

// ANCHOR: dtype
const DTYPE: &str = "an element type (f32, f64, f16, bf16, i64, i32, i16, i8, u8, bool, c32, c64 or c128)";

/// The element type of an attribute.
fn dtype(input: &str) -> Parsed<'_, DType> {
    context(DTYPE, map_opt(take_till1(is_blank), DType::from_name)).parse(input)
}

/// The element type of an operand: as [`dtype`], or `null` for what is no tensor.
fn operand_dtype(input: &str) -> Parsed<'_, Option<DType>> {
    let known = |word: &str| if word == "null" { Some(None) } else { DType::from_name(word).map(Some) };
    context(DTYPE, map_opt(take_till1(is_blank), known)).parse(input)
}

// ANCHOR: key
/// What stands before a `=`.
fn key(input: &str) -> Parsed<'_, &str> {
    take_till1(|c| is_blank(c) || c == '=').parse(input)
}
// ANCHOR_END: key

/// The name of an operand, as a whole word. It cannot hold `=`, or a shape could not be written for it: what stands
/// before that `=` is a [`key`].
fn operand(input: &str) -> Parsed<'_, &str> {
    terminated(key, word_end).parse(input)
}

fn equals(input: &str) -> Parsed<'_, char> {
    context("`=`", char('=')).parse(input)
}
// ANCHOR_END: dtype

// ANCHOR: field
/// `key=value`: the value is the rest of the word, which may be nothing and may hold `=`.
fn param(input: &str) -> Parsed<'_, Field<'_>> {
    // ANCHOR: param_todo -- task 3: a key, `=`, and the rest of the word
    let (rest, (key, value)) = separated_pair(key, char('='), take_till(is_blank)).parse(input)?;
    Ok((rest, Field::Param { key, value }))
    // ANCHOR_END: param_todo
}

/// `key=(sizes)dtype`, after the `@`.
fn attr(input: &str) -> Parsed<'_, Field<'_>> {
    // ANCHOR: attr_todo -- task 3: a key, `=`, a shape of plain sizes, an element type
    let key = context("an attribute key", key);
    let (rest, (key, _, shape, dtype)) = (key, equals, |input| shape(input, size), dtype).parse(input)?;
    Ok((rest, Field::Attr { key, shape, dtype }))
    // ANCHOR_END: attr_todo
}

/// `key=operand`, after the `$`.
fn input_name(input: &str) -> Parsed<'_, Field<'_>> {
    // ANCHOR: input_name_todo -- task 3: a key, `=`, an operand
    let (key, operand) = (context("an argument name", key), context("an operand", operand));
    let (rest, (key, operand)) = separated_pair(key, equals, operand).parse(input)?;
    Ok((rest, Field::InputName { key, operand }))
    // ANCHOR_END: input_name_todo
}

/// `operand=(sizes)dtype`, after the `#`.
fn operand_shape(input: &str) -> Parsed<'_, Field<'_>> {
    // ANCHOR: operand_shape_todo -- task 3: the name of an operand (a `key`), `=`, a shape, an element type or `null`
    let operand = context("an operand", key);
    let (rest, (operand, _, shape, dtype)) =
        (operand, equals, |input| shape(input, dim), operand_dtype).parse(input)?;
    Ok((rest, Field::Shape { operand, shape, dtype }))
    // ANCHOR_END: operand_shape_todo
}

/// One field, with no blanks before it. Its first character tells which kind it is.
pub fn field(input: &str) -> Parsed<'_, Field<'_>> {
    let (mark, rest) = input.split_at_checked(1).unwrap_or_default();
    let (rest, field) = match mark {
        "@" => attr(rest)?,
        "$" => input_name(rest)?,
        "#" => operand_shape(rest)?,
        _ => {
            context("`key=value`; if this is an operand, a count before is too small", param).parse(input)?
        }
    };
    let (rest, ()) = context("a blank", word_end).parse(rest)?;
    Ok((rest, field))
}

/// All fields up to the end of the line.
fn fields(mut input: &str) -> Parsed<'_, Vec<Field<'_>>> {
    let mut fields = Vec::with_capacity(USUAL_FIELDS);
    loop {
        let (rest, _) = blanks(input)?;
        if rest.is_empty() {
            return Ok((rest, fields));
        }
        let (rest, field) = field(rest)?;
        fields.push(field);
        input = rest;
    }
}

/// Room for the fields of most lines, so that their list does not grow step by step.
const USUAL_FIELDS: usize = 16;
// ANCHOR_END: field

// ANCHOR: operator_line
/// Reads one operator line.
///
/// # Errors
/// The first place at which the line is not as the grammar says.
pub fn operator_line(line: &str) -> Result<Line<'_>, Stop<'_>> {
    whole(operator, line)
}

/// A type, a name, how many inputs and outputs there are, their names, and fields.
fn operator(input: &str) -> Parsed<'_, Line<'_>> {
    // ANCHOR: operator_todo -- task 4: one part after the other, each from where the last one stopped
    let (rest, op_type) = context("an operator type", word).parse(input)?;
    let (rest, name) = context("an operator name", word).parse(rest)?;
    let (rest, ins) = context("the number of inputs", number).parse(rest)?;
    let (rest, outs) = context("the number of outputs", number).parse(rest)?;
    let (rest, inputs) = operands(rest, ins, "an input, as many as the first count says")?;
    let (rest, outputs) = operands(rest, outs, "an output, as many as the second count says")?;
    let (rest, fields) = fields(rest)?;
    Ok((rest, Line { op_type, name, inputs, outputs, fields }))
    // ANCHOR_END: operator_todo
}

/// As many names of operands as a count says, each after blanks. The count comes from a file: nothing is reserved for it.
fn operands<'a>(input: &'a str, count: usize, wanted: &'static str) -> Parsed<'a, Vec<&'a str>> {
    // ANCHOR: operands_todo -- task 4: as many operands as the count says, no more and no fewer
    let (mut rest, mut names) = (input, Vec::new());
    for _ in 0..count {
        let (after, name) = context(wanted, preceded(blanks, operand)).parse(rest)?;
        names.push(name);
        rest = after;
    }
    Ok((rest, names))
    // ANCHOR_END: operands_todo
}
// ANCHOR_END: operator_line

#[cfg(test)]
mod tests;
