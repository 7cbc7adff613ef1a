//! What each task of lesson 17 must fulfil.

use super::subject::{
    ChannelStep, Histogram, Loss, Range, bf16_bits, bf16_value, channel_scale, clipped, dequantize,
    divergence, f16_bits, in_steps, quantize, threshold, too_lossy, whole_channel, whole_linear,
    whole_product,
};
use ixion::Limits;
use ixion::engine::{Builder, Calibration, Formats, Method, Plan, Precision, Scales};
use ixion::tensor::{Tensor, bf16, f16};
use ndarray::{Array2, array};
use std::path::{Path, PathBuf};

/// Numbers that look random, between −1 and 1, the same in every run.
fn made_up(count: usize) -> Vec<f32> {
    let mut state = 17u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn task1_bf16_is_the_upper_half() {
    assert_eq!(bf16_bits(1.0), 0x3f80, "1.0 has the bits 0x3f800000");
    assert_eq!(
        bf16_bits(std::f32::consts::PI),
        0x4049,
        "0x40490fdb: the lower half, 0x0fdb, is less than half a step"
    );
    assert_eq!(bf16_bits(-2.0), 0xc000, "the sign is the uppermost bit, and stays");
    assert_eq!(bf16_value(0x4049), 3.140625, "and back: the lower half is zero");
    assert_eq!(bf16_value(0xc000), -2.0, "and back");
}

#[test]
fn task1_bf16_rounds_half_to_even() {
    // Two steps above 1 lie at 1.0078125 (0x3f81) and 1.015625 (0x3f82).
    assert_eq!(bf16_bits(1.004), 0x3f81, "more than half a step: cutting off the lower half is not enough");
    assert_eq!(bf16_bits(1.0 + 1.0 / 256.0), 0x3f80, "half way between 0x3f80 and 0x3f81: the even one");
    assert_eq!(bf16_bits(1.0 + 3.0 / 256.0), 0x3f82, "half way between 0x3f81 and 0x3f82: the even one");
    assert_eq!(bf16_bits(f32::MAX), 0x7f80, "beyond the largest bf16 there is infinity");
    assert_eq!(bf16_bits(-0.0), 0x8000, "minus zero is minus zero");
}

#[test]
fn task1_nan_stays_nan() {
    // The bits that say that it is NaN, and not infinity, are all in the lower half.
    let lower = f32::from_bits(0x7f80_0001);
    assert!(bf16_value(bf16_bits(lower)).is_nan(), "Rounded as a number it would become infinity.");
    let full = f32::from_bits(0x7fff_ffff);
    assert!(bf16_value(bf16_bits(full)).is_nan(), "Rounded as a number it would become minus zero.");
    assert!(f16::from_bits(f16_bits(lower)).is_nan(), "f16 has NaN, too");
}

#[test]
fn task1_f16_has_another_exponent() {
    for (x, bits, why) in [
        (1.0, 0x3c00, "exponent 0, no fraction: (0 + 14)·1024 + 1024"),
        (-2.0, 0xc000, "exponent 1, and the sign"),
        (0.1, 0x2e66, "the nearest of 1024 steps between 1/16 and 1/8"),
        (1.000_488_3, 0x3c00, "half way between 0x3c00 and 0x3c01: the even one"),
        (1.001_464_8, 0x3c02, "half way between 0x3c01 and 0x3c02: the even one"),
        (65504.0, 0x7bff, "the largest one"),
        (65519.0, 0x7bff, "nearer to 65504 than to what would come next"),
        (65520.0, 0x7c00, "infinity"),
        (5.960_464_5e-8, 0x0001, "2^−24: the smallest one, with the exponent of −14 and one step"),
        (2.980_232_2e-8, 0x0000, "half of that: the even one is zero"),
    ] {
        assert_eq!(f16_bits(x), bits, "{x}: {why}");
    }
}

#[test]
fn task1_a_thousand_numbers_are_rounded_as_by_others() {
    for (at, x) in made_up(2000).into_iter().enumerate() {
        let x = x * 2f32.powi(at as i32 % 40 - 24);
        assert_eq!(bf16_bits(x), bf16::from_f32(x).to_bits(), "{x} as bf16");
        assert_eq!(f16_bits(x), f16::from_f32(x).to_bits(), "{x} as f16");
    }
}

#[test]
fn task2_half_to_even_and_cut_off() {
    let found = [0.0, 0.25, 0.75, 1.25, -0.8, 1e9, -1e9].map(|x| quantize(x, 0.5));
    let hint =
        "In steps of 0.5 these are 0, 0.5, 1.5, 2.5, −1.6 and far too much: half to even, and never −128.";
    assert_eq!(found, [0, 0, 2, 2, -2, 127, -127], "{hint}");
    assert_eq!(dequantize(-3, 0.5), -1.5, "scale · q");
}

#[test]
fn task2_nothing_is_off_by_more_than_half_a_step() {
    let scale = 1.0 / 127.0;
    for x in made_up(1000) {
        let found = dequantize(quantize(x, scale), scale);
        assert!((found - x).abs() <= scale * 0.500_01, "{x} became {found}, and a step is {scale}");
    }
}

#[test]
fn task2_each_channel_has_its_scale() {
    assert_eq!(channel_scale(&[0.5, -2.54]), 0.02, "2.54 over 127: the largest magnitude, whatever its sign");
    assert_eq!(channel_scale(&[0.0, 0.0]), 0.0, "nothing to scale");
}

#[test]
fn task3_sums_are_exact() {
    let sums = whole_product(array![[1, 2], [3, 4]].view(), array![[5, 6], [0, -1]].view());
    assert_eq!(sums, array![[17, -2], [39, -4]], "rows of the input times rows of the weights");
    let long = Array2::from_elem((1, 200_000), 127);
    assert_eq!(whole_product(long.view(), long.view())[[0, 0]], 3_225_800_000, "more than an i32 holds");
}

#[test]
fn task3_a_bias_is_counted_in_steps_of_the_products() {
    let step = ChannelStep::new(0.5, 0.25, 100.0).expect("all numbers are normal");
    assert_ne!(step.bias, 127.0, "A bias must not be cut off to 8 bits.");
    assert_eq!(step, ChannelStep { bias: 800.0, scale: 0.125 }, "100 in steps of 0.5 · 0.25");
    assert_eq!(ChannelStep::new(1.0, 1.0, 2.5).map(|step| step.bias), Some(2.0), "half to even");
    assert_eq!(step.real(-792.0), 1.0, "(−792 + 800) · 0.125");
}

#[test]
fn task3_some_channels_have_no_sums() {
    for (weight, input, bias, why) in [
        (0.0, 1.0, 1.0, "all weights are zero"),
        (1e-40, 1.0, 1.0, "a scale that is no normal number has no finite inverse"),
        (1e-20, 1e-20, 0.0, "neither has this step"),
        (1e-20, 1e-17, 1e3, "so many steps are no f32"),
    ] {
        assert_eq!(ChannelStep::new(weight, input, bias), None, "{why}");
    }
    let (weights, step) = whole_channel(&[0.0, 0.0], 0.75, 0.25);
    assert_eq!((weights, step), (vec![0, 0], ChannelStep::of_bias(0.75)), "the channel is its bias");
}

#[test]
fn task3_a_channel_by_hand() {
    let (weights, step) = whole_channel(&[63.5, -1.0], 3.0, 0.25);
    assert_eq!(weights, [127, -2], "in steps of 63.5/127 = 0.5");
    assert_eq!(step, ChannelStep { bias: 24.0, scale: 0.125 }, "3 in steps of 0.5 · 0.25");
}

#[test]
fn task3_a_layer_by_hand() {
    let (input, weight) = (array![[1.0f32, 0.5]], array![[63.5f32, -1.0], [0.0, 0.0]]);
    let output = whole_linear(input.view(), weight.view(), &[3.0, 0.123], 0.25);
    assert_eq!(output.dim(), (1, 2), "a row of inputs, two output channels");
    assert_eq!(output[[0, 0]], 66.0, "4·127 − 2·2 + 24 = 528 steps of 0.125; in real numbers 63.5 − 0.5 + 3");
    assert_eq!(output[[0, 1]], 0.123, "no weights: the bias, not rounded to any step");
}

#[test]
fn task3_a_layer_is_nearly_what_it_was() {
    let input = Array2::from_shape_vec((4, 64), made_up(256)).unwrap();
    let weight = Array2::from_shape_vec((8, 64), made_up(512)).unwrap();
    let bias = made_up(8);
    let whole = whole_linear(input.view(), weight.view(), &bias, 1.0 / 127.0);
    let real = input.dot(&weight.t());
    for ((row, channel), found) in whole.indexed_iter() {
        let want = real[[row, channel]] + bias[channel];
        assert!((found - want).abs() < 0.1, "row {row}, channel {channel}: {found}, and in f32 {want}");
    }
}

#[test]
fn task4_the_range_of_all_inputs() {
    let range = Range::EMPTY.with(&[1.0, -3.0]).with(&[2.0]);
    assert_eq!(range, Range { least: -3.0, largest: 2.0 }, "of those before, and of these");
    assert_eq!(range.magnitude(), Some(3.0), "the end farther from zero");
    assert_eq!(Range::EMPTY.magnitude(), None, "no numbers have no magnitude");
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let range = range.with(&[wrong]).with(&[1.0]);
        assert_eq!(
            range.magnitude(),
            None,
            "with {wrong} among them there is no scale, whatever comes later"
        );
    }
}

