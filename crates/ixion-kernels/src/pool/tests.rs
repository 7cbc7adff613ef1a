//! Tests of pooling against the naive kernels, and of blocks of channels against single channels.

use super::*;
use crate::naive;
use crate::window::Window;
use ndarray::{ArrayD, IxDyn};
use proptest::prelude::*;

/// Small integers and occasional NaN, so that ties and NaN are common and sums are exact.
fn planes(lens: &[usize], seed: u64, with_nan: bool) -> ArrayD<f64> {
    let mut state = seed;
    ArrayD::from_shape_simple_fn(IxDyn(&[&[2, 2], lens].concat()), || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        match (state >> 33) % 23 {
            22 if with_nan => f64::NAN,
            number => (number % 7) as f64 - 2.0,
        }
    })
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| if value.is_nan() { u64::MAX } else { (value + 0.0).to_bits() }).collect()
}

fn windows() -> impl Strategy<Value = Vec<Window>> {
    let window = (1usize..5, 1usize..4, 1usize..3, 0usize..3).prop_map(|(kernel, stride, dilation, pad)| {
        let pad = pad.min(kernel / 2);
        Window { kernel, stride, dilation, pad_before: pad, pad_after: pad }
    });
    proptest::collection::vec(window, 1..4)
}

proptest! {
    #[test]
    fn sliding_windows_equal_the_naive_ones(
        windows in windows(),
        lens in proptest::collection::vec(1usize..8, 3),
        width in 1usize..60,
        further in proptest::collection::vec(0usize..2, 3),
        seed: u64,
        divisor in prop_oneof![Just(Divisor::Elements), Just(Divisor::ElementsAndPadding), Just(Divisor::Fixed(-3))],
    ) {
        let lens = &*[&lens[1..windows.len()], &[width]].concat();
        let outputs: Vec<usize> =
            windows.iter().zip(lens).zip(&further).map(|((w, &len), more)| w.positions(len) + more).collect();
        let shape = PoolShape::sliding(lens, &windows, &outputs);
        let x = planes(lens, seed, true);
        let (want, want_indices) = naive::max_pool(x.view(), &windows, &outputs);
        let x = x.as_slice().unwrap();
        let (mut got, mut indices) = (vec![7.0; want.len()], vec![7; want.len()]);
        let mut scratch = vec![7.0; shape.scratch_len()];
        max_pool(&shape, x, &mut got, &mut scratch, &Limits::default()).unwrap();
        prop_assert_eq!(bits(&got), bits(want.as_slice().unwrap()));
        max_pool_with_indices(&shape, x, &mut got, &mut indices, &Limits::default()).unwrap();
        prop_assert_eq!(bits(&got), bits(want.as_slice().unwrap()));
        prop_assert_eq!(&indices, want_indices.as_slice().unwrap());
        let x = planes(lens, seed, false);
        let want = naive::avg_pool(x.view(), &windows, &outputs, divisor);
        avg_pool(&shape, divisor, x.as_slice().unwrap(), &mut got, &mut scratch, &Limits::default()).unwrap();
        prop_assert_eq!(bits(&got), bits(want.as_slice().unwrap()));
    }

    #[test]
    fn adaptive_parts_equal_the_naive_ones(
        axes in proptest::collection::vec((1usize..12, 1usize..20), 1..4),
        seed: u64,
    ) {
        let (lens, outputs): (Vec<_>, Vec<_>) = axes.into_iter().unzip();
        let shape = PoolShape::adaptive(&lens, &outputs);
        let x = planes(&lens, seed, true);
        let (want, want_indices) = naive::adaptive_max_pool(x.view(), &outputs);
        let (mut got, mut indices) = (vec![7.0; want.len()], vec![7; want.len()]);
        max_pool_with_indices(&shape, x.as_slice().unwrap(), &mut got, &mut indices, &Limits::default()).unwrap();
        prop_assert_eq!(bits(&got), bits(want.as_slice().unwrap()));
        prop_assert_eq!(&indices, want_indices.as_slice().unwrap());
        let x = planes(&lens, seed, false);
        let want = naive::adaptive_avg_pool(x.view(), &outputs);
        let mut scratch = vec![7.0; shape.scratch_len()];
        avg_pool(&shape, Divisor::Elements, x.as_slice().unwrap(), &mut got, &mut scratch, &Limits::default()).unwrap();
        prop_assert_eq!(bits(&got), bits(want.as_slice().unwrap()));
    }

    #[test]
    fn norms_equal_the_naive_ones(
        windows in windows(),
        lens in proptest::collection::vec(4usize..8, 3),
        p in prop_oneof![Just(1.0), Just(2.0), Just(0.5), Just(3.0)],
        seed: u64,
    ) {
        let windows: Vec<Window> =
            windows.iter().map(|w| Window { dilation: 1, pad_before: 0, pad_after: 0, ..*w }).collect();
        let lens = &lens[..windows.len()];
        let rounded_up = |w: &Window, len: usize| ((len - w.kernel).div_ceil(w.stride)).min((len - 1) / w.stride) + 1;
        let outputs: Vec<usize> = windows.iter().zip(lens).map(|(w, &len)| rounded_up(w, len)).collect();
        let shape = PoolShape::sliding(lens, &windows, &outputs);
        let x = planes(lens, seed, false).mapv(f64::abs);
        let want = naive::lp_pool(x.view(), &windows, &outputs, p);
        let mut got = vec![7.0; want.len()];
        let places = windows.iter().map(|window| window.kernel).product();
        let mut scratch = vec![7.0; shape.scratch_len()];
        lp_pool(&shape, (p, places), x.as_slice().unwrap(), &mut got, &mut scratch, &Limits::default()).unwrap();
        for (got, want) in got.iter().zip(&want) {
            prop_assert!((got - want).abs() <= 1e-12 * (1.0 + want.abs()), "{got} where {want} is expected");
        }
    }
}

