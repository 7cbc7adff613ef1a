//! What passes may know beside the graph.

use super::Facts;
use super::writes::written_through;
use crate::Limits;
use crate::op::{CpuLayer, Creator, Registry, TensorMeta};
use crate::pnnx::{Graph, OperatorId};
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashSet};

/// What a run of passes works with: what is known of the model's inputs, the limits, and the facts that follow.
///
/// ```
/// use ixion::op::TensorMeta;
/// use ixion::passes::PassContext;
/// use ixion::tensor::DType;
/// let context = PassContext::default().with_input("in0", TensorMeta::new(DType::F32, [1, 3, 224, 224]));
/// assert_eq!(context.inputs()["in0"].rank(), 4);
/// ```
#[derive(Debug, Default)]
pub struct PassContext {
    inputs: BTreeMap<String, TensorMeta>,
    registry: Registry,
    limits: Limits,
    facts: OnceCell<Facts>,
}

// ANCHOR: repeatable
/// The operators that give the same results for the same inputs, every time, and through which nothing is written. Only
/// they can be computed once for all.
pub fn repeatable(graph: &Graph, context: &PassContext) -> HashSet<OperatorId> {
    // ANCHOR: repeatable_todo -- task 2: collect the pure operators that nothing is written through
    let frozen = written_through(graph);
    let pure = graph.operators().filter(|(_, operator)| context.is_pure(operator.op_type()));
    pure.map(|(id, _)| id).filter(|id| !frozen.contains(id)).collect()
    // ANCHOR_END: repeatable_todo
}
// ANCHOR_END: repeatable

impl PassContext {
    /// Works within these limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Knows the layers of this registry instead of the built-in ones.
    #[must_use]
    pub fn with_registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }

    /// Says what the input of this name will be. The dimensions of all others are symbols, whatever the file says: it
    /// only records the sample that the model was exported with.
    #[must_use]
    pub fn with_input(mut self, name: impl Into<String>, meta: TensorMeta) -> Self {
        self.inputs.insert(name.into(), meta);
        self
    }

    /// What was said of inputs.
    pub fn inputs(&self) -> &BTreeMap<String, TensorMeta> {
        &self.inputs
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The layers.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Whether an operator gives the same results for the same inputs, every time: one of Ixion's own that makes no
    /// random numbers. Of a plugin nobody knows.
    pub fn is_pure(&self, op_type: &str) -> bool {
        self.registry.known(op_type).is_some_and(|creator| {
            creator.namespace == Creator::<dyn CpuLayer>::BUILT_IN && !creator.is_random
        })
    }

    /// Element types and dimensions of all operands; computed at the first call after a change.
    pub fn facts(&self, graph: &Graph) -> &Facts {
        self.facts.get_or_init(|| Facts::infer(graph, &self.inputs, self.registry.clone(), &self.limits))
    }

    /// Says that the graph has new operands, which facts are to be known of.
    pub fn graph_changed(&mut self) {
        self.facts.take();
    }
}
