//! Running one layer on made-up tensors.

use crate::Limits;
use crate::kernels::parallel::Threads;
use crate::op::{CpuLayer, ForwardContext, LayerError, TensorMeta, catch_panic};
use crate::tensor::{DType, Format, Layout, Tensor, TensorView, TensorViewMut, Workspace};
use std::time::{Duration, Instant};

// ANCHOR: fastest
/// How often a candidate runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// No run begins when all runs together took longer than this; but a slow candidate has its `least` all the same.
    pub enough: Duration,
    /// So many runs at least.
    pub least: usize,
    /// So many runs at most.
    pub most: usize,
}

/// What a layer gets. The first run warms the caches up; so a second one is the least.
pub const OF_A_LAYER: Budget = Budget { enough: Duration::from_millis(8), least: 2, most: 100 };

/// The time of the fastest of several runs; [`Duration::MAX`] where there is none at all. `run` runs once and says how long that
/// took.
///
/// # Errors
/// The first error of a run. Nothing runs after it.
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
    /// One that runs layers in this pool; without one, the caller's thread does.
    pub(super) fn new(pool: Option<Threads>, limits: Limits) -> Self {
        Self { pool, limits }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, Threads::count)
    }

    /// Nanoseconds of the fastest of several runs of a layer that is configured; none for one that has no `forward`, or whose
    /// inputs cannot be made up.
    ///
    /// # Errors
    /// A layer that cannot be initialised; a deadline that has passed.
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
        let (Some(inputs_made), Some(mut outputs_made)) = (self.made_up(inputs)?, self.made_up(outputs)?)
        else {
            return Ok(None);
        };
        let mut workspace = Workspace::new()?;
        // Layers ask for scratch memory for the threads that they find around them.
        let scratch = match &self.pool {
            Some(pool) => pool.install(|| layer.workspace(inputs, outputs)),
            None => layer.workspace(inputs, outputs),
        };
        self.limits.check_tensor("scratch memory", scratch as u64)?;
        workspace.reserve(scratch)?;
        layer.initialize()?;
        let timed = catch_panic(|| {
            layer.configure(inputs, outputs)?;
            let inputs = inputs_made.iter().map(|input| lying(input.view(), is_pointwise));
            let inputs = inputs.collect::<Result<Vec<_>, LayerError>>()?;
            let outputs = outputs_made.iter_mut().map(|output| lying_mut(output.view_mut()?, is_pointwise));
            let mut outputs = outputs.collect::<Result<Vec<_>, LayerError>>()?;
            let mut run = || self.fastest(layer, &inputs, &mut outputs, &mut workspace);
            match &self.pool {
                Some(pool) => pool.install(run),
                None => run(),
            }
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
            layer.forward(inputs, outputs, &mut ForwardContext::new(workspace.scratch(), &self.limits))?;
            Ok(begin.elapsed())
        };
        Ok(fastest(&OF_A_LAYER, &mut run)?.as_nanos() as f64)
    }

    /// Tensors of these shapes and formats; none where sizes are not known. Real numbers are small ones of both signs, whole
    /// ones are 0, which is an index wherever there are elements.
    fn made_up(&self, metas: &[TensorMeta]) -> Result<Option<Vec<Tensor>>, LayerError> {
        let mut made = Vec::with_capacity(metas.len());
        for meta in metas {
            let (Ok(layout), Some(bytes)) = (meta.layout(), meta.byte_len()) else { return Ok(None) };
            self.limits.check_tensor("a tensor to measure with", bytes)?;
            let mut tensor = Tensor::zeros_with_layout(meta.dtype(), layout)?;
            fill(&mut tensor)?;
            made.push(tensor);
        }
        Ok(Some(made))
    }
}

/// Fills a tensor of f32 with numbers that are no zeros, which some kernels are quick with.
fn fill(tensor: &mut Tensor) -> Result<(), LayerError> {
    if tensor.dtype() != DType::F32 || tensor.layout().format() != Format::Plain {
        return Ok(());
    }
    for (index, value) in tensor.view_mut()?.slice::<f32>()?.iter_mut().enumerate() {
        *value = (index % 255) as f32 / 127.0 - 1.0;
    }
    Ok(())
}

/// A tensor as an engine gives it to a layer.
fn lying(view: TensorView<'_>, is_pointwise: bool) -> Result<TensorView<'_>, LayerError> {
    let layout = seen(view.layout(), is_pointwise)?;
    Ok(view.with_layout(layout)?)
}

fn lying_mut(view: TensorViewMut<'_>, is_pointwise: bool) -> Result<TensorViewMut<'_>, LayerError> {
    let layout = seen(view.layout(), is_pointwise)?;
    Ok(view.with_layout(layout)?)
}

fn seen(layout: &Layout, is_pointwise: bool) -> Result<Layout, LayerError> {
    Ok(if is_pointwise { layout.unrolled()? } else { *layout })
}
