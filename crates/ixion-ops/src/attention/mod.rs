//! Scaled dot-product and multi-head attention.

pub mod dot_product;
pub mod multihead;

operators! { of dot_product, multihead; category Weighted }
