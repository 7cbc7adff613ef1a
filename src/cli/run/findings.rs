//! The findings of a model in an image, according to its task.

use super::classes;
use super::inputs::Inputs;
use super::picture::Shot;
use crate::cli::failure::Failure;
use crate::cli::numbers;
use crate::cli::table::{Align, Table};
use crate::cli::terminal::Terminal;
use ixion::tensor::Tensor;
use ixion::vision::{Class, ClassMap, Detection, Frame, ModelCard, Task, VOID, VisionError, label_of};
use serde_json::{Value, json};
use std::io::{self, Write};

/// The findings for each image of a batch.
#[derive(Debug)]
pub(super) enum Findings {
    /// No findings, since the model has no task.
    None,
    /// The best classes.
    Classes(Vec<Vec<Class>>),
    /// The objects.
    Objects(Vec<Vec<Detection>>),
    /// A class for each pixel.
    Masks(Vec<ClassMap>),
}

/// Interprets outputs as described by the card.
pub(super) fn read(
    card: Option<&ModelCard>,
    inputs: &Inputs,
    outputs: &[(String, Tensor)],
    shots: &[Shot],
    top: usize,
) -> Result<Findings, Failure> {
    let Some(card) = card else { return Ok(Findings::None) };
    let tensors = || outputs.iter().map(|(_, tensor)| tensor.clone()).collect::<Vec<_>>();
    let found = match card.task {
        Task::Classify => card.classify(&tensors(), top).map(Findings::Classes),
        Task::Detect | Task::Segment => {
            let (frames, is_single) = frames(card, inputs, shots)?;
            let tensors = if is_single { batched(&tensors())? } else { tensors() };
            match card.task {
                Task::Detect => card.detect(&tensors, &frames).map(Findings::Objects),
                _ => card.segment(&tensors, &frames).map(Findings::Masks),
            }
        }
        _ => return Ok(Findings::None),
    };
    found.map_err(|error| unread(card, outputs, error))
}

/// The frame of each image in the inputs, and whether the model has no batch axis. Arrays count as images of their own size.
fn frames(card: &ModelCard, inputs: &Inputs, shots: &[Shot]) -> Result<(Vec<Frame>, bool), Failure> {
    let dims = inputs.first().map(|(_, tensor)| tensor.shape().dims()).unwrap_or_default();
    let is_single = dims.len() == 3;
    if !shots.is_empty() {
        return Ok((shots.iter().map(|shot| shot.frame).collect(), is_single));
    }
    let (count, size) = match *dims {
        [count, _, height, width] => (count, [height, width]),
        [_, height, width] => (1, [height, width]),
        _ => {
            let message = format!(
                "{}: task is \"{}\", but the first input is {}, not images×channels×H×W",
                card.path.display(),
                card.task.name(),
                inputs.first().map(|(_, tensor)| tensor.shape().to_string()).unwrap_or_default()
            );
            return Err(Failure::failed(message));
        }
    };
    Ok((vec![Frame::stretched(size, size); count], is_single))
}

/// The outputs of a single image with a batch axis added.
fn batched(outputs: &[Tensor]) -> Result<Vec<Tensor>, Failure> {
    let batched = |tensor: &Tensor| tensor.reshape(&[&[1], tensor.shape().dims()].concat());
    outputs.iter().map(batched).collect::<Result<_, _>>().map_err(Failure::failed)
}

/// The failure of outputs that do not match the card.
fn unread(card: &ModelCard, outputs: &[(String, Tensor)], error: VisionError) -> Failure {
    let problem = match &error {
        VisionError::Output { index, problem } => {
            let name = outputs.get(*index).map(|(name, _)| name.as_str()).unwrap_or_default();
            format!("output `{name}` {problem}")
        }
        other => other.to_string(),
    };
    let task = card.task.name();
    Failure::failed(format!("{}: task is \"{task}\", but {problem}", card.path.display()))
}

