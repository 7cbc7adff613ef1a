//! NumPy's `.npz` files: named arrays in an uncompressed zip archive.

use super::read_array;
use crate::Limits;
use crate::file::{in_file, io_error, open};
use crate::{Result, Tensor, TensorError};
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom, Take};
use std::path::Path;

/// The size of an end record followed by the longest possible comment.
const MAX_END_LEN: u64 = 22 + 0xffff;

impl Tensor {
    /// Reads all arrays of an `.npz` file written by `numpy.savez`, in the order of the file.
    ///
    /// # Errors
    /// Returns an error if the file is missing, broken or written by `numpy.savez_compressed`; otherwise as
    /// [`Tensor::load_npy`]. The error names the file.
    pub fn load_npz(path: impl AsRef<Path>, limits: &Limits) -> Result<Vec<(String, Self)>> {
        let path = path.as_ref();
        in_file(path, Archive::open(path).and_then(|archive| archive.read_all(limits)))
    }

    /// Reads the bytes of an `.npz` file, as [`Tensor::load_npz`] does.
    ///
    /// # Errors
    /// As [`Tensor::load_npz`].
    pub fn from_npz_bytes(bytes: &[u8], limits: &Limits) -> Result<Vec<(String, Self)>> {
        Archive::new(Box::new(Cursor::new(bytes)), bytes.len() as u64)?.read_all(limits)
    }

    /// Reads one array of an `.npz` file by its name, without `.npy`.
    ///
    /// # Errors
    /// As [`Tensor::load_npz`]; [`TensorError::InvalidArgument`], with the existing names, if `name` does not exist.
    pub fn load_npz_entry(path: impl AsRef<Path>, name: &str, limits: &Limits) -> Result<Self> {
        let path = path.as_ref();
        in_file(path, Archive::open(path).and_then(|archive| archive.read_one(name, limits)))
    }
}

/// A file or bytes.
trait Source: Read + Seek {}

impl<R: Read + Seek> Source for R {}

/// An open archive.
struct Archive<'a> {
    file: Box<dyn Source + 'a>,
    entries: Vec<Entry>,
}

impl<'a> Archive<'a> {
    fn open(path: &Path) -> Result<Self> {
        let (file, len) = open(path)?;
        let len = len.ok_or_else(|| malformed("expected a seekable file"))?;
        Self::new(Box::new(BufReader::new(file)), len)
    }

    /// Reads the central directory of an archive of `len` bytes.
    fn new(mut file: Box<dyn Source + 'a>, len: u64) -> Result<Self> {
        let (start, size) = find_directory(&mut *file, len)?;
        let bytes = read_at(&mut *file, start, size)?;
        let mut entries = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (entry, entry_len) = parse_entry(rest)?;
            if entry.size > len {
                return Err(malformed(format!("array {:?} is larger than the file", entry.name)));
            }
            entries.push(entry);
            rest = rest.get(entry_len..).ok_or_else(|| malformed("its directory is cut off"))?;
        }
        Ok(Self { file, entries })
    }

    fn read_all(mut self, limits: &Limits) -> Result<Vec<(String, Tensor)>> {
        let total = self.entries.iter().fold(0u64, |total, entry| total.saturating_add(entry.size));
        limits.check_total("the archive", total)?;
        let entries = self.entries.into_iter();
        entries.map(|entry| Ok((entry.name.clone(), entry.read(&mut *self.file, limits)?))).collect()
    }

    fn read_one(mut self, name: &str, limits: &Limits) -> Result<Tensor> {
        if let Some(entry) = self.entries.iter().find(|entry| entry.name == name) {
            return entry.read(&mut *self.file, limits);
        }
        let names: Vec<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
        let names = names.join(", ");
        Err(TensorError::InvalidArgument(format!(
            "unknown array {name:?}; the archive contains only: {names}"
        )))
    }
}

/// One array, as the central directory describes it.
struct Entry {
    name: String,
    method: u16,
    flags: u16,
    crc: u32,
    size: u64,
    /// The offset of the local header in bytes.
    offset: u64,
}

