//! What can go wrong with a tensor.

use super::DType;
use crate::LimitError;
use std::io;
use std::path::PathBuf;

/// An error of a tensor operation. Every message names what was found and what was wanted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The elements were asked for as another type than they have.
    #[error("the tensor holds {found}, but {wanted} was asked for; convert it with `cast` first")]
    WrongDType {
        /// The type that was asked for.
        wanted: DType,
        /// The type that the tensor has.
        found: DType,
    },
    /// Two shapes that must agree do not.
    #[error("{operation}: shape {found:?} where {wanted:?} is needed")]
    ShapeMismatch {
        /// What was being done.
        operation: &'static str,
        /// The shape that is needed.
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
    /// More axes than a layout holds.
    #[error("a tensor of rank {rank} is not supported: the largest rank is {max}")]
    RankTooLarge {
        /// The rank that was asked for.
        rank: usize,
        /// The largest rank.
        max: usize,
    },
    /// The number of bytes does not fit the address space.
    #[error("a tensor of shape {shape:?} is too large for this machine")]
    SizeOverflow {
        /// The shape that was asked for.
        shape: Vec<usize>,
    },
    /// The system has no memory left.
    #[error("out of memory: {bytes} bytes for a tensor could not be allocated")]
    OutOfMemory {
        /// The number of bytes that was asked for.
        bytes: usize,
    },
    /// An axis or index outside its range.
    #[error("{what} {index} is out of range: there are {len}")]
    OutOfRange {
        /// What the index counts, such as `axis`.
        what: &'static str,
        /// The index.
        index: i64,
        /// The number of valid indices.
        len: usize,
    },
    /// A slice was asked for, but the elements do not lie one after the other.
    #[error("the elements of this view of shape {shape:?} are not contiguous; call `to_tensor` first")]
    NotContiguous {
        /// The view's shape.
        shape: Vec<usize>,
    },
    /// Plain elements were asked for, but the layout is blocked.
    #[error(
        "the tensor has a blocked layout (axis {axis}, blocks of {block}); convert it with `to_plain` first"
    )]
    Blocked {
        /// The axis that is split into blocks.
        axis: usize,
        /// The size of a block.
        block: usize,
    },
    /// A layout that reaches outside of its storage, or writes one element twice.
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
        /// What was being done.
        operation: &'static str,
        /// The element type of the one.
        left: DType,
        /// The element type of the other.
        right: DType,
    },
    /// An operation that an element type does not have.
    #[error("{operation} is not defined for {dtype}; {advice}")]
    UndefinedFor {
        /// What was being done.
        operation: &'static str,
        /// The element type.
        dtype: DType,
        /// What to do instead.
        advice: &'static str,
    },
    /// An integer was divided by zero.
    #[error("{operation}: an integer is divided by zero; mask the zeros, or `cast` to a float first")]
    DivisionByZero {
        /// What was being done.
        operation: &'static str,
    },
    /// A size is above one of [`Limits`](crate::Limits).
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The system refused to read or write.
    #[error("cannot {operation}: {message}")]
    Io {
        /// What was being done, such as `read`.
        operation: &'static str,
        /// What kind of failure the system reports.
        kind: io::ErrorKind,
        /// The system's words.
        message: String,
    },
    /// Bytes that are not what they should be.
    #[error("not a valid {format}: {problem}")]
    Malformed {
        /// What the bytes should be, such as `.npy file`.
        format: &'static str,
        /// What is wrong, and where.
        problem: String,
    },
    /// Something valid that either tensors or the file's format do not have.
    #[error("{found} is not supported; {advice}")]
    Unsupported {
        /// What was found.
        found: String,
        /// What to do instead.
        advice: String,
    },
    /// A place in a text that could not be read.
    #[error("line {line}, column {column}: {problem}")]
    Parse {
        /// The line, counted from 1.
        line: usize,
        /// The column in characters, counted from 1.
        column: usize,
        /// What is wrong.
        problem: String,
    },
    /// Any of these, with the file in which it happened.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What happened.
        problem: Box<TensorError>,
    },
    /// Any other argument that makes no sense.
    #[error("{0}")]
    InvalidArgument(String),
}

/// The result of a tensor operation.
pub type Result<T, E = TensorError> = std::result::Result<T, E>;
