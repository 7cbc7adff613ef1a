//! Singular values, and what is computed from them: ranks, pseudo-inverses, condition numbers, matrix norms.

#[cfg(feature = "linalg")]
use super::blocks::*;
use super::order::Order;
use super::stack::{Stack, distinct_axes};
use crate::op::{Layer, LayerError, TensorMeta};
use crate::support::broadcast::TensorOrScalar;
use crate::support::choices::choices;
use ixion_tensor::{DType, Limits, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

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
        /// The absolute tolerance; by default 0.
        atol: Option<TensorOrScalar> = None,
        /// The relative tolerance. By default 0 if `atol` is positive, else the larger of rows and columns times the precision
        /// of the element type.
        rtol: Option<TensorOrScalar> = None,
        /// Whether the matrices are symmetric or Hermitian: then only the lower triangles are read.
        hermitian: bool = false,
    }
}

crate::operator! {
    /// `torch.linalg.pinv`: the pseudo-inverse of each matrix. Singular values up to max(`atol`, `rtol` · the largest) count
    /// as 0. Needs the feature `linalg`.
    pub struct PseudoInverseOfTolerances for "aten::linalg_pinv" {
        /// The absolute tolerance; by default 0.
        atol: Option<TensorOrScalar> = None,
        /// The relative tolerance. By default 0 if `atol` is positive, else the larger of rows and columns times the precision
        /// of the element type.
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

impl Layer for Svd {
    fn num_outputs(&self) -> usize {
        3
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
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
}

by_lapack!(Svd: |layer, inputs, outputs, limits| T => {
    let parts = each(&inputs[0], limits, |a| lapack::svd::<T>(&a, layer.full_matrices, limits))?;
    put_matrices(&mut outputs[0], parts.iter().map(|part| &part.u))?;
    put(&mut outputs[1], parts.iter().flat_map(|part| part.s.iter().copied()))?;
    put_matrices(&mut outputs[2], parts.iter().map(|part| &part.vh))
});

impl Layer for SvdOfThin {
    fn num_outputs(&self) -> usize {
        3
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let stack = Stack::of(inputs, 0)?;
        let k = stack.rank();
        let thin = self.some && self.compute_uv;
        let (left, right) = if thin { (&k, &k) } else { (stack.rows, stack.columns) };
        let (u, v) = ([stack.rows, left], [stack.columns, right]);
        Ok(vec![stack.each(stack.dtype, u), stack.each(stack.dtype.real(), [&k]), stack.each(stack.dtype, v)])
    }
}

by_lapack!(SvdOfThin: |layer, inputs, outputs, limits| T => {
    if !layer.compute_uv {
        let values = each(&inputs[0], limits, |a| lapack::singular_values::<T>(&a))?;
        outputs[0].array::<T>()?.fill(T::default());
        outputs[2].array::<T>()?.fill(T::default());
        return put(&mut outputs[1], values.into_iter().flatten());
    }
    let parts = each(&inputs[0], limits, |a| lapack::svd::<T>(&a, !layer.some, limits))?;
    let v: Vec<_> = parts.iter().map(|part| ixion_kernels::matrix::adjoint(&part.vh.view())).collect();
    put_matrices(&mut outputs[0], parts.iter().map(|part| &part.u))?;
    put(&mut outputs[1], parts.iter().flat_map(|part| part.s.iter().copied()))?;
    put_matrices(&mut outputs[2], &v)
});

impl Layer for SvdVals {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let stack = Stack::of(inputs, 0)?;
        Ok(vec![stack.each(stack.dtype.real(), [&stack.rank()])])
    }
}

by_lapack!(SvdVals: |layer, inputs, outputs, limits| T => {
    put(&mut outputs[0], each(&inputs[0], limits, |a| lapack::singular_values::<T>(&a))?.into_iter().flatten())
});

/// The tolerances up to which singular values count as 0.
#[derive(Debug, Clone, Copy)]
struct Tolerance {
    atol: Option<TensorOrScalar>,
    rtol: Option<TensorOrScalar>,
    hermitian: bool,
}

impl Tolerance {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let given = [self.atol, self.rtol].iter().flatten().map(TensorOrScalar::num_inputs).sum::<usize>();
        1 + given..=1 + given
    }

    fn stack<'a>(&self, inputs: &'a [TensorMeta]) -> Result<Stack<'a>, LayerError> {
        if self.hermitian { Stack::of_square(inputs, 0) } else { Stack::of(inputs, 0) }
    }
}

