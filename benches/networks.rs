//! Measures the time of a network for one image, as a plain graph and as a plan, after the first run has read the weights.
//! First prints the difference between the results of both.
//!
//! The networks are those in `model_file/` and every folder NAME in `IXION_BENCH_MODELS` that contains `NAME.pnnx.param`, as
//! written by `model_file/export_torchvision.py`. For one core: `taskset -c 0 cargo bench --bench networks`.

#![allow(missing_docs, clippy::expect_used, reason = "a bench that cannot run should stop")]

use criterion::{Criterion, criterion_group, criterion_main};
use ixion::engine::{Builder, Model};
use ixion::graph::{RuntimeGraph, default_bin_path};
use ixion::pnnx::Dim;
use ixion::tensor::{DType, Shape, Tensor};
use std::path::{Path, PathBuf};

/// The networks of the repository and those in `IXION_BENCH_MODELS`.
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

/// Noise in the shape given by the file, with 1 for unknown lengths.
fn input(graph: &RuntimeGraph) -> Tensor {
    let operand = graph.operand(graph.inputs().first().expect("there is an input").operand);
    let len = |dim: &Dim| if let Dim::Fixed(len) = dim { *len as usize } else { 1 };
    let dims: Vec<usize> = operand.shape().expect("the file says the shape").iter().map(len).collect();
    Tensor::randn(&Shape::new(&dims).expect("the shape is sane"), 0).expect("there is memory")
}

/// The plain graph and the plan of one file.
fn both(param: &Path) -> (RuntimeGraph, Model) {
    let (mut graph, mut builder) = (RuntimeGraph::new(param), Builder::new(param));
    if !default_bin_path(param).is_file() {
        (graph, builder) = (graph.with_random_weights(0), builder.with_random_weights(0));
    }
    graph.build().expect("the network is supported");
    let plan = builder.build().expect("the network is supported");
    (graph, Model::from_plan(plan).expect("there is memory"))
}

/// The largest difference relative to the largest magnitude, over all outputs.
fn apart(plain: &[Tensor], planned: &[Tensor]) -> f64 {
    let numbers = |tensor: &Tensor| tensor.cast(DType::F64).and_then(|tensor| tensor.to_vec::<f64>());
    let apart = plain.iter().zip(planned).map(|(plain, planned)| {
        let (plain, planned) =
            (numbers(plain).expect("real outputs"), numbers(planned).expect("real outputs"));
        let largest = plain.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
        let differences = plain.iter().zip(&planned).map(|(a, b)| (a - b).abs());
        differences.fold(0.0, f64::max) / largest.max(f64::MIN_POSITIVE)
    });
    apart.fold(0.0, f64::max)
}

fn run(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one picture");
    group.sample_size(10);
    for param in networks() {
        let (mut graph, mut model) = both(&param);
        let input = input(&graph);
        let name = param.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let name = name.trim_end_matches(".pnnx.param").to_owned();
        let plain = graph.run_with(vec![input.clone()]).expect("the network runs");
        let planned = model.run(&[input.clone()]).expect("the network runs");
        println!("{name}: plain and planned are {:.1e} apart", apart(&plain, &planned));
        group.bench_function(format!("{name}, plain"), |bench| {
            bench.iter(|| graph.run_with(vec![input.clone()]).expect("the network runs"));
        });
        group.bench_function(format!("{name}, planned"), |bench| {
            bench.iter(|| model.run(&[input.clone()]).expect("the network runs"));
        });
    }
    group.finish();
}

criterion_group!(benches, run);
criterion_main!(benches);
