//! NumPy's `.npy` files: one array with its type and shape.
//!
//! Reads the format of `numpy.lib.format`, versions 1.0 to 3.0, in either byte order and in row-major or column-major
//! order. The size in the header is checked against [`Limits`] and the actual file size before anything is allocated.

mod header;
mod npz;

use super::bits::reverse_words;
use super::file::{in_file, io_error, open, write_atomically};
use super::{DType, Order, Result, Tensor};
use crate::Limits;
use header::malformed;
use std::io::{BufReader, Read, Write};
use std::path::Path;

/// The number of bytes that are converted at a time.
const CHUNK: usize = 1 << 16;

impl Tensor {
    /// Reads an `.npy` file (`numpy.load`). The result is contiguous whatever the order in the file.
    ///
    /// # Errors
    /// Returns an error if the file is missing or broken, the element type is not supported, or the size exceeds `limits`.
    /// The error names the file.
    pub fn load_npy(path: impl AsRef<Path>, limits: &Limits) -> Result<Self> {
        let path = path.as_ref();
        let load = || {
            let (file, len) = open(path)?;
            read_array(&mut BufReader::with_capacity(CHUNK, file), len, limits)
        };
        in_file(path, load())
    }

    /// Reads the bytes of an `.npy` file, as [`Tensor::load_npy`] does.
    ///
    /// # Errors
    /// As [`Tensor::load_npy`].
    pub fn from_npy_bytes(mut bytes: &[u8], limits: &Limits) -> Result<Self> {
        let len = bytes.len() as u64;
        read_array(&mut bytes, Some(len), limits)
    }

    /// Reads one array from a stream in `.npy` format and leaves the stream positioned after it, so that several arrays can
    /// follow one another.
    ///
    /// # Errors
    /// As [`Tensor::load_npy`].
    pub fn read_npy(reader: &mut impl Read, limits: &Limits) -> Result<Self> {
        read_array(reader, None, limits)
    }

    /// Writes an `.npy` file (`numpy.save`) atomically: to a temporary file in the same folder, which is then renamed.
    ///
    /// # Errors
    /// [`TensorError::Unsupported`](super::TensorError::Unsupported) for bf16 and c32, which NumPy does not have;
    /// [`TensorError::Io`](super::TensorError::Io) if writing fails. The error names the file.
    pub fn save_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        in_file(path, write_atomically(path, |mut writer| self.write_npy(&mut writer)))
    }

    /// Writes the tensor to a stream in `.npy` format, version 1.0, row-major, little-endian.
    ///
    /// # Errors
    /// As [`Tensor::save_npy`], or [`TensorError::Blocked`](super::TensorError::Blocked).
    pub fn write_npy(&self, writer: &mut impl Write) -> Result<()> {
        let header = header::write(self.dtype(), self.shape())?;
        writer.write_all(&header).map_err(io_error("write"))?;
        if cfg!(target_endian = "big") {
            return writer.write_all(&self.to_le_bytes()?).map_err(io_error("write"));
        }
        let plain = self.contiguous()?;
        writer.write_all(plain.view().bytes()?).map_err(io_error("write"))
    }
}

/// Reads header and elements. `available`, the total number of bytes if known, must match the header exactly.
fn read_array(reader: &mut dyn Read, available: Option<u64>, limits: &Limits) -> Result<Tensor> {
    let (header, header_len) = header::read(reader)?;
    let bytes = (header.shape.num_elements() * header.dtype.size()) as u64;
    limits.check_rank("the array", header.shape.rank())?;
    limits.check_tensor("the array", bytes)?;
    let dims: Vec<usize> = match header.order {
        Order::RowMajor => header.shape.to_vec(),
        Order::ColumnMajor => header.shape.iter().rev().copied().collect(),
    };
    let make = || Tensor::zeros(header.dtype, &dims);
    let tensor = match available.map(|len| len.saturating_sub(header_len)) {
        Some(found) if found != bytes => return Err(wrong_length(bytes, found)),
        Some(_) => fill(make()?, reader, header.big_endian)?,
        // The length of a stream is unknown: memory is allocated only as bytes arrive.
        None => {
            let mut arrived = Vec::new();
            reader.take(bytes).read_to_end(&mut arrived).map_err(io_error("read"))?;
            if (arrived.len() as u64) < bytes {
                return Err(wrong_length(bytes, arrived.len() as u64));
            }
            fill(make()?, &mut &arrived[..], header.big_endian)?
        }
    };
    match header.order {
        Order::RowMajor => Ok(tensor),
        Order::ColumnMajor => tensor.reverse_axes()?.contiguous(),
    }
}

