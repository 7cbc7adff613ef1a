//! What each task of lesson 18 must fulfil.

use super::subject::{
    Conv2d, Settled, Whole, decode, encode, plan_for, quantize, registry, run_all, to_whole, unfold_into,
    whole_sums,
};
use ixion::Limits;
use ixion::kernels::naive::{conv2d, unfold, whole_conv2d};
use ixion::kernels::window::Window;
use ixion::op::{
    CpuLayer, Creator, Device, ForwardContext, FromOperator, Layer, LayerError, OperatorReader, PluginName,
    RuntimeAttribute, RuntimeParameter, TensorFormat, TensorMeta,
};
use ixion::tensor::{DType, Dim, Tensor, Workspace};
use ndarray::{Array3, Array4, ArrayD, Ix4, IxDyn, arr2, array};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod bytes;
mod engine;

/// Whole numbers from -11 to 11 that look like noise.
fn noise(shape: &[usize], seed: usize) -> ArrayD<f32> {
    let mut numbers = (0..).map(|i| ((i * 37 + seed * 11) % 23) as f32 - 11.0);
    ArrayD::from_shape_simple_fn(IxDyn(shape), || numbers.next().unwrap())
}

fn tensor(array: &ArrayD<f32>) -> Tensor {
    Tensor::from_vec(array.iter().copied().collect(), array.shape()).unwrap()
}

/// A file of the models that come with the repository, which holds this package.
fn model_file(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap().join(name)
}

/// A convolution as a file says it.
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

    /// What `validate` says.
    fn refusal(&self) -> String {
        let validated = self.read().and_then(|conv| conv.validate());
        assert!(validated.is_err(), "these fields should be refused");
        validated.unwrap_err().to_string()
    }
}

fn meta(dims: &[usize]) -> TensorMeta {
    TensorMeta::new(DType::F32, dims.iter().copied())
}

fn whole_meta(dims: &[usize], scale: f32) -> TensorMeta {
    meta(dims).with_dtype(DType::I8).with_scale(Some(scale))
}

/// Configures for f32, or for whole numbers of these scales.
fn settle(conv: &mut Conv2d, input: &[usize], output: &[usize], scales: Option<[f32; 2]>) {
    let [x, y] = match scales {
        None => [meta(input), meta(output)],
        Some([x, y]) => [whole_meta(input, x), whole_meta(output, y)],
    };
    conv.configure(&[x], &[y]).unwrap();
}

fn settled(conv: &Conv2d) -> &Settled {
    let settled = conv.state.0.as_ref();
    assert!(settled.is_some(), "what is settled should be kept in `self.state.0`");
    settled.unwrap()
}

fn whole(conv: &Conv2d) -> &Arc<Whole> {
    let whole = settled(conv).whole.as_ref();
    assert!(whole.is_some(), "there are scales: the weights should become whole numbers");
    whole.unwrap()
}

/// Runs a layer that is settled. The memory has no byte more than the layer should ask for.
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
    conv.forward(&[x.view()], &mut [y.view_mut().unwrap()], &mut context).unwrap();
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
    assert!(error.contains("`kernel_size`") && error.contains("is missing"), "{error}");
    let error = file().with("stride", "fast").read().unwrap_err().to_string();
    assert!(error.contains("`stride`") && error.contains("fast"), "{error}");
}

#[test]
fn task1_what_the_layer_cannot_do_is_refused() {
    file().conv().validate().expect("these fields are all right");
    let error = file().with("padding_mode", "reflect").refusal();
    assert!(error.contains("padding_mode") && error.contains("reflect"), "{error}");
    let error = file().with("groups", "2").refusal();
    assert!(error.contains("groups"), "the message should name the field: {error}");
    let error = file().with("stride", "(1,0)").refusal();
    assert!(error.contains("slide"), "a stride of 0 never moves; `check` of the windows knows: {error}");
}

