//! Element-wise arithmetic, logic and special functions.

pub mod binary;
pub mod bitwise;
pub mod comparison;
pub mod expression;
pub mod finite;
pub mod special;

operators! { of binary, bitwise, comparison, expression, finite, special; category Elementwise }
