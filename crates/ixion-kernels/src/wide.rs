//! Loops compiled for wider vectors than the target's baseline has.

use super::isa::{Isa, isa};

/// Runs a closure without parameters in code that is compiled for the widest vectors of this processor, and returns its
/// result.
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
/// ixion_kernels::widest!(|| numbers.iter_mut().for_each(|x| *x += 1.0));
/// assert_eq!(numbers, [2.0, 3.0]);
/// ```
#[macro_export]
macro_rules! widest {
    (|| $work:expr) => {
        $crate::run_widest(
            #[inline(always)]
            || $work,
        )
    };
}

/// Runs the closure of [`widest!`], which must be `#[inline(always)]`.
#[doc(hidden)]
#[inline(always)]
pub fn run_widest<F: FnOnce() -> R, R>(work: F) -> R {
    let run: unsafe fn(F) -> R = match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => with_avx512,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => with_avx2,
        _ => |work| work(),
    };
    // SAFETY: the processor has the features that the function is compiled for.
    unsafe { run(work) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
fn with_avx512<F: FnOnce() -> R, R>(work: F) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2<F: FnOnce() -> R, R>(work: F) -> R {
    work()
}
