//! The ways to multiply bytes: which vectors each computes with, which instructions these need, and when it is used.

use super::dots::{self, Dots, Operands, Sums};
use super::interleaved::{self, Lines};
use super::reals::{self, Reals};
use super::sizes::PANEL;
use crate::isa::{Isa, isa, multiplies_bytes};

/// The vectors of a way to multiply bytes.
pub(super) trait Arm {
    /// The sums of products and dense convolutions.
    type Dots: Dots;
    /// The sums of depthwise convolutions.
    type Lines: Lines;
    /// The same for few channels.
    type FewLines: Lines;
    /// The same for bytes that are at most 127.
    type HalvedLines: Lines;
    /// The floats that sums are converted to.
    type Reals: Reals;

    /// Computes [the sums of R rows with N vectors of columns](dots::fixed), in a function of its own: one with all sizes would
    /// take the compiler minutes.
    ///
    /// # Safety
    /// As [`tile`].
    unsafe fn tile<const R: usize, const N: usize>(operands: Operands<'_>, first: usize, to: &mut Sums);
}

/// What is computed, with any vectors.
pub(super) trait Task {
    /// Computes it. Implementations are marked `#[inline(always)]`, so that they are compiled for the instructions of the arm.
    ///
    /// # Safety
    /// The processor must have these instructions, and the function must be inlined where they are enabled.
    unsafe fn run<A: Arm>(self);
}

/// Computes the sums of some rows, at most [`Dots::ROWS`], and columns: those of one vector if there are no more, or else of one
/// panel, or of two if a vector has the sums of a panel.
///
/// # Safety
/// Operands must be as long as they say, and the processor must have the instructions of the arm.
#[inline(always)]
pub(super) unsafe fn tile<A: Arm>(operands: Operands<'_>, [rows, columns]: [usize; 2], sums: &mut Sums) {
    macro_rules! sizes {
        ($($rows:literal)*) => {
            match rows {
                $($rows if $rows <= A::Dots::ROWS => {
                    if columns <= A::Dots::COLUMNS {
                        // SAFETY: the caller's promise, here and below.
                        unsafe { A::tile::<$rows, 1>(operands, 0, sums) };
                    } else {
                        for first in (0..PANEL).step_by(2 * A::Dots::COLUMNS) {
                            // SAFETY: as above.
                            unsafe { A::tile::<$rows, 2>(operands, first, sums) };
                        }
                    }
                })*
                _ => {}
            }
        };
    }
    sizes!(1 2 3 4 5 6 7 8 9 10 11 12);
}

macro_rules! arms {
    ($(
        $(#[doc = $doc:literal])*
        $(#[cfg($cfg:meta)])*
        $kind:ident, $(for $features:literal,)? if $is_supported:expr =>
            $dots:ty, $lines:ty, $few_lines:ty, $halved_lines:ty, $reals:ty;
    )*) => {
        /// The ways to multiply bytes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Kind {$(
            $(#[doc = $doc])*
            $(#[cfg($cfg)])*
            $kind,
        )*}

        impl Kind {
            /// All kinds that this processor supports.
            #[cfg(test)]
            pub(super) fn supported() -> impl Iterator<Item = Self> {
                let kinds = [$($(#[cfg($cfg)])* (Self::$kind, $is_supported),)*];
                kinds.into_iter().filter_map(|(kind, is_supported)| is_supported.then_some(kind))
            }

            /// Returns true if products are added in pairs, which the order of the weights takes into account.
            pub(super) fn is_in_pairs(self) -> bool {
                match self {$(
                    $(#[cfg($cfg)])*
                    Self::$kind => <$dots>::IS_IN_PAIRS,
                )*}
            }

            /// Computes a task with the vectors of this kind.
            ///
            /// # Safety
            /// The processor must support the kind.
            pub(super) unsafe fn run<T: Task>(self, task: T) {
                match self {$(
                    $(#[cfg($cfg)])*
                    Self::$kind => {
                        struct Vectors;

                        impl Arm for Vectors {
                            type Dots = $dots;
                            type Lines = $lines;
                            type FewLines = $few_lines;
                            type HalvedLines = $halved_lines;
                            type Reals = $reals;

                            #[inline(always)]
                            unsafe fn tile<const R: usize, const N: usize>(
                                operands: Operands<'_>,
                                first: usize,
                                to: &mut Sums,
                            ) {
                                $(#[target_feature(enable = $features)])?
                                unsafe fn tile<const R: usize, const N: usize>(
                                    operands: Operands<'_>,
                                    first: usize,
                                    to: &mut Sums,
                                ) {
                                    // SAFETY: the caller's promise; the instructions are enabled here.
                                    unsafe { dots::fixed::<$dots, R, N>(operands, first, to) }
                                }

                                // SAFETY: the caller's promise.
                                unsafe { tile::<R, N>(operands, first, to) }
                            }
                        }

                        $(#[target_feature(enable = $features)])?
                        unsafe fn run<T: Task>(task: T) {
                            // SAFETY: the caller's promise; the instructions are enabled here.
                            unsafe { task.run::<Vectors>() }
                        }

                        // SAFETY: the caller's promise.
                        unsafe { run(task) }
                    }
                )*}
            }
        }
    };
}

arms! {
    /// Without special instructions.
    Plain, if true =>
        dots::Plain, interleaved::Plain, interleaved::Plain, interleaved::Plain, reals::Plain;
    /// Pairs of products in vectors of 256 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2, for "avx2,fma", if Isa::Avx2.is_supported() =>
        dots::x86::Avx2, interleaved::x86::Avx2, interleaved::x86::Avx2, interleaved::x86::Avx2Pairs,
        reals::x86::Avx2;
    /// VNNI in vectors of 256 bits.
    #[cfg(target_arch = "x86_64")]
    AvxVnni, for "avx2,fma,avxvnni", if Isa::Avx2.is_supported() && is_x86_feature_detected!("avxvnni") =>
        dots::x86::AvxVnni, interleaved::x86::AvxVnni, interleaved::x86::AvxVnni, interleaved::x86::AvxVnni,
        reals::x86::Avx2;
    /// VNNI in vectors of 512 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni, for "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni",
        if Isa::Avx512.is_supported() && is_x86_feature_detected!("avx512vnni") =>
        dots::x86::Avx512Vnni, interleaved::x86::Avx512Vnni, interleaved::x86::Narrow, interleaved::x86::Avx512Vnni,
        reals::x86::Avx512;
    /// Products of 16-bit integers in Neon.
    #[cfg(target_arch = "aarch64")]
    Neon, for "neon", if Isa::Neon.is_supported() =>
        dots::arm::Neon, interleaved::arm::Neon, interleaved::arm::Neon, interleaved::arm::Neon, reals::arm::Neon;
    /// The products of bytes that Arm calls I8MM.
    #[cfg(target_arch = "aarch64")]
    Usdot, for "neon,i8mm", if std::arch::is_aarch64_feature_detected!("i8mm") =>
        dots::arm::Usdot, interleaved::arm::Usdot, interleaved::arm::Usdot, interleaved::arm::Usdot,
        reals::arm::Neon;
}

impl Kind {
    /// The kind of this process.
    pub(super) fn selected() -> Self {
        match (isa(), multiplies_bytes()) {
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512, true) => Self::Avx512Vnni,
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx2, true) => Self::AvxVnni,
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512 | Isa::Avx2, false) => Self::Avx2,
            #[cfg(target_arch = "aarch64")]
            (Isa::Neon, true) => Self::Usdot,
            #[cfg(target_arch = "aarch64")]
            (Isa::Neon, false) => Self::Neon,
            _ => Self::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_supports_the_selected_kind() {
        let selected = Kind::selected();
        assert!(Kind::supported().any(|kind| kind == selected), "{selected:?}");
    }
}
