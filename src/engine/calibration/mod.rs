//! Calibration: what whole numbers of 8 bits are to stand for.
//!
//! A plan of int8 holds an operand as whole numbers q from −127 to 127, each of which stands for the real number scale · q.
//! [`Scales`] has the scale of every operand, and says which operators lose too much by it.

mod scales;

pub use scales::{Fingerprint, Scales, ScalesError, ScalesProblem};
