//! Element-wise arithmetic, logic and special functions.

pub mod binary;
pub mod bitwise;
pub mod comparison;
pub mod expression;
pub mod finite;
pub mod floats;
pub mod special;

operators! { of binary, bitwise, comparison, expression, finite, floats, special; category Elementwise }
