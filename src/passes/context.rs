//! What passes may know beside the graph.

use super::Facts;
use crate::Limits;
use crate::graph::TensorMeta;
use crate::pnnx::Graph;
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// What a run of passes works with: what is known of the model's inputs, the limits, and the facts that follow.
///
/// ```
/// use ixion::graph::TensorMeta;
/// use ixion::passes::PassContext;
/// use ixion::tensor::DType;
/// let context = PassContext::default().with_input("in0", TensorMeta::new(DType::F32, [1, 3, 224, 224]));
/// assert_eq!(context.inputs()["in0"].rank(), 4);
/// ```
#[derive(Debug, Default)]
pub struct PassContext {
    inputs: BTreeMap<String, TensorMeta>,
    limits: Limits,
    facts: OnceCell<Facts>,
}

impl PassContext {
    /// Works within these limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
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

    /// Element types and dimensions of all operands; computed at the first call after a change.
    pub fn facts(&self, graph: &Graph) -> &Facts {
        self.facts.get_or_init(|| Facts::infer(graph, &self.inputs, &self.limits))
    }

    /// Says that the graph has new operands, which facts are to be known of.
    pub fn graph_changed(&mut self) {
        self.facts.take();
    }
}
