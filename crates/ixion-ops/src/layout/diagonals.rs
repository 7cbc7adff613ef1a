//! Diagonals and triangles of matrices: tril, triu, diagonal, diag_embed, diagflat, fill_diagonal.

use crate::indexing::scattering::check_source;
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, View, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::TensorOrScalar;
use crate::support::delegation::delegating;
use crate::support::views::{Plain, fill_with_zeros, view_layers, write_plain};
use ixion_tensor::{Dim, Layout, Shape, resolve_axis};
use std::ops::{Range, RangeInclusive};

delegating! {
    {
        /// The diagonal at which the triangle ends: 0 is the main one, positive values are above it, negative values
        /// below.
        diagonal: i64 = 0,
    }

    /// `torch.tril`: keeps the lower triangle of each matrix and sets the elements above to zero.
    Tril for "aten::tril" |layer| Triangle {
        diagonal: layer.diagonal,
        kept: |diagonal, columns| 0..diagonal.saturating_add(1).clamp(0, columns),
    };

    /// `torch.triu`: keeps the upper triangle of each matrix and sets the elements below to zero.
    Triu for "aten::triu" |layer| Triangle {
        diagonal: layer.diagonal,
        kept: |diagonal, columns| diagonal.clamp(0, columns)..columns,
    };
}

/// Copies some columns of each row of each matrix, and writes zeros elsewhere.
#[derive(Debug, Clone)]
struct Triangle {
    diagonal: i64,
    /// The columns to copy, given the column in which the row crosses the diagonal, and the number of columns.
    kept: fn(i64, i64) -> Range<i64>,
}

impl Layer for Triangle {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        if inputs[0].rank() < 2 {
            return Err(LayerError::shape("the input", "at least two axes", &inputs[0]));
        }
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for Triangle {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, output) = (&io.inputs[0], &mut io.outputs[0]);
        fill_with_zeros(output)?;
        let &[.., rows, columns] = input.shape().dims() else { return Ok(()) };
        let axis = input.shape().rank() - 2;
        for row in 0..rows {
            let kept = (self.kept)(self.diagonal.saturating_add(row as i64), columns as i64);
            let (start, len) = (kept.start as usize, (kept.end - kept.start) as usize);
            let part = |layout: &Layout| layout.narrow(axis, row, 1)?.narrow(axis + 1, start, len);
            let (from, to) = (part(input.layout())?, part(output.layout())?);
            output.reborrow().with_layout(to)?.copy_from(&input.with_layout(from)?)?;
        }
        Ok(())
    }
}

crate::operator! {
    /// `torch.diagonal`: replaces two axes by their diagonal, which becomes the last axis. A view.
    pub struct Diagonal for "aten::diagonal" {
        /// The diagonal: 0 is the main one, positive values are above it, negative values below.
        offset: i64 = 0,
        /// The axis of rows; a negative value counts from the end.
        dim1: i64 = 0,
        /// The axis of columns; a negative value counts from the end.
        dim2: i64 = 1,
    }
}

crate::operator! {
    /// `torch.linalg.diagonal`: replaces two axes, by default the last two, by their diagonal, which becomes the last axis. A
    /// view.
    pub struct DiagonalOfMatrices for "aten::linalg_diagonal" {
        /// The diagonal: 0 is the main one, positive values are above it, negative values below.
        offset: i64 = 0,
        /// The axis of rows; a negative value counts from the end.
        dim1: i64 = -2,
        /// The axis of columns; a negative value counts from the end.
        dim2: i64 = -1,
    }
}

crate::operator! {
    /// `torch.diagflat`: creates a square matrix with all elements of the input, in row-major order, on a diagonal and zeros
    /// elsewhere.
    pub struct DiagFlat for "aten::diagflat" {
        /// The diagonal: 0 is the main one, positive values are above it, negative values below.
        offset: i64 = 0,
    }
}

crate::operator! {
    /// `torch.diag_embed`: creates matrices with the input's last axis on a diagonal and zeros elsewhere.
    pub struct DiagEmbed for "aten::diag_embed" {
        /// The diagonal: 0 is the main one, positive values are above it, negative values below.
        offset: i64 = 0,
        /// The output's axis of rows; a negative value counts from the end.
        dim1: i64 = -2,
        /// The output's axis of columns; a negative value counts from the end.
        dim2: i64 = -1,
    }
}

