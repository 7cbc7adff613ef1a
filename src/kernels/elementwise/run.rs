//! One run of a program: where each value lies, and the loop over blocks.

use super::number::{Number, Registers, Stored, constant, convert, with_number};
use super::source::Source;
use super::{BLOCK, Operand, Operation, Step, Value};
use crate::Limits;
use crate::tensor::{Complex, DType, Result, Shape, TensorError, TensorView, TensorViewMut, with_element};
use std::mem;
use std::ops::Range;

/// The deadline is looked at after so many blocks.
const BLOCKS_BETWEEN_CHECKS: usize = 64;

/// The type that elements of type `E` are computed in.
type NumberOf<E> = <E as Stored>::Number;

/// Where a value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In an input, which is used as it lies.
    Direct,
    /// In a register of one number: all elements are equal.
    Uniform(usize),
    /// In a register of a block.
    Block(usize),
    /// In the output.
    Output,
}

/// A program and its inputs, prepared for one output shape.
pub(super) struct Run<'a> {
    /// The last one computes the output.
    steps: &'a [Step],
    /// The inputs that the steps read, at the positions of those steps.
    sources: Vec<Option<Source<'a>>>,
    places: Vec<Place>,
    registers: Registers,
    len: usize,
}

impl<'a> Run<'a> {
    pub(super) fn new(steps: &'a [Step], inputs: &[TensorView<'a>], shape: &Shape) -> Result<Self> {
        let sources = steps.iter().map(|step| match step.operation {
            Operation::Input(position) => source(inputs, position, step.dtype, shape).map(Some),
            _ => Ok(None),
        });
        let sources = sources.collect::<Result<_>>()?;
        let mut run = Self {
            steps,
            sources,
            places: Vec::new(),
            registers: Registers::default(),
            len: shape.num_elements(),
        };
        run.place_all();
        Ok(run)
    }

    /// Gives every value its place. A register is used again once the last step that reads it has run.
    fn place_all(&mut self) {
        let mut last_use = vec![usize::MAX; self.steps.len()];
        for (index, step) in self.steps.iter().enumerate() {
            step.operation.arguments().iter().for_each(|value| last_use[value.0] = index);
        }
        for (index, step) in self.steps.iter().enumerate() {
            let place = with_number!(step.dtype, T => self.place::<T>(index));
            self.places.push(place);
            for value in step.operation.arguments() {
                let ends = mem::replace(&mut last_use[value.0], usize::MAX) == index;
                if let (true, Place::Block(register)) = (ends, self.places[value.0]) {
                    let dtype = self.steps[value.0].dtype;
                    with_number!(dtype, T => T::pool_mut(&mut self.registers).give_back(register));
                }
            }
        }
    }

    fn place<T: Number>(&mut self, index: usize) -> Place {
        let Step { dtype, operation } = self.steps[index];
        let source = self.sources[index].as_ref();
        let is_uniform = |value: &Value| matches!(self.places[value.0], Place::Uniform(_));
        let uniform = match source {
            Some(source) => source.is_uniform(),
            None => operation.arguments().iter().all(is_uniform),
        };
        if uniform {
            Place::Uniform(T::pool_mut(&mut self.registers).take(1))
        } else if index + 1 == self.steps.len() && dtype == T::DTYPE {
            Place::Output
        } else if source.is_some_and(Source::is_direct) {
            Place::Direct
        } else {
            Place::Block(T::pool_mut(&mut self.registers).take(BLOCK.min(self.len)))
        }
    }

    /// Computes all elements of an output, whose shape is a row.
    pub(super) fn all(mut self, output: &mut TensorViewMut<'_>, limits: &Limits) -> Result<()> {
        self.check_output(output.dtype())?;
        let (uniform, varying): (Vec<usize>, Vec<usize>) =
            (0..self.steps.len()).partition(|&index| matches!(self.places[index], Place::Uniform(_)));
        uniform.into_iter().try_for_each(|index| self.step(index, 0..1, output))?;
        for (count, start) in (0..self.len).step_by(BLOCK).enumerate() {
            if count % BLOCKS_BETWEEN_CHECKS == 0 {
                limits.check_deadline()?;
            }
            let range = start..(start + BLOCK).min(self.len);
            varying.iter().try_for_each(|&index| self.step(index, range.clone(), output))?;
            if self.places.last() != Some(&Place::Output) {
                with_element!(output.dtype(), E => self.store::<E>(range, output)?);
            }
        }
        Ok(())
    }

    fn check_output(&self, found: DType) -> Result<()> {
        match self.steps.last() {
            Some(step) if step.dtype != found => Err(TensorError::WrongDType { wanted: step.dtype, found }),
            _ => Ok(()),
        }
    }

    /// Computes one value for some elements.
    fn step(&mut self, index: usize, range: Range<usize>, output: &mut TensorViewMut<'_>) -> Result<()> {
        let dtype = self.steps[index].dtype;
        if self.sources[index].is_some() {
            return with_element!(dtype, E => self.write::<NumberOf<E>>(index, range, output, |run, range, out| {
                run.sources[index].as_ref().map_or(Ok(()), |source| source.gather::<E>(range, out))
            }));
        }
        with_number!(dtype, T => self.write::<T>(index, range, output, |run, range, out| {
            run.compute(index, range, out)
        }))
    }

    /// Lets `fill` write a value to its place; it may read all other places.
    fn write<T: Number>(
        &mut self,
        index: usize,
        range: Range<usize>,
        output: &mut TensorViewMut<'_>,
        fill: impl FnOnce(&Self, Range<usize>, &mut [T]) -> Result<()>,
    ) -> Result<()> {
        match self.places[index] {
            Place::Direct => Ok(()),
            Place::Output => {
                let out = output.slice::<T>()?.get_mut(range.clone()).unwrap_or_default();
                fill(self, range, out)
            }
            Place::Uniform(register) | Place::Block(register) => {
                let mut block = mem::take(&mut T::pool_mut(&mut self.registers).registers[register]);
                let len = range.len();
                let result = fill(self, range, &mut block[..len]);
                T::pool_mut(&mut self.registers).registers[register] = block;
                result
            }
        }
    }

    fn compute<T: Number>(&self, index: usize, range: Range<usize>, out: &mut [T]) -> Result<()> {
        let Step { dtype, operation } = self.steps[index];
        match operation {
            Operation::Input(_) => {}
            Operation::Constant(scalar) => out.fill(constant(scalar)),
            Operation::Cast(value) => {
                let from = self.steps[value.0].dtype;
                with_number!(from, S => convert(self.operand::<S>(value, range)?, out, dtype));
            }
            Operation::Apply(function, [a, b]) => {
                T::apply(function, self.operand(a, range.clone())?, self.operand(b, range)?, out)?;
            }
        }
        // The last value is rounded when it is stored.
        if index + 1 < self.steps.len() {
            T::settle(dtype, out);
        }
        Ok(())
    }

    fn operand<T: Number>(&self, value: Value, range: Range<usize>) -> Result<Operand<'_, T>> {
        let registers = &T::pool(&self.registers).registers;
        Ok(match (self.places[value.0], &self.sources[value.0]) {
            (Place::Direct, Some(source)) => Operand::Block(source.slice(range)?),
            (Place::Uniform(register), _) => Operand::Uniform(registers[register][0]),
            (Place::Block(register), _) => Operand::Block(&registers[register][..range.len()]),
            // Nothing reads the output: its step is the last.
            (Place::Direct | Place::Output, _) => Operand::Block(&[]),
        })
    }

    /// Writes the last value to an output of a type that it is not computed in, or fills it with a single number.
    fn store<E: Stored>(&self, range: Range<usize>, output: &mut TensorViewMut<'_>) -> Result<()> {
        let last = Value(self.steps.len() - 1);
        let from = self.operand::<NumberOf<E>>(last, range.clone())?;
        let to = output.slice::<E>()?.get_mut(range).unwrap_or_default();
        match from {
            Operand::Block(block) => E::store_all(block, to),
            Operand::Uniform(number) => to.fill(E::store(number)),
        }
        Ok(())
    }
}

