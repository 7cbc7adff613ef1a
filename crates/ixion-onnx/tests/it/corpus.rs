//! The seed files of the fuzz target, and mutants of them: `IXION_FUZZ` is the number of mutants of each file.

use ixion_onnx::from_bytes;
use ixion_pnnx::Graph;
use ixion_tensor::Limits;
use std::path::PathBuf;

fn files() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/onnx");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|kind| kind == "onnx")).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Reads a file. What is read can be written and read again as text.
fn check(bytes: &[u8]) -> Result<(), String> {
    let limits =
        Limits { max_tensor_bytes: 1 << 16, max_total_bytes: 1 << 20, max_ops: 500, ..Limits::default() };
    let model = from_bytes(bytes, &limits).map_err(|error| error.to_string())?;
    let text = model.graph.to_param_text();
    let again = Graph::parse(&text, &Limits::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(again.to_param_text(), text);
    Ok(())
}

#[test]
fn every_file_is_read() {
    for (path, bytes) in files() {
        let result = check(&bytes);
        // Its weights are in a file that does not exist.
        let is_incomplete = path.ends_with("stored.onnx");
        assert_eq!(result.is_err(), is_incomplete, "{}: {result:?}", path.display());
    }
}

/// Numbers that look random, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        usize::try_from((self.0 >> 33) % (end.max(1) as u64)).unwrap()
    }
}

/// Bytes with a few changes, or with a part of another file.
fn changed(bytes: &[u8], other: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    for _ in 0..=numbers.below(3) {
        let at = numbers.below(changed.len());
        let end = (at + 1 + numbers.below(8)).min(changed.len());
        match numbers.below(6) {
            0 => changed[at] ^= 1 << numbers.below(8),
            1 => changed[at] = [0, 1, 0x7f, 0x80, 0xff][numbers.below(5)],
            2 => drop(changed.drain(at..end)),
            3 => {
                let part = changed[at..end].to_vec();
                changed.splice(at..at, part);
            }
            4 => changed[at] = changed[at].wrapping_add(1),
            _ => {
                let from = numbers.below(other.len());
                let to = (from + 1 + numbers.below(40)).min(other.len());
                changed.splice(at..end, other[from..to].iter().copied());
            }
        }
        if changed.is_empty() {
            break;
        }
    }
    changed
}

#[test]
fn changed_files_are_read_or_refused() {
    let count = std::env::var("IXION_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(100);
    let seed = std::env::var("IXION_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (files, mut numbers) = (files(), Numbers(seed));
    for (path, bytes) in &files {
        for number in 0..count {
            let other = &files[numbers.below(files.len())].1;
            let bytes = changed(bytes, other, &mut numbers);
            let result = std::panic::catch_unwind(|| check(&bytes));
            assert!(result.is_ok(), "change {number} of {}: {bytes:?}", path.display());
        }
    }
}
