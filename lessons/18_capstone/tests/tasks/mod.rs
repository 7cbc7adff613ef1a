//! The requirements of each task of lesson 18.

use super::subject::{
    Configuration, Conv2d, QuantizedWeights, decode, encode, int8_sums, plan_for, quantize, registry,
    run_all, to_int8, unfold_into,
};
use ixion::Limits;
use ixion::course::naive::{conv2d, int8_conv2d, unfold};
use ixion::course::window::Window;
use ixion::op::{
    CpuLayer, Creator, Device, ForwardContext, FromOperator, Io, Layer, LayerError, OperatorReader,
    PluginName, RuntimeAttribute, RuntimeParameter, TensorFormat, TensorMeta,
};
use ixion::tensor::{DType, Dim, Tensor, Workspace};
use ndarray::{Array3, Array4, ArrayD, Ix4, IxDyn, arr2, array};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod bytes;
mod engine;

/// Integers from -11 to 11 that look like noise.
fn noise(shape: &[usize], seed: usize) -> ArrayD<f32> {
    let mut numbers = (0..).map(|i| ((i * 37 + seed * 11) % 23) as f32 - 11.0);
    ArrayD::from_shape_simple_fn(IxDyn(shape), || numbers.next().unwrap())
}

fn tensor(array: &ArrayD<f32>) -> Tensor {
    Tensor::from_vec(array.iter().copied().collect(), array.shape()).unwrap()
}

/// A model file of the repository that contains this package.
fn model_file(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap().join(name)
}

/// A convolution as in a file.
#[derive(Clone)]
struct File {
    params: Vec<(&'static str, &'static str)>,
    weight: ArrayD<f32>,
    bias: Option<Vec<f32>>,
}

/// Two channels to three, a window of 3×2 with stride (1, 2) and one row of padding.
fn file() -> File {
    let params = vec![
        ("in_channels", "2"),
        ("out_channels", "3"),
        ("kernel_size", "(3,2)"),
        ("stride", "(1,2)"),
        ("padding", "(1,0)"),
        ("bias", "True"),
    ];
    File { params, weight: noise(&[3, 2, 3, 2], 1), bias: Some(vec![1.0, -2.0, 30.0]) }
}

impl File {
    fn with(mut self, key: &'static str, value: &'static str) -> Self {
        self.params.retain(|(known, _)| *known != key);
        self.params.push((key, value));
        self
    }

    fn read(&self) -> Result<Conv2d, LayerError> {
        let text = |&(key, value): &(&str, &str)| (key.to_owned(), RuntimeParameter::parse(value));
        let params: BTreeMap<String, RuntimeParameter> = self.params.iter().map(text).collect();
        let attribute = |tensor: Tensor| RuntimeAttribute::from_tensor(tensor);
        let weight = ("weight".to_owned(), attribute(tensor(&self.weight)));
        let bias = self.bias.as_ref().map(|bias| {
            ("bias".to_owned(), attribute(Tensor::from_vec(bias.clone(), &[bias.len()]).unwrap()))
        });
        let attrs: BTreeMap<String, RuntimeAttribute> = [weight].into_iter().chain(bias).collect();
        let mut reader = OperatorReader::new(&params, &attrs, &[None], 1);
        let conv = Conv2d::from_operator(&mut reader)?;
        reader.finish()?;
        Ok(conv)
    }

    fn conv(&self) -> Conv2d {
        self.read().unwrap()
    }

    /// The error of `validate`.
    fn refusal(&self) -> String {
        let validated = self.read().and_then(|conv| conv.validate());
        assert!(validated.is_err(), "these fields must be rejected");
        validated.unwrap_err().to_string()
    }
}

fn meta(dims: &[usize]) -> TensorMeta {
    TensorMeta::new(DType::F32, dims.iter().copied())
}

fn int8_meta(dims: &[usize], scale: f32) -> TensorMeta {
    meta(dims).with_dtype(DType::I8).with_scale(Some(scale))
}

