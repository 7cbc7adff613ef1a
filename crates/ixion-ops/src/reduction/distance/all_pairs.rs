//! Distances between all pairs of rows, and between two tensors.

use super::{check_held, check_same_type};
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{TensorOrScalar, broadcast, common};
use crate::support::float;
use crate::support::float::with_float;
use crate::support::number;
use ixion_kernels::distance::distances;
use ixion_kernels::{Float, reduce};
use ixion_tensor::{Complex, Dim, Limits, Shape, TensorView, TensorViewMut};
use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

crate::operator! {
    /// `torch.cdist`: the distance between each row of …×P×M and each row of …×R×M: the p-norm of their difference. Output:
    /// …×P×R.
    pub struct Cdist for "aten::cdist", "torch.cdist" {
        /// The second rows, …×R×M; axes before the last two are broadcast.
        x2: InputIndex,
        /// The order p of the norm; 0 counts the elements that differ. If a difference is NaN, so is the distance, except for
        /// an infinite p, which ignores it.
        p: f64 = 2.0,
        /// Accepted for compatibility: differences are always computed directly, not by a matrix product.
        compute_mode: Option<i64> = None,
    }
    validate |layer| { check_power(layer.p) }
}

crate::operator! {
    /// `torch.dist`: the p-norm of the difference of two tensors, real or complex, which are broadcast.
    pub struct Dist for "aten::dist", "torch.dist" {
        /// The second tensor.
        other: InputIndex,
        /// The order p of the norm.
        p: f64 = 2.0,
    }
}

fn check_power(p: f64) -> Result<()> {
    if p >= 0.0 { Ok(()) } else { Err(LayerError::invalid("p", p, "it must not be negative")) }
}

/// The axes before the last two, and the last two.
fn split(meta: &TensorMeta) -> Result<(&[Dim], &[Dim; 2])> {
    meta.dims().split_last_chunk().ok_or_else(|| LayerError::shape("rows", "at least two axes", meta))
}

impl Cdist {
    fn run<'a, T: Float>(
        &self,
        inputs: &[TensorView<'a>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let (x1, x2) = (&inputs[0], &inputs[self.x2.0]);
        let rank = output.shape().rank();
        let batch = output.shape().dims().get(..rank.saturating_sub(2)).unwrap_or_default().to_vec();
        let rows = |x: &TensorView<'_>| x.shape().dims().iter().rev().nth(1).copied().unwrap_or(1);
        let len = x1.shape().dims().last().copied().unwrap_or(0);
        let (p, r) = (rows(x1), rows(x2));
        let expanded = |x: &TensorView<'a>, rows: usize| -> Result<Cow<'a, [T]>> {
            let shape = Shape::new(&[&batch[..], &[rows, len]].concat())?;
            float::read::<T>(&x.with_layout(x.layout().expand(&shape)?)?)
        };
        let held = batch.iter().fold(p.saturating_add(r), |count, &len| count.saturating_mul(len));
        check_held::<T>(held.saturating_mul(len), limits)?;
        let (x1, x2) = (expanded(x1, p)?, expanded(x2, r)?);
        let of = |x: &Cow<'_, [T]>, index: usize, rows: usize| -> Range<usize> {
            let len = rows.saturating_mul(len);
            (index * len).min(x.len())..((index + 1) * len).min(x.len())
        };
        float::write::<T>(output, |output| {
            for (index, output) in output.chunks_exact_mut(p.saturating_mul(r).max(1)).enumerate() {
                let (x1, x2) = (&x1[of(&x1, index, p)], &x2[of(&x2, index, r)]);
                distances(x1, x2, len, self.p, output, limits)?;
            }
            Ok(())
        })
    }
}

impl Layer for Cdist {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (x1, x2) = (&inputs[0], &inputs[self.x2.0]);
        float::check("the input", x1)?;
        check_same_type(x1, x2)?;
        let (before, [rows, len]) = split(x1)?;
        let (other_before, [other_rows, other_len]) = split(x2)?;
        if len.differs(other_len) {
            return Err(LayerError::shape("the other input", format!("rows of {len} elements"), x2));
        }
        let dims = broadcast(before, other_before)?.into_iter().chain([rows.clone(), other_rows.clone()]);
        Ok(vec![TensorMeta::new(x1.dtype(), dims)])
    }
}

