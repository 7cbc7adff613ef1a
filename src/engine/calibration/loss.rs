//! The accuracy that an operator loses in int8: it runs a second time in int8, on its own, on the inputs that it read in
//! `f32`.

use super::Scales;
use super::own::own_step;
use crate::Limits;
use crate::graph::{OperandIndex, RuntimeGraph, RuntimeOperator};
use crate::kernels::reformat::Stored;
use crate::op::{
    CpuLayer, ForwardContext, Io, LayerError, TensorFormat, TensorMeta, catch_panic, drop_layer,
};
use crate::tensor::{DType, Tensor, TensorView, Workspace};
use std::cmp::Ordering;

// ANCHOR: loss
/// The error of an operator's output in int8, compared with `f32`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loss {
    /// The operator.
    pub operator: String,
    /// Its type.
    pub op_type: String,
    /// The sum of the squares of the output in `f32`.
    pub signal: f64,
    /// The sum of the squares of the differences.
    pub noise: f64,
}

impl Loss {
    /// The signal-to-noise ratio in decibels; infinite if nothing is lost.
    pub fn decibels(&self) -> f64 {
        // ANCHOR: decibels_todo -- task 6: ten times the logarithm of the ratio
        if self.noise == 0.0 { f64::INFINITY } else { 10.0 * (self.signal / self.noise).log10() }
        // ANCHOR_END: decibels_todo
    }

    /// Returns true if the ratio is below this number of decibels, or NaN: the output is then unusable.
    pub fn is_below(&self, decibels: f64) -> bool {
        // ANCHOR: is_below_todo -- task 6: a ratio that cannot be compared is below everything
        self.decibels().partial_cmp(&decibels).is_none_or(Ordering::is_lt)
        // ANCHOR_END: is_below_todo
    }

    /// Adds the outputs in `f32`, `wanted`, and in int8, `found`.
    pub fn add(&mut self, wanted: &[f32], found: &[f32]) {
        // ANCHOR: add_todo -- task 6: sums of squares, in f64
        for (&wanted, &found) in wanted.iter().zip(found) {
            self.signal += f64::from(wanted).powi(2);
            self.noise += (f64::from(wanted) - f64::from(found)).powi(2);
        }
        // ANCHOR_END: add_todo
    }
}
// ANCHOR_END: loss

// ANCHOR: too_lossy
/// The names of the operators that must stay in `f32`, because they are below this number of decibels.
pub fn too_lossy<'a>(losses: impl IntoIterator<Item = &'a Loss>, decibels: f64) -> Vec<String> {
    // ANCHOR: too_lossy_todo -- task 6: the names of those that are below
    let bad = losses.into_iter().filter(|loss| loss.is_below(decibels));
    bad.map(|loss| loss.operator.clone()).collect()
    // ANCHOR_END: too_lossy_todo
}
// ANCHOR_END: too_lossy

/// A trial of an operator that can compute in int8.
#[derive(Debug)]
pub(super) struct Trial {
    /// `None` once it is dropped.
    layer: Option<Box<dyn CpuLayer>>,
    is_initialized: bool,
    /// The scale of its first input, and of its output if that is int8 as well.
    scales: (f32, Option<f32>),
    pub(super) loss: Loss,
}

impl Trial {
    /// A trial of an operator with the scales that it would get; `None` if it does not support int8 or has no scales.
    ///
    /// # Errors
    /// Returns an error if the layer panics.
    pub(super) fn new(
        graph: &RuntimeGraph,
        operator: &RuntimeOperator,
        scales: &Scales,
    ) -> Result<Option<Self>, LayerError> {
        let (Some(layer), Some(&input), &[output]) =
            (operator.layer(), operator.inputs().first(), operator.outputs())
        else {
            return Ok(None);
        };
        // It loses nothing.
        if own_step(layer).is_some() {
            return Ok(None);
        }
        let scale_of = |operand: OperandIndex| scales.get(graph.operand(operand).name());
        let (scale, out_scale) = (scale_of(input), scale_of(output));
        let inputs = operator.inputs().len();
        let out_is_int8 = catch_panic(|| Ok(is_output_int8(layer, inputs, out_scale.is_some())))?;
        let (Some(scale), Some(out_is_int8)) = (scale, out_is_int8) else { return Ok(None) };
        let loss = Loss {
            operator: operator.name().to_owned(),
            op_type: operator.op_type().to_owned(),
            ..Loss::default()
        };
        let layer = Some(catch_panic(|| Ok(layer.clone_layer()))?);
        let scales = (scale, out_scale.filter(|_| out_is_int8));
        Ok(Some(Self { layer, is_initialized: false, scales, loss }))
    }

