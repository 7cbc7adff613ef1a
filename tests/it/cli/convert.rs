//! `ixion convert`.

use super::command::{Ended, ixion, models};
use ixion::Limits;
use ixion::op::Registry;
use ixion::pnnx::Graph;

#[test]
fn a_model_is_written_anew_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let (param, python) = (folder.path().join("copy.pnnx.param"), folder.path().join("copy.py"));
    let args = ["convert", "digits/digits.pnnx.param", "--param", param.to_str().unwrap()];
    let said = ixion(args).fine();
    assert!(
        said.contains("copy.pnnx.param: 23 operators\n") && said.contains("copy.pnnx.bin: 344 kB\n"),
        "{said}"
    );
    for ending in ["param", "bin"] {
        let read = |path: std::path::PathBuf| std::fs::read(path).unwrap();
        let copy = read(folder.path().join(format!("copy.pnnx.{ending}")));
        assert!(copy == read(models().join(format!("digits/digits.pnnx.{ending}"))), "the .{ending} differs");
    }
    ixion(["convert", param.to_str().unwrap(), "--python", python.to_str().unwrap()]).fine();
    let source = std::fs::read_to_string(&python).unwrap();
    assert!(source.contains("class Model") && source.contains("copy.pnnx"), "{source}");
}

#[test]
fn a_model_may_take_its_own_place() {
    let folder = tempfile::tempdir().unwrap();
    let param = folder.path().join("linear.pnnx.param");
    for ending in ["param", "bin"] {
        let name = format!("linear.pnnx.{ending}");
        std::fs::copy(models().join("linear").join(&name), folder.path().join(&name)).unwrap();
    }
    ixion(["convert", param.to_str().unwrap(), "--param", param.to_str().unwrap()]).fine();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    ixion(["run", param.to_str().unwrap(), "-i", "linear/in_0.npy"]).fine();
}

#[test]
fn operators_without_a_counterpart_are_listed_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (param, copy, python) = (path("m.param"), path("copy.param"), path("m.py"));
    let text = "7767517\n4 3\npnnx.Input in 0 1 x\nmodels.Block block 1 1 x y\nprim::If branch 1 1 y z\npnnx.Output out 1 0 z\n";
    std::fs::write(&param, text).unwrap();
    let ended = ixion(["convert", &param, "--param", &copy, "--python", &python]);
    insta::assert_snapshot!(ended.error(1, folder.path()), @r"
    error: m.param: 2 operators cannot be written as Python:
      line 4: models.Block `block`: a module of the model, which PNNX kept whole; export it without `moduleop`
      line 5: prim::If `branch`: a statement of TorchScript, of which the file lacks the body; trace the model instead of scripting it
    ");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Operators that PNNX does not write, so that they come from ONNX files alone. Python source has none of them yet.
const ONLY_IN_ONNX_FILES: [&str; 21] = [
    "Align",
    "Attention",
    "BitCast",
    "Div",
    "Flatten",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "If",
    "LayerNormalization",
    "LogSoftmax",
    "MelWeightMatrix",
    "PaddingMask",
    "Pow",
    "RMSNormalization",
    "Range",
    "RotaryHeads",
    "RotaryJoined",
    "RotaryPositions",
    "Softmax",
    "TensorScatter",
    "TreeEnsemble",
];

#[test]
fn every_operator_of_onnx_is_a_function() {
    let registry = Registry::default();
    let of_onnx = registry.iter().filter(|(op_type, _)| op_type.chars().all(char::is_alphanumeric));
    let of_onnx = of_onnx.filter(|(op_type, _)| !ONLY_IN_ONNX_FILES.contains(op_type));
    let types: Vec<&str> = of_onnx.map(|(op_type, _)| op_type).collect();
    assert!(types.len() > 80, "{types:?}");
    for op_type in types {
        let operands = match op_type {
            "RandomNormal" | "RandomUniform" => "0 1 y",
            _ => "1 1 x y",
        };
        // Of recurrent networks, the number of axes tells the results apart.
        let text = format!(
            "7767517\n3 2\npnnx.Input in 0 1 x\n{op_type} a {operands} #y=(1,1,1,1)f32\npnnx.Output out 1 0 y\n"
        );
        let source = Graph::parse(&text, &Limits::default()).unwrap().to_python("m");
        let source = source.unwrap_or_else(|error| {
            panic!("{error}; add the function to the folder crates/ixion-pnnx/src/python/onnx")
        });
        for part in [format!("def onnx_{op_type}("), format!("v_y = onnx_{op_type}(")] {
            assert!(source.contains(&part), "{op_type}");
        }
    }
}

#[test]
fn nothing_is_written_if_a_target_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.param").to_str().unwrap().to_owned();
    let nowhere = folder.path().join("no/such/m.py").to_str().unwrap().to_owned();
    let ended = ixion(["convert", "linear/linear.pnnx.param", "--param", &copy, "--python", &nowhere]);
    let error = ended.error(1, folder.path());
    assert!(error.contains("m.py: cannot write here: there is no folder"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn targets_are_needed_and_must_be_writable() {
    let folder = tempfile::tempdir().unwrap();
    let linear = "linear/linear.pnnx.param";
    assert_eq!(ixion(["convert", linear]).code, 2);
    let error =
        ixion(["convert", linear, "--param", folder.path().to_str().unwrap()]).error(1, folder.path());
    assert!(error.ends_with("this is a folder; give the path of a file"), "{error}");
    let nowhere = folder.path().join("no/such/x.param");
    ixion(["convert", linear, "--param", nowhere.to_str().unwrap()]).error(1, folder.path());
    ixion(["convert", linear, "--python", nowhere.to_str().unwrap()]).error(1, folder.path());
    let error = ixion(["convert", "resnet18/resnet18.pnnx.param", "--param", nowhere.to_str().unwrap()])
        .error(2, folder.path());
    assert!(error.contains("its 256 bytes were not loaded; give the .bin file too"), "{error}");
}

#[test]
fn nothing_that_was_read_is_written_over() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["linear.pnnx.param", "linear.pnnx.bin", "in_0.npy"] {
        std::fs::copy(models().join("linear").join(name), folder.path().join(name)).unwrap();
    }
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (param, bin, input) = (path("linear.pnnx.param"), path("linear.pnnx.bin"), path("in_0.npy"));
    let kept = |ended: Ended| {
        let error = ended.error(2, folder.path());
        assert!(error.contains("would be overwritten, but it is one of the inputs"), "{error}");
    };
    kept(ixion(["convert", &param, "--python", &bin]));
    kept(ixion(["inspect", &param, "--svg", &bin]));
    kept(ixion(["inspect", &param, "--svg", &param]));
    kept(ixion(["run", &param, "-i", &input, "-o", &input]));
    ixion(["run", &param, "-i", &input]).fine();
}
