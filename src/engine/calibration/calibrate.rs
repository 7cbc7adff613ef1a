//! Determines scales from inputs.

use super::loss::{Trial, too_lossy};
use super::shared::share;
use super::{Fingerprint, Histogram, Loss, Range, Scales, threshold};
use crate::engine::{Builder, EngineError};
use crate::graph::{OperandIndex, RuntimeGraph, RuntimeOperator, Stage};
use crate::op::LayerError;
use crate::tensor::{DType, Tensor};
use std::collections::BTreeMap;
use std::fmt;

/// How the clipping threshold of a quantised operand is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// The largest magnitude that was observed: nothing is clipped.
    MinMax,
    /// The threshold that loses the least information of the values' distribution.
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

/// The calibration results of an operand.
#[derive(Debug, Clone, PartialEq)]
pub struct Operand {
    /// Its name after the passes.
    pub name: String,
    /// The range of the observed values.
    pub range: Range,
    /// The magnitude beyond which values are clipped; `None` if only zeros, or a value that is not finite, was observed.
    pub threshold: Option<f32>,
    /// The fraction of the nonzero values that is clipped.
    pub clipped: f64,
}

/// A model whose operands are observed.
#[derive(Debug)]
pub struct Calibration {
    graph: RuntimeGraph,
    model: Fingerprint,
    /// By the operand's position.
    ranges: Vec<Option<Range>>,
    histograms: Vec<Option<Histogram>>,
    /// By the operator's name.
    trials: BTreeMap<String, Option<Trial>>,
}

impl Calibration {
    /// Reads a model and runs the builder's passes, since a plan has the operands of the graph after the passes.
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

    /// Runs the model and records the ranges of all operands.
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

    /// Runs the model and counts the magnitudes of all operands. Their ranges must have been recorded for all inputs before.
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

    /// Runs the model, and each operator that supports int8 once more in int8, and compares the outputs. Pass the same scales
    /// for all inputs.
    ///
    /// # Errors
    /// As [`RuntimeGraph::run_with`], or if a layer fails in int8; it is created again for the next inputs.
    pub fn see_loss(&mut self, inputs: Vec<Tensor>, scales: &Scales) -> Result<(), EngineError> {
        let trials = &mut self.trials;
        let mut result = Ok(());
        run(&mut self.graph, inputs, &mut |graph, operator| {
            if result.is_ok() {
                let measured = measure(graph, operator, trials, scales);
                result = measured.map_err(EngineError::at(graph, operator, Stage::Forward));
            }
        })?;
        result
    }

    /// All `f32` operands that were observed, in the order of the graph.
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

    /// The scales of all operands that have a threshold. Operands between which operators only move elements have the same one,
    /// unless they differ too much.
    pub fn scales(&self, method: Method) -> Scales {
        let scale = |operand: Operand| Some((operand.name, Scales::for_threshold(operand.threshold?)?));
        let scales: Scales = self.operands(method).into_iter().filter_map(scale).collect();
        share(&self.graph, scales).with_model(self.model.clone()).with_method(method.to_string())
    }

    /// The losses of all operators that support int8, in the order of the graph.
    pub fn losses(&self) -> Vec<&Loss> {
        let operators = self.graph.operators().iter();
        let trials = operators.filter_map(|operator| self.trials.get(operator.name())?.as_ref());
        trials.map(|trial| &trial.loss).collect()
    }

    /// Keeps those operators in `f32` whose signal-to-noise ratio is below this number of decibels, or NaN.
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

/// Runs the graph and passes the values of every `f32` operand, including the model's inputs, to `see`.
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

/// Measures an operator if it supports int8. A trial that fails is dropped.
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
        run_trial(graph, operator, trial)?;
    }
    trials.insert(operator.name().to_owned(), trial);
    Ok(())
}

fn run_trial(graph: &RuntimeGraph, operator: &RuntimeOperator, trial: &mut Trial) -> Result<(), LayerError> {
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
