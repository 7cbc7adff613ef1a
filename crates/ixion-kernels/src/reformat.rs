//! Moves elements between plain and blocked layouts, and between the types that float tensors are stored in.

mod last;

use super::parallel::for_each_chunk;
use super::quantization::{Quantization, dequantize, quantize_by_adding};
use super::transpose::{to_columns, to_rows};
use crate::widest;
use half::{bf16, f16};
use ixion_tensor::{Bits, LimitError, Limits};
pub use last::{quantize_last, to_planes};

/// The layout of a tensor of which one axis may be split into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The product of the lengths before the axis.
    pub outer: usize,
    /// The length of the axis.
    pub len: usize,
    /// The product of the lengths after the axis.
    pub inner: usize,
    /// The number of elements of a block, which are innermost in memory; `None` if the axis is not split.
    pub block: Option<usize>,
}

impl Cut {
    /// The number of elements in memory, including the padding of the last block.
    pub fn stored(&self) -> usize {
        self.outer * self.slice()
    }

    /// The number of elements in memory for one index before the axis.
    fn slice(&self) -> usize {
        self.blocks() * self.inner * self.block.unwrap_or(self.len)
    }

    fn blocks(&self) -> usize {
        self.block.map_or(1, |block| self.len.div_ceil(block))
    }

    /// The position of the first element of an index of the axis, and the distance between its elements.
    fn line(&self, outer: usize, index: usize) -> (usize, usize) {
        match self.block {
            Some(block) => {
                let first = (outer * self.blocks() + index / block) * self.inner * block;
                (first + index % block, block)
            }
            None => ((outer * self.len + index) * self.inner, 1),
        }
    }

    /// The same for index `at` of a block, relative to the first element of the block; or, if the axis is not split,
    /// relative to the first of some lines.
    fn line_within(&self, at: usize) -> (usize, usize) {
        self.block.map_or((at * self.inner, 1), |block| (at, block))
    }
}

/// Elements of a line that are moved before the next line, because the lines of a block share cache lines.
const RUN: usize = 128;

/// Elements per thread: fewer than twice as many are moved by one thread.
const ELEMENTS_PER_THREAD: usize = 1 << 15;

/// Converts every element, and writes it to its position in another cut of the same tensor. The padding of the last block
/// becomes `filler`. The threads of the current pool share the work.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
///
/// # Panics
/// Panics if a slice is shorter than its cut, or the cuts belong to different tensors.
pub fn reformat<T: Copy + Sync, U: Copy + Send + Sync>(
    (from, source): (Cut, &[T]),
    (to, target): (Cut, &mut [U]),
    filler: U,
    limits: &Limits,
    convert: impl Fn(T) -> U + Sync,
) -> Result<(), LimitError> {
    let (source, target) = checked((from, source), (to, target));
    if from.block == to.block {
        return for_each_chunk(target, ELEMENTS_PER_THREAD, &|start, target: &mut [U]| {
            limits.check_deadline()?;
            widest!(|| target.iter_mut().zip(&source[start..]).for_each(|(to, &from)| *to = convert(from)));
            Ok(())
        });
    }
    if to.inner == 1 {
        // The elements of the axis are contiguous, with or without blocks.
        return for_each_chunk(target, to.slice().max(1), &|start, target: &mut [U]| {
            limits.check_deadline()?;
            let (stored, filling) = target.split_at_mut(to.len);
            let source = &source[start / to.slice().max(1) * from.slice()..];
            widest!(|| stored.iter_mut().zip(source).for_each(|(to, &from)| *to = convert(from)));
            filling.fill(filler);
            Ok(())
        });
    }
    each_block(from, (to, target), limits, &|outer, first, target| {
        let lines = target.len() / to.inner;
        for start in (0..to.inner).step_by(RUN) {
            let run = start..(start + RUN).min(to.inner);
            for index in first..first + lines {
                let (line, step) = to.line_within(index - first);
                if index >= from.len {
                    run.clone().for_each(|i| target[line + i * step] = filler);
                    continue;
                }
                let (read, stride) = from.line(outer, index);
                run.clone().for_each(|i| target[line + i * step] = convert(source[read + i * stride]));
            }
        }
    })
}