crate::operator! {
    /// `torch.diagonal_scatter`: returns a copy of the input with its diagonal replaced by another tensor.
    pub struct DiagonalScatter for "aten::diagonal_scatter" {
        /// The tensor that replaces the diagonal.
        src: InputIndex,
        /// The diagonal: 0 is the main one, positive values are above it, negative values below.
        offset: i64 = 0,
        /// The axis of rows; a negative value counts from the end.
        dim1: i64 = 0,
        /// The axis of columns; a negative value counts from the end.
        dim2: i64 = 1,
    }
}

crate::operator! {
    /// `torch.Tensor.fill_diagonal_`: returns the input with a number along its main diagonal. An input of more than two axes
    /// must have axes of equal length.
    pub struct FillDiagonal for "aten::fill_diagonal" {
        /// The number.
        fill_value as "value": TensorOrScalar,
        /// Whether the diagonal of a tall matrix restarts one row below its end.
        wrap: bool = false,
    }
}

/// A diagonal of two different axes, with its offset above the main diagonal.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    offset: i64,
    rows: usize,
    columns: usize,
}

impl Place {
    /// The diagonal of two axes of a tensor of `rank` axes; negative ones count from the end.
    ///
    /// # Errors
    /// Returns an error if an axis is out of range, or if both are the same.
    pub fn new(offset: i64, dim1: i64, dim2: i64, rank: usize) -> Result<Self> {
        let (rows, columns) = (resolve_axis(dim1, rank)?, resolve_axis(dim2, rank)?);
        if rank > 1 && rows != columns {
            return Ok(Self { offset, rows, columns });
        }
        Err(LayerError::invalid("dim2", dim2, "it must differ from `dim1`"))
    }

    /// The row and the column in which the diagonal begins.
    fn start(&self) -> (usize, usize) {
        let distance = usize::try_from(self.offset.unsigned_abs()).unwrap_or(usize::MAX);
        if self.offset < 0 { (distance, 0) } else { (0, distance) }
    }

    fn dims(&self, dims: &[Dim]) -> Vec<Dim> {
        let (down, right) = self.start();
        let len = (dims[self.rows].clone() - down).min(dims[self.columns].clone() - right).max(0);
        let others = dims.iter().enumerate().filter(|(axis, _)| ![self.rows, self.columns].contains(axis));
        others.map(|(_, dim)| dim.clone()).chain([len]).collect()
    }

    /// The layout of the diagonal's elements in a tensor.
    pub fn layout(&self, whole: &Layout) -> Result<Layout> {
        let (down, right) = self.start();
        let (mut dims, mut strides) = (Vec::new(), Vec::new());
        for (axis, (&len, &stride)) in whole.shape().iter().zip(whole.strides()).enumerate() {
            if ![self.rows, self.columns].contains(&axis) {
                dims.push(len);
                strides.push(stride);
            }
        }
        let of = |axis: usize| (whole.shape()[axis], whole.strides()[axis]);
        let ((rows, row_stride), (columns, column_stride)) = (of(self.rows), of(self.columns));
        let len = rows.saturating_sub(down).min(columns.saturating_sub(right));
        dims.push(len);
        strides.push(row_stride.saturating_add(column_stride));
        let start = if len == 0 { 0 } else { down * row_stride + right * column_stride };
        Ok(Layout::strided(Shape::new(&dims)?, &strides, whole.offset() + start)?)
    }
}

impl Layer for Diagonal {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let place = Place::new(self.offset, self.dim1, self.dim2, inputs[0].rank())?;
        Ok(vec![inputs[0].with_dims(place.dims(inputs[0].dims()))])
    }

    fn view(&self, _: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>> {
        let place = Place::new(self.offset, self.dim1, self.dim2, inputs[0].shape().rank())?;
        Ok(Some(View { input: 0, layout: place.layout(&inputs[0])? }))
    }
}

view_layers!(Diagonal);

