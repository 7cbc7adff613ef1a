//! The innermost loops: some rows times some panels, whose sums stay in registers.

use super::Words;
use crate::isa::Isa;
use crate::lanes::{Lanes, Plain};

/// The operands of a tile, which are as long as they must be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operands<'a> {
    /// The first row.
    pub(super) factors: *const f32,
    /// From one row to the next.
    pub(super) row: usize,
    /// Where the pieces of a row begin.
    pub(super) pieces: &'a [usize],
    /// Numbers of a piece; how many of the last ones have another length, and which.
    pub(super) piece: usize,
    pub(super) last: (usize, usize),
    /// The weights of the first panel, and the distance to those of the next one.
    pub(super) weights: *const f32,
    pub(super) panel: usize,
    /// What sums begin with: biases, or what was stored of them.
    pub(super) first: *const f32,
    /// From the first numbers of one row to those of the next, and from one panel to the next.
    pub(super) first_row: usize,
    pub(super) first_panel: usize,
    /// What later tiles read, and how many numbers of it are fetched into the cache at each step of this one.
    pub(super) ahead: (*const f32, usize),
    /// Where the first results go.
    pub(super) output: *mut f32,
    /// What is added to them, which lies as they do; null for nothing.
    pub(super) added: *const f32,
    /// From the results of one row to those of the next, and from one panel to the next.
    pub(super) output_row: usize,
    pub(super) output_panel: usize,
    pub(super) bounds: [f32; 2],
}

