//! Every kind of kernel against the naive convolution.

use super::arms::Kind;
use super::bytes::{Bytes, Outputs, ZeroPoint};
use super::dense::{ByteConv, multiply_bytes};
use super::finish::{Added, Finish};
use super::weights::{BytePanels, ByteWeights, ChannelFactors, MAX_DEPTH, PanelKind};
use crate::blocked::BlockedShape;
use crate::naive;
use crate::parallel::tests::on_threads;
use crate::quantization::{ChannelStep, Quantization, Requantization};
use crate::window::Window;
use ixion_tensor::Limits;
use ndarray::Array4;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pseudo-random bytes.
fn noise(count: usize, seed: usize) -> Vec<i8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as i8
    };
    (0..count).map(|_| next()).collect()
}

fn unsigned(bytes: &[i8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte.cast_unsigned()).collect()
}

fn window() -> impl Strategy<Value = Window> {
    (1usize..6, 1usize..3, 1usize..3, 0usize..3).prop_map(|(kernel, stride, dilation, pad)| Window {
        kernel,
        stride,
        dilation,
        pad_before: pad,
        pad_after: pad / 2,
    })
}

fn factors(output: usize) -> ChannelFactors {
    ChannelFactors {
        start: output as i32 * 7919 % 1000 - 500,
        offset: output as f32 * 0.37 - 3.0,
        multiplier: 1e-3 * (output % 5 + 1) as f32,
    }
}

/// A convolution with its operands.
struct Problem {
    shape: BlockedShape,
    samples: usize,
    is_signed: bool,
    zero: i8,
    input: Vec<i8>,
    weights: Vec<i8>,
}

impl Problem {
    fn new(shape: BlockedShape, samples: usize, is_signed: bool, seed: usize) -> Self {
        let sample = ByteConv::new(shape.clone()).sample()[0];
        let depth = PanelKind::of(&shape).depth();
        let (input, weights) = (noise(samples * sample, seed), noise(shape.out_channels * depth, seed ^ 1));
        Self { shape, samples, is_signed, zero: seed as i8, input, weights }
    }

    /// A byte as the number that it represents.
    fn value(&self, byte: i8) -> i32 {
        if self.is_signed { i32::from(byte) } else { i32::from(byte.cast_unsigned()) }
    }

    fn weights(&self) -> ByteWeights {
        let kind = PanelKind::of(&self.shape);
        let panels = BytePanels::new(kind, |output, k| self.weights[output * kind.depth() + k]).unwrap();
        let zero = match self.is_signed {
            true => ZeroPoint::I8(self.zero),
            false => ZeroPoint::U8(self.zero.cast_unsigned()),
        };
        ByteWeights::new(Arc::new(panels), zero, |output| {
            assert!(output < self.shape.out_channels, "there is no such output");
            factors(output)
        })
    }

    /// The sums of all outputs, channels innermost.
    fn sums(&self) -> Vec<i64> {
        let BlockedShape { channels, out_channels, groups, lens: [height, width], windows } = self.shape;
        let [rows, columns] = windows.map(|window| window.kernel);
        let each = channels / groups;
        let zero = self.value(self.zero);
        let x = Array4::from_shape_fn((self.samples, channels, height, width), |(n, c, y, x)| {
            self.value(self.input[((n * height + y) * width + x) * channels + c]) - zero
        });
        let w = Array4::from_shape_fn((out_channels, each, rows, columns), |(o, c, y, x)| {
            i32::from(self.weights[((o * rows + y) * columns + x) * each + c])
        });
        let sums = naive::int8_conv2d(x.view(), w.view(), &windows, groups);
        sums.permuted_axes([0, 2, 3, 1]).iter().copied().collect()
    }

    /// The numbers that are quantised.
    fn reals(&self, finish: &Finish<'_>, added: Option<&[i8]>) -> Vec<f32> {
        let real = |(index, sum): (usize, i64)| {
            let how = factors(index % self.shape.out_channels);
            let mut x = ((sum as i32 + how.start) as f32 + how.offset) * how.multiplier;
            if let (Some(values), Some(added)) = (added, finish.added) {
                x += (i32::from(values[index]) - added.zero_point) as f32 * added.scale;
            }
            if let Some(function) = finish.function {
                function(std::slice::from_mut(&mut x));
            }
            x.clamp(finish.bounds[0], finish.bounds[1])
        };
        self.sums().into_iter().enumerate().map(real).collect()
    }
}

