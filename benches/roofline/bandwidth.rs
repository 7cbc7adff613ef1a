//! The bandwidth of memory and caches.

use super::machine::{Caches, together};

/// The buffer sizes for measuring memory: larger than any cache, and available on small machines.
const MEMORY: std::ops::RangeInclusive<usize> = 64 << 20..=1 << 30;
/// The minimum number of bytes read for one measurement.
const ENOUGH: usize = 16 << 20;
/// The approximate number of bytes read in all measurements, and the minimum number of measurements.
const ALTOGETHER: usize = 4 << 30;
const FEWEST: usize = 8;

/// A cache line, which is as wide as the widest register. No load crosses a line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// Bytes per second of one level of the hierarchy.
pub(crate) struct Bandwidth {
    pub(crate) name: &'static str,
    /// The bytes of each thread.
    pub(crate) bytes: usize,
    pub(crate) read: f64,
    /// Counts bytes read and bytes written.
    pub(crate) copy: f64,
}

/// Measures first level, second level and memory: the total of all threads, each with its own buffers.
pub(crate) fn measure(caches: Caches, threads: usize) -> Vec<Bandwidth> {
    let memory = (2 * caches.last).clamp(*MEMORY.start(), *MEMORY.end());
    let levels = [("L1", caches.first / 2), ("L2", caches.second / 2), ("memory", memory)];
    let level = |(name, bytes): (&'static str, usize)| Bandwidth {
        name,
        bytes,
        read: fastest(bytes, threads, |a, b| {
            std::hint::black_box(read(a) ^ read(b));
        }),
        copy: fastest(bytes, threads, |a, b| b.copy_from_slice(std::hint::black_box(a))),
    };
    levels.into_iter().map(level).collect()
}

/// The highest of several measurements. `pass` traverses two buffers of half the bytes each.
fn fastest(bytes: usize, threads: usize, pass: impl Fn(&[Line], &mut [Line]) + Sync) -> f64 {
    let passes = ENOUGH.div_ceil(bytes);
    let half = bytes / size_of::<Line>() / 2;
    // Not zeros: zero pages might share physical memory.
    let prepare = || (vec![Line([1; 8]); half], vec![Line([2; 8]); half]);
    let repeats = FEWEST.max(ALTOGETHER / (passes * bytes));
    let time = together(threads, repeats, prepare, |(a, b)| {
        (0..passes).for_each(|_| pass(a, std::hint::black_box(b)));
    });
    (bytes * passes * threads) as f64 / time.as_secs_f64()
}

/// Reads all lines with the widest loads available.
fn read(lines: &[Line]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F.
            return unsafe { x86::avx512(lines) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { x86::avx2(lines) };
        }
    }
    let mut all = [0; 8];
    for line in lines {
        all.iter_mut().zip(line.0).for_each(|(all, word)| *all ^= word);
    }
    all.iter().fold(0, |all, word| all ^ word)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Line;
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512(lines: &[Line]) -> u64 {
        let mut all = [_mm512_setzero_si512(); 8];
        for lines in lines.as_chunks::<8>().0 {
            for (all, line) in all.iter_mut().zip(lines) {
                // SAFETY: a line is 64 bytes at a multiple of 64.
                let line = unsafe { _mm512_load_si512(std::ptr::from_ref(line).cast()) };
                *all = _mm512_xor_si512(*all, line);
            }
        }
        all.iter().fold(0, |sum, all| sum ^ _mm512_reduce_or_epi64(*all) as u64)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn avx2(lines: &[Line]) -> u64 {
        let mut all = [_mm256_setzero_si256(); 8];
        for lines in lines.as_chunks::<4>().0 {
            for (all, line) in all.as_chunks_mut::<2>().0.iter_mut().zip(lines) {
                for (all, half) in all.iter_mut().zip(line.0.as_chunks::<4>().0) {
                    // SAFETY: half of a line is 32 bytes at a multiple of 32.
                    let half = unsafe { _mm256_load_si256(half.as_ptr().cast()) };
                    *all = _mm256_xor_si256(*all, half);
                }
            }
        }
        all.iter().fold(0, |sum, all| sum ^ _mm256_extract_epi64::<0>(*all) as u64)
    }
}
