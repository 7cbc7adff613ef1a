//! Weights that are shared by several modules, such as the embedding of a language model that is also its output layer.
//!
//! TorchScript passes such weights to each module as additional inputs before the regular ones. PNNX keeps these inputs,
//! although it also stores the weight as an attribute of the module.

use super::Converter;
use crate::graph::draft::Value;
use crate::pnnx::{self, Attribute, OperandId};

impl Converter<'_> {
    /// Removes leading values that are the module's own weights.
    pub(super) fn without_shared_weights(
        &self,
        operator: &pnnx::Operator,
        mut values: Vec<Value>,
    ) -> Vec<Value> {
        // A learned query of an attention may have the same shape as its weights.
        let is_module =
            operator.op_type().starts_with("nn.") && operator.op_type() != "nn.MultiheadAttention";
        let own = operator.input_names().iter().take_while(|name| name.is_none()).count();
        let (own, named) = operator.input_names().split_at(own);
        if is_module && named.iter().flatten().all(|name| name.starts_with("epilogue_")) {
            let mut weights: Vec<&Attribute> = operator.attrs().values().collect();
            let before = operator.inputs().iter().take(own.len().saturating_sub(1));
            let count = before.take_while(|&&input| self.take_weight(input, &mut weights)).count();
            values.drain(..count.min(values.len()));
        }
        values
    }

    /// Returns true if an input is a stored tensor with the type and shape of one of these weights, and removes that weight.
    fn take_weight(&self, input: OperandId, weights: &mut Vec<&Attribute>) -> bool {
        let producer = self.file.operand(input).producer().map(|id| self.file.operator(id));
        let stored = producer.filter(|producer| producer.op_type() == "pnnx.Attribute");
        let Some(stored) = stored.and_then(|stored| stored.attrs().values().next()) else { return false };
        let same = |weight: &&Attribute| (weight.dtype(), weight.shape()) == (stored.dtype(), stored.shape());
        let position = weights.iter().position(same);
        position.map(|position| weights.swap_remove(position)).is_some()
    }
}
