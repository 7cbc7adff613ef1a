//! Reductions of segments: segment_reduce.

use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly};
use crate::support::choices::choices;
use crate::support::float;
use crate::support::float::with_float;
use crate::support::views::axis_of;
use ixion_kernels::Float;
use ixion_tensor::{DType, Dim, Limits, TensorView, TensorViewMut, resolve_axis};
use std::ops::{Range, RangeInclusive};

choices! {
    /// How the elements of a segment are combined.
    pub enum Joining {
        /// Their sum.
        Sum = "sum",
        /// Their mean; NaN for an empty segment.
        Mean = "mean",
        /// The largest of them; NaN if there is one.
        Max = "max",
        /// The smallest of them; NaN if there is one.
        Min = "min",
        /// Their product.
        Prod = "prod",
    }
}

crate::operator! {
    /// `torch.segment_reduce`: divides an axis into segments of the given lengths, and combines the elements of each. The axes
    /// before it may have a vector of lengths each.
    pub struct SegmentReduce for "aten::segment_reduce" {
        /// How elements are combined.
        reduce: Joining,
        /// The lengths of the segments along the last axis; the axes before it are those of the input.
        lengths: Option<Weight> = None,
        /// Must be `None`: PyTorch does not support it yet.
        indices: Option<Weight> = None,
        /// Instead of lengths, where the segments start and the last one ends.
        offsets: Option<Weight> = None,
        /// The axis that is divided, which is the last one of the lengths.
        axis: i64 = 0,
        /// Whether the segments may end before the axis does.
        may_be_short as "unsafe": bool = false,
        /// The value to which the elements are joined, and that of empty segments.
        initial: Option<f64> = None,
    }
    validate |layer| {
        match (&layer.lengths, &layer.offsets, &layer.indices) {
            (_, _, Some(_)) => {
                Err(LayerError::Unsupported("indices of segments; expected `None`".to_owned()))
            }
            (Some(_), None, None) | (None, Some(_), None) => Ok(()),
            _ => Err(LayerError::Unsupported("expected either `lengths` or `offsets`".to_owned())),
        }
    }
}

/// What describes the segments.
enum Marks<'a> {
    Lengths(&'a Weight),
    Offsets(&'a Weight),
}

impl Joining {
    /// The value of an empty segment.
    fn initial<T: Float>(self) -> T {
        match self {
            Self::Sum | Self::Mean => T::zero(),
            Self::Max => T::neg_infinity(),
            Self::Min => T::infinity(),
            Self::Prod => T::one(),
        }
    }

    /// Joins the elements to those that were joined before.
    fn join<T: Float>(self, joined: &mut [T], elements: &[T]) {
        let pairs = joined.iter_mut().zip(elements);
        match self {
            Self::Sum | Self::Mean => pairs.for_each(|(to, &x)| *to += x),
            Self::Prod => pairs.for_each(|(to, &x)| *to *= x),
            Self::Max => pairs.for_each(|(to, &x)| *to = if x.is_nan() || *to < x { x } else { *to }),
            Self::Min => pairs.for_each(|(to, &x)| *to = if x.is_nan() || x < *to { x } else { *to }),
        }
    }
}

impl SegmentReduce {
    fn marks(&self) -> Result<Marks<'_>> {
        match (&self.lengths, &self.offsets) {
            (Some(lengths), _) => Ok(Marks::Lengths(lengths)),
            (None, Some(offsets)) => Ok(Marks::Offsets(offsets)),
            (None, None) => Err(LayerError::InputCount { wanted: "lengths or offsets".to_owned(), found: 1 }),
        }
    }

    /// The segments of an axis of `len` elements.
    fn segments(&self, marks: &[i64], len: usize, are_lengths: bool) -> Result<Vec<Range<usize>>> {
        let (mut places, mut end) = (Vec::with_capacity(marks.len() + 1), 0i64);
        places.extend(are_lengths.then_some(0));
        for &mark in marks {
            let is_ordered = if are_lengths { mark >= 0 } else { places.is_empty() || mark >= end };
            end = if are_lengths { end.saturating_add(mark) } else { mark };
            match usize::try_from(end) {
                Ok(place) if is_ordered && place <= len => places.push(place),
                _ => {
                    let what = if are_lengths { "the lengths" } else { "the offsets" };
                    let wanted = format!("segments within 0 to {len}, in order");
                    return Err(LayerError::shape(what, wanted, mark));
                }
            }
        }
        if are_lengths && !self.may_be_short && places.last() != Some(&len) {
            return Err(LayerError::shape("the lengths", format!("a sum of {len}"), end));
        }
        Ok(places.windows(2).map(|ends| ends[0]..ends[1]).collect())
    }

    fn run<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let (marks, are_lengths) = match self.marks()? {
            Marks::Lengths(lengths) => (lengths.view(inputs)?, true),
            Marks::Offsets(offsets) => (offsets.view(inputs)?, false),
        };
        let axis = resolve_axis(self.axis, inputs[0].shape().rank())?;
        let (shape, of_row) = (*inputs[0].shape(), marks.shape().last().copied().unwrap_or(0));
        let (len, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
        let segments = output.shape()[axis];
        let (data, marks) = (float::read::<T>(&inputs[0])?, marks.cast(DType::I64)?.to_vec::<i64>()?);
        float::write::<T>(output, |output| {
            let (row, joined) = ((len * inner).max(1), (segments * inner).max(1));
            for (index, output) in output.chunks_exact_mut(joined).enumerate() {
                limits.check_deadline()?;
                let marks = marks.get(index * of_row..(index + 1) * of_row).unwrap_or_default();
                let data = data.get(index * row..).unwrap_or_default();
                let segments = self.segments(marks, len, are_lengths)?;
                for (output, segment) in output.chunks_exact_mut(inner.max(1)).zip(segments) {
                    self.combine(data, inner, segment, output);
                }
            }
            Ok(())
        })
    }

    /// Combines the elements of one segment, each of which is a row of `inner` numbers.
    fn combine<T: Float>(&self, data: &[T], inner: usize, segment: Range<usize>, output: &mut [T]) {
        output.fill(self.initial.map_or_else(|| self.reduce.initial(), T::of));
        let count = segment.len();
        for row in segment {
            self.reduce.join(output, data.get(row * inner..(row + 1) * inner).unwrap_or_default());
        }
        match (self.reduce, count, self.initial) {
            (Joining::Mean, 0, None) => output.fill(T::nan()),
            (Joining::Mean, 1.., _) => output.iter_mut().for_each(|x| *x /= T::of(count as f64)),
            _ => {}
        }
    }
}

