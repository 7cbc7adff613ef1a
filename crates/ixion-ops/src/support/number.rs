//! The types in which products and sums are computed: half precision in f32, f32 and f64 as they are, integers in i64 that
//! wraps around, complex numbers in double precision.

use crate::op::{LayerError, Result};
use ixion_kernels::gemm::{gemm, gemm_integers};
use ixion_tensor::{Complex, DType, Element, Layout, Limits, TensorView, TensorViewMut};
use ndarray::{Array2, ArrayView1, ArrayView2, ArrayViewMut2, LinalgScalar};
use std::borrow::Cow;

/// A type in which products are computed.
pub(crate) trait Number: Element + LinalgScalar {
    /// Converts a parameter; fractions are truncated for integers.
    fn of(value: f64) -> Self;

    /// C = A·B, (m×k)·(k×n) → m×n. The caller has checked the sizes.
    fn multiply(a: ArrayView2<'_, Self>, b: ArrayView2<'_, Self>, c: ArrayViewMut2<'_, Self>);

    /// C = C + A·B, as [`Number::multiply`].
    fn add_product(a: ArrayView2<'_, Self>, b: ArrayView2<'_, Self>, mut c: ArrayViewMut2<'_, Self>) {
        let mut product = Array2::from_elem(c.raw_dim(), Self::default());
        Self::multiply(a, b, product.view_mut());
        c.zip_mut_with(&product, |c, &x| *c = Self::plus(*c, x));
    }

    /// `a` · `b`.
    #[inline(always)]
    fn times(a: Self, b: Self) -> Self {
        a * b
    }

    /// `a` + `b`.
    fn plus(a: Self, b: Self) -> Self {
        a + b
    }

    /// `a` · `x` + `b` · `y`.
    fn weighted(a: Self, x: Self, b: Self, y: Self) -> Self {
        Self::plus(Self::times(a, x), Self::times(b, y))
    }

    /// The sum of contiguous elements.
    fn sum(numbers: &[Self]) -> Self {
        ArrayView1::from(numbers).sum()
    }
}

impl Number for f32 {
    fn of(value: f64) -> Self {
        value as Self
    }

    fn multiply(a: ArrayView2<'_, Self>, b: ArrayView2<'_, Self>, c: ArrayViewMut2<'_, Self>) {
        gemm(a, b, c, false);
    }

    fn add_product(a: ArrayView2<'_, Self>, b: ArrayView2<'_, Self>, c: ArrayViewMut2<'_, Self>) {
        gemm(a, b, c, true);
    }
}

impl Number for f64 {
    fn of(value: f64) -> Self {
        value
    }

    fn multiply(a: ArrayView2<'_, Self>, b: ArrayView2<'_, Self>, c: ArrayViewMut2<'_, Self>) {
        gemm(a, b, c, false);
    }

    fn add_product(a: ArrayView2<'_, Self>, b: ArrayView2<'_, Self>, c: ArrayViewMut2<'_, Self>) {
        gemm(a, b, c, true);
    }
}

impl Number for i64 {
    fn of(value: f64) -> Self {
        value as Self
    }

    fn multiply(a: ArrayView2<'_, Self>, b: ArrayView2<'_, Self>, c: ArrayViewMut2<'_, Self>) {
        gemm_integers(a, b, c);
    }

    #[inline(always)]
    fn times(a: Self, b: Self) -> Self {
        a.wrapping_mul(b)
    }

    fn plus(a: Self, b: Self) -> Self {
        a.wrapping_add(b)
    }

    fn sum(numbers: &[Self]) -> Self {
        numbers.iter().fold(0, |sum, &x| sum.wrapping_add(x))
    }
}

impl Number for Complex<f64> {
    fn of(value: f64) -> Self {
        value.into()
    }

    fn multiply(a: ArrayView2<'_, Self>, b: ArrayView2<'_, Self>, mut c: ArrayViewMut2<'_, Self>) {
        if a.is_empty() || b.is_empty() {
            // `mapv` does not support the strides of some empty arrays.
            return c.fill(Self::of(0.0));
        }
        let part = |of: fn(Self) -> f64| [a.mapv(of), b.mapv(of)];
        let ([a_re, b_re], [a_im, b_im]) = (part(|x| x.re), part(|x| x.im));
        let product = |a: &Array2<f64>, b: &Array2<f64>| {
            let mut product = Array2::zeros(c.raw_dim());
            gemm(a.view(), b.view(), product.view_mut(), false);
            product
        };
        let (re, from_re) = (product(&a_re, &b_re), product(&a_im, &b_im));
        let (im, with_im) = (product(&a_re, &b_im), product(&a_im, &b_re));
        for ((i, j), c) in c.indexed_iter_mut() {
            let at = [i, j];
            *c = Complex::new(re[at] - from_re[at], im[at] + with_im[at]);
        }
    }
}

/// A computation of one output in the [`Number`] that its elements are computed in.
pub(crate) trait Computation {
    /// Computes the output in `T`.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded, or the inputs do not fit each other.
    fn run_in<T: Number>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()>;

