//! Shape inference: symbolic dimensions for a whole graph, and incremental updates when the shapes of inputs change.
//!
//! Every layer has one shape rule ([`Layer::infer`](crate::op::Layer::infer)). This module applies the rules of all layers in
//! order: with symbols while an engine is built, with numbers when it runs. [`Shapes`] holds the result. [`contradictions`]
//! compares the rules with the shapes that a file records.

mod binding;
mod changes;
mod contradictions;
mod error;
mod evidence;
mod infer;
mod input;
mod profile;
mod rule;
mod suspects;
mod symbols;
#[doc(hidden)]
pub mod update;
#[doc(hidden)]
pub mod walk;

#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use binding::Binding;
pub use changes::Changes;
pub use contradictions::{contradictions, contradictions_in};
pub use error::ShapeError;
pub use evidence::{Contradiction, Evidence};
pub use infer::Shapes;
pub use input::InputShape;
#[doc(hidden)]
pub use input::by_name;
#[doc(hidden)]
pub use profile::disorder;
pub use profile::{InputRange, Profile};
#[doc(hidden)]
pub use rule::{apply_rule, at_operator, check_inputs, is_open};
#[doc(hidden)]
pub use symbols::symbolic_inputs;
