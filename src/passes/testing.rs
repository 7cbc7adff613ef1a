//! Helpers for the unit tests of passes.

use super::{Outcome, Pass, PassContext};
use crate::Limits;
use crate::pnnx::Graph;

/// Parses a graph from its lines, adding the magic number and the counts.
pub(super) fn graph(lines: &str) -> Graph {
    let lines: Vec<&str> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = |operands: usize| format!("7767517\n{} {operands}\n{}\n", lines.len(), lines.join("\n"));
    let outputs =
        |line: &&str| line.split_whitespace().nth(3).and_then(|count| count.parse::<usize>().ok()).unwrap();
    Graph::parse(&text(lines.iter().map(outputs).sum()), &Limits::default()).unwrap()
}

/// Runs one pass and checks that the graph is valid afterwards.
pub(super) fn run(pass: &impl Pass, graph: &mut Graph) -> Outcome {
    run_in(pass, graph, PassContext::default())
}

/// As [`run`], in a given context.
pub(super) fn run_in(pass: &impl Pass, graph: &mut Graph, mut context: PassContext) -> Outcome {
    let outcome = pass.run(graph, &mut context).unwrap();
    graph.check().unwrap();
    outcome
}

/// The operators of a graph without its inputs and outputs, one line each: `type(inputs)->outputs key=value`.
pub(super) fn lines(graph: &Graph) -> Vec<String> {
    let inner =
        graph.operators().filter(|(_, operator)| !matches!(operator.op_type(), "pnnx.Input" | "pnnx.Output"));
    let names = |operands: &[crate::pnnx::OperandId]| {
        operands.iter().map(|&operand| graph.operand(operand).name()).collect::<Vec<_>>().join(",")
    };
    let line = |operator: &crate::pnnx::Operator| {
        let (inputs, outputs) = (names(operator.inputs()), names(operator.outputs()));
        let params: String =
            operator.params().iter().map(|(key, value)| format!(" {key}={}", value.raw())).collect();
        format!("{}({inputs})->{outputs}{params}", operator.op_type())
    };
    inner.map(|(_, operator)| line(operator)).collect()
}
