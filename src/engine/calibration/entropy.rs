//! Where to cut off an operand, so that as little as possible is lost of what its numbers tell.
//!
//! A low threshold tells small numbers apart and cuts off large ones; a high one keeps these and blurs the rest. For each
//! threshold, the distribution P of the magnitudes, with what is cut off in its last bin, is compared with the distribution
//! Q that is left of it in 128 steps. How much Q loses of P is their Kullback–Leibler divergence, Σ P·ln(P/Q), and the
//! threshold that loses the least is taken. The method is the one that S. Migacz presented for TensorRT (GTC 2017).

use super::Histogram;

// ANCHOR: constants
/// What is left of the magnitudes in int8: 0 to 127.
const STEPS: usize = 128;

/// Thresholds are tried this many bins apart.
const STRIDE: usize = 16;

/// So much is cut off at most. Where all numbers lie far from zero, the divergence has nothing to say against all of them in
/// one bin.
const MOST_CUT: f64 = 0.01;
// ANCHOR_END: constants

// ANCHOR: threshold
/// The magnitude beyond which numbers are best cut off; none where there are no numbers but zeros.
///
/// Every 16 bins from 128 on is a candidate. Where none of them can be judged, nothing is cut off.
pub fn threshold(histogram: &Histogram) -> Option<f32> {
    // ANCHOR: threshold_todo -- task 5: the candidate that loses the least
    let counts = histogram.counts();
    if counts.iter().all(|&count| count == 0) {
        return None;
    }
    let candidates = (STEPS..=counts.len()).step_by(STRIDE);
    let losses = candidates.filter_map(|bins| Some((bins, loss(counts, bins)?)));
    let best = losses.min_by(|a, b| a.1.total_cmp(&b.1));
    Some(histogram.edge(best.map_or(counts.len(), |(bins, _)| bins)))
    // ANCHOR_END: threshold_todo
}
// ANCHOR_END: threshold

// ANCHOR: loss
/// What is lost where only so many bins are kept; none where that cannot be told, because numbers are cut off and none is
/// left beside them, and where too many are.
pub fn loss(counts: &[u64], bins: usize) -> Option<f64> {
    let (kept, cut) = counts.split_at(bins.min(counts.len()));
    let (outside, all) = (cut.iter().sum::<u64>(), counts.iter().sum::<u64>());
    if outside as f64 > MOST_CUT * all as f64 {
        return None;
    }
    let clipped = clipped(counts, bins);
    divergence(&clipped, &in_steps(kept, &clipped, STEPS))
}
// ANCHOR_END: loss

// ANCHOR: clipped
/// The counts of so many bins, the last of which also gets all that lies behind it. No bins have no counts.
pub fn clipped(counts: &[u64], bins: usize) -> Vec<u64> {
    // ANCHOR: clipped_todo -- task 5: what is cut off goes into the last bin
    let (kept, cut) = counts.split_at(bins.min(counts.len()));
    let mut clipped = kept.to_vec();
    if let Some(last) = clipped.last_mut() {
        *last += cut.iter().sum::<u64>();
    }
    clipped
    // ANCHOR_END: clipped_todo
}
// ANCHOR_END: clipped

// ANCHOR: in_steps
/// The counts as so many steps can tell them apart: step s has the bins from s · bins / steps on, rounded down, up to where
/// the next begins. The numbers that are kept in them are spread evenly over those that aren't empty once it is clipped.
pub fn in_steps(kept: &[u64], clipped: &[u64], steps: usize) -> Vec<f64> {
    // ANCHOR: in_steps_todo -- task 5: each step spreads what it has over its bins that aren't empty
    let bins = kept.len().min(clipped.len());
    let mut spread = Vec::with_capacity(bins);
    for step in 0..steps {
        let bounds = step * bins / steps..(step + 1) * bins / steps;
        let (kept, clipped) = (&kept[bounds.clone()], &clipped[bounds]);
        let numbers = kept.iter().sum::<u64>() as f64;
        let places = clipped.iter().filter(|&&count| count > 0).count().max(1) as f64;
        spread.extend(clipped.iter().map(|&count| if count > 0 { numbers / places } else { 0.0 }));
    }
    spread
    // ANCHOR_END: in_steps_todo
}
// ANCHOR_END: in_steps

