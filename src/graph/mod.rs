//! The runtime graph: operators with layers, operands with tensors, and the plain interpreter.
//!
//! A [`RuntimeGraph`] goes through three states. It **needs init** while it has only a path, **needs build** once the file is
//! read, and is **complete** when every operator has its [`Layer`](crate::op::Layer) and all operators are in topological
//! order. Then set inputs by name, run, and get outputs by name.

mod cast;
mod change;
mod convert;
#[doc(hidden)]
pub mod draft;
mod error;
mod insert;
mod live;
mod operator;
mod quantization;
mod release;
mod run;
mod runtime;
#[doc(hidden)]
pub mod sort;
mod trace;

pub(crate) use change::{Change, Inserted, OperandFormat, Unfit};
pub(crate) use convert::{is_view, is_write};
pub use error::{GraphError, OperatorPlace, Stage, UnknownOperator};
pub(crate) use insert::Insertion;
pub use operator::{InputPort, OperandIndex, OperatorIndex, OutputPort, RuntimeOperand, RuntimeOperator};
pub(crate) use quantization::resolve as resolve_quantization;
#[doc(hidden)]
pub use release::{last_user, releases};
pub(crate) use run::compute_alone;
pub use runtime::{BuildState, RuntimeGraph, default_bin_path};
#[doc(hidden)]
pub use sort::topological_order;
pub use trace::{LayerTrace, Trace};
