//! `ixion convert`.

use super::command::{Ended, ixion, models};

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
