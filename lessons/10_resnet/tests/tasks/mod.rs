//! The requirements of each task of lesson 10.

use super::subject::{
    AdaptiveAvgPool2d, Conv2d, Expression, Flatten, Linear, MaxPool2d, ReLU, accuracy, ranked,
    residual_network, slid,
};
use ixion::Limits;
use ixion::course::window::Window;
use ixion::graph::RuntimeGraph;
use ixion::op::{
    CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, Registry, TensorMeta, Weight,
};
use ixion::pnnx::Graph;
use ixion::tensor::{DType, Dim, Shape, Tensor, Workspace};
use std::path::{Path, PathBuf};

fn tensor(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_vec(values.to_vec(), shape).unwrap()
}

/// A tensor of 1, 2, 3 and so on.
fn counting(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    tensor(shape, &(1..=count).map(|number| number as f32).collect::<Vec<_>>())
}

/// A batch of n images.
fn pictures(channels: usize, height: usize, width: usize) -> TensorMeta {
    TensorMeta::new(DType::F32, [Dim::symbol("n"), channels.into(), height.into(), width.into()])
}

fn dims(layer: &dyn Layer, inputs: &[TensorMeta]) -> Result<String, String> {
    let outputs = layer.infer(inputs).map_err(|error| error.to_string())?;
    let dims: Vec<String> = outputs[0].dims().iter().map(Dim::to_string).collect();
    Ok(dims.join("×"))
}

fn run(layer: &mut dyn CpuLayer, inputs: &[&Tensor]) -> Result<Tensor, LayerError> {
    let views: Vec<_> = inputs.iter().map(|input| input.view()).collect();
    let meta = layer.infer(&TensorMeta::of_all(&views))?.remove(0);
    let mut output = Tensor::full(meta.shape()?.dims(), f32::NAN)?;
    let (mut workspace, limits) = (Workspace::new()?, Limits::default());
    let mut context = ForwardContext::new(&mut workspace, &limits);
    layer.forward(&mut Io::new(&views, &mut [output.view_mut()?], &mut context))?;
    Ok(output)
}

#[track_caller]
fn check(output: Result<Tensor, LayerError>, shape: &[usize], want: &[f32], hint: &str) {
    let output = output.unwrap_or_else(|error| panic!("{error}. {hint}"));
    assert_eq!(output.shape().dims(), shape, "the shape is wrong. {hint}");
    let got = output.to_vec::<f32>().unwrap();
    let close = got.iter().zip(want).all(|(got, want)| (got - want).abs() <= 1e-4 * want.abs().max(1.0));
    assert!(close, "got {got:?}, expected {want:?}. {hint}");
}

fn model_file(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap().join(name)
}

#[test]
fn given_relu_and_linear() {
    check(run(&mut ReLU { inplace: false }, &[&tensor(&[3], &[-2.0, 0.0, 3.0])]), &[3], &[0.0, 0.0, 3.0], "");
    let (weight, bias) = (Weight::Input(1), Some(Weight::Input(2)));
    let mut linear = Linear { in_features: 2, out_features: 3, weight, bias };
    let (x, w) = (tensor(&[1, 2], &[1.0, 10.0]), tensor(&[3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]));
    check(run(&mut linear, &[&x, &w, &tensor(&[3], &[0.0, 0.0, 5.0])]), &[1, 3], &[1.0, 10.0, 16.0], "");
}

fn expression(text: &str) -> Expression {
    Expression { expr: text.parse().unwrap() }
}

#[test]
fn task1_the_sum_of_two_tensors() {
    let (x, z) = (counting(&[1, 3, 1]), tensor(&[1, 3, 1], &[10.0, 20.0, 30.0]));
    check(run(&mut expression("add(@0,@1)"), &[&x, &z]), &[1, 3, 1], &[11.0, 22.0, 33.0], "@0 + @1");
    let hint = "@0 is the first input, @1 the second: are they in order?";
    check(run(&mut expression("sub(@0,@1)"), &[&x, &z]), &[1, 3, 1], &[-9.0, -18.0, -27.0], hint);
}

#[test]
fn task1_inputs_may_have_any_memory_order() {
    let turned = counting(&[2, 3]).permute(&[1, 0]).unwrap();
    let hint = "Read the elements through `array`, not in memory order.";
    check(run(&mut expression("mul(@0,2.0)"), &[&turned]), &[3, 2], &[2.0, 8.0, 4.0, 10.0, 6.0, 12.0], hint);
}

