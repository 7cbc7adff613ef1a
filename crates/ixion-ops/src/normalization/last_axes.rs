//! Normalisation over the last axes (layer and RMS norm) and over neighbouring channels (local response norm).

use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly};
use crate::support::float;
use crate::support::float::with_float;
use crate::support::views::run_in_place;
use crate::support::weights;
use ixion_kernels::Float;
use ixion_kernels::norm::{self, Affine, LocalResponse, Norm};
use ixion_tensor::{DType, Dim, Limits, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.LayerNorm` (Ba et al. 2016): normalises over the last axes: (x − mean) / √(variance + eps) · weight +
    /// bias, with a weight and a bias for each element of these axes.
    pub struct LayerNorm for "nn.LayerNorm", "F.layer_norm", "aten::layer_norm" {
        /// Lengths of the last axes, which are normalised together.
        normalized_shape: Vec<i64>,
        /// Added to the variance for numerical stability.
        eps: f64 = 1e-5,
        /// Whether there are learnt weights.
        elementwise_affine: bool = false,
        /// Factor of each element.
        weight: Option<Weight> = None,
        /// Bias of each element.
        bias: Option<Weight> = None,
    }
    validate |layer| {
        check_normalized_shape(&layer.normalized_shape)?;
        weights::check_promised(layer.elementwise_affine, layer.weight.as_ref())
    }
}

crate::operator! {
    /// `torch.nn.RMSNorm` (Zhang and Sennrich 2019): divides by the root mean square over the last axes: x / √(mean of
    /// squares + eps) · weight, with a weight for each element of these axes.
    pub struct RmsNorm for "nn.RMSNorm", "F.rms_norm", "aten::rms_norm" {
        /// Lengths of the last axes, which are normalised together.
        normalized_shape: Vec<i64>,
        /// Added to the mean of squares; by default the machine epsilon of the type in which it is computed.
        eps: Option<f64> = None,
        /// Whether there are learnt weights.
        elementwise_affine: bool = false,
        /// Factor of each element.
        weight: Option<Weight> = None,
    }
    validate |layer| {
        check_normalized_shape(&layer.normalized_shape)?;
        weights::check_promised(layer.elementwise_affine, layer.weight.as_ref())
    }
}

fn check_normalized_shape(shape: &[i64]) -> Result<()> {
    if !shape.is_empty() && shape.iter().all(|&len| len >= 0) {
        return Ok(());
    }
    let reason = "it must name the lengths of one axis or more".to_owned();
    Err(LayerError::InvalidParameter { key: "normalized_shape", found: format!("{shape:?}"), reason })
}

/// The shape inference of both operators.
fn infer(
    inputs: &[TensorMeta],
    normalized_shape: &[i64],
    weight: Option<&Weight>,
    bias: Option<&Weight>,
) -> Result<Vec<TensorMeta>> {
    let input = &inputs[0];
    float::check("the input", input)?;
    let wanted: Vec<Dim> = normalized_shape.iter().copied().map(Dim::Fixed).collect();
    let last = input.rank().checked_sub(wanted.len()).map(|first| &input.dims()[first..]);
    let differs = |(wanted, found): (&Dim, &Dim)| found.fixed().is_some() && wanted != found;
    if last.is_none_or(|last| wanted.iter().zip(last).any(differs)) {
        return Err(LayerError::shape("the input", format!("…{}", display(&wanted)), input));
    }
    weights::check("the weight", weight, inputs, &wanted)?;
    weights::check("the bias", bias, inputs, &wanted)?;
    Ok(vec![input.with_dims(input.dims().to_vec())])
}

fn display(dims: &[Dim]) -> String {
    dims.iter().map(|dim| format!("×{dim}")).collect()
}

/// Normalises rows of `len` elements, in place on the output if there is no input.
fn run<T: Float>(
    norm: Norm,
    input: Option<&TensorView<'_>>,
    output: &mut TensorViewMut<'_>,
    (len, limits): (usize, &Limits),
    affine: Affine<'_, T>,
) -> Result<()> {
    float::transform_rows::<T>(input, output, len, limits, &|_, input, rows| {
        norm.rows(input, rows, len, affine);
        Ok(())
    })
}

impl LayerNorm {
    /// Runs in place on the output if there is no input; the weights are among `inputs`.
    fn run<T: Float>(
        &self,
        input: Option<&TensorView<'_>>,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let weight = weights::read::<T>(self.weight.as_ref(), inputs)?;
        let bias = weights::read::<T>(self.bias.as_ref(), inputs)?;
        let affine = Affine { weight: weight.as_deref(), bias: bias.as_deref() };
        let shape = output.shape();
        let len = shape[shape.rank() - self.normalized_shape.len()..].iter().product();
        run(Norm::Standard { eps: self.eps }, input, output, (len, limits), affine)
    }
}

impl RmsNorm {
    /// Runs in place on the output if there is no input; the weights are among `inputs`.
    fn run<T: Float>(
        &self,
        input: Option<&TensorView<'_>>,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let weight = weights::read::<T>(self.weight.as_ref(), inputs)?;
        let epsilon = if T::DTYPE == DType::F64 { f64::EPSILON } else { f32::EPSILON.into() };
        let eps = self.eps.unwrap_or(epsilon);
        let affine = Affine { weight: weight.as_deref(), bias: None };
        let shape = output.shape();
        let len = shape[shape.rank() - self.normalized_shape.len()..].iter().product();
        run(Norm::RootMeanSquare { eps }, input, output, (len, limits), affine)
    }
}

impl Layer for LayerNorm {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        infer(inputs, &self.normalized_shape, self.weight.as_ref(), self.bias.as_ref())
    }

    fn in_place(&self, _: usize) -> Option<usize> {
        Some(0)
    }
}

impl Layer for RmsNorm {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        infer(inputs, &self.normalized_shape, self.weight.as_ref(), None)
    }

    fn in_place(&self, _: usize) -> Option<usize> {
        Some(0)
    }
}

crate::operator! {
    /// `torch.nn.LocalResponseNorm` (Krizhevsky et al. 2012): divides an N×C×… input by (k + alpha · mean of squares)^beta,
    /// with the mean over neighbouring channels.
    pub struct LocalResponseNorm for "nn.LocalResponseNorm", "F.local_response_norm" {
        /// Number of neighbouring channels; for an even number, one more before the channel than after.
        size: usize,
        /// Factor of the mean of squares.
        alpha: f64 = 1e-4,
        /// Exponent of the divisor.
        beta: f64 = 0.75,
        /// Added to the scaled mean of squares.
        k: f64 = 1.0,
    }
    validate |layer| {
        if layer.size > 0 {
            return Ok(());
        }
        Err(LayerError::invalid("size", "0", "it must be at least 1"))
    }
}

impl LocalResponseNorm {
    fn run<T: Float>(&self, inputs: &[TensorView<'_>], output: &mut TensorViewMut<'_>) -> Result<()> {
        let input = float::read::<T>(&inputs[0])?;
        let shape = inputs[0].shape();
        let (channels, inner) = (shape[1], shape[2..].iter().product());
        let &Self { size, alpha, beta, k } = self;
        let shape = LocalResponse { channels, inner, size, alpha, beta, k };
        float::write::<T>(output, |output| {
            norm::local_response_norm(shape, &input, output);
            Ok(())
        })
    }
}

impl Layer for LocalResponseNorm {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        if inputs[0].rank() < 3 {
            return Err(LayerError::shape("the input", "at least 3 axes", &inputs[0]));
        }
        float::same_as_input(inputs)
    }
}

run_in_place!(LayerNorm, RmsNorm);

impl CpuLayer for LocalResponseNorm {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(io.inputs, &mut io.outputs[0]))
    }
}

operators! {
    LayerNorm, RmsNorm, LocalResponseNorm;
    overload "aten::layer_norm"(input, normalized_shape, weight, bias, eps, cudnn_enabled),
        "aten::rms_norm"(input, normalized_shape, weight, eps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{assert_close, operator, tensor, waves};

    #[test]
    fn layer_norm_results() {
        let weight = waves(&[3, 2]);
        let flipped = tensor(&[3, 2], &[-0.5, -1.25, 0.0, -2.0, -2.75, -0.25]);
        let want = [
            4.028075303450524,
            -1.4716540358332424,
            0.0,
            -0.22676771333406065,
            -3.0666486226189176,
            -0.09167568869054113,
            -1.6815851793970715,
            -1.4648336689812858,
            0.0,
            -3.718669351850286,
            -2.964833668981286,
            2.1668787760394648,
        ];
        let x = waves(&[2, 3, 2]);
        let module =
            operator("nn.LayerNorm", &[("normalized_shape", "(3,2)"), ("elementwise_affine", "True")])
                .with_attr("weight", weight.clone())
                .with_attr("bias", flipped.clone());
        let function = operator("F.layer_norm", &[("normalized_shape", "(3,2)"), ("eps", "1.000000e-5")])
            .with_names(&["input", "weight", "bias"]);
        let got = function.run_one(&[&x, &weight, &flipped]).unwrap();
        assert_eq!(got, module.run_one(&[&x]).unwrap());
        assert_close(&got, &[2, 3, 2], &want);
        let params = [("normalized_shape", "2"), ("eps", "0.1"), ("weight", "None"), ("bias", "None")];
        let want = [
            -0.9694584179118515,
            0.9694584179118515,
            0.9534625892455922,
            -0.9534625892455922,
            0.7644707871564382,
            -0.7644707871564382,
            -0.6201736729460422,
            0.6201736729460422,
            -0.9404661260758033,
            0.9404661260758033,
            0.9745586289152092,
            -0.9745586289152092,
        ];
        assert_close(&operator("F.layer_norm", &params).run_one(&[&x]).unwrap(), &[2, 3, 2], &want);
    }

    #[test]
    fn rms_norm_results() {
        let x = waves(&[2, 3, 2]);
        let params = [("normalized_shape", "(3,2)"), ("eps", "0.01"), ("elementwise_affine", "True")];
        let want = [
            5.042133552500577,
            0.041670525227277495,
            0.0,
            2.6669136145457597,
            0.16668210090910998,
            1.0417631306819373,
            -2.682779060899666,
            -0.325185340715111,
            0.0,
            -2.601482725720888,
            -0.4877780110726665,
            1.016204189734722,
        ];
        let layer = operator("nn.RMSNorm", &params).with_attr("weight", waves(&[3, 2]));
        assert_close(&layer.run_one(&[&x]).unwrap(), &[2, 3, 2], &want);
        // Results of PyTorch in the four types, for inputs so small that epsilon matters.
        for (dtype, want) in [
            (DType::F64, [0.6324555320334913, 1.2649110640669826]),
            (DType::F32, [0.6179, 1.2358]),
            (DType::F16, [0.6177, 1.2354]),
            (DType::Bf16, [0.6172, 1.2344]),
        ] {
            let x = tensor(&[1, 2], &[1e-3, 2e-3]).cast(dtype).unwrap();
            let layer =
                operator("F.rms_norm", &[("normalized_shape", "(2)"), ("eps", "None"), ("weight", "None")]);
            let got = layer.run_one(&[&x]).unwrap().cast(DType::F64).unwrap().to_vec::<f64>().unwrap();
            let tolerance = if dtype == DType::F64 { 1e-9 } else { 1e-3 };
            let close = got.iter().zip(want).all(|(got, want)| (got - want).abs() < tolerance);
            assert!(close, "{dtype}: {got:?} where {want:?} is expected");
        }
    }

    #[test]
    fn local_response_norm_results() {
        let norm = |size, alpha, beta, k| {
            let params = [("size", size), ("alpha", alpha), ("beta", beta), ("k", k)];
            operator("F.local_response_norm", &params).run_one(&[&waves(&[1, 4, 2])]).unwrap()
        };
        let want = [
            -3.489531675423477,
            -0.34694818274724953,
            0.0,
            -2.657960261404272,
            -0.7299291421417012,
            -1.522027783002732,
            2.1897874264251036,
            2.662262337676918,
        ];
        assert_close(&norm("3", "0.1", "0.3", "0.2"), &[1, 4, 2], &want);
        let want = [
            -1.2404774618576822,
            -0.14778579985078016,
            0.0,
            -1.035200410462035,
            -0.19474579822405907,
            -0.49854300063122337,
            1.042200398932258,
            0.8004241357831051,
        ];
        assert_close(&norm("4", "1", "0.75", "1"), &[1, 4, 2], &want);
        let wide = [("size", "9"), ("alpha", "1.0")];
        let got = operator("nn.LocalResponseNorm", &wide).run_one(&[&waves(&[2, 2, 1])]).unwrap();
        assert_close(&got, &[2, 2, 1], &[-1.735574798979637, -0.157779527179967, 0.0, -1.5179391544551035]);
    }

    #[test]
    fn symbols_errors_and_odd_inputs() {
        let layer = operator("F.layer_norm", &[("normalized_shape", "(3,2)")]);
        let symbolic = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::Fixed(3), Dim::Fixed(2)]);
        assert_eq!(layer.infer(&[symbolic]).unwrap()[0].to_string(), "n×3×2 f32");
        let error = layer.run(&[&waves(&[2, 2])]).unwrap_err().to_string();
        assert_eq!(error, "the input: expected …×3×2, got 2×2 f64");
        assert!(operator("nn.LayerNorm", &[("normalized_shape", "()")]).create(1).is_err());
        assert!(operator("nn.LayerNorm", &[("normalized_shape", "(-1)")]).create(1).is_err());
        assert!(operator("nn.LocalResponseNorm", &[("size", "0")]).create(1).is_err());
        for shape in ["1", "(0)", "(4,5)", "(9223372036854775807,9223372036854775807)"] {
            operator("F.layer_norm", &[("normalized_shape", shape)]).survives(1);
            operator("F.rms_norm", &[("normalized_shape", shape)]).survives(1);
        }
        operator("F.layer_norm", &[("normalized_shape", "1")]).survives(2);
        for size in ["1", "9223372036854775807"] {
            operator("F.local_response_norm", &[("size", size)]).survives(1);
        }
    }
}
