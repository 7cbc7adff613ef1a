//! Entropy calibration: the clipping threshold of an operand that loses the least information.
//!
//! A low threshold resolves small values and clips large ones; a high one keeps the large ones and resolves the rest more
//! coarsely. For each threshold, the distribution P of the magnitudes, with the clipped ones in its last bin, is compared
//! with the distribution Q that remains of it in 128 steps. The information that Q loses is their Kullback–Leibler
//! divergence, Σ P·ln(P/Q), and the threshold that loses the least is chosen. S. Migacz presented this method for TensorRT
//! (GTC 2017).

use super::Histogram;

// ANCHOR: constants
/// The number of magnitudes in int8: 0 to 127.
const STEPS: usize = 128;

/// The distance between two thresholds that are tried, in bins.
const STRIDE: usize = 16;

/// The largest fraction of the values that may be clipped. If all values are far from zero, the divergence would allow clipping
/// all of them into one bin.
const MAX_CLIPPED: f64 = 0.01;
// ANCHOR_END: constants

// ANCHOR: threshold
/// The best magnitude at which to clip; `None` if there are no values other than zeros.
///
/// Every 16th bin from 128 on is a candidate. If none of them can be judged, nothing is clipped.
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
/// The information that is lost if only the first `bins` bins are kept. `None` if it is undefined, because values are clipped
/// into a step in which none are kept, or if too many are clipped.
pub fn loss(counts: &[u64], bins: usize) -> Option<f64> {
    let (kept, cut) = counts.split_at(bins.min(counts.len()));
    let (outside, all) = (cut.iter().sum::<u64>(), counts.iter().sum::<u64>());
    if outside as f64 > MAX_CLIPPED * all as f64 {
        return None;
    }
    let clipped = clipped(counts, bins);
    divergence(&clipped, &in_steps(kept, &clipped, STEPS))
}
// ANCHOR_END: loss

// ANCHOR: clipped
/// The counts of the first `bins` bins, the last of which also gets all counts after it. Empty for 0 bins.
pub fn clipped(counts: &[u64], bins: usize) -> Vec<u64> {
    // ANCHOR: clipped_todo -- task 5: the clipped counts go into the last bin
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
/// The counts at the resolution of `steps` steps: step s covers the bins from s · bins / steps, rounded down, to the start
/// of the next one. The values kept in a step are spread evenly over those of its bins that aren't empty after clipping.
pub fn in_steps(kept: &[u64], clipped: &[u64], steps: usize) -> Vec<f64> {
    // ANCHOR: in_steps_todo -- task 5: each step spreads its values over its bins that aren't empty
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
/// Σ P·ln(P/Q) of two distributions given as counts; `None` if Q is zero in a bin where P is not.
pub fn divergence(p: &[u64], q: &[f64]) -> Option<f64> {
    // ANCHOR: divergence_todo -- task 5: shares first, then the sum; bins where P is zero add nothing
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
    fn equal_distributions_have_no_divergence() {
        assert_eq!(divergence(&[1, 2, 3], &[1.0, 2.0, 3.0]), Some(0.0));
        assert_eq!(divergence(&[1, 2], &[0.0, 2.0]), None);
        // ½·log(½/¼) + ½·log(½/¾)
        let found = divergence(&[1, 1], &[1.0, 3.0]).unwrap();
        assert!((found - 0.5 * (4.0f64 / 3.0).ln()).abs() < 1e-12, "{found}");
    }

    #[test]
    fn steps_spread_their_values_over_bins() {
        assert_eq!(in_steps(&[3, 1, 5, 0], &[3, 1, 5, 0], 2), [2.0, 2.0, 5.0, 0.0]);
        // Five bins in two steps: two and three. The last bin has only clipped values.
        assert_eq!(in_steps(&[4, 0, 1, 2, 0], &[4, 0, 1, 2, 6], 2), [4.0, 0.0, 1.0, 1.0, 1.0]);
        assert_eq!(clipped(&[4, 0, 1, 2], 2), [4, 3]);
        assert_eq!((clipped(&[4, 1], 9), clipped(&[4, 1], 0)), (vec![4, 1], vec![]));
        assert!(in_steps(&[], &[], STEPS).is_empty());
    }

    /// Uniformly distributed values lose more by clipping than by a coarser resolution.
    #[test]
    fn uniform_values_are_not_clipped() {
        let found = threshold(&histogram((1..100_000).map(|at| at as f32 / 1e5))).unwrap();
        assert!(found > 0.98, "{found}");
    }

    /// One value in ten thousand is an outlier.
    #[test]
    fn outliers_are_clipped() {
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
    fn values_far_from_zero_are_not_all_clipped() {
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
