//! Recurrent networks with ONNX's gate order, choice of functions, and sequences of different lengths.

use super::activations::Function;
use crate::op::{Cost, CpuLayer, ForwardContext, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::broadcast::Converted;
use crate::support::float::{self, with_float};
use ixion_kernels::Float;
use ixion_kernels::gemm::gemm;
use ixion_tensor::{DType, Dim, Layout, Shape, TensorError, TensorView, TensorViewMut};
use ndarray::{ArrayView2, ArrayViewMut2};
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// The computation of a network at each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    /// An activation function of the sum of both products.
    Rnn,
    /// Gates in the order input, output, forget, cell.
    Lstm {
        /// Whether the forget gate is 1 − the input gate.
        input_forget: bool,
    },
    /// Gates in the order update, reset, hidden.
    Gru {
        /// Whether the reset gate is applied after the product with the state, instead of to the state.
        after_product: bool,
    },
}

impl Cell {
    /// The number of weight rows for each hidden unit.
    pub(super) fn gates(self) -> usize {
        match self {
            Self::Rnn => 1,
            Self::Gru { .. } => 3,
            Self::Lstm { .. } => 4,
        }
    }

    /// Returns true if the network has a cell state in addition to the hidden state.
    pub(super) fn has_memory(self) -> bool {
        matches!(self, Self::Lstm { .. })
    }
}

/// One result of a recurrent network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The hidden states of all steps.
    All,
    /// The last hidden state.
    Hidden,
    /// The last cell state of an LSTM.
    Memory,
}

/// The positions of the inputs after the sequence and both weights.
#[derive(Debug, Clone, Default)]
pub(super) struct OptionalInputs {
    pub(super) bias: Option<usize>,
    pub(super) lens: Option<usize>,
    pub(super) hidden: Option<usize>,
    pub(super) memory: Option<usize>,
    /// The weights with which the gates of an LSTM see its cell state.
    pub(super) peepholes: Option<usize>,
}

/// A network of one layer, in one direction or both.
#[derive(Debug, Clone)]
pub(super) struct Recurrence {
    pub(super) cell: Cell,
    /// For each direction, whether sequences are read from the end, and the functions of the gates.
    pub(super) directions: Vec<(bool, Vec<Function>)>,
    /// Whether the batch is the first axis.
    pub(super) batch_first: bool,
    /// The bound that the absolute values of sums are clipped to.
    pub(super) clip: Option<f64>,
    pub(super) optional_inputs: OptionalInputs,
    pub(super) parts: Vec<Part>,
}

/// The sizes of a run.
#[derive(Clone, Copy)]
struct Sizes {
    steps: usize,
    batch: usize,
    hidden: usize,
}

/// The weights of one direction.
struct Weights<'a, T> {
    input: ArrayView2<'a, T>,
    state: ArrayView2<'a, T>,
    /// Added to the product with the input, and to that with the state.
    biases: Option<(&'a [T], &'a [T])>,
    /// For the gates input, output and forget, in this order.
    peepholes: Option<&'a [T]>,
}

/// Hidden state and cell state of one direction, N×H each.
struct State<'a, T> {
    hidden: &'a mut [T],
    memory: &'a mut [T],
}

fn matrix<T>(data: &[T], rows: usize, columns: usize) -> Result<ArrayView2<'_, T>> {
    Ok(ArrayView2::from_shape((rows, columns), data)?)
}

/// Sets `sums` to a·bᵀ plus a bias for each column, if there is one.
fn multiplied<T: Float>(a: &[T], b: ArrayView2<'_, T>, bias: Option<&[T]>, sums: &mut [T]) -> Result<()> {
    let columns = b.nrows();
    let rows = sums.len() / columns.max(1);
    for row in sums.chunks_exact_mut(columns.max(1)) {
        match bias {
            Some(bias) => row.copy_from_slice(bias),
            None => row.fill(T::zero()),
        }
    }
    if b.ncols() > 0 {
        let sums = ArrayViewMut2::from_shape((rows, columns), sums)?;
        gemm(matrix(a, rows, b.ncols())?, b.t(), sums, true);
    }
    Ok(())
}

