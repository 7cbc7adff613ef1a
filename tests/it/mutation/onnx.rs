//! Mutants of ONNX files.

use super::{generator, limits, mutate_bytes, settings, try_graph};
use crate::common::onnx_samples;
use rand::Rng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Most changes keep the lengths of messages, which any other change breaks.
fn mutate(bytes: &[u8], rng: &mut StdRng) -> Vec<u8> {
    if rng.random_range(0..8) == 0 {
        return mutate_bytes(bytes, rng);
    }
    let mut bytes = bytes.to_vec();
    let at = rng.random_range(0..bytes.len());
    bytes[at] = match rng.random_range(0..3) {
        0 => bytes[at].wrapping_add(1),
        1 => [0, 1, 2, 0x7f][rng.random_range(0..4)],
        _ => bytes[at] ^ 1 << rng.random_range(0..7),
    };
    bytes
}

#[test]
fn mutants_of_onnx_files_end_in_a_result_or_an_error() {
    let (count, seed) = settings(300);
    let models: Vec<_> = onnx_samples().into_iter().map(|folder| folder.join("model.onnx")).collect();
    let mut ends = BTreeMap::<&str, usize>::new();
    for mutant in 0..count {
        let mut rng = generator(seed, mutant);
        let model = &models[rng.random_range(0..models.len())];
        let bytes = mutate(&std::fs::read(model).unwrap(), &mut rng);
        let start = Instant::now();
        let end = catch_unwind(AssertUnwindSafe(|| {
            let limits = limits();
            match ixion::onnx::from_bytes(bytes, &limits) {
                Ok(model) => try_graph(model.graph, &limits),
                Err(_) => "not loaded",
            }
        }));
        let end = end.unwrap_or_else(|_| {
            panic!("mutant {mutant} of {} (IXION_SEED={seed}) panicked", model.display())
        });
        assert!(start.elapsed() < Duration::from_secs(60), "mutant {mutant} of {} hangs", model.display());
        *ends.entry(end).or_default() += 1;
    }
    println!("{count} mutants: {ends:?}");
    assert!(ends.contains_key("run") && ends.len() > 2, "the mutants are not diverse: {ends:?}");
}
