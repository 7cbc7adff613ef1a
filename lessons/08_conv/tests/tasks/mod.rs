//! The tests of each task of lesson 08. Long lists of numbers were computed with PyTorch.

use super::subject::{Divisor, Window, avg_pool, conv_group, conv2d, max_pool, unfold};
use ixion_pnnx::Graph;
use ixion_tensor::Limits;
use ixion_tensor::Tensor;
use ndarray::{Array2, Array3, Array4, ArrayD, Dimension, IxDyn, arr2, array};
use std::path::{Path, PathBuf};

/// A window without padding.
fn window(kernel: usize, stride: usize) -> Window {
    Window { kernel, stride, dilation: 1, pad_before: 0, pad_after: 0 }
}

/// A window with the same padding on both sides, as PyTorch's layers have it.
fn padded(kernel: usize, stride: usize, dilation: usize, pad: usize) -> Window {
    Window { kernel, stride, dilation, pad_before: pad, pad_after: pad }
}

/// Deterministic pseudo-random integers from -11 to 11.
fn noise(shape: &[usize], seed: usize) -> ArrayD<f32> {
    let mut numbers = (0..).map(|i| ((i * 37 + seed * 11) % 23) as f32 - 11.0);
    ArrayD::from_shape_simple_fn(IxDyn(shape), || numbers.next().unwrap())
}

fn noise4(shape: [usize; 4], seed: usize) -> Array4<f32> {
    noise(&shape, seed).into_dimensionality().unwrap()
}

/// A model file in the repository that contains this package.
fn model_file(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap().join(name)
}

/// Compares shapes first, then elements, and reports the first difference.
#[track_caller]
fn check(got: &ArrayD<f32>, shape: &[usize], want: &[f32], hint: &str) {
    assert_eq!(got.shape(), shape, "the shape is wrong. {hint}");
    for ((at, &got), &want) in got.indexed_iter().zip(want) {
        let close = (got - want).abs() <= 1e-4 * want.abs().max(1.0);
        assert!(close, "at {:?}: got {got}, PyTorch has {want}. {hint}", at.slice());
    }
}

#[test]
fn task1_a_window_is_counted_where_it_fits() {
    let hint = "A window of 3 fits on 5 elements at 0, 1 and 2: is the first position counted as well?";
    assert_eq!(window(3, 1).positions(5), 3, "{hint}");
    assert_eq!(window(5, 1).positions(5), 1, "{hint}");
    assert_eq!(window(1, 1).positions(4), 4, "{hint}");
}

#[test]
fn task1_strides_round_down() {
    let hint = "With stride 2, a window of 3 starts at 0 and 2; at 4 it would reach past the sixth element.";
    assert_eq!(window(3, 2).positions(6), 2, "{hint}");
    assert_eq!(window(2, 3).positions(8), 3, "a window of 2 with stride 3 starts at 0, 3 and 6");
}

#[test]
fn task1_padding_makes_the_axis_longer() {
    let uneven = |pad_before, pad_after| Window { pad_before, pad_after, ..window(3, 1) };
    assert_eq!(padded(3, 1, 1, 1).positions(5), 5, "one padding element on each side keeps the length");
    assert_eq!(uneven(2, 0).positions(5), 5, "is the padding before the axis counted?");
    assert_eq!(uneven(0, 2).positions(5), 5, "is the padding after the axis counted?");
}

#[test]
fn task1_dilation_spreads_the_taps() {
    let hint = "Three taps with dilation 2 see 0, 2 and 4: they span 5 elements, not 3 or 6.";
    assert_eq!(padded(3, 1, 2, 0).positions(7), 3, "{hint}");
    assert_eq!(padded(3, 1, 2, 0).positions(5), 1, "{hint}");
}

#[test]
fn task1_a_window_that_does_not_fit_has_no_position() {
    assert_eq!(window(3, 1).positions(2), 0, "2 elements have no room for a window of 3");
    assert_eq!(padded(3, 2, 2, 1).positions(2), 0, "4 elements have no room for taps that span 5");
}

