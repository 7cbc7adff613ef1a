//! Details of a graph that its text cannot express.
//!
//! The format has no place for the element type of an operand without a shape, PNNX omits the shape of a scalar, and if two
//! inputs are the same operand, the text cannot express which of them has a name. A plan stores these in addition to the
//! text, so that the loaded graph equals the saved one.

use super::error::PlanFileProblem;
use super::layout::Kind;
use crate::Limits;
use crate::pnnx::{Dim, Graph};
use crate::tensor::DType;
use serde::{Deserialize, Serialize};

/// The element type and shape of an operand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OperandType {
    operand: String,
    dtype: Option<String>,
    shape: Option<Vec<String>>,
}

/// The names of all inputs of an operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InputNames {
    operator: String,
    names: Vec<Option<String>>,
}

/// The details in which a graph differs from one that is read from its text.
pub(super) fn lost(graph: &Graph) -> Result<(Vec<OperandType>, Vec<InputNames>), PlanFileProblem> {
    let unwritable = |reason: String| PlanFileProblem::Unwritable(reason);
    graph.check().map_err(|error| unwritable(error.to_string()))?;
    let no_limits = Limits { max_tensor_bytes: u64::MAX, max_total_bytes: u64::MAX, ..Limits::default() };
    let no_limits = Limits { max_ops: usize::MAX, ..no_limits };
    let text =
        Graph::parse(&graph.to_param_text(), &no_limits).map_err(|error| unwritable(error.to_string()))?;
    let mut operands = Vec::new();
    for (_, operand) in graph.operands() {
        let read = text.operand_named(operand.name()).map(|id| text.operand(id));
        let read =
            read.ok_or_else(|| unwritable(format!("operand `{}` is lost in the text", operand.name())))?;
        if (read.dtype(), read.shape()) != (operand.dtype(), operand.shape()) {
            operands.push(OperandType {
                operand: operand.name().to_owned(),
                dtype: operand.dtype().map(|dtype| dtype.name().to_owned()),
                shape: operand.shape().map(|dims| dims.iter().map(ToString::to_string).collect()),
            });
        }
    }
    let mut inputs = Vec::new();
    for (_, operator) in graph.operators() {
        let read = text.operator_named(operator.name()).map(|id| text.operator(id));
        let read =
            read.ok_or_else(|| unwritable(format!("operator `{}` is lost in the text", operator.name())))?;
        if read.input_names() != operator.input_names() {
            let names = operator.input_names().to_vec();
            inputs.push(InputNames { operator: operator.name().to_owned(), names });
        }
    }
    Ok((operands, inputs))
}

/// Restores the details that the text could not express in a graph that was read from it.
pub(super) fn restore(
    graph: &mut Graph,
    operands: &[OperandType],
    inputs: &[InputNames],
) -> Result<(), PlanFileProblem> {
    let wrong = |reason: String| PlanFileProblem::corrupt(Kind::Settings, reason);
    for OperandType { operand, dtype, shape } in operands {
        let id =
            graph.operand_named(operand).ok_or_else(|| wrong(format!("there is no operand `{operand}`")))?;
        let dtype = dtype.as_deref().map(|name| {
            DType::from_name(name).ok_or_else(|| wrong(format!("there is no element type `{name}`")))
        });
        let shape =
            shape.as_ref().map(|dims| dims.iter().map(|dim| parse_dim(dim)).collect::<Result<Vec<_>, _>>());
        let set = graph.set_operand_type(id, dtype.transpose()?, shape.transpose()?);
        set.map_err(|error| wrong(error.to_string()))?;
    }
    for InputNames { operator, names } in inputs {
        let id = graph.operator_named(operator);
        let id = id.ok_or_else(|| wrong(format!("there is no operator `{operator}`")))?;
        graph.set_input_names(id, names.clone()).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(())
}

fn parse_dim(text: &str) -> Result<Dim, PlanFileProblem> {
    let wrong = || PlanFileProblem::corrupt(Kind::Settings, format!("`{text}` is not a dimension"));
    match (text, text.strip_prefix('%')) {
        ("?", _) => Ok(Dim::Unknown),
        (_, Some(name)) => Ok(Dim::Named(name.to_owned())),
        (number, None) => number.parse().map(Dim::Fixed).map_err(|_| wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_missing_from_the_text_are_restored() {
        let text = "7767517\n3 3\npnnx.Input in 0 1 x #x=(2,?,%n)f32\ntorch.clamp c 2 1 x x y\npnnx.Output out 1 0 y\n";
        let mut graph = Graph::parse(&text.replace("3 3", "3 2"), &Limits::default()).unwrap();
        assert_eq!(lost(&graph).unwrap(), (vec![], vec![]));
        let (x, y) = (graph.operand_named("x").unwrap(), graph.operand_named("y").unwrap());
        let clamp = graph.operator_named("c").unwrap();
        graph.set_input_names(clamp, vec![None, Some("max".to_owned())]).unwrap();
        graph.set_operand_type(x, Some(DType::I64), Some(vec![])).unwrap();
        graph.set_operand_type(y, Some(DType::F16), None).unwrap();
        let (operands, inputs) = lost(&graph).unwrap();
        assert_eq!((operands.len(), inputs.len()), (2, 1));
        let mut read = Graph::parse(&graph.to_param_text(), &Limits::default()).unwrap();
        restore(&mut read, &operands, &inputs).unwrap();
        for id in [x, y] {
            assert_eq!(
                (read.operand(id).dtype(), read.operand(id).shape()),
                (graph.operand(id).dtype(), graph.operand(id).shape())
            );
        }
        assert_eq!(read.operator(clamp).input_names(), [None, Some("max".to_owned())]);
        let unknown = InputNames { operator: "nobody".to_owned(), names: vec![] };
        assert!(restore(&mut read, &[], &[unknown]).is_err());
    }
}