    /// Computes the output.
    ///
    /// # Errors
    /// As [`Computation::run_in`].
    fn run(&self, inputs: &[TensorView<'_>], output: &mut TensorViewMut<'_>, limits: &Limits) -> Result<()> {
        match output.dtype() {
            DType::F32 | DType::F16 | DType::Bf16 => self.run_in::<f32>(inputs, output, limits),
            DType::F64 => self.run_in::<f64>(inputs, output, limits),
            DType::C32 | DType::C64 | DType::C128 => self.run_in::<Complex<f64>>(inputs, output, limits),
            _ => self.run_in::<i64>(inputs, output, limits),
        }
    }
}

/// The sums along an axis of elements in row-major order. Along the last axis, contiguous runs are summed; along any other
/// axis, rows are added up in turn.
pub(crate) fn sums_along<T: Number>(numbers: &[T], lens: &[usize], axis: usize) -> Vec<T> {
    let len = lens[axis];
    let (outer, inner) = (lens[..axis].iter().product::<usize>(), lens[axis + 1..].iter().product::<usize>());
    if axis + 1 == lens.len() {
        return (0..outer).map(|row| T::sum(&numbers[row * len..][..len])).collect();
    }
    let mut sums = vec![T::default(); outer * inner];
    for (block, sums) in sums.chunks_exact_mut(inner.max(1)).enumerate() {
        for row in 0..len {
            let numbers = &numbers[(block * len + row) * inner..][..inner];
            sums.iter_mut().zip(numbers).for_each(|(sum, &x)| *sum = T::plus(*sum, x));
        }
    }
    sums
}

/// Checks that an element type is numeric.
///
/// # Errors
/// [`LayerError::DType`] for bool.
pub(crate) fn check(what: &str, dtype: DType) -> Result<()> {
    match dtype {
        DType::Bool => Err(LayerError::dtype(what, "numbers", dtype)),
        _ => Ok(()),
    }
}

/// The elements in row-major order as `T`; borrowed if they are stored that way.
pub(crate) fn read<'a, T: Number>(view: &TensorView<'a>) -> Result<Cow<'a, [T]>> {
    if view.dtype() != T::DTYPE {
        let mut values = vec![T::default(); view.num_elements()];
        let layout = Layout::contiguous(*view.shape());
        TensorViewMut::from_slice(&mut values, layout)?.cast_from(view)?;
        return Ok(Cow::Owned(values));
    }
    Ok(match view.slice() {
        Ok(slice) => Cow::Borrowed(slice),
        Err(_) => Cow::Owned(view.to_vec()?),
    })
}

/// Lets `fill` write all elements of an output in row-major order.
pub(crate) fn write<T: Number>(
    output: &mut TensorViewMut<'_>,
    fill: impl FnOnce(&mut [T]) -> Result<()>,
) -> Result<()> {
    let mut fill = Some(fill);
    write_by(output, &mut |values| fill.take().map_or(Ok(()), |fill| fill(values)))
}

/// As [`write`], but compiled once for each `T`, not for each `fill`.
fn write_by<T: Number>(
    output: &mut TensorViewMut<'_>,
    fill: &mut dyn FnMut(&mut [T]) -> Result<()>,
) -> Result<()> {
    if output.dtype() == T::DTYPE && output.layout().is_contiguous() {
        return fill(output.slice()?);
    }
    let mut values = vec![T::default(); output.num_elements()];
    fill(&mut values)?;
    let layout = Layout::contiguous(*output.shape());
    Ok(output.cast_from(&TensorView::from_slice(&values, layout)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn complex_products_are_those_of_their_parts() {
        let i = Complex::new(0.0, 1.0);
        let (a, b) = (array![[i + 1.0, i * 2.0]], array![[i], [i - 3.0]]);
        let mut c = Array2::default((1, 1));
        Number::multiply(a.view(), b.view(), c.view_mut());
        let product = (i + 1.0) * i + (i * 2.0) * (i - 3.0);
        assert_eq!(c[[0, 0]], product);
        Number::add_product(a.view(), b.view(), c.view_mut());
        assert_eq!(c[[0, 0]], product + product);
    }

    #[test]
    fn sums_have_the_bits_of_an_array() {
        let lens = [3, 19, 5];
        let numbers: Vec<f32> = (0..lens.iter().product::<usize>()).map(|i| (i as f32).sin()).collect();
        let array = ndarray::ArrayD::from_shape_vec(lens.to_vec(), numbers.clone()).unwrap();
        for axis in 0..3 {
            let wanted = array.sum_axis(ndarray::Axis(axis));
            assert_eq!(Some(&*sums_along(&numbers, &lens, axis)), wanted.as_slice());
        }
        assert_eq!(sums_along::<f64>(&[], &[2, 0, 2], 1), [0.0; 4]);
        assert!(sums_along::<f64>(&[], &[2, 3, 0], 1).is_empty());
    }

    #[test]
    fn integers_wrap_around() {
        let mut c = Array2::from_elem((1, 2), 7);
        let a = array![[i64::MAX, 1]];
        Number::multiply(a.view(), array![[2, 0], [5, -1]].view(), c.view_mut());
        assert_eq!(c, array![[3, -1]]);
        assert_eq!(sums_along(&[i64::MAX, 1], &[2], 0), [i64::MIN]);
        assert_eq!(sums_along(&[i64::MAX, 1, 2, 3], &[2, 2], 0), [i64::MIN + 1, 4]);
        assert_eq!(i64::weighted(i64::MAX, 2, 3, 1), 1);
    }
}
