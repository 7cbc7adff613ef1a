//! int8 layers against their definition: exact sums, computed by the float layer in double precision.

use crate::op::{CpuLayer, ForwardContext, Io, Step, TensorFormat, TensorMeta};
use crate::support::testing::on_threads;
use crate::support::testing::{self, Operator, operator};
use ixion_kernels::naive;
use ixion_kernels::reformat::Stored;
use ixion_tensor::{DType, Limits, Tensor, Workspace};
use ndarray::Array2;
use proptest::prelude::*;

fn waves(dims: &[usize]) -> Tensor {
    testing::waves(dims).cast(DType::F32).unwrap()
}

/// A product: its type and parameters, and the shapes of its input and its weight.
#[derive(Debug, Clone)]
struct Case {
    op_type: &'static str,
    params: Vec<(&'static str, &'static str)>,
    input: Vec<usize>,
    weight: Vec<usize>,
}

fn cases() -> impl Strategy<Value = Case> {
    let case = |op_type, params: &[(&'static str, &'static str)], input: &[usize], weight: &[usize]| Case {
        op_type,
        params: params.to_vec(),
        input: input.to_vec(),
        weight: weight.to_vec(),
    };
    prop::sample::select(vec![
        case("nn.Conv2d", &[("padding", "1")], &[2, 3, 9, 7], &[11, 3, 3, 3]),
        case("nn.Conv2d", &[("stride", "2"), ("dilation", "2")], &[1, 4, 9, 8], &[5, 4, 2, 3]),
        case("nn.Conv2d", &[("padding", "same")], &[1, 2, 5, 6], &[3, 2, 3, 4]),
        case("nn.Conv2d", &[("groups", "4"), ("padding", "1")], &[2, 4, 5, 6], &[4, 1, 3, 3]),
        case("nn.Conv2d", &[("groups", "2")], &[1, 6, 5, 5], &[20, 3, 3, 3]),
        case("nn.Conv2d", &[("padding_mode", "circular")], &[2, 3, 5, 6], &[4, 3, 1, 1]),
        case("nn.Conv2d", &[], &[3, 5, 6], &[4, 3, 1, 1]),
        case("nn.Conv1d", &[("stride", "2")], &[2, 3, 17], &[5, 3, 2]),
        case("nn.Conv3d", &[("padding", "(1,0,1)")], &[1, 2, 3, 4, 5], &[3, 2, 2, 2, 2]),
        case("nn.Linear", &[], &[2, 3, 7], &[5, 7]),
        case("nn.Linear", &[], &[21, 9], &[40, 9]),
        case("F.linear", &[], &[7], &[5, 7]),
    ])
}

impl Case {
    fn operator(&self, weight: Tensor, bias: Option<Tensor>) -> Operator<'static> {
        let operator = operator(self.op_type, &self.params).with_attr("weight", weight);
        bias.into_iter().fold(operator, |operator, bias| operator.with_attr("bias", bias))
    }

    fn whole_input(&self, seed: usize) -> Tensor {
        let values = (0..self.input.iter().product()).map(|at: usize| ((at * 37 + seed) % 255) as i8);
        Tensor::from_vec(values.map(|q| q.max(-127)).collect(), &self.input).unwrap()
    }

    /// The output by definition, before it is quantised.
    fn wanted(&self, input: &Tensor, scale: f32, weight: &Tensor, bias: Option<&Tensor>) -> Vec<f32> {
        let (outputs, values) = (self.weight[0], weight.to_vec::<f32>().unwrap());
        let depth = values.len() / outputs;
        let scales: Vec<f32> = values
            .chunks(depth)
            .map(|row| row.iter().fold(0.0f32, |most, x| most.max(x.abs())) / 127.0)
            .collect();
        let whole: Vec<f64> = values
            .iter()
            .enumerate()
            .map(|(at, x)| f64::from((x * scales[at / depth].recip()).round_ties_even()))
            .collect();
        let whole = Tensor::from_vec(whole, &self.weight).unwrap();
        let input = input.cast(DType::F64).unwrap();
        let sums = self.operator(whole, None).run_one(&[&input]).unwrap();
        let (bias, axis) = (bias.map(|bias| bias.to_vec::<f32>().unwrap()), self.channels(&sums));
        let inner: usize = sums.shape().dims()[axis + 1..].iter().product();
        let real = |(at, &sum): (usize, &f64)| {
            let channel = at / inner % outputs;
            let step = scales[channel] * scale;
            let bias = bias.as_ref().map_or(0.0, |bias| f64::from(bias[channel]) / f64::from(step));
            (sum + bias.round_ties_even()) as f32 * step
        };
        sums.to_vec::<f64>().unwrap().iter().enumerate().map(real).collect()
    }

    /// The axis of the output channels.
    fn channels(&self, output: &Tensor) -> usize {
        output.shape().rank() + 1 - if self.weight.len() == 2 { 2 } else { self.weight.len() }
    }
}

