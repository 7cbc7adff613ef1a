//! What things cost, as far as one can tell without trying: a model of a processor with two numbers.
//!
//! The model only has to rank alternatives, and to do so in the same way everywhere: plans are equal on all machines.

use super::crossing;
use crate::engine::device::Accelerator;
use crate::engine::tuning::{Key, Tuner};
use crate::op::{Cost, CpuLayer, Device, LayerError, Tactic, TensorFormat, TensorMeta};
use crate::tensor::{DType, Layout};

/// Where prices come from: from a tuner, and where there is none or it cannot measure, from the model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prices<'a> {
    pub(super) tuner: Option<&'a Tuner>,
    pub(super) accelerator: Option<&'a Accelerator>,
}

impl Prices<'_> {
    /// The price of a layer that is configured and has its tactic, with so many bytes of weights, and whether it was measured.
    ///
    /// # Errors
    /// A layer that cannot be initialised to be measured.
    pub(super) fn of_layer(
        &self,
        key: &Key,
        layer: &mut dyn CpuLayer,
        tactic: Tactic,
        (inputs, outputs, weights): (&[TensorMeta], &[TensorMeta], u64),
    ) -> Result<(f64, bool), LayerError> {
        if is_view(layer, inputs, outputs) {
            return Ok((0.0, false));
        }
        if let Some(tuner) = self.tuner
            && let Some(measured) = tuner.layer(key, layer, tactic, (inputs, outputs))?
        {
            return Ok((measured, true));
        }
        let cost = layer.cost(inputs, outputs);
        let bytes = [weights, widened(inputs), widened(outputs)];
        let bytes = bytes.into_iter().fold(cost.bytes, u64::saturating_add);
        let cost = Cost { bytes, ..cost };
        Ok((of_layer(cost, layer.efficiency(inputs, outputs)), false))
    }

    /// The price of bringing a tensor from one format into another. What lies on another device is copied as it is.
    pub(super) fn of_conversion(&self, meta: &TensorMeta, from: &TensorFormat, to: &TensorFormat) -> f64 {
        if from.device != to.device {
            return self.of_crossing(meta, from, to);
        }
        if from.device == Device::Cuda {
            return self.of_device_reformat(meta, from, to);
        }
        self.of_reformat(&in_format(meta, from), &in_format(meta, to))
    }

    /// The same of a tensor that stays in a GPU's memory.
    fn of_device_reformat(&self, meta: &TensorMeta, from: &TensorFormat, to: &TensorFormat) -> f64 {
        let tuned = self.tuner.zip(self.accelerator);
        let measured = tuned.and_then(|(tuner, accelerator)| {
            tuner.reformat_on_device(accelerator, &in_format(meta, from), &in_format(meta, to))
        });
        measured.unwrap_or_else(|| of_device_reformat(meta, from, to))
    }

    /// The price of bringing a tensor to another device, and into a format there or before.
    fn of_crossing(&self, meta: &TensorMeta, from: &TensorFormat, to: &TensorFormat) -> f64 {
        if from.on(to.device) == *to {
            return of_transfer(&meta.with_dtype(from.dtype));
        }
        let Some(middle) = crossing::between(from, to) else { return f64::INFINITY };
        let crosses = if from.device == Device::Cpu { from } else { to };
        let ends = if from.device == Device::Cpu { [&middle, to] } else { [from, &middle] };
        of_transfer(&meta.with_dtype(crosses.dtype)) + self.of_device_reformat(meta, ends[0], ends[1])
    }

    /// The price of bringing a tensor from one format into another.
    fn of_reformat(&self, from: &TensorMeta, to: &TensorMeta) -> f64 {
        let measured = self.tuner.and_then(|tuner| tuner.reformat(from, to));
        measured.unwrap_or_else(|| reformat_price(from, to))
    }
}

/// A tensor in a format.
fn in_format(meta: &TensorMeta, format: &TensorFormat) -> TensorMeta {
    meta.with_dtype(format.dtype).with_format(format.format)
}

/// Bytes by which tensors of half precision are smaller than the f32 that is computed with. Converting them takes as long as
/// reading these would.
fn widened(metas: &[TensorMeta]) -> u64 {
    let halves = metas.iter().filter(|meta| matches!(meta.dtype(), DType::F16 | DType::Bf16));
    halves.filter_map(TensorMeta::byte_len).fold(0, u64::saturating_add)
}