#[test]
fn task1_the_expression_determines_the_number_of_inputs() {
    let count = |text: &str| expression(text).num_inputs();
    assert_eq!(count("add(@0,@1)"), 2..=2, "@0 and @1 are two inputs");
    assert_eq!(count("add(add(@0,@1),@2)"), 3..=3, "@0, @1 and @2 are three inputs");
    assert_eq!(count("mul(@0,@0)"), 1..=1, "@0 twice is still one input");
}

#[test]
fn task1_a_sum_has_the_shape_of_both() {
    let sum = expression("add(@0,@1)");
    let main = pictures(24, 8, 8);
    assert_eq!(dims(&sum, &[main.clone(), main.clone()]).as_deref(), Ok("n×24×8×8"), "like the first input");
    let refused = dims(&sum, &[main, pictures(48, 4, 4)]);
    assert!(
        refused.is_err(),
        "24×8×8 plus 48×4×4 is not defined: a shortcut must have the shape of the main path"
    );
}

#[test]
fn task1_what_cannot_be_evaluated_is_an_error() {
    let found = run(&mut expression("size(@0,0)"), &[&counting(&[2])]);
    assert!(found.is_err(), "`evaluate` returns None for `size`: that is an error, not a result");
    let found = dims(&expression("1.0"), &[]);
    assert!(found.is_err(), "an expression without inputs has no input that determines its shape");
}

fn conv(channels: [usize; 2], kernel_size: [usize; 2]) -> Conv2d {
    Conv2d {
        in_channels: channels[0],
        out_channels: channels[1],
        kernel_size,
        stride: [1, 1],
        padding: [0, 0],
        dilation: [1, 1],
        groups: 1,
        padding_mode: "zeros".to_owned(),
        weight: Weight::Input(1),
        bias: None,
    }
}

/// The meta of a convolution's weights.
fn weights(shape: [usize; 4]) -> TensorMeta {
    TensorMeta::new(DType::F32, shape)
}

#[test]
fn task2_a_window_slides_over_a_number_or_a_symbol() {
    let window =
        |kernel, stride, dilation, pad| Window { kernel, stride, dilation, pad_before: pad, pad_after: pad };
    assert_eq!(
        slid(&Dim::from(7), &window(3, 2, 2, 1)),
        Dim::from(3),
        "7 + 2 elements; three taps, 2 apart, span 2·2 + 1 = 5: (9 − 5) / 2 + 1"
    );
    assert_eq!(
        slid(&Dim::from(8), &window(3, 2, 1, 1)),
        Dim::from(4),
        "(8 + 2 − 3) / 2 rounds down to 3, plus 1"
    );
    let h = Dim::symbol("h");
    assert_eq!(slid(&h, &window(3, 1, 1, 1)), h, "a padding of 1 on each side keeps any length");
    let hint = "⌊(h + 2 − 3) / 2⌋ + 1, which `Dim` stores in a normal form";
    assert_eq!(slid(&h, &window(3, 2, 1, 1)).to_string(), "(h + 1) / 2", "{hint}");
}

#[test]
fn task2_the_shape_of_a_convolution() {
    let strided = Conv2d { stride: [2, 2], padding: [1, 1], ..conv([24, 48], [3, 3]) };
    let found = dims(&strided, &[pictures(24, 8, 8), weights([48, 24, 3, 3])]);
    assert_eq!(found.as_deref(), Ok("n×48×4×4"), "as in the file; the batch stays n");
    let uneven = Conv2d { stride: [2, 1], padding: [2, 1], dilation: [1, 2], ..conv([3, 4], [5, 3]) };
    let found = dims(&uneven, &[pictures(3, 10, 7), weights([4, 3, 5, 3])]);
    assert_eq!(found.as_deref(), Ok("n×4×5×5"), "rows: (10 + 4 − 5) / 2 + 1; columns: 7 + 2 − 5 + 1");
}

#[test]
fn task2_a_convolution_rejects_what_does_not_fit() {
    let conv = conv([24, 48], [3, 3]);
    let right = weights([48, 24, 3, 3]);
    assert!(dims(&conv, &[pictures(24, 8, 8), right.clone()]).is_ok(), "this fits");
    let hint = "must be rejected while the model is built, before it runs";
    assert!(dims(&conv, &[pictures(16, 8, 8), right.clone()]).is_err(), "16 channels for 24 {hint}");
    assert!(
        dims(&conv, &[pictures(24, 8, 8), weights([24, 48, 3, 3])]).is_err(),
        "a transposed weight {hint}"
    );
    assert!(dims(&conv, &[pictures(24, 2, 8), right]).is_err(), "a window of 3 on 2 rows {hint}");
}

