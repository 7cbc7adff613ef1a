//! Compiles all kernels of a folder with NVRTC for several architectures, to see that real GPUs would take them.
//!
//! The folder is one in which the emulator kept what it ran. No GPU is needed:
//!
//! ```text
//! cargo run --features cuda --example compile_kernels -- ~/.cache/ixion/kernels sm_80 sm_90 sm_100
//! ```

use ixion::cuda::device::{CudaError, KernelCache};
use ixion::cuda::nvidia::compile;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

fn main() -> Result<ExitCode, CudaError> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_default();
    let architectures: Vec<String> = arguments.collect();
    if architectures.is_empty() {
        eprintln!("usage: compile_kernels FOLDER ARCHITECTURE…");
        return Ok(ExitCode::from(2));
    }
    let sources = KernelCache::in_folder(&folder).sources()?;
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some((name, source)) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
            let faults = architectures.iter().filter_map(|wanted| fault(name, source, wanted));
            for fault in faults {
                failed.fetch_add(1, Ordering::Relaxed);
                eprintln!("{fault}");
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner();
    println!("{} sources for {}: {failed} failed", sources.len(), architectures.join(", "));
    Ok(if failed == 0 && !sources.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is wrong with a source for an architecture.
fn fault(name: &str, source: &str, architecture: &str) -> Option<CudaError> {
    match compile(name, source, architecture) {
        Ok(made) if made.cubin.is_empty() || made.ptx.is_empty() => {
            let log = format!("there is no code for {architecture}");
            Some(CudaError::Compile { unit: name.to_owned(), log })
        }
        Ok(_) => None,
        Err(error) => Some(error),
    }
}
