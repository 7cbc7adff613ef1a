//! The engine: `Builder → Plan → Context`.
//!
//! A [`Builder`] reads a model and lets the [passes](crate::passes) improve its graph. What it builds is a [`Plan`]: layers
//! and weights, which nobody changes any more. Any number of [`Context`]s run one plan, on as many threads, without locks:
//! each has layers' state, an arena and outputs of its own. Shapes are inferred and memory is planned when a context first
//! sees the shapes of its inputs; after that, a run of the same shapes only computes.
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
//! A [`Network`] is built in code instead of read from a file. Whoever needs no more than one context takes a [`Model`]. [`Plan::save`] writes a plan into one file, from which
//! [`Plan::load`] has it back without optimising anything again; see [`mod@file`].

mod builder;
pub mod calibration;
mod context;
mod device;
mod error;
pub mod file;
pub mod formats;
mod many;
mod model;
mod network;
mod plan;
mod precision;
mod prepared;
mod request;
mod run;
mod state;
mod trace;
pub mod tuning;

pub use builder::Builder;
pub use calibration::{Calibration, Fingerprint, Method, Scales, ScalesError, ScalesProblem};
pub use context::Context;
pub use error::EngineError;
pub use file::{PlanFile, PlanFileError, PlanFileProblem};
pub use formats::{Answers, Candidate, Formats, Settled};
pub use many::{plan_for, run_all};
pub use model::Model;
pub use network::{Fields, Len, Network, Operand};
pub use plan::{Plan, Port};
pub use precision::Precision;
pub use request::{Outputs, Request};
pub use trace::{StepTrace, Trace};
pub use tuning::TimingCache;
