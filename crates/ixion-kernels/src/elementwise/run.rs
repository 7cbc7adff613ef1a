//! One run of a prepared program: the loop over blocks.

use super::number::{Number, Registers, Stored, with_number};
use super::prepared::{Place, Prepared};
use super::scaling::{Scaling, scale};
use super::source::{Axes, Source, merge, offset_of, row, slice_of};
use super::values::Values;
use super::{BLOCK, Operand, Operation, Step, Value};
use crate::Float;
use crate::parallel::for_each_chunk;
use ixion_tensor::Limits;
use ixion_tensor::{
    DType, Element, Layout, Result, Shape, TensorError, TensorView, TensorViewMut, with_element,
};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::mem;
use std::ops::Range;

/// Elements per task: enough to make up for the cost of handing out a task, and few enough that threads finish together.
const CHUNK: usize = 4 * BLOCK;

thread_local! {
    /// The blocks of this thread, which all programs share, so that they stay in its first-level cache.
    static REGISTERS: RefCell<Registers> = RefCell::default();
}

/// A prepared program with the inputs of one run. Several threads may compute pieces of the output.
#[derive(Debug)]
pub struct Run<'a> {
    prepared: &'a Prepared,
    /// All inputs as flat rows that begin at their first elements.
    rows: SmallVec<[TensorView<'a>; 4]>,
}

impl Prepared {
    /// Starts a run on these inputs, which it must [fit](Prepared::fits).
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] if it was prepared for other inputs. Also fails if a function is not defined for
    /// its type.
    pub fn start<'a>(&'a mut self, inputs: &'a [TensorView<'a>]) -> Result<Run<'a>> {
        if !self.fits(inputs, self.dtype, &self.shape.clone()) {
            let reason = "the program was prepared for other inputs; prepare it again".to_owned();
            return Err(TensorError::InvalidArgument(reason));
        }
        self.compute_uniforms(inputs)?;
        Run::new(self, inputs)
    }
}

impl<'a> Run<'a> {
    fn new(prepared: &'a Prepared, inputs: &[TensorView<'a>]) -> Result<Self> {
        let rows = inputs.iter().map(row).collect::<Result<_>>()?;
        Ok(Self { prepared, rows })
    }

    /// Computes all elements of an output.
    ///
    /// # Errors
    /// [`TensorError::WrongDType`] if the output has another type; [`TensorError::UndefinedFor`] if a function is not
    /// defined for its type; [`TensorError::DivisionByZero`] for integers. Also fails if the deadline has passed.
    pub fn whole(&self, output: &mut TensorViewMut<'_>, limits: &Limits) -> Result<()> {
        if output.num_elements() == 0 {
            return Ok(());
        }
        if output.layout().is_contiguous() {
            return with_element!(output.dtype(), E => {
                for_each_chunk(output.slice::<E>()?, CHUNK, &|start, piece: &mut [E]| {
                    limits.check_deadline()?;
                    self.piece(start, piece)
                })
            });
        }
        let axes = merge(output.shape(), output.layout().strides());
        if axes.last().is_some_and(|inner| inner.1 == 1) {
            return with_element!(output.dtype(), E => self.rows_of::<E>(&axes, output, limits));
        }
        let mut copy = output.as_view().to_tensor()?;
        self.whole(&mut copy.view_mut()?, limits)?;
        output.copy_from(&copy.view())
    }

    /// Computes an output whose innermost axis is contiguous.
    fn rows_of<E: Element>(
        &self,
        axes: &Axes,
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let (total, offset) = (output.num_elements(), output.layout().offset());
        let whole = Layout::strided(Shape::new(&[output.layout().span()])?, &[1], 0)?;
        let mut whole = output.reborrow().with_layout(whole)?;
        let whole = whole.slice::<E>()?;
        let Some((&(len, _), outer)) = axes.split_last() else { return Ok(()) };
        for start in (0..total).step_by(len.max(1)) {
            limits.check_deadline()?;
            let first = offset + offset_of(start / len.max(1), outer);
            self.piece(start, whole.get_mut(first..first + len).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Computes the elements of the output from position `start` on, counted in row-major order.
    ///
    /// # Errors
    /// As [`Run::whole`], except that the deadline is not checked.
    pub fn piece<E: Element>(&self, start: usize, output: &mut [E]) -> Result<()> {
        if E::DTYPE != self.prepared.dtype {
            return Err(TensorError::WrongDType { wanted: self.prepared.dtype, found: E::DTYPE });
        }
        REGISTERS.with_borrow_mut(|registers| {
            registers.reserve(&self.prepared.blocks);
            let mut position = start;
            for block in output.chunks_mut(BLOCK) {
                let range = position..position + block.len();
                position = range.end;
                let layout = Layout::contiguous(Shape::new(&[block.len()])?);
                let output = &mut TensorViewMut::from_slice(block, layout)?;
                Block { prepared: self.prepared, rows: &self.rows, range, registers, output }.compute()?;
            }
            Ok(())
        })
    }
}

/// An epilogue that a kernel applies to pieces of its output as soon as they are computed, without knowing what it does.
pub trait ApplyEpilogue<T>: Sync + std::fmt::Debug {
    /// Applies the epilogue to the elements of `piece`, which begin at position `start` of the output in row-major order.
    ///
    /// # Errors
    /// As [`Run::piece`].
    fn apply(&self, start: usize, piece: &mut [T]) -> Result<()>;
}

impl<T: Float> ApplyEpilogue<T> for Run<'_> {
    fn apply(&self, start: usize, piece: &mut [T]) -> Result<()> {
        match self.prepared.in_place {
            Some(function) if self.prepared.dtype == T::DTYPE => function.apply(piece),
            _ => self.piece(start, piece)?,
        }
        Ok(())
    }
}

/// Some elements of the output, and where they and intermediate results are written.
struct Block<'r, 'o> {
    prepared: &'r Prepared,
    rows: &'r [TensorView<'r>],
    range: Range<usize>,
    registers: &'r mut Registers,
    output: &'r mut TensorViewMut<'o>,
}

