//! The runtime graph: operators with layers, operands with tensors, and the plain interpreter.
//!
//! A [`RuntimeGraph`] goes through three states. It **needs init** while it knows only a path, **needs build** once the
//! file is read, and is **complete** when every operator has its [`Layer`] and all stand in topological order. Then:
//! set inputs by name, run, get outputs by name.
//!
//! The traits of layers are here too: [`Layer`] says what an operator means, [`CpuLayer`] how it runs on the CPU, and a
//! [`Registry`] leads from the type of an operator to the layer.

mod attribute;
mod cast;
mod convert;
pub mod draft;
mod error;
mod guard;
mod insert;
mod layer;
mod live;
mod meta;
mod operator;
mod plugin;
mod quantization;
mod reader;
mod registry;
mod release;
mod run;
mod runtime;
pub mod sort;
mod trace;
mod watch;
mod weight;

pub use crate::operator;
pub use attribute::{RuntimeAttribute, WeightSource};
pub use error::{GraphError, LayerError, OperatorPlace, Stage, UnknownOperator};
pub use guard::guarded;
pub(crate) use guard::let_go;
pub(crate) use insert::{Change, Inserted, Insertion, Settled as SettledFormat, Unfit};
pub use layer::{CloneCpuLayer, Cost, CpuLayer, ForwardContext, Layer, PACKED, Tactic, TensorFormat, View};
pub use meta::TensorMeta;
pub use operator::{OperandIndex, OperatorIndex, RuntimeOperand, RuntimeOperator, RuntimeParameter};
pub use plugin::{PluginName, lookup};
pub(crate) use quantization::resolve as resolve_quantization;
pub use reader::{Field, FieldValue, FromParameter, OperatorReader, State};
pub(crate) use reader::{INPUT_KIND, NO_KEY};
pub use registry::{Creator, Device, DeviceLayer, FromOperator, Registry, RegistryError};
pub use release::{last_user, releases};
pub(crate) use run::compute_alone;
pub use runtime::{BuildState, InputPort, OutputPort, RuntimeGraph, archive_beside};
pub use sort::topological_order;
pub use trace::{LayerTrace, Trace};
#[cfg(feature = "gpu")]
pub(crate) use watch::unwatched;
pub(crate) use watch::{timed_limits, watched, within};
pub use weight::Weight;
