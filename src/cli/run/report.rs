//! The results of a run: on the terminal, as JSON and in files.

use super::arguments::RunArgs;
use super::drawings::Drawings;
use super::files::{self, Source};
use super::findings::{self, Findings};
use super::picture::Shot;
use super::round::Round;
use super::{json, output, trace};
use crate::cli::caller::tell;
use crate::cli::{Exit, Failure, Style, Terminal, numbers, warnings};
use ixion::graph::Trace;
use ixion::shape::Contradiction;
use ixion::tensor::Tensor;
use ixion::vision::ModelCard;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Collects and writes the results of one or several runs of the model.
pub(super) struct Report<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) card: Option<&'a ModelCard>,
    /// The warnings about the model, which were printed before.
    pub(super) warnings: Vec<Contradiction>,
    /// The number of files given.
    given: usize,
    drawings: Drawings,
    /// The number of images done.
    done: usize,
    skipped: Vec<(PathBuf, String)>,
    /// All runs, if their inputs or outputs are still needed.
    rounds: Vec<Round>,
    /// The findings in each image.
    findings: Vec<Value>,
    pictures: Vec<Value>,
    time: Duration,
    trace: Option<Trace>,
}

impl<'a> Report<'a> {
    pub(super) fn new(args: &'a RunArgs, card: Option<&'a ModelCard>, sources: &[Source]) -> Self {
        Self {
            args,
            card,
            warnings: Vec::new(),
            given: sources.len(),
            drawings: Drawings::default(),
            done: 0,
            skipped: Vec::new(),
            rounds: Vec::new(),
            findings: Vec::new(),
            pictures: Vec::new(),
            time: Duration::ZERO,
            trace: None,
        }
    }

    /// Checks that everything can be written, before anything runs, and plans the drawings.
    pub(super) fn check_places(&mut self, pictures: &[Source]) -> Result<(), Failure> {
        self.drawings = Drawings::plan(self.args, pictures)?;
        if let Some(path) = &self.args.output {
            output::check(path)?;
        }
        Ok(())
    }

    /// Records and reports an image that could not be read.
    pub(super) fn skip(&mut self, path: &Path, failure: &Failure) {
        failure.report();
        self.skipped.push((path.to_owned(), failure.message()));
    }

    /// Interprets, saves and shows the results of one run, for these images or for arrays.
    pub(super) fn add(
        &mut self,
        mut round: Round,
        shots: &[Shot],
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        let found = findings::read(self.card, &round.inputs, &round.outputs, shots, self.args.top)?;
        if let Some(card) = self.card.filter(|_| !self.drawings.is_empty()) {
            let mut drawn = shots.iter().zip(&found);
            drawn.try_for_each(|(shot, found)| self.drawings.save(shot, found, card))?;
        }
        if self.args.json {
            self.note(&found, shots);
        } else {
            self.show(&found, &round, shots, terminal)?;
        }
        self.done += shots.len().max(found.len());
        self.time += round.time;
        self.trace = round.trace.take();
        if self.args.json || self.args.output.is_some() {
            self.rounds.push(round);
        }
        Ok(())
    }

    fn note(&mut self, found: &[Findings], shots: &[Shot]) {
        let labels = self.card.map(|card| card.output.labels.as_slice()).unwrap_or_default();
        self.findings.extend(found.iter().map(|found| found.json(labels)));
        let picture = |shot: &Shot| {
            let [height, width] = shot.frame.picture;
            json!({ "file": shot.path.display().to_string(), "height": height, "width": width })
        };
        self.pictures.extend(shots.iter().map(picture));
    }

    fn show(
        &self,
        found: &[Findings],
        round: &Round,
        shots: &[Shot],
        terminal: &mut Terminal,
    ) -> io::Result<()> {
        let count = shots.len().max(found.len());
        match self.card.filter(|_| !found.is_empty()) {
            Some(card) => {
                for (at, found) in found.iter().enumerate() {
                    self.heading(at, count, shots, terminal)?;
                    found.write(card, terminal)?;
                }
                Ok(())
            }
            None if self.given > 1 && !shots.is_empty() && are_by_picture(round, shots.len()) => {
                for at in 0..shots.len() {
                    self.heading(at, count, shots, terminal)?;
                    write_outputs(terminal, &part(&round.outputs, at)?)?;
                }
                Ok(())
            }
            None => write_outputs(terminal, &round.outputs),
        }
    }

    /// Writes the name of an image, if there are several.
    fn heading(&self, at: usize, count: usize, shots: &[Shot], terminal: &mut Terminal) -> io::Result<()> {
        let heading = match shots.get(at) {
            Some(shot) if self.given > 1 => shot.path.display().to_string(),
            None if count > 1 => format!("image {} of {count}", at + 1),
            _ => return Ok(()),
        };
        writeln!(terminal, "{}", terminal.paint(Style::Faint, heading))
    }

