//! From inputs to scales.

use super::loss::{Trial, too_lossy};
use super::{Fingerprint, Histogram, Loss, Range, Scales, threshold};
use crate::engine::{Builder, EngineError};
use crate::graph::{OperandIndex, RuntimeGraph, RuntimeOperator, Stage};
use crate::op::LayerError;
use crate::tensor::{DType, Tensor};
use std::collections::BTreeMap;
use std::fmt;

/// How the largest number that an operand's whole numbers stand for is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// The largest magnitude that was seen: nothing is cut off.
    MinMax,
    /// What loses the least of the numbers' distribution.
    Entropy,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::MinMax => "minmax",
            Self::Entropy => "entropy",
        })
    }
}

/// What was found of an operand.
#[derive(Debug, Clone, PartialEq)]
pub struct Operand {
    /// Its name after the passes.
    pub name: String,
    /// What was seen.
    pub range: Range,
    /// The magnitude beyond which numbers are cut off; none where nothing but zeros, or something not finite was seen.
    pub threshold: Option<f32>,
    /// Which part of the numbers that are not zero is cut off.
    pub clipped: f64,
}

/// A model whose operands are observed.
#[derive(Debug)]
pub struct Calibration {
    graph: RuntimeGraph,
    model: Fingerprint,
    /// By operand.
    ranges: Vec<Option<Range>>,
    histograms: Vec<Option<Histogram>>,
    /// By operator.
    trials: BTreeMap<String, Option<Trial>>,
}

impl Calibration {
    /// Reads a model and lets the builder's passes improve its graph, for it is that graph's operands that a plan has.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn new(builder: Builder) -> Result<Self, EngineError> {
        let (model, mut graph) = builder.into_improved()?;
        graph.build()?;
        let count = graph.operands().len();
        let (ranges, histograms) = (vec![None; count], vec![None; count]);
        Ok(Self { graph, model, ranges, histograms, trials: BTreeMap::new() })
    }

    /// The graph after the passes.
    pub fn graph(&self) -> &RuntimeGraph {
        &self.graph
    }

    /// Takes note of the ranges of all operands.
    ///
    /// # Errors
    /// As [`RuntimeGraph::run_with`].
    pub fn see_range(&mut self, inputs: Vec<Tensor>) -> Result<(), EngineError> {
        let ranges = &mut self.ranges;
        each_operand(&mut self.graph, inputs, &mut |position, values| {
            let range = ranges[position].unwrap_or(Range::EMPTY);
            ranges[position] = Some(range.with(values));
        })
    }

    /// Counts the magnitudes of all operands, whose ranges have been seen for all inputs.
    ///
    /// # Errors
    /// As [`RuntimeGraph::run_with`].
    pub fn see_magnitudes(&mut self, inputs: Vec<Tensor>) -> Result<(), EngineError> {
        let (ranges, histograms) = (&self.ranges, &mut self.histograms);
        each_operand(&mut self.graph, inputs, &mut |position, values| {
            let largest = ranges[position].and_then(Range::magnitude).filter(|&largest| largest > 0.0);
            let Some(largest) = largest else { return };
            histograms[position].get_or_insert_with(|| Histogram::new(largest)).add(values);
        })
    }

    /// Runs every operator that takes whole numbers once more with them, and compares its outputs. The scales are the same for
    /// all inputs.
    ///
    /// # Errors
    /// As [`RuntimeGraph::run_with`]; that of a layer, which is made anew for the next inputs.
    pub fn see_loss(&mut self, inputs: Vec<Tensor>, scales: &Scales) -> Result<(), EngineError> {
        let trials = &mut self.trials;
        let mut result = Ok(());
        run(&mut self.graph, inputs, &mut |graph, operator| {
            if result.is_ok() {
                let measured = measure(graph, operator, trials, scales);
                let of_operator = |it| EngineError::of_operator(operator, graph.path(), Stage::Forward, it);
                result = measured.map_err(of_operator);
            }
        })?;
        result
    }

    /// All operands of `f32` that were seen, in the order of the graph.
    pub fn operands(&self, method: Method) -> Vec<Operand> {
        let operand = |position: usize| {
            let (range, histogram) = (self.ranges[position]?, self.histograms[position].as_ref());
            let threshold = match method {
                Method::MinMax => range.magnitude(),
                Method::Entropy => range.magnitude().and(histogram).and_then(threshold),
            };
            let clipped = threshold.zip(histogram).map_or(0.0, |(threshold, it)| it.share_above(threshold));
            let name = self.graph.operands()[position].name().to_owned();
            let threshold = threshold.filter(|&threshold| Scales::for_threshold(threshold).is_some());
            Some(Operand { name, range, threshold, clipped })
        };
        (0..self.ranges.len()).filter_map(operand).collect()
    }

    /// The histogram of an operand.
    pub fn histogram(&self, operand: &str) -> Option<&Histogram> {
        let position = self.graph.operands().iter().position(|it| it.name() == operand)?;
        self.histograms[position].as_ref()
    }

    /// The scales of all operands that have a threshold.
    pub fn scales(&self, method: Method) -> Scales {
        let scale = |operand: Operand| Some((operand.name, Scales::for_threshold(operand.threshold?)?));
        let scales: Scales = self.operands(method).into_iter().filter_map(scale).collect();
        scales.with_model(self.model.clone()).with_method(method.to_string())
    }

    /// What each operator that takes whole numbers loses, in the order of the graph.
    pub fn losses(&self) -> Vec<&Loss> {
        let operators = self.graph.operators().iter();
        let trials = operators.filter_map(|operator| self.trials.get(operator.name())?.as_ref());
        trials.map(|trial| &trial.loss).collect()
    }

    /// The scales, with those operators kept in `f32` whose ratio of signal to noise is below so many decibels, or no number.
    pub fn keep_below(&self, scales: Scales, decibels: f64) -> Scales {
        scales.with_kept(too_lossy(self.losses(), decibels))
    }
}