impl CpuLayer for Cdist {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.inputs[0].dtype(), T => self.run::<T>(io.inputs, &mut io.outputs[0], io.context.limits()))
    }
}

impl Dist {
    fn run<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let shape = ixion_tensor::broadcast_shapes(inputs[0].shape(), inputs[self.other.0].shape())?;
        check_held::<T>(shape.num_elements().saturating_mul(3), limits)?;
        let metas = TensorMeta::of_all(inputs);
        let factors = [TensorOrScalar::Input(0), TensorOrScalar::Input(self.other.0)];
        let dtype = common(&metas, &factors);
        let [x, y] = factors.map(|factor| factor.converted(inputs, dtype));
        let (x, y) = (x?, y?);
        let (x, y) = (x.expanded(&shape)?, y.expanded(&shape)?);
        let differences: Vec<T> = if dtype.is_complex() {
            let (x, y) = (number::read::<Complex<f64>>(&x)?, number::read::<Complex<f64>>(&y)?);
            x.iter().zip(y.iter()).map(|(x, y)| T::of((x - y).norm())).collect()
        } else {
            let (x, y) = (float::read::<T>(&x)?, float::read::<T>(&y)?);
            x.iter().zip(y.iter()).map(|(&x, &y)| x - y).collect()
        };
        float::write::<T>(output, |output| {
            output.fill(T::of(reduce::norm(&differences, self.p)));
            Ok(())
        })
    }
}

impl Layer for Dist {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (x, y) = (&inputs[0], &inputs[self.other.0]);
        broadcast(x.dims(), y.dims())?;
        let dtype = common(inputs, &[TensorOrScalar::Input(0), TensorOrScalar::Input(self.other.0)]);
        if !dtype.is_float() && !dtype.is_complex() {
            return Err(float::not_a_float("the input", dtype));
        }
        Ok(vec![TensorMeta::new(dtype.real(), [0usize; 0])])
    }
}

impl CpuLayer for Dist {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        with_float!(io.outputs[0].dtype(), T => self.run::<T>(io.inputs, &mut io.outputs[0], io.context.limits()))
    }
}

operators! { Cdist, Dist }

#[cfg(test)]
mod tests {
    use crate::support::testing::{assert_close, operator, tensor};

    /// PyTorch's results.
    #[test]
    fn differences_that_are_nan() {
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        let x = tensor(&[2, 3], &[nan, 1.0, 2.0, nan, nan, nan]);
        let y = tensor(&[2, 3], &[0.0, 1.5, 4.0, 5.0, nan, infinity]);
        for p in ["0.0", "0.5", "1.0", "2.0", "3.0"] {
            let distances = operator("aten::cdist", &[("p", p)]).run_one(&[&x, &y]).unwrap();
            assert_close(&distances, &[2, 2], &[nan; 4]);
        }
        let largest = operator("aten::cdist", &[("p", "inf")]).run_one(&[&x, &y]).unwrap();
        assert_close(&largest, &[2, 2], &[2.0, infinity, 0.0, 0.0]);
    }

    #[test]
    fn what_does_not_fit() {
        let (x, y) = (tensor(&[1, 2], &[1.0, 2.0]), tensor(&[1, 3], &[1.0, 2.0, 3.0]));
        let distances = operator("aten::cdist", &[]);
        assert!(
            distances.run(&[&x, &y]).is_err() && distances.run(&[&x, &tensor(&[2], &[1.0, 2.0])]).is_err()
        );
        assert!(distances.run(&[&x, &tensor(&[1, 2], &[1.0f32, 2.0])]).is_err());
        assert!(operator("aten::cdist", &[("p", "-1.0")]).create(2).is_err());
        assert!(operator("aten::dist", &[]).run(&[&tensor(&[1], &[1i64]), &tensor(&[1], &[1i64])]).is_err());
        distances.survives(2);
        operator("aten::dist", &[]).survives(2);
    }
}
