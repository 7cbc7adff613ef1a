//! `model.toml`: what a model is for, how a picture becomes its input, and how to read its output.

use super::classes::{Ranking, rank};
use crate::cli::failure::{Failure, toml_message};
use crate::cli::model::ModelArgs;
use ixion::tensor::{Preprocess, Tensor};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The contents of a `model.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Card {
    /// Where it was read from.
    #[serde(skip)]
    path: PathBuf,
    pub(super) name: String,
    #[serde(default)]
    pub(super) task: Task,
    #[serde(default, rename = "description")]
    _description: String,
    #[serde(default, rename = "provenance")]
    _provenance: String,
    #[serde(default, rename = "license")]
    _license: String,
    pub(super) input: Option<Preprocess>,
    #[serde(default)]
    output: Reading,
}

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Task {
    /// Outputs are shown as they are.
    #[default]
    None,
    /// The first output has a score for each class.
    Classify,
}

/// How to read scores.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reading {
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    activation: Activation,
}

/// What turns scores into probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Activation {
    /// Nothing: scores are shown as they are.
    #[default]
    None,
    /// One class excludes the others.
    Softmax,
    /// Each class stands for itself.
    Sigmoid,
}

impl Card {
    /// The `model.toml` beside a model, if there is one.
    pub(super) fn beside(model: &ModelArgs) -> Result<Option<Self>, Failure> {
        let path = model.beside("model.toml");
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&path, &text).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            // The path of the model leads through a file; that is reported when the model is read.
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Ok(None),
            Err(error) => {
                Err(Failure::unusable(format!("{}: cannot read the file: {error}", path.display())))
            }
        }
    }

    fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        let card: Card =
            toml::from_str(text).map_err(|error| Failure::unusable(toml_message(path, text, &error)))?;
        log::info!("{} says how to use `{}`", path.display(), card.name);
        Ok(Self { path: path.to_owned(), ..card })
    }

    /// The best classes by the first output, for each picture of the batch.
    pub(super) fn classes(&self, outputs: &[(String, Tensor)], top: usize) -> Result<Vec<Ranking>, Failure> {
        let Some((name, scores)) = outputs.first() else {
            return Err(self.failure("the model has no output".to_owned()));
        };
        let ranking = rank(scores, self.output.activation, &self.output.labels, top);
        ranking.map_err(|problem| self.failure(format!("output `{name}` {problem}")))
    }

    fn failure(&self, problem: String) -> Failure {
        Failure::failed(format!("{}: task is \"classify\", but {problem}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let error = toml::from_str::<Card>(text).unwrap_err();
        toml_message(Path::new("model.toml"), text, &error)
    }

    #[test]
    fn unknown_keys_are_refused_with_their_line() {
        let message = refused("name = \"x\"\n[output]\nlabel = []\n");
        assert!(message.starts_with("model.toml:3: unknown field `label`"), "{message}");
        let message = refused("name = \"x\"\n\n[input]\nsize = [8, 8]\ncolour = \"gray\"\n");
        assert!(message.starts_with("model.toml:5: unknown field `colour`"), "{message}");
        assert!(refused("name = \"x\"\ntask = \"sing\"\n").contains("model.toml:2: unknown variant `sing`"));
        assert!(refused("task = \"none\"\n").contains("missing field `name`"));
    }

    #[test]
    fn every_card_of_the_repository_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file");
        let mut found = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path().join("model.toml");
            if let Ok(text) = std::fs::read_to_string(&path) {
                let card = Card::parse(&path, &text).unwrap_or_else(|_| panic!("{}", path.display()));
                assert!(path.parent().unwrap().ends_with(&card.name));
                found += 1;
            }
        }
        assert!(found >= 5);
    }
}
