//! Recurrent networks: one layer in one direction over a whole sequence.

use super::Float;
use super::columns::{matrix, matrix_mut};
use super::gemm::gemm;
use ixion_tensor::{LimitError, Limits};
use ndarray::{ArrayView2, ArrayViewMut2, s};

/// The recurrence of a layer, computed at each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// h = tanh(a), where a is the sum of the products of the input and of the previous state with their weights.
    Tanh,
    /// h = max(a, 0).
    Relu,
    /// Long short-term memory (Hochreiter and Schmidhuber 1997, with the gate of Gers et al. 2000).
    Lstm,
    /// The gated recurrent unit (Cho et al. 2014), in the form that applies the reset gate after the matrix product, as
    /// in PyTorch.
    Gru,
}

impl Cell {
    /// The number of rows of weights per hidden unit, in PyTorch's order: input, forget, cell and output for
    /// [`Cell::Lstm`]; reset, update and new for [`Cell::Gru`].
    pub fn gates(self) -> usize {
        match self {
            Self::Tanh | Self::Relu => 1,
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }
}

/// The weights of one layer in one direction, for I inputs, H hidden units and P outputs, where P is H unless there is a
/// projection; G is [`Cell::gates`].
#[derive(Debug, Clone)]
pub struct Weights<'a, T> {
    /// GH×I: the weights of the input.
    pub input: ArrayView2<'a, T>,
    /// GH×P: the weights of the previous state.
    pub hidden: ArrayView2<'a, T>,
    /// GH each: the biases of the two products, in this order.
    pub biases: Option<[&'a [T]; 2]>,
    /// P×H: the projection of the state of [`Cell::Lstm`].
    pub projection: Option<ArrayView2<'a, T>>,
}

/// One layer in one direction.
#[derive(Debug, Clone)]
pub struct Direction<'a, T> {
    /// The recurrence of each step.
    pub cell: Cell,
    /// The length of the sequence.
    pub steps: usize,
    /// The number of sequences.
    pub batch: usize,
    /// Whether the sequence is processed from its last step to its first.
    pub reverse: bool,
    /// The weights of the inputs and of the state.
    pub weights: Weights<'a, T>,
}

/// The state that is passed from step to step: the initial state before the first step, and the final state after the
/// last.
#[derive(Debug)]
pub struct State<'a, T> {
    /// N×P: the state, which is also the output of a step.
    pub hidden: &'a mut [T],
    /// N×H: the memory of [`Cell::Lstm`]; other cells leave it unchanged.
    pub memory: &'a mut [T],
}

/// The number of elements of scratch memory that [`Direction::run`] needs, with `hidden` hidden units.
pub fn scratch_len(cell: Cell, steps: usize, batch: usize, hidden: usize) -> usize {
    let units = batch.saturating_mul(hidden);
    let gates = units.saturating_mul(cell.gates());
    let extra = match cell {
        Cell::Gru => gates,
        Cell::Lstm => units,
        Cell::Tanh | Cell::Relu => 0,
    };
    gates.saturating_mul(steps).saturating_add(extra)
}

