//! Identifying the results of a recurrent network that an operator's outputs hold.
//!
//! PNNX omits unused results and lists the others in the order in which the model uses them, without names. They are told
//! apart by the shapes that the file records.

use crate::op::{FieldValue, OperatorReader, Result};
use ixion_kernels::recurrent::Cell;
use ixion_pnnx::Dim;

/// One result of a recurrent network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The output sequence of the last layer.
    Output,
    /// The hidden state of all layers after the last step, `h_n`.
    Hidden,
    /// The cell state of all layers after the last step, `c_n`.
    Memory,
}

use Part::{Hidden, Memory, Output};

/// The shapes that the file records for the operator's outputs and its first input.
#[derive(Debug, Clone)]
pub struct Recorded {
    input: Option<Vec<Dim>>,
    outputs: Vec<Option<Vec<Dim>>>,
}

impl FieldValue for Recorded {
    const KIND: &'static str = crate::op::NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        let owned = |shape: Option<&[Dim]>| shape.map(<[Dim]>::to_vec);
        let outputs = (0..reader.num_outputs()).map(|position| owned(reader.output_shape(position)));
        Ok(Some(Self { outputs: outputs.collect(), input: owned(reader.input_shape(0)) }))
    }
}

/// The sizes that distinguish the results.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lengths {
    /// Layers times directions, which is the first axis of the states.
    pub(super) states: usize,
    /// The last axis of the output.
    pub(super) output: usize,
    /// The last axis of `h_n`.
    pub(super) hidden: usize,
    /// The last axis of `c_n`.
    pub(super) memory: usize,
    /// Whether the batch is the first axis of input and output.
    pub(super) batch_first: bool,
}

/// The orders in which results may be listed, the usual ones first. If a model uses `h_n`, `c_n` and then the output of a
/// batch, PNNX moves the output to the front; if the output remains last, the model used `c_n` first.
fn orders(cell: Cell, count: usize, batched: bool) -> &'static [&'static [Part]] {
    match (cell, count) {
        (Cell::Lstm, 1) => &[&[Output], &[Hidden], &[Memory]],
        (Cell::Lstm, 2) => &[
            &[Output, Hidden],
            &[Hidden, Output],
            &[Hidden, Memory],
            &[Output, Memory],
            &[Memory, Output],
            &[Memory, Hidden],
        ],
        (Cell::Lstm, 3) if batched => &[
            &[Output, Hidden, Memory],
            &[Memory, Hidden, Output],
            &[Hidden, Output, Memory],
            &[Output, Memory, Hidden],
            &[Memory, Output, Hidden],
            &[Hidden, Memory, Output],
        ],
        (Cell::Lstm, 3) => &[
            &[Output, Hidden, Memory],
            &[Hidden, Memory, Output],
            &[Hidden, Output, Memory],
            &[Output, Memory, Hidden],
            &[Memory, Output, Hidden],
            &[Memory, Hidden, Output],
        ],
        (_, 1) => &[&[Output], &[Hidden]],
        (_, 2) => &[&[Output, Hidden], &[Hidden, Output]],
        _ => &[],
    }
}

