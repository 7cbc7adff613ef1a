//! The input of the memory planner.

use super::MemoryError;
use crate::graph::RuntimeGraph;
use crate::op::TensorMeta;

/// A graph and the known properties of its tensors.
#[derive(Debug, Clone, Copy)]
pub struct Problem<'a> {
    /// The graph; it must be built.
    pub graph: &'a RuntimeGraph,
    /// The description of each operand, by position. An operand that has none, or that has symbolic dimensions, is unknown
    /// until the model runs.
    pub metas: &'a [Option<TensorMeta>],
    /// The scratch memory of each operator in bytes, by position.
    pub workspaces: &'a [usize],
    /// Whether each operator is a constant that has already been evaluated, by position.
    pub constants: &'a [bool],
    /// Inputs that may be overwritten, each with the output that their memory holds after the run: (position of the input,
    /// position of the output).
    pub donations: &'a [(usize, usize)],
}

impl Problem<'_> {
    /// Checks the lengths of the lists, that no input or output occurs in two donations, and that the input and output of
    /// each donation have the same type and size.
    pub(super) fn check(&self) -> Result<(), MemoryError> {
        let (operators, operands) = (self.graph.operators().len(), self.graph.operands().len());
        let lens = [
            ("operands", operands, self.metas.len()),
            ("workspaces", operators, self.workspaces.len()),
            ("constants", operators, self.constants.len()),
        ];
        for (what, wanted, found) in lens {
            if wanted != found {
                return Err(MemoryError::Problem(format!("{what}: expected {wanted} entries, got {found}")));
            }
        }
        for (position, &donation) in self.donations.iter().enumerate() {
            let before = self.donations.get(..position).unwrap_or_default();
            if before.iter().any(|&(input, output)| input == donation.0 || output == donation.1) {
                let (input, output) = donation;
                return Err(MemoryError::Problem(format!(
                    "input {input} is donated to output {output}, but one of them is already part of a donation"
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
                "input {input} is donated to output {output}, but the graph has {} inputs and {} outputs",
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
