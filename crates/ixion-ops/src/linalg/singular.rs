//! Singular values, and what is computed from them: ranks, pseudo-inverses, condition numbers, matrix norms.

use super::layer::{MatrixOperator, by_lapack};
use super::order::Order;
use super::stack::{Stack, distinct_axes};
#[cfg(feature = "linalg")]
use super::with_lapack::*;
use crate::op::{LayerError, Result, TensorMeta};
use crate::support::broadcast::{TensorOrScalar, broadcasts};
use crate::support::choices::choices;
use ixion_tensor::{DType, Dim, Limits, Scalar, TensorView, TensorViewMut};

choices! {
    /// The routine that PyTorch calls on a GPU. The result is the same.
    pub enum SvdDriver {
        /// QR.
        Gesvd = "gesvd",
        /// Jacobi rotations.
        Gesvdj = "gesvdj",
        /// An approximate method.
        Gesvda = "gesvda",
    }
}

crate::operator! {
    /// `torch.linalg.svd`: the singular value decomposition A = U·S·Vᴴ of each matrix. Outputs: U; the singular values, in
    /// descending order; Vᴴ. Signs are LAPACK's. Needs the feature `linalg`.
    pub struct Svd for "aten::linalg_svd" {
        /// Whether U and Vᴴ are square; else U has as many columns, and Vᴴ as many rows, as there are singular values.
        full_matrices: bool = true,
        /// Accepted for compatibility; the result is the same.
        driver: Option<SvdDriver> = None,
    }
}

crate::operator! {
    /// `torch.svd`: the singular value decomposition A = U·S·Vᴴ of each matrix. Outputs: U; the singular values, in descending
    /// order; V. Needs the feature `linalg`.
    pub struct SvdOfThin for "aten::svd" {
        /// Whether U and V have as many columns as there are singular values; else they are square.
        some: bool = true,
        /// Whether to compute U and V; else they are 0.
        compute_uv: bool = true,
    }
}

crate::operator! {
    /// `torch.linalg.svdvals`: the singular values of each matrix, in descending order. Needs the feature `linalg`.
    pub struct SvdVals for "aten::linalg_svdvals" {
        /// Accepted for compatibility; the result is the same.
        driver: Option<SvdDriver> = None,
    }
}

crate::operator! {
    /// `torch.linalg.matrix_rank`: the rank of each matrix: the number of singular values above max(`atol`, `rtol` · the
    /// largest). Needs the feature `linalg`.
    pub struct MatrixRank for "aten::linalg_matrix_rank" {
        /// The absolute tolerance, one for all matrices or one for each; by default 0.
        atol: Option<TensorOrScalar> = None,
        /// The relative tolerance, one for all matrices or one for each. By default 0 if `atol` is positive, else the larger of
        /// rows and columns times the precision of the element type.
        rtol: Option<TensorOrScalar> = None,
        /// Whether the matrices are symmetric or Hermitian: then only the lower triangles are read.
        hermitian: bool = false,
        /// An absolute tolerance in the place of both: the relative one is 0 then.
        tol: Option<TensorOrScalar> = None,
    }
}

impl MatrixRank {
    /// The absolute and the relative tolerance, if they are given.
    fn tolerances(&self) -> [Option<TensorOrScalar>; 2] {
        match self.tol {
            Some(_) => [self.tol, Some(TensorOrScalar::Number(Scalar::Float(0.0)))],
            None => [self.atol, self.rtol],
        }
    }
}

crate::operator! {
    /// `torch.linalg.pinv`: the pseudo-inverse of each matrix. Singular values up to max(`atol`, `rtol` · the largest) count
    /// as 0. Needs the feature `linalg`.
    pub struct PseudoInverseOfTolerances for "aten::linalg_pinv" {
        /// The absolute tolerance, one for all matrices or one for each; by default 0.
        atol: Option<TensorOrScalar> = None,
        /// The relative tolerance, one for all matrices or one for each. By default 0 if `atol` is positive, else the larger of
        /// rows and columns times the precision of the element type.
        rtol: Option<TensorOrScalar> = None,
        /// Whether the matrices are symmetric or Hermitian: then only the lower triangles are read.
        hermitian: bool = false,
    }
}

crate::operator! {
    /// `torch.pinverse`: the pseudo-inverse of each matrix. Singular values up to `rcond` times the largest count as 0. Needs
    /// the feature `linalg`.
    pub struct PseudoInverse for "aten::pinverse" {
        /// The relative tolerance.
        rcond: f64 = 1e-15,
    }
}

