//! The innermost loops: some rows times some panels, whose sums stay in registers.

use super::packing::Packing;
use crate::isa::Isa;
use crate::lanes::{Lanes, Plain};

/// The operands of a tile, which must be long enough for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operands<'a> {
    /// The first row.
    pub(super) factors: *const f32,
    /// The distance between rows.
    pub(super) row: usize,
    /// The offsets of the pieces of a row.
    pub(super) pieces: &'a [usize],
    /// The length of a piece; the number of last pieces that have another length, and that length.
    pub(super) piece: usize,
    pub(super) last: (usize, usize),
    /// The weights of the first panel, and the distance between those of consecutive panels.
    pub(super) weights: *const f32,
    pub(super) panel: usize,
    /// What is added to complete sums, one vector per panel: in the beginning, each product would be rounded at its magnitude.
    pub(super) bias: *const f32,
    /// The maximum number of products that are added one after the other; at least those of one piece.
    pub(super) terms: usize,
    /// Weights that later tiles read, and how many elements of them are prefetched at each step.
    pub(super) ahead: (*const f32, usize),
    /// The first result.
    pub(super) output: *mut f32,
    /// Values to add to the results, in their layout; null for none.
    pub(super) added: *const f32,
    /// The distances between the results of rows, and of panels.
    pub(super) output_row: usize,
    pub(super) output_panel: usize,
    pub(super) bounds: [f32; 2],
}

impl Operands<'_> {
    /// Moves on to the rows after the first `rows`, if there are any.
    pub(super) fn advance(&mut self, rows: usize) {
        self.factors = self.factors.wrapping_add(rows * self.row);
        self.output = self.output.wrapping_add(rows * self.output_row);
        if !self.added.is_null() {
            self.added = self.added.wrapping_add(rows * self.output_row);
        }
    }
}

/// A kernel for a number of panels and rows.
///
/// # Safety
/// The processor must have the instructions that the kernel is compiled for, and the operands must be valid for this
/// number of panels and rows.
pub(super) type Kernel = unsafe fn(&Operands<'_>);

/// The maximum number of rows of a tile.
pub(super) const MAX_ROWS: usize = 14;

/// Returns true if the kernels of an instruction set prefetch weights for later tiles.
pub(super) fn fetches(isa: Isa) -> bool {
    isa != Isa::Scalar
}

/// The number of panels and the maximum number of rows of a tile, if `panels` and `rows` are left. The sums and weights
/// of a tile fill the registers; few rows leave room for more panels, so that there are enough independent sums to hide
/// the latency of a multiply-add.
pub(super) fn shape(isa: Isa, panels: usize, rows: usize) -> [usize; 2] {
    let [most_panels, most_rows] = match (isa, rows) {
        (Isa::Avx512, 1) => [8, 1],
        (Isa::Avx512, ..=6) => [4, 6],
        (Isa::Avx512, 7..=9) if panels != 4 => [3, 9],
        (Isa::Avx512, _) if panels == 3 => [3, 9],
        (Isa::Avx512, _) => [2, MAX_ROWS],
        (Isa::Avx2, 1) => [8, 1],
        (Isa::Avx2, 2) => [6, 2],
        (Isa::Avx2, 3) => [4, 3],
        // Tiles of 2 panels leave registers unused if they have fewer than 5 rows, and so does the last one of 3 panels.
        (Isa::Avx2, _) if panels == 3 || panels > 4 && rows / rows.div_ceil(6) < 5 => [3, 4],
        (Isa::Avx2, _) if panels == 1 => [1, 8],
        (Isa::Avx2, _) => [2, 6],
        (Isa::Neon, 1) => [8, 1],
        (Isa::Neon, _) => [2, 6],
        (Isa::Scalar, 1) => [2, 1],
        (Isa::Scalar, _) => [1, 4],
    };
    match panels {
        _ if panels >= most_panels => [most_panels, most_rows],
        // For the counts below, all instruction sets have kernels for as many rows.
        4.. => [4, most_rows.min(6)],
        _ if isa == Isa::Avx2 && panels == 3 => [3, most_rows.min(4)],
        _ => [panels, most_rows],
    }
}

/// Stores the sums of a tile, added to those of its earlier parts, and begins new ones. `added` are values to add; null
/// for none.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "as for `tile`")]
unsafe fn put_aside<L: Lanes, const P: usize, const R: usize>(
    sums: &mut [[L; P]; R],
    added: *const f32,
    operands: &Operands<'_>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        for r in 0..R {
            for p in 0..P {
                let at = p * operands.output_panel + r * operands.output_row;
                let mut sum = sums[r][p];
                if !added.is_null() {
                    sum = sum.add(L::load(added.add(at)));
                }
                sum.store(operands.output.add(at));
                sums[r][p] = L::splat(0.0);
            }
        }
    }
}

