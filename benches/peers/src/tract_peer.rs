//! tract, with an optimised model and one state for all runs.

use crate::npy::{self, Data};
use crate::protocol::{Peer, text};
use std::path::{Path, PathBuf};
use tract_linalg::multithread::Executor;
use tract_onnx::prelude::*;

pub(crate) struct Tract {
    threads: usize,
    loaded: Option<(TypedSimpleState, TVec<TValue>)>,
    outputs: TVec<TValue>,
}

impl Tract {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, loaded: None, outputs: tvec!() }
    }
}

fn tensor(path: &Path) -> TractResult<Tensor> {
    let array = npy::load(path).map_err(TractError::msg)?;
    match array.data {
        Data::F32(data) => Tensor::from_shape(&array.shape, &data),
        Data::I64(data) => Tensor::from_shape(&array.shape, &data),
    }
}

fn load(model: &Path, inputs: &[PathBuf], threads: usize) -> TractResult<(TypedSimpleState, TVec<TValue>)> {
    let inputs =
        inputs.iter().map(|path| Ok(tensor(path)?.into_tvalue())).collect::<TractResult<TVec<_>>>()?;
    let mut graph = tract_onnx::onnx().model_for_path(model)?;
    for (position, input) in inputs.iter().enumerate() {
        graph.set_input_fact(position, InferenceFact::dt_shape(input.datum_type(), input.shape()))?;
    }
    let executor = (threads > 1).then(|| Executor::multithread(threads));
    let options = RunOptions { executor, ..RunOptions::default() };
    let plan = graph.into_optimized()?.into_runnable_with_options(&options)?;
    Ok((plan.spawn()?, inputs))
}

impl Peer for Tract {
    fn load(&mut self, model: &Path, inputs: &[PathBuf]) -> Result<(), String> {
        self.loaded = Some(load(model, inputs, self.threads).map_err(text)?);
        Ok(())
    }

    fn run(&mut self) -> Result<(), String> {
        let (state, inputs) = self.loaded.as_mut().ok_or("no model is loaded")?;
        // Cloning tensors only increments their reference counts.
        self.outputs = state.run(inputs.clone()).map_err(text)?;
        Ok(())
    }

    fn save_output(&mut self, path: &Path) -> Result<(), String> {
        let output = self.outputs.first().ok_or("nothing was run")?;
        let view = output.to_plain_array_view::<f32>().map_err(text)?;
        npy::save(path, view.shape(), view.iter().copied())
    }
}
