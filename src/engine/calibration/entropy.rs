//! Where to cut off an operand, so that as little as possible is lost of what its numbers tell.
//!
//! A low threshold tells small numbers apart and cuts off large ones; a high one keeps these and blurs the rest. For each
//! threshold, the distribution P of the magnitudes, with what is cut off in its last bin, is compared with the distribution
//! Q that is left of it in 128 steps. How many bits Q loses of P is their Kullback–Leibler divergence, Σ P·log(P/Q), and the
//! threshold that loses the fewest is taken. The method is the one that S. Migacz presented for TensorRT (GTC 2017).

use super::Histogram;

/// What is left of the magnitudes in int8: 0 to 127.
const STEPS: usize = 128;

/// Thresholds are tried this many bins apart.
const STRIDE: usize = 16;

/// So much is cut off at most. Where all numbers lie far from zero, the divergence has nothing to say against all of them in
/// one bin.
const MOST_CUT: f64 = 0.01;

/// The magnitude beyond which numbers are best cut off; none where there are no numbers but zeros.
pub fn threshold(histogram: &Histogram) -> Option<f32> {
    let counts = histogram.counts();
    if counts.iter().all(|&count| count == 0) {
        return None;
    }
    let candidates = (STEPS..=counts.len()).step_by(STRIDE);
    let losses = candidates.filter_map(|bins| Some((bins, loss(counts, bins)?)));
    let best = losses.min_by(|a, b| a.1.total_cmp(&b.1));
    Some(histogram.edge(best.map_or(counts.len(), |(bins, _)| bins)))
}

/// What is lost where only so many bins are kept; none where that cannot be told, because numbers are cut off and none is
/// left beside them, and where too many are.
fn loss(counts: &[u64], bins: usize) -> Option<f64> {
    let (kept, cut) = counts.split_at(bins);
    let outside = cut.iter().sum::<u64>();
    if outside as f64 > MOST_CUT * counts.iter().sum::<u64>() as f64 {
        return None;
    }
    let mut clipped = kept.to_vec();
    *clipped.last_mut()? += outside;
    let in_steps = in_steps(kept, &clipped);
    divergence(&clipped, &in_steps)
}

/// The counts as [`STEPS`] steps can tell them apart: each step's numbers are spread over those of its bins that have any.
fn in_steps(kept: &[u64], clipped: &[u64]) -> Vec<f64> {
    let bounds = |step: usize| step * kept.len() / STEPS..(step + 1) * kept.len() / STEPS;
    let mut spread = Vec::with_capacity(kept.len());
    for step in 0..STEPS {
        let (kept, clipped) = (&kept[bounds(step)], &clipped[bounds(step)]);
        let numbers = kept.iter().sum::<u64>() as f64;
        let places = clipped.iter().filter(|&&count| count > 0).count().max(1) as f64;
        spread.extend(clipped.iter().map(|&count| if count > 0 { numbers / places } else { 0.0 }));
    }
    spread
}

/// Σ P·log(P/Q) of two distributions that are given as counts; none where Q has nothing at a place where P has something.
fn divergence(p: &[u64], q: &[f64]) -> Option<f64> {
    let all_p = p.iter().sum::<u64>() as f64;
    let all_q: f64 = q.iter().sum();
    let places = p.iter().zip(q).filter(|&(&p, _)| p > 0);
    let terms = places.map(|(&p, &q)| {
        let p = p as f64 / all_p;
        (q > 0.0).then(|| p * (p * all_q / q).ln())
    });
    terms.sum()
}

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
        let mut kept = vec![0; 2 * STEPS];
        kept[..4].copy_from_slice(&[3, 1, 5, 0]);
        let spread = in_steps(&kept, &kept);
        assert_eq!(spread[..4], [2.0, 2.0, 5.0, 0.0]);
        assert_eq!(spread.len(), kept.len());
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
