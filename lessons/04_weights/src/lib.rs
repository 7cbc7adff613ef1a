//! Lesson 04: typed values, the archive of weights, and weights that are read when they are needed.
//!
//! The page of the book: `book/src/lessons/04_weights.md`. Replace each `todo!` by code. This is the only file to edit.
//!
//! A parser is a function from bytes to the rest of them and what was found before the rest. nom has parsers for
//! numbers, such as `le_u32`: four bytes, the least significant one first.

use half::{bf16, f16};
use ixion::op::{LayerError, WeightSource};
use ixion::pnnx::Value;
use ixion::pnnx::archive::{
    ArchiveError, ArchiveFile, Entry, Header, LOCAL_LENGTH, LOCAL_SIGNATURE, ONES_32, Sizes, for_each_piece,
};
use ixion::pnnx::value::{all, as_bool, as_complex, as_float, as_int, parse_complex};
use ixion::tensor::{DType, Tensor};
use nom::bytes::complete::tag;
use nom::multi::length_data;
use nom::number::complete::{le_u16, le_u32, le_u64};
use nom::{IResult, Parser};
use std::sync::{Arc, OnceLock};

// Task 1: from text to values.

/// A value that is not a list: `True` or `False`, a number, a complex number, or else a word.
pub fn parse_scalar(text: &str) -> Value {
    todo!(
        "lesson 04, task 1: the two bools, then numbers, complex numbers, and words (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// An int or a float. A number starts with a digit, or with `-` and a digit; `.5`, `inf`, `3abc` and `1E5` are none.
///
/// Digits alone are an int, or a float where they do not fit 64 bits. A float has a `.` or an `e`.
pub fn parse_number(text: &str) -> Option<Value> {
    todo!(
        "lesson 04, task 1: digits alone, or a float with a `.` or an `e` (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// Whether a text starts with a digit, or with `-` and a digit.
pub fn starts_like_a_number(text: &str) -> bool {
    todo!(
        "lesson 04, task 1: without its `-`, if it has one, it starts with a digit (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// The text between the brackets of a list.
pub fn list_body(raw: &str) -> Option<&str> {
    let round = raw.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    round.or_else(|| raw.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')))
}

/// What stands between the commas of a list. A comma inside inner brackets belongs to an element; one at the end, as in
/// Python's `(1,)`, adds no element. A bracket that closes nothing is a letter like any other.
pub fn items(body: &str) -> Vec<&str> {
    todo!(
        "lesson 04, task 1: count how many brackets are open, and split at the commas outside of all (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// A list, as the narrowest kind that holds all its elements: bools, ints, floats, complex numbers, or else texts.
pub fn parse_list(body: &str) -> Value {
    todo!(
        "lesson 04, task 1: one kind after the other, the narrowest first (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// Any value. What contains a `%` is a capture of a pattern graph and stays text, even inside a list.
pub fn parse_value(raw: &str) -> Value {
    todo!(
        "lesson 04, task 1: the rules in their order: `%`, nothing, lists, all else (book chapter 4; stuck? cargo learn hint 4)"
    )
}

// Task 2: the header of an entry, and its large numbers.

/// The fixed part of a local header, signature included.
pub fn local_header(input: &[u8]) -> IResult<&[u8], Header> {
    todo!(
        "lesson 04, task 2: the signature, a version that nobody needs, and the fields (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// The fields from the flags to the length of the extra blocks.
pub fn header_fields(input: &[u8]) -> IResult<&[u8], Header> {
    todo!(
        "lesson 04, task 2: nine numbers in a row; time and date are not kept (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// The body of the zip64 extra, which has the number 1.
///
/// Extra blocks stand side by side: two bytes for the number of a block, two for the length of its body, the body.
pub fn zip64_extra(mut extras: &[u8]) -> Option<&[u8]> {
    todo!(
        "lesson 04, task 2: from block to block until one has the number 1 (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// The number and the body of one extra block.
pub fn extra(input: &[u8]) -> IResult<&[u8], (u16, &[u8])> {
    todo!(
        "lesson 04, task 2: a number, a length, and as many bytes (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// The sizes in a header and the position beside them, each of which the zip64 extra among `extras` replaces where it is
/// full of ones: first the size, then the packed size, then the position. What is not replaced is not in the extra either.
///
/// `None` when a number is missing.
pub fn sizes(header: &Header, offset: u32, extras: &[u8]) -> Option<Sizes> {
    todo!(
        "lesson 04, task 2: each field, or the next number of the extra (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// A field, or the next number where the field is full of ones.
pub fn widen(field: u32, numbers: &[u8]) -> IResult<&[u8], u64> {
    todo!(
        "lesson 04, task 2: a 64-bit number, or nothing read at all (book chapter 4; stuck? cargo learn hint 4)"
    )
}

// Task 3: from entry to entry.

/// The entry whose local header begins at `position`. Its data are not read.
///
/// # Errors
/// [`ArchiveError`] when there is no header, when the file ends before the header, the name or the data do, when sizes
/// are missing or contradict each other, and when the data are not stored as they are.
pub fn entry_at(file: &ArchiveFile, position: u64) -> Result<Entry, ArchiveError> {
    todo!(
        "lesson 04, task 3: the header, the name and the extra blocks behind it, and where the data begin (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// All entries, found by going from header to header: behind the data of one stands the header of the next. The walk ends
/// where no local header begins.
///
/// # Errors
/// As [`entry_at`], and [`ArchiveError::Limit`] when there are more entries than the limits allow.
pub fn walk(file: &ArchiveFile) -> Result<Vec<Entry>, ArchiveError> {
    todo!(
        "lesson 04, task 3: as long as there is a header, its entry, then behind its data (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// The CRC-32 of an entry's data. It equals [`Entry::crc32`] where they are undamaged.
///
/// # Errors
/// As [`for_each_piece`].
pub fn checksum(file: &ArchiveFile, entry: &Entry) -> Result<u32, ArchiveError> {
    todo!(
        "lesson 04, task 3: every piece goes through the hasher (book chapter 4; stuck? cargo learn hint 4)"
    )
}

// Task 4: from bytes to numbers.

/// The number of elements of a shape, 1 for a scalar, if their bytes fit the machine's address space.
///
/// Axes of size 0 do not hide an overflow of the others: strides are computed from them all the same.
pub fn element_count(dtype: DType, shape: &[usize]) -> Option<usize> {
    todo!("lesson 04, task 4: a product that must not overflow (book chapter 4; stuck? cargo learn hint 4)")
}

/// Little-endian elements as f32. Rounds f64.
///
/// `None` when the elements are no floats. Bytes at the end that do not make up an element are left out.
pub fn decode_floats(dtype: DType, bytes: &[u8]) -> Option<Vec<f32>> {
    todo!(
        "lesson 04, task 4: by the element type: 4, 8 or 2 bytes for each element (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// Cuts bytes into pieces of `N` and makes an element of each.
fn chunks<const N: usize>(bytes: &[u8], element: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (elements, _rest) = bytes.as_chunks::<N>();
    elements.iter().map(|&bytes| element(bytes)).collect()
}

// Task 5: a weight that is read when it is needed.

/// A weight: element type and shape at once, its elements when they are asked for.
///
/// Until [`decode`](RuntimeAttribute::decode) is called, the bytes stay in the file. They are read once, into aligned
/// memory; clones share what was read. [`clear`](RuntimeAttribute::clear) lets go of it.
#[derive(Debug, Clone)]
pub struct RuntimeAttribute {
    source: WeightSource,
    decoded: Arc<OnceLock<Tensor>>,
}

impl RuntimeAttribute {
    /// A weight of which nothing is read yet.
    pub fn new(source: WeightSource) -> Self {
        Self { source, decoded: Arc::default() }
    }

    /// The elements; read or made at the first call.
    ///
    /// # Errors
    /// [`LayerError::Weight`] when the file lacks them, holds another number of bytes or cannot be read.
    pub fn decode(&self) -> Result<&Tensor, LayerError> {
        todo!(
            "lesson 04, task 5: what is there already, or load it and keep it (book chapter 4; stuck? cargo learn hint 4)"
        )
    }

    /// True once the elements were read and not let go.
    pub fn is_decoded(&self) -> bool {
        self.decoded.get().is_some()
    }

    /// Lets go of the elements. Clones made before keep theirs; the memory is free when the last of them lets go.
    pub fn clear(&mut self) {
        todo!("lesson 04, task 5: an empty lock of one's own (book chapter 4; stuck? cargo learn hint 4)")
    }
}
