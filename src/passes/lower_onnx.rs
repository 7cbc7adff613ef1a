//! Replacing ONNX operators by the PyTorch operators that compute them.

use super::bypass::{bypass, refuse_bypass};
use super::context::frozen_operators;
use super::{Outcome, Pass, PassContext, PassError};
use crate::op::{TensorMeta, catch_panic};
use crate::ops::onnx::lower;
use crate::ops::onnx::lowering::{Lowered, LoweredOperator, Source};
use crate::pnnx::{Graph, GraphError, OperandId, Operator, OperatorId};

/// Replaces ONNX operators by the PyTorch operators that compute them, so that other passes, the planner and devices see those.
///
/// An operator stays if the ranks of its inputs or values that decide what is computed are unknown, if one of its steps is not an
/// operator that a file can name, or if the registry has another layer for one: its own layer then runs the steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct LowerOnnx;

impl Pass for LowerOnnx {
    fn name(&self) -> &str {
        "lower_onnx"
    }

    fn doc(&self) -> &str {
        "Replaces ONNX operators by the PyTorch operators that compute them."
    }

    fn run(&self, graph: &mut Graph, context: &mut PassContext) -> Result<Outcome, PassError> {
        let mut outcome = Outcome::default();
        let frozen = frozen_operators(graph);
        for id in graph.operator_ids().to_vec() {
            context.limits().check_deadline().map_err(PassError::limit(self.name()))?;
            if frozen.contains(&id) || !has_onnx_name(graph.operator(id)) {
                continue;
            }
            let Some(lowered) = lowered(graph, context, id) else { continue };
            if let Some(reason) = refuse(graph, id, &lowered) {
                outcome.refuse(graph.operator(id).name(), reason);
                continue;
            }
            splice(graph, id, &lowered).map_err(PassError::edit(self.name()))?;
            outcome.fired += 1;
        }
        Ok(outcome)
    }
}

/// ONNX's names have no dots or colons, as PyTorch's have.
fn has_onnx_name(operator: &Operator) -> bool {
    operator.op_type().chars().all(char::is_alphanumeric)
}

/// The operators that replace an operator; `None` if it cannot be replaced.
fn lowered(graph: &Graph, context: &PassContext, id: OperatorId) -> Option<Lowered> {
    let (operator, facts) = (graph.operator(id), context.facts(graph));
    let runtime = facts.operator(operator.name())?;
    // The layer counts only inputs that are tensors: constants may have become parameters, and lists several inputs.
    if runtime.inputs().len() != operator.inputs().len() {
        return None;
    }
    let layer = runtime.layer()?;
    let known = |&input: &OperandId| facts.meta(graph, input).cloned();
    let inputs: Vec<TensorMeta> = operator.inputs().iter().map(known).collect::<Option<_>>()?;
    // If the operator does not accept its inputs, its own layer has the error.
    let lowered = catch_panic(|| lower(layer, &inputs)).ok().flatten()?;
    let is_built_in = lowered.operators.iter().all(|new| context.is_pure(&new.op_type));
    (is_built_in && lowered.outputs.len() == operator.outputs().len()).then_some(lowered)
}

/// The reason why an operator has to stay: an output is one of its inputs or another output, and both keep their names.
fn refuse(graph: &Graph, id: OperatorId, lowered: &Lowered) -> Option<String> {
    let operator = graph.operator(id);
    let mut outputs = operator.outputs().iter().zip(&lowered.outputs).enumerate();
    outputs.find_map(|(at, (&output, source))| match source {
        Source::Input(position) => {
            let input = operator.inputs().get(*position).copied();
            input.map_or(Some("an input is missing".to_owned()), |input| refuse_bypass(graph, output, input))
        }
        Source::StepOutput { .. } => {
            let is_twice = lowered.outputs.iter().take(at).any(|other| other == source);
            is_twice.then(|| "two outputs are the same".to_owned())
        }
    })
}

/// Puts the operators in the place of the operator.
fn splice(graph: &mut Graph, id: OperatorId, lowered: &Lowered) -> Result<(), GraphError> {
    let operator = graph.operator(id);
    let (inputs, outputs) = (operator.inputs().to_vec(), operator.outputs().to_vec());
    let mut returned = Vec::new();
    for (&output, &source) in outputs.iter().zip(&lowered.outputs) {
        match source {
            Source::Input(position) => {
                if let Some(&input) = inputs.get(position) {
                    bypass(graph, output, input)?;
                }
            }
            Source::StepOutput { .. } => {
                graph.disconnect_output(id, output)?;
                returned.push((source, output));
            }
        }
    }
    let mut made: Vec<Vec<OperandId>> = Vec::new();
    for (step, new) in lowered.operators.iter().enumerate() {
        let known = |source: Source| match source {
            Source::Input(position) => inputs.get(position).copied(),
            Source::StepOutput { step, output } => made.get(step).and_then(|made| made.get(output)).copied(),
        };
        let sources: Vec<(Option<&str>, OperandId)> =
            new.inputs.iter().filter_map(|(name, source)| Some((name.as_deref(), known(*source)?))).collect();
        let places = (0..new.num_outputs).map(|output| {
            let source = Source::StepOutput { step, output };
            returned.iter().find(|(other, _)| *other == source).map(|(_, operand)| *operand)
        });
        let places: Vec<Option<OperandId>> = places.collect();
        made.push(add(graph, id, new, &sources, &places)?);
    }
    graph.remove_operator(id).map(|_| ())
}

