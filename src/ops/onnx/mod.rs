//! Operators that keep their ONNX names.
//!
//! PNNX reads ONNX files too. Most operators it then writes under PyTorch's names; those that it has no name for keep
//! ONNX's, with ONNX's attributes as parameters and ONNX's inputs in their order, without names. Constants among the
//! inputs are parameters (`axes=(1)`), `pnnx.Attribute`s, or expressions.
//!
//! Each is a struct of its attributes that says what it comes to in terms of the layers for PyTorch's operators:
//! `Translate` (in `translated.rs`) writes a `Recipe` (in `recipe.rs`) of one or more of them. So nothing is computed in
//! two ways, and an operator here is a few lines. Where ONNX asks for what PyTorch does not have, there is a step of its
//! own in `steps.rs`, `edges.rs`, `recurrence.rs` and others.

mod activations;
pub mod convolution;
pub mod creation;
mod edges;
pub mod elementwise;
pub mod fields;
pub mod indexing;
pub mod normalization;
pub mod order;
pub mod pooling;
pub mod quantization;
mod recipe;
mod recurrence;
pub mod recurrent;
pub mod reductions;
mod resampling;
pub mod resize;
pub mod shapes;
#[cfg(feature = "fourier")]
pub mod spectra;
mod steps;
mod suppression;
mod translated;
pub mod transposed;
pub mod unique;
pub mod vision;
pub mod windows;

operators! {
    of convolution, creation, elementwise, indexing, normalization, order, pooling, quantization, recurrent, reductions,
    resize, shapes, #[cfg(feature = "fourier")] spectra, transposed, unique, vision
}

#[cfg(test)]
mod tests;