#[cfg(feature = "linalg")]
impl Tolerance {
    /// The absolute and the relative tolerance.
    fn numbers(&self, inputs: &[TensorView<'_>], epsilon: f64) -> Result<[f64; 2], LayerError> {
        let number = |factor: Option<TensorOrScalar>| -> Result<Option<f64>, LayerError> {
            Ok(match factor.map(|factor| factor.item(inputs)).transpose()? {
                None => None,
                Some(Scalar::Float(value)) => Some(value),
                Some(Scalar::Int(value)) => Some(value as f64),
                Some(Scalar::Bool(value)) => Some(f64::from(u8::from(value))),
                Some(_) => return Err(LayerError::shape("a tolerance", "a real number", "a complex one")),
            })
        };
        let (_, [rows, columns]) = lens(&inputs[0])?;
        let (atol, rtol) = (number(self.atol)?, number(self.rtol)?);
        let usual =
            if atol.is_some_and(|atol| atol > 0.0) { 0.0 } else { epsilon * rows.max(columns) as f64 };
        Ok([atol.unwrap_or(0.0), rtol.unwrap_or(usual)])
    }

    /// The results of a function of each matrix's decomposition and tolerance.
    fn each<T: lapack::Element, R>(
        &self,
        inputs: &[TensorView<'_>],
        limits: &Limits,
        mut function: impl FnMut(Singular<T>, T::Real) -> R,
    ) -> Result<Vec<R>, LayerError> {
        let [atol, rtol] = self.numbers(inputs, T::EPSILON)?;
        each(&inputs[0], limits, |a: ndarray::ArrayView2<'_, T>| {
            let parts = if self.hermitian {
                lapack::svd(&lapack::of_lower(&a).view(), false, limits)
            } else {
                lapack::svd(&a, false, limits)
            }?;
            let largest = parts.s.first().map_or(0.0, |&s| lapack::as_f64::<T>(s));
            let bound = T::nearest(atol.max(rtol * largest)).re();
            Ok::<R, Fault>(function(parts, bound))
        })
    }
}

impl MatrixRank {
    fn tolerance(&self) -> Tolerance {
        Tolerance { atol: self.atol, rtol: self.rtol, hermitian: self.hermitian }
    }
}

impl Layer for MatrixRank {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.tolerance().num_inputs()
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![self.tolerance().stack(inputs)?.each(DType::I64, [])])
    }
}

by_lapack!(MatrixRank: |layer, inputs, outputs, limits| T => {
    let ranks = layer.tolerance().each::<T, _>(inputs, limits, |parts, bound| {
        parts.s.iter().filter(|&&s| s > bound).count() as i64
    })?;
    put(&mut outputs[0], ranks)
});

impl PseudoInverseOfTolerances {
    fn tolerance(&self) -> Tolerance {
        Tolerance { atol: self.atol, rtol: self.rtol, hermitian: self.hermitian }
    }
}

impl Layer for PseudoInverseOfTolerances {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.tolerance().num_inputs()
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let stack = self.tolerance().stack(inputs)?;
        Ok(vec![stack.each(stack.dtype, [stack.columns, stack.rows])])
    }
}

