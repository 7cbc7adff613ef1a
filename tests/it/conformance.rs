//! Runs all conformance cases with `ixion verify`: models exported by PNNX, with PyTorch's results.

use crate::common::saved::{differences, text_in};
use crate::common::{self, MODES};
use ixion::engine::Formats;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn every_case_passes_in_every_way() {
    let cases = common::conformance_cases();
    if cases.is_empty() {
        return;
    }
    let wrong: Vec<String> = MODES.iter().flat_map(|(mode, options)| wrong(mode, options, &cases)).collect();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The tactics for convolutions other than the default.
const TACTICS: [&str; 3] = ["winograd-2x2", "winograd-4x4", "winograd-6x6"];

#[test]
fn every_convolution_passes_by_every_tactic() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("model_file");
    let own = ["conv3", "digits", "shapes_detector", "shapes_unet"].map(|name| folder.join(name));
    let mut cases: Vec<PathBuf> = common::conformance_cases();
    cases.extend(own.into_iter().chain(common::runnable_cases()));
    cases.retain(|case| std::fs::read_to_string(text_in(case)).is_ok_and(|text| text.contains("onv2d")));
    for tactic in TACTICS {
        let wrong = wrong(tactic, &["--tactic", tactic], &cases);
        assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// The tolerance for products of rounded factors.
const ROUNDED: &str = "0.08";

/// Uses bf16 pairs if the processor can multiply them; otherwise f32.
#[test]
fn products_of_rounded_factors_are_accurate() {
    let mut cases = common::conformance_cases();
    cases.extend(common::runnable_cases());
    let multiplies = |text: &str| ["onv2d", "inear", "MultiheadAttention"].iter().any(|it| text.contains(it));
    cases.retain(|case| std::fs::read_to_string(text_in(case)).is_ok_and(|text| multiplies(&text)));
    let mut wrong = wrong("bf16", &["--tactic", "bf16", "--tolerance", ROUNDED], &cases);
    wrong.retain(|line| !JUMP.iter().any(|name| line.contains(name)));
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_case_gives_the_same_bits_from_a_saved_plan() {
    let wrong = differences(&common::conformance_cases(), &Formats::Cheapest);
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Cases whose results are discontinuous in the inputs (argmax, integer parts, signs) or exceed the range of f16.
const JUMP: [&str; 26] = [
    "F_adaptive_max_pool1d",
    "F_adaptive_max_pool2d",
    "F_hardshrink",
    "F_lp_pool1d",
    "F_lp_pool2d",
    "F_max_pool2d",
    "F_softplus",
    "Tensor_to",
    "Tensor_type_as",
    "nn_AdaptiveMaxPool2d",
    "nn_LPPool1d",
    "nn_LPPool2d",
    "nn_MaxPool2d",
    "pnnx_expression",
    "torch_acos",
    "torch_acosh",
    "torch_argmax",
    "torch_argmin",
    "torch_ceil",
    "torch_floor",
    "torch_max",
    "torch_min",
    "torch_sign",
    "torch_topk",
    "torch_trunc",
    "transformers_funnel_attention",
];

#[test]
fn every_case_runs_in_16_bits() {
    let cases = common::conformance_cases();
    if cases.is_empty() {
        return;
    }
    for (precision, tolerance) in [("f16", "0.01"), ("bf16", "0.08")] {
        let options = ["--layouts=narrowest", "--precision", precision, "--tolerance", tolerance];
        let mut wrong = wrong(precision, &options, &cases);
        let name = |line: &String| line.split('"').nth(1).map(str::to_owned).unwrap_or_default();
        // A failed operator is not a difference in outputs.
        wrong.retain(|line| !JUMP.contains(&name(line).as_str()) || !line.contains("elements differ"));
        assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// Runs all cases in one mode and returns the failures.
fn wrong(mode: &str, options: &[&str], cases: &[PathBuf]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ixion"));
    let output = command.args(["verify", "--json"]).args(options).args(cases).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let verdicts = json["cases"].as_array().unwrap();
    assert_eq!(verdicts.len(), cases.len());
    eprintln!("{mode}: {} of {} cases pass", json["passed"], cases.len());
    let wrong = verdicts.iter().filter(|case| case["verdict"] != "pass");
    wrong.map(|case| format!("{mode}: {}: {}", case["name"], case["reason"])).collect()
}

#[test]
fn a_file_among_the_folders_is_skipped() {
    let root = env!("CARGO_MANIFEST_DIR");
    let verify = |arguments: &[String]| {
        Command::new(env!("CARGO_BIN_EXE_ixion")).arg("verify").args(arguments).output().unwrap()
    };
    let (file, folder) = (format!("{root}/README.md"), format!("{root}/model_file/linear"));
    let output = verify(&[file.clone(), folder]);
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("1 passed, 0 failed\n"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is skipped"));
    assert_eq!(verify(&[file]).status.code(), Some(2));
}
