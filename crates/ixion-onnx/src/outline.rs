//! The outline of an ONNX file: its message without large weights.
//!
//! An ONNX file is one protobuf message, in which the weights stand between everything else. Decoding it would read all
//! weights into memory. The outline is the same message with each large `raw_data` replaced by its place in the file, so that
//! opening a model reads only what describes it.

use crate::OnnxError;
use crate::schema::Place;
use ixion_pnnx::archive::ArchiveFile;
use ixion_tensor::Limits;
use prost::Message;
use prost::encoding::encode_varint;

/// Shorter data stay in the message: they are read faster with it than on their own.
const SMALL: u64 = 1024;

/// Bytes that are read from the file at a time.
const WINDOW: usize = 1 << 16;

/// Graphs within graphs that a file may have. Each is three messages deep, and the decoder reads messages that are nested up to
/// 100 deep.
const MAX_DEPTH: usize = 32;

/// Bytes that a field with a length may need once it is decoded, beyond its own: those of a node without anything in it.
const DECODED: u64 = 256;

/// The kinds of messages on the way from a model to the data of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Model,
    Function,
    Graph,
    Node,
    Attribute,
    Sparse,
    Tensor,
}

impl Kind {
    /// The kind of message that a field holds, if it can contain tensors.
    fn of_field(self, number: u64) -> Option<Self> {
        Some(match (self, number) {
            (Self::Model, 7) | (Self::Attribute, 6 | 11) => Self::Graph,
            (Self::Model, 25) => Self::Function,
            (Self::Function, 7) | (Self::Graph, 1) => Self::Node,
            (Self::Function, 11) | (Self::Node, 5) => Self::Attribute,
            (Self::Graph, 5) | (Self::Attribute, 5 | 10) | (Self::Sparse, 1 | 2) => Self::Tensor,
            (Self::Graph, 15) | (Self::Attribute, 22 | 23) => Self::Sparse,
            _ => return None,
        })
    }
}

/// Numbers of the fields of a tensor.
const RAW_DATA: u64 = 9;
const PLACE: u64 = 1000;

/// The message of a file without its large weights.
///
/// # Errors
/// [`OnnxError::Damaged`] if the file is not a protobuf message, or ends too early; [`OnnxError::File`] if it cannot be read;
/// [`OnnxError::Limit`] if what remains is larger than `limits` allow.
pub(crate) fn outline(file: &ArchiveFile, limits: &Limits) -> Result<Vec<u8>, OnnxError> {
    let mut reader = Reader { file, limits, window: Vec::new(), start: 0, position: 0, copied: 0 };
    let mut message = Vec::new();
    if let Some(found) = reader.other_kind()? {
        let file = file.path().display().to_string();
        return Err(OnnxError::Model { file, problem: format!("this is {found}, not an ONNX file") });
    }
    reader.copy_message(Kind::Model, file.len(), 0, &mut message)?;
    Ok(message)
}

/// Reads a file from start to end, except for what it skips.
struct Reader<'a> {
    file: &'a ArchiveFile,
    limits: &'a Limits,
    window: Vec<u8>,
    /// Position of the window in the file.
    start: u64,
    position: u64,
    /// Bytes of the outline so far.
    copied: u64,
}

