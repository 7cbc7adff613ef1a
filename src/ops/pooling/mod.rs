//! Pooling, and windows laid out.

pub mod adaptive;
pub mod folding;
pub mod sliding;
pub mod unpooling;