impl Recurrence {
    /// The numbers of steps and of sequences in the batch, from the first two axes.
    fn split<D: Clone>(&self, [first, second]: [&D; 2]) -> (D, D) {
        let (steps, batch) = if self.batch_first { (second, first) } else { (first, second) };
        (steps.clone(), batch.clone())
    }

    /// The first two axes, a batch and another, in the order of the file.
    fn ordered(&self, other: Dim, batch: Dim) -> [Dim; 2] {
        if self.batch_first { [batch, other] } else { [other, batch] }
    }

    fn check(&self, inputs: &[TensorMeta], batch: &Dim, hidden: &Dim) -> Result<()> {
        let (directions, gates) = (Dim::from(self.directions.len()), self.cell.gates());
        let rows = hidden.clone() * gates;
        let features = inputs[0].dims().last().cloned().unwrap_or(Dim::Fixed(1));
        let [first, second] = self.ordered(directions.clone(), batch.clone());
        let state = vec![first, second, hidden.clone()];
        let OptionalInputs { bias, hidden: h, memory: c, peepholes, .. } = self.optional_inputs;
        let wanted = [
            (Some(1), "the weights of the input", vec![directions.clone(), rows.clone(), features]),
            (Some(2), "the weights of the state", vec![directions.clone(), rows.clone(), hidden.clone()]),
            (bias, "the biases", vec![directions.clone(), rows * 2]),
            (h, "the state", state.clone()),
            (c, "the cell state", state),
            (peepholes, "the peepholes", vec![directions, hidden.clone() * 3]),
        ];
        for (position, what, dims) in wanted {
            let Some(found) = position.and_then(|position| inputs.get(position)) else { continue };
            if !found.may_have_dims(&dims) || found.dtype() != inputs[0].dtype() {
                return Err(LayerError::shape(what, inputs[0].with_dims(dims), found));
            }
        }
        match self.optional_inputs.lens.and_then(|position| inputs.get(position)) {
            Some(lens) if !lens.may_have_dims(std::slice::from_ref(batch)) => {
                Err(LayerError::shape("the lengths of the sequences", format!("a vector of {batch}"), lens))
            }
            _ => Ok(()),
        }
    }
}

impl Layer for Recurrence {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        3..=8
    }

    fn num_outputs(&self) -> usize {
        self.parts.len()
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let x = &inputs[0];
        float::check("the sequence", x)?;
        let ([first, second, _], [_, _, hidden]) = (x.dims(), inputs[2].dims()) else {
            return Err(LayerError::shape("the sequence and its weights", "three axes each", x));
        };
        let (steps, batch) = self.split([first, second]);
        self.check(inputs, &batch, hidden)?;
        let directions = Dim::from(self.directions.len());
        let [first, second] = self.ordered(directions.clone(), batch.clone());
        let state = x.with_dims([first, second, hidden.clone()]);
        let all = match self.batch_first {
            true => [batch, steps, directions, hidden.clone()],
            false => [steps, directions, batch, hidden.clone()],
        };
        let part = |part: &Part| match part {
            Part::All => x.with_dims(all.clone()),
            Part::Hidden | Part::Memory => state.clone(),
        };
        Ok(self.parts.iter().map(part).collect())
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let len = |meta: &TensorMeta| meta.num_elements().fixed().and_then(|len| u64::try_from(len).ok());
        let rows = inputs[0].dims().iter().take(2).map(|dim| u64::try_from(dim.fixed()?).ok());
        let rows =
            rows.collect::<Option<Vec<u64>>>().map(|rows| rows.into_iter().fold(1, u64::saturating_mul));
        let weights = inputs.get(1).and_then(len).zip(inputs.get(2).and_then(len));
        let macs = rows.zip(weights).map_or(0, |(rows, (w, r))| rows.saturating_mul(w.saturating_add(r)));
        Cost::of_moving(inputs, outputs).with_macs(macs)
    }
}

