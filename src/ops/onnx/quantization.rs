//! Numbers that integers stand for: each is (integer − zero point) · scale.

use super::fields::{ElementType, Optional};
use super::recipe::{Recipe, Source};
use super::steps::InShape;
use super::translated::{Translate, entry};
use crate::op::LayerError;
use crate::ops::indexing::selection::Clamp;
use crate::ops::layout::repetition::RepeatInterleave;
use crate::ops::matmul::product::Matmul;
use crate::ops::reduction::along_axes::{Amax, Amin};
use crate::ops::support::arguments::Operand;
use crate::ops::support::broadcast::Factor;
use crate::ops::support::ready::Ready;
use crate::ops::support::views::axis_of;
use crate::tensor::{DType, Dim, Scalar};
use std::ops::RangeInclusive;

const X: Source = Source::Input(0);

crate::operator! {
    /// `QuantizeLinear` (since 10): the integers that stand nearest to numbers; halves go to the even one.
    pub struct QuantizeLinear for "QuantizeLinear" {
        /// The axis of scale and zero point where they are vectors; may count from the end.
        axis: i64 = 1,
        /// How many elements along the axis share a scale; 0 where they do not.
        block_size: usize = 0,
        /// The element type of the output where there is no zero point, by its number.
        output_dtype: Option<ElementType> = None,
        /// Accepted for compatibility: it matters for floats of eight bits only.
        saturate: i64 = 1,
        /// The step.
        y_scale: Operand,
        /// What stands for 0, which says the element type of the output; 0 of u8 where absent.
        y_zero_point: Optional = Optional(None),
    }
}

crate::operator! {
    /// `DequantizeLinear` (since 10): the numbers that integers stand for.
    pub struct DequantizeLinear for "DequantizeLinear" {
        /// The axis of scale and zero point where they are vectors; may count from the end.
        axis: i64 = 1,
        /// How many elements along the axis share a scale; 0 where they do not.
        block_size: usize = 0,
        /// The step, which says the element type of the output.
        x_scale: Operand,
        /// What stands for 0; 0 where absent.
        x_zero_point: Optional = Optional(None),
    }
}

crate::operator! {
    /// `DynamicQuantizeLinear` (since 11): the integers of u8 that stand for numbers, their step, and what stands for 0.
    pub struct DynamicQuantizeLinear for "DynamicQuantizeLinear" {}
}

crate::operator! {
    /// `MatMulInteger` (since 10): the product of matrices of integers, as i32.
    pub struct MatMulInteger for "MatMulInteger" {
        /// The second matrix.
        b as "B": Operand,
        /// What of the first stands for 0, for all or for each row.
        a_zero_point: Optional = Optional(None),
        /// What of the second stands for 0, for all or for each column.
        b_zero_point: Optional = Optional(None),
    }
}

crate::operator! {
    /// `QLinearMatMul` (since 10): the product of matrices of numbers that integers stand for.
    pub struct QLinearMatMul for "QLinearMatMul" {
        /// The step of the first matrix, for all or for each row.
        a_scale: Operand,
        /// What of it stands for 0.
        a_zero_point: Operand,
        /// The second matrix.
        b: Operand,
        /// Its step, for all or for each column.
        b_scale: Operand,
        /// What of it stands for 0.
        b_zero_point: Operand,
        /// The step of the output.
        y_scale: Operand,
        /// What of the output stands for 0.
        y_zero_point: Operand,
    }
}

/// A scale or zero point such that it is broadcast to `x`: one number, or one for each element of an axis, or for each
/// block of an axis.
pub(super) fn along(
    recipe: &mut Recipe,
    of: Source,
    x: Source,
    axis: i64,
    block: usize,
) -> Result<Source, LayerError> {
    let (meta, whole) = (recipe.meta(of)?.clone(), recipe.meta(x)?.clone());
    if block > 0 {
        let (repeats, dim) = (block.to_string(), axis.to_string());
        let repeats = [("repeats", repeats.as_str()), ("dim", dim.as_str())];
        return recipe.call::<RepeatInterleave>(&repeats, &[(None, of)], 1);
    }
    match meta.dims() {
        [] => Ok(of),
        [len] if *len == 1usize => recipe.step(InShape(Vec::new()), &[of]),
        [len] => {
            let axis = axis_of(axis, &whole)?;
            let mut dims = vec![Dim::Fixed(1); whole.rank()];
            if let Some(dim) = dims.get_mut(axis) {
                *dim = len.clone();
            }
            recipe.step(InShape(dims), &[of])
        }
        _ => Ok(of),
    }
}

/// Numbers rounded, moved by a zero point, and kept within its element type, which they become.
pub(super) fn rounded(recipe: &mut Recipe, x: Source, zero: Source) -> Result<Source, LayerError> {
    let dtype = recipe.dtype(zero)?;
    let number = recipe.dtype(x)?;
    let zero = recipe.cast(zero, number)?;
    let moved = recipe.compute("add(round(@0),@1)", &[x, zero])?;
    within(recipe, moved, dtype)
}

/// Numbers as integers of a type, the nearest that it has.
fn within(recipe: &mut Recipe, x: Source, dtype: DType) -> Result<Source, LayerError> {
    let (least, most) = match dtype {
        DType::U8 => (0, 255),
        DType::I8 => (-128, 127),
        DType::I16 => (-32_768, 32_767),
        DType::I32 => (-2_147_483_648, 2_147_483_647),
        found => return Err(LayerError::dtype("the zero point", "u8, i8, i16 and i32", found)),
    };
    let bound = |number| Some(Factor::Number(Scalar::Float(f64::from(number))));
    let clamp = Clamp { min: bound(least), max: bound(most), ready: Ready::default() };
    let kept = recipe.then(clamp, &[x])?;
    recipe.cast(kept, dtype)
}

