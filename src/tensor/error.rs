//! What can go wrong with a tensor.

use super::DType;

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
    /// Any other argument that makes no sense.
    #[error("{0}")]
    InvalidArgument(String),
}

/// The result of a tensor operation.
pub type Result<T, E = TensorError> = std::result::Result<T, E>;
