//! Constant folding: computing once what does not depend on the model's inputs.

use super::bypass::is_returned;
use super::context::repeatable;
use super::replacement::fresh;
use super::{Facts, Outcome, Pass, PassContext, PassError};
use crate::graph::{GraphError, RuntimeGraph, is_write};
use crate::pnnx::{self, Attribute, Graph, OperandId, OperatorId};
use crate::tensor::Tensor;
use std::collections::{HashMap, HashSet, VecDeque};

/// Runs the operators that depend on constants alone, and stores those of their results that other operators read as
/// `pnnx.Attribute`.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConstantFolding;

// ANCHOR: limits
/// The maximum size of a folded result, in bytes.
pub const MAX_BYTES: u64 = 16 << 20;
/// The maximum size of a folded result, as a multiple of the size of the constants that it is computed from.
pub const MAX_GROWTH: u64 = 4;
/// Results of at most this many bytes are folded whatever the size of the constants.
pub const SMALL_BYTES: u64 = 64 << 10;
// ANCHOR_END: limits

impl Pass for ConstantFolding {
    fn name(&self) -> &str {
        "constant_folding"
    }

    fn doc(&self) -> &str {
        "Computes once what does not depend on the model's inputs."
    }

    fn run(&self, graph: &mut Graph, context: &mut PassContext) -> Result<Outcome, PassError> {
        let mut outcome = Outcome::default();
        let constants = constants(graph, &foldable(graph, context));
        let is_tensor = |operand: &OperandId| !is_read_as_literal(graph, *operand);
        let mut open: VecDeque<OperandId> =
            frontier(graph, &constants).into_iter().filter(is_tensor).collect();
        let mut seen: HashSet<OperandId> = open.iter().copied().collect();
        while let Some(operand) = open.pop_front() {
            context.limits().check_deadline().map_err(PassError::limit(self.name()))?;
            let folding = Folding::of(graph, operand);
            let value =
                folding.check(graph, context.facts(graph)).and_then(|()| folding.compute(graph, context));
            // The deadline may have passed during the computation.
            context.limits().check_deadline().map_err(PassError::limit(self.name()))?;
            match value {
                Ok(value) => {
                    store(graph, operand, value).map_err(PassError::edit(self.name()))?;
                    outcome.fired += 1;
                }
                Err(reason) => {
                    let producer = graph.operand(operand).producer();
                    let name = producer.map_or("", |producer| graph.operator(producer).name()).to_owned();
                    outcome.refuse(name, reason);
                    // What the result is computed from may be smaller.
                    open.extend(
                        computed_inputs(graph, operand).into_iter().filter(|input| seen.insert(*input)),
                    );
                }
            }
        }
        Ok(outcome)
    }
}

/// The operators that can be computed ahead: those that are repeatable, whose layer depends on no other operator, and that
/// are not literals.
pub fn foldable(graph: &Graph, context: &PassContext) -> HashSet<OperatorId> {
    let mut foldable = repeatable(graph, context);
    foldable.retain(|&id| {
        let operator = graph.operator(id);
        !operator.op_type().contains("::") && !is_literal(operator)
    });
    foldable
}

// ANCHOR: constants
/// The operands that depend on constants alone: results of foldable operators whose inputs, if any, are constants
/// themselves.
pub fn constants(graph: &Graph, foldable: &HashSet<OperatorId>) -> HashSet<OperandId> {
    // ANCHOR: constants_todo -- task 3: collect the results of foldable operators that read constants alone
    let mut constants = HashSet::new();
    for (id, operator) in graph.operators() {
        if foldable.contains(&id) && operator.inputs().iter().all(|input| constants.contains(input)) {
            constants.extend(operator.outputs());
        }
    }
    constants
    // ANCHOR_END: constants_todo
}
// ANCHOR_END: constants

// ANCHOR: frontier
/// The constants worth storing, in the order in which they are computed: those that are not stored yet and that are read by
/// an operator whose own results are not constants.
pub fn frontier(graph: &Graph, constants: &HashSet<OperandId>) -> Vec<OperandId> {
    // ANCHOR: frontier_todo -- task 3: pick the constants that are computed, and read where constants end
    let ends_there = |&reader: &OperatorId| {
        let results = graph.operator(reader).outputs();
        !results.iter().any(|result| constants.contains(result))
    };
    let computed = graph.operators().filter(|(_, operator)| operator.op_type() != "pnnx.Attribute");
    let results = computed.flat_map(|(_, operator)| operator.outputs().iter().copied());
    let is_worth = |id: &OperandId| graph.operand(*id).consumers().iter().any(ends_there);
    results.filter(|id| constants.contains(id)).filter(is_worth).collect()
    // ANCHOR_END: frontier_todo
}
// ANCHOR_END: frontier

/// The operands that a constant is computed from, unless they are stored, or read as literals.
fn computed_inputs(graph: &Graph, operand: OperandId) -> Vec<OperandId> {
    let Some(producer) = graph.operand(operand).producer() else { return Vec::new() };
    let is_stored = |input: OperandId| {
        let producer = graph.operand(input).producer().map(|producer| graph.operator(producer));
        producer.is_none_or(|producer| producer.op_type() == "pnnx.Attribute" || is_literal(producer))
    };
    let inputs = graph.operator(producer).inputs().iter().copied();
    inputs.filter(|&input| !is_stored(input) && !is_read_as_literal(graph, input)).collect()
}

