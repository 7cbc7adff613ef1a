//! Histograms along several axes: histogramdd.

use super::with_edges::{Bins, bounds, check_type, weight_at};
use crate::creation::ranges::spread;
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly};
use crate::support::arguments::OutputCount;
use crate::support::float;
use crate::support::float::with_float;
use ixion_kernels::Float;
use ixion_tensor::{DType, Limits, MAX_RANK, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.histogramdd`: how many points, or what weight, each of several boxes has, and the edges of the boxes along each
    /// axis. The last axis of the input has the coordinates of a point. Points outside of all boxes, or with NaN, are not
    /// counted. A point at an edge belongs to the box that starts there; the last edge belongs to the last box. The outputs
    /// after the first are the edges along each axis; all or some of them may be left out.
    pub struct HistogramOfPoints for "aten::histogramdd" {
        /// The number of bins of equal width along each axis, or one number for all axes.
        bins: Vec<i64>,
        /// The first and the last edge along each axis, one after the other; by default, the smallest coordinate and the
        /// largest.
        range: Option<Vec<f64>> = None,
        /// The weight of each point.
        weight: Option<Weight> = None,
        /// Whether the results are divided by their sum and by the sizes of the boxes, so that their integral is 1.
        density: bool = false,
        /// The number of outputs.
        outputs: OutputCount,
    }
    validate |layer| {
        if layer.bins.is_empty() || layer.bins.iter().any(|bins| *bins < 1) {
            let reason = "there must be at least one along each axis";
            return Err(LayerError::invalid("bins", format!("{:?}", layer.bins), reason));
        }
        let range = layer.range.as_deref().unwrap_or_default();
        let is_wrong = |ends: &[f64]| !matches!(ends, [a, b] if a <= b && a.is_finite() && b.is_finite());
        if range.chunks(2).any(is_wrong) {
            let reason = "expected finite pairs, whose first number is not above the second";
            return Err(LayerError::invalid("range", format!("{range:?}"), reason));
        }
        Ok(())
    }
}

impl HistogramOfPoints {
    /// The number of coordinates of a point, of which each has its output: what the parameters say, if not the input.
    fn axes(&self) -> Option<usize> {
        let bins = Some(self.bins.len()).filter(|&bins| bins > 1);
        let range = self.range.as_ref().map(|range| range.len() / 2);
        bins.or(range).or(self.outputs.0.checked_sub(1)).filter(|&axes| axes > 0)
    }

    /// The number of bins along each of some axes.
    fn counts(&self, axes: usize) -> Result<Vec<usize>> {
        let counts: Vec<usize> =
            self.bins.iter().map(|&bins| usize::try_from(bins).unwrap_or(usize::MAX)).collect();
        match counts.as_slice() {
            [count] => Ok(vec![*count; axes]),
            _ if counts.len() == axes => Ok(counts),
            _ => {
                let reason = format!("expected one number, or one for each of the {axes} coordinates");
                Err(LayerError::invalid("bins", format!("{:?}", self.bins), reason))
            }
        }
    }

    /// The edges along each axis.
    fn edges<T: Float>(&self, points: &[T], counts: &[usize]) -> Result<Vec<Vec<T>>> {
        let mut edges = Vec::with_capacity(counts.len());
        for (axis, count) in counts.iter().enumerate() {
            let coordinates: Vec<T> = points.iter().skip(axis).step_by(counts.len()).copied().collect();
            let given = self.range.as_deref().and_then(|range| range.chunks_exact(2).nth(axis));
            let ends = bounds(given, &coordinates)?;
            edges.push(spread(ends.map(T::of), count.saturating_add(1)));
        }
        Ok(edges)
    }

    /// Divides the results by their sum and by the widths of the bins along each axis.
    fn divide<T: Float>(sums: &mut [f64], edges: &[Vec<T>]) {
        let whole: f64 = sums.iter().sum();
        sums.iter_mut().for_each(|sum| *sum /= whole);
        let mut inner = 1;
        for edges in edges.iter().rev() {
            let width = |pair: &[T]| (pair[1] - pair[0]).to_f64().unwrap_or(f64::NAN);
            let widths: Vec<f64> = edges.windows(2).map(width).collect();
            for (place, sum) in sums.iter_mut().enumerate() {
                *sum /= widths.get(place / inner % widths.len()).copied().unwrap_or(f64::NAN);
            }
            inner *= widths.len();
        }
    }

    fn run<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        limits: &Limits,
    ) -> Result<()> {
        let points = float::read::<T>(&inputs[0])?;
        let axes = inputs[0].shape().last().copied().unwrap_or(1).max(1);
        let counts = self.counts(axes)?;
        let all = counts.iter().fold(1, |all: usize, count| all.saturating_mul(*count));
        limits.check_tensor("the boxes of a histogram", (all as u64).saturating_mul(8))?;
        let edges = self.edges(&points, &counts)?;
        let weights = match &self.weight {
            Some(weight) => Some(float::read::<T>(&weight.view(inputs)?)?),
            None => None,
        };
        let bins: Vec<Bins<'_, T>> = edges.iter().map(|edges| Bins::new(edges)).collect();
        let mut sums = vec![0.0; all];
        for (index, point) in points.chunks_exact(axes).enumerate() {
            let mut along = point.iter().zip(&bins);
            let place = along.try_fold(0, |place, (&x, bins)| Some(place * bins.count() + bins.of(x)?));
            if let Some(sum) = place.and_then(|place| sums.get_mut(place)) {
                *sum += weight_at(weights.as_deref(), index);
            }
        }
        if self.density {
            Self::divide(&mut sums, &edges);
        }
        let sums: Vec<T> = sums.into_iter().map(T::of).collect();
        for (output, numbers) in outputs.iter_mut().zip(std::iter::once(sums).chain(edges)) {
            float::write::<T>(output, |output| {
                output.iter_mut().zip(numbers).for_each(|(to, number)| *to = number);
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Layer for HistogramOfPoints {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn num_outputs(&self) -> usize {
        self.outputs.0
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let input = &inputs[0];
        if !matches!(input.dtype(), DType::F32 | DType::F64) {
            return Err(LayerError::dtype("the input", "f32 and f64", input.dtype()));
        }
        let (axes, others) = match input.dims() {
            [others @ .., axes] if !others.is_empty() => (axes.fixed(), others),
            _ => return Err(LayerError::shape("the input", "at least two axes", input)),
        };
        let axes = axes.and_then(|axes| usize::try_from(axes).ok()).or_else(|| self.axes());
        let Some(axes) = axes.filter(|axes| (1..=MAX_RANK).contains(axes)) else {
            let wanted = format!("1 to {MAX_RANK} coordinates along the last axis");
            return Err(LayerError::shape("the input", wanted, input));
        };
        if let Some(range) = self.range.as_ref().filter(|range| range.len() != 2 * axes) {
            let reason = format!("expected two numbers for each of the {axes} coordinates");
            return Err(LayerError::invalid("range", format!("{range:?}"), reason));
        }
        if let Some(weight) = &self.weight {
            let (weight, points) = (weight.meta(inputs)?, input.with_dims(others.to_vec()));
            check_type("the weight", &weight, input)?;
            if weight.num_elements().differs(&points.num_elements()) {
                let wanted = format!("as many elements as there are points ({points})");
                return Err(LayerError::shape("the weight", wanted, weight));
            }
        }
        if self.outputs.0 > 1 + axes {
            return Err(LayerError::OutputCount { wanted: 1 + axes, found: self.outputs.0 });
        }
        let counts = self.counts(axes)?;
        let edges = counts.iter().map(|count| input.with_dims([count.saturating_add(1)]));
        let all = std::iter::once(input.with_dims(counts.iter().copied())).chain(edges);
        Ok(all.take(self.outputs.0).collect())
    }
}

impl CpuLayer for HistogramOfPoints {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(io.inputs, io.outputs, io.context.limits()))
    }
}

operators! { HistogramOfPoints }

#[cfg(test)]
mod tests {
    use crate::op::TensorMeta;
    use crate::support::testing::{assert_close, counting, operator, tensor};
    use ixion_tensor::{DType, Dim, Tensor};

    type Params<'a> = &'a [(&'a str, &'a str)];

    const POINTS: [f64; 10] = [0.0, 1.0, 1.0, 2.0, 0.5, 1.5, 2.0, -1.0, 1.0, 1.0];

    fn run(params: Params<'_>, names: &[&'static str], inputs: &[&Tensor]) -> Vec<Tensor> {
        operator("aten::histogramdd", params).with_names(names).with_outputs(3).run(inputs).unwrap()
    }

    /// PyTorch's results.
    #[test]
    fn points_are_counted() {
        for dtype in [DType::F32, DType::F64] {
            let x = tensor(&[5, 2], &POINTS).cast(dtype).unwrap();
            let found = run(&[("bins", "(2,3)")], &["input"], &[&x]);
            assert_close(&found[0], &[2, 3], &[0.0, 0.0, 2.0, 1.0, 0.0, 2.0]);
            assert_close(&found[1], &[3], &[0.0, 1.0, 2.0]);
            assert_close(&found[2], &[4], &[-1.0, 0.0, 1.0, 2.0]);
            let weight = counting(dtype, &[5]);
            let params = [("bins", "2"), ("range", "(0.0,1.0,0.0,2.0)"), ("density", "True")];
            let found = run(&params, &["input", "weight"], &[&x, &weight]);
            assert_close(&found[0], &[2, 2], &[0.0, 0.0, 0.0, 2.0]);
            assert_close(&found[1], &[3], &[0.0, 0.5, 1.0]);
            assert!(found.iter().all(|output| output.dtype() == dtype));
        }
        let none = run(&[("bins", "2")], &["input"], &[&Tensor::zeros(DType::F32, &[0, 2]).unwrap()]);
        assert_close(&none[0], &[2, 2], &[0.0; 4]);
        assert_close(&none[2], &[3], &[0.0, 0.5, 1.0]);
    }

    #[test]
    fn odd_inputs() {
        let points = |dims: Vec<Dim>| TensorMeta::new(DType::F32, dims);
        let refused = |params: Params<'_>, dims: Vec<Dim>| {
            let layer = operator("aten::histogramdd", params).with_outputs(3);
            layer.infer(&[points(dims)]).unwrap_err().to_string()
        };
        let two = || vec![Dim::Fixed(5), Dim::Fixed(2)];
        assert!(refused(&[("bins", "0")], two()).contains("`bins`"));
        assert!(refused(&[("bins", "(1,2,3)")], two()).contains("one for each of the 2 coordinates"));
        assert!(refused(&[("bins", "2"), ("range", "(0.0,1.0)")], two()).contains("`range`"));
        assert!(refused(&[("bins", "2"), ("range", "(0.0,1.0,2.0,1.0)")], two()).contains("`range`"));
        assert!(refused(&[("bins", "2")], vec![Dim::Fixed(2)]).contains("at least two axes"));
        let two_of_unknown = vec![Dim::Fixed(5), Dim::symbol("n")];
        let inferred = operator("aten::histogramdd", &[("bins", "4")])
            .with_outputs(3)
            .infer(&[points(two_of_unknown.clone())]);
        assert_eq!(inferred.unwrap()[0].to_string(), "4×4 f32");
        let alone = operator("aten::histogramdd", &[("bins", "2")]).infer(&[points(two_of_unknown)]);
        assert!(alone.unwrap_err().to_string().contains("coordinates"));
        assert!(refused(&[("bins", "2")], vec![Dim::Fixed(5), Dim::Fixed(1)]).contains("expected 2, got 3"));
        let any = operator("aten::histogramdd", &[("bins", "2")]);
        assert_eq!(any.infer(&[points(vec![Dim::symbol("n"), Dim::Fixed(2)])]).unwrap().len(), 1);
        any.survives(1);
        operator("aten::histogramdd", &[("bins", "2")]).with_names(&["input", "weight"]).survives(2);
    }
}
