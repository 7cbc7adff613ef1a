//! Passes that make one operator of several.
//!
//! | pass | what becomes what |
//! |---|---|
//! | `own_weights` | functional operator + constants → module |
//! | `product_to_linear` | product with a constant matrix, plus a constant → `nn.Linear` |
//! | `linear_in_place` | reshape, `nn.Linear`, reshape back → `nn.Linear` |
//! | `fold_batch_norm` | convolution or linear layer, batch norm → the former with other weights |
//! | `fold_batch_norm_ahead` | batch norm, convolution without padding → the latter with other weights |
//! | `fold_scale` | convolution or linear layer, constants for each channel → the former with other weights |
//! | `fold_padding` | padding by zeros, convolution → the latter with more padding |
//! | `fuse_layer_norm`, `fuse_rms_norm` | mean, square, root, … → the norm |
//! | `fuse_attention` | product, softmax, product → `F.scaled_dot_product_attention` |
//! | `name_activation` | `mul(@0,sigmoid(@0))` and the like → the activation function that it is |
//! | `merge_siblings` | linear layers on the same input → one, and a split |
//! | `fuse_epilogue` | product, then an activation or arithmetic on its result → the product with an epilogue |
//!
//! What can be drawn is a [`Rewrite`](super::Rewrite): its pattern is the picture of what it replaces. What reads any
//! number of operators, or takes expressions apart, is a [`Visit`](visit::Visit).
//!
//! A pass folds only what its operator computes again from the parameters and weights that it is given: never where
//! somebody else reads a value on the way, where weights are not there, or where a shape would become another.

mod activation;
mod affine;
mod algebra;
mod attention;
mod batch_norm;
mod epilogue;
pub mod folding;
mod formula;
mod linear;
mod norm;
mod own_weights;
mod padding;
mod scale;
mod siblings;
mod site;
#[cfg(test)]
mod testing;
mod visit;
mod weights;

use super::Pass;
use std::sync::Arc;

/// The passes of this family that recognise what is spelled out, in their order.
pub(super) fn recognising() -> Vec<Arc<dyn Pass>> {
    vec![
        Arc::new(own_weights::OWN_WEIGHTS),
        Arc::new(linear::product_to_linear()),
        Arc::new(linear::linear_in_place()),
        Arc::new(batch_norm::fold_batch_norm()),
        Arc::new(batch_norm::FOLD_BATCH_NORM_AHEAD),
        Arc::new(scale::FOLD_SCALE),
        Arc::new(padding::fold_padding()),
        Arc::new(norm::fuse_layer_norm()),
        Arc::new(norm::fuse_rms_norm()),
        Arc::new(attention::fuse_attention()),
    ]
}

/// Those that come last, when chains of expressions are one expression: what they make is no longer recognised.
pub(super) fn finishing() -> Vec<Arc<dyn Pass>> {
    vec![
        Arc::new(activation::NAME_ACTIVATION),
        Arc::new(siblings::MERGE_SIBLINGS),
        Arc::new(epilogue::FUSE_EPILOGUE),
    ]
}