#[test]
fn a_passed_deadline_stops_pooling() {
    let late = Limits::default().with_timeout(std::time::Duration::ZERO);
    let shape = PoolShape::adaptive(&[4], &[2]);
    let (mut values, mut places) = ([0.0; 2], [0; 2]);
    let x = [1.0, 2.0, 3.0, 4.0];
    let mut scratch = vec![0.0; shape.scratch_len()];
    assert!(max_pool(&shape, &x, &mut values, &mut scratch, &late).is_err());
    assert!(max_pool_with_indices(&shape, &x, &mut values, &mut places, &late).is_err());
    assert!(avg_pool(&shape, Divisor::Elements, &x, &mut values, &mut scratch, &late).is_err());
}

/// Converts planes whose elements hold `lanes` channels to one plane per channel.
fn channel_by_channel(x: &[f64], places: usize, lanes: usize) -> Vec<f64> {
    let blocks = x.len() / places.max(1) / lanes;
    let channels = (0..blocks * lanes).flat_map(|channel| (0..places).map(move |place| (channel, place)));
    channels.map(|(channel, place)| x[(channel / lanes * places + place) * lanes + channel % lanes]).collect()
}

proptest! {
    #[test]
    fn blocks_equal_their_channels(
        windows in windows(),
        lens in proptest::array::uniform2(1usize..20),
        lanes in proptest::sample::select(vec![3usize, 8, 16]),
        adaptive in proptest::option::of(proptest::array::uniform2(1usize..5)),
        seed: u64,
    ) {
        let windows = [windows[0], *windows.last().unwrap()];
        let sliding = [0, 1].map(|axis| windows[axis].positions(lens[axis]));
        let shape = match &adaptive {
            Some(outputs) => PoolShape::adaptive(&lens, outputs),
            None => PoolShape::sliding(&lens, &windows, &sliding),
        };
        let (places, outputs) = (shape.inputs(), shape.outputs());
        let blocked = shape.clone().with_lanes(lanes).unwrap();
        let x = planes(&[lens[0], lens[1], lanes], seed, true);
        let plain = channel_by_channel(x.as_slice().unwrap(), places, lanes);
        let (mut got, mut want) = (vec![7.0; 4 * outputs * lanes], vec![7.0; 4 * outputs * lanes]);
        let mut scratch = vec![7.0; shape.scratch_len().max(lanes)];
        let limits = Limits::default();
        max_pool(&shape, &plain, &mut want, &mut scratch, &limits).unwrap();
        let (alone, pooled) = crate::parallel::tests::on_threads(&[2], || {
            let (mut got, mut scratch) = (got.clone(), scratch.clone());
            max_pool(&blocked, x.as_slice().unwrap(), &mut got, &mut scratch, &limits).unwrap();
            got
        });
        prop_assert_eq!(bits(&channel_by_channel(&alone, outputs, lanes)), bits(&want));
        prop_assert_eq!(bits(&alone), bits(&pooled[0]));
        avg_pool(&shape, Divisor::Elements, &plain, &mut want, &mut scratch, &limits).unwrap();
        avg_pool(&blocked, Divisor::Elements, x.as_slice().unwrap(), &mut got, &mut scratch, &limits).unwrap();
        prop_assert_eq!(bits(&channel_by_channel(&got, outputs, lanes)), bits(&want));
    }
}
