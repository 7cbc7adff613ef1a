//! Checks of a card that its types cannot express.

use super::{ModelCard, Reading, Task};
use crate::VisionError;
use crate::error::Result;
use crate::segment::VOID;

impl ModelCard {
    /// Checks that the keys are consistent; `text` is the file's text, for finding lines.
    pub(super) fn check(&self, text: &str) -> Result<()> {
        if let Some(problem) = self.input.as_ref().and_then(|input| input.check().err()) {
            let problem = problem.to_string();
            let key = problem.split(':').next().unwrap_or_default().to_owned();
            return Err(self.problem(text, &key, problem));
        }
        for (key, tasks, is_set) in self.keys_of_tasks() {
            if is_set && !tasks.contains(&self.task) {
                let names: Vec<String> = tasks.iter().map(|task| format!("\"{}\"", task.name())).collect();
                let problem =
                    format!("{key}: is for task {}, not \"{}\"", names.join(" and "), self.task.name());
                return Err(self.problem(text, key, problem));
            }
        }
        match self.task {
            Task::Detect => self.check_detection(text),
            Task::Segment => self.check_segmentation(text),
            Task::None | Task::Classify => Ok(()),
        }
    }

    /// The keys specific to some tasks, with those tasks and whether the card sets them.
    fn keys_of_tasks(&self) -> [(&'static str, &'static [Task], bool); 8] {
        let (found, default) = (&self.output, Reading::default());
        let detect = &[Task::Detect][..];
        [
            ("format", detect, found.format.is_some()),
            ("anchors", detect, !found.anchors.is_empty()),
            ("strides", detect, !found.strides.is_empty()),
            ("confidence", detect, found.confidence != default.confidence),
            ("iou", detect, found.iou != default.iou),
            ("max_detections", detect, found.max_detections != default.max_detections),
            ("colors", &[Task::Detect, Task::Segment], !found.colors.is_empty()),
            ("background", &[Task::Segment], found.background.is_some()),
        ]
    }

