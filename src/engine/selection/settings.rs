//! The settings of the selection.

use super::moving::{only_moves, reads_int8, takes_zero_points};
use super::price::Prices;
use crate::engine::calibration::{UnknownNames, own_steps};
use crate::engine::device::Accelerator;
use crate::engine::tuning::Tuner;
use crate::engine::{EngineError, Fingerprint, Precision, Scales};
use crate::graph::{GraphError, RuntimeGraph, RuntimeOperator};
use crate::op::{Properties, Step, Tactic, scales_key};
use crate::pnnx;
use crate::tensor::DType;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The rule by which an engine selects formats.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Formats {
    /// The formats that layers support with the lowest total price.
    Cheapest,
    /// Row-major layouts only.
    Plain,
    /// Another layout for every tensor and back again, regardless of price: for tests.
    Alternating,
    /// The fewest bits that layers support, regardless of price: to measure the accuracy that low precision loses.
    Narrowest,
}

/// The block sizes that layers are probed for, in channels.
const BLOCKS: [u8; 2] = [16, 8];

/// The largest [rounding error](crate::op::CpuLayer::rounding) of a tactic that may always be selected. That of a whole
/// model is usually smaller, because most of its layers have none.
pub const MAX_ROUNDING: f64 = 3.0;

/// As [`MAX_ROUNDING`], for an operator behind which there is at most one convolution, pooling or other product on the way to
/// an output of the model: too little follows that averages its errors.
pub const MAX_ROUNDING_OF_LAST_LAYERS: f64 = 2.0;

/// The settings of the selection.
#[derive(Debug)]
pub(in crate::engine) struct SelectionSettings {
    pub(in crate::engine) formats: Formats,
    /// The allowed precisions, in addition to f32.
    pub(in crate::engine) precisions: Vec<Precision>,
    /// The scales that were given, for the precision int8.
    pub(in crate::engine) scales: Scales,
    /// The steps of operands that the model itself states, by their names, once its graph is known. They need no precision to be
    /// allowed.
    pub(in crate::engine) own: OnceLock<BTreeMap<String, Step>>,
    /// The names of excluded tactics.
    pub(in crate::engine) left_out: Vec<String>,
    /// The names of tactics that are selected wherever possible.
    pub(in crate::engine) preferred: Vec<String>,
    /// Whether tactics may be selected that round more than [`MAX_ROUNDING`] allows.
    pub(in crate::engine) is_fast: bool,
    /// A device that runs operators in addition to the CPU.
    pub(in crate::engine) accelerator: Option<Accelerator>,
    /// Measures prices; without one, they are estimated by a model.
    pub(in crate::engine) tuner: Option<Tuner>,
}

impl Default for SelectionSettings {
    fn default() -> Self {
        Self {
            formats: Formats::Cheapest,
            precisions: Vec::new(),
            scales: Scales::default(),
            own: OnceLock::new(),
            left_out: Vec::new(),
            preferred: Vec::new(),
            is_fast: false,
            accelerator: None,
            tuner: None,
        }
    }
}

impl SelectionSettings {
    /// The block sizes that layers are probed for, in channels.
    pub(super) fn blocks(&self) -> &'static [u8] {
        if self.formats == Formats::Plain { &[] } else { &BLOCKS }
    }

    /// Returns true if tensors on a device may be channels-last.
    pub(super) fn allow_channels_last(&self) -> bool {
        self.formats != Formats::Plain
    }

    /// The allowed float types other than f32.
    pub(super) fn narrow(&self) -> Vec<DType> {
        self.precisions.iter().filter_map(|precision| precision.narrow()).collect()
    }

    /// Returns true if a tactic may be selected: its name must not be excluded, and if it is named after a precision, that
    /// precision must be allowed or the tactic itself preferred.
    pub(super) fn allows(&self, tactic: &Tactic) -> bool {
        let named = Precision::ALL.into_iter().find(|precision| precision.name() == tactic.name);
        let is_precise = named.is_none_or(|precision| self.precisions.contains(&precision));
        !is_named(tactic, &self.left_out) && (is_precise || is_named(tactic, &self.preferred))
    }

    /// Returns true if a tactic may be selected that rounds this much: unless the plan may be fast instead of exact, the tactic
    /// must be preferred or have at most the error of the limit.
    pub(super) fn allows_rounding(&self, tactic: &Tactic, rounding: f64, limit: f64) -> bool {
        rounding <= limit || self.is_fast || is_named(tactic, &self.preferred)
    }

    pub(super) fn prices(&self) -> Prices<'_> {
        Prices { tuner: self.tuner.as_ref(), accelerator: self.accelerator.as_ref() }
    }

    /// Checks that the scales, if they are used, were computed for this model.
    ///
    /// # Errors
    /// [`EngineError::OtherModel`] if they were not. Also returns an error if weights cannot be read.
    pub(in crate::engine) fn check_scales(&self, file: &pnnx::Graph) -> Result<(), EngineError> {
        let Some(wanted) = self.scales.model().filter(|_| self.precisions.contains(&Precision::Int8)) else {
            return Ok(());
        };
        let found = Fingerprint::of(file).map_err(|error| GraphError::from(pnnx::PnnxError::from(error)))?;
        match (found.graph == wanted.graph, found.weights == wanted.weights) {
            (true, true) => Ok(()),
            (false, _) => Err(EngineError::OtherModel("graphs")),
            (true, false) => Err(EngineError::OtherModel("weights")),
        }
    }

    /// The names in the scales, if they are used, that the file does not have.
    pub(in crate::engine) fn unknown_names(&self, file: &pnnx::Graph) -> Option<UnknownNames<'_>> {
        self.precisions.contains(&Precision::Int8).then(|| UnknownNames::new(&self.scales, file))
    }

    /// Finds the steps that a graph itself states. Devices have no kernels for the operators that state them.
    pub(super) fn find_own(&self, graph: &RuntimeGraph) {
        if self.accelerator.is_none() {
            self.own.get_or_init(|| own_steps(graph));
        }
    }

    /// The step of an operand: the model's own, or else that of the given scale.
    pub(super) fn step_of(&self, operand: &str) -> Option<Step> {
        self.own_step(operand).or_else(|| self.scales.get(operand).map(Step::from))
    }

    fn own_step(&self, operand: &str) -> Option<Step> {
        self.own.get()?.get(operand).copied()
    }

    /// Returns true if int8 is allowed, but an operator stays in f32, because it loses too much.
    pub(super) fn keeps_f32(&self, operator: &str) -> bool {
        self.precisions.contains(&Precision::Int8) && self.scales.keeps(operator)
    }

    /// Returns true if the model itself states a scale for an operator's input, but the operator may not be int8, because that
    /// would round its weights.
    pub(super) fn rounds_weights(&self, graph: &RuntimeGraph, operator: &RuntimeOperator) -> bool {
        let input = operator.inputs().first().map(|&input| graph.operand(input).name());
        let has_own_scale = input.is_some_and(|input| self.own_step(input).is_some());
        has_own_scale && rounds_weights(operator) && !self.precisions.contains(&Precision::Int8)
    }

    /// The step of an operator's operand, if it may be int8. Unless the precision int8 is allowed, only operators that lose
    /// nothing may have int8 operands.
    pub(super) fn step(&self, operator: &RuntimeOperator, operand: &str) -> Option<Step> {
        if self.scales.keeps(operator.name()) {
            return None;
        }
        let is_allowed = self.precisions.contains(&Precision::Int8);
        match self.own_step(operand) {
            Some(own) => {
                let loses_nothing = is_allowed || !rounds_weights(operator);
                Some(own).filter(|&own| loses_nothing && takes(operator, own))
            }
            None => self.scales.get(operand).filter(|_| is_allowed).map(Step::from),
        }
    }
}

