//! Reflections: matrices that turn a vector around, of which QR is made.

use super::matrix::Field;
use ixion_tensor::{LimitError, Limits};
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, s};

/// The first n columns of H₁·H₂·…·Hₖ, with Hᵢ = 1 − τᵢ·vᵢ·vᵢᴴ. The vectors are columns of an m×n matrix, m ≥ n ≥ k: vᵢ is 1
/// on the diagonal and 0 above it, whatever is there.
///
/// # Errors
/// [`LimitError`] when the time is up.
///
/// # Panics
/// When the lengths do not fit.
pub fn reflections<T: Field>(
    vectors: &ArrayView2<'_, T>,
    factors: &ArrayView1<'_, T>,
    limits: &Limits,
) -> Result<Array2<T>, LimitError> {
    let (m, n) = vectors.dim();
    assert!(m >= n && n >= factors.len(), "no more reflections than columns, no more columns than rows");
    let mut q = Array2::zeros((m, n));
    q.diag_mut().fill(T::one());
    for (i, &factor) in factors.iter().enumerate().rev() {
        limits.check_deadline()?;
        let mut vector: Array1<T> = vectors.slice(s![i.., i]).to_owned();
        vector[0] = T::one();
        // Columns before this one are still those of the unit matrix, and 0 from here on.
        let mut rest = q.slice_mut(s![i.., i..]);
        let along = vector.mapv(T::conj).dot(&rest);
        for (mut row, &x) in rest.axis_iter_mut(Axis(0)).zip(&vector) {
            row.scaled_add(-(factor * x), &along);
        }
    }
    Ok(q)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::Complex;
    use ndarray::array;

    #[test]
    fn one_reflection() {
        // 1 − 2·v·vᵀ/(vᵀ·v) of v = (1, 2).
        let vectors = array![[9.0, 0.0], [2.0, 0.0]];
        let q = reflections(&vectors.view(), &array![0.4].view(), &Limits::default()).unwrap();
        assert!((q - array![[0.6, -0.8], [-0.8, -0.6]]).iter().all(|x: &f64| x.abs() < 1e-15));
    }

    #[test]
    fn several_are_the_product_of_their_matrices() {
        let number = |i: usize| Complex::new(((i * 7) % 5) as f64 - 2.0, ((i * 3) % 7) as f64 - 3.0) / 3.0;
        let vectors = Array2::from_shape_fn((4, 3), |(i, j)| number(i * 3 + j));
        let factors = Array1::from_shape_fn(2, |i| number(i + 20));
        let mut want: Array2<Complex<f64>> = Array2::eye(4);
        for i in 0..2 {
            let vector = Array2::from_shape_fn((4, 1), |(row, _)| match row.cmp(&i) {
                std::cmp::Ordering::Less => Complex::new(0.0, 0.0),
                std::cmp::Ordering::Equal => Complex::new(1.0, 0.0),
                std::cmp::Ordering::Greater => vectors[[row, i]],
            });
            let turned = vector.t().mapv(|x| x.conj());
            want = want.dot(&(Array2::eye(4) - vector.dot(&turned) * factors[i]));
        }
        let got = reflections(&vectors.view(), &factors.view(), &Limits::default()).unwrap();
        assert!((got - want.slice(s![.., ..3])).iter().all(|x| x.norm() < 1e-14));
    }
}
