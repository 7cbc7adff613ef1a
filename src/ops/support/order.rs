//! Elements in order. They are sorted by whole numbers that have the same order, so that one sort serves all types.

use crate::ops::reduction::extremes::Kind;

/// A type whose elements have an order: NaN is the largest, as in PyTorch, and both zeros are equal.
pub(in crate::ops) trait Ordered: PartialOrd + Copy {
    /// A number that comes before that of another element where the element does, and equals it where they are equal.
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
        // The bits of negative numbers, which −0 is not any more, go the other way.
        let bits = (self + 0.0).to_bits() as i64;
        if bits < 0 { bits ^ i64::MAX } else { bits }
    }
}

impl Ordered for f32 {
    fn key(self) -> i64 {
        f64::from(self).key()
    }
}

/// For each element of a row a number: what comes first has the smallest.
pub(in crate::ops) fn keys<T: Ordered>(kind: Kind, row: &[T]) -> Vec<i64> {
    match kind {
        Kind::Smallest => row.iter().map(|x| x.key()).collect(),
        Kind::Largest => row.iter().map(|x| !x.key()).collect(),
    }
}

/// The places of all numbers in their order; equal ones keep theirs.
pub(in crate::ops) fn in_order(keys: &[i64]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..keys.len()).collect();
    places.sort_by_key(|&place| keys[place]);
    places
}

/// The places of the first `count` numbers in their order; equal ones keep theirs.
pub(in crate::ops) fn first_in_order(keys: &[i64], count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..keys.len()).collect();
    if count < places.len() {
        part(keys, &mut places, count);
        places.truncate(count);
    }
    places.sort_unstable_by_key(|&place| (keys[place], place));
    places
}

/// Brings the place of the nth number to where it is in order, and those of what comes first before it.
///
/// # Panics
/// When there are not so many.
pub(in crate::ops) fn part(keys: &[i64], places: &mut [usize], nth: usize) {
    places.select_nth_unstable_by_key(nth, |&place| (keys[place], place));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check<T: Ordered + std::fmt::Debug>(a: T, b: T) {
        for kind in [Kind::Smallest, Kind::Largest] {
            let keys = keys(kind, &[a, b]);
            assert_eq!(keys[0].cmp(&keys[1]), kind.order(&a, &b), "{kind:?} of {a:?} and {b:?}");
        }
    }

    proptest! {
        #[test]
        fn numbers_have_the_order_of_elements(bits: [u64; 2], singles: [u32; 2]) {
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