by_lapack!(PseudoInverseOfTolerances: |layer, inputs, outputs, limits| T => {
    let inverses = layer.tolerance().each::<T, _>(inputs, limits, |parts, bound| lapack::pseudo_inverse(&parts, bound))?;
    put_matrices(&mut outputs[0], &inverses)
});

#[cfg(feature = "linalg")]
impl PseudoInverse {
    fn tolerance(&self) -> Tolerance {
        Tolerance {
            atol: None,
            rtol: Some(TensorOrScalar::Number(Scalar::Float(self.rcond))),
            hermitian: false,
        }
    }
}

impl Layer for PseudoInverse {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let stack = Stack::of(inputs, 0)?;
        Ok(vec![stack.each(stack.dtype, [stack.columns, stack.rows])])
    }
}

by_lapack!(PseudoInverse: |layer, inputs, outputs, limits| T => {
    let inverses = layer.tolerance().each::<T, _>(inputs, limits, |parts, bound| lapack::pseudo_inverse(&parts, bound))?;
    put_matrices(&mut outputs[0], &inverses)
});

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
    ) -> Result<(), LayerError> {
        with_field!(input.dtype(), T => {
            let values = each(input, limits, |a| lapack::singular_values::<T>(&a))?;
            put(output, values.iter().map(|s| match self {
                Self::Largest => s.first().copied().unwrap_or(0.0),
                Self::Smallest => s.last().copied().unwrap_or(0.0),
                Self::Sum => s.iter().fold(0.0, |sum, s| sum + s),
            }))
        })
    }

    /// Returns the error that LAPACK is missing.
    #[cfg(not(feature = "linalg"))]
    pub(crate) fn write(
        self,
        _: &TensorView<'_>,
        _: &mut TensorViewMut<'_>,
        _: &Limits,
    ) -> Result<(), LayerError> {
        super::available()
    }
}

impl Layer for Cond {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
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
}

by_lapack!(Cond: |layer, inputs, outputs, limits| T => {
    let order = layer.p.unwrap_or(Order::Number(2.0));
    put(&mut outputs[0], each(&inputs[0], limits, |a| lapack::condition::<T>(&a, order.into()))?)
});

impl NuclearNorm {
    fn axes(&self, rank: usize) -> Result<Vec<usize>, LayerError> {
        let axes = distinct_axes("dim", self.dim.as_deref().unwrap_or(&[-2, -1]), rank)?;
        if axes.len() == 2 {
            Ok(axes)
        } else {
            Err(LayerError::invalid("dim", format!("{axes:?}"), "expected the two axes of a matrix"))
        }
    }
}

impl Layer for NuclearNorm {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let (stack, axes) = (Stack::of(inputs, 0)?, self.axes(inputs[0].rank())?);
        let dims = inputs[0].dims().iter().enumerate();
        let kept = dims.filter_map(|(axis, dim)| match (axes.contains(&axis), self.keepdim) {
            (false, _) => Some(dim.clone()),
            (true, true) => Some(1.into()),
            (true, false) => None,
        });
        Ok(vec![TensorMeta::new(stack.dtype.real(), kept)])
    }
}

by_lapack!(NuclearNorm: |layer, inputs, outputs, limits| T => {
    let axes = layer.axes(inputs[0].shape().rank())?;
    let matrices = with_last(&inputs[0], &axes)?;
    let values = each(&matrices, limits, |a| lapack::singular_values::<T>(&a))?;
    put(&mut outputs[0], values.into_iter().map(|s| s.into_iter().fold(0.0, |sum, s| sum + s)))
});

/// The same tensor, with two axes moved to the end.
pub(crate) fn with_last<'a>(input: &TensorView<'a>, axes: &[usize]) -> Result<TensorView<'a>, LayerError> {
    let others = (0..input.shape().rank()).filter(|axis| !axes.contains(axis));
    let order: Vec<usize> = others.chain(axes.iter().copied()).collect();
    Ok(input.with_layout(input.layout().permute(&order)?)?)
}