impl Entry {
    fn read(&self, file: &mut dyn Source, limits: &Limits) -> Result<Tensor> {
        if self.flags & 1 != 0 || self.method != 0 {
            return Err(TensorError::Unsupported {
                found: format!("the compressed or encrypted array {:?}", self.name),
                advice: "it was saved by np.savez_compressed; use np.savez".into(),
            });
        }
        let local = read_at(file, self.offset, 30)?;
        let name_len = field(&local, 26, 2)?;
        let start = self.offset.checked_add(30 + name_len + field(&local, 28, 2)?);
        if field(&local, 0, 4)? != 0x0403_4b50 {
            return Err(malformed(format!("array {:?} is not at the offset in the directory", self.name)));
        }
        let start = start.ok_or_else(|| malformed("it has an entry past the end of the file"))?;
        file.seek(SeekFrom::Start(start)).map_err(io_error("read"))?;
        let mut reader = Summed { inner: file.take(self.size), crc: crc32fast::Hasher::new() };
        let member = format!("{}.npy", self.name);
        let tensor = in_file(Path::new(&member), read_array(&mut reader, Some(self.size), limits))?;
        if reader.crc.finalize() != self.crc {
            return Err(malformed(format!("array {:?} is damaged: its checksum is wrong", self.name)));
        }
        Ok(tensor)
    }
}

/// A reader that computes a checksum of what it reads.
struct Summed<'a> {
    inner: Take<&'a mut dyn Source>,
    crc: crc32fast::Hasher,
}

impl Read for Summed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(buffer)?;
        self.crc.update(buffer.get(..len).unwrap_or_default());
        Ok(len)
    }
}

/// The offset and size of the central directory in bytes.
fn find_directory(file: &mut dyn Source, len: u64) -> Result<(u64, u64)> {
    let tail_start = len.saturating_sub(MAX_END_LEN);
    let tail = read_at(file, tail_start, len - tail_start)?;
    let is_end = |&at: &usize| {
        let comment = tail.len().saturating_sub(at + 22) as u64;
        tail.get(at..).is_some_and(|rest| rest.starts_with(b"PK\x05\x06"))
            && field(&tail, at + 20, 2).is_ok_and(|len| len == comment)
    };
    let end = (0..tail.len()).rev().find(is_end);
    let end = end.ok_or_else(|| malformed("it has no end record; is it a whole .npz file?"))?;
    let (mut size, mut start) = (field(&tail, end + 12, 4)?, field(&tail, end + 16, 4)?);
    if size == 0xffff_ffff || start == 0xffff_ffff {
        let locator =
            (tail_start + end as u64).checked_sub(20).ok_or_else(|| malformed("it has no locator"))?;
        let locator = read_at(file, locator, 20)?;
        let record = read_at(file, field(&locator, 8, 8)?, 56)?;
        if field(&locator, 0, 4)? != 0x0706_4b50 || field(&record, 0, 4)? != 0x0606_4b50 {
            return Err(malformed("its 64-bit end record is missing"));
        }
        (size, start) = (field(&record, 40, 8)?, field(&record, 48, 8)?);
    }
    match start.checked_add(size) {
        Some(end) if end <= len => Ok((start, size)),
        _ => Err(malformed("its directory is past the end of the file")),
    }
}