#[test]
fn task2_a_convolution_by_hand() {
    let mut diagonal = Conv2d { bias: Some(Weight::Input(2)), ..conv([1, 1], [2, 2]) };
    let weight = tensor(&[1, 1, 2, 2], &[1.0, 0.0, 0.0, 1.0]);
    let output = run(&mut diagonal, &[&counting(&[1, 1, 3, 3]), &weight, &tensor(&[1], &[10.0])]);
    check(
        output,
        &[1, 1, 2, 2],
        &[16.0, 18.0, 22.0, 24.0],
        "1 + 5 + 10 in the upper left: is the bias there?",
    );

    let mut sideways = conv([1, 1], [1, 2]);
    let weight = tensor(&[1, 1, 1, 2], &[-1.0, 10.0]);
    let output = run(&mut sideways, &[&counting(&[1, 1, 2, 3]), &weight]);
    let hint = "A window of one row and two columns: are rows and columns swapped?";
    check(output, &[1, 1, 2, 2], &[19.0, 28.0, 46.0, 55.0], hint);
}

#[test]
fn task2_all_parameters_reach_the_kernel() {
    let one = tensor(&[1, 1, 1, 1], &[1.0]);
    let mut strided = Conv2d { stride: [1, 2], ..conv([1, 1], [1, 1]) };
    let output = run(&mut strided, &[&counting(&[1, 1, 2, 4]), &one]);
    check(output, &[1, 1, 2, 2], &[1.0, 3.0, 5.0, 7.0], "Every row, every second column.");

    let mut padded = Conv2d { padding: [1, 0], ..conv([1, 1], [1, 1]) };
    let output = run(&mut padded, &[&counting(&[1, 1, 1, 2]), &one]);
    check(output, &[1, 1, 3, 2], &[0.0, 0.0, 1.0, 2.0, 0.0, 0.0], "A row of zeros above, and one below.");

    let mut dilated = Conv2d { dilation: [1, 2], ..conv([1, 1], [1, 2]) };
    let output = run(&mut dilated, &[&counting(&[1, 1, 1, 4]), &tensor(&[1, 1, 1, 2], &[1.0, 1.0])]);
    check(output, &[1, 1, 1, 2], &[4.0, 6.0], "1 + 3 and 2 + 4: one element in between is skipped.");

    let mut grouped = Conv2d { groups: 2, ..conv([2, 2], [1, 1]) };
    let output = run(&mut grouped, &[&counting(&[1, 2, 1, 2]), &tensor(&[2, 1, 1, 1], &[10.0, 100.0])]);
    check(output, &[1, 2, 1, 2], &[10.0, 20.0, 300.0, 400.0], "Each channel has its own filter.");
}

fn max_pool(kernel: usize, stride: usize, pad: usize) -> MaxPool2d {
    MaxPool2d {
        kernel_size: [kernel; 2],
        stride: [stride; 2],
        padding: [pad; 2],
        dilation: [1, 1],
        ceil_mode: false,
        return_indices: false,
    }
}

#[test]
fn task3_the_largest_of_each_window() {
    let x = tensor(
        &[1, 1, 4, 4],
        &[1.0, 2.0, 5.0, 6.0, 4.0, 3.0, 8.0, 7.0, 9.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 2.0],
    );
    check(
        run(&mut max_pool(2, 2, 0), &[&x]),
        &[1, 1, 2, 2],
        &[4.0, 8.0, 9.0, 2.0],
        "The largest of each 2×2.",
    );
    let negative = tensor(&[1, 1, 2, 2], &[-4.0, -3.0, -2.0, -1.0]);
    check(run(&mut max_pool(3, 2, 1), &[&negative]), &[1, 1, 1, 1], &[-1.0], "Padding is never the largest.");
}