#[test]
fn task1_a_tap_sees_an_element_or_padding() {
    let window = padded(3, 2, 2, 1);
    let seen = |position| [0, 1, 2].map(|tap| window.source(position, tap, 7));
    let hint = "position × stride + tap × dilation, minus the padding before the axis";
    assert_eq!(seen(0), [None, Some(1), Some(3)], "position 0. {hint}");
    assert_eq!(seen(1), [Some(1), Some(3), Some(5)], "position 1. {hint}");
    assert_eq!(seen(2), [Some(3), Some(5), None], "position 2: index 7 is past the last element. {hint}");
}

#[test]
fn task2_the_largest_of_four() {
    let x =
        array![[[[1f32, 2.0, 5.0, 6.0], [4.0, 3.0, 8.0, 7.0], [9.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 2.0]]]];
    let (values, positions) = max_pool(x.into_dyn().view(), &[window(2, 2); 2], &[2, 2]);
    check(&values, &[1, 1, 2, 2], &[4.0, 8.0, 9.0, 2.0], "The largest of each 2×2 block.");
    let hint = "Positions count through the whole plane, row by row: row 1, column 0 of four columns is 4.";
    assert_eq!(positions.into_raw_vec_and_offset().0, [4, 6, 8, 15], "{hint}");
}

#[test]
fn task2_padding_is_never_the_largest() {
    let x = ArrayD::from_shape_vec(IxDyn(&[1, 1, 3]), vec![-3f32, -1.0, -2.0]).unwrap();
    let (values, _) = max_pool(x.view(), &[padded(2, 2, 1, 1)], &[2]);
    check(&values, &[1, 1, 2], &[-3.0, -1.0], "Is the padding treated as 0? It must be ignored.");
}

#[test]
fn task2_the_first_of_equal_elements_and_nan_above_all() {
    let row = |values: &[f32]| ArrayD::from_shape_vec(IxDyn(&[1, 1, values.len()]), values.to_vec()).unwrap();
    let (_, positions) = max_pool(row(&[2.0, 7.0, 7.0]).view(), &[window(3, 1)], &[1]);
    assert_eq!(positions[[0, 0, 0]], 1, "of equal elements, the first wins: is it `>` or `>=`?");
    let (values, positions) = max_pool(row(&[f32::NAN, 2.0, f32::NAN, 3.0]).view(), &[window(4, 1)], &[1]);
    assert!(values[[0, 0, 0]].is_nan(), "NaN > 2 is false, and so is 2 > NaN: use `is_nan`");
    assert_eq!(positions[[0, 0, 0]], 2, "of several NaN, PyTorch takes the last");
}

#[test]
fn task2_max_pooling_agrees_with_pytorch() {
    let windows = [padded(3, 2, 1, 1), padded(2, 2, 1, 0)];
    let (values, positions) = max_pool(noise(&[1, 2, 5, 6], 1).view(), &windows, &[3, 3]);
    let want = [6., 11., 10., 7., 11., 9., 5., 10., 9., 6., 11., 8., 5., 10., 8., 11., 10., 7.];
    check(
        &values,
        &[1, 2, 3, 3],
        &want,
        "The first window slides over the rows, the second over the columns.",
    );
    let want = [7, 9, 4, 12, 9, 22, 25, 27, 22, 0, 2, 10, 18, 20, 10, 25, 20, 28];
    assert_eq!(positions.into_raw_vec_and_offset().0, want, "positions start again in each channel's plane");
}

#[test]
fn task3_the_mean_of_four() {
    let x = array![[[[1f32, 2.0, 5.0, 6.0], [4.0, 3.0, 8.0, 7.0]]]].into_dyn();
    let means = avg_pool(x.view(), &[window(2, 2); 2], &[1, 2], Divisor::Elements);
    check(&means, &[1, 1, 1, 2], &[2.5, 6.5], "(1 + 2 + 4 + 3) / 4 = 2.5");
}

