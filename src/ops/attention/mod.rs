//! Attention.

pub mod dot_product;
pub mod multihead;
