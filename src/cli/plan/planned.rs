//! A model after everything that is done before it runs.

use super::shapes::{self, InputShape};
use crate::cli::failure::Failure;
use crate::cli::model::ModelArgs;
use ixion::Limits;
use ixion::graph::{OperandIndex, RuntimeGraph, RuntimeOperator, TensorMeta};
use ixion::memory::{Action, MemoryPlan, MemoryReport, Place, Problem, Root};
use ixion::passes::{PassContext, Passes, Statistics};
use ixion::shape::Shapes;
use ixion::tensor::Layout;

/// A planned model.
pub(super) struct Planned {
    pub(super) statistics: Statistics,
    pub(super) graph: RuntimeGraph,
    pub(super) shapes: Shapes,
    pub(super) memory: MemoryPlan,
    pub(super) report: MemoryReport,
}

impl Planned {
    /// Runs the passes, infers the shapes and plans the memory.
    pub(super) fn new(
        model: &ModelArgs,
        given: &[InputShape],
        without: &[String],
        limits: Limits,
    ) -> Result<Self, Failure> {
        let mut file = model.load(&limits)?;
        let passes = passes(without)?;
        let statistics = passes
            .run(&mut file, PassContext::default().with_limits(limits.clone()))
            .map_err(Failure::unusable)?;
        let mut graph = RuntimeGraph::from_pnnx(file).with_limits(limits.clone());
        if model.archive().is_none() {
            // Sizes do not depend on what the weights are.
            graph = graph.with_random_weights(0);
        }
        graph.build().map_err(Failure::unusable)?;
        let inputs = shapes::metas(&graph, given)?;
        let shapes = Shapes::infer(&graph, &inputs).map_err(Failure::unusable)?;
        let constants: Vec<bool> =
            graph.operators().iter().map(|operator| is_constant(operator, &limits)).collect();
        let workspaces: Vec<usize> =
            graph.operators().iter().map(|operator| workspace(operator, &shapes)).collect();
        let problem = Problem {
            graph: &graph,
            metas: shapes.metas(),
            workspaces: &workspaces,
            constants: &constants,
            donations: &[],
        };
        let memory = MemoryPlan::new(&problem).map_err(Failure::unusable)?;
        let report = MemoryReport::new(&graph, &memory);
        limits.check_total("the arena", report.peak).map_err(Failure::unusable)?;
        Ok(Self { statistics, graph, shapes, memory, report })
    }

    /// What is done for an operator, in a word.
    pub(super) fn action(&self, step: usize) -> &'static str {
        let (Some(operator), Some(planned)) = (self.graph.operators().get(step), self.memory.steps.get(step))
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

    /// Whether an operator has nothing to do because those ahead of it write its output in parts.
    fn is_joined(&self, operator: &RuntimeOperator) -> bool {
        let parts = || {
            let (layer, [output]) = (operator.layer()?, operator.outputs()) else { return None };
            let shape = self.shapes.get(*output)?.shape().ok()?;
            layer.parts(&self.shapes.get_all(operator.inputs())?, &Layout::contiguous(shape)).ok()?
        };
        parts().is_some()
    }

    pub(super) fn place(&self, operand: OperandIndex) -> Option<&Place> {
        self.memory.places.get(operand.position())?.as_ref()
    }

    /// What the outputs of an operator are.
    pub(super) fn outputs(&self, operator: &RuntimeOperator) -> Vec<Option<&TensorMeta>> {
        operator.outputs().iter().map(|&output| self.shapes.get(output)).collect()
    }

    /// The name of an operator; of the time after the last one, `end`.
    pub(super) fn name_of(&self, step: usize) -> &str {
        self.graph.operators().get(step).map_or("end", RuntimeOperator::name)
    }
}

fn passes(without: &[String]) -> Result<Passes, Failure> {
    let mut passes = Passes::default();
    for name in without {
        match name.as_str() {
            "all" => passes.set_all_enabled(false),
            name => passes.set_enabled(name, false).map_err(Failure::unusable)?,
        }
    }
    Ok(passes)
}

fn is_constant(operator: &RuntimeOperator, limits: &Limits) -> bool {
    let constant =
        operator.layer().filter(|_| operator.inputs().is_empty()).map(|layer| layer.constant(limits));
    matches!(constant, Some(Ok(Some(_))))
}

fn workspace(operator: &RuntimeOperator, shapes: &Shapes) -> usize {
    let (Some(inputs), Some(outputs)) =
        (shapes.get_all(operator.inputs()), shapes.get_all(operator.outputs()))
    else {
        return 0;
    };
    operator.layer().map_or(0, |layer| layer.workspace(&inputs, &outputs))
}
