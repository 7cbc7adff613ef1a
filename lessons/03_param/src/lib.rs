//! Lesson 03: the PNNX graph, read with nom.
//!
//! The page of the book: `book/src/lessons/03_param.md`. Replace each `todo!` by code. This is the only file to edit.
//!
//! A parser is a function from a text to the rest of it and what was found before the rest: see [`Parsed`].

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

/// What a parser of this grammar returns: the rest of the line, and what it found before it; or where it stopped.
pub type Parsed<'a, T> = IResult<&'a str, T, Stop<'a>>;

// Given: what a line becomes.

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

// Given: what separates words.

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

// Task 1: words and numbers.

/// A word, after any blanks: all characters up to the next blank or the end of the line, at least one.
pub fn word(input: &str) -> Parsed<'_, &str> {
    todo!(
        "lesson 03, task 1: skip blanks, take everything up to the next one (book chapter 3; stuck? cargo learn hint 3)"
    )
}

/// A word that is a whole number, after any blanks.
pub fn number(input: &str) -> Parsed<'_, usize> {
    todo!(
        "lesson 03, task 1: digits only, and the word ends after them (book chapter 3; stuck? cargo learn hint 3)"
    )
}

// Task 2: sizes and shapes.

/// A whole number below 2^64, with no blanks before it. A negative size is none: the text has `?` for what is not known.
fn size<T: FromStr>(input: &str) -> Parsed<'_, T> {
    context("a size below 2^64", map_res(digit1, str::parse)).parse(input)
}

/// One size of an operand: a number, `?`, or `%name`.
pub fn dim(input: &str) -> Parsed<'_, Dim> {
    todo!("lesson 03, task 2: one of three (book chapter 3; stuck? cargo learn hint 3)")
}

/// Sizes between round brackets, separated by commas; `()` is the shape of a scalar.
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

/// The element type of an operand: as [`dtype`], or `null` for what is no tensor.
fn operand_dtype(input: &str) -> Parsed<'_, Option<DType>> {
    let known = |word: &str| if word == "null" { Some(None) } else { DType::from_name(word).map(Some) };
    context(DTYPE, map_opt(take_till1(is_blank), known)).parse(input)
}

/// What stands before a `=`.
fn key(input: &str) -> Parsed<'_, &str> {
    take_till1(|c| is_blank(c) || c == '=').parse(input)
}

/// The name of an operand, as a whole word. It cannot hold `=`, or a shape could not be written for it: what stands
/// before that `=` is a [`key`].
fn operand(input: &str) -> Parsed<'_, &str> {
    terminated(key, word_end).parse(input)
}

fn equals(input: &str) -> Parsed<'_, char> {
    context("`=`", char('=')).parse(input)
}

// Task 3: the four kinds of fields.

/// `key=value`: the value is the rest of the word, which may be nothing and may hold `=`.
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

// Task 4: a whole line.

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

/// Reads one operator line.
///
/// # Errors
/// The first place at which the line is not as the grammar says.
pub fn operator_line(line: &str) -> Result<Line<'_>, Stop<'_>> {
    whole(operator, line)
}

/// A type, a name, how many inputs and outputs there are, their names, and fields.
fn operator(input: &str) -> Parsed<'_, Line<'_>> {
    todo!(
        "lesson 03, task 4: one part after the other, each from where the last one stopped (book chapter 3; stuck? cargo learn hint 3)"
    )
}

/// As many names of operands as a count says, each after blanks. The count comes from a file: nothing is reserved for it.
fn operands<'a>(input: &'a str, count: usize, wanted: &'static str) -> Parsed<'a, Vec<&'a str>> {
    todo!(
        "lesson 03, task 4: as many operands as the count says, no more and no fewer (book chapter 3; stuck? cargo learn hint 3)"
    )
}

// Task 5: from lines to a graph.

/// Adds the operator of a line to a graph, and connects it with the operands that it reads, which operators before it
/// compute, and with those that it computes. Fields are left out.
///
/// # Errors
/// [`Unlinked`] with the name that is at fault. Then the operator is in the graph, without some of its connections.
pub fn link<'a>(graph: &mut Graph, line: &Line<'a>) -> Result<OperatorId, Unlinked<'a>> {
    todo!(
        "lesson 03, task 5: the operator, its inputs by name, and new operands for its outputs (book chapter 3; stuck? cargo learn hint 3)"
    )
}