#[test]
fn task3_the_mean_of_a_whole_plane() {
    let mut global = AdaptiveAvgPool2d { output_size: [1, 1] };
    assert_eq!(
        dims(&global, &[pictures(48, 4, 4)]).as_deref(),
        Ok("n×48×1×1"),
        "the axes stay, with length 1"
    );
    let x = tensor(&[1, 2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0]);
    check(run(&mut global, &[&x]), &[1, 2, 1, 1], &[2.5, 25.0], "The mean of each channel separately.");
}

#[test]
fn task3_parts_that_overlap() {
    let mut thirds = AdaptiveAvgPool2d { output_size: [1, 3] };
    let hint = "7 columns in 3 parts: 0..3, 2..5 and 4..7, as `adaptive_range` returns.";
    check(run(&mut thirds, &[&counting(&[1, 1, 1, 7])]), &[1, 1, 1, 3], &[2.0, 4.0, 6.0], hint);
    let mut halves = AdaptiveAvgPool2d { output_size: [2, 1] };
    let hint = "Two parts along the rows: are rows and columns swapped?";
    check(run(&mut halves, &[&counting(&[1, 1, 2, 3])]), &[1, 1, 2, 1], &[2.0, 5.0], hint);
}

#[test]
fn task3_pooling_needs_images() {
    let global = AdaptiveAvgPool2d { output_size: [1, 1] };
    let flat = TensorMeta::new(DType::F32, [2usize, 48]);
    assert!(dims(&global, &[flat]).is_err(), "N×C is not an image: reject it, and name the expected shape");
}

fn flatten(start_dim: i64, end_dim: i64) -> Flatten {
    Flatten { start_dim, end_dim }
}

#[test]
fn task4_several_axes_become_one() {
    let found = dims(&flatten(1, -1), &[pictures(48, 1, 1)]);
    assert_eq!(found.as_deref(), Ok("n×48"), "the batch stays, whatever n is");
    let x = TensorMeta::new(DType::F32, [2usize, 3, 4, 5]);
    let found = |start, end| dims(&flatten(start, end), std::slice::from_ref(&x)).unwrap();
    assert_eq!(found(0, -1), "120", "all axes");
    assert_eq!(
        found(1, -2),
        "2×12×5",
        "axes 1 and 2: -2 is the second to last, and `end_dim` is flattened, too"
    );
    assert_eq!(found(-1, 3), "2×3×4×5", "one axis alone stays as it is");
}

#[test]
fn task4_axes_that_do_not_exist() {
    let x = TensorMeta::new(DType::F32, [2usize, 3, 4]);
    for (start, end) in [(0, 3), (-4, -1), (2, 1)] {
        let found = dims(&flatten(start, end), std::slice::from_ref(&x));
        assert!(found.is_err(), "start_dim={start} and end_dim={end} of three axes give {found:?}");
    }
}

#[test]
fn task4_nothing_moves_in_memory() {
    let (x, shape) = (counting(&[2, 3, 1, 1]), Shape::new(&[2, 3]).unwrap());
    let view = flatten(1, -1).view(0, &[*x.layout()], &shape).unwrap();
    let view = view.expect("row-major in memory: the same elements can be viewed as 2×3 without a copy");
    assert_eq!((view.input, view.layout.shape()), (0, &shape), "a view of input 0, in the new shape");
    let turned = counting(&[2, 3]).permute(&[1, 0]).unwrap();
    let view = flatten(0, -1).view(0, &[*turned.layout()], &Shape::new(&[6]).unwrap()).unwrap();
    assert!(view.is_none(), "transposed: there is no such view, and `forward` has to copy");
}

#[test]
fn task4_what_must_move_is_copied() {
    let turned = counting(&[2, 3]).permute(&[1, 0]).unwrap();
    let hint = "1 2 3 / 4 5 6 transposed is 1 4 / 2 5 / 3 6: copy in the order of the view.";
    check(run(&mut flatten(0, -1), &[&turned]), &[6], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0], hint);
}

#[test]
fn task5_the_best_come_first() {
    assert_eq!(ranked(&[0.1, 0.7, 0.2]), [1, 2, 0], "class indices, the highest score first");
    assert_eq!(ranked(&[0.5, 0.9, 0.5]), [1, 0, 2], "of equal scores the first class wins");
    assert_eq!(ranked(&[f64::NAN, -2.0, -1.0]), [2, 1, 0], "NaN is not a score: it comes last");
}

