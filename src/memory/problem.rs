//! What is to be planned.

use super::MemoryError;
use crate::graph::RuntimeGraph;
use crate::op::TensorMeta;

/// A graph and what is known of its tensors.
#[derive(Debug, Clone, Copy)]
pub struct Problem<'a> {
    /// The graph, built.
    pub graph: &'a RuntimeGraph,
    /// What the operands are, by position. One that is absent, or whose lengths are not all numbers, is not known before
    /// the model runs.
    pub metas: &'a [Option<TensorMeta>],
    /// The bytes of scratch memory that each operator needs, by position.
    pub workspaces: &'a [usize],
    /// Whether the operator at this position is a constant that has been evaluated beforehand.
    pub constants: &'a [bool],
    /// Inputs that may be overwritten, each with the output that is to lie there after the run: (input's position,
    /// output's position).
    pub donations: &'a [(usize, usize)],
}

impl Problem<'_> {
    /// Checks that the lists are as long as they should be, and that every donation has an input and an output of its own
    /// that have the same type and size.
    pub(super) fn check(&self) -> Result<(), MemoryError> {
        let (operators, operands) = (self.graph.operators().len(), self.graph.operands().len());
        let lens = [
            ("operands", operands, self.metas.len()),
            ("workspaces", operators, self.workspaces.len()),
            ("constants", operators, self.constants.len()),
        ];
        for (what, wanted, found) in lens {
            if wanted != found {
                return Err(MemoryError::Problem(format!(
                    "{wanted} {what} in the graph, but {found} described"
                )));
            }
        }
        for (position, &donation) in self.donations.iter().enumerate() {
            let before = self.donations.get(..position).unwrap_or_default();
            if before.iter().any(|&(input, output)| input == donation.0 || output == donation.1) {
                let (input, output) = donation;
                return Err(MemoryError::Problem(format!(
                    "input {input} is donated to output {output}, but one of them has a donation already"
                )));
            }
            self.check_donation(donation)?;
        }
        Ok(())
    }

    fn check_donation(&self, (input, output): (usize, usize)) -> Result<(), MemoryError> {
        let from = self.graph.inputs().get(input).map(|port| port.operand.position());
        let to = self.graph.outputs().get(output).map(|port| port.operand.position());
        let (Some(from), Some(to)) = (from, to) else {
            return Err(MemoryError::Problem(format!(
                "input {input} is donated to output {output}, but there are {} inputs and {} outputs",
                self.graph.inputs().len(),
                self.graph.outputs().len()
            )));
        };
        let meta = |operand: usize| self.metas.get(operand).and_then(Option::as_ref);
        match (meta(from), meta(to)) {
            (Some(from), Some(to)) if from.dtype() != to.dtype() || from.dims() != to.dims() => {
                Err(MemoryError::Problem(format!(
                    "input {input} ({from}) is donated to output {output} ({to}): types and sizes must agree"
                )))
            }
            _ => Ok(()),
        }
    }
}
