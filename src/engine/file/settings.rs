//! The settings of a plan file, as JSON.

use super::error::PlanFileProblem;
use super::exact::{InputNames, OperandType};
use super::layout::Kind;
use crate::engine::Plan;
use crate::graph::RuntimeOperator;
use crate::op::{PluginName, Registry};
use crate::ops::inserted::reformat::Reformat;
use crate::ops::inserted::transfer::Transfer;
use crate::passes::{PassStatistics, Refusal, Statistics};
use crate::shape::{InputRange, InputShape};
use crate::tensor::DType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The section of settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) model: Option<String>,
    pub(super) layers: Vec<LayerVersion>,
    pub(super) features: Vec<String>,
    shapes: Vec<(String, String)>,
    ranges: Vec<Range>,
    pub(super) donations: Vec<(usize, usize)>,
    passes: Passes,
    /// One for each operator of the text.
    pub(super) lines: Vec<Option<usize>>,
    pub(super) operands: Vec<OperandType>,
    pub(super) inputs: Vec<InputNames>,
}

/// The layer of an operator type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LayerVersion {
    pub(super) op_type: String,
    namespace: String,
    version: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    input: String,
    dtype: String,
    min: Vec<usize>,
    optimum: Vec<usize>,
    max: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Passes {
    rounds: usize,
    nodes_before: usize,
    nodes_after: usize,
    passes: Vec<OnePass>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OnePass {
    name: String,
    fired: usize,
    /// Operator and reason.
    refused: Vec<(String, String)>,
    nodes_before: usize,
    nodes_saved: i64,
}

impl Settings {
    /// The settings of a plan.
    pub(super) fn of(plan: &Plan) -> Result<Self, PlanFileProblem> {
        let (operands, inputs) = super::exact::lost(&plan.source)?;
        let name = plan.graph.path().and_then(|path| path.file_name());
        let ranges = plan.profile.iter().flat_map(|profile| profile.ranges());
        Ok(Self {
            model: name.map(|name| name.to_string_lossy().into_owned()),
            layers: layers(plan)?,
            // Tactics require none: layers choose kernels when they run, and convolutions in blocks of 16 channels, which need
            // vectors of that width, refuse their stored state without them.
            features: Vec::new(),
            shapes: plan.given.iter().map(|(name, shape)| (name.clone(), shape.to_string())).collect(),
            ranges: ranges.map(Range::of).collect(),
            donations: plan.donations.clone(),
            passes: Passes::of(&plan.statistics),
            lines: plan.source.operators().map(|(_, operator)| operator.line()).collect(),
            operands,
            inputs,
        })
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, PlanFileProblem> {
        serde_json::to_vec(self).map_err(|error| PlanFileProblem::Unwritable(error.to_string()))
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, PlanFileProblem> {
        serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))
    }

    pub(super) fn shapes(&self) -> Result<Vec<(String, InputShape)>, PlanFileProblem> {
        let shape = |(name, text): &(String, String)| match text.parse() {
            Ok(shape) => Ok((name.clone(), shape)),
            Err(error) => Err(wrong(format!("{error}"))),
        };
        self.shapes.iter().map(shape).collect()
    }

    pub(super) fn ranges(&self) -> Result<Vec<InputRange>, PlanFileProblem> {
        let range = |range: &Range| {
            let Range { input, dtype, min, optimum, max } = range.clone();
            let known =
                DType::from_name(&dtype).ok_or_else(|| wrong(format!("there is no type `{dtype}`")))?;
            InputRange::new(input, known, min, optimum, max).map_err(|error| wrong(error.to_string()))
        };
        self.ranges.iter().map(range).collect()
    }

    pub(super) fn statistics(&self) -> Statistics {
        let Passes { rounds, nodes_before, nodes_after, passes } = self.passes.clone();
        let pass = |pass: OnePass| PassStatistics {
            name: pass.name,
            fired: pass.fired,
            refused: pass
                .refused
                .into_iter()
                .map(|(operator, reason)| Refusal { operator, reason })
                .collect(),
            nodes_before: pass.nodes_before,
            nodes_saved: pass.nodes_saved,
            ..PassStatistics::default()
        };
        Statistics { rounds, nodes_before, nodes_after, passes: passes.into_iter().map(pass).collect() }
    }

    /// Returns an error if a registry has other layers than those that the plan was built with.
    pub(super) fn check_layers(&self, registry: &Registry) -> Result<(), PlanFileProblem> {
        self.layers.iter().try_for_each(|wanted| {
            let found = LayerVersion::in_registry(registry, &wanted.op_type);
            match found {
                Some(found) if found == *wanted => Ok(()),
                found => {
                    let found = found.map(|found| found.to_string());
                    Err(PlanFileProblem::Layer { wanted: wanted.to_string(), found })
                }
            }
        })
    }
}

fn wrong(reason: String) -> PlanFileProblem {
    PlanFileProblem::corrupt(Kind::Settings, reason)
}

/// The layers of all operators of a plan, except for those that the engine inserted.
fn layers(plan: &Plan) -> Result<Vec<LayerVersion>, PlanFileProblem> {
    let is_own = |operator: &&RuntimeOperator| {
        operator.layer().is_some() && ![Reformat::TYPE, Transfer::TYPE].contains(&operator.op_type())
    };
    let operators = plan.graph.operators().iter().filter(is_own);
    let types: BTreeSet<&str> = operators.map(|operator| operator.op_type()).collect();
    let version = |op_type: &str| {
        let unknown = || PlanFileProblem::Unwritable(format!("no layer is registered for `{op_type}`"));
        LayerVersion::in_registry(plan.graph.registry(), op_type).ok_or_else(unknown)
    };
    types.into_iter().map(version).collect()
}

impl LayerVersion {
    fn in_registry(registry: &Registry, op_type: &str) -> Option<Self> {
        let creator = registry.known(op_type)?;
        let (namespace, version) = (creator.namespace.clone(), creator.version.clone());
        Some(Self { op_type: op_type.to_owned(), namespace, version })
    }
}

impl std::fmt::Display for LayerVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The type of a plugin is its full name.
        match self.op_type.parse::<PluginName>() {
            Ok(name) => write!(f, "{name}"),
            Err(_) => write!(f, "{}/{}/{}", self.namespace, self.op_type, self.version),
        }
    }
}

impl Range {
    fn of(range: &InputRange) -> Self {
        Self {
            input: range.name().to_owned(),
            dtype: range.dtype().name().to_owned(),
            min: range.min().to_vec(),
            optimum: range.optimum().to_vec(),
            max: range.max().to_vec(),
        }
    }
}

impl Passes {
    /// The statistics without times, so that two builds give the same file.
    fn of(statistics: &Statistics) -> Self {
        let pass = |pass: &PassStatistics| OnePass {
            name: pass.name.clone(),
            fired: pass.fired,
            refused: pass.refused.iter().map(|it| (it.operator.clone(), it.reason.clone())).collect(),
            nodes_before: pass.nodes_before,
            nodes_saved: pass.nodes_saved,
        };
        Self {
            rounds: statistics.rounds,
            nodes_before: statistics.nodes_before,
            nodes_after: statistics.nodes_after,
            passes: statistics.passes.iter().map(pass).collect(),
        }
    }
}
