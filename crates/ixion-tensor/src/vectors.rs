//! Loops compiled for wider vectors than the target's baseline has.

/// Runs a loop in code that is compiled for the widest vectors of this processor. Only code that is inlined into it benefits,
/// so the functions that it calls are marked `#[inline(always)]`. Results have the same bits on every processor. The kernels,
/// which depend on this crate, have their own `widest` for the instructions that the user selects.
#[inline(always)]
pub(super) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        if x86::has_avx512() {
            // SAFETY: the processor has the instructions.
            return unsafe { x86::with_avx512(work) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the instructions.
            return unsafe { x86::with_avx2(work) };
        }
    }
    work()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    #[inline(always)]
    pub(super) fn has_avx512() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
    pub(super) fn with_avx512<R>(work: impl FnOnce() -> R) -> R {
        work()
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
}
