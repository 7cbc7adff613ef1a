//! Measures the memory used for opening and running a model: `cargo bench --bench memory`. Linux only; elsewhere, it prints a
//! note.
//!
//! Opening only builds an index and should need little memory, whatever the size of the archive. A run should need at most the
//! weights in use and 1.2 times the largest set of simultaneously live activations, in addition to the pages of the program's
//! file: about 15 MB, most of which the first run reads, whatever the model. Many runs of a plan with pictures of changing sizes
//! should keep no more memory than a few runs.
//!
//! The C library keeps freed blocks, which count as resident. With `MALLOC_MMAP_THRESHOLD_=131072`, glibc returns large blocks
//! immediately, so that only memory in use is measured.

#![allow(missing_docs, clippy::expect_used, reason = "a bench that cannot run should stop")]

use ixion::Limits;
use ixion::engine::{Builder, Model};
use ixion::graph::{RuntimeGraph, default_bin_path};
use ixion::pnnx::Graph;
use ixion::tensor::{DType, Tensor};
use std::path::Path;
use std::time::Instant;

/// A line of `/proc/self/status` in bytes, such as `VmHWM`, the peak resident size.
fn status(key: &str) -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? * 1024.0)
}

/// As [`status`], without the pages of files, which are mostly those of the program.
fn own(key: &str) -> f64 {
    status(key).unwrap_or(f64::NAN) - status("RssFile").unwrap_or(f64::NAN)
}

const MB: f64 = 1e6;

fn open() {
    let folder = std::env::var("IXION_BENCH_MODELS").unwrap_or_else(|_| "target/bench-models".to_owned());
    let param = Path::new(&folder).join("vit_b_32.pnnx.param");
    if !param.is_file() {
        println!("{} does not exist; create it with benches/make_vit.py", param.display());
        return;
    }
    let start = Instant::now();
    let graph =
        Graph::load(&param, Some(&default_bin_path(&param)), &Limits::default()).expect("the model is right");
    let time = start.elapsed();
    let resident = status("VmRSS").unwrap_or(f64::NAN);
    println!("open {}: {time:.1?}, {:.1} MB resident in all", param.display(), resident / MB);
    drop(graph);
}

fn run() {
    let param = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/resnet18/resnet18.pnnx.param");
    let before = own("VmRSS");
    let mut graph = RuntimeGraph::new(param).with_random_weights(1);
    graph.build().expect("the model is right");
    let weights = graph.operators().iter().map(|operator| operator.weight_bytes()).sum::<u64>() as f64;
    let name = graph.inputs()[0].name.clone();
    // The peak never decreases, so small batches come first.
    for batch in [1, 4] {
        let pictures = Tensor::ones(DType::F32, &[batch, 3, 224, 224]).expect("there is memory");
        graph.set_input(&name, pictures).expect("the input fits");
        let trace = graph.run_traced().expect("the model runs");
        let peak = own("VmHWM") - before;
        let live = trace.peak_bytes as f64;
        println!(
            "run resnet18, batch {batch}: peak {:.1} MB = weights {:.1} MB + {:.2} × {:.1} MB of live activations, {:.1?}",
            peak / MB,
            weights / MB,
            (peak - weights) / live,
            live / MB,
            trace.total
        );
    }
}

/// Runs a plan with pictures of changing sizes, and prints the resident size at intervals as a table in Markdown.
fn changing_shapes() {
    const RUNS: usize = 1000;
    let param = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/shapes_unet/shapes_unet.pnnx.param");
    let plan = Builder::new(param).with_threads(2).build().expect("the model is right");
    let mut model = Model::from_plan(plan).expect("there is memory");
    println!(
        "| runs of shapes_unet | different sizes | resident, MB | at most until then, MB |\n| --: | --: | --: | --: |"
    );
    let mut sizes = std::collections::BTreeSet::new();
    for run in 1..=RUNS {
        // All sides from 64 to 512 in steps of 16, and nearly all pairs of them; the largest first, as the arena keeps its size.
        let [height, width] = [(run - 1) * 7, (run - 1) * 11 + (run - 1) / 29].map(|at| 512 - 16 * (at % 29));
        sizes.insert((height, width));
        let picture = Tensor::ones(DType::F32, &[1, 3, height, width]).expect("there is memory");
        model.run(&[picture]).expect("the model runs");
        if [1, 3, 10, 30, 100].contains(&run) || run % 200 == 0 {
            let [resident, peak] = ["VmRSS", "VmHWM"].map(|key| status(key).unwrap_or(f64::NAN) / MB);
            println!("| {run} | {} | {resident:.1} | {peak:.1} |", sizes.len());
        }
    }
}

/// What is measured, each in a process of its own: memory that one part has freed would count for the next.
const PARTS: [(&str, fn()); 3] = [("open", open), ("run", run), ("shapes", changing_shapes)];

fn main() {
    if status("VmHWM").is_none() {
        println!("this system has no /proc/self/status; nothing was measured");
        return;
    }
    let wanted = std::env::args().nth(1);
    if let Some((_, measure)) = PARTS.iter().find(|(name, _)| wanted.as_deref() == Some(name)) {
        return measure();
    }
    let program = std::env::current_exe().expect("a program has a path");
    for (name, _) in PARTS {
        let ended = std::process::Command::new(&program).arg(name).status().expect("the program starts");
        assert!(ended.success(), "{name}: {ended}");
    }
}
