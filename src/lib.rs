//! # Ixion: the Rust runtime for PNNX
//!
//! PNNX (PyTorch Neural Network Exchange) writes a PyTorch model as a `.param` text and a `.bin` of weights. Ixion reads
//! the two and runs the model, without libtorch and without a detour through ONNX.
//!
//! ```
//! use ixion::engine::Model;
//! use ixion::tensor::Tensor;
//! use ixion::Limits;
//!
//! # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/digits");
//! let pictures = Tensor::load_npy(format!("{folder}/in_0.npy"), &Limits::default())?;
//! let outputs = Model::load(format!("{folder}/digits.pnnx.param"))?.run(&[pictures])?;
//! assert_eq!(outputs[0].shape().dims(), &[10, 10]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## The way through the code
//!
//! | module | what it does |
//! |---|---|
//! | [`pnnx`] | the file format: text, archive, the file's graph, expressions, Python source |
//! | [`tensor`] | N-d tensors of 13 element types over ndarray; `.npy` files |
//! | [`op`] | what an operator is: the traits of layers, parameters and weights, the registry |
//! | [`ops`] | the operators by family: what each means and how it runs on the CPU |
//! | [`graph`] | the runtime graph and the interpreter |
//! | [`kernels`] | arithmetic on arrays and slices; knows no graph |
//! | [`plugin`] | plugins from shared libraries, through a C ABI |
//! | [`passes`] | from graph to a better graph: folding, fusing, leaving out |
//! | [`shape`] | symbolic dimensions through a whole graph, profiles, what changes when an input's shape does |
//! | [`memory`] | lifetimes, one arena for all activations |
//! | [`engine`] | `Builder → Plan → Context`: passes, shapes and memory together |
//! | `vision` | from pictures to inputs, and from outputs to classes, boxes and masks |
//!
//! Dependencies point one way:
//!
//! ```text
//! cli → engine → {cuda, passes, memory}; cuda → {ops, plugin}; passes → {ops, shape}; memory → shape → graph;
//! {graph, ops, plugin} → op → pnnx → tensor; ops → kernels → tensor
//! ```
//!
//! `tensor`, `pnnx`, `kernels` and `vision` are crates of their own (`ixion-tensor` and so on), which can be used alone.
//!
//! ## Features
//!
//! | feature | what it brings |
//! |---|---|
//! | `cli` (default) | the command `ixion`, with `fourier` and `vision` |
//! | `fourier` | Fourier transforms and spectra: `torch.fft`, `torch.stft`, ONNX's `DFT` and `STFT` |
//! | `vision` | pictures: PNG and JPEG, model cards, classes, boxes and masks |
//! | `linalg` | operators of `torch.linalg` that take matrices apart, by LAPACK: needs the system's OpenBLAS |
//! | `cuda` | layers for NVIDIA's GPUs, whose libraries are looked for when a program asks for one |
//! | `cuda-emulator` | the same layers on the processor, to learn and to test |

#[cfg(feature = "gpu")]
pub mod cuda;
pub mod engine;
pub mod graph;
pub mod memory;
pub mod op;
pub mod ops;
pub mod passes;
pub mod plugin;
pub mod shape;

/// The file format: the crate [`ixion_pnnx`].
#[doc(inline)]
pub use ixion_pnnx as pnnx;
#[doc(inline)]
pub use ixion_tensor::{CancelToken, LimitError, Limits};
/// Pictures, classes, boxes and masks: the crate [`ixion_vision`].
#[cfg(feature = "vision")]
#[doc(inline)]
pub use ixion_vision as vision;

/// Tensors, their types, shapes and files: the crate [`ixion_tensor`], and pictures where the feature `vision` is on.
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
pub mod kernels {
    #[doc(inline)]
    pub use ixion_kernels::*;

    /// Short and obviously right kernels on ndarray views, which are taught and which prove the fast ones.
    pub mod naive {
        pub use crate::ops::naive::{evaluate, postfix};
        #[doc(inline)]
        pub use ixion_kernels::naive::*;
    }
}

/// The programs of the README.
#[cfg(all(doctest, feature = "vision"))]
#[doc = include_str!("../README.md")]
mod readme {}
