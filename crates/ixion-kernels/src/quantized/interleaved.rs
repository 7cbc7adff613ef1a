//! Vectors of interleaved bytes, and their products with weights.

use super::sizes::QUAD;

/// The vectors that the interleaved bytes of a place consist of.
pub(super) const VECTORS: usize = 4;

/// How sums are converted to bytes. The numbers that they represent are multiplied by `inverse`, clamped and rounded half to
/// even; these are steps. After the zero point was added, they are clamped to what an unsigned byte can be, and differ from
/// outputs by an exclusive or.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conversion {
    /// The number of steps that 1 is.
    pub(super) inverse: f32,
    /// The smallest and the largest number of steps.
    pub(super) steps: [f32; 2],
    /// Whether offsets are added.
    pub(super) has_offsets: bool,
    /// The unsigned byte of 0 steps.
    pub(super) zero: i16,
    /// The smallest and the largest unsigned byte.
    pub(super) bounds: [u8; 2],
    /// What makes an unsigned byte an output by an exclusive or.
    pub(super) flip: u8,
}

/// Where the factors of adjacent places are.
#[derive(Debug, Clone, Copy)]
pub(super) struct FactorLine {
    pub(super) starts: *const i32,
    pub(super) offsets: *const f32,
    pub(super) multipliers: *const f32,
}

impl FactorLine {
    /// The factors from the place that is this many further on.
    ///
    /// # Safety
    /// There must be such a place.
    #[inline(always)]
    pub(super) unsafe fn skip(self, places: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                starts: self.starts.add(places),
                offsets: self.offsets.add(places),
                multipliers: self.multipliers.add(places),
            }
        }
    }
}

/// A vector of the sums of some channels, of which four vectors are computed at a time.
///
/// # Safety
/// Methods may only be called on processors that have the type's instructions, in functions that are compiled for these.
/// Pointers must be valid for what is read and written.
pub(super) trait Lines: Copy {
    /// The bytes of a vector.
    const BYTES: usize;
    /// The channels of four vectors, as many as a vector has bytes.
    const CHANNELS: usize = Self::BYTES;
    /// The number of positions that are computed at a time: 1, 2 or 4.
    const POSITIONS: usize;
    /// Whether products are added in pairs in 16 bits, so that bytes may be at most 127.
    const IS_IN_PAIRS: bool = false;
    /// Four weights of each sum.
    type Weights: Copy;
    /// The steps of as many outputs as a vector has sums.
    type Steps: Copy;

    /// Interleaves four lines of a byte for each channel, after an exclusive or, to four vectors.
    unsafe fn interleave(lines: [*const u8; QUAD], flip: u8, to: *mut u8);
    unsafe fn zero() -> Self;
    unsafe fn weights(from: *const i8) -> Self::Weights;
    /// Adds the four products of each sum.
    unsafe fn add_products(self, quads: *const u8, weights: Self::Weights) -> Self;
    /// Writes the sums of four vectors in the order of the channels. They are read in vectors of the widest type, so each
    /// store must be one.
    unsafe fn store(sums: [Self; 4], to: *mut i32);
    /// Converts sums to steps, which may be more than allowed if they are too many for a byte anyway.
    unsafe fn steps(self, factors: FactorLine, how: Conversion) -> Self::Steps;
    /// Writes the bytes of four vectors of steps in the order of the channels.
    unsafe fn pack(steps: [Self::Steps; 4], how: Conversion, to: *mut u8);
}

