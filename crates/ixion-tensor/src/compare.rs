//! Comparison of tensors with a tolerance.

use super::wide::{Scalar, Wide, Widen};
use super::{DType, Result, Shape, Tensor, with_element};
use approx::{AbsDiffEq, RelativeEq};
use std::fmt;

/// The result of [`Tensor::allclose`]; `Display` formats it as a report.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The relative tolerance.
    pub rtol: f64,
    /// The absolute tolerance.
    pub atol: f64,
    /// The actual and the expected element type.
    pub dtypes: [DType; 2],
    /// The actual and the expected shape.
    pub shapes: [Shape; 2],
    /// The number of elements that are not close; 0 if types or shapes differ, as nothing is compared then.
    pub mismatches: usize,
    /// The largest absolute difference; infinite if a NaN or an infinity is compared with a different value.
    pub max_abs_diff: f64,
    /// The element furthest outside its tolerance or, if all are inside, the one closest to its limit. `None` if all
    /// elements are equal or none were compared.
    pub worst: Option<Difference>,
}

/// One element of two tensors.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// The index.
    pub index: Vec<usize>,
    /// The actual value.
    pub got: Scalar,
    /// The expected value.
    pub want: Scalar,
}

impl Comparison {
    /// Returns true if types and shapes agree and all elements are close.
    pub fn holds(&self) -> bool {
        self.dtypes[0] == self.dtypes[1] && self.shapes[0] == self.shapes[1] && self.mismatches == 0
    }
}

impl Tensor {
    /// Compares with an expected tensor (`torch.allclose`, with a report).
    ///
    /// Floats are close if |got − want| ≤ `atol` + `rtol` · |want|; equal infinities are always close, two NaNs only with
    /// `equal_nan`. Integers and bools must be equal.
    ///
    /// ```
    /// use ixion_tensor::Tensor;
    /// let got = Tensor::from_vec(vec![1.0f32, 2.0, 3.5], &[3])?;
    /// let want = Tensor::from_vec(vec![1.0f32, 2.0, 3.0], &[3])?;
    /// let comparison = got.allclose(&want, 1e-5, 1e-8, false)?;
    /// assert!(!comparison.holds());
    /// assert_eq!(comparison.worst.map(|worst| worst.index), Some(vec![2]));
    /// # Ok::<(), ixion_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorError::Blocked`](super::TensorError::Blocked). Different types or shapes are not an error; the comparison then
    /// does not hold.
    pub fn allclose(&self, want: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<Comparison> {
        let mut comparison = Comparison {
            rtol,
            atol,
            dtypes: [self.dtype(), want.dtype()],
            shapes: [*self.shape(), *want.shape()],
            mismatches: 0,
            max_abs_diff: 0.0,
            worst: None,
        };
        if self.dtype() == want.dtype() && self.shape() == want.shape() {
            with_element!(self.dtype(), T => compare::<T>(self, want, equal_nan, &mut comparison)?);
        }
        Ok(comparison)
    }

    /// Returns true if types and shapes agree and `rule` holds for each pair of unequal elements; its arguments are their
    /// distance and absolute values.
    fn all_pairs(&self, other: &Tensor, rule: &dyn Fn(f64, f64, f64) -> bool) -> bool {
        fn pairs<T: Widen>(left: &Tensor, right: &Tensor, rule: &dyn Fn(f64, f64, f64) -> bool) -> bool {
            let (Ok(left), Ok(right)) = (left.array::<T>(), right.array::<T>()) else {
                return false;
            };
            left.iter().zip(right.iter()).all(|(left, right)| {
                let (left, right) = (left.widen(), right.widen());
                left == right || rule(left.distance(right), left.magnitude(), right.magnitude())
            })
        }
        let alike = self.dtype() == other.dtype() && self.shape() == other.shape();
        alike && with_element!(self.dtype(), T => pairs::<T>(self, other, rule))
    }
}

fn compare<T: Widen>(got: &Tensor, want: &Tensor, equal_nan: bool, report: &mut Comparison) -> Result<()> {
    let (got, want) = (got.array::<T>()?, want.array::<T>()?);
    let mut pairs = got.iter().zip(want.iter());
    compare_wide(&mut || pairs.next().map(|(got, want)| (got.widen(), want.widen())), equal_nan, report);
    Ok(())
}

/// Compares pairs of elements in turn.
fn compare_wide<W: Wide>(next: &mut dyn FnMut() -> Option<(W, W)>, equal_nan: bool, report: &mut Comparison) {
    let dtype = report.dtypes[0];
    let inexact = dtype.is_float() || dtype.is_complex();
    let (rtol, atol) = if inexact { (report.rtol, report.atol) } else { (0.0, 0.0) };
    let mut worst_excess = f64::NEG_INFINITY;
    let mut position = 0;
    while let Some((got, want)) = next() {
        let at = position;
        position += 1;
        let distance = distance(got, want, equal_nan);
        if distance == 0.0 {
            continue;
        }
        // An infinite distance is never close, even if an infinite `want` makes the tolerance infinite.
        let excess =
            if distance.is_finite() { distance - (atol + rtol * want.magnitude()) } else { f64::INFINITY };
        report.mismatches += usize::from(excess > 0.0);
        report.max_abs_diff = report.max_abs_diff.max(distance);
        if excess > worst_excess {
            worst_excess = excess;
            report.worst = Some(Difference {
                index: report.shapes[0].index_of(at),
                got: Scalar::of_wide(got, dtype),
                want: Scalar::of_wide(want, dtype),
            });
        }
    }
}

/// The distance between two elements; infinite if either is NaN, unless both are and `equal_nan` is set.
fn distance<W: Wide>(got: W, want: W, equal_nan: bool) -> f64 {
    if got == want || (equal_nan && got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    let distance = got.distance(want);
    if distance.is_nan() { f64::INFINITY } else { distance }
}

/// Rounds to three significant digits: a tolerance may be a sum with many digits.
fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// One line such as `2 of 10 elements differ (rtol 1e-5, atol 1e-8); worst at [0, 3]: got 0.6, want 0.1; largest
/// difference 0.5`.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [dtype, want] = self.dtypes;
        if dtype != want {
            return write!(f, "element types differ: got {dtype}, want {want}");
        }
        let [shape, want] = self.shapes;
        if shape != want {
            return write!(f, "shapes differ: got {shape}, want {want}");
        }
        let count = shape.num_elements();
        let Some(Difference { index, got, want }) = &self.worst else {
            return write!(f, "all {count} elements are equal");
        };
        let [rtol, atol] = [self.rtol, self.atol].map(three_digits).map(Scalar::Float);
        let largest = Scalar::Float(self.max_abs_diff);
        match self.mismatches {
            0 => write!(f, "all {count} elements are close (rtol {rtol}, atol {atol}); closest to the edge")?,
            differ => write!(f, "{differ} of {count} elements differ (rtol {rtol}, atol {atol}); worst")?,
        }
        let (got, want, largest) = (got.text(dtype), want.text(dtype), largest.text(dtype));
        write!(f, " at {index:?}: got {got}, want {want}; largest difference {largest}")
    }
}

