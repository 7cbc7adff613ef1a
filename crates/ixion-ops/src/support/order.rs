//! Sorting. Elements are mapped to integer keys of the same order, so that one sort serves all element types.

use std::cmp::Ordering;

/// The elements that come first when rows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    Largest,
    Smallest,
}

impl First {
    /// Returns true if an element certainly does not come before another: a quick check before [`First::order`].
    #[inline(always)]
    pub(crate) fn is_late<T: PartialOrd>(self, x: &T, other: &T) -> bool {
        match self {
            Self::Largest => x <= other,
            Self::Smallest => x >= other,
        }
    }

    /// The order of sorting; NaN counts as the largest, as in PyTorch.
    pub(crate) fn order<T: PartialOrd>(self, a: &T, b: &T) -> Ordering {
        let is_nan = |x: &T| x.partial_cmp(x).is_none();
        let ascending = a.partial_cmp(b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)));
        if self == Self::Largest { ascending.reverse() } else { ascending }
    }
}

/// A type whose elements can be sorted. As in PyTorch, NaN is the largest, and both zeros are equal.
pub(crate) trait Ordered: PartialOrd + Copy {
    /// A key that compares with other keys as the elements do.
    fn key(self) -> i64;
}

impl Ordered for i64 {
    fn key(self) -> i64 {
        self
    }
}

impl Ordered for f64 {
    fn key(self) -> i64 {
        if self.is_nan() {
            return i64::MAX;
        }
        // Adding 0.0 turns −0 into +0. The bits of negative values are in descending order.
        let bits = (self + 0.0).to_bits() as i64;
        if bits < 0 { bits ^ i64::MAX } else { bits }
    }
}

impl Ordered for f32 {
    fn key(self) -> i64 {
        f64::from(self).key()
    }
}

/// The key of each element of a row; the element that sorts first has the smallest.
pub(crate) fn keys<T: Ordered>(first: First, row: &[T]) -> Vec<i64> {
    match first {
        First::Smallest => row.iter().map(|x| x.key()).collect(),
        First::Largest => row.iter().map(|x| !x.key()).collect(),
    }
}

/// The positions of all keys in sorted order. The sort is stable.
pub(crate) fn in_order(keys: &[i64]) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..keys.len()).collect();
    positions.sort_by_key(|&position| keys[position]);
    positions
}

/// The positions of the first `count` keys in sorted order. The sort is stable.
pub(crate) fn first_in_order(keys: &[i64], count: usize) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..keys.len()).collect();
    if count < positions.len() {
        part(keys, &mut positions, count);
        positions.truncate(count);
    }
    positions.sort_unstable_by_key(|&position| (keys[position], position));
    positions
}

/// Partitions positions: `positions[nth]` becomes what it would be in sorted order, after all positions that sort before it.
///
/// # Panics
/// If `nth` is out of bounds.
pub(crate) fn part(keys: &[i64], positions: &mut [usize], nth: usize) {
    positions.select_nth_unstable_by_key(nth, |&position| (keys[position], position));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check<T: Ordered + std::fmt::Debug>(a: T, b: T) {
        for first in [First::Smallest, First::Largest] {
            let keys = keys(first, &[a, b]);
            assert_eq!(keys[0].cmp(&keys[1]), first.order(&a, &b), "{first:?} of {a:?} and {b:?}");
        }
    }

    proptest! {
        #[test]
        fn keys_have_the_order_of_elements(bits: [u64; 2], singles: [u32; 2]) {
            check(bits[0] as i64, bits[1] as i64);
            check(f64::from_bits(bits[0]), f64::from_bits(bits[1]));
            check(f32::from_bits(singles[0]), f32::from_bits(singles[1]));
        }
    }

    #[test]
    fn edges_have_their_order() {
        let edges = [
            0.0,
            -0.0,
            5e-324,
            -5e-324,
            f64::MAX,
            f64::MIN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            -f64::NAN,
        ];
        for a in edges {
            for b in edges {
                check(a, b);
                check(a as f32, b as f32);
            }
        }
    }
}
