//! Errors of tensor operations.

use super::DType;
use crate::LimitError;
use std::io;
use std::path::PathBuf;

/// An error of a tensor operation. Every message gives what was found and what was expected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The elements have another type than requested.
    #[error("expected a tensor of {wanted}, got {found}; convert it with `cast` first")]
    WrongDType {
        /// The requested type.
        wanted: DType,
        /// The tensor's type.
        found: DType,
    },
    /// Two shapes that must agree do not.
    #[error("{operation}: expected shape {wanted:?}, got {found:?}")]
    ShapeMismatch {
        /// The operation.
        operation: &'static str,
        /// The expected shape.
        wanted: Vec<usize>,
        /// The shape that was given.
        found: Vec<usize>,
    },
    /// Two shapes cannot be broadcast against each other.
    #[error(
        "shapes {left:?} and {right:?} cannot be broadcast: axes must be equal or 1, counted from the last"
    )]
    NotBroadcastable {
        /// One shape.
        left: Vec<usize>,
        /// The other shape.
        right: Vec<usize>,
    },
    /// More axes than a layout can hold.
    #[error("a tensor of rank {rank} is not supported: the largest rank is {max}")]
    RankTooLarge {
        /// The requested rank.
        rank: usize,
        /// The largest supported rank.
        max: usize,
    },
    /// The number of bytes does not fit the address space.
    #[error("a tensor of shape {shape:?} is too large for this machine")]
    SizeOverflow {
        /// The requested shape.
        shape: Vec<usize>,
    },
    /// An allocation failed.
    #[error("out of memory: {bytes} bytes for a tensor could not be allocated")]
    OutOfMemory {
        /// The requested number of bytes.
        bytes: usize,
    },
    /// An axis or index outside its range.
    #[error("{what} {index} is out of range: there are {len}")]
    OutOfRange {
        /// The kind of index, such as `axis`.
        what: &'static str,
        /// The index.
        index: i64,
        /// The number of valid indices.
        len: usize,
    },
    /// A slice was requested, but the elements are not contiguous.
    #[error("the elements of this view of shape {shape:?} are not contiguous; call `to_tensor` first")]
    NotContiguous {
        /// The view's shape.
        shape: Vec<usize>,
    },
    /// A plain layout was required, but the layout is blocked.
    #[error(
        "the tensor has a blocked layout (axis {axis}, blocks of {block}); convert it with `to_plain` first"
    )]
    Blocked {
        /// The axis that is split into blocks.
        axis: usize,
        /// The size of a block.
        block: usize,
    },
    /// A layout that exceeds its storage, or would write an element twice.
    #[error(
        "the layout (shape {shape:?}, strides {strides:?}, offset {offset}) does not fit storage of {len} elements"
    )]
    BadLayout {
        /// The layout's shape.
        shape: Vec<usize>,
        /// The layout's strides in elements.
        strides: Vec<usize>,
        /// The layout's offset in elements.
        offset: usize,
        /// The number of elements that the storage holds.
        len: usize,
    },
    /// Two tensors of one operation hold different element types.
    #[error("{operation}: {left} and {right} do not mix; convert one of them with `cast` first")]
    MixedDTypes {
        /// The operation.
        operation: &'static str,
        /// The element type of the first tensor.
        left: DType,
        /// The element type of the second tensor.
        right: DType,
    },
    /// An operation that is not defined for an element type.
    #[error("{operation} is not defined for {dtype}; {advice}")]
    UndefinedFor {
        /// The operation.
        operation: &'static str,
        /// The element type.
        dtype: DType,
        /// The suggested alternative.
        advice: &'static str,
    },
    /// An integer was divided by zero.
    #[error("{operation}: an integer is divided by zero; mask the zeros, or `cast` to a float first")]
    DivisionByZero {
        /// The operation.
        operation: &'static str,
    },
    /// A size exceeds one of the [`Limits`](crate::Limits).
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// An I/O operation failed.
    #[error("cannot {operation}: {message}")]
    Io {
        /// The operation, such as `read`.
        operation: &'static str,
        /// The kind of failure, as reported by the system.
        kind: io::ErrorKind,
        /// The system's message.
        message: String,
    },
    /// Bytes that do not have the expected format.
    #[error("not a valid {format}: {problem}")]
    Malformed {
        /// The expected format, such as `.npy file`.
        format: &'static str,
        /// The problem and its location.
        problem: String,
    },
    /// Something valid that either tensors or the file format do not support.
    #[error("{found} is not supported; {advice}")]
    Unsupported {
        /// The unsupported feature.
        found: String,
        /// The suggested alternative.
        advice: String,
    },
    /// A syntax error in a text.
    #[error("line {line}, column {column}: {problem}")]
    Parse {
        /// The line, counted from 1.
        line: usize,
        /// The column in characters, counted from 1.
        column: usize,
        /// The problem.
        problem: String,
    },
    /// Any of these errors, with the file in which it occurred.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        problem: Box<TensorError>,
    },
    /// Any other invalid argument.
    #[error("{0}")]
    InvalidArgument(String),
}

/// The result of a tensor operation.
pub type Result<T, E = TensorError> = std::result::Result<T, E>;