/// Runs a layer that is configured with these scales.
fn run(layer: &mut dyn CpuLayer, inputs: &[&Tensor], scale: f32, out_scale: Option<f32>) -> Tensor {
    run_in_steps(layer, inputs, Step::from(scale), out_scale.map(Step::from))
}

/// Runs a layer that is configured with these steps.
fn run_in_steps(layer: &mut dyn CpuLayer, inputs: &[&Tensor], step: Step, out_step: Option<Step>) -> Tensor {
    let real: Vec<TensorMeta> =
        inputs.iter().map(|x| TensorMeta::new(DType::F32, x.shape().iter().copied())).collect();
    let output = layer.infer(&real).unwrap().remove(0);
    let dtype = if out_step.is_some() { DType::I8 } else { DType::F32 };
    let output = output.with_dtype(dtype).with_step(out_step);
    let mut metas = real;
    metas[0] = metas[0].clone().with_dtype(DType::I8).with_step(Some(step));
    layer.configure(&metas, std::slice::from_ref(&output)).unwrap();
    layer.initialize().unwrap();
    let mut result = Tensor::zeros(dtype, &output.shape().unwrap()).unwrap();
    let (mut workspace, limits) = (Workspace::new().unwrap(), Limits::default());
    workspace.reserve(layer.workspace(&metas, &[output])).unwrap();
    let mut context = ForwardContext::new(&mut workspace, &limits);
    let views: Vec<_> = inputs.iter().map(|x| x.view()).collect();
    layer.forward(&mut Io::new(&views, &mut [result.view_mut().unwrap()], &mut context)).unwrap();
    result
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn layers_agree_with_their_definition(
        case in cases(), seed in 0usize..1000, has_bias: bool, scale in 1e-3f32..1.0, out_scale in 1e-2f32..10.0,
    ) {
        let input = case.whole_input(seed);
        let weight = waves(&case.weight);
        let bias = has_bias.then(|| waves(&[case.weight[0]]));
        let wanted = case.wanted(&input, scale, &weight, bias.as_ref());
        let operator = case.operator(weight, bias);
        let (alone, pooled) = on_threads(&[3], || run(&mut *operator.create(1).unwrap(), &[&input], scale, None));
        prop_assert_eq!(alone.to_vec::<f32>().unwrap(), &wanted[..]);
        prop_assert_eq!(&alone, &pooled[0]);
        let mut layer = operator.create(1).unwrap();
        let whole = run(&mut *layer, &[&input], scale, Some(out_scale));
        let rounded: Vec<i8> = wanted.iter().map(|&x| i8::store(x, out_scale)).collect();
        prop_assert_eq!(whole.to_vec::<i8>().unwrap(), rounded);
        // Scales and type are in the bytes, and from these come the same bits.
        let bytes = layer.serialize().unwrap();
        let mut again = operator.create(1).unwrap();
        again.deserialize(&bytes).unwrap();
        again.initialize().unwrap();
        prop_assert_eq!(again.serialize().unwrap(), bytes);
        prop_assert_eq!(run(&mut *again, &[&input], scale, Some(out_scale)), whole);
    }

    #[test]
    fn zero_points_are_subtracted_and_added(
        case in cases(), seed in 0usize..1000, scale in 1e-3f32..1.0, out_scale in 1e-2f32..10.0, zero_points: [i8; 2],
    ) {
        let input = case.whole_input(seed);
        let (weight, bias) = (waves(&case.weight), waves(&[case.weight[0]]));
        let step = Step { scale, zero_point: zero_points[0] };
        let out_step = Step { scale: out_scale, zero_point: zero_points[1] };
        let values = input.to_vec::<i8>().unwrap().into_iter();
        let differences: Vec<i32> = values.map(|q| i32::from(q) - i32::from(step.zero_point)).collect();
        let differences = Tensor::from_vec(differences, &case.input).unwrap();
        let wanted = case.wanted(&differences, scale, &weight, Some(&bias));
        let operator = case.operator(weight, Some(bias));
        let found = run_in_steps(&mut *operator.create(1).unwrap(), &[&input], step, None);
        prop_assert_eq!(found.to_vec::<f32>().unwrap(), &wanted[..]);
        let mut layer = operator.create(1).unwrap();
        let whole = run_in_steps(&mut *layer, &[&input], step, Some(out_step));
        let how = super::quantization(out_step);
        let rounded: Vec<i8> = wanted.iter().map(|&x| how.store(x)).collect();
        prop_assert_eq!(whole.to_vec::<i8>().unwrap(), rounded);
        let bytes = layer.serialize().unwrap();
        let mut again = operator.create(1).unwrap();
        again.deserialize(&bytes).unwrap();
        prop_assert_eq!(run_in_steps(&mut *again, &[&input], step, Some(out_step)), whole);
    }

    #[test]
    fn a_linear_layer_agrees_with_the_naive_kernel(
        (rows, inputs, outputs) in (1usize..5, 1usize..40, 1usize..40), seed in 0usize..1000, scale in 1e-3f32..1.0,
    ) {
        let case = Case { op_type: "nn.Linear", params: vec![], input: vec![rows, inputs], weight: vec![outputs, inputs] };
        let (input, weight, bias) = (case.whole_input(seed), waves(&case.weight), waves(&[outputs]));
        let matrix = |shape, values| Array2::from_shape_vec(shape, values).unwrap();
        let real = input.to_vec::<i8>().unwrap().into_iter().map(|q| f32::from(q) * scale).collect();
        let real = matrix((rows, inputs), real);
        let weights = matrix((outputs, inputs), weight.to_vec().unwrap());
        let wanted = naive::int8_linear(real.view(), weights.view(), &bias.to_vec::<f32>().unwrap(), scale);
        let mut layer = case.operator(weight, Some(bias)).create(1).unwrap();
        let found = run(&mut *layer, &[&input], scale, None).to_vec::<f32>().unwrap();
        prop_assert_eq!(found, wanted.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn epilogues_are_computed_in_f32(case in cases(), seed in 0usize..1000, adds: bool) {
        let text = if adds { "relu(add(@0,@1))" } else { "silu(@0)" };
        let input = case.whole_input(seed);
        let weight = waves(&case.weight);
        let plain = case.operator(weight.clone(), None);
        let product = run(&mut *plain.create(1).unwrap(), &[&input], 0.01, None);
        let further: Vec<Tensor> = if adds { vec![waves(product.shape())] } else { Vec::new() };
        let all: Vec<&Tensor> = [&product].into_iter().chain(&further).collect();
        let wanted = operator("pnnx.Expression", &[("expr", text)]).run_one(&all).unwrap();
        let mut params = case.params.clone();
        params.push(("epilogue", text));
        let case = Case { params, ..case };
        let operator = case.operator(weight, None).with_names(&["input", "epilogue_1"]);
        let inputs: Vec<&Tensor> = [&input].into_iter().chain(&further).collect();
        let found = run(&mut *operator.create(inputs.len()).unwrap(), &inputs, 0.01, None);
        prop_assert_eq!(&found, &wanted);
        let whole = run(&mut *operator.create(inputs.len()).unwrap(), &inputs, 0.01, Some(0.02));
        let rounded: Vec<i8> = wanted.to_vec::<f32>().unwrap().iter().map(|&x| i8::store(x, 0.02)).collect();
        prop_assert_eq!(whole.to_vec::<i8>().unwrap(), rounded);
    }
}

/// The weight and the bias of a linear layer; for each output, weights and bias have magnitudes of different powers of ten.
fn uneven(powers: &[(i32, i32)], depth: usize) -> (Tensor, Tensor) {
    let power = |power: i32| 10f64.powi(power);
    let rows = powers.iter().flat_map(|&(weight, _)| (0..depth).map(move |at| (weight, at)));
    let weight = rows.map(|(exponent, at)| ((at as f64 * 0.7 + 0.3).sin() * power(exponent)) as f32);
    let bias = powers.iter().map(|&(_, bias)| (0.7 * power(bias)) as f32);
    let weight = Tensor::from_vec(weight.collect(), &[powers.len(), depth]).unwrap();
    (weight, Tensor::from_vec(bias.collect(), &[powers.len()]).unwrap())
}

proptest! {
    #[test]
    fn no_bias_is_lost(
        powers in prop::collection::vec((-46i32..4, -10i32..31), 1..6), depth in 1usize..20, seed in 0usize..255,
        scale in prop::sample::select(vec![1e-30f32, 1e-6, 0.01, 1.0, 300.0]),
    ) {
        let (weight, bias) = uneven(&powers, depth);
        let values: Vec<i8> = (0..depth).map(|at| (((at * 37 + seed) % 255) as i8).max(-127)).collect();
        let input = Tensor::from_vec(values.clone(), &[1, depth]).unwrap();
        let operator = operator("nn.Linear", &[]).with_attr("weight", weight.clone()).with_attr("bias", bias.clone());
        let found = run(&mut *operator.create(1).unwrap(), &[&input], scale, None).to_vec::<f32>().unwrap();
        let (weight, bias) = (weight.to_vec::<f32>().unwrap(), bias.to_vec::<f32>().unwrap());
        for ((row, bias), found) in weight.chunks(depth).zip(bias).zip(found) {
            let real = |q: i8, w: f32| f64::from(q) * f64::from(scale) * f64::from(w);
            let wanted = values.iter().zip(row).fold(f64::from(bias), |sum, (&q, &w)| sum + real(q, w));
            // The error is at most half a step for each weight, and half a step of the products for the bias.
            let step = f64::from(row.iter().fold(0.0f32, |most, w| most.max(w.abs()))) / 127.0 * f64::from(scale);
            let inputs: f64 = values.iter().map(|&q| f64::from(q).abs()).sum();
            let rounding = wanted.abs().max(f64::from(bias).abs()) * 1e-6 + 1e-30;
            let allowed = step * (inputs * 0.5 + 0.5) * 1.001 + rounding;
            let off = (wanted - f64::from(found)).abs();
            prop_assert!(off <= allowed, "got {found}, expected {wanted}: off by {off:e}, allowed are {allowed:e}");
        }
    }
}

#[test]
fn a_channel_of_tiny_weights_is_its_bias() {
    // The last channel has zero weights, as a batch norm of gamma 0 leaves them, and a bias below the step of the input.
    let weight = Tensor::from_vec(vec![1e-8f32, -5e-9, 1e-38, 1e-38, 1e-42, 0.0, 0.0, 0.0], &[4, 2]).unwrap();
    let bias = [0.5f32, -0.25, 3.0, 0.004];
    let bias = Tensor::from_vec(bias.to_vec(), &[4]).unwrap();
    let operator = operator("nn.Linear", &[]).with_attr("weight", weight).with_attr("bias", bias.clone());
    let input = Tensor::from_vec(vec![127i8, -3], &[1, 2]).unwrap();
    let found = run(&mut *operator.create(1).unwrap(), &[&input], 0.01, None).to_vec::<f32>().unwrap();
    for (found, wanted) in found.into_iter().zip(bias.to_vec::<f32>().unwrap()) {
        assert!((found - wanted).abs() <= 1e-7, "got {found}, expected {wanted}");
    }
}

#[test]
fn products_beyond_f32_are_refused() {
    let weight = Tensor::from_vec(vec![1e38f32], &[1, 1]).unwrap();
    let mut layer = operator("nn.Linear", &[]).with_attr("weight", weight).create(1).unwrap();
    let meta = |scale| TensorMeta::new(DType::I8, [1, 1]).with_scale(scale);
    layer.configure(&[meta(Some(1e6))], &[meta(None)]).unwrap();
    assert!(layer.initialize().unwrap_err().to_string().contains("keep this operator in f32"));
}

#[test]
fn int8_is_supported_with_f32_weights() {
    let (quantized, float) = (TensorFormat::quantized(), TensorFormat::plain(DType::F32));
    let is_supported = |params: &[(&str, &str)], formats: [TensorFormat; 2]| {
        let conv = operator("nn.Conv2d", params).with_attr("weight", waves(&[2, 3, 3, 3]));
        let layer = conv.create(1).unwrap();
        layer.supports(0, &formats[..1]) && layer.supports(1, &formats)
    };
    assert!(is_supported(&[], [quantized, quantized]) && is_supported(&[], [quantized, float]));
    assert!(!is_supported(&[], [float, quantized]), "sums of f32 products are not quantised");
    assert!(is_supported(&[("padding", "1"), ("padding_mode", "reflect")], [quantized, quantized]));
    let linear = operator("nn.Linear", &[]).with_attr("weight", waves(&[2, 3]).cast(DType::F64).unwrap());
    assert!(!linear.create(1).unwrap().supports(0, &[quantized]));
}

#[test]
fn weights_that_are_not_finite_are_refused() {
    let weight = Tensor::from_vec(vec![1.0f32, f32::INFINITY], &[1, 2]).unwrap();
    let mut layer = operator("nn.Linear", &[]).with_attr("weight", weight).create(1).unwrap();
    let meta = |scale| TensorMeta::new(DType::I8, [1, 2]).with_scale(scale);
    layer.configure(&[meta(Some(0.1))], &[meta(None)]).unwrap();
    assert!(layer.initialize().unwrap_err().to_string().contains("keep this operator in f32"));
}

#[test]
fn weights_without_elements_are_refused() {
    let weight = Tensor::zeros(DType::F32, &[1 << 40, 0]).unwrap();
    let mut layer = operator("nn.Linear", &[]).with_attr("weight", weight).create(1).unwrap();
    assert!(!layer.supports(0, &[TensorFormat::quantized()]));
    let meta = |len: usize, scale| TensorMeta::new(DType::I8, [1, len]).with_scale(scale);
    layer.configure(&[meta(0, Some(0.1))], &[meta(1 << 40, None)]).unwrap();
    assert!(layer.initialize().unwrap_err().to_string().contains("without elements"));
}

#[test]
fn stored_weights_need_a_scale_for_each_row() {
    let weight = Tensor::from_vec(vec![1i8; 8], &[4, 2, 1, 1]).unwrap();
    for count in [1, 2, 3, 4, 8] {
        let scales = Tensor::from_vec(vec![0.5f32; count], &[count]).unwrap();
        let conv = operator("nn.Conv2d", &[]).with_attr("weight", weight.clone());
        let mut layer = conv.with_attr("ixion.scales.weight", scales).create(1).unwrap();
        let meta = |channels: usize, scale| TensorMeta::new(DType::I8, [1, channels, 3, 3]).with_scale(scale);
        layer.configure(&[meta(2, Some(0.1))], &[meta(4, None)]).unwrap();
        assert_eq!(layer.initialize().is_ok(), count == 4, "{count}");
    }
}

#[test]
fn invalid_states_are_refused() {
    let weight = waves(&[2, 3, 1, 1]);
    let mut layer = operator("nn.Conv2d", &[]).with_attr("weight", weight).create(1).unwrap();
    let of = |tag: u8, scales: [f32; 2]| {
        let scales = scales.into_iter().flat_map(f32::to_le_bytes);
        [tag].into_iter().chain(scales).collect::<Vec<u8>>()
    };
    for bytes in [of(b'q', [0.1, 0.2]), of(b'l', [0.1, 0.2]), of(b'q', [0.1, 0.0])] {
        assert!(layer.deserialize(&bytes).is_ok(), "{bytes:?}");
    }
    for scale in [0.0, -0.1, f32::NAN, f32::INFINITY, 1e-40] {
        assert!(layer.deserialize(&of(b'q', [scale, 0.2])).is_err(), "{scale}");
        assert!(scale == 0.0 || layer.deserialize(&of(b'l', [0.1, scale])).is_err(), "{scale}");
    }
    for bytes in [&b"q"[..], b"q1234567", b"q123456789", b"r12345678", &[9]] {
        assert!(layer.deserialize(bytes).is_err(), "{bytes:?}");
    }
}