impl Reader<'_> {
    /// What the file is, if its first bytes say that it is something else.
    fn other_kind(&mut self) -> Result<Option<&'static str>, OnnxError> {
        if self.file.is_empty() {
            return Ok(Some("an empty file"));
        }
        let start = self.peek()?;
        let start = start.get(..start.len().min(64)).unwrap_or_default();
        Ok(match start {
            [b'P', b'K', 3 | 5, ..] => Some("a zip archive"),
            _ if start.starts_with(b"version https://git-lfs") => {
                Some("the pointer of a file in Git LFS, which `git lfs pull` replaces by the file")
            }
            // A message has tags of fields, some of which are control characters.
            _ if start.len() >= 8
                && start.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t')) =>
            {
                Some("text")
            }
            _ => None,
        })
    }

    /// Copies the message that ends at `end`.
    fn copy_message(
        &mut self,
        kind: Kind,
        end: u64,
        depth: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), OnnxError> {
        while self.position < end {
            let tag = self.varint(end)?;
            let (number, wire_type) = (tag >> 3, tag & 7);
            // A file cannot say where data are: it could name any place.
            let is_kept = (kind, number) != (Kind::Tensor, PLACE);
            let mut field = Vec::new();
            encode_varint(tag, &mut field);
            match wire_type {
                0 => encode_varint(self.varint(end)?, &mut field),
                1 => self.copy_bytes(8, end, &mut field)?,
                2 => self.copy_field(kind, number, end, depth, &mut field)?,
                5 => self.copy_bytes(4, end, &mut field)?,
                other => {
                    return Err(self.damaged(format!(
                        "a field has the wire type {other}, which the format does not use"
                    )));
                }
            }
            if is_kept {
                let decoded = if wire_type == 2 { DECODED } else { 0 };
                self.copied = self.copied.saturating_add(field.len() as u64).saturating_add(decoded);
                self.limits.check_total("the message without its weights", self.copied).map_err(
                    |source| OnnxError::Limit { file: self.file.path().display().to_string(), source },
                )?;
                out.append(&mut field);
            }
        }
        Ok(())
    }

    /// Copies a field with a length, behind its tag in `field`.
    fn copy_field(
        &mut self,
        kind: Kind,
        number: u64,
        end: u64,
        depth: usize,
        field: &mut Vec<u8>,
    ) -> Result<(), OnnxError> {
        let len = self.varint(end)?;
        let field_end = self.position.checked_add(len).filter(|&field_end| field_end <= end);
        let Some(field_end) = field_end else {
            return Err(self.damaged(format!("a field of {len} bytes extends past its message")));
        };
        if (kind, number) == (Kind::Tensor, RAW_DATA) && len > SMALL {
            field.clear();
            let place = Place { offset: self.position, length: len }.encode_to_vec();
            encode_varint(PLACE << 3 | 2, field);
            encode_varint(place.len() as u64, field);
            field.extend(place);
            self.position = field_end;
            return Ok(());
        }
        let Some(inner) = kind.of_field(number) else {
            encode_varint(len, field);
            return self.copy_bytes(len, end, field);
        };
        let depth = depth + usize::from(inner == Kind::Graph);
        if depth > MAX_DEPTH {
            return Err(self.damaged(format!("more than {MAX_DEPTH} graphs are nested")));
        }
        let mut message = Vec::new();
        self.copy_message(inner, field_end, depth, &mut message)?;
        encode_varint(message.len() as u64, field);
        field.extend(message);
        Ok(())
    }

    fn copy_bytes(&mut self, len: u64, end: u64, out: &mut Vec<u8>) -> Result<(), OnnxError> {
        let field_end = self.position.checked_add(len).filter(|&field_end| field_end <= end);
        let Some(field_end) = field_end else {
            return Err(self.damaged(format!("a field of {len} bytes extends past its message")));
        };
        self.limits
            .check_total("a field of the message", len)
            .map_err(|source| OnnxError::Limit { file: self.file.path().display().to_string(), source })?;
        while self.position < field_end {
            let wanted = usize::try_from(field_end - self.position).unwrap_or(WINDOW);
            let bytes = self.peek()?;
            let bytes = bytes.get(..wanted.min(bytes.len())).unwrap_or_default();
            out.extend_from_slice(bytes);
            self.position += bytes.len() as u64;
        }
        Ok(())
    }

    fn varint(&mut self, end: u64) -> Result<u64, OnnxError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            if self.position >= end {
                return Err(self.damaged("a number is cut off".to_owned()));
            }
            let byte = self.peek()?.first().copied().unwrap_or_default();
            self.position += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.damaged("a number has more than 64 bits".to_owned()))
    }

    /// The bytes from the current position on, at least one, as far as the window has them.
    fn peek(&mut self) -> Result<&[u8], OnnxError> {
        let window_end = self.start + self.window.len() as u64;
        if self.position < self.start || self.position >= window_end {
            let left = self.file.len().saturating_sub(self.position);
            let len = usize::try_from(left).map_or(WINDOW, |left| left.min(WINDOW));
            if len == 0 {
                return Err(self.damaged("the file ends".to_owned()));
            }
            self.window.resize(len, 0);
            self.start = self.position;
            self.file.read_into(&mut self.window, self.position)?;
        }
        let skipped = usize::try_from(self.position - self.start).unwrap_or(usize::MAX);
        Ok(self.window.get(skipped..).unwrap_or_default())
    }

    fn damaged(&self, problem: String) -> OnnxError {
        OnnxError::Damaged { file: self.file.path().display().to_string(), position: self.position, problem }
    }
}