/// The first entry of a central directory, and its size in bytes.
fn parse_entry(bytes: &[u8]) -> Result<(Entry, usize)> {
    if field(bytes, 0, 4)? != 0x0201_4b50 {
        return Err(malformed("its directory contains something other than entries"));
    }
    let at = |at, len| field(bytes, at, len);
    let name_len = at(28, 2)? as usize;
    let extra_end = 46 + name_len + at(30, 2)? as usize;
    let cut = || malformed("its directory is cut off");
    let name = bytes.get(46..46 + name_len).ok_or_else(cut)?;
    let extra = bytes.get(46 + name_len..extra_end).ok_or_else(cut)?;
    let name = String::from_utf8_lossy(name);
    let Some(name) = name.strip_suffix(".npy") else {
        return Err(malformed(format!("it holds {name:?}, which is not an .npy file")));
    };
    let mut large = wide_fields(extra);
    let mut widen = |value: u64| match value {
        0xffff_ffff => large.next().ok_or_else(|| malformed("a 64-bit size is missing")),
        value => Ok(value),
    };
    let size = widen(at(24, 4)?)?;
    widen(at(20, 4)?)?;
    let entry = Entry {
        name: name.into(),
        method: at(10, 2)? as u16,
        flags: at(8, 2)? as u16,
        crc: at(16, 4)? as u32,
        size,
        offset: widen(at(42, 4)?)?,
    };
    Ok((entry, extra_end + at(32, 2)? as usize))
}

/// The 64-bit values of extra field 1 (zip64), which replace those that do not fit 32 bits.
fn wide_fields(mut extra: &[u8]) -> impl Iterator<Item = u64> {
    let mut numbers = &[][..];
    while let (Ok(id), Ok(len)) = (field(extra, 0, 2), field(extra, 2, 2)) {
        let Some((data, rest)) = extra.get(4..).and_then(|rest| rest.split_at_checked(len as usize)) else {
            break;
        };
        if id == 1 {
            numbers = data;
        }
        extra = rest;
    }
    numbers.chunks_exact(8).map(little_endian)
}

fn read_at(file: &mut dyn Source, start: u64, len: u64) -> Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start)).map_err(io_error("read"))?;
    let mut bytes = Vec::new();
    file.take(len).read_to_end(&mut bytes).map_err(io_error("read"))?;
    if bytes.len() as u64 == len { Ok(bytes) } else { Err(malformed("it ends too early")) }
}