impl CpuLayer for Recurrence {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(io.inputs, io.outputs, &io.context))
    }
}

impl Recurrence {
    fn run<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &ForwardContext<'_>,
    ) -> Result<()> {
        let ([a, b, features], [directions, rows, hidden]) = (&inputs[0].shape()[..], &inputs[2].shape()[..])
        else {
            return Err(LayerError::shape("the sequence", "three axes", inputs[0].shape()));
        };
        let (steps, batch) = self.split([a, b]);
        let sizes = Sizes { steps, batch, hidden: *hidden };
        // With no steps, states remain, and a length and a position for each sequence.
        let held = [steps.max(1), batch, directions * (rows + hidden).max(1), size_of::<T>().max(8)];
        let held = held.iter().fold(1u64, |held, &len| held.saturating_mul(len as u64));
        context.limits().check_tensor("the gates of a recurrent network", held)?;
        let at = |position: Option<usize>| position.and_then(|position| inputs.get(position));
        let plain = |position| at(position).map(float::read::<T>).transpose();
        let x = self.read::<T>(inputs.first())?.unwrap_or_default();
        let (w, r) = (plain(Some(1))?.unwrap_or_default(), plain(Some(2))?.unwrap_or_default());
        let (b, p) = (plain(self.optional_inputs.bias)?, plain(self.optional_inputs.peepholes)?);
        let state = |given: Option<Cow<'_, [T]>>| {
            given.map_or_else(|| vec![T::zero(); directions * batch * hidden], Cow::into_owned)
        };
        let (mut h, mut c) = (
            state(self.read(at(self.optional_inputs.hidden))?),
            state(self.read(at(self.optional_inputs.memory))?),
        );
        let lens = lengths(at(self.optional_inputs.lens), sizes)?;
        let mut all = vec![T::zero(); steps * directions * batch * hidden];
        let size = (batch * hidden).max(1);
        let states = h.chunks_exact_mut(size).zip(c.chunks_exact_mut(size));
        for (direction, (hidden, memory)) in states.enumerate() {
            let weights = Weights {
                input: matrix(part(&w, direction, *directions), *rows, *features)?,
                state: matrix(part(&r, direction, *directions), *rows, sizes.hidden)?,
                biases: b.as_deref().map(|b| part(b, direction, *directions).split_at(*rows)),
                peepholes: p.as_deref().map(|p| part(p, direction, *directions)),
            };
            let state = State { hidden, memory };
            self.direction(direction, sizes, &x, &lens, &weights, state, &mut all, context)?;
        }
        let whole = Layout::contiguous(Shape::new(&[steps, *directions, batch, *hidden])?);
        let last = Layout::contiguous(Shape::new(&[*directions, batch, *hidden])?);
        for (part, output) in self.parts.iter().zip(outputs) {
            let view = match part {
                Part::All => TensorView::from_slice(&all, whole)?,
                Part::Hidden => TensorView::from_slice(&h, last)?,
                Part::Memory => TensorView::from_slice(&c, last)?,
            };
            let order: &[usize] = match (part, self.batch_first) {
                (Part::All, true) => &[2, 0, 1, 3],
                (Part::All, false) => &[0, 1, 2, 3],
                (_, true) => &[1, 0, 2],
                (_, false) => &[0, 1, 2],
            };
            output.cast_from(&view.with_layout(view.layout().permute(order)?)?)?;
        }
        Ok(())
    }

    /// The elements of a tensor of three axes, with the batch as the second axis.
    fn read<'a, T: Float>(&self, view: Option<&TensorView<'a>>) -> Result<Option<Cow<'a, [T]>>> {
        match view {
            None => Ok(None),
            Some(view) if self.batch_first => {
                let turned = view.with_layout(view.layout().permute(&[1, 0, 2])?)?;
                float::read(&turned).map(Some)
            }
            Some(view) => float::read(view).map(Some),
        }
    }

    /// Runs one direction, and writes its hidden states to S×directions×N×H.
    #[allow(clippy::too_many_arguments, reason = "each is a different part of one network")]
    fn direction<T: Float>(
        &self,
        number: usize,
        sizes: Sizes,
        x: &[T],
        lens: &[usize],
        weights: &Weights<'_, T>,
        mut state: State<'_, T>,
        all: &mut [T],
        context: &ForwardContext<'_>,
    ) -> Result<()> {
        let Some((is_reverse, functions)) = self.directions.get(number) else { return Ok(()) };
        let Sizes { steps, batch, hidden, .. } = sizes;
        let rows = weights.input.nrows();
        let mut from_inputs = vec![T::zero(); steps * batch * rows];
        context.limits().check_deadline()?;
        multiplied(x, weights.input, weights.biases.map(|(first, _)| first), &mut from_inputs)?;
        let mut gates = vec![T::zero(); batch * rows];
        for step in 0..steps {
            context.limits().check_deadline()?;
            // The position in each sequence. After its end, its state is kept.
            let place = |len: usize| match is_reverse {
                _ if step >= len => None,
                true => Some(len - 1 - step),
                false => Some(step),
            };
            let places: Vec<Option<usize>> = lens.iter().map(|&len| place(len)).collect();
            for ((sample, place), gates) in places.iter().enumerate().zip(gates.chunks_exact_mut(rows.max(1)))
            {
                let Some(place) = place else { continue };
                let start = (place * batch + sample) * rows;
                gates.copy_from_slice(&from_inputs[start..start + rows]);
            }
            self.step(functions, weights, &mut gates, &mut state, &places, hidden)?;
            for (sample, place) in places.iter().enumerate() {
                let Some(place) = place else { continue };
                let start = ((place * self.directions.len() + number) * batch + sample) * hidden;
                all[start..start + hidden]
                    .copy_from_slice(&state.hidden[sample * hidden..(sample + 1) * hidden]);
            }
        }
        Ok(())
    }

    /// One step of all sequences that have a position, from the products with their inputs.
    fn step<T: Float>(
        &self,
        functions: &[Function],
        weights: &Weights<'_, T>,
        gates: &mut [T],
        state: &mut State<'_, T>,
        places: &[Option<usize>],
        hidden: usize,
    ) -> Result<()> {
        let rows = weights.state.nrows();
        let bias = weights.biases.map(|(_, second)| second);
        let mut products = vec![T::zero(); gates.len()];
        multiplied(state.hidden, weights.state, bias, &mut products)?;
        let one = hidden.max(1);
        if self.cell == (Cell::Gru { after_product: false }) {
            let reset = self.reset(functions, gates, &products, state.hidden, hidden);
            let of_new = weights.state.slice(ndarray::s![2 * hidden.., ..]);
            let mut again = vec![T::zero(); reset.len()];
            multiplied(&reset, of_new, bias.map(|bias| &bias[2 * hidden..]), &mut again)?;
            for (products, again) in products.chunks_exact_mut(rows.max(1)).zip(again.chunks_exact(one)) {
                products[2 * hidden..].copy_from_slice(again);
            }
        }
        let samples = gates.chunks_exact(rows.max(1)).zip(products.chunks_exact(rows.max(1)));
        let states = state.hidden.chunks_exact_mut(one).zip(state.memory.chunks_exact_mut(one));
        for (((gates, products), (h, c)), place) in samples.zip(states).zip(places) {
            if place.is_some() {
                let sample =
                    Sample { gates, products, peepholes: weights.peepholes, clip: self.clip, hidden };
                sample.update(self.cell, functions, h, c);
            }
        }
        Ok(())
    }

    /// The state times the reset gate of a GRU.
    fn reset<T: Float>(
        &self,
        functions: &[Function],
        gates: &[T],
        products: &[T],
        state: &[T],
        hidden: usize,
    ) -> Vec<T> {
        let rows = (3 * hidden).max(1);
        let samples = gates.chunks_exact(rows).zip(products.chunks_exact(rows));
        let mut reset = Vec::with_capacity(state.len());
        for ((gates, products), state) in samples.zip(state.chunks_exact(hidden.max(1))) {
            let sample = Sample { gates, products, peepholes: None, clip: self.clip, hidden };
            reset.extend(state.iter().enumerate().map(|(unit, &h)| functions[0].at(sample.sum(1, unit)) * h));
        }
        reset
    }
}

