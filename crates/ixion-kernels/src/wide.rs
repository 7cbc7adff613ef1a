//! Loops compiled for wider vectors than the target's baseline has.

use super::isa::{Isa, isa};

/// Runs `work` in code that is compiled for the widest vectors of this processor.
///
/// Only code that is inlined into `work` benefits, so the functions that it calls are marked `#[inline(always)]`. The
/// compiler does not fuse products with sums, so these loops give the same bits on every processor. An explicit `mul_add`
/// is an instruction of these vectors, and a call of the C library on processors without one. This only holds for these
/// loops: matrix products are fused if the processor supports it.
#[inline(always)]
pub fn widest<R>(work: impl FnOnce() -> R) -> R {
    struct Closure<F>(F);
    impl<R, F: FnOnce() -> R> Work for Closure<F> {
        type Output = R;

        #[inline(always)]
        fn run(self) -> R {
            (self.0)()
        }
    }
    run_widest(Closure(work))
}

/// A piece of work for [`run_widest`]. Unlike a closure, whose body the compiler may not inline if it is long, `run` can
/// be marked `#[inline(always)]`.
pub trait Work {
    /// The result of the work.
    type Output;

    /// Does the work.
    fn run(self) -> Self::Output;
}

/// As [`widest`].
#[inline(always)]
pub fn run_widest<W: Work>(work: W) -> W::Output {
    let run: unsafe fn(W) -> W::Output = match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => with_avx512::<W>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => with_avx2::<W>,
        _ => W::run,
    };
    // SAFETY: the processor has the features that the function is compiled for.
    unsafe { run(work) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
fn with_avx512<W: Work>(work: W) -> W::Output {
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2<W: Work>(work: W) -> W::Output {
    work.run()
}