#[test]
fn task4_magnitudes_are_counted_where_they_lie() {
    let mut histogram = Histogram::new(2.0);
    histogram.add(&[0.0, -0.0, 0.0001, -1.0, 1.0, 2.0, -5.0, f32::NAN]);
    assert_eq!(histogram.edge(1024), 1.0, "2048 bins from 0 to 2");
    let found: Vec<(usize, u64)> =
        histogram.counts().iter().copied().enumerate().filter(|&(_, count)| count > 0).collect();
    let hint = "Zeros are not counted, signs do not count, and what is 2 or above goes into the last bin.";
    assert_eq!(found, [(0, 1), (1024, 2), (2047, 2)], "{hint}");
}

#[test]
fn task5_what_is_cut_off_goes_into_the_last_bin() {
    assert_eq!(clipped(&[4, 0, 1, 2], 2), [4, 3], "0 + 1 + 2: numbers are cut off, not lost");
    assert_eq!(clipped(&[4, 1], 9), [4, 1], "there are no more bins than that");
    assert_eq!(clipped(&[4, 1], 0), [0; 0], "no bins, no counts");
}

#[test]
fn task5_steps_spread_what_they_have() {
    let hint = "3 + 1 over two bins; 5 stays, for the bin beside it is empty and remains so.";
    assert_eq!(in_steps(&[3, 1, 5, 0], &[3, 1, 5, 0], 2), [2.0, 2.0, 5.0, 0.0], "{hint}");
    let hint = "Five bins in two steps: two and three. The last bin has only what was cut off, so that it counts as a place.";
    assert_eq!(in_steps(&[4, 0, 1, 2, 0], &[4, 0, 1, 2, 6], 2), [4.0, 0.0, 1.0, 1.0, 1.0], "{hint}");
}

