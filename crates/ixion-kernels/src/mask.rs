//! Masks: the indices of their true elements, the elements of other arrays at these, and choices between two arrays.
//!
//! True elements are found in blocks, without a branch for each: where they are cannot be predicted.

use super::strided::{self, Strided, each_block};
use crate::widest;
use ixion_tensor::Bits;
use std::hint::select_unpredictable;

/// Elements in which true ones are found at a time.
const BLOCK: usize = 256;

/// The positions of the true elements of a block.
struct Found {
    places: [u8; BLOCK],
    count: usize,
}

impl Found {
    fn new(block: &[bool]) -> Self {
        let mut found = Self { places: [0; BLOCK], count: 0 };
        for (place, &is_true) in block.iter().enumerate() {
            // There are at most as many as elements before this one.
            found.places[found.count % BLOCK] = place as u8;
            found.count += usize::from(is_true);
        }
        found
    }

    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.places[..self.count].iter().map(|&place| usize::from(place))
    }
}

/// The number of true elements.
pub fn count(mask: &[bool]) -> usize {
    widest!(|| mask.chunks(u8::MAX.into()).map(|block| usize::from(count_few(block))).sum())
}

/// As [`count`], of at most 255 elements.
#[inline(always)]
fn count_few(block: &[bool]) -> u8 {
    block.iter().map(|&is_true| u8::from(is_true)).sum()
}

/// Writes the index of each true element of an array of this shape, in row-major order: one number for each axis.
///
/// # Panics
/// Panics if the mask has more elements than the shape.
pub fn indices(mask: &[bool], shape: &[usize], output: &mut [i64]) {
    match *shape {
        [a] => of_rank(mask, [a], output),
        [a, b] => of_rank(mask, [a, b], output),
        [a, b, c] => of_rank(mask, [a, b, c], output),
        [a, b, c, d] => of_rank(mask, [a, b, c, d], output),
        _ => of_any_rank(mask, shape, output),
    }
}

/// As [`indices`], for a known number of axes.
fn of_rank<const R: usize>(mask: &[bool], shape: [usize; R], output: &mut [i64]) {
    let (slots, _) = output.as_chunks_mut::<R>();
    let mut slots = slots.iter_mut();
    // The index of the first element of the current row of the last axis, and the positions of the row.
    let (mut index, mut row, len) = ([0i64; R], 0..shape[R - 1], shape[R - 1]);
    for (number, block) in mask.chunks(BLOCK).enumerate() {
        for place in Found::new(block).places() {
            let at = number * BLOCK + place;
            if at >= row.end {
                let mut rest = at / len;
                row = rest * len..(rest + 1) * len;
                for (index, len) in index.iter_mut().zip(shape).rev().skip(1) {
                    *index = (rest % len) as i64;
                    rest /= len;
                }
            }
            index[R - 1] = (at - row.start) as i64;
            if let Some(slot) = slots.next() {
                *slot = index;
            }
        }
    }
}

/// As [`indices`], for any number of axes.
fn of_any_rank(mask: &[bool], shape: &[usize], output: &mut [i64]) {
    let mut slots = output.chunks_exact_mut(shape.len().max(1));
    for (number, block) in mask.chunks(BLOCK).enumerate() {
        for (place, slot) in Found::new(block).places().zip(&mut slots) {
            let mut rest = number * BLOCK + place;
            for (index, len) in slot.iter_mut().zip(shape).rev() {
                *index = (rest % len) as i64;
                rest /= len;
            }
        }
    }
}

/// Copies the rows of `inner` elements where the mask is true, from each block of as many rows as the mask has elements.
pub fn take_where<B: Bits>(input: &[B], mask: &[bool], inner: usize, output: &mut [B]) {
    let mut output = output;
    for input in input.chunks_exact((mask.len() * inner).max(1)) {
        for (number, block) in mask.chunks(BLOCK).enumerate() {
            let input = &input[number * BLOCK * inner..][..block.len() * inner];
            let taken = match inner {
                1 => compress(input, block, output),
                _ => take_rows(input, block, inner, output),
            };
            output = output.split_off_mut(taken..).unwrap_or_default();
        }
    }
}

/// Copies the elements where a block of a mask is true, and returns their number.
fn compress<B: Bits>(input: &[B], mask: &[bool], output: &mut [B]) -> usize {
    let (mut taken, mut count) = ([B::default(); BLOCK], 0);
    for (&element, &is_true) in input.iter().zip(mask) {
        taken[count % BLOCK] = element;
        count += usize::from(is_true);
    }
    let count = count.min(output.len());
    output[..count].copy_from_slice(&taken[..count]);
    count
}

/// Copies the rows where a block of a mask is true, and returns the number of their elements.
fn take_rows<B: Bits>(input: &[B], mask: &[bool], inner: usize, output: &mut [B]) -> usize {
    let found = Found::new(mask);
    for (place, row) in found.places().zip(output.chunks_exact_mut(inner.max(1))) {
        row.copy_from_slice(&input[place * inner..][..inner]);
    }
    found.count * inner
}

