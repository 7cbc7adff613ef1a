//! Names for lengths that are not known.

use crate::graph::{InputPort, RuntimeGraph, RuntimeOperator};
use crate::op::TensorMeta;
use crate::pnnx;
use crate::tensor::Dim;
use std::cell::RefCell;

/// The inputs of a model with a symbol for every length; none where the file does not record type and rank.
///
/// What the file calls `%name` becomes the symbol `name`, the same one in all inputs. Any other length, also one that is
/// a number, gets a symbol of its own, named after input and axis as in `x.0`: numbers in the file are those of the
/// sample that the model was exported with.
pub fn symbolic_inputs(graph: &RuntimeGraph) -> Vec<Option<TensorMeta>> {
    let symbolic = |port: &InputPort| {
        let operand = graph.operand(port.operand);
        let dims = operand.shape()?.iter().enumerate().map(|(axis, dim)| match dim {
            pnnx::Dim::Named(name) => Dim::symbol(name),
            _ => axis_symbol(&port.name, axis),
        });
        Some(TensorMeta::new(operand.dtype()?, dims))
    };
    graph.inputs().iter().map(symbolic).collect()
}

/// The symbol of one axis of one input, which no other length shares.
pub(super) fn axis_symbol(input: &str, axis: usize) -> Dim {
    Dim::symbol(format!("{input}.{axis}"))
}

/// Renames lengths that nobody knows after the operator they come from, so that inferring it again gives the same.
pub(super) fn settle(operator: &RuntimeOperator, outputs: &mut [TensorMeta]) {
    let seen: RefCell<Vec<(String, Dim)>> = RefCell::default();
    let settled = |name: &str| {
        let (kind, _) = name.split_once('#')?;
        let mut seen = seen.borrow_mut();
        if let Some((_, dim)) = seen.iter().find(|(old, _)| old == name) {
            return Some(dim.clone());
        }
        let dim = match seen.len() {
            0 => Dim::symbol(format!("{kind}@{}", operator.name())),
            count => Dim::symbol(format!("{kind}@{}.{count}", operator.name())),
        };
        seen.push((name.to_owned(), dim.clone()));
        Some(dim)
    };
    for output in outputs.iter_mut().filter(|output| !output.is_known()) {
        *output = output.replace(&settled);
    }
}