/// Whether a layer has nothing to do: all of its outputs lie in its inputs.
pub(super) fn is_view(layer: &dyn CpuLayer, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> bool {
    views(layer, inputs, outputs).is_some()
}

/// Whether a layer has nothing to do, and its outputs lie in the order that their formats say.
pub(super) fn is_view_in_order(layer: &dyn CpuLayer, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> bool {
    let is_in_order = |(view, output): (&Layout, &TensorMeta)| {
        output.layout().is_ok_and(|layout| view.is_ordered_as(&layout))
    };
    views(layer, inputs, outputs).is_some_and(|views| views.iter().zip(outputs).all(is_in_order))
}

/// How the outputs of a layer lie in its inputs, where all of them do.
fn views(layer: &dyn CpuLayer, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Option<Vec<Layout>> {
    let lies = |meta: &TensorMeta| Some((meta.dtype(), meta.layout().ok()?));
    let inputs = inputs.iter().map(lies).collect::<Option<Vec<(DType, Layout)>>>()?;
    let view = |(position, output): (usize, &TensorMeta)| {
        let shape = output.shape().ok()?;
        Some(layer.view_of(position, &inputs, &shape).ok().flatten()?.layout)
    };
    outputs.iter().enumerate().map(view).collect::<Option<Vec<Layout>>>().filter(|views| !views.is_empty())
}

/// Multiply-accumulate operations of a good kernel in a nanosecond.
const MACS: f64 = 30.0;

/// Bytes that are read or written in a nanosecond.
const BYTES: f64 = 10.0;

/// Nanoseconds that calling a layer takes.
const CALL: f64 = 100.0;

/// Moving elements between formats skips through memory: so many times the price of copying them.
const SCATTERED: f64 = 2.0;

/// The price of a layer's work in nanoseconds, for a layer of this [efficiency](crate::op::CpuLayer::efficiency).
fn of_layer(cost: Cost, efficiency: f64) -> f64 {
    CALL + cost.macs as f64 / (MACS * clamped(efficiency)) + cost.bytes as f64 / BYTES
}

/// What a layer says of itself, within reason: it may say that it is bad, not that it never ends.
fn clamped(efficiency: f64) -> f64 {
    const WORST: f64 = 1e-3;
    if efficiency.is_nan() { 1.0 } else { efficiency.clamp(WORST, 1e3) }
}

/// Multiply-accumulate operations of a GPU in a nanosecond by the bytes of a number: tensor cores take numbers of fewer bits.
fn device_macs(bytes: usize) -> f64 {
    match bytes {
        0 | 1 => 800_000.0,
        2 => 400_000.0,
        _ => 30_000.0,
    }
}

/// Bytes that a GPU reads or writes in a nanosecond, and the nanoseconds that a kernel takes beside that.
const DEVICE_BYTES: f64 = 3_000.0;
const LAUNCH: f64 = 2_000.0;

/// A tensor that only changes its name costs nothing, but none is better.
const VIEW: f64 = 1.0;

/// The price of an operator on a GPU, whose first tensor says what is multiplied, by kernels of this efficiency.
pub(super) fn of_device(cost: Cost, efficiency: f64, formats: &[TensorFormat]) -> f64 {
    let bytes = formats.first().map_or(4, |format| format.dtype.size());
    let macs = device_macs(bytes) * clamped(efficiency);
    LAUNCH + cost.macs as f64 / macs + cost.bytes as f64 / DEVICE_BYTES
}

fn of_device_reformat(meta: &TensorMeta, from: &TensorFormat, to: &TensorFormat) -> f64 {
    let layout = |format: &TensorFormat| meta.clone().with_format(format.format).layout();
    let is_moved = match (layout(from), layout(to)) {
        (Ok(from), Ok(to)) => !from.lies_as(&to),
        _ => true,
    };
    if !is_moved && from.dtype == to.dtype && from.is_quantized == to.is_quantized {
        return VIEW;
    }
    let elements = meta.num_elements().fixed().unwrap_or(0).max(0) as f64;
    let times = if is_moved { SCATTERED } else { 1.0 };
    LAUNCH + times * elements * (from.dtype.size() + to.dtype.size()) as f64 / DEVICE_BYTES
}

/// Bytes that go between the CPU's memory and a GPU's in a nanosecond, and the nanoseconds that asking for it takes.
const TRANSFERRED: f64 = 12.0;
const TRANSFER: f64 = 10_000.0;

fn of_transfer(meta: &TensorMeta) -> f64 {
    TRANSFER + meta.byte_len().unwrap_or(0) as f64 / TRANSFERRED
}

/// The price of bringing a tensor on the CPU from one format into another, in nanoseconds, by the model of a processor that
/// is used where nobody measures.
pub fn reformat_price(from: &TensorMeta, to: &TensorMeta) -> f64 {
    let cost = Cost::of_moving(std::slice::from_ref(from), std::slice::from_ref(to));
    CALL + SCATTERED * cost.bytes as f64 / BYTES
}