// ANCHOR: divergence
/// Σ P·ln(P/Q) of two distributions that are given as counts; none where Q has nothing at a place where P has something.
pub fn divergence(p: &[u64], q: &[f64]) -> Option<f64> {
    // ANCHOR: divergence_todo -- task 5: shares first, then the sum; places without P add nothing
    let all_p = p.iter().sum::<u64>() as f64;
    let all_q: f64 = q.iter().sum();
    let places = p.iter().zip(q).filter(|&(&p, _)| p > 0);
    let terms = places.map(|(&p, &q)| {
        let p = p as f64 / all_p;
        (q > 0.0).then(|| p * (p * all_q / q).ln())
    });
    terms.sum()
    // ANCHOR_END: divergence_todo
}
// ANCHOR_END: divergence

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: impl IntoIterator<Item = f32>) -> Histogram {
        let values: Vec<f32> = values.into_iter().collect();
        let mut histogram = Histogram::new(values.iter().fold(0.0, |most: f32, x| most.max(x.abs())));
        histogram.add(&values);
        histogram
    }

    #[test]
    fn nothing_is_lost_where_steps_tell_all_apart() {
        assert_eq!(divergence(&[1, 2, 3], &[1.0, 2.0, 3.0]), Some(0.0));
        assert_eq!(divergence(&[1, 2], &[0.0, 2.0]), None);
        // ½·log(½/¼) + ½·log(½/¾)
        let found = divergence(&[1, 1], &[1.0, 3.0]).unwrap();
        assert!((found - 0.5 * (4.0f64 / 3.0).ln()).abs() < 1e-12, "{found}");
    }

    #[test]
    fn steps_spread_what_their_bins_have() {
        assert_eq!(in_steps(&[3, 1, 5, 0], &[3, 1, 5, 0], 2), [2.0, 2.0, 5.0, 0.0]);
        // Five bins in two steps: two and three. The last bin has nothing but what is cut off.
        assert_eq!(in_steps(&[4, 0, 1, 2, 0], &[4, 0, 1, 2, 6], 2), [4.0, 0.0, 1.0, 1.0, 1.0]);
        assert_eq!(clipped(&[4, 0, 1, 2], 2), [4, 3]);
        assert_eq!((clipped(&[4, 1], 9), clipped(&[4, 1], 0)), (vec![4, 1], vec![]));
        assert!(in_steps(&[], &[], STEPS).is_empty());
    }

    /// Numbers that all occur as often lose more by being cut off than by being blurred.
    #[test]
    fn even_numbers_are_kept_whole() {
        let found = threshold(&histogram((1..100_000).map(|at| at as f32 / 1e5))).unwrap();
        assert!(found > 0.98, "{found}");
    }

    /// One number in ten thousand lies far outside.
    #[test]
    fn what_lies_far_outside_is_cut_off() {
        let bell = (1..20_000).map(|at| {
            let x = at as f32 / 20_000.0;
            // The inverse of a logistic distribution.
            (x / (1.0 - x)).ln()
        });
        let far = [100.0, 90.0];
        let found = threshold(&histogram(bell.chain(far))).unwrap();
        assert!((4.0..30.0).contains(&found), "{found}");
    }

    #[test]
    fn numbers_far_from_zero_are_not_all_cut_off() {
        let found = threshold(&histogram((0..1000).map(|at| [15.0, 31.0, 62.0, 89.0][at % 4]))).unwrap();
        assert!(found >= 89.0, "{found}");
    }

    #[test]
    fn zeros_alone_have_no_threshold() {
        assert_eq!(threshold(&Histogram::new(1.0)), None);
        let one = histogram([3.0]);
        assert_eq!(threshold(&one), Some(3.0));
    }
}
