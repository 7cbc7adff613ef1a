//! ONNX files: the samples of `tests/onnx`, which `tests/export/onnx_sample.py` writes.

use crate::common::{MODES, REFUSED_ONNX, onnx_samples};
use ixion::Limits;
use std::path::PathBuf;
use std::process::Command;

/// Runs `ixion verify` on folders; returns what is wrong.
fn wrong(options: &[&str], folders: &[PathBuf]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ixion"));
    let output = command.args(["verify", "--json"]).args(options).args(folders).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let verdicts = json["cases"].as_array().unwrap();
    assert_eq!(verdicts.len(), folders.len());
    let failed = verdicts.iter().filter(|case| case["verdict"] != "pass");
    failed.map(|case| format!("{}: {}", case["name"], case["reason"])).collect()
}

#[test]
fn every_sample_gives_the_results_of_onnx_in_every_way() {
    let samples = onnx_samples();
    assert!(samples.len() >= 20, "{} samples", samples.len());
    for (mode, options) in MODES {
        let wrong = wrong(options, &samples);
        assert!(wrong.is_empty(), "{mode}: {} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn what_cannot_run_is_refused_by_the_name_of_a_node() {
    for name in REFUSED_ONNX {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/onnx").join(name).join("model.onnx");
        let error = ixion::onnx::read(&path, &Limits::default()).unwrap_err().to_string();
        assert!(error.contains("node `") && error.contains("model.onnx"), "{error}");
    }
}

/// A graph that was read from ONNX can be written as a PNNX model, which gives the same results.
#[test]
fn every_sample_can_be_written_as_pnnx() {
    let folder = tempfile::tempdir().unwrap();
    let mut written = Vec::new();
    for sample in onnx_samples() {
        let case = folder.path().join(sample.file_name().unwrap());
        for set in sample.read_dir().unwrap().flatten().filter(|entry| entry.path().is_dir()) {
            let target = case.join(set.file_name());
            std::fs::create_dir_all(&target).unwrap();
            for file in set.path().read_dir().unwrap().flatten() {
                std::fs::copy(file.path(), target.join(file.file_name())).unwrap();
            }
        }
        let model = ixion::onnx::read(sample.join("model.onnx"), &Limits::default()).unwrap();
        model.graph.save(case.join("model.param"), case.join("model.bin")).unwrap();
        written.push(case);
    }
    let wrong = wrong(&[], &written);
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