crate::operator! {
    /// `torch.linalg.cond`: the condition number of each matrix: the factor by which relative errors may grow when a linear
    /// system is solved. It is the norm of A times the norm of its inverse; inf for a singular matrix, and for one with NaN.
    /// For 2, -2 and `nuc` it is computed from singular values, and for a singular matrix it may be merely large. Needs the
    /// feature `linalg`.
    pub struct Cond for "aten::linalg_cond" {
        /// The norm: `fro`, `nuc`, 1, -1, 2, -2, `inf` or `-inf`. By default 2, which also supports matrices that are not
        /// square.
        p: Option<Order> = None,
    }
}

crate::operator! {
    /// `torch.nuclear_norm`: the nuclear norm of each matrix: the sum of its singular values. Needs the feature `linalg`.
    pub struct NuclearNorm for "aten::nuclear_norm" {
        /// The two axes of the matrices; by default the last two. Negative values count from the end.
        dim: Option<Vec<i64>> = None,
        /// Whether to keep the reduced axes, with length 1.
        keepdim: bool = false,
    }
}

impl MatrixOperator for Svd {
    const OUTPUTS: usize = 3;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of(inputs, 0)?;
        let k = stack.rank();
        let (left, right) = if self.full_matrices { (stack.rows, stack.columns) } else { (&k, &k) };
        let (u, vh) = ([stack.rows, left], [right, stack.columns]);
        Ok(vec![
            stack.each(stack.dtype, u),
            stack.each(stack.dtype.real(), [&k]),
            stack.each(stack.dtype, vh),
        ])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let parts = each(&io.inputs[0], limits, |a| lapack::svd::<T>(&a, self.full_matrices, limits))?;
        put_matrices(&mut io.outputs[0], parts.iter().map(|part| &part.u))?;
        put(&mut io.outputs[1], parts.iter().flat_map(|part| part.s.iter().copied()))?;
        put_matrices(&mut io.outputs[2], parts.iter().map(|part| &part.vh))
    }
}

impl MatrixOperator for SvdOfThin {
    const OUTPUTS: usize = 3;

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of(inputs, 0)?;
        let k = stack.rank();
        let thin = self.some && self.compute_uv;
        let (left, right) = if thin { (&k, &k) } else { (stack.rows, stack.columns) };
        let (u, v) = ([stack.rows, left], [stack.columns, right]);
        Ok(vec![stack.each(stack.dtype, u), stack.each(stack.dtype.real(), [&k]), stack.each(stack.dtype, v)])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        if !self.compute_uv {
            let values = each(&io.inputs[0], limits, |a| lapack::singular_values::<T>(&a))?;
            io.outputs[0].array::<T>()?.fill(T::default());
            io.outputs[2].array::<T>()?.fill(T::default());
            return put(&mut io.outputs[1], values.into_iter().flatten());
        }
        let parts = each(&io.inputs[0], limits, |a| lapack::svd::<T>(&a, !self.some, limits))?;
        let v: Vec<_> = parts.iter().map(|part| ixion_kernels::matrix::adjoint(&part.vh.view())).collect();
        put_matrices(&mut io.outputs[0], parts.iter().map(|part| &part.u))?;
        put(&mut io.outputs[1], parts.iter().flat_map(|part| part.s.iter().copied()))?;
        put_matrices(&mut io.outputs[2], &v)
    }
}

impl MatrixOperator for SvdVals {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of(inputs, 0)?;
        Ok(vec![stack.each(stack.dtype.real(), [&stack.rank()])])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let values = each(&io.inputs[0], limits, |a| lapack::singular_values::<T>(&a))?;
        put(&mut io.outputs[0], values.into_iter().flatten())
    }
}

/// The matrices of an input. They must be square if they are symmetric or Hermitian.
fn stack(inputs: &[TensorMeta], hermitian: bool) -> Result<Stack<'_>> {
    if hermitian { Stack::of_square(inputs, 0) } else { Stack::of(inputs, 0) }
}

/// Checks that tolerances are real, one for all matrices or one for each. Matrices without elements need none, so that any
/// number of them will do; if sizes are unknown, a run checks this again.
fn check_tolerances(
    [atol, rtol]: [Option<TensorOrScalar>; 2],
    inputs: &[TensorMeta],
    stack: &Stack<'_>,
) -> Result<()> {
    let may_be = |len: Dim, wanted: i64| len.fixed().is_none_or(|len| len == wanted);
    for (name, tolerance) in [("the tolerance `atol`", atol), ("the tolerance `rtol`", rtol)] {
        let Some(tolerance) = tolerance else { continue };
        let (dtype, _) = tolerance.kind(inputs);
        if dtype.is_complex() {
            return Err(LayerError::dtype(name, "real numbers", dtype));
        }
        let TensorOrScalar::Input(position) = tolerance else { continue };
        let found = &inputs[position];
        let is_any = may_be(inputs[0].num_elements(), 0) || may_be(found.num_elements(), 1);
        if !is_any && !broadcasts(found.dims(), stack.batch) {
            return Err(LayerError::shape(name, "one number, or one for each matrix", found));
        }
    }
    Ok(())
}

