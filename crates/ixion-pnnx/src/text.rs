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
//! module parses one line into a [`Line`]; loading combines the lines into a graph, starting with
//! [`link`](super::link).

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

/// The magic number at the start of every `.param` text.
pub(super) const MAGIC: &str = "7767517";

// ANCHOR: line
/// One operator line. All words borrow from the text.
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
    /// The fields after the operands.
    pub fields: Vec<Field<'a>>,
}

/// A field after the operands of an operator.
#[derive(Debug, Clone, PartialEq)]
pub enum Field<'a> {
    /// `key=value`: a parameter.
    Param {
        /// Its name.
        key: &'a str,
        /// Its value as text. Its type is inferred later.
        value: &'a str,
    },
    /// `@key=(sizes)dtype`: a weight, whose bytes are in the archive.
    Attr {
        /// Its name.
        key: &'a str,
        /// Its shape.
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
    /// `#operand=(sizes)dtype`: the shape of an operand in the sample run.
    Shape {
        /// The operand.
        operand: &'a str,
        /// Its shape.
        shape: Vec<Dim>,
        /// Its element type; `None` if it is not a tensor.
        dtype: Option<DType>,
    },
}
// ANCHOR_END: line

/// The position at which a parser stopped, and what it expected there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop<'a> {
    /// The rest of the line, from that position.
    pub at: &'a str,
    /// The expected item; empty if no [`context`] names it.
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

/// Keeps the innermost context, which is the most specific. Its position is the start of its parser.
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
/// The result of a parser: the rest of the line and the parsed value, or the position at which it stopped.
pub type Parsed<'a, T> = IResult<&'a str, T, Stop<'a>>;
// ANCHOR_END: parsed

/// Reads the second line: the numbers of operators and operands.
pub(super) fn counts(line: &str) -> Result<(usize, usize), Stop<'_>> {
    let operators = context("the number of operators", number);
    let operands = context("the number of operands", number);
    whole((operators, operands), line)
}

// ANCHOR: whole
/// Runs a parser over a whole line. Only blanks may follow.
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
/// Returns true for characters that separate words. Line breaks are handled before.
pub fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\x0b' | '\x0c')
}

/// Zero or more blanks.
fn blanks(input: &str) -> Parsed<'_, &str> {
    take_while(is_blank).parse(input)
}

/// Matches the end of a word, before a blank or at the end of the line, without consuming anything.
fn word_end(input: &str) -> Parsed<'_, ()> {
    not(satisfy(|c| !is_blank(c))).parse(input)
}
// ANCHOR_END: blanks

// ANCHOR: word
/// A word after any blanks: one or more characters up to the next blank or the end of the line.
pub fn word(input: &str) -> Parsed<'_, &str> {
    // ANCHOR: word_todo -- task 1: skip blanks, then take everything up to the next one
    preceded(blanks, take_till1(is_blank)).parse(input)
    // ANCHOR_END: word_todo
}

/// A word after any blanks that is an unsigned integer.
pub fn number(input: &str) -> Parsed<'_, usize> {
    // ANCHOR: number_todo -- task 1: digits only, and the word ends after them
    delimited(blanks, map_res(digit1, str::parse), word_end).parse(input)
    // ANCHOR_END: number_todo
}
// ANCHOR_END: word

// ANCHOR: dim
/// An integer below 2^64, without leading blanks. Negative sizes are invalid: an unknown size is written `?`.
fn size<T: FromStr>(input: &str) -> Parsed<'_, T> {
    context("a size below 2^64", map_res(digit1, str::parse)).parse(input)
}

/// One size of an operand: a number, `?`, or `%name`.
pub fn dim(input: &str) -> Parsed<'_, Dim> {
    // ANCHOR: dim_todo -- task 2: one of the three
    let name = preceded(char('%'), take_till1(|c| is_blank(c) || c == ',' || c == ')'));
    let named = map(name, |name: &str| Dim::Named(name.to_owned()));
    let any = alt((value(Dim::Unknown, char('?')), named, map(size, Dim::Fixed)));
    context("a size (a number, `?` or `%name`)", any).parse(input)
    // ANCHOR_END: dim_todo
}

/// Sizes in parentheses, separated by commas; `()` is the shape of a scalar.
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

