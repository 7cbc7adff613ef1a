//! Stored integers as the real numbers that they stand for.

use crate::OnnxError;
use crate::lower::{Call, Constant};
use ixion_pnnx::Attribute;
use ixion_tensor::DType;

/// The scales and zero points of a tensor: one for all, one for each index of an axis, or one for each block of an axis.
#[derive(Debug, Clone)]
pub(super) struct Scaling {
    pub(super) scale: Constant,
    /// 0 if absent.
    pub(super) zero: Option<Constant>,
    pub(super) axis: i64,
    /// Elements of the axis that share a scale; 0 without blocks.
    pub(super) block_size: i64,
}

impl Scaling {
    /// The bias of a convolution, whose unit is the product of the scales of its input and of its weights. `None` if it is not
    /// known.
    ///
    /// # Errors
    /// [`OnnxError`] if a tensor cannot be read.
    pub(super) fn bias(&self, call: &mut Call<'_>, bias: &Constant) -> Result<Option<Constant>, OnnxError> {
        let known = (bias.i64s()?, self.scale.f64s()?, call.constant_float(1)?);
        let (Some(values), Some(scales), Some(input)) = known else { return Ok(None) };
        if scales.len() != 1 && scales.len() != values.len() {
            return Ok(None);
        }
        let scales = scales.iter().cycle();
        let products = values.iter().zip(scales).map(|(value, scale)| (*value as f64 * scale * input) as f32);
        let products: Vec<f32> = products.collect();
        let attribute = Attribute::from_f32s(bias.shape().to_vec(), &products)?;
        Ok(Some(Constant::new(&format!("{}.dequantized", bias.name()), attribute)))
    }

    /// The number of elements between neighbours of the axis, the length of the axis, and how many scales follow each other
    /// along it. `None` if the scales do not fit the shape.
    fn steps(&self, shape: &[usize]) -> Option<Steps> {
        let scales = self.scale.attribute().elem_count();
        let single = Steps { inner: 1, len: 1, block: 1, along: 1 };
        if self.block_size == 0 && scales == 1 {
            return Some(single);
        }
        let rank = i64::try_from(shape.len()).ok()?;
        let axis = usize::try_from(if self.axis < 0 { self.axis + rank } else { self.axis }).ok()?;
        let len = *shape.get(axis)?;
        let inner =
            shape.get(axis + 1..)?.iter().try_fold(1usize, |product, len| product.checked_mul(*len))?;
        if self.block_size == 0 {
            return (scales == len && self.scale.shape().len() == 1).then_some(Steps {
                inner,
                along: 0,
                block: 1,
                len,
            });
        }
        let block = usize::try_from(self.block_size).ok()?;
        let along = len.div_ceil(block);
        let mut wanted = shape.to_vec();
        *wanted.get_mut(axis)? = along;
        (self.scale.shape() == wanted).then_some(Steps { inner, along, block, len })
    }
}

/// How the position of an element determines that of its scale.
#[derive(Debug, Clone, Copy)]
struct Steps {
    inner: usize,
    len: usize,
    block: usize,
    /// Scales along the axis of blocks; 0 if an axis has one scale for each index.
    along: usize,
}

impl Steps {
    /// The position of the scale of an element.
    fn of(self, position: usize) -> usize {
        let (inner, len) = (self.inner.max(1), self.len.max(1));
        let at = position / inner % len / self.block.max(1);
        match self.along {
            0 => at,
            along => (position / inner / len * along + at) * inner + position % inner,
        }
    }
}

/// The real numbers that a stored tensor stands for, as f32. `None` if they are not f32, or if its scales do not fit.
///
/// # Errors
/// [`OnnxError`] if a tensor cannot be read.
pub(super) fn dequantized(
    call: &Call<'_>,
    x: &Constant,
    scaling: &Scaling,
) -> Result<Option<Constant>, OnnxError> {
    if scaling.scale.dtype() != DType::F32 {
        return Ok(None);
    }
    let Some(steps) = scaling.steps(x.shape()) else { return Ok(None) };
    let zeros = match &scaling.zero {
        Some(zero) if zero.shape() == scaling.scale.shape() || zero.attribute().elem_count() == 1 => {
            zero.i64s()?
        }
        Some(_) => return Ok(None),
        None => Some(vec![0]),
    };
    let (Some(scales), Some(zeros)) = (scaling.scale.f64s()?, zeros) else { return Ok(None) };
    let bytes = (x.attribute().elem_count() as u64).saturating_mul(4);
    call.check_tensor(bytes)?;
    let is_single = scales.len() == 1;
    let number = |(position, value): (usize, i64)| {
        let at = if is_single { 0 } else { steps.of(position) };
        let zero = zeros.get(at).or(zeros.first()).copied().unwrap_or_default();
        let scale = scales.get(at).copied().unwrap_or_default() as f32;
        value.saturating_sub(zero) as f32 * scale
    };
    let stored = x.attribute().bytes()?;
    // Weights are bytes: they have no wide copy.
    let numbers: Vec<f32> = match x.dtype() {
        DType::I8 => {
            stored.iter().map(|byte| i64::from(byte.cast_signed())).enumerate().map(number).collect()
        }
        DType::U8 => stored.iter().map(|byte| i64::from(*byte)).enumerate().map(number).collect(),
        _ => match x.i64s()? {
            Some(values) => values.into_iter().enumerate().map(number).collect(),
            None => return Ok(None),
        },
    };
    let attribute = Attribute::from_f32s(x.shape().to_vec(), &numbers)?;
    Ok(Some(Constant::new(call.name(), attribute)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_of_blocks() {
        let scale = |shape: Vec<usize>| {
            let count = shape.iter().product();
            Constant::new("scale", Attribute::from_f32s(shape, &vec![1.0; count]).unwrap())
        };
        let of = |shape: Vec<usize>, axis, block_size| {
            let scaling = Scaling { scale: scale(shape), zero: None, axis, block_size };
            scaling.steps(&[2, 3, 2]).map(|steps| (0..12).map(|at| steps.of(at)).collect::<Vec<_>>())
        };
        assert_eq!(of(vec![3], -2, 0), Some(vec![0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]));
        assert_eq!(of(vec![2, 2, 2], 1, 2), Some(vec![0, 1, 0, 1, 2, 3, 4, 5, 4, 5, 6, 7]));
        assert_eq!(of(vec![2], 1, 0), None);
        assert_eq!(of(vec![3], 7, 0), None);
    }
}
