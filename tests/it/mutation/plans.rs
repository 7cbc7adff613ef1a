//! Broken plan files. Verification always detects damage; without it, damage outside of weights is detected. A file with forged
//! checksums must end in a result or an error like any other.

use super::{generator, limits, mutate_bytes, mutate_text, settings, zero_inputs};
use crate::common::saved;
use ixion::Limits;
use ixion::engine::{Builder, Formats, Plan, PlanFile};
use rand::Rng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

const PAGE: usize = 4096;
const WEIGHTS: u32 = 6;

/// Plans of small models that use all features of a plan.
fn plans(folder: &Path) -> Vec<Vec<u8>> {
    let plan = |name: &str| {
        let param = format!("{}/model_file/{name}/{name}.pnnx.param", env!("CARGO_MANIFEST_DIR"));
        let path = folder.join(name);
        let formats = if name == "digits" { Formats::Alternating } else { Formats::Cheapest };
        Builder::new(param).with_formats(formats).build().unwrap().save(&path).unwrap();
        std::fs::read(path).unwrap()
    };
    ["linear", "conv3", "two_inputs", "digits"].map(plan).to_vec()
}

/// How a plan is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Flipped,
    CutOff,
    Foreign,
    /// Changed bytes of a section, with all checksums updated.
    Forged,
}

fn field(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..at + 4).map_or(0, |found| u32::from_le_bytes(found.try_into().unwrap()) as usize)
}

/// The kind, offset and length of all sections.
fn sections(bytes: &[u8]) -> Vec<(u32, usize, usize)> {
    let entries = (0..field(bytes, 20)).map(|at| 64 + 24 * at);
    entries.map(|at| (field(bytes, at) as u32, field(bytes, at + 8), field(bytes, at + 16))).collect()
}

fn is_weight(bytes: &[u8], at: usize) -> bool {
    sections(bytes)
        .iter()
        .any(|&(kind, offset, length)| kind == WEIGHTS && (offset..offset + length).contains(&at))
}

/// Lays out the sections and writes the first page for them.
fn forged(page: &[u8], sections: &[(u32, Vec<u8>)], rng: &mut StdRng) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    let mut index = Vec::new();
    for (kind, section) in sections {
        bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
        let (offset, length) = (bytes.len() as u64, section.len() as u64);
        index.extend(kind.to_le_bytes());
        index.extend(crc32fast::hash(section).to_le_bytes());
        index.extend(offset.to_le_bytes());
        index.extend(length.to_le_bytes());
        bytes.extend(section);
    }
    if rng.random_range(0..4) == 0 {
        index = mutate_bytes(&index, rng);
        index.truncate(PAGE - 64);
    }
    let length = bytes.len() as u64;
    bytes[..32].copy_from_slice(&page[..32]);
    bytes[20..24].copy_from_slice(&(index.len() as u32 / 24).to_le_bytes());
    bytes[24..32].copy_from_slice(&length.to_le_bytes());
    bytes[32..56].copy_from_slice(&page[32..56]);
    bytes[56..60].copy_from_slice(&crc32fast::hash(&index[..index.len() / 24 * 24]).to_le_bytes());
    let header = crc32fast::hash(&bytes[..60]);
    bytes[60..64].copy_from_slice(&header.to_le_bytes());
    bytes[64..64 + index.len() / 24 * 24].copy_from_slice(&index[..index.len() / 24 * 24]);
    bytes
}

fn forge(bytes: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let mut parts: Vec<(u32, Vec<u8>)> = sections(bytes)
        .into_iter()
        .map(|(kind, offset, length)| (kind, bytes[offset..offset + length].to_vec()))
        .collect();
    let at = rng.random_range(0..parts.len());
    let (kind, section) = &mut parts[at];
    *section = match (*kind, rng.random_range(0..3)) {
        // Settings, selections and graph are texts.
        (1 | 7, 0) => String::from_utf8_lossy(section).replace("null", "7").into_bytes(),
        (1 | 7, 1) => String::from_utf8_lossy(section).replacen('1', "18446744073709551615", 3).into_bytes(),
        (2, 0 | 1) => mutate_text(section, rng),
        _ => mutate_bytes(section, rng),
    };
    if rng.random_range(0..10) == 0 {
        let other = rng.random_range(0..parts.len());
        parts.swap(at, other);
    }
    forged(bytes, &parts, rng)
}

