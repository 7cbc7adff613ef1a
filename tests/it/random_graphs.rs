//! Random graphs give the same results when interpreted, optimised by passes, and planned, also when the shapes of their inputs
//! change and change back.
//!
//! `IXION_GRAPHS=10000` runs that many graphs instead of 200 and requires every pass to fire 50 times, not once. `IXION_SEED=7`
//! runs only the graph of that seed. A failing graph is shrunk and printed.

mod blocks;
mod images;
mod maker;
mod net;
mod recipes;
mod spelled;

use ixion::engine::Builder;
use ixion::graph::RuntimeGraph;
use ixion::passes::{PassContext, Passes};
use ixion::pnnx::Graph;
use ixion::tensor::{DType, Tensor};
use net::{Net, SIZES};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Passes for chains of operators that exporters write and random graphs do not have. Their own tests compare results, too.
const OF_WHOLE_NETWORKS: [&str; 3] = ["fuse_multihead_attention", "known_values", "multihead_in_place"];

/// Passes for models that are quantised. A plan computes these in int8, and so may differ by a step: `quantized_models` has
/// their tests.
const OF_QUANTIZED_MODELS: [&str; 2] = ["quantized_pairs", "quantized_weights"];

/// How often each pass fired.
type Fired = BTreeMap<String, usize>;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

fn interpreted(graph: Graph, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, String> {
    let mut graph = RuntimeGraph::from_pnnx(graph);
    graph.build().map_err(|error| format!("build: {error}"))?;
    graph.run_with(inputs).map_err(|error| format!("run: {error}"))
}

/// Compares the interpreted, optimised and planned graph. Returns an error if they differ.
fn check(net: &Net, fired: &mut Fired) -> Result<(), String> {
    let mut optimized = net.graph();
    let statistics = Passes::default()
        .run(&mut optimized, PassContext::default())
        .map_err(|error| format!("passes: {error}"))?;
    for pass in Passes::default().iter() {
        *fired.entry(pass.pass.name().to_owned()).or_default() += statistics.fired(pass.pass.name());
    }
    let plan = Builder::from_pnnx(net.graph()).build().map_err(|error| format!("plan: {error}"))?;
    let mut context = plan.context().map_err(|error| format!("context: {error}"))?;
    for (step, sizes) in [&SIZES[0], &SIZES[1], &SIZES[2], &SIZES[0]].into_iter().enumerate() {
        let inputs = net.tensors(sizes);
        let wanted =
            interpreted(net.graph(), inputs.clone()).map_err(|error| format!("interpreter: {error}"))?;
        let improved =
            interpreted(optimized.clone(), inputs.clone()).map_err(|error| format!("optimised: {error}"))?;
        let planned = context.run(&inputs).map_err(|error| format!("planned, step {step}: {error}"))?;
        if wanted.len() != improved.len() || wanted.len() != planned.len() {
            return Err(format!("{} outputs, {} and {}", wanted.len(), improved.len(), planned.len()));
        }
        for (output, wanted) in wanted.iter().enumerate() {
            near(wanted, &improved[output])
                .map_err(|error| format!("step {step}, output {output}: optimised: {error}"))?;
            same(&improved[output], &planned[output])
                .map_err(|error| format!("step {step}, output {output}: planned: {error}"))?;
        }
    }
    Ok(())
}

fn values(tensor: &Tensor) -> Vec<f32> {
    match tensor.dtype() {
        DType::Bool => {
            tensor.to_vec::<bool>().unwrap().into_iter().map(|value| f32::from(u8::from(value))).collect()
        }
        DType::I64 => tensor.to_vec::<i64>().unwrap().into_iter().map(|value| value as f32).collect(),
        _ => tensor.to_vec::<f32>().unwrap(),
    }
}

/// Checks that two tensors are equal up to rounding: within 1e-4 of the largest magnitude.
fn near(wanted: &Tensor, found: &Tensor) -> Result<(), String> {
    if wanted.shape() != found.shape() || wanted.dtype() != found.dtype() {
        let (wanted, found) = ((wanted.shape(), wanted.dtype()), (found.shape(), found.dtype()));
        return Err(format!("{} {}, not {} {}", found.0, found.1, wanted.0, wanted.1));
    }
    let (wanted, found) = (values(wanted), values(found));
    let largest =
        wanted.iter().filter(|value| value.is_finite()).fold(1f32, |largest, value| largest.max(value.abs()));
    let differs = |(a, b): &(&f32, &f32)| {
        let distance = (**a - **b).abs();
        a.to_bits() != b.to_bits() && (distance.is_nan() || distance > 1e-4 * largest)
    };
    match wanted.iter().zip(&found).find(|pair| differs(pair) && !(pair.0.is_nan() && pair.1.is_nan())) {
        Some((a, b)) => Err(format!("{b}, not {a}; the largest number is {largest}")),
        None => Ok(()),
    }
}

/// Checks that two tensors are bit-identical.
fn same(wanted: &Tensor, found: &Tensor) -> Result<(), String> {
    near(wanted, found)?;
    match values(wanted).iter().zip(values(found)).find(|(a, b)| a.to_bits() != b.to_bits()) {
        Some((a, b)) => Err(format!("{b}, not {a}: not the same bits")),
        None => Ok(()),
    }
}

/// Like [`check`], with panics as errors.
fn verdict(net: &Net, fired: &mut Fired) -> Result<(), String> {
    let run = AssertUnwindSafe(|| check(net, fired));
    catch_unwind(run).unwrap_or_else(|_| Err("a panic".to_owned()))
}

/// Shrinks a failing graph.
fn shrunk(net: Net) -> (Net, String) {
    let mut net = net;
    let mut reason =
        verdict(&net, &mut Fired::new()).err().unwrap_or_else(|| "it fails only sometimes".to_owned());
    loop {
        let fails = |net: Net| verdict(&net, &mut Fired::new()).err().map(|reason| (net, reason));
        match net.smaller().into_iter().find_map(fails) {
            Some(smaller) => (net, reason) = smaller,
            None => return (net, reason),
        }
    }
}

#[test]
fn optimised_and_planned_they_give_the_same() {
    let count = number("IXION_GRAPHS").unwrap_or(200);
    let seeds = number("IXION_SEED").map_or(0..count, |seed| seed..seed + 1);
    let (mut fired, mut op_types) = (Fired::new(), BTreeSet::new());
    let mut failures = Vec::new();
    for seed in seeds.clone() {
        let net = recipes::graph(seed).net;
        op_types.extend(net.nodes.iter().map(|node| node.op_type.clone()));
        if let Err(first) = verdict(&net, &mut fired) {
            let (net, reason) = shrunk(net);
            failures.push(format!("seed {seed}: {first}\nshrunk: {reason}\n{}", net.graph().to_param_text()));
        }
        if failures.len() == 5 {
            break;
        }
    }
    println!("{} operator types; passes: {fired:#?}", op_types.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let count = seeds.end - seeds.start;
    let least = if count < 10_000 { 1 } else { 50 };
    let may_be_seldom = |name: &str| OF_QUANTIZED_MODELS.contains(&name) || OF_WHOLE_NETWORKS.contains(&name);
    let seldom: Vec<_> =
        fired.iter().filter(|(name, times)| **times < least && !may_be_seldom(name)).collect();
    assert!(count < 200 || op_types.len() >= 80, "{op_types:?}");
    assert!(count < 200 || seldom.is_empty(), "these passes fired too seldom: {seldom:?}");
}
