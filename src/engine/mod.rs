//! The engine: `Builder → Plan → Context`.
//!
//! A [`Builder`] reads a model, optimises its graph with [passes](crate::passes) and builds a [`Plan`]: immutable layers and
//! weights. Any number of [`Context`]s can run one plan, on as many threads, without locks: each has its own layer state,
//! arena and outputs. Shapes are inferred and memory is planned when a context first sees the shapes of its inputs; after
//! that, a run with the same shapes only computes.
//!
//! ```
//! use ixion::engine::{Builder, Context};
//! use ixion::tensor::Tensor;
//! # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/linear/linear.pnnx.param");
//! let plan = Builder::new(model).build()?;
//! let x = Tensor::from_vec(vec![0.5f32; 32], &[1, 32])?;
//! std::thread::scope(|scope| {
//!     for _ in 0..2 {
//!         scope.spawn(|| -> Result<(), ixion::engine::EngineError> {
//!             let mut context = plan.context()?;
//!             let outputs = context.run(&[x.clone()])?;
//!             assert_eq!(outputs[0].shape().dims(), &[1, 128]);
//!             Ok(())
//!         });
//!     }
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Network`] is built in code instead of read from a file. A [`Model`] is a plan with a single context. [`Plan::save`]
//! writes a plan to one file, which [`Plan::load`] reads without optimising anything again; see [`mod@file`].

mod builder;
pub mod calibration;
mod context;
mod device;
mod dynamic;
mod error;
pub mod file;
mod many;
mod model;
mod network;
mod plan;
mod precision;
mod prepared;
mod request;
mod run;
#[doc(hidden)]
pub mod selection;
mod spares;
mod state;
mod threads;
mod trace;
#[doc(hidden)]
pub mod tuning;

pub use builder::Builder;
pub use calibration::{Calibration, Fingerprint, Method, Scales, ScalesError, ScalesProblem};
pub use context::Context;
pub use error::EngineError;
pub use file::{PlanFile, PlanFileError, PlanFileProblem};
pub use many::{plan_for, run_all};
pub use model::Model;
pub use network::{Fields, Len, Network, Operand};
pub use plan::{Plan, Port};
pub use precision::Precision;
pub use request::{Outputs, Request};
#[doc(inline)]
pub use selection::{
    Candidate, Formats, Inexact, MAX_ROUNDING, MAX_ROUNDING_OF_LAST_LAYERS, Selection, SupportedFormats,
};
pub use trace::{StepTrace, Trace};
#[doc(inline)]
pub use tuning::TimingCache;
