//! The overhead of the engine: a run with known shapes, and the first run with new shapes.
//!
//! `unchanged shapes` is a complete run of a model with one operator on one element, including input checks and bookkeeping.
//! `another batch` infers all shapes and plans the memory again, for resnet18 and for every folder NAME in
//! `IXION_BENCH_MODELS` that contains `NAME.pnnx.param` and has one image as its input.

#![allow(missing_docs, clippy::expect_used, reason = "a bench that cannot run should stop")]

use criterion::{Criterion, criterion_group, criterion_main};
use ixion::Limits;
use ixion::engine::{Builder, Plan};
use ixion::graph::default_bin_path;
use ixion::op::TensorMeta;
use ixion::pnnx::{self, Dim};
use ixion::tensor::{DType, Tensor};
use std::path::{Path, PathBuf};

const ONE: &str = "7767517
3 2
pnnx.Input  input  0 1 x #x=(1)f32
F.relu      relu   1 1 x y
pnnx.Output output 1 0 y
";

fn unchanged_shapes(criterion: &mut Criterion) {
    let file = pnnx::Graph::parse(ONE, &Limits::default()).expect("the text is right");
    let plan = Builder::from_pnnx(file).build().expect("the model is supported");
    let mut context = plan.context().expect("there is memory");
    let x = Tensor::zeros(DType::F32, &[1]).expect("there is memory");
    criterion.bench_function("unchanged shapes", |bench| {
        bench.iter(|| context.run_reusing(&[x.view()]).expect("it runs").len());
    });
}

fn networks() -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file/resnet18")];
    if let Some(others) = std::env::var_os("IXION_BENCH_MODELS") {
        let entries = std::fs::read_dir(others).expect("IXION_BENCH_MODELS is a folder");
        folders.extend(entries.flatten().map(|entry| entry.path()));
    }
    let param = |folder: PathBuf| {
        let name = folder.file_name()?.to_str()?.to_owned();
        Some(folder.join(format!("{name}.pnnx.param"))).filter(|param| param.is_file())
    };
    folders.into_iter().filter_map(param).collect()
}

/// The shape of the only input as in the file, with another batch size.
fn input(plan: &Plan, batch: usize) -> Option<TensorMeta> {
    let [port] = plan.graph().inputs() else { return None };
    let operand = plan.graph().operand(port.operand);
    let len = |dim: &Dim| if let Dim::Fixed(len) = dim { usize::try_from(*len).ok() } else { None };
    let mut dims = operand.shape()?.iter().map(len).collect::<Option<Vec<_>>>()?;
    *dims.first_mut()? = batch;
    Some(TensorMeta::new(operand.dtype()?, dims))
}

fn another_batch(criterion: &mut Criterion) {
    for param in networks() {
        let builder = Builder::new(&param);
        let has_weights = default_bin_path(&param).is_file();
        let plan = if has_weights { builder } else { builder.with_random_weights(0) }.build();
        let plan = plan.expect("the network is supported");
        let Some(sizes) = (1..=32).map(|batch| input(&plan, batch)).collect::<Option<Vec<_>>>() else {
            continue;
        };
        let mut context = plan.context().expect("there is memory");
        let mut sizes = sizes.iter().cycle();
        let name = param.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        criterion.bench_function(&format!("another batch: {name}"), |bench| {
            bench.iter(|| {
                let input = sizes.next().expect("sizes never end").clone();
                context.memory_plan(&[input]).expect("the shapes fit").arena_bytes
            });
        });
    }
}

criterion_group!(benches, unchanged_shapes, another_batch);
criterion_main!(benches);
