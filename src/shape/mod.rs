//! Shapes: symbolic dimensions through a whole graph, and what changes when the shape of an input does.
//!
//! Every layer states its rule once ([`Layer::infer`](crate::op::Layer::infer)). Here the rules of all layers are
//! applied one after the other: with symbols while an engine is built, with numbers when it runs. [`Shapes`] holds what
//! came of it.

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
