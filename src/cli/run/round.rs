//! One run of the model.

use super::inputs::Inputs;
use crate::cli::failure::Failure;
use ixion::graph::{GraphError, RuntimeGraph, Trace};
use ixion::tensor::{DType, Tensor};
use std::time::{Duration, Instant};

/// All that one run gave.
pub(super) struct Round {
    pub(super) inputs: Inputs,
    pub(super) outputs: Vec<(String, Tensor)>,
    pub(super) time: Duration,
    pub(super) trace: Option<Trace>,
}

/// Runs the model on these inputs.
pub(super) fn execute(graph: &mut RuntimeGraph, inputs: Inputs, traced: bool) -> Result<Round, Failure> {
    for (name, tensor) in &inputs {
        graph.set_input(name, tensor.clone()).map_err(misfit)?;
    }
    let start = Instant::now();
    let trace = match traced {
        true => Some(graph.run_traced().map_err(Failure::failed)?),
        false => graph.run().map(|()| None).map_err(Failure::failed)?,
    };
    let time = start.elapsed();
    let values = graph.output_values().map_err(Failure::failed)?;
    let names = graph.outputs().iter().map(|port| port.name.clone());
    Ok(Round { inputs, outputs: names.zip(values).collect(), time, trace })
}

impl Round {
    /// Takes off what was computed for `added` pictures that only filled the batch up.
    pub(super) fn without(mut self, added: usize) -> Result<Self, Failure> {
        if added == 0 {
            return Ok(self);
        }
        for (_, tensor) in self.inputs.iter_mut().chain(&mut self.outputs) {
            let len = tensor.shape().first().copied().unwrap_or(0);
            *tensor = tensor.narrow(0, 0, len.saturating_sub(added)).map_err(Failure::failed)?;
        }
        Ok(self)
    }
}

/// The failure of an input that the model does not take.
fn misfit(error: GraphError) -> Failure {
    match &error {
        GraphError::InputDType { wanted, .. } => {
            let advice = numpy_name(*wanted)
                .map(|name| format!("in Python: numpy.save(\"x.npy\", x.astype(\"{name}\"))"));
            let failure = Failure::unusable(error);
            match advice {
                Some(advice) => failure.advise(advice),
                None => failure,
            }
        }
        _ => Failure::unusable(error),
    }
}

/// NumPy's name of an element type, where it has it.
fn numpy_name(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::F16 => "float16",
        DType::I64 => "int64",
        DType::I32 => "int32",
        DType::I16 => "int16",
        DType::I8 => "int8",
        DType::U8 => "uint8",
        DType::Bool => "bool",
        DType::C64 => "complex64",
        DType::C128 => "complex128",
        _ => return None,
    })
}
