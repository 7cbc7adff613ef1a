//! A built model: immutable layers and weights.

use super::Selection;
use super::device::OnDevice;
use crate::Limits;
use crate::graph::{GraphError, RuntimeGraph};
use crate::kernels::parallel::Threads;
use crate::op::TensorMeta;
use crate::passes::Statistics;
use crate::pnnx;
use crate::shape::{Contradiction, InputShape, Profile, Shapes};
use crate::tensor::{DType, Tensor};

/// An input or output of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name in the file.
    pub name: String,
    /// The position of its operand in [`RuntimeGraph::operands`].
    pub operand: usize,
    /// The element type, if known.
    pub dtype: Option<DType>,
}

/// A model, ready to run on any number of threads at once.
///
/// It is immutable: weights are shared by all [`Context`](super::Context)s, which borrow the plan and so cannot outlive it:
///
/// ```compile_fail,E0505
/// # let model = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/linear/linear.pnnx.param");
/// let plan = ixion::engine::Builder::new(model).build().unwrap();
/// let mut context = plan.context().unwrap();
/// drop(plan);
/// context.run(&[]).unwrap();
/// ```
#[derive(Debug)]
pub struct Plan {
    pub(super) graph: RuntimeGraph,
    /// The graph that `graph` was built from, needed to save the plan.
    pub(super) source: pnnx::Graph,
    /// The text of the model's card.
    pub(super) card: Option<String>,
    pub(super) statistics: Statistics,
    pub(super) selections: Vec<Selection>,
    pub(super) shapes: Shapes,
    /// The inputs, with symbols for the lengths that are not fixed.
    pub(super) symbols: Vec<Option<TensorMeta>>,
    /// The input shapes that were given to the builder.
    pub(super) given: Vec<(String, InputShape)>,
    pub(super) profile: Option<Profile>,
    /// The values of operators that depend on no input, by the operator's position.
    pub(super) constants: Vec<Option<Tensor>>,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
    /// Inputs and the outputs that may take their memory, by position.
    pub(super) donations: Vec<(usize, usize)>,
    /// What contradicts the file that the plan was built from.
    pub(super) warnings: Vec<Contradiction>,
    pub(super) limits: Limits,
    pub(super) pool: Option<Threads>,
    /// The part that runs on a device.
    pub(super) device: Option<OnDevice>,
}

impl Plan {
    /// The graph that is run: the file's graph after the passes.
    pub fn graph(&self) -> &RuntimeGraph {
        &self.graph
    }

    /// The statistics of the passes.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The formats and tactics that were selected for its operators, except for those that the engine inserted.
    pub fn selections(&self) -> &[Selection] {
        &self.selections
    }

    /// The operators of the file that contradict what it records, and so are not what the exported model computes; empty for a
    /// plan that was loaded. See [`contradictions`](crate::shape::contradictions).
    pub fn warnings(&self) -> &[Contradiction] {
        &self.warnings
    }

    /// The text of the model card (`model.toml`), which describes how images become inputs and what outputs mean.
    pub fn card(&self) -> Option<&str> {
        self.card.as_deref()
    }

    /// The symbolic shapes of all operands.
    pub fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    /// The ranges of input shapes, if they were given.
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref()
    }

    /// The inputs, in the order in which [`Context::run`](super::Context::run) takes them.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// The outputs, in the order in which [`Context::run`](super::Context::run) returns them.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// The position of an input, by the name of its `pnnx.Input` operator or of its operand.
    pub fn input(&self, name: &str) -> Option<usize> {
        self.named(&self.inputs, name)
    }

    /// The position of an output, by its name or its operand's name.
    pub fn output(&self, name: &str) -> Option<usize> {
        self.named(&self.outputs, name)
    }

    /// Names of ports take precedence over names of operands; of equal names, the first one wins.
    fn named(&self, ports: &[Port], name: &str) -> Option<usize> {
        let is_of_operand = |port: &Port| self.graph.operands()[port.operand].name() == name;
        ports.iter().position(|port| port.name == name).or_else(|| ports.iter().position(is_of_operand))
    }

    /// The position of an input, or an error that lists the known names.
    pub(super) fn known_input(&self, name: &str) -> Result<usize, GraphError> {
        self.input(name).ok_or_else(|| unknown("input", name, &self.inputs))
    }

    /// The position of an output, or an error that lists the known names.
    pub(super) fn known_output(&self, name: &str) -> Result<usize, GraphError> {
        self.output(name).ok_or_else(|| unknown("output", name, &self.outputs))
    }

    /// The input whose memory an output takes over.
    pub(super) fn donor(&self, output: usize) -> Option<usize> {
        self.donations.iter().find(|pair| pair.1 == output).map(|pair| pair.0)
    }

    /// The number of threads that one run uses.
    pub fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, Threads::count)
    }

    /// The size of all weights in bytes.
    pub fn weight_bytes(&self) -> u64 {
        let weights = self.graph.operators().iter().map(crate::graph::RuntimeOperator::weight_bytes);
        weights.fold(0, u64::saturating_add)
    }
}

fn unknown(what: &'static str, name: &str, ports: &[Port]) -> GraphError {
    let known = ports.iter().map(|port| port.name.clone()).collect();
    GraphError::UnknownName { what, name: name.to_owned(), known }
}