#[test]
fn task5_divergence_by_hand() {
    assert_eq!(divergence(&[1, 2, 3], &[2.0, 4.0, 6.0]), Some(0.0), "the same shares: nothing is lost");
    assert_eq!(
        divergence(&[1, 2], &[0.0, 2.0]),
        None,
        "Q has nothing where P has something: that cannot be told"
    );
    let found = divergence(&[1, 1], &[1.0, 3.0]).expect("Q has something everywhere");
    let want = 0.5 * (0.5f64 / 0.25).ln() + 0.5 * (0.5f64 / 0.75).ln();
    assert!((found - want).abs() < 1e-12, "½·ln(½/¼) + ½·ln(½/¾) is {want}, and you have {found}");
    let found = divergence(&[0, 2], &[5.0, 2.0]).expect("places without P add nothing");
    assert!((found - 3.5f64.ln()).abs() < 1e-12, "1·ln(1/(2/7)) is {}, and you have {found}", 3.5f64.ln());
}

fn histogram(values: impl IntoIterator<Item = f32>) -> Histogram {
    let values: Vec<f32> = values.into_iter().collect();
    let mut histogram = Histogram::new(values.iter().fold(0.0, |most: f32, x| most.max(x.abs())));
    histogram.add(&values);
    histogram
}

#[test]
fn task5_a_few_far_outside_are_cut_off() {
    let even = threshold(&histogram((1..100_000).map(|at| at as f32 / 1e5))).expect("there are numbers");
    assert!(
        even > 0.98,
        "Numbers that all occur as often lose more by being cut off: {even} of 1 is too low"
    );
    let bell = (1..20_000).map(|at| at as f32 / 20_000.0).map(|x| (x / (1.0 - x)).ln());
    let found = threshold(&histogram(bell.chain([100.0, 90.0]))).expect("there are numbers");
    assert!(
        (4.0..30.0).contains(&found),
        "Two of 20,000 lie at 90 and 100, the others within 10: {found} is no good threshold"
    );
    assert_eq!(threshold(&Histogram::new(1.0)), None, "no numbers but zeros: no threshold");
}