impl Recorded {
    /// The results that the operator's outputs hold, in their order; `None` if there are too many or too few outputs. If
    /// `swapped`, the output sequence is the last one.
    pub(super) fn parts(&self, cell: Cell, lengths: Lengths, swapped: bool) -> Option<&'static [Part]> {
        let batched = self.rank().is_none_or(|rank| rank == 3);
        let orders = orders(cell, self.outputs.len(), batched);
        match (swapped, cell, orders.len()) {
            (true, Cell::Lstm, 6) if self.outputs.len() == 3 => return Some(&[Hidden, Memory, Output]),
            (true, Cell::Tanh | Cell::Relu | Cell::Gru, _) if self.outputs.len() == 2 => {
                return Some(&[Hidden, Output]);
            }
            _ => {}
        }
        let fits = |order: &&&[Part], precisely: bool| {
            let mut pairs = order.iter().zip(&self.outputs);
            pairs.all(|(&part, shape)| {
                shape.as_ref().is_none_or(|shape| self.may_be(part, shape, lengths, precisely))
            })
        };
        let found = |precisely| orders.iter().find(|order| fits(order, precisely));
        found(true).or_else(|| found(false)).or(orders.first()).copied()
    }

    /// The number of the operator's outputs.
    pub(super) fn count(&self) -> usize {
        self.outputs.len()
    }

    fn rank(&self) -> Option<usize> {
        self.input.as_ref().or(self.outputs.first()?.as_ref()).map(Vec::len)
    }

    /// Returns true if a result may have this shape, as far as shapes are known. If `precisely`, axes of unknown length are
    /// equal only to each other: PNNX writes `?` for exactly those that differ in its samples, so a result whose first axis has
    /// length 1 is no sequence of the input's steps if these are `?`.
    fn may_be(&self, part: Part, shape: &[Dim], lengths: Lengths, precisely: bool) -> bool {
        let rank = self.rank().unwrap_or(shape.len());
        let axis = |axis: usize| self.input.as_ref().and_then(|input| input.get(axis));
        let fixed = |length: usize| Dim::Fixed(length as u64);
        let [states, output, hidden, memory] =
            [lengths.states, lengths.output, lengths.hidden, lengths.memory].map(fixed);
        let (first, middle, last) = match part {
            Output => (axis(0), axis(1), &output),
            Hidden => (Some(&states), axis(usize::from(!lengths.batch_first)), &hidden),
            Memory => (Some(&states), axis(usize::from(!lengths.batch_first)), &memory),
        };
        let wanted = if rank == 2 { vec![first, Some(last)] } else { vec![first, middle, Some(last)] };
        let may_equal = |(found, wanted): (&Dim, Option<&Dim>)| match (found, wanted) {
            (_, None) => true,
            (Dim::Fixed(found), Some(Dim::Fixed(wanted))) => found == wanted,
            (found, Some(wanted)) => !precisely || found == wanted,
        };
        shape.len() == wanted.len() && shape.iter().zip(wanted).all(may_equal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dims: &[u64]) -> Option<Vec<Dim>> {
        Some(dims.iter().map(|&len| if len == 0 { Dim::Unknown } else { Dim::Fixed(len) }).collect())
    }

    /// PNNX's output for models that use an LSTM of 4 units over 5 steps of 2 sequences in different ways.
    #[test]
    fn shapes_identify_results() {
        let lengths = Lengths { states: 1, output: 4, hidden: 4, memory: 4, batch_first: false };
        let parts = |input: &[u64], outputs: &[&[u64]]| {
            let recorded =
                Recorded { input: shape(input), outputs: outputs.iter().map(|s| shape(s)).collect() };
            recorded.parts(Cell::Lstm, lengths, false).unwrap()
        };
        let (x, o, s) = (&[5, 2, 3][..], &[5u64, 2, 4][..], &[1u64, 2, 4][..]);
        assert_eq!(parts(x, &[o]), [Output]);
        assert_eq!(parts(x, &[s]), [Hidden]);
        assert_eq!(parts(x, &[o, s]), [Output, Hidden]);
        assert_eq!(parts(x, &[s, o]), [Hidden, Output]);
        assert_eq!(parts(x, &[s, s]), [Hidden, Memory]);
        assert_eq!(parts(x, &[o, s, s]), [Output, Hidden, Memory]);
        assert_eq!(parts(x, &[s, o, s]), [Hidden, Output, Memory]);
        assert_eq!(parts(x, &[s, s, o]), [Memory, Hidden, Output]);
        let (x, o, s) = (&[5, 3][..], &[5u64, 4][..], &[1u64, 4][..]);
        assert_eq!(parts(x, &[s, s, o]), [Hidden, Memory, Output], "`return lstm(x)` without a batch");
        assert_eq!(parts(x, &[s]), [Hidden]);
        assert_eq!(parts(&[0, 0, 3], &[&[0, 0, 4]]), [Output], "lengths that are not known");
        assert_eq!(parts(&[0, 0, 3], &[&[1, 0, 4]]), [Hidden], "as many steps as the input would be `?`");
        assert_eq!(parts(&[0, 0, 3], &[&[1, 0, 4], &[1, 0, 4]]), [Hidden, Memory]);
        assert_eq!(parts(&[0, 0, 3], &[&[1, 0, 4], &[0, 0, 4]]), [Hidden, Output]);
        assert_eq!(parts(&[5, 2, 3], &[&[0, 2, 4]]), [Output], "no result has that shape precisely");
        assert_eq!(parts(&[0, 2, 3], &[&[1, 2, 4], &[0, 2, 4], &[1, 2, 4]]), [Hidden, Output, Memory]);
        assert_eq!(parts(&[5, 2, 3], &[&[7, 7, 7]]), [Output], "no result has that shape");
    }

    #[test]
    fn other_sizes_and_cells() {
        let lengths = Lengths { states: 4, output: 4, hidden: 2, memory: 6, batch_first: true };
        let parts = |cell, outputs: &[&[u64]], swapped| {
            let outputs: Vec<_> = outputs.iter().map(|s| shape(s)).collect();
            Recorded { input: shape(&[5, 2, 3]), outputs }.parts(cell, lengths, swapped)
        };
        let (o, h, c) = (&[5u64, 2, 4][..], &[4u64, 5, 2][..], &[4u64, 5, 6][..]);
        assert_eq!(parts(Cell::Lstm, &[o, c], false), Some(&[Output, Memory][..]));
        assert_eq!(parts(Cell::Lstm, &[c, o, h], false), Some(&[Memory, Output, Hidden][..]));
        assert_eq!(parts(Cell::Lstm, &[h, c, o], true), Some(&[Hidden, Memory, Output][..]));
        assert_eq!(parts(Cell::Gru, &[h], false), Some(&[Hidden][..]));
        assert_eq!(parts(Cell::Tanh, &[h, o], false), Some(&[Hidden, Output][..]));
        assert_eq!(parts(Cell::Gru, &[o, o], true), Some(&[Hidden, Output][..]));
        assert_eq!(parts(Cell::Gru, &[o, h, c], false), None);
        assert_eq!(parts(Cell::Lstm, &[], false), None);
        let unknown = vec![shape(&[4, 0, 6]), shape(&[4, 0, 2])];
        let recorded = Recorded { input: shape(&[0, 0, 3]), outputs: unknown };
        let lengths = Lengths { output: 2, ..lengths };
        assert_eq!(recorded.parts(Cell::Lstm, lengths, false), Some(&[Memory, Hidden][..]));
    }
}