/// The tolerances up to which singular values count as 0.
#[cfg(feature = "linalg")]
#[derive(Debug, Clone, Copy)]
struct Tolerance {
    atol: Option<TensorOrScalar>,
    rtol: Option<TensorOrScalar>,
    hermitian: bool,
}

#[cfg(feature = "linalg")]
impl Tolerance {
    /// The absolute and the relative tolerance of each matrix.
    fn of_each(&self, inputs: &[TensorView<'_>], epsilon: f64, limits: &Limits) -> Result<Vec<[f64; 2]>> {
        let (batch, [rows, columns]) = lens(&inputs[0])?;
        let (batch, is_empty) = (Shape::new(batch)?, inputs[0].num_elements() == 0);
        let count = batch.num_elements();
        limits.check_tensor("the tolerances", (count as u64).saturating_mul(16))?;
        let numbers = |tolerance: Option<TensorOrScalar>| -> Result<Option<Vec<f64>>> {
            let Some(tolerance) = tolerance.filter(|_| !is_empty) else { return Ok(None) };
            let numbers = tolerance.converted(inputs, DType::F64)?;
            Ok(Some(match numbers.view().num_elements() {
                1 => numbers.view().to_vec::<f64>()?.repeat(count),
                _ => numbers.expanded(&batch)?.to_vec::<f64>()?,
            }))
        };
        let atol = numbers(self.atol)?.unwrap_or_else(|| vec![0.0; count]);
        let usual = epsilon * rows.max(columns) as f64;
        let rtol = match numbers(self.rtol)? {
            Some(rtol) => rtol,
            None => atol.iter().map(|&atol| if atol > 0.0 { 0.0 } else { usual }).collect(),
        };
        Ok(atol.into_iter().zip(rtol).map(|(atol, rtol)| [atol, rtol]).collect())
    }

    /// The results of a function of each matrix's decomposition and tolerance.
    fn each<T: lapack::Element, R>(
        &self,
        inputs: &[TensorView<'_>],
        limits: &Limits,
        mut function: impl FnMut(Singular<T>, T::Real) -> R,
    ) -> Result<Vec<R>> {
        let mut tolerances = self.of_each(inputs, T::EPSILON, limits)?.into_iter();
        each(&inputs[0], limits, |a: ndarray::ArrayView2<'_, T>| {
            let parts = if self.hermitian {
                lapack::svd(&lapack::of_lower(&a).view(), false, limits)
            } else {
                lapack::svd(&a, false, limits)
            }?;
            let largest = parts.s.first().map_or(0.0, |&s| lapack::as_f64::<T>(s));
            let [atol, rtol] = tolerances.next().unwrap_or_default();
            let bound = T::nearest(atol.max(rtol * largest)).re();
            Ok::<R, Fault>(function(parts, bound))
        })
    }

    /// Writes the pseudo-inverse of each matrix.
    fn put_inverses<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let inverse = |parts: Singular<T>, bound: T::Real| lapack::pseudo_inverse(&parts, bound);
        put_matrices(&mut io.outputs[0], &self.each::<T, _>(io.inputs, limits, inverse)?)
    }
}

impl MatrixOperator for MatrixRank {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = stack(inputs, self.hermitian)?;
        check_tolerances(self.tolerances(), inputs, &stack)?;
        Ok(vec![stack.each(DType::I64, [])])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let [atol, rtol] = self.tolerances();
        let tolerance = Tolerance { atol, rtol, hermitian: self.hermitian };
        let ranks = tolerance.each::<T, _>(io.inputs, limits, |parts, bound| {
            parts.s.iter().filter(|&&s| s > bound).count() as i64
        })?;
        put(&mut io.outputs[0], ranks)
    }
}

impl MatrixOperator for PseudoInverseOfTolerances {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = stack(inputs, self.hermitian)?;
        check_tolerances([self.atol, self.rtol], inputs, &stack)?;
        Ok(vec![stack.each(stack.dtype, [stack.columns, stack.rows])])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let tolerance = Tolerance { atol: self.atol, rtol: self.rtol, hermitian: self.hermitian };
        tolerance.put_inverses::<T>(io, limits)
    }
}

