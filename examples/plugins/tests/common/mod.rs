//! Calls the convolution plugin directly, the way the engine does.

#![allow(dead_code, reason = "no test uses all of it")]

use ixion::Limits;
use ixion::op::{
    CpuLayer, ForwardContext, Io, OperatorReader, Registry, Result, RuntimeAttribute, RuntimeParameter,
    TensorFormat, TensorMeta,
};
use ixion::tensor::{DType, Tensor, Workspace};
use std::collections::BTreeMap;

/// Ixion's layers and those of this crate.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::default();
    plugins::register(&mut registry).unwrap();
    registry
}

/// Creates an `examples/Convolution/1` layer with these fields.
pub(crate) fn create(
    params: BTreeMap<String, RuntimeParameter>,
    attrs: BTreeMap<String, RuntimeAttribute>,
) -> Result<Box<dyn CpuLayer>> {
    let registry = registry();
    let creator = registry.find(&"examples/Convolution/1".parse().unwrap()).unwrap();
    creator.create(OperatorReader::new(&params, &attrs, &[None], 1))
}

/// Quantises a float tensor to int8.
pub(crate) fn quantized(x: &Tensor, scale: f32) -> Tensor {
    let values = x.to_vec::<f32>().unwrap();
    let values: Vec<i8> =
        values.iter().map(|x| (x / scale).round_ties_even().clamp(-127.0, 127.0) as i8).collect();
    Tensor::from_vec(values, x.shape()).unwrap()
}

/// The scale that maps the largest magnitude to 127.
pub(crate) fn scale_of(x: &Tensor) -> f32 {
    x.to_vec::<f32>().unwrap().iter().fold(f32::MIN_POSITIVE, |largest, x| largest.max(x.abs())) / 127.0
}

/// The scale with the smallest mean squared error; it may clip rare large values.
pub(crate) fn best_scale(x: &Tensor) -> f32 {
    let (values, largest) = (x.to_vec::<f32>().unwrap(), scale_of(x));
    let error = |scale: f32| -> f64 {
        let off = values.iter().map(|x| (x / scale).round_ties_even().clamp(-127.0, 127.0) * scale - x);
        off.map(|off| f64::from(off) * f64::from(off)).sum()
    };
    let scales = (8..=32).map(|part| largest * part as f32 / 32.0);
    let best = scales.map(|scale| (error(scale), scale)).min_by(|a, b| a.0.total_cmp(&b.0));
    best.unwrap().1
}

/// Checks each position with `supports`, as a builder does, then configures the layer.
pub(crate) fn configure(layer: &mut dyn CpuLayer, x: &Tensor, scales: Option<(f32, Option<f32>)>) {
    let input = TensorMeta::of(&x.view());
    let output = layer.infer(&[input.with_dtype(DType::F32)]).unwrap().remove(0);
    let (x_scale, y_scale) = scales.map_or((None, None), |(x_scale, y_scale)| (Some(x_scale), y_scale));
    let format = |scale: Option<f32>| match scale {
        Some(_) => TensorFormat::quantized(),
        None => TensorFormat::plain(DType::F32),
    };
    let formats = [format(x_scale), format(y_scale)];
    assert!(layer.supports(0, &formats[..1]) && layer.supports(1, &formats));
    let input = input.with_scale(x_scale);
    let output = output.with_dtype(formats[1].dtype).with_scale(y_scale);
    layer.configure(&[input], &[output]).unwrap();
}

/// Runs a layer that is configured for an output of this type.
pub(crate) fn forward_to(dtype: DType, layer: &mut dyn CpuLayer, x: &Tensor) -> Tensor {
    let input = TensorMeta::of(&x.view());
    let output = layer.infer(&[input.with_dtype(DType::F32)]).unwrap().remove(0).with_dtype(dtype);
    let mut y = Tensor::zeros(dtype, &output.shape().unwrap()).unwrap();
    let mut workspace = Workspace::new().unwrap();
    workspace.reserve(layer.workspace(&[input], &[output])).unwrap();
    let limits = Limits::default();
    let mut context = ForwardContext::new(&mut workspace, &limits);
    layer.forward(&mut Io::new(&[x.view()], &mut [y.view_mut().unwrap()], &mut context)).unwrap();
    y
}

/// Runs a layer whose output has the type of its input.
pub(crate) fn forward(layer: &mut dyn CpuLayer, x: &Tensor) -> Tensor {
    forward_to(x.dtype(), layer, x)
}

/// The signal-to-noise ratio, in decibels.
pub(crate) fn signal_to_noise(wanted: &[f32], found: &[f32]) -> f64 {
    let power = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let signal = power(&mut wanted.iter().map(|&x| f64::from(x)));
    let noise = power(&mut wanted.iter().zip(found).map(|(&a, &b)| f64::from(a) - f64::from(b)));
    10.0 * (signal / noise).log10()
}

/// Dequantises an int8 tensor.
pub(crate) fn dequantized(q: &Tensor, scale: f32) -> Vec<f32> {
    q.to_vec::<i8>().unwrap().into_iter().map(|q| f32::from(q) * scale).collect()
}
