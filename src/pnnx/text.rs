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
use crate::tensor::DType;
use nom::branch::alt;
use nom::bytes::complete::{tag, take_while, take_while1};
use nom::character::complete::{char, digit1};
use nom::combinator::{cut, map, map_opt, map_res, value};
use nom::error::{ContextError, ErrorKind, FromExternalError, ParseError, context};
use nom::multi::separated_list1;
use nom::sequence::{delimited, preceded, separated_pair, terminated};
use nom::{IResult, Parser};

/// The number with which every `.param` text starts.
pub(super) const MAGIC: &str = "7767517";

/// One operator line, all words of which point into the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line<'a> {
    pub(super) op_type: &'a str,
    pub(super) name: &'a str,
    pub(super) inputs: Vec<&'a str>,
    pub(super) outputs: Vec<&'a str>,
    pub(super) fields: Vec<Field<'a>>,
}

/// What follows the operands of an operator.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Field<'a> {
    Param {
        key: &'a str,
        value: &'a str,
    },
    Attr {
        key: &'a str,
        shape: Vec<u64>,
        dtype: DType,
    },
    InputName {
        key: &'a str,
        operand: &'a str,
    },
    Shape {
        operand: &'a str,
        shape: Vec<Dim>,
        dtype: Option<DType>,
    },
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
        if inner.wanted.is_empty() {
            Self { at, wanted }
        } else {
            inner
        }
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
    matches!(c, ' ' | '\t' | '\r' | '\x0b' | '\x0c')
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
            at => Err(Stop {
                at,
                wanted: "the end of the line",
            }),
        },
        Err(nom::Err::Error(stop) | nom::Err::Failure(stop)) => Err(stop),
        Err(nom::Err::Incomplete(_)) => Err(Stop {
            at: "",
            wanted: "more text",
        }),
    }
}

fn operator(input: &str) -> Parsed<'_, Line<'_>> {
    let (rest, (op_type, name)) = (
        context("an operator type", word),
        context("an operator name", word),
    )
        .parse(input)?;
    let (rest, (ins, outs)) = (
        context("the number of inputs", count),
        context("the number of outputs", count),
    )
        .parse(rest)?;
    let (rest, inputs) = operands(rest, ins, "an input, as many as the first count says")?;
    let (rest, outputs) = operands(rest, outs, "an output, as many as the second count says")?;
    let (rest, fields) = fields(rest)?;
    Ok((
        rest,
        Line {
            op_type,
            name,
            inputs,
            outputs,
            fields,
        },
    ))
}

/// Reads operand names. The count comes from the file, so nothing is reserved for it.
fn operands<'a>(mut input: &'a str, count: usize, wanted: &'static str) -> Parsed<'a, Vec<&'a str>> {
    let mut names = Vec::new();
    for _ in 0..count {
        let (rest, name) = context(wanted, preceded(blanks, operand)).parse(input)?;
        names.push(name);
        input = rest;
    }
    Ok((input, names))
}

fn fields(mut input: &str) -> Parsed<'_, Vec<Field<'_>>> {
    let mut fields = Vec::new();
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

fn field(input: &str) -> Parsed<'_, Field<'_>> {
    let (rest, field) = alt((
        preceded(char('@'), cut(attr)),
        preceded(char('$'), cut(input_name)),
        preceded(char('#'), cut(operand_shape)),
        context(
            "`key=value`; if this is an operand, a count before is too small",
            param,
        ),
    ))
    .parse(input)?;
    match rest.chars().next() {
        Some(c) if !is_blank(c) => Err(nom::Err::Failure(Stop {
            at: rest,
            wanted: "a blank",
        })),
        _ => Ok((rest, field)),
    }
}

fn param(input: &str) -> Parsed<'_, Field<'_>> {
    let value = take_while(|c| !is_blank(c));
    map(separated_pair(key, char('='), value), |(key, value)| {
        Field::Param { key, value }
    })
    .parse(input)
}

fn attr(input: &str) -> Parsed<'_, Field<'_>> {
    let shape = shape(context("a size (a number)", size));
    let parts = (terminated(key, equals), shape, context(DTYPE, dtype));
    map(parts, |(key, shape, dtype)| Field::Attr { key, shape, dtype }).parse(input)
}

fn input_name(input: &str) -> Parsed<'_, Field<'_>> {
    let operand = context("an operand", operand);
    map(separated_pair(key, equals, operand), |(key, operand)| {
        Field::InputName { key, operand }
    })
    .parse(input)
}

fn operand_shape(input: &str) -> Parsed<'_, Field<'_>> {
    let name = context("an operand", key);
    let dtype = alt((value(None, null), map(dtype, Some)));
    let parts = (terminated(name, equals), shape(dim), context(DTYPE, dtype));
    map(parts, |(operand, shape, dtype)| Field::Shape {
        operand,
        shape,
        dtype,
    })
    .parse(input)
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
    let name = take_while1(|c| !is_blank(c) && c != ',' && c != ')');
    let named = map(preceded(char('%'), name), |name: &str| {
        Dim::Named(name.to_owned())
    });
    let any = alt((value(Dim::Unknown, char('?')), named, map(size, Dim::Fixed)));
    context("a size (a number, `?` or `%name`)", any).parse(input)
}

/// A whole number below 2^64. A negative size is none: the text has `?` for what is not known.
fn size(input: &str) -> Parsed<'_, u64> {
    context("a size below 2^64", map_res(digit1, str::parse)).parse(input)
}

const DTYPE: &str = "an element type (f32, f64, f16, bf16, i64, i32, i16, i8, u8, bool, c32, c64 or c128)";

fn dtype(input: &str) -> Parsed<'_, DType> {
    map_opt(word_here, DType::from_name).parse(input)
}

/// The element type of values that are no tensors.
fn null(input: &str) -> Parsed<'_, &str> {
    nom::combinator::verify(word_here, |word: &str| word == "null").parse(input)
}

fn equals(input: &str) -> Parsed<'_, char> {
    context("`=`", char('=')).parse(input)
}

/// The name of a parameter, attribute or argument.
fn key(input: &str) -> Parsed<'_, &str> {
    take_while1(|c| !is_blank(c) && c != '=').parse(input)
}

/// The name of an operand. It cannot hold `=`, or a shape could not be written for it.
fn operand(input: &str) -> Parsed<'_, &str> {
    let (rest, name) = key(input)?;
    if rest.starts_with('=') {
        return Err(nom::Err::Error(Stop {
            at: input,
            wanted: "",
        }));
    }
    Ok((rest, name))
}

fn count(input: &str) -> Parsed<'_, usize> {
    let number = map_res(digit1, str::parse);
    delimited(blanks, number, word_end).parse(input)
}

fn word(input: &str) -> Parsed<'_, &str> {
    preceded(blanks, word_here).parse(input)
}

fn word_here(input: &str) -> Parsed<'_, &str> {
    take_while1(|c| !is_blank(c)).parse(input)
}

fn word_end(input: &str) -> Parsed<'_, &str> {
    match input.chars().next() {
        Some(c) if !is_blank(c) => Err(nom::Err::Error(Stop {
            at: input,
            wanted: "",
        })),
        _ => tag("").parse(input),
    }
}

fn blanks(input: &str) -> Parsed<'_, &str> {
    take_while(is_blank).parse(input)
}

#[cfg(test)]
mod tests;