/// As [`reformat`], without a conversion, and with zeros as padding.
///
/// # Errors
/// As [`reformat`].
///
/// # Panics
/// As [`reformat`].
pub fn rearrange<B: Bits>(
    (from, source): (Cut, &[B]),
    (to, target): (Cut, &mut [B]),
    limits: &Limits,
) -> Result<(), LimitError> {
    let is_turned = to.inner > 1 && from.block.is_some() != to.block.is_some();
    let are_words = size_of::<B>() == size_of::<u32>()
        && source.as_ptr().cast::<u32>().is_aligned()
        && target.as_ptr().cast::<u32>().is_aligned();
    if !is_turned || !are_words {
        return reformat((from, source), (to, target), B::default(), limits, |x| x);
    }
    // SAFETY: elements have the size and the alignment of words, any bits are a valid word, and words are written back
    // unchanged.
    let source = unsafe { std::slice::from_raw_parts(source.as_ptr().cast::<u32>(), source.len()) };
    // SAFETY: as above.
    let target = unsafe { std::slice::from_raw_parts_mut(target.as_mut_ptr().cast::<u32>(), target.len()) };
    let (source, target) = checked((from, source), (to, target));
    each_block(from, (to, target), limits, &|outer, first, target| {
        let (read, _) = from.line(outer, first);
        match from.block {
            Some(width) => to_rows(&source[read..][..to.inner * width], width, target, to.inner),
            None => {
                let width = target.len() / to.inner;
                let lines = width.min(from.len - first);
                to_columns(&source[read..][..lines * to.inner], to.inner, target, width);
            }
        }
    })
}

