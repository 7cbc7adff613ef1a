//! Loops compiled for wider vectors than the target's baseline has.

/// Runs `work` in code that is compiled for the widest vectors of this processor.
///
/// Only what is inlined into `work` profits, so the functions that it calls are marked `#[inline(always)]`. Products are
/// not fused with sums, so that these loops give the same bits on every processor. That holds for them alone: matrix
/// products come from the crate `gemm`, which fuses where the processor can.
#[inline(always)]
pub(super) fn widest<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: the processor has the features that the function is compiled for.
            return unsafe { with_avx512(work) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { with_avx2(work) };
        }
    }
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl")]
fn with_avx512<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}
