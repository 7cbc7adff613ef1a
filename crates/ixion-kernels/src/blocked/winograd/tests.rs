use super::*;
use crate::elementwise::ApplyEpilogue;
use crate::naive;
use crate::parallel::tests::on_threads;
use crate::testing::integer_noise;
use crate::window::Window;
use ndarray::Ix4;
use proptest::prelude::*;

/// A convolution with all its optional parts.
#[derive(Debug, Clone)]
struct Case {
    samples: usize,
    channels: usize,
    outputs: usize,
    lens: [usize; 2],
    pads: [[usize; 2]; 2],
    has_bias: bool,
    bounds: [f32; 2],
    is_added: bool,
    is_finished: bool,
}

/// Doubles each result and adds a number that depends on its position.
#[derive(Debug)]
struct Double;

impl ApplyEpilogue<f32> for Double {
    fn apply(&self, start: usize, piece: &mut [f32]) -> Result<()> {
        piece.iter_mut().enumerate().for_each(|(index, x)| *x = 2.0 * *x + ((start + index) % 3) as f32);
        Ok(())
    }
}

impl Case {
    fn shape(&self) -> BlockedShape {
        let window = |[pad_before, pad_after]: [usize; 2]| Window {
            kernel: 3,
            stride: 1,
            dilation: 1,
            pad_before,
            pad_after,
        };
        let (channels, out_channels) = (self.channels, self.outputs);
        BlockedShape { channels, out_channels, groups: 1, lens: self.lens, windows: self.pads.map(window) }
    }

    /// Pseudo-random values from -1 to 1.
    fn noise(shape: &[usize], seed: usize) -> ndarray::ArrayD<f64> {
        integer_noise(shape, seed) / 8.0
    }

    /// The value that is added to the result at a position of the output.
    fn added(at: usize) -> f32 {
        (at * 7 % 11) as f32 / 11.0
    }

    /// The blocked output; the padding of the last input block is NaN.
    fn run(&self, isa: Isa, tile: Tile) -> Vec<f32> {
        let (shape, block) = (self.shape(), isa.lanes());
        let [inputs, outputs] = shape.sample(block).map(|len| len * self.samples);
        let mut input = vec![f32::NAN; inputs];
        for ((n, c, y, x), &value) in self.input().indexed_iter() {
            input[n * shape.sample(block)[0] + blocked([c, y, x], self.lens, block)] = value as f32;
        }
        let single = |values: ndarray::ArrayD<f64>| values.iter().map(|&x| x as f32).collect::<Vec<_>>();
        let (weight, bias) = (single(self.weight().into_dyn()), single(Self::noise(&[self.outputs], 3)));
        let bias = self.has_bias.then_some(&bias[..]);
        let weights = WinogradWeights::for_isa(isa, &shape, (&weight, bias), tile);
        let conv = WinogradConv::for_isa(isa, (shape, self.samples), tile);
        let added: Vec<f32> = (0..outputs).map(Self::added).collect();
        let epilogue = SumEpilogue {
            bounds: self.bounds,
            added: self.is_added.then_some(&added),
            elementwise: self.is_finished.then_some(&Double),
            first: 1,
        };
        let (mut output, mut scratch) = (vec![f32::NAN; outputs], vec![f32::NAN; conv.scratch()]);
        conv.run(&input, &weights, &mut output, &mut scratch, &epilogue, &Limits::default()).unwrap();
        output
    }

    fn input(&self) -> ndarray::Array4<f64> {
        let lens = [self.samples, self.channels, self.lens[0], self.lens[1]];
        Self::noise(&lens, 1).into_dimensionality::<Ix4>().unwrap()
    }

    fn weight(&self) -> ndarray::Array4<f64> {
        Self::noise(&[self.outputs, self.channels, 3, 3], 2).into_dimensionality::<Ix4>().unwrap()
    }

    /// The largest difference from the definition, and the largest result.
    fn error(&self, output: &[f32], block: usize) -> [f64; 2] {
        let (shape, bias) = (self.shape(), Self::noise(&[self.outputs], 3));
        let bias = self.has_bias.then(|| bias.as_slice().unwrap());
        let want = naive::conv2d(self.input().view(), self.weight().view(), bias, &shape.windows, 1);
        let (mut error, mut largest) = (0.0f64, 0.0f64);
        for ((n, o, y, x), &sum) in want.indexed_iter() {
            let at = n * shape.sample(block)[1] + blocked([o, y, x], shape.outputs(), block);
            let sum = if self.is_added { sum + f64::from(Self::added(at)) } else { sum };
            let mut want = [sum.clamp(self.bounds[0].into(), self.bounds[1].into()) as f32];
            if self.is_finished {
                Double.apply(at + 1, &mut want).unwrap();
            }
            let difference = f64::from((output[at] - want[0]).abs());
            // NaN is the largest error.
            error = if difference >= error || difference.is_nan() { difference } else { error };
            largest = largest.max(sum.abs());
        }
        [error, largest]
    }
}

