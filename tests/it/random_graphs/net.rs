//! A graph that is easy to shrink: a list of operators, each with its parameters and weights.

use ixion::graph::RuntimeGraph;
use ixion::op::TensorMeta;
use ixion::pnnx::{self, Attribute, Graph};
use ixion::shape::{ShapeError, Shapes};
use ixion::tensor::{DType, Dim, Tensor};
use std::collections::BTreeSet;

/// The values of a graph's symbols in a run: batch, height, width, length.
pub(crate) type Sizes = [i64; 4];

/// The sizes at export, and other sizes for later runs.
pub(crate) const SIZES: [Sizes; 3] = [[2, 9, 12, 5], [1, 12, 8, 7], [3, 16, 11, 3]];

/// A value of a graph: its position in [`Net::metas`].
pub(crate) type Value = usize;

/// An operator.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) op_type: String,
    pub(crate) inputs: Vec<(Value, String)>,
    pub(crate) outputs: Vec<Value>,
    pub(crate) params: Vec<(String, String)>,
    pub(crate) attrs: Vec<(String, Vec<usize>, Vec<f32>)>,
}

/// Operators in the order in which they run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Net {
    pub(crate) inputs: Vec<Value>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) outputs: Vec<Value>,
    /// Symbolic shapes of all values.
    pub(crate) metas: Vec<TensorMeta>,
}

/// The length of an axis in a run, or `None` if it depends on values.
fn known_length(dim: &Dim, sizes: &Sizes) -> Option<i64> {
    let value =
        |name: &str| ["n", "h", "w", "t"].iter().position(|symbol| *symbol == name).map(|at| sizes[at]);
    dim.evaluate(&value)
}

/// The length of an axis in a run.
pub(crate) fn length(dim: &Dim, sizes: &Sizes) -> i64 {
    known_length(dim, sizes).unwrap_or_else(|| panic!("{dim}"))
}

impl Net {
    pub(crate) fn input(&mut self, meta: TensorMeta) -> Value {
        self.metas.push(meta);
        self.inputs.push(self.metas.len() - 1);
        self.metas.len() - 1
    }

    /// Adds an operator; its layer infers the shapes of the outputs.
    pub(crate) fn push(&mut self, mut node: Node, outputs: usize) -> Vec<Value> {
        let first = self.metas.len();
        node.outputs = (first..first + outputs).collect();
        let metas = self.inferred(&node).unwrap_or_else(|error| panic!("{node:?}\n{error}"));
        self.metas.extend(metas);
        self.nodes.push(node.clone());
        node.outputs
    }

    fn inferred(&self, node: &Node) -> Result<Vec<TensorMeta>, ShapeError> {
        let inputs: BTreeSet<Value> = node.inputs.iter().map(|(value, _)| *value).collect();
        let metas: Vec<TensorMeta> = inputs.iter().map(|&value| self.metas[value].clone()).collect();
        let unknown =
            |outputs: &[Value]| outputs.iter().map(|_| TensorMeta::new(DType::F32, [1])).collect::<Vec<_>>();
        let alone = Net {
            inputs: inputs.iter().copied().collect(),
            nodes: vec![node.clone()],
            outputs: node.outputs.clone(),
            metas: self.metas.iter().cloned().chain(unknown(&node.outputs)).collect(),
        };
        let mut graph = RuntimeGraph::from_pnnx(alone.graph_with(false));
        graph.build()?;
        let shapes = Shapes::infer(&graph, &metas)?;
        let outputs = graph.outputs().iter().map(|port| shapes.get(port.operand).cloned());
        Ok(outputs.collect::<Option<_>>().unwrap_or_else(|| panic!("{node:?} has unknown shapes")))
    }

    /// Returns true if the size of a value follows from those of the inputs.
    pub(crate) fn has_known_size(&self, value: Value) -> bool {
        self.metas[value].dims().iter().all(|dim| known_length(dim, &SIZES[0]).is_some())
    }

    /// The graph as PNNX would write it.
    pub(crate) fn graph(&self) -> Graph {
        self.graph_with(true)
    }

