//! The definition of operators: parameters and weights, semantics, and implementation.
//!
//! Each operator type is one Rust type, declared with [`operator!`](crate::operator). [`Layer`] defines its semantics,
//! [`CpuLayer`] its implementation on the CPU, and a [`Registry`] maps the type in a file to the layer. This module contains no
//! operators: they are in the modules beside it.

mod attribute;
mod axes;
mod declaration;
mod error;
mod format;
mod guard;
mod layer;
mod meta;
mod plugin;
mod reader;
mod registry;
mod watchdog;
mod weight;

pub use crate::operator;
pub use attribute::{RuntimeAttribute, WeightSource};
pub use axes::SpatialAxes;
pub use error::LayerError;
#[doc(hidden)]
pub use error::list;
pub use format::{Device, TensorFormat};
pub use guard::catch_panic;
#[doc(hidden)]
pub use guard::drop_layer;
pub use layer::{CloneCpuLayer, Cost, CpuLayer, ForwardContext, Layer, PACKED, Tactic, View};
pub use meta::TensorMeta;
pub use plugin::{PluginName, RegistryError, lookup};
#[doc(hidden)]
pub use reader::INPUT_KIND;
pub use reader::{Field, FieldValue, FromParameter, OperatorReader, State};
pub(crate) use reader::{NO_KEY, SEED_KEY};
pub use registry::{Creator, DeviceLayer, FromOperator, Registry};
pub(crate) use registry::{Entry, Overload};
#[doc(hidden)]
pub use watchdog::{Watchdog, timed_limits, unwatched, watched, with_deadline};
pub use weight::Weight;

/// A typed parameter of an operator, with its text in the file.
pub type RuntimeParameter = ixion_pnnx::Parameter;
