//! Sums of squared differences of `f32` in vectors.

use crate::isa::Isa;
use crate::lanes::{Lanes, Plain};

/// Rows of the first matrix that are compared with a panel at a time: enough sums that none waits for another.
pub(super) const ROWS: usize = 8;

/// The number of terms that are added in the type of the elements, before their sum is added to the others in f64.
pub(super) const TERMS: usize = 32;

/// Rows of the first matrix, and a panel of the second.
pub(super) struct Operands {
    /// The rows, of `len` elements.
    pub(super) rows: [*const f32; ROWS],
    /// `len` columns of as many elements as a vector has lanes.
    pub(super) panel: *const f32,
    pub(super) len: usize,
    /// The sums, in f64, of as many elements per row as a vector has lanes.
    pub(super) totals: *mut f64,
}

/// Adds the sums of squares of an instruction set to the totals, whose rows are `L::COUNT` apart.
///
/// # Safety
/// The processor must have the instructions, and the operands must be valid for as many rows and lanes.
#[inline(always)]
unsafe fn squares<L: Lanes, const N: usize>(operands: &Operands) {
    const { assert!(N == L::COUNT, "as many sums as a vector has lanes") };
    let Operands { rows, panel, len, totals } = *operands;
    // SAFETY: the caller's promise.
    unsafe {
        for start in (0..len).step_by(TERMS) {
            let mut sums = [L::splat(0.0); ROWS];
            for k in start..len.min(start + TERMS) {
                let column = L::load(panel.add(k * N));
                for (sum, row) in sums.iter_mut().zip(&rows) {
                    let difference = L::splat(*row.add(k)).add(column);
                    *sum = sum.add_product(difference, difference);
                }
            }
            for (row, sum) in sums.into_iter().enumerate() {
                let mut lanes = [0f32; N];
                sum.store(lanes.as_mut_ptr());
                for (lane, term) in lanes.into_iter().enumerate() {
                    *totals.add(row * N + lane) += f64::from(term);
                }
            }
        }
    }
}

/// A function that adds sums of squares to totals.
///
/// # Safety
/// As [`squares`].
pub(super) type Kernel = unsafe fn(&Operands);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Operands, squares};
    use crate::lanes::x86::{Avx2, Avx512};

    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn avx512(operands: &Operands) {
        // SAFETY: the caller's promise.
        unsafe { squares::<Avx512, 16>(operands) }
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn avx2(operands: &Operands) {
        // SAFETY: the caller's promise.
        unsafe { squares::<Avx2, 8>(operands) }
    }
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
unsafe fn neon(operands: &Operands) {
    // SAFETY: the caller's promise.
    unsafe { squares::<crate::lanes::arm::Neon, 8>(operands) }
}

unsafe fn plain(operands: &Operands) {
    // SAFETY: the caller's promise.
    unsafe { squares::<Plain, 8>(operands) }
}

/// The kernel of an instruction set, for panels of [`Isa::lanes`] rows.
pub(super) fn kernel(isa: Isa) -> Kernel {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => x86::avx512,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => x86::avx2,
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => neon,
        _ => plain,
    }
}
