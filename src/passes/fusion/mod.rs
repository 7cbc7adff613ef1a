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
//! A pass folds only what its operator computes again from the parameters and weights that it is given: never where
//! somebody else reads a value on the way, where weights are not there, or where a shape would become another.

mod activation;
mod affine;
mod algebra;
mod attention;
mod batch_norm;
mod epilogue;
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

use visit::Visit;

/// The passes of this family that recognise what is spelled out, in their order.
pub(super) const RECOGNISING: [Visit; 10] = [
    own_weights::OWN_WEIGHTS,
    linear::PRODUCT_TO_LINEAR,
    linear::LINEAR_IN_PLACE,
    batch_norm::FOLD_BATCH_NORM,
    batch_norm::FOLD_BATCH_NORM_AHEAD,
    scale::FOLD_SCALE,
    padding::FOLD_PADDING,
    norm::FUSE_LAYER_NORM,
    norm::FUSE_RMS_NORM,
    attention::FUSE_ATTENTION,
];

/// Those that come last, when chains of expressions are one expression: what they make is no longer recognised.
pub(super) const FINISHING: [Visit; 3] =
    [activation::NAME_ACTIVATION, siblings::MERGE_SIBLINGS, epilogue::FUSE_EPILOGUE];
