//! How long a device takes for a layer, on made-up tensors.

use super::cuda::{Accelerator, Kept, Store};
use crate::Limits;
use crate::cuda::device::{Memory, Queue};
use crate::cuda::{CudaContext, CudaLayer, Faults};
use crate::op::{CpuLayer, LayerError, Tactic, TensorMeta, catch_panic};
use crate::tensor::{DType, Layout, Shape, Tensor};
use std::time::{Duration, Instant};

/// A candidate is launched so long, but a slow one twice all the same: once to compile it, and once to measure.
const ENOUGH: Duration = Duration::from_millis(8);

/// Waiting for a device takes a while: launches between two waits take at least so long together, if they are not too many.
const STRETCH: Duration = Duration::from_millis(1);
const MOST_LAUNCHES: u32 = 50;

impl Accelerator {
    /// The device, as it is told from others where times are kept.
    pub(in crate::engine) fn name(&self) -> String {
        let info = self.device.info();
        format!("{} {} {}", info.name, info.target, info.libraries).trim_end().to_owned()
    }

    /// What times depend on beside the device and the layer.
    pub(in crate::engine) fn terms(&self) -> String {
        let tf32 = self.layers.tf32();
        let allowed = [(tf32.products, "products"), (tf32.convolutions, "convolutions")];
        let allowed = allowed.into_iter().filter(|(is_allowed, _)| *is_allowed).map(|(_, of)| of);
        format!("tf32 {}", allowed.collect::<Vec<_>>().join(" "))
    }

    /// Nanoseconds of the fastest of several runs of a layer by a tactic; none for one that has no inputs to be made up, and for
    /// one that fails, which the log tells.
    ///
    /// # Errors
    /// A deadline that has passed; tensors beyond the limits.
    pub(in crate::engine) fn time(
        &self,
        layer: &dyn CpuLayer,
        tactic: Tactic,
        (inputs, outputs): (&[TensorMeta], &[TensorMeta]),
        limits: &Limits,
    ) -> Result<Option<f64>, LayerError> {
        let metas = || inputs.iter().chain(outputs);
        let is_pointwise = layer.is_pointwise();
        let Some(mut layer) = self.layers.of(layer) else { return Ok(None) };
        if inputs.is_empty() || metas().any(|meta| meta.layout().is_err()) {
            return Ok(None);
        }
        for meta in metas() {
            limits.check_tensor("a tensor to measure with", meta.byte_len().unwrap_or(u64::MAX))?;
        }
        let timed = catch_panic(|| {
            layer.set_tactic(tactic.id)?;
            layer.configure(inputs, outputs)?;
            Bench::new(self, (&*layer, is_pointwise), (inputs, outputs))?.fastest(&mut *layer, limits)
        });
        limits.check_deadline()?;
        let failed = |error: &LayerError| {
            log::warn!("{layer:?} is not measured on {}, {}: {error}", self.device.info().id, tactic.name);
        };
        Ok(timed.inspect_err(failed).ok())
    }
}

/// A layer's tensors on a device.
struct Bench<'a> {
    accelerator: &'a Accelerator,
    memory: Memory,
    queue: Queue,
    inputs: Vec<Kept>,
    outputs: Vec<Kept>,
    weights: Vec<Kept>,
    scratch: Option<Kept>,
    faults: Kept,
}

impl<'a> Bench<'a> {
    fn new(
        accelerator: &'a Accelerator,
        (layer, is_pointwise): (&dyn CudaLayer, bool),
        (inputs, outputs): (&[TensorMeta], &[TensorMeta]),
    ) -> Result<Self, LayerError> {
        let mut store = Store::default();
        let mut put = |meta: &TensorMeta, is_filled: bool| {
            let layout = if is_pointwise { meta.layout()?.unrolled()? } else { meta.layout()? };
            let room = match is_filled {
                true => store.put(made_up(meta.dtype(), layout.span())?).lying(layout),
                false => store.room(meta.dtype(), layout),
            };
            Ok::<Kept, LayerError>(room)
        };
        let inputs_there = inputs.iter().map(|meta| put(meta, true)).collect::<Result<Vec<_>, _>>()?;
        let outputs_there = outputs.iter().map(|meta| put(meta, false)).collect::<Result<Vec<_>, _>>()?;
        let weights = layer.weights()?.into_iter().map(|weight| store.put(weight)).collect();
        let scratch = match layer.workspace(inputs, outputs) {
            0 => None,
            bytes => Some(store.room(DType::U8, Layout::contiguous(Shape::new(&[bytes])?))),
        };
        let faults = store.put(Tensor::zeros(DType::I64, &[3])?);
        let memory = store.upload(&accelerator.device)?;
        let queue = accelerator.device.queue()?;
        let (inputs, outputs) = (inputs_there, outputs_there);
        Ok(Self { accelerator, memory, queue, inputs, outputs, weights, scratch, faults })
    }

    fn fastest(&mut self, layer: &mut dyn CudaLayer, limits: &Limits) -> Result<f64, LayerError> {
        self.stretch(layer, 1, limits)?;
        let start = Instant::now();
        let mut fastest = self.stretch(layer, 1, limits)?;
        let launches = STRETCH.as_nanos().checked_div(fastest.as_nanos()).unwrap_or(u128::MAX);
        let launches = u32::try_from(launches).unwrap_or(u32::MAX).clamp(1, MOST_LAUNCHES);
        while start.elapsed() < ENOUGH {
            fastest = fastest.min(self.stretch(layer, launches, limits)?);
        }
        Ok(fastest.as_secs_f64() * 1e9)
    }

    /// The time of one of so many runs, which are waited for together.
    fn stretch(
        &mut self,
        layer: &mut dyn CudaLayer,
        runs: u32,
        limits: &Limits,
    ) -> Result<Duration, LayerError> {
        limits.check_deadline()?;
        let Self { memory, queue, .. } = self;
        let all = |kept: &[Kept]| kept.iter().map(|kept| kept.tensor(memory)).collect::<Result<Vec<_>, _>>();
        let [inputs, outputs, weights] = [all(&self.inputs)?, all(&self.outputs)?, all(&self.weights)?];
        let scratch = self.scratch.map(|scratch| scratch.tensor(memory)).transpose()?;
        let place = self.faults.tensor(memory)?;
        let start = Instant::now();
        for _ in 0..runs {
            let faults = Faults { place, who: 1, is_used: false };
            let context = CudaContext::new(queue, scratch, &weights, limits, faults);
            let mut context = context.with_tf32(self.accelerator.layers.tf32());
            layer.forward(&inputs, &outputs, &mut context)?;
        }
        queue.synchronize()?;
        Ok(start.elapsed() / runs)
    }
}

/// So many numbers that a kernel can compute with: small ones of both signs, and of whole ones 0, which is an index wherever there
/// are elements.
fn made_up(dtype: DType, len: usize) -> Result<Tensor, LayerError> {
    if !dtype.is_float() {
        return Ok(Tensor::zeros(dtype, &[len])?);
    }
    let number = |index: usize| (index % 255) as f32 / 127.0 - 1.0;
    Ok(Tensor::from_vec((0..len).map(number).collect(), &[len])?.cast(dtype)?)
}
