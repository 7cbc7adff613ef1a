//! Tests of the convolution plugin: f32 against Ixion's own layer, int8 against the f32 result.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::{
    configure, create, dequantized, forward, forward_to, quantized, registry, scale_of, signal_to_noise,
};
use ixion::Limits;
use ixion::engine::{Builder, Formats, PlanFile, Precision, Scales};
use ixion::graph::RuntimeGraph;
use ixion::op::{CpuLayer, RuntimeAttribute, RuntimeParameter, TensorMeta};
use ixion::pnnx::{Attribute, Graph};
use ixion::tensor::{DType, Tensor};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A convolution with random weights.
#[derive(Debug, Clone)]
struct Case {
    in_channels: usize,
    out_channels: usize,
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    groups: usize,
    has_bias: bool,
    input: [usize; 4],
    seed: u64,
}

const CASE: Case = Case {
    in_channels: 4,
    out_channels: 6,
    kernel: [3, 2],
    stride: [1, 2],
    padding: [1, 0],
    dilation: [1, 1],
    groups: 2,
    has_bias: true,
    input: [2, 4, 7, 9],
    seed: 1,
};

fn random(dims: &[usize], seed: u64) -> Tensor {
    RuntimeAttribute::random(DType::F32, dims, seed).decode().unwrap().clone()
}

impl Case {
    fn text(&self) -> BTreeMap<String, RuntimeParameter> {
        let pair = |[a, b]: [usize; 2]| format!("({a},{b})");
        let fields = [
            ("in_channels", self.in_channels.to_string()),
            ("out_channels", self.out_channels.to_string()),
            ("kernel_size", pair(self.kernel)),
            ("stride", pair(self.stride)),
            ("padding", pair(self.padding)),
            ("dilation", pair(self.dilation)),
            ("groups", self.groups.to_string()),
            ("bias", if self.has_bias { "True" } else { "False" }.to_owned()),
        ];
        fields.into_iter().map(|(key, text)| (key.to_owned(), RuntimeParameter::parse(&text))).collect()
    }

    fn weights(&self) -> Vec<(&'static str, Tensor)> {
        let [height, width] = self.kernel;
        let weight = random(&[self.out_channels, self.in_channels / self.groups, height, width], self.seed);
        let bias = self.has_bias.then(|| ("bias", random(&[self.out_channels], self.seed + 1)));
        [("weight", weight)].into_iter().chain(bias).collect()
    }

    fn layer(&self) -> Box<dyn CpuLayer> {
        let weights = self.weights().into_iter();
        let attrs = weights.map(|(key, weight)| (key.to_owned(), RuntimeAttribute::from_tensor(weight)));
        create(self.text(), attrs.collect()).unwrap()
    }

    fn x(&self) -> Tensor {
        random(&self.input, self.seed + 2)
    }

    /// A model with one `nn.Conv2d`.
    fn model(&self) -> Graph {
        let [n, c, h, w] = self.input;
        let text = format!(
            "7767517\n3 2\npnnx.Input in 0 1 x #x=({n},{c},{h},{w})f32\nnn.Conv2d conv 1 1 x y #y=(?,?,?,?)f32\n\
             pnnx.Output out 1 0 y\n"
        );
        let mut graph = Graph::parse(&text, &Limits::default()).unwrap();
        let conv = graph.operator_named("conv").unwrap();
        for (key, value) in self.text() {
            graph.set_param(conv, &key, value).unwrap();
        }
        for (key, weight) in self.weights() {
            let values = weight.to_vec::<f32>().unwrap();
            let attribute = Attribute::from_f32s(weight.shape().to_vec(), &values).unwrap();
            graph.set_attribute(conv, key, attribute).unwrap();
        }
        graph
    }

