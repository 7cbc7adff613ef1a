//! Losses: how far predictions are from targets.

pub mod classes;
pub mod elementwise;
pub mod margins;
pub mod reduction;
pub mod sequences;
pub mod vectors;

operators! { of classes, elementwise, margins, sequences, vectors; category Elementwise }