impl MatrixOperator for PseudoInverse {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let stack = Stack::of(inputs, 0)?;
        Ok(vec![stack.each(stack.dtype, [stack.columns, stack.rows])])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let rtol = Some(TensorOrScalar::Number(Scalar::Float(self.rcond)));
        Tolerance { atol: None, rtol, hermitian: false }.put_inverses::<T>(io, limits)
    }
}

/// A matrix norm that is computed from singular values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SingularNorm {
    Largest,
    Smallest,
    Sum,
}

impl SingularNorm {
    /// The norm of an order, if it is one of these.
    pub(crate) fn of(order: Order) -> Option<Self> {
        match order {
            Order::Nuclear => Some(Self::Sum),
            Order::Number(2.0) => Some(Self::Largest),
            Order::Number(-2.0) => Some(Self::Smallest),
            _ => None,
        }
    }

    /// Writes the norm of each matrix along the last two axes.
    #[cfg(feature = "linalg")]
    pub(crate) fn write(
        self,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        match input.dtype() {
            DType::F32 => self.write_as::<f32>(input, output, limits),
            DType::F64 => self.write_as::<f64>(input, output, limits),
            DType::C64 => self.write_as::<Complex<f32>>(input, output, limits),
            DType::C128 => self.write_as::<Complex<f64>>(input, output, limits),
            found => Err(super::stack::wrong_type("the input", found)),
        }
    }

    #[cfg(feature = "linalg")]
    fn write_as<T: MatrixElement>(
        self,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let values = each(input, limits, |a| lapack::singular_values::<T>(&a))?;
        let norms = values.iter().map(|s| match self {
            Self::Largest => s.first().copied().unwrap_or_default(),
            Self::Smallest => s.last().copied().unwrap_or_default(),
            Self::Sum => s.iter().fold(T::Real::default(), |sum, &s| sum + s),
        });
        put(output, norms)
    }

    /// Returns the error that LAPACK is missing.
    #[cfg(not(feature = "linalg"))]
    pub(crate) fn write(self, _: &TensorView<'_>, _: &mut TensorViewMut<'_>, _: &Limits) -> Result<()> {
        super::layer::available()
    }
}

impl MatrixOperator for Cond {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let order = self.p.unwrap_or(Order::Number(2.0));
        let by_values = matches!(order, Order::Number(p) if p.abs() == 2.0);
        let stack = if by_values { Stack::of(inputs, 0)? } else { Stack::of_square(inputs, 0)? };
        match order {
            Order::Number(p) if !by_values && p.abs() != 1.0 && !p.is_infinite() => Err(LayerError::invalid(
                "p",
                p,
                "expected one of fro, nuc, 1, -1, 2, -2, inf and -inf for matrices",
            )),
            _ => Ok(vec![stack.each(stack.dtype.real(), [])]),
        }
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let order = self.p.unwrap_or(Order::Number(2.0));
        put(&mut io.outputs[0], each(&io.inputs[0], limits, |a| lapack::condition::<T>(&a, order.into()))?)
    }
}

impl NuclearNorm {
    fn axes(&self, rank: usize) -> Result<Vec<usize>> {
        let axes = distinct_axes("dim", self.dim.as_deref().unwrap_or(&[-2, -1]), rank)?;
        if axes.len() == 2 {
            Ok(axes)
        } else {
            Err(LayerError::invalid("dim", format!("{axes:?}"), "expected the two axes of a matrix"))
        }
    }
}

impl MatrixOperator for NuclearNorm {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (stack, axes) = (Stack::of(inputs, 0)?, self.axes(inputs[0].rank())?);
        let dims = inputs[0].dims().iter().enumerate();
        let kept = dims.filter_map(|(axis, dim)| match (axes.contains(&axis), self.keepdim) {
            (false, _) => Some(dim.clone()),
            (true, true) => Some(1.into()),
            (true, false) => None,
        });
        Ok(vec![TensorMeta::new(stack.dtype.real(), kept)])
    }

    #[cfg(feature = "linalg")]
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let matrices = with_last(&io.inputs[0], &self.axes(io.inputs[0].shape().rank())?)?;
        SingularNorm::Sum.write_as::<T>(&matrices, &mut io.outputs[0], limits)
    }
}

/// The same tensor, with two axes moved to the end.
pub(crate) fn with_last<'a>(input: &TensorView<'a>, axes: &[usize]) -> Result<TensorView<'a>> {
    let others = (0..input.shape().rank()).filter(|axis| !axes.contains(axis));
    let order: Vec<usize> = others.chain(axes.iter().copied()).collect();
    Ok(input.with_layout(input.layout().permute(&order)?)?)
}

operators! { by_lapack => Svd, SvdOfThin, SvdVals, MatrixRank, PseudoInverse, PseudoInverseOfTolerances, Cond, NuclearNorm }
