//! The settings of the selection.

use super::price::Prices;
use crate::engine::calibration::{UnknownNames, own_scales};
use crate::engine::device::Accelerator;
use crate::engine::tuning::Tuner;
use crate::engine::{EngineError, Fingerprint, Precision, Scales};
use crate::graph::{GraphError, RuntimeGraph, RuntimeOperator};
use crate::op::{Properties, Tactic, scales_key};
use crate::pnnx;
use crate::tensor::DType;
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
    /// The scales that the model itself states, once its graph is known. They need no precision to be allowed.
    pub(in crate::engine) own: OnceLock<Scales>,
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

    /// Finds the scales that a graph itself states. Devices have no kernels for the operators that state them.
    pub(super) fn find_own(&self, graph: &RuntimeGraph) {
        if self.accelerator.is_none() {
            self.own.get_or_init(|| own_scales(graph));
        }
    }

    /// The scale of an operand: the model's own, or else the given one.
    pub(super) fn scale_of(&self, operand: &str) -> Option<f32> {
        self.own_scale(operand).or_else(|| self.scales.get(operand))
    }

    fn own_scale(&self, operand: &str) -> Option<f32> {
        self.own.get()?.get(operand)
    }

    /// Returns true if int8 is allowed, but an operator stays in f32, because it loses too much.
    pub(super) fn keeps_f32(&self, operator: &str) -> bool {
        self.precisions.contains(&Precision::Int8) && self.scales.keeps(operator)
    }

    /// The scale of an operator's operand, if it may be int8. Unless the precision int8 is allowed, only operators that lose
    /// nothing may have int8 operands.
    pub(super) fn scale(&self, operator: &RuntimeOperator, operand: &str) -> Option<f32> {
        if self.scales.keeps(operator.name()) {
            return None;
        }
        let is_allowed = self.precisions.contains(&Precision::Int8);
        let own = self.own_scale(operand).filter(|_| is_allowed || !rounds_weights(operator));
        own.or_else(|| self.scales.get(operand).filter(|_| is_allowed))
    }
}

/// Returns true if an operator has to round its weights to compute in int8: those of a product that are not stored as integers.
fn rounds_weights(operator: &RuntimeOperator) -> bool {
    const WEIGHT: &str = "weight";
    let (attrs, is_product) = (operator.attrs(), Properties::of(operator.op_type()).product.is_some());
    is_product && attrs.contains_key(WEIGHT) && !attrs.contains_key(&scales_key(WEIGHT))
}

/// Returns true if a tactic has one of these names, or one of them followed by a hyphen and more.
pub(super) fn is_named(tactic: &Tactic, names: &[String]) -> bool {
    let is_of = |name: &String| {
        let rest = tactic.name.strip_prefix(name.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    names.iter().any(is_of)
}