impl Layer for SegmentReduce {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let data = &inputs[0];
        float::check("the input", data)?;
        let (marks, name, extra) = match self.marks()? {
            Marks::Lengths(lengths) => (lengths.meta(inputs)?, "the lengths", 0),
            Marks::Offsets(offsets) => (offsets.meta(inputs)?, "the offsets", 1),
        };
        if !matches!(marks.dtype(), DType::I32 | DType::I64) {
            return Err(LayerError::dtype(name, "i32 and i64", marks.dtype()));
        }
        let axis = axis_of(self.axis, data)?;
        let before = data.dims().get(..axis).unwrap_or_default();
        match marks.dims() {
            [outer @ .., count]
                if outer.len() == axis
                    && !outer.iter().zip(before).any(|(found, wanted)| found.differs(wanted))
                    && count.fixed().is_none_or(|count| count >= extra) =>
            {
                let after = data.dims().iter().skip(axis + 1).cloned();
                let dims = before.iter().cloned().chain([count.clone() - extra]).chain(after);
                Ok(vec![data.with_dims(dims)])
            }
            _ => {
                let before: Vec<String> = before.iter().map(Dim::to_factor).collect();
                let wanted = match (before.is_empty(), extra) {
                    (true, 0) => "a vector".to_owned(),
                    (true, _) => "a vector of at least one element".to_owned(),
                    _ => format!("{}×…", before.join("×")),
                };
                Err(LayerError::shape(name, wanted, marks))
            }
        }
    }
}

impl CpuLayer for SegmentReduce {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(io.inputs, &mut io.outputs[0], io.context.limits()))
    }
}

operators! { SegmentReduce }

#[cfg(test)]
mod tests {
    use crate::op::{Result, TensorMeta};
    use crate::support::testing::{assert_close, counting, operator, tensor};
    use ixion_tensor::{DType, Dim, Tensor};

    const NAN: f64 = f64::NAN;
    const INF: f64 = f64::INFINITY;