/// A loop for some number of panels and rows.
///
/// # Safety
/// For a processor that has the instructions it is made for, with operands that are valid for so many panels and rows.
pub(super) type Kernel = unsafe fn(&Operands<'_>);

/// The most rows of a tile.
pub(super) const MOST_ROWS: usize = 14;

/// Whether loops of an instruction set fetch what later ones read.
pub(super) fn fetches(isa: Isa) -> bool {
    isa != Isa::Scalar
}

/// How many panels and at most how many rows a tile has, where so many are left. Sums and weights of a tile fill the
/// registers; few rows leave room for more panels, so that there are enough sums to hide how long one takes.
pub(super) fn shape(isa: Isa, panels: usize, rows: usize) -> [usize; 2] {
    let [most_panels, most_rows] = match (isa, rows) {
        (Isa::Avx512, 1) => [8, 1],
        (Isa::Avx512, ..=6) => [4, 6],
        (Isa::Avx512, 7..=9) if panels != 4 => [3, 9],
        (Isa::Avx512, _) if panels == 3 => [3, 9],
        (Isa::Avx512, _) => [2, MOST_ROWS],
        (Isa::Avx2, 1) => [8, 1],
        (Isa::Avx2, _) => [2, 6],
        (Isa::Scalar, 1) => [2, 1],
        (Isa::Scalar, _) => [1, 4],
    };
    match panels {
        _ if panels >= most_panels => [most_panels, most_rows],
        // Of the counts below, all instruction sets have loops for as many rows.
        4.. => [4, most_rows.min(6)],
        _ if isa == Isa::Avx2 && panels == 3 => [2, 6],
        _ => [panels, most_rows],
    }
}

/// A tile of P panels and R rows. Loops go over places, and not over arrays, whose iterators would be compiled for each P and R.
///
/// # Safety
/// As [`Kernel`], and it must be inlined where the instructions of `L` are enabled.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see above")]
unsafe fn tile<L: Lanes, const P: usize, const R: usize>(operands: &Operands<'_>) {
    let Operands { row, panel, .. } = *operands;
    // SAFETY: the caller's promise: all that is read and written lies within the operands.
    unsafe {
        let mut first = [L::splat(0.0); P];
        for p in 0..P {
            first[p] = L::load(operands.first.add(p * operands.first_panel));
        }
        let mut sums = [first; R];
        if operands.first_row > 0 {
            for r in 1..R {
                for p in 0..P {
                    sums[r][p] =
                        L::load(operands.first.add(p * operands.first_panel + r * operands.first_row));
                }
            }
        }
        let mut weights = operands.weights;
        let (mut ahead, step) = operands.ahead;
        let whole = operands.pieces.len() - operands.last.0;
        for (index, &piece) in operands.pieces.iter().enumerate() {
            let factors = operands.factors.add(piece);
            let len = if index < whole { operands.piece } else { operands.last.1 };
            for k in 0..len {
                L::fetch(ahead);
                ahead = ahead.wrapping_add(step);
                let mut vectors = [L::splat(0.0); P];
                for p in 0..P {
                    vectors[p] = L::load(weights.add(p * panel));
                }
                for r in 0..R {
                    let factor = L::splat(*factors.add(r * row + k));
                    for p in 0..P {
                        sums[r][p] = sums[r][p].add_product(factor, vectors[p]);
                    }
                }
                weights = weights.add(L::COUNT);
            }
        }
        let [low, high] = operands.bounds;
        let (low, high) = (L::splat(low), L::splat(high));
        for r in 0..R {
            for p in 0..P {
                let at = p * operands.output_panel + r * operands.output_row;
                let mut sum = sums[r][p];
                if !operands.added.is_null() {
                    sum = sum.add(L::load(operands.added.add(at)));
                }
                sum.clamp(low, high).store(operands.output.add(at));
            }
        }
    }
}

/// Loops for the sizes that [`shape`] may give, and smaller ones.
macro_rules! kernels {
    ($select:ident, $lanes:ty, $($feature:literal)?: $($panels:literal x [$($rows:literal)+];)+) => {
        fn $select([panels, rows]: [usize; 2]) -> Option<Kernel> {
            $(#[target_feature(enable = $feature)])?
            unsafe fn kernel<const P: usize, const R: usize>(operands: &Operands<'_>) {
                // SAFETY: the caller's promise.
                unsafe { tile::<$lanes, P, R>(operands) }
            }
            match (panels, rows) {
                $($(($panels, $rows) => Some(kernel::<$panels, $rows>),)+)+
                _ => None,
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernels! { avx512, crate::lanes::x86::Avx512, "avx512f":
    1 x [1 2 3 4 5 6 7 8 9 10 11 12 13 14];
    2 x [1 2 3 4 5 6 7 8 9 10 11 12 13 14];
    3 x [1 2 3 4 5 6 7 8 9];
    4 x [1 2 3 4 5 6];
    8 x [1];
}

#[cfg(target_arch = "x86_64")]
kernels! { pairs, crate::lanes::x86::Pairs, "avx512f,avx512bf16":
    1 x [1 2 3 4 5 6 7 8 9 10 11 12 13 14];
    2 x [1 2 3 4 5 6 7 8 9 10 11 12 13 14];
    3 x [1 2 3 4 5 6 7 8 9];
    4 x [1 2 3 4 5 6];
    8 x [1];
}

#[cfg(target_arch = "x86_64")]
kernels! { avx2, crate::lanes::x86::Avx2, "avx2,fma":
    1 x [1 2 3 4 5 6];
    2 x [1 2 3 4 5 6];
    3 x [1];
    4 x [1];
    8 x [1];
}

kernels! { plain, Plain, :
    1 x [1 2 3 4];
    2 x [1];
}

/// The loop for words of this kind and so many panels and rows, where there is one.
pub(super) fn kernel(isa: Isa, words: Words, shape: [usize; 2]) -> Option<Kernel> {
    match (isa, words) {
        (Isa::Scalar, Words::Singles) => plain(shape),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, Words::Singles) => avx2(shape),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, Words::Singles) => avx512(shape),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, Words::Pairs) => pairs(shape),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_loop_for_every_shape_that_is_asked_for() {
        for isa in Isa::ALL.into_iter().filter(|isa| cfg!(target_arch = "x86_64") || *isa == Isa::Scalar) {
            for panels in 1..20 {
                for rows in 1..40 {
                    let [p, most] = shape(isa, panels, rows);
                    assert!(p <= panels && most <= MOST_ROWS);
                    for rows in 1..=most.min(rows) {
                        let all = [Words::Singles, Words::Pairs]
                            .into_iter()
                            .filter(|words| *words == Words::Singles || isa == Isa::Avx512);
                        for words in all {
                            let there_is = kernel(isa, words, [p, rows]).is_some();
                            assert!(there_is, "{isa:?}, {words:?}: {p}×{rows} of {panels}");
                        }
                    }
                }
            }
        }
    }
}