fn double(numbers: &mut [f32]) {
    numbers.iter_mut().for_each(|x| *x = *x * 2.0 - 1.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn convolutions_equal_the_naive_ones(
        windows in [window(), window()],
        (groups, each, outputs) in (1usize..4, 1usize..20, 1usize..40),
        (is_depthwise, is_point) in (any::<bool>(), any::<bool>()),
        lens in [1usize..9, 1usize..9],
        (samples, is_signed, has_added, has_function) in (1usize..3, any::<bool>(), any::<bool>(), any::<bool>()),
        seed: usize,
    ) {
        let (groups, each, outputs) = if is_depthwise { (groups * outputs + 1, 1, 1) } else { (groups, each, outputs) };
        let point = Window { kernel: 1, stride: 1, dilation: 1, pad_before: 0, pad_after: 0 };
        let windows = if is_point { [point; 2] } else { windows };
        let (channels, out_channels) = (groups * each, groups * outputs);
        let shape = BlockedShape { channels, out_channels, groups, lens, windows };
        let problem = Problem::new(shape.clone(), samples, is_signed, seed);
        let (conv, weights) = (ByteConv::new(shape), problem.weights());
        let len = samples * conv.sample()[1];
        let values = noise(len, seed ^ 2);
        let added = Added { values: Bytes::from(&values[..]), scale: 0.3, zero_point: 3 };
        let finish = Finish {
            added: has_added.then_some(added),
            function: has_function.then_some(&double as &(dyn Fn(&mut [f32]) + Sync)),
            bounds: [-90.0, 110.0],
            inverse: 1.7,
            zero_point: 5,
            range: [0, 120],
        };
        let want = problem.reals(&finish, Some(&values));
        let bytes: Vec<i32> = want.iter().map(|&x| finish.quantized(x)).collect();
        let input = unsigned(&problem.input);
        let input = if is_signed { Bytes::from(&problem.input[..]) } else { Bytes::from(&input[..]) };
        for kind in Kind::supported() {
            let run = |outputs: Outputs<'_>| {
                conv.run_as(kind, input, &weights, &finish, outputs, &Limits::default()).unwrap();
            };
            let mut reals = vec![9.0f32; len];
            run(Outputs::F32(&mut reals));
            prop_assert_eq!(&reals, &want, "{:?}", kind);
            let mut signed = vec![9i8; len];
            run(Outputs::I8(&mut signed));
            prop_assert_eq!(signed.into_iter().map(i32::from).collect::<Vec<_>>(), bytes.clone(), "{:?}", kind);
            let (alone, pooled) = on_threads(&[3], || {
                let mut unsigned = vec![9u8; len];
                run(Outputs::U8(&mut unsigned));
                unsigned
            });
            prop_assert_eq!(&alone, &pooled[0]);
            prop_assert_eq!(alone.into_iter().map(i32::from).collect::<Vec<_>>(), bytes.clone(), "{:?}", kind);
        }
    }

    /// Sums become bytes in registers. Windows of some heights leave room for two rows of the output, and last blocks of channels
    /// may be narrow; numbers of steps may be too large for an integer; and bytes may be in one half of those that there are, all
    /// but the last one, which is found when most outputs have been computed, or this one, too.
    #[test]
    fn depthwise_bytes_equal_the_naive_ones(
        (high, wide) in ((1usize..8, 1usize..4, 1usize..3), (1usize..6, 1usize..3, 1usize..3)),
        (channels, pads) in (2usize..200, [0usize..4, 0usize..3]),
        lens in [1usize..14, 1usize..14],
        (samples, is_signed, threads) in (1usize..3, any::<bool>(), 1usize..5),
        (is_halved, has_other) in (any::<bool>(), any::<bool>()),
        inverse in prop::sample::select(vec![0.3f32, 1.7, 1e12]),
        bounds in prop::sample::select(vec![[f32::NEG_INFINITY, f32::INFINITY], [-20.5, 13.0]]),
        seed: usize,
    ) {
        let window = |(kernel, stride, dilation): (usize, usize, usize), pad: usize| Window {
            kernel,
            stride,
            dilation,
            pad_before: pad,
            pad_after: pad,
        };
        let windows = [window(high, pads[0]), window(wide, pads[1])];
        let shape = BlockedShape { channels, out_channels: channels, groups: channels, lens, windows };
        let mut problem = Problem::new(shape.clone(), samples, is_signed, seed);
        if is_halved {
            // No byte differs from the zero point by more than 127, nor does any in the highest bit.
            problem.input.iter_mut().for_each(|byte| *byte = *byte & i8::MAX | problem.zero & i8::MIN);
            if let Some(byte) = problem.input.last_mut().filter(|_| has_other) {
                *byte ^= i8::MIN;
            }
        }
        let (conv, weights) = (ByteConv::new(shape), problem.weights());
        let len = samples * conv.sample()[1];
        let finish = Finish { bounds, inverse, zero_point: -3, range: [-128, 100], ..Finish::NONE };
        let want: Vec<i8> =
            problem.reals(&finish, None).iter().map(|&x| finish.quantized(x) as i8).collect();
        let input = unsigned(&problem.input);
        let input = if is_signed { Bytes::from(&problem.input[..]) } else { Bytes::from(&input[..]) };
        for kind in Kind::supported() {
            let (alone, pooled) = on_threads(&[threads], || {
                let (mut output, limits) = (vec![9i8; len], Limits::default());
                conv.run_as(kind, input, &weights, &finish, Outputs::I8(&mut output), &limits).unwrap();
                output
            });
            prop_assert_eq!(&alone, &pooled[0]);
            prop_assert_eq!(&alone, &want, "{:?}", kind);
        }
    }

    /// Many rows, and deep and wide products, are divided into several pieces.
    #[test]
    fn products_equal_the_naive_ones(
        rows in 0usize..300,
        (depth, outputs) in (0usize..300, 1usize..90),
        (threads, seed) in (1usize..5, any::<usize>()),
    ) {
        let point = Window { kernel: 1, stride: 1, dilation: 1, pad_before: 0, pad_after: 0 };
        let shape = BlockedShape {
            channels: depth,
            out_channels: outputs,
            groups: 1,
            lens: [1, rows],
            windows: [point; 2],
        };
        let problem = Problem::new(shape.clone(), 1, true, seed);
        let (conv, weights) = (ByteConv::new(shape), problem.weights());
        let want = problem.reals(&Finish::NONE, None);
        for kind in Kind::supported() {
            let (alone, pooled) = on_threads(&[threads], || {
                let (mut output, limits) = (vec![9.0f32; rows * outputs], Limits::default());
                let (input, target) = (Bytes::from(&problem.input[..]), Outputs::F32(&mut output));
                conv.run_as(kind, input, &weights, &Finish::NONE, target, &limits).unwrap();
                output
            });
            prop_assert_eq!(&alone, &pooled[0]);
            prop_assert_eq!(&alone, &want, "{:?}", kind);
        }
    }

    /// A function gets the numbers of many tiles at a time, and each number once.
    #[test]
    fn functions_of_many_tiles_equal_the_naive_ones(
        lens in [1usize..4, 1usize..130],
        (depth, outputs, kernel) in (1usize..9, 1usize..150, 1usize..4),
        (is_depthwise, has_added, threads) in (any::<bool>(), any::<bool>(), 1usize..5),
        seed: usize,
    ) {
        let window = Window { kernel, stride: 1, dilation: 1, pad_before: kernel - 1, pad_after: 0 };
        let (channels, groups) = if is_depthwise { (outputs, outputs) } else { (depth, 1) };
        let shape = BlockedShape { channels, out_channels: outputs, groups, lens, windows: [window; 2] };
        let problem = Problem::new(shape.clone(), 1, true, seed);
        let (conv, weights) = (ByteConv::new(shape), problem.weights());
        let len = conv.sample()[1];
        let values = noise(len, seed ^ 2);
        let added = Added { values: Bytes::from(&values[..]), scale: 0.3, zero_point: 3 };
        let added = has_added.then_some(added);
        let finish = Finish { added, function: Some(&double), inverse: 0.3, ..Finish::NONE };
        let want = problem.reals(&finish, Some(&values));
        let want: Vec<i8> = want.iter().map(|&x| finish.quantized(x) as i8).collect();
        let seen = AtomicUsize::new(0);
        let counting = |numbers: &mut [f32]| {
            seen.fetch_add(numbers.len(), Ordering::Relaxed);
            double(numbers);
        };
        let finish = Finish { function: Some(&counting), ..finish };
        for kind in Kind::supported() {
            let (alone, pooled) = on_threads(&[threads], || {
                seen.store(0, Ordering::Relaxed);
                let (mut output, limits) = (vec![9i8; len], Limits::default());
                let (input, target) = (Bytes::from(&problem.input[..]), Outputs::I8(&mut output));
                conv.run_as(kind, input, &weights, &finish, target, &limits).unwrap();
                (output, seen.load(Ordering::Relaxed))
            });
            prop_assert_eq!(&alone, &pooled[0]);
            prop_assert_eq!(alone.1, len);
            prop_assert_eq!(&alone.0, &want, "{:?}", kind);
        }
    }

    /// Sums of pairs of products may be larger than 16 bits. The range of the bytes decides which pairs are computed separately.
    /// Unsigned bytes of points with whole fours of channels are multiplied where they are.
    #[test]
    fn extreme_products_equal_the_naive_ones(
        (rows, depth, outputs) in (1usize..40, prop_oneof![1usize..80, (1usize..20).prop_map(|fours| 4 * fours)], 1usize..40),
        [low, high] in prop::sample::select(vec![[0u8, 255], [0, 127], [128, 255], [0, 0], [255, 255], [70, 190], [3, 131]]),
        (kernel, is_signed, weights) in (prop_oneof![Just(1usize), 1usize..4], any::<bool>(), 0usize..5),
        seed: usize,
    ) {
        let [window, point] = [kernel, 1].map(|kernel| Window {
            kernel,
            stride: 1,
            dilation: 1,
            pad_before: kernel - 1,
            pad_after: 0,
        });
        let windows = [point, window];
        let shape = BlockedShape { channels: depth, out_channels: outputs, groups: 1, lens: [1, rows], windows };
        let mut problem = Problem::new(shape.clone(), 1, is_signed, seed);
        for byte in &mut problem.input {
            let unsigned = byte.cast_unsigned();
            *byte = [low, high, unsigned.clamp(low, high)][usize::from(unsigned % 3)].cast_signed();
        }
        for (at, weight) in problem.weights.iter_mut().enumerate() {
            *weight = match weights {
                0 => i8::MIN,
                1 => i8::MAX,
                2 if at % 2 == 0 => i8::MAX,
                2 => i8::MIN,
                3 if at % 29 < 2 => i8::MAX,
                3 => *weight / 8,
                _ => *weight,
            };
        }
        let (conv, weights) = (ByteConv::new(shape), problem.weights());
        let want = problem.reals(&Finish::NONE, None);
        let input = unsigned(&problem.input);
        let input = if is_signed { Bytes::from(&problem.input[..]) } else { Bytes::from(&input[..]) };
        for kind in Kind::supported() {
            let (mut output, limits) = (vec![9.0f32; want.len()], Limits::default());
            conv.run_as(kind, input, &weights, &Finish::NONE, Outputs::F32(&mut output), &limits).unwrap();
            prop_assert_eq!(&output, &want, "{:?}", kind);
        }
    }

    /// The bits are those of the arithmetic that layers without these kernels use.
    #[test]
    fn outputs_are_those_of_the_scalar_arithmetic(sum in -40_000i32..40_000, bias in -1e3f32..1e3, scale in 1e-4f32..1.0) {
        let step = ChannelStep::new(scale, 0.5, bias).unwrap();
        let output = Quantization { scale, zero_point: 7, range: [0, 255] };
        let how = Requantization { multiplier: scale, bias, output };
        let weights = |factors: ChannelFactors| {
            let kind = PanelKind::Product { groups: 1, outputs: 1, depth: 400 };
            let left = std::cell::Cell::new(sum);
            let panels = BytePanels::new(kind, |_, _| {
                let weight = left.get().clamp(-127, 127);
                left.set(left.get() - weight);
                weight as i8
            });
            ByteWeights::new(Arc::new(panels.unwrap()), ZeroPoint::U8(0), |_| factors)
        };
        let ones = [1u8; 400];
        let mut real = [0.0f32];
        let (input, limits) = (Bytes::from(&ones[..]), Limits::default());
        multiply_bytes(1, input, &weights(step.into()), &Finish::NONE, Outputs::F32(&mut real), &limits).unwrap();
        prop_assert_eq!(real[0].to_bits(), step.real(f64::from(sum)).to_bits());
        let mut byte = [0u8];
        let finish = Finish { zero_point: 7, range: [0, 255], ..Finish::NONE };
        multiply_bytes(1, input, &weights((&how).into()), &finish, Outputs::U8(&mut byte), &limits).unwrap();
        prop_assert_eq!(i32::from(byte[0]), how.apply(f64::from(sum)));
    }
}

