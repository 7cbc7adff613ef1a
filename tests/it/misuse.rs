//! Misuse: every operator of every case, alone, with one mistake. Each must end in a result or in an error that names the
//! operator and, if a parameter is at fault, the parameter; never in a panic, a hang or excessive memory use.
//!
//! `IXION_MISUSES` is the number of mistakes per operator type (default: 12), `IXION_SEED` the random seed.

mod call;
mod mistake;

use crate::common;
use call::Call;
use ixion::Limits;
use ixion::graph::{GraphError, RuntimeGraph};
use ixion::op::Registry;
use ixion::pnnx::Graph;
use mistake::Mistake;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

const LONGEST: Duration = Duration::from_secs(10);

fn limits() -> Limits {
    let bytes = 32 << 20;
    let limits = Limits { max_tensor_bytes: bytes, max_total_bytes: 4 * bytes, ..Limits::default() };
    limits.with_timeout(LONGEST / 2)
}

/// An error with its causes, in one line.
fn full(error: &GraphError) -> String {
    let sources = std::iter::successors(Some(error as &dyn Error), |&error| error.source());
    sources.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn attempt(call: &Call, seed: u64) -> Result<(), GraphError> {
    let limits = limits();
    let file = Graph::from_bytes(call.text().as_bytes(), None, &limits)?;
    let mut graph = RuntimeGraph::from_pnnx(file).with_limits(limits).with_random_weights(seed);
    graph.build()?;
    let inputs = call.inputs.iter().map(|input| mistake::values(input, seed)).collect();
    graph.run_with(inputs).map(drop)
}

/// Checks that an error names the operator and the parameter; returns the complaint, if any.
fn complaint(error: &GraphError, mistake: &Mistake, call: &Call) -> Option<String> {
    let text = full(error);
    // An operator that is computed in steps has operators named after it.
    let place = format!("{} `alone", call.op_type);
    let names_the_operator = text.contains(&place) || matches!(error, GraphError::Pnnx(_));
    if !names_the_operator {
        return Some(format!("does not name {place}"));
    }
    let key = mistake.key_that_must_be_named()?;
    (!text.contains(key)).then(|| format!("does not name {key}"))
}

/// The number of calls by outcome.
type Ends = BTreeMap<&'static str, usize>;

fn misuse(call: &Call, seed: u64, ends: &mut Ends) -> Option<String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut wrong = call.clone();
    let Some(mistake) = Mistake::make(&mut wrong, &mut rng) else {
        *ends.entry("nothing to change").or_default() += 1;
        return None;
    };
    let describe =
        |what: &str| Some(format!("{} ({mistake:?}) {what}:\n{}{:?}", call.case, wrong.text(), wrong.inputs));
    let start = Instant::now();
    let end = catch_unwind(AssertUnwindSafe(|| attempt(&wrong, seed)));
    if start.elapsed() > LONGEST {
        return describe("hangs");
    }
    let (end, complaint) = match end {
        Err(_) => ("panic", describe("panics")),
        Ok(Ok(())) if mistake.must_fail() => ("result", describe("gives a result")),
        Ok(Ok(())) => ("result", None),
        Ok(Err(error)) => {
            let complaint = complaint(&error, &mistake, &wrong);
            ("error", complaint.and_then(|what| describe(&format!("{what}: {}", full(&error)))))
        }
    };
    *ends.entry(end).or_default() += 1;
    complaint
}

#[test]
fn mistakes_end_in_a_result_or_an_error_that_helps() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (count, seed) = (number("IXION_MISUSES", 12), number("IXION_SEED", 1));
    let mut by_type: BTreeMap<String, Vec<Call>> = BTreeMap::new();
    // Operators without a layer are part of others and have no meaning alone.
    let registry = Registry::default();
    let has_layer = |call: &Call| registry.get(&call.op_type).is_ok();
    for call in common::runnable_cases().iter().flat_map(|case| Call::all_of(case)).filter(has_layer) {
        by_type.entry(call.op_type.clone()).or_default().push(call);
    }
    let mut ends = Ends::new();
    let mut complaints = Vec::new();
    for (index, calls) in by_type.values().enumerate() {
        for turn in 0..count {
            let seed = seed.wrapping_mul(1_000_003).wrapping_add(index as u64 * 10_007).wrapping_add(turn);
            let call = &calls[StdRng::seed_from_u64(!seed).random_range(0..calls.len())];
            complaints.extend(misuse(call, seed, &mut ends));
        }
    }
    println!("{} types: {ends:?}", by_type.len());
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n\n"));
    assert!(ends["error"] > ends["result"] / 4, "too few mistakes are errors: {ends:?}");
}

#[test]
fn without_a_mistake_calls_run() {
    let calls: Vec<Call> =
        common::runnable_cases().iter().take(12).flat_map(|case| Call::all_of(case)).collect();
    let runs = calls.iter().filter(|call| attempt(call, 1).is_ok()).count();
    // Some calls fail, because random values are not valid indices or sizes.
    assert!(runs * 10 > calls.len() * 8, "{runs} of {}", calls.len());
}