/// Configures for f32, or for int8 with these scales.
fn configure(conv: &mut Conv2d, input: &[usize], output: &[usize], scales: Option<[f32; 2]>) {
    let [x, y] = match scales {
        None => [meta(input), meta(output)],
        Some([x, y]) => [int8_meta(input, x), int8_meta(output, y)],
    };
    conv.configure(&[x], &[y]).unwrap();
}

fn configuration(conv: &Conv2d) -> &Configuration {
    let configuration = conv.state.0.as_ref();
    assert!(configuration.is_some(), "`configure` must store the configuration in `self.state.0`");
    configuration.unwrap()
}

fn quantized(conv: &Conv2d) -> &Arc<QuantizedWeights> {
    let quantized = configuration(conv).int8.as_ref();
    assert!(quantized.is_some(), "there are scales: the weights must be quantised");
    quantized.unwrap()
}

/// Runs a configured layer. The scratch memory has exactly as many bytes as the layer should request.
fn run(conv: &mut Conv2d, x: &Tensor, output: &[usize]) -> Tensor {
    let mut y = match x.dtype() {
        DType::I8 => Tensor::full(output, 99i8).unwrap(),
        _ => Tensor::full(output, f32::NAN).unwrap(),
    };
    let rows = conv.kernel_size[0] * conv.kernel_size[1] * conv.in_channels + output[1];
    let mut workspace = Workspace::new().unwrap();
    workspace.reserve(rows * output[2] * output[3] * 4).unwrap();
    let limits = Limits::default();
    let mut context = ForwardContext::new(&mut workspace, &limits);
    conv.forward(&mut Io::new(&[x.view()], &mut [y.view_mut().unwrap()], &mut context)).unwrap();
    y
}

fn window(kernel: usize, stride: usize, dilation: usize, pad: usize) -> Window {
    Window { kernel, stride, dilation, pad_before: pad, pad_after: pad }
}

#[test]
fn given_fields_come_by_name_and_type() {
    let conv = file().conv();
    assert_eq!((conv.in_channels, conv.kernel_size, conv.stride), (2, [3, 2], [1, 2]));
    assert_eq!((conv.dilation, conv.groups, &*conv.padding_mode), ([1, 1], 1, "zeros"));
    let mut without = file();
    without.params.retain(|(key, _)| *key != "kernel_size");
    let error = without.read().unwrap_err().to_string();
    assert!(error.contains("missing parameter `kernel_size`"), "{error}");
    let error = file().with("stride", "fast").read().unwrap_err().to_string();
    assert!(error.contains("`stride`") && error.contains("fast"), "{error}");
}

#[test]
fn task1_unsupported_fields_are_rejected() {
    file().conv().validate().expect("these fields are all right");
    let error = file().with("padding_mode", "reflect").refusal();
    assert!(error.contains("padding_mode") && error.contains("reflect"), "{error}");
    let error = file().with("groups", "2").refusal();
    assert!(error.contains("groups"), "the message should name the field: {error}");
    let error = file().with("stride", "(1,0)").refusal();
    assert!(error.contains("slide"), "a stride of 0 never moves; `check` of the windows detects it: {error}");
}

#[test]
fn task1_weights_must_match_the_fields() {
    let error = File { weight: noise(&[3, 2, 2, 3], 1), ..file() }.refusal();
    assert!(error.contains("weight"), "3×2×2×3 where the window is 3 high and 2 wide: {error}");
    let error = File { weight: noise(&[2, 3, 3, 2], 1), ..file() }.refusal();
    assert!(error.contains("weight"), "output channels come before input channels: {error}");
    let error = File { bias: Some(vec![0.0; 2]), ..file() }.refusal();
    assert!(error.contains("bias"), "3 output channels need 3 biases: {error}");
    File { bias: None, ..file() }.with("bias", "False").conv().validate().expect("a bias may be absent");
}

#[test]
fn task1_shapes_are_rounded_down() {
    let dims = |x: &[usize]| file().conv().infer(&[meta(x)]).unwrap()[0].shape().unwrap().dims().to_vec();
    // ⌊(5 + 2 − 3) / 1⌋ + 1 rows, ⌊(7 − 2) / 2⌋ + 1 columns.
    assert_eq!(
        dims(&[4, 2, 5, 7]),
        [4, 3, 5, 3],
        "rows come before columns, and half a position does not count"
    );
    assert_eq!(dims(&[1, 2, 5, 8]), [1, 3, 5, 4], "the window is at columns 0, 2, 4 and 6");
}

