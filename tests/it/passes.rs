//! Runs all passes on all models: the optimised models are smaller and still compute PyTorch's results.

use crate::common;
use crate::common::parallel::each_of;
use ixion::Limits;
use ixion::graph::default_bin_path;
use ixion::passes::{PassContext, Passes, Statistics};
use ixion::pnnx::Graph;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn load(param: &Path) -> Graph {
    let beside = default_bin_path(param);
    let bin = beside.is_file().then_some(beside.as_path());
    Graph::load(param, bin, &Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Writes a case with its model after all passes and everything else unchanged.
fn write_optimised(case: &Path, to: &Path) -> Statistics {
    let mut graph = load(&case.join("model.param"));
    let run = Passes::default().run(&mut graph, PassContext::default());
    let statistics = run.unwrap_or_else(|error| panic!("{}: {error}", case.display()));
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(case).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.starts_with("model.") {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
    graph.save(to.join("model.param"), to.join("model.bin")).unwrap();
    statistics
}

/// Runs the passes on all cases and verifies the results. Returns how often each pass fired.
fn verify(cases: &[PathBuf]) -> BTreeMap<String, usize> {
    let mut fired = BTreeMap::new();
    // In chunks, so that not all cases are on the disk at the same time.
    let wrong: Vec<String> = cases.chunks(64).flat_map(|part| verify_part(part, &mut fired)).collect();
    eprintln!("{} cases; the passes fired: {fired:?}", cases.len());
    assert!(wrong.is_empty(), "{} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
    fired
}

/// Verifies some of the cases after all passes and returns the failures.
fn verify_part(cases: &[PathBuf], fired: &mut BTreeMap<String, usize>) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let place = |case: &Path| folder.path().join(case.file_name().unwrap());
    for statistics in each_of(cases, |case| write_optimised(case, &place(case))) {
        for pass in statistics.passes {
            *fired.entry(pass.name).or_default() += pass.fired;
        }
    }
    let optimised: Vec<PathBuf> = cases.iter().map(|case| place(case)).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ixion"));
    let output = command.args(["verify", "--json", "--interpret"]).args(&optimised).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let verdicts = json["cases"].as_array().unwrap();
    assert_eq!(verdicts.len(), cases.len());
    let fails = |case: &&serde_json::Value| case["verdict"] != "pass" && case["kind"] != "unsupported";
    verdicts.iter().filter(fails).map(|case| format!("{}: {}", case["name"], case["reason"])).collect()
}

#[test]
fn optimised_cases_compute_the_same() {
    let fired = verify(&common::runnable_cases());
    assert!(fired["no_ops"] > 10 && fired["dead_code"] > 10, "{fired:?}");
}

#[test]
fn optimised_conformance_cases_compute_the_same() {
    let cases = common::conformance_cases();
    if !cases.is_empty() {
        verify(&cases);
    }
}

/// The statistics of the passes on a model of the repository.
fn statistics(model: &str) -> String {
    let path = format!("{}/model_file/{model}/{model}.pnnx.param", env!("CARGO_MANIFEST_DIR"));
    let mut graph = load(Path::new(&path));
    Passes::default().run(&mut graph, PassContext::default()).unwrap().to_string()
}

#[test]
fn digits() {
    insta::assert_snapshot!(statistics("digits"));
}

#[test]
fn unet() {
    insta::assert_snapshot!(statistics("shapes_unet"));
}

#[test]
fn detector() {
    insta::assert_snapshot!(statistics("shapes_detector"));
}

#[test]
fn running_all_passes_again_changes_nothing() {
    for model in ["digits", "shapes_unet", "shapes_detector"] {
        let path = format!("{}/model_file/{model}/{model}.pnnx.param", env!("CARGO_MANIFEST_DIR"));
        let mut graph = load(Path::new(&path));
        Passes::default().run(&mut graph, PassContext::default()).unwrap();
        let text = graph.to_param_text();
        let again = Passes::default().run(&mut graph, PassContext::default()).unwrap();
        assert_eq!((again.rounds, graph.to_param_text()), (1, text), "{model}");
    }
}