impl<T: Float> Direction<'_, T> {
    /// H.
    fn hidden(&self) -> usize {
        self.weights.hidden.nrows() / self.cell.gates()
    }

    /// P.
    fn outputs(&self) -> usize {
        self.weights.hidden.ncols()
    }

    /// GH.
    fn columns(&self) -> usize {
        self.weights.hidden.nrows()
    }

    /// Runs over S×N×I inputs. Step t writes its output to rows t·N to (t+1)·N of `output`, SN×P.
    ///
    /// The products of the inputs are computed for all steps together, those of the state in each step.
    ///
    /// # Errors
    /// [`LimitError::DeadlineExceeded`] if the deadline, which is checked before each step, has passed.
    ///
    /// # Panics
    /// Panics if slices or matrices do not match the sizes, or scratch is shorter than [`scratch_len`]; callers check
    /// this beforehand.
    pub fn run(
        &self,
        input: &[T],
        state: State<'_, T>,
        mut output: ArrayViewMut2<'_, T>,
        scratch: &mut [T],
        limits: &Limits,
    ) -> Result<(), LimitError> {
        let (batch, size) = (self.batch, self.batch * self.columns());
        let (gates, extra) = scratch.split_at_mut(self.steps * size);
        limits.check_deadline()?;
        self.multiply_inputs(input, gates);
        for index in 0..self.steps {
            limits.check_deadline()?;
            let at = if self.reverse { self.steps - 1 - index } else { index };
            self.step(&mut gates[at * size..(at + 1) * size], state.hidden, state.memory, extra);
            let hidden = matrix(state.hidden, batch, self.outputs(), self.outputs());
            output.slice_mut(s![at * batch..(at + 1) * batch, ..]).assign(&hidden);
        }
        Ok(())
    }

    /// Computes the biases plus the products of all inputs. The second bias of [`Cell::Gru`] belongs to the product of
    /// the state.
    fn multiply_inputs(&self, input: &[T], gates: &mut [T]) {
        let (rows, columns) = (self.steps * self.batch, self.columns());
        fill_rows(gates, self.weights.biases.map(|[first, _]| first), columns);
        if let (Some([_, second]), true) = (self.weights.biases, self.cell != Cell::Gru) {
            for row in gates.chunks_exact_mut(columns.max(1)) {
                row.iter_mut().zip(second).for_each(|(sum, &bias)| *sum += bias);
            }
        }
        let features = self.weights.input.ncols();
        let input = matrix(input, rows, features, features);
        gemm(input, self.weights.input.t(), matrix_mut(gates, rows, columns, columns), true);
    }

    fn step(&self, gates: &mut [T], hidden: &mut [T], memory: &mut [T], extra: &mut [T]) {
        if self.cell != Cell::Gru {
            self.multiply_state(hidden, gates);
        }
        match self.cell {
            Cell::Tanh => hidden.iter_mut().zip(gates).for_each(|(h, a)| *h = a.tanh()),
            Cell::Relu => hidden.iter_mut().zip(gates).for_each(|(h, a)| *h = positive(*a)),
            Cell::Gru => {
                fill_rows(extra, self.weights.biases.map(|[_, second]| second), self.columns());
                self.multiply_state(hidden, extra);
                gru(gates, extra, hidden, self.hidden());
            }
            Cell::Lstm => match self.weights.projection {
                None => lstm(gates, memory, hidden, self.hidden()),
                Some(projection) => {
                    lstm(gates, memory, extra, self.hidden());
                    let long = matrix(extra, self.batch, self.hidden(), self.hidden());
                    let short = matrix_mut(hidden, self.batch, self.outputs(), self.outputs());
                    gemm(long, projection.t(), short, false);
                }
            },
        }
    }

    /// Adds the product of the state.
    fn multiply_state(&self, hidden: &[T], sums: &mut [T]) {
        let hidden = matrix(hidden, self.batch, self.outputs(), self.outputs());
        let sums = matrix_mut(sums, self.batch, self.columns(), self.columns());
        gemm(hidden, self.weights.hidden.t(), sums, true);
    }
}

/// Fills rows with a bias, or with zeros.
fn fill_rows<T: Float>(rows: &mut [T], bias: Option<&[T]>, columns: usize) {
    match bias {
        Some(bias) => rows.chunks_exact_mut(columns.max(1)).for_each(|row| row.copy_from_slice(bias)),
        None => rows.fill(T::zero()),
    }
}

/// The memory and the output of a step, from the sums of its four gates.
fn lstm<T: Float>(gates: &[T], memory: &mut [T], output: &mut [T], hidden: usize) {
    let samples = memory.chunks_exact_mut(hidden).zip(output.chunks_exact_mut(hidden));
    for (gates, (memory, output)) in gates.chunks_exact(4 * hidden).zip(samples) {
        let ((input, forget), (cell, out)) = halves(gates, hidden);
        let gates = input.iter().zip(forget).zip(cell.iter().zip(out));
        for (((&i, &f), (&g, &o)), (c, h)) in gates.zip(memory.iter_mut().zip(output)) {
            *c = sigmoid(f) * *c + sigmoid(i) * g.tanh();
            *h = sigmoid(o) * c.tanh();
        }
    }
}

/// Two slices of a row of gates.
type Two<'a, T> = (&'a [T], &'a [T]);

/// The four slices of a row of gates.
fn halves<T>(gates: &[T], hidden: usize) -> (Two<'_, T>, Two<'_, T>) {
    let (first, second) = gates.split_at(2 * hidden);
    (first.split_at(hidden), second.split_at(hidden))
}

