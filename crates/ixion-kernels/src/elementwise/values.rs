//! The values of a program's steps: those of a block, and those that are the same for all elements.

use super::number::{Number, Registers, Stored, constant, convert, with_number};
use super::prepared::{Place, Prepared};
use super::source::{Source, row, slice_of};
use super::{Operand, Operation, Step, Value};
use ixion_tensor::{DType, Function, Result, Scalar, TensorView, with_element};
use std::ops::Range;

/// What a step may read: inputs, uniform values, and blocks that are not being written.
pub(super) struct Values<'r> {
    pub(super) prepared: &'r Prepared,
    pub(super) rows: &'r [TensorView<'r>],
    pub(super) range: Range<usize>,
    pub(super) registers: &'r Registers,
}

impl Values<'_> {
    /// Reads the elements of an input.
    pub(super) fn gather<E: Stored>(&self, index: usize, out: &mut [E::Number]) -> Result<()> {
        let Some(source) = &self.prepared.sources[index] else { return Ok(()) };
        source.gather(self.rows[source.position].slice::<E>()?, self.range.clone(), out);
        Ok(())
    }

    /// Computes the value of a step that is not an input.
    pub(super) fn apply<T: Number>(&self, index: usize, out: &mut [T]) -> Result<()> {
        let Step { dtype, operation } = self.prepared.steps[index];
        match operation {
            Operation::Input(_) | Operation::Output => {}
            Operation::Constant(scalar) => out.fill(constant(scalar)),
            Operation::Cast(value) => {
                let from = self.prepared.steps[value.0].dtype;
                with_number!(from, S => convert(self.operand::<S>(value)?, out, dtype));
            }
            Operation::Apply(function, [a, b]) => {
                T::apply(function, self.operand(a)?, self.operand(b)?, out)?;
            }
        }
        // The last value is rounded when it is stored, and one that is an operand is rounded already.
        if index + 1 < self.prepared.steps.len() && !self.is_choice(dtype, operation) {
            T::round_to(dtype, out);
        }
        Ok(())
    }

    /// Returns true if every result is one of the operands, which have this type, or 0.
    fn is_choice(&self, dtype: DType, operation: Operation) -> bool {
        use Function as F;
        let Operation::Apply(F::Max | F::Maximum | F::Min | F::Minimum | F::Relu, operands) = operation
        else {
            return false;
        };
        operands.iter().all(|operand| self.prepared.steps[operand.0].dtype == dtype)
    }

    /// The value of an earlier step.
    pub(super) fn operand<T: Number>(&self, value: Value) -> Result<Operand<'_, T>> {
        Ok(match (self.prepared.places[value.0], &self.prepared.sources[value.0]) {
            (Place::Direct, Some(source)) => {
                Operand::Block(slice_of(&self.rows[source.position], self.range.clone())?)
            }
            (Place::Uniform(number), _) => {
                Operand::Uniform(T::pool(&self.prepared.uniforms).uniforms[number])
            }
            (Place::Block(block), _) => {
                Operand::Block(&T::pool(self.registers).blocks[block][..self.range.len()])
            }
            // Nothing reads the output: its step is the last.
            (Place::Direct | Place::Output, _) => Operand::Block(&[]),
        })
    }
}

impl Prepared {
    /// Computes the values that are the same for all elements and depend on no input.
    pub(super) fn compute_constants(&mut self) -> Result<()> {
        for index in 0..self.steps.len() {
            let is_uniform = matches!(self.places[index], Place::Uniform(_));
            if is_uniform && !self.uniform.contains(&index) {
                with_number!(self.steps[index].dtype, T => self.compute_uniform::<T>(index, &[])?);
            }
        }
        Ok(())
    }

    /// Computes the values that are the same for all elements and depend on inputs.
    pub(super) fn compute_uniforms(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        for position in 0..self.uniform.len() {
            let index = self.uniform[position];
            with_number!(self.steps[index].dtype, T => self.compute_uniform::<T>(index, inputs)?);
        }
        Ok(())
    }

    /// Computes a value that is the same for all elements.
    fn compute_uniform<T: Number>(&mut self, index: usize, inputs: &[TensorView<'_>]) -> Result<()> {
        let number = number_of::<T>(self, index, inputs)?;
        if let Place::Uniform(register) = self.places[index] {
            T::pool_mut(&mut self.uniforms).uniforms[register] = number;
        }
        Ok(())
    }
}

/// The value of a step that is the same for all elements.
fn number_of<T: Number>(prepared: &Prepared, index: usize, inputs: &[TensorView<'_>]) -> Result<T> {
    let source = prepared.sources[index].as_ref();
    let input = source.and_then(|source| inputs.get(source.position)).map(row).transpose()?;
    if let (Some(source), Some(row)) = (source, input) {
        return Ok(constant(first_of(source, &row)?));
    }
    let registers = Registers::default();
    let values = Values { prepared, rows: &[], range: 0..1, registers: &registers };
    let mut number = T::default();
    values.apply(index, std::slice::from_mut(&mut number))?;
    Ok(number)
}

/// The first element that a source reads.
fn first_of(source: &Source, row: &TensorView<'_>) -> Result<Scalar> {
    with_element!(row.dtype(), E => {
        let mut found = <E as Stored>::Number::default();
        source.gather(row.slice::<E>()?, 0..1, std::slice::from_mut(&mut found));
        Ok(found.scalar())
    })
}