fn wrong_length(wanted: u64, found: u64) -> super::TensorError {
    malformed(format!("expected {wanted} bytes of elements, got {found}"))
}

/// Reads all elements of a contiguous tensor.
fn fill(mut tensor: Tensor, reader: &mut dyn Read, big_endian: bool) -> Result<Tensor> {
    let dtype = tensor.dtype();
    let mut view = tensor.view_mut()?;
    if dtype == DType::Bool {
        let mut buffer = vec![0; CHUNK];
        for elements in view.slice::<bool>()?.chunks_mut(CHUNK) {
            let bytes = &mut buffer[..elements.len()];
            header::fill(reader, bytes)?;
            elements.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte != 0);
        }
        return Ok(tensor);
    }
    for bytes in view.bytes_mut()?.chunks_mut(CHUNK) {
        header::fill(reader, bytes)?;
        if big_endian != cfg!(target_endian = "big") {
            reverse_words(bytes, dtype);
        }
    }
    Ok(tensor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LimitError;
    use crate::{DType, TensorError};
    use proptest::prelude::*;

    fn bytes_of(tensor: &Tensor) -> Vec<u8> {
        let mut bytes = Vec::new();
        tensor.write_npy(&mut bytes).unwrap();
        bytes
    }

    /// A hand-made file with the given header fields and data.
    fn file(version: u8, descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
        let flag = if fortran { "True" } else { "False" };
        let text = format!("{{'descr': '{descr}', 'fortran_order': {flag}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY".to_vec();
        bytes.extend([version, 0]);
        match version {
            1 => bytes.extend((text.len() as u16).to_le_bytes()),
            _ => bytes.extend((text.len() as u32).to_le_bytes()),
        }
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Tensor> {
        Tensor::from_npy_bytes(bytes, &Limits::default())
    }

    #[test]
    fn orders_and_versions_by_hand() {
        for version in 1..=3 {
            let x =
                read(&file(version, ">i2", true, "(2, 3)", &[0, 0, 0, 3, 0, 1, 0, 4, 0, 2, 1, 5])).unwrap();
            assert_eq!(x.slice::<i16>().unwrap(), [0, 1, 2, 3, 4, 261]);
        }
        let z = read(&file(1, ">c8", false, "(1,)", &[63, 128, 0, 0, 192, 0, 0, 0])).unwrap();
        assert_eq!(z.get_scalar(&[0]).unwrap().to_string(), "1-2j");
        let flag = read(&file(1, "|b1", false, "()", &[2])).unwrap();
        assert!(flag.item::<bool>().unwrap());
        assert!(read(&file(4, "<f4", false, "()", &[0; 4])).is_err());
    }

    #[test]
    fn files_shorter_than_their_header_says() {
        let huge = file(1, "<f8", false, "(1000000000, 100)", &[0; 64]);
        assert!(matches!(read(&huge), Err(TensorError::Limit(LimitError::TooLarge { .. }))));
        let large = file(1, "<f8", false, "(1000000000,)", &[0; 64]);
        let error = read(&large).unwrap_err().to_string();
        assert!(error.contains("8000000000 bytes") && error.contains("got 64"), "{error}");
        assert!(
            Tensor::read_npy(&mut &large[..], &Limits::default()).unwrap_err().to_string().contains("64")
        );
        let small = Limits { max_tensor_bytes: 7, ..Limits::default() };
        assert!(Tensor::from_npy_bytes(&file(1, "<f8", false, "(1,)", &[0; 8]), &small).is_err());
        assert!(read(&file(1, "<f4", false, "(1,)", &[0; 5])).is_err());
        let flat = Limits { max_rank: 1, ..Limits::default() };
        assert!(Tensor::from_npy_bytes(&file(1, "<f4", false, "(1, 1)", &[0; 4]), &flat).is_err());
    }

    #[test]
    fn every_truncated_file_is_an_error() {
        let whole = bytes_of(&Tensor::randn(&[2, 2], 0).unwrap());
        for len in 0..whole.len() {
            assert!(read(&whole[..len]).is_err(), "{len}");
            assert!(Tensor::read_npy(&mut &whole[..len], &Limits::default()).is_err(), "{len}");
        }
    }

    #[test]
    fn arrays_follow_one_another_in_a_stream() {
        let (x, y) = (Tensor::scalar(1u8), Tensor::randn(&[3], 1).unwrap());
        let bytes = [bytes_of(&x), bytes_of(&y)].concat();
        let mut stream = &bytes[..];
        assert_eq!(Tensor::read_npy(&mut stream, &Limits::default()).unwrap(), x);
        assert_eq!(Tensor::read_npy(&mut stream, &Limits::default()).unwrap(), y);
        assert!(stream.is_empty());
    }

    #[test]
    fn files_on_disk_and_errors_that_name_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        // More than one chunk; no element straddles two.
        let x = Tensor::randn(&[3, 10_000], 7).unwrap();
        x.permute(&[1, 0]).unwrap().save_npy(&path).unwrap();
        let back = Tensor::load_npy(&path, &Limits::default()).unwrap();
        assert_eq!(back.permute(&[1, 0]).unwrap(), x);
        let error = x.cast(DType::Bf16).unwrap().save_npy(&path).unwrap_err().to_string();
        assert!(error.contains("x.npy: bf16 in an .npy file") && error.contains("`cast` to f32"), "{error}");
        assert_eq!(Tensor::load_npy(&path, &Limits::default()).unwrap(), back);
        let missing = Tensor::load_npy(folder.path().join("y.npy"), &Limits::default());
        assert!(missing.unwrap_err().to_string().contains("y.npy: cannot open"));
    }

    #[test]
    fn a_file_that_numpy_wrote() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../model_file/digits/in_0.npy");
        let x = Tensor::load_npy(path, &Limits::default()).unwrap();
        assert_eq!((x.dtype(), x.shape().dims()), (DType::F32, &[10, 1, 8, 8][..]));
        assert_eq!(bytes_of(&x), std::fs::read(path).unwrap());
    }

    proptest! {
        #[test]
        fn every_dtype_and_layout_round_trips(
            dims in proptest::collection::vec(0usize..4, 0..5),
            turn in 0usize..5,
            seed: u64,
        ) {
            let mut order: Vec<i64> = (0..dims.len() as i64).collect();
            order.rotate_left(turn.min(dims.len()));
            let x = Tensor::randn(&dims, seed).unwrap().permute(&order).unwrap();
            for dtype in DType::ALL.into_iter().filter(|d| !matches!(d, DType::Bf16 | DType::C32)) {
                let x = x.cast(dtype).unwrap();
                prop_assert_eq!(&read(&bytes_of(&x)).unwrap(), &x);
                // The same elements, as a big-endian machine would write them in column-major order.
                let swapped = bytes_of(&x.reverse_axes().unwrap());
                let (_, start) = header::read(&mut &swapped[..]).unwrap();
                let mut data = swapped[start as usize..].to_vec();
                let word = if dtype.is_complex() { dtype.size() / 2 } else { dtype.size() };
                data.chunks_exact_mut(word).for_each(<[u8]>::reverse);
                let descr = header::write(dtype, x.shape()).unwrap();
                let descr = String::from_utf8_lossy(&descr[10..]).replace(['<', '|'], ">").replace("False", "True");
                let mut bytes = b"\x93NUMPY\x02\x00".to_vec();
                bytes.extend((descr.len() as u32).to_le_bytes());
                bytes.extend(descr.bytes().chain(data));
                prop_assert_eq!(read(&bytes).unwrap(), x);
            }
        }

        #[test]
        fn random_damage_never_panics(position in 0usize..160, byte: u8, cut in 0usize..160) {
            let mut bytes = bytes_of(&Tensor::arange(DType::I16, 0.0, 16.0, 1.0).unwrap());
            let position = position % bytes.len();
            bytes[position] = byte;
            let small = Limits { max_tensor_bytes: 1 << 20, ..Limits::default() };
            let _ = Tensor::from_npy_bytes(&bytes, &small);
            let _ = Tensor::read_npy(&mut &bytes[..cut.min(bytes.len())], &small);
        }
    }
}
