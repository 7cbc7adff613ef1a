//! The transforms of tiles, a block of channels at a time, and their coefficients.

use crate::isa::Isa;
use crate::lanes::{Lanes, Plain};
use std::mem::MaybeUninit;

/// The maximum number of pairs of points.
const PAIRS: usize = 3;

/// The coefficients of the transforms, derived from the points at which polynomials are evaluated: 0, up to three pairs ±p,
/// and infinity. The values at the two points of a pair are the sum and the difference of the same two terms, so half of
/// the work is shared. Unused coefficients are 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Points {
    /// The positive point of each pair.
    pairs: [f64; PAIRS],
    /// The coefficients of 1, x², x⁴ and so on of the product of all x² − p²; the last is 1.
    all: [f64; PAIRS + 1],
    /// The same products, each without one of the pairs.
    others: [[f64; PAIRS]; PAIRS],
    /// The number of pairs.
    count: usize,
}

/// The points for tiles of 2×2, 4×4 and 6×6 results, with nearly the smallest mean errors of all multiples of 1/8. All
/// coefficients of the transforms of inputs and outputs are exact.
pub(super) const fn points(tile: usize) -> Points {
    match tile {
        2 => Points::new(1, [1.0, 0.0, 0.0]),
        4 => Points::new(2, [0.625, 1.625, 0.0]),
        _ => Points::new(3, [0.5, 1.0, 2.0]),
    }
}

impl Points {
    const fn new(count: usize, pairs: [f64; PAIRS]) -> Self {
        let mut all = [0.0; PAIRS + 1];
        let mut others = [[0.0; PAIRS]; PAIRS];
        all[0] = 1.0;
        let mut pair = 0;
        while pair < count {
            all = times(all, pairs[pair]);
            let mut product = [0.0; PAIRS + 1];
            product[0] = 1.0;
            let mut other = 0;
            while other < count {
                if other != pair {
                    product = times(product, pairs[other]);
                }
                other += 1;
            }
            others[pair] = [product[0], product[1], product[2]];
            pair += 1;
        }
        Self { pairs, all, others, count }
    }

    /// The transform of a row of three weights: three factors for each value of the transformed row.
    pub(super) fn of_weights(&self) -> Vec<[f64; 3]> {
        let row = |at: f64, scale: f64| [scale, scale * at, scale * at * at];
        let mut rows = vec![row(0.0, 1.0 / self.all[0])];
        for (pair, &point) in self.pairs[..self.count].iter().enumerate() {
            // The product of the differences from all other points.
            let square = point * point;
            let others = self.others[pair].iter().rev().fold(0.0, |sum, factor| sum * square + factor);
            let scale = 1.0 / (2.0 * square * others);
            rows.extend([row(point, scale), row(-point, scale)]);
        }
        rows.push([0.0, 0.0, 1.0]);
        rows
    }
}

/// Multiplies a polynomial in x², given by its coefficients, by x² − p².
const fn times(of: [f64; PAIRS + 1], point: f64) -> [f64; PAIRS + 1] {
    let mut product = [0.0; PAIRS + 1];
    let mut power = 0;
    while power <= PAIRS {
        let higher = if power > 0 { of[power - 1] } else { 0.0 };
        product[power] = higher - of[power] * point * point;
        power += 1;
    }
    product
}

/// Adjacent tiles to transform. A tile is N×N input values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inputs {
    /// The first input value of the first tile.
    pub(super) from: *const f32,
    /// The distance between rows of input values.
    pub(super) line: usize,
    /// The first transformed tile, and the distance between its values.
    pub(super) to: *mut f32,
    pub(super) plane: usize,
    /// The number of tiles.
    pub(super) count: usize,
}

/// Adjacent tiles to transform back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outputs {
    /// The first transformed tile, and the distance between its values.
    pub(super) from: *const f32,
    pub(super) plane: usize,
    /// One bias per channel of the block.
    pub(super) bias: *const f32,
    /// Values to add, in the layout of the results; null for none.
    pub(super) added: *const f32,
    pub(super) bounds: [f32; 2],
    /// The first result of the first tile, and the distance between rows of results.
    pub(super) to: *mut f32,
    pub(super) line: usize,
    /// The number of rows and columns of results to store; the last tile may have more columns.
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// Transforms for tiles of one size.
///
/// # Safety
/// The processor must have the instructions that the functions are compiled for, and all pointers must be valid for what
/// is read and written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transforms {
    pub(super) inputs: unsafe fn(&Inputs),
    pub(super) outputs: unsafe fn(&Outputs),
}

/// Adds `coefficient · x` to `sum`.
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)]
unsafe fn add<L: Lanes>(sum: L, coefficient: f64, x: L) -> L {
    // SAFETY: the caller's promise.
    unsafe { sum.add_product(L::splat(coefficient as f32), x) }
}

/// Transforms one row or column of `N` input values to the values at 0, at both points of each pair, and at infinity.
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)]
unsafe fn input<L: Lanes, const N: usize>(places: [L; N], points: &Points) -> [L; N] {
    let pairs = N / 2 - 1;
    let (mut first, mut last) = (places[N - 2], places[N - 1]);
    let mut values = places;
    // SAFETY: the caller's promise.
    unsafe {
        for power in 0..pairs {
            first = add(first, points.all[power], places[2 * power]);
            last = add(last, points.all[power], places[2 * power + 1]);
        }
        for pair in 0..pairs {
            let (mut even, mut odd) = (places[N - 2], places[N - 3]);
            for power in 0..pairs - 1 {
                even = add(even, points.others[pair][power], places[2 * power + 2]);
                odd = add(odd, points.others[pair][power], places[2 * power + 1]);
            }
            values[2 * pair + 1] = add(even, points.pairs[pair], odd);
            values[2 * pair + 2] = add(even, -points.pairs[pair], odd);
        }
    }
    values[0] = first;
    values[N - 1] = last;
    values
}

