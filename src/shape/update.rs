//! Incremental shape inference: only operators that depend on a change are inferred again.

use super::ShapeError;
use super::rule::check_inputs;
use super::walk::infer_operator;
use crate::graph::{OperandIndex, OperatorIndex, RuntimeGraph, RuntimeOperator};
use crate::op::TensorMeta;

// ANCHOR: same_inputs
/// Returns true if `inputs` are equal to the inputs recorded in `metas`.
pub fn same_inputs(graph: &RuntimeGraph, metas: &[Option<TensorMeta>], inputs: &[TensorMeta]) -> bool {
    // ANCHOR: same_inputs_todo -- task 4: as many as the model has, each equal to its recorded metadata
    let known = |operand: OperandIndex| metas.get(operand.position()).and_then(Option::as_ref);
    let same = |(operand, input)| known(operand) == Some(input);
    let operands = graph.inputs().iter().map(|port| port.operand);
    graph.inputs().len() == inputs.len() && operands.zip(inputs).all(same)
    // ANCHOR_END: same_inputs_todo
}
// ANCHOR_END: same_inputs

// ANCHOR: update
/// An incremental update of the metadata of a graph's operands for other inputs.
#[derive(Debug)]
pub struct Update<'a> {
    graph: &'a RuntimeGraph,
    /// The metadata of each operand, by position.
    metas: &'a mut Vec<Option<TensorMeta>>,
    /// Whether each operand changed, by position.
    is_changed: Vec<bool>,
    /// The operands that changed, in order, with their previous metadata.
    before: Vec<(OperandIndex, Option<TensorMeta>)>,
    /// The operators whose rules were applied.
    operators: Vec<OperatorIndex>,
}

impl<'a> Update<'a> {
    /// An update without changes so far. Operands beyond the end of `metas` are unknown.
    pub fn new(graph: &'a RuntimeGraph, metas: &'a mut Vec<Option<TensorMeta>>) -> Self {
        metas.resize(graph.operands().len(), None);
        let is_changed = vec![false; metas.len()];
        Self { graph, metas, is_changed, before: Vec::new(), operators: Vec::new() }
    }

    /// Sets the metadata of an operand. Does nothing if it is unchanged.
    pub fn set(&mut self, operand: OperandIndex, meta: Option<TensorMeta>) {
        // ANCHOR: set_todo -- task 4: if it differs, mark the operand, and keep the previous metadata
        let place = &mut self.metas[operand.position()];
        if *place == meta {
            return;
        }
        self.is_changed[operand.position()] = true;
        self.before.push((operand, std::mem::replace(place, meta)));
        // ANCHOR_END: set_todo
    }

    /// Returns true if an operator reads an operand that changed.
    pub fn is_stale(&self, operator: &RuntimeOperator) -> bool {
        // ANCHOR: is_stale_todo -- task 4: look at the marks of its inputs
        operator.inputs().iter().any(|input| self.is_changed[input.position()])
        // ANCHOR_END: is_stale_todo
    }

    /// Sets the inputs, then infers all operators that depend on a change.
    ///
    /// # Errors
    /// The error of the first operator that rejects its inputs; the metadata is then partly old and partly new.
    pub fn walk(&mut self, inputs: &[Option<TensorMeta>]) -> Result<(), ShapeError> {
        // ANCHOR: walk_todo -- task 4: as in task 3, but skip operators that are not stale
        let graph = self.graph;
        for (port, input) in graph.inputs().iter().zip(inputs) {
            self.set(port.operand, input.clone());
        }
        for (position, operator) in graph.operators().iter().enumerate() {
            if !self.is_stale(operator) {
                continue;
            }
            self.operators.push(OperatorIndex::new(position));
            let mut outputs = infer_operator(graph, operator, self.metas)?.unwrap_or_default().into_iter();
            for &operand in operator.outputs() {
                self.set(operand, outputs.next());
            }
        }
        Ok(())
        // ANCHOR_END: walk_todo
    }

    /// Restores the metadata from before the walk.
    pub fn undo(&mut self) {
        // ANCHOR: undo_todo -- task 4: put the previous metadata back
        for (operand, meta) in self.before.drain(..).rev() {
            self.metas[operand.position()] = meta;
            self.is_changed[operand.position()] = false;
        }
        // ANCHOR_END: undo_todo
    }

    /// Updates everything or nothing: after an error, the metadata is as before.
    ///
    /// # Errors
    /// As [`check_inputs`]; the error of the first operator that rejects its inputs.
    pub fn run(&mut self, inputs: &[Option<TensorMeta>]) -> Result<(), ShapeError> {
        check_inputs(self.graph, inputs)?;
        let result = self.walk(inputs);
        if result.is_err() {
            self.undo();
        }
        result
    }

    /// The operands that changed, and the operators whose rules were applied.
    pub fn changed(self) -> (Vec<OperandIndex>, Vec<OperatorIndex>) {
        (self.before.into_iter().map(|(operand, _)| operand).collect(), self.operators)
    }
}
// ANCHOR_END: update

// ANCHOR: larger
/// The changed operands that need more bytes than ever before. `largest` holds the largest size of each operand so far, by
/// position, and is updated.
pub fn larger(
    metas: &[Option<TensorMeta>],
    changed: &[OperandIndex],
    largest: &mut [u64],
) -> Vec<OperandIndex> {
    // ANCHOR: larger_todo -- task 4: compare with the largest so far, not with the size before
    let mut larger = Vec::new();
    for &operand in changed {
        let meta = metas.get(operand.position()).and_then(Option::as_ref);
        let bytes = meta.and_then(TensorMeta::byte_len).unwrap_or(0);
        if let Some(most) = largest.get_mut(operand.position()).filter(|most| bytes > **most) {
            *most = bytes;
            larger.push(operand);
        }
    }
    larger
    // ANCHOR_END: larger_todo
}
// ANCHOR_END: larger
