//! The information that passes have in addition to the graph.

use super::Facts;
use crate::Limits;
use crate::graph::{is_view, is_write};
use crate::op::{CpuLayer, Creator, Registry, TensorMeta};
use crate::pnnx::{Graph, OperatorId};
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashSet};

/// The context of a run of passes: the known model inputs, the limits, the layers, and the facts inferred from them.
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
    allows_int8: bool,
    facts: OnceCell<Facts>,
}

/// The operators that write to a tensor, and the views that they write through.
///
/// `Tensor.copy` writes into a view of a tensor and returns the whole tensor. The runtime graph finds that tensor by following
/// the operators that created the view, so a pass that changed one of them would change what is written.
pub fn frozen_operators(graph: &Graph) -> HashSet<OperatorId> {
    let mut frozen = HashSet::new();
    for (id, operator) in graph.operators().filter(|(_, operator)| is_write(operator.op_type())) {
        frozen.insert(id);
        let mut target = operator.inputs().first().copied();
        while let Some(view) = target.and_then(|operand| graph.get_operand(operand)?.producer()) {
            let operator = graph.operator(view);
            if !is_view(operator.op_type()) || !frozen.insert(view) {
                break;
            }
            target = operator.inputs().first().copied();
        }
    }
    frozen
}

// ANCHOR: repeatable
/// The operators that return the same results for the same inputs every time, and that no data is written through. Only
/// these can be computed once.
pub fn repeatable(graph: &Graph, context: &PassContext) -> HashSet<OperatorId> {
    // ANCHOR: repeatable_todo -- task 2: collect the pure operators that nothing is written through
    let frozen = frozen_operators(graph);
    let pure = graph.operators().filter(|(_, operator)| context.is_pure(operator.op_type()));
    pure.map(|(id, _)| id).filter(|id| !frozen.contains(id)).collect()
    // ANCHOR_END: repeatable_todo
}
// ANCHOR_END: repeatable

impl PassContext {
    /// Sets the limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Uses the layers of this registry instead of the built-in ones.
    #[must_use]
    pub fn with_registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }

    /// Allows int8, which some layers have and the modules that they are part of lack.
    #[must_use]
    pub fn with_int8(self, allows_int8: bool) -> Self {
        Self { allows_int8, ..self }
    }

    /// Returns true if layers may be computed in int8.
    pub fn allows_int8(&self) -> bool {
        self.allows_int8
    }

    /// Sets the element type and dimensions of the input `name`. The dimensions of all other inputs are symbols, even if the
    /// file has sizes for them: those only describe the sample that the model was exported with.
    #[must_use]
    pub fn with_input(mut self, name: impl Into<String>, meta: TensorMeta) -> Self {
        self.inputs.insert(name.into(), meta);
        self
    }

    /// The inputs that were set, by name.
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

    /// Returns true if an operator returns the same results for the same inputs every time: a built-in operator that draws
    /// no random numbers. False for plugins, whose behaviour is unknown.
    pub fn is_pure(&self, op_type: &str) -> bool {
        self.registry.known(op_type).is_some_and(|creator| {
            creator.namespace == Creator::<dyn CpuLayer>::BUILT_IN && !creator.is_random
        })
    }

    /// The element types and dimensions of all operands. Computed by the first call after a change.
    pub fn facts(&self, graph: &Graph) -> &Facts {
        self.facts.get_or_init(|| Facts::infer(graph, &self.inputs, self.registry.clone(), &self.limits))
    }

    /// Discards the facts, which the next call of [`facts`](Self::facts) infers again. To be called after the graph changed.
    pub fn graph_changed(&mut self) {
        self.facts.take();
    }
}
