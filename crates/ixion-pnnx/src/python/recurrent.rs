//! `nn.RNN`, `nn.LSTM` and `nn.GRU`, of which a file may have some of the results.

use super::Writer;
use super::error::{PythonProblem, Written};
use super::literal::tuple;
use crate::ids::OperandId;
use crate::operand::Dim;
use crate::operator::Operator;

/// One result of a recurrent network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The output sequence of the last layer.
    Output,
    /// The hidden state of all layers after the last step.
    Hidden,
    /// The cell state of all layers after the last step.
    Memory,
}

use Part::{Hidden, Memory, Output};

/// The orders in which PNNX lists results, the usual ones first. If a model uses `h_n`, `c_n` and then the output of a batch,
/// PNNX moves the output to the front; if the output remains last, the model used `c_n` first.
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

impl Writer<'_> {
    /// Calls a recurrent module, which takes a sequence and its initial states, and returns a sequence and its final states. An
    /// LSTM has two states in one tuple.
    pub(super) fn recurrent(&mut self, member: &str, operator: &Operator, inputs: &[String]) -> Written {
        let is_lstm = operator.op_type() == "nn.LSTM";
        let arguments = match (is_lstm, inputs) {
            (_, [sequence]) => sequence.clone(),
            (false, [sequence, hidden]) => format!("{sequence}, {hidden}"),
            (true, [sequence, hidden, memory]) => format!("{sequence}, ({hidden}, {memory})"),
            _ => {
                let wanted = "a sequence, and all initial states or none";
                return Err(PythonProblem::Inputs { wanted, found: inputs.len() });
            }
        };
        let used = self.outputs_in_use(operator);
        // Shared weights, which are no inputs in PyTorch, come first.
        let shared = operator.inputs().len().saturating_sub(inputs.len());
        let sequence = operator.inputs().get(shared).copied();
        let parts = self.parts(operator, sequence, &used)?;
        let variable = |part: Part| {
            let position = parts.iter().position(|other| *other == part);
            let output = position.and_then(|position| used.get(position));
            output.map_or_else(|| "_".to_owned(), |&output| self.variable(output))
        };
        let (output, hidden, memory) = (variable(Output), variable(Hidden), variable(Memory));
        let has_states = hidden != "_" || memory != "_";
        let states = if is_lstm && has_states { format!("({hidden}, {memory})") } else { hidden };
        self.forward.push(format!("{output}, {states} = {member}({arguments})"));
        if self.is_unpacked(operator) {
            let results = tuple(used.iter().map(|&output| self.variable(output)));
            self.assign(operator, &results);
        }
        Ok(())
    }

    /// The results that these outputs hold, told by their recorded shapes: PNNX omits unused results, and lists the others in the
    /// order in which the model uses them, without names.
    fn parts(
        &self,
        operator: &Operator,
        sequence: Option<OperandId>,
        outputs: &[OperandId],
    ) -> Written<&'static [Part]> {
        let is_lstm = operator.op_type() == "nn.LSTM";
        let swapped = operator.get_or("pnnx_rnn_output_swapped", 0_i64).unwrap_or(0) != 0;
        match (swapped, is_lstm, outputs.len()) {
            (true, true, 3) => return Ok(&[Hidden, Memory, Output]),
            (true, false, 2) => return Ok(&[Hidden, Output]),
            _ => {}
        }
        let graph = self.graph;
        let shape = |id: &OperandId| graph.get_operand(*id).and_then(|operand| operand.shape());
        let shapes: Vec<Option<&[Dim]>> = outputs.iter().map(shape).collect();
        let network = Network::of(operator, sequence.as_ref().and_then(shape));
        let rank = network.sequence.or(shapes.first().copied().flatten()).map(<[Dim]>::len);
        let orders = orders(is_lstm, outputs.len(), rank.is_none_or(|rank| rank == 3));
        let fits = |order: &&&[Part], precisely: bool| {
            let mut pairs = order.iter().zip(&shapes);
            pairs.all(|(&part, shape)| shape.is_none_or(|shape| network.may_be(part, shape, rank, precisely)))
        };
        let fitting = |precisely| orders.iter().find(|order| fits(order, precisely));
        let found = fitting(true).or_else(|| fitting(false)).or(orders.first()).copied();
        let wanted = if is_lstm { "1 to 3 outputs" } else { "1 or 2 outputs" };
        found.ok_or(PythonProblem::Outputs { wanted, found: outputs.len() })
    }
}

/// The sizes of a network that tell its results apart.
struct Network<'g> {
    /// The recorded shape of the input.
    sequence: Option<&'g [Dim]>,
    batch_first: bool,
    /// Layers times directions, the first axis of the states.
    states: i64,
    /// The last axes of the output, `h_n` and `c_n`.
    lengths: [i64; 3],
}

impl<'g> Network<'g> {
    fn of(operator: &Operator, sequence: Option<&'g [Dim]>) -> Self {
        let number = |key: &str, default: i64| operator.get_or(key, default).unwrap_or(default);
        let truth = |key: &str| operator.get_or(key, false).unwrap_or(false);
        let directions = if truth("bidirectional") { 2 } else { 1 };
        let memory = number("hidden_size", 0);
        let hidden = Some(number("proj_size", 0)).filter(|size| *size > 0).unwrap_or(memory);
        Self {
            sequence,
            batch_first: truth("batch_first"),
            states: number("num_layers", 1).saturating_mul(directions),
            lengths: [hidden.saturating_mul(directions), hidden, memory],
        }
    }

    /// Returns true if a result may have this shape, as far as shapes are known. If `precisely`, axes of unknown length are
    /// equal only to each other: PNNX writes `?` for exactly those that differ in its samples.
    fn may_be(&self, part: Part, shape: &[Dim], rank: Option<usize>, precisely: bool) -> bool {
        let fixed = |length: i64| u64::try_from(length).ok().map(Dim::Fixed);
        let axis = |axis: usize| self.sequence.and_then(|dims| dims.get(axis)).cloned();
        let [output, hidden, memory] = self.lengths.map(fixed);
        let batch = usize::from(!self.batch_first);
        let (first, middle, last) = match part {
            Output => (axis(0), axis(1), output),
            Hidden => (fixed(self.states), axis(batch), hidden),
            Memory => (fixed(self.states), axis(batch), memory),
        };
        let is_batched = rank.unwrap_or(shape.len()) != 2;
        let wanted = if is_batched { vec![first, middle, last] } else { vec![first, last] };
        let may_equal = |(found, wanted): (&Dim, Option<Dim>)| match (found, wanted) {
            (_, None) => true,
            (Dim::Fixed(found), Some(Dim::Fixed(wanted))) => *found == wanted,
            (found, Some(wanted)) => !precisely || *found == wanted,
        };
        shape.len() == wanted.len() && shape.iter().zip(wanted).all(may_equal)
    }
}
