//! What symbols are in one run.

use super::ShapeError;
use crate::graph::{RuntimeGraph, TensorMeta};
use crate::tensor::Dim;
use std::collections::BTreeMap;

/// The numbers that symbols stand for in one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Binding {
    values: BTreeMap<String, Bound>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Bound {
    value: i64,
    input: String,
    axis: usize,
}

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

    fn bind(&mut self, name: &str, symbolic: &TensorMeta, input: &TensorMeta) -> Result<(), ShapeError> {
        if symbolic.rank() != input.rank() {
            let (name, wanted) = (name.to_owned(), symbolic.rank());
            return Err(ShapeError::InputRank { name, wanted, found: input.to_string() });
        }
        for (axis, (symbol, dim)) in symbolic.dims().iter().zip(input.dims()).enumerate() {
            let outside = |len: usize| ShapeError::OutOfRange {
                name: name.to_owned(),
                axis,
                found: dim.clone(),
                min: len,
                max: len,
            };
            match (symbol, dim) {
                (Dim::Fixed(wanted), _) if dim != wanted => {
                    return Err(outside(usize::try_from(*wanted).unwrap_or(0)));
                }
                (Dim::Symbolic(_), Dim::Fixed(value)) => self.set(symbol.to_string(), *value, name, axis)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn set(&mut self, symbol: String, value: i64, input: &str, axis: usize) -> Result<(), ShapeError> {
        let new = Bound { value, input: input.to_owned(), axis };
        match self.values.get(&symbol) {
            Some(old) if old.value != value => Err(ShapeError::Contradiction {
                symbol,
                first: (old.input.clone(), old.axis, old.value),
                second: (new.input, new.axis, new.value),
            }),
            _ => {
                self.values.entry(symbol).or_insert(new);
                Ok(())
            }
        }
    }

    /// The number of a symbol.
    pub fn get(&self, symbol: &str) -> Option<i64> {
        self.values.get(symbol).map(|bound| bound.value)
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
