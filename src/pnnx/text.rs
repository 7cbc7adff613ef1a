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
//! module turns one line into a [`Line`]; what the lines mean together is the business of loading.

mod problem;

pub use problem::SyntaxProblem;

use super::operand::Dim;
use super::operator::Few;
use crate::tensor::DType;
use nom::branch::alt;
use nom::character::complete::{char, digit1};
use nom::combinator::{cut, map, map_opt, map_res, value, verify};
use nom::error::{ContextError, ErrorKind, FromExternalError, ParseError, context};
use nom::multi::separated_list1;
use nom::sequence::{delimited, preceded, separated_pair, terminated};
use nom::{IResult, Parser};
use std::str::FromStr;

/// The number with which every `.param` text starts.
pub(super) const MAGIC: &str = "7767517";

/// One operator line, all words of which point into the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line<'a> {
    pub(super) op_type: &'a str,
    pub(super) name: &'a str,
    pub(super) inputs: Few<&'a str>,
    pub(super) outputs: Few<&'a str>,
    pub(super) fields: Vec<Field<'a>>,
}

/// What follows the operands of an operator.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Field<'a> {
    Param { key: &'a str, value: &'a str },
    Attr { key: &'a str, shape: Vec<usize>, dtype: DType },
    InputName { key: &'a str, operand: &'a str },
    Shape { operand: &'a str, shape: Vec<Dim>, dtype: Option<DType> },
}

/// Where a parser stopped, and what it wanted there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stop<'a> {
    /// The rest of the line from there on.
    pub(super) at: &'a str,
    pub(super) wanted: &'static str,
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

type Parsed<'a, T> = IResult<&'a str, T, Stop<'a>>;

/// What separates words. A line break ends the line before any of this is asked.
pub(super) fn is_blank(c: char) -> bool {
    u8::try_from(c).is_ok_and(is_blank_byte)
}

/// All marks of the grammar are ASCII, so a text can be searched for them byte by byte.
fn is_blank_byte(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\x0b' | b'\x0c')
}

/// Reads the second line: how many operators and operands there are.
pub(super) fn counts(line: &str) -> Result<(usize, usize), Stop<'_>> {
    let operators = context("the number of operators", count);
    let operands = context("the number of operands", count);
    whole((operators, operands), line)
}

/// Reads one operator line.
pub(super) fn operator_line(line: &str) -> Result<Line<'_>, Stop<'_>> {
    whole(operator, line)
}

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

fn operator(input: &str) -> Parsed<'_, Line<'_>> {
    let (rest, (op_type, name)) =
        (context("an operator type", word), context("an operator name", word)).parse(input)?;
    let (rest, (ins, outs)) =
        (context("the number of inputs", count), context("the number of outputs", count)).parse(rest)?;
    let (rest, inputs) = operands(rest, ins, "an input, as many as the first count says")?;
    let (rest, outputs) = operands(rest, outs, "an output, as many as the second count says")?;
    let (rest, fields) = fields(rest)?;
    Ok((rest, Line { op_type, name, inputs, outputs, fields }))
}

/// Reads operand names. The count comes from the file, so nothing is reserved for it.
fn operands<'a>(mut input: &'a str, count: usize, wanted: &'static str) -> Parsed<'a, Few<&'a str>> {
    let mut names = Few::new();
    for _ in 0..count {
        let (rest, name) = context(wanted, preceded(blanks, operand)).parse(input)?;
        names.push(name);
        input = rest;
    }
    Ok((input, names))
}

/// Room for the fields of most lines, so that their list does not grow step by step.
const USUAL_FIELDS: usize = 16;

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

/// The first character tells the kinds apart.
fn field(input: &str) -> Parsed<'_, Field<'_>> {
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

fn param(input: &str) -> Parsed<'_, Field<'_>> {
    map(separated_pair(key, char('='), until(is_blank_byte)), |(key, value)| Field::Param { key, value })
        .parse(input)
}

fn attr(input: &str) -> Parsed<'_, Field<'_>> {
    let key = context("an attribute key", key);
    let parts = (terminated(key, equals), shape(size), context(DTYPE, dtype));
    map(parts, |(key, shape, dtype)| Field::Attr { key, shape, dtype }).parse(input)
}

fn input_name(input: &str) -> Parsed<'_, Field<'_>> {
    let (key, operand) = (context("an argument name", key), context("an operand", operand));
    map(separated_pair(key, equals, operand), |(key, operand)| Field::InputName { key, operand }).parse(input)
}

fn operand_shape(input: &str) -> Parsed<'_, Field<'_>> {
    let name = context("an operand", key);
    let parts = (terminated(name, equals), shape(dim), context(DTYPE, operand_dtype));
    map(parts, |(operand, shape, dtype)| Field::Shape { operand, shape, dtype }).parse(input)
}

/// Sizes between round brackets; `()` is the shape of a scalar.
fn shape<'a, T>(
    size: impl Parser<&'a str, Output = T, Error = Stop<'a>>,
) -> impl Parser<&'a str, Output = Vec<T>, Error = Stop<'a>> {
    let close = context("`,` or `)`", char(')'));
    let sizes = terminated(separated_list1(char(','), cut(size)), cut(close));
    let empty = map(char(')'), |_| Vec::new());
    preceded(context("`(`", char('(')), alt((empty, sizes)))
}

