//! Drawing a survey as a graph.

use super::parameters::{parameters, weights};
use super::survey::{Row, State, Survey};
use super::value::Value;
use crate::cli::kinds::kind;
use crate::cli::numbers;
use crate::cli::table::width;
use ixion::pnnx::OperatorId;
use ixion_drawing::{Drawing, Edge, Node};
use std::collections::HashMap;

/// The maximum number of lines of weights, and of parameters, on a card.
const MAX_LINES: usize = 3;
/// The maximum number of characters of a line with several parameters.
const MAX_CHARS: usize = 30;

/// The graph of a file as cards and arrows.
pub(super) fn drawing(title: &str, survey: &Survey<'_>) -> Drawing {
    let places: HashMap<OperatorId, usize> =
        survey.rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
    let mut edges = Vec::new();
    for (to, row) in survey.rows.iter().enumerate() {
        for &input in row.operator.inputs() {
            let producer = survey.graph.get_operand(input).and_then(|operand| operand.producer());
            let Some(&from) = producer.and_then(|producer| places.get(&producer)) else {
                continue;
            };
            edges.push(Edge { from, to, label: survey.value(input).map(label).unwrap_or_default() });
        }
    }
    Drawing { title: title.to_owned(), nodes: survey.rows.iter().map(node).collect(), edges }
}

fn node(row: &Row<'_>) -> Node {
    let operator = row.operator;
    let mut details = weights(operator);
    details.truncate(MAX_LINES);
    if let (Some(first), bytes @ 1..) = (details.first_mut(), row.weight_bytes()) {
        first.push_str(&format!(", {}", numbers::bytes(bytes)));
    }
    // The kernel size is evident from the weight's shape.
    let repeats = |parameter: &String| !operator.attrs().is_empty() && parameter.starts_with("kernel_size ");
    let shown = parameters(operator).into_iter().filter(|parameter| !repeats(parameter)).collect();
    details.extend(lines(shown).into_iter().take(MAX_LINES));
    match &row.state {
        State::Structure | State::Supported => {}
        State::Underived(why) => details.push(format!("shape not derived: {why}")),
        State::Refused(why) => details.push(format!("cannot run: {why}")),
        State::Unsupported { .. } => details.push("not supported".to_owned()),
    }
    Node {
        title: operator.op_type().to_owned(),
        subtitle: operator.name().to_owned(),
        details,
        kind: kind(operator.op_type()),
    }
}

/// Joins parameters into lines of at most [`MAX_CHARS`] characters; a longer parameter gets its own line.
fn lines(parameters: Vec<String>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for parameter in parameters {
        match lines.last_mut() {
            Some(line) if width(line) + width(&parameter) + 2 <= MAX_CHARS => line.extend([", ", &parameter]),
            _ => lines.push(parameter),
        }
    }
    lines
}

/// The label of an arrow: the type and shape of a tensor, or the number of tensors in a tuple.
fn label(value: &Value) -> String {
    match value {
        Value::Tensor(known) => known.meta.as_ref().map(ToString::to_string).unwrap_or_default(),
        Value::Tuple(_) => numbers::plural(value.count(), "tensor"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion::{Limits, graph::RuntimeGraph, pnnx::Graph};

    #[test]
    fn parameters_share_lines() {
        let words = |text: &str| lines(text.split('/').map(str::to_owned).collect());
        assert_eq!(words("kernel_size 3/padding 1/stride 2"), ["kernel_size 3, padding 1", "stride 2"]);
        assert_eq!(words("stride 2"), ["stride 2"]);
    }

    #[test]
    fn cards_and_arrows_follow_the_file() {
        let text = "7767517\n4 3\n\
            pnnx.Input in 0 1 x #x=(1,3)f32\n\
            nn.Linear fc 1 1 x y bias=False in_features=3 out_features=2 @weight=(2,3)f32\n\
            my.Pair pair 2 1 y y z\n\
            pnnx.Output out 1 0 z\n";
        let graph = Graph::parse(text, &Limits::default()).unwrap();
        let outline = RuntimeGraph::from_pnnx(graph.clone()).outline().unwrap();
        let drawing = drawing("net.param", &Survey::new(&graph, &outline));
        let arrows: Vec<_> =
            drawing.edges.iter().map(|edge| (edge.from, edge.to, edge.label.as_str())).collect();
        assert_eq!(arrows, [(0, 1, "1×3 f32"), (1, 2, "1×2 f32"), (1, 2, "1×2 f32"), (2, 3, "")]);
        assert_eq!(drawing.nodes[1].details, ["weight 2×3, 24 B"]);
        assert_eq!(drawing.nodes[2].details, ["not supported"]);
        assert!(drawing.to_svg().contains("net.param"));
    }
}
