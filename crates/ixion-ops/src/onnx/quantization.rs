//! Quantisation: an integer q represents (q − zero point) · scale.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::{ElementType, Optional};
use super::lowering::Source;
use crate::indexing::selection::Clamp;
use crate::layout::repetition::RepeatInterleave;
use crate::matmul::product::Matmul;
use crate::op::{LayerError, Result};
use crate::reduction::along_axes::{Amax, Amin};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::TensorOrScalar;
use crate::support::shape_cache::ShapeCache;
use crate::support::views::axis_of;
use ixion_tensor::{DType, Dim, Scalar};

const X: Source = Source::Input(0);

crate::operator! {
    /// `QuantizeLinear` (since 10): quantisation, round(x / scale) + zero point, saturated to the output's type. Ties
    /// round to even.
    pub struct QuantizeLinear for "QuantizeLinear" {
        /// Axis of the scale and the zero point if they are vectors; a negative one counts from the end.
        axis: i64 = 1,
        /// Number of elements along the axis that share a scale; 0 without blocks.
        block_size: usize = 0,
        /// Element type of the output if there is no zero point, as its ONNX number; u8 if absent.
        output_dtype: Option<ElementType> = None,
        /// Accepted for compatibility: it affects 8-bit floats only.
        saturate: i64 = 1,
        /// The scale.
        y_scale: InputIndex,
        /// The zero point, which determines the output's element type; if absent, 0.
        y_zero_point: Optional = Optional(None),
    }
}

crate::operator! {
    /// `DequantizeLinear` (since 10): dequantisation, (x − zero point) · scale.
    pub struct DequantizeLinear for "DequantizeLinear" {
        /// Axis of the scale and the zero point if they are vectors; a negative one counts from the end.
        axis: i64 = 1,
        /// Number of elements along the axis that share a scale; 0 without blocks.
        block_size: usize = 0,
        /// The scale, which determines the output's element type.
        x_scale: InputIndex,
        /// The zero point; 0 if absent.
        x_zero_point: Optional = Optional(None),
    }
}

crate::operator! {
    /// `DynamicQuantizeLinear` (since 11): quantisation to u8 by the range of the input, with the scale and the zero
    /// point as further outputs.
    pub struct DynamicQuantizeLinear for "DynamicQuantizeLinear" {}
}

crate::operator! {
    /// `MatMulInteger` (since 10): the product of integer matrices, as i32.
    pub struct MatMulInteger for "MatMulInteger" {
        /// The second matrix.
        b as "B": InputIndex,
        /// Zero point of the first matrix, one for all or one per row; 0 if absent.
        a_zero_point: Optional = Optional(None),
        /// Zero point of the second matrix, one for all or one per column; 0 if absent.
        b_zero_point: Optional = Optional(None),
    }
}

crate::operator! {
    /// `QLinearMatMul` (since 10): the product of quantised matrices, with a quantised result.
    pub struct QLinearMatMul for "QLinearMatMul" {
        /// Scale of the first matrix, one for all or one per row.
        a_scale: InputIndex,
        /// Zero point of the first matrix.
        a_zero_point: InputIndex,
        /// The second matrix.
        b: InputIndex,
        /// Scale of the second matrix, one for all or one per column.
        b_scale: InputIndex,
        /// Zero point of the second matrix.
        b_zero_point: InputIndex,
        /// Scale of the output.
        y_scale: InputIndex,
        /// Zero point of the output.
        y_zero_point: InputIndex,
    }
}

/// A scale or zero point in a shape that is broadcast to `x`: one value, or one for each element or block of an axis.
pub(super) fn along(
    decomposition: &mut Decomposition,
    of: Source,
    x: Source,
    axis: i64,
    block: usize,
) -> Result<Source> {
    let (meta, whole) = (decomposition.meta(of)?.clone(), decomposition.meta(x)?.clone());
    if block > 0 {
        let (repeats, dim) = (block.to_string(), axis.to_string());
        let repeats = [("repeats", repeats.as_str()), ("dim", dim.as_str())];
        return decomposition.call::<RepeatInterleave>(&repeats, &[(None, of)], 1);
    }
    match meta.dims() {
        [] => Ok(of),
        [len] if *len == 1usize => decomposition.reshape(Vec::new(), of),
        [len] => {
            // A single value would have no axes, which matters for the element type of arithmetic with it.
            if len.fixed().is_none() {
                decomposition.depend_on_sizes();
            }
            let axis = axis_of(axis, &whole)?;
            let mut dims = vec![Dim::Fixed(1); whole.rank()];
            if let Some(dim) = dims.get_mut(axis) {
                *dim = len.clone();
            }
            decomposition.reshape(dims, of)
        }
        _ => Ok(of),
    }
}