/// A broken plan, and whether the damage is inside a weight.
fn break_one(bytes: &[u8], damage: Damage, rng: &mut StdRng) -> (Vec<u8>, bool) {
    let mut broken = bytes.to_vec();
    match damage {
        Damage::Flipped => {
            // Half of them in the first page or in a section without weights.
            let at = match rng.random_range(0..2) {
                0 => rng.random_range(0..bytes.len()),
                _ => {
                    let sections = sections(bytes);
                    let (_, offset, length) = sections[rng.random_range(0..sections.len())];
                    if rng.random_range(0..3) == 0 {
                        rng.random_range(0..PAGE)
                    } else {
                        rng.random_range(offset..offset + length)
                    }
                }
            };
            broken[at] ^= 1 << rng.random_range(0..8);
            (broken, is_weight(bytes, at))
        }
        Damage::CutOff => {
            broken.truncate(rng.random_range(0..bytes.len()));
            (broken, false)
        }
        Damage::Foreign => {
            let (at, length) = (rng.random_range(0..bytes.len()), rng.random_range(1..200));
            let end = (at + length).min(bytes.len());
            broken[at..end].iter_mut().for_each(|byte| *byte = rng.random());
            // Damage beyond the end of the weights is detected like any other.
            let inside = (at..end).filter(|&at| broken[at] != bytes[at]).all(|at| is_weight(bytes, at));
            (broken, inside)
        }
        Damage::Forged => (forge(bytes, rng), false),
    }
}

/// Opens, loads and runs a file; returns the last step that succeeded.
fn try_plan(path: &Path, is_mapped: bool, limits: &Limits) -> &'static str {
    let file = if is_mapped { saved::map(path, limits).ok() } else { PlanFile::open(path, limits).ok() };
    let Some(file) = file else { return "not opened" };
    let _ = file.graph();
    let Ok(plan) = file.load() else { return "not loaded" };
    let plan: Plan = plan;
    let Some(inputs) = zero_inputs(plan.graph(), limits) else { return "no inputs" };
    let Ok(mut context) = plan.context() else { return "no context" };
    if context.run(&inputs).is_ok() { "run" } else { "not run" }
}

#[test]
fn broken_plans_are_detected() {
    let (count, seed) = settings(400);
    let folder = tempfile::tempdir().unwrap();
    let (plans, limits) = (plans(folder.path()), limits());
    let mut ends = BTreeMap::<String, usize>::new();
    for mutant in 0..count {
        let mut rng = generator(seed, mutant);
        let whole = &plans[rng.random_range(0..plans.len())];
        let damage =
            [Damage::Flipped, Damage::CutOff, Damage::Foreign, Damage::Forged][rng.random_range(0..4)];
        let (broken, in_weights) = break_one(whole, damage, &mut rng);
        let path = folder.path().join("broken.plan");
        // The file is replaced, never modified: it may still be mapped.
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, &broken).unwrap();
        let tried = || {
            let verified = PlanFile::open(&path, &limits).ok().map(|file| file.verify().is_ok());
            (verified, try_plan(&path, mutant % 2 == 0, &limits))
        };
        let (verified, end) = catch_unwind(AssertUnwindSafe(tried))
            .unwrap_or_else(|_| panic!("mutant {mutant} ({damage:?}, IXION_SEED={seed}) panicked"));
        if damage != Damage::Forged && broken != *whole {
            assert_ne!(
                verified,
                Some(true),
                "mutant {mutant} ({damage:?}, IXION_SEED={seed}) was not detected"
            );
            let is_seen = end == "not opened" || end == "not loaded";
            let is_gap = verified == Some(false) && end == "run";
            assert!(
                is_seen || in_weights || is_gap,
                "mutant {mutant} ({damage:?}, IXION_SEED={seed}): {end}"
            );
        }
        *ends.entry(format!("{damage:?}: {end}")).or_default() += 1;
    }
    println!("{count} broken plans: {ends:?}");
    assert!(ends.contains_key("Flipped: run") && ends.contains_key("Flipped: not opened"), "{ends:?}");
    assert!(ends.contains_key("Forged: not loaded"), "{ends:?}");
}