delegating! {
    DiagonalOfMatrices |layer| Diagonal { offset: layer.offset, dim1: layer.dim1, dim2: layer.dim2 };
}

impl DiagFlat {
    fn place(&self) -> Result<Place> {
        Place::new(self.offset, 0, 1, 2)
    }
}

impl Layer for DiagFlat {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (down, right) = self.place()?.start();
        let side = inputs[0].num_elements() + down + right;
        Ok(vec![inputs[0].with_dims([side.clone(), side])])
    }
}

impl CpuLayer for DiagFlat {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        fill_with_zeros(&mut io.outputs[0])?;
        let elements = Plain::flattened(&io.inputs[0])?;
        let diagonal = self.place()?.layout(io.outputs[0].layout())?;
        Ok(io.outputs[0].reborrow().with_layout(diagonal)?.copy_from(&elements.view())?)
    }
}

impl Layer for DiagEmbed {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let Some((last, others)) = inputs[0].dims().split_last() else {
            return Err(LayerError::shape("the input", "at least one axis", &inputs[0]));
        };
        let place = Place::new(self.offset, self.dim1, self.dim2, inputs[0].rank() + 1)?;
        let len = last.clone() + place.start().0 + place.start().1;
        let mut others = others.iter().cloned();
        let axis = |axis| if [place.rows, place.columns].contains(&axis) { None } else { others.next() };
        let dims: Vec<Option<Dim>> = (0..=inputs[0].rank()).map(axis).collect();
        Ok(vec![inputs[0].with_dims(dims.into_iter().map(|dim| dim.unwrap_or_else(|| len.clone())))])
    }
}

impl CpuLayer for DiagEmbed {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let place = Place::new(self.offset, self.dim1, self.dim2, io.outputs[0].shape().rank())?;
        fill_with_zeros(&mut io.outputs[0])?;
        let diagonal = place.layout(io.outputs[0].layout())?;
        Ok(io.outputs[0].reborrow().with_layout(diagonal)?.copy_from(&io.inputs[0])?)
    }
}

impl Layer for DiagonalScatter {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (input, src) = (&inputs[0], &inputs[self.src.0]);
        let place = Place::new(self.offset, self.dim1, self.dim2, input.rank())?;
        check_source(src, &input.with_dims(place.dims(input.dims())))?;
        Ok(vec![input.with_dims(input.dims().to_vec())])
    }
}

impl CpuLayer for DiagonalScatter {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        io.outputs[0].copy_from(&io.inputs[0])?;
        let place = Place::new(self.offset, self.dim1, self.dim2, io.outputs[0].shape().rank())?;
        let diagonal = place.layout(io.outputs[0].layout())?;
        Ok(io.outputs[0].reborrow().with_layout(diagonal)?.copy_from(&io.inputs[self.src.0])?)
    }
}

impl FillDiagonal {
    /// The number of elements on the diagonal, and the distance between them in row-major order.
    fn places(&self, dims: &[usize]) -> (usize, usize) {
        let step = dims.iter().rev().scan(1usize, |stride, &len| {
            let this = *stride;
            *stride = stride.saturating_mul(len);
            Some(this)
        });
        let step = step.fold(0, usize::saturating_add).max(1);
        let count: usize = dims.iter().product();
        let end = match dims {
            [_, columns] if !self.wrap => count.min(columns.saturating_mul(*columns)),
            _ => count,
        };
        (end.div_ceil(step), step)
    }
}

impl Layer for FillDiagonal {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let dims = inputs[0].dims();
        if dims.len() < 2 || (dims.len() > 2 && dims.windows(2).any(|pair| pair[0] != pair[1])) {
            let wanted = "two axes, or more axes of equal length";
            return Err(LayerError::shape("the input", wanted, &inputs[0]));
        }
        self.fill_value.check_fits(inputs[0].dtype())?;
        Ok(vec![inputs[0].with_dims(dims.to_vec())])
    }
}

