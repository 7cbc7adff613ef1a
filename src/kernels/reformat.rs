//! Moves elements between plain and blocked layouts, and between the types that real numbers are stored in.

use super::wide::widest;
use crate::{LimitError, Limits};
use half::{bf16, f16};

/// A tensor with one axis that is cut into blocks, or not: which element lies where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The product of the lengths before the axis.
    pub outer: usize,
    /// The length of the axis.
    pub len: usize,
    /// The product of the lengths behind it.
    pub inner: usize,
    /// The elements of a block, which lie innermost; none where the axis is whole.
    pub block: Option<usize>,
}

impl Cut {
    /// The number of elements in memory, with those that fill up the last block.
    pub fn stored(&self) -> usize {
        self.outer * self.blocks() * self.inner * self.block.unwrap_or(self.len)
    }

    fn blocks(&self) -> usize {
        self.block.map_or(1, |block| self.len.div_ceil(block))
    }

    /// Where the elements of one index of the axis begin, and how far they are from each other.
    fn line(&self, outer: usize, index: usize) -> (usize, usize) {
        match self.block {
            Some(block) => {
                let first = (outer * self.blocks() + index / block) * self.inner * block;
                (first + index % block, block)
            }
            None => ((outer * self.len + index) * self.inner, 1),
        }
    }
}

/// Elements of a line that are moved before the next line: those of a block share cache lines.
const RUN: usize = 128;

/// Writes every element, converted, to where it lies in another cut of the same tensor; what fills up the last block
/// becomes `filler`.
///
/// # Errors
/// A deadline that has passed.
///
/// # Panics
/// When a slice is shorter than its cut, or the cuts are of different tensors.
pub fn reformat<T: Copy, U: Copy>(
    (from, source): (Cut, &[T]),
    (to, target): (Cut, &mut [U]),
    filler: U,
    limits: &Limits,
    convert: impl Fn(T) -> U,
) -> Result<(), LimitError> {
    assert_eq!((from.outer, from.len, from.inner), (to.outer, to.len, to.inner), "cuts of one tensor");
    let (source, target) = (&source[..from.stored()], &mut target[..to.stored()]);
    if from.block == to.block {
        widest(|| target.iter_mut().zip(source).for_each(|(to, &from)| *to = convert(from)));
        return Ok(());
    }
    let width = from.block.or(to.block).unwrap_or(1);
    let stored = to.block.map_or(to.len, |block| to.blocks() * block);
    for outer in 0..to.outer {
        for first in (0..stored).step_by(width) {
            limits.check_deadline()?;
            for start in (0..to.inner).step_by(RUN) {
                let run = start..(start + RUN).min(to.inner);
                for index in first..(first + width).min(stored) {
                    let (line, step) = to.line(outer, index);
                    if index >= from.len {
                        run.clone().for_each(|i| target[line + i * step] = filler);
                        continue;
                    }
                    let (read, stride) = from.line(outer, index);
                    run.clone().for_each(|i| target[line + i * step] = convert(source[read + i * stride]));
                }
            }
        }
    }
    Ok(())
}

/// A type that real numbers are stored in.
pub trait Stored: crate::tensor::Element {
    /// The number; of whole ones, each stands for so many times `scale`.
    fn load(self, scale: f32) -> f32;
    /// The nearest number of this type; of whole ones, the nearest from -127 to 127, halves to the even one. NaN becomes 0
    /// there.
    fn store(value: f32, scale: f32) -> Self;
}

impl Stored for f32 {
    #[inline(always)]
    fn load(self, _: f32) -> f32 {
        self
    }
    #[inline(always)]
    fn store(value: f32, _: f32) -> Self {
        value
    }
}

impl Stored for f16 {
    #[inline(always)]
    fn load(self, _: f32) -> f32 {
        self.to_f32()
    }
    #[inline(always)]
    fn store(value: f32, _: f32) -> Self {
        f16::from_f32(value)
    }
}

impl Stored for bf16 {
    #[inline(always)]
    fn load(self, _: f32) -> f32 {
        self.to_f32()
    }
    #[inline(always)]
    fn store(value: f32, _: f32) -> Self {
        bf16::from_f32(value)
    }
}

impl Stored for i8 {
    #[inline(always)]
    fn load(self, scale: f32) -> f32 {
        f32::from(self) * scale
    }
    #[inline(always)]
    fn store(value: f32, scale: f32) -> Self {
        // By way of i32, which processors convert to.
        (value / scale).round_ties_even().clamp(-127.0, 127.0) as i32 as i8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;
    use proptest::prelude::*;

    fn cut(dims: [usize; 3], block: Option<usize>) -> Cut {
        Cut { outer: dims[0], len: dims[1], inner: dims[2], block }
    }

    proptest! {
        #[test]
        fn blocks_are_those_of_tensors(
            dims in [1usize..4, 1usize..40, 1usize..300], block in 1usize..20, other in 1usize..20,
        ) {
            let x: Vec<i32> = (0..dims.iter().product::<usize>() as i32).collect();
            let wanted = Tensor::from_vec(x.clone(), &dims).unwrap().to_blocked(1, block).unwrap();
            let lying = wanted.with_layout(wanted.layout().unrolled().unwrap()).unwrap().to_vec::<i32>().unwrap();
            let (plain, blocked) = (cut(dims, None), cut(dims, Some(block)));
            let limits = Limits::default();
            let mut there = vec![-1; blocked.stored()];
            reformat((plain, &x), (blocked, &mut there), 0, &limits, |x| x).unwrap();
            prop_assert_eq!(&there, &lying);
            let between = cut(dims, Some(other));
            let mut across = vec![-1; between.stored()];
            reformat((blocked, &there), (between, &mut across), 0, &limits, |x| x).unwrap();
            let mut back = vec![-1; x.len()];
            reformat((between, &across), (plain, &mut back), 0, &limits, |x| x).unwrap();
            prop_assert_eq!(back, x);
        }
    }

    #[test]
    fn whole_numbers_are_rounded_and_end_at_127() {
        let stored = [0.0f32, 0.25, 0.75, -0.8, 1e9, f32::NEG_INFINITY, f32::NAN].map(|x| i8::store(x, 0.5));
        assert_eq!(stored, [0, 0, 2, -2, 127, -127, 0]);
        assert_eq!(i8::load(-3, 0.5), -1.5);
        assert_eq!(f16::store(1.0 + 1e-4, 1.0).load(1.0), 1.0);
    }
}
