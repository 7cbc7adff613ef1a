//! The largest bilinear sample of each bin of a region.

use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::float;
use crate::support::float::with_float;
use crate::vision::regions::RoIAlign;
use ixion_kernels::Float;
use ixion_kernels::naive::{RegionAlign, Samples, between};
use ixion_tensor::Limits;
use std::ops::RangeInclusive;

/// As [`RoIAlign`] on images N×C×H×W and boxes K×5, with the largest of all samples instead of their mean. A sample is the largest
/// of the four elements around it, each times its weight; a sample outside of the image is 0.
#[derive(Debug, Clone)]
pub(super) struct LargestSamples {
    /// The operator that computes means.
    pub(super) means: RoIAlign,
    /// What it computes.
    pub(super) how: RegionAlign,
}

impl Layer for LargestSamples {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(2)
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.means.infer(inputs)
    }
}

impl CpuLayer for LargestSamples {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(io))
    }
}

/// One box: the index of its image, and its samples along rows and columns.
type Sampled<T> = (usize, [Samples<T>; 2]);

impl LargestSamples {
    fn run<T: Float>(&self, io: &mut Io<'_, '_>) -> Result<()> {
        let (pictures, boxes) = (float::read::<T>(&io.inputs[0])?, float::read::<T>(&io.inputs[1])?);
        let &[count, channels, height, width] = io.inputs[0].shape().dims() else {
            return Err(LayerError::Unsupported("images without four axes".to_owned()));
        };
        let boxes: Vec<Sampled<T>> =
            boxes.chunks_exact(5).map(|numbers| self.sampled(numbers, count)).collect::<Result<_>>()?;
        let (plane, limits) = (height * width, io.context.limits());
        let [rows, columns] = self.how.bins;
        float::write::<T>(&mut io.outputs[0], |output| {
            let each = (rows * columns).max(1);
            for (index, output) in output.chunks_exact_mut(each).enumerate() {
                let (region, channel) = (index / channels.max(1), index % channels.max(1));
                let Some((picture, samples)) = boxes.get(region) else { break };
                let start = (picture * channels + channel) * plane;
                let picture = pictures.get(start..start + plane).unwrap_or_default();
                for (bin, output) in output.iter_mut().enumerate() {
                    let bin = [bin / columns.max(1), bin % columns.max(1)];
                    *output = largest(picture, [height, width], samples, bin, limits)?;
                }
            }
            Ok(())
        })
    }

    fn sampled<T: Float>(&self, numbers: &[T], count: usize) -> Result<Sampled<T>> {
        let &[picture, left, top, right, bottom] = numbers else {
            return Err(LayerError::shape("a box", "5 numbers", numbers.len()));
        };
        let Some(picture) = picture.to_usize().filter(|picture| *picture < count) else {
            let found = picture.to_f64().unwrap_or(f64::NAN);
            return Err(LayerError::shape("the image of a box", format!("a number below {count}"), found));
        };
        Ok((picture, [self.how.samples(0, top, bottom), self.how.samples(1, left, right)]))
    }
}

/// The largest sample of a bin; 0 if it has none.
fn largest<T: Float>(
    plane: &[T],
    [height, width]: [usize; 2],
    [rows, columns]: &[Samples<T>; 2],
    [row, column]: [usize; 2],
    limits: &Limits,
) -> Result<T> {
    let mut largest: Option<T> = None;
    for y in 0..rows.per_bin() {
        limits.check_deadline()?;
        let by_row = between(rows.place(row, y), height);
        for x in 0..columns.per_bin() {
            let sample = match (by_row, between(columns.place(column, x), width)) {
                (Some(by_row), Some(by_column)) => corners(plane, width, by_row, by_column),
                _ => T::zero(),
            };
            largest = Some(largest.map_or(sample, |largest| largest.max(sample)));
        }
    }
    Ok(largest.unwrap_or_else(T::zero))
}

/// The largest of the four elements around a sample, each times its weight.
fn corners<T: Float>(plane: &[T], width: usize, rows: [(usize, T); 2], columns: [(usize, T); 2]) -> T {
    let pairs = rows.into_iter().flat_map(|row| columns.into_iter().map(move |column| (row, column)));
    let weighted = pairs.map(|((y, by_row), (x, by_column))| {
        let element = plane.get(y * width + x).copied().unwrap_or_else(T::zero);
        element * by_row * by_column
    });
    weighted.fold(T::neg_infinity(), |largest, corner| largest.max(corner))
}