impl Block<'_, '_> {
    fn compute(&mut self) -> Result<()> {
        let prepared = self.prepared;
        match (prepared.scaling, prepared.dtype) {
            (Some(scaling), DType::F32) => return self.scale::<f32>(scaling),
            (Some(scaling), DType::F64) => return self.scale::<f64>(scaling),
            _ => {}
        }
        prepared.varying.iter().try_for_each(|&index| self.step(index))?;
        match prepared.places.last() {
            Some(Place::Output) | None => Ok(()),
            _ => with_element!(self.output.dtype(), E => self.store::<E>()),
        }
    }

    fn scale<T: Float>(&mut self, Scaling { scaled, factors }: Scaling) -> Result<()> {
        let sources = &self.prepared.sources;
        let row = |source: &Source| &self.rows[source.position];
        let scaled = sources[scaled].as_ref().map(|source| slice_of(row(source), self.range.clone()));
        if let Some(source) = &sources[factors] {
            let factors = (source, row(source).slice::<T>()?);
            scale(scaled.transpose()?, factors, self.range.clone(), self.output.slice::<T>()?);
        }
        Ok(())
    }

    /// Computes one value.
    fn step(&mut self, index: usize) -> Result<()> {
        let Step { dtype, operation } = self.prepared.steps[index];
        if matches!(operation, Operation::Output) {
            return with_element!(dtype, E => self.load::<E>(index));
        }
        if self.prepared.sources[index].is_some() {
            return with_element!(dtype, E => self.write(index, |values, index, out| values.gather::<E>(index, out)));
        }
        with_number!(dtype, T => self.write::<T>(index, |values, index, out| values.apply(index, out)))
    }

    /// Calls `fill` to write a value to its place.
    fn write<T: Number>(
        &mut self,
        index: usize,
        fill: fn(&Values<'_>, usize, &mut [T]) -> Result<()>,
    ) -> Result<()> {
        let Self { prepared, rows, ref range, .. } = *self;
        match prepared.places[index] {
            Place::Direct | Place::Uniform(_) => Ok(()),
            Place::Output => {
                let values = Values { prepared, rows, range: range.clone(), registers: self.registers };
                fill(&values, index, self.output.slice::<T>()?)
            }
            Place::Block(block) => {
                let mut taken = mem::take(&mut T::pool_mut(self.registers).blocks[block]);
                let values = Values { prepared, rows, range: range.clone(), registers: self.registers };
                let result = fill(&values, index, &mut taken[..range.len()]);
                T::pool_mut(self.registers).blocks[block] = taken;
                result
            }
        }
    }

    /// Reads the current elements of the output.
    fn load<E: Stored>(&mut self, index: usize) -> Result<()> {
        if let Place::Block(block) = self.prepared.places[index] {
            let block = &mut E::Number::pool_mut(self.registers).blocks[block];
            E::load_all(self.output.slice::<E>()?, &mut block[..self.range.len()]);
        }
        Ok(())
    }

    /// Writes the last value to an output of another type than it is computed in, or fills the output with a uniform
    /// value.
    fn store<E: Stored>(&mut self) -> Result<()> {
        let Self { prepared, rows, ref range, .. } = *self;
        let values = Values { prepared, rows, range: range.clone(), registers: self.registers };
        let last = Value(prepared.steps.len() - 1);
        let to = self.output.slice::<E>()?;
        match values.operand::<E::Number>(last)? {
            Operand::Block(block) => E::store_all(block, to),
            Operand::Uniform(number) => to.fill(E::store(number)),
        }
        Ok(())
    }
}
