//! Broken files: mutants of real models are loaded, built and run. Each must end in a result or an error, never in a panic, and
//! within its memory and time limits.
//!
//! `IXION_MUTANTS` is the number of mutants (default: 300), `IXION_SEED` the random seed.

mod onnx;
mod plans;

use crate::common;
use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::pnnx::{Dim, Graph};
use ixion::tensor::{DType, Tensor};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A model's two files.
struct Model {
    name: String,
    param: Vec<u8>,
    bin: Vec<u8>,
}

/// The original models: those of this repository, and the conformance cases if available.
fn models() -> Vec<Model> {
    let own = ["linear", "conv3", "two_inputs", "digits"].map(|name| {
        let path = format!("{}/model_file/{name}/{name}.pnnx", env!("CARGO_MANIFEST_DIR"));
        (PathBuf::from(format!("{path}.param")), PathBuf::from(format!("{path}.bin")))
    });
    let cases = common::conformance_cases()
        .into_iter()
        .map(|folder| (folder.join("model.param"), folder.join("model.bin")));
    let pairs = own.into_iter().chain(cases);
    let read = |path: &PathBuf| std::fs::read(path).unwrap_or_default();
    let models = pairs.map(|(param, bin)| Model {
        name: param.display().to_string(),
        param: read(&param),
        bin: read(&bin),
    });
    models.filter(|model| model.param.len() < 1 << 16 && model.bin.len() < 1 << 19).collect()
}

/// Numbers and words that often break programs.
const TRAPS: &[&str] = &[
    "0",
    "-1",
    "1",
    "2",
    "7",
    "255",
    "65536",
    "2147483647",
    "-2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "1e308",
    "1e309",
    "-inf",
    "nan",
    "()",
    "[]",
    "None",
    "True",
    "?",
    "(1)",
    "(0,0)",
    "(99999999,99999999,99999999)",
    "same",
    "",
    "@0",
    "f16",
    "c128",
    "null",
    "%x",
];

fn mutate_text(text: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    let line = rng.random_range(0..lines.len());
    match rng.random_range(0..5) {
        0 => drop(lines.remove(line)),
        1 => lines.insert(line, lines[line].clone()),
        2 => {
            let other = rng.random_range(0..lines.len());
            lines.swap(line, other);
        }
        _ => lines[line] = replace_token(&lines[line], rng),
    }
    lines.join(&b'\n')
}

/// Replaces a number or word of a line by a trap.
fn replace_token(line: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let separator = |byte: &u8| b" =(),#@$[]".contains(byte);
    let starts: Vec<usize> =
        (0..line.len()).filter(|&i| !separator(&line[i]) && (i == 0 || separator(&line[i - 1]))).collect();
    let Some(&start) = starts.get(rng.random_range(0..starts.len().max(1))) else { return line.to_vec() };
    let end = (start..line.len()).find(|&i| separator(&line[i])).unwrap_or(line.len());
    let trap = TRAPS[rng.random_range(0..TRAPS.len())].as_bytes();
    [&line[..start], trap, &line[end..]].concat()
}

fn mutate_bytes(bytes: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..rng.random_range(1..4) {
        if bytes.is_empty() {
            return bytes;
        }
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..5) {
            0 => bytes.truncate(at),
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, rng.random()),
            3 => bytes[at] = [0, 0xff, 0x7f, 0x80][rng.random_range(0..4)],
            _ => bytes[at] ^= 1 << rng.random_range(0..8),
        }
    }
    bytes
}

fn limits() -> Limits {
    let bytes = 32 << 20;
    let limits =
        Limits { max_tensor_bytes: bytes, max_total_bytes: 4 * bytes, max_ops: 10_000, ..Limits::default() };
    limits.with_timeout(Duration::from_secs(5))
}

/// Loads, builds and runs a model; returns the last step that succeeded.
fn try_model(param: &[u8], bin: Vec<u8>) -> &'static str {
    let limits = limits();
    match Graph::from_bytes(param, Some(bin), &limits) {
        Ok(graph) => try_graph(graph, &limits),
        Err(_) => "not loaded",
    }
}

/// Builds and runs a graph; returns the last step that succeeded.
fn try_graph(graph: Graph, limits: &Limits) -> &'static str {
    let mut runtime = RuntimeGraph::from_pnnx(graph).with_limits(limits.clone());
    if runtime.build().is_err() {
        return "not built";
    }
    let Some(inputs) = zero_inputs(&runtime, limits) else { return "no inputs" };
    if runtime.run_with(inputs).is_ok() { "run" } else { "not run" }
}

fn zero_inputs(runtime: &RuntimeGraph, limits: &Limits) -> Option<Vec<Tensor>> {
    let inputs = runtime.inputs().iter().map(|port| {
        let operand = runtime.operand(port.operand);
        let dims = operand.shape().unwrap_or_default().iter().map(|dim| match dim {
            Dim::Fixed(len) => usize::try_from(*len).ok(),
            _ => Some(1),
        });
        let dims: Vec<usize> = dims.collect::<Option<_>>()?;
        let bytes = dims.iter().try_fold(16u64, |n, &dim| n.checked_mul(dim as u64))?;
        limits.check_tensor("an input", bytes).ok()?;
        Tensor::zeros(operand.dtype().unwrap_or(DType::F32), &dims).ok()
    });
    inputs.collect()
}

/// The number of mutants and the seed, from the environment or the defaults.
fn settings(default: u64) -> (u64, u64) {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    (number("IXION_MUTANTS", default), number("IXION_SEED", 1))
}

fn generator(seed: u64, mutant: u64) -> StdRng {
    StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(mutant))
}

#[test]
fn mutants_end_in_a_result_or_an_error() {
    let (count, seed) = settings(300);
    let models = models();
    let mut ends = std::collections::BTreeMap::<&str, usize>::new();
    for mutant in 0..count {
        let mut rng = generator(seed, mutant);
        let model = &models[rng.random_range(0..models.len())];
        let (param, bin) = match rng.random_range(0..4) {
            0 => (model.param.clone(), mutate_bytes(&model.bin, &mut rng)),
            1 => (mutate_bytes(&model.param, &mut rng), model.bin.clone()),
            _ => (mutate_text(&model.param, &mut rng), model.bin.clone()),
        };
        let start = Instant::now();
        let end = catch_unwind(AssertUnwindSafe(|| try_model(&param, bin)));
        let end = end.unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&param);
            panic!("mutant {mutant} of {} (IXION_SEED={seed}) panicked:\n{text}", model.name)
        });
        assert!(start.elapsed() < Duration::from_secs(60), "mutant {mutant} of {} hangs", model.name);
        *ends.entry(end).or_default() += 1;
    }
    println!("{count} mutants: {ends:?}");
    assert!(ends.contains_key("run") && ends.len() > 2, "the mutants are not diverse: {ends:?}");
}