/// The operators that compute an operand, directly or indirectly, in graph order.
fn needed(graph: &Graph, operand: OperandId) -> Vec<OperatorId> {
    let (mut needed, mut open) = (HashSet::new(), vec![operand]);
    while let Some(operand) = open.pop() {
        if let Some(producer) = graph.operand(operand).producer()
            && needed.insert(producer)
        {
            open.extend(graph.operator(producer).inputs());
        }
    }
    graph.operator_ids().iter().copied().filter(|id| needed.contains(id)).collect()
}

// ANCHOR: check_size
/// Checks whether a result of `bytes` bytes may be stored, if it is computed from constants of `from` bytes.
///
/// # Errors
/// The reason if the result is too large.
pub fn check_size(bytes: u64, from: u64) -> Result<(), String> {
    // ANCHOR: check_size_todo -- task 3: refuse what is too large, or too large for what it is computed from
    if bytes > MAX_BYTES {
        return Err(format!("the result would take {bytes} bytes, more than the {MAX_BYTES} allowed"));
    }
    if bytes > SMALL_BYTES.max(from.saturating_mul(MAX_GROWTH)) {
        return Err(format!("the result would take {bytes} bytes, and its constants take only {from}"));
    }
    Ok(())
    // ANCHOR_END: check_size_todo
}
// ANCHOR_END: check_size

/// Returns true for numbers, words and lists in the text, which are parameters of their consumers.
fn is_literal(operator: &pnnx::Operator) -> bool {
    operator.op_type() == "pnnx.Expression"
        && (operator.inputs().is_empty()
            || operator.param("expr").is_some_and(|expr| expr.raw().starts_with('[')))
}

/// Returns true if a consumer of an operand inspects the operand's producer.
pub(super) fn is_read_as_literal(graph: &Graph, operand: OperandId) -> bool {
    graph.operand(operand).consumers().iter().any(|&id| wants_literals(graph.operator(id).op_type()))
}

/// Returns true for operators that inspect the producers of their inputs.
fn wants_literals(op_type: &str) -> bool {
    op_type.contains("::") || is_write(op_type) || matches!(op_type, "Tensor.index" | "Tensor.index_put")
}

/// One operand and the operators that compute it.
struct Folding {
    operand: OperandId,
    /// In graph order.
    operators: Vec<OperatorId>,
    /// The size of the constants that it is computed from, in bytes.
    bytes: u64,
}

impl Folding {
    fn of(graph: &Graph, operand: OperandId) -> Self {
        let operators = needed(graph, operand);
        let attributes = operators.iter().flat_map(|&id| graph.operator(id).attrs().values());
        let bytes = attributes.map(|attribute| attribute.byte_len() as u64).fold(0, u64::saturating_add);
        Self { operand, operators, bytes }
    }

    /// Checks the size before anything is computed, if it is known.
    fn check(&self, graph: &Graph, facts: &Facts) -> Result<(), String> {
        let name = graph.operand(self.operand).name();
        let known = facts.get(name).and_then(|meta| meta.byte_len());
        known.map_or(Ok(()), |bytes| check_size(bytes, self.bytes))
    }

    fn compute(&self, graph: &Graph, context: &PassContext) -> Result<Attribute, String> {
        let part = self.part(graph).map_err(|error| error.to_string())?;
        let value = self.run(part, graph, context).map_err(|error| error.to_string())?;
        check_size(value.byte_len() as u64, self.bytes)?;
        let bytes = value.to_le_bytes().map_err(|error| error.to_string())?;
        Attribute::new(value.dtype(), value.shape().to_vec(), bytes).map_err(|error| error.to_string())
    }

    /// Runs these operators alone, in the interpreter.
    fn run(&self, part: Graph, graph: &Graph, context: &PassContext) -> Result<Tensor, GraphError> {
        let mut limits = context.limits().clone();
        limits.max_total_bytes = limits.max_total_bytes.min(MAX_BYTES.saturating_mul(16));
        let runtime = RuntimeGraph::from_pnnx(part).with_limits(limits);
        let mut runtime = runtime.with_registry(context.registry().clone());
        runtime.build()?;
        runtime.run()?;
        runtime.output(graph.operand(self.operand).name())
    }

