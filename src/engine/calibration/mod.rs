//! Calibration: what whole numbers of 8 bits are to stand for.
//!
//! A plan of int8 holds an operand as whole numbers q from −127 to 127, each of which stands for the real number scale · q.
//! [`Scales`] has the scale of every operand, and says which operators lose too much by it. A [`Calibration`] finds them from
//! inputs like those that the model is for, in three rounds over the same inputs:
//!
//! 1. the [`Range`] of every operand of `f32`: with [`Method::MinMax`], its largest magnitude is the largest number that a
//!    whole one can stand for;
//! 2. with [`Method::Entropy`] alone, a [`Histogram`] of every operand, of which the magnitude is taken that [`threshold()`]
//!    says;
//! 3. the [`Loss`] of every operator that takes whole numbers: those that lose too much are to stay in `f32`.
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
pub mod entropy;
mod histogram;
mod loss;
mod range;
mod scales;

pub use calibrate::{Calibration, Method, Operand};
pub use entropy::threshold;
pub use histogram::Histogram;
pub use loss::{Loss, too_lossy};
pub use range::Range;
pub use scales::{Fingerprint, Scales, ScalesError, ScalesProblem};
