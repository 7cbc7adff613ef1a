//! Shows a model's graph with your own parser:
//! `cargo run -p lesson03 --example read -- model_file/digits/digits.pnnx.param`

use ixion_pnnx::{Graph, OperandId};
use lesson03::{link, operator_line};
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("expected an argument: the path of a .param file");
        return ExitCode::FAILURE;
    };
    match read(&path) {
        Ok(graph) => {
            print(&graph);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{path}{error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the graph of a file. Errors have the form `:line:column: problem`.
fn read(path: &str) -> Result<Graph, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!(": {error}"))?;
    let mut graph = Graph::new();
    for (number, text) in (1..).zip(text.lines()).skip(2).filter(|(_, text)| !text.trim().is_empty()) {
        let line = operator_line(text).map_err(|stop| {
            let column = text[..text.len() - stop.at.len()].chars().count() + 1;
            let wanted =
                if stop.wanted.is_empty() { "something else (no `context` names it)" } else { stop.wanted };
            format!(":{number}:{column}: expected {wanted}")
        })?;
        link(&mut graph, &line).map_err(|fault| format!(":{number}: {fault:?}"))?;
    }
    Ok(graph)
}

fn print(graph: &Graph) {
    let names =
        |ids: &[OperandId]| ids.iter().map(|&id| graph.operand(id).name()).collect::<Vec<_>>().join(" ");
    for (_, operator) in graph.operators() {
        let (inputs, outputs) = (names(operator.inputs()), names(operator.outputs()));
        println!("{:20} {:20} {inputs:>8} -> {outputs}", operator.op_type(), operator.name());
    }
}
