//! The project's own cases, `tests/cases`: PyTorch's results for every operator type that Ixion supports.
//!
//! The scripts in `tests/export` write them.

use crate::common::parallel::each_of;
use crate::common::saved::differences;
use crate::common::{MODES, onnx_samples, own_cases, runnable_cases};
use ixion::Limits;
use ixion::engine::Formats;
use ixion::graph::{Problem, RuntimeGraph};
use ixion::op::Registry;
use ixion::pnnx::Graph;
use ixion::tensor::Tensor;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

#[test]
fn every_case_passes_in_every_way() {
    let cases = runnable_cases();
    let mut wrong: Vec<String> = Vec::new();
    for (mode, options) in MODES {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ixion"));
        let output = command.args(["verify", "--json"]).args(options).args(&cases).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let verdicts = json["cases"].as_array().unwrap();
        assert_eq!(verdicts.len(), cases.len());
        let failed = verdicts.iter().filter(|case| case["verdict"] != "pass");
        wrong.extend(failed.map(|case| format!("{mode}: {}: {}", case["name"], case["reason"])));
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_case_gives_the_same_bits_from_a_saved_plan() {
    let wrong = differences(&runnable_cases(), &Formats::Cheapest);
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A model that runs is also described as one: `ixion inspect` connects the same graph.
#[test]
fn no_operator_of_a_case_has_a_problem() {
    each_of(&runnable_cases(), |folder| {
        let outline = RuntimeGraph::new(folder.join("model.param")).outline().unwrap();
        let problems: Vec<&Problem> =
            outline.operators.values().filter_map(|operator| operator.problem.as_ref()).collect();
        assert!(problems.is_empty(), "{problems:?}");
    });
}

#[test]
fn every_operator_type_has_a_case() {
    let mut tested = BTreeSet::new();
    for folder in own_cases() {
        let graph = Graph::load(folder.join("model.param"), None, &Limits::default()).unwrap();
        tested.extend(graph.operators().map(|(_, operator)| operator.op_type().to_owned()));
    }
    for folder in onnx_samples() {
        let model = ixion::onnx::read(folder.join("model.onnx"), &Limits::default()).unwrap();
        tested.extend(model.graph.operators().map(|(_, operator)| operator.op_type().to_owned()));
    }
    let registry = Registry::default();
    let untested: Vec<&str> =
        registry.iter().map(|(op_type, _)| op_type).filter(|&op_type| !tested.contains(op_type)).collect();
    assert!(untested.is_empty(), "{} types have no case in tests/cases: {untested:?}", untested.len());
}

/// The same values with other strides give the same results: no layer assumes that its inputs are contiguous.
#[test]
fn results_do_not_depend_on_strides() {
    let limits = Limits::default();
    let compared = each_of(&runnable_cases(), |folder| {
        let arrays = Tensor::load_npz(folder.join("arrays.npz"), &limits).unwrap();
        let is_random =
            std::fs::read_to_string(folder.join("case.toml")).is_ok_and(|text| text.contains("values"));
        if is_random {
            return 0;
        }
        let results = |place: fn(&Tensor) -> Tensor| {
            let mut graph = RuntimeGraph::new(folder.join("model.param"));
            graph.build().unwrap();
            let names: Vec<String> = graph.inputs().iter().map(|port| port.name.clone()).collect();
            for (index, name) in names.iter().enumerate() {
                let key = format!("in_{index}");
                let (_, input) = arrays.iter().find(|(name, _)| *name == key).unwrap();
                graph.set_input(name, place(input)).unwrap();
            }
            graph.run().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            graph.output_values().unwrap()
        };
        let (plain, strided) = (results(Tensor::clone), results(backwards));
        assert_eq!(plain.len(), strided.len());
        for (index, (a, b)) in plain.iter().zip(&strided).enumerate() {
            // With other strides, sums may be computed in another order.
            let comparison = a.allclose(b, 1e-5, 1e-5, true).unwrap();
            assert!(comparison.holds(), "{}: output {index}: {comparison}", folder.display());
        }
        plain.len()
    });
    assert!(compared.iter().sum::<usize>() > 100);
}

/// The same tensor, stored with its axes in reverse order.
fn backwards(tensor: &Tensor) -> Tensor {
    let order: Vec<i64> = (0..tensor.shape().len() as i64).rev().collect();
    let turned = tensor.permute(&order).unwrap().contiguous().unwrap();
    turned.permute(&order).unwrap()
}

#[test]
fn the_cases_stay_small() {
    let size = |folder: &Path| {
        let files = std::fs::read_dir(folder).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>()
    };
    let total: u64 = own_cases().iter().map(|folder| size(folder)).sum();
    // Git compresses them to a fifth.
    assert!(total < 12 << 20, "the cases take {total} bytes");
}
