//! N-d tensors of 13 element types over [`ndarray`], with shapes, layouts and `.npy` files.
//!
//! A [`Tensor`] is an element type ([`DType`]), a [`Layout`] and shared storage. It exchanges data with ndarray:
//! [`Tensor::array`] and [`TensorViewMut::array`] return ndarray views without a copy, [`Tensor::from_array`] and
//! [`Tensor::into_array`] convert from and to owned arrays. Layers read [`TensorView`]s and write [`TensorViewMut`]s;
//! neither depends on what owns the memory.

mod access;
mod arithmetic;
mod base;
mod bits;
mod blocked;
mod cast;
mod compare;
mod copy;
mod csv;
#[doc(hidden)]
pub mod dim;
mod display;
mod dtype;
mod error;
mod features;
#[doc(hidden)]
pub mod file;
mod fill;
mod float;
mod function;
mod halves;
mod isa;
mod layout;
mod limits;
mod mapping;
mod matmul;
mod npy;
mod pad;
mod reshape;
mod shape;
mod stack;
mod storage;
mod strides;
mod vectors;
mod view;
mod wide;
mod workspace;

pub use base::Tensor;
pub use bits::{Bits, with_bits};
pub use compare::{Comparison, Difference};
#[doc(inline)]
pub use dim::{Dim, DimExpr, DimSum};
pub use dtype::{DType, Element, with_element};
pub use error::{Result, TensorError};
#[doc(hidden)]
pub use features::processor_features;
pub use float::{Float, RealFunction};
pub use function::Function;
pub use half::{bf16, f16};
#[doc(hidden)]
pub use halves::{Half, bf16_bits, bf16_value};
#[doc(hidden)]
pub use isa::{Isa, isa, isa_name, uses_avx_vnni};
pub use layout::{Format, Layout, resolve_axes};
pub use limits::{CancelToken, LimitError, Limits};
#[doc(hidden)]
pub use mapping::Mapping;
pub use num_complex::Complex;
pub use shape::{Shape, broadcast_shapes, resolve_axis, resolve_index};
pub use storage::ALIGNMENT;
#[doc(hidden)]
pub use storage::{MemoryOwner, Storage};
pub use strides::Order;
#[doc(hidden)]
pub use strides::{Axes, contiguous_strides, expanded_axes, index_of, merged_axes, position, reshaped_axes};
#[doc(hidden)]
pub use vectors::run_widest;
pub use view::{TensorView, TensorViewMut};
pub use wide::Scalar;
pub use workspace::{Scratch, Workspace};

/// The largest number of axes a tensor can have.
pub const MAX_RANK: usize = 8;
