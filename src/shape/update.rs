//! The rules of those operators alone that depend on what changed.

use super::ShapeError;
use super::rule::check_inputs;
use super::walk::infer_operator;
use crate::graph::{OperandIndex, OperatorIndex, RuntimeGraph, RuntimeOperator};
use crate::op::TensorMeta;

// ANCHOR: same_inputs
/// Whether these are the inputs that are described already.
pub fn same_inputs(graph: &RuntimeGraph, metas: &[Option<TensorMeta>], inputs: &[TensorMeta]) -> bool {
    // ANCHOR: same_inputs_todo -- task 4: as many as the model has, and each as it is described
    let known = |operand: OperandIndex| metas.get(operand.position()).and_then(Option::as_ref);
    let same = |(operand, input)| known(operand) == Some(input);
    let operands = graph.inputs().iter().map(|port| port.operand);
    graph.inputs().len() == inputs.len() && operands.zip(inputs).all(same)
    // ANCHOR_END: same_inputs_todo
}
// ANCHOR_END: same_inputs

// ANCHOR: update
/// A walk through the operators of a graph whose operands are all described, for other inputs.
#[derive(Debug)]
pub struct Update<'a> {
    graph: &'a RuntimeGraph,
    /// What is known of each operand, by its position.
    metas: &'a mut Vec<Option<TensorMeta>>,
    /// Which operands changed, by their position.
    is_changed: Vec<bool>,
    /// The operands that changed, in order, and what was known of each before.
    before: Vec<(OperandIndex, Option<TensorMeta>)>,
    /// The operators whose rules were applied.
    operators: Vec<OperatorIndex>,
}

impl<'a> Update<'a> {
    /// The beginning of a walk, where nothing changed yet. Of operands that `metas` has no place for, nothing is known.
    pub fn new(graph: &'a RuntimeGraph, metas: &'a mut Vec<Option<TensorMeta>>) -> Self {
        metas.resize(graph.operands().len(), None);
        let is_changed = vec![false; metas.len()];
        Self { graph, metas, is_changed, before: Vec::new(), operators: Vec::new() }
    }

    /// Takes over what is known of an operand now. Where it is what was known before, nothing happens.
    pub fn set(&mut self, operand: OperandIndex, meta: Option<TensorMeta>) {
        // ANCHOR: set_todo -- task 4: if it is something else, mark the operand, and keep what was there
        let place = &mut self.metas[operand.position()];
        if *place == meta {
            return;
        }
        self.is_changed[operand.position()] = true;
        self.before.push((operand, std::mem::replace(place, meta)));
        // ANCHOR_END: set_todo
    }

    /// Whether an operator reads an operand that changed.
    pub fn is_stale(&self, operator: &RuntimeOperator) -> bool {
        // ANCHOR: is_stale_todo -- task 4: ask the marks of its inputs
        operator.inputs().iter().any(|input| self.is_changed[input.position()])
        // ANCHOR_END: is_stale_todo
    }

    /// Takes over the inputs, then infers again whatever depends on what changed.
    ///
    /// # Errors
    /// The first operator that does not fit its inputs; what was known is then half old, half new.
    pub fn walk(&mut self, inputs: &[Option<TensorMeta>]) -> Result<(), ShapeError> {
        // ANCHOR: walk_todo -- task 4: as in task 3, but whoever is not stale is left alone
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

    /// Puts everything back that was there before the walk.
    pub fn undo(&mut self) {
        // ANCHOR: undo_todo -- task 4: what was kept goes back to its place
        for (operand, meta) in self.before.drain(..).rev() {
            self.metas[operand.position()] = meta;
            self.is_changed[operand.position()] = false;
        }
        // ANCHOR_END: undo_todo
    }

    /// Takes over all of it or nothing: after an error everything is as it was before.
    ///
    /// # Errors
    /// As [`check_inputs`]; the first operator that does not fit its inputs.
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
/// The operands among those that changed which take more bytes than ever before. `largest` has the most bytes that each
/// operand has taken, by its position, and is brought up to date.
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