    fn graph_with(&self, shapes: bool) -> Graph {
        let mut graph = Graph::new();
        let operands: Vec<_> =
            (0..self.metas.len()).map(|value| graph.new_operand(&value.to_string()).unwrap()).collect();
        for (value, meta) in self.metas.iter().enumerate() {
            let dims = meta.dims().iter().map(|dim| match known_length(dim, &SIZES[0]) {
                Some(length) if shapes => pnnx::Dim::Fixed(length.unsigned_abs()),
                _ => pnnx::Dim::Unknown,
            });
            let is_used = shapes || self.inputs.contains(&value);
            if is_used {
                graph.set_operand_type(operands[value], Some(meta.dtype()), Some(dims.collect())).unwrap();
            }
        }
        for (position, &value) in self.inputs.iter().enumerate() {
            let input = graph.new_operator("pnnx.Input", &format!("in_{position}")).unwrap();
            graph.connect_output(input, operands[value]).unwrap();
        }
        for (position, node) in self.nodes.iter().enumerate() {
            let operator = graph.new_operator(&node.op_type, &format!("op_{position}")).unwrap();
            for (value, name) in &node.inputs {
                let name = Some(name.as_str()).filter(|name| !name.is_empty());
                graph.connect_input(operator, operands[*value], name).unwrap();
            }
            for &value in &node.outputs {
                graph.connect_output(operator, operands[value]).unwrap();
            }
            for (key, value) in &node.params {
                graph.set_param(operator, key, pnnx::Parameter::parse(value)).unwrap();
            }
            for (key, shape, values) in &node.attrs {
                let weight = Attribute::from_f32s(shape.clone(), values).unwrap();
                graph.set_attribute(operator, key, weight).unwrap();
            }
        }
        for (position, &value) in self.outputs.iter().enumerate() {
            let output = graph.new_operator("pnnx.Output", &format!("out_{position}")).unwrap();
            graph.connect_input(output, operands[value], None).unwrap();
        }
        let unused: Vec<_> = graph
            .operands()
            .filter(|(_, operand)| operand.producer().is_none() && operand.consumers().is_empty())
            .map(|(id, _)| id)
            .collect();
        unused.into_iter().for_each(|id| graph.remove_operand(id).unwrap());
        graph
    }

    /// Inputs for a run; equal sizes give equal inputs.
    pub(crate) fn tensors(&self, sizes: &Sizes) -> Vec<Tensor> {
        let tensor = |(position, &value): (usize, &Value)| {
            let dims: Vec<usize> =
                self.metas[value].dims().iter().map(|dim| length(dim, sizes).try_into().unwrap()).collect();
            let count = dims.iter().product::<usize>();
            let wave = |index: usize| ((index * 7 + position * 3) as f32 * 0.37).sin();
            Tensor::from_vec((0..count).map(wave).collect::<Vec<f32>>(), &dims).unwrap()
        };
        self.inputs.iter().enumerate().map(tensor).collect()
    }

    /// Removes operators that no output needs.
    pub(crate) fn trimmed(mut self) -> Self {
        let mut needed: BTreeSet<Value> = self.outputs.iter().copied().collect();
        for node in self.nodes.iter().rev() {
            if node.outputs.iter().any(|output| needed.contains(output)) {
                needed.extend(node.inputs.iter().map(|(value, _)| *value));
            }
        }
        self.nodes.retain(|node| node.outputs.iter().any(|output| needed.contains(output)));
        self
    }

    /// Smaller graphs: with fewer outputs, with an operator's output in place of the graph's, without an operator whose input
    /// has the shape of its output, or without operators that no output needs.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let with_outputs = |outputs: Vec<Value>| Self { outputs, ..self.clone() }.trimmed();
        let inner =
            self.nodes.iter().flat_map(|node| node.outputs.iter().map(|&output| with_outputs(vec![output])));
        let mut nets: Vec<Self> = vec![self.clone().trimmed()];
        nets.extend(inner);
        nets.extend(self.outputs.iter().map(|&output| with_outputs(vec![output])));
        for (position, node) in self.nodes.iter().enumerate() {
            for (input, _) in &node.inputs {
                if node.outputs.len() == 1 && self.metas[*input] == self.metas[node.outputs[0]] {
                    nets.push(self.without(position, *input));
                }
            }
        }
        nets.retain(|net| net.nodes.len() < self.nodes.len() || net.outputs.len() < self.outputs.len());
        nets.sort_by_key(|net| net.nodes.len());
        nets
    }

    fn without(&self, position: usize, input: Value) -> Self {
        let mut net = self.clone();
        let output = net.nodes.remove(position).outputs[0];
        let moved = |value: &mut Value| {
            if *value == output {
                *value = input;
            }
        };
        net.nodes.iter_mut().flat_map(|node| &mut node.inputs).for_each(|(value, _)| moved(value));
        net.outputs.iter_mut().for_each(moved);
        net.trimmed()
    }
}
