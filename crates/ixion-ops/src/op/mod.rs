//! The definition of operators: parameters and weights, semantics, and implementation.
//!
//! Each operator type is one Rust type, declared with [`operator!`](crate::operator). [`Layer`] defines its semantics,
//! [`CpuLayer`] its implementation on the CPU, and a [`Registry`] maps the type in a file to the layer. This module contains no
//! operators: they are in the modules beside it.

mod attribute;
mod axes;
mod declaration;
mod deferred;
mod error;
mod format;
mod guard;
mod io;
mod layer;
mod meta;
mod plugin;
pub(crate) mod properties;
mod reader;
mod registry;
mod step;
mod watchdog;
mod weight;

pub use crate::operator;
pub use attribute::{QuantizedWeight, RuntimeAttribute, WeightSource, scales_key};
pub use axes::SpatialAxes;
#[doc(hidden)]
pub use deferred::{ComputedParameter, computed_parameters, known_parameter};
#[doc(hidden)]
pub use error::list;
pub use error::{LayerError, Result};
pub use format::{Device, TensorFormat};
#[doc(hidden)]
pub use guard::{catch_panic, drop_layer};
pub use io::{ForwardContext, Io};
#[doc(hidden)]
pub use layer::AsLayer;
pub use layer::{CloneCpuLayer, Cost, CpuLayer, Layer, PACKED, Tactic, View, exactly};
pub use meta::TensorMeta;
#[doc(hidden)]
pub use plugin::lookup;
pub use plugin::{PluginName, RegistryError};
#[doc(hidden)]
pub use properties::{Category, Elements, Form, Product, Properties, Quantized, Scale, Writes};
#[doc(hidden)]
pub use reader::INPUT_KIND;
pub use reader::{Field, FieldDefault, FieldValue, FromParameter, OperatorReader, State, Written};
pub(crate) use reader::{NO_KEY, SEED_KEY, state};
pub use registry::{Creator, DeviceLayer, FromOperator, Registry};
pub(crate) use registry::{Entry, Overload};
pub use step::Step;
#[doc(hidden)]
pub use watchdog::{Watchdog, timed_limits, unwatched, watched, with_deadline};
pub use weight::Weight;

/// A typed parameter of an operator, with its text in the file.
pub type RuntimeParameter = ixion_pnnx::Parameter;