    /// A graph with these operators alone.
    fn part(&self, graph: &Graph) -> Result<Graph, pnnx::GraphError> {
        let mut part = Graph::new();
        let mut operands: HashMap<OperandId, OperandId> = HashMap::new();
        for &id in &self.operators {
            let operator = graph.operator(id);
            let copy = part.new_operator(operator.op_type(), operator.name())?;
            for (input, name) in operator.inputs().iter().zip(operator.input_names()) {
                if let Some(&input) = operands.get(input) {
                    part.connect_input(copy, input, name.as_deref())?;
                }
            }
            for &output in operator.outputs() {
                let operand = graph.operand(output);
                let new = part.new_operand(operand.name())?;
                part.set_operand_type(new, operand.dtype(), operand.shape().map(<[_]>::to_vec))?;
                part.connect_output(copy, new)?;
                operands.insert(output, new);
            }
            for (key, value) in operator.params() {
                part.set_param(copy, key, value.clone())?;
            }
            for (key, value) in operator.attrs() {
                part.set_attribute(copy, key, value.clone())?;
            }
        }
        let output =
            part.new_operator("pnnx.Output", &fresh("output", |name| graph.operator_named(name).is_some()))?;
        if let Some(&operand) = operands.get(&self.operand) {
            part.connect_input(output, operand, None)?;
        }
        Ok(part)
    }
}

/// Makes all consumers of an operand read a stored constant instead. Its producer is left for dead code elimination.
pub(super) fn store(graph: &mut Graph, operand: OperandId, value: Attribute) -> Result<(), pnnx::GraphError> {
    let Some(producer) = graph.operand(operand).producer() else { return Ok(()) };
    let returned = is_returned(graph, operand);
    let name = graph.operand(operand).name().to_owned();
    let unused = |graph: &Graph| {
        fresh(&format!("{name}_folded"), |name| {
            graph.operator_named(name).is_some() || graph.operand_named(name).is_some()
        })
    };
    let new_name = unused(graph);
    let stored = graph.new_operator_before("pnnx.Attribute", &new_name, producer)?;
    let new = graph.new_operand(&new_name)?;
    let shape = value.shape().iter().map(|&size| pnnx::Dim::Fixed(size as u64)).collect();
    graph.set_operand_type(new, Some(value.dtype()), Some(shape))?;
    graph.set_attribute(stored, "data", value)?;
    graph.connect_output(stored, new)?;
    graph.replace_uses(operand, new)?;
    if returned {
        let unused = unused(graph);
        graph.rename_operand(operand, &unused)?;
        graph.rename_operand(new, &name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{graph, lines, run};
    use super::*;

    fn with_weight(text: &str, values: &[f32]) -> Graph {
        let mut graph = graph(text);
        let id = graph.operator_named("w").unwrap();
        graph.set_attribute(id, "data", Attribute::from_f32s(vec![values.len()], values).unwrap()).unwrap();
        graph
    }

    const MODEL: &str = "pnnx.Input in 0 1 0 #0=(2)f32
         pnnx.Attribute w 0 1 1 @data=(2)f32
         pnnx.Expression e 1 1 1 2 expr=mul(@0,3)
         torch.unsqueeze u 1 1 2 3 dim=0
         pnnx.Expression s 2 1 0 3 4 expr=add(@0,@1)
         pnnx.Output out 1 0 4";

    #[test]
    fn results_of_constants_become_constants() {
        let mut graph = with_weight(MODEL, &[1.0, 2.0]);
        assert_eq!(run(&ConstantFolding, &mut graph).fired, 1);
        super::super::dead_code::DeadCode.run(&mut graph, &mut PassContext::default()).unwrap();
        assert_eq!(
            lines(&graph),
            ["pnnx.Attribute()->3_folded", "pnnx.Expression(0,3_folded)->4 expr=add(@0,@1)"]
        );
        let folded = graph.operator(graph.operator_named("3_folded").unwrap()).attr("data").unwrap();
        assert_eq!((folded.shape(), folded.to_f32s().unwrap()), (&[1, 2][..], vec![3.0, 6.0]));
    }

    #[test]
    fn a_returned_constant_keeps_its_name() {
        let mut graph = with_weight(&MODEL.replace("1 0 4", "2 0 4 3"), &[1.0, 2.0]);
        assert_eq!(run(&ConstantFolding, &mut graph).fired, 1);
        let operand = graph.operand(graph.operand_named("3").unwrap());
        assert_eq!(graph.operator(operand.producer().unwrap()).op_type(), "pnnx.Attribute");
    }

    #[test]
    fn random_numbers_literals_and_plugins_are_not_folded() {
        let mut graph = graph(
            "pnnx.Input in 0 1 0 #0=(2)f32
             torch.randn r 0 1 1 size=(2)
             pnnx.Expression l 0 1 2 expr=[2,-1]
             my.Own o 0 1 3
             pnnx.Expression s 3 1 0 1 3 4 expr=add(add(@0,@1),@2)
             Tensor.reshape t 2 1 4 2 5 $input=4 $shape=2
             pnnx.Output out 1 0 5",
        );
        assert_eq!(run(&ConstantFolding, &mut graph), Outcome::default());
    }

    #[test]
    fn large_results_of_small_constants_are_not_folded() {
        let mut graph = with_weight(
            &MODEL.replace("torch.unsqueeze u 1 1 2 3 dim=0", "Tensor.expand u 1 1 2 3 sizes=(65536,2)"),
            &[1.0, 2.0],
        );
        let outcome = run(&ConstantFolding, &mut graph);
        // What it is computed from is small.
        assert_eq!(outcome.fired, 1);
        assert_eq!(
            outcome.refused[0].to_string(),
            "`u`: the result would take 524288 bytes, and its constants take only 8"
        );
    }
}
