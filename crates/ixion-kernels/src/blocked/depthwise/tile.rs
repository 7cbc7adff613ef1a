//! The innermost loops: some columns of an output row, whose sums stay in registers.

use crate::isa::Isa;
use crate::lanes::{Lanes, Plain};

/// The operands of an output row. Distances are in elements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operands<'a> {
    /// The input that the windows of the row see, starting at the first tap of the first window.
    pub(super) input: &'a [f32],
    /// Rows and columns of a window.
    pub(super) window: [usize; 2],
    /// The distances between the rows and between the columns of a window.
    pub(super) steps: [usize; 2],
    /// The distance between adjacent windows, in pixels.
    pub(super) stride: usize,
    /// One vector per tap.
    pub(super) weights: &'a [f32],
    pub(super) bias: &'a [f32],
    /// Values to add to the row.
    pub(super) added: Option<&'a [f32]>,
    pub(super) bounds: [f32; 2],
}

/// Columns per tile: enough independent sums to hide the latency of a multiply-add.
const COLUMNS: usize = 8;

/// Computes an output row, one vector per column.
///
/// # Panics
/// Panics if the operands are too short, or the processor lacks the instructions.
pub(super) fn run(isa: Isa, operands: &Operands<'_>, output: &mut [f32]) {
    let (lanes, columns) = (isa.lanes(), output.len() / isa.lanes());
    let [rows, taps] = operands.window;
    let Some(last) = columns.checked_sub(1) else { return };
    let end = last * operands.stride * lanes
        + rows.saturating_sub(1) * operands.steps[0]
        + taps.saturating_sub(1) * operands.steps[1]
        + lanes;
    assert!(
        isa.is_supported() && output.len() == columns * lanes,
        "the output must consist of whole vectors, and the processor must have the instructions"
    );
    assert!(rows * taps == 0 || end <= operands.input.len(), "the input is too short");
    assert!(rows * taps * lanes <= operands.weights.len() && lanes <= operands.bias.len(), "too few weights");
    assert!(operands.added.is_none_or(|added| added.len() >= output.len()), "too few values to add");
    let row = select(isa, operands.stride);
    // SAFETY: the processor has the instructions, and everything that is read and written is within the operands.
    unsafe { row(operands, output) }
}

/// A kernel for a row of columns.
type Row = unsafe fn(&Operands<'_>, &mut [f32]);

/// Computes a row in tiles of nearly equal size. A stride of 0 means any stride.
///
/// # Safety
/// [`run`] must have checked the operands, and the function must be inlined where the instructions of `L` are enabled.
#[inline(always)]
unsafe fn row<L: Lanes, const STRIDE: usize>(operands: &Operands<'_>, output: &mut [f32]) {
    let columns = output.len() / L::COUNT;
    let tiles = columns.div_ceil(COLUMNS);
    let (size, longer) = (columns / tiles, columns % tiles);
    let mut first = 0;
    for index in 0..tiles {
        let len = size + usize::from(index < longer);
        // SAFETY: the caller's promise: these columns are within the row.
        unsafe {
            match len {
                1 => tile::<L, STRIDE, 1>(operands, first, output),
                2 => tile::<L, STRIDE, 2>(operands, first, output),
                3 => tile::<L, STRIDE, 3>(operands, first, output),
                4 => tile::<L, STRIDE, 4>(operands, first, output),
                5 => tile::<L, STRIDE, 5>(operands, first, output),
                6 => tile::<L, STRIDE, 6>(operands, first, output),
                7 => tile::<L, STRIDE, 7>(operands, first, output),
                _ => tile::<L, STRIDE, COLUMNS>(operands, first, output),
            }
        }
        first += len;
    }
}

/// Computes a tile of C columns. Loops run over indices, because iterators over arrays would be compiled for each C.
///
/// # Safety
/// As [`row`].
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see above")]
unsafe fn tile<L: Lanes, const STRIDE: usize, const C: usize>(
    operands: &Operands<'_>,
    first: usize,
    output: &mut [f32],
) {
    let ([rows, taps], [down, right]) = (operands.window, operands.steps);
    let stride = if STRIDE > 0 { STRIDE } else { operands.stride } * L::COUNT;
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [L::load(operands.bias.as_ptr()); C];
        let mut weights = operands.weights.as_ptr();
        let input = operands.input.as_ptr().add(first * stride);
        for row in 0..rows {
            for tap in 0..taps {
                let (weight, places) = (L::load(weights), input.add(row * down + tap * right));
                for c in 0..C {
                    sums[c] = sums[c].add_product(L::load(places.add(c * stride)), weight);
                }
                weights = weights.add(L::COUNT);
            }
        }
        let [low, high] = operands.bounds;
        let (low, high) = (L::splat(low), L::splat(high));
        for c in 0..C {
            let (mut sum, at) = (sums[c], (first + c) * L::COUNT);
            if let Some(added) = operands.added {
                sum = sum.add(L::load(added.as_ptr().add(at)));
            }
            sum.clamp(low, high).store(output.as_mut_ptr().add(at));
        }
    }
}

macro_rules! rows {
    ($select:ident, $lanes:ty $(, $feature:literal)?) => {
        fn $select(stride: usize) -> Row {
            $(#[target_feature(enable = $feature)])?
            unsafe fn kernel<const STRIDE: usize>(operands: &Operands<'_>, output: &mut [f32]) {
                // SAFETY: the caller's promise.
                unsafe { row::<$lanes, STRIDE>(operands, output) }
            }
            match stride {
                1 => kernel::<1>,
                2 => kernel::<2>,
                _ => kernel::<0>,
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
rows!(avx512, crate::lanes::x86::Avx512, "avx512f");
#[cfg(target_arch = "x86_64")]
rows!(avx2, crate::lanes::x86::Avx2, "avx2,fma");
rows!(plain, Plain);

/// The kernel for an instruction set and a stride.
fn select(isa: Isa, stride: usize) -> Row {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2(stride),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512(stride),
        _ => plain(stride),
    }
}