/// The little-endian integer of `len` bytes at `at`.
fn field(bytes: &[u8], at: usize, len: usize) -> Result<u64> {
    let bytes = bytes.get(at..).and_then(|bytes| bytes.get(..len));
    bytes.map(little_endian).ok_or_else(|| malformed("a record is cut off"))
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn malformed(problem: impl Into<String>) -> TensorError {
    TensorError::Malformed { format: ".npz file", problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An archive as written by `numpy.savez`: the sizes of each entry are in a 64-bit field of its local header.
    fn archive(arrays: &[(&str, &Tensor)], method: u16) -> Vec<u8> {
        let (mut bytes, mut directory) = (Vec::new(), Vec::new());
        for (name, tensor) in arrays {
            let mut data = Vec::new();
            tensor.write_npy(&mut data).unwrap();
            let (name, offset) = (format!("{name}.npy"), bytes.len() as u32);
            let mut common = [method, 0, 33].map(u16::to_le_bytes).concat();
            common.extend(crc32fast::hash(&data).to_le_bytes());
            bytes.extend(b"PK\x03\x04\x2d\0\0\0");
            bytes.extend(&common);
            bytes.extend([0xff; 8]);
            bytes.extend([name.len() as u16, 20].map(u16::to_le_bytes).concat());
            bytes.extend(name.bytes());
            bytes.extend([1u16, 16].map(u16::to_le_bytes).concat());
            bytes.extend([data.len() as u64; 2].map(u64::to_le_bytes).concat());
            bytes.extend(&data);
            directory.extend(b"PK\x01\x02\x2d\x03\x2d\0\0\0");
            directory.extend(&common);
            directory.extend([data.len() as u32; 2].map(u32::to_le_bytes).concat());
            directory.extend([name.len() as u16, 0, 0, 0, 0, 0, 0].map(u16::to_le_bytes).concat());
            directory.extend(offset.to_le_bytes());
            directory.extend(name.bytes());
        }
        let (start, count) = (bytes.len() as u32, arrays.len() as u16);
        bytes.extend(&directory);
        bytes.extend(b"PK\x05\x06\0\0\0\0");
        bytes.extend([count; 2].map(u16::to_le_bytes).concat());
        bytes.extend([directory.len() as u32, start].map(u32::to_le_bytes).concat());
        bytes.extend([0, 0]);
        bytes
    }

    fn load(bytes: &[u8]) -> Result<Vec<(String, Tensor)>> {
        let limits = Limits { max_tensor_bytes: 1 << 20, ..Limits::default() };
        Tensor::from_npz_bytes(bytes, &limits)
    }

    #[test]
    fn all_arrays_or_one() {
        let (x, y) = (Tensor::randn(&[3, 4], 1).unwrap(), Tensor::full(&[2], 7i64).unwrap());
        let bytes = archive(&[("x", &x), ("labels", &y)], 0);
        assert_eq!(load(&bytes).unwrap(), [("x".to_owned(), x), ("labels".to_owned(), y.clone())]);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        assert_eq!(Tensor::load_npz(file.path(), &Limits::default()).unwrap().len(), 2);
        let one = |name| Tensor::load_npz_entry(file.path(), name, &Limits::default());
        assert_eq!(one("labels").unwrap(), y);
        assert!(one("z").unwrap_err().to_string().contains("only: x, labels"));
        assert!(load(&archive(&[], 0)).unwrap().is_empty());
    }

    #[test]
    fn errors_give_a_reason() {
        let x = Tensor::randn(&[3, 4], 1).unwrap();
        let error = load(&archive(&[("x", &x)], 8)).unwrap_err().to_string();
        assert!(error.contains("np.savez_compressed; use np.savez"), "{error}");
        let mut damaged = archive(&[("x", &x)], 0);
        damaged[200] ^= 1;
        assert!(load(&damaged).unwrap_err().to_string().contains("checksum"));
        assert!(load(b"PK").unwrap_err().to_string().contains("end record"));
        let tiny = Limits { max_total_bytes: 100, ..Limits::default() };
        let error = Tensor::from_npz_bytes(&archive(&[("x", &x)], 0), &tiny).unwrap_err();
        assert!(error.to_string().contains("max_total_bytes"), "{error}");
    }

    #[test]
    fn sizes_of_64_bits() {
        let x = Tensor::randn(&[3], 1).unwrap();
        let small = archive(&[("x", &x)], 0);
        let end = small.len() - 22;
        let start = field(&small, end + 16, 4).unwrap();
        let mut bytes = small[..start as usize].to_vec();
        // The same entry, with sizes and offset moved to the extra field 1, after a field of another kind.
        let size = field(&small, start as usize + 24, 4).unwrap();
        let mut entry = small[start as usize..end].to_vec();
        entry[20..28].fill(0xff);
        entry[42..46].fill(0xff);
        entry[30] = 4 + 2 + 4 + 24;
        entry.extend([0x55, 0x55, 2, 0, 9, 9, 1, 0, 24, 0]);
        entry.extend([size, size, 0].map(u64::to_le_bytes).concat());
        bytes.extend(&entry);
        let record = bytes.len() as u64;
        bytes.extend(b"PK\x06\x06");
        bytes.extend([0; 36]);
        bytes.extend([entry.len() as u64, start].map(u64::to_le_bytes).concat());
        bytes.extend(b"PK\x06\x07\0\0\0\0");
        bytes.extend(record.to_le_bytes());
        bytes.extend([1, 0, 0, 0]);
        bytes.extend(&small[end..]);
        let end = bytes.len() - 22;
        bytes[end + 12..end + 20].fill(0xff);
        assert_eq!(load(&bytes).unwrap(), [("x".to_owned(), x)]);
        assert!(load(&bytes[1..]).is_err());
    }

    proptest! {
        #[test]
        fn random_damage_never_panics(position in 0usize..1000, byte: u8, cut in 0usize..1000) {
            let mut bytes = archive(&[("x", &Tensor::scalar(1u8)), ("y", &Tensor::scalar(2u8))], 0);
            let len = bytes.len();
            bytes[position % len] = byte;
            let _ = load(&bytes);
            bytes.truncate(cut % len);
            prop_assert!(load(&bytes).is_err());
        }
    }
}
