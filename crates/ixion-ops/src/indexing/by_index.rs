//! Indexing along one axis: index_select, gather, scatter_add, embedding.

use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::Converted;
use crate::support::views::{Plain, axis_of, write_plain};
use ixion_kernels::take::{IndicesAlong, first_outside, take, take_rows};
use ixion_tensor::{
    Complex, DType, Dim, Element, Layout, Limits, TensorError, TensorView, TensorViewMut, resolve_axis,
    with_bits,
};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.index_select`: the slices of the input at the given indices of one axis.
    pub struct IndexSelect for "torch.index_select", "aten::index_select" {
        /// The axis; may be negative, counting from the end.
        dim: i64,
        /// The indices, a vector.
        index: InputIndex,
    }
}

crate::operator! {
    /// `torch.gather`: for each element of `index`, the input's element at that index along one axis, and at the same
    /// position as the element along all others.
    pub struct Gather for "torch.gather", "aten::gather" {
        /// The axis; may be negative, counting from the end.
        dim: i64,
        /// The indices; of the input's rank, and no longer than the input along any axis but `dim`.
        index: InputIndex,
        /// Accepted for compatibility; the result is the same.
        sparse_grad: bool = false,
    }
}

crate::operator! {
    /// `torch.scatter_add`: adds each element of `src` to the input at the index along one axis that `index` gives, and at the
    /// same position as the element along all others. Elements are added in order.
    pub struct ScatterAdd for "torch.scatter_add", "aten::scatter_add" {
        /// The axis; may be negative, counting from the end.
        dim: i64,
        /// The indices.
        index: InputIndex,
        /// The elements to add; at least as long as `index` along every axis.
        src: InputIndex,
    }
}

crate::operator! {
    /// `torch.nn.Embedding`: a lookup table that replaces each index by a row of a matrix; … gives …×`embedding_dim`.
    pub struct Embedding for "nn.Embedding", "F.embedding", "aten::embedding" {
        /// The matrix, `num_embeddings`×`embedding_dim`.
        weight: Weight,
        /// Number of rows; only checked against the matrix.
        num_embeddings: Option<usize> = None,
        /// Length of a row; only checked against the matrix.
        embedding_dim: Option<usize> = None,
        /// Accepted for compatibility; it only matters in training.
        padding_idx: Option<i64> = None,
        /// Accepted for compatibility; it only matters in training.
        scale_grad_by_freq: bool = false,
        /// Accepted for compatibility; it only matters in training.
        sparse: bool = false,
    }
}

pub(crate) fn check_indices(what: &str, index: &TensorMeta) -> Result<()> {
    if matches!(index.dtype(), DType::I64 | DType::I32) {
        return Ok(());
    }
    Err(LayerError::DType { what: what.to_owned(), wanted: "i64 and i32".to_owned(), found: index.dtype() })
}

/// The indices, in row-major order; each must be below `len`.
pub(crate) fn read_indices(view: &TensorView<'_>, len: usize) -> Result<Vec<usize>> {
    let indices = checked_indices(view, len)?;
    Ok(indices.view().slice::<i64>()?.iter().map(|&index| index as usize).collect())
}

/// As [`read_indices`], as a tensor of i64, whose elements are the same as u64.
fn checked_indices<'a>(view: &TensorView<'a>, len: usize) -> Result<Plain<'a>> {
    let indices = match view.dtype() {
        DType::I64 => Plain::of(view)?,
        _ => Plain::Copy(view.cast(DType::I64)?),
    };
    match first_outside(indices.view().slice::<i64>()?, len) {
        Some(index) => Err(TensorError::OutOfRange { what: "index", index, len }.into()),
        None => Ok(indices),
    }
}

impl Layer for IndexSelect {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let index = &inputs[self.index.0];
        check_indices("the index", index)?;
        let axis = resolve_axis(self.dim, inputs[0].rank())?;
        if index.rank() > 1 {
            return Err(LayerError::shape("the index", "a vector", index));
        }
        let mut dims = inputs[0].dims().to_vec();
        let count = index.num_elements();
        match dims.get_mut(axis) {
            Some(dim) => *dim = count,
            None if count.fixed().is_none_or(|count| count == 1) => {}
            None => {
                return Err(LayerError::shape("the index", "one element (the input has no axes)", index));
            }
        }
        Ok(vec![inputs[0].with_dims(dims)])
    }
}

impl CpuLayer for IndexSelect {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let axis = resolve_axis(self.dim, io.inputs[0].shape().rank())?;
        let len = io.inputs[0].shape().get(axis).copied();
        let indices = checked_indices(&io.inputs[self.index.0], len.unwrap_or(1))?;
        let Some(len) = len else { return Ok(io.outputs[0].copy_from(&io.inputs[0])?) };
        let inner = io.inputs[0].shape().iter().skip(axis + 1).product();
        take_checked(&io.inputs[0], (len, inner), &indices, &mut io.outputs[0], io.context.limits())
    }
}

/// Adds an axis to a tensor without axes: PyTorch treats a scalar as a vector of one element.
pub(crate) fn with_axis(meta: &TensorMeta) -> TensorMeta {
    if meta.rank() == 0 { meta.with_dims([1]) } else { meta.with_dims(meta.dims().to_vec()) }
}

/// As [`with_axis`], of a tensor.
pub(crate) fn view_with_axis<'a>(view: &TensorView<'a>) -> Result<TensorView<'a>> {
    Ok(if view.shape().rank() == 0 { view.with_layout(view.layout().unsqueeze(0)?)? } else { *view })
}

/// As [`take`], between tensors of any strides.
pub(crate) fn take_into(
    input: &TensorView<'_>,
    (len, inner): (usize, usize),
    sources: &[usize],
    output: &mut TensorViewMut<'_>,
) -> Result<()> {
    let input = Plain::of(input)?;
    write_plain(output, &mut |output| {
        with_bits!(output.dtype(), B => {
            take(input.view().bits_slice::<B>()?, len, inner, sources, output.bits_slice::<B>()?);
        });
        Ok(())
    })
}

/// As [`take_into`], for indices of [`checked_indices`].
fn take_checked(
    input: &TensorView<'_>,
    (len, inner): (usize, usize),
    indices: &Plain<'_>,
    output: &mut TensorViewMut<'_>,
    limits: &Limits,
) -> Result<()> {
    let (input, indices) = (Plain::of(input)?, indices.view().bits_slice::<u64>()?);
    write_plain(output, &mut |output| {
        with_bits!(output.dtype(), B => {
            let (from, to) = (input.view().bits_slice::<B>()?, output.bits_slice::<B>()?);
            take_rows(from, (len, inner), indices, to, limits)?;
        });
        Ok(())
    })
}

/// Checks that an index has the rank of `limit` and is no longer along any axis but `except`.
pub(crate) fn check_within(index: &TensorMeta, limit: &TensorMeta, except: Option<usize>) -> Result<()> {
    let too_long = |(axis, (len, most)): (usize, (&Dim, &Dim))| {
        Some(axis) != except && len.fixed().zip(most.fixed()).is_some_and(|(len, most)| len > most)
    };
    let pairs = index.dims().iter().zip(limit.dims());
    if index.rank() != limit.rank() || pairs.enumerate().any(too_long) {
        return Err(LayerError::shape("the index", format!("a shape within {limit}"), index));
    }
    Ok(())
}

impl Layer for Gather {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let index = &inputs[self.index.0];
        check_indices("the index", index)?;
        let input = with_axis(&inputs[0]);
        if index.num_elements() != 0usize {
            check_within(&with_axis(index), &input, Some(axis_of(self.dim, &input)?))?;
        }
        Ok(vec![inputs[0].with_dims(index.dims().to_vec())])
    }
}

impl CpuLayer for Gather {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if io.outputs[0].num_elements() == 0 {
            return Ok(());
        }
        let input = view_with_axis(&io.inputs[0])?;
        let axis = input.shape().axis(self.dim)?;
        let indices = checked_indices(&io.inputs[self.index.0], input.shape()[axis])?;
        let layout = *view_with_axis(&io.inputs[self.index.0])?.shape();
        let layout = io.outputs[0].layout().reshape(&layout)?.unwrap_or(*io.outputs[0].layout());
        let mut output = io.outputs[0].reborrow().with_layout(layout)?;
        let (shape, input) = (*output.shape(), Plain::of(&input)?);
        let indices = IndicesAlong { shape: &shape, axis, indices: indices.view().bits_slice()? };
        let across = Layout::contiguous(*input.view().shape());
        write_plain(&mut output, &mut |output| {
            with_bits!(output.dtype(), B => {
                let (from, to) = (input.view().bits_slice::<B>()?, output.bits_slice::<B>()?);
                indices.gather(from, across.strides(), to);
            });
            Ok(())
        })
    }
}

impl Layer for ScatterAdd {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (index, src) = (&inputs[self.index.0], &inputs[self.src.0]);
        check_indices("the index", index)?;
        let input = with_axis(&inputs[0]);
        if index.num_elements() != 0usize {
            check_within(&with_axis(index), &input, Some(axis_of(self.dim, &input)?))?;
            check_within(&with_axis(index), &with_axis(src), None)?;
        }
        if src.dtype() != inputs[0].dtype() {
            let (what, wanted) = ("the source".to_owned(), inputs[0].dtype().to_string());
            return Err(LayerError::DType { what, wanted, found: src.dtype() });
        }
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for ScatterAdd {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, index) = (&view_with_axis(&io.inputs[0])?, &view_with_axis(&io.inputs[self.index.0])?);
        let src = &view_with_axis(&io.inputs[self.src.0])?;
        let axis = input.shape().axis(self.dim)?;
        let indices = checked_indices(index, input.shape()[axis])?;
        let places = IndicesAlong { shape: index.shape(), axis, indices: indices.view().bits_slice()? };
        let (whole, output) = (&io.inputs[0], &mut io.outputs[0]);
        match input.dtype() {
            DType::F32 => add_in_type(whole, src, &places, output, |sum: &mut f32, x: f32| *sum += x),
            DType::F64 => add_in_type(whole, src, &places, output, |sum: &mut f64, x: f64| *sum += x),
            DType::I64 => {
                add_in_type(whole, src, &places, output, |sum: &mut i64, x: i64| *sum = sum.wrapping_add(x))
            }
            DType::F16 | DType::Bf16 => {
                add_at(input, src, &places, output, |sum: &mut f32, x: f32| *sum += x)
            }
            DType::C32 | DType::C64 | DType::C128 => {
                add_at(input, src, &places, output, |sum: &mut Complex<f64>, z: Complex<f64>| *sum += z)
            }
            _ => add_at(input, src, &places, output, |sum: &mut i64, x: i64| *sum = sum.wrapping_add(x)),
        }
    }
}

/// Writes the input with the elements of `src` added at the given indices of one axis, in the type of the elements. The
/// function is `Copy` because calls through a reference are not inlined.
fn add_in_type<T: Element>(
    input: &TensorView<'_>,
    src: &TensorView<'_>,
    places: &IndicesAlong<'_>,
    output: &mut TensorViewMut<'_>,
    add: impl Fn(&mut T, T) + Copy,
) -> Result<()> {
    let src = Plain::of(src)?;
    let (whole, src) = (*view_with_axis(input)?.shape(), src.view());
    let elements = src.slice::<T>()?;
    let (across, along) = (Layout::contiguous(whole), Layout::contiguous(*src.shape()));
    write_plain(output, &mut |output| {
        output.copy_from(input)?;
        let sums = output.slice::<T>()?;
        places.scatter((elements, along.strides()), (sums, across.strides()), add);
        Ok(())
    })
}

/// Writes the input with the elements of `src`, read as `S`, added at the given indices of one axis.
fn add_at<T: Element, S: Element>(
    input: &TensorView<'_>,
    src: &TensorView<'_>,
    places: &IndicesAlong<'_>,
    output: &mut TensorViewMut<'_>,
    add: impl Fn(&mut T, S),
) -> Result<()> {
    let mut sum = vec![T::default(); input.num_elements()];
    TensorViewMut::from_slice(&mut sum, Layout::contiguous(*input.shape()))?.cast_from(input)?;
    let src = Converted::of(src, S::DTYPE)?;
    let view = src.view();
    let plain = Plain::of(&view)?;
    let view = plain.view();
    let elements = view.slice::<S>()?;
    let (across, along) = (Layout::contiguous(*input.shape()), Layout::contiguous(*src.view().shape()));
    places.scatter((elements, along.strides()), (sum.as_mut_slice(), across.strides()), add);
    let layout = Layout::contiguous(*output.shape());
    Ok(output.cast_from(&TensorView::from_slice(&sum, layout)?)?)
}

impl Layer for Embedding {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_indices("the input", &inputs[0])?;
        let weight = self.weight.meta(inputs)?;
        let [rows, len] = weight.dims() else {
            return Err(LayerError::shape("the weight", "two axes", weight));
        };
        let differs = |dim: &Dim, given: Option<usize>| {
            given.is_some_and(|given| dim.fixed().is_some() && *dim != given)
        };
        if differs(rows, self.num_embeddings) || differs(len, self.embedding_dim) {
            let text = |given: Option<usize>| given.map_or("…".to_owned(), |given| given.to_string());
            let wanted = format!("{}×{}", text(self.num_embeddings), text(self.embedding_dim));
            return Err(LayerError::shape("the weight", wanted, weight));
        }
        let dims = inputs[0].dims().iter().chain([len]).cloned();
        Ok(vec![TensorMeta::new(weight.dtype(), dims)])
    }
}

impl CpuLayer for Embedding {
    /// Reads the rows from the file before the first run, which would otherwise wait for them.
    fn initialize(&mut self) -> Result<()> {
        match &self.weight {
            Weight::Attribute(rows) => rows.decode().map(drop),
            Weight::Input(_) => Ok(()),
        }
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let weight = self.weight.view(io.inputs)?;
        let indices = checked_indices(&io.inputs[0], weight.shape()[0])?;
        let sizes = (weight.shape()[0], weight.shape()[1]);
        take_checked(&weight, sizes, &indices, &mut io.outputs[0], io.context.limits())
    }
}

operators! {
    IndexSelect: moves(Along), Gather, ScatterAdd: writes(Combines), Embedding: category(Weighted);
    overload "aten::embedding"(weight, input, padding_idx, scale_grad_by_freq, sparse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{assert_close, counting, operator, tensor};
    use ixion_tensor::Tensor;

    #[test]
    fn rows_and_columns() {
        let x = counting(DType::I16, &[2, 3]);
        let select = |dim, index: &[i64]| {
            let index = tensor(&[index.len()], index);
            let layer = operator("torch.index_select", &[("dim", dim)]).with_names(&["input", "index"]);
            layer.run_one(&[&x, &index]).map(|output| output.to_vec::<i16>().unwrap())
        };
        assert_eq!(select("1", &[2, 0]).unwrap(), [2, 0, 5, 3]);
        assert_eq!(select("-2", &[1, 1]).unwrap(), [3, 4, 5, 3, 4, 5]);
        assert_eq!(select("0", &[2]).unwrap_err().to_string(), "index 2 is out of range: there are 2");
        assert!(select("0", &[-1]).is_err());
        let number = Tensor::scalar(7i16);
        let select = operator("torch.index_select", &[("dim", "-1")]).with_names(&["input", "index"]);
        let got = select.run_one(&[&number, &tensor(&[1], &[0i64])]).unwrap();
        assert_eq!((got.rank(), got.item::<i16>().unwrap()), (0, 7));
        assert!(select.run(&[&number, &tensor(&[2], &[0i64; 2])]).is_err());
        assert!(select.run(&[&number, &tensor(&[1], &[1i64])]).is_err());
        let gather = operator("torch.gather", &[("dim", "1")]).with_names(&["input", "index"]);
        let index = tensor(&[2, 2], &[2i64, 2, 0, 1]);
        assert_eq!(gather.run_one(&[&x, &index]).unwrap().to_vec::<i16>().unwrap(), [2, 2, 3, 4]);
        assert!(gather.run(&[&x, &tensor(&[3, 1], &[0i64; 3])]).is_err());
        assert!(gather.run(&[&x, &tensor(&[1, 1], &[0f32])]).is_err());
    }

    #[test]
    fn sums_at_indices() {
        let layer = operator("torch.scatter_add", &[("dim", "0")]).with_names(&["input", "index", "src"]);
        let (x, src) = (tensor(&[3], &[10f32, 20.0, 30.0]), tensor(&[4], &[1f32, 2.0, 3.0, 4.0]));
        let got = layer.run_one(&[&x, &tensor(&[3], &[0i64, 2, 0]), &src]).unwrap();
        assert_close(&got, &[3], &[14.0, 20.0, 32.0]);
        assert!(layer.run(&[&x, &tensor(&[3], &[0i64, 3, 0]), &src]).is_err());
        assert!(layer.run(&[&x, &tensor(&[5], &[0i64; 5]), &src]).is_err());
    }

    #[test]
    fn rows_of_a_table() {
        let table = counting(DType::F32, &[3, 2]);
        let indices = tensor(&[1, 2], &[2i32, 0]);
        let params = [("num_embeddings", "3"), ("embedding_dim", "2"), ("sparse", "False")];
        let layer = operator("nn.Embedding", &params).with_attr("weight", table.clone());
        assert_close(&layer.run_one(&[&indices]).unwrap(), &[1, 2, 2], &[4.0, 5.0, 0.0, 1.0]);
        let function = operator("F.embedding", &[]).with_names(&["input", "weight"]);
        assert_eq!(function.run_one(&[&indices, &table]).unwrap(), layer.run_one(&[&indices]).unwrap());
        assert!(layer.run(&[&tensor(&[1], &[3i64])]).is_err());
        let n = TensorMeta::new(DType::I64, [Dim::symbol("n")]);
        assert_eq!(layer.infer(&[n]).unwrap()[0].to_string(), "n×2 f32");
    }

    #[test]
    fn odd_inputs() {
        for op_type in ["torch.index_select", "torch.gather"] {
            operator(op_type, &[("dim", "-1")]).survives(2);
        }
        operator("torch.scatter_add", &[("dim", "0")]).survives(3);
        operator("F.embedding", &[]).survives(2);
    }
}
