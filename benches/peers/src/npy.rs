//! The part of NumPy's format that the comparison needs: row-major arrays of f32 and i64.

use crate::protocol::text;
use std::path::Path;

/// The elements of a file.
pub(crate) enum Data {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

/// An array of a file, with its shape.
pub(crate) struct Array {
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Data,
}

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";

pub(crate) fn load(path: &Path) -> Result<Array, String> {
    let bytes = std::fs::read(path).map_err(text)?;
    parse(&bytes).ok_or_else(|| format!("{}: not a row-major array of f32 or i64", path.display()))
}

fn parse(bytes: &[u8]) -> Option<Array> {
    let (len, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<2>()?;
    let (header, data) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
    let header = std::str::from_utf8(header).ok()?;
    let shape = header.split_once("'shape': (")?.1.split_once(')')?.0;
    let shape = shape.split(',').map(str::trim).filter(|word| !word.is_empty());
    let shape = shape.map(|word| word.parse().ok()).collect::<Option<Vec<usize>>>()?;
    if header.contains("'fortran_order': True") {
        return None;
    }
    let data = if header.contains("'<f4'") {
        Data::F32(data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    } else if header.contains("'<i8'") {
        Data::I64(data.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
    } else {
        return None;
    };
    Some(Array { shape, data })
}

pub(crate) fn save(path: &Path, shape: &[usize], data: impl Iterator<Item = f32>) -> Result<(), String> {
    let shape: String = shape.iter().map(|len| format!("{len},")).collect();
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}");
    // In the format, the data begins at a multiple of 64 bytes, after a line feed.
    let used = MAGIC.len() + 2 + header.len() + 1;
    header.push_str(&" ".repeat(used.next_multiple_of(64) - used));
    header.push('\n');
    let len = u16::try_from(header.len()).map_err(text)?;
    let mut bytes = [MAGIC, &len.to_le_bytes(), header.as_bytes()].concat();
    data.for_each(|number| bytes.extend(number.to_le_bytes()));
    std::fs::write(path, bytes).map_err(text)
}
