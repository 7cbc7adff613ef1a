//! Fusions: passes that replace several operators by fewer.
//!
//! | pass | replacement |
//! |---|---|
//! | `quantized_pairs` | quantising, dequantising → fake quantisation; twice the same → once |
//! | `own_weights` | functional operator + constants → module |
//! | `product_to_linear` | product with a constant matrix, plus a constant → `nn.Linear` |
//! | `linear_in_place` | reshape, `nn.Linear`, reshape back → `nn.Linear` |
//! | `fold_batch_norm` | convolution or linear layer, batch norm → convolution or linear layer with folded weights |
//! | `fold_batch_norm_ahead` | batch norm, convolution without padding or linear layer → the same with folded weights |
//! | `fold_scale` | convolution or linear layer, constants per channel → convolution or linear layer with folded weights |
//! | `fold_padding` | zero padding, convolution → convolution with more padding |
//! | `literal_constants` | constant of one element in an expression → number |
//! | `fuse_layer_norm`, `fuse_rms_norm` | mean, square, root, … → the norm |
//! | `fuse_attention` | product, softmax, product → `F.scaled_dot_product_attention` |
//! | `fuse_multihead_attention` | linear layers around attention → `nn.MultiheadAttention` |
//! | `multihead_in_place` | permutation, `nn.MultiheadAttention`, permutation back → `nn.MultiheadAttention` |
//! | `name_activation` | `mul(@0,sigmoid(@0))` and the like → the named activation function |
//! | `merge_siblings` | linear layers on the same input → one linear layer and a split |
//! | `fuse_epilogue` | product, then an activation or arithmetic on its result → the product with an epilogue |
//!
//! Passes with a fixed pattern are [`Rewrite`](super::Rewrite)s. Passes that handle any number of operators, or take
//! expressions apart, are [`Visit`](super::visit::Visit)s.
//!
//! A pass fires only if the new operator computes the same from its parameters and weights. It never fires if another
//! operator reads an intermediate value, if weights are missing, or if a shape would change.

mod activation;
mod affine;
mod algebra;
mod attention;
mod batch_norm;
mod epilogue;
pub mod folding;
mod formula;
mod linear;
mod literals;
mod multihead;
mod norm;
mod own_weights;
mod padding;
mod quantized_pairs;
mod scale;
mod siblings;
mod site;
#[cfg(test)]
mod testing;
mod weights;

use super::Pass;
pub(super) use quantized_pairs::QUANTIZED_PAIRS;
use std::sync::Arc;

/// The fusions that recognise spelled-out operators, in order.
pub(super) fn recognising() -> Vec<Arc<dyn Pass>> {
    vec![
        Arc::new(own_weights::OWN_WEIGHTS),
        Arc::new(linear::product_to_linear()),
        Arc::new(linear::linear_in_place()),
        Arc::new(batch_norm::fold_batch_norm()),
        Arc::new(batch_norm::FOLD_BATCH_NORM_AHEAD),
        Arc::new(scale::FOLD_SCALE),
        Arc::new(padding::fold_padding()),
        Arc::new(literals::LITERAL_CONSTANTS),
        Arc::new(norm::fuse_layer_norm()),
        Arc::new(norm::fuse_rms_norm()),
        Arc::new(attention::fuse_attention()),
        Arc::new(multihead::FUSE_MULTIHEAD_ATTENTION),
        Arc::new(multihead::multihead_in_place()),
    ]
}

/// The fusions that run last, after chains of expressions were merged, since other passes do not recognise their results.
pub(super) fn finishing() -> Vec<Arc<dyn Pass>> {
    vec![
        Arc::new(activation::NAME_ACTIVATION),
        Arc::new(siblings::MERGE_SIBLINGS),
        Arc::new(epilogue::FUSE_EPILOGUE),
    ]
}