/// Computes a tile of P panels and R rows. Loops run over indices, because iterators over arrays would be compiled for
/// each P and R.
///
/// # Safety
/// As [`Kernel`], and it must be inlined where the instructions of `L` are enabled.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see above")]
unsafe fn tile<L: Lanes, const P: usize, const R: usize>(operands: &Operands<'_>) {
    let Operands { row, panel, .. } = *operands;
    // SAFETY: the caller's promise: everything that is read and written is within the operands.
    unsafe {
        let mut sums = [[L::splat(0.0); P]; R];
        let (mut left, mut added) = (operands.terms, operands.added);
        let mut weights = operands.weights;
        let (mut ahead, step) = operands.ahead;
        let whole = operands.pieces.len() - operands.last.0;
        for (index, &piece) in operands.pieces.iter().enumerate() {
            let factors = operands.factors.add(piece);
            let len = if index < whole { operands.piece } else { operands.last.1 };
            if left < len && index > 0 {
                put_aside(&mut sums, added, operands);
                (left, added) = (operands.terms, operands.output.cast_const());
            }
            left = left.saturating_sub(len);
            for k in 0..len {
                L::fetch(ahead);
                ahead = ahead.wrapping_add(step);
                // As few vectors as possible are held in registers, besides the sums.
                if P <= R {
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
                } else {
                    let mut values = [L::splat(0.0); R];
                    for r in 0..R {
                        values[r] = L::splat(*factors.add(r * row + k));
                    }
                    for p in 0..P {
                        let vector = L::load(weights.add(p * panel));
                        for r in 0..R {
                            sums[r][p] = sums[r][p].add_product(values[r], vector);
                        }
                    }
                }
                weights = weights.add(L::COUNT);
            }
        }
        let [low, high] = operands.bounds;
        let (low, high) = (L::splat(low), L::splat(high));
        let mut bias = [L::splat(0.0); P];
        for p in 0..P {
            bias[p] = L::load(operands.bias.add(p * L::COUNT));
        }
        // The compiler keeps sums in registers only if it unrolls all loops over them: each must be short.
        if !added.is_null() {
            for r in 0..R {
                for p in 0..P {
                    let at = p * operands.output_panel + r * operands.output_row;
                    sums[r][p] = sums[r][p].add(L::load(added.add(at)));
                }
            }
        }
        for r in 0..R {
            for p in 0..P {
                let at = p * operands.output_panel + r * operands.output_row;
                sums[r][p].add(bias[p]).clamp(low, high).store(operands.output.add(at));
            }
        }
    }
}

/// Kernels for the sizes that [`shape`] may return, and for smaller ones.
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
kernels! { pairs, crate::lanes::x86::Bf16Pairs, "avx512f,avx512bf16":
    1 x [1 2 3 4 5 6 7 8 9 10 11 12 13 14];
    2 x [1 2 3 4 5 6 7 8 9 10 11 12 13 14];
    3 x [1 2 3 4 5 6 7 8 9];
    4 x [1 2 3 4 5 6];
    8 x [1];
}

#[cfg(target_arch = "x86_64")]
kernels! { avx2, crate::lanes::x86::Avx2, "avx2,fma":
    1 x [1 2 3 4 5 6 7 8];
    2 x [1 2 3 4 5 6];
    3 x [1 2 3 4];
    4 x [1 2 3];
    6 x [1 2];
    8 x [1];
}

#[cfg(target_arch = "aarch64")]
kernels! { neon, crate::lanes::arm::Neon, "neon":
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

/// The kernel for a packing and a number of panels and rows, if there is one.
pub(super) fn kernel(isa: Isa, packing: Packing, shape: [usize; 2]) -> Option<Kernel> {
    match (isa, packing) {
        (Isa::Scalar, Packing::F32) => plain(shape),
        #[cfg(target_arch = "aarch64")]
        (Isa::Neon, Packing::F32) => neon(shape),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, Packing::F32) => avx2(shape),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, Packing::F32) => avx512(shape),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, Packing::Bf16Pairs) => pairs(shape),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_kernel_for_every_shape_that_is_used() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_compiled()) {
            for panels in 1..20 {
                for rows in 1..40 {
                    let [p, most] = shape(isa, panels, rows);
                    assert!(p <= panels && most <= MAX_ROWS);
                    for rows in 1..=most.min(rows) {
                        let all = [Packing::F32, Packing::Bf16Pairs]
                            .into_iter()
                            .filter(|packing| *packing == Packing::F32 || isa == Isa::Avx512);
                        for packing in all {
                            let there_is = kernel(isa, packing, [p, rows]).is_some();
                            assert!(there_is, "{isa:?}, {packing:?}: {p}×{rows} of {panels}");
                        }
                    }
                }
            }
        }
    }
}
