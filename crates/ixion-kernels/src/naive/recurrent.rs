//! Recurrent networks by their definitions.

use super::matmul;
use crate::Float;
use crate::recurrent::{Cell, Direction};
use ndarray::{Array2, ArrayView2, ArrayView3, Axis, Zip, aview1, s};

/// Runs one layer in one direction over S×N×I inputs, starting from a state N×P and a memory N×H, as `torch.nn.RNN`,
/// `torch.nn.LSTM` and `torch.nn.GRU`. Returns the outputs of all steps, SN×P, and the state and the memory after the
/// last step.
///
/// # Panics
/// Panics if shapes do not match.
pub fn recurrent<T: Float>(
    direction: &Direction<'_, T>,
    input: ArrayView3<'_, T>,
    state: ArrayView2<'_, T>,
    memory: ArrayView2<'_, T>,
) -> (Array2<T>, Array2<T>, Array2<T>) {
    let (mut state, mut memory) = (state.to_owned(), memory.to_owned());
    let batch = state.nrows();
    let mut outputs = Array2::zeros((direction.steps * batch, state.ncols()));
    for index in 0..direction.steps {
        let at = if direction.reverse { direction.steps - 1 - index } else { index };
        (state, memory) = step(direction, input.index_axis(Axis(0), at), &state, &memory);
        outputs.slice_mut(s![at * batch..(at + 1) * batch, ..]).assign(&state);
    }
    (outputs, state, memory)
}

/// The state and the memory after one step.
fn step<T: Float>(
    direction: &Direction<'_, T>,
    input: ArrayView2<'_, T>,
    state: &Array2<T>,
    memory: &Array2<T>,
) -> (Array2<T>, Array2<T>) {
    let weights = &direction.weights;
    let mut from_input = matmul(input, weights.input.t());
    let mut from_state = matmul(state.view(), weights.hidden.t());
    if let Some([first, second]) = weights.biases {
        from_input += &aview1(first);
        from_state += &aview1(second);
    }
    let sums = &from_input + &from_state;
    let hidden = memory.ncols();
    let gate = |sums: &Array2<T>, number: usize| -> Array2<T> {
        sums.slice(s![.., number * hidden..(number + 1) * hidden]).to_owned()
    };
    let sigmoid = |x: T| T::one() / (T::one() + (-x).exp());
    match direction.cell {
        Cell::Tanh => (sums.mapv(T::tanh), memory.clone()),
        Cell::Relu => (sums.mapv(|x| if x < T::zero() { T::zero() } else { x }), memory.clone()),
        Cell::Lstm => {
            let (input, forget) = (gate(&sums, 0).mapv(sigmoid), gate(&sums, 1).mapv(sigmoid));
            let (cell, output) = (gate(&sums, 2).mapv(T::tanh), gate(&sums, 3).mapv(sigmoid));
            let memory = &forget * memory + &input * &cell;
            let state = &output * &memory.mapv(T::tanh);
            match weights.projection {
                Some(projection) => (matmul(state.view(), projection.t()), memory),
                None => (state, memory),
            }
        }
        Cell::Gru => {
            let (reset, update) = (gate(&sums, 0).mapv(sigmoid), gate(&sums, 1).mapv(sigmoid));
            let new = (gate(&from_input, 2) + &reset * &gate(&from_state, 2)).mapv(T::tanh);
            let mut next = new.clone();
            Zip::from(&mut next).and(&update).and(state).for_each(|next, &z, &before| {
                *next = (T::one() - z) * *next + z * before;
            });
            (next, memory.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recurrent::Weights;
    use ndarray::{arr2, arr3};

    /// One unit, whose input has weight 1 and whose state has weight 2.
    #[test]
    fn two_steps_by_hand() {
        let (one, two, empty) = (arr2(&[[1f64]]), arr2(&[[2.0]]), arr2(&[[0.0]]));
        let weights = Weights { input: one.view(), hidden: two.view(), biases: None, projection: None };
        let run = |reverse| {
            let direction =
                Direction { cell: Cell::Relu, steps: 2, batch: 1, reverse, weights: weights.clone() };
            recurrent(&direction, arr3(&[[[3.0]], [[-10.0]]]).view(), one.view(), empty.view())
        };
        assert_eq!(run(false), (arr2(&[[5.0], [0.0]]), arr2(&[[0.0]]), empty.clone()));
        assert_eq!(run(true), (arr2(&[[3.0], [0.0]]), arr2(&[[3.0]]), empty.clone()));
    }
}
