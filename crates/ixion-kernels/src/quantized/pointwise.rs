//! Element-wise functions of int8. A function of one element becomes a table of all results; sums and products of two tensors
//! are computed.
//!
//! Everything is computed in `f32`, without fused operations, and then [quantised](Quantization::store).

use crate::parallel::for_each_chunk;
use crate::quantization::Quantization;
use crate::widest;
use ixion_tensor::{LimitError, Limits};

/// Elements of a thread's share.
const CHUNK: usize = 1 << 14;

/// The results of a function for all values of 8 bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteTable {
    results: [i8; 256],
}

impl ByteTable {
    /// All values, in the order in which [`ByteTable::new`] takes their results.
    pub fn values() -> [i8; 256] {
        std::array::from_fn(|bits| (bits as u8).cast_signed())
    }

    /// The table of a function with these results.
    pub fn new(results: [i8; 256]) -> Self {
        Self { results }
    }

    /// Computes the function of every element; without an input, of those in the output. The threads of the current pool share
    /// the work.
    ///
    /// # Errors
    /// [`LimitError::DeadlineExceeded`] if the deadline has passed.
    ///
    /// # Panics
    /// Panics if the input is shorter than the output.
    pub fn run(&self, input: Option<&[i8]>, output: &mut [i8], limits: &Limits) -> Result<(), LimitError> {
        for_each_chunk(output, CHUNK, &|start, output: &mut [i8]| {
            limits.check_deadline()?;
            if let Some(input) = input {
                output.copy_from_slice(&input[start..][..output.len()]);
            }
            output.iter_mut().for_each(|q| *q = self.results[usize::from(q.cast_unsigned())]);
            Ok(())
        })
    }
}

/// Adds int8 elements to numbers. The threads of the current pool share the work.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
///
/// # Panics
/// Panics if there are fewer elements than numbers.
pub fn add_bytes(
    numbers: &mut [f32],
    (elements, how): (&[i8], Quantization),
    limits: &Limits,
) -> Result<(), LimitError> {
    for_each_chunk(numbers, CHUNK, &|start, numbers: &mut [f32]| {
        limits.check_deadline()?;
        let elements = &elements[start..][..numbers.len()];
        widest!(|| numbers.iter_mut().zip(elements).for_each(|(x, &q)| *x += how.load(q)));
        Ok(())
    })
}

/// An operation on two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairOperation {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
}

/// What is computed of the elements of two tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BytePairs {
    /// The operation.
    pub operation: PairOperation,
    /// The bounds to which its results are clamped.
    pub bounds: [f32; 2],
    /// How the operands are quantised.
    pub operands: [Quantization; 2],
    /// How the output is quantised.
    pub output: Quantization,
}

impl BytePairs {
    /// The number of floats that few channels of a second operand are repeated to.
    const LINE: usize = 1024;

    /// The number of floats of scratch memory for [`BytePairs::run_by_channel`], for this number of channels or fewer.
    pub fn scratch_len(channels: usize) -> usize {
        channels.max(Self::LINE)
    }

    /// Computes the elements of a tensor from two tensors of the same shape and order; without a first one, from the elements
    /// in the output. The threads of the current pool share the work.
    ///
    /// # Errors
    /// [`LimitError::DeadlineExceeded`] if the deadline has passed.
    ///
    /// # Panics
    /// Panics if an operand is shorter than the output.
    pub fn run(
        &self,
        (first, second): (Option<&[i8]>, &[i8]),
        output: &mut [i8],
        limits: &Limits,
    ) -> Result<(), LimitError> {
        for_each_chunk(output, CHUNK, &|start, output: &mut [i8]| {
            limits.check_deadline()?;
            if let Some(first) = first {
                output.copy_from_slice(&first[start..][..output.len()]);
            }
            let second = &second[start..][..output.len()];
            widest!(|| self.with_bytes(second, output));
            Ok(())
        })
    }

    /// As [`BytePairs::run`], for an output N×…×C and a second operand of C channels, or of N×C, which are the same at all
    /// places of a sample.
    ///
    /// # Errors
    /// As [`BytePairs::run`].
    ///
    /// # Panics
    /// Panics if the first operand is shorter than the output, the output does not consist of as many samples as the second
    /// operand, each of whole places, or the scratch memory is shorter than [`BytePairs::scratch_len`].
    pub fn run_by_channel(
        &self,
        (first, second): (Option<&[i8]>, &[i8]),
        channels: usize,
        output: &mut [i8],
        scratch: &mut [f32],
        limits: &Limits,
    ) -> Result<(), LimitError> {
        if output.is_empty() {
            return Ok(());
        }
        let samples = second.len().checked_div(channels).unwrap_or(0);
        let sample = output.len().checked_div(samples).unwrap_or(0);
        let are_whole = [second.len(), output.len()] == [samples * channels, samples * sample];
        assert!(
            are_whole && sample > 0 && sample.is_multiple_of(channels),
            "the output must consist of as many samples as the second operand"
        );
        let line = &mut scratch[..sample.min(channels * (Self::LINE / channels).max(1))];
        let chunk = line.len() * (CHUNK / line.len()).max(1);
        for (number, output) in output.chunks_exact_mut(sample).enumerate() {
            let second = &second[number * channels..][..channels];
            for line in line.chunks_exact_mut(channels) {
                line.iter_mut().zip(second).for_each(|(x, &q)| *x = self.operands[1].load(q));
            }
            let line = &*line;
            for_each_chunk(output, chunk, &|start, output: &mut [i8]| {
                limits.check_deadline()?;
                if let Some(first) = first {
                    output.copy_from_slice(&first[number * sample + start..][..output.len()]);
                }
                widest!(|| self.with_line(line, output));
                Ok::<(), LimitError>(())
            })?;
        }
        Ok(())
    }

