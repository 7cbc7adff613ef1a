//! Prices of candidates and conversions, estimated without measuring by a processor model with two parameters.
//!
//! The model only has to rank alternatives, and must do so identically everywhere, so that plans are equal on all machines.

use super::cross_device;
use crate::engine::device::Accelerator;
use crate::engine::tuning::{Key, Tuner};
use crate::op::{Cost, CpuLayer, Device, LayerError, Tactic, TensorFormat, TensorMeta};
use crate::tensor::{DType, Layout};

/// The source of prices: a tuner, or the model if there is no tuner or it cannot measure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prices<'a> {
    pub(super) tuner: Option<&'a Tuner>,
    pub(super) accelerator: Option<&'a Accelerator>,
}

impl Prices<'_> {
    /// The price of a layer that is configured and has its tactic, and whether it was measured. `weights` is the size of its
    /// weights in bytes.
    ///
    /// # Errors
    /// Returns an error if the layer cannot be initialised for measuring.
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

    /// The price of converting a tensor from one format to another. Between devices, it is transferred as it is.
    pub(super) fn of_conversion(&self, meta: &TensorMeta, from: &TensorFormat, to: &TensorFormat) -> f64 {
        if from.device != to.device {
            return self.of_cross_device(meta, from, to);
        }
        if from.device == Device::Cuda {
            return self.of_device_reformat(meta, from, to);
        }
        let (from, to) = (in_format(meta, from), in_format(meta, to));
        let measured = self.tuner.and_then(|tuner| tuner.reformat(&from, &to));
        measured.unwrap_or_else(|| reformat_price(&from, &to))
    }

    /// The price of converting a tensor that stays in a GPU's memory.
    fn of_device_reformat(&self, meta: &TensorMeta, from: &TensorFormat, to: &TensorFormat) -> f64 {
        let tuned = self.tuner.zip(self.accelerator);
        let measured = tuned.and_then(|(tuner, accelerator)| {
            tuner.reformat_on_device(accelerator, &in_format(meta, from), &in_format(meta, to))
        });
        measured.unwrap_or_else(|| of_device_reformat(meta, from, to))
    }

    /// The price of transferring a tensor to another device, and of converting it on the GPU, before or after.
    fn of_cross_device(&self, meta: &TensorMeta, from: &TensorFormat, to: &TensorFormat) -> f64 {
        if from.on(to.device) == *to {
            return of_transfer(&meta.with_dtype(from.dtype));
        }
        let Some(middle) = cross_device::between(from, to) else { return f64::INFINITY };
        let crosses = if from.device == Device::Cpu { from } else { to };
        let ends = if from.device == Device::Cpu { [&middle, to] } else { [from, &middle] };
        of_transfer(&meta.with_dtype(crosses.dtype)) + self.of_device_reformat(meta, ends[0], ends[1])
    }
}

/// A tensor in a format.
fn in_format(meta: &TensorMeta, format: &TensorFormat) -> TensorMeta {
    meta.with_dtype(format.dtype).with_format(format.format)
}

/// The number of bytes by which half-precision tensors are smaller than the f32 that is computed with. Converting them takes as
/// long as reading these bytes would.
fn widened(metas: &[TensorMeta]) -> u64 {
    let halves = metas.iter().filter(|meta| matches!(meta.dtype(), DType::F16 | DType::Bf16));
    halves.filter_map(TensorMeta::byte_len).fold(0, u64::saturating_add)
}

