//! A single operator of a case, as a model whose text can be written with a mistake.

use ixion::Limits;
use ixion::graph::{LayerTrace, RuntimeGraph};
use ixion::pnnx::Graph;
use ixion::tensor::{DType, Tensor};
use std::fmt::Write;
use std::path::Path;

/// The maximum number of elements of an input.
const MAX_ELEMENTS: usize = 1 << 16;

/// An input of the operator.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) key: Option<String>,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
}

/// A weight as the text describes it.
#[derive(Debug, Clone)]
pub(crate) struct Weight {
    pub(crate) key: String,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
}

/// An operator with everything in its line.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) case: String,
    pub(crate) op_type: String,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: usize,
    pub(crate) params: Vec<(String, String)>,
    pub(crate) weights: Vec<Weight>,
}

impl Call {
    /// The calls of a case whose inputs and outputs are tensors. Empty if the case fails, which another test reports.
    pub(crate) fn all_of(case: &Path) -> Vec<Self> {
        let limits = Limits::default();
        let param = case.join("model.param");
        let file = Graph::load(&param, None, &limits).unwrap();
        let mut graph = RuntimeGraph::new(&param);
        if graph.build().is_err() {
            return Vec::new();
        }
        let arrays = Tensor::load_npz(case.join("arrays.npz"), &limits).unwrap();
        let names: Vec<String> = graph.inputs().iter().map(|port| port.name.clone()).collect();
        for (index, name) in names.iter().enumerate() {
            let key = format!("in_{index}");
            let (_, input) = arrays.iter().find(|(name, _)| *name == key).unwrap();
            graph.set_input(name, input.clone()).unwrap();
        }
        let Ok(trace) = graph.run_traced() else { return Vec::new() };
        let name = case.file_name().unwrap().to_string_lossy();
        trace.layers.iter().filter_map(|layer| Self::new(&name, &file, layer)).collect()
    }

    fn new(case: &str, file: &Graph, layer: &LayerTrace) -> Option<Self> {
        let (_, operator) = file.operators().find(|(_, operator)| operator.name() == layer.name)?;
        // Calls whose inputs or outputs are lists in one operand are not tested alone.
        let whole =
            operator.inputs().len() == layer.inputs.len() && operator.outputs().len() == layer.outputs.len();
        if !whole {
            return None;
        }
        let keys = operator.input_names().iter().cloned().chain(std::iter::repeat(None));
        let inputs = layer.inputs.iter().zip(keys).map(|(meta, key)| {
            let dims = meta.dims().iter().map(|dim| usize::try_from(dim.fixed()?).ok());
            Some(Input { key, dtype: meta.dtype(), shape: dims.collect::<Option<_>>()? })
        });
        let inputs: Vec<Input> = inputs.collect::<Option<_>>()?;
        // Large inputs would only take time in an unoptimised build.
        if inputs.iter().any(|input| input.shape.iter().product::<usize>() > MAX_ELEMENTS) {
            return None;
        }
        let weights = operator.attrs().iter().map(|(key, attribute)| Weight {
            key: key.clone(),
            dtype: attribute.dtype(),
            shape: attribute.shape().to_vec(),
        });
        Some(Self {
            case: case.to_owned(),
            op_type: operator.op_type().to_owned(),
            inputs,
            outputs: operator.outputs().len(),
            params: operator
                .params()
                .iter()
                .map(|(key, value)| (key.clone(), value.raw().to_owned()))
                .collect(),
            weights: weights.collect(),
        })
    }

    /// The text of a model with this operator, its inputs and its outputs; the operator is called `alone`.
    pub(crate) fn text(&self) -> String {
        let ins: Vec<String> = (0..self.inputs.len()).map(|index| format!("x{index}")).collect();
        let outs: Vec<String> = (0..self.outputs).map(|index| format!("y{index}")).collect();
        let operators = ins.len() + 1 + outs.len();
        let mut text = format!("7767517\n{operators} {}\n", ins.len() + outs.len());
        ins.iter().for_each(|name| writeln!(text, "pnnx.Input in_{name} 0 1 {name}").unwrap());
        write!(text, "{} alone {} {}", self.op_type, ins.len(), outs.len()).unwrap();
        ins.iter().chain(&outs).for_each(|name| write!(text, " {name}").unwrap());
        self.params.iter().for_each(|(key, value)| write!(text, " {key}={value}").unwrap());
        for Weight { key, dtype, shape } in &self.weights {
            let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
            write!(text, " @{key}=({}){}", dims.join(","), dtype.name()).unwrap();
        }
        for (name, input) in ins.iter().zip(&self.inputs) {
            input.key.iter().for_each(|key| write!(text, " ${key}={name}").unwrap());
        }
        text.push('\n');
        outs.iter().for_each(|name| writeln!(text, "pnnx.Output out_{name} 1 0 {name}").unwrap());
        text
    }
}
