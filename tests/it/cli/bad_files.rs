//! Invalid models: each ends with exit code 2 and a message that states the position, the problem and what to do.

use super::command::{exactly, ixion, models};
use insta::assert_snapshot;
use std::fs;
use std::path::Path;

const GOOD: &str = "7767517\n4 3\n\
    pnnx.Input in 0 1 x #x=(1,3)f32\n\
    nn.Linear fc 1 1 x y bias=False in_features=3 out_features=2 @weight=(2,3)f32\n\
    nn.ReLU relu 1 1 y z\n\
    pnnx.Output out 1 0 z\n";

/// Invalid texts, each with a description of the error.
fn bad_texts() -> Vec<(&'static str, String)> {
    let with = |from: &str, to: &str| GOOD.replace(from, to);
    vec![
        ("an empty file", String::new()),
        ("wrong magic", with("7767517", "7767518")),
        ("too few operators", with("4 3", "5 3")),
        ("a count that is too large", with("nn.ReLU relu 1 1", "nn.ReLU relu 2 1")),
        ("an operand that nothing produces", with("1 1 y z", "1 1 w z")),
        ("an operand that is produced twice", with("1 1 y z", "1 1 y y")),
        ("a cycle", with("1 1 x y bias", "1 1 z y bias")),
        ("an operator that feeds itself", with("1 1 y z", "1 1 z z")),
        ("a key without a value", with("bias=False", "bias")),
        ("a parameter of the wrong kind", with("in_features=3", "in_features=many")),
        ("a parameter that nobody knows", with("1 1 y z", "1 1 y z sharp=True")),
        ("numbers that contradict the weight", with("in_features=3", "in_features=4")),
        ("unknown operators, all at once", with("nn.Linear", "nn.Lineal").replace("nn.ReLU", "my.Own")),
    ]
}

/// The error message for a model that is run without inputs.
fn refusal(param: &Path, folder: &Path) -> String {
    ixion(["run", param.to_str().unwrap()]).error(2, folder)
}

#[test]
fn wrong_texts() {
    let folder = tempfile::tempdir().unwrap();
    let param = folder.path().join("net.param");
    let mut writer =
        ixion::pnnx::ArchiveWriter::new(fs::File::create(folder.path().join("net.bin")).unwrap());
    writer.add("fc.weight", &[0; 24]).unwrap();
    writer.finish().unwrap();
    let mut messages = String::new();
    for (what, text) in bad_texts() {
        fs::write(&param, text).unwrap();
        messages.push_str(&format!("# {what}\n{}\n\n", refusal(&param, folder.path())));
    }
    exactly(|| assert_snapshot!(messages));
}

#[test]
fn paths_that_lead_to_no_text() {
    let models = models();
    let mut messages = String::new();
    for path in [
        "",
        "nowhere.param",
        "linear/liner.param",
        "linear",
        "digits/samples/7.png",
        "linear/linear.pnnx.bin",
        "linear/in_0.npy",
    ] {
        messages.push_str(&format!("# {path}\n{}\n\n", ixion(["run", path]).error(2, &models)));
    }
    exactly(|| assert_snapshot!(messages));
}

#[test]
fn archives_that_do_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let (param, bin) = (folder.path().join("net.param"), folder.path().join("net.bin"));
    fs::write(&param, GOOD).unwrap();
    let mut messages = String::new();
    let mut note =
        |what: &str| messages.push_str(&format!("# {what}\n{}\n\n", refusal(&param, folder.path())));
    note("no archive");
    fs::write(&bin, archive(&[("fc.bias", 8)])).unwrap();
    note("a missing weight");
    fs::write(&bin, archive(&[("fc.weight", 20)])).unwrap();
    note("a weight of the wrong size");
    let good = archive(&[("fc.weight", 24)]);
    fs::write(&bin, good.get(..good.len() / 2).unwrap()).unwrap();
    note("a truncated archive");
    fs::write(&bin, compressed(good)).unwrap();
    note("a compressed entry");
    fs::copy(models().join("digits/samples/7.png"), &bin).unwrap();
    note("a picture");
    exactly(|| assert_snapshot!(messages));
}

/// An archive whose entries contain zeros.
fn archive(entries: &[(&str, usize)]) -> Vec<u8> {
    let mut writer = ixion::pnnx::ArchiveWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, size) in entries {
        writer.add(name, &vec![0; *size]).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// The archive with all entries marked as deflated.
fn compressed(mut archive: Vec<u8>) -> Vec<u8> {
    for (signature, method) in [(b"PK\x03\x04", 8), (b"PK\x01\x02", 10)] {
        let places: Vec<usize> = archive
            .windows(4)
            .enumerate()
            .filter(|(_, bytes)| bytes == signature)
            .map(|(at, _)| at)
            .collect();
        places.into_iter().for_each(|at| archive[at + method] = 8);
    }
    archive
}

#[test]
fn the_other_subcommands_refuse_them_too() {
    let folder = tempfile::tempdir().unwrap();
    let param = folder.path().join("net.param");
    fs::write(&param, "7767518\n").unwrap();
    let path = param.to_str().unwrap();
    let message = "error: net.param:1:1: a .param text starts with 7767517, found `7767518`";
    assert_eq!(ixion(["inspect", path]).error(2, folder.path()), message);
    assert_eq!(ixion(["convert", path, "--param", "x.param"]).error(2, folder.path()), message);
}
