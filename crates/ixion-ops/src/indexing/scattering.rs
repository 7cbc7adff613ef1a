//! Writing elements at given indices: scatter, scatter_reduce, index_copy, select_scatter.

use crate::indexing::by_index::{check_indices, check_within, read_indices, view_with_axis, with_axis};
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::TensorOrScalar;
use crate::support::choices::choices;
use crate::support::number::Number;
use crate::support::views::{axis_of, write_plain};
use ixion_kernels::take::each_place;
use ixion_tensor::{
    Complex, DType, Element, Layout, Shape, Tensor, TensorView, resolve_axis, resolve_index, with_bits,
};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.scatter`: writes each element of `src` into a copy of the input, at the index along one axis that `index` gives,
    /// and at the same position as the element along all others. If positions repeat, the last element is kept. With `reduce`,
    /// the elements are added to or multiplied with those of the input.
    pub struct Scatter for "aten::scatter" {
        /// The axis; may be negative, counting from the end.
        dim: i64,
        /// The indices.
        index: InputIndex,
        /// The elements to write: an input of the same element type, or a number.
        src: TensorOrScalar,
        /// How the elements are joined with those of the input; by default they replace them.
        reduce: Option<ScatterJoin> = None,
    }
}

choices! {
    /// How two elements are joined to one.
    pub enum ScatterJoin {
        /// Their sum.
        Add = "add",
        /// Their product.
        Multiply = "multiply",
    }
}

crate::operator! {
    /// `torch.scatter_reduce`: as `torch.scatter`, except that all elements written to one position are reduced to one.
    pub struct ScatterReduce for "aten::scatter_reduce" {
        /// The axis; may be negative, counting from the end.
        dim: i64,
        /// The indices.
        index: InputIndex,
        /// The elements to reduce; at least as long as `index` along every axis.
        src: InputIndex,
        /// The reduction.
        reduce: ScatterReduction,
        /// Whether the input's own elements are included in the reduction.
        include_self: bool = true,
    }
}

choices! {
    /// A reduction of several elements to one.
    pub enum ScatterReduction {
        /// Their sum.
        Sum = "sum",
        /// Their product.
        Product = "prod",
        /// Their mean; rounded down for integers.
        Mean = "mean",
        /// The largest.
        Amax = "amax",
        /// The smallest.
        Amin = "amin",
    }
}

crate::operator! {
    /// `torch.index_copy`: a copy of the input with the slices of `source` at the given indices of one axis.
    pub struct IndexCopy for "aten::index_copy" {
        /// The axis; may be negative, counting from the end.
        dim: i64,
        /// The indices, a vector.
        index: InputIndex,
        /// The slices to write: as many along the axis as there are indices.
        source: InputIndex,
    }
}

crate::operator! {
    /// `torch.select_scatter`: a copy of the input with `src` at one index of an axis.
    pub struct SelectScatter for "aten::select_scatter" {
        /// The slice to write; of the input's shape without the axis.
        src: InputIndex,
        /// The axis; may be negative, counting from the end.
        dim: i64,
        /// The index; may be negative, counting from the end.
        index: i64,
    }
}

/// Checks the ranks, lengths and types for scattering.
fn check(inputs: &[TensorMeta], dim: i64, index: usize, src: Option<usize>) -> Result<Vec<TensorMeta>> {
    let (input, index) = (with_axis(&inputs[0]), with_axis(&inputs[index]));
    check_indices("the index", &index)?;
    let axis = axis_of(dim, &input)?;
    let is_empty = index.num_elements() == 0usize;
    if !is_empty {
        check_within(&index, &input, Some(axis))?;
    }
    if let Some(src) = src.map(|src| &inputs[src]) {
        if !is_empty {
            check_within(&index, &with_axis(src), None)?;
        }
        if src.dtype() != inputs[0].dtype() {
            return Err(LayerError::dtype("the source", inputs[0].dtype(), src.dtype()));
        }
    }
    Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
}

/// The metadata of the slices of an input at the indices of an axis, as many as a vector of indices has elements.
pub(crate) fn slices_at(index: &TensorMeta, input: &TensorMeta, dim: i64) -> Result<TensorMeta> {
    check_indices("the index", index)?;
    if index.rank() > 1 {
        return Err(LayerError::shape("the index", "a vector", index));
    }
    let mut dims = input.dims().to_vec();
    if let Some(len) = dims.get_mut(resolve_axis(dim, input.rank())?) {
        *len = index.num_elements();
    }
    Ok(input.with_dims(dims))
}

/// Checks that a source has the shape and element type of the part of a tensor to which it is written.
pub(crate) fn check_source(source: &TensorMeta, part: &TensorMeta) -> Result<()> {
    if source.may_have_dims(part.dims()) && source.dtype() == part.dtype() {
        return Ok(());
    }
    Err(LayerError::shape("the source", part, source))
}

/// The indices of a tensor: its shape, the axis along which they count, and all of them in row-major order.
struct Places {
    shape: Shape,
    axis: usize,
    indices: Vec<usize>,
}

impl Places {
    fn new(index: &TensorView<'_>, dim: i64, whole: &Shape) -> Result<Self> {
        let axis = resolve_axis(dim, whole.rank())?;
        let indices = read_indices(index, whole.get(axis).copied().unwrap_or(1))?;
        Ok(Self { shape: *index.shape(), axis, indices })
    }
}

impl Layer for Scatter {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.src.check_fits(inputs[0].dtype())?;
        let src = match self.src {
            TensorOrScalar::Input(position) => {
                Some(position).filter(|_| inputs[0].rank() == 0 || inputs[position].rank() > 0)
            }
            TensorOrScalar::Number(_) => None,
        };
        check(inputs, self.dim, self.index.0, src)
    }
}

impl CpuLayer for Scatter {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let input = view_with_axis(&io.inputs[0])?;
        let places = Places::new(&view_with_axis(&io.inputs[self.index.0])?, self.dim, input.shape())?;
        let source = match self.src {
            TensorOrScalar::Input(position)
                if io.inputs[position].shape().rank() > 0 || io.inputs[0].shape().rank() == 0 =>
            {
                view_with_axis(&io.inputs[position])?.to_tensor()?
            }
            src => src.number(io.inputs, io.inputs[0].dtype())?,
        };
        if let Some(join) = self.reduce {
            let joined = join.run(&input, &places, &source.view())?.reshape(io.outputs[0].shape())?;
            return Ok(io.outputs[0].copy_from(&joined.view())?);
        }
        // A single number is broadcast.
        let (across, along) = (Layout::contiguous(*input.shape()), *source.layout());
        let layout = io.outputs[0].layout().reshape(input.shape())?.unwrap_or(*io.outputs[0].layout());
        write_plain(&mut io.outputs[0].reborrow().with_layout(layout)?, &mut |output| {
            output.copy_from(&input)?;
            with_bits!(output.dtype(), B => {
                let source = source.view();
                let (from, to) = (source.bits_slice::<B>()?, output.bits_slice::<B>()?);
                let Places { shape, axis, indices } = &places;
                each_place(shape, *axis, indices, across.strides(), along.strides(), |target, source| {
                    to[target] = from[source];
                });
            });
            Ok(())
        })
    }
}

/// The input's elements as `T`, in row-major order, after each element of the source has been joined with the one at its place.
/// `join` gets the place, the element there and that of the source. A source without axes is a single number.
fn joined<T: Element>(
    input: &TensorView<'_>,
    places: &Places,
    src: &TensorView<'_>,
    mut join: impl FnMut(usize, T, T) -> T,
) -> Result<Vec<T>> {
    let mut result = input.cast(T::DTYPE)?.to_vec::<T>()?;
    let src = src.cast(T::DTYPE)?;
    let elements = src.slice::<T>()?;
    let (across, along) = (Layout::contiguous(*input.shape()), *src.layout());
    let Places { shape, axis, indices } = places;
    each_place(shape, *axis, indices, across.strides(), along.strides(), |to, from| {
        result[to] = join(to, result[to], elements[from]);
    });
    Ok(result)
}

impl ScatterJoin {
    /// The input with the elements of the source added or multiplied, in the type of the input.
    fn run(self, input: &TensorView<'_>, places: &Places, src: &TensorView<'_>) -> Result<Tensor> {
        let joined = match input.dtype() {
            DType::F32 | DType::F64 | DType::F16 | DType::Bf16 => self.run_in::<f64>(input, places, src),
            DType::C32 | DType::C64 | DType::C128 => self.run_in::<Complex<f64>>(input, places, src),
            // For bool, sums and products of zeros and ones stand for "or" and "and".
            _ => self.run_in::<i64>(input, places, src),
        };
        Ok(joined?.cast(input.dtype())?)
    }

    fn run_in<T: Number>(
        self,
        input: &TensorView<'_>,
        places: &Places,
        src: &TensorView<'_>,
    ) -> Result<Tensor> {
        let join = match self {
            Self::Add => T::plus,
            Self::Multiply => T::times,
        };
        let joined = joined(input, places, src, |_, a: T, b: T| join(a, b))?;
        Ok(Tensor::from_vec(joined, input.shape())?)
    }
}

impl Layer for ScatterReduce {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        if inputs[0].dtype().is_complex() || inputs[0].dtype() == DType::Bool {
            return Err(LayerError::dtype("the input", "real numbers", inputs[0].dtype()));
        }
        check(inputs, self.dim, self.index.0, Some(self.src.0))
    }
}

/// A real number type that elements are reduced in.
trait Reducible: Number + PartialOrd {
    fn product(self, other: Self) -> Self;
    fn part(self, count: usize) -> Self;
}

impl Reducible for f64 {
    fn product(self, other: Self) -> Self {
        self * other
    }

    fn part(self, count: usize) -> Self {
        self / count as f64
    }
}

impl Reducible for i64 {
    fn product(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }

    fn part(self, count: usize) -> Self {
        self.div_euclid(i64::try_from(count).unwrap_or(i64::MAX).max(1))
    }
}

impl ScatterReduce {
    fn run<T: Reducible>(&self, inputs: &[TensorView<'_>], places: &Places) -> Result<Tensor> {
        let (input, src) = (view_with_axis(&inputs[0])?, view_with_axis(&inputs[self.src.0])?);
        let mut counts = vec![usize::from(self.include_self); input.num_elements()];
        let result = joined(&input, places, &src, |to, current: T, value| {
            counts[to] += 1;
            if counts[to] == 1 { value } else { self.join(current, value) }
        })?;
        let result = Tensor::from_vec(result, input.shape())?.cast(input.dtype())?;
        if self.reduce != ScatterReduction::Mean {
            return Ok(result);
        }
        // As in PyTorch, sums that the input's type cannot hold have wrapped around before they are divided.
        let mut means = result.cast(T::DTYPE)?.to_vec::<T>()?;
        means.iter_mut().zip(&counts).for_each(|(sum, &count)| *sum = sum.part(count.max(1)));
        Ok(Tensor::from_vec(means, input.shape())?.cast(input.dtype())?)
    }

    fn join<T: Reducible>(&self, a: T, b: T) -> T {
        let is_nan = |x: T| x.partial_cmp(&x).is_none();
        let one = T::of(1.0);
        match self.reduce {
            ScatterReduction::Sum | ScatterReduction::Mean => T::weighted(one, a, one, b),
            ScatterReduction::Product => a.product(b),
            ScatterReduction::Amax if b > a || is_nan(b) => b,
            ScatterReduction::Amin if b < a || is_nan(b) => b,
            ScatterReduction::Amax | ScatterReduction::Amin => a,
        }
    }
}

impl CpuLayer for ScatterReduce {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let whole = *view_with_axis(&io.inputs[0])?.shape();
        let places = Places::new(&view_with_axis(&io.inputs[self.index.0])?, self.dim, &whole)?;
        let joined = match io.inputs[0].dtype().is_float() {
            true => self.run::<f64>(io.inputs, &places)?,
            false => self.run::<i64>(io.inputs, &places)?,
        };
        Ok(io.outputs[0].copy_from(&joined.reshape(io.inputs[0].shape())?.view())?)
    }
}

impl Layer for IndexCopy {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let wanted = slices_at(&inputs[self.index.0], &inputs[0], self.dim)?;
        check_source(&inputs[self.source.0], &wanted)?;
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for IndexCopy {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if io.inputs[0].shape().rank() == 0 {
            return Ok(io.outputs[0].copy_from(&io.inputs[self.source.0])?);
        }
        io.outputs[0].copy_from(&io.inputs[0])?;
        let axis = io.inputs[0].shape().axis(self.dim)?;
        let indices = read_indices(&io.inputs[self.index.0], io.inputs[0].shape()[axis])?;
        let (source, whole) = (&io.inputs[self.source.0], *io.outputs[0].layout());
        for (from, to) in indices.into_iter().enumerate() {
            let part = source.with_layout(source.layout().select(axis, from)?)?;
            io.outputs[0].reborrow().with_layout(whole.select(axis, to)?)?.copy_from(&part)?;
        }
        Ok(())
    }
}

impl Layer for SelectScatter {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let mut wanted = inputs[0].dims().to_vec();
        wanted.remove(axis_of(self.dim, &inputs[0])?);
        let (wanted, src) = (inputs[0].with_dims(wanted), &inputs[self.src.0]);
        check_source(src, &wanted)?;
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for SelectScatter {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        io.outputs[0].copy_from(&io.inputs[0])?;
        let axis = io.inputs[0].shape().axis(self.dim)?;
        let index = resolve_index(self.index, io.inputs[0].shape()[axis])?;
        let layout = io.outputs[0].layout().select(axis, index)?;
        Ok(io.outputs[0].reborrow().with_layout(layout)?.copy_from(&io.inputs[self.src.0])?)
    }
}

operators! {
    Scatter: writes(Replaces), ScatterReduce: writes(Combines), IndexCopy: writes(Replaces), SelectScatter
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{counting, operator, tensor};

    #[test]
    fn elements_are_written_or_reduced() {
        let (x, src) = (tensor(&[3], &[10i64, 20, 30]), tensor(&[4], &[1i64, 2, 4, 8]));
        let index = tensor(&[3], &[0i64, 2, 0]);
        let names = ["input", "index", "src"];
        let scatter = operator("aten::scatter", &[("dim", "0")]).with_names(&names);
        assert_eq!(scatter.run_one(&[&x, &index, &src]).unwrap().to_vec::<i64>().unwrap(), [4, 20, 2]);
        let number = operator("aten::scatter", &[("dim", "0"), ("src", "7")]).with_names(&names[..2]);
        assert_eq!(number.run_one(&[&x, &index]).unwrap().to_vec::<i64>().unwrap(), [7, 20, 7]);
        let reduce = |reduce, include_self| {
            let params = [("dim", "0"), ("reduce", reduce), ("include_self", include_self)];
            let layer = operator("aten::scatter_reduce", &params).with_names(&names);
            layer.run_one(&[&x, &index, &src]).unwrap().to_vec::<i64>().unwrap()
        };
        assert_eq!(reduce("sum", "True"), [15, 20, 32]);
        assert_eq!(reduce("sum", "False"), [5, 20, 2]);
        assert_eq!(reduce("prod", "True"), [40, 20, 60]);
        assert_eq!(reduce("mean", "True"), [5, 20, 16]);
        assert_eq!(reduce("amax", "False"), [4, 20, 2]);
        assert_eq!(reduce("amin", "True"), [1, 20, 2]);
        assert!(scatter.run(&[&x, &tensor(&[1], &[3i64]), &src]).is_err());
        // Sums wrap around before they are divided.
        let bytes = [tensor(&[1], &[200u8]), tensor(&[2], &[0i64, 0]), tensor(&[2], &[100u8, 3])];
        let mean = operator("aten::scatter_reduce", &[("dim", "0"), ("reduce", "mean")]).with_names(&names);
        assert_eq!(mean.run_one(&bytes.each_ref()).unwrap().to_vec::<u8>().unwrap(), [15]);
    }

    /// PyTorch's results.
    #[test]
    fn elements_are_added_or_multiplied() {
        let names = ["input", "index", "src"];
        let (x, src) = (tensor(&[3], &[3i64, 200, 1]), tensor(&[4], &[2i64, 100, 2, 3]));
        let index = tensor(&[4], &[0i64, 0, 2, 2]);
        let both = |dtype| {
            let (x, src) = (x.cast(dtype).unwrap(), src.cast(dtype).unwrap());
            ["add", "multiply"].map(|reduce| {
                let layer = operator("aten::scatter", &[("dim", "0"), ("reduce", reduce)]).with_names(&names);
                let joined = layer.run_one(&[&x, &index, &src]).unwrap();
                assert_eq!(joined.dtype(), dtype);
                joined.cast(DType::I64).unwrap().to_vec::<i64>().unwrap()
            })
        };
        for dtype in [DType::F32, DType::F64, DType::F16, DType::Bf16, DType::I64, DType::I32, DType::C64] {
            assert_eq!(both(dtype), [[105, 200, 6], [600, 200, 6]], "{dtype}");
        }
        assert_eq!(both(DType::U8), [[105, 200, 6], [88, 200, 6]]);
        assert_eq!(both(DType::Bool), [[1, 1, 1], [1, 1, 1]]);
        let number = |src, reduce| {
            let params = [("dim", "-1"), ("src", src), ("reduce", reduce)];
            let layer = operator("aten::scatter", &params).with_names(&names[..2]);
            layer.run_one(&[&x, &index]).map(|joined| joined.to_vec::<i64>().unwrap())
        };
        assert_eq!(number("2.7", "add").unwrap(), [7, 200, 5]);
        assert_eq!(number("3", "multiply").unwrap(), [27, 200, 9]);
        let error = number("3", "sum").unwrap_err().to_string();
        assert_eq!(error, "parameter `reduce`: expected one of add multiply, got `sum`");
        let (x, index) = (Tensor::scalar(2.0f32), tensor(&[2], &[0i64, 0]));
        let params = [("dim", "0"), ("src", "3.0"), ("reduce", "multiply")];
        let layer = operator("aten::scatter", &params).with_names(&names[..2]);
        assert_eq!(layer.run_one(&[&x, &index]).unwrap().item::<f32>().unwrap(), 18.0);
    }

    #[test]
    fn slices_are_written() {
        let x = counting(DType::I64, &[2, 3]);
        let copy = operator("aten::index_copy", &[("dim", "1")]).with_names(&["input", "index", "source"]);
        let parts = tensor(&[2, 2], &[7i64, 8, 9, 6]);
        let got = copy.run_one(&[&x, &tensor(&[2], &[2i64, 0]), &parts]).unwrap();
        assert_eq!(got.to_vec::<i64>().unwrap(), [8, 1, 7, 6, 4, 9]);
        let select = operator("aten::select_scatter", &[("dim", "1"), ("index", "-1")]);
        let got = select.run_one(&[&x, &tensor(&[2], &[7i64, 8])]).unwrap();
        assert_eq!(got.to_vec::<i64>().unwrap(), [0, 1, 7, 3, 4, 8]);
    }

    #[test]
    fn odd_inputs() {
        for dim in ["0", "-1"] {
            operator("aten::scatter", &[("dim", dim)]).with_names(&["input", "index", "src"]).survives(3);
            operator("aten::scatter", &[("dim", dim), ("reduce", "add")]).survives(3);
            operator("aten::scatter", &[("dim", dim), ("src", "2"), ("reduce", "multiply")]).survives(2);
            operator("aten::scatter_reduce", &[("dim", dim), ("reduce", "mean")]).survives(3);
            operator("aten::index_copy", &[("dim", dim)]).survives(3);
            operator("aten::select_scatter", &[("dim", dim), ("index", "0")]).survives(2);
        }
    }
}
