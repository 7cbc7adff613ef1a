//! The layers that run on a GPU, in one file per family. Their types are those of [`ops`](crate::ops), their kernels are in
//! `cuda/kernels`.

mod activation;
mod advanced_indexing;
mod attention;
mod axes;
mod codegen;
mod comparison;
mod convolution;
mod convolution_library;
mod copy;
mod creation;
mod diagonals;
mod einsum;
mod elementwise;
mod embedding;
mod epilogue;
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

use super::CudaLayers;
pub(crate) use copy::copy;

/// All GPU layers.
pub(super) fn all() -> CudaLayers {
    let mut layers = CudaLayers::empty();
    super::plugin::register(&mut layers);
    reshaping::register(&mut layers);
    einsum::register(&mut layers);
    elementwise::register(&mut layers);
    activation::register(&mut layers);
    comparison::register(&mut layers);
    attention::register(&mut layers);
    convolution::register(&mut layers);
    embedding::register(&mut layers);
    fourier::register(&mut layers);
    grid::register(&mut layers);
    interpolation::register(&mut layers);
    movement::register(&mut layers);
    multihead::register(&mut layers);
    norm::register(&mut layers);
    padding::register(&mut layers);
    pooling::register(&mut layers);
    product::register(&mut layers);
    recurrent::register(&mut layers);
    reduction::register(&mut layers);
    reformat::register(&mut layers);
    scattering::register(&mut layers);
    softmax::register(&mut layers);
    sorting::register(&mut layers);
    special::register(&mut layers);
    creation::register(&mut layers);
    indexing::register(&mut layers);
    advanced_indexing::register(&mut layers);
    diagonals::register(&mut layers);
    layers
}
