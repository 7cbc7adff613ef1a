//! Lesson 04: typed values, the archive of weights, and weights that are read when they are needed.
//!
//! The page of the book: `book/src/lessons/04_weights.md`. Replace each `todo!` by code. This is the only file to edit.
//!
//! A parser takes bytes, and returns the rest of the bytes and the value that it parsed before the rest. nom has parsers
//! for numbers, such as `le_u32`: four bytes, the least significant one first.

use half::{bf16, f16};
use ixion::course::archive::{
    ArchiveError, ArchiveFile, Entry, Header, LOCAL_LENGTH, LOCAL_SIGNATURE, ONES_32, Sizes, for_each_piece,
};
use ixion::course::value::{all, as_bool, as_complex, as_float, as_int, parse_complex};
use ixion::op::{Result, WeightSource};
use ixion::pnnx::Value;
use ixion::tensor::{DType, Tensor};
use nom::bytes::complete::tag;
use nom::multi::length_data;
use nom::number::complete::{le_u16, le_u32, le_u64};
use nom::{IResult, Parser};
use std::sync::{Arc, OnceLock};

// Task 1: from text to values.

/// Parses a value that is not a list: `True` or `False`, a number, a complex number, or else a word.
pub fn parse_scalar(text: &str) -> Value {
    todo!(
        "lesson 04, task 1: the two bools, then numbers, complex numbers, and words (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// Parses an int or a float. A number starts with a digit, or with `-` and a digit; `.5`, `inf`, `3abc` and `1E5` are not
/// numbers.
///
/// Digits alone are an int, or a float if they do not fit 64 bits. A float has a `.` or an `e`.
pub fn parse_number(text: &str) -> Option<Value> {
    todo!(
        "lesson 04, task 1: digits alone, or a float with a `.` or an `e` (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// Returns true if a text starts with a digit, or with `-` and a digit.
pub fn starts_like_a_number(text: &str) -> bool {
    todo!(
        "lesson 04, task 1: after an optional `-`, it starts with a digit (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// The text between the brackets of a list, or `None` if `raw` is not a list.
pub fn list_body(raw: &str) -> Option<&str> {
    let round = raw.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    round.or_else(|| raw.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')))
}

/// Splits the body of a list at its commas. A comma inside inner brackets belongs to an element; a trailing comma, as in
/// Python's `(1,)`, adds no element. An unmatched closing bracket is an ordinary character.
pub fn items(body: &str) -> Vec<&str> {
    todo!(
        "lesson 04, task 1: count the open brackets, and split at the commas outside all of them (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// Parses the body of a list as the narrowest kind that holds all its elements: bools, ints, floats, complex numbers, or
/// else strings.
pub fn parse_list(body: &str) -> Value {
    todo!(
        "lesson 04, task 1: try one kind after the other, the narrowest first (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// Parses any value. Text that contains a `%` is a capture of a pattern graph and stays text, even inside a list.
pub fn parse_value(raw: &str) -> Value {
    todo!(
        "lesson 04, task 1: the rules in order: `%`, nothing, lists, everything else (book chapter 4; stuck? cargo learn hint 4)"
    )
}

// Task 2: the header of an entry, and its large numbers.

/// Reads the fixed part of a local header, including the signature.
pub fn local_header(input: &[u8]) -> IResult<&[u8], Header> {
    todo!(
        "lesson 04, task 2: the signature, a version to ignore, and the fields (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// Reads the fields from the flags to the length of the extra blocks.
pub fn header_fields(input: &[u8]) -> IResult<&[u8], Header> {
    todo!(
        "lesson 04, task 2: nine numbers in a row; time and date are not kept (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// The body of the zip64 extra, the extra block with the number 1.
///
/// Extra blocks are contiguous. Each has a two-byte number, a two-byte length of its body, and the body.
pub fn zip64_extra(mut extras: &[u8]) -> Option<&[u8]> {
    todo!(
        "lesson 04, task 2: block by block until one has the number 1 (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// Reads one extra block: its number and its body.
pub fn extra(input: &[u8]) -> IResult<&[u8], (u16, &[u8])> {
    todo!(
        "lesson 04, task 2: a number, a length, and that many bytes (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// The sizes in a header, and the position `offset`. The zip64 extra among `extras` replaces each field whose bits are all
/// set, in this order: size, packed size, position. It holds only the replaced fields.
///
/// `None` if a replacement is missing.
pub fn sizes(header: &Header, offset: u32, extras: &[u8]) -> Option<Sizes> {
    todo!(
        "lesson 04, task 2: each field, or the next number of the extra (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// Widens a field to 64 bits, reading the next number if all its bits are set.
pub fn widen(field: u32, numbers: &[u8]) -> IResult<&[u8], u64> {
    todo!(
        "lesson 04, task 2: a 64-bit number, or the field itself without reading anything (book chapter 4; stuck? cargo learn hint 4)"
    )
}

// Task 3: from entry to entry.

/// The entry whose local header starts at `position`. Its data are not read.
///
/// # Errors
/// [`ArchiveError`] if there is no header, if the file ends within the header, the name or the data, if sizes are missing
/// or contradict each other, or if the data are not stored plainly.
pub fn entry_at(file: &ArchiveFile, position: u64) -> Result<Entry, ArchiveError> {
    todo!(
        "lesson 04, task 3: the header, the name and extra blocks after it, and the start of the data (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// All entries, found by walking the local headers: the header of an entry follows the data of the one before. The walk
/// ends at the first position without a local header.
///
/// # Errors
/// Same as [`entry_at`], and [`ArchiveError::Limit`] if there are more entries than the limits allow.
pub fn walk(file: &ArchiveFile) -> Result<Vec<Entry>, ArchiveError> {
    todo!(
        "lesson 04, task 3: while there is a header, take its entry and move past its data (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// The CRC-32 of an entry's data. It equals [`Entry::crc32`] if the data are undamaged.
///
/// # Errors
/// Same as [`for_each_piece`].
pub fn checksum(file: &ArchiveFile, entry: &Entry) -> Result<u32, ArchiveError> {
    todo!("lesson 04, task 3: feed every piece to the hasher (book chapter 4; stuck? cargo learn hint 4)")
}

// Task 4: from bytes to numbers.

/// The number of elements of a shape (1 for a scalar), or `None` if their bytes do not fit the address space.
///
/// An axis of size 0 does not hide an overflow of the other axes: strides are computed from them all the same.
pub fn element_count(dtype: DType, shape: &[usize]) -> Option<usize> {
    todo!("lesson 04, task 4: a product that must not overflow (book chapter 4; stuck? cargo learn hint 4)")
}

/// Decodes little-endian elements to f32. Rounds f64.
///
/// `None` if `dtype` is not f32, f64, f16 or bf16. Trailing bytes that do not form a complete element are ignored.
pub fn decode_floats(dtype: DType, bytes: &[u8]) -> Option<Vec<f32>> {
    todo!(
        "lesson 04, task 4: depending on the element type, 4, 8 or 2 bytes per element (book chapter 4; stuck? cargo learn hint 4)"
    )
}

/// Splits bytes into chunks of `N`, and decodes one element from each.
fn chunks<const N: usize>(bytes: &[u8], element: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    let (elements, _rest) = bytes.as_chunks::<N>();
    elements.iter().map(|&bytes| element(bytes)).collect()
}

// Task 5: a weight that is read when it is needed.

/// A weight with a known element type and shape, whose elements are read on demand.
///
/// Until [`decode`](RuntimeAttribute::decode) is called, the bytes stay in the file. They are read once, into aligned
/// memory, and shared by clones. [`clear`](RuntimeAttribute::clear) releases them.
#[derive(Debug, Clone)]
pub struct RuntimeAttribute {
    source: WeightSource,
    decoded: Arc<OnceLock<Tensor>>,
}

impl RuntimeAttribute {
    /// A weight whose elements have not been read yet.
    pub fn new(source: WeightSource) -> Self {
        Self { source, decoded: Arc::default() }
    }

    /// The elements, read or generated by the first call.
    ///
    /// # Errors
    /// [`LayerError::Weight`](ixion::op::LayerError::Weight) if the file lacks the elements, has the wrong number of bytes or
    /// cannot be read.
    pub fn decode(&self) -> Result<&Tensor> {
        todo!(
            "lesson 04, task 5: return the elements if they are there, otherwise load and keep them (book chapter 4; stuck? cargo learn hint 4)"
        )
    }

    /// Returns true if the elements are in memory.
    pub fn is_decoded(&self) -> bool {
        self.decoded.get().is_some()
    }

    /// Releases the elements. Existing clones keep theirs; the memory is freed when the last clone releases it.
    pub fn clear(&mut self) {
        todo!(
            "lesson 04, task 5: an empty lock that is not shared (book chapter 4; stuck? cargo learn hint 4)"
        )
    }
}
