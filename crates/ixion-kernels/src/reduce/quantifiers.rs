//! Whether any number along axes is not 0, or every number.

use super::axes::{Auxiliary, BLOCK, Numbers, Walk};
use super::fold::{Floats, Integers, halves, largest, smallest};
use crate::widest;
use ixion_tensor::LimitError;
use std::ops::Range;

/// A question about all numbers that contribute to one result. NaN is not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantifier {
    /// Whether any of them is not 0; false for no numbers.
    Any,
    /// Whether each of them is not 0; true for no numbers.
    Each,
}

impl Quantifier {
    /// Writes the answers for floats: 1 for true, and 0 for false. `results` must be as long as [`Walk::outputs`].
    ///
    /// # Errors
    /// [`LimitError::DeadlineExceeded`] if the deadline has passed.
    pub fn floats(
        self,
        walk: &Walk<'_>,
        elements: Floats<'_>,
        results: &mut [f32],
    ) -> Result<(), LimitError> {
        match elements {
            Floats::F32(elements) => self.numbers(walk, Numbers::Elements(elements), results),
            Floats::F64(elements) => self.numbers(walk, Numbers::Elements(elements), results),
            Floats::F16(elements) => self.numbers(walk, Numbers::Computed(&halves(elements)), results),
            Floats::Bf16(elements) => self.numbers(walk, Numbers::Computed(&halves(elements)), results),
        }
    }

    /// As [`Quantifier::floats`], for integers.
    ///
    /// # Errors
    /// As [`Quantifier::floats`].
    pub fn integers(
        self,
        walk: &Walk<'_>,
        elements: Integers<'_>,
        results: &mut [f32],
    ) -> Result<(), LimitError> {
        match elements {
            Integers::I64(elements) => self.numbers(walk, Numbers::Elements(elements), results),
            Integers::I32(elements) => self.numbers(walk, Numbers::Elements(elements), results),
            Integers::U8(elements) => self.numbers(walk, Numbers::Elements(elements), results),
            Integers::Bool(elements) => self.numbers(walk, Numbers::Elements(elements), results),
        }
    }

    fn numbers<N: Copy + Default + PartialEq>(
        self,
        walk: &Walk<'_>,
        numbers: Numbers<'_, N>,
        results: &mut [f32],
    ) -> Result<(), LimitError> {
        let truths = truths(numbers);
        match self {
            Self::Any => largest(walk, Numbers::Computed(&truths), 0.0, results),
            Self::Each => smallest(walk, Numbers::Computed(&truths), 1.0, results),
        }
    }
}

/// 1 for each number that is not 0, and 0 for the others.
fn truths<N: Copy + Default + PartialEq>(
    numbers: Numbers<'_, N>,
) -> impl Fn(Range<usize>, Auxiliary<'_>, &mut [f32]) {
    move |range, auxiliary, to| {
        let mut buffer = [N::default(); BLOCK];
        let numbers = numbers.block(range, auxiliary, &mut buffer);
        widest!(|| {
            let pairs = to.iter_mut().zip(numbers);
            pairs.for_each(|(to, &x)| *to = if x == N::default() { 0.0 } else { 1.0 });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::{Layout, Limits, Shape, bf16, f16};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn answers_for_all_types(
            (rows, len) in (1usize..4, 0usize..1500),
            by_columns: bool,
            nonzero in 0usize..1500,
            is_full: bool,
        ) {
            // All numbers are 0, or none is, but for one in each row.
            let number = |at: usize| u8::from((at % len.max(1) == nonzero) != is_full);
            let values: Vec<u8> = (0..rows * len).map(number).collect();
            let lens = if by_columns { [len, rows] } else { [rows, len] };
            let at = |row: usize, at: usize| if by_columns { at * rows + row } else { row * len + at };
            let (layout, limits) = (Layout::contiguous(Shape::new(&lens).unwrap()), Limits::default());
            let walk = Walk::new(&layout, &[by_columns, !by_columns], &limits);
            let bools: Vec<bool> = values.iter().map(|&x| x == 1).collect();
            let (single, double): (Vec<f32>, Vec<f64>) =
                values.iter().map(|&x| (if x == 1 { f32::NAN } else { -0.0 }, f64::from(x))).unzip();
            let (half, bf): (Vec<f16>, Vec<bf16>) =
                single.iter().map(|&x| (f16::from_f32(x), bf16::from_f32(x))).unzip();
            let (wide, long): (Vec<i32>, Vec<i64>) = values.iter().map(|&x| (i32::from(x), i64::from(x))).unzip();
            for quantifier in [Quantifier::Any, Quantifier::Each] {
                let want: Vec<f32> = (0..rows)
                    .map(|row| {
                        let mut numbers = (0..len).map(|index| values[at(row, index)] == 1);
                        let answer = match quantifier {
                            Quantifier::Any => numbers.any(|x| x),
                            Quantifier::Each => numbers.all(|x| x),
                        };
                        f32::from(u8::from(answer))
                    })
                    .collect();
                let mut got = vec![7.0; rows];
                for floats in
                    [Floats::F32(&single), Floats::F64(&double), Floats::F16(&half), Floats::Bf16(&bf)]
                {
                    quantifier.floats(&walk, floats, &mut got).unwrap();
                    prop_assert_eq!(&got, &want);
                }
                for integers in
                    [Integers::I64(&long), Integers::I32(&wide), Integers::U8(&values), Integers::Bool(&bools)]
                {
                    quantifier.integers(&walk, integers, &mut got).unwrap();
                    prop_assert_eq!(&got, &want);
                }
            }
        }
    }
}
