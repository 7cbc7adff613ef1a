//! Converting as much of a graph as possible, to describe a model that may not run.

use super::{Converter, sorted};
use crate::Limits;
use crate::graph::draft::Draft;
use crate::graph::{GraphError, error};
use crate::op::Registry;
use crate::pnnx::{self, OperatorId};
use std::collections::HashMap;
use std::ops::Range;

/// What has become of an operator of the file.
#[derive(Debug)]
pub struct Outlined {
    /// The positions of its operators in the graph: none for a tuple or a constant, several for a write to a view.
    pub layers: Range<usize>,
    /// Why it cannot run.
    pub problem: Option<Problem>,
}

/// The reason why an operator cannot run.
#[derive(Debug)]
pub enum Problem {
    /// No layer is registered for its type.
    Unknown {
        /// The registered type with the most similar name.
        nearest: Option<String>,
        /// What to do.
        advice: String,
    },
    /// The layer does not support its parameters, weights or inputs, for this reason.
    Refused(String),
}

impl Problem {
    /// The problem of an operator that an error names.
    pub(in crate::graph) fn of(error: &GraphError) -> Self {
        Self::Refused(match error {
            GraphError::Operator { source, .. } => source.to_string(),
            GraphError::Tuple { reason, .. } => reason.clone(),
            other => other.to_string(),
        })
    }
}

/// Converts a graph as [`convert`](super::convert), but goes on after an operator that cannot be converted: its outputs become
/// tensors of the recorded types and shapes. Weights are not read.
///
/// # Errors
/// Returns an error for a cycle or an operand without a producer.
pub(in crate::graph) fn convert_partly(
    file: &pnnx::Graph,
    registry: &Registry,
    limits: &Limits,
) -> Result<(Draft, HashMap<OperatorId, Outlined>), GraphError> {
    let order = sorted(file, None)?;
    let mut converter = Converter::new(file, None, registry, limits);
    let mut operators = HashMap::with_capacity(order.len());
    for id in order {
        let (start, unknown) = (converter.draft.operators.len(), converter.unknown.len());
        let problem = match converter.add(id) {
            Ok(()) => converter.unknown.get(unknown).map(|operator| Problem::Unknown {
                nearest: operator.nearest.clone(),
                advice: error::advice(&operator.place.op_type),
            }),
            Err(error) => {
                converter.fill_in(file.operator(id));
                Some(Problem::of(&error))
            }
        };
        operators.insert(id, Outlined { layers: start..converter.draft.operators.len(), problem });
    }
    Ok((converter.draft, operators))
}
