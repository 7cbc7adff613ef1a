//! Measures the time to parse a text, to open a model, and to load a plan.
//!
//! The large models are written by `benches/make_vit.py` and by `tests/export/networks.py` (resnet50); benchmarks whose model
//! is missing are skipped. `IXION_BENCH_MODELS` is the folder of the models (default: `target/bench-models`).

#![allow(missing_docs, clippy::expect_used, reason = "a bench that cannot run should stop")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ixion::Limits;
use ixion::engine::{Builder, PlanFile};
use ixion::graph::default_bin_path;
use ixion::pnnx::Graph;
use std::fmt::Write;
use std::path::Path;

/// A chain of convolutions and activations, with parameters and shapes as PNNX writes them.
fn chain(operators: usize) -> String {
    let mut text = format!("7767517\n{operators} {}\n", operators - 1);
    let shape = "(1,64,56,56)f32";
    writeln!(text, "pnnx.Input pnnx_input_0 0 1 0 #0={shape}").expect("a string takes everything");
    for index in 1..operators - 1 {
        let from = index - 1;
        let operator = if index % 2 == 1 {
            format!(
                "nn.Conv2d                conv_{index} 1 1 {from} {index} bias=True dilation=(1,1) groups=1 in_channels=64 \
                 kernel_size=(3,3) out_channels=64 padding=(1,1) padding_mode=zeros stride=(1,1) @bias=(64)f32 \
                 @weight=(64,64,3,3)f32"
            )
        } else {
            format!("nn.ReLU                  relu_{index} 1 1 {from} {index}")
        };
        writeln!(text, "{operator} #{from}={shape} #{index}={shape}").expect("a string takes everything");
    }
    text + &format!("pnnx.Output pnnx_output_0 1 0 {}\n", operators - 2)
}

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("text to graph");
    group.sample_size(20);
    for operators in [1_000, 10_000, 100_000] {
        let text = chain(operators);
        group.throughput(Throughput::Elements(operators as u64));
        group.bench_with_input(BenchmarkId::from_parameter(operators), &text, |bench, text| {
            bench.iter_with_large_drop(|| Graph::parse(text, &Limits::default()).expect("the text is right"));
        });
    }
    group.finish();
}

fn open(criterion: &mut Criterion) {
    let folder = std::env::var("IXION_BENCH_MODELS").unwrap_or_else(|_| "target/bench-models".to_owned());
    let param = Path::new(&folder).join("vit_b_32.pnnx.param");
    if !param.is_file() {
        eprintln!("{} does not exist; create it with benches/make_vit.py", param.display());
        return;
    }
    let bin = default_bin_path(&param);
    criterion.bench_function("open a model of 350 MB", |bench| {
        bench.iter(|| Graph::load(&param, Some(&bin), &Limits::default()).expect("the model is right"));
    });
}

/// Loads plans of networks: header, index and graph are checked, layers are created, shapes are inferred; no weights are read.
fn plan(criterion: &mut Criterion) {
    let folder = std::env::var("IXION_BENCH_MODELS").unwrap_or_else(|_| "target/bench-models".to_owned());
    let large = Path::new(&folder).join("resnet50.pnnx.param");
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file/resnet18/resnet18.pnnx.param");
    let place = tempfile::tempdir().expect("there is room for plans");
    for param in [small, large].into_iter().filter(|param| param.is_file()) {
        let name = param.file_stem().unwrap_or_default().to_string_lossy().replace(".pnnx", "");
        let path = place.path().join(&name);
        let built = Builder::new(&param).with_random_weights(1).build().expect("the model is right");
        built.save(&path).expect("there is room for plans");
        let mut group = criterion.benchmark_group(format!("plan of {name}"));
        let limits = Limits::default();
        // SAFETY: no other process uses the folder.
        let map = || unsafe { PlanFile::map(&path, &limits) }.expect("the plan is right");
        group.bench_function("open mapped", |bench| bench.iter_with_large_drop(map));
        group.bench_function("load mapped", |bench| {
            bench.iter_with_large_drop(|| map().load().expect("the plan is right"));
        });
        let open = || PlanFile::open(&path, &limits).expect("the plan is right");
        group.bench_function("load read", |bench| {
            bench.iter_with_large_drop(|| open().load().expect("the plan is right"));
        });
        group.sample_size(10);
        group.bench_function("verify", |bench| bench.iter(|| open().verify().expect("the plan is right")));
        group.bench_function("build", |bench| {
            let source = || open().graph().expect("the plan is right");
            bench.iter_with_large_drop(|| Builder::from_pnnx(source()).build().expect("the model is right"));
        });
        group.finish();
    }
}

criterion_group!(benches, parse, open, plan);
criterion_main!(benches);
