//! Binding symbols to numbers for one run.

use super::ShapeError;
use crate::graph::RuntimeGraph;
use crate::op::TensorMeta;
use crate::tensor::Dim;
use std::collections::BTreeMap;

// ANCHOR: binding
/// The values of symbols in one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Binding {
    /// For each symbol, the input, axis and length of its first occurrence.
    values: BTreeMap<String, (String, usize, i64)>,
}

impl Binding {
    /// Binds a symbol to `value`, the length of axis `axis` of an input.
    ///
    /// # Errors
    /// [`ShapeError::Contradiction`] if the symbol already has another value, which it then keeps.
    pub fn set(&mut self, symbol: &str, value: i64, input: &str, axis: usize) -> Result<(), ShapeError> {
        // ANCHOR: set_todo -- task 5: record a new symbol, and refuse a second value for a known one
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

    /// Matches the symbolic shape of one input with its actual shape: symbols are bound, and numbers must be equal.
    ///
    /// # Errors
    /// [`ShapeError::InputRank`] if the number of axes differs, [`ShapeError::OutOfRange`] if a fixed length differs, and the
    /// error of [`Binding::set`].
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

    /// The value of a symbol, if it is bound.
    pub fn get(&self, symbol: &str) -> Option<i64> {
        // ANCHOR: get_todo -- task 5: only the value
        self.values.get(symbol).map(|(_, _, value)| *value)
        // ANCHOR_END: get_todo
    }

    /// The value of a symbolic length, if all its symbols are bound.
    pub fn value(&self, dim: &Dim) -> Option<i64> {
        dim.evaluate(&|symbol| self.get(symbol))
    }

    /// Replaces all bound symbols in tensor metadata by their values.
    pub fn apply(&self, meta: &TensorMeta) -> TensorMeta {
        meta.replace(&|symbol| self.get(symbol).map(Dim::Fixed))
    }
}

/// The error for an axis whose length differs from its fixed length.
fn not_fixed(name: &str, axis: usize, wanted: i64, found: &Dim) -> ShapeError {
    let len = usize::try_from(wanted).unwrap_or(0);
    ShapeError::OutOfRange { name: name.to_owned(), axis, found: found.clone(), min: len, max: len }
}
// ANCHOR_END: binding

impl Binding {
    /// Matches the inputs of a run with their symbolic shapes.
    ///
    /// `symbolic` and `inputs` are in the order of the model's inputs. The dimensions of `inputs` must be numbers.
    ///
    /// # Errors
    /// [`ShapeError::InputCount`] for too few or too many inputs; otherwise as [`Binding::bind`].
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
