//! The order in which fours of factors are multiplied where products are added in pairs in 16 bits.
//!
//! AVX2 multiplies unsigned bytes by signed ones and adds adjacent products, in one instruction. It saturates, so a pair must fit:
//! the largest factor times the sum of both weights, if they have the same sign, may be 32,767 at most. Whatever the weights are,
//! pairs fit if no factor is above 127; whatever the factors are, if no two such weights sum up to more than 128.
//!
//! The fours of a panel are therefore sorted by what factors they allow. When some rows are multiplied, the range of their factors
//! is known, and becomes small by subtracting the smallest one, which changes a sum by a multiple of its weights' sum: what
//! follows a rectifier is at most 127 then if it is signed. Fours whose pairs may not fit are multiplied as 16-bit
//! integers, which takes a third longer than bytes.

use super::sizes::{PANEL, QUAD};

/// The number of classes of fours.
const CLASSES: usize = 8;

/// The largest factor for which all pairs of a class fit.
fn largest(class: usize) -> i32 {
    255 - 128 * class as i32 / (CLASSES as i32 - 1)
}

/// The first class that the weights of a four can be in.
fn class_of(weights: &[i8]) -> usize {
    let (pairs, _) = weights.as_chunks::<2>();
    let mut most = 0;
    for pair in pairs {
        let [a, b] = pair.map(i32::from);
        most = most.max(a.max(0) + b.max(0)).max(-(a.min(0) + b.min(0)));
    }
    let fits = |class: &usize| largest(*class) * most <= i32::from(i16::MAX);
    (0..CLASSES).find(fits).unwrap_or(CLASSES - 1)
}

/// The order for all panels of some weights.
#[derive(Debug, Clone)]
pub(super) struct Order {
    /// The number of fours of a panel.
    count: usize,
    /// The fours of each panel, sorted by class.
    quads: Vec<u16>,
    /// How many fours of each panel are in the first classes: in the first one, in the first two, and so on.
    ends: Vec<[u16; CLASSES]>,
    /// The sum of the weights of each column.
    sums: Vec<[i32; PANEL]>,
}

impl Order {
    /// The order for a number of panels of `count` fours, at most 65,535.
    ///
    /// # Panics
    /// Panics if there are too few weights.
    pub(super) fn new(weights: &[i8], panels: usize, count: usize) -> Self {
        let (mut quads, mut ends, mut sums) = (Vec::new(), Vec::new(), Vec::new());
        let len = count * QUAD * PANEL;
        for panel in 0..panels {
            let panel = &weights[panel * len..][..len];
            let classes: Vec<usize> = panel.chunks_exact(QUAD * PANEL).map(class_of).collect();
            let start = quads.len();
            quads.extend((0..count).map(|quad| quad as u16));
            let sorted = &mut quads[start..];
            sorted.sort_by_key(|&quad| classes[usize::from(quad)]);
            ends.push(std::array::from_fn(|class| {
                sorted.partition_point(|&quad| classes[usize::from(quad)] <= class) as u16
            }));
            let mut columns = [0; PANEL];
            for (at, &weight) in panel.iter().enumerate() {
                columns[at / QUAD % PANEL] += i32::from(weight);
            }
            sums.push(columns);
        }
        Self { count, quads, ends, sums }
    }

    /// The steps of a panel for factors of this range.
    ///
    /// # Panics
    /// Panics if there is no such panel.
    pub(super) fn steps(&self, panel: usize, range: FactorRange) -> Steps<'_> {
        let fitting = (1..CLASSES).take_while(|&class| i32::from(range.largest) <= largest(class)).count();
        let quads = &self.quads[panel * self.count..][..self.count];
        let (whole, wide) = quads.split_at(self.ends[panel][fitting].into());
        let starts = self.sums[panel].map(|sum| sum.wrapping_mul(range.subtracted.into()));
        Steps { whole, wide, starts }
    }
}

/// How the fours of a panel are multiplied.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only AVX2 needs steps"))]
pub(super) struct Steps<'a> {
    /// Those whose pairs fit.
    pub(super) whole: &'a [u16],
    /// Those whose pairs might not fit, which are multiplied as [words](FactorRange::words).
    pub(super) wide: &'a [u16],
    /// What the sums of the columns start with: the products of what was subtracted from all factors.
    pub(super) starts: [i32; PANEL],
}

impl Steps<'_> {
    /// For vectors that need no steps.
    pub(super) const NONE: Self = Self { whole: &[], wide: &[], starts: [0; PANEL] };
}

/// The range of some factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FactorRange {
    /// What was subtracted from all of them.
    subtracted: u8,
    /// The largest difference.
    largest: u8,
}

impl FactorRange {
    /// The range of all bytes.
    pub(super) const ANY: Self = Self { subtracted: 0, largest: u8::MAX };