    fn check_detection(&self, text: &str) -> Result<()> {
        self.detection_format(text)?;
        let output = &self.output;
        for (key, value) in [("confidence", output.confidence), ("iou", output.iou)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(self.problem(text, key, format!("{key}: expected 0 to 1, got {value}")));
            }
        }
        let is_of_heads = output.format.as_deref() == Some("yolov5-heads");
        for (key, is_set) in
            [("anchors", !output.anchors.is_empty()), ("strides", !output.strides.is_empty())]
        {
            if is_set && !is_of_heads {
                let problem = format!("{key}: is for format \"yolov5-heads\" only");
                return Err(self.problem(text, key, problem));
            }
        }
        Ok(())
    }

    /// Checks strides and anchors against each other.
    pub(super) fn check_heads(&self, text: &str) -> Result<()> {
        let output = &self.output;
        let (strides, anchors) = (output.strides.len(), output.anchors.len());
        if strides == 0 || strides != anchors {
            let problem = format!(
                "format \"yolov5-heads\" needs one list of `anchors` for each of the `strides`, got {anchors} for {strides}"
            );
            return Err(self.problem(text, "format", problem));
        }
        if output.strides.contains(&0) {
            return Err(self.problem(text, "strides", "strides: expected at least 1 pixel, got 0"));
        }
        let is_bad = |list: &Vec<f32>| {
            list.is_empty()
                || !list.len().is_multiple_of(2)
                || list.iter().any(|&length| !(length > 0.0 && length.is_finite()))
        };
        match output.anchors.iter().find(|list| is_bad(list)) {
            Some(list) => {
                let problem = format!("anchors: expected pairs of width and height above 0, got {list:?}");
                Err(self.problem(text, "anchors", problem))
            }
            None => Ok(()),
        }
    }

    fn check_segmentation(&self, text: &str) -> Result<()> {
        let output = &self.output;
        let labels = output.labels.len();
        if labels > usize::from(VOID) {
            let problem = format!("labels: expected at most {VOID} for a mask, got {labels}");
            return Err(self.problem(text, "labels", problem));
        }
        match output.background {
            Some(class) if class == VOID || (labels > 0 && usize::from(class) >= labels) => {
                let classes = if labels > 0 { labels } else { usize::from(VOID) };
                let problem = format!("background: expected a class below {classes}, got {class}");
                Err(self.problem(text, "background", problem))
            }
            _ => Ok(()),
        }
    }

    /// An error for a key, with the key's line.
    pub(super) fn problem(&self, text: &str, key: &str, problem: impl Into<String>) -> VisionError {
        let is_key = |line: &str| {
            line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
        };
        let line = text.lines().position(is_key).map(|line| line + 1);
        VisionError::Card { path: self.path.clone(), line, problem: problem.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DetectionFormat, Head};
    use std::path::Path;

    fn refused(text: &str) -> String {
        ModelCard::parse("model.toml", text).unwrap_err().to_string()
    }

    fn detect(output: &str) -> String {
        format!("name = \"x\"\ntask = \"detect\"\n[output]\n{output}\n")
    }

    #[test]
    fn unknown_keys_are_errors_with_their_line() {
        let message = refused("name = \"x\"\n[output]\nlabel = []\n");
        assert!(message.starts_with("model.toml:3: unknown field `label`"), "{message}");
        let message = refused("name = \"x\"\n\n[input]\nsize = [8, 8]\ncolour = \"gray\"\n");
        assert!(message.starts_with("model.toml:5: unknown field `colour`"), "{message}");
        assert!(refused("name = \"x\"\ntask = \"sing\"\n").contains("model.toml:2: unknown variant `sing`"));
        assert!(refused("task = \"none\"\n").contains("missing field `name`"));
    }

    #[test]
    fn invalid_values_are_errors_with_their_line() {
        let cases = [
            ("name = \"x\"\n[input]\nstd = [0.0]\n".to_owned(), "model.toml:3: std: must not be 0"),
            (
                "name = \"x\"\n[output]\niou = 0.5\n".to_owned(),
                "model.toml:3: iou: is for task \"detect\", not \"none\"",
            ),
            (
                detect(""),
                "model.toml:2: task \"detect\" needs `format` in [output]: yolov5, yolov8 or yolov5-heads",
            ),
            (
                detect("format = \"yolo\""),
                "model.toml:4: format: expected yolov5, yolov8 or yolov5-heads, got `yolo`",
            ),
            (detect("format = \"yolov5\"\niou = 45"), "model.toml:5: iou: expected 0 to 1, got 45"),
            (
                detect("format = \"yolov5\"\nconfidence = nan"),
                "model.toml:5: confidence: expected 0 to 1, got NaN",
            ),
            (
                detect("format = \"yolov8\"\nstrides = [8]"),
                "model.toml:5: strides: is for format \"yolov5-heads\" only",
            ),
            (
                detect("format = \"yolov5-heads\"\nstrides = [8]"),
                "model.toml:4: format \"yolov5-heads\" needs one list of `anchors` for each of the `strides`, got 0 for 1",
            ),
            (
                detect("format = \"yolov5-heads\"\nstrides = [8]\nanchors = [[1, 2, 3]]"),
                "model.toml:6: anchors: expected pairs of width and height above 0, got [1.0, 2.0, 3.0]",
            ),
            (
                "name = \"x\"\ntask = \"segment\"\n[output]\nlabels = [\"a\"]\nbackground = 1\n".to_owned(),
                "model.toml:5: background: expected a class below 1, got 1",
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(refused(&text), wanted);
        }
    }

    #[test]
    fn heads_are_as_in_the_files_of_yolov5() {
        let text =
            detect("format = \"yolov5-heads\"\nstrides = [8, 16]\nanchors = [[10,13, 16,30], [30,61]]");
        let detector = ModelCard::parse("model.toml", &text).unwrap().detector().unwrap();
        let wanted = vec![
            Head { stride: 8, anchors: vec![[10.0, 13.0], [16.0, 30.0]] },
            Head { stride: 16, anchors: vec![[30.0, 61.0]] },
        ];
        assert_eq!(detector.format, DetectionFormat::Yolov5Heads(wanted));
    }

    #[test]
    fn a_card_may_be_absent() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(ModelCard::for_model(folder.path().join("x.param")), Ok(None));
        assert!(ModelCard::load(folder.path()).unwrap_err().to_string().contains("cannot read the file"));
    }

    #[test]
    fn every_card_of_the_repository_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../model_file");
        let mut found = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path().join("model.toml");
            if path.is_file() {
                let card = ModelCard::load(&path).unwrap();
                assert!(path.parent().unwrap().ends_with(&card.name));
                found += 1;
            }
        }
        assert!(found >= 5);
    }
}
