//! `nn.RNN`, `nn.LSTM` and `nn.GRU`, of which a file may have some of the results.

use super::Writer;
use super::error::{PythonProblem, Written};
use super::literal::tuple;
use crate::ids::OperandId;
use crate::operand::Dim;
use crate::operator::Operator;
use crate::recurrent::Network;
use crate::recurrent::Part::{self, Hidden, Memory, Output};

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

    /// The results that these outputs hold.
    fn parts(
        &self,
        operator: &Operator,
        sequence: Option<OperandId>,
        outputs: &[OperandId],
    ) -> Written<&'static [Part]> {
        let graph = self.graph;
        let shape = |id: &OperandId| graph.get_operand(*id).and_then(|operand| operand.shape());
        let shapes: Vec<Option<&[Dim]>> = outputs.iter().map(shape).collect();
        let network = network(operator, sequence.as_ref().and_then(shape));
        let wanted = if network.is_lstm { "1 to 3 outputs" } else { "1 or 2 outputs" };
        network.parts(&shapes).ok_or(PythonProblem::Outputs { wanted, found: outputs.len() })
    }
}

/// What distinguishes the results of an operator that reads a sequence of this shape.
fn network<'g>(operator: &Operator, input: Option<&'g [Dim]>) -> Network<'g> {
    let number = |key: &str, default: u64| {
        let number = operator.get_or(key, i64::try_from(default).unwrap_or(i64::MAX));
        number.ok().and_then(|number| u64::try_from(number).ok()).unwrap_or(default)
    };
    let truth = |key: &str| operator.get_or(key, false).unwrap_or(false);
    let directions = if truth("bidirectional") { 2 } else { 1 };
    let memory = number("hidden_size", 0);
    let hidden = Some(number("proj_size", 0)).filter(|size| *size > 0).unwrap_or(memory);
    Network {
        is_lstm: operator.op_type() == "nn.LSTM",
        states: number("num_layers", 1).saturating_mul(directions),
        output: hidden.saturating_mul(directions),
        hidden,
        memory,
        batch_first: truth("batch_first"),
        is_swapped: number("pnnx_rnn_output_swapped", 0) != 0,
        input,
    }
}