/// The position of an element in planes of these lengths.
fn blocked([channel, y, x]: [usize; 3], [height, width]: [usize; 2], block: usize) -> usize {
    ((channel / block * height + y) * width + x) * block + channel % block
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

fn cases() -> impl Strategy<Value = Case> {
    let bounds =
        prop::sample::select(vec![[f32::NEG_INFINITY, f32::INFINITY], [0.0, f32::INFINITY], [0.0, 6.0]]);
    let pads = prop_oneof![
        Just([[1; 2]; 2]),
        Just([[0; 2]; 2]),
        any::<[[u8; 2]; 2]>().prop_map(|pads| { pads.map(|pair| pair.map(|pad| usize::from(pad % 9))) })
    ];
    let sizes = (1usize..4, 1usize..40, 1usize..40, [1usize..22, 1usize..22], pads);
    (sizes, bounds, any::<[bool; 3]>()).prop_map(
        |((samples, channels, outputs, lens, pads), bounds, [has_bias, is_added, is_finished])| Case {
            samples,
            channels,
            outputs,
            lens,
            pads,
            has_bias,
            bounds,
            is_added,
            is_finished,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn it_is_close_to_the_naive_convolution(case in cases(), tile in prop::sample::select(&Tile::ALL[..])) {
        prop_assume!(case.shape().outputs().iter().all(|&len| len > 0));
        for isa in Isa::supported() {
            let [error, largest] = case.error(&case.run(isa, tile), isa.lanes());
            // The larger a tile, the more its transforms amplify rounding errors.
            let tolerance = match tile {
                Tile::Two => 1e-5,
                Tile::Four => 2e-5,
                Tile::Six => 6e-5,
            };
            prop_assert!(error <= tolerance * largest.max(1.0), "{:?}: {} of {}", isa, error, largest);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn threads_change_no_bit(case in cases(), tile in prop::sample::select(&Tile::ALL[..])) {
        prop_assume!(case.shape().outputs().iter().all(|&len| len > 0));
        for isa in Isa::supported() {
            let (alone, pooled) = on_threads(&[1, 2, 3], || case.run(isa, tile));
            prop_assert!(pooled.iter().all(|pooled| bits(pooled) == bits(&alone)), "{:?}", isa);
        }
    }
}

proptest! {
    #[test]
    fn scratch_memory_suffices_for_smaller_inputs(
        [channels, out_channels] in [1usize..700, 1usize..700], tile in prop::sample::select(&Tile::ALL[..]),
        lens in [1usize..200, 1usize..200], more in [0usize..60, 0usize..60], samples in [1usize..40, 0usize..9],
    ) {
        let window = Window { kernel: 3, stride: 1, dilation: 1, pad_before: 1, pad_after: 0 };
        let larger = [lens[0] + more[0], lens[1] + more[1]];
        for isa in Isa::supported() {
            let scratch = |lens: [usize; 2], samples: usize| {
                let shape = BlockedShape { channels, out_channels, groups: 1, lens, windows: [window; 2] };
                WinogradConv::for_isa(isa, (shape, samples), tile).scratch()
            };
            let all = || [scratch(lens, samples[0]), scratch(larger, samples[0] + samples[1])];
            let (alone, pooled) = on_threads(&[2, 5], all);
            for [smaller, larger] in pooled.into_iter().chain([alone]) {
                prop_assert!(smaller <= larger, "{:?}: {} > {}", isa, smaller, larger);
            }
        }
    }
}

/// Small cases have neither strips of many tiles nor weights that exceed the cache.
#[test]
fn many_tiles_and_many_weights_are_shared_by_threads() {
    let case = |channels, outputs, lens| Case {
        samples: 2,
        channels,
        outputs,
        lens,
        pads: [[1; 2]; 2],
        has_bias: true,
        bounds: [0.0, f32::INFINITY],
        is_added: true,
        is_finished: false,
    };
    for (case, tile) in [
        (case(70, 90, [20, 22]), Tile::Six),
        (case(90, 40, [31, 33]), Tile::Two),
        (case(24, 20, [49, 70]), Tile::Four),
    ] {
        let (alone, pooled) = on_threads(&[1, 2, 3], || case.run(Isa::Scalar, tile));
        let [error, largest] = case.error(&alone, Isa::Scalar.lanes());
        assert!(error <= 3e-5 * largest, "{error} of {largest}");
        assert!(pooled.iter().all(|pooled| bits(pooled) == bits(&alone)));
    }
}

#[test]
fn other_windows_and_groups_are_left_to_the_definition() {
    let window = Window { kernel: 3, stride: 1, dilation: 1, pad_before: 1, pad_after: 1 };
    let shape =
        BlockedShape { channels: 16, out_channels: 16, groups: 1, lens: [8, 8], windows: [window; 2] };
    assert!(WinogradConv::suits(&shape));
    for other in
        [Window { kernel: 5, ..window }, Window { stride: 2, ..window }, Window { dilation: 2, ..window }]
    {
        assert!(!WinogradConv::suits(&BlockedShape { windows: [window, other], ..shape.clone() }));
    }
    assert!(!WinogradConv::suits(&BlockedShape { groups: 2, ..shape }));
}
