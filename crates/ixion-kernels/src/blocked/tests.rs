use super::*;
use crate::elementwise::ApplyEpilogue;
use crate::naive;
use crate::packed::{Packing, SumEpilogue};
use crate::parallel::tests::on_threads;
use crate::reformat::{Cut, reformat};
use crate::testing::integer_noise;
use ixion_tensor::{Limits, Result};
use ndarray::Ix4;
use proptest::prelude::*;

/// Adds a number that depends on the position of a result.
#[derive(Debug)]
struct AddPosition;

impl ApplyEpilogue<f32> for AddPosition {
    fn apply(&self, start: usize, piece: &mut [f32]) -> Result<()> {
        piece.iter_mut().enumerate().for_each(|(index, x)| *x += ((start + index) % 7) as f32);
        Ok(())
    }
}

/// A layout with blocked channels, or a plain one.
fn cut(len: usize, inner: usize, block: Option<usize>) -> Cut {
    Cut { outer: 1, len, inner, block }
}

fn single(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&x| x as f32).collect()
}

/// Compares a blocked convolution with the naive one, from blocked and from plain input.
fn check(shape: &BlockedShape, block: usize, with_bias: bool) {
    let [rows, columns] = shape.outputs();
    let ([height, width], limits) = (shape.lens, Limits::default());
    let input = integer_noise(&[1, shape.channels, height, width], 1);
    let kernel = shape.windows.map(|window| window.kernel);
    let per_group = shape.channels / shape.groups;
    let weight = integer_noise(&[shape.out_channels, per_group, kernel[0], kernel[1]], 2);
    let bias = integer_noise(&[shape.out_channels], 3);
    let bias = with_bias.then(|| bias.as_slice().unwrap());
    let views = [&input, &weight].map(|array| array.view().into_dimensionality::<Ix4>().unwrap());
    let want = naive::conv2d(views[0], views[1], bias, &shape.windows, shape.groups);

    let plain = single(input.as_slice().unwrap());
    let mut blocked = vec![0.0; shape.sample(block)[0]];
    let [from, to] = [None, Some(block)].map(|block| cut(shape.channels, height * width, block));
    reformat((from, &plain), (to, &mut blocked), f32::NAN, &limits, |x| x).unwrap();
    let (weight, bias) = (single(weight.as_slice().unwrap()), bias.map(single));
    let weights = (&weight[..], bias.as_deref());

    for (input, is_input_blocked, packing) in
        [(&blocked, true, Packing::F32), (&plain, false, Packing::F32), (&blocked, true, Packing::Bf16Pairs)]
    {
        let method = DenseMethod { blocking: Blocking { block, is_input_blocked }, packing };
        let (alone, pooled) = on_threads(&[1, 3], || convolved(shape, weights, method, input));
        let Some(alone) = alone else { continue };
        let mut got = vec![0.0; want.len()];
        let [from, to] = [Some(block), None].map(|block| cut(shape.out_channels, rows * columns, block));
        reformat((from, &alone), (to, &mut got), 0.0, &limits, |x| x).unwrap();
        assert_eq!(got, single(&want.iter().copied().collect::<Vec<_>>()), "{shape:?} {method:?}");
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
        assert!(pooled.iter().flatten().all(|pooled| bits(pooled) == bits(&alone)));
    }
}

