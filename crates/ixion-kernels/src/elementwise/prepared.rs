//! A program prepared for inputs and an output of given types and shapes: how inputs are read, and where values are
//! stored.

use super::in_place::InPlace;
use super::number::{Number, Registers, with_number};
use super::scaling::Scaling;
use super::source::Source;
use super::{Operation, Step, Value};
use ixion_tensor::{DType, Layout, Result, Shape, TensorError, TensorView};
use std::mem;

/// Where a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In an input, which is read in place.
    Direct,
    /// As a single value: all elements are equal.
    Uniform(usize),
    /// In a block of the thread's registers.
    Block(usize),
    /// In the output.
    Output,
}

/// A [`Program`](super::Program) that is ready to run on inputs of these types, shapes and strides. It can run any number
/// of times, and allocates nothing after the first run.
#[derive(Debug)]
pub struct Prepared {
    /// The last one computes the output.
    pub(super) steps: Vec<Step>,
    /// The inputs that the steps read, indexed by step.
    pub(super) sources: Vec<Option<Source>>,
    pub(super) places: Vec<Place>,
    /// The steps whose value is the same for all elements and depends on inputs.
    pub(super) uniform: Vec<usize>,
    /// The steps whose value differs between elements.
    pub(super) varying: Vec<usize>,
    pub(super) uniforms: Registers,
    /// The number of blocks of each type that the thread needs.
    pub(super) blocks: Registers,
    /// The function that the program applies to the output, if it does nothing else.
    pub(super) in_place: Option<InPlace>,
    /// The product that the program computes, if it is a product with a repeating input.
    pub(super) scaling: Option<Scaling>,
    pub(super) dtype: DType,
    pub(super) shape: Shape,
    inputs: Vec<(DType, Layout)>,
}