/// The slices, truncated to the number of elements of their cuts.
fn checked<'a, T, U>(
    (from, source): (Cut, &'a [T]),
    (to, target): (Cut, &'a mut [U]),
) -> (&'a [T], &'a mut [U]) {
    assert_eq!(
        (from.outer, from.len, from.inner),
        (to.outer, to.len, to.inner),
        "the cuts must belong to one tensor"
    );
    (&source[..from.stored()], &mut target[..to.stored()])
}

/// Calls `work` for each block of either cut, whose elements are contiguous in the target, with the index before the
/// axis, the first index along the axis, and the elements.
fn each_block<U: Send>(
    from: Cut,
    (to, target): (Cut, &mut [U]),
    limits: &Limits,
    work: &(dyn Fn(usize, usize, &mut [U]) + Sync),
) -> Result<(), LimitError> {
    let block = to.block.or(from.block).unwrap_or(1) * to.inner;
    for (outer, target) in target.chunks_exact_mut(to.slice().max(1)).enumerate() {
        let work = |start: usize, target: &mut [U]| {
            limits.check_deadline()?;
            work(outer, start / to.inner, target);
            Ok(())
        };
        match target.len() < 2 * ELEMENTS_PER_THREAD {
            true => {
                target.chunks_mut(block).enumerate().try_for_each(|(at, target)| work(at * block, target))?
            }
            false => for_each_chunk(target, block, &work)?,
        }
    }
    Ok(())
}

/// A type that float tensors are stored in.
pub trait Stored: ixion_tensor::Element {
    /// The number; an integer q represents q · `scale`.
    fn load(self, scale: f32) -> f32;
    /// The nearest number of this type; for integers, the nearest from -127 to 127, ties to even, and 0 for NaN.
    fn store(value: f32, scale: f32) -> Self;
    /// The number; an integer represents what it does if it is quantised in this way.
    #[inline(always)]
    fn load_as(self, how: &Quantization) -> f32 {
        self.load(how.scale)
    }
    /// The nearest number of this type; for integers, the quantised value.
    #[inline(always)]
    fn store_as(value: f32, how: &Quantization) -> Self {
        Self::store(value, how.scale)
    }
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
        dequantize(self, scale)
    }
    #[inline(always)]
    fn store(value: f32, scale: f32) -> Self {
        quantize_by_adding(value, scale)
    }
    #[inline(always)]
    fn load_as(self, how: &Quantization) -> f32 {
        how.load(self)
    }
    #[inline(always)]
    fn store_as(value: f32, how: &Quantization) -> Self {
        how.store(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::on_threads;
    use ixion_tensor::Tensor;
    use proptest::prelude::*;

    fn cut(dims: [usize; 3], block: Option<usize>) -> Cut {
        Cut { outer: dims[0], len: dims[1], inner: dims[2], block }
    }

    proptest! {
        #[test]
        fn blocks_equal_those_of_tensors(
            dims in [0usize..4, 0usize..40, 0usize..300], block in prop_oneof![Just(8), Just(16), 1usize..20], other in 1usize..20,
        ) {
            let x: Vec<i32> = (0..dims.iter().product::<usize>() as i32).collect();
            let wanted = Tensor::from_vec(x.clone(), &dims).unwrap().to_blocked(1, block).unwrap();
            let stored = wanted.with_layout(wanted.layout().unrolled().unwrap()).unwrap().to_vec::<i32>().unwrap();
            let (plain, blocked) = (cut(dims, None), cut(dims, Some(block)));
            let limits = Limits::default();
            let mut there = vec![-1; blocked.stored()];
            reformat((plain, &x), (blocked, &mut there), 0, &limits, |x| x).unwrap();
            prop_assert_eq!(&there, &stored);
            let between = cut(dims, Some(other));
            let mut across = vec![-1; between.stored()];
            reformat((blocked, &there), (between, &mut across), 0, &limits, |x| x).unwrap();
            let mut back = vec![-1; x.len()];
            reformat((between, &across), (plain, &mut back), 0, &limits, |x| x).unwrap();
            prop_assert_eq!(&back, &x);
            // As words, which are transposed with vectors.
            let words: Vec<u32> = x.iter().map(|&x| x as u32).collect();
            let (mut moved, mut back) = (vec![1u32; blocked.stored()], vec![0u32; words.len()]);
            rearrange((plain, &words), (blocked, &mut moved), &limits).unwrap();
            prop_assert!(moved.iter().zip(&there).all(|(&word, &x)| word == x as u32));
            rearrange((blocked, &moved), (plain, &mut back), &limits).unwrap();
            prop_assert_eq!(back, words);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn threads_change_nothing(outer in 1usize..3, len in 22usize..50) {
            let [plain, blocked, eights] = [None, Some(16), Some(8)].map(|block| cut([outer, len, 3001], block));
            let words: Vec<u32> = (0..plain.stored() as u32).collect();
            let (alone, shared) = on_threads(&[1, 2, 3], || {
                let (mut there, mut back) = (vec![1u32; blocked.stored()], vec![0u32; words.len()]);
                let limits = Limits::default();
                rearrange((plain, &words), (blocked, &mut there), &limits).unwrap();
                reformat((blocked, &there), (plain, &mut back), 0, &limits, |x| x).unwrap();
                let mut between = vec![1u32; eights.stored()];
                reformat((blocked, &there), (eights, &mut between), 0, &limits, |x| x).unwrap();
                let mut doubled = vec![1u32; plain.stored()];
                reformat((plain, &back), (plain, &mut doubled), 0, &limits, |x| 2 * x).unwrap();
                rearrange((eights, &between), (plain, &mut back), &limits).unwrap();
                assert!(doubled.iter().zip(&words).all(|(doubled, word)| *doubled == 2 * word));
                (there, back)
            });
            prop_assert_eq!(&alone.1, &words);
            prop_assert!(shared.iter().all(|shared| *shared == alone));
        }
    }

    #[test]
    fn integers_are_rounded_and_saturate_at_127() {
        let stored = [0.0f32, 0.25, 0.75, -0.8, 1e9, f32::NEG_INFINITY, f32::NAN].map(|x| i8::store(x, 0.5));
        assert_eq!(stored, [0, 0, 2, -2, 127, -127, 0]);
        assert_eq!(i8::load(-3, 0.5), -1.5);
        assert_eq!(f16::store(1.0 + 1e-4, 1.0).load(1.0), 1.0);
    }
}
