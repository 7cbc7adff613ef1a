//! Products of vectors, matrices and batches of matrices.

mod factors;
mod grouped;
mod halves;
mod vdot;
mod vecdot;

use crate::inserted::device_tactic::DeviceTactic;
use crate::op::{Cost, CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::broadcasts;
use crate::support::delegation::delegating;
use crate::support::epilogue;
use crate::support::epilogue::Epilogue;
use crate::support::number;
use crate::support::number::{Computation, Number};
use factors::Factors;
pub(crate) use factors::storage;
pub use grouped::GroupedMm;
use ixion_kernels::elementwise::ApplyEpilogue;
use ixion_tensor::{DType, Dim, Limits, Tensor, TensorView, TensorViewMut, bf16, f16};
use std::ops::RangeInclusive;
pub use vdot::Vdot;
pub use vecdot::Vecdot;

crate::operator! {
    /// `torch.matmul`: the matrix product of two tensors, …×m×k times …×k×n gives …×m×n. The batch axes are broadcast; a vector
    /// is a row on the left and a column on the right, and its axis of length 1 is removed from the output.
    pub struct Matmul for "torch.matmul", "Tensor.matmul" {
        /// The right factor.
        other: InputIndex,
        /// Operations fused into this one and applied to the result before it is stored; set by Ixion's passes.
        epilogue: Option<Epilogue> = None,
        /// The tactic on a device.
        on_device: DeviceTactic,
    }
}

impl Matmul {
    /// The product of input 0 and `other`, which may have any ranks, without the epilogue.
    pub fn product(&self) -> Product {
        Product { factors: [0, self.other.0], ranks: None, added: None }
    }

    /// Runs the product with its epilogue, which is applied in chunks if the elements are computed in their own type.
    fn run(
        &mut self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let product = self.product();
        match (output.dtype(), &mut self.epilogue) {
            (DType::F32, epilogue) => {
                epilogue::with::<f32>(epilogue.as_mut(), inputs, output, limits, |output, epilogue| {
                    product.multiply(inputs, output, epilogue, limits)
                })
            }
            (DType::F64, epilogue) => {
                epilogue::with::<f64>(epilogue.as_mut(), inputs, output, limits, |output, epilogue| {
                    product.multiply(inputs, output, epilogue, limits)
                })
            }
            (_, epilogue) => {
                product.run(inputs, output, limits)?;
                epilogue.as_mut().map_or(Ok(()), |epilogue| epilogue.apply(inputs, output, limits))
            }
        }
    }
}

impl Layer for Matmul {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let outputs = self.product().infer(inputs)?;
        epilogue::check(self.epilogue.as_ref(), &outputs[0], inputs)?;
        Ok(outputs)
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        self.product().cost(inputs, outputs)
    }
}

impl CpuLayer for Matmul {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        self.run(io.inputs, &mut io.outputs[0], io.context.limits())
    }
}

crate::operator! {
    /// `torch.mm`: the product of two matrices; m×k times k×n gives m×n.
    pub struct Mm for "torch.mm", "aten::mm" {
        /// The right factor.
        mat2: InputIndex,
        /// The tactic on a device.
        on_device: DeviceTactic,
    }
}

crate::operator! {
    /// `torch.bmm`: the products of two batches of matrices; b×m×k times b×k×n gives b×m×n.
    pub struct Bmm for "torch.bmm", "aten::bmm" {
        /// The right factor.
        mat2: InputIndex,
        /// The tactic on a device.
        on_device: DeviceTactic,
    }
}

crate::operator! {
    /// `torch.mv`: the product of a matrix and a vector; m×k times k gives m.
    pub struct Mv for "torch.mv", "aten::mv" {
        /// The vector.
        vec: InputIndex,
        /// The tactic on a device.
        on_device: DeviceTactic,
    }
}

crate::operator! {
    /// `torch.dot`: the dot product of two vectors.
    pub struct Dot for "aten::dot" {
        /// The other vector.
        tensor: InputIndex,
        /// The tactic on a device.
        on_device: DeviceTactic,
    }
}

crate::operator! {
    /// `torch.addmv`: `beta` · input + `alpha` · (`mat` · `vec`), for an m×k matrix and a vector of k. The input is
    /// broadcast to m.
    pub struct Addmv for "aten::addmv" {
        /// The matrix.
        mat: InputIndex,
        /// The vector.
        vec: InputIndex,
        /// Factor of the input; if 0, the input is ignored, so that its NaN do not propagate.
        beta: f64 = 1.0,
        /// Factor of the product.
        alpha: f64 = 1.0,
        /// The tactic on a device.
        on_device: DeviceTactic,
    }
}

