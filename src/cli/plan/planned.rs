//! A model that is ready to run, with its memory plan.

use super::shapes::{self, InputShape};
use crate::cli::Failure;
use crate::cli::device::DeviceArgs;
use crate::cli::formats::FormatArgs;
use crate::cli::model::ModelArgs;
use crate::cli::warnings;
use ixion::Limits;
use ixion::engine::file::Section;
use ixion::engine::{Candidate, Plan, PlanFile, Selection};
use ixion::graph::{OperandIndex, RuntimeGraph, RuntimeOperator};
use ixion::memory::{Action, MemoryPlan, MemoryReport, Place, Root};
use ixion::op::{Device, TensorMeta, catch_panic};
use ixion::passes::Statistics;
use ixion::shape::Contradiction;
use ixion::tensor::Layout;

/// A planned model.
pub(super) struct Planned {
    plan: Plan,
    /// The plan's file, if the model is a plan.
    pub(super) file: Option<SavedPlan>,
    metas: Vec<Option<TensorMeta>>,
    pub(super) memory: MemoryPlan,
    pub(super) report: MemoryReport,
}

/// The metadata of a plan file.
pub(super) struct SavedPlan {
    pub(super) model: Option<String>,
    pub(super) written_by: String,
    pub(super) sections: Vec<Section>,
    pub(super) bytes: u64,
}

impl SavedPlan {
    fn of(file: &PlanFile) -> Self {
        Self {
            model: file.model().map(str::to_owned),
            written_by: file.written_by().to_owned(),
            sections: file.sections().to_vec(),
            bytes: file.len(),
        }
    }
}

impl Planned {
    /// Builds the model as the engine does, or loads it if it is a plan, and plans its memory for these inputs.
    pub(super) fn new(
        model: &ModelArgs,
        given: &[InputShape],
        (without, formats, device): (&[String], &FormatArgs, &DeviceArgs),
        limits: Limits,
    ) -> Result<Self, Failure> {
        let (plan, file) = match model.plan_file(&limits)? {
            Some(file) => {
                model.check_built(without, formats, None)?;
                let saved = SavedPlan::of(&file);
                let file = device.apply_to_file(file).map_err(Failure::unusable)?;
                (file.load().map_err(|error| model.unbuilt(error))?, Some(saved))
            }
            None => (built(model, without, (formats, device), limits)?, None),
        };
        let inputs = shapes::metas(plan.graph(), given)?;
        let mut context = plan.context().map_err(Failure::unusable)?;
        let memory = context.memory_plan(&inputs).map_err(|error| {
            // They may be the reason.
            warnings::print(plan.warnings());
            match given {
                [] => Failure::unusable(error).advise("--input-shape [NAME=]DIMS plans for another shape"),
                _ => Failure::unusable(error),
            }
        });
        let memory = memory?.clone();
        let metas = context.metas().to_vec();
        drop(context);
        let report = MemoryReport::new(plan.graph(), &memory);
        Ok(Self { plan, file, metas, memory, report })
    }

    /// The operators of the file that contradict what it records.
    pub(super) fn warnings(&self) -> &[Contradiction] {
        self.plan.warnings()
    }

    /// The statistics of the passes.
    pub(super) fn statistics(&self) -> &Statistics {
        self.plan.statistics()
    }

    /// The selected candidate of each operator that had a choice.
    pub(super) fn choices(&self) -> impl Iterator<Item = (&Selection, &Candidate)> {
        let has_choice =
            |it: &&Selection| it.candidates.len() > 1 || !it.candidates.is_empty() && !it.inexact.is_empty();
        let selections = self.plan.selections().iter().filter(has_choice);
        selections.filter_map(|selection| Some((selection, selection.candidates.get(selection.chosen?)?)))
    }

    /// The selections of all operators.
    pub(super) fn selections(&self) -> &[Selection] {
        self.plan.selections()
    }

    /// The graph that runs.
    pub(super) fn graph(&self) -> &RuntimeGraph {
        self.plan.graph()
    }

    /// The element type and dimensions of an operand, if known.
    pub(super) fn meta(&self, operand: OperandIndex) -> Option<&TensorMeta> {
        self.meta_at(operand.position())
    }

    /// The element type and dimensions of the operand at this position, if known.
    pub(super) fn meta_at(&self, position: usize) -> Option<&TensorMeta> {
        self.metas.get(position)?.as_ref()
    }

    /// The name of the action for an operator.
    pub(super) fn action(&self, step: usize) -> &'static str {
        let (Some(operator), Some(planned)) =
            (self.graph().operators().get(step), self.memory.steps.get(step))
        else {
            return "";
        };
        match planned.action {
            Action::Forward => "forward",
            Action::InPlace { .. } => "in place",
            Action::Dynamic => "dynamic",
            Action::Nothing if self.is_joined(operator) => "joined",
            Action::Nothing => match operator.outputs().first().and_then(|&output| self.place(output)) {
                Some(Place { root: Root::Constant(_), .. }) if operator.inputs().is_empty() => "constant",
                _ => "view",
            },
        }
    }

    /// Returns true if an operator has nothing to do because its producers write the parts of its output.
    fn is_joined(&self, operator: &RuntimeOperator) -> bool {
        let parts = || {
            let (layer, [output]) = (operator.layer()?, operator.outputs()) else { return None };
            let shape = self.meta(*output)?.shape().ok()?;
            let inputs: Option<Vec<TensorMeta>> =
                operator.inputs().iter().map(|&input| self.meta(input).cloned()).collect();
            let inputs = inputs?;
            catch_panic(|| layer.parts(&inputs, &Layout::contiguous(shape))).ok()?
        };
        parts().is_some()
    }

    /// The operators without places for their tensors, since sizes depend on values: the names of those that compute such
    /// sizes, and the number of all.
    pub(super) fn unplanned(&self) -> (Vec<&str>, usize) {
        let steps = self.graph().operators().iter().zip(&self.memory.steps);
        let unplanned = steps.filter(|(_, step)| step.action == Action::Dynamic);
        let unplanned: Vec<&RuntimeOperator> = unplanned.map(|(operator, _)| operator).collect();
        let is_planned = |&input: &OperandIndex| self.place(input).is_some();
        let first = unplanned.iter().filter(|operator| operator.inputs().iter().all(is_planned));
        (first.map(|operator| operator.name()).collect(), unplanned.len())
    }

    pub(super) fn place(&self, operand: OperandIndex) -> Option<&Place> {
        self.memory.places.get(operand.position())?.as_ref()
    }

    /// The device that an operator runs on; empty for the CPU.
    pub(super) fn device(&self, operator: &RuntimeOperator) -> &'static str {
        match operator.device() {
            Device::Cpu => "",
            device => device.name(),
        }
    }

    /// The name of the operator at a step, or `end` after the last one.
    pub(super) fn name_of(&self, step: usize) -> &str {
        self.graph().operators().get(step).map_or("end", RuntimeOperator::name)
    }
}

fn built(
    model: &ModelArgs,
    without: &[String],
    (formats, device): (&FormatArgs, &DeviceArgs),
    limits: Limits,
) -> Result<Plan, Failure> {
    formats.check()?;
    let mut builder = model.builder(without, limits)?;
    if model.archive().is_none() {
        // Sizes do not depend on the values of the weights.
        builder = builder.with_random_weights(0);
    }
    let builder = formats.apply(builder).map_err(Failure::unusable)?;
    let builder = device.apply(builder).map_err(Failure::unusable)?;
    builder.build().map_err(|error| model.unusable(error))
}
