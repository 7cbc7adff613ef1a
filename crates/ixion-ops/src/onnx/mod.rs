//! Operators that keep their ONNX names.
//!
//! PNNX reads ONNX files too. It writes most operators under PyTorch's names. Operators without such a name keep their
//! ONNX name, with ONNX's attributes as parameters and ONNX's inputs in order, without names. Constant inputs become
//! parameters (`axes=(1)`), `pnnx.Attribute`s, or expressions.
//!
//! Each operator is a struct of its attributes that decomposes into PyTorch operators: its `Decompose` implementation
//! (in `decompose.rs`) builds a `Decomposition` (in `decomposition.rs`) of one or more layers. So nothing is
//! implemented twice, and an operator here takes a few lines. What PyTorch cannot express is a step of its own in
//! `steps.rs`, `edges.rs`, `recurrence.rs` and others.
//!
//! Before a plan is built, [`lower`] turns an operator into the operators of its decomposition, so that passes, formats, the
//! arena and GPUs treat it like any other. The layer runs the decomposition itself if a step is not an operator that a file can
//! name, if random numbers depend on the operator's name, or if the ranks of the inputs are unknown; and in the interpreter.

mod activations;
pub mod aligned;
pub mod arithmetic;
pub mod attention;
pub mod cache;
pub mod control;
pub mod convolution;
pub mod creation;
mod decompose;
mod decomposition;
mod edges;
pub mod elementwise;
pub mod fields;
pub mod indexing;
pub mod last_axes;
pub mod lowering;
pub mod mel;
pub mod normalization;
pub mod order;
pub mod pooling;
pub mod quantization;
mod recurrence;
pub mod recurrent;
pub mod reductions;
mod regions;
mod resampling;
pub mod reshaping;
pub mod resize;
pub mod shapes;
pub mod softmax;
#[cfg(feature = "fourier")]
pub mod spectra;
mod steps;
mod suppression;
pub mod transposed;
pub mod trees;
pub mod unique;
pub mod vision;
pub mod windows;

operators! {
    of aligned, arithmetic, attention, cache, control, convolution, creation, elementwise, indexing, mel, last_axes, normalization, order, pooling, quantization, recurrent, reductions,
    reshaping, resize, shapes, softmax, #[cfg(feature = "fourier")] spectra, transposed, trees, unique, vision
}

pub use decompose::lower;

#[cfg(test)]
mod tests;
