//! `ixion verify`.

use super::command::{ended, ixion, models, roughly};
use insta::assert_snapshot;
use std::fs;
use std::path::Path;
use std::process::Command;

const RELU: &str = "7767517\n4 3\n\
    pnnx.Input in 0 1 x #x=(2)f32\n\
    nn.ReLU first 1 1 x y #y=(2)f32\n\
    nn.Sigmoid second 1 1 y z #z=(2)f32\n\
    pnnx.Output out 1 0 z\n";

/// Creates a case whose expected output is `wanted`.
fn case(folder: &Path, name: &str, text: &str, wanted: [f32; 2], settings: &str) {
    let path = folder.join(name);
    fs::create_dir(&path).unwrap();
    fs::write(path.join("model.param"), text).unwrap();
    fs::write(path.join("case.toml"), settings).unwrap();
    let tensor = |values: [f32; 2]| ixion::tensor::Tensor::from_vec(values.to_vec(), &[2]).unwrap();
    tensor([-1.0, 0.0]).save_npy(path.join("in_0.npy")).unwrap();
    tensor(wanted).save_npy(path.join("out_0.npy")).unwrap();
}

/// Runs `ixion verify` in a folder.
fn verify<const N: usize>(folder: &Path, args: [&str; N]) -> super::command::Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ixion"));
    ended(command.arg("verify").args(args).current_dir(folder).output().unwrap())
}

#[test]
fn the_models_of_the_repository_pass() {
    let printed =
        ixion(["verify", "linear", "conv3", "two_inputs", "digits", "--checksums", "--jobs", "2"]).fine();
    let lines: Vec<&str> = printed.lines().collect();
    for (line, name) in lines.iter().zip(["linear", "conv3", "two_inputs", "digits"]) {
        assert!(line.starts_with("PASS ") && line.contains(name), "{printed}");
    }
    assert_eq!(lines.last(), Some(&"4 passed, 0 failed"));
}

#[test]
fn each_way_to_fall_short_has_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let own = RELU.replace("nn.Sigmoid", "my.Own").replace("nn.ReLU", "my.Other");
    case(folder.path(), "a_right", RELU, [0.5, 0.5], "");
    case(folder.path(), "b_wrong", RELU, [0.5, 0.625], "");
    case(folder.path(), "c_wrong_but_tolerated", RELU, [0.5, 0.625], "tolerance = 0.1");
    case(folder.path(), "d_only_the_shape", RELU, [7.0, 7.0], "values = false");
    case(folder.path(), "e_unlike_the_file", &RELU.replace("#y=(2)", "#y=(1,2)"), [1.0, 1.0], "");
    case(folder.path(), "f_unsupported", &own, [0.5, 0.5], "");
    case(folder.path(), "g_refused", &RELU.replace("1 1 y z", "1 1 y z sharp=True"), [0.5, 0.5], "");
    case(folder.path(), "h_bad_settings", RELU, [0.5, 0.5], "tolerence = 0.1");
    case(folder.path(), "i_no_input", RELU, [0.5, 0.5], "");
    fs::remove_file(folder.path().join("i_no_input/in_0.npy")).unwrap();
    case(
        folder.path(),
        "j_fails",
        &RELU.replace("nn.Sigmoid second 1", "F.conv2d conv 2").replace("y z", "y y z"),
        [0.5, 0.5],
        "",
    );
    let mut names: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names.push("k_nowhere".to_owned());
    let mut command = Command::new(env!("CARGO_BIN_EXE_ixion"));
    let printed = ended(command.arg("verify").args(&names).current_dir(folder.path()).output().unwrap());
    assert_eq!((printed.code, printed.stderr.as_str()), (1, ""));
    roughly(|| assert_snapshot!(printed.stdout));
}

#[test]
fn the_exit_code_says_whether_anything_could_be_read() {
    let folder = tempfile::tempdir().unwrap();
    case(folder.path(), "right", RELU, [0.5, 0.5], "");
    assert_eq!(verify(folder.path(), ["right"]).code, 0);
    assert_eq!(verify(folder.path(), ["right", "nowhere"]).code, 1);
    assert_eq!(verify(folder.path(), ["nowhere"]).code, 2);
    assert_eq!(verify(folder.path(), []).code, 2);
    assert_eq!(verify(folder.path(), ["right", "--tolerance", "-1"]).code, 2);
    assert_eq!(verify(folder.path(), ["right", "--jobs", "0"]).code, 2);
}

#[test]
fn the_verdicts_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    case(folder.path(), "right", RELU, [0.5, 0.5], "");
    case(folder.path(), "wrong", RELU, [0.5, 1.0], "");
    case(folder.path(), "own", &RELU.replace("nn.ReLU", "my.Own"), [0.5, 0.5], "");
    let ended = verify(folder.path(), ["wrong", "own", "right", "--json", "--jobs", "3"]);
    assert_eq!(ended.code, 1);
    let json = ended.json();
    assert_eq!((json["passed"].as_u64(), json["failed"].as_u64()), (Some(1), Some(2)));
    assert_eq!(json["unsupported"], serde_json::json!({ "my.Own": 1 }));
    let names: Vec<&str> =
        json["cases"].as_array().unwrap().iter().map(|case| case["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["wrong", "own", "right"], "verdicts are in the order of the arguments");
    let (wrong, own) = (&json["cases"][0], &json["cases"][1]);
    assert_eq!((wrong["verdict"].as_str(), wrong["max_abs_diff"].as_f64()), (Some("fail"), Some(0.5)));
    assert_eq!(wrong["suspects"], serde_json::json!(["the output comes from pnnx.Expression `second`"]));
    assert_eq!(
        (own["kind"].as_str(), &own["unsupported"]),
        (Some("unsupported"), &serde_json::json!(["my.Own"]))
    );
}

#[test]
fn damaged_weights_are_found_by_their_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let linear = folder.path().join("linear");
    fs::create_dir(&linear).unwrap();
    for name in ["linear.pnnx.param", "in_0.npy", "out_0.npy"] {
        fs::copy(models().join("linear").join(name), linear.join(name)).unwrap();
    }
    let mut bin = fs::read(models().join("linear/linear.pnnx.bin")).unwrap();
    // The last byte of a weight, in the lowest bits of a float.
    let middle = bin.len() / 2;
    bin[middle] ^= 1;
    fs::write(linear.join("linear.pnnx.bin"), bin).unwrap();
    let ended = verify(folder.path(), ["linear", "--checksums"]);
    assert!(
        ended.stdout.starts_with("ERROR-read ") && ended.stdout.contains("are damaged (expected checksum"),
        "{}",
        ended.stdout
    );
}
