//! Loops compiled for wider vectors than the target's baseline has.

/// Runs a closure without parameters in code that is compiled for the widest vectors of this processor, or for those of the
/// instruction set that `IXION_ISA` names, and returns its result.
///
/// Only code that is inlined into the closure benefits. The closure itself always is, however long it is. The functions that
/// it calls are marked `#[inline(always)]`, and a loop whose body is more than a few operations is written with `for`:
/// `for_each` and the like may be compiled as functions of their own.
///
/// The compiler does not fuse products with sums, so these loops give the same bits on every processor. An explicit
/// `mul_add` is an instruction of these vectors, and a call of the C library on processors without one. This only holds for
/// these loops: matrix products are fused if the processor supports it.
///
/// ```
/// let mut numbers = [1.0, 2.0];
/// ixion_tensor::widest!(|| numbers.iter_mut().for_each(|x| *x += 1.0));
/// assert_eq!(numbers, [2.0, 3.0]);
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! widest {
    (|| $work:expr) => {
        $crate::run_widest(
            #[inline(always)]
            || $work,
        )
    };
}

/// Runs the closure of [`widest!`](crate::widest!), which must be `#[inline(always)]`.
#[inline(always)]
pub fn run_widest<F: FnOnce() -> R, R>(work: F) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        use super::isa::{Isa, isa};
        let run: unsafe fn(F) -> R = match isa() {
            Isa::Avx512 => x86::with_avx512,
            Isa::Avx2 => x86::with_avx2,
            _ => |work| work(),
        };
        // SAFETY: the processor has the features that the function is compiled for.
        unsafe { run(work) }
    }
    // The baseline of 64-bit ARM has all of its vectors.
    #[cfg(not(target_arch = "x86_64"))]
    {
        work()
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
    pub(super) fn with_avx512<F: FnOnce() -> R, R>(work: F) -> R {
        work()
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn with_avx2<F: FnOnce() -> R, R>(work: F) -> R {
        work()
    }
}
