//! Weights in other files than the model's.

use ixion_onnx::read;
use ixion_tensor::Limits;
use std::path::{Path, PathBuf};

/// A field of a message: its number, and its bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut len = bytes.len();
    while len > 0x7f {
        field.push((len & 0x7f) as u8 | 0x80);
        len >>= 7;
    }
    field.push(len as u8);
    field.extend(bytes);
    field
}

fn entry(key: &str, value: &str) -> Vec<u8> {
    field(13, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat())
}

/// A model that adds the tensor `w` of two floats to its input.
fn model(entries: &[(&str, &str)]) -> Vec<u8> {
    let entries: Vec<u8> = entries.iter().flat_map(|(key, value)| entry(key, value)).collect();
    // Two elements of type 1, which are in another file.
    let tensor = [&[8, 2, 16, 1][..], &field(8, b"w"), &entries, &[14 << 3, 1]].concat();
    let node = [field(1, b"x"), field(1, b"w"), field(2, b"y"), field(4, b"Add")].concat();
    let shape = field(2, &field(1, &[8, 2]));
    let kind = field(2, &field(1, &[&[8, 1][..], &shape].concat()));
    let value = |name: &[u8]| [field(1, name), kind.clone()].concat();
    let graph =
        [field(1, &node), field(5, &tensor), field(11, &value(b"x")), field(12, &value(b"y"))].concat();
    [field(7, &graph), field(8, &[16, 21])].concat()
}

struct Folder {
    root: tempfile::TempDir,
}

impl Folder {
    /// A folder for the model, within one that has a file it must not read.
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("model/inner")).unwrap();
        std::fs::write(root.path().join("outside"), [0; 64]).unwrap();
        let numbers: Vec<u8> = (0..4u8).flat_map(|number| f32::from(number).to_le_bytes()).collect();
        std::fs::write(root.path().join("model/weights"), &numbers).unwrap();
        std::fs::write(root.path().join("model/inner/weights"), numbers).unwrap();
        Self { root }
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.root.path().join(inside)
    }

    fn read(&self, entries: &[(&str, &str)]) -> Result<Vec<f32>, String> {
        let path = self.path("model/model.onnx");
        std::fs::write(&path, model(entries)).unwrap();
        weights(&path)
    }

    #[track_caller]
    fn refuses(&self, entries: &[(&str, &str)], why: &str) {
        let error = self.read(entries).unwrap_err();
        assert!(error.contains(why) && error.contains("tensor `w`"), "`{why}` is not in: {error}");
    }
}

fn weights(path: &Path) -> Result<Vec<f32>, String> {
    let model = read(path, &Limits::default()).map_err(|error| error.to_string())?;
    let weights = model.graph.operators().find_map(|(_, operator)| operator.attrs().get("data"));
    Ok(weights.unwrap().to_f32s().unwrap())
}

#[test]
fn weights_beside_the_model() {
    let folder = Folder::new();
    assert_eq!(folder.read(&[("location", "weights")]), Ok(vec![0.0, 1.0]));
    assert_eq!(
        folder.read(&[("location", "./inner/weights"), ("offset", "8"), ("length", "8")]),
        Ok(vec![2.0, 3.0])
    );
    // Ranges may overlap, and unknown keys are checksums.
    assert_eq!(
        folder.read(&[("location", "weights"), ("offset", "4"), ("checksum", "0")]),
        Ok(vec![1.0, 2.0])
    );
}

#[test]
fn files_elsewhere() {
    let folder = Folder::new();
    let outside = folder.path("outside").display().to_string();
    for location in ["../outside", "inner/../../outside", "inner/..", "./..", "/", &outside, ""] {
        folder.refuses(&[("location", location)], "not in the folder of the model");
    }
    folder.refuses(&[], "not in the folder of the model");
    folder.refuses(&[("location", "missing")], "was the file moved?");
    folder.refuses(&[("location", "inner")], "no file");
    folder.refuses(&[("location", "weights\0")], "weights");
}

#[test]
fn ranges_that_do_not_exist() {
    let folder = Folder::new();
    let refuses =
        |key: &str, value: &str, why: &str| folder.refuses(&[("location", "weights"), (key, value)], why);
    refuses("offset", "9", "w");
    refuses("offset", "18446744073709551615", "w");
    refuses("offset", "-1", "not a number of bytes");
    refuses("offset", "0x8", "not a number of bytes");
    refuses("length", "7", "expected 8 bytes for its shape [2], found 7");
    refuses("length", "18446744073709551616", "not a number of bytes");
}

#[test]
fn a_model_in_memory_has_no_other_files() {
    let error = ixion_onnx::from_bytes(model(&[("location", "weights")]), &Limits::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("read from memory"), "{error}");
}

#[cfg(unix)]
#[test]
fn links_and_pipes() {
    let folder = Folder::new();
    let link = |from: &str, to: &str| std::os::unix::fs::symlink(folder.path(from), folder.path(to)).unwrap();
    link("outside", "model/link");
    link("", "model/up");
    link("model/weights", "model/same");
    link("model/loop", "model/loop");
    folder.refuses(&[("location", "link")], "not in the folder of the model");
    folder.refuses(&[("location", "up/outside")], "not in the folder of the model");
    folder.refuses(&[("location", "loop")], "loop");
    assert_eq!(folder.read(&[("location", "same")]), Ok(vec![0.0, 1.0]));
    // The model itself may be opened by a link to its folder.
    link("model", "linked");
    assert_eq!(weights(&folder.path("linked/model.onnx")), Ok(vec![0.0, 1.0]));
    let made = std::process::Command::new("mkfifo").arg(folder.path("model/pipe")).status();
    if made.is_ok_and(|status| status.success()) {
        folder.refuses(&[("location", "pipe")], "no file");
    }
}