    /// The range of factors that stay as they are.
    #[inline(always)]
    pub(super) fn of(factors: &[u8]) -> Self {
        let mut largest = 0;
        for &factor in factors {
            largest = largest.max(factor);
        }
        Self { subtracted: 0, largest }
    }

    /// Subtracts the smallest factor from all of them.
    #[inline(always)]
    pub(super) fn of_differences(factors: &mut [u8]) -> Self {
        let (mut smallest, mut largest) = (u8::MAX, 0);
        for &factor in &*factors {
            smallest = smallest.min(factor);
            largest = largest.max(factor);
        }
        for factor in factors {
            *factor -= smallest;
        }
        Self { subtracted: smallest, largest: largest.saturating_sub(smallest) }
    }

    /// Writes factors of this range as 16-bit integers, if pairs of their products may not fit: the first and the third factor of
    /// all fours, and then the second and the fourth. Otherwise, `to` stays as it is.
    #[inline(always)]
    pub(super) fn words(self, factors: &[u8], to: &mut Vec<u32>) {
        /// The even ones of four bytes.
        const EVEN: u32 = 0x00ff_00ff;
        if i32::from(self.largest) <= largest(CLASSES - 1) {
            return;
        }
        let (fours, _) = factors.as_chunks::<QUAD>();
        to.resize(to.len().max(2 * fours.len()), 0);
        let (even, odd) = to.split_at_mut(fours.len());
        for ((&four, even), odd) in fours.iter().zip(even).zip(odd) {
            let four = u32::from_le_bytes(four);
            (*even, *odd) = ((four & EVEN).to_le(), (four >> 8 & EVEN).to_le());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The smallest and the largest sum of two products of factors up to the largest one.
    fn bounds(pair: [i32; 2], largest: i32) -> [i32; 2] {
        [pair.map(|weight| weight.min(0)), pair.map(|weight| weight.max(0))].map(|[a, b]| (a + b) * largest)
    }

    proptest! {
        #[test]
        fn what_is_added_in_16_bits_fits(
            weights in prop::collection::vec(any::<i8>(), 2 * 12 * QUAD * PANEL),
            divisor in 1i8..6,
            bytes in prop::collection::vec(any::<u8>(), 1..9),
        ) {
            let weights: Vec<i8> = weights.into_iter().map(|weight| weight / divisor).collect();
            let mut differences = bytes.clone();
            let range = FactorRange::of_differences(&mut differences);
            let order = Order::new(&weights, 2, 12);
            for (panel, weights) in weights.chunks_exact(12 * QUAD * PANEL).enumerate() {
                let steps = order.steps(panel, range);
                let mut seen: Vec<u16> = steps.whole.iter().chain(steps.wide).copied().collect();
                seen.sort_unstable();
                prop_assert_eq!(seen, (0..12).collect::<Vec<u16>>());
                let fits = |quad: &u16| {
                    let weights = &weights[usize::from(*quad) * QUAD * PANEL..][..QUAD * PANEL];
                    weights.as_chunks::<2>().0.iter().all(|pair| {
                        let bounds = bounds(pair.map(i32::from), range.largest.into());
                        bounds.into_iter().all(|sum| i16::try_from(sum).is_ok())
                    })
                };
                prop_assert!(steps.whole.iter().all(fits));
                prop_assert!(range.largest > 127 || steps.wide.is_empty());
                for (column, start) in steps.starts.into_iter().enumerate() {
                    let of_column = weights.chunks_exact(QUAD).skip(column).step_by(PANEL).flatten();
                    let sum: i32 = of_column.map(|&weight| i32::from(weight)).sum();
                    prop_assert_eq!(start, sum * i32::from(range.subtracted));
                }
            }
            for (byte, difference) in bytes.iter().zip(differences) {
                prop_assert_eq!(*byte, difference + range.subtracted);
                prop_assert!(difference <= range.largest);
            }
        }
    }

    #[test]
    fn small_weights_need_no_steps() {
        let range = FactorRange::ANY;
        for (weight, wide) in [(64, 0), (-64, 0), (65, 2), (-65, 2), (-128, 2)] {
            let order = Order::new(&[weight; 2 * QUAD * PANEL], 1, 2);
            assert_eq!(order.steps(0, range).wide.len(), wide, "{weight}");
        }
    }

    #[test]
    fn factors_become_words_if_their_pairs_may_not_fit() {
        let mut words = Vec::new();
        FactorRange::of(&[127, 0, 1, 2]).words(&[127, 0, 1, 2], &mut words);
        assert!(words.is_empty());
        let factors = [1, 2, 3, 255, 5, 6, 128, 8];
        FactorRange::of(&factors).words(&factors, &mut words);
        let words: Vec<[u8; QUAD]> = words.into_iter().map(u32::to_ne_bytes).collect();
        assert_eq!(words, [[1, 0, 3, 0], [5, 0, 128, 0], [2, 0, 255, 0], [6, 0, 8, 0]]);
    }
}