/// Returns true if an operator may have int8 operands with this step: those with another zero point than 0 only if its layer takes
/// zero points, or if it does not compute.
fn takes(operator: &RuntimeOperator, step: Step) -> bool {
    step.zero_point == 0 || only_moves(operator.op_type()) || takes_zero_points(operator)
}

/// Returns true if an operator has to round its weights to compute in int8: those of a product that are not stored as integers, if
/// its layer computes in int8 at all.
fn rounds_weights(operator: &RuntimeOperator) -> bool {
    const WEIGHT: &str = "weight";
    let (attrs, is_product) = (operator.attrs(), Properties::of(operator.op_type()).product.is_some());
    let has_floats = attrs.contains_key(WEIGHT) && !attrs.contains_key(&scales_key(WEIGHT));
    is_product && has_floats && reads_int8(operator)
}

/// Returns true if a tactic has one of these names, or one of them followed by a hyphen and more.
pub(super) fn is_named(tactic: &Tactic, names: &[String]) -> bool {
    let is_of = |name: &String| {
        let rest = tactic.name.strip_prefix(name.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    names.iter().any(is_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::pnnx::{Attribute, Graph};

    const GRAPH: &str = "7767517\n4 3\npnnx.Input in 0 1 x #x=(1,2,3,3)f32
aten::fake_quantize_per_tensor_affine q 1 1 x a quant_max=127 quant_min=-128 scale=0.5 zero_point=0 $input=x
nn.Conv2d c 1 1 a y bias=False in_channels=2 out_channels=3 kernel_size=(1,1) @weight=(3,2,1,1)f32
pnnx.Output out 1 0 y\n";

    /// The graph, whose weights are not stored as integers.
    fn graph(text: &str) -> RuntimeGraph {
        let mut graph = Graph::parse(text, &Limits::default()).unwrap();
        let id = graph.operator_named("c").unwrap();
        let weight = Attribute::from_f32s(vec![3, 2, 1, 1], &[0.3; 6]).unwrap();
        graph.set_attribute(id, "weight", weight).unwrap();
        let mut graph = RuntimeGraph::from_pnnx(graph);
        graph.connect().unwrap();
        graph
    }

    #[test]
    fn weights_are_rounded_only_if_int8_is_allowed() {
        let rounds = |text: &str, precisions: Vec<Precision>| {
            let graph = graph(text);
            let settings = SelectionSettings { precisions, ..SelectionSettings::default() };
            settings.find_own(&graph);
            let operator = graph.operator_named("c").unwrap();
            (settings.rounds_weights(&graph, operator), settings.step(operator, "a"))
        };
        assert_eq!(rounds(GRAPH, Vec::new()), (true, None));
        assert_eq!(rounds(GRAPH, vec![Precision::Int8]), (false, Some(Step::from(0.5))));
        // There is no transposed convolution in int8, which would round them.
        let transposed = GRAPH.replace("in_channels=2 out_channels=3", "in_channels=3 out_channels=2");
        let transposed =
            transposed.replace("nn.Conv2d", "nn.ConvTranspose2d").replace("(1,2,3,3)", "(1,3,3,3)");
        assert!(!rounds(&transposed, Vec::new()).0);
        // Numbers that int8 cannot hold have no step.
        assert_eq!(rounds(&GRAPH.replace("quant_max=127", "quant_max=200"), Vec::new()), (false, None));
    }
}