    /// Writes the remaining results, and returns the exit status.
    pub(super) fn finish(self, terminal: &mut Terminal) -> Result<Exit, Failure> {
        if let (Some(path), true) = (&self.args.output, !self.rounds.is_empty()) {
            let mut kept = self.args.model.files();
            kept.extend(files::sources(&self.args.inputs)?.into_iter().map(|source| source.path));
            output::save(path, &self.joined()?, &kept)?;
        }
        if self.args.json {
            terminal.json(&self.json()?)?;
        } else if let Some(trace) = &self.trace {
            writeln!(terminal)?;
            trace::write(terminal, trace)?;
        }
        if self.skipped.is_empty() {
            return Ok(Exit::Fine);
        }
        terminal.flush()?;
        let (bad, all) = (self.skipped.len(), numbers::plural(self.skipped.len() + self.done, "image"));
        tell("error", format!("{bad} of {all} could not be read"));
        Ok(if self.done > 0 { Exit::Failed } else { Exit::Unusable })
    }

    /// The result as a JSON object; `version` increases when the meaning of a field changes.
    ///
    /// Depending on the model's task, `classes`, `detections` or `masks` has an entry for each of the `pictures`. Images that
    /// could not be read are in `failed`. The outputs are those of all images, or null if they cannot be concatenated.
    fn json(&self) -> Result<Value, Failure> {
        let outputs: Option<Result<Vec<Value>, _>> =
            self.joined().ok().map(|outputs| outputs.iter().map(json::output).collect());
        let inputs = self.rounds.first().map(|round| round.inputs.as_slice()).unwrap_or_default();
        let inputs = inputs.iter().map(|(name, tensor)| json::port(name, tensor));
        let failed = self.skipped.iter();
        let failed =
            failed.map(|(path, error)| json!({ "file": path.display().to_string(), "error": error }));
        let mut object = json!({
            "version": 1,
            "file": self.args.model.param.display().to_string(),
            "name": self.card.map(|card| card.name.clone()),
            "task": self.card.map(|card| card.task.name()),
            "warnings": warnings::as_json(&self.warnings),
            "inputs": inputs.collect::<Vec<_>>(),
            "outputs": outputs.transpose().map_err(Failure::failed)?,
            "pictures": self.pictures,
            "failed": failed.collect::<Vec<_>>(),
            "classes": null,
            "detections": null,
            "masks": null,
            "seconds": self.time.as_secs_f64(),
            "trace": self.trace.as_ref().map(trace::json),
        });
        let name = self.card.and_then(findings::name_of_list);
        if let Some(name) = name.filter(|_| !self.rounds.is_empty()) {
            object[name] = self.findings.clone().into();
        }
        Ok(object)
    }

    /// The outputs of all runs, concatenated.
    fn joined(&self) -> Result<Vec<(String, Tensor)>, Failure> {
        if let [only] = self.rounds.as_slice() {
            return Ok(only.outputs.clone());
        }
        let first = self.rounds.first().map(|round| round.outputs.as_slice()).unwrap_or_default();
        let joined = first.iter().enumerate().map(|(at, (name, _))| {
            let parts: Vec<Tensor> =
                self.rounds.iter().filter_map(|round| Some(round.outputs.get(at)?.1.clone())).collect();
            let joined = Tensor::concat(&parts, 0).map_err(|error| {
                let message = format!("output `{name}` cannot be concatenated over all batches: {error}");
                Failure::failed(message).advise("run the images one by one")
            });
            Ok((name.clone(), joined?))
        });
        joined.collect()
    }
}

/// Returns true if the first axis of each output is the number of images.
fn are_by_picture(round: &Round, pictures: usize) -> bool {
    round.outputs.iter().all(|(_, tensor)| tensor.shape().first() == Some(&pictures))
}

/// The outputs for one image of a batch.
fn part(outputs: &[(String, Tensor)], at: usize) -> io::Result<Vec<(String, Tensor)>> {
    let part = |(name, tensor): &(String, Tensor)| Ok((name.clone(), tensor.narrow(0, at, 1)?));
    let parts: Result<_, ixion::tensor::TensorError> = outputs.iter().map(part).collect();
    parts.map_err(io::Error::other)
}

fn write_outputs(terminal: &mut Terminal, outputs: &[(String, Tensor)]) -> io::Result<()> {
    let widest = outputs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, tensor) in outputs {
        let name = terminal.paint(Style::Strong, format!("{name:widest$}"));
        writeln!(terminal, "{name}  {}", tensor.summary())?;
    }
    Ok(())
}
