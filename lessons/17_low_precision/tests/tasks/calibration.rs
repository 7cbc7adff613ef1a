//! Tasks 4 to 6: range, histogram, threshold and loss, on values that can be checked by hand.

use super::super::subject::{
    Histogram, Loss, Range, clipped, divergence, in_steps, loss, threshold, too_lossy,
};

#[test]
fn task4_a_range_grows() {
    let range = Range::EMPTY.with(&[1.0, -3.0]).with(&[2.0]);
    assert_eq!(range, Range { least: -3.0, largest: 2.0 }, "of these values and of those before");
    assert_eq!(range.with(&[]), range, "no values change nothing");
    assert_eq!(range.with(&[0.5]), range, "one inside changes nothing");
}

#[test]
fn task4_the_magnitude_is_the_farther_end() {
    let magnitude = |values: &[f32]| Range::EMPTY.with(values).magnitude();
    assert_eq!(magnitude(&[1.0, -3.0]), Some(3.0), "−3 is farther from zero");
    assert_eq!(magnitude(&[-1.0, 3.0]), Some(3.0), "3 is farther from zero");
    assert_eq!(magnitude(&[-5.0, -4.0]), Some(5.0), "all values may be below zero");
    assert_eq!(magnitude(&[0.0]), Some(0.0), "zeros are values");
    assert_eq!(magnitude(&[]), None, "without values there is no magnitude");
}

#[test]
fn task4_non_finite_values_are_not_forgotten() {
    let hint = "`f32::min` and `max` ignore NaN, so it would go unnoticed.";
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let range = Range::EMPTY.with(&[-3.0, wrong, 2.0]).with(&[1.0]);
        assert_eq!(range.magnitude(), None, "{wrong} was seen. {hint}");
    }
}

#[test]
fn task4_magnitudes_are_counted() {
    // 2048 bins up to 2048: each is 1 wide.
    let mut histogram = Histogram::new(2048.0);
    histogram.add(&[0.5, 1.0, -1.5, 2.0]);
    assert_eq!(histogram.counts().len(), 2048);
    assert_eq!(histogram.counts()[..4], [1, 2, 1, 0], "0.5 | 1 and 1.5, whose sign is dropped | 2");
    histogram.add(&[1.25]);
    assert_eq!(histogram.counts()[..2], [1, 3], "more values are added to those before");
    let mut narrow = Histogram::new(1.0);
    narrow.add(&[0.25]);
    assert_eq!(narrow.counts()[512], 1, "a quarter of the way");
}

#[test]
fn task4_the_ends_of_a_histogram() {
    let mut histogram = Histogram::new(2048.0);
    histogram.add(&[0.0, -0.0, f32::NAN, 1e-40]);
    assert_eq!(histogram.counts().iter().sum::<u64>(), 1, "neither zeros nor NaN count; a subnormal does");
    histogram.add(&[2048.0, -2048.0, 9999.0]);
    assert_eq!(histogram.counts()[2047], 3, "the largest, and everything above it, is in the last bin");
}

#[test]
fn task4_bins_begin_at_edges() {
    let histogram = Histogram::new(1024.0);
    let found = [0, 1, 3, 2048].map(|bin| histogram.edge(bin));
    assert_eq!(found, [0.0, 0.5, 1.5, 1024.0], "each is 1024/2048 wide");
}

#[test]
fn task5_clipped_values_are_in_the_last_bin() {
    assert_eq!(clipped(&[4, 0, 1, 2], 2), [4, 3], "0 of its own, plus 1 and 2 from beyond");
    assert_eq!(clipped(&[4, 0, 1, 2], 4), [4, 0, 1, 2], "nothing is clipped");
    assert_eq!((clipped(&[4, 1], 9), clipped(&[4, 1], 0)), (vec![4, 1], vec![]), "no panic at either end");
}

#[test]
fn task5_a_step_blurs_its_bins() {
    let counts = [3, 1, 5, 0];
    let found = in_steps(&counts, &counts, 2);
    assert_eq!(found.len(), 4, "one for each bin, not for each step");
    let hint = "3 and 1 become 2 and 2; 5 stays, as its neighbour is empty and stays empty.";
    assert_eq!(found, [2.0, 2.0, 5.0, 0.0], "{hint}");
    let hint = "Two steps of five bins have two and three. In the last bin nothing was kept, but something was \
                clipped: it gets its share of what was kept.";
    assert_eq!(in_steps(&[4, 0, 1, 2, 0], &[4, 0, 1, 2, 6], 2), [4.0, 0.0, 1.0, 1.0, 1.0], "{hint}");
    assert_eq!(in_steps(&[0, 0], &[0, 0], 1), [0.0, 0.0], "an empty step must not divide by zero");
}