fn source<'a>(inputs: &[TensorView<'a>], position: usize, dtype: DType, shape: &Shape) -> Result<Source<'a>> {
    let missing = TensorError::OutOfRange { what: "input", index: position as i64, len: inputs.len() };
    let view = *inputs.get(position).ok_or(missing)?;
    if view.dtype() != dtype {
        return Err(TensorError::WrongDType { wanted: dtype, found: view.dtype() });
    }
    Source::new(view, shape)
}

#[cfg(test)]
mod tests {
    use super::super::Program;
    use super::*;
    use crate::pnnx::Function;
    use crate::tensor::{Scalar, Tensor};

    #[test]
    fn a_long_chain_takes_two_blocks() {
        let mut program = Program::default();
        let mut value = program.input(0, DType::F32);
        for number in 0..100 {
            let number = program.constant(Scalar::Int(number), DType::F32);
            let sum = program.apply(Function::Add, DType::F32, value, number);
            value = program.apply(Function::Neg, DType::F32, sum, sum);
        }
        let x = Tensor::zeros(DType::F32, &[3 * BLOCK]).unwrap();
        let run = Run::new(&program.steps, &[x.view()], x.shape()).unwrap();
        let blocks = |len: usize| {
            f32::pool(&run.registers).registers.iter().filter(|block| block.len() == len).count()
        };
        assert_eq!((blocks(BLOCK), blocks(1)), (2, 100));
        assert_eq!((run.places[0], run.places.last()), (Place::Direct, Some(&Place::Output)));
    }
}
