//! The layers that run on a GPU, in one file for each subject. Their types are those of [`ops`](crate::ops), their kernels are
//! in `cuda/kernels`.
//!
//! Each file lists its types in a table, `LAYERS`. An entry is one of these:
//!
//! - `Pointwise`: an element-wise layer, given the code for one element;
//! - `Simple`: a layer given as functions, of which `supports` and `forward` are required;
//! - `Own`: a layer that implements [`CudaLayer`](super::CudaLayer) itself, for instance because it has tactics or state.
//!
//! The first two are families, and so are `Reductions` and `Transforms`: their layers share an implementation, to which the
//! entries add what differs.

mod activation;
mod advanced_indexing;
mod attention;
mod axes;
mod codegen;
mod comparison;
mod convolution;
mod convolution_library;
mod convolution_operands;
mod copy;
mod creation;
mod depthwise;
mod diagonals;
mod einsum;
mod elementwise;
mod embedding;
mod epilogue;
mod family;
mod filter;
mod fourier;
mod fourier_library;
mod grid;
mod indexing;
mod interpolation;
mod kernel_builder;
mod movement;
mod multihead;
mod norm;
mod padding;
mod pooling;
mod prelude;
mod product;
mod product_library;
mod product_tactic;
mod recurrent;
mod reduction;
mod reformat;
mod reshaping;
mod rows;
mod scattering;
mod softmax;
mod sorting;
mod special;
mod support;
mod tiles;
mod transposition;
mod windows;

use super::layer::{CudaLayers, Entry};
use super::plugin;
pub(crate) use copy::copy;

/// The tables of all families.
const TABLES: &[&[&dyn Entry]] = &[
    activation::LAYERS,
    advanced_indexing::LAYERS,
    attention::LAYERS,
    comparison::LAYERS,
    convolution::LAYERS,
    creation::LAYERS,
    diagonals::LAYERS,
    einsum::LAYERS,
    elementwise::LAYERS,
    embedding::LAYERS,
    fourier::LAYERS,
    grid::LAYERS,
    indexing::LAYERS,
    interpolation::LAYERS,
    movement::LAYERS,
    multihead::LAYERS,
    norm::LAYERS,
    padding::LAYERS,
    plugin::LAYERS,
    pooling::LAYERS,
    product::LAYERS,
    recurrent::LAYERS,
    reduction::LAYERS,
    reformat::LAYERS,
    reshaping::LAYERS,
    scattering::LAYERS,
    softmax::LAYERS,
    sorting::LAYERS,
    special::LAYERS,
];

/// All GPU layers.
pub(super) fn all() -> CudaLayers {
    let mut layers = CudaLayers::empty();
    TABLES.iter().copied().flatten().for_each(|entry| layers.add(*entry));
    layers
}