#[test]
fn task1_weights_must_be_what_the_fields_promise() {
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
    assert_eq!(dims(&[4, 2, 5, 7]), [4, 3, 5, 3], "rows come before columns, and a half position is none");
    assert_eq!(dims(&[1, 2, 5, 8]), [1, 3, 5, 4], "the window stands at columns 0, 2, 4 and 6");
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
fn task1_inputs_that_cannot_be_are_refused() {
    let refusal = |x: TensorMeta| file().conv().infer(&[x]).expect_err("this input does not fit").to_string();
    let error = refusal(meta(&[1, 3, 5, 7]));
    assert!(error.contains("channels"), "the weights are for 2 channels: {error}");
    let error = refusal(meta(&[1, 2, 5, 7]).with_dtype(DType::F64));
    assert!(error.contains("f64"), "shape rules are asked with the model's own types: f32 alone: {error}");
    refusal(meta(&[2, 5, 7]));
    refusal(meta(&[1, 2, 5, 1]));
}

#[test]
fn task2_all_tensors_are_alike() {
    let conv = file().conv();
    let (real, whole) = (TensorFormat::plain(DType::F32), TensorFormat::quantized());
    for format in [real, whole] {
        assert!(conv.supports(0, &[format]), "{format} as the input");
        assert!(conv.supports(1, &[format, format]), "{format} as the output, as the input is");
    }
    let hint = "the input is decided before the output is asked about: look at `formats[0]`";
    assert!(!conv.supports(1, &[real, whole]), "{hint}");
    assert!(!conv.supports(1, &[whole, real]), "{hint}");
}

#[test]
fn task2_nothing_else_is_taken() {
    let conv = file().conv();
    let real = TensorFormat::plain(DType::F32);
    assert!(!conv.supports(0, &[TensorFormat::plain(DType::F64)]), "f64 is no f32");
    let hint = "i8 without a scale are just numbers: nobody says what they stand for";
    assert!(!conv.supports(0, &[TensorFormat::plain(DType::I8)]), "{hint}");
    let hint = "channels in blocks are another order in memory, which `forward` does not know";
    assert!(!conv.supports(0, &[real.blocked(1, 8)]), "{hint}");
    assert!(!conv.supports(0, &[real.on(Device::Cuda)]), "memory of a GPU cannot be read here");
}

#[test]
fn task2_the_plugin_has_a_name_and_the_work_of_another() {
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
fn task3_numbers_become_whole() {
    let whole = [0.4, 0.5, 1.5, -1.5, -0.6, 126.5, 127.4].map(to_whole);
    assert_eq!(whole, [0, 0, 2, -2, -1, 126, 127], "half goes to the even neighbour");
    let hint = "−128 is left out, so that the range is symmetric";
    assert_eq!([300.0, -127.6, -1e30, f64::INFINITY].map(to_whole), [127, -127, -127, 127], "{hint}");
    assert_eq!(to_whole(f64::NAN), 0, "`as i8` makes 0 of NaN");
}

#[test]
fn task3_each_output_channel_has_a_scale_of_its_own() {
    // Largest magnitudes 127 and 12.7: scales 1 and 0.1.
    let rows = arr2(&[[-127.0, 64.0, 1.0], [12.7, -1.0, 0.0]]);
    let whole = quantize(rows.view(), &[10.0, 1.0], [0.5, 0.25]).unwrap();
    assert_eq!(whole.scales, [0.5, 0.25]);
    let hint = "the scale of a channel is its largest magnitude over 127: 1, then 0.1";
    assert_eq!(whole.weights, [-127, 64, 1, 127, -10, 0], "{hint}");
    let hint = "a bias counts steps of the sums: 10 / (0.5 · 1), then 1 / (0.5 · 0.1)";
    assert_eq!(whole.bias, [20, 20], "{hint}");
    let hint = "a step of the sums in steps of the output: 0.5 · 1 / 0.25, then 0.5 · 0.1 / 0.25";
    for (step, wanted) in whole.steps.iter().zip([2.0, 0.2]) {
        assert!((step - wanted).abs() < 1e-6, "{step} instead of {wanted}: {hint}");
    }
    assert_eq!(whole.steps.len(), 2);
}

#[test]
fn task3_a_channel_of_zeros_is_its_bias() {
    let hint = "0 / 0 is no number, and 3 / 0 infinite: take another scale for a channel of zeros";
    let whole = quantize(arr2(&[[0.0, 0.0]]).view(), &[3.0], [0.5, 0.5]);
    assert!(whole.is_ok(), "{hint}");
    let whole = whole.unwrap();
    assert_eq!(whole.weights, [0, 0], "{hint}");
    let y = f64::from(whole.bias[0]) * whole.steps[0];
    assert!((y - 6.0).abs() < 1e-9, "3 are six steps of 0.5, but it is {y}");
}

#[test]
fn task3_what_does_not_fit_into_32_bits_is_refused() {
    let refused = |row: [f32; 2], bias: f32| match quantize(arr2(&[row]).view(), &[bias], [1e-3, 1.0]) {
        Err(LayerError::Unsupported(_)) => (),
        other => panic!("`LayerError::Unsupported` takes int8 off the engine's list, but it is {other:?}"),
    };
    refused([f32::INFINITY, 1.0], 0.0);
    refused([f32::NAN, 1.0], 0.0);
    refused([1.0, 1.0], f32::NAN);
    // 1e6 / (1e-3 / 127) steps are more than 2³¹.
    refused([1.0, 1.0], 1e6);
}

#[test]
fn task3_what_is_settled_is_kept() {
    let mut conv = file().conv();
    settle(&mut conv, &[1, 2, 5, 7], &[1, 3, 5, 3], None);
    let real = Settled { input: [1, 2, 5, 7], output: [1, 3, 5, 3], whole: None };
    assert_eq!(settled(&conv), &real, "without scales there are no whole numbers");
    settle(&mut conv, &[1, 2, 5, 7], &[1, 3, 5, 3], Some([0.5, 0.25]));
    let rows = file().weight.into_shape_with_order((3, 12)).unwrap();
    let wanted = quantize(rows.view(), &[1.0, -2.0, 30.0], [0.5, 0.25]).unwrap();
    assert_eq!(**whole(&conv), wanted, "input first, then output: [x_scale, y_scale]");
    settle(&mut conv, &[1, 2, 5, 7], &[1, 3, 5, 3], None);
    assert_eq!(settled(&conv), &real, "the layer may be settled for f32 again");
}

#[test]
fn task3_whole_weights_are_made_once_for_all_shapes_and_contexts() {
    let mut conv = file().conv();
    settle(&mut conv, &[1, 2, 5, 7], &[1, 3, 5, 3], Some([0.5, 0.25]));
    let first = Arc::clone(whole(&conv));
    let mut clone = conv.clone();
    settle(&mut clone, &[2, 2, 9, 9], &[2, 3, 9, 4], Some([0.5, 0.25]));
    assert_eq!(settled(&clone).input, [2, 2, 9, 9], "the shape is another one");
    assert!(Arc::ptr_eq(whole(&clone), &first), "the scales are the same: keep the weights that are there");
    settle(&mut clone, &[2, 2, 9, 9], &[2, 3, 9, 4], Some([0.25, 0.25]));
    assert_eq!(whole(&clone).scales, [0.25, 0.25], "other scales need other weights");
    assert!(Arc::ptr_eq(whole(&conv), &first), "a clone has a state of its own");
}

#[test]
fn task3_scratch_memory_is_asked_for() {
    let conv = file().conv();
    let bytes = |dims: &[usize]| conv.workspace(&[meta(&[1, 2, 5, 7])], &[meta(dims)]);
    // 12 rows of columns and 3 of products, each of 5 × 3 positions, of 4 bytes.
    assert_eq!(bytes(&[1, 3, 5, 3]), 15 * 15 * 4, "rows of columns, and a row for each output channel");
    assert_eq!(
        bytes(&[8, 3, 5, 3]),
        15 * 15 * 4,
        "pictures come one after the other and use the same memory"
    );
    assert!(bytes(&[1, 3, 4, 3]) <= bytes(&[1, 3, 5, 3]), "what is smaller needs no more");
}

/// All taps of a 2×2 window over a 3×3 picture.
#[test]
fn task4_columns_lie_in_memory_of_the_engine() {
    let picture = Array3::from_shape_vec((1, 3, 3), (1..=9).map(|x| x as f32).collect()).unwrap();
    let mut columns = [f32::NAN; 16];
    unfold_into(picture.view(), &[window(2, 1, 1, 0); 2], &mut columns);
    let wanted = [1., 2., 4., 5., 2., 3., 5., 6., 4., 5., 7., 8., 5., 6., 8., 9.];
    assert_eq!(columns, wanted, "a row for each tap, a column for each position");
    let mut columns = [99i32; 9];
    unfold_into(array![[[5i8]]].view(), &[window(3, 1, 1, 1); 2], &mut columns);
    let hint = "padding is 0 and must be written: the memory holds what others left there";
    assert_eq!(columns, [0, 0, 0, 0, 5, 0, 0, 0, 0], "{hint}");
}

#[test]
fn task4_columns_are_those_of_unfold() {
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
    whole_sums(&[2, -1], 100, &[1, 2, 3, 10, 20, 30], &mut sums);
    assert_eq!(sums, [92, 84, 76], "100 + 2 · 1 − 10, and so on");
}

#[test]
fn task4_real_numbers_by_hand() {
    let params =
        vec![("in_channels", "1"), ("out_channels", "2"), ("kernel_size", "(2,2)"), ("bias", "True")];
    let weight = ArrayD::from_shape_vec(IxDyn(&[2, 1, 2, 2]), vec![1., 0., 0., 1., 1., 1., 1., 1.]).unwrap();
    let mut conv = File { params, weight, bias: Some(vec![10.0, -1.0]) }.conv();
    let x = Tensor::from_vec((1..=9).map(|x| x as f32).collect(), &[1, 1, 3, 3]).unwrap();
    settle(&mut conv, &[1, 1, 3, 3], &[1, 2, 2, 2], None);
    let y = run(&mut conv, &x, &[1, 2, 2, 2]).to_vec::<f32>().unwrap();
    assert_eq!(y[..4], [16., 18., 22., 24.], "1 + 5 + 10, 2 + 6 + 10, 4 + 8 + 10, 5 + 9 + 10");
    assert_eq!(y[4..], [11., 15., 23., 27.], "1 + 2 + 4 + 5 − 1, and so on: each channel has its own bias");
}

#[test]
fn task4_real_numbers_are_those_of_the_definition() {
    let (mut conv, x) = (file().conv(), noise(&[2, 2, 5, 7], 3));
    settle(&mut conv, &[2, 2, 5, 7], &[2, 3, 5, 3], None);
    let y = run(&mut conv, &tensor(&x), &[2, 3, 5, 3]).to_vec::<f32>().unwrap();
    let x = x.into_dimensionality::<Ix4>().unwrap();
    let weight = file().weight.into_dimensionality::<Ix4>().unwrap();
    let windows = [window(3, 1, 1, 1), window(2, 2, 1, 0)];
    let wanted = conv2d(x.view(), weight.view(), Some(&[1.0, -2.0, 30.0]), &windows, 1);
    for (position, (y, wanted)) in y.iter().zip(&wanted).enumerate() {
        let sample = position / 45;
        assert!((y - wanted).abs() < 1e-3, "{y} instead of {wanted} in sample {sample}, at {position}");
    }
}

#[test]
fn task4_whole_numbers_are_rounded_once() {
    // Weights 127 and −10 in steps of 0.1; a sum is worth 0.1 · 0.5 / 0.25 = 0.2 steps of the output.
    let params = vec![("in_channels", "2"), ("out_channels", "1"), ("kernel_size", "1"), ("bias", "True")];
    let weight = ArrayD::from_shape_vec(IxDyn(&[1, 2, 1, 1]), vec![12.7, -1.0]).unwrap();
    let mut conv = File { params, weight, bias: Some(vec![0.1]) }.conv();
    settle(&mut conv, &[1, 2, 1, 4], &[1, 1, 1, 4], Some([0.5, 0.25]));
    let x = Tensor::from_vec(vec![0i8, 1, 100, 1, 1, 0, -127, 12], &[1, 2, 1, 4]).unwrap();
    let y = run(&mut conv, &x, &[1, 1, 1, 4]).to_vec::<i8>().unwrap();
    // Sums with the bias of 2: −8, 129, 13972, 9.
    assert_eq!(y, [-2, 26, 127, 2], "−1.6, 25.8, 2794.4 and 1.8 are rounded, and cut off at 127");
}

#[test]
fn task4_whole_sums_are_exact() {
    let (mut conv, dims) = (file().conv(), [2, 2, 5, 7]);
    settle(&mut conv, &dims, &[2, 3, 5, 3], Some([0.5, 40.0]));
    let x = noise(&dims, 4).mapv(|x| (x * 11.0) as i8);
    let y = run(&mut conv, &Tensor::from_vec(x.iter().copied().collect(), &dims).unwrap(), &[2, 3, 5, 3]);
    let whole = whole(&conv);
    let wide = |x: &i8| i32::from(*x);
    let weight = Array4::from_shape_vec((3, 2, 3, 2), whole.weights.iter().map(wide).collect()).unwrap();
    let x = Array4::from_shape_vec((2, 2, 5, 7), x.iter().map(wide).collect()).unwrap();
    let sums = whole_conv2d(x.view(), weight.view(), &[window(3, 1, 1, 1), window(2, 2, 1, 0)], 1);
    let wanted: Vec<i8> = sums
        .indexed_iter()
        .map(|((_, channel, ..), &sum)| {
            let sum = sum + i64::from(whole.bias[channel]);
            (sum as f64 * whole.steps[channel]).round_ties_even().clamp(-127.0, 127.0) as i8
        })
        .collect();
    assert_eq!(
        y.to_vec::<i8>().unwrap(),
        wanted,
        "sums are i32 and exact; a channel has its own weights and step"
    );
}