/// Few positions of a large window are computed at a time.
#[test]
fn large_depthwise_windows_equal_the_naive_ones() {
    let window = |kernel, dilation| Window { kernel, stride: 1, dilation, pad_before: 2, pad_after: 1 };
    for (windows, lens) in [
        ([window(9, 1), window(30, 1)], [10, 60]),
        ([window(5, 2), window(130, 1)], [10, 140]),
        ([window(70, 1), window(4, 3)], [71, 80]),
    ] {
        let shape = BlockedShape { channels: 3, out_channels: 3, groups: 3, lens, windows };
        let problem = Problem::new(shape.clone(), 1, true, 5);
        let (conv, weights) = (ByteConv::new(shape), problem.weights());
        let finish = Finish { inverse: 0.3, zero_point: -3, range: [-128, 100], ..Finish::NONE };
        let want: Vec<i8> = problem.reals(&finish, None).iter().map(|&x| finish.quantized(x) as i8).collect();
        for kind in Kind::supported() {
            let (mut output, limits) = (vec![9i8; want.len()], Limits::default());
            let (input, target) = (Bytes::from(&problem.input[..]), Outputs::I8(&mut output));
            conv.run_as(kind, input, &weights, &finish, target, &limits).unwrap();
            assert_eq!(output, want, "{kind:?}, {windows:?}");
        }
    }
}

