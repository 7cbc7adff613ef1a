//! Transforms of complex rows, planned once for each length.

use crate::Float;
use ixion_tensor::Complex;
use rustfft::{Fft, FftDirection, FftNum, FftPlanner};
use std::cell::RefCell;
use std::f64::consts::TAU;
use std::sync::Arc;

/// The direction of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Factors of exp(−2πi·jk/n).
    Forward,
    /// Factors of exp(2πi·jk/n). The result is not divided by n.
    Inverse,
}

impl Direction {
    /// The sign of the exponent.
    fn sign(self) -> f64 {
        match self {
            Self::Forward => -1.0,
            Self::Inverse => 1.0,
        }
    }
}

/// The types that transforms are computed in: `f32` and `f64`.
pub trait Real: Float + FftNum {
    /// Calls `work` with the plans that this thread keeps.
    #[doc(hidden)]
    fn with_kept<R>(work: impl FnOnce(&mut Kept<Self>) -> R) -> R;

    /// Plans a transform. This is where all of `rustfft` is compiled for the type: here once, and not in each crate that uses
    /// transforms.
    #[doc(hidden)]
    fn planned(len: usize, direction: FftDirection) -> Arc<dyn Fft<Self>>;
}

macro_rules! reals {
    ($($real:ident in $kept:ident;)*) => {$(
        thread_local! {
            static $kept: RefCell<Kept<$real>> = const { RefCell::new(Kept::new()) };
        }

        impl Real for $real {
            fn with_kept<R>(work: impl FnOnce(&mut Kept<Self>) -> R) -> R {
                $kept.with_borrow_mut(work)
            }

            #[inline(never)]
            fn planned(len: usize, direction: FftDirection) -> Arc<dyn Fft<Self>> {
                FftPlanner::new().plan_fft(len, direction)
            }
        }
    )*};
}

reals! {
    f32 in SINGLE;
    f64 in DOUBLE;
}

/// The number of plans that a thread keeps, and the length of the longest rows among them.
const KEPT: usize = 16;
const LONGEST: usize = 1 << 16;

/// The length of rows and the direction of their transform.
type Key = (usize, Direction);

/// What a thread planned last: planning a short transform takes longer than the transform.
pub struct Kept<T: Real> {
    plans: Vec<(Key, Arc<dyn Fft<T>>)>,
    turns: Vec<(Key, Arc<[Complex<T>]>)>,
}

impl<T: Real> Kept<T> {
    pub(super) const fn new() -> Self {
        Self { plans: Vec::new(), turns: Vec::new() }
    }
}

/// The value for a key: a known one, which becomes the most recent, or one that `make` creates.
fn recent<V: Clone>(known: &mut Vec<(Key, V)>, key: Key, make: impl FnOnce() -> V) -> V {
    let (value, is_known) = match known.iter().position(|(other, _)| *other == key) {
        Some(at) => (known.remove(at).1, true),
        None => (make(), false),
    };
    if key.0 <= LONGEST {
        if !is_known && known.len() >= KEPT {
            known.remove(0);
        }
        known.push((key, value.clone()));
    }
    value
}

/// A transform of complex rows of one length.
#[derive(Clone)]
pub struct Plan<T: Real> {
    fft: Arc<dyn Fft<T>>,
}

impl<T: Real> Plan<T> {
    /// A transform of rows of `len` elements, of which there must be at least one.
    pub fn new(len: usize, direction: Direction) -> Self {
        let towards = match direction {
            Direction::Forward => FftDirection::Forward,
            Direction::Inverse => FftDirection::Inverse,
        };
        let make = || T::planned(len, towards);
        Self { fft: T::with_kept(|kept| recent(&mut kept.plans, (len, direction), make)) }
    }

    /// The number of elements of scratch memory that [`Plan::run`] needs.
    pub fn scratch(&self) -> usize {
        self.fft.get_inplace_scratch_len()
    }

    /// Transforms one or more whole rows in place.
    ///
    /// # Panics
    /// Panics if scratch is shorter than [`Plan::scratch`], or the last row is not whole.
    pub fn run(&self, rows: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        if !rows.is_empty() {
            self.fft.process_with_scratch(rows, scratch);
        }
    }
}

/// exp(±2πi·k/`len`) for k up to a quarter of `len`, with the sign of the direction.
pub(super) fn turns<T: Real>(len: usize, direction: Direction) -> Arc<[Complex<T>]> {
    let turn = |k: usize| {
        let (sin, cos) = (direction.sign() * TAU * k as f64 / len as f64).sin_cos();
        Complex::new(T::of(cos), T::of(sin))
    };
    T::with_kept(|kept| recent(&mut kept.turns, (len, direction), || (0..=len / 4).map(turn).collect()))
}
