//! The findings of a model in an image, according to its task.

use super::classes;
use super::inputs::Inputs;
use super::picture::Shot;
use crate::cli::{Failure, Table, Terminal, numbers};
use ixion::tensor::Tensor;
use ixion::vision::{Class, ClassMap, Detection, Frame, ModelCard, Task, VOID, VisionError, label_of};
use serde_json::{Value, json};
use std::io::{self, Write};

/// The findings in one image.
#[derive(Debug)]
pub(super) enum Findings {
    /// The best classes.
    Classes(Vec<Class>),
    /// The objects.
    Objects(Vec<Detection>),
    /// A class for each pixel.
    Mask(ClassMap),
}

/// The name in JSON of the list of findings; `None` if the model has no task.
pub(super) fn name_of_list(card: &ModelCard) -> Option<&'static str> {
    match card.task {
        Task::Classify => Some("classes"),
        Task::Detect => Some("detections"),
        Task::Segment => Some("masks"),
        _ => None,
    }
}

/// Interprets the outputs for each image of a batch as described by the card; empty if the model has no task.
pub(super) fn read(
    card: Option<&ModelCard>,
    inputs: &Inputs,
    outputs: &[(String, Tensor)],
    shots: &[Shot],
    top: usize,
) -> Result<Vec<Findings>, Failure> {
    let Some(card) = card else { return Ok(Vec::new()) };
    let tensors = || outputs.iter().map(|(_, tensor)| tensor.clone()).collect::<Vec<_>>();
    let found = match card.task {
        Task::Classify => card.classify(&tensors(), top).map(each(Findings::Classes)),
        Task::Detect | Task::Segment => {
            let (frames, is_single) = frames(card, inputs, shots)?;
            let tensors = if is_single { batched(&tensors())? } else { tensors() };
            match card.task {
                Task::Detect => card.detect(&tensors, &frames).map(each(Findings::Objects)),
                _ => card.segment(&tensors, &frames).map(each(Findings::Mask)),
            }
        }
        _ => return Ok(Vec::new()),
    };
    found.map_err(|error| unread(card, outputs, error))
}

fn each<T>(findings: fn(T) -> Findings) -> impl Fn(Vec<T>) -> Vec<Findings> {
    move |found| found.into_iter().map(findings).collect()
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
    pub(super) fn write(&self, card: &ModelCard, terminal: &mut Terminal) -> io::Result<()> {
        let labels = &card.output.labels;
        match self {
            Findings::Classes(found) => classes::write(terminal, found),
            Findings::Objects(found) => write_objects(terminal, found, card.output.confidence, labels),
            Findings::Mask(found) => write_shares(terminal, found, labels),
        }
    }

    pub(super) fn json(&self, labels: &[String]) -> Value {
        match self {
            Findings::Classes(found) => found.iter().map(class).collect(),
            Findings::Objects(found) => found.iter().map(|found| object(found, labels)).collect(),
            Findings::Mask(found) => shares(found, labels),
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
    let mut table = Table::new(&["class", ">score", ">left", ">top", ">right", ">bottom"]);
    for found in found {
        let edges = [found.rect.left, found.rect.top, found.rect.right, found.rect.bottom];
        let score = numbers::percent(found.score.into());
        let edges = edges.map(|edge| format!("{edge:.1}"));
        table.row([label_of(labels, found.class), score].into_iter().chain(edges));
    }
    table.write(terminal)
}

fn write_shares(terminal: &mut Terminal, map: &ClassMap, labels: &[String]) -> io::Result<()> {
    let mut table = Table::new(&["class", ">pixels", ">share"]);
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
