//! The fourth mode of running a model: from a saved plan.

use super::parallel::each_of;
use ixion::Limits;
use ixion::engine::{Builder, EngineError, Formats, Plan, PlanFile};
use ixion::tensor::Tensor;
use std::path::{Path, PathBuf};

/// Maps the plan in a file.
pub(crate) fn map(path: &Path, limits: &Limits) -> Result<PlanFile, EngineError> {
    // SAFETY: the folder belongs to the test; its files are replaced, never modified in place.
    Ok(unsafe { PlanFile::map(path, limits) }?)
}

/// The shapes, types and bytes of all outputs.
pub(crate) fn bits(outputs: &[Tensor]) -> Vec<(String, Vec<u8>)> {
    let bits = |output: &Tensor| {
        (
            format!("{} {}", output.shape(), output.dtype()),
            output.contiguous().unwrap().to_le_bytes().unwrap(),
        )
    };
    outputs.iter().map(bits).collect()
}

/// Returns all cases for which a saved plan, read or mapped, gives other bits than the original plan, or becomes a different
/// file when it is saved again.
pub(crate) fn differences(cases: &[PathBuf], formats: &Formats) -> Vec<String> {
    let told = |case: &Path| {
        let reason = compare(case, formats).err()?;
        Some(format!("saved, {formats:?}: {}: {reason}", case.display()))
    };
    let wrong: Vec<String> = each_of(cases, told).into_iter().flatten().collect();
    eprintln!("saved: {} cases, {} are wrong", cases.len(), wrong.len());
    wrong
}

fn compare(case: &Path, formats: &Formats) -> Result<(), String> {
    let told = |error: EngineError| error.to_string();
    let folder = tempfile::tempdir().unwrap();
    let (path, again) = (folder.path().join("case.plan"), folder.path().join("again.plan"));
    let plan = Builder::new(text_in(case)).with_formats(formats.clone()).build().map_err(told)?;
    plan.save(&path).map_err(told)?;
    let read = Plan::load(&path).map_err(told)?;
    let mapped = map(&path, &Limits::default()).map_err(told)?;
    mapped.verify().map_err(told)?;
    let mapped = mapped.load().map_err(told)?;
    for inputs in sets(case, plan.inputs().len()) {
        let run = |plan: &Plan| Ok(bits(&plan.context()?.run(&inputs)?));
        let wanted = run(&plan).map_err(told)?;
        for (way, loaded) in [("read", &read), ("mapped", &mapped)] {
            if run(loaded).map_err(told)? != wanted {
                return Err(format!("different bits when it is {way}"));
            }
        }
    }
    mapped.save(&again).map_err(told)?;
    if mapped.selections() != plan.selections() {
        return Err("it selected other formats".to_owned());
    }
    let bytes = |path: &Path| std::fs::read(path).unwrap();
    if bytes(&path) != bytes(&again) {
        return Err("saving it again gives a different file".to_owned());
    }
    Ok(())
}

pub(crate) fn text_in(case: &Path) -> PathBuf {
    let files = std::fs::read_dir(case).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "param")).min().unwrap()
}

/// The inputs of all sets of a case.
pub(crate) fn sets(case: &Path, count: usize) -> Vec<Vec<Tensor>> {
    let limits = Limits::default();
    let loose = |at: usize| case.join(format!("in_{at}.npy"));
    if !case.join("arrays.npz").is_file() {
        return vec![(0..count).map(|at| Tensor::load_npy(loose(at), &limits).unwrap()).collect()];
    }
    let packed = (0..).map(|at| match at {
        0 => case.join("arrays.npz"),
        _ => case.join(format!("arrays_{at}.npz")),
    });
    let load = |path: PathBuf| {
        let arrays = Tensor::load_npz(path, &limits).unwrap();
        let array =
            |at: usize| arrays.iter().find(|(name, _)| *name == format!("in_{at}")).unwrap().1.clone();
        (0..count).map(array).collect()
    };
    packed.take_while(|path| path.is_file()).map(load).collect()
}