/// The blocked output; `None` if there is no kernel.
fn convolved(
    shape: &BlockedShape,
    weights: (&[f32], Option<&[f32]>),
    method: DenseMethod,
    input: &[f32],
) -> Option<Vec<f32>> {
    let DenseMethod { blocking, packing } = method;
    let mut output = vec![7.0; shape.sample(blocking.block)[1]];
    let limits = Limits::default();
    let is_as_depthwise = blocking.is_input_blocked && packing == Packing::F32;
    match shape.is_depthwise() {
        true if !is_as_depthwise => return None,
        true => {
            let conv = DepthwiseConv::new(shape.clone(), blocking.block)?;
            let ordered = conv.weights(weights.0, weights.1);
            conv.run(input, &ordered, &mut output, &SumEpilogue::NONE, &limits).unwrap();
        }
        false => {
            let ordered = DenseWeights::new(shape, weights, method)?;
            let added: Vec<f32> = (0..output.len()).map(|at| (at % 5) as f32).collect();
            let mut run = |room: usize, epilogue: &SumEpilogue<'_>| {
                let conv = DenseConv::in_bands(shape.clone(), method, room);
                let mut scratch = vec![f32::NAN; conv.scratch()];
                output.fill(7.0);
                conv.run(input, &ordered, &mut output, &mut scratch, epilogue, &limits).unwrap();
                output.iter().map(|x| x.to_bits()).collect::<Vec<u32>>()
            };
            let with_all =
                SumEpilogue { added: Some(&added), elementwise: Some(&AddPosition), ..SumEpilogue::NONE };
            for epilogue in [with_all, SumEpilogue::NONE] {
                let [whole, few_rows, single_rows] = [1 << 20, 5 << 10, 0].map(|room| run(room, &epilogue));
                assert!(few_rows == whole && single_rows == whole);
            }
        }
    }
    Some(output)
}

