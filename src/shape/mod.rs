//! Shape inference: symbolic dimensions for a whole graph, and incremental updates when the shapes of inputs change.
//!
//! Every layer has one shape rule ([`Layer::infer`](crate::op::Layer::infer)). This module applies the rules of all layers in
//! order: with symbols while an engine is built, with numbers when it runs. [`Shapes`] holds the result.

mod binding;
mod changes;
mod error;
mod infer;
mod input;
mod profile;
mod rule;
mod symbols;
pub mod update;
pub mod walk;

#[cfg(test)]
mod tests;

pub use binding::Binding;
pub use changes::Changes;
pub use error::ShapeError;
pub use infer::Shapes;
pub use input::{InputShape, by_name};
pub use profile::{InputRange, Profile, disorder};
pub use rule::{apply_rule, at_operator, check_inputs, is_open};
pub use symbols::symbolic_inputs;
