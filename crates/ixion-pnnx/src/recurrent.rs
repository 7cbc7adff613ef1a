//! Identifying the results of a recurrent network that an operator's outputs hold.
//!
//! PNNX omits unused results and lists the others in the order in which the model uses them, without names. They are told
//! apart by the shapes that the file records.

use crate::operand::Dim;

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

/// What distinguishes the results of a recurrent network.
#[derive(Debug, Clone, Copy)]
pub struct Network<'a> {
    /// Whether it is an LSTM, which has a cell state.
    pub is_lstm: bool,
    /// Layers times directions, which is the first axis of the states.
    pub states: u64,
    /// The last axis of the output.
    pub output: u64,
    /// The last axis of `h_n`.
    pub hidden: u64,
    /// The last axis of `c_n`.
    pub memory: u64,
    /// Whether the batch is the first axis of input and output.
    pub batch_first: bool,
    /// Whether the output sequence is the last of all results, as PNNX notes below its optimisation level 1.
    pub is_swapped: bool,
    /// The shape that the file records for the input sequence.
    pub input: Option<&'a [Dim]>,
}

/// The orders in which results may be listed, the usual ones first. If a model uses `h_n`, `c_n` and then the output of a
/// batch, PNNX moves the output to the front; if the output remains last, the model used `c_n` first.
fn orders(is_lstm: bool, count: usize, is_batched: bool) -> &'static [&'static [Part]] {
    match (is_lstm, count) {
        (true, 1) => &[&[Output], &[Hidden], &[Memory]],
        (true, 2) => &[
            &[Output, Hidden],
            &[Hidden, Output],
            &[Hidden, Memory],
            &[Output, Memory],
            &[Memory, Output],
            &[Memory, Hidden],
        ],
        (true, 3) if is_batched => &[
            &[Output, Hidden, Memory],
            &[Memory, Hidden, Output],
            &[Hidden, Output, Memory],
            &[Output, Memory, Hidden],
            &[Memory, Output, Hidden],
            &[Hidden, Memory, Output],
        ],
        (true, 3) => &[
            &[Output, Hidden, Memory],
            &[Hidden, Memory, Output],
            &[Hidden, Output, Memory],
            &[Output, Memory, Hidden],
            &[Memory, Output, Hidden],
            &[Memory, Hidden, Output],
        ],
        (false, 1) => &[&[Output], &[Hidden]],
        (false, 2) => &[&[Output, Hidden], &[Hidden, Output]],
        _ => &[],
    }
}

impl Network<'_> {
    /// The results that outputs of the recorded shapes hold, in their order; `None` if there are too many or too few outputs.
    pub fn parts(&self, outputs: &[Option<&[Dim]>]) -> Option<&'static [Part]> {
        match (self.is_swapped, self.is_lstm, outputs.len()) {
            (true, true, 3) => return Some(&[Hidden, Memory, Output]),
            (true, false, 2) => return Some(&[Hidden, Output]),
            _ => {}
        }
        let rank = self.input.or(outputs.first().copied().flatten()).map(<[Dim]>::len);
        let orders = orders(self.is_lstm, outputs.len(), rank.is_none_or(|rank| rank == 3));
        let fits = |order: &&&[Part], precisely: bool| {
            let mut pairs = order.iter().zip(outputs);
            pairs.all(|(&part, shape)| shape.is_none_or(|shape| self.may_be(part, shape, rank, precisely)))
        };
        let found = |precisely| orders.iter().find(|order| fits(order, precisely));
        found(true).or_else(|| found(false)).or(orders.first()).copied()
    }

    /// Returns true if a result may have this shape, as far as shapes are known. If `precisely`, axes of unknown length are
    /// equal only to each other: PNNX writes `?` for exactly those that differ in its samples, so a result whose first axis has
    /// length 1 is no sequence of the input's steps if these are `?`.
    fn may_be(&self, part: Part, shape: &[Dim], rank: Option<usize>, precisely: bool) -> bool {
        let axis = |axis: usize| self.input.and_then(|input| input.get(axis));
        let batch = axis(usize::from(!self.batch_first));
        let [states, output, hidden, memory] =
            [self.states, self.output, self.hidden, self.memory].map(Dim::Fixed);
        let (first, middle, last) = match part {
            Output => (axis(0), axis(1), &output),
            Hidden => (Some(&states), batch, &hidden),
            Memory => (Some(&states), batch, &memory),
        };
        let has_batch = rank.unwrap_or(shape.len()) != 2;
        let wanted = if has_batch { vec![first, middle, Some(last)] } else { vec![first, Some(last)] };
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

    /// The results of outputs of these shapes, in which 0 is an unknown length.
    fn parts(network: Network<'_>, input: &[u64], outputs: &[&[u64]]) -> Option<&'static [Part]> {
        let dim = |&len: &u64| if len == 0 { Dim::Unknown } else { Dim::Fixed(len) };
        let shape = |dims: &[u64]| dims.iter().map(dim).collect::<Vec<_>>();
        let outputs: Vec<Vec<Dim>> = outputs.iter().map(|dims| shape(dims)).collect();
        let outputs: Vec<Option<&[Dim]>> = outputs.iter().map(|dims| Some(dims.as_slice())).collect();
        let input = shape(input);
        Network { input: Some(&input), ..network }.parts(&outputs)
    }

    const LSTM: Network<'static> = Network {
        is_lstm: true,
        states: 1,
        output: 4,
        hidden: 4,
        memory: 4,
        batch_first: false,
        is_swapped: false,
        input: None,
    };

    /// PNNX's output for models that use an LSTM of 4 units over 5 steps of 2 sequences in different ways.
    #[test]
    fn shapes_identify_results() {
        let parts = |input: &[u64], outputs: &[&[u64]]| parts(LSTM, input, outputs).unwrap();
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
        let lstm = Network { states: 4, hidden: 2, memory: 6, batch_first: true, ..LSTM };
        let gru = Network { is_lstm: false, ..lstm };
        let swapped = |network| Network { is_swapped: true, ..network };
        let parts = |network, outputs: &[&[u64]]| parts(network, &[5, 2, 3], outputs);
        let (o, h, c) = (&[5u64, 2, 4][..], &[4u64, 5, 2][..], &[4u64, 5, 6][..]);
        assert_eq!(parts(lstm, &[o, c]), Some(&[Output, Memory][..]));
        assert_eq!(parts(lstm, &[c, o, h]), Some(&[Memory, Output, Hidden][..]));
        assert_eq!(parts(swapped(lstm), &[h, c, o]), Some(&[Hidden, Memory, Output][..]));
        assert_eq!(parts(gru, &[h]), Some(&[Hidden][..]));
        assert_eq!(parts(gru, &[h, o]), Some(&[Hidden, Output][..]));
        assert_eq!(parts(swapped(gru), &[o, o]), Some(&[Hidden, Output][..]));
        assert_eq!(parts(gru, &[o, h, c]), None);
        assert_eq!(parts(lstm, &[]), None);
        let short = Network { output: 2, ..lstm };
        let found = self::parts(short, &[0, 0, 3], &[&[4, 0, 6], &[4, 0, 2]]);
        assert_eq!(found, Some(&[Memory, Hidden][..]));
    }
}
