//! Sums of products of bytes: the innermost loops of products and convolutions.
//!
//! Four consecutive factors of a row are multiplied by the same four weights of several outputs. VNNI does this in one
//! instruction per vector. With AVX2 alone, products are added in pairs first, whose sums must fit 16 bits: see [`Steps`].

use super::sizes::{PANEL, QUAD};
use super::steps::Steps;

/// Bytes that are copied at a time.
pub(super) const CHUNK: usize = 32;

/// The largest number of rows and of columns of a tile.
pub(super) const TILE: [usize; 2] = [12, 4 * PANEL];

/// The sums of a tile, of which a kernel may use only a part.
pub(super) type Sums = [[i32; TILE[1]]; TILE[0]];

/// A vector of sums.
///
/// # Safety
/// Methods may only be called on processors that have the type's instructions, in functions that are compiled for these.
/// Pointers must be valid for what is read and written.
pub(super) trait Dots: Copy {
    /// The number of sums, which divides [`PANEL`].
    const COLUMNS: usize;
    /// The largest number of rows of a tile.
    const ROWS: usize;
    /// Whether products are added in pairs in 16 bits, so that the operands need [`Steps`].
    const IS_IN_PAIRS: bool = false;
    /// Four factors of a row, for all columns.
    type Factors: Copy;
    /// Four weights of each column.
    type Weights: Copy;

    /// Copies [`CHUNK`] bytes as factors, after an exclusive or.
    unsafe fn copy(from: *const u8, flip: u8, to: *mut u8);
    unsafe fn zero() -> Self;
    /// Reads four factors.
    unsafe fn factors(from: *const u8) -> Self::Factors;
    /// Reads four weights of each column.
    unsafe fn weights(from: *const i8) -> Self::Weights;
    /// Adds the four products of each column.
    unsafe fn add_products(self, factors: Self::Factors, weights: Self::Weights) -> Self;
    /// Writes the sums of one or two vectors. They are read as vectors again, so each store must be one.
    unsafe fn store<const N: usize>(sums: [Self; N], to: *mut i32);

    /// Adds all products of R rows with N vectors of columns to sums of 0.
    #[inline(always)]
    unsafe fn add_all<const R: usize, const N: usize>(sums: &mut [[Self; N]; R], operands: Operands<'_>) {
        let Operands { mut rows, stride, mut weights, .. } = operands;
        let next = operands.next::<Self>();
        for _ in 0..operands.quads {
            // SAFETY: the caller's promise: each row and each panel has this many fours.
            unsafe {
                add_quad(sums, rows, stride, read::<Self, N>(weights, next));
                rows = rows.add(QUAD);
                weights = weights.add(QUAD * PANEL);
            }
        }
    }
}

/// Rows of factors and panels of weights.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only AVX2 needs words and steps"))]
pub(super) struct Operands<'a> {
    /// The first row.
    pub(super) rows: *const u8,
    /// The same as [words](super::steps::FactorRange::words), the even ones of each four and the odd ones, for vectors that need
    /// them.
    pub(super) words: [*const u8; 2],
    /// The distance between rows.
    pub(super) stride: usize,
    /// The first panel.
    pub(super) weights: *const i8,
    /// The number of factors in fours.
    pub(super) quads: usize,
    /// The steps of the panel, for vectors that need them.
    pub(super) steps: &'a Steps<'a>,
}

impl Operands<'_> {
    /// The distance from the weights of a vector to those of the next one, which is of the next panel or of the same one.
    #[inline(always)]
    fn next<L: Dots>(&self) -> usize {
        (if L::COLUMNS == PANEL { self.quads * PANEL } else { L::COLUMNS }) * QUAD
    }
}

/// Computes the sums of R rows with N vectors of columns from the first one on. Loops run over indices, here and below, because
/// iterators over arrays would be compiled for each R and N.
///
/// # Safety
/// As [`tile`](super::arms::tile); the function must be inlined where the instructions of `L` are enabled.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "see above")]
pub(super) unsafe fn fixed<L: Dots, const R: usize, const N: usize>(
    operands: Operands<'_>,
    first: usize,
    to: &mut Sums,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[L::zero(); N]; R];
        let weights = operands.weights.add(first * QUAD);
        L::add_all(&mut sums, Operands { weights, ..operands });
        for r in 0..R {
            L::store(sums[r], to[r].as_mut_ptr().add(first));
        }
    }
}