    /// Runs the layer in int8 on the operator's inputs, and adds the error of its output to the loss.
    ///
    /// # Errors
    /// Returns an error if the layer fails; it must not be measured again.
    pub(super) fn measure(
        &mut self,
        inputs: &[&Tensor],
        output: &Tensor,
        limits: &Limits,
    ) -> Result<(), LayerError> {
        let (scale, out_scale) = self.scales;
        let quantized: Vec<i8> =
            inputs[0].to_vec::<f32>()?.into_iter().map(|x| i8::store(x, scale)).collect();
        let quantized = Tensor::from_vec(quantized, inputs[0].shape().dims())?;
        let meta = |tensor: &Tensor| TensorMeta::new(tensor.dtype(), tensor.shape().iter().copied());
        let mut metas: Vec<TensorMeta> = inputs.iter().map(|input| meta(input)).collect();
        metas[0] = meta(&quantized).with_scale(Some(scale));
        let out_dtype = if out_scale.is_some() { DType::I8 } else { DType::F32 };
        let out_meta = meta(output).with_dtype(out_dtype).with_scale(out_scale);
        let mut views: Vec<_> = inputs.iter().map(|input| input.view()).collect();
        views[0] = quantized.view();
        let mut found = Tensor::zeros(out_dtype, output.shape())?;
        catch_panic(|| self.run((&metas, &out_meta), &views, &mut found, limits))?;
        let found = match out_scale {
            Some(scale) => found.to_vec::<i8>()?.into_iter().map(|q| q.load(scale)).collect(),
            None => found.to_vec::<f32>()?,
        };
        self.loss.add(&output.to_vec::<f32>()?, &found);
        Ok(())
    }

    fn run(
        &mut self,
        (metas, out_meta): (&[TensorMeta], &TensorMeta),
        inputs: &[TensorView<'_>],
        output: &mut Tensor,
        limits: &Limits,
    ) -> Result<(), LayerError> {
        let Some(layer) = &mut self.layer else { return Ok(()) };
        let out_metas = std::slice::from_ref(out_meta);
        layer.configure(metas, out_metas)?;
        if !self.is_initialized {
            layer.initialize()?;
            self.is_initialized = true;
        }
        let scratch = layer.workspace(metas, out_metas);
        limits.check_tensor("scratch memory", scratch as u64)?;
        let mut workspace = Workspace::new()?;
        workspace.reserve(scratch)?;
        let mut context = ForwardContext::new(workspace.scratch(), limits);
        layer.forward(&mut Io::new(inputs, &mut [output.view_mut()?], &mut context))
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let Some(mut layer) = self.layer.take() else { return };
        if self.is_initialized
            && let Err(error) = catch_panic(|| {
                layer.terminate();
                Ok(())
            })
        {
            log::error!("{} `{}` cannot be terminated: {error}", self.loss.op_type, self.loss.operator);
        }
        drop_layer(layer);
    }
}

/// Returns whether a layer with an int8 first input has an int8 output, which it has if `may_be` is true and it supports that.
/// `None` if the layer does not support int8.
fn is_output_int8(layer: &dyn CpuLayer, inputs: usize, may_be: bool) -> Option<bool> {
    let (int8, float) = (TensorFormat::quantized(), TensorFormat::plain(DType::F32));
    let mut formats = vec![float; inputs];
    *formats.first_mut()? = int8;
    let takes = |formats: &[TensorFormat]| layer.supports(formats.len() - 1, formats);
    if !(1..=inputs).all(|count| takes(&formats[..count])) {
        return None;
    }
    let takes_output = |format| takes(&[&formats[..], &[format]].concat());
    if may_be && takes_output(int8) { Some(true) } else { takes_output(float).then_some(false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_amplitude_is_twenty_decibels() {
        let mut loss = Loss::default();
        assert_eq!(loss.decibels(), f64::INFINITY);
        loss.add(&[1.0, -1.0, 0.0], &[1.1, -0.9, 0.0]);
        assert!((loss.decibels() - 20.0).abs() < 1e-4, "{}", loss.decibels());
    }

    #[test]
    fn a_nan_loss_is_below_everything() {
        for found in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut loss = Loss::default();
            loss.add(&[1.0, 2.0], &[1.0, found]);
            assert!(loss.is_below(20.0) && loss.is_below(-1000.0), "{found}: {}", loss.decibels());
        }
        let mut loss = Loss::default();
        assert!(!loss.is_below(1000.0), "nothing is lost");
        loss.add(&[f32::INFINITY], &[f32::INFINITY]);
        assert!(loss.decibels().is_nan() && loss.is_below(20.0));
        let loss = Loss { signal: 100.0, noise: 1.0, ..Loss::default() };
        assert!(!loss.is_below(20.0) && loss.is_below(20.1));
    }
}
