//! Command lines, inputs and limits that do not fit a model.

use super::command::{command, ended, exactly, ixion, models};
use insta::assert_snapshot;
use std::fs;

const LINEAR: &str = "linear/linear.pnnx.param";
const TWO: &str = "two_inputs/two_inputs.pnnx.param";

#[test]
fn inputs_that_do_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let save = |name: &str, tensor: ixion::tensor::Tensor| tensor.save_npy(folder.path().join(name)).unwrap();
    save("ints.npy", ixion::tensor::Tensor::from_vec(vec![0i64; 32], &[1, 32]).unwrap());
    save("cube.npy", ixion::tensor::Tensor::from_vec(vec![0f32; 32], &[1, 32, 1]).unwrap());
    fs::write(folder.path().join("words.csv"), "1,2\n3,four\n").unwrap();
    fs::write(folder.path().join("empty.npy"), "").unwrap();
    let cases: [(&str, Vec<String>); 12] = [
        ("no input", vec![LINEAR.into()]),
        ("one of two", vec![TWO.into(), "-i".into(), "two_inputs/in_0.npy".into()]),
        (
            "too many",
            vec![LINEAR.into(), "-i".into(), "linear/in_0.npy".into(), "-i".into(), "linear/in_0.npy".into()],
        ),
        ("unknown name", vec![LINEAR.into(), "-i".into(), "x=linear/in_0.npy".into()]),
        (
            "given twice",
            vec![
                TWO.into(),
                "-i".into(),
                "0=two_inputs/in_0.npy".into(),
                "-i".into(),
                "pnnx_input_0=two_inputs/in_0.npy".into(),
            ],
        ),
        ("wrong type", vec![LINEAR.into(), "-i".into(), path("ints.npy")]),
        ("wrong rank", vec![LINEAR.into(), "-i".into(), path("cube.npy")]),
        ("no such file", vec![LINEAR.into(), "-i".into(), path("nowhere.npy")]),
        ("an empty file", vec![LINEAR.into(), "-i".into(), path("empty.npy")]),
        ("no number", vec![LINEAR.into(), "-i".into(), path("words.csv")]),
        ("a picture for no picture", vec![LINEAR.into(), "-i".into(), "digits/samples/7.png".into()]),
        ("an unknown kind of file", vec![LINEAR.into(), "-i".into(), "linear/export.py".into()]),
    ];
    let mut messages = String::new();
    for (what, args) in cases {
        let ended = ended(command(["run"]).args(args).output().unwrap());
        messages.push_str(&format!("# {what}\n{}\n\n", ended.error(2, folder.path())));
    }
    exactly(|| assert_snapshot!(messages));
}

#[test]
fn an_input_of_another_length_fails_in_an_operator() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("long.npy");
    ixion::tensor::Tensor::from_vec(vec![0f32; 33], &[1, 33]).unwrap().save_npy(&long).unwrap();
    let message = ixion(["run", LINEAR, "-i", long.to_str().unwrap()]).error(1, &models());
    assert_snapshot!(message, @r"
    error: linear/linear.pnnx.param:4: nn.Linear `linear` rejects its inputs: the last axis of the input: expected 32, got 1×33 f32
      note: input `pnnx_input_0` is 1×33, but the model was exported with 1×32
    ");
}

#[test]
fn outputs_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let run = |output: &str| ixion(["run", LINEAR, "-i", "linear/in_0.npy", "-o", output]);
    let nowhere = folder.path().join("no/such/folder/y.npy");
    let message = run(nowhere.to_str().unwrap()).error(1, folder.path());
    assert_eq!(message, "error: no/such/folder/y.npy: cannot write here: there is no folder no/such/folder");
    let taken = folder.path().join("taken.npy");
    fs::create_dir(&taken).unwrap();
    assert!(
        run(taken.to_str().unwrap())
            .error(1, folder.path())
            .ends_with("this is a folder; give the path of a file")
    );
    fs::write(folder.path().join("file"), "").unwrap();
    let message = run(folder.path().join("file").to_str().unwrap()).error(1, folder.path());
    assert!(message.starts_with("error: ") && message.contains("cannot create the folder"), "{message}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_is_no_place_for_outputs() {
    let message =
        ixion(["run", LINEAR, "-i", "linear/in_0.npy", "-o", "/dev/full"]).error(1, models().as_path());
    assert!(message.contains("dev/full: cannot create the folder"), "{message}");
}

#[test]
fn limits_are_kept() {
    let small = ixion(["run", LINEAR, "-i", "linear/in_0.npy", "--limit-memory", "100"]);
    let message = small.error(2, &models());
    assert!(message.contains("exceeds the limit max_t") && message.contains("of 100;"), "{message}");
    let short =
        ixion(["run", "resnet18/resnet18.pnnx.param", "--random-weights", "1", "--timeout", "0.000001"]);
    let message = short.error(1, &models());
    assert!(message.contains("the time limit was reached"), "{message}");
}

#[test]
fn model_toml_is_read_strictly() {
    let folder = tempfile::tempdir().unwrap();
    for ending in ["param", "bin"] {
        let name = format!("linear.pnnx.{ending}");
        fs::copy(models().join("linear").join(&name), folder.path().join(&name)).unwrap();
    }
    let param = folder.path().join("linear.pnnx.param");
    let run = |text: &str| {
        fs::write(folder.path().join("model.toml"), text).unwrap();
        ixion(["run", param.to_str().unwrap(), "-i", "linear/in_0.npy"])
    };
    let message = run("name = \"linear\"\n\n[input]\ncolour = \"gray\"\n").error(2, folder.path());
    assert!(message.starts_with("error: model.toml:4: unknown field `colour`"), "{message}");
    let message =
        run("name = \"linear\"\ntask = \"classify\"\n[output]\nlabels = [\"a\"]\n").error(1, folder.path());
    assert_eq!(
        message,
        "error: model.toml: task is \"classify\", but output `pnnx_output_0` has 128 classes, but there are 1 labels"
    );
    assert_eq!(run("name = \"linear\"\n").code, 0);
}

#[test]
fn usage_errors_end_with_2_and_help_with_0() {
    for args in [
        &["run"][..],
        &["fly"],
        &[],
        &["run", LINEAR, "--top", "0"],
        &["run", LINEAR, "--limit-memory", "4X"],
    ] {
        let ended = ended(command([]).args(args).output().unwrap());
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{args:?}");
    }
    for subcommand in ["run", "inspect", "verify", "convert", "operators"] {
        let help = ixion([subcommand, "--help"]).fine();
        assert!(help.contains("Exit codes:") && help.contains("Examples:"), "{help}");
    }
    assert!(ixion(["--version"]).fine().starts_with("ixion "));
}