/// The element type of an operand: as [`dtype`], or `null` if the operand is not a tensor.
fn operand_dtype(input: &str) -> Parsed<'_, Option<DType>> {
    let known = |word: &str| if word == "null" { Some(None) } else { DType::from_name(word).map(Some) };
    context(DTYPE, map_opt(take_till1(is_blank), known)).parse(input)
}

// ANCHOR: key
/// The key before a `=`: all characters up to the next `=` or blank, at least one.
fn key(input: &str) -> Parsed<'_, &str> {
    take_till1(|c| is_blank(c) || c == '=').parse(input)
}
// ANCHOR_END: key

/// The name of an operand, as a whole word. It cannot contain `=`: in a shape field, the name is a [`key`] and ends at the
/// first `=`.
fn operand(input: &str) -> Parsed<'_, &str> {
    terminated(key, word_end).parse(input)
}

fn equals(input: &str) -> Parsed<'_, char> {
    context("`=`", char('=')).parse(input)
}
// ANCHOR_END: dtype

// ANCHOR: field
/// `key=value`: the value is the rest of the word, which may be empty and may contain `=`.
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

/// One field, without leading blanks. Its first character gives its kind.
pub fn field(input: &str) -> Parsed<'_, Field<'_>> {
    let (mark, rest) = input.split_at_checked(1).unwrap_or_default();
    let (rest, field) = match mark {
        "@" => attr(rest)?,
        "$" => input_name(rest)?,
        "#" => operand_shape(rest)?,
        _ => context("`key=value` (or a larger count, if this is an operand)", param).parse(input)?,
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

/// The initial capacity of a list of fields, enough for most lines.
const USUAL_FIELDS: usize = 16;
// ANCHOR_END: field

/// Reads the line of a constant that is a text with blanks. PNNX writes the texts of scripted models, such as the message of
/// an error, without quotation marks, so such a value extends to the shapes or to the end of the line. `None` for all other
/// lines.
pub(super) fn text_constant(line: &str) -> Option<Line<'_>> {
    if !line.trim_start_matches(is_blank).starts_with("prim::Constant ") {
        return None;
    }
    let (before, rest) = line.split_once(" value=")?;
    let is_shape = |after: &str| after.split(is_blank).nth(1).is_some_and(|word| word.contains("=("));
    let mut splits = rest.match_indices(" #").map(|(at, _)| rest.split_at(at));
    let (value, shapes) = splits.find(|(_, after)| is_shape(after)).unwrap_or((rest, ""));
    let value = value.trim_end_matches(is_blank);
    if !value.contains(is_blank) {
        return None;
    }
    let mut line = operator_line(before).ok()?;
    line.fields.push(Field::Param { key: "value", value });
    match fields(shapes).ok()? {
        ("", shapes) => line.fields.extend(shapes),
        _ => return None,
    }
    Some(line)
}

// ANCHOR: operator_line
/// Reads one operator line.
///
/// # Errors
/// The first position at which the line violates the grammar.
pub fn operator_line(line: &str) -> Result<Line<'_>, Stop<'_>> {
    whole(operator, line)
}

/// A type, a name, the numbers of inputs and outputs, their names, and fields.
fn operator(input: &str) -> Parsed<'_, Line<'_>> {
    // ANCHOR: operator_todo -- task 4: one part after the other, each from where the last one stopped
    let (rest, op_type) = context("an operator type", word).parse(input)?;
    let (rest, name) = context("an operator name", word).parse(rest)?;
    let (rest, ins) = context("the number of inputs", number).parse(rest)?;
    let (rest, outs) = context("the number of outputs", number).parse(rest)?;
    let (rest, inputs) = operands(rest, ins, "an input (or a smaller first count)")?;
    let (rest, outputs) = operands(rest, outs, "an output (or a smaller second count)")?;
    let (rest, fields) = fields(rest)?;
    Ok((rest, Line { op_type, name, inputs, outputs, fields }))
    // ANCHOR_END: operator_todo
}

/// `count` operand names, each after blanks. The count comes from a file and may be huge, so nothing is reserved for it.
fn operands<'a>(input: &'a str, count: usize, wanted: &'static str) -> Parsed<'a, Vec<&'a str>> {
    // ANCHOR: operands_todo -- task 4: exactly `count` operands
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
