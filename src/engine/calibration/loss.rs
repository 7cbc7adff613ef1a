//! What an operator loses in int8: it runs once more with whole numbers, alone, on what it read in `f32`.

use super::Scales;
use crate::Limits;
use crate::graph::{
    CpuLayer, ForwardContext, LayerError, RuntimeGraph, RuntimeOperator, TensorFormat, TensorMeta,
};
use crate::kernels::reformat::Stored;
use crate::tensor::{DType, Tensor, Workspace};

/// What an operator's output is in int8, compared with `f32`.
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
    /// The ratio of signal to noise in decibels: infinite where nothing is lost.
    pub fn decibels(&self) -> f64 {
        if self.noise == 0.0 { f64::INFINITY } else { 10.0 * (self.signal / self.noise).log10() }
    }

    fn add(&mut self, wanted: &[f32], found: &[f32]) {
        for (&wanted, &found) in wanted.iter().zip(found) {
            self.signal += f64::from(wanted).powi(2);
            self.noise += (f64::from(wanted) - f64::from(found)).powi(2);
        }
    }
}

/// An operator that can compute in int8.
#[derive(Debug)]
pub(super) struct Candidate {
    layer: Box<dyn CpuLayer>,
    /// The scale of its first input, and of its output if that may be whole as well.
    scales: (f32, Option<f32>),
    pub(super) loss: Loss,
}

impl Candidate {
    /// The operator with the scales that it would be given; none where it takes no whole numbers, or has no scales.
    pub(super) fn new(graph: &RuntimeGraph, operator: &RuntimeOperator, scales: &Scales) -> Option<Self> {
        let layer = operator.layer()?.clone_layer();
        let (&input, &[output]) = (operator.inputs().first()?, operator.outputs()) else { return None };
        let (whole, real) = (TensorFormat::quantized(), TensorFormat::plain(DType::F32));
        let mut formats = vec![real; operator.inputs().len() + 1];
        *formats.first_mut()? = whole;
        let (last, takes) =
            (formats.len() - 1, |formats: &[TensorFormat], at: usize| layer.supports(at, &formats[..=at]));
        if !(0..last).all(|at| takes(&formats, at)) {
            return None;
        }
        let out_scale = scales.get(graph.operand(output).name());
        formats[last] = if out_scale.is_some() { whole } else { real };
        let out_scale = out_scale.filter(|_| takes(&formats, last));
        formats[last] = if out_scale.is_some() { whole } else { real };
        if !takes(&formats, last) {
            return None;
        }
        let scales = (scales.get(graph.operand(input).name())?, out_scale);
        let loss = Loss {
            operator: operator.name().to_owned(),
            op_type: operator.op_type().to_owned(),
            ..Loss::default()
        };
        Some(Self { layer, scales, loss })
    }

    /// Runs it on what the operator read, and adds up what it loses.
    ///
    /// # Errors
    /// A [`LayerError`] of the layer.
    pub(super) fn measure(
        &mut self,
        inputs: &[&Tensor],
        output: &Tensor,
        limits: &Limits,
    ) -> Result<(), LayerError> {
        let (scale, out_scale) = self.scales;
        let whole: Vec<i8> = inputs[0].to_vec::<f32>()?.into_iter().map(|x| i8::store(x, scale)).collect();
        let whole = Tensor::from_vec(whole, inputs[0].shape().dims())?;
        let meta = |tensor: &Tensor| TensorMeta::new(tensor.dtype(), tensor.shape().iter().copied());
        let mut metas: Vec<TensorMeta> = inputs.iter().map(|input| meta(input)).collect();
        metas[0] = meta(&whole).with_scale(Some(scale));
        let out_dtype = if out_scale.is_some() { DType::I8 } else { DType::F32 };
        let out_meta = meta(output).with_dtype(out_dtype).with_scale(out_scale);
        self.layer.configure(&metas, std::slice::from_ref(&out_meta))?;
        self.layer.initialize()?;
        let mut found = Tensor::zeros(out_dtype, output.shape())?;
        let mut views: Vec<_> = inputs.iter().map(|input| input.view()).collect();
        views[0] = whole.view();
        let mut workspace = Workspace::new()?;
        workspace.reserve(self.layer.workspace(&metas, std::slice::from_ref(&out_meta)))?;
        let mut context = ForwardContext::new(&mut workspace, limits);
        self.layer.forward(&views, &mut [found.view_mut()?], &mut context)?;
        let found = match out_scale {
            Some(scale) => found.to_vec::<i8>()?.into_iter().map(|q| q.load(scale)).collect(),
            None => found.to_vec::<f32>()?,
        };
        self.loss.add(&output.to_vec::<f32>()?, &found);
        Ok(())
    }
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
}