/// Adds an operator before another one. Returns its outputs, of which `places` may specify operands that exist.
fn add(
    graph: &mut Graph,
    at: OperatorId,
    new: &LoweredOperator,
    sources: &[(Option<&str>, OperandId)],
    places: &[Option<OperandId>],
) -> Result<Vec<OperandId>, GraphError> {
    let name = free_name(graph, graph.operator(at).name(), places.len());
    let id = graph.new_operator_before(&new.op_type, &name, at)?;
    for (key, operand) in sources {
        graph.connect_input(id, *operand, *key)?;
    }
    for (key, value) in &new.params {
        graph.set_param(id, key, value.clone())?;
    }
    let mut outputs = Vec::new();
    for (position, place) in places.iter().enumerate() {
        let output = match place {
            Some(operand) => *operand,
            None if position == 0 => graph.new_operand(&name)?,
            None => graph.new_operand(&format!("{name}.{position}"))?,
        };
        graph.connect_output(id, output)?;
        outputs.push(output);
    }
    Ok(outputs)
}

/// The name of a step of an operator: the operator's name and a number, such that neither an operator has it nor an operand has
/// the name of one of the step's outputs.
fn free_name(graph: &Graph, of: &str, num_outputs: usize) -> String {
    let is_free = |name: &String| {
        let is_operand = |name: &str| graph.operand_named(name).is_some();
        let is_taken = graph.operator_named(name).is_some() || is_operand(name);
        !is_taken && !(1..num_outputs).any(|output| is_operand(&format!("{name}.{output}")))
    };
    (1usize..).map(|number| format!("{of}.{number}")).find(is_free).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{graph, lines, run};
    use super::*;

    fn after(operators: &str) -> (Vec<String>, Outcome) {
        let mut graph = graph(&format!(
            "pnnx.Input in 0 1 0 #0=(2,3,4)f32\n{operators}\nF.sigmoid s 1 1 2 end\npnnx.Output out 1 0 end"
        ));
        let outcome = run(&LowerOnnx, &mut graph);
        (lines(&graph), outcome)
    }

    #[test]
    fn steps_take_the_place_of_the_operator() {
        let (lines, outcome) = after("Shrink shrink 1 1 0 2 bias=1.5 lambd=1.5");
        assert_eq!(outcome.fired, 1);
        assert_eq!(
            lines[..lines.len() - 1],
            [
                "torch.lt(0)->shrink.1 other=-1.5",
                "torch.gt(0)->shrink.2 other=1.5",
                "pnnx.Expression(0)->shrink.3 expr=add(@0,1.5)",
                "pnnx.Expression(0)->shrink.4 expr=sub(@0,1.5)",
                "torch.where(shrink.2,shrink.4)->shrink.5 other=0",
                "torch.where(shrink.1,shrink.3,shrink.5)->2",
            ]
        );
    }

    #[test]
    fn an_operator_without_steps_is_removed() {
        let (lines, outcome) = after("ReduceSum sum 1 1 0 2 noop_with_empty_axes=1");
        assert_eq!((outcome.fired, lines[0].as_str()), (1, "F.sigmoid(0)->end"));
    }

    #[test]
    fn an_operator_with_a_step_of_its_own_stays() {
        let (lines, outcome) = after("Det det 1 1 0 2");
        assert_eq!((outcome.fired, lines[0].as_str()), (0, "Det(0)->2"));
    }

    #[cfg(feature = "fourier")]
    #[test]
    fn an_operator_stays_if_its_steps_depend_on_an_unknown_length() {
        let text = "pnnx.Input in 0 1 0 #0=(1,8,1)f32\nDFT dft 1 1 0 1 axis=1\npnnx.Output out 1 0 1";
        assert_eq!(run(&LowerOnnx, &mut graph(text)).fired, 0);
        let input = TensorMeta::new(crate::tensor::DType::F32, [1, 8, 1]);
        let known = PassContext::default().with_input("in", input);
        assert_eq!(super::super::testing::run_in(&LowerOnnx, &mut graph(text), known).fired, 1);
    }
}
