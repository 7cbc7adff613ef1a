//! `ixion inspect`.

use super::command::{command, ended, exactly, ixion, models, roughly};
use insta::assert_snapshot;
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

#[test]
fn two_inputs_as_a_table() {
    roughly(|| assert_snapshot!(ixion(["inspect", "two_inputs/two_inputs.pnnx.param"]).fine()));
}

#[test]
fn an_open_batch_counts_as_one() {
    let printed = ixion(["inspect", "digits/digits.pnnx.param"]).fine();
    assert!(
        printed.contains("input   pnnx_input_0  ?×1×8×8 f32\noutput  pnnx_output_0  ?×10 f32\n"),
        "{printed}"
    );
    let macs = printed.lines().find(|line| line.starts_with("MACs")).unwrap();
    assert_eq!(macs, "MACs       1.86 M with 1 for each unknown size");
}

#[test]
fn what_cannot_run_is_marked_and_weights_may_be_absent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.param");
    let text = "7767517\n5 4\n\
        pnnx.Input in 0 1 x #x=(1,3)f32\n\
        nn.Lineal own 1 1 x y #y=(1,3)f32\n\
        nn.Linear fc 1 1 y z bias=False in_features=3 out_features=2 @weight=(2,3)f32\n\
        nn.ReLU relu 1 1 z w sharp=True #w=(1,2)f32\n\
        pnnx.Output out 1 0 w\n";
    std::fs::write(&path, text).unwrap();
    exactly(|| assert_snapshot!(ixion(["inspect", path.to_str().unwrap()]).fine()));
}

/// Each tuple contains the previous one twice, so the last represents 2^40 tensors.
#[test]
fn deeply_nested_tuples_are_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tuples.param");
    let mut lines = vec!["pnnx.Input in 0 1 t0 #t0=(1)f32".to_owned()];
    lines.extend((0..40).map(|n| format!("prim::TupleConstruct tuple{n} 2 1 t{n} t{n} t{}", n + 1)));
    lines.push("pnnx.Output out 1 0 t40".to_owned());
    std::fs::write(&path, format!("7767517\n{} 41\n{}\n", lines.len(), lines.join("\n"))).unwrap();
    let printed = ixion(["inspect", path.to_str().unwrap()]).fine();
    assert!(printed.contains("  unknown shape\n"), "{printed}");
    assert!(printed.contains("prim::TupleConstruct `tuple39`: a tuple of"), "{printed}");
}

/// Below optimisation level 2, PNNX leaves the arguments of operators as constants, and at level 2 those of operators that it
/// does not know.
#[test]
fn operators_whose_arguments_are_constants_can_run() {
    let cases = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases"));
    let cannot_run = |row: &&Value| ["refused", "unsupported"].map(Some).contains(&row["state"].as_str());
    let (mut constants, mut found) = (0, Vec::new());
    for entry in std::fs::read_dir(cases).unwrap() {
        let path = entry.unwrap().path().join("model.param");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if !text.contains("prim::Constant") || !text.contains("aten::") {
            continue;
        }
        constants += 1;
        let json = ixion(["inspect", path.to_str().unwrap(), "--json"]).json();
        let rows = json["operators"].as_array().unwrap();
        let refused = rows.iter().filter(cannot_run);
        found.extend(refused.map(|row| format!("{}: {row}", path.display())));
    }
    assert!(constants > 8, "{constants}");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn branches_that_pnnx_has_lost_are_told_as_when_running() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.param");
    let text = "7767517\n5 4\n\
        pnnx.Input in 0 1 x #x=(8,4)f32\n\
        aten::numel count 1 1 x n\n\
        torch.eq none 1 1 n e other=0 $input=n\n\
        prim::If branch 1 1 e y #y=(8)i64\n\
        pnnx.Output out 1 0 y\n";
    std::fs::write(&path, text).unwrap();
    let printed = ixion(["inspect", path.to_str().unwrap()]).fine();
    assert!(
        printed.contains("not supported: prim::If, 1 operator\n  hint: PNNX does not write"),
        "{printed}"
    );
    assert!(printed.contains("torchvision.ops.batched_nms") && !printed.contains("plugin"), "{printed}");
    let refused = ixion(["run", path.to_str().unwrap()]).error(2, folder.path());
    assert!(refused.contains("prim::If `branch`") && refused.contains("batched_nms"), "{refused}");
}

#[test]
fn the_report_as_json() {
    let json = ixion(["inspect", "digits/digits.pnnx.param", "--json"]).json();
    assert_eq!(json["inputs"][0]["shape"], serde_json::json!(["?", 1, 8, 8]));
    assert_eq!(json["totals"]["operators"], 21);
    assert_eq!(json["totals"]["weight_bytes"], json["totals"]["weight_bytes_by_dtype"]["f32"]);
    assert_eq!(json["totals"]["unsupported"], serde_json::json!({}));
    let conv = &json["operators"][1];
    assert_eq!((conv["type"].as_str(), conv["state"].as_str()), (Some("nn.Conv2d"), Some("supported")));
    assert_eq!(conv["macs"], 24 * 64 * 9);
    assert_eq!(conv["parameters"]["kernel_size"], "(3,3)");
    assert_eq!(
        conv["weights"][1],
        serde_json::json!({
            "key": "weight", "shape": [24, 1, 3, 3], "dtype": "f32", "bytes": 864, "present": true,
        })
    );
}

#[test]
fn a_picture_is_written_to_a_file_or_to_the_screen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("linear.svg");
    let args = ["inspect", "linear/linear.pnnx.param", "--svg"];
    let said = ended(command(args).arg(&path).output().unwrap()).fine();
    assert_eq!(said, format!("{}: 4 operators\n", path.display()));
    let svg = std::fs::read_to_string(&path).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("weight 128×32, 16.9 kB") && svg.contains("1×128 f32"));
    assert_eq!(ended(command(args).arg("-").output().unwrap()).fine(), svg);
    let dot = ixion(["inspect", "linear/linear.pnnx.param", "--dot"]).fine();
    assert!(dot.starts_with("digraph") && dot.contains("nn.Sigmoid"));
}

/// `ixion inspect … | head -1`
#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = command(["inspect", "resnet18/resnet18.pnnx.param", "--svg", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut start = [0; 16];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut printing = command(["inspect", "linear/linear.pnnx.param"]);
    let ended = ended(printing.stdout(full()).output().unwrap());
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.starts_with("error: cannot write to the standard output: "), "{}", ended.stderr);
    let saving = ixion(["inspect", "linear/linear.pnnx.param", "--svg", "/dev/full"]);
    assert!(saving.error(1, models().as_path()).starts_with("error: /dev/full: cannot write the file: "));
}