/// The `M` results of one row or column of `N` values, where `M` is `N` − 2.
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)]
unsafe fn output<L: Lanes, const N: usize, const M: usize>(values: [L; N], points: &Points) -> [L; M] {
    let pairs = M / 2;
    // SAFETY: the caller's promise.
    unsafe {
        let mut results = [L::splat(0.0); M];
        results[0] = values[0];
        results[M - 1] = values[N - 1];
        for pair in 0..pairs {
            let (plus, minus) = (values[2 * pair + 1], values[2 * pair + 2]);
            let (sum, difference) = (plus.add(minus), add(plus, -1.0, minus));
            let mut power = 1.0;
            for (at, result) in results.iter_mut().enumerate() {
                let x = if at % 2 == 0 { sum } else { difference };
                *result = if power == 1.0 { result.add(x) } else { add(*result, power, x) };
                power *= points.pairs[pair];
            }
        }
        results
    }
}

/// # Safety
/// As [`Transforms`], and it must be inlined where the instructions of `L` are enabled.
#[inline(always)]
unsafe fn inputs<L: Lanes, const N: usize, const M: usize>(tiles: &Inputs) {
    let points = const { &points(M) };
    // SAFETY: the caller's promise; all rows are written before they are read.
    unsafe {
        let zero = L::splat(0.0);
        let mut rows = [const { MaybeUninit::<[L; N]>::uninit() }; N];
        for tile in 0..tiles.count {
            let (from, to) = (tiles.from.add(tile * M * L::COUNT), tiles.to.add(tile * L::COUNT));
            for (i, row) in rows.iter_mut().enumerate() {
                let mut places = [zero; N];
                for (j, place) in places.iter_mut().enumerate() {
                    *place = L::load(from.add(i * tiles.line + j * L::COUNT));
                }
                row.write(input(places, points));
            }
            for j in 0..N {
                let mut places = [zero; N];
                for (place, row) in places.iter_mut().zip(&rows) {
                    *place = row.assume_init_ref()[j];
                }
                for (i, value) in input(places, points).into_iter().enumerate() {
                    value.store(to.add((i * N + j) * tiles.plane));
                }
            }
        }
    }
}

/// # Safety
/// As [`inputs`].
#[inline(always)]
unsafe fn outputs<L: Lanes, const N: usize, const M: usize>(tiles: &Outputs) {
    let points = const { &points(M) };
    // SAFETY: the caller's promise; all columns are written before they are read.
    unsafe {
        let (zero, bias) = (L::splat(0.0), L::load(tiles.bias));
        let (low, high) = (L::splat(tiles.bounds[0]), L::splat(tiles.bounds[1]));
        let mut columns = [const { MaybeUninit::<[L; M]>::uninit() }; N];
        for tile in 0..tiles.columns.div_ceil(M) {
            let from = tiles.from.add(tile * L::COUNT);
            for (j, column) in columns.iter_mut().enumerate() {
                let mut values = [zero; N];
                for (i, value) in values.iter_mut().enumerate() {
                    *value = L::load(from.add((i * N + j) * tiles.plane));
                }
                column.write(output(values, points));
            }
            let stored = (tiles.columns - tile * M).min(M);
            for i in 0..tiles.rows.min(M) {
                let mut values = [zero; N];
                for (value, column) in values.iter_mut().zip(&columns) {
                    *value = column.assume_init_ref()[i];
                }
                let results: [L; M] = output(values, points);
                let at = i * tiles.line + tile * M * L::COUNT;
                for (j, result) in results.into_iter().enumerate() {
                    if j >= stored {
                        break;
                    }
                    let (mut sum, at) = (result.add(bias), at + j * L::COUNT);
                    if !tiles.added.is_null() {
                        sum = sum.add(L::load(tiles.added.add(at)));
                    }
                    sum.clamp(low, high).store(tiles.to.add(at));
                }
            }
        }
    }
}

macro_rules! transforms {
    ($select:ident, $lanes:ty $(, $feature:literal)?) => {
        fn $select(tile: usize) -> Transforms {
            $(#[target_feature(enable = $feature)])?
            unsafe fn of_inputs<const N: usize, const M: usize>(tiles: &Inputs) {
                // SAFETY: the caller's promise.
                unsafe { inputs::<$lanes, N, M>(tiles) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn of_outputs<const N: usize, const M: usize>(tiles: &Outputs) {
                // SAFETY: the caller's promise.
                unsafe { outputs::<$lanes, N, M>(tiles) }
            }
            match tile {
                2 => Transforms { inputs: of_inputs::<4, 2>, outputs: of_outputs::<4, 2> },
                4 => Transforms { inputs: of_inputs::<6, 4>, outputs: of_outputs::<6, 4> },
                _ => Transforms { inputs: of_inputs::<8, 6>, outputs: of_outputs::<8, 6> },
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
transforms! { avx512, crate::lanes::x86::Avx512, "avx512f" }

#[cfg(target_arch = "x86_64")]
transforms! { avx2, crate::lanes::x86::Avx2, "avx2,fma" }

#[cfg(target_arch = "aarch64")]
transforms! { neon, crate::lanes::arm::Neon, "neon" }

transforms! { plain, Plain }

/// The transforms for tiles of 2×2, 4×4 or 6×6 results, compiled for an instruction set.
pub(super) fn transforms(isa: Isa, tile: usize) -> Transforms {
    match isa {
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => neon(tile),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2(tile),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512(tile),
        _ => plain(tile),
    }
}