#[test]
fn task1_lengths_may_be_symbols() {
    let x = TensorMeta::new(DType::F32, [Dim::symbol("n"), 2.into(), Dim::symbol("h"), Dim::symbol("w")]);
    let y = file().conv().infer(&[x]).unwrap().remove(0);
    let at = |h: i64, w: i64| {
        let value = move |name: &str| {
            Some(if name == "n" {
                6
            } else if name == "h" {
                h
            } else {
                w
            })
        };
        y.dims().iter().map(|dim| dim.evaluate(&value).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(at(5, 7), [6, 3, 5, 3], "one rule for all sizes");
    assert_eq!(at(64, 100), [6, 3, 64, 50], "one rule for all sizes");
}

#[test]
fn task1_invalid_inputs_are_rejected() {
    let refusal = |x: TensorMeta| file().conv().infer(&[x]).expect_err("this input does not fit").to_string();
    let error = refusal(meta(&[1, 3, 5, 7]));
    assert!(error.contains("channels"), "the weights are for 2 channels: {error}");
    let error = refusal(meta(&[1, 2, 5, 7]).with_dtype(DType::F64));
    assert!(error.contains("f64"), "shape rules see the model's own types: f32 alone: {error}");
    refusal(meta(&[2, 5, 7]));
    refusal(meta(&[1, 2, 5, 1]));
}

#[test]
fn task2_all_tensors_are_alike() {
    let conv = file().conv();
    let (real, quantized) = (TensorFormat::plain(DType::F32), TensorFormat::quantized());
    for format in [real, quantized] {
        assert!(conv.supports(0, &[format]), "{format} as the input");
        assert!(conv.supports(1, &[format, format]), "{format} as the output, like the input");
    }
    let hint = "the input is decided before the output is asked about: look at `formats[0]`";
    assert!(!conv.supports(1, &[real, quantized]), "{hint}");
    assert!(!conv.supports(1, &[quantized, real]), "{hint}");
}

#[test]
fn task2_nothing_else_is_supported() {
    let conv = file().conv();
    let real = TensorFormat::plain(DType::F32);
    assert!(!conv.supports(0, &[TensorFormat::plain(DType::F64)]), "f64 is not f32");
    let hint = "i8 without a scale are just integers: nothing defines what they represent";
    assert!(!conv.supports(0, &[TensorFormat::plain(DType::I8)]), "{hint}");
    let hint = "channels in blocks are another memory order, which `forward` does not support";
    assert!(!conv.supports(0, &[real.blocked(1, 8)]), "{hint}");
    assert!(!conv.supports(0, &[real.on(Device::Cuda)]), "GPU memory cannot be read here");
}

#[test]
fn task2_the_plugin_has_a_name_and_a_route() {
    let registry = registry().unwrap();
    let name = PluginName::new("course", "Conv2d", "1").unwrap();
    assert!(registry.find(&name).is_some(), "namespace `course`, version `1`");
    let hint = "operators of the file are called `nn.Conv2d`: `Registry::route` them to the plugin";
    assert_eq!(registry.name_of("nn.Conv2d"), Some(name), "{hint}");
    assert!(registry.get("nn.MaxPool2d").is_ok(), "all other layers are Ixion's own");
    let built_in: PluginName = "ixion/nn.Conv2d/1".parse().unwrap();
    assert!(registry.find(&built_in).is_some(), "`route` keeps the built-in layer under its own name");
}

#[test]
fn task3_values_are_quantised() {
    let quantized = [0.4, 0.5, 1.5, -1.5, -0.6, 126.5, 127.4].map(to_int8);
    assert_eq!(quantized, [0, 0, 2, -2, -1, 126, 127], "ties go to the even neighbour");
    let hint = "−128 is left out, so that the range is symmetric";
    assert_eq!([300.0, -127.6, -1e30, f64::INFINITY].map(to_int8), [127, -127, -127, 127], "{hint}");
    assert_eq!(to_int8(f64::NAN), 0, "`as i8` converts NaN to 0");
}

#[test]
fn task3_each_output_channel_has_a_scale_of_its_own() {
    // Largest magnitudes 127 and 12.7: scales 1 and 0.1.
    let rows = arr2(&[[-127.0, 64.0, 1.0], [12.7, -1.0, 0.0]]);
    let quantized = quantize(rows.view(), &[10.0, 1.0], [0.5, 0.25]).unwrap();
    assert_eq!(quantized.scales, [0.5, 0.25]);
    let hint = "the scale of a channel is its largest magnitude over 127: 1, then 0.1";
    assert_eq!(quantized.weights, [-127, 64, 1, 127, -10, 0], "{hint}");
    let hint = "a bias counts steps of the sums: 10 / (0.5 · 1), then 1 / (0.5 · 0.1)";
    assert_eq!(quantized.bias, [20, 20], "{hint}");
    let hint = "a step of the sums in steps of the output: 0.5 · 1 / 0.25, then 0.5 · 0.1 / 0.25";
    for (step, wanted) in quantized.steps.iter().zip([2.0, 0.2]) {
        assert!((step - wanted).abs() < 1e-6, "got {step}, expected {wanted}: {hint}");
    }
    assert_eq!(quantized.steps.len(), 2);
}

#[test]
fn task3_a_channel_of_zeros_is_its_bias() {
    let hint = "0 / 0 is NaN, and 3 / 0 infinite: use another scale for a channel of zeros";
    let quantized = quantize(arr2(&[[0.0, 0.0]]).view(), &[3.0], [0.5, 0.5]);
    assert!(quantized.is_ok(), "{hint}");
    let quantized = quantized.unwrap();
    assert_eq!(quantized.weights, [0, 0], "{hint}");
    let y = f64::from(quantized.bias[0]) * quantized.steps[0];
    assert!((y - 6.0).abs() < 1e-9, "3 is six steps of 0.5, got {y}");
}

#[test]
fn task3_what_does_not_fit_into_32_bits_is_rejected() {
    let refused = |row: [f32; 2], bias: f32| match quantize(arr2(&[row]).view(), &[bias], [1e-3, 1.0]) {
        Err(LayerError::Unsupported(_)) => (),
        other => {
            panic!("expected `LayerError::Unsupported`, which makes the engine drop int8, got {other:?}")
        }
    };
    refused([f32::INFINITY, 1.0], 0.0);
    refused([f32::NAN, 1.0], 0.0);
    refused([1.0, 1.0], f32::NAN);
    // 1e6 / (1e-3 / 127) steps are more than 2³¹.
    refused([1.0, 1.0], 1e6);
}

#[test]
fn task3_the_configuration_is_kept() {
    let mut conv = file().conv();
    configure(&mut conv, &[1, 2, 5, 7], &[1, 3, 5, 3], None);
    let real = Configuration { input: [1, 2, 5, 7], output: [1, 3, 5, 3], int8: None };
    assert_eq!(configuration(&conv), &real, "without scales there are no quantised weights");
    configure(&mut conv, &[1, 2, 5, 7], &[1, 3, 5, 3], Some([0.5, 0.25]));
    let rows = file().weight.into_shape_with_order((3, 12)).unwrap();
    let wanted = quantize(rows.view(), &[1.0, -2.0, 30.0], [0.5, 0.25]).unwrap();
    assert_eq!(**quantized(&conv), wanted, "input first, then output: [x_scale, y_scale]");
    configure(&mut conv, &[1, 2, 5, 7], &[1, 3, 5, 3], None);
    assert_eq!(configuration(&conv), &real, "the layer may be configured for f32 again");
}

#[test]
fn task3_weights_are_quantised_once_for_all_shapes_and_contexts() {
    let mut conv = file().conv();
    configure(&mut conv, &[1, 2, 5, 7], &[1, 3, 5, 3], Some([0.5, 0.25]));
    let first = Arc::clone(quantized(&conv));
    let mut clone = conv.clone();
    configure(&mut clone, &[2, 2, 9, 9], &[2, 3, 9, 4], Some([0.5, 0.25]));
    assert_eq!(configuration(&clone).input, [2, 2, 9, 9], "the shape is new");
    assert!(Arc::ptr_eq(quantized(&clone), &first), "the scales are the same: keep the existing weights");
    configure(&mut clone, &[2, 2, 9, 9], &[2, 3, 9, 4], Some([0.25, 0.25]));
    assert_eq!(quantized(&clone).scales, [0.25, 0.25], "other scales need other weights");
    assert!(Arc::ptr_eq(quantized(&conv), &first), "a clone has a state of its own");
}

#[test]
fn task3_scratch_memory_is_requested() {
    let conv = file().conv();
    let bytes = |dims: &[usize]| conv.workspace(&[meta(&[1, 2, 5, 7])], &[meta(dims)]);
    // 12 rows of columns and 3 of products, each of 5 × 3 positions, of 4 bytes.
    assert_eq!(bytes(&[1, 3, 5, 3]), 15 * 15 * 4, "rows of columns, and a row for each output channel");
    assert_eq!(bytes(&[8, 3, 5, 3]), 15 * 15 * 4, "images are computed in turn and use the same memory");
    assert!(bytes(&[1, 3, 4, 3]) <= bytes(&[1, 3, 5, 3]), "a smaller output needs no more");
}

/// All taps of a 2×2 window over a 3×3 image.
#[test]
fn task4_columns_use_memory_of_the_engine() {
    let picture = Array3::from_shape_vec((1, 3, 3), (1..=9).map(|x| x as f32).collect()).unwrap();
    let mut columns = [f32::NAN; 16];
    unfold_into(picture.view(), &[window(2, 1, 1, 0); 2], &mut columns);
    let wanted = [1., 2., 4., 5., 2., 3., 5., 6., 4., 5., 7., 8., 5., 6., 8., 9.];
    assert_eq!(columns, wanted, "a row for each tap, a column for each position");
    let mut columns = [99i32; 9];
    unfold_into(array![[[5i8]]].view(), &[window(3, 1, 1, 1); 2], &mut columns);
    let hint = "padding is 0 and must be written: the memory holds leftovers of other layers";
    assert_eq!(columns, [0, 0, 0, 0, 5, 0, 0, 0, 0], "{hint}");
}

#[test]
fn task4_columns_equal_those_of_unfold() {
    let picture: Array3<f32> = noise(&[3, 6, 7], 2).into_dimensionality().unwrap();
    for windows in [[window(3, 2, 1, 1), window(2, 1, 2, 0)], [window(1, 1, 1, 0), window(4, 3, 1, 2)]] {
        let wanted = unfold(picture.view(), &windows);
        let mut columns = vec![f32::NAN; wanted.len()];
        unfold_into(picture.view(), &windows, &mut columns);
        assert_eq!(columns, wanted.into_raw_vec_and_offset().0, "{windows:?}: are rows and columns swapped?");
    }
}

#[test]
fn task4_sums_begin_with_the_bias() {
    let mut sums = [77; 3];
    int8_sums(&[2, -1], 100, &[1, 2, 3, 10, 20, 30], &mut sums);
    assert_eq!(sums, [92, 84, 76], "100 + 2 · 1 − 10, and so on");
}

#[test]
fn task4_f32_by_hand() {
    let params =
        vec![("in_channels", "1"), ("out_channels", "2"), ("kernel_size", "(2,2)"), ("bias", "True")];
    let weight = ArrayD::from_shape_vec(IxDyn(&[2, 1, 2, 2]), vec![1., 0., 0., 1., 1., 1., 1., 1.]).unwrap();
    let mut conv = File { params, weight, bias: Some(vec![10.0, -1.0]) }.conv();
    let x = Tensor::from_vec((1..=9).map(|x| x as f32).collect(), &[1, 1, 3, 3]).unwrap();
    configure(&mut conv, &[1, 1, 3, 3], &[1, 2, 2, 2], None);
    let y = run(&mut conv, &x, &[1, 2, 2, 2]).to_vec::<f32>().unwrap();
    assert_eq!(y[..4], [16., 18., 22., 24.], "1 + 5 + 10, 2 + 6 + 10, 4 + 8 + 10, 5 + 9 + 10");
    assert_eq!(y[4..], [11., 15., 23., 27.], "1 + 2 + 4 + 5 − 1, and so on: each channel has its own bias");
}

#[test]
fn task4_f32_matches_the_definition() {
    let (mut conv, x) = (file().conv(), noise(&[2, 2, 5, 7], 3));
    configure(&mut conv, &[2, 2, 5, 7], &[2, 3, 5, 3], None);
    let y = run(&mut conv, &tensor(&x), &[2, 3, 5, 3]).to_vec::<f32>().unwrap();
    let x = x.into_dimensionality::<Ix4>().unwrap();
    let weight = file().weight.into_dimensionality::<Ix4>().unwrap();
    let windows = [window(3, 1, 1, 1), window(2, 2, 1, 0)];
    let wanted = conv2d(x.view(), weight.view(), Some(&[1.0, -2.0, 30.0]), &windows, 1);
    for (position, (y, wanted)) in y.iter().zip(&wanted).enumerate() {
        let sample = position / 45;
        assert!((y - wanted).abs() < 1e-3, "got {y}, expected {wanted} in sample {sample}, at {position}");
    }
}

#[test]
fn task4_int8_is_rounded_once() {
    // Weights 127 and −10 in steps of 0.1; a sum is worth 0.1 · 0.5 / 0.25 = 0.2 steps of the output.
    let params = vec![("in_channels", "2"), ("out_channels", "1"), ("kernel_size", "1"), ("bias", "True")];
    let weight = ArrayD::from_shape_vec(IxDyn(&[1, 2, 1, 1]), vec![12.7, -1.0]).unwrap();
    let mut conv = File { params, weight, bias: Some(vec![0.1]) }.conv();
    configure(&mut conv, &[1, 2, 1, 4], &[1, 1, 1, 4], Some([0.5, 0.25]));
    let x = Tensor::from_vec(vec![0i8, 1, 100, 1, 1, 0, -127, 12], &[1, 2, 1, 4]).unwrap();
    let y = run(&mut conv, &x, &[1, 1, 1, 4]).to_vec::<i8>().unwrap();
    // Sums with the bias of 2: −8, 129, 13972, 9.
    assert_eq!(y, [-2, 26, 127, 2], "−1.6, 25.8, 2794.4 and 1.8 are rounded, and clipped at 127");
}

#[test]
fn task4_int8_sums_are_exact() {
    let (mut conv, dims) = (file().conv(), [2, 2, 5, 7]);
    configure(&mut conv, &dims, &[2, 3, 5, 3], Some([0.5, 40.0]));
    let x = noise(&dims, 4).mapv(|x| (x * 11.0) as i8);
    let y = run(&mut conv, &Tensor::from_vec(x.iter().copied().collect(), &dims).unwrap(), &[2, 3, 5, 3]);
    let quantized = quantized(&conv);
    let wide = |x: &i8| i32::from(*x);
    let weight = Array4::from_shape_vec((3, 2, 3, 2), quantized.weights.iter().map(wide).collect()).unwrap();
    let x = Array4::from_shape_vec((2, 2, 5, 7), x.iter().map(wide).collect()).unwrap();
    let sums = int8_conv2d(x.view(), weight.view(), &[window(3, 1, 1, 1), window(2, 2, 1, 0)], 1);
    let wanted: Vec<i8> = sums
        .indexed_iter()
        .map(|((_, channel, ..), &sum)| {
            let sum = sum + i64::from(quantized.bias[channel]);
            (sum as f64 * quantized.steps[channel]).round_ties_even().clamp(-127.0, 127.0) as i8
        })
        .collect();
    assert_eq!(
        y.to_vec::<i8>().unwrap(),
        wanted,
        "sums are i32 and exact; each channel has its own weights and step"
    );
}
