//! The element types and symbolic dimensions of all operands.

use crate::Limits;
use crate::graph::{GraphError, OperandIndex, RuntimeGraph, RuntimeOperator};
use crate::op::{Registry, TensorMeta, catch_panic};
use crate::pnnx::{Graph, OperandId};
use crate::shape::{Shapes, symbolic_inputs};
use std::collections::{BTreeMap, HashMap};

/// The element types and dimensions of a graph's operands as known before it runs, by name.
///
/// Dimensions are expressions over those of the model's inputs, inferred by the same rules that layers use when they run.
#[derive(Debug, Default)]
pub struct Facts {
    graph: Option<RuntimeGraph>,
    shapes: Shapes,
    operands: HashMap<String, OperandIndex>,
    /// The operators' positions in the runtime graph, by name.
    operators: HashMap<String, usize>,
}

impl Facts {
    /// Infers the facts from `inputs`, by name. Only the element type and rank of other inputs are known. The facts are
    /// empty if the graph cannot be built.
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
                log::debug!("passes run without known shapes: {error}");
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

    /// The element type and dimensions of the operand of this name, if known.
    pub fn get(&self, operand: &str) -> Option<&TensorMeta> {
        self.shapes.get(*self.operands.get(operand)?)
    }

    /// As [`Facts::get`], by the operand itself.
    pub(super) fn meta(&self, graph: &Graph, operand: OperandId) -> Option<&TensorMeta> {
        self.get(graph.get_operand(operand)?.name())
    }

    /// Returns true if two operands are known to have the same element type and dimensions.
    pub(super) fn are_alike(&self, graph: &Graph, a: OperandId, b: OperandId) -> bool {
        let alike = |a: &TensorMeta, b: &TensorMeta| a.dtype() == b.dtype() && a.dims() == b.dims();
        self.meta(graph, a).zip(self.meta(graph, b)).is_some_and(|(a, b)| alike(a, b))
    }

    /// The outputs that an operator would have for these inputs. `None` if its layer rejects them or cannot infer them.
    pub fn outputs_of(&self, operator: &str, inputs: &[TensorMeta]) -> Option<Vec<TensorMeta>> {
        let layer = self.operator(operator)?.layer()?;
        let outputs = catch_panic(|| match layer.num_inputs().contains(&inputs.len()) {
            true => layer.infer(inputs).map(Some),
            false => Ok(None),
        });
        outputs.ok().flatten()
    }

    /// The name of an operand of the runtime graph, and its element type and dimensions if they are known.
    pub(super) fn operand(&self, index: OperandIndex) -> Option<(&str, Option<&TensorMeta>)> {
        Some((self.graph.as_ref()?.operands().get(index.position())?.name(), self.shapes.get(index)))
    }

    /// The operator of this name in the runtime graph.
    pub fn operator(&self, name: &str) -> Option<&RuntimeOperator> {
        self.graph.as_ref()?.operators().get(*self.operators.get(name)?)
    }

    /// The layer of the operator of this name, if it has this type.
    pub(super) fn layer<L: 'static>(&self, operator: &str) -> Option<&L> {
        self.operator(operator)?.layer()?.as_any().downcast_ref()
    }
}

fn built(file: &Graph, registry: Registry, limits: &Limits) -> Result<RuntimeGraph, GraphError> {
    let mut graph = RuntimeGraph::from_pnnx(file.clone()).with_limits(limits.clone()).with_registry(registry);
    // Facts do not depend on the values of weights, so a model without its archive gets random ones.
    if !file.check_weights().is_empty() {
        graph = graph.with_random_weights(0);
    }
    // The graph never runs, so its layers need no initialisation.
    graph.connect()?;
    Ok(graph)
}

/// The given metadata of each input, by its name or its operand's, else symbolic metadata.
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
    fn sizes_in_the_file_are_symbols() {
        let (graph, context) = (graph(MODEL), PassContext::default());
        let facts = context.facts(&graph);
        assert_eq!(facts.get("z").unwrap().to_string(), "in.0×(in.1 * in.2) f32");
        assert_eq!(facts.get("nobody"), None);
    }

    #[test]
    fn sizes_of_given_inputs_are_fixed() {
        let context = PassContext::default().with_input("in", TensorMeta::new(DType::F32, [5, 3, 8]));
        let graph = graph(MODEL);
        let facts = context.facts(&graph);
        assert_eq!(facts.get("z").unwrap().to_string(), "5×24 f32");
        let other = [TensorMeta::new(DType::F32, [1, 7])];
        assert_eq!(facts.outputs_of("relu", &other).unwrap(), other);
        assert_eq!(facts.outputs_of("flat", &[]), None);
    }

    #[test]
    fn outputs_of_an_operator_without_a_layer_are_unknown() {
        let graph = graph("pnnx.Input in 0 1 x #x=(2)f32\nmy.Own own 1 1 x y\npnnx.Output out 1 0 y");
        assert_eq!(PassContext::default().facts(&graph).get("y"), None);
    }
}
