//! Fractional max pooling, whose windows start at pseudorandom distances.

use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, SpatialAxes, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::choices::{PerAxis, per_axis};
use crate::support::float;
use crate::support::views::write_plain;
use ixion_kernels::Float;
use ixion_tensor::{DType, Dim, Limits, TensorView, TensorViewMut, bf16, f16};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.FractionalMaxPool2d`, `FractionalMaxPool3d`: the largest element of each window and its index in the
    /// flattened plane, N×C×D×H×W → N×C×`output_size` (2 or 3 spatial axes, by the type; N is optional). The windows are
    /// spread over the input: the last one ends where it ends, and a number from 0 to 1 decides where the others start. NaN
    /// counts as the largest element.
    pub struct FractionalMaxPool for "aten::fractional_max_pool2d", "aten::fractional_max_pool3d" {
        /// The number of pooled axes.
        axes: SpatialAxes,
        /// Size of the windows.
        kernel_size: PerAxis,
        /// Spatial size of the output.
        output_size: PerAxis,
        /// A number from 0 to 1 for each axis of every plane, N×C×2 (columns, rows) or N×C×3 (depth, rows, columns).
        random_samples: InputIndex,
    }
    validate |layer| {
        let [kernel, _] = layer.sizes()?;
        match kernel.contains(&0) {
            true => Err(LayerError::invalid("kernel_size", format!("{kernel:?}"), "it must be at least 1")),
            false => Ok(()),
        }
    }
}

impl FractionalMaxPool {
    /// The sizes of the windows and of the output.
    fn sizes(&self) -> Result<[Vec<usize>; 2]> {
        let (axes, kernel, output) = (self.axes.get(), self.kernel_size.values(), self.output_size.values());
        Ok([per_axis("kernel_size", kernel, axes)?, per_axis("output_size", output, axes)?])
    }

    /// Checks that there is a sample for each axis of every plane.
    fn check_samples(&self, samples: &TensorMeta, batch: &Dim, channels: &Dim) -> Result<()> {
        let axes = self.axes.get();
        if let [found, of, each] = samples.dims() {
            let is_short = found.fixed().zip(batch.fixed()).is_some_and(|(found, batch)| found < batch);
            if !is_short && !of.differs(channels) && !each.differs(&Dim::from(axes)) {
                return Ok(());
            }
        }
        let wanted = format!("{batch}×{channels}×{axes}");
        Err(LayerError::shape("the random samples", wanted, samples))
    }

    /// Pools all planes. `round` rounds a number to the element type, as PyTorch does after each step.
    fn run<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        limits: &Limits,
        round: fn(T) -> T,
    ) -> Result<()> {
        let (found, [kernel, pooled]) = (outputs.len(), self.sizes()?);
        let [values, places] = outputs else { return Err(LayerError::OutputCount { wanted: 2, found }) };
        let (shape, axes) = (*inputs[0].shape(), kernel.len());
        let lens = &shape[shape.rank().saturating_sub(axes)..];
        let (input, samples) =
            (float::read::<T>(&inputs[0])?, float::read::<T>(&inputs[self.random_samples.0])?);
        let (plane, of_plane) = (lens.iter().product::<usize>(), pooled.iter().product::<usize>().max(1));
        float::write::<T>(values, |values| {
            write_plain(places, &mut |places| {
                let places = places.slice::<i64>()?;
                let planes = input.chunks_exact(plane.max(1)).zip(samples.chunks_exact(axes));
                let results = values.chunks_exact_mut(of_plane).zip(places.chunks_exact_mut(of_plane));
                for ((plane, samples), (values, places)) in planes.zip(results) {
                    limits.check_deadline()?;
                    let mut starts = vec![vec![0]; 3 - axes];
                    let sizes = lens.iter().zip(&pooled).zip(&kernel);
                    for (axis, ((&len, &count), &kernel)) in sizes.enumerate() {
                        // Planes have the sample of their columns first.
                        let sample = samples[if axes == 2 { 1 - axis } else { axis }];
                        starts.push(spread(sample, len, count, kernel, round)?);
                    }
                    pool(plane, [lens, &kernel[..]].map(with_depth), &starts, values, places);
                }
                Ok(())
            })
        })
    }
}

/// Two or three sizes as three.
fn with_depth(sizes: &[usize]) -> [usize; 3] {
    let mut all = [1; 3];
    all.iter_mut().rev().zip(sizes.iter().rev()).for_each(|(to, &size)| *to = size);
    all
}

/// The starts of `count` windows of `kernel` elements along an axis of `len` elements.
fn spread<T: Float>(
    sample: T,
    len: usize,
    count: usize,
    kernel: usize,
    round: fn(T) -> T,
) -> Result<Vec<usize>> {
    let (room, number) = (len.saturating_sub(kernel), |count: usize| round(T::of(count as f64)));
    let step = round(number(room) / number(count.saturating_sub(1).max(1)));
    let start = |index: usize| -> Option<usize> {
        let [from, to] = [sample, round(number(index) + sample)].map(|place| round(place * step).to_i64());
        usize::try_from(to?.checked_sub(from?)?).ok().filter(|start| *start <= room)
    };
    let starts = (0..count).map(|index| if index + 1 == count { Some(room) } else { start(index) });
    starts.collect::<Option<Vec<usize>>>().ok_or_else(|| {
        let found = sample.to_f64().unwrap_or(f64::NAN);
        LayerError::shape("a random sample", "a number from 0 to 1", found)
    })
}

/// Writes the largest element of each window and its index.
fn pool<T: Float>(
    plane: &[T],
    [lens, kernel]: [[usize; 3]; 2],
    starts: &[Vec<usize>],
    values: &mut [T],
    places: &mut [i64],
) {
    let [depths, rows, columns] = starts else { return };
    let mut results = values.iter_mut().zip(places);
    for &depth in depths {
        for &row in rows {
            for (&column, (value, place)) in columns.iter().zip(&mut results) {
                (*value, *place) = largest(plane, lens, kernel, [depth, row, column]);
            }
        }
    }
}

/// The largest element of the window at `start`, and its index: that of the first of several, but of the last NaN.
fn largest<T: Float>(plane: &[T], lens: [usize; 3], kernel: [usize; 3], start: [usize; 3]) -> (T, i64) {
    let row = |depth: usize, row: usize| (depth * lens[1] + row) * lens[2] + start[2];
    let (mut value, mut place) = (T::neg_infinity(), row(start[0], start[1]));
    for depth in start[0]..start[0] + kernel[0] {
        for first in (start[1]..start[1] + kernel[1]).map(|y| row(depth, y)) {
            let elements = plane.get(first..first + kernel[2]).unwrap_or_default();
            for (at, &x) in (first..).zip(elements) {
                if x > value || x.is_nan() {
                    (value, place) = (x, at);
                }
            }
        }
    }
    (value, place as i64)
}

impl Layer for FractionalMaxPool {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (input, samples) = (&inputs[0], &inputs[self.random_samples.0]);
        float::check("the input", input)?;
        if samples.dtype() != input.dtype() {
            return Err(LayerError::dtype("the random samples", input.dtype(), samples.dtype()));
        }
        let [kernel, pooled] = self.sizes()?;
        let axes = kernel.len();
        let (batch, channels, lens) = match input.dims() {
            [channels, lens @ ..] if lens.len() == axes => (Dim::from(1usize), channels, lens),
            [batch, channels, lens @ ..] if lens.len() == axes => (batch.clone(), channels, lens),
            _ => {
                let wanted = format!("{} or {} axes", axes + 1, axes + 2);
                return Err(LayerError::shape("the input", wanted, input));
            }
        };
        self.check_samples(samples, &batch, channels)?;
        for (axis, (len, (&kernel, &pooled))) in lens.iter().zip(kernel.iter().zip(&pooled)).enumerate() {
            let least = i64::try_from(kernel.saturating_add(pooled).saturating_sub(1)).unwrap_or(i64::MAX);
            if len.fixed().is_some_and(|len| len < least) {
                let wanted = format!("at least {least} elements along axis {}", input.rank() - axes + axis);
                return Err(LayerError::shape("the input", wanted, input));
            }
        }
        let dims = input.dims().iter().take(input.rank() - axes).cloned();
        let values = input.with_dims(dims.chain(pooled.into_iter().map(Dim::from)));
        let places = values.with_dtype(DType::I64);
        Ok(vec![values, places])
    }
}

impl CpuLayer for FractionalMaxPool {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let limits = io.context.limits();
        match io.inputs[0].dtype() {
            DType::F64 => self.run::<f64>(io.inputs, io.outputs, limits, |x| x),
            DType::F16 => self.run::<f32>(io.inputs, io.outputs, limits, |x| f16::from_f32(x).to_f32()),
            DType::Bf16 => self.run::<f32>(io.inputs, io.outputs, limits, |x| bf16::from_f32(x).to_f32()),
            _ => self.run::<f32>(io.inputs, io.outputs, limits, |x| x),
        }
    }
}

operators! { FractionalMaxPool }

#[cfg(test)]
mod tests {
    use crate::op::TensorMeta;
    use crate::support::testing::{Operator, assert_close, counting, operator, tensor, waves};
    use ixion_tensor::{DType, Dim, Tensor};

    fn pooling<'a>(op_type: &'a str, kernel: &'a str, output: &'a str) -> Operator<'a> {
        let params = [("kernel_size", kernel), ("output_size", output)];
        operator(op_type, &params).with_names(&["input", "random_samples"])
    }

    fn planes(kernel: &'static str, output: &'static str, x: &Tensor, samples: &[f64]) -> Vec<Tensor> {
        let samples = tensor(&[1, 1, 2], samples).cast(x.dtype()).unwrap();
        pooling("aten::fractional_max_pool2d", kernel, output).run(&[x, &samples]).unwrap()
    }

    /// PyTorch's results.
    #[test]
    fn windows_are_spread_over_the_plane() {
        let x = waves(&[1, 1, 6, 7]);
        let [values, places]: [Tensor; 2] = planes("(2,3)", "(3,4)", &x, &[0.3, 0.8]).try_into().unwrap();
        assert_close(&values, &[1, 1, 3, 4], VALUES);
        assert_eq!(places.to_vec::<i64>().unwrap(), PLACES);
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            let found = planes("(2,3)", "(3,4)", &x.cast(dtype).unwrap(), &[0.3, 0.8]);
            assert_close(&found[0], &[1, 1, 3, 4], VALUES);
        }
        let single = planes("(2,3)", "1", &x, &[0.3, 0.8]);
        assert_close(&single[0], &[1, 1, 1, 1], SINGLE);
        assert_eq!(planes("2", "(0,2)", &x, &[0.3, 0.8])[0].shape().dims(), [1, 1, 0, 2]);
        let samples = tensor(&[1, 2, 3], &[0.1, 0.9, 0.5, 0.7, 0.2, 0.6]);
        let layer = pooling("aten::fractional_max_pool3d", "(2,1,2)", "(2,2,3)");
        let found = layer.run(&[&waves(&[2, 4, 3, 5]), &samples]).unwrap();
        assert_close(&found[0], &[2, 2, 2, 3], VOLUMES);
        assert_eq!(found[1].to_vec::<i64>().unwrap(), VOLUME_PLACES);
    }

    /// PyTorch's results.
    #[test]
    fn nan_is_the_largest_element() {
        let nan = f64::NAN;
        let rows = [1.0, nan, 3.0, 4.0, nan, 2.0, 5.0, 6.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, nan];
        let found = planes("2", "3", &tensor(&[1, 1, 4, 4], &rows), &[0.5; 2]);
        let [values, places]: [Tensor; 2] = found.try_into().unwrap();
        assert_close(&values, &[1, 1, 3, 3], &[nan, nan, 6.0, nan, 5.0, 6.0, 2.0, 2.0, nan]);
        assert_eq!(places.to_vec::<i64>().unwrap(), [4, 1, 7, 4, 6, 7, 12, 13, 15]);
        let least = planes("2", "2", &tensor(&[1, 1, 4, 4], &[f64::NEG_INFINITY; 16]), &[0.5; 2]);
        assert_eq!(least[1].to_vec::<i64>().unwrap(), [0, 2, 8, 10]);
    }

    #[test]
    fn odd_inputs() {
        let layer = pooling("aten::fractional_max_pool2d", "2", "3");
        let run = |x: &Tensor, samples: &[f32]| {
            let found = layer.run(&[x, &tensor(&[1, 1, samples.len()], samples)]);
            found.map(drop).map_err(|error| error.to_string())
        };
        let x = counting(DType::F32, &[1, 4, 5]);
        assert_eq!(run(&x, &[0.0, 1.0]), Ok(()));
        assert!(run(&x, &[0.5]).unwrap_err().contains("the random samples"));
        assert!(run(&x, &[0.5, f32::NAN]).unwrap_err().contains("from 0 to 1"));
        let narrow = counting(DType::F32, &[1, 4, 3]);
        assert!(run(&narrow, &[0.5; 2]).unwrap_err().contains("at least 4 elements"));
        let (n, h) = (Dim::symbol("n"), Dim::symbol("h"));
        let input = TensorMeta::new(DType::F32, [n.clone(), 2.into(), h, 8.into()]);
        let samples = TensorMeta::new(DType::F32, [n, 2.into(), 2.into()]);
        let outputs = layer.infer(&[input, samples]).unwrap();
        assert_eq!(outputs[0].to_string(), "n×2×3×3 f32");
        assert_eq!(outputs[1].dtype(), DType::I64);
        let empty = pooling("aten::fractional_max_pool2d", "0", "3").create(2);
        assert!(empty.unwrap_err().to_string().contains("kernel_size"));
        layer.survives(2);
        pooling("aten::fractional_max_pool3d", "1", "1").survives(2);
    }

    const VALUES: &[f64] = &[2.0, 2.0, 1.5, 1.5, 2.75, -0.25, 2.75, 2.75, 2.0, 2.0, 2.0, 2.75];
    const PLACES: &[i64] = &[7, 9, 10, 6, 21, 15, 18, 18, 30, 30, 32, 41];
    const SINGLE: &[f64] = &[2.75];
    const VOLUMES: &[f64] = &[
        -0.25, 2.75, 2.75, 1.5, -0.5, 1.5, 2.0, 2.0, 1.5, 2.75, -0.5, 2.75, 2.0, 2.0, 2.75, 0.0, 2.75, -0.5,
        2.75, -0.25, 0.0, 2.0, 1.5, -0.5,
    ];
    const VOLUME_PLACES: &[i64] =
        &[1, 18, 18, 10, 12, 29, 30, 32, 33, 41, 58, 44, 16, 18, 4, 11, 27, 13, 30, 33, 34, 41, 42, 44];
}