impl Prepared {
    /// A program whose values have places. The places of constants are empty until they are
    /// [computed](Prepared::compute_constants).
    pub(super) fn new(
        steps: &[Step],
        inputs: &[TensorView<'_>],
        dtype: DType,
        shape: &Shape,
    ) -> Result<Self> {
        let sources = steps.iter().map(|step| match step.operation {
            Operation::Input(position) => source(inputs, position, step.dtype, shape).map(Some),
            _ => Ok(None),
        });
        let sources = sources.collect::<Result<Vec<_>>>()?;
        let mut prepared = Self {
            scaling: Scaling::of(steps, &sources),
            sources,
            steps: steps.to_vec(),
            places: Vec::with_capacity(steps.len()),
            uniform: Vec::new(),
            varying: Vec::new(),
            uniforms: Registers::default(),
            blocks: Registers::default(),
            in_place: InPlace::of(steps),
            dtype,
            shape: *shape,
            inputs: inputs.iter().map(|input| (input.dtype(), *input.layout())).collect(),
        };
        prepared.check_output()?;
        prepared.place_all();
        prepared.sort_steps();
        Ok(prepared)
    }

    /// Returns true if it was prepared for inputs and an output like these.
    pub fn fits(&self, inputs: &[TensorView<'_>], dtype: DType, shape: &Shape) -> bool {
        let same = |(known, input): (&(DType, Layout), &TensorView<'_>)| {
            known.0 == input.dtype() && known.1.is_moved(input.layout())
        };
        self.dtype == dtype
            && self.shape == *shape
            && self.inputs.len() == inputs.len()
            && self.inputs.iter().zip(inputs).all(same)
    }

    fn check_output(&self) -> Result<()> {
        match self.steps.last() {
            Some(step) if step.dtype != self.dtype => {
                Err(TensorError::WrongDType { wanted: step.dtype, found: self.dtype })
            }
            _ => Ok(()),
        }
    }

    /// Sorts the steps that are not constants into uniform and varying ones.
    fn sort_steps(&mut self) {
        let mut depends = vec![false; self.steps.len()];
        for (index, step) in self.steps.iter().enumerate() {
            depends[index] = self.sources[index].is_some()
                || step.operation.arguments().iter().any(|value| depends[value.0]);
            if !matches!(self.places[index], Place::Uniform(_)) {
                self.varying.push(index);
            } else if depends[index] {
                self.uniform.push(index);
            }
        }
    }

    /// Assigns a place to every value. A block is reused once the last step that reads it has run.
    fn place_all(&mut self) {
        let mut last_use = vec![usize::MAX; self.steps.len()];
        for (index, step) in self.steps.iter().enumerate() {
            step.operation.arguments().iter().for_each(|value| last_use[value.0] = index);
        }
        let mut free: Vec<(DType, usize)> = Vec::new();
        for index in 0..self.steps.len() {
            let Step { dtype, operation } = self.steps[index];
            let place = with_number!(dtype, T => self.place::<T>(index, &mut free));
            self.places.push(place);
            for value in operation.arguments() {
                let ends = mem::replace(&mut last_use[value.0], usize::MAX) == index;
                if let (true, Place::Block(register)) = (ends, self.places[value.0]) {
                    free.push((super::number::dtype_of(self.steps[value.0].dtype), register));
                }
            }
        }
    }

    fn place<T: Number>(&mut self, index: usize, free: &mut Vec<(DType, usize)>) -> Place {
        let Step { dtype, operation } = self.steps[index];
        let source = self.sources[index].as_ref();
        let is_uniform = |value: &Value| matches!(self.places[value.0], Place::Uniform(_));
        let uniform = match (source, operation) {
            (Some(source), _) => source.is_uniform,
            (None, Operation::Output) => false,
            (None, _) => operation.arguments().iter().all(is_uniform),
        };
        if uniform {
            let uniforms = &mut T::pool_mut(&mut self.uniforms).uniforms;
            uniforms.push(T::default());
            return Place::Uniform(uniforms.len() - 1);
        }
        let is_last = index + 1 == self.steps.len();
        if is_last && dtype == T::DTYPE && !matches!(operation, Operation::Output) {
            Place::Output
        } else if source.is_some_and(|source| source.is_direct) {
            Place::Direct
        } else if let Some(found) = free.iter().position(|(dtype, _)| *dtype == T::DTYPE) {
            Place::Block(free.swap_remove(found).1)
        } else {
            let blocks = &mut T::pool_mut(&mut self.blocks).blocks;
            blocks.push(Vec::new());
            Place::Block(blocks.len() - 1)
        }
    }
}

fn source(inputs: &[TensorView<'_>], position: usize, dtype: DType, shape: &Shape) -> Result<Source> {
    let missing = TensorError::OutOfRange { what: "input", index: position as i64, len: inputs.len() };
    let view = inputs.get(position).ok_or(missing)?;
    if view.dtype() != dtype {
        return Err(TensorError::WrongDType { wanted: dtype, found: view.dtype() });
    }
    Source::new(position, view, shape)
}

#[cfg(test)]
mod tests {
    use super::super::Program;
    use super::*;
    use ixion_tensor::Function;
    use ixion_tensor::{Scalar, Tensor};

    #[test]
    fn a_long_chain_takes_two_blocks() {
        let mut program = Program::default();
        let mut value = program.input(0, DType::F32);
        for number in 0..100 {
            let number = program.constant(Scalar::Int(number), DType::F32);
            let sum = program.apply(Function::Add, DType::F32, value, number);
            value = program.apply(Function::Neg, DType::F32, sum, sum);
        }
        let x = Tensor::zeros(DType::F32, &[5000]).unwrap();
        let prepared = program.prepare(value, &[x.view()], DType::F32, x.shape()).unwrap();
        assert_eq!(f32::pool(&prepared.blocks).blocks.len(), 2);
        assert_eq!((f32::pool(&prepared.uniforms).uniforms.len(), prepared.uniform.len()), (100, 0));
        assert_eq!((prepared.places[0], prepared.places.last()), (Place::Direct, Some(&Place::Output)));
    }

    #[test]
    fn it_only_fits_what_it_was_prepared_for() {
        let mut program = Program::default();
        let value = program.input(0, DType::F32);
        let (x, y) =
            (Tensor::zeros(DType::F32, &[2, 3]).unwrap(), Tensor::zeros(DType::F32, &[3, 2]).unwrap());
        let mut prepared = program.prepare(value, &[x.view()], DType::F32, x.shape()).unwrap();
        let turned = y.permute(&[1, 0]).unwrap();
        assert!(prepared.fits(&[x.view()], DType::F32, x.shape()));
        assert!(!prepared.fits(&[turned.view()], DType::F32, x.shape()));
        assert!(!prepared.fits(&[x.view(), x.view()], DType::F32, x.shape()));
        assert!(prepared.start(&[turned.view()]).is_err());
    }
}
