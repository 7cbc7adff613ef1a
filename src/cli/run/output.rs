//! Saving outputs.

use crate::cli::{Failure, files};
use ixion::tensor::Tensor;
use std::path::{Path, PathBuf};

/// Checks in advance whether outputs can be saved at a path. A folder is created.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    if is_file(path) { files::check_new_file(path) } else { files::make_folder(path) }
}

/// Saves all outputs. Each file is written atomically.
///
/// A single output is saved to `x.npy`, several to `x_0.npy`, `x_1.npy` and so on. Any other path is a folder for `out_0.npy`
/// and so on.
///
/// Files in `kept` are never overwritten.
pub(super) fn save(path: &Path, outputs: &[(String, Tensor)], kept: &[PathBuf]) -> Result<(), Failure> {
    for (index, (name, tensor)) in outputs.iter().enumerate() {
        let target = target(path, is_file(path), index, outputs.len());
        files::check_target(&target)?;
        files::check_kept(&target, kept)?;
        tensor.save_npy(&target).map_err(Failure::failed)?;
        log::info!("output `{name}` is in {}", target.display());
    }
    Ok(())
}

fn is_file(path: &Path) -> bool {
    files::has_extension(path, "npy")
}

fn target(path: &Path, is_file: bool, index: usize, count: usize) -> PathBuf {
    match (is_file, count) {
        (true, 1) => path.to_owned(),
        (true, _) => {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            path.with_file_name(format!("{stem}_{index}.npy"))
        }
        (false, _) => path.join(format!("out_{index}.npy")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_or_several_or_a_folder() {
        let name = |path: &str, is_file, index, count| target(Path::new(path), is_file, index, count);
        assert_eq!(name("a/x.npy", true, 0, 1), Path::new("a/x.npy"));
        assert_eq!(name("a/x.y.npy", true, 1, 2), Path::new("a/x.y_1.npy"));
        assert_eq!(name("a/x", false, 1, 2), Path::new("a/x/out_1.npy"));
    }
}