impl Findings {
    /// The number of images.
    pub(super) fn len(&self) -> usize {
        match self {
            Findings::None => 0,
            Findings::Classes(found) => found.len(),
            Findings::Objects(found) => found.len(),
            Findings::Masks(found) => found.len(),
        }
    }

    /// Writes the findings for one image.
    pub(super) fn write(&self, at: usize, card: &ModelCard, terminal: &mut Terminal) -> io::Result<()> {
        let labels = &card.output.labels;
        match self {
            Findings::Classes(found) => found.get(at).map_or(Ok(()), |found| classes::write(terminal, found)),
            Findings::Objects(found) => found
                .get(at)
                .map_or(Ok(()), |found| write_objects(terminal, found, card.output.confidence, labels)),
            Findings::Masks(found) => {
                found.get(at).map_or(Ok(()), |found| write_shares(terminal, found, labels))
            }
            Findings::None => Ok(()),
        }
    }

    /// The findings as JSON: the name of the list, and the findings for each image.
    pub(super) fn json(&self, labels: &[String]) -> Option<(&'static str, Vec<Value>)> {
        match self {
            Findings::None => None,
            Findings::Classes(found) => {
                Some(("classes", found.iter().map(|found| list(found, class)).collect()))
            }
            Findings::Objects(found) => {
                let objects = found.iter().map(|found| list(found, |found| object(found, labels)));
                Some(("detections", objects.collect()))
            }
            Findings::Masks(found) => {
                Some(("masks", found.iter().map(|found| shares(found, labels)).collect()))
            }
        }
    }
}

fn write_objects(
    terminal: &mut Terminal,
    found: &[Detection],
    confidence: f32,
    labels: &[String],
) -> io::Result<()> {
    if found.is_empty() {
        return writeln!(terminal, "nothing above {}", numbers::percent(confidence.into()));
    }
    let right = Align::Right;
    let columns = [
        ("class", Align::Left),
        ("score", right),
        ("left", right),
        ("top", right),
        ("right", right),
        ("bottom", right),
    ];
    let mut table = Table::new(&columns);
    for found in found {
        let edges = [found.rect.left, found.rect.top, found.rect.right, found.rect.bottom];
        let score = numbers::percent(found.score.into());
        let edges = edges.map(|edge| format!("{edge:.1}"));
        table.row([label_of(labels, found.class), score].into_iter().chain(edges));
    }
    table.write(terminal)
}

fn write_shares(terminal: &mut Terminal, map: &ClassMap, labels: &[String]) -> io::Result<()> {
    let mut table = Table::new(&[("class", Align::Left), ("pixels", Align::Right), ("share", Align::Right)]);
    let all = map.classes().len() as f64;
    let mut counts = map.counts();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (class, count) in counts {
        table.row([class_name(class, labels), count.to_string(), numbers::percent(count as f64 / all)]);
    }
    table.write(terminal)
}

fn class_name(class: u8, labels: &[String]) -> String {
    if class == VOID { "none".to_owned() } else { label_of(labels, class.into()) }
}

fn list<T>(found: &[T], value: impl Fn(&T) -> Value) -> Value {
    found.iter().map(value).collect()
}

fn class(class: &Class) -> Value {
    let kind = if class.is_probability { "probability" } else { "score" };
    json!({ "index": class.index, "label": class.label, kind: super::json::number(class.score) })
}

/// An object as JSON. Its box is left, top, right and bottom, in pixels of the image.
fn object(found: &Detection, labels: &[String]) -> Value {
    let rect = &found.rect;
    let edges = [rect.left, rect.top, rect.right, rect.bottom].map(|edge| super::json::number(edge.into()));
    json!({
        "class": found.class,
        "label": label_of(labels, found.class),
        "score": super::json::number(found.score.into()),
        "box": edges,
    })
}

fn shares(map: &ClassMap, labels: &[String]) -> Value {
    let all = map.classes().len() as f64;
    let entry = |(class, pixels): (u8, usize)| {
        json!({
            "class": class,
            "label": class_name(class, labels),
            "pixels": pixels,
            "share": pixels as f64 / all,
        })
    };
    map.counts().into_iter().map(entry).collect()
}
