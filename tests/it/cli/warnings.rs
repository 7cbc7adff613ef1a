//! Warnings about operators that contradict what the file records, and about constants that f16 cannot represent.

use super::command::{Ended, command, ended};
use ixion::tensor::Tensor;
use serde_json::json;
use std::fs;
use std::path::Path;

const INDEX: &str = "7767517\n3 2\npnnx.Input in 0 1 x #x=(2,3)f32\n\
    Tensor.index twice 1 1 x y expr=[[0,1]] #y=(2,2,3)f32\npnnx.Output out 1 0 y\n";

/// Runs the command in a folder with this model and an input for it.
fn run(folder: &Path, text: &str, args: &[&str]) -> Ended {
    fs::write(folder.join("model.param"), text).unwrap();
    Tensor::from_vec(vec![0.5f32; 6], &[2, 3]).unwrap().save_npy(folder.join("x.npy")).unwrap();
    ended(command([]).args(args).current_dir(folder).output().unwrap())
}

#[test]
fn a_contradiction_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let start = "Tensor.index `twice` returns 2×3 f32, but the file records 2×2×3 f32: ";
    for args in [
        &["run", "model.param", "-i", "x.npy"][..],
        &["run", "model.param", "-i", "x.npy", "--interpret"],
        &["run", "model.param", "-i", "x.npy", "--interpret=optimised"],
        &["inspect", "model.param"],
        &["plan", "model.param"],
        &["build", "model.param", "-o", "model.plan"],
    ] {
        let ended = run(folder.path(), INDEX, args);
        assert_eq!(ended.code, 0, "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.matches("warning: ").count(), 1, "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(start), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("Constant indices with several axes"), "{}", ended.stderr);
    }
    let quiet = run(folder.path(), INDEX, &["run", "model.plan", "-i", "x.npy"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
}

#[test]
fn programs_get_the_warnings_as_json() {
    let folder = tempfile::tempdir().unwrap();
    for args in [
        &["run", "model.param", "-i", "x.npy", "--json"][..],
        &["inspect", "model.param", "--json"],
        &["plan", "model.param", "--json"],
    ] {
        let json = run(folder.path(), INDEX, args).json();
        let warning = &json["warnings"][0];
        assert_eq!((&warning["operator"], &warning["line"]), (&json!("twice"), &json!(4)), "{args:?}");
        assert_eq!((&warning["type"], &warning["output"]), (&json!("Tensor.index"), &json!(0)));
        assert_eq!((&warning["recorded"], &warning["computed"]), (&json!("2×2×3 f32"), &json!("2×3 f32")));
        let right = run(folder.path(), &INDEX.replace("(2,2,3)", "(2,3)"), args).json();
        assert_eq!(right["warnings"], json!([]), "{args:?}");
    }
}

#[test]
fn a_constant_beyond_f16_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let text = "7767517\n3 2\npnnx.Input in 0 1 x #x=(2,3)f32\n\
        pnnx.Expression far 1 1 x y expr=add(@0,1e10) #y=(2,3)f32\npnnx.Output out 1 0 y\n";
    let run = |more: &[&str]| {
        let args = [&["run", "model.param", "-i", "x.npy"][..], more].concat();
        run(folder.path(), text, &args)
    };
    let narrow = run(&["--precision", "f16", "--layouts", "narrowest"]);
    let wanted = "warning: pnnx.Expression `far` computes in f16, in which its constant 1e10 is infinite";
    assert!(narrow.code == 0 && narrow.stderr.contains(wanted), "{}", narrow.stderr);
    assert_eq!(run(&["--precision", "bf16", "--layouts", "narrowest"]).stderr, "");
    assert_eq!(run(&[]).stderr, "");
}