crate::operator! {
    /// `torch.addmm`: `beta` · input + `alpha` · (`mat1` · `mat2`), for m×k and k×n matrices. The input is broadcast to m×n.
    pub struct Addmm for "torch.addmm", "aten::addmm" {
        /// The left factor.
        mat1: InputIndex,
        /// The right factor.
        mat2: InputIndex,
        /// Factor of the input; if 0, the input is ignored, so that its NaN do not propagate.
        beta: f64 = 1.0,
        /// Factor of the product.
        alpha: f64 = 1.0,
        /// The tactic on a device.
        on_device: DeviceTactic,
    }
}

crate::operator! {
    /// `torch.baddbmm`: `beta` · input + `alpha` · (`batch1` · `batch2`), for b×m×k and b×k×n batches. The input is
    /// broadcast to b×m×n.
    pub struct Baddbmm for "torch.baddbmm", "aten::baddbmm" {
        /// The left factor.
        batch1: InputIndex,
        /// The right factor.
        batch2: InputIndex,
        /// Factor of the input; if 0, the input is ignored, so that its NaN do not propagate.
        beta: f64 = 1.0,
        /// Factor of the product.
        alpha: f64 = 1.0,
        /// The tactic on a device.
        on_device: DeviceTactic,
    }
}

/// A product, and the input that is added to it.
#[derive(Debug, Clone)]
pub struct Product {
    /// Input positions of the factors.
    pub factors: [usize; 2],
    /// The rank of each factor; `None` if they may have any.
    ranks: Option<[usize; 2]>,
    /// Factors of input 0 and of the product, if input 0 is added.
    pub added: Option<[f64; 2]>,
}

impl Product {
    /// The product of factors of these ranks.
    fn of(factors: [usize; 2], ranks: [usize; 2]) -> Self {
        Self { factors, ranks: Some(ranks), added: None }
    }

    /// `beta` · input 0 + `alpha` · this product.
    fn added_to_input(self, beta: f64, alpha: f64) -> Self {
        Self { added: Some([beta, alpha]), ..self }
    }

    /// Writes the product in row-major order; the factors' shapes must fit each other.
    fn multiply<T: Number>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut [T],
        epilogue: Option<&dyn ApplyEpilogue<T>>,
        limits: &Limits,
    ) -> Result<()> {
        let [left, right] = self.factors.map(|position| &inputs[position]);
        let (mut left_copy, mut right_copy) = (None, None);
        let left = elements::<T>(left, &mut left_copy)?;
        let right = elements::<T>(right, &mut right_copy)?;
        Factors::<T, T>::new(&left, &right)?.multiply(output, epilogue, limits)
    }
}

impl Layer for Product {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let input = &inputs[0];
        number::check("the input", input.dtype())?;
        let factors = self.factors.map(|position| &inputs[position]);
        if let Some(other) = factors.into_iter().find(|other| other.dtype() != input.dtype()) {
            return Err(LayerError::dtype("another input", input.dtype(), other.dtype()));
        }
        let [left, right] = factors;
        for (position, (factor, rank)) in
            [left, right].into_iter().zip(self.ranks.into_iter().flatten()).enumerate()
        {
            if factor.rank() != rank {
                let side = if position == 0 { "the left factor" } else { "the right factor" };
                return Err(LayerError::shape(side, format!("{rank} axes"), factor));
            }
        }
        let output = left.with_dims(product_dims(left, right, self.ranks.is_none())?);
        match self.added {
            Some(_) if !broadcasts(input.dims(), output.dims()) => {
                Err(LayerError::shape("the input", format!("a shape that broadcasts to {output}"), input))
            }
            _ => Ok(vec![output]),
        }
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let inner = inputs.get(self.factors[0]).and_then(|left| left.dims().last().cloned());
        let macs =
            inner.zip(outputs.first()).and_then(|(inner, output)| (output.num_elements() * inner).fixed());
        Cost::of_moving(inputs, outputs)
            .with_macs(macs.and_then(|macs| u64::try_from(macs).ok()).unwrap_or(0))
    }
}

impl Computation for Product {
    fn run_in<T: Number>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        if self.added.is_none() && output.layout().is_contiguous() {
            match output.dtype() {
                DType::F16 => return self.multiply_halves::<f16>(inputs, output.slice()?, limits),
                DType::Bf16 => return self.multiply_halves::<bf16>(inputs, output.slice()?, limits),
                _ => {}
            }
        }
        let shape = *output.shape();
        number::write::<T>(output, |output| {
            self.multiply(inputs, output, None, limits)?;
            let Some([beta, alpha]) = self.added else { return Ok(()) };
            let (alpha, zero) = (T::of(alpha), T::default());
            if beta == 0.0 {
                output.iter_mut().for_each(|y| *y = T::weighted(alpha, *y, zero, zero));
                return Ok(());
            }
            let expanded = inputs[0].with_layout(inputs[0].layout().expand(&shape)?)?;
            let (added, beta) = (number::read::<T>(&expanded)?, T::of(beta));
            output.iter_mut().zip(added.iter()).for_each(|(y, &x)| *y = T::weighted(alpha, *y, beta, x));
            Ok(())
        })
    }
}

