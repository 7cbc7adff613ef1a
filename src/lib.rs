//! # Ixion: the Rust runtime for PNNX
//!
//! PNNX (PyTorch Neural Network Exchange) stores a PyTorch model as a `.param` text file and a `.bin` archive of weights.
//! Ixion reads both and runs the model, without libtorch and without a conversion to ONNX.
//!
//! ```
//! use ixion::{Limits, Model, Tensor};
//!
//! fn main() -> ixion::Result<()> {
//!     let digits = Tensor::load_npy("model_file/digits/in_0.npy", &Limits::default())?;
//!     let outputs = Model::load("model_file/digits/digits.pnnx.param")?.run(&[digits])?;
//!     assert_eq!(outputs[0].shape().dims(), &[10, 10]);
//!     Ok(())
//! }
//! ```
//!
//! [`Model`] loads a model and runs it. [`Plan`] is what it runs: any number of threads can share one, and
//! [`engine::Builder`] sets how it is built. Inputs and outputs are [`Tensor`]s; with the feature `vision`, a `Picture` becomes
//! one. [`Limits`] bound what a file may make the program allocate. [`Error`] converts from every error of this crate.
//!
//! ## Modules
//!
//! | module | contents |
//! |---|---|
//! | [`pnnx`] | the file format: text, archive, the file's graph, expressions, Python source |
//! | [`tensor`] | N-d tensors of 13 element types over ndarray; `.npy` files |
//! | [`op`] | the operator interface: layer traits, parameters and weights, the registry |
//! | [`ops`] | how to find and to add an operator, and what operators share |
//! | [`graph`] | the runtime graph and the interpreter |
//! | [`plugin`] | plugins from shared libraries, through a C ABI |
//! | [`passes`] | graph optimisations: folding, fusion, elimination |
//! | [`shape`] | symbolic shape inference over a whole graph, profiles, incremental updates when an input's shape changes |
//! | [`memory`] | lifetimes, and one arena for all activations |
//! | [`engine`] | `Builder → Plan → Context`: passes, shapes and memory together |
//! | `cuda` | GPUs: devices, the emulator, the trait of layers on a GPU |
//! | `vision` | converts images to inputs, and outputs to classes, boxes and masks |
//!
//! Dependencies point in one direction:
//!
//! ```text
//! cli → engine → {cuda, passes, memory}; cuda → {ops, plugin}; passes → {ops, shape}; memory → shape → graph;
//! {graph, ops, plugin} → op → pnnx → tensor; graph → onnx → pnnx; ops → kernels → tensor
//! ```
//!
//! `tensor`, `pnnx`, `kernels`, `ops` and `vision` are re-exports of separate crates (`ixion-tensor` and so on), which can be
//! used on their own; `op` is a module of `ixion-ops`.
//!
//! ## The API
//!
//! `tests/api.txt` in the repository lists the API. It does not include what this documentation hides: the built-in operators
//! and their kernels; `cli`, the command; and `course`, the parts of the framework that lessons take apart. These change without
//! notice.
//!
//! ## Features
//!
//! | feature | enables |
//! |---|---|
//! | `cli` (default) | the command `ixion`, with `fourier` and `vision` |
//! | `fourier` | Fourier transforms and spectra: `torch.fft`, `torch.stft`, ONNX's `DFT` and `STFT` |
//! | `vision` | images (PNG and JPEG), model cards, classes, boxes and masks |
//! | `linalg` | matrix decompositions of `torch.linalg`, by LAPACK; requires the system's OpenBLAS |
//! | `cuda` | layers for NVIDIA GPUs; the GPU libraries are loaded when a program requests a device |
//! | `cuda-emulator` | the same layers emulated on the CPU, for learning and testing |

// The command is written as a program that uses this crate.
#[cfg(feature = "cli")]
extern crate self as ixion;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "gpu")]
pub mod cuda;
pub mod engine;
mod error;
pub mod graph;
pub mod memory;
pub mod ops;
pub mod passes;
pub mod plugin;
pub mod shape;

#[doc(inline)]
pub use engine::{Model, Plan};
pub use error::{Error, Result};
/// ONNX files: the crate [`ixion_onnx`].
#[cfg(feature = "onnx")]
#[doc(inline)]
pub use ixion_onnx as onnx;
/// The operator interface: layer traits, parameters and weights, the registry.
#[doc(inline)]
pub use ixion_ops::op;
#[doc(inline)]
pub use ixion_ops::operator;
/// The file format: the crate [`ixion_pnnx`].
#[doc(inline)]
pub use ixion_pnnx as pnnx;
#[doc(inline)]
pub use ixion_tensor::{CancelToken, LimitError, Limits, Tensor};
/// Images, classes, boxes and masks: the crate [`ixion_vision`].
#[cfg(feature = "vision")]
#[doc(inline)]
pub use ixion_vision as vision;
#[cfg(feature = "vision")]
#[doc(inline)]
pub use ixion_vision::Picture;

/// Tensors, their types, shapes and files: the crate [`ixion_tensor`]; with the feature `vision`, also images.
pub mod tensor {
    #[doc(inline)]
    pub use ixion_tensor::*;
    #[cfg(feature = "vision")]
    #[doc(inline)]
    pub use ixion_vision::picture::{
        Color, Filter, Fit, Picture, Placement, Preprocess, letterboxed, surround,
    };
}

/// Arithmetic on arrays and slices: the crate [`ixion_kernels`].
#[doc(hidden)]
pub mod kernels {
    #[doc(inline)]
    pub use ixion_kernels::*;

    /// Short, obviously correct kernels on ndarray views, used for teaching and to verify the fast ones.
    pub mod naive {
        #[doc(inline)]
        pub use ixion_kernels::naive::*;
        pub use ixion_ops::naive::{evaluate, postfix};
    }
}

/// The parts of the framework that lessons take apart, by the module that they belong to.
#[doc(hidden)]
pub mod course {
    pub use crate::engine::calibration::{entropy, threshold, too_lossy};
    pub use crate::engine::file::header;
    pub use crate::engine::selection::{conversion, elimination, probe, reformat_price, solver};
    pub use crate::engine::tuning;
    pub use crate::graph::{draft, last_user, releases, sort};
    pub use crate::kernels::{naive, quantization, window};
    pub use crate::memory::{Problem, aliases, packing};
    pub use crate::op::{catch_panic, lookup};
    pub use crate::ops::naive as layers;
    pub use crate::ops::support::rules;
    pub use crate::passes::{
        bypass, common_subexpressions, constant_folding, dead_code, folding, frozen_operators, pattern,
        repeatable, run_to_fixpoint,
    };
    pub use crate::pnnx::{Unlinked, archive, decode_floats, element_count, expression, link, text, value};
    pub use crate::shape::{
        Binding, apply_rule, at_operator, by_name, check_inputs, disorder, is_open, symbolic_inputs, update,
        walk,
    };
    pub use crate::tensor::{
        Axes, bf16_bits, bf16_value, contiguous_strides, dim, expanded_axes, index_of, merged_axes, position,
        reshaped_axes,
    };
    #[cfg(feature = "vision")]
    pub use crate::vision::{cell_box, decode_row, detection, highest, most_probable};
}

/// The programs in the README, as doc tests.
#[cfg(all(doctest, feature = "vision"))]
#[doc = include_str!("../README.md")]
mod readme {}