    fn data() -> Tensor {
        tensor(&[6, 2], &[-3f32, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    }

    type Params<'a> = &'a [(&'static str, &'static str)];

    fn segments(params: Params<'_>, key: &'static str, x: &Tensor, marks: &[i64]) -> Result<Tensor> {
        let marks = tensor(&[marks.len()], marks);
        operator("aten::segment_reduce", params).with_names(&["input", key]).run_one(&[x, &marks])
    }

    /// PyTorch's results.
    #[test]
    fn segments_are_combined() {
        for (reduce, plain, joined) in [
            ("sum", [-4.0, -2.0, 0.0, 0.0, 16.0, 20.0], [-2.5, -0.5, 1.5, 1.5, 17.5, 21.5]),
            ("mean", [-2.0, -1.0, NAN, NAN, 4.0, 5.0], [-1.25, -0.25, 1.5, 1.5, 4.375, 5.375]),
            ("max", [-1.0, 0.0, -INF, -INF, 7.0, 8.0], [1.5, 1.5, 1.5, 1.5, 7.0, 8.0]),
            ("min", [-3.0, -2.0, INF, INF, 1.0, 2.0], [-3.0, -2.0, 1.5, 1.5, 1.0, 1.5]),
            ("prod", [3.0, 0.0, 1.0, 1.0, 105.0, 384.0], [4.5, 0.0, 1.5, 1.5, 157.5, 576.0]),
        ] {
            let (params, with_initial) = ([("reduce", reduce)], [("reduce", reduce), ("initial", "1.5")]);
            assert_close(&segments(&params, "lengths", &data(), &[2, 0, 4]).unwrap(), &[3, 2], &plain);
            assert_close(&segments(&params, "offsets", &data(), &[0, 2, 2, 6]).unwrap(), &[3, 2], &plain);
            assert_close(&segments(&with_initial, "lengths", &data(), &[2, 0, 4]).unwrap(), &[3, 2], &joined);
            let half = data().cast(DType::F16).unwrap();
            assert_close(&segments(&params, "lengths", &half, &[2, 0, 4]).unwrap(), &[3, 2], &plain);
            let special = tensor(&[4], &[1.0, NAN, 3.0, NAN]);
            let found = segments(&params, "lengths", &special, &[2, 1, 1]).unwrap();
            assert_close(&found, &[3], &[NAN, 3.0, NAN]);
        }
    }

    /// PyTorch's results.
    #[test]
    fn each_row_may_have_its_own_segments() {
        let x = counting(DType::F64, &[2, 3, 2]);
        let layer = operator("aten::segment_reduce", &[("reduce", "sum"), ("axis", "-2")]);
        let lengths = tensor(&[2, 2], &[1i64, 2, 3, 0]);
        let found = layer.with_names(&["input", "lengths"]).run_one(&[&x, &lengths]).unwrap();
        assert_close(&found, &[2, 2, 2], &[0.0, 1.0, 6.0, 8.0, 24.0, 27.0, 0.0, 0.0]);
        let part = segments(&[("reduce", "sum")], "offsets", &data(), &[1, 4]).unwrap();
        assert_close(&part, &[1, 2], &[3.0, 6.0]);
        let short = [("reduce", "sum"), ("unsafe", "True")];
        let found = segments(&short, "lengths", &data(), &[2, 1]).unwrap();
        assert_close(&found, &[2, 2], &[-4.0, -2.0, 1.0, 2.0]);
    }

    #[test]
    fn odd_inputs() {
        let sum = [("reduce", "sum")];
        let error = |key, marks: &[i64]| segments(&sum, key, &data(), marks).unwrap_err().to_string();
        assert!(error("lengths", &[2, 1]).contains("a sum of 6, got 3"));
        assert!(error("lengths", &[7, -1]).contains("0 to 6"));
        assert!(error("offsets", &[0, 4, 2, 6]).contains("in order"));
        assert!(error("offsets", &[-1, 7]).contains("got -1"));
        let refused = |names: &[&'static str]| {
            let layer = operator("aten::segment_reduce", &sum).with_names(names).create(names.len());
            layer.map(drop).unwrap_err().to_string()
        };
        assert!(refused(&["input", "lengths", "offsets"]).contains("either"));
        assert!(refused(&["input", "indices"]).contains("indices"));
        let layer = operator("aten::segment_reduce", &sum).with_names(&["input", "offsets"]);
        let meta = |dims: [Dim; 2]| TensorMeta::new(DType::F32, dims);
        let offsets = TensorMeta::new(DType::I64, [Dim::from(4usize)]);
        let found = layer.infer(&[meta([Dim::symbol("n"), 2.into()]), offsets.clone()]).unwrap();
        assert_eq!(found[0].to_string(), "3×2 f32");
        let rows = TensorMeta::new(DType::I64, [2usize, 4]);
        assert!(layer.infer(&[meta([3.into(), 2.into()]), rows]).is_err());
        let none = TensorMeta::new(DType::I64, [0usize]);
        let error = layer.infer(&[meta([3.into(), 2.into()]), none]).unwrap_err().to_string();
        assert_eq!(error, "the offsets: expected a vector of at least one element, got 0 i64");
        layer.survives(2);
        operator("aten::segment_reduce", &sum).with_names(&["input", "lengths"]).survives(2);
    }
}
