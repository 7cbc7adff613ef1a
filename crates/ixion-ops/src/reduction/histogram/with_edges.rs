//! Histograms with the edges of their bins: histogram.

use crate::creation::ranges::spread;
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly};
use crate::support::arguments::ParamOrInput;
use crate::support::float;
use crate::support::float::with_float;
use ixion_kernels::Float;
use ixion_tensor::{DType, Dim, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.histogram`: how many elements, or what weight, each of several bins has, and the edges of the bins. Elements
    /// outside of them, and NaN, are not counted. An element at an edge belongs to the bin that starts there; the last edge
    /// belongs to the last bin.
    pub struct Histogram for "aten::histogram" {
        /// The number of bins of equal width, or an input with the edges in ascending order.
        bins: ParamOrInput<usize> = ParamOrInput::Value(100),
        /// The first and the last edge; by default, the smallest element and the largest.
        range: Option<Vec<f64>> = None,
        /// The weight of each element.
        weight: Option<Weight> = None,
        /// Whether the results are divided by their sum and by the widths of the bins, so that their integral is 1.
        density: bool = false,
    }
    validate |layer| {
        if layer.bins == ParamOrInput::Value(0) {
            return Err(LayerError::invalid("bins", 0, "there must be at least one"));
        }
        let Some(range) = &layer.range else { return Ok(()) };
        let refuse = |reason: &str| Err(LayerError::invalid("range", format!("{range:?}"), reason));
        match (&layer.bins, range.as_slice()) {
            (ParamOrInput::Input(_), _) => refuse("the input with the edges says where they are"),
            (_, [least, most]) if !(least.is_finite() && most.is_finite()) => refuse("both must be finite"),
            (_, [least, most]) if least > most => refuse("the first must not be above the last"),
            (_, [_, _]) => Ok(()),
            _ => refuse("expected two numbers"),
        }
    }
}

/// The first and the last edge of bins: the given ones, or the smallest and the largest of some numbers.
///
/// # Errors
/// [`LayerError::Unsupported`] if they are not finite.
pub(super) fn bounds<T: Float>(given: Option<&[f64]>, values: &[T]) -> Result<[f64; 2]> {
    let [least, most] = match given {
        Some(&[least, most]) => [least, most],
        _ if values.is_empty() => [0.0, 1.0],
        _ if values.iter().any(|x| x.is_nan()) => [f64::NAN; 2],
        _ => {
            let numbers = || values.iter().map(|x| x.to_f64().unwrap_or(f64::NAN));
            [numbers().fold(f64::INFINITY, f64::min), numbers().fold(f64::NEG_INFINITY, f64::max)]
        }
    };
    if !(least.is_finite() && most.is_finite()) {
        return Err(LayerError::Unsupported(format!(
            "the bins would reach from {least} to {most}; expected finite elements, or `range`"
        )));
    }
    Ok(if least == most { [least - 0.5, most + 0.5] } else { [least, most] })
}

/// The bins between edges in ascending order.
pub(super) struct Bins<'a, T> {
    edges: &'a [T],
    /// The number of bins in a unit, if all of them are equally wide.
    per_unit: f64,
}

impl<'a, T: Float> Bins<'a, T> {
    pub(super) fn new(edges: &'a [T]) -> Self {
        let ends = edges.first().zip(edges.last());
        let width = ends.and_then(|(&first, &last)| (last - first).to_f64()).unwrap_or(f64::NAN);
        Self { edges, per_unit: edges.len().saturating_sub(1) as f64 / width }
    }

    /// The number of bins.
    pub(super) fn count(&self) -> usize {
        self.edges.len().saturating_sub(1)
    }

    /// The bin of a number; `None` if it is outside of all bins or NaN.
    pub(super) fn of(&self, x: T) -> Option<usize> {
        let (edges, (&first, &last)) = (self.edges, self.edges.first().zip(self.edges.last())?);
        if !(first..=last).contains(&x) {
            return None;
        }
        // The bin of equally wide ones, or one beside it, because of rounding.
        let near = ((x - first).to_f64().unwrap_or(0.0) * self.per_unit) as usize;
        let is_in = |bin: usize| {
            let bounds = edges.get(bin).zip(edges.get(bin + 1));
            bounds.is_some_and(|(&start, &end)| start <= x && x < end)
        };
        let bin = match is_in(near) {
            true => near,
            false => edges.partition_point(|&edge| edge <= x).saturating_sub(1),
        };
        Some(bin.min(self.count().saturating_sub(1)))
    }
}

impl Histogram {
    /// The edges of the bins.
    fn edges<T: Float>(&self, values: &[T], inputs: &[TensorView<'_>]) -> Result<Vec<T>> {
        match self.bins {
            ParamOrInput::Value(bins) => {
                let bounds = bounds(self.range.as_deref(), values)?;
                Ok(spread(bounds.map(T::of), bins.saturating_add(1)))
            }
            ParamOrInput::Input(position) => {
                let edges = inputs.get(position);
                let edges = edges.ok_or_else(|| LayerError::missing_input(position, inputs.len()))?;
                Ok(float::read::<T>(edges)?.into_owned())
            }
        }
    }

    /// The sums of the weights in each bin.
    fn sums<T: Float>(&self, values: &[T], edges: &[T], inputs: &[TensorView<'_>]) -> Result<Vec<f64>> {
        let weights = match &self.weight {
            Some(weight) => Some(float::read::<T>(&weight.view(inputs)?)?),
            None => None,
        };
        let bins = Bins::new(edges);
        let mut sums = vec![0.0; bins.count()];
        for (index, &x) in values.iter().enumerate() {
            if let Some(sum) = bins.of(x).and_then(|bin| sums.get_mut(bin)) {
                *sum += weight_at(weights.as_deref(), index);
            }
        }
        Ok(sums)
    }

    fn run<T: Float>(&self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<()> {
        let found = outputs.len();
        let [results, of_edges] = outputs else { return Err(LayerError::OutputCount { wanted: 2, found }) };
        let values = float::read::<T>(&inputs[0])?;
        let edges = self.edges::<T>(&values, inputs)?;
        let mut sums = self.sums(&values, &edges, inputs)?;
        if self.density {
            let whole: f64 = sums.iter().sum();
            for (sum, edges) in sums.iter_mut().zip(edges.windows(2)) {
                *sum = *sum / whole / (edges[1] - edges[0]).to_f64().unwrap_or(f64::NAN);
            }
        }
        float::write::<T>(results, |output| {
            output.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::of(sum));
            Ok(())
        })?;
        float::write::<T>(of_edges, |output| {
            output.iter_mut().zip(edges).for_each(|(to, edge)| *to = edge);
            Ok(())
        })
    }
}

/// The weight of an element: 1 if there are none.
pub(super) fn weight_at<T: Float>(weights: Option<&[T]>, index: usize) -> f64 {
    let weight = |weights: &[T]| weights.get(index).and_then(|weight| weight.to_f64()).unwrap_or(0.0);
    weights.map_or(1.0, weight)
}

/// Checks that a tensor has the element type of the input.
pub(super) fn check_type(what: &str, found: &TensorMeta, input: &TensorMeta) -> Result<()> {
    match found.dtype() == input.dtype() {
        true => Ok(()),
        false => Err(LayerError::dtype(what, input.dtype(), found.dtype())),
    }
}

impl Layer for Histogram {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let input = &inputs[0];
        if !matches!(input.dtype(), DType::F32 | DType::F64) {
            return Err(LayerError::dtype("the input", "f32 and f64", input.dtype()));
        }
        if let Some(weight) = &self.weight {
            let weight = weight.meta(inputs)?;
            check_type("the weight", &weight, input)?;
            if weight.num_elements().differs(&input.num_elements()) {
                return Err(LayerError::shape("the weight", format!("as many elements as {input}"), weight));
            }
        }
        let edges = match self.bins {
            ParamOrInput::Value(bins) => Dim::from(bins) + 1,
            ParamOrInput::Input(position) => {
                let bins = inputs.get(position);
                let bins = bins.ok_or_else(|| LayerError::missing_input(position, inputs.len()))?;
                check_type("the edges", bins, input)?;
                match bins.dims() {
                    [edges] if edges.fixed().is_none_or(|edges| edges > 1) => edges.clone(),
                    _ => {
                        return Err(LayerError::shape("the edges", "a vector of at least two numbers", bins));
                    }
                }
            }
        };
        Ok(vec![input.with_dims([edges.clone() - 1]), input.with_dims([edges])])
    }
}

impl CpuLayer for Histogram {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if let ParamOrInput::Value(bins) = self.bins {
            io.context.limits().check_tensor("the edges", (bins as u64).saturating_mul(8))?;
        }
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(io.inputs, io.outputs))
    }
}

operators! { Histogram; overload "aten::histogram"(input, bins, weight, density) of 4 }

#[cfg(test)]
mod tests {
    use crate::op::TensorMeta;
    use crate::support::testing::{assert_close, counting, operator, tensor};
    use ixion_tensor::{DType, Dim, Tensor};

    type Params<'a> = &'a [(&'a str, &'a str)];

    fn numbers(dtype: DType) -> Tensor {
        tensor(&[2, 4], &[0.0, 1.0, 1.0, 2.0, 3.0, 4.0, -1.0, 2.5]).cast(dtype).unwrap()
    }

    /// Checks sums and edges.
    fn check(params: Params<'_>, names: &[&'static str], inputs: &[&Tensor], sums: &[f64], edges: &[f64]) {
        let found = operator("aten::histogram", params).with_names(names).run(inputs).unwrap();
        assert_close(&found[0], &[sums.len()], sums);
        assert_close(&found[1], &[edges.len()], edges);
        assert_eq!((found[0].dtype(), found[1].dtype()), (inputs[0].dtype(), inputs[0].dtype()));
    }

    /// PyTorch's results.
    #[test]
    fn bins_are_of_equal_width() {
        for x in [DType::F32, DType::F64].map(numbers) {
            let edges = [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0];
            check(&[("bins", "5")], &["input"], &[&x], &[1.0, 1.0, 2.0, 2.0, 2.0], &edges);
            let range = [("bins", "4"), ("range", "(0.0,4.0)")];
            check(&range, &["input"], &[&x], &[1.0, 2.0, 2.0, 2.0], &[0.0, 1.0, 2.0, 3.0, 4.0]);
            let density = [range[0], range[1], ("density", "True")];
            let sevenths = [1.0, 2.0, 2.0, 2.0].map(|count| count / 7.0);
            check(&density, &["input"], &[&x], &sevenths, &[0.0, 1.0, 2.0, 3.0, 4.0]);
            let weight = counting(x.dtype(), &[8]);
            let names = ["input", "weight"];
            check(&range, &names, &[&x, &weight], &[0.0, 3.0, 10.0, 9.0], &[0.0, 1.0, 2.0, 3.0, 4.0]);
            let whole = [("bins", "4"), ("density", "True")];
            let shares = [6.0, 3.0, 10.0, 9.0].map(|sum| sum / 28.0 / 1.25);
            check(&whole, &names, &[&x, &weight], &shares, &[-1.0, 0.25, 1.5, 2.75, 4.0]);
        }
    }

    /// PyTorch's results.
    #[test]
    fn edges_may_be_an_input() {
        let (x, edges) = (numbers(DType::F32), tensor(&[4], &[0f32, 1.0, 2.5, 4.0]));
        check(&[], &["input", "bins"], &[&x, &edges], &[1.0, 3.0, 3.0], &[0.0, 1.0, 2.5, 4.0]);
        let weight = counting(DType::F32, &[8]);
        let shares = [0.0, 2.0 / 11.0, 16.0 / 33.0];
        let names = ["input", "bins", "weight"];
        check(&[("density", "True")], &names, &[&x, &edges, &weight], &shares, &[0.0, 1.0, 2.5, 4.0]);
        let repeated = tensor(&[5], &[0f32, 1.0, 1.0, 2.0, 2.0]);
        check(&[], &["input", "bins"], &[&x, &repeated], &[1.0, 0.0, 2.0, 1.0], &[0.0, 1.0, 1.0, 2.0, 2.0]);
    }

    /// PyTorch's results.
    #[test]
    fn special_elements() {
        let bins = [("bins", "4")];
        let (same, edges) = (tensor(&[3], &[2f32; 3]), [1.5, 1.75, 2.0, 2.25, 2.5]);
        check(&bins, &["input"], &[&same], &[0.0, 0.0, 3.0, 0.0], &edges);
        let quarters = [0.0, 0.25, 0.5, 0.75, 1.0];
        check(&bins, &["input"], &[&Tensor::zeros(DType::F32, &[0]).unwrap()], &[0.0; 4], &quarters);
        let special = tensor(&[4], &[0.0, f64::NAN, 1.0, f64::INFINITY]);
        let range = [("bins", "4"), ("range", "(0.0,1.0)")];
        check(&range, &["input"], &[&special], &[1.0, 0.0, 0.0, 1.0], &quarters);
        let error = operator("aten::histogram", &bins).run(&[&special]).unwrap_err().to_string();
        assert!(error.contains("from NaN to NaN"), "{error}");
        let half = [("bins", "2")];
        check(&half, &["input"], &[&Tensor::scalar(3f32)], &[0.0, 1.0], &[2.5, 3.0, 3.5]);
    }

    #[test]
    fn odd_inputs() {
        let refused = |params: Params<'_>| {
            operator("aten::histogram", params).create(1).map(drop).unwrap_err().to_string()
        };
        assert_eq!(refused(&[("bins", "0")]), "parameter `bins` is 0: there must be at least one");
        for range in ["(1.0)", "(4.0,0.0)", "(0.0,inf)"] {
            assert!(refused(&[("bins", "2"), ("range", range)]).contains("`range`"), "{range}");
        }
        let n = TensorMeta::new(DType::F32, [Dim::symbol("n")]);
        let layer = operator("aten::histogram", &[]).with_names(&["input", "bins"]);
        let found = layer.infer(&[n.clone(), n.clone()]).unwrap();
        assert_eq!((found[0].dims(), found[1].dims()), (&[Dim::symbol("n") - 1][..], n.dims()));
        let wrong = TensorMeta::new(DType::F64, [3usize]);
        assert!(layer.infer(&[n, wrong]).unwrap_err().to_string().contains("the edges"));
        layer.survives(2);
        operator("aten::histogram", &[("bins", "3")]).survives(1);
        operator("aten::histogram", &[("bins", "3")]).with_names(&["input", "weight"]).survives(2);
    }
}