/// Until the last row, no byte is too large to be multiplied in pairs. What was computed until then waits for the function, and is
/// computed again.
#[test]
fn a_large_byte_may_be_found_late() {
    let window = Window { kernel: 3, stride: 1, dilation: 1, pad_before: 1, pad_after: 1 };
    let (channels, lens) = (40, [9, 70]);
    let (groups, windows) = (channels, [window; 2]);
    let shape = BlockedShape { channels, out_channels: channels, groups, lens, windows };
    for is_signed in [false, true] {
        let mut problem = Problem::new(shape.clone(), 1, is_signed, 100);
        problem.input.iter_mut().for_each(|byte| *byte &= i8::MAX);
        if let Some(byte) = problem.input.last_mut() {
            *byte ^= i8::MIN;
        }
        let (conv, weights) = (ByteConv::new(shape.clone()), problem.weights());
        let finish = Finish { function: Some(&double), inverse: 0.3, ..Finish::NONE };
        let want: Vec<i8> = problem.reals(&finish, None).iter().map(|&x| finish.quantized(x) as i8).collect();
        let input = unsigned(&problem.input);
        let input = if is_signed { Bytes::from(&problem.input[..]) } else { Bytes::from(&input[..]) };
        for kind in Kind::supported() {
            let (mut output, limits) = (vec![9i8; want.len()], Limits::default());
            conv.run_as(kind, input, &weights, &finish, Outputs::I8(&mut output), &limits).unwrap();
            assert_eq!(output, want, "{kind:?}, {is_signed}");
        }
    }
}

