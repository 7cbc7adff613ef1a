//! Passes: graph optimisations that keep what a model computes.
//!
//! A [`Pass`] edits a [`pnnx::Graph`](crate::pnnx::Graph). It reports how often it fired, and why it left near matches
//! alone. [`Passes`] holds all passes and runs them in order until none fires any more.
//!
//! Most passes are [`Rewrite`]s: a [`Pattern`] and its replacement, both written in the syntax of a `.param` file. Passes
//! that handle any number of operators, or take expressions apart, are written as code, most of them as a function that
//! visits the operators one by one.
//!
//! ```
//! use ixion::passes::{PassContext, Passes, Rewrite, Rule};
//! use ixion::{Limits, pnnx::Graph};
//!
//! const PATTERN: &str = "7767517
//! 4 3
//! pnnx.Input        input   0 1 x
//! nn.ReLU|F.relu    first   1 1 x a
//! nn.ReLU|F.relu    second  1 1 a y
//! pnnx.Output       output  1 0 y
//! ";
//! const REPLACEMENT: &str = "7767517
//! 3 2
//! pnnx.Input        input   0 1 x
//! %first            first   1 1 x y %*=%*
//! pnnx.Output       output  1 0 y
//! ";
//! let once = Rewrite::new("relu_twice", "Rectifying twice is rectifying once.")
//!     .rule(Rule::new(PATTERN, REPLACEMENT));
//! let mut passes = Passes::empty();
//! passes.add(10, once)?;
//!
//! let model = "7767517\n5 4\n\
//!     pnnx.Input in 0 1 0\nnn.ReLU a 1 1 0 1\nF.relu b 1 1 1 2 $input=1\nF.relu c 1 1 2 3 $input=2\n\
//!     pnnx.Output out 1 0 3\n";
//! let mut graph = Graph::parse(model, &Limits::default())?;
//! let statistics = passes.run(&mut graph, PassContext::default())?;
//! assert_eq!(statistics.fired("relu_twice"), 2);
//! assert_eq!(graph.operator_count(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod all;
mod axes;
#[doc(hidden)]
pub mod bypass;
mod chains;
#[doc(hidden)]
pub mod common_subexpressions;
#[doc(hidden)]
pub mod constant_folding;
mod context;
#[doc(hidden)]
pub mod dead_code;
mod elementwise;
mod error;
mod expression_chains;
mod expression_identities;
mod facts;
mod fusion;
mod known_parameters;
mod known_values;
mod lower_onnx;
mod matched;
mod no_ops;
mod pass;
#[doc(hidden)]
pub mod pattern;
mod quantized_weights;
mod registry;
mod replacement;
mod rewrite;
mod statistics;
#[cfg(test)]
mod testing;
mod visit;

pub use context::PassContext;
#[doc(hidden)]
pub use context::{frozen_operators, repeatable};
pub use error::{PassError, PatternError};
pub use facts::Facts;
#[doc(hidden)]
pub use fusion::folding;
pub use matched::Match;
pub use pass::{Entry, Outcome, Pass, Refusal};
#[doc(inline)]
pub use pattern::Pattern;
pub use registry::Passes;
#[doc(hidden)]
pub use registry::run_to_fixpoint;
pub use replacement::{Draft, Replacement};
pub use rewrite::{Check, Rewrite, Rule, Write};
pub use statistics::{PassStatistics, Statistics};
