//! The runtime graph: operators with layers, operands with tensors, and the plain interpreter.
//!
//! A [`RuntimeGraph`] goes through three states. It **needs init** while it has only a path, **needs build** once the file is
//! read, and is **complete** when every operator has its [`Layer`](crate::op::Layer) and all operators are in topological
//! order. Then set inputs by name, run, and get outputs by name.

mod cast;
mod change;
mod control;
mod convert;
mod division;
#[doc(hidden)]
pub mod draft;
mod ellipsis;
mod error;
mod filled;
mod insert;
mod lists;
mod live;
mod losses;
mod operator;
mod outline;
mod overwritten;
mod quantization;
mod release;
mod run;
mod runtime;
#[doc(hidden)]
pub mod sort;
mod source;
mod trace;
mod widened;

pub(crate) use change::{Change, Inserted, OperandFormat, Unfit};
pub(crate) use control::resolve as resolve_control;
#[doc(hidden)]
pub use convert::{Outlined, Problem};
pub(crate) use convert::{is_view, is_write};
pub use division::restore_floor_divisions;
pub use error::{GraphError, OperatorPlace, Stage, UnknownOperator};
pub(crate) use insert::Insertion;
pub use losses::restore_losses;
pub use operator::{InputPort, OperandIndex, OperatorIndex, OutputPort, RuntimeOperand, RuntimeOperator};
#[doc(hidden)]
pub use outline::Outline;
pub(crate) use quantization::resolve as resolve_quantization;
#[doc(hidden)]
pub use release::{last_user, releases};
pub(crate) use run::check_returned;
pub use runtime::{BuildState, RuntimeGraph};
#[doc(hidden)]
pub use sort::topological_order;
pub use source::{ReadOptions, default_bin_path, is_onnx, read_model};
pub use trace::{LayerTrace, Trace};
pub use widened::widen_weights;
