//! Element types and symbolic dimensions of all operands.

use crate::Limits;
use crate::graph::{GraphError, OperandIndex, RuntimeGraph, RuntimeOperator};
use crate::op::{Registry, TensorMeta, catch_panic};
use crate::pnnx::Graph;
use crate::shape::{Shapes, symbolic_inputs};
use std::collections::{BTreeMap, HashMap};

/// What is known of the operands of a graph before it runs, by name.
///
/// Dimensions are expressions over those of the model's inputs, by the same rules that layers follow when they run.
#[derive(Debug, Default)]
pub struct Facts {
    graph: Option<RuntimeGraph>,
    shapes: Shapes,
    operands: HashMap<String, OperandIndex>,
    /// Positions in the runtime graph.
    operators: HashMap<String, usize>,
}

impl Facts {
    /// What follows from what is known of the inputs, by their names; of other inputs nothing is known but element type
    /// and rank. Nothing at all is known of a graph that cannot be built.
    pub(super) fn infer(
        file: &Graph,
        inputs: &BTreeMap<String, TensorMeta>,
        registry: Registry,
        limits: &Limits,
    ) -> Self {
        let built = built(file, registry, limits).map_err(|error| error.to_string());
        let inferred = built.and_then(|graph| {
            let inputs = known_inputs(&graph, inputs);
            let shapes = Shapes::infer_known(&graph, &inputs).map_err(|error| error.to_string())?;
            Ok((graph, shapes))
        });
        match inferred {
            Ok((graph, shapes)) => Self::of(graph, shapes),
            Err(error) => {
                log::debug!("passes work without knowing shapes: {error}");
                Self::default()
            }
        }
    }

    fn of(graph: RuntimeGraph, shapes: Shapes) -> Self {
        let mut operands = HashMap::new();
        let ports = graph.inputs().iter().map(|port| port.operand);
        for index in
            ports.chain(graph.operators().iter().flat_map(|operator| operator.outputs().iter().copied()))
        {
            operands.insert(graph.operand(index).name().to_owned(), index);
        }
        let named = graph.operators().iter().enumerate();
        let operators = named.map(|(at, operator)| (operator.name().to_owned(), at)).collect();
        Self { graph: Some(graph), shapes, operands, operators }
    }

    /// What is known of the operand of this name.
    pub fn get(&self, operand: &str) -> Option<&TensorMeta> {
        self.shapes.get(*self.operands.get(operand)?)
    }

    /// What the outputs of an operator would be if its inputs were these. None where its layer refuses them or does not
    /// know.
    pub fn outputs_of(&self, operator: &str, inputs: &[TensorMeta]) -> Option<Vec<TensorMeta>> {
        let layer = self.operator(operator)?.layer()?;
        let outputs = catch_panic(|| match layer.num_inputs().contains(&inputs.len()) {
            true => layer.infer(inputs).map(Some),
            false => Ok(None),
        });
        outputs.ok().flatten()
    }

    /// The operator of this name as it will run.
    pub fn operator(&self, name: &str) -> Option<&RuntimeOperator> {
        self.graph.as_ref()?.operators().get(*self.operators.get(name)?)
    }
}

fn built(file: &Graph, registry: Registry, limits: &Limits) -> Result<RuntimeGraph, GraphError> {
    let mut graph = RuntimeGraph::from_pnnx(file.clone()).with_limits(limits.clone()).with_registry(registry);
    // A model without its archive can be looked at all the same.
    if !file.check_weights().is_empty() {
        graph = graph.with_random_weights(0);
    }
    // It is looked at and never runs: nothing has to be initialised.
    graph.connect()?;
    Ok(graph)
}

/// What was said of an input, under its name or its operand's; else symbols.
fn known_inputs(graph: &RuntimeGraph, given: &BTreeMap<String, TensorMeta>) -> Vec<Option<TensorMeta>> {
    let symbolic = symbolic_inputs(graph);
    let ports = graph.inputs().iter().zip(symbolic);
    let known = ports.map(|(port, symbolic)| {
        let name = graph.operand(port.operand).name();
        given.get(&port.name).or_else(|| given.get(name)).cloned().or(symbolic)
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::super::PassContext;
    use super::super::testing::graph;
    use super::*;
    use crate::tensor::DType;

    const MODEL: &str = "pnnx.Input in 0 1 x #x=(2,3,8)f32
         torch.flatten flat 1 1 x y start_dim=1 end_dim=2 $input=x
         nn.ReLU relu 1 1 y z
         pnnx.Output out 1 0 z";

    #[test]
    fn numbers_of_the_file_are_symbols() {
        let (graph, context) = (graph(MODEL), PassContext::default());
        let facts = context.facts(&graph);
        assert_eq!(facts.get("z").unwrap().to_string(), "in.0×(in.1 * in.2) f32");
        assert_eq!(facts.get("nobody"), None);
    }

    #[test]
    fn what_the_user_says_is_a_number() {
        let context = PassContext::default().with_input("in", TensorMeta::new(DType::F32, [5, 3, 8]));
        let graph = graph(MODEL);
        let facts = context.facts(&graph);
        assert_eq!(facts.get("z").unwrap().to_string(), "5×24 f32");
        let other = [TensorMeta::new(DType::F32, [1, 7])];
        assert_eq!(facts.outputs_of("relu", &other).unwrap(), other);
        assert_eq!(facts.outputs_of("flat", &[]), None);
    }

    #[test]
    fn of_an_operator_without_a_layer_nothing_is_known() {
        let graph = graph("pnnx.Input in 0 1 x #x=(2)f32\nmy.Own own 1 1 x y\npnnx.Output out 1 0 y");
        assert_eq!(PassContext::default().facts(&graph).get("y"), None);
    }
}