    /// The output of Ixion's own layer.
    fn wanted(&self) -> Tensor {
        let mut graph = RuntimeGraph::from_pnnx(self.model());
        graph.build().unwrap();
        graph.run_with(vec![self.x()]).unwrap().remove(0)
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let pair = |range: std::ops::Range<usize>| [range.clone(), range];
    (
        1usize..3,
        1usize..3,
        1usize..3,
        pair(1..4),
        pair(1..3),
        pair(0..3),
        pair(1..3),
        [1usize..3, 6..9, 6..9],
        any::<bool>(),
        any::<u32>(),
    )
        .prop_map(|(groups, ins, outs, kernel, stride, padding, dilation, [n, h, w], has_bias, seed)| {
            Case {
                in_channels: groups * ins,
                out_channels: groups * outs,
                kernel,
                stride,
                padding,
                dilation,
                groups,
                has_bias,
                input: [n, groups * ins, h, w],
                seed: seed.into(),
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn f32_matches_ixions_own_convolution(case in cases()) {
        let (mut layer, x) = (case.layer(), case.x());
        configure(&mut *layer, &x, None);
        let (y, wanted) = (forward(&mut *layer, &x), case.wanted());
        prop_assert_eq!(y.shape(), wanted.shape());
        for (a, b) in y.to_vec::<f32>().unwrap().into_iter().zip(wanted.to_vec::<f32>().unwrap()) {
            prop_assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{a} {b}");
        }
    }

    #[test]
    fn int8_errors_are_bounded_by_rounding(case in cases()) {
        let (mut layer, x, wanted) = (case.layer(), case.x(), case.wanted());
        let scales = (scale_of(&x), scale_of(&wanted));
        let int8_x = quantized(&x, scales.0);
        configure(&mut *layer, &x, Some((scales.0, Some(scales.1))));
        let y = forward(&mut *layer, &int8_x);
        configure(&mut *layer, &x, Some((scales.0, None)));
        let float_y = forward_to(DType::F32, &mut *layer, &int8_x);
        prop_assert_eq!(&quantized(&float_y, scales.1), &y, "only the rounding of the output differs");
        let y = dequantized(&y, scales.1);
        let weight = &case.weights()[0].1;
        let window = weight.num_elements() / case.out_channels;
        let largest = |values: Vec<f32>| values.into_iter().fold(0f32, |largest, x| largest.max(x.abs()));
        let (x, w) = (largest(x.to_vec().unwrap()), largest(weight.to_vec().unwrap()));
        // Half a step for each factor, for the bias and for the result.
        let steps = window as f32 * (x * w / 127.0 + x * w / 254.0 / 127.0 / 2.0) + scales.0 * w / 127.0;
        let most = (0.5 * scales.1 + steps) * 1.001;
        for (y, wanted) in y.into_iter().zip(wanted.to_vec::<f32>().unwrap()) {
            prop_assert!((y - wanted).abs() <= most, "got {y}, expected {wanted} ± {most}");
        }
    }

    #[test]
    fn deserialized_layers_are_bit_identical(case in cases(), [is_x_int8, is_y_int8] in any::<[bool; 2]>()) {
        let (mut layer, x) = (case.layer(), case.x());
        let scales = is_x_int8.then(|| (scale_of(&x), is_y_int8.then(|| scale_of(&case.wanted()))));
        configure(&mut *layer, &x, scales);
        let x = scales.map_or(x.clone(), |scales| quantized(&x, scales.0));
        let bytes = layer.serialize().unwrap();
        let mut rebuilt = case.layer();
        rebuilt.deserialize(&bytes).unwrap();
        prop_assert_eq!(&rebuilt.serialize().unwrap(), &bytes);
        // The rebuilt layer is not configured: its state comes from the bytes alone.
        let dtype = if is_x_int8 && is_y_int8 { DType::I8 } else { DType::F32 };
        prop_assert_eq!(forward_to(dtype, &mut *rebuilt, &x), forward_to(dtype, &mut *layer, &x));
    }

    #[test]
    fn damaged_bytes_are_rejected_or_fit(position in any::<prop::sample::Index>(), bit in 0u8..8, cut in any::<bool>()) {
        let (mut layer, x) = (CASE.layer(), CASE.x());
        configure(&mut *layer, &x, Some((0.01, Some(0.1))));
        let mut bytes = layer.serialize().unwrap();
        let at = position.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= 1 << bit }
        let mut rebuilt = CASE.layer();
        if rebuilt.deserialize(&bytes).is_ok() && !bytes.is_empty() {
            forward(&mut *rebuilt, &quantized(&x, 0.01));
        }
    }
}

#[test]
fn formats_are_row_major_and_int8_outputs_need_int8_inputs() {
    use ixion::op::TensorFormat;
    let layer = CASE.layer();
    let (float, int8) = (TensorFormat::plain(DType::F32), TensorFormat::quantized());
    for format in [float, int8] {
        assert!(layer.supports(0, &[format]));
        assert!(layer.supports(1, &[format, format]) && layer.supports(1, &[format, float]));
    }
    assert!(!layer.supports(1, &[float, int8]));
    for other in [TensorFormat::plain(DType::I8), TensorFormat::plain(DType::F16), float.blocked(1, 8)] {
        assert!(!layer.supports(0, &[other]) && !layer.supports(1, &[int8, other]), "{other}");
    }
}

#[test]
fn sums_that_could_overflow_are_rejected() {
    let case = Case { kernel: [400, 400], input: [1, 4, 400, 400], padding: [0, 0], has_bias: false, ..CASE };
    let mut layer = case.layer();
    let [input, output] = [[1, 4, 400, 400], [1, 6, 1, 1]]
        .map(|dims: [i64; 4]| TensorMeta::new(DType::I8, dims).with_scale(Some(0.5)));
    let error = layer.configure(&[input], &[output]).unwrap_err().to_string();
    assert!(error.contains("could overflow i32"), "{error}");
}

#[test]
fn invalid_fields_are_rejected() {
    let weights = || {
        CASE.weights()
            .into_iter()
            .map(|(key, it)| (key.to_owned(), RuntimeAttribute::from_tensor(it)))
            .collect()
    };
    for (key, text, wanted) in [
        ("groups", "3", "it must divide 4 and 6 channels"),
        ("groups", "0", "it must divide"),
        ("stride", "(0,1)", "parameter `stride` is [0, 1]: it must be at least 1"),
        ("out_channels", "7", "groups"),
        ("kernel_size", "(3,3)", "the weight: expected [6, 2, 3, 3], got [6, 2, 3, 2]"),
        ("padding_mode", "reflect", "only `zeros` is supported"),
        ("epilogue", "relu(@0)", "unknown parameters: `epilogue`"),
        ("state", "1", "unknown parameters: `state`"),
    ] {
        let mut params = CASE.text();
        params.insert(key.to_owned(), RuntimeParameter::parse(text));
        let error = create(params, weights()).unwrap_err().to_string();
        assert!(error.contains(wanted), "{key}={text}: {error}");
    }
}

/// A plan in which the plugin runs the convolution, in int8 where possible.
fn plan(case: &Case, scales: Scales) -> ixion::engine::Plan {
    let mut registry = registry();
    registry.route("nn.Conv2d", &"examples/Convolution/1".parse().unwrap()).unwrap();
    Builder::from_pnnx(case.model())
        .with_registry(registry)
        .with_precisions([Precision::Int8])
        .with_scales(scales)
        .with_formats(Formats::Narrowest)
        .build()
        .unwrap()
}

#[test]
fn the_engine_runs_it_in_int8_and_so_does_a_saved_plan() {
    let (x, wanted) = (CASE.x(), CASE.wanted());
    let scales: Scales = [("x", scale_of(&x)), ("y", scale_of(&wanted))].into_iter().collect();
    let plan = plan(&CASE, scales);
    let types: Vec<&str> = plan.graph().operators().iter().map(|operator| operator.op_type()).collect();
    assert!(types.contains(&"examples/Convolution/1") && !types.contains(&"nn.Conv2d"), "{types:?}");
    let selection = plan.selections().iter().find(|selection| selection.operator == "conv").unwrap();
    assert_eq!(selection.candidates[selection.chosen.unwrap()].to_string(), "i8 quantized");

    let y = plan.context().unwrap().run(&[x.clone()]).unwrap().remove(0);
    let mut layer = CASE.layer();
    configure(&mut *layer, &x, Some((scale_of(&x), Some(scale_of(&wanted)))));
    let direct = forward(&mut *layer, &quantized(&x, scale_of(&x)));
    assert_eq!(
        y.to_vec::<f32>().unwrap(),
        dequantized(&direct, scale_of(&wanted)),
        "as when called directly"
    );
    assert!(signal_to_noise(&wanted.to_vec().unwrap(), &y.to_vec().unwrap()) > 30.0);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conv.plan");
    plan.save(&path).unwrap();
    let open = || PlanFile::open(&path, &Limits::default()).unwrap();
    let loaded = open().with_registry(registry()).load().unwrap();
    assert_eq!(loaded.context().unwrap().run(&[x]).unwrap(), [y]);
    let missing = open().load().unwrap_err().to_string();
    assert!(
        missing.contains("needs the layer `examples/Convolution/1` (namespace/type/version)"),
        "{missing}"
    );
}

#[test]
fn without_scales_it_stays_in_f32() {
    let plan = plan(&CASE, Scales::default());
    let y = plan.context().unwrap().run(&[CASE.x()]).unwrap().remove(0);
    let (y, wanted) = (y.to_vec::<f32>().unwrap(), CASE.wanted().to_vec::<f32>().unwrap());
    assert!(signal_to_noise(&wanted, &y) > 100.0);
}