/// |left − right| ≤ `epsilon` for all elements, including integers. Tensors of different type or shape are not equal.
impl AbsDiffEq for Tensor {
    type Epsilon = f64;

    /// The spacing of `f32` at 1.
    fn default_epsilon() -> f64 {
        f32::EPSILON.into()
    }

    fn abs_diff_eq(&self, other: &Self, epsilon: f64) -> bool {
        self.all_pairs(other, &|distance, _, _| distance <= epsilon)
    }
}

/// As [`AbsDiffEq`], or |left − right| ≤ `max_relative` · max(|left|, |right|).
impl RelativeEq for Tensor {
    fn default_max_relative() -> f64 {
        f32::EPSILON.into()
    }

    fn relative_eq(&self, other: &Self, epsilon: f64, max_relative: f64) -> bool {
        self.all_pairs(other, &|distance, left, right| {
            distance <= epsilon || (distance.is_finite() && distance <= max_relative * left.max(right))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Complex, Element, f16};
    use approx::{assert_abs_diff_eq, assert_relative_eq};

    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;

    fn vector<T: Element>(values: &[T]) -> Tensor {
        Tensor::from_vec(values.to_vec(), &[values.len()]).unwrap()
    }

    fn close<T: Element>(got: &[T], want: &[T], rtol: f64, atol: f64) -> Comparison {
        vector(got).allclose(&vector(want), rtol, atol, false).unwrap()
    }

    #[test]
    fn tolerances_follow_pytorch() {
        // The tolerance is relative to the expected value: 10 % of 100 reaches 90, 10 % of 90 does not reach 100.
        assert!(close(&[90.0f64], &[100.0], 0.1, 0.0).holds());
        assert!(!close(&[100.0f64], &[90.0], 0.1, 0.0).holds());
        assert!(close(&[1.5f64], &[1.0], 0.0, 0.5).holds() && !close(&[1.5f64], &[1.0], 0.0, 0.49).holds());
        assert!(close(&[Complex::new(3.0f32, 4.0)], &[Complex::new(0.0, 0.0)], 0.0, 5.0).holds());
        assert!(!close(&[f16::ONE], &[f16::ZERO], 0.0, 0.9).holds());
        assert!(!close(&[1i64 << 60], &[(1 << 60) + 1], 1.0, 1.0).holds());
        assert!(!close(&[true], &[false], 1.0, 1.0).holds() && close(&[true], &[true], 0.0, 0.0).holds());
    }

    #[test]
    fn infinities_and_nan() {
        assert!(close(&[INF, -INF], &[INF, -INF], 0.0, 0.0).holds());
        for (got, want) in
            [(1.0, INF), (INF, 1.0), (INF, -INF), (NAN, 1.0), (1.0, NAN), (NAN, INF), (NAN, NAN)]
        {
            let comparison = close(&[got], &[want], 1.0, 1.0);
            assert_eq!((comparison.mismatches, comparison.max_abs_diff), (1, f64::INFINITY), "{got} {want}");
        }
        let x = vector(&[NAN, 1.0]);
        assert!(x.allclose(&x, 0.0, 0.0, true).unwrap().holds());
        assert!(!x.allclose(&vector(&[1.0f32, 1.0]), 1.0, 1.0, true).unwrap().holds());
    }

    #[test]
    fn the_report() {
        let got = Tensor::from_vec(vec![1.0f32, 2.5, 100.0, 4.0], &[2, 2]).unwrap();
        let want = Tensor::from_vec(vec![1.0f32, 2.0, 101.0, 4.0], &[2, 2]).unwrap();
        let text = |rtol, atol| got.allclose(&want, rtol, atol, false).unwrap().to_string();
        insta::assert_snapshot!(text(1e-5, 1e-8), @"2 of 4 elements differ (rtol 1e-5, atol 1e-8); worst at [1, 0]: got 100, want 101; largest difference 1");
        // The largest difference is within its tolerance here, so another element is the worst.
        insta::assert_snapshot!(text(0.02, 0.1), @"1 of 4 elements differ (rtol 0.02, atol 0.1); worst at [0, 1]: got 2.5, want 2; largest difference 1");
        insta::assert_snapshot!(text(0.5, 0.0), @"all 4 elements are close (rtol 0.5, atol 0); closest to the edge at [0, 1]: got 2.5, want 2; largest difference 1");
        insta::assert_snapshot!(got.allclose(&got, 0.0, 0.0, false).unwrap(), @"all 4 elements are equal");
        let flat = got.reshape(&[4]).unwrap();
        insta::assert_snapshot!(flat.allclose(&got, 0.0, 0.0, false).unwrap(), @"shapes differ: got 4, want 2×2");
        let wide = got.cast(DType::F64).unwrap();
        insta::assert_snapshot!(got.allclose(&wide, 0.0, 0.0, false).unwrap(), @"element types differ: got f32, want f64");
    }

    #[test]
    fn layouts_may_differ() {
        let x = Tensor::randn(&[3, 4], 0).unwrap();
        let turned = x.permute(&[1, 0]).unwrap().contiguous().unwrap().permute(&[1, 0]).unwrap();
        assert_eq!(turned.allclose(&x, 0.0, 0.0, false).unwrap().worst, None);
        assert!(x.to_blocked(0, 2).unwrap().allclose(&x, 0.0, 0.0, false).is_err());
    }

    #[test]
    fn the_traits_of_approx() {
        let (x, y) = (vector(&[1.0f32, 1000.0]), vector(&[1.0f32, 1000.1]));
        assert_abs_diff_eq!(x, y, epsilon = 0.11);
        assert_relative_eq!(x, y, max_relative = 1e-3);
        assert!(x.abs_diff_ne(&y, 0.09) && x.relative_ne(&y, 0.0, 1e-5));
        assert!(x.abs_diff_ne(&y.cast(DType::F64).unwrap(), 1.0));
        assert!(vector(&[NAN]).abs_diff_ne(&vector(&[NAN]), 1.0));
        assert!(vector(&[1.0f32]).relative_ne(&vector(&[INF]), 1.0, 1.0));
        assert_abs_diff_eq!(vector(&[INF]), vector(&[INF]));
        assert_abs_diff_eq!(vector(&[3u8]), vector(&[4u8]), epsilon = 1.0);
    }
}
