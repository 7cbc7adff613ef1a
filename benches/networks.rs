//! How long a network takes for one picture, after the first run has read the weights.
//!
//! Measured are the networks of `model_file/`, and every folder NAME in `IXION_BENCH_MODELS` that holds `NAME.pnnx.param`, as
//! `model_file/export_torchvision.py` writes them. For one core: `taskset -c 0 cargo bench --bench networks`.

#![allow(missing_docs, clippy::expect_used, reason = "a bench that cannot run should stop")]

use criterion::{Criterion, criterion_group, criterion_main};
use ixion::graph::{RuntimeGraph, archive_beside};
use ixion::pnnx::Dim;
use ixion::tensor::{Shape, Tensor};
use std::path::{Path, PathBuf};

/// The networks of the repository, and those of the folder that the environment names.
fn networks() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file");
    let mut folders: Vec<PathBuf> =
        ["resnet18", "shapes_detector", "shapes_unet"].iter().map(|name| own.join(name)).collect();
    if let Some(others) = std::env::var_os("IXION_BENCH_MODELS") {
        let entries = std::fs::read_dir(others).expect("IXION_BENCH_MODELS is a folder");
        folders.extend(entries.flatten().map(|entry| entry.path()));
    }
    let param = |folder: PathBuf| {
        let name = folder.file_name()?.to_str()?.to_owned();
        Some(folder.join(format!("{name}.pnnx.param"))).filter(|param| param.is_file())
    };
    let mut params: Vec<PathBuf> = folders.into_iter().filter_map(param).collect();
    params.sort();
    params
}

/// Noise in the shape that the file says, one picture where it says nothing.
fn input(graph: &RuntimeGraph) -> Tensor {
    let operand = graph.operand(graph.inputs().first().expect("there is an input").operand);
    let len = |dim: &Dim| if let Dim::Fixed(len) = dim { *len as usize } else { 1 };
    let dims: Vec<usize> = operand.shape().expect("the file says the shape").iter().map(len).collect();
    Tensor::randn(&Shape::new(&dims).expect("the shape is sane"), 0).expect("there is memory")
}

fn run(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one picture");
    group.sample_size(10);
    for param in networks() {
        let mut graph = RuntimeGraph::new(&param);
        if !archive_beside(&param).is_file() {
            graph = graph.with_random_weights(0);
        }
        graph.build().expect("the network is supported");
        let input = input(&graph);
        let name = param.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        group.bench_function(name.trim_end_matches(".pnnx.param"), |bench| {
            bench.iter(|| graph.run_with(vec![input.clone()]).expect("the network runs"));
        });
    }
    group.finish();
}

criterion_group!(benches, run);
criterion_main!(benches);