    /// The same with zero points of 0 and ranges from −127 to 127 that the compiler knows, if there are no others: then it leaves
    /// zero points out.
    #[inline(always)]
    fn whole(&self) -> Option<Self> {
        let whole = |how: Quantization| Quantization { zero_point: 0, range: [-127, 127], ..how };
        let [first, second] = self.operands;
        let are_whole = [first, second, self.output].into_iter().all(|how| how == whole(how));
        let (operands, output) = (self.operands.map(whole), whole(self.output));
        are_whole.then_some(Self { operands, output, ..*self })
    }

    #[inline(always)]
    fn with_bytes(&self, second: &[i8], output: &mut [i8]) {
        match self.whole() {
            Some(whole) => whole.with_any_bytes(second, output),
            None => self.with_any_bytes(second, output),
        }
    }

    #[inline(always)]
    fn with_any_bytes(&self, second: &[i8], output: &mut [i8]) {
        let how = self.operands[1];
        self.with_numbers(second.iter().map(|&q| how.load(q)), output);
    }

    /// Computes elements whose second operands repeat.
    #[inline(always)]
    fn with_line(&self, line: &[f32], output: &mut [i8]) {
        match self.whole() {
            Some(whole) => whole.with_any_line(line, output),
            None => self.with_any_line(line, output),
        }
    }

    #[inline(always)]
    fn with_any_line(&self, line: &[f32], output: &mut [i8]) {
        for output in output.chunks_mut(line.len()) {
            self.with_numbers(line.iter().copied(), output);
        }
    }

    #[inline(always)]
    fn with_numbers(&self, second: impl Iterator<Item = f32>, output: &mut [i8]) {
        match self.operation {
            PairOperation::Sum => self.each(second, output, |a, b| a + b),
            PairOperation::Product => self.each(second, output, |a, b| a * b),
        }
    }

