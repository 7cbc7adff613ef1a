//! Calibration: determines the scales of int8 quantisation.
//!
//! An int8 plan stores an operand as integers q from −127 to 127, each of which represents the value scale · q. [`Scales`]
//! holds the scale of every operand, and lists the operators that lose too much accuracy. A [`Calibration`] determines them
//! from representative inputs, in three rounds over the same inputs:
//!
//! 1. the [`Range`] of every `f32` operand: with [`Method::MinMax`], its largest magnitude is the largest that int8 can
//!    represent;
//! 2. with [`Method::Entropy`] only, a [`Histogram`] of every operand, from which [`threshold()`] chooses that magnitude;
//! 3. the [`Loss`] of every operator that supports int8: those that lose too much stay in `f32`.
//!
//! ```
//! use ixion::engine::{Builder, Calibration, Method};
//! use ixion::tensor::Tensor;
//! # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/linear/linear.pnnx.param");
//! let inputs: Vec<Tensor> = (0..3).map(|seed| Tensor::randn(&[1, 32], seed)).collect::<Result<_, _>>()?;
//!
//! let mut calibration = Calibration::new(Builder::new(model))?;
//! for x in &inputs {
//!     calibration.see_range(vec![x.clone()])?;
//! }
//! let scales = calibration.scales(Method::MinMax);
//! for x in &inputs {
//!     calibration.see_loss(vec![x.clone()], &scales)?;
//! }
//! let scales = calibration.keep_below(scales, 20.0);
//! assert_eq!(scales.kept().count(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod calibrate;
#[doc(hidden)]
pub mod entropy;
mod histogram;
mod loss;
mod names;
mod own;
mod range;
mod scales;
mod shared;

pub use calibrate::{Calibration, Method, Operand};
#[doc(hidden)]
pub use entropy::threshold;
pub use histogram::Histogram;
pub use loss::Loss;
#[doc(hidden)]
pub use loss::too_lossy;
pub(in crate::engine) use names::UnknownNames;
pub(in crate::engine) use own::own_steps;
pub use range::Range;
pub use scales::{Fingerprint, Scales, ScalesError, ScalesProblem};
