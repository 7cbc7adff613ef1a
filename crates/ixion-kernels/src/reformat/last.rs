//! Images whose channels are innermost: quantising them to int8, and storing their planes.

use super::Cut;
use crate::parallel::for_each_chunk;
use crate::quantization::Quantization;
use crate::widest;
use ixion_tensor::{LimitError, Limits};

/// Places whose elements are quantised at a time.
const PLACES: usize = 256;

/// The numbers of channels of a block for which there is a kernel.
const BLOCKS: [usize; 2] = [8, 16];

/// The side of a square of elements that fits in registers.
const SQUARE: usize = 16;

/// Quantises a tensor whose channels are the axis of the cut, and stores the channels of each place together, `outer` × `inner` ×
/// `len`. Returns false, and does nothing, if there is no kernel for the blocks of the cut. The threads of the current pool share
/// the work.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
///
/// # Panics
/// Panics if a slice is shorter than its tensor.
pub fn quantize_last(
    cut: Cut,
    source: &[f32],
    how: Quantization,
    target: &mut [i8],
    limits: &Limits,
) -> Result<bool, LimitError> {
    let Cut { len: channels, inner: places, block, .. } = cut;
    if block.is_some_and(|block| !BLOCKS.contains(&block)) {
        return Ok(false);
    }
    let sample = channels * places;
    let (source, target) = (&source[..cut.stored()], &mut target[..cut.outer * sample]);
    let samples = source.chunks_exact(cut.slice().max(1));
    for (source, output) in samples.zip(target.chunks_exact_mut(sample.max(1))) {
        for_each_chunk(output, PLACES * channels, &|start, output: &mut [i8]| {
            limits.check_deadline()?;
            let first = start / channels.max(1);
            match block {
                Some(8) => widest!(|| of_blocks::<8>(source, (channels, places), first, how, output)),
                Some(_) => widest!(|| of_blocks::<16>(source, (channels, places), first, how, output)),
                None => widest!(|| of_planes(source, (channels, places), first, how, output)),
            }
            Ok::<(), LimitError>(())
        })?;
    }
    Ok(true)
}

/// Quantises some places of planes, from `first` on.
#[inline(always)]
fn of_planes(
    source: &[f32],
    (channels, places): (usize, usize),
    first: usize,
    how: Quantization,
    output: &mut [i8],
) {
    let (len, mut line) = (output.len() / channels.max(1), [0i8; PLACES]);
    for channel in 0..channels {
        let plane = &source[channel * places + first..][..len];
        line.iter_mut().zip(plane).for_each(|(q, &x)| *q = how.store(x));
        let output = output.chunks_exact_mut(channels).zip(&line);
        output.for_each(|(place, &q)| place[channel] = q);
    }
}

/// Quantises some places of blocks of B channels, from `first` on.
#[inline(always)]
fn of_blocks<const B: usize>(
    source: &[f32],
    (channels, places): (usize, usize),
    first: usize,
    how: Quantization,
    output: &mut [i8],
) {
    for (place, output) in output.chunks_exact_mut(channels.max(1)).enumerate() {
        for (block, output) in output.chunks_mut(B).enumerate() {
            let from = &source[(block * places + first + place) * B..][..B];
            let mut line = [0i8; B];
            line.iter_mut().zip(from).for_each(|(q, &x)| *q = how.store(x));
            // Copies of whole blocks need no loop.
            if let Ok(output) = <&mut [i8; B]>::try_from(&mut *output) {
                *output = line;
            } else {
                output.copy_from_slice(&line[..output.len()]);
            }
        }
    }
}

/// Moves the elements of a tensor whose channels, the axis of the cut, are stored together for each place, `outer` × `inner` ×
/// `len`, to planes, `outer` × `len` × `inner`. The blocks of the cut do not matter. The threads of the current pool share the
/// work.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
///
/// # Panics
/// Panics if a slice is shorter than the tensor.
pub fn to_planes(cut: Cut, source: &[f32], target: &mut [f32], limits: &Limits) -> Result<(), LimitError> {
    let Cut { outer, len: channels, inner: places, .. } = cut;
    let sample = channels * places;
    if sample == 0 {
        return Ok(());
    }
    let (source, target) = (&source[..outer * sample], &mut target[..outer * sample]);
    for (source, target) in source.chunks_exact(sample).zip(target.chunks_exact_mut(sample)) {
        for_each_chunk(target, SQUARE * places, &|start, planes: &mut [f32]| {
            limits.check_deadline()?;
            widest!(|| planes_of(source, (channels, places), start / places, planes));
            Ok::<(), LimitError>(())
        })?;
    }
    Ok(())
}