impl CpuLayer for FillDiagonal {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let value = self.fill_value.number(io.inputs, io.inputs[0].dtype())?;
        let (count, step) = self.places(io.inputs[0].shape().dims());
        if value.is_empty() || count == 0 {
            return Ok(io.outputs[0].copy_from(&io.inputs[0])?);
        }
        let values = value.reshape(&[1])?.expand(&[count])?;
        write_plain(&mut io.outputs[0], &mut |output| {
            output.copy_from(&io.inputs[0])?;
            let diagonal = Layout::strided(Shape::new(&[count])?, &[step], output.layout().offset())?;
            Ok(output.reborrow().with_layout(diagonal)?.copy_from(&values.view())?)
        })
    }
}

operators! {
    Tril, Triu, Diagonal, DiagonalOfMatrices, DiagEmbed, DiagFlat, DiagonalScatter, FillDiagonal
}

#[cfg(test)]
mod tests {
    use crate::support::testing::{counting, operator};
    use ixion_tensor::{DType, Tensor};

    fn values(op_type: &str, params: &[(&str, &str)], inputs: &[&Tensor]) -> Vec<i64> {
        operator(op_type, params).run_one(inputs).unwrap().to_vec().unwrap()
    }

    #[test]
    fn triangles() {
        let x = counting(DType::I64, &[2, 3]);
        assert_eq!(values("aten::tril", &[], &[&x]), [0, 0, 0, 3, 4, 0]);
        assert_eq!(values("aten::triu", &[("diagonal", "1")], &[&x]), [0, 1, 2, 0, 0, 5]);
        assert!(operator("aten::tril", &[]).run(&[&counting(DType::I64, &[3])]).is_err());
    }

    #[test]
    fn diagonals() {
        let x = counting(DType::I64, &[2, 3]);
        assert_eq!(values("aten::diagonal", &[("offset", "1")], &[&x]), [1, 5]);
        assert_eq!(values("aten::diagonal", &[("offset", "9")], &[&x]), [] as [i64; 0]);
        let matrices = counting(DType::I64, &[2, 2, 3]);
        assert_eq!(values("aten::linalg_diagonal", &[], &[&matrices]), [0, 4, 6, 10]);
        assert_eq!(values("aten::linalg_diagonal", &[("offset", "-1")], &[&matrices]), [3, 9]);
        let y = counting(DType::I64, &[2]);
        assert_eq!(values("aten::diag_embed", &[("offset", "-1")], &[&y]), [0, 0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(
            values("aten::diagonal_scatter", &[], &[&x, &counting(DType::I64, &[2])]),
            [0, 1, 2, 3, 1, 5]
        );
        let flat = values("aten::diagflat", &[], &[&counting(DType::I64, &[1, 2]).permute(&[1, 0]).unwrap()]);
        assert_eq!(flat, [0, 0, 0, 1]);
        assert_eq!(values("aten::diagflat", &[("offset", "1")], &[&Tensor::scalar(5i64)]), [0, 5, 0, 0]);
        let empty = operator("aten::diagflat", &[("offset", "-2")]).run_one(&[&counting(DType::F32, &[0])]);
        assert_eq!(empty.unwrap(), Tensor::zeros(DType::F32, &[2, 2]).unwrap());
        let tall = counting(DType::I64, &[4, 2]);
        assert_eq!(values("aten::fill_diagonal", &[("value", "9")], &[&tall]), [9, 1, 2, 9, 4, 5, 6, 7]);
        let wrapped = values("aten::fill_diagonal", &[("value", "9"), ("wrap", "True")], &[&tall]);
        assert_eq!(wrapped, [9, 1, 2, 9, 4, 5, 9, 7]);
    }

    #[test]
    fn odd_inputs() {
        for op_type in ["aten::tril", "aten::triu", "aten::diagonal", "aten::diag_embed", "aten::diagflat"] {
            operator(op_type, &[]).survives(1);
        }
        operator("aten::linalg_diagonal", &[]).survives(1);
        for offset in ["-9223372036854775808", "9223372036854775807"] {
            operator("aten::diagonal", &[("offset", offset)]).survives(1);
            operator("aten::diagflat", &[("offset", offset)]).survives(1);
        }
        operator("aten::diagonal_scatter", &[]).survives(2);
        operator("aten::fill_diagonal", &[("value", "1")]).survives(1);
    }
}
