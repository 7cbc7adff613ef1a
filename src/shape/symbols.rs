//! Symbols for unknown lengths.

use crate::graph::{InputPort, RuntimeGraph, RuntimeOperator};
use crate::op::TensorMeta;
use crate::pnnx;
use crate::tensor::Dim;
use std::cell::RefCell;

/// The inputs of a model with a symbol for every length; `None` if the file does not record the type and rank of an input.
///
/// A length `%name` in the file becomes the symbol `name`, shared by all inputs. Any other length, including a number, gets its
/// own symbol, named after input and axis as in `x.0`: numbers in the file are only the lengths of the sample that the model
/// was exported with.
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

/// The symbol of one axis of one input, which is not shared with any other length.
pub(super) fn axis_symbol(input: &str, axis: usize) -> Dim {
    Dim::symbol(format!("{input}.{axis}"))
}

/// Renames unknown lengths after the operator that they come from, so that inferring it again gives the same symbols.
pub(super) fn rename_unknowns(operator: &RuntimeOperator, outputs: &mut [TensorMeta]) {
    let seen: RefCell<Vec<(String, Dim)>> = RefCell::default();
    let renamed = |name: &str| {
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
        *output = output.replace(&renamed);
    }
}