/// The sums of one sequence at one step.
struct Sample<'a, T> {
    gates: &'a [T],
    products: &'a [T],
    peepholes: Option<&'a [T]>,
    clip: Option<f64>,
    hidden: usize,
}

impl<T: Float> Sample<'_, T> {
    fn clipped(&self, sum: T) -> T {
        match self.clip.map(T::of) {
            Some(most) if sum > most => most,
            Some(most) if sum < -most => -most,
            _ => sum,
        }
    }

    /// The pre-activation of a gate, from input and state.
    fn sum(&self, gate: usize, unit: usize) -> T {
        let at = gate * self.hidden + unit;
        self.clipped(self.gates[at] + self.products[at])
    }

    /// The pre-activation of a gate with a peephole to the cell state.
    fn peeping(&self, gate: usize, peephole: usize, unit: usize, memory: T) -> T {
        let at = gate * self.hidden + unit;
        let seen = self.peepholes.map_or(T::zero(), |p| p[peephole * self.hidden + unit] * memory);
        self.clipped(self.gates[at] + self.products[at] + seen)
    }

    /// Updates hidden state and cell state for the step.
    fn update(&self, cell: Cell, functions: &[Function], h: &mut [T], c: &mut [T]) {
        let f = |number: usize, x: T| functions[number].at(x);
        for (unit, (h, c)) in h.iter_mut().zip(c).enumerate() {
            match cell {
                Cell::Rnn => *h = f(0, self.sum(0, unit)),
                Cell::Lstm { input_forget } => {
                    let input = f(0, self.peeping(0, 0, unit, *c));
                    let forget = match input_forget {
                        true => T::one() - input,
                        false => f(0, self.peeping(2, 2, unit, *c)),
                    };
                    *c = forget * *c + input * f(1, self.sum(3, unit));
                    *h = f(0, self.peeping(1, 1, unit, *c)) * f(2, *c);
                }
                Cell::Gru { after_product } => {
                    let update = f(0, self.sum(0, unit));
                    let new = match after_product {
                        true => {
                            let at = 2 * self.hidden + unit;
                            let reset = f(0, self.sum(1, unit));
                            self.clipped(self.gates[at] + reset * self.products[at])
                        }
                        false => self.sum(2, unit),
                    };
                    let new = f(1, new);
                    *h = new + update * (*h - new);
                }
            }
        }
    }
}

/// The slice of one direction.
fn part<T>(data: &[T], direction: usize, directions: usize) -> &[T] {
    let len = data.len() / directions.max(1);
    &data[direction * len..(direction + 1) * len]
}

/// The length of each sequence in the batch.
fn lengths(given: Option<&TensorView<'_>>, sizes: Sizes) -> Result<Vec<usize>> {
    let Some(given) = given else { return Ok(vec![sizes.steps; sizes.batch]) };
    let lens = Converted::of(given, DType::I64)?;
    let len = |&index: &i64| {
        let len = usize::try_from(index).ok().filter(|len| *len <= sizes.steps);
        let what = "length of a sequence";
        len.ok_or_else(|| TensorError::OutOfRange { what, index, len: sizes.steps }.into())
    };
    lens.view().array::<i64>()?.iter().map(len).collect()
}