#[test]
fn task6_decibels() {
    let loss = |signal, noise| Loss { operator: "conv".into(), signal, noise, ..Loss::default() };
    assert_eq!(
        loss(100.0, 1.0).decibels(),
        20.0,
        "a hundredth of the energy is 20 dB, a tenth of the amplitude"
    );
    assert_eq!(loss(1.0, 0.0).decibels(), f64::INFINITY, "nothing is lost");
    let mut sum = loss(0.0, 0.0);
    sum.add(&[3.0, 4.0], &[3.0, 3.0]);
    sum.add(&[2.0], &[2.0]);
    assert_eq!((sum.signal, sum.noise), (29.0, 1.0), "9 + 16 + 4, and 0 + 1 + 0");
}

#[test]
fn task6_who_stays_in_f32() {
    let loss =
        |operator: &str, signal, noise| Loss { operator: operator.into(), signal, noise, ..Loss::default() };
    let losses = [
        loss("good", 1e4, 1.0),
        loss("bad", 10.0, 1.0),
        loss("just", 100.0, 1.0),
        loss("broken", 1.0, f64::NAN),
    ];
    assert!(losses[3].is_below(20.0), "An output that is no number is worse than any other.");
    assert_eq!(
        too_lossy(&losses, 20.0),
        ["bad", "broken"],
        "10 dB, and no number; exactly 20 dB is not below 20"
    );
}

fn model_file(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap().join(name)
}

fn digits() -> Builder {
    Builder::new(model_file("digits/digits.pnnx.param"))
}

fn scores(plan: &Plan, pictures: &Tensor) -> Vec<f32> {
    plan.context().unwrap().run(std::slice::from_ref(pictures)).unwrap()[0].to_vec::<f32>().unwrap()
}

/// The framework counts the magnitudes of 128 pictures of digits, and your thresholds make an int8 network of them.
#[test]
fn task6_digits_in_int8() {
    let pictures = Tensor::load_npy(model_file("digits/calibration/0.npy"), &Limits::default()).unwrap();
    let mut calibration = Calibration::new(digits()).unwrap();
    calibration.see_range(vec![pictures.clone()]).unwrap();
    calibration.see_magnitudes(vec![pictures.clone()]).unwrap();
    let mut scales: Vec<(String, f32)> = Vec::new();
    for operand in calibration.operands(Method::Entropy) {
        let Some(counted) = calibration.histogram(&operand.name) else { continue };
        // The same counts again, in yours: a number from the middle of each bin, as often as it was seen.
        let mut mine = Histogram::new(counted.edge(counted.counts().len()));
        for (bin, &count) in counted.counts().iter().enumerate() {
            let middle = (counted.edge(bin) + counted.edge(bin + 1)) / 2.0;
            mine.add(&vec![middle; count as usize]);
        }
        assert_eq!(mine.counts(), counted.counts(), "operand {}", operand.name);
        let found = threshold(&mine);
        assert_eq!(
            found, operand.threshold,
            "operand {}: the framework's threshold is another one",
            operand.name
        );
        scales.extend(found.map(|found| (operand.name, found / 127.0)));
    }
    assert!(scales.len() > 5, "the network has operands to be scaled");

    let scales: Scales = scales.into_iter().collect();
    let int8 =
        digits().with_precisions([Precision::Int8]).with_scales(scales).with_formats(Formats::Narrowest);
    let (real, whole) = (digits().build().unwrap(), int8.build().unwrap());
    let (real, whole) = (scores(&real, &pictures), scores(&whole, &pictures));
    assert_ne!(real, whole, "int8 was not used at all");
    let mut loss = Loss::default();
    loss.add(&real, &whole);
    assert!(loss.decibels() > 20.0, "{} dB: the scores should be within a tenth", loss.decibels());
    let best = |scores: &[f32]| -> Vec<usize> {
        let row = |row: &[f32]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
        scores.chunks(10).map(row).collect()
    };
    let same = best(&real).iter().zip(best(&whole)).filter(|&(real, whole)| *real == whole).count();
    assert!(same * 100 >= 97 * real.len() / 10, "{same} of {} digits are read as before", real.len() / 10);
}