/// Positions that see nothing but padding.
#[test]
fn inputs_without_rows_or_columns_are_padded() {
    let window = Window { kernel: 2, stride: 1, dilation: 1, pad_before: 1, pad_after: 1 };
    for (channels, out_channels, groups) in [(200, 200, 200), (6, 4, 2), (5, 3, 1)] {
        for lens in [[3, 0], [0, 3], [0, 0]] {
            let shape = BlockedShape { channels, out_channels, groups, lens, windows: [window; 2] };
            let problem = Problem::new(shape.clone(), 2, true, 7);
            let (conv, weights) = (ByteConv::new(shape), problem.weights());
            let want = problem.reals(&Finish::NONE, None);
            assert_eq!(want.len(), 2 * conv.sample()[1]);
            for kind in Kind::supported() {
                let (mut output, limits) = (vec![9.0f32; want.len()], Limits::default());
                let (input, target) = (Bytes::from(&problem.input[..]), Outputs::F32(&mut output));
                conv.run_as(kind, input, &weights, &Finish::NONE, target, &limits).unwrap();
                assert_eq!(output, want, "{kind:?}, {channels} channels, {lens:?}");
            }
        }
    }
}

/// The outputs of a channel whose weights are 0 are its bias, which need not be an integer.
#[test]
fn a_bias_alone_stays_as_it_is() {
    let kind = PanelKind::Product { groups: 1, outputs: 1, depth: 5 };
    let (input, limits) = ([9i8; 5], Limits::default());
    for bias in [0.7f32, -3.9, 12.0, 3e9, -1e-30] {
        let panels = Arc::new(BytePanels::new(kind, |_, _| 0).unwrap());
        let weights = ByteWeights::new(panels, ZeroPoint::I8(0), |_| ChannelStep::of_bias(bias).into());
        let mut output = [0.0f32];
        let target = Outputs::F32(&mut output);
        multiply_bytes(1, Bytes::from(&input[..]), &weights, &Finish::NONE, target, &limits).unwrap();
        assert_eq!(output, [bias]);
    }
}