/// Writes the planes of a block of channels, from `first` on, by squares of elements, which fit in registers.
#[inline(always)]
fn planes_of(source: &[f32], (channels, places): (usize, usize), first: usize, planes: &mut [f32]) {
    let count = planes.len() / places.max(1);
    let mut square = [[0.0f32; SQUARE]; SQUARE];
    for start in (0..places).step_by(SQUARE) {
        let width = SQUARE.min(places - start);
        for (place, row) in square.iter_mut().enumerate().take(width) {
            row[..count].copy_from_slice(&source[(start + place) * channels + first..][..count]);
        }
        for (channel, plane) in planes.chunks_exact_mut(places).enumerate() {
            let plane = plane[start..][..width].iter_mut().zip(&square);
            plane.for_each(|(to, row)| *to = row[channel]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Stored, reformat};
    use super::*;
    use crate::parallel::tests::on_threads;
    use proptest::prelude::*;

    const WHOLE: Quantization = Quantization { scale: 1.0, zero_point: 0, range: [-127, 127] };

    proptest! {
        #[test]
        fn channels_become_innermost(
            outer in 0usize..3, len in prop_oneof![1usize..6, 14usize..40], inner in 1usize..600,
            block in prop_oneof![Just(None), Just(Some(8)), Just(Some(16))], scale in 1e-3f32..10.0,
            zero_point in prop::option::of(any::<i8>()),
        ) {
            let how = match zero_point {
                Some(zero_point) => Quantization { scale, zero_point: zero_point.into(), range: [-128, 127] },
                None => Quantization { scale, ..WHOLE },
            };
            let from = Cut { outer, len, inner, block };
            let to = Cut { block: Some(len), ..from };
            let source: Vec<f32> = (0..from.stored()).map(|at| (at * 37 % 1001) as f32 * 0.03 - 15.0).collect();
            let limits = Limits::default();
            let mut wanted = vec![1i8; to.stored()];
            reformat((from, &source), (to, &mut wanted), 0, &limits, |x| i8::store_as(x, &how)).unwrap();
            let (alone, pooled) = on_threads(&[3], || {
                let mut found = vec![1i8; to.stored()];
                assert!(quantize_last(from, &source, how, &mut found, &limits).unwrap());
                found
            });
            prop_assert_eq!(&alone, &wanted);
            prop_assert_eq!(&pooled[0], &wanted);
        }

        #[test]
        fn channels_become_outer(outer in 0usize..3, len in 0usize..40, inner in 0usize..70) {
            let to = Cut { outer, len, inner, block: None };
            let from = Cut { block: Some(len.max(1)), ..to };
            let source: Vec<f32> = (0..to.stored()).map(|at| at as f32).collect();
            let limits = Limits::default();
            let mut wanted = vec![-1.0f32; to.stored()];
            reformat((from, &source), (to, &mut wanted), 0.0, &limits, |x| x).unwrap();
            let (alone, pooled) = on_threads(&[3], || {
                let mut found = vec![-1.0f32; to.stored()];
                to_planes(to, &source, &mut found, &limits).unwrap();
                found
            });
            prop_assert_eq!(&alone, &wanted);
            prop_assert_eq!(&pooled[0], &wanted);
        }
    }

    #[test]
    fn other_blocks_are_left_to_others() {
        let cut = Cut { outer: 1, len: 8, inner: 2, block: Some(4) };
        let mut target = [5i8; 16];
        assert!(!quantize_last(cut, &[1.0; 16], WHOLE, &mut target, &Limits::default()).unwrap());
        assert_eq!(target, [5; 16]);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn targets_must_be_long_enough() {
        let cut = Cut { outer: 2, len: 2, inner: 2, block: None };
        let _ = quantize_last(cut, &[1.0; 8], WHOLE, &mut [0; 7], &Limits::default());
    }
}
