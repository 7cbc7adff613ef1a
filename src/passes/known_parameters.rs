//! Parameters that the graph computes, where they are known before it runs.

use super::PassContext;
use super::visit::{Verdict, Visit};
use crate::op::{ComputedParameter, RuntimeParameter, computed_parameters, known_parameter};
use crate::pnnx::{Graph, GraphError, OperandId, OperatorId};

/// The pass: inputs that set a parameter become that parameter if their values are known, so that other passes, the planner
/// and devices see an ordinary operator.
pub(super) const KNOWN_PARAMETERS: Visit = Visit {
    name: "known_parameters",
    doc: "Turns inputs that set a parameter of an operator, such as a kernel size, into that parameter if their values are known.",
    visit,
};

fn visit(graph: &mut Graph, context: &PassContext, id: OperatorId) -> Result<Verdict, GraphError> {
    let facts = context.facts(graph);
    let Some(runtime) = facts.operator(graph.operator(id).name()) else { return Ok(Verdict::Other) };
    let computed = runtime.layer().map_or(&[][..], computed_parameters);
    let known: Vec<(ComputedParameter, RuntimeParameter)> = computed
        .iter()
        .filter_map(|parameter| {
            let (_, meta) = facts.operand(*runtime.inputs().get(parameter.position)?)?;
            Some((*parameter, known_parameter(meta?)?))
        })
        .collect();
    if known.is_empty() {
        return Ok(Verdict::Other);
    }
    let is_known = |position: usize| known.iter().any(|(parameter, _)| parameter.position == position);
    let rest = runtime.inputs().iter().zip(runtime.input_names()).enumerate();
    let rest = rest.filter(|(position, _)| !is_known(*position)).map(|(_, (input, name))| {
        let operand = graph.operand_named(facts.operand(*input)?.0)?;
        Some((operand, name.clone()))
    });
    let Some(rest) = rest.collect::<Option<Vec<_>>>().filter(|rest| is_in_order(graph, id, rest)) else {
        return Ok(Verdict::Refused("its other inputs are not those of the file".to_owned()));
    };
    let params: Vec<(String, RuntimeParameter)> = runtime
        .params()
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .chain(known.into_iter().map(|(parameter, value)| (parameter.key.to_owned(), value)))
        .collect();
    if let Some((key, _)) = params.iter().find(|(_, value)| value.raw().contains(char::is_whitespace)) {
        return Ok(Verdict::Refused(format!("`{key}` has blanks, so it cannot be a parameter of the file")));
    }
    apply(graph, id, &rest, params)?;
    Ok(Verdict::Fired)
}

/// Returns true if these inputs are inputs of the operator in the file, in the same order: some operators of TorchScript have
/// them in another one.
fn is_in_order(graph: &Graph, id: OperatorId, inputs: &[(OperandId, Option<String>)]) -> bool {
    let mut of_file = graph.operator(id).inputs().iter();
    inputs.iter().all(|(input, _)| of_file.any(|other| other == input))
}

/// Gives an operator these inputs and parameters.
fn apply(
    graph: &mut Graph,
    id: OperatorId,
    inputs: &[(OperandId, Option<String>)],
    params: Vec<(String, RuntimeParameter)>,
) -> Result<(), GraphError> {
    for index in (0..graph.operator(id).inputs().len()).rev() {
        graph.disconnect_input(id, index)?;
    }
    for (operand, name) in inputs {
        graph.connect_input(id, *operand, name.as_deref())?;
    }
    for (key, value) in params {
        graph.set_param(id, &key, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{graph, run_in};
    use super::*;
    use crate::op::TensorMeta;
    use crate::tensor::DType;

    const NARROW: &str = "pnnx.Input in 0 1 x #x=(2,8)f32
         pnnx.Expression e 1 1 x n expr=floor_divide(size(@0,1),2)
         torch.narrow cut 2 1 x n y dim=1 start=1 $input=x $length=n #y=(2,4)f32
         pnnx.Output out 1 0 y";

    #[test]
    fn sizes_of_known_inputs_become_parameters() {
        let context = PassContext::default().with_input("in", TensorMeta::new(DType::F32, [2, 6]));
        let mut graph = graph(NARROW);
        assert_eq!(run_in(&KNOWN_PARAMETERS, &mut graph, context).fired, 1);
        let cut = graph.operator(graph.operator_named("cut").unwrap());
        assert_eq!((cut.inputs().len(), cut.param("length").unwrap().raw()), (1, "3"));
    }

    #[test]
    fn symbolic_sizes_stay_inputs() {
        let mut graph = graph(NARROW);
        assert_eq!(run_in(&KNOWN_PARAMETERS, &mut graph, PassContext::default()).fired, 0);
    }

    #[test]
    fn arguments_of_torchscript_are_named() {
        let mut graph = graph(
            "pnnx.Input in 0 1 x #x=(2,8)f32
             pnnx.Expression e 1 1 x n expr=sub(size(@0,1),6)
             aten::triu cut 2 1 x n y #y=(2,8)f32
             pnnx.Output out 1 0 y",
        );
        let context = PassContext::default().with_input("in", TensorMeta::new(DType::F32, [2, 8]));
        assert_eq!(run_in(&KNOWN_PARAMETERS, &mut graph, context).fired, 1);
        let cut = graph.operator(graph.operator_named("cut").unwrap());
        assert_eq!((cut.inputs().len(), cut.param("diagonal").unwrap().raw()), (1, "2"));
    }
}