#[test]
fn task3_padding_counts_or_does_not() {
    let x = noise(&[1, 1, 5, 5], 2);
    let mean = |divisor| avg_pool(x.view(), &[padded(3, 2, 1, 1); 2], &[3, 3], divisor);
    let want = [1.25, 1.166667, 3.0, -3.0, 2.666667, 4.5, -1.5, 4.166667, 6.0];
    let hint = "Elements: divide by the number of elements that the window sees, 4 in a corner (count_include_pad=False).";
    check(&mean(Divisor::Elements), &[1, 1, 3, 3], &want, hint);
    let want = [0.555556, 0.777778, 1.333333, -2.0, 2.666667, 3.0, -0.666667, 2.777778, 2.666667];
    let hint = "ElementsAndPadding: divide by 9, also in a corner (count_include_pad=True).";
    check(&mean(Divisor::ElementsAndPadding), &[1, 1, 3, 3], &want, hint);
    let want = [1.25, 1.75, 3.0, -4.5, 6.0, 6.75, -1.5, 6.25, 6.0];
    check(
        &mean(Divisor::Fixed(4)),
        &[1, 1, 3, 3],
        &want,
        "Fixed: divide by the given number (divisor_override).",
    );
}

#[test]
fn task3_a_last_window_that_reaches_past_the_padding() {
    let x = ArrayD::from_shape_vec(IxDyn(&[1, 1, 6]), vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let mean = |divisor| avg_pool(x.view(), &[padded(4, 3, 1, 1)], &[3], divisor);
    check(&mean(Divisor::Elements), &[1, 1, 3], &[2.0, 4.5, 6.0], "The last window sees only the 6.");
    let hint = "With ceil_mode, the last window sees the 6, one padding element, and nothing beyond: 6 / 2.";
    check(&mean(Divisor::ElementsAndPadding), &[1, 1, 3], &[1.5, 4.5, 3.0], hint);
}

#[test]
fn task4_a_column_for_each_position() {
    let image = array![[[1f32, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]];
    let columns = unfold(image.view(), &[window(2, 1); 2]);
    assert_eq!(columns.dim(), (4, 4), "4 taps give 4 rows, 4 positions give 4 columns");
    assert_eq!(columns.column(0).to_vec(), [1.0, 2.0, 4.0, 5.0], "the first column is the upper left patch");
    let hint = "the second column is the patch one pixel to the right: positions run along the rows first";
    assert_eq!(columns.column(1).to_vec(), [2.0, 3.0, 5.0, 6.0], "{hint}");
    assert_eq!(columns.column(2).to_vec(), [4.0, 5.0, 7.0, 8.0], "the third is one pixel below the first");
}

#[test]
fn task4_all_taps_of_a_channel_before_the_next_channel() {
    let image = array![[[1f32, 2.0]], [[10.0, 20.0]]];
    let columns = unfold(image.view(), &[window(1, 1), window(2, 1)]);
    assert_eq!(columns.dim(), (4, 1), "2 channels with 2 taps each give 4 rows");
    let hint = "rows go channel by channel, then tap by tap: row = channel × taps + tap";
    assert_eq!(columns.column(0).to_vec(), [1.0, 2.0, 10.0, 20.0], "{hint}");
}

#[test]
fn task4_height_and_width_are_not_swapped() {
    let image = Array3::from_shape_fn((1, 2, 4), |(_, y, x)| (10 * y + x) as f32);
    let columns = unfold(image.view(), &[window(1, 1), window(3, 1)]);
    let want = arr2(&[[0f32, 1.0, 10.0, 11.0], [1.0, 2.0, 11.0, 12.0], [2.0, 3.0, 12.0, 13.0]]);
    assert_eq!(columns.dim(), (3, 4), "the first window slides over rows, the second over columns");
    assert_eq!(columns, want, "each element is 10 × row + column: which pixel does each tap see?");
}

#[test]
fn task4_unfolding_agrees_with_pytorch() {
    let image = noise(&[2, 4, 5], 3).into_dimensionality().unwrap();
    let windows = [padded(2, 1, 2, 1), padded(3, 2, 1, 0)];
    #[rustfmt::skip]
    let want: [f32; 96] = [
        0., 0., -1., 4., 0., 5., 1., 6., 0., 0., -10., -5., -9., -4., -8., -3.,
        0., 0., 4., 9., 5., 10., 6., 11., 0., 5., 1., 6., 2., 7., 0., 0.,
        -9., -4., -8., -3., -7., -2., 0., 0., 5., 10., 6., 11., 7., -11., 0., 0.,
        0., 0., 3., 8., 4., 9., 5., 10., 0., 0., -6., -1., -5., 0., -4., 1.,
        0., 0., 8., -10., 9., -9., 10., -8., 4., 9., 5., 10., 6., 11., 0., 0.,
        -5., 0., -4., 1., -3., 2., 0., 0., 9., -9., 10., -8., 11., -7., 0., 0.,
    ];
    let columns: Array2<f32> = unfold(image.view(), &windows);
    check(&columns.into_dyn(), &[12, 8], &want, "Padding is 0; the rows' window has dilation 2 here.");
}

#[test]
fn task5_one_filter_by_hand() {
    let image = array![[[1f32, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]];
    let filter = array![[[[1f32, 0.0], [0.0, 2.0]]]];
    let planes = conv_group(image.view(), filter.view(), None, &[window(2, 1); 2]);
    let hint = "1·1 + 0·2 + 0·4 + 2·5 = 11. 7 would be a flipped kernel: PyTorch does not flip it.";
    check(&planes.into_dyn(), &[1, 2, 2], &[11.0, 14.0, 20.0, 23.0], hint);
}

#[test]
fn task5_each_filter_has_its_own_bias() {
    let image = array![[[1f32, 2.0]], [[10.0, 20.0]]];
    let filters = Array4::from_shape_vec((2, 2, 1, 1), vec![1f32, 1.0, 1.0, -1.0]).unwrap();
    let planes = conv_group(image.view(), filters.view(), Some(&[0.5, 100.0]), &[window(1, 1); 2]);
    let hint =
        "The first filter adds the channels, the second takes their difference; then 0.5 and 100 are added.";
    check(&planes.into_dyn(), &[2, 1, 2], &[11.5, 22.5, 91.0, 82.0], hint);
}

#[test]
fn task5_each_group_sees_its_own_channels() {
    let input = Array4::from_shape_vec((1, 2, 1, 1), vec![3f32, 5.0]).unwrap();
    let weight = Array4::from_shape_vec((4, 1, 1, 1), vec![1f32, 2.0, 1.0, 2.0]).unwrap();
    let bias = [0.0, 10.0, 200.0, 3000.0];
    let output = conv2d(input.view(), weight.view(), Some(&bias), &[window(1, 1); 2], 2);
    let hint =
        "Filters 0 and 1 see only channel 0, filters 2 and 3 only channel 1; a bias belongs to its filter.";
    check(&output.into_dyn(), &[1, 4, 1, 1], &[3.0, 16.0, 205.0, 3010.0], hint);
}

#[test]
fn task5_convolutions_agree_with_pytorch() {
    let plain = conv2d(
        noise4([2, 2, 4, 5], 4).view(),
        noise4([3, 2, 3, 2], 5).view(),
        Some(&[1.0, -2.0, 3.0]),
        &[window(3, 1), window(2, 1)],
        1,
    );
    #[rustfmt::skip]
    let want = [
        41., 60., 125., -40., -48., 40., -102., 55., 223., 15., 14., -56., 11., 33., 193., -84.,
        -208., -22., 3., 120., -83., -35., -10., -100., -234., 245., 80., -62., -231., 41., 60., 125.,
        -24., 21., -3., -50., -144., 223., 15., 14., 79., -218., -9., 131., 296., -208., -22., 3.,
    ];
    check(&plain.into_dyn(), &[2, 3, 2, 4], &want, "Two samples, three filters, no padding.");

    let windows = [padded(3, 2, 1, 1), padded(3, 3, 1, 2)];
    let strided = conv2d(noise4([1, 1, 5, 7], 6).view(), noise4([1, 1, 3, 3], 7).view(), None, &windows, 1);
    let want = [30., -214., 11., -36., 163., 26., -12., 39., 168.];
    check(&strided.into_dyn(), &[1, 1, 3, 3], &want, "Stride (2, 3) and padding (1, 2).");

    let windows = [padded(2, 1, 3, 0), padded(3, 1, 1, 0)];
    let dilated = conv2d(noise4([1, 2, 6, 5], 8).view(), noise4([2, 2, 2, 3], 9).view(), None, &windows, 1);
    #[rustfmt::skip]
    let want = [
        -215., -26., 117., -29., -24., 119., -27., 139., 75.,
        79., 87., -112., 96., 81., -118., 90., 75., -331.,
    ];
    check(&dilated.into_dyn(), &[1, 2, 3, 3], &want, "Dilation (3, 1).");
}

#[test]
fn task5_grouped_convolutions_agree_with_pytorch() {
    let grouped = conv2d(
        noise4([1, 4, 3, 3], 10).view(),
        noise4([6, 2, 2, 2], 11).view(),
        Some(&[1.0, 20.0, 300.0, 4000.0, 50000.0, 600000.0]),
        &[window(2, 1); 2],
        2,
    );
    #[rustfmt::skip]
    let want = [
        -144., -69., 58., 110., -269., 137., -132., 251., 5., 420., 169., 561.,
        4063., 4073., 4070., 4057., 50127., 49870., 50069., 49858., 600237., 599713., 600114., 599705.,
    ];
    check(&grouped.into_dyn(), &[1, 6, 2, 2], &want, "Two groups of two channels and three filters.");

    let (input, weight) = (noise4([1, 3, 3, 3], 12), noise4([3, 1, 2, 2], 13));
    let depthwise = conv2d(input.view(), weight.view(), None, &[window(2, 1); 2], 3);
    let want = [8., 43., 44., 79., -154., 73., 21., 41., -149., 178., 73., 78.];
    check(&depthwise.into_dyn(), &[1, 3, 2, 2], &want, "As many groups as channels: each has one filter.");
}

/// Three convolutions with different strides, groups and dilations, whose weights and results come from PyTorch.
#[test]
fn task5_a_real_network_runs() {
    let limits = Limits::default();
    let (param, bin) = (model_file("conv3/conv3.pnnx.param"), model_file("conv3/conv3.pnnx.bin"));
    let graph = Graph::load(param, Some(&bin), &limits).unwrap();
    let weight = |operator: &str, key: &str| {
        let operator = graph.operator(graph.operator_named(operator).unwrap());
        let shape = operator.attr(key).unwrap().shape().to_vec();
        ArrayD::from_shape_vec(IxDyn(&shape), operator.attr(key).unwrap().to_f32s().unwrap()).unwrap()
    };
    let conv = |input: &Array4<f32>, operator: &str, windows: [Window; 2], groups: usize| {
        let filters: Array4<f32> = weight(operator, "weight").into_dimensionality().unwrap();
        let bias = (operator != "conv3").then(|| weight(operator, "bias").into_raw_vec_and_offset().0);
        conv2d(input.view(), filters.view(), bias.as_deref(), &windows, groups)
    };
    let relu = |x: Array4<f32>| x.mapv(|x| x.max(0.0));

    let images = Tensor::load_npy(model_file("conv3/in_0.npy"), &limits).unwrap();
    let images: Array4<f32> = images.array::<f32>().unwrap().to_owned().into_dimensionality().unwrap();
    let x = relu(conv(&images, "conv1", [padded(3, 1, 1, 1); 2], 1));
    assert_eq!(x.dim(), (1, 32, 32, 32), "conv1 keeps height and width");
    let x = relu(conv(&x, "conv2", [padded(5, 2, 1, 2), padded(3, 2, 1, 1)], 4));
    assert_eq!(x.dim(), (1, 64, 16, 16), "conv2 halves height and width");
    let y = conv(&x, "conv3", [padded(3, 1, 2, 0), padded(3, 1, 1, 0)], 1);

    let want = Tensor::load_npy(model_file("conv3/out_0.npy"), &limits).unwrap();
    let want: Vec<f32> = want.array::<f32>().unwrap().iter().copied().collect();
    check(
        &y.into_dyn(),
        &[1, 128, 12, 14],
        &want,
        "The last layer of the network; the first two had the right shapes.",
    );
}
