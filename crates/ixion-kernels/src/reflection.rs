//! Householder reflections, from which QR decompositions are computed.

use super::matrix::Field;
use ixion_tensor::{LimitError, Limits};
use ndarray::{Array2, ArrayView1, ArrayView2};

/// The first n columns of H₁·H₂·…·Hₖ, with Hᵢ = 1 − τᵢ·vᵢ·vᵢᴴ. The vectors are the columns of an m×n matrix, m ≥ n ≥ k:
/// vᵢ is 1 on the diagonal and 0 above it, whatever the matrix contains there.
///
/// # Errors
/// [`LimitError`] if the deadline has passed.
///
/// # Panics
/// Panics if the lengths do not match.
pub fn reflections<T: Field>(
    vectors: &ArrayView2<'_, T>,
    factors: &ArrayView1<'_, T>,
    limits: &Limits,
) -> Result<Array2<T>, LimitError> {
    let (m, n) = vectors.dim();
    assert!(
        m >= n && n >= factors.len(),
        "there must not be more reflections than columns, or more columns than rows"
    );
    let mut q = vec![T::zero(); m * n];
    (0..n).for_each(|i| q[i * n + i] = T::one());
    let (mut vector, mut turned, mut along) = (Vec::new(), Vec::new(), Vec::new());
    for (i, &factor) in factors.iter().enumerate().rev() {
        limits.check_deadline()?;
        vector.clear();
        vector.extend((i..m).map(|row| if row == i { T::one() } else { vectors[[row, i]] }));
        turned.clear();
        turned.extend(vector.iter().map(|x| x.conj()));
        // Columns before this one are still those of the identity matrix, and 0 from here on.
        along.clear();
        along.extend((i..n).map(|column| dot(&q[i * n + column..], n, &turned)));
        for (row, &x) in q[i * n..].chunks_exact_mut(n).zip(&vector) {
            let scale = -(factor * x);
            row[i..].iter_mut().zip(&along).for_each(|(y, &along)| *y = *y + scale * along);
        }
    }
    Ok(Array2::from_shape_fn((m, n), |(i, j)| q[i * n + j]))
}

/// The dot product of numbers that are `stride` apart with a vector.
fn dot<T: Field>(numbers: &[T], stride: usize, vector: &[T]) -> T {
    let sum = if stride == 1 {
        ArrayView1::from(numbers).dot(&ArrayView1::from(vector))
    } else {
        let pairs = numbers.iter().step_by(stride).zip(vector);
        pairs.fold(T::zero(), |sum, (&x, &y)| sum + x * y)
    };
    // As in scaled matrix products: for complex numbers, the multiplication may change the result.
    sum * T::one()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::Complex;
    use ndarray::{Array1, array, s};

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