fn run(
    graph: &mut RuntimeGraph,
    inputs: Vec<Tensor>,
    observe: &mut dyn FnMut(&RuntimeGraph, &RuntimeOperator),
) -> Result<(), EngineError> {
    graph.set_inputs(inputs)?;
    Ok(graph.run_observed(observe)?)
}

/// Runs the graph and shows the numbers of every operand of `f32`, inputs of the model among them.
fn each_operand(
    graph: &mut RuntimeGraph,
    inputs: Vec<Tensor>,
    see: &mut dyn FnMut(usize, &[f32]),
) -> Result<(), EngineError> {
    let mut show = |graph: &RuntimeGraph, operand: OperandIndex| {
        let tensor = graph.operand(operand).data().filter(|tensor| tensor.dtype() == DType::F32);
        if let Some(Ok(values)) = tensor.map(|tensor| tensor.to_vec::<f32>()) {
            see(operand.position(), &values);
        }
    };
    let mut are_inputs_seen = false;
    run(graph, inputs, &mut |graph, operator| {
        if !are_inputs_seen {
            graph.inputs().iter().for_each(|port| show(graph, port.operand));
            are_inputs_seen = true;
        }
        operator.outputs().iter().for_each(|&output| show(graph, output));
    })
}

/// Measures an operator that takes whole numbers. One that fails is let go.
fn measure(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    trials: &mut BTreeMap<String, Option<Trial>>,
    scales: &Scales,
) -> Result<(), LayerError> {
    let mut trial = match trials.remove(operator.name()) {
        Some(known) => known,
        None => Trial::new(graph, operator, scales)?,
    };
    if let Some(trial) = &mut trial {
        try_out(graph, operator, trial)?;
    }
    trials.insert(operator.name().to_owned(), trial);
    Ok(())
}

fn try_out(graph: &RuntimeGraph, operator: &RuntimeOperator, trial: &mut Trial) -> Result<(), LayerError> {
    let data = |&operand: &OperandIndex| graph.operand(operand).data();
    let inputs: Option<Vec<&Tensor>> = operator.inputs().iter().map(data).collect();
    let (Some(inputs), Some(output)) = (inputs, operator.outputs().first().and_then(data)) else {
        return Ok(());
    };
    if output.dtype() != DType::F32 || inputs.first().is_none_or(|input| input.dtype() != DType::F32) {
        return Ok(());
    }
    trial.measure(&inputs, output, graph.limits())
}
