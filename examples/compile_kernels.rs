//! Compiles kernels with NVRTC for several architectures, to check that they compile for real GPUs.
//!
//! The folder is the emulator's kernel cache. No GPU is needed:
//!
//! ```text
//! cargo run --features cuda --example compile_kernels -- --list .ci/kernels.txt ~/.cache/ixion/kernels sm_80 sm_90 sm_100
//! ```
//!
//! The list contains the sources compiled earlier; only sources that are not in it are compiled. `--write` updates it with the
//! folder's sources and keeps its entries for other files. `--all` compiles everything.

use ixion::cuda::device::{CudaError, KernelCache};
use ixion::cuda::nvidia::compile;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The first line of a list. If it names another version or other architectures, the whole list is invalid.
fn heading(compiler: &str, architectures: &[String]) -> String {
    format!("# NVRTC {compiler} compiled these for {}", architectures.join(" "))
}

#[derive(Default)]
struct Options {
    list: Option<PathBuf>,
    compiler: String,
    compiles_all: bool,
    writes: bool,
    rest: Vec<String>,
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let options = options();
    let Some((folder, architectures)) = options.rest.split_first().filter(|(_, rest)| !rest.is_empty())
    else {
        eprintln!(
            "usage: compile_kernels [--list FILE] [--nvrtc VERSION] [--all] [--write] FOLDER ARCHITECTURE…"
        );
        return Ok(ExitCode::from(2));
    };
    let heading = heading(&options.compiler, architectures);
    let known = options.list.as_ref().map(|path| known(path, &heading)).unwrap_or_default();
    let mut sources = sources(folder)?;
    if options.list.is_some() {
        // The list does not contain kernels of tests.
        sources.retain(|(line, _)| is_own(line));
    }
    let is_wanted = |line: &String| options.compiles_all || !known.contains(line);
    let wanted: Vec<_> = sources.iter().filter(|(line, _)| is_wanted(line)).collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
    let work = || {
        while let Some((line, source)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            for fault in architectures.iter().filter_map(|wanted| fault(line, source, wanted)) {
                eprintln!("{fault}");
                failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(line.clone());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (all, compiled) = (sources.len(), wanted.len());
    println!("{all} sources for {}: {compiled} compiled, {} failed", architectures.join(", "), failed.len());
    let Some(path) = options.list.filter(|_| failed.is_empty() && all > 0) else {
        return Ok(if failed.is_empty() && all > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    };
    if options.writes {
        // Drop the old entries of files in the folder: their kernels may have changed, and the current ones are added.
        let files: BTreeSet<&str> = sources.iter().filter_map(|(line, _)| line.split(' ').next()).collect();
        let is_kept = |line: &&String| !line.split(' ').next().is_some_and(|file| files.contains(file));
        let lines: BTreeSet<&String> =
            known.iter().filter(is_kept).chain(sources.iter().map(|(line, _)| line)).collect();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, format!("{heading}\n{text}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let new: Vec<&str> =
        sources.iter().map(|(line, _)| &**line).filter(|line| !known.contains(*line)).collect();
    if new.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("{} lacks these newly compiled kernels: {}", path.display(), new.join(", "));
    eprintln!(
        "They compile. To skip them next time, update the list and commit it: IXION_KERNELS=write .ci/run"
    );
    Ok(ExitCode::SUCCESS)
}

fn options() -> Options {
    let mut options = Options { compiler: "of any version".to_owned(), ..Options::default() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--list" => options.list = arguments.next().map(PathBuf::from),
            "--nvrtc" => options.compiler = arguments.next().unwrap_or_default(),
            "--all" => options.compiles_all = true,
            "--write" => options.writes = true,
            _ => options.rest.push(argument),
        }
    }
    options
}

/// Reads the lines of a list. Returns none if it was written with another compiler or for other architectures.
fn known(path: &PathBuf, heading: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines();
    if lines.next() == Some(heading) { lines.map(str::to_owned).collect() } else { BTreeSet::new() }
}

/// Returns the sources of a folder, each with its line in a list: the file name and a hash of the source.
fn sources(folder: &str) -> Result<Vec<(String, String)>, CudaError> {
    let mut found = Vec::new();
    for (name, source) in KernelCache::in_folder(folder).sources()? {
        let file = name.rsplit_once('-').map_or(&*name, |(file, _)| file);
        found.push((format!("{file} {:016x}", sum(&source)), source));
    }
    // The emulator's checker compiles the same sources as the emulator.
    found.sort();
    found.dedup_by(|a, b| a.0 == b.0);
    Ok(found)
}

/// Returns true if a line's file is one of Ixion's kernels or was generated by Ixion for an elementwise chain.
fn is_own(line: &str) -> bool {
    let file = line.split(' ').next().unwrap_or_default();
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/cuda/kernels"));
    file == "elementwise" || folder.join(format!("{file}.cu")).exists()
}

/// The FNV-1a hash of a source, without `#line` directives, which contain paths of this machine.
fn sum(source: &str) -> u64 {
    let lines = source.lines().filter(|line| !line.starts_with("#line "));
    let bytes = lines.flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Compiles a source for an architecture and returns the error, if any.
fn fault(name: &str, source: &str, architecture: &str) -> Option<CudaError> {
    match compile(name, source, architecture) {
        Ok(made) if made.cubin.is_empty() || made.ptx.is_empty() => {
            let log = format!("no code was generated for {architecture}");
            Some(CudaError::Compile { unit: name.to_owned(), log })
        }
        Ok(_) => None,
        Err(error) => Some(error),
    }
}