/// Rounds values, adds a zero point, and saturates them to the zero point's element type.
pub(super) fn rounded(decomposition: &mut Decomposition, x: Source, zero: Source) -> Result<Source> {
    let dtype = decomposition.dtype(zero)?;
    let number = decomposition.dtype(x)?;
    let zero = decomposition.cast(zero, number)?;
    let moved = decomposition.compute("add(round(@0),@1)", &[x, zero])?;
    within(decomposition, moved, dtype)
}

/// Converts values to an integer type, saturating.
fn within(decomposition: &mut Decomposition, x: Source, dtype: DType) -> Result<Source> {
    let (least, most) = match dtype {
        DType::U8 => (0, 255),
        DType::I8 => (-128, 127),
        DType::I16 => (-32_768, 32_767),
        DType::I32 => (-2_147_483_648, 2_147_483_647),
        found => return Err(LayerError::dtype("the zero point", "u8, i8, i16 and i32", found)),
    };
    let bound = |number| Some(TensorOrScalar::Number(Scalar::Float(f64::from(number))));
    let clamp = Clamp { min: bound(least), max: bound(most), ready: ShapeCache::default() };
    let kept = decomposition.then(clamp, &[x])?;
    decomposition.cast(kept, dtype)
}

/// The product of the first two scales over the third, in f64.
pub(super) fn ratio(decomposition: &mut Decomposition, scales: [Source; 3]) -> Result<Source> {
    let mut wide = scales;
    for scale in &mut wide {
        *scale = match decomposition.meta(*scale)?.dims() {
            [len] if *len == 1usize => decomposition.reshape(Vec::new(), *scale)?,
            _ => *scale,
        };
        *scale = decomposition.cast(*scale, DType::F64)?;
    }
    decomposition.compute("div(mul(@0,@1),@2)", &wide)
}

impl Decompose for QuantizeLinear {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis"), ("repeats", "block_size")]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let scale = along(decomposition, Source::Input(self.y_scale.0), X, self.axis, self.block_size)?;
        let steps = decomposition.compute("div(@0,@1)", &[X, scale])?;
        let Some(zero) = self.y_zero_point.source() else {
            let rounded = decomposition.compute("round(@0)", &[steps])?;
            let dtype = self.output_dtype.map_or(DType::U8, |dtype| dtype.0);
            return Ok(vec![within(decomposition, rounded, dtype)?]);
        };
        let zero = along(decomposition, zero, X, self.axis, self.block_size)?;
        Ok(vec![rounded(decomposition, steps, zero)?])
    }
}

impl Decompose for DequantizeLinear {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis"), ("repeats", "block_size")]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let scale = Source::Input(self.x_scale.0);
        let dtype = decomposition.dtype(scale)?;
        let scale = along(decomposition, scale, X, self.axis, self.block_size)?;
        let mut x = decomposition.cast(X, dtype)?;
        if let Some(zero) = self.x_zero_point.source() {
            let zero = along(decomposition, zero, X, self.axis, self.block_size)?;
            let zero = decomposition.cast(zero, dtype)?;
            x = decomposition.compute("sub(@0,@1)", &[x, zero])?;
        }
        Ok(vec![decomposition.compute("mul(@0,@1)", &[x, scale])?])
    }
}

