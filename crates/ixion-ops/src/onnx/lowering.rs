//! ONNX operators as ordinary operators of a graph: their decomposition in the form of a file.

use crate::op::{Field, RuntimeParameter, SEED_KEY, SpatialAxes, TensorMeta, Written};
use ixion_tensor::Dim;

/// The source of one input of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// An input of the operator.
    Input(usize),
    /// An output of an earlier step.
    StepOutput {
        /// The step's position.
        step: usize,
        /// The output's position among those of the step.
        output: usize,
    },
}

impl Source {
    /// Another output of the same step.
    pub(super) fn output(self, output: usize) -> Self {
        match self {
            Self::Input(_) => self,
            Self::StepOutput { step, .. } => Self::StepOutput { step, output },
        }
    }
}

/// An operator of a lowered graph.
#[derive(Debug, Clone, PartialEq)]
pub struct LoweredOperator {
    /// The operator type, such as `torch.clamp`.
    pub op_type: String,
    /// The parameters, by key.
    pub params: Vec<(String, RuntimeParameter)>,
    /// The sources of the inputs, with their names in the file.
    pub inputs: Vec<(Option<String>, Source)>,
    /// The number of outputs.
    pub num_outputs: usize,
}

impl LoweredOperator {
    /// An operator with one output and unnamed inputs.
    pub(super) fn new(op_type: &str, params: &[(&str, RuntimeParameter)], inputs: &[Source]) -> Self {
        let params = params.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        let inputs = inputs.iter().map(|&source| (None, source)).collect();
        Self { op_type: op_type.to_owned(), params, inputs, num_outputs: 1 }
    }

    /// The operator from which a file creates a layer with these types and fields, given what a file says about them. `None` if
    /// a file cannot express it, or if it draws random numbers, which depend on its name.
    pub(super) fn written(
        types: &[&str],
        fields: &[Field],
        written: Vec<(&'static str, Written)>,
        inputs: &[Source],
    ) -> Option<Self> {
        if fields.iter().any(|field| field.key == SEED_KEY) {
            return None;
        }
        let mut operator = Self::new("", &[], inputs);
        let mut axes = None;
        for (key, written) in written {
            match written {
                Written::Nothing => {}
                Written::Param(value) => operator.params.push((key.to_owned(), value)),
                Written::Input(position) => operator.inputs.get_mut(position)?.0 = Some(key.to_owned()),
                Written::SpatialAxes(count) => axes = Some(count),
                Written::Unwritable => {
                    log::debug!("a file cannot express `{key}` of {types:?}");
                    return None;
                }
            }
        }
        let states =
            |op_type: &&&str| axes.is_none() || SpatialAxes::of(op_type).map(SpatialAxes::get) == axes;
        operator.op_type = (*types.iter().find(states)?).to_owned();
        Some(operator)
    }

    /// A reshape to these lengths, of which at most one may be unknown. In a file, 0 keeps the input's length.
    pub(super) fn reshape(dims: &[Dim], input: Source) -> Option<Self> {
        let lens: Vec<i64> = dims.iter().map(|dim| dim.fixed().unwrap_or(-1)).collect();
        let unknown = lens.iter().filter(|len| **len < 0).count();
        (unknown < 2 && !lens.contains(&0))
            .then(|| Self::new("Tensor.reshape", &[("shape", lens.into())], &[input]))
    }

    /// The repetition of axes of length 1 up to these lengths. Lengths that are unknown must be those of the input.
    pub(super) fn broadcast(dims: &[Dim], from: &TensorMeta, input: Source) -> Option<Self> {
        let added = dims.len().checked_sub(from.rank())?;
        let len = |(axis, dim): (usize, &Dim)| match dim.fixed() {
            Some(len) => Some(len),
            None => (from.dims().get(axis.checked_sub(added)?) == Some(dim)).then_some(-1),
        };
        let lens: Vec<i64> = dims.iter().enumerate().map(len).collect::<Option<_>>()?;
        Some(Self::new("Tensor.expand", &[("sizes", lens.into())], &[input]))
    }
}

/// The operators that compute an ONNX operator, and the sources of its outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Lowered {
    /// The operators, in the order in which they run.
    pub operators: Vec<LoweredOperator>,
    /// The source of each output.
    pub outputs: Vec<Source>,
}