#[test]
fn task5_accuracy_by_hand() {
    let scores = [vec![0.1, 0.7, 0.2], vec![0.6, 0.3, 0.1], vec![0.2, 0.3, 0.5], vec![0.4, 0.5, 0.1]];
    let labels = [1, 1, 2, 2];
    assert_eq!(accuracy(&scores, &labels, 1), Some(0.5), "the first and the third are right");
    assert_eq!(
        accuracy(&scores, &labels, 2),
        Some(0.75),
        "the second's label comes second, the fourth's last"
    );
    assert_eq!(accuracy(&scores, &labels, 9), Some(1.0), "there are only three classes");
    assert_eq!(accuracy(&[], &[], 1), None, "no images, no accuracy");
}

#[test]
fn task5_seven_layers_and_no_others() {
    let registry = residual_network().unwrap();
    let found: Vec<&str> = registry.iter().map(|(op_type, _)| op_type).collect();
    let own = [
        Conv2d::TYPES,
        ReLU::TYPES,
        MaxPool2d::TYPES,
        Expression::TYPES,
        AdaptiveAvgPool2d::TYPES,
        Flatten::TYPES,
        Linear::TYPES,
    ];
    let mut wanted = own.concat();
    wanted.sort_unstable();
    assert_eq!(found, wanted, "an empty registry, with each of your layers under its types");
}

/// A model from the repository, on the layers of this lesson alone.
fn own(param: &str) -> RuntimeGraph {
    let mut graph = RuntimeGraph::new(model_file(param)).with_registry(residual_network().unwrap());
    graph.build().unwrap();
    graph
}

fn rows(output: &Tensor) -> Vec<Vec<f64>> {
    let rows = output.array::<f32>().unwrap();
    rows.outer_iter().map(|row| row.iter().copied().map(f64::from).collect()).collect()
}

#[test]
fn task5_the_network_computes_what_pytorch_does() {
    let load = |file: &str| Tensor::load_npy(model_file(file), &Limits::default()).unwrap();
    let output = own("digits/digits.pnnx.param").run_with(vec![load("digits/in_0.npy")]).unwrap().remove(0);
    let comparison = output.allclose(&load("digits/out_0.npy"), 1e-4, 1e-3, false).unwrap();
    assert!(
        comparison.holds(),
        "{comparison}. Each layer is right on its own: find the operator that differs"
    );
}

#[test]
fn task5_your_layers_read_digits() {
    const COUNT: usize = 30;
    let load =
        |name: &str| Tensor::load_npz_entry(model_file("digits/test.npz"), name, &Limits::default()).unwrap();
    let images = load("images").narrow(0, 0, COUNT).unwrap().cast(DType::F32).unwrap();
    let images = images.map(|value: f32| value / 16.0).unwrap().reshape(&[COUNT, 1, 8, 8]).unwrap();
    let labels = load("labels").to_vec::<u8>().unwrap();
    let labels: Vec<usize> = labels.into_iter().take(COUNT).map(usize::from).collect();
    let output = own("digits/digits.pnnx.param").run_with(vec![images]).unwrap().remove(0);
    assert_eq!(
        accuracy(&rows(&output), &labels, 1),
        Some(1.0),
        "PyTorch reads all of these {COUNT} digits right"
    );
}

/// ResNet-18 with an eighth of its channels and random weights, on images of 32×32, to be fast.
#[test]
fn task5_resnet18_runs() {
    let text = std::fs::read_to_string(model_file("resnet18/resnet18.pnnx.param")).unwrap();
    let eighth = [("64", "8"), ("128", "16"), ("256", "32"), ("512", "64"), ("(1,3,224,224)", "(1,3,32,32)")];
    let text = eighth.into_iter().fold(text, |text, (from, to)| text.replace(from, to));
    let picture = Tensor::rand_uniform(&[1, 3, 32, 32], 0.0, 1.0, 7).unwrap();
    let [own, built_in] = [residual_network().unwrap(), Registry::default()].map(|registry| {
        let file = Graph::parse(&text, &Limits::default()).unwrap();
        let mut graph = RuntimeGraph::from_pnnx(file).with_registry(registry).with_random_weights(1);
        graph.build().unwrap();
        graph.run_with(vec![picture.clone()]).unwrap().remove(0)
    });
    assert_eq!(own.shape().dims(), [1, 1000], "a score for each of 1000 classes");
    let comparison = own.allclose(&built_in, 1e-3, 1e-4, false).unwrap();
    assert!(comparison.holds(), "your layers and Ixion's differ: {comparison}");
}