impl Decompose for DynamicQuantizeLinear {
    fn num_outputs(&self) -> usize {
        3
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let least = decomposition.then(Amin { dim: None, keepdim: false }, &[X])?;
        let most = decomposition.then(Amax { dim: None, keepdim: false }, &[X])?;
        // The range includes 0.
        let (zero, ready) = (Some(TensorOrScalar::Number(Scalar::Float(0.0))), ShapeCache::default);
        let least = decomposition.then(Clamp { min: None, max: zero, ready: ready() }, &[least])?;
        let most = decomposition.then(Clamp { min: zero, max: None, ready: ready() }, &[most])?;
        let scale = decomposition.compute("div(sub(@1,@0),255.0)", &[least, most])?;
        let start = decomposition.compute("round(div(neg(@0),@1))", &[least, scale])?;
        let start = within(decomposition, start, DType::U8)?;
        let steps = decomposition.compute("div(@0,@1)", &[X, scale])?;
        Ok(vec![rounded(decomposition, steps, start)?, scale, start])
    }
}

/// Integers minus their zero point, in a type that holds the sums of their products.
fn centred(
    decomposition: &mut Decomposition,
    x: Source,
    zero: Option<Source>,
    (axis, dtype): (i64, DType),
) -> Result<Source> {
    let wide = decomposition.cast(x, dtype)?;
    let Some(zero) = zero else { return Ok(wide) };
    let zero = along(decomposition, zero, x, axis, 0)?;
    let zero = decomposition.cast(zero, dtype)?;
    decomposition.compute("sub(@0,@1)", &[wide, zero])
}

/// The type in which products of matrices of bytes are computed exactly: f32 if no sum can exceed its integers, else f64. Both are
/// much faster than i32.
fn exact_type(decomposition: &Decomposition, matrices: [Source; 2], has_zeros: [bool; 2]) -> Result<DType> {
    let mut most = 1i64;
    for (matrix, has_zero) in matrices.into_iter().zip(has_zeros) {
        most *= if decomposition.dtype(matrix)? == DType::I8 && !has_zero { 128 } else { 255 };
    }
    let [a, _] = matrices;
    let len = decomposition.meta(a)?.dims().last().and_then(Dim::fixed);
    let fits = len.and_then(|len| len.checked_mul(most)).is_some_and(|sum| sum <= 1 << 24);
    Ok(if fits { DType::F32 } else { DType::F64 })
}

fn product(decomposition: &mut Decomposition, a: Source, b: Source) -> Result<Source> {
    decomposition
        .then(Matmul { other: InputIndex(1), epilogue: None, on_device: Default::default() }, &[a, b])
}

impl Decompose for MatMulInteger {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let (b, zeros) = (Source::Input(self.b.0), [self.a_zero_point, self.b_zero_point]);
        let dtype = exact_type(decomposition, [X, b], zeros.map(|zero| zero.0.is_some()))?;
        let a = centred(decomposition, X, self.a_zero_point.source(), (-2, dtype))?;
        let b = centred(decomposition, b, self.b_zero_point.source(), (-1, dtype))?;
        let product = product(decomposition, a, b)?;
        Ok(vec![decomposition.cast(product, DType::I32)?])
    }
}

impl Decompose for QLinearMatMul {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let inputs =
            [self.a_zero_point, self.b, self.b_zero_point, self.y_zero_point].map(|at| Source::Input(at.0));
        let [a_zero, b, b_zero, y_zero] = inputs;
        let scales = [self.a_scale, self.b_scale, self.y_scale].map(|at| Source::Input(at.0));
        let dtype = exact_type(decomposition, [X, b], [true, true])?;
        let a = centred(decomposition, X, Some(a_zero), (-2, dtype))?;
        let b = centred(decomposition, b, Some(b_zero), (-1, dtype))?;
        let product = product(decomposition, a, b)?;
        let [a_scale, b_scale, y_scale] = scales;
        let a_scale = along(decomposition, a_scale, product, -2, 0)?;
        let b_scale = along(decomposition, b_scale, product, -1, 0)?;
        let scale = ratio(decomposition, [a_scale, b_scale, y_scale])?;
        let wide = decomposition.cast(product, DType::F64)?;
        let scaled = decomposition.compute("mul(@0,@1)", &[wide, scale])?;
        let zero = along(decomposition, y_zero, scaled, -1, 0)?;
        Ok(vec![rounded(decomposition, scaled, zero)?])
    }
}

operators! {
    entry => QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, MatMulInteger, QLinearMatMul; category Weighted
}
