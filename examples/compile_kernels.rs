//! Compiles kernels with NVRTC for several architectures, to see that real GPUs would take them.
//!
//! The folder is one in which the emulator kept what it ran. No GPU is needed:
//!
//! ```text
//! cargo run --features cuda --example compile_kernels -- --list .ci/kernels.txt ~/.cache/ixion/kernels sm_80 sm_90 sm_100
//! ```
//!
//! A list has the sources that were compiled before. Only what it hasn't is compiled; with `--write` it is written anew, of what
//! was compiled and what it had of the rest. `--all` compiles everything.

use ixion::cuda::device::{CudaError, KernelCache};
use ixion::cuda::nvidia::compile;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What NVRTC is called for all sources alike: with another version or for other architectures, nothing of a list holds.
fn heading(compiler: &str, architectures: &[String]) -> String {
    format!("# NVRTC {compiler} compiled these for {}", architectures.join(" "))
}

#[derive(Default)]
struct Wishes {
    list: Option<PathBuf>,
    compiler: String,
    compiles_all: bool,
    writes: bool,
    rest: Vec<String>,
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let wishes = wishes();
    let Some((folder, architectures)) = wishes.rest.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        eprintln!(
            "usage: compile_kernels [--list FILE] [--nvrtc VERSION] [--all] [--write] FOLDER ARCHITECTURE…"
        );
        return Ok(ExitCode::from(2));
    };
    let heading = heading(&wishes.compiler, architectures);
    let known = wishes.list.as_ref().map(|path| known(path, &heading)).unwrap_or_default();
    let mut sources = sources(folder)?;
    if wishes.list.is_some() {
        // Kernels of tests are no business of a list.
        sources.retain(|(line, _)| is_own(line));
    }
    let is_wanted = |line: &String| wishes.compiles_all || !known.contains(line);
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
    let Some(path) = wishes.list.filter(|_| failed.is_empty() && all > 0) else {
        return Ok(if failed.is_empty() && all > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    };
    if wishes.writes {
        // Without the kernels of files that there are in newer versions: what was compiled of them has another line now.
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
    eprintln!("{} does not list what was compiled just now: {}", path.display(), new.join(", "));
    eprintln!(
        "They are fine. To save the time, write the list anew and commit it: IXION_KERNELS=write .ci/run"
    );
    Ok(ExitCode::SUCCESS)
}

fn wishes() -> Wishes {
    let mut wishes = Wishes { compiler: "of any version".to_owned(), ..Wishes::default() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--list" => wishes.list = arguments.next().map(PathBuf::from),
            "--nvrtc" => wishes.compiler = arguments.next().unwrap_or_default(),
            "--all" => wishes.compiles_all = true,
            "--write" => wishes.writes = true,
            _ => wishes.rest.push(argument),
        }
    }
    wishes
}

/// The lines of a list, or none if it is of another compiler or for other architectures.
fn known(path: &PathBuf, heading: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines();
    if lines.next() == Some(heading) { lines.map(str::to_owned).collect() } else { BTreeSet::new() }
}

/// The sources of a folder, each with its line in a list: its file, and a sum of its text.
fn sources(folder: &str) -> Result<Vec<(String, String)>, CudaError> {
    let mut found = Vec::new();
    for (name, source) in KernelCache::in_folder(folder).sources()? {
        let file = name.rsplit_once('-').map_or(&*name, |(file, _)| file);
        found.push((format!("{file} {:016x}", sum(&source)), source));
    }
    // A source of the emulator's checker is one of the emulator, too.
    found.sort();
    found.dedup_by(|a, b| a.0 == b.0);
    Ok(found)
}

/// Whether the file of a line is one of Ixion, or what Ixion writes itself for chains of functions.
fn is_own(line: &str) -> bool {
    let file = line.split(' ').next().unwrap_or_default();
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/cuda/kernels"));
    file == "elementwise" || folder.join(format!("{file}.cu")).exists()
}

/// FNV-1a of a source. Where lines come from is left out: it names folders of this machine.
fn sum(source: &str) -> u64 {
    let lines = source.lines().filter(|line| !line.starts_with("#line "));
    let bytes = lines.flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
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
