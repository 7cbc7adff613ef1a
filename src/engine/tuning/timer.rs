//! Times one layer on synthetic tensors.

use crate::Limits;
use crate::engine::threads::within;
use crate::kernels::parallel::Threads;
use crate::op::{CpuLayer, ForwardContext, Io, LayerError, TensorMeta, catch_panic};
use crate::tensor::{DType, Format, Layout, Tensor, TensorView, TensorViewMut, Workspace};
use std::time::{Duration, Instant};

// ANCHOR: fastest
/// The limits on the runs of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// No run starts once all runs together took longer than this; a slow candidate still gets its `least` runs.
    pub enough: Duration,
    /// The minimum number of runs.
    pub least: usize,
    /// The maximum number of runs.
    pub most: usize,
}

/// The budget of a layer. The first run warms up the caches, so there are at least two.
pub const OF_A_LAYER: Budget = Budget { enough: Duration::from_millis(8), least: 2, most: 100 };

/// The time of the fastest of several runs; [`Duration::MAX`] if there are no runs. `run` runs once and returns the time it
/// took.
///
/// # Errors
/// Returns the first error of a run. Nothing runs after it.
pub fn fastest<E>(budget: &Budget, run: &mut dyn FnMut() -> Result<Duration, E>) -> Result<Duration, E> {
    // ANCHOR: fastest_todo -- task 4: run, add up, keep the smallest; stop at `most`, or with enough spent once `least` is reached
    let (mut fastest, mut spent) = (Duration::MAX, Duration::ZERO);
    for round in 0..budget.most {
        if round >= budget.least && spent > budget.enough {
            break;
        }
        let time = run()?;
        spent = spent.saturating_add(time);
        fastest = fastest.min(time);
    }
    Ok(fastest)
    // ANCHOR_END: fastest_todo
}
// ANCHOR_END: fastest

/// Runs layers as a plan would.
#[derive(Debug)]
pub(super) struct Timer {
    pool: Option<Threads>,
    limits: Limits,
}

impl Timer {
    /// Creates a timer that runs layers in this pool or, without one, on the caller's thread.
    pub(super) fn new(pool: Option<Threads>, limits: Limits) -> Self {
        Self { pool, limits }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, Threads::count)
    }

    /// The nanoseconds of the fastest of several runs of a configured layer; `None` if it has no `forward`, or if its inputs
    /// cannot be synthesised.
    ///
    /// # Errors
    /// Returns an error if the layer cannot be initialised or the deadline has passed.
    pub(super) fn time(
        &self,
        layer: &mut dyn CpuLayer,
        inputs: &[TensorMeta],
        outputs: &[TensorMeta],
    ) -> Result<Option<f64>, LayerError> {
        if layer.is_data_dependent() || inputs.is_empty() {
            return Ok(None);
        }
        let is_pointwise = layer.is_pointwise();
        let (Some(sample_inputs), Some(mut sample_outputs)) =
            (self.sample_tensors(inputs)?, self.sample_tensors(outputs)?)
        else {
            return Ok(None);
        };
        let mut workspace = Workspace::new()?;
        // Layers size their scratch memory for the pool in which they are called.
        let scratch = within(&self.pool, || layer.workspace(inputs, outputs));
        self.limits.check_tensor("scratch memory", scratch as u64)?;
        workspace.reserve(scratch)?;
        layer.initialize()?;
        let timed = catch_panic(|| {
            layer.configure(inputs, outputs)?;
            let inputs = sample_inputs.iter().map(|input| layer_view(input.view(), is_pointwise));
            let inputs = inputs.collect::<Result<Vec<_>, LayerError>>()?;
            let outputs =
                sample_outputs.iter_mut().map(|output| layer_view_mut(output.view_mut()?, is_pointwise));
            let mut outputs = outputs.collect::<Result<Vec<_>, LayerError>>()?;
            within(&self.pool, || self.fastest(layer, &inputs, &mut outputs, &mut workspace))
        });
        layer.terminate();
        self.limits.check_deadline()?;
        Ok(timed.inspect_err(|error| log::debug!("{layer:?} is not measured: {error}")).ok())
    }

    fn fastest(
        &self,
        layer: &mut dyn CpuLayer,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        workspace: &mut Workspace,
    ) -> Result<f64, LayerError> {
        let mut run = || -> Result<Duration, LayerError> {
            self.limits.check_deadline()?;
            let begin = Instant::now();
            layer.forward(&mut Io::new(
                inputs,
                outputs,
                &mut ForwardContext::new(workspace.scratch(), &self.limits),
            ))?;
            Ok(begin.elapsed())
        };
        Ok(fastest(&OF_A_LAYER, &mut run)?.as_nanos() as f64)
    }

    /// Synthetic tensors of these shapes and formats; `None` if sizes are unknown. Floats are small values of both signs;
    /// integers are 0, which is a valid index into any axis that is not empty.
    fn sample_tensors(&self, metas: &[TensorMeta]) -> Result<Option<Vec<Tensor>>, LayerError> {
        let mut tensors = Vec::with_capacity(metas.len());
        for meta in metas {
            let (Ok(layout), Some(bytes)) = (meta.layout(), meta.byte_len()) else { return Ok(None) };
            self.limits.check_tensor("a tensor to measure with", bytes)?;
            let mut tensor = Tensor::zeros_with_layout(meta.dtype(), layout)?;
            fill(&mut tensor)?;
            tensors.push(tensor);
        }
        Ok(Some(tensors))
    }
}

/// Fills an f32 tensor with values other than zeros, for which some kernels are faster.
fn fill(tensor: &mut Tensor) -> Result<(), LayerError> {
    if tensor.dtype() != DType::F32 || tensor.layout().format() != Format::Plain {
        return Ok(());
    }
    for (index, value) in tensor.view_mut()?.slice::<f32>()?.iter_mut().enumerate() {
        *value = (index % 255) as f32 / 127.0 - 1.0;
    }
    Ok(())
}

/// A tensor in the layout in which an engine passes it to a layer.
fn layer_view(view: TensorView<'_>, is_pointwise: bool) -> Result<TensorView<'_>, LayerError> {
    let layout = layer_layout(view.layout(), is_pointwise)?;
    Ok(view.with_layout(layout)?)
}

fn layer_view_mut(view: TensorViewMut<'_>, is_pointwise: bool) -> Result<TensorViewMut<'_>, LayerError> {
    let layout = layer_layout(view.layout(), is_pointwise)?;
    Ok(view.with_layout(layout)?)
}

fn layer_layout(layout: &Layout, is_pointwise: bool) -> Result<Layout, LayerError> {
    Ok(if is_pointwise { layout.unrolled()? } else { *layout })
}