#[test]
fn sizes_that_overflow_have_no_panels() {
    for depth in [MAX_DEPTH + 1, usize::MAX] {
        assert_eq!(BytePanels::len(PanelKind::Product { groups: 1, outputs: 0, depth }), None);
    }
    for outputs in [usize::MAX / 64, usize::MAX] {
        assert_eq!(BytePanels::len(PanelKind::Product { groups: 1, outputs, depth: 100 }), None);
        assert_eq!(BytePanels::len(PanelKind::Depthwise { channels: outputs, window: [9, 9] }), None);
    }
    assert_eq!(BytePanels::len(PanelKind::Depthwise { channels: 1, window: [usize::MAX, 1] }), None);
}

#[test]
fn the_largest_sums_fit() {
    let kind = PanelKind::Product { groups: 1, outputs: 1, depth: MAX_DEPTH };
    assert!(
        BytePanels::new(PanelKind::Product { groups: 1, outputs: 1, depth: MAX_DEPTH + 1 }, |_, _| 0)
            .is_none()
    );
    let one = ChannelFactors { start: 0, offset: 0.0, multiplier: 1.0 };
    let point = Window { kernel: 1, stride: 1, dilation: 1, pad_before: 0, pad_after: 0 };
    let (channels, windows) = (MAX_DEPTH, [point; 2]);
    let conv = ByteConv::new(BlockedShape { channels, out_channels: 1, groups: 1, lens: [1, 1], windows });
    for weight in [-128, 127] {
        let panels = Arc::new(BytePanels::new(kind, |_, _| weight).unwrap());
        for (zero, value) in [(0u8, 255u8), (255, 0)] {
            let weights = ByteWeights::new(panels.clone(), ZeroPoint::U8(zero), |_| one);
            let product = (i64::from(value) - i64::from(zero)) * i64::from(weight);
            let want = (product * MAX_DEPTH as i64) as f32;
            for kind in Kind::supported() {
                let (input, mut output, limits) = (vec![value; MAX_DEPTH], [0.0f32], Limits::default());
                let (input, target) = (Bytes::from(&input[..]), Outputs::F32(&mut output));
                conv.run_as(kind, input, &weights, &Finish::NONE, target, &limits).unwrap();
                assert_eq!(output[0], want, "{kind:?}");
            }
        }
    }
}