/// Writes the elements of `first` where the mask is true and of `second` elsewhere, in row-major order of a shape that all
/// three are broadcast to.
///
/// # Panics
/// Panics if the output has fewer elements than the shape.
pub fn choose<B: Bits>(
    shape: &[usize],
    mask: &Strided<'_, bool>,
    first: &Strided<'_, B>,
    second: &Strided<'_, B>,
    output: &mut [B],
) {
    let (mut truths, mut room) = ([false; strided::BLOCK], [[B::default(); strided::BLOCK]; 2]);
    each_block(shape, [mask.strides, first.strides, second.strides], &mut |block| {
        let (starts, steps, len) = (block.starts, block.steps, block.len);
        let [left, right] = &mut room;
        let truths = mask.read(starts[0], steps[0], &mut truths[..len]);
        let left = first.read(starts[1], steps[1], &mut left[..len]);
        let right = second.read(starts[2], steps[2], &mut right[..len]);
        let output = &mut output[block.at..][..len];
        widest!(|| {
            for (((to, &is_true), &left), &right) in output.iter_mut().zip(truths).zip(left).zip(right) {
                *to = select_unpredictable(is_true, left, right);
            }
        });
    });
}

/// Overwrites the elements where the mask is true; the mask is broadcast to a shape.
///
/// # Panics
/// Panics if the data has fewer elements than the shape.
pub fn fill<B: Bits>(shape: &[usize], mask: &Strided<'_, bool>, value: B, data: &mut [B]) {
    let mut truths = [false; strided::BLOCK];
    each_block(shape, [mask.strides], &mut |block| {
        let truths = mask.read(block.starts[0], block.steps[0], &mut truths[..block.len]);
        let data = &mut data[block.at..][..block.len];
        widest!(|| {
            for (element, &is_true) in data.iter_mut().zip(truths) {
                *element = select_unpredictable(is_true, value, *element);
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use crate::strided::tests::{shapes, spread};
    use ndarray::{ArrayD, IxDyn};
    use proptest::prelude::*;

    /// Elements of which every `every`th or so is true.
    fn mask(len: usize, every: usize, seed: usize) -> Vec<bool> {
        (0..len).map(|at| ((at * at * 7 + at * 3 + seed) % 23).is_multiple_of(every.max(1))).collect()
    }

    proptest! {
        #[test]
        fn they_equal_the_naive_ones(
            shape in proptest::collection::vec(prop_oneof![4 => 1usize..9, 1 => Just(40usize), 1 => Just(0usize)], 1..6),
            every in prop_oneof![Just(1usize), Just(30usize), 2usize..9],
            inner in 0usize..4,
            seed in 0usize..100,
        ) {
            let len: usize = shape.iter().product();
            let mask = mask(len, every, seed);
            let array = ArrayD::from_shape_vec(IxDyn(&shape), mask.clone()).unwrap();
            let want = naive::nonzero(array.view());
            prop_assert_eq!(count(&mask), want.len());
            let mut got = vec![-1; want.len() * shape.len()];
            indices(&mask, &shape, &mut got);
            prop_assert_eq!(got, want.concat());
            let numbers: Vec<u32> = (0..3 * len * inner).map(|at| at as u32).collect();
            let rows: Vec<usize> = (0..len).filter(|&at| mask[at]).collect();
            let block = |number: usize| rows.iter().map(move |row| number * len + row);
            let want: Vec<u32> = (0..3).flat_map(block).flat_map(|row| &numbers[row * inner..][..inner]).copied().collect();
            let mut got = vec![7; want.len()];
            take_where(&numbers, &mask, inner, &mut got);
            prop_assert_eq!(got, want);
        }
    }

    proptest! {
        #[test]
        fn choices_of_any_strides(dims in shapes(), which: [u8; 3], seed in 0usize..100) {
            let mask = spread(&dims, which[0], |i| (i * i * 7 + i * 3 + seed) % 23 < 11);
            let (first, second) = (spread(&dims, which[1], |i| i as i64), spread(&dims, which[2], |i| -(i as i64)));
            let (truths, left, right) = (mask.view(), first.view(), second.view());
            let truths = Strided::of(&truths).unwrap();
            let (mask, first) = (mask.to_vec::<bool>().unwrap(), first.to_vec::<i64>().unwrap());
            let second = second.to_vec::<i64>().unwrap();
            let mut got = vec![1u64; mask.len()];
            choose(&dims, &truths, &Strided::of(&left).unwrap(), &Strided::of(&right).unwrap(), &mut got);
            let choice = |i: usize| if mask[i] { first[i] as u64 } else { second[i] as u64 };
            prop_assert_eq!(&got, &(0..mask.len()).map(choice).collect::<Vec<_>>());
            fill(&dims, &truths, 7, &mut got);
            let filled = |i: usize| if mask[i] { 7 } else { second[i] as u64 };
            prop_assert_eq!(&got, &(0..mask.len()).map(filled).collect::<Vec<_>>());
        }
    }

    #[test]
    fn long_masks() {
        for every in [1, 2, 24] {
            let mask = mask(10_000, every, 1);
            let want: Vec<i64> = (0..10_000).filter(|&at| mask[at as usize]).collect();
            let mut got = vec![0; want.len()];
            indices(&mask, &[10_000], &mut got);
            assert_eq!((count(&mask), &got), (want.len(), &want));
            let (mut pairs, mut taken) = (vec![0; 2 * want.len()], vec![0u64; want.len()]);
            indices(&mask, &[10, 1000], &mut pairs);
            assert!(pairs.chunks(2).zip(&want).all(|(pair, want)| pair[0] * 1000 + pair[1] == *want));
            let numbers: Vec<u64> = (0..10_000).collect();
            take_where(&numbers, &mask, 1, &mut taken);
            assert!(taken.iter().zip(&want).all(|(taken, want)| *taken == *want as u64));
        }
    }
}
