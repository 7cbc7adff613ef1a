//! Lesson 03: the PNNX graph, read with nom.
//!
//! The page of the book: `book/src/lessons/03_param.md`. Replace each `todo!` by code. This is the only file to edit.
//!
//! A parser takes a text, and returns the rest of the text and the value that it parsed before the rest: see [`Parsed`].

use ixion_pnnx::text::Stop;
use ixion_pnnx::{Dim, Graph, OperatorId, Unlinked};
use ixion_tensor::DType;
use nom::branch::alt;
use nom::bytes::complete::{take_till, take_till1, take_while};
use nom::character::complete::{char, digit1, satisfy};
use nom::combinator::{cut, map, map_opt, map_res, not, peek, value};
use nom::error::context;
use nom::multi::separated_list1;
use nom::sequence::{delimited, preceded, separated_pair, terminated};
use nom::{IResult, Parser};
use std::str::FromStr;

/// The result of a parser: the rest of the line and the parsed value, or the position at which it stopped.
pub type Parsed<'a, T> = IResult<&'a str, T, Stop<'a>>;

// Given: the parsed form of a line.

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

// Given: the blanks that separate words.

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

// Task 1: words and numbers.

/// A word after any blanks: one or more characters up to the next blank or the end of the line.
pub fn word(input: &str) -> Parsed<'_, &str> {
    todo!(
        "lesson 03, task 1: skip blanks, then take everything up to the next one (book chapter 3; stuck? cargo learn hint 3)"
    )
}

/// A word after any blanks that is an unsigned integer.
pub fn number(input: &str) -> Parsed<'_, usize> {
    todo!(
        "lesson 03, task 1: digits only, and the word ends after them (book chapter 3; stuck? cargo learn hint 3)"
    )
}

// Task 2: sizes and shapes.

/// An integer below 2^64, without leading blanks. Negative sizes are invalid: an unknown size is written `?`.
fn size<T: FromStr>(input: &str) -> Parsed<'_, T> {
    context("a size below 2^64", map_res(digit1, str::parse)).parse(input)
}

/// One size of an operand: a number, `?`, or `%name`.
pub fn dim(input: &str) -> Parsed<'_, Dim> {
    todo!("lesson 03, task 2: one of the three (book chapter 3; stuck? cargo learn hint 3)")
}

/// Sizes in parentheses, separated by commas; `()` is the shape of a scalar.
pub fn shape<'a, T>(input: &'a str, size: impl Fn(&'a str) -> Parsed<'a, T>) -> Parsed<'a, Vec<T>> {
    todo!(
        "lesson 03, task 2: brackets around nothing, or around sizes with commas between them (book chapter 3; stuck? cargo learn hint 3)"
    )
}

// Given: the small parts of fields.

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

/// The key before a `=`: all characters up to the next `=` or blank, at least one.
fn key(input: &str) -> Parsed<'_, &str> {
    take_till1(|c| is_blank(c) || c == '=').parse(input)
}

/// The name of an operand, as a whole word. It cannot contain `=`: in a shape field, the name is a [`key`] and ends at the
/// first `=`.
fn operand(input: &str) -> Parsed<'_, &str> {
    terminated(key, word_end).parse(input)
}

fn equals(input: &str) -> Parsed<'_, char> {
    context("`=`", char('=')).parse(input)
}

// Task 3: the four kinds of fields.

/// `key=value`: the value is the rest of the word, which may be empty and may contain `=`.
fn param(input: &str) -> Parsed<'_, Field<'_>> {
    todo!(
        "lesson 03, task 3: a key, `=`, and the rest of the word (book chapter 3; stuck? cargo learn hint 3)"
    )
}

/// `key=(sizes)dtype`, after the `@`.
fn attr(input: &str) -> Parsed<'_, Field<'_>> {
    todo!(
        "lesson 03, task 3: a key, `=`, a shape of plain sizes, an element type (book chapter 3; stuck? cargo learn hint 3)"
    )
}

/// `key=operand`, after the `$`.
fn input_name(input: &str) -> Parsed<'_, Field<'_>> {
    todo!("lesson 03, task 3: a key, `=`, an operand (book chapter 3; stuck? cargo learn hint 3)")
}

/// `operand=(sizes)dtype`, after the `#`.
fn operand_shape(input: &str) -> Parsed<'_, Field<'_>> {
    todo!(
        "lesson 03, task 3: the name of an operand (a `key`), `=`, a shape, an element type or `null` (book chapter 3; stuck? cargo learn hint 3)"
    )
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

// Task 4: a whole line.

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

/// Reads one operator line.
///
/// # Errors
/// The first position at which the line violates the grammar.
pub fn operator_line(line: &str) -> Result<Line<'_>, Stop<'_>> {
    whole(operator, line)
}

/// A type, a name, the numbers of inputs and outputs, their names, and fields.
fn operator(input: &str) -> Parsed<'_, Line<'_>> {
    todo!(
        "lesson 03, task 4: one part after the other, each from where the last one stopped (book chapter 3; stuck? cargo learn hint 3)"
    )
}

/// `count` operand names, each after blanks. The count comes from a file and may be huge, so nothing is reserved for it.
fn operands<'a>(input: &'a str, count: usize, wanted: &'static str) -> Parsed<'a, Vec<&'a str>> {
    todo!("lesson 03, task 4: exactly `count` operands (book chapter 3; stuck? cargo learn hint 3)")
}

// Task 5: from lines to a graph.

/// Adds the operator of a line to a graph, and connects it to its inputs, which earlier operators compute, and to its
/// outputs. The fields of the line are ignored.
///
/// # Errors
/// [`Unlinked`] with the offending name. The operator is then in the graph without some of its connections, unless its
/// own name is a duplicate.
pub fn link<'a>(graph: &mut Graph, line: &Line<'a>) -> Result<OperatorId, Unlinked<'a>> {
    todo!(
        "lesson 03, task 5: the operator, its inputs by name, and new operands for its outputs (book chapter 3; stuck? cargo learn hint 3)"
    )
}