fn window() -> impl Strategy<Value = Window> {
    let kernel = prop_oneof![3 => 1usize..4, 1 => Just(5usize)];
    (kernel, 1usize..4, 1usize..3, 0usize..3, 0usize..3).prop_map(|(kernel, stride, dilation, a, b)| Window {
        kernel,
        stride,
        dilation,
        pad_before: a,
        pad_after: b,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn it_equals_the_naive_convolution(
        channels in 1usize..20, others in 1usize..40, is_depthwise: bool, with_bias: bool,
        lens in [1usize..18, 1usize..18], windows in [window(), window()], block in prop::sample::select(vec![8, 16]),
    ) {
        let (out_channels, groups) = if is_depthwise { (channels, channels) } else { (others, 1) };
        let shape = BlockedShape { channels, out_channels, groups, lens, windows };
        prop_assume!(shape.outputs().iter().all(|&len| len > 0));
        check(&shape, block, with_bias);
    }

    #[test]
    fn groups_that_fill_blocks_see_their_own_channels(
        groups in 2usize..4, [ins, outs] in [1usize..3, 1usize..3], lens in [3usize..9, 3usize..9],
        windows in [window(), window()], block in prop::sample::select(vec![8, 16]),
    ) {
        let (channels, out_channels) = (groups * ins * block, groups * outs * block);
        let shape = BlockedShape { channels, out_channels, groups, lens, windows };
        prop_assume!(shape.outputs().iter().all(|&len| len > 0));
        check(&shape, block, true);
    }
}

proptest! {
    #[test]
    fn scratch_memory_suffices_for_smaller_inputs(
        channels in 1usize..40, windows in [window(), window()], room in 0usize..20_000, is_input_blocked: bool,
        lens in [1usize..60, 1usize..60], more in [0usize..20, 0usize..20],
    ) {
        let blocking = Blocking { block: 8, is_input_blocked };
        let method = DenseMethod { blocking, packing: Packing::F32 };
        let scratch = |lens: [usize; 2]| {
            let shape = BlockedShape { channels, out_channels: 8, groups: 1, lens, windows };
            DenseConv::in_bands(shape, method, room).scratch()
        };
        prop_assert!(scratch(lens) <= scratch([lens[0] + more[0], lens[1] + more[1]]));
    }
}

#[test]
fn pointwise_convolutions_read_planes_as_one_line() {
    let window = Window { kernel: 1, stride: 1, dilation: 1, pad_before: 0, pad_after: 0 };
    let shape =
        BlockedShape { channels: 40, out_channels: 50, groups: 1, lens: [9, 11], windows: [window; 2] };
    check(&shape, 8, true);
    check(&shape, 16, false);
}

#[test]
fn blocks_of_other_lengths_and_groups_within_blocks_have_no_kernels() {
    let suits = |block: usize, channels: [usize; 2], groups: usize| {
        Blocking { block, is_input_blocked: true }.suits(channels[0], channels[1], groups)
    };
    assert!(suits(8, [8, 8], 1) && suits(8, [3, 5], 1) && suits(8, [16, 32], 2));
    assert!(!suits(8, [8, 8], 2) && !suits(8, [16, 24], 2) && !suits(8, [8, 8], 0));
    assert!(!suits(4, [8, 8], 1) && !suits(32, [32, 32], 1));
    assert_eq!(suits(16, [8, 8], 1), crate::isa().lanes() == 16);
}

#[test]
fn pairs_need_blocked_input_and_an_even_number_of_channels() {
    let suits = |block: usize, is_input_blocked: bool, channels: usize, groups: usize| {
        let blocking = Blocking { block, is_input_blocked };
        DenseMethod { blocking, packing: Packing::Bf16Pairs }.suits(channels, 32, groups)
    };
    let is_supported = crate::multiplies_pairs();
    assert_eq!([suits(16, true, 6, 1), suits(16, true, 64, 2)], [is_supported; 2]);
    assert!(!suits(16, true, 5, 1) && !suits(16, false, 6, 1) && !suits(8, true, 6, 1));
}

#[test]
fn planes_that_are_larger_than_a_patch_are_split() {
    let window = |kernel, stride, dilation| Window { kernel, stride, dilation, pad_before: 2, pad_after: 1 };
    for (lens, windows) in [
        ([70, 45], [window(3, 1, 1); 2]),
        ([5, 700], [window(5, 2, 1); 2]),
        ([90, 60], [window(3, 1, 14), window(7, 3, 1)]),
        // Parts of a row that see nothing but padding.
        ([3, 3], [window(3, 1, 1), Window { pad_before: 300, pad_after: 300, ..window(3, 1, 1) }]),
    ] {
        check(&BlockedShape { channels: 18, out_channels: 18, groups: 18, lens, windows }, 8, true);
        check(&BlockedShape { channels: 18, out_channels: 18, groups: 18, lens, windows }, 16, false);
    }
}

#[test]
fn a_large_window_gets_a_larger_patch() {
    let window = Window { kernel: 29, stride: 1, dilation: 1, pad_before: 3, pad_after: 3 };
    let shape =
        BlockedShape { channels: 9, out_channels: 9, groups: 9, lens: [30, 31], windows: [window; 2] };
    check(&shape, 8, true);
}

#[test]
fn windows_that_see_more_than_a_patch_have_no_kernel() {
    let window = |kernel, dilation| Window { kernel, stride: 1, dilation, pad_before: 0, pad_after: 0 };
    for (kernel, dilation, is_suited) in
        [(31, 1, true), (7, 5, true), (7, 7, false), (usize::MAX, usize::MAX, false)]
    {
        assert_eq!(DepthwiseConv::suits([window(kernel, dilation); 2], 8), is_suited, "{kernel}, {dilation}");
    }
}

#[test]
fn depthwise_sums_are_added_to_and_bounded_before_they_are_stored() {
    let window = Window { kernel: 3, stride: 1, dilation: 1, pad_before: 1, pad_after: 1 };
    let shape =
        BlockedShape { channels: 10, out_channels: 10, groups: 10, lens: [9, 30], windows: [window; 2] };
    let conv = DepthwiseConv::new(shape.clone(), 8).unwrap();
    let numbers = |len: usize, seed| single(integer_noise(&[len], seed).as_slice().unwrap());
    let [input, added] = shape.sample(8);
    let (input, added) = (numbers(input, 1), numbers(added, 2));
    let weights = conv.weights(&numbers(90, 3), Some(&numbers(10, 4)));
    let run = |epilogue: &SumEpilogue<'_>| {
        let mut output = vec![7.0; added.len()];
        conv.run(&input, &weights, &mut output, epilogue, &Limits::default()).unwrap();
        output
    };
    let alone = run(&SumEpilogue::NONE);
    let both = run(&SumEpilogue { bounds: [0.0, 6.0], added: Some(&added), ..SumEpilogue::NONE });
    let want = alone.iter().zip(&added).map(|(x, added)| (x + added).clamp(0.0, 6.0));
    assert_eq!(both, want.collect::<Vec<_>>());
}
