//! Sorting, and searching in sorted sequences: sort, argsort, msort, kthvalue, searchsorted, bucketize, isin.

pub mod unique;

use crate::indexing::by_index::read_indices;
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly};
use crate::reduction::along_axes::Axes;
use crate::reduction::extremes::{check_order, places, with_order, with_places, write_both};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{Converted, TensorOrScalar, common};
use crate::support::delegation::Delegating;
use crate::support::order::{First, Ordered, in_order, keys};
use crate::support::rows::{Rows, write_places, write_values};
use crate::support::views::pick;
use ixion_tensor::{DType, Dim, Element, Limits, Tensor, TensorView, resolve_axis};
use std::cmp::Ordering;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.sort`: sorts the elements along an axis; the second output has their original positions. The sort is stable; NaN
    /// counts as the largest number.
    pub struct Sort for "aten::sort" {
        /// The axis; a negative value counts from the end.
        dim: i64 = -1,
        /// Whether to sort in descending order.
        descending: bool = false,
        /// Accepted for compatibility: the sort is always stable.
        stable: Option<bool> = None,
    }
}

crate::operator! {
    /// `torch.argsort`: the positions that sort the elements along an axis. NaN counts as the largest number.
    pub struct Argsort for "aten::argsort" {
        /// The axis; a negative value counts from the end.
        dim: i64 = -1,
        /// Whether to sort in descending order.
        descending: bool = false,
        /// Accepted for compatibility: the sort is always stable.
        stable: bool = false,
    }
}

crate::operator! {
    /// `torch.msort`: sorts the elements along the first axis in ascending order. NaN counts as the largest number.
    pub struct Msort for "aten::msort" {}
}

crate::operator! {
    /// `torch.kthvalue`: the k-th smallest element along an axis, and its position.
    pub struct Kthvalue for "aten::kthvalue" {
        /// The rank of the element, counted from 1.
        k: usize,
        /// The axis; a negative value counts from the end.
        dim: i64 = -1,
        /// Whether to keep the axis, with length 1.
        keepdim: bool = false,
    }
}

/// The positions that sort each row.
fn sorted(rows: &TensorView<'_>, len: usize, descending: bool, limits: &Limits) -> Result<Vec<i64>> {
    let first = if descending { First::Largest } else { First::Smallest };
    with_order!(rows.dtype(), T => places::<T>(rows, len, limits, |row| in_order(&keys(first, row))))
}

impl Layer for Sort {
    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_order(&inputs[0])?;
        resolve_axis(self.dim, inputs[0].rank())?;
        Ok(with_places(inputs[0].with_dims(inputs[0].dims().to_vec())))
    }
}

impl CpuLayer for Sort {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let along = Rows::new(self.dim, io.inputs[0].shape())?;
        let rows = along.of(&io.inputs[0])?;
        let places = sorted(&rows, along.len, self.descending, io.context.limits())?;
        along.write(&rows, places, io.outputs)
    }
}

impl Layer for Argsort {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_order(&inputs[0])?;
        resolve_axis(self.dim, inputs[0].rank())?;
        Ok(vec![inputs[0].with_dtype(DType::I64)])
    }
}

impl CpuLayer for Argsort {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let along = Rows::new(self.dim, io.inputs[0].shape())?;
        let rows = along.of(&io.inputs[0])?;
        let places = sorted(&rows, along.len, self.descending, io.context.limits())?;
        write_places(places, &mut along.of_output(&mut io.outputs[0])?)
    }
}

impl Layer for Msort {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_order(&inputs[0])?;
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for Msort {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let along = Rows::new(0, io.inputs[0].shape())?;
        let rows = along.of(&io.inputs[0])?;
        let places = sorted(&rows, along.len, false, io.context.limits())?;
        write_values(&rows, along.len, &places, &mut along.of_output(&mut io.outputs[0])?)
    }
}

impl Kthvalue {
    fn axes(&self, rank: usize) -> Result<Axes> {
        Axes::along(Some(self.dim), self.keepdim, rank)
    }
}

impl Layer for Kthvalue {
    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_order(&inputs[0])?;
        let axis = resolve_axis(self.dim, inputs[0].rank())?;
        let len = inputs[0].dims().get(axis).cloned().unwrap_or(Dim::Fixed(1));
        if self.k == 0 || len.fixed().is_some_and(|len| usize::try_from(len).unwrap_or(0) < self.k) {
            return Err(LayerError::invalid("k", self.k, format!("expected a number from 1 to {len}")));
        }
        Ok(with_places(inputs[0].with_dims(self.axes(inputs[0].rank())?.dims(&inputs[0]))))
    }
}

impl CpuLayer for Kthvalue {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let axes = self.axes(io.inputs[0].shape().rank())?;
        let (rows, len) = (axes.rows(&io.inputs[0])?, axes.len(io.inputs[0].shape()));
        let all = sorted(&rows, len, false, io.context.limits())?;
        let places = all.into_iter().skip(self.k - 1).step_by(len.max(1)).collect();
        write_both(&rows, len, places, io.outputs)
    }
}

crate::operator! {
    /// `torch.searchsorted`: the position in a sorted sequence at which each value can be inserted to keep the order. The
    /// input is one sequence, or one along the last axis for each row of values.
    pub struct Searchsorted for "aten::searchsorted" {
        /// The values to insert: a tensor or a number.
        values as "self": TensorOrScalar,
        /// Whether positions are i32 instead of i64.
        out_int32: bool = false,
        /// Whether a value is inserted after equal elements; else before them.
        right: bool = false,
        /// The same as `right`, in words: `left` or `right`.
        side: Option<String> = None,
        /// The positions that sort the sequence, i64 in its shape, if it is not sorted.
        sorter: Option<Weight> = None,
    }
}

crate::operator! {
    /// `torch.bucketize`: the index of the bucket of each element; the boundaries of the buckets are a sorted vector.
    pub struct Bucketize for "aten::bucketize" {
        /// The boundaries, in ascending order.
        boundaries: InputIndex,
        /// Whether positions are i32 instead of i64.
        out_int32: bool = false,
        /// Whether an element that equals a boundary belongs to the bucket after it; else to the one before.
        right: bool = false,
    }
}

/// The sorted sequences, the values to insert, and the options of a search.
#[derive(Debug, Clone)]
struct Search {
    sequence: TensorOrScalar,
    values: TensorOrScalar,
    out_int32: bool,
    right: bool,
    sorter: Option<Weight>,
}

/// The elements of each row at the positions that sort it.
fn arranged(rows: &TensorView<'_>, sorter: &TensorView<'_>) -> Result<Tensor> {
    let len = rows.shape().last().copied().unwrap_or(0);
    let places = read_indices(sorter, len)?;
    let places: Vec<usize> =
        places.into_iter().enumerate().map(|(at, place)| at / len.max(1) * len + place).collect();
    let mut sorted = Tensor::zeros(rows.dtype(), rows.shape())?;
    pick(rows, &places, &mut sorted.view_mut()?)?;
    Ok(sorted)
}

impl Layer for Search {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (sequence, values) = (self.sequence.dims(inputs), self.values.dims(inputs));
        let rows = sequence.len().saturating_sub(1);
        let fits = sequence.len() == 1
            || (sequence.len() == values.len()
                && !sequence.iter().zip(values).take(rows).any(|(a, b)| a.differs(b)));
        if !fits {
            let wanted = "one sequence, or one for each row of the values";
            return Err(LayerError::shape("the sorted sequence", wanted, &inputs[0]));
        }
        if let Some(sorter) = &self.sorter {
            let (wanted, found) = (TensorMeta::new(DType::I64, sequence.to_vec()), sorter.meta(inputs)?);
            if found.dtype() != DType::I64 || !found.may_have_dims(sequence) {
                return Err(LayerError::shape("`sorter`", wanted, found));
            }
        }
        inputs.iter().try_for_each(check_order)?;
        let dtype = if self.out_int32 { DType::I32 } else { DType::I64 };
        Ok(vec![TensorMeta::new(dtype, values.to_vec())])
    }
}

impl CpuLayer for Search {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let dtype = common(&TensorMeta::of_all(io.inputs), &[self.sequence, self.values]);
        let (sequence, values) =
            (self.sequence.converted(io.inputs, dtype)?, self.values.converted(io.inputs, dtype)?);
        let sequence = match &self.sorter {
            Some(sorter) => Converted::Copy(arranged(&sequence.view(), &sorter.view(io.inputs)?)?),
            None => sequence,
        };
        let places = with_order!(dtype, T => self.places::<T>(&sequence.view(), &values.view()))?;
        let output = &mut io.outputs[0];
        Ok(output.copy_from(&Tensor::from_vec(places, output.shape())?.cast(output.dtype())?.view())?)
    }
}

impl Search {
    fn places<T: Element + PartialOrd>(
        &self,
        sequence: &TensorView<'_>,
        values: &TensorView<'_>,
    ) -> Result<Vec<i64>> {
        let len = sequence.shape().last().copied().unwrap_or(0);
        let per_row = match sequence.shape().rank() {
            1 => usize::MAX,
            _ => values.shape().last().copied().unwrap_or(1).max(1),
        };
        let sequence = sequence.to_tensor()?.cast(T::DTYPE)?.to_vec::<T>()?;
        let values = values.to_tensor()?.cast(T::DTYPE)?.to_vec::<T>()?;
        let place = |(index, value): (usize, &T)| {
            let start = (index / per_row).saturating_mul(len);
            let row = sequence.get(start..start.saturating_add(len)).unwrap_or_default();
            row.partition_point(|x| match x.partial_cmp(value) {
                Some(Ordering::Greater) => false,
                Some(Ordering::Equal) => self.right,
                // NaN is inserted after all elements.
                _ => true,
            }) as i64
        };
        Ok(values.iter().enumerate().map(place).collect())
    }
}

impl Delegating for Searchsorted {
    fn delegate(&self, _: usize) -> Result<impl CpuLayer> {
        let right = match self.side.as_deref() {
            None => self.right,
            Some("left") if !self.right => false,
            Some("right") => true,
            Some(other) => {
                let reason = "expected `left` or `right`, in agreement with `right`";
                return Err(LayerError::invalid("side", other, reason));
            }
        };
        let (sequence, values) = (TensorOrScalar::Input(0), self.values);
        Ok(Search { sequence, values, out_int32: self.out_int32, right, sorter: self.sorter.clone() })
    }
}

impl Delegating for Bucketize {
    fn delegate(&self, _: usize) -> Result<impl CpuLayer> {
        let (sequence, values) = (TensorOrScalar::Input(self.boundaries.0), TensorOrScalar::Input(0));
        Ok(Search { sequence, values, out_int32: self.out_int32, right: self.right, sorter: None })
    }

    fn takes(&self) -> RangeInclusive<usize> {
        1..=2
    }
}

crate::operator! {
    /// `torch.isin`: whether each element is among the test elements.
    pub struct Isin for "aten::isin" {
        /// The elements to compare with: a tensor or a number.
        test_elements: TensorOrScalar,
        /// Accepted for compatibility; the result is the same.
        assume_unique: bool = false,
        /// Whether to invert the result.
        invert: bool = false,
    }
}

impl Isin {
    fn run<T: Element + Ordered>(
        &self,
        values: &TensorView<'_>,
        tests: &TensorView<'_>,
    ) -> Result<Vec<bool>> {
        let tests = tests.to_tensor()?.cast(T::DTYPE)?.to_vec::<T>()?;
        let places = in_order(&keys(First::Smallest, &tests));
        let tests: Vec<T> = places.into_iter().map(|place| tests[place]).collect();
        let values = values.to_tensor()?.cast(T::DTYPE)?.to_vec::<T>()?;
        let is_in = |x: &T| tests.get(tests.partition_point(|test| test < x)).is_some_and(|test| test == x);
        Ok(values.iter().map(|x| is_in(x) != self.invert).collect())
    }
}

impl Layer for Isin {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        inputs.iter().try_for_each(check_order)?;
        Ok(vec![inputs[0].with_dtype(DType::Bool)])
    }
}

impl CpuLayer for Isin {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let dtype = common(&TensorMeta::of_all(io.inputs), &[TensorOrScalar::Input(0), self.test_elements]);
        let (values, tests) =
            (Converted::of(&io.inputs[0], dtype)?, self.test_elements.converted(io.inputs, dtype)?);
        let found = with_order!(dtype, T => self.run::<T>(&values.view(), &tests.view()))?;
        let shape = *io.outputs[0].shape();
        Ok(io.outputs[0].copy_from(&Tensor::from_vec(found, &shape)?.view())?)
    }
}

operators! {
    Sort: moves(Moved), Argsort, Msort: moves(Moved), Kthvalue, Searchsorted, Bucketize, Isin; of unique;
    overload "aten::sort"(input, stable, dim, descending) of 4,
        "aten::argsort"(input, stable, dim, descending) of 4
}

#[cfg(test)]
mod tests {
    use crate::support::testing::{operator, tensor};
    use ixion_tensor::Tensor;

    const NAN: f32 = f32::NAN;

    #[test]
    fn sorted_along_an_axis() {
        let x = tensor(&[2, 3], &[2i16, 1, 2, 0, 5, -1]);
        let sort = operator("aten::sort", &[("dim", "1"), ("descending", "True")]).with_outputs(2);
        let parts = sort.run(&[&x]).unwrap();
        assert_eq!(parts[0].to_vec::<i16>().unwrap(), [2, 2, 1, 5, 0, -1]);
        assert_eq!(parts[1].to_vec::<i64>().unwrap(), [0, 2, 1, 1, 0, 2]);
        let argsort = operator("aten::argsort", &[("dim", "0")]).run_one(&[&x]).unwrap();
        assert_eq!(argsort.to_vec::<i64>().unwrap(), [1, 0, 1, 0, 1, 0]);
        let rows = operator("aten::msort", &[]).run_one(&[&x]).unwrap();
        assert_eq!(rows.to_vec::<i16>().unwrap(), [0, 1, -1, 2, 5, 2]);
        let third = operator("aten::kthvalue", &[("k", "3")]).with_outputs(2);
        let parts = third.run(&[&tensor(&[3], &[NAN, 1.0, 2.0])]).unwrap();
        assert_eq!(parts[1].to_vec::<i64>().unwrap(), [0]);
        assert!(third.run(&[&tensor(&[2], &[1f32; 2])]).is_err());
    }

    #[test]
    fn positions_in_sorted_sequences() {
        let (sequence, values) = (tensor(&[4], &[1i64, 3, 3, 5]), tensor(&[2, 2], &[3f32, 0.0, 9.0, NAN]));
        let search = |params: &[(&'static str, &'static str)]| {
            let layer = operator("aten::searchsorted", params).with_names(&["sorted_sequence", "self"]);
            layer.run_one(&[&sequence, &values]).unwrap().to_vec::<i64>().unwrap()
        };
        assert_eq!(search(&[]), [1, 0, 4, 4]);
        assert_eq!(search(&[("right", "True")]), [3, 0, 4, 4]);
        assert_eq!(search(&[("side", "right")]), [3, 0, 4, 4]);
        let rows = tensor(&[2, 2], &[0f32, 1.0, 5.0, 6.0]);
        let layer = operator("aten::searchsorted", &[]).with_names(&["sorted_sequence", "self"]);
        let got = layer.run_one(&[&rows, &tensor(&[2, 1], &[3f32, 3.0])]).unwrap();
        assert_eq!(got.to_vec::<i64>().unwrap(), [2, 0]);
        let layer = operator("aten::searchsorted", &[]).with_names(&["sorted_sequence", "self", "sorter"]);
        let (mixed, order) = (tensor(&[3], &[3f32, 1.0, 2.0]), tensor(&[3], &[1i64, 2, 0]));
        let search = |order: &Tensor| layer.run_one(&[&mixed, &tensor(&[4], &[0f32, 1.0, 2.5, NAN]), order]);
        assert_eq!(search(&order).unwrap().to_vec::<i64>().unwrap(), [0, 0, 2, 3]);
        assert!(search(&tensor(&[3], &[1i64, 2, 3])).is_err());
        let error = search(&tensor(&[2], &[1i64, 0])).unwrap_err().to_string();
        assert_eq!(error, "`sorter`: expected 3 i64, got 2 i64");
        let isin = operator("aten::isin", &[("invert", "True")]).with_names(&["input", "test_elements"]);
        let got = isin.run_one(&[&sequence, &tensor(&[2], &[5i64, 3])]).unwrap();
        assert_eq!(got.to_vec::<bool>().unwrap(), [true, false, false, false]);
    }

    #[test]
    fn odd_inputs() {
        operator("aten::sort", &[("dim", "0")]).with_outputs(2).survives(1);
        operator("aten::argsort", &[]).survives(1);
        operator("aten::msort", &[]).survives(1);
        operator("aten::kthvalue", &[("k", "1"), ("dim", "1")]).with_outputs(2).survives(1);
        operator("aten::searchsorted", &[]).with_names(&["sorted_sequence", "self"]).survives(2);
        operator("aten::bucketize", &[]).survives(2);
        operator("aten::isin", &[]).survives(2);
    }
}