    #[inline(always)]
    fn each(&self, second: impl Iterator<Item = f32>, output: &mut [i8], of: impl Fn(f32, f32) -> f32) {
        let Self { bounds: [low, high], operands: [first, _], output: result, .. } = *self;
        for (q, b) in output.iter_mut().zip(second) {
            let x = of(first.load(*q), b);
            // NaN stays NaN.
            let x = if x < low { low } else { x };
            let x = if x > high { high } else { x };
            *q = result.store(x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use crate::parallel::tests::on_threads;
    use ndarray::Array3;
    use proptest::prelude::*;

    fn whole(scale: f32) -> Quantization {
        Quantization { scale, zero_point: 0, range: [-127, 127] }
    }

    fn bytes(count: usize, seed: usize) -> Vec<i8> {
        (0..count).map(|at| ((at * at * 7 + at * 37 + seed) % 255) as i16 - 127).map(|q| q as i8).collect()
    }

    proptest! {
        #[test]
        fn pairs_equal_the_naive_ones(
            (samples, places, channels) in (1usize..4, 1usize..40, prop_oneof![1usize..20, 1000usize..1100]),
            (of_samples, is_product) in (any::<bool>(), any::<bool>()),
            bounds in prop::sample::select(vec![[f32::NEG_INFINITY, f32::INFINITY], [0.0, f32::INFINITY], [0.0, 6.0]]),
            scales in [1e-3f32..1.0, 1e-3f32..1.0],
            out_scale in 1e-3f32..1.0,
            zero_points in prop_oneof![Just([0i8; 3]), any::<[i8; 3]>()],
            seed in 0usize..1000,
        ) {
            let operation = if is_product { PairOperation::Product } else { PairOperation::Sum };
            let how = |scale: f32, zero_point: i8| match zero_point {
                0 => whole(scale),
                _ => Quantization { scale, zero_point: zero_point.into(), range: [-128, 127] },
            };
            let operands = [how(scales[0], zero_points[0]), how(scales[1], zero_points[1])];
            let result = how(out_scale, zero_points[2]);
            let pairs = BytePairs { operation, bounds, operands, output: result };
            let of = |a: f32, b: f32| (if is_product { a * b } else { a + b }).clamp(bounds[0], bounds[1]);
            let array = |dims: (usize, usize, usize), seed| {
                Array3::from_shape_vec(dims, bytes(dims.0 * dims.1 * dims.2, seed)).unwrap()
            };
            let shape = (samples, places, channels);
            let gates = (if of_samples { samples } else { 1 }, 1, channels);
            let (a, b, gates) = (array(shape, seed), array(shape, seed + 1), array(gates, seed + 2));
            let limits = Limits::default();
            let [x, b_bytes, gate_bytes] = [&a, &b, &gates].map(|array| array.as_slice().unwrap());

            let wanted = naive::int8_pairs([a.view(), b.view()], operands, of, result);
            let run = |first: Option<&[i8]>| {
                let mut output = if first.is_some() { vec![5; x.len()] } else { x.to_vec() };
                pairs.run((first, b_bytes), &mut output, &limits).unwrap();
                output
            };
            let (alone, pooled) = on_threads(&[3], || run(Some(x)));
            prop_assert_eq!(&alone[..], wanted.as_slice().unwrap());
            prop_assert_eq!(&pooled[0], &alone);
            prop_assert_eq!(run(None), alone);

            let wanted = naive::int8_pairs([a.view(), gates.view()], operands, of, result);
            let run = |first: Option<&[i8]>| {
                let mut output = if first.is_some() { vec![5; x.len()] } else { x.to_vec() };
                let mut scratch = vec![f32::NAN; BytePairs::scratch_len(channels)];
                pairs.run_by_channel((first, gate_bytes), channels, &mut output, &mut scratch, &limits).unwrap();
                output
            };
            let (alone, pooled) = on_threads(&[3], || run(Some(x)));
            prop_assert_eq!(&alone[..], wanted.as_slice().unwrap());
            prop_assert_eq!(&pooled[0], &alone);
            prop_assert_eq!(run(None), alone);
        }
    }

    #[test]
    fn tables_hold_the_result_of_every_value() {
        let table = ByteTable::new(ByteTable::values().map(|q| q.wrapping_mul(3)));
        let (input, limits) = (bytes(40_000, 3), Limits::default());
        let wanted: Vec<i8> = input.iter().map(|q| q.wrapping_mul(3)).collect();
        let (alone, pooled) = on_threads(&[3], || {
            let (mut output, mut data) = (vec![1; input.len()], input.clone());
            table.run(Some(&input), &mut output, &limits).unwrap();
            table.run(None, &mut data, &limits).unwrap();
            (output, data)
        });
        assert_eq!(alone, (wanted.clone(), wanted));
        assert_eq!(pooled[0], alone);
        let late = Limits { deadline: Some(std::time::Instant::now()), ..Limits::default() };
        assert!(table.run(None, &mut [1], &late).is_err());
    }

    #[test]
    fn elements_are_added_to_numbers() {
        let elements = bytes(40_000, 5);
        let how = Quantization { scale: 0.3, zero_point: -9, range: [-128, 127] };
        let wanted: Vec<f32> = elements.iter().map(|&q| 0.5 + (f32::from(q) + 9.0) * 0.3).collect();
        let (alone, pooled) = on_threads(&[3], || {
            let mut numbers = vec![0.5; elements.len()];
            add_bytes(&mut numbers, (&elements, how), &Limits::default()).unwrap();
            numbers
        });
        assert_eq!(alone, wanted);
        assert_eq!(pooled[0], wanted);
    }

    #[test]
    fn nothing_is_computed_of_nothing() {
        let (operation, operands) = (PairOperation::Sum, [whole(1.0); 2]);
        let pairs = BytePairs { operation, bounds: [0.0, 1.0], operands, output: whole(1.0) };
        assert!(pairs.run_by_channel((None, &[]), 0, &mut [], &mut [], &Limits::default()).is_ok());
    }

    #[test]
    fn outputs_must_consist_of_whole_samples() {
        let (operation, operands) = (PairOperation::Sum, [whole(1.0); 2]);
        let pairs = BytePairs { operation, bounds: [-9.0, 9.0], operands, output: whole(1.0) };
        let run = |of_second: usize, channels: usize, len: usize| {
            let (second, mut output, mut scratch) = (vec![1; of_second], vec![2; len], vec![0.0; 1024]);
            pairs
                .run_by_channel((None, &second), channels, &mut output, &mut scratch, &Limits::default())
                .unwrap();
            output
        };
        assert_eq!(run(4, 2, 8), [3; 8]);
        for (of_second, channels, len) in [(4, 2, 7), (4, 2, 6), (5, 2, 8), (4, 2, 1), (0, 2, 4), (4, 0, 4)] {
            let result = std::panic::catch_unwind(|| run(of_second, channels, len));
            assert!(result.is_err(), "{of_second} {channels} {len}");
        }
    }

    #[test]
    fn sums_of_opposite_infinities_are_zero() {
        let (operation, operands) = (PairOperation::Sum, [whole(3e37); 2]);
        let bounds = [f32::NEG_INFINITY, f32::INFINITY];
        let pairs = BytePairs { operation, bounds, operands, output: whole(1.0) };
        let mut output = [100i8, 1, -100];
        pairs.run((None, &[-100, 1, -100]), &mut output, &Limits::default()).unwrap();
        assert_eq!(output, [0, 127, -127]);
    }
}