/// Returns true if a layer does no work: all of its outputs are views of its inputs.
pub(super) fn is_view(layer: &dyn CpuLayer, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> bool {
    views(layer, inputs, outputs).is_some()
}

/// Returns true if a layer does no work, and its outputs have the order of their formats.
pub(super) fn is_view_in_order(layer: &dyn CpuLayer, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> bool {
    let is_in_order = |(view, output): (&Layout, &TensorMeta)| {
        output.layout().is_ok_and(|layout| view.is_ordered_as(&layout))
    };
    views(layer, inputs, outputs).is_some_and(|views| views.iter().zip(outputs).all(is_in_order))
}

/// The layouts of a layer's outputs within its inputs; `None` unless all of them are views.
fn views(layer: &dyn CpuLayer, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Option<Vec<Layout>> {
    let described = |meta: &TensorMeta| Some((meta.dtype(), meta.layout().ok()?));
    let inputs = inputs.iter().map(described).collect::<Option<Vec<(DType, Layout)>>>()?;
    let view = |(position, output): (usize, &TensorMeta)| {
        let shape = output.shape().ok()?;
        Some(layer.view_of(position, &inputs, &shape).ok().flatten()?.layout)
    };
    outputs.iter().enumerate().map(view).collect::<Option<Vec<Layout>>>().filter(|views| !views.is_empty())
}

/// Multiply-accumulate operations that a good kernel performs per nanosecond.
const MACS_PER_NS: f64 = 30.0;

/// Bytes that are read or written per nanosecond.
const BYTES_PER_NS: f64 = 10.0;

/// Nanoseconds that calling a layer takes.
const CALL_NS: f64 = 100.0;

/// The price of moving elements between formats, which skips through memory, relative to copying them.
const SCATTER_FACTOR: f64 = 2.0;

/// The price of a layer's work in nanoseconds, for a layer of this [efficiency](crate::op::CpuLayer::efficiency).
fn of_layer(cost: Cost, efficiency: f64) -> f64 {
    CALL_NS + cost.macs as f64 / (MACS_PER_NS * clamped(efficiency)) + cost.bytes as f64 / BYTES_PER_NS
}

/// Clamps the efficiency that a layer reports to a plausible range; NaN counts as 1.
fn clamped(efficiency: f64) -> f64 {
    const MIN_EFFICIENCY: f64 = 1e-3;
    if efficiency.is_nan() { 1.0 } else { efficiency.clamp(MIN_EFFICIENCY, 1e3) }
}

/// Multiply-accumulate operations of a GPU per nanosecond, by the bytes of an element: narrow types run on tensor cores.
fn device_macs_per_ns(bytes: usize) -> f64 {
    match bytes {
        0 | 1 => 800_000.0,
        2 => 400_000.0,
        _ => 30_000.0,
    }
}

/// Bytes that a GPU reads or writes per nanosecond, and the nanoseconds that a kernel takes in addition.
const DEVICE_BYTES_PER_NS: f64 = 3_000.0;
const LAUNCH_NS: f64 = 2_000.0;

/// As [`SCATTER_FACTOR`], on a GPU, where elements are moved in words.
const DEVICE_SCATTER_FACTOR: f64 = 1.25;

/// The price of a conversion that moves nothing: almost 0, but no conversion at all is better.
const VIEW_NS: f64 = 1.0;

/// The price of an operator on a GPU, by kernels of this efficiency. Its first tensor has the type that is multiplied.
pub(super) fn of_device(cost: Cost, efficiency: f64, formats: &[TensorFormat]) -> f64 {
    let bytes = formats.first().map_or(4, |format| format.dtype.size());
    let macs = device_macs_per_ns(bytes) * clamped(efficiency);
    LAUNCH_NS + cost.macs as f64 / macs + cost.bytes as f64 / DEVICE_BYTES_PER_NS
}

fn of_device_reformat(meta: &TensorMeta, from: &TensorFormat, to: &TensorFormat) -> f64 {
    let layout = |format: &TensorFormat| meta.clone().with_format(format.format).layout();
    let is_moved = match (layout(from), layout(to)) {
        (Ok(from), Ok(to)) => !from.has_same_positions(&to),
        _ => true,
    };
    if !is_moved && from.dtype == to.dtype && from.is_quantized == to.is_quantized {
        return VIEW_NS;
    }
    let elements = meta.num_elements().fixed().unwrap_or(0).max(0) as f64;
    let times = if is_moved { DEVICE_SCATTER_FACTOR } else { 1.0 };
    LAUNCH_NS + times * elements * (from.dtype.size() + to.dtype.size()) as f64 / DEVICE_BYTES_PER_NS
}

/// Bytes transferred between the memories of CPU and GPU per nanosecond, and the nanoseconds that starting a transfer takes.
const TRANSFER_BYTES_PER_NS: f64 = 12.0;
const TRANSFER_NS: f64 = 10_000.0;

fn of_transfer(meta: &TensorMeta) -> f64 {
    TRANSFER_NS + meta.byte_len().unwrap_or(0) as f64 / TRANSFER_BYTES_PER_NS
}

/// The price of converting a tensor on the CPU from one format to another, in nanoseconds, by the processor model that is used
/// when nothing is measured.
pub fn reformat_price(from: &TensorMeta, to: &TensorMeta) -> f64 {
    let cost = Cost::of_moving(std::slice::from_ref(from), std::slice::from_ref(to));
    CALL_NS + SCATTER_FACTOR * cost.bytes as f64 / BYTES_PER_NS
}