/// Implements vectors of sums. Functions and expressions may assume what the methods that they are for may.
macro_rules! lines {
    ($(
        $(#[$doc:meta])*
        $name:ident($sums:ty): $bytes:literal bytes, $positions:literal at a time, $weights:ty as weights, $steps:ty as steps;
        interleave: $interleave:ident;
        zero: $zero:expr;
        weights: |$from:ident| $read:expr;
        add_products: |$sum:ident, $quads:ident, $factors:ident| $add:expr;
        store: |$four:ident, $to:ident| $store:expr;
        steps: |$total:ident, $line:ident, $how:ident| $convert:expr;
        pack: $pack:ident;
        $({ $($further:tt)* })?
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name($sums);

        #[allow(unused_unsafe, reason = "numbers without vectors need no instructions")]
        impl Lines for $name {
            const BYTES: usize = $bytes;
            const POSITIONS: usize = $positions;
            type Weights = $weights;
            type Steps = $steps;

            #[inline(always)]
            unsafe fn interleave(lines: [*const u8; QUAD], flip: u8, to: *mut u8) {
                // SAFETY: the caller's promise.
                unsafe { $interleave(lines, flip, to) }
            }

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: callers have checked the processor's features, here and below.
                Self(unsafe { $zero })
            }

            #[inline(always)]
            unsafe fn weights($from: *const i8) -> $weights {
                // SAFETY: the caller's promise: a vector can be read, here and below.
                unsafe { $read }
            }

            #[inline(always)]
            unsafe fn add_products(self, $quads: *const u8, $factors: $weights) -> Self {
                let $sum = self.0;
                // SAFETY: as above.
                Self(unsafe { $add })
            }

            #[inline(always)]
            unsafe fn store(sums: [Self; 4], $to: *mut i32) {
                let [Self(a), Self(b), Self(c), Self(d)] = sums;
                let $four = [a, b, c, d];
                // SAFETY: the caller's promise: all sums can be written.
                unsafe { $store }
            }

            #[inline(always)]
            unsafe fn steps(self, $line: FactorLine, $how: Conversion) -> $steps {
                let $total = self.0;
                // SAFETY: the caller's promise: there are factors for a vector.
                unsafe { $convert }
            }

            #[inline(always)]
            unsafe fn pack(steps: [$steps; 4], how: Conversion, to: *mut u8) {
                // SAFETY: the caller's promise: all bytes can be written.
                unsafe { $pack(steps, how, to) }
            }

            $($($further)*)?
        }
    )*};
}

#[cfg(target_arch = "aarch64")]
pub(super) mod arm;
#[cfg(target_arch = "x86_64")]
pub(super) mod x86;

lines! {
    /// The fallback for processors without supported instructions.
    Plain([i32; 4]): 16 bytes, 1 at a time, [[i8; QUAD]; 4] as weights, [i32; 4] as steps;
    interleave: interleave;
    zero: [0; 4];
    weights: |from| from.cast::<[[i8; QUAD]; 4]>().read();
    add_products: |sums, quads, weights| add_products(sums, quads.cast::<[[u8; QUAD]; 4]>().read(), weights);
    store: |sums, to| to.cast::<[[i32; 4]; 4]>().write(sums);
    steps: |sums, factors, how| steps(sums, factors, how);
    pack: pack;
}

/// Interleaves four lines of 16 bytes.
///
/// # Safety
/// As [`Lines::interleave`].
#[inline(always)]
unsafe fn interleave(lines: [*const u8; QUAD], flip: u8, to: *mut u8) {
    for channel in 0..Plain::CHANNELS {
        // SAFETY: the caller's promise, here and below.
        let quad = lines.map(|line| unsafe { line.add(channel).read() } ^ flip);
        // SAFETY: as above.
        unsafe { to.add(channel * QUAD).cast::<[u8; QUAD]>().write(quad) };
    }
}

#[inline(always)]
fn add_products(mut sums: [i32; 4], quads: [[u8; QUAD]; 4], weights: [[i8; QUAD]; 4]) -> [i32; 4] {
    for (sum, (quad, weights)) in sums.iter_mut().zip(quads.into_iter().zip(weights)) {
        for (factor, weight) in quad.into_iter().zip(weights) {
            *sum += i32::from(factor) * i32::from(weight);
        }
    }
    sums
}

/// Converts four sums to steps.
///
/// # Safety
/// As [`Lines::steps`].
#[inline(always)]
unsafe fn steps(mut steps: [i32; 4], factors: FactorLine, how: Conversion) -> [i32; 4] {
    for (index, step) in steps.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        let (start, offset, multiplier) = unsafe {
            (*factors.starts.add(index), *factors.offsets.add(index), *factors.multipliers.add(index))
        };
        let real = (step.wrapping_add(start) as f32 + offset) * multiplier * how.inverse;
        let [low, high] = how.steps;
        // NaN becomes the smallest number of steps.
        let real = if real > low { real } else { low };
        *step = (if real < high { real } else { high }).round_ties_even() as i32;
    }
    steps
}

/// Packs the steps of 16 outputs.
///
/// # Safety
/// As [`Lines::pack`].
#[inline(always)]
unsafe fn pack(steps: [[i32; 4]; 4], how: Conversion, to: *mut u8) {
    let [low, high] = how.bounds.map(i32::from);
    for (vector, steps) in steps.into_iter().enumerate() {
        let bytes = steps.map(|step| (step + i32::from(how.zero)).max(low).min(high) as u8 ^ how.flip);
        // SAFETY: the caller's promise.
        unsafe { to.add(vector * 4).cast::<[u8; 4]>().write(bytes) };
    }
}
