//! Times a layer on a device, on synthetic tensors.

use super::cuda::{Accelerator, Resident, Store, preferred_workspace};
use crate::Limits;
use crate::cuda::device::{Memory, Queue};
use crate::cuda::{CudaContext, CudaIo, CudaLayer, Faults};
use crate::op::{CpuLayer, LayerError, Tactic, TensorMeta, catch_panic};
use crate::tensor::{DType, Layout, Shape, Tensor};
use std::time::{Duration, Instant};

/// The time budget of a candidate. A slow one is still launched twice: once to compile it, and once to measure it.
const TIME_BUDGET: Duration = Duration::from_millis(8);

/// The minimum time of all launches between two waits for the device, since waiting takes time as well; and the maximum
/// number of these launches.
const MIN_BATCH_TIME: Duration = Duration::from_millis(1);
const MAX_LAUNCHES: u32 = 50;

impl Accelerator {
    /// The name of the device in the timing cache.
    pub(in crate::engine) fn name(&self) -> String {
        let info = self.device.info();
        format!("{} {} {}", info.name, info.target, info.libraries).trim_end().to_owned()
    }

    /// The settings that times depend on, in addition to the device and the layer.
    pub(in crate::engine) fn settings(&self) -> String {
        let tf32 = self.layers.tf32();
        let allowed = [(tf32.products, "products"), (tf32.convolutions, "convolutions")];
        let allowed = allowed.into_iter().filter(|(is_allowed, _)| *is_allowed).map(|(_, of)| of);
        format!("tf32 {}", allowed.collect::<Vec<_>>().join(" "))
    }

    /// The nanoseconds of the fastest of several runs of a layer with a tactic; `None` if its inputs cannot be synthesised, or
    /// if it fails, which is logged.
    ///
    /// # Errors
    /// Returns an error if the deadline has passed or tensors exceed the limits.
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
    inputs: Vec<Resident>,
    outputs: Vec<Resident>,
    weights: Vec<Resident>,
    scratch: Option<Resident>,
    faults: Resident,
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
                true => store.put(sample_tensor(meta.dtype(), layout.span())?).with_layout(layout),
                false => store.reserve(meta.dtype(), layout),
            };
            Ok::<Resident, LayerError>(room)
        };
        let device_inputs = inputs.iter().map(|meta| put(meta, true)).collect::<Result<Vec<_>, _>>()?;
        let device_outputs = outputs.iter().map(|meta| put(meta, false)).collect::<Result<Vec<_>, _>>()?;
        let weights = layer.weights()?.into_iter().map(|weight| store.put(weight)).collect();
        let scratch = match preferred_workspace(layer, accelerator.device.info(), (inputs, outputs)) {
            0 => None,
            bytes => Some(store.reserve(DType::U8, Layout::contiguous(Shape::new(&[bytes])?))),
        };
        let faults = store.put(Tensor::zeros(DType::I64, &[3])?);
        let memory = store.upload(&accelerator.device)?;
        let queue = accelerator.device.queue()?;
        let (inputs, outputs) = (device_inputs, device_outputs);
        Ok(Self { accelerator, memory, queue, inputs, outputs, weights, scratch, faults })
    }

    fn fastest(&mut self, layer: &mut dyn CudaLayer, limits: &Limits) -> Result<f64, LayerError> {
        self.time_batch(layer, 1, limits)?;
        let start = Instant::now();
        let mut fastest = self.time_batch(layer, 1, limits)?;
        let launches = MIN_BATCH_TIME.as_nanos().checked_div(fastest.as_nanos()).unwrap_or(u128::MAX);
        let launches = u32::try_from(launches).unwrap_or(u32::MAX).clamp(1, MAX_LAUNCHES);
        while start.elapsed() < TIME_BUDGET {
            fastest = fastest.min(self.time_batch(layer, launches, limits)?);
        }
        Ok(fastest.as_secs_f64() * 1e9)
    }

    /// The time of one run, averaged over a number of runs that are waited for together.
    fn time_batch(
        &mut self,
        layer: &mut dyn CudaLayer,
        runs: u32,
        limits: &Limits,
    ) -> Result<Duration, LayerError> {
        limits.check_deadline()?;
        let Self { memory, queue, .. } = self;
        let all =
            |kept: &[Resident]| kept.iter().map(|kept| kept.tensor(memory)).collect::<Result<Vec<_>, _>>();
        let [inputs, outputs, weights] = [all(&self.inputs)?, all(&self.outputs)?, all(&self.weights)?];
        let scratch = self.scratch.map(|scratch| scratch.tensor(memory)).transpose()?;
        let record = self.faults.tensor(memory)?;
        let start = Instant::now();
        for _ in 0..runs {
            let faults = Faults { record, operator_id: 1, is_used: false };
            let context = CudaContext::new(queue, scratch, &weights, limits, faults);
            let mut context = context.with_tf32(self.accelerator.layers.tf32());
            layer.forward(&mut CudaIo::new(&inputs, &outputs, &mut context))?;
        }
        queue.synchronize()?;
        Ok(start.elapsed() / runs)
    }
}

/// A synthetic tensor of this length: small values of both signs for floats, and 0 for integers, which is a valid index
/// into any axis that is not empty.
fn sample_tensor(dtype: DType, len: usize) -> Result<Tensor, LayerError> {
    if !dtype.is_float() {
        return Ok(Tensor::zeros(dtype, &[len])?);
    }
    let number = |index: usize| (index % 255) as f32 / 127.0 - 1.0;
    Ok(Tensor::from_vec((0..len).map(number).collect(), &[len])?.cast(dtype)?)
}
