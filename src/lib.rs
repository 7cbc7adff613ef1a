//! # Ixion: the Rust runtime for PNNX
//!
//! PNNX (PyTorch Neural Network Exchange) stores a PyTorch model as a `.param` text file and a `.bin` archive of weights.
//! Ixion reads both and runs the model, without libtorch and without a conversion to ONNX.
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
//! ## Modules
//!
//! | module | contents |
//! |---|---|
//! | [`pnnx`] | the file format: text, archive, the file's graph, expressions, Python source |
//! | [`tensor`] | N-d tensors of 13 element types over ndarray; `.npy` files |
//! | [`op`] | the operator interface: layer traits, parameters and weights, the registry |
//! | [`ops`] | the operators by family: semantics and CPU implementations |
//! | [`graph`] | the runtime graph and the interpreter |
//! | [`kernels`] | arithmetic on arrays and slices, independent of graphs |
//! | [`plugin`] | plugins from shared libraries, through a C ABI |
//! | [`passes`] | graph optimisations: folding, fusion, elimination |
//! | [`shape`] | symbolic shape inference over a whole graph, profiles, incremental updates when an input's shape changes |
//! | [`memory`] | lifetimes, and one arena for all activations |
//! | [`engine`] | `Builder → Plan → Context`: passes, shapes and memory together |
//! | `vision` | converts images to inputs, and outputs to classes, boxes and masks |
//!
//! Dependencies point in one direction:
//!
//! ```text
//! cli → engine → {cuda, passes, memory}; cuda → {ops, plugin}; passes → {ops, shape}; memory → shape → graph;
//! {graph, ops, plugin} → op → pnnx → tensor; ops → kernels → tensor
//! ```
//!
//! `tensor`, `pnnx`, `kernels`, `ops` and `vision` are re-exports of separate crates (`ixion-tensor` and so on), which can be
//! used on their own; `op` is a module of `ixion-ops`.
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

#[cfg(feature = "gpu")]
pub mod cuda;
pub mod engine;
pub mod graph;
pub mod memory;
pub mod ops;
pub mod passes;
pub mod plugin;
pub mod shape;

/// The operator interface: layer traits, parameters and weights, the registry.
#[doc(inline)]
pub use ixion_ops::op;
#[doc(inline)]
pub use ixion_ops::operator;
/// The file format: the crate [`ixion_pnnx`].
#[doc(inline)]
pub use ixion_pnnx as pnnx;
#[doc(inline)]
pub use ixion_tensor::{CancelToken, LimitError, Limits};
/// Images, classes, boxes and masks: the crate [`ixion_vision`].
#[cfg(feature = "vision")]
#[doc(inline)]
pub use ixion_vision as vision;

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

/// The programs in the README, as doc tests.
#[cfg(all(doctest, feature = "vision"))]
#[doc = include_str!("../README.md")]
mod readme {}
