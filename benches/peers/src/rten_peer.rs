//! rten, with weights packed in advance and its own thread pool.

use crate::npy::{self, Data};
use crate::protocol::{Peer, text};
use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, Value};
use rten_tensor::Tensor;
use rten_tensor::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) struct Rten {
    pool: Arc<ThreadPool>,
    loaded: Option<(Model, Vec<(NodeId, Value)>)>,
    outputs: Vec<Value>,
}

impl Rten {
    pub(crate) fn new(threads: usize) -> Self {
        Self { pool: Arc::new(ThreadPool::with_num_threads(threads)), loaded: None, outputs: Vec::new() }
    }
}

/// Reads an input. rten does not support i64.
fn value(path: &Path) -> Result<Value, String> {
    let array = npy::load(path)?;
    Ok(match array.data {
        Data::F32(data) => Tensor::from_data(&array.shape, data).into(),
        Data::I64(data) => {
            let data = data.into_iter().map(i32::try_from).collect::<Result<Vec<_>, _>>().map_err(text)?;
            Tensor::from_data(&array.shape, data).into()
        }
    })
}

impl Peer for Rten {
    fn load(&mut self, model: &Path, inputs: &[PathBuf]) -> Result<(), String> {
        let values = inputs.iter().map(|path| value(path)).collect::<Result<Vec<_>, _>>()?;
        let mut options = ModelOptions::with_all_ops();
        let model = options.prepack_weights(true).load_file(model).map_err(text)?;
        let inputs = model.input_ids().iter().copied().zip(values).collect();
        self.loaded = Some((model, inputs));
        Ok(())
    }

    fn run(&mut self) -> Result<(), String> {
        let (model, inputs) = self.loaded.as_ref().ok_or("no model is loaded")?;
        let inputs = inputs.iter().map(|(id, value)| (*id, value.into())).collect();
        let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&self.pool)));
        self.outputs = model.run(inputs, model.output_ids(), Some(options)).map_err(text)?;
        Ok(())
    }

    fn save_output(&mut self, path: &Path) -> Result<(), String> {
        let output = self.outputs.first().ok_or("nothing was run")?;
        let output = output.as_tensor_view::<f32>().ok_or("the output is not f32")?;
        npy::save(path, output.shape(), output.iter().copied())
    }
}
