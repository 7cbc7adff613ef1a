//! Transforms of real rows, as complex ones of half their length.
//!
//! The elements of the complex row are pairs of the real one's. Its spectrum Z is that of the elements at even positions,
//! plus i times that of those at odd positions, whose parts are separated by their symmetry. With n elements, h = n/2 and
//! w = exp(∓2πi/n):
//!
//! X\[k\] = E\[k\] + wᵏ·O\[k\], where E\[k\] = (Z\[k\] + Z\[h − k\]*)/2 and O\[k\] = (Z\[k\] − Z\[h − k\]*)/2i.
//!
//! Elements k and h − k are computed together, because E, O and wᵏ of one follow from those of the other.

use super::plan::turns;
use super::{Direction, Plan, Real};
use crate::widest;
use ixion_tensor::Complex;
use std::sync::Arc;

/// A transform between real rows of one length and the first half of their spectra, ⌊n/2⌋ + 1 elements for n.
#[derive(Clone)]
pub struct RealPlan<T: Real> {
    len: usize,
    /// The transform of half the length, or of the whole one if it is odd.
    plan: Plan<T>,
    /// The powers of w up to a quarter of the length; empty if the length is odd.
    turns: Arc<[Complex<T>]>,
}

impl<T: Real> RealPlan<T> {
    /// A transform of rows of `len` elements, of which there must be at least one.
    pub fn new(len: usize, direction: Direction) -> Self {
        if len % 2 == 1 {
            return Self { len, plan: Plan::new(len, direction), turns: Arc::from(Vec::<Complex<T>>::new()) };
        }
        Self { len, plan: Plan::new(len / 2, direction), turns: turns(len, direction) }
    }

    fn is_odd(&self) -> bool {
        self.turns.is_empty()
    }

    /// The number of elements of the complex row.
    fn work(&self) -> usize {
        if self.is_odd() { self.len } else { self.len / 2 }
    }

    /// The number of elements of scratch memory that [`RealPlan::spectrum`] and [`RealPlan::signal`] need.
    pub fn scratch(&self) -> usize {
        self.work() + self.plan.scratch()
    }

    /// Writes the first half of the spectrum of a row.
    ///
    /// # Panics
    /// Panics if a slice has not the length of the row or its half, or scratch is shorter than [`RealPlan::scratch`].
    pub fn spectrum(&self, row: &[T], spectrum: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        let (work, scratch) = scratch.split_at_mut(self.work());
        if self.is_odd() {
            work.iter_mut().zip(row).for_each(|(to, &x)| *to = Complex::new(x, T::zero()));
            self.plan.run(work, scratch);
            spectrum.copy_from_slice(&work[..=self.len / 2]);
            return;
        }
        let (pairs, _) = row.as_chunks::<2>();
        spectrum.iter_mut().zip(pairs).for_each(|(to, pair)| *to = Complex::new(pair[0], pair[1]));
        self.plan.run(&mut spectrum[..self.len / 2], scratch);
        widest!(|| separate(spectrum, &self.turns));
    }

    /// Writes the row of which a spectrum has the first half. The imaginary parts of the first element, and of the last one
    /// if the length is even, count as 0.
    ///
    /// # Panics
    /// As [`RealPlan::spectrum`].
    pub fn signal(&self, spectrum: &[Complex<T>], row: &mut [T], scratch: &mut [Complex<T>]) {
        let (work, scratch) = scratch.split_at_mut(self.work());
        if self.is_odd() {
            let (first, second) = work.split_at_mut(spectrum.len());
            first.copy_from_slice(spectrum);
            second.iter_mut().zip(spectrum.iter().rev()).for_each(|(to, from)| *to = from.conj());
            self.plan.run(work, scratch);
            row.iter_mut().zip(work).for_each(|(to, from)| *to = from.re);
            return;
        }
        widest!(|| unite(spectrum, work, &self.turns));
        self.plan.run(work, scratch);
        let (pairs, _) = row.as_chunks_mut::<2>();
        pairs.iter_mut().zip(work).for_each(|(pair, from)| *pair = [from.re, from.im]);
    }
}

/// Computes X from Z, which is followed by one more element, in place.
#[inline(always)]
fn separate<T: Real>(spectrum: &mut [Complex<T>], turns: &[Complex<T>]) {
    let half = spectrum.len() - 1;
    let first = spectrum[0];
    spectrum[0] = Complex::new(first.re + first.im, T::zero());
    spectrum[half] = Complex::new(first.re - first.im, T::zero());
    let inner = &mut spectrum[1..half];
    let (low, high) = inner.split_at_mut(inner.len() / 2);
    // In the middle, both elements of the pair are the same.
    let high = match half.is_multiple_of(2) {
        true => {
            let (middle, high) = high.split_at_mut(1);
            middle[0] = separate_pair(middle[0], middle[0], turns[half / 2])[0];
            high
        }
        false => high,
    };
    for ((x, y), &turn) in low.iter_mut().zip(high.iter_mut().rev()).zip(&turns[1..]) {
        [*x, *y] = separate_pair(*x, *y, turn);
    }
}

/// Computes an element of X and its partner from those of Z.
#[inline(always)]
fn separate_pair<T: Real>(x: Complex<T>, y: Complex<T>, turn: Complex<T>) -> [Complex<T>; 2] {
    let (even, difference) = (x + y.conj(), x - y.conj());
    let odd = Complex::new(difference.im, -difference.re) * turn;
    let by_two = T::of(0.5);
    [(even + odd) * by_two, (even - odd).conj() * by_two]
}

/// Computes 2·Z of the inverse transform from X.
#[inline(always)]
fn unite<T: Real>(spectrum: &[Complex<T>], work: &mut [Complex<T>], turns: &[Complex<T>]) {
    let half = work.len();
    let (first, last) = (spectrum[0].re, spectrum[half].re);
    work[0] = Complex::new(first + last, first - last);
    if half.is_multiple_of(2) {
        let middle = spectrum[half / 2];
        work[half / 2] = unite_pair(middle, middle, turns[half / 2])[0];
    }
    // The pairs below and above the middle.
    let count = (half - 1) / 2;
    let (from_low, from_high) = (&spectrum[1..=count], &spectrum[half - count..half]);
    let (low, high) = work.split_at_mut(half - count);
    let to = low[1..=count].iter_mut().zip(high.iter_mut().rev());
    let from = from_low.iter().zip(from_high.iter().rev());
    for (((to_x, to_y), (&x, &y)), &turn) in to.zip(from).zip(&turns[1..]) {
        [*to_x, *to_y] = unite_pair(x, y, turn);
    }
}

/// Computes an element of 2·Z and its partner from those of X.
#[inline(always)]
fn unite_pair<T: Real>(x: Complex<T>, y: Complex<T>, turn: Complex<T>) -> [Complex<T>; 2] {
    let (even, odd) = (x + y.conj(), (x - y.conj()) * turn);
    [Complex::new(even.re - odd.im, even.im + odd.re), Complex::new(even.re + odd.im, odd.re - even.im)]
}