impl CpuLayer for Product {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        self.run(io.inputs, &mut io.outputs[0], io.context.limits())
    }
}

/// The dimensions of a product; batches are broadcast if `broadcast` is true.
fn product_dims(left: &TensorMeta, right: &TensorMeta, broadcast: bool) -> Result<Vec<Dim>> {
    let refuse = |wanted: String| Err(LayerError::shape("the right factor", wanted, right));
    let (left_batch, rows) = split_at_last(left.dims(), 2);
    let (right_batch, columns) = split_at_last(right.dims(), 2);
    let (Some(inner), Some(right_inner)) = (rows.last(), columns.first()) else {
        let found = format!("{left} and {right}");
        return Err(LayerError::shape("the factors", "at least one axis each", found));
    };
    if inner.differs(right_inner) {
        return refuse(format!("{inner} rows, one for each column of the left factor {left}"));
    }
    let mut dims = Vec::new();
    for i in (1..=left_batch.len().max(right_batch.len())).rev() {
        let of = |dims: &[Dim]| dims.len().checked_sub(i).map_or(Dim::Fixed(1), |axis| dims[axis].clone());
        let (left, right) = (of(left_batch), of(right_batch));
        dims.push(match (left.fixed(), right.fixed()) {
            (Some(a), Some(b)) if a != b && !(broadcast && (a == 1 || b == 1)) => {
                return refuse(format!("a batch axis that fits {left}, not one of {right}"));
            }
            (Some(1), _) => right,
            (_, Some(1)) => left,
            (Some(_), _) => left,
            (_, Some(_)) => right,
            _ => left.max(right),
        });
    }
    dims.extend(rows.iter().rev().skip(1).chain(columns.iter().skip(1)).cloned());
    Ok(dims)
}

/// Splits off the last `count` axes, or all if there are fewer.
fn split_at_last(dims: &[Dim], count: usize) -> (&[Dim], &[Dim]) {
    dims.split_at(dims.len().saturating_sub(count))
}

/// A view of the elements if they are `T`; otherwise of the converted ones, which `copy` keeps.
fn elements<'a, T: Number>(view: &TensorView<'a>, copy: &'a mut Option<Tensor>) -> Result<TensorView<'a>> {
    if view.dtype() == T::DTYPE {
        return Ok(*view);
    }
    Ok(copy.insert(view.cast(T::DTYPE)?).view())
}

impl Mm {
    /// The product, with the required rank of each factor.
    pub fn product(&self) -> Product {
        Product::of([0, self.mat2.0], [2, 2])
    }
}

impl Bmm {
    /// The product, with the required rank of each factor.
    pub fn product(&self) -> Product {
        Product::of([0, self.mat2.0], [3, 3])
    }
}

impl Mv {
    /// The product, with the required rank of each factor.
    pub fn product(&self) -> Product {
        Product::of([0, self.vec.0], [2, 1])
    }
}

impl Dot {
    /// The product, with the required rank of each factor.
    pub fn product(&self) -> Product {
        Product::of([0, self.tensor.0], [1, 1])
    }
}

impl Addmv {
    /// The product, with the required rank of each factor, and `beta` and `alpha`.
    pub fn product(&self) -> Product {
        Product::of([self.mat.0, self.vec.0], [2, 1]).added_to_input(self.beta, self.alpha)
    }
}

impl Addmm {
    /// The product, with the required rank of each factor, and `beta` and `alpha`.
    pub fn product(&self) -> Product {
        Product::of([self.mat1.0, self.mat2.0], [2, 2]).added_to_input(self.beta, self.alpha)
    }
}

impl Baddbmm {
    /// The product, with the required rank of each factor, and `beta` and `alpha`.
    pub fn product(&self) -> Product {
        Product::of([self.batch1.0, self.batch2.0], [3, 3]).added_to_input(self.beta, self.alpha)
    }
}

delegating! {
    Mm |layer| layer.product();
    Bmm |layer| layer.product();
    Mv |layer| layer.product();
    Dot |layer| layer.product();
    Addmv |layer| layer.product();
    Addmm |layer| layer.product();
    Baddbmm |layer| layer.product();
}

operators! { Matmul, Mm, Bmm, Mv, Dot, Vdot, Vecdot, Addmv, Addmm, Baddbmm, GroupedMm }

#[cfg(test)]
mod tests;
