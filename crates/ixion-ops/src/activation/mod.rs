//! Activation functions.

pub mod elementwise;
pub mod gating;
pub mod gelu;
pub mod softmax;

operators! { of elementwise, gating, gelu, softmax; category Activation }