/// Reads four weights of each column of N vectors, which are this far apart.
///
/// # Safety
/// As [`tile`](super::arms::tile).
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "as for `fixed`")]
unsafe fn read<L: Dots, const N: usize>(from: *const i8, next: usize) -> [L::Weights; N] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut weights = [L::weights(from); N];
        for n in 1..N {
            weights[n] = L::weights(from.add(n * next));
        }
        weights
    }
}

/// Adds the products of four factors of each row.
///
/// # Safety
/// As [`tile`](super::arms::tile).
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "as for `fixed`")]
unsafe fn add_quad<L: Dots, const R: usize, const N: usize>(
    sums: &mut [[L; N]; R],
    rows: *const u8,
    stride: usize,
    weights: [L::Weights; N],
) {
    for r in 0..R {
        // SAFETY: the caller's promise.
        unsafe {
            let factors = L::factors(rows.add(r * stride));
            for n in 0..N {
                sums[r][n] = sums[r][n].add_products(factors, weights[n]);
            }
        }
    }
}

/// Implements vectors of sums. Expressions may assume what the methods that they are for may.
macro_rules! dots {
    ($(
        $(#[$doc:meta])*
        $name:ident($sums:ty): $columns:literal columns, up to $rows:literal rows, $factors:ty as factors, $weights:ty as weights;
        copy: $copy:ident;
        zero: $zero:expr;
        factors: |$factors_from:ident| $read_factors:expr;
        weights: |$weights_from:ident| $read_weights:expr;
        add_products: |$sum:ident, $a:ident, $b:ident| $add:expr;
        store: |$stored:ident, $to:ident| $store:expr;
        $({ $($further:tt)* })?
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name($sums);

        #[allow(unused_unsafe, reason = "numbers without vectors need no instructions")]
        impl Dots for $name {
            const COLUMNS: usize = $columns;
            const ROWS: usize = $rows;
            type Factors = $factors;
            type Weights = $weights;

            #[inline(always)]
            unsafe fn copy(from: *const u8, flip: u8, to: *mut u8) {
                // SAFETY: the caller's promise.
                unsafe { $copy(from, flip, to) }
            }

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: callers have checked the processor's features.
                Self(unsafe { $zero })
            }

            #[inline(always)]
            unsafe fn factors($factors_from: *const u8) -> $factors {
                // SAFETY: the caller's promise: four factors can be read.
                unsafe { $read_factors }
            }

            #[inline(always)]
            unsafe fn weights($weights_from: *const i8) -> $weights {
                // SAFETY: the caller's promise: four weights of each column can be read.
                unsafe { $read_weights }
            }

            #[inline(always)]
            unsafe fn add_products(self, $a: $factors, $b: $weights) -> Self {
                let $sum = self.0;
                // SAFETY: as for `zero`.
                Self(unsafe { $add })
            }

            #[inline(always)]
            unsafe fn store<const N: usize>(sums: [Self; N], to: *mut i32) {
                for (n, Self($stored)) in sums.into_iter().enumerate() {
                    // SAFETY: the caller's promise: one sum of each column can be written.
                    unsafe {
                        let $to = to.add(n * $columns);
                        $store;
                    }
                }
            }

            $($($further)*)?
        }
    )*};
}

#[cfg(target_arch = "aarch64")]
pub(super) mod arm;
#[cfg(target_arch = "x86_64")]
pub(super) mod x86;

dots! {
    /// The fallback for processors without supported instructions.
    Plain([i32; 8]): 8 columns, up to 2 rows, [u8; QUAD] as factors, [[i8; QUAD]; 8] as weights;
    copy: copy;
    zero: [0; 8];
    factors: |from| from.cast::<[u8; QUAD]>().read();
    weights: |from| from.cast::<[[i8; QUAD]; 8]>().read();
    add_products: |sums, factors, weights| add_products(sums, factors, weights);
    store: |sums, to| to.cast::<[i32; 8]>().write(sums);
}

/// Copies a chunk.
///
/// # Safety
/// As [`Dots::copy`].
#[inline(always)]
unsafe fn copy(from: *const u8, flip: u8, to: *mut u8) {
    // SAFETY: the caller's promise, here and below.
    let bytes = unsafe { from.cast::<[u8; CHUNK]>().read() };
    // SAFETY: as above.
    unsafe { to.cast::<[u8; CHUNK]>().write(bytes.map(|byte| byte ^ flip)) };
}

#[inline(always)]
fn add_products(mut sums: [i32; 8], factors: [u8; QUAD], weights: [[i8; QUAD]; 8]) -> [i32; 8] {
    for (sum, weights) in sums.iter_mut().zip(weights) {
        for (factor, weight) in factors.into_iter().zip(weights) {
            *sum += i32::from(factor) * i32::from(weight);
        }
    }
    sums
}