/// The state after a step, from the products of the input and of the state for three gates each.
fn gru<T: Float>(inputs: &[T], states: &[T], state: &mut [T], hidden: usize) {
    let samples = inputs.chunks_exact(3 * hidden).zip(states.chunks_exact(3 * hidden));
    for ((input, product), state) in samples.zip(state.chunks_exact_mut(hidden)) {
        let (gates, new) = input.split_at(2 * hidden);
        let (gates_h, new_h) = product.split_at(2 * hidden);
        let gates = gates.iter().zip(gates_h).map(|(&x, &h)| x + h);
        let gates = gates.clone().take(hidden).zip(gates.skip(hidden));
        for (((reset, update), (&n, &n_h)), h) in gates.zip(new.iter().zip(new_h)).zip(state) {
            let new = (n + sigmoid(reset) * n_h).tanh();
            *h = new + sigmoid(update) * (*h - new);
        }
    }
}

fn sigmoid<T: Float>(x: T) -> T {
    T::one() / (T::one() + (-x).exp())
}

/// max(x, 0); NaN stays NaN.
fn positive<T: Float>(x: T) -> T {
    if x < T::zero() { T::zero() } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use crate::testing::noise;
    use ndarray::{Array2, Array3};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_equals_the_naive_one(
            (steps, batch, inputs, hidden) in (0usize..6, 0usize..4, 0usize..4, 1usize..6),
            cell in prop::sample::select(vec![Cell::Tanh, Cell::Relu, Cell::Lstm, Cell::Gru]),
            (reverse, biased, projected) in any::<(bool, bool, bool)>(),
        ) {
            let projected = projected && cell == Cell::Lstm;
            let (rows, outputs) = (cell.gates() * hidden, if projected { hidden.div_ceil(2) } else { hidden });
            let (input_weights, hidden_weights) = (noise(rows, inputs, 1), noise(rows, outputs, 2));
            let (biases, projection) = (noise(2, rows, 3), noise(outputs, hidden, 4));
            let (first, second) = biases.as_slice().unwrap().split_at(rows);
            let weights = Weights {
                input: input_weights.view(),
                hidden: hidden_weights.view(),
                biases: biased.then_some([first, second]),
                projection: projected.then_some(projection.view()),
            };
            let direction = Direction { cell, steps, batch, reverse, weights };
            let input = Array3::from_shape_fn((steps, batch, inputs), |(t, n, i)| ((t * 5 + n * 3 + i) % 7) as f64 / 3.0 - 1.0);
            let (mut state, mut memory) = (noise(batch, outputs, 5), noise(batch, hidden, 6));
            let want = naive::recurrent(&direction, input.view(), state.view(), memory.view());
            let mut output = Array2::from_elem((steps * batch, outputs), 7.0);
            let mut scratch = vec![9.0; scratch_len(cell, steps, batch, hidden)];
            let ends = State { hidden: state.as_slice_mut().unwrap(), memory: memory.as_slice_mut().unwrap() };
            let input = input.as_slice().unwrap();
            direction.run(input, ends, output.view_mut(), &mut scratch, &Limits::default()).unwrap();
            for (got, want) in [(output, want.0), (state, want.1), (memory, want.2)] {
                prop_assert_eq!(got.dim(), want.dim());
                for (got, want) in got.iter().zip(&want) {
                    prop_assert!((got - want).abs() < 1e-9, "{} where {} is expected", got, want);
                }
            }
        }
    }

    #[test]
    fn a_passed_deadline_stops_the_run() {
        let weights = noise(1, 1, 1);
        let weights =
            Weights { input: weights.view(), hidden: weights.view(), biases: None, projection: None };
        let direction = Direction { cell: Cell::Tanh, steps: 3, batch: 1, reverse: false, weights };
        let (mut hidden, mut output, mut scratch) = ([0.0], Array2::zeros((3, 1)), [0.0; 3]);
        let state = State { hidden: &mut hidden, memory: &mut [] };
        let late = Limits::default().with_timeout(std::time::Duration::ZERO);
        let result = direction.run(&[1.0, 2.0, 3.0], state, output.view_mut(), &mut scratch, &late);
        assert_eq!(result, Err(LimitError::DeadlineExceeded));
    }
}