#[test]
fn task5_a_divergence_compares_fractions() {
    assert_eq!(divergence(&[1, 2, 3], &[1.0, 2.0, 3.0]), Some(0.0), "the same: nothing is lost");
    let found = divergence(&[1, 2, 1], &[10.0, 20.0, 10.0]).unwrap();
    assert!(found.abs() < 1e-12, "{found}: ten times as many are the same fractions");
    assert_eq!(divergence(&[1, 2], &[0.0, 2.0]), None, "Q is 0 where P is positive");
    let found = divergence(&[0, 2], &[2.0, 2.0]).unwrap();
    assert!((found - 2f64.ln()).abs() < 1e-12, "{found}: 1 · ln(1 / ½), and a bin where P is 0 adds nothing");
    // ½·ln(½/¼) + ½·ln(½/¾)
    let found = divergence(&[1, 1], &[1.0, 3.0]).unwrap();
    assert!((found - 0.5 * (4.0f64 / 3.0).ln()).abs() < 1e-12, "{found}: are P and Q swapped?");
}

/// A bell curve of 20,000 values up to ten, and some outliers.
fn bell(far: &[f32]) -> Histogram {
    let inverse = |x: f32| (x / (1.0 - x)).ln();
    let mut values: Vec<f32> = (1..20_000).map(|at| inverse(at as f32 / 20_000.0)).collect();
    values.extend(far);
    let mut histogram = Histogram::new(Range::EMPTY.with(&values).magnitude().unwrap());
    histogram.add(&values);
    histogram
}

#[test]
fn task5_outliers_are_clipped() {
    let found = threshold(&bell(&[100.0, 90.0])).unwrap();
    assert!(found < 50.0, "two of 20,000 are beyond 50: {found} makes all others coarse");
    assert!(
        found > 4.0,
        "one in fifty is beyond 4, and more than one in a hundred is never clipped: {found}"
    );
}

#[test]
fn task5_a_uniform_distribution_is_kept() {
    let values: Vec<f32> = (1..100_000).map(|at| at as f32 / 1e5).collect();
    let mut histogram = Histogram::new(1.0);
    histogram.add(&values);
    let found = threshold(&histogram).unwrap();
    assert!(found > 0.98, "all magnitudes are equally frequent, yet {found} clips some");
    assert_eq!(threshold(&Histogram::new(1.0)), None, "without values there is no threshold");
    // All in the last bin: keeping fewer bins clips everything.
    let mut alone = Histogram::new(1.0);
    alone.add(&[1.0; 50]);
    assert_eq!(threshold(&alone), Some(1.0), "then nothing is clipped");
}

#[test]
fn task5_the_least_loss_wins() {
    for far in [&[20.0, 21.0][..], &[100.0, 90.0], &[15.0, 30.0, 60.0]] {
        let histogram = bell(far);
        let losses =
            (128..=2048).step_by(16).filter_map(|bins| Some((bins, loss(histogram.counts(), bins)?)));
        let (bins, least) = losses.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        let found = threshold(&histogram).unwrap();
        assert_eq!(
            found,
            histogram.edge(bins),
            "{bins} bins lose {least}; the candidates are every 16th of 128 to 2048"
        );
    }
}

#[test]
fn task6_squares_are_added_up() {
    let mut loss = Loss::default();
    loss.add(&[3.0, -4.0], &[3.0, -3.0]);
    assert_eq!((loss.signal, loss.noise), (25.0, 1.0), "3² + 4², and the square of the difference");
    loss.add(&[2.0], &[0.0]);
    assert_eq!((loss.signal, loss.noise), (29.0, 5.0), "further outputs are added");
    let mut large = Loss::default();
    large.add(&[1e20], &[0.9e20]);
    assert!(large.signal.is_finite(), "1e40 is beyond f32: square in f64");
    assert!((large.decibels() - 20.0).abs() < 1e-4, "a tenth is a tenth: {}", large.decibels());
}

#[test]
fn task6_decibels() {
    let decibels = |signal, noise| Loss { signal, noise, ..Loss::default() }.decibels();
    assert_eq!(decibels(100.0, 1.0), 20.0, "a hundred times the power: ten times the logarithm to base ten");
    assert_eq!(decibels(1.0, 10.0), -10.0, "more noise than signal is below zero");
    assert_eq!(decibels(5.0, 0.0), f64::INFINITY, "nothing is lost");
    assert_eq!(decibels(0.0, 0.0), f64::INFINITY, "nothing is lost, and 0/0 is NaN");
}

#[test]
fn task6_operators_that_lose_too_much() {
    let of = |name: &str, signal, noise| Loss { operator: name.to_owned(), signal, noise, ..Loss::default() };
    let losses =
        [of("good", 1000.0, 1.0), of("bad", 10.0, 1.0), of("none", f64::NAN, 1.0), of("just", 100.0, 1.0)];
    assert!(losses[1].is_below(20.0) && !losses[0].is_below(20.0), "10 dB are below 20, 30 dB are not");
    assert!(!losses[3].is_below(20.0), "20 dB are not below 20");
    assert!(
        losses[2].is_below(20.0),
        "A NaN output is useless: NaN < 20 is false, but it must count as below."
    );
    assert!(!of("exact", 1.0, 0.0).is_below(20.0), "infinite decibels are the best");
    assert_eq!(too_lossy(&losses, 20.0), ["bad", "none"], "by name, in order");
    assert!(too_lossy(&losses[..1], 20.0).is_empty());
}
