//! What symbols are in one run.

use super::ShapeError;
use crate::graph::RuntimeGraph;
use crate::op::TensorMeta;
use crate::tensor::Dim;
use std::collections::BTreeMap;

// ANCHOR: binding
/// The numbers that symbols stand for in one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Binding {
    /// By the symbol: input, axis and length where it stood first.
    values: BTreeMap<String, (String, usize, i64)>,
}

impl Binding {
    /// Notes that axis `axis` of an input is `value`, which a symbol stands for.
    ///
    /// # Errors
    /// [`ShapeError::Contradiction`] where the symbol stands for another number already; it then keeps that.
    pub fn set(&mut self, symbol: &str, value: i64, input: &str, axis: usize) -> Result<(), ShapeError> {
        // ANCHOR: set_todo -- task 5: note a new symbol, and refuse one that would be two numbers
        let second = (input.to_owned(), axis, value);
        match self.values.get(symbol) {
            Some(first) if first.2 != value => {
                let (symbol, first) = (symbol.to_owned(), first.clone());
                return Err(ShapeError::Contradiction { symbol, first, second });
            }
            Some(_) => {}
            None => drop(self.values.insert(symbol.to_owned(), second)),
        }
        Ok(())
        // ANCHOR_END: set_todo
    }

    /// Matches the lengths of one input with what stands for them: symbols are noted, numbers must agree.
    ///
    /// # Errors
    /// Another number of axes, another length than a fixed one, and as [`Binding::set`].
    pub fn bind(&mut self, name: &str, symbolic: &TensorMeta, input: &TensorMeta) -> Result<(), ShapeError> {
        // ANCHOR: bind_todo -- task 5: first the ranks, then axis by axis
        if symbolic.rank() != input.rank() {
            let (name, wanted) = (name.to_owned(), symbolic.rank());
            return Err(ShapeError::InputRank { name, wanted, found: input.to_string() });
        }
        for (axis, (wanted, found)) in symbolic.dims().iter().zip(input.dims()).enumerate() {
            match (wanted, found) {
                (Dim::Fixed(len), _) if found != wanted => return Err(not_fixed(name, axis, *len, found)),
                (Dim::Symbolic(_), Dim::Fixed(value)) => self.set(&wanted.to_string(), *value, name, axis)?,
                _ => {}
            }
        }
        Ok(())
        // ANCHOR_END: bind_todo
    }

    /// The number of a symbol.
    pub fn get(&self, symbol: &str) -> Option<i64> {
        // ANCHOR: get_todo -- task 5: the number alone
        self.values.get(symbol).map(|(_, _, value)| *value)
        // ANCHOR_END: get_todo
    }

    /// The number of a length, if all its symbols are bound.
    pub fn value(&self, dim: &Dim) -> Option<i64> {
        dim.evaluate(&|symbol| self.get(symbol))
    }

    /// A description with numbers in the place of all symbols that are bound.
    pub fn apply(&self, meta: &TensorMeta) -> TensorMeta {
        meta.replace(&|symbol| self.get(symbol).map(Dim::Fixed))
    }
}

/// The error for an axis of another length than the one that it is fixed to.
fn not_fixed(name: &str, axis: usize, wanted: i64, found: &Dim) -> ShapeError {
    let len = usize::try_from(wanted).unwrap_or(0);
    ShapeError::OutOfRange { name: name.to_owned(), axis, found: found.clone(), min: len, max: len }
}
// ANCHOR_END: binding

impl Binding {
    /// Matches the inputs of a run with the symbols that stand for their lengths.
    ///
    /// `symbolic` and `inputs` are in the order of the model's inputs, and `inputs` have numbers alone.
    ///
    /// # Errors
    /// Too few or too many inputs; another number of axes or another length than what is fixed; and
    /// [`ShapeError::Contradiction`] where one symbol would be two numbers.
    pub fn of(
        graph: &RuntimeGraph,
        symbolic: &[Option<TensorMeta>],
        inputs: &[TensorMeta],
    ) -> Result<Self, ShapeError> {
        if inputs.len() != graph.inputs().len() {
            let names = graph.inputs().iter().map(|port| port.name.clone()).collect();
            return Err(ShapeError::InputCount { found: inputs.len(), names });
        }
        let mut binding = Self::default();
        for (port, (symbolic, input)) in graph.inputs().iter().zip(symbolic.iter().zip(inputs)) {
            if let Some(symbolic) = symbolic {
                binding.bind(&port.name, symbolic, input)?;
            }
        }
        Ok(binding)
    }
}