fn dim(input: &str) -> Parsed<'_, Dim> {
    let name = some(until(|byte| is_blank_byte(byte) || byte == b',' || byte == b')'));
    let named = map(preceded(char('%'), name), |name: &str| Dim::Named(name.to_owned()));
    let any = alt((value(Dim::Unknown, char('?')), named, map(size, Dim::Fixed)));
    context("a size (a number, `?` or `%name`)", any).parse(input)
}

/// A whole number below 2^64. A negative size is none: the text has `?` for what is not known.
fn size<T: FromStr>(input: &str) -> Parsed<'_, T> {
    context("a size below 2^64", map_res(digit1, str::parse::<T>)).parse(input)
}

const DTYPE: &str = "an element type (f32, f64, f16, bf16, i64, i32, i16, i8, u8, bool, c32, c64 or c128)";

fn dtype(input: &str) -> Parsed<'_, DType> {
    map_opt(word_here, DType::from_name).parse(input)
}

/// As [`dtype`], or `null` for values that are no tensors.
fn operand_dtype(input: &str) -> Parsed<'_, Option<DType>> {
    let known = |word: &str| {
        if word == "null" { Some(None) } else { DType::from_name(word).map(Some) }
    };
    map_opt(word_here, known).parse(input)
}

fn equals(input: &str) -> Parsed<'_, char> {
    context("`=`", char('=')).parse(input)
}

/// The name of a parameter, attribute or argument.
fn key(input: &str) -> Parsed<'_, &str> {
    some(until(|byte| is_blank_byte(byte) || byte == b'=')).parse(input)
}

/// The name of an operand. It cannot hold `=`, or a shape could not be written for it.
fn operand(input: &str) -> Parsed<'_, &str> {
    let (rest, name) = key(input)?;
    if rest.starts_with('=') {
        return Err(nom::Err::Error(Stop { at: input, wanted: "" }));
    }
    Ok((rest, name))
}

fn count(input: &str) -> Parsed<'_, usize> {
    let number = map_res(digit1, str::parse::<usize>);
    delimited(blanks, number, word_end).parse(input)
}

fn word(input: &str) -> Parsed<'_, &str> {
    preceded(blanks, word_here).parse(input)
}

fn word_here(input: &str) -> Parsed<'_, &str> {
    some(until(is_blank_byte)).parse(input)
}

/// Nothing, but only where a word ends.
fn word_end(input: &str) -> Parsed<'_, ()> {
    match input.bytes().next() {
        Some(byte) if !is_blank_byte(byte) => Err(nom::Err::Error(Stop { at: input, wanted: "" })),
        _ => Ok((input, ())),
    }
}

fn blanks(input: &str) -> Parsed<'_, &str> {
    until(|byte| !is_blank_byte(byte)).parse(input)
}

/// The text before the first byte that `stop` accepts. It must accept either no byte beyond ASCII or all of
/// them, so that no character is cut in two.
fn until<'a>(stop: impl Fn(u8) -> bool) -> impl Parser<&'a str, Output = &'a str, Error = Stop<'a>> {
    move |input: &'a str| {
        let end = input.bytes().position(&stop).unwrap_or(input.len());
        let (found, rest) = input.split_at_checked(end).unwrap_or((input, ""));
        Ok((rest, found))
    }
}

/// What `parser` finds, if that is not nothing.
fn some<'a>(
    parser: impl Parser<&'a str, Output = &'a str, Error = Stop<'a>>,
) -> impl Parser<&'a str, Output = &'a str, Error = Stop<'a>> {
    verify(parser, |found: &str| !found.is_empty())
}

#[cfg(test)]
mod tests;