/// The product of the first two scales over the third, in f64.
pub(super) fn ratio(recipe: &mut Recipe, scales: [Source; 3]) -> Result<Source, LayerError> {
    let mut wide = scales;
    for scale in &mut wide {
        *scale = match recipe.meta(*scale)?.dims() {
            [len] if *len == 1usize => recipe.step(InShape(Vec::new()), &[*scale])?,
            _ => *scale,
        };
        *scale = recipe.cast(*scale, DType::F64)?;
    }
    recipe.compute("div(mul(@0,@1),@2)", &wide)
}

impl Translate for QuantizeLinear {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis"), ("repeats", "block_size")]
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 2 + self.y_zero_point.count();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let scale = along(recipe, Source::Input(self.y_scale.0), X, self.axis, self.block_size)?;
        let steps = recipe.compute("div(@0,@1)", &[X, scale])?;
        let Some(zero) = self.y_zero_point.source() else {
            let rounded = recipe.compute("round(@0)", &[steps])?;
            let dtype = self.output_dtype.map_or(DType::U8, |dtype| dtype.0);
            return Ok(vec![within(recipe, rounded, dtype)?]);
        };
        let zero = along(recipe, zero, X, self.axis, self.block_size)?;
        Ok(vec![rounded(recipe, steps, zero)?])
    }
}

impl Translate for DequantizeLinear {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis"), ("repeats", "block_size")]
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 2 + self.x_zero_point.count();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let scale = Source::Input(self.x_scale.0);
        let dtype = recipe.dtype(scale)?;
        let scale = along(recipe, scale, X, self.axis, self.block_size)?;
        let mut x = recipe.cast(X, dtype)?;
        if let Some(zero) = self.x_zero_point.source() {
            let zero = along(recipe, zero, X, self.axis, self.block_size)?;
            let zero = recipe.cast(zero, dtype)?;
            x = recipe.compute("sub(@0,@1)", &[x, zero])?;
        }
        Ok(vec![recipe.compute("mul(@0,@1)", &[x, scale])?])
    }
}

impl Translate for DynamicQuantizeLinear {
    fn num_outputs(&self) -> usize {
        3
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let least = recipe.then(Amin { dim: None, keepdim: false }, &[X])?;
        let most = recipe.then(Amax { dim: None, keepdim: false }, &[X])?;
        // The range holds 0.
        let (zero, ready) = (Some(Factor::Number(Scalar::Float(0.0))), Ready::default);
        let least = recipe.then(Clamp { min: None, max: zero, ready: ready() }, &[least])?;
        let most = recipe.then(Clamp { min: zero, max: None, ready: ready() }, &[most])?;
        let scale = recipe.compute("div(sub(@1,@0),255.0)", &[least, most])?;
        let start = recipe.compute("round(div(neg(@0),@1))", &[least, scale])?;
        let start = within(recipe, start, DType::U8)?;
        let steps = recipe.compute("div(@0,@1)", &[X, scale])?;
        Ok(vec![rounded(recipe, steps, start)?, scale, start])
    }
}

/// Integers less what stands for 0, as numbers that hold their products.
fn centred(recipe: &mut Recipe, x: Source, zero: Option<Source>, axis: i64) -> Result<Source, LayerError> {
    let wide = recipe.cast(x, DType::I32)?;
    let Some(zero) = zero else { return Ok(wide) };
    let zero = along(recipe, zero, x, axis, 0)?;
    let zero = recipe.cast(zero, DType::I32)?;
    recipe.compute("sub(@0,@1)", &[wide, zero])
}

fn product(recipe: &mut Recipe, a: Source, b: Source) -> Result<Source, LayerError> {
    recipe.then(Matmul { other: Operand(1), epilogue: None, on_device: Default::default() }, &[a, b])
}

impl Translate for MatMulInteger {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 2 + self.a_zero_point.count() + self.b_zero_point.count();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let a = centred(recipe, X, self.a_zero_point.source(), -2)?;
        let b = centred(recipe, Source::Input(self.b.0), self.b_zero_point.source(), -1)?;
        let product = product(recipe, a, b)?;
        Ok(vec![recipe.cast(product, DType::I32)?])
    }
}

impl Translate for QLinearMatMul {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        8..=8
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let inputs =
            [self.a_zero_point, self.b, self.b_zero_point, self.y_zero_point].map(|at| Source::Input(at.0));
        let [a_zero, b, b_zero, y_zero] = inputs;
        let scales = [self.a_scale, self.b_scale, self.y_scale].map(|at| Source::Input(at.0));
        let a = centred(recipe, X, Some(a_zero), -2)?;
        let b = centred(recipe, b, Some(b_zero), -1)?;
        let product = product(recipe, a, b)?;
        let [a_scale, b_scale, y_scale] = scales;
        let a_scale = along(recipe, a_scale, product, -2, 0)?;
        let b_scale = along(recipe, b_scale, product, -1, 0)?;
        let scale = ratio(recipe, [a_scale, b_scale, y_scale])?;
        let wide = recipe.cast(product, DType::F64)?;
        let scaled = recipe.compute("mul(@0,@1)", &[wide, scale])?;
        let zero = along(recipe, y_zero, scaled, -1, 0)?;
        Ok(vec![rounded(recipe, scaled, zero)?])
    }
}

operators! {
    entry => QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, MatMulInteger, QLinearMatMul
}
