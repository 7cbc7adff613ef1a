//! The histogram of an operand's magnitudes.

// ANCHOR: histogram
/// Counts of magnitudes in bins of equal width, from zero to the largest.
///
/// Zeros are not counted: every scale represents them exactly, and after a ReLU they would dominate the distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    largest: f32,
    counts: Vec<u64>,
}

impl Histogram {
    /// The number of bins.
    pub const BINS: usize = 2048;

    /// Creates an empty histogram for magnitudes up to `largest`.
    pub fn new(largest: f32) -> Self {
        Self { largest, counts: vec![0; Self::BINS] }
    }

    /// Counts these values, except zeros and NaN. Magnitudes above the largest go into the last bin.
    pub fn add(&mut self, values: &[f32]) {
        // ANCHOR: add_todo -- task 4: one more in the bin of each magnitude above zero
        let bins_per_unit = Self::BINS as f32 / self.largest;
        for magnitude in values.iter().map(|x| x.abs()).filter(|&x| x > 0.0) {
            let bin = (magnitude * bins_per_unit) as usize;
            self.counts[bin.min(Self::BINS - 1)] += 1;
        }
        // ANCHOR_END: add_todo
    }

    /// The number of values in each bin.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The magnitude at which a bin begins.
    pub fn edge(&self, bin: usize) -> f32 {
        // ANCHOR: edge_todo -- task 4: all bins have the same width
        self.largest * (bin as f32 / Self::BINS as f32)
        // ANCHOR_END: edge_todo
    }

    /// The fraction of the counted values in bins that begin at this magnitude or above.
    pub fn share_above(&self, threshold: f32) -> f64 {
        let above = self.counts.iter().enumerate().filter(|&(bin, _)| self.edge(bin) >= threshold);
        let above: u64 = above.map(|(_, count)| count).sum();
        above as f64 / self.counts.iter().sum::<u64>().max(1) as f64
    }
}
// ANCHOR_END: histogram

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magnitudes_are_counted_in_their_bins() {
        let mut histogram = Histogram::new(2.0);
        histogram.add(&[0.0, -0.0, 0.0001, -1.0, 1.0, 2.0, -5.0]);
        let found: Vec<(usize, u64)> =
            histogram.counts().iter().copied().enumerate().filter(|&(_, count)| count > 0).collect();
        assert_eq!(found, [(0, 1), (1024, 2), (2047, 2)]);
        assert_eq!(histogram.edge(1024), 1.0);
        assert_eq!(histogram.share_above(1.0), 0.8);
        assert_eq!(histogram.share_above(2.0), 0.0);
    }
}
