//! Saving images with their findings, and masks.

use super::arguments::RunArgs;
use super::files::Source;
use super::findings::Findings;
use super::picture::Shot;
use crate::cli::{Failure, files};
use ixion::vision::{ModelCard, VisionError, draw_detections, draw_mask};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The target files of drawings and masks, by the path of the image.
#[derive(Debug, Default)]
pub(super) struct Drawings {
    pictures: BTreeMap<PathBuf, PathBuf>,
    masks: BTreeMap<PathBuf, PathBuf>,
}

impl Drawings {
    /// Chooses a target for each drawing and mask, and checks that it can be written without overwriting an input or another
    /// target.
    pub(super) fn plan(args: &RunArgs, sources: &[Source]) -> Result<Self, Failure> {
        let mut taken: BTreeSet<PathBuf> =
            sources.iter().filter_map(|source| source.path.canonicalize().ok()).collect();
        let mut plan = |option: &str, path: &Option<PathBuf>| match path {
            Some(path) => targets(option, path, sources, &mut taken),
            None => Ok(BTreeMap::new()),
        };
        Ok(Self { pictures: plan("--picture", &args.picture)?, masks: plan("--mask", &args.mask)? })
    }

    /// Returns true if there is nothing to draw.
    pub(super) fn is_empty(&self) -> bool {
        self.pictures.is_empty() && self.masks.is_empty()
    }

    /// Draws and saves the findings in one image.
    pub(super) fn save(&self, shot: &Shot, findings: &Findings, card: &ModelCard) -> Result<(), Failure> {
        let (picture, output) = (&shot.picture, &card.output);
        let (labels, colors) = (&output.labels, &output.colors);
        if let Some(target) = self.pictures.get(&shot.path) {
            let drawn = match findings {
                Findings::Classes(_) => return Ok(()),
                Findings::Objects(found) => draw_detections(picture, found, labels, colors),
                Findings::Mask(found) => draw_mask(picture, found, labels, colors, output.background),
            };
            let drawn = drawn.map_err(Failure::failed)?;
            written(target, drawn.save_png(target).map_err(VisionError::from))?;
        }
        if let (Some(target), Findings::Mask(found)) = (self.masks.get(&shot.path), findings) {
            written(target, found.save_png(target, colors, output.background))?;
        }
        Ok(())
    }
}

fn written(target: &Path, result: Result<(), VisionError>) -> Result<(), Failure> {
    log::info!("writing {}", target.display());
    result.map_err(Failure::failed)
}

/// The target file for each image: `path` itself if it ends in .png, else a file in this folder.
fn targets(
    option: &str,
    path: &Path,
    sources: &[Source],
    taken: &mut BTreeSet<PathBuf>,
) -> Result<BTreeMap<PathBuf, PathBuf>, Failure> {
    let is_file = files::has_extension(path, "png");
    if sources.is_empty() || sources.iter().any(|source| !source.is_picture()) {
        let message = format!("{option} {}: the input is not an image", path.display());
        return Err(Failure::unusable(message).advise("give --input a .png or .jpg"));
    }
    if is_file && sources.len() > 1 {
        let message =
            format!("{option} {}: cannot save {} images in one file", path.display(), sources.len());
        return Err(Failure::unusable(message).advise("give a folder, without .png at its end"));
    }
    if is_file {
        files::check_new_file(path)?
    } else {
        files::make_folder(path)?
    }
    let mut targets = BTreeMap::new();
    for source in sources {
        let target = if is_file { path.to_owned() } else { free_name(path, &source.path, &targets) };
        let real = files::real_path(&target);
        if taken.contains(&real) {
            let message = format!("{option}: {} would be overwritten", target.display());
            return Err(Failure::unusable(message).advise("choose another folder or file"));
        }
        targets.insert(source.path.clone(), target);
    }
    taken.extend(targets.values().map(|target| files::real_path(target)));
    Ok(targets)
}

/// `NAME.png` in a folder, or `NAME_2.png` and so on if another image has that name.
fn free_name(folder: &Path, source: &Path, targets: &BTreeMap<PathBuf, PathBuf>) -> PathBuf {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let names = (1usize..).map(|number| match number {
        1 => folder.join(format!("{stem}.png")),
        number => folder.join(format!("{stem}_{number}.png")),
    });
    let mut names = names.filter(|name| !targets.iter().any(|(of, target)| of != source && target == name));
    names.next().unwrap_or_else(|| folder.join("picture.png"))
}

#[cfg(test)]
mod tests {
    use super::super::files::Kind;
    use super::*;

    fn pictures(paths: &[PathBuf]) -> Vec<Source> {
        let source = |path: &PathBuf| Source { name: None, path: path.clone(), kind: Kind::Picture };
        paths.iter().map(source).collect()
    }

    #[test]
    fn every_picture_has_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let sources = pictures(&["a/x.jpg".into(), "b/x.png".into(), "y.png".into(), "y.png".into()]);
        let found = targets("--picture", &out, &sources, &mut BTreeSet::new()).unwrap();
        let names: Vec<PathBuf> = found.into_values().collect();
        assert_eq!(names, ["x.png", "x_2.png", "y.png"].map(|name| out.join(name)));
    }

    #[test]
    fn inputs_and_other_drawings_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.png");
        std::fs::write(&path, "").unwrap();
        let sources = pictures(std::slice::from_ref(&path));
        let mut taken = BTreeSet::from([path.canonicalize().unwrap()]);
        for target in [folder.path(), &path] {
            assert!(targets("--picture", target, &sources, &mut taken).is_err());
        }
        let out = folder.path().join("out");
        assert!(targets("--picture", &out, &sources, &mut taken).is_ok());
        assert!(targets("--mask", &out, &sources, &mut taken).is_err());
        assert!(
            targets(
                "--mask",
                &folder.path().join("y.png"),
                &pictures(&["a.png".into(), "b.png".into()]),
                &mut taken
            )
            .is_err()
        );
    }
}
