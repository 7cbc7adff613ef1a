//! LDL decomposition: a symmetric or Hermitian matrix as L·D·Lᵀ, with the pivoting of Bunch and Kaufman.
//!
//! D has blocks of one or two rows on its diagonal. Pivots are chosen and stored as in LAPACK's ?sytrf and ?hetrf with
//! the lower triangle.

use super::elimination::swap;
use super::matrix::{Fault, Field};
use ixion_tensor::{LimitError, Limits};
use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, Axis, s};

/// An LDL decomposition.
#[derive(Debug, Clone, PartialEq)]
pub struct Ldl<T> {
    /// D on the diagonal, and just below it where a block has two rows; L below.
    pub factors: Array2<T>,
    /// For each row, the row that it was swapped with, counted from 1. Both rows of a block of two have the same negative
    /// number: then the second row was swapped.
    pub pivots: Vec<i32>,
    /// The index of the first block of D that is 0, if there is one.
    pub singular: Option<usize>,
}

/// The function that computes the upper triangle from the lower one.
fn mirror<T: Field>(hermitian: bool) -> fn(T) -> T {
    if hermitian { T::conj } else { |x| x }
}

/// Solves a·x + c·y = p and d·x + b·y = q. They are divided by c and d first, so that nothing overflows.
fn solve_two<T: Field>([[a, c], [d, b]]: [[T; 2]; 2], [p, q]: [T; 2]) -> [T; 2] {
    let (a, b, p, q) = (a / c, b / d, p / c, q / d);
    let determinant = a * b - T::one();
    [(b * p - q) / determinant, (a * q - p) / determinant]
}

/// The pivoting threshold: a diagonal element is the pivot if it is at least this fraction of the largest other element.
/// (1 + √17)/8 minimises growth.
const GROWTH: f64 = 0.640_388_203_202_208;

/// The next block: its number of rows, and the row that its last one is swapped with. `None` if the column is 0.
fn choose<T: Field>(rest: &ArrayView2<'_, T>) -> Option<(usize, usize)> {
    let size = |i: usize, j: usize| rest[[i, j]].taxicab();
    let largest = |best: usize, at: usize| if size(at, 0) > size(best, 0) { at } else { best };
    let far = (1..rest.nrows()).reduce(largest);
    let (own, most) = (size(0, 0), far.map_or(0.0, |far| size(far, 0)));
    let far = far.unwrap_or(0);
    if own.is_nan() || own.max(most) == 0.0 {
        return None;
    }
    if own >= GROWTH * most {
        return Some((1, 0));
    }
    let others = (0..rest.nrows()).filter(|&j| j != far).map(|j| size(far, j));
    let row = others.fold(0.0, f64::max);
    Some(if own >= GROWTH * most * (most / row) {
        (1, 0)
    } else if size(far, far) >= GROWTH * row {
        (1, far)
    } else {
        (2, far)
    })
}

impl<T: Field> Ldl<T> {
    /// Decomposes a matrix, of which the lower triangle is read.
    ///
    /// # Errors
    /// [`LimitError`] if the deadline has passed.
    pub fn of(a: &ArrayView2<'_, T>, hermitian: bool, limits: &Limits) -> Result<Self, LimitError> {
        let (n, turn) = (a.nrows(), mirror::<T>(hermitian));
        let real = |x: T| if hermitian { (x + x.conj()) / (T::one() + T::one()) } else { x };
        // The whole matrix: the remainder after each block is symmetric again.
        let mut whole = Array2::from_shape_fn((n, n), |(i, j)| match i.cmp(&j) {
            std::cmp::Ordering::Less => turn(a[[j, i]]),
            std::cmp::Ordering::Equal => real(a[[i, i]]),
            std::cmp::Ordering::Greater => a[[i, j]],
        });
        let (mut pivots, mut singular) = (Vec::with_capacity(n), None);
        while pivots.len() < n {
            limits.check_deadline()?;
            let at = pivots.len();
            let mut rest = whole.slice_mut(s![at.., at..]);
            let Some((rows, far)) = choose(&rest.view()) else {
                singular = singular.or(Some(at));
                pivots.push(at as i32 + 1);
                continue;
            };
            swap(&mut rest, rows - 1, far);
            swap(&mut rest.view_mut().reversed_axes(), rows - 1, far);
            let (block, mut below) = rest.split_at(Axis(0), rows);
            let (block, right) = block.split_at(Axis(1), rows);
            let (mut left, mut rest) = below.view_mut().split_at(Axis(1), rows);
            // L·D is the part below the block.
            for mut row in left.rows_mut() {
                if rows == 1 {
                    row[0] = row[0] / block[[0, 0]];
                } else {
                    let turned = [[block[[0, 0]], block[[1, 0]]], [block[[0, 1]], block[[1, 1]]]];
                    let [first, second] = solve_two(turned, [row[0], row[1]]);
                    (row[0], row[1]) = (first, second);
                }
            }
            general_mat_mul(-T::one(), &left, &right, T::one(), &mut rest);
            rest.diag_mut().mapv_inplace(real);
            let row = (at + far) as i32 + 1;
            pivots.extend(std::iter::repeat_n(if rows == 1 { row } else { -row }, rows));
        }
        let factors = Array2::from_shape_fn((n, n), |(i, j)| if i >= j { whole[[i, j]] } else { T::zero() });
        Ok(Self { factors, pivots, singular })
    }
}

/// A block of D: its first row, its number of rows, and the row that its last row was swapped with.
type Block = (usize, usize, usize);

fn blocks(pivots: &[i32]) -> Result<Vec<Block>, Fault> {
    let (mut blocks, n) = (Vec::new(), pivots.len());
    let mut at = 0;
    while let Some(&found) = pivots.get(at) {
        let wrong = Fault::NoRow { found, rows: n };
        let row =
            (found.unsigned_abs() as usize).checked_sub(1).filter(|&row| row < n).ok_or(wrong.clone())?;
        let rows = if found > 0 { 1 } else { 2 };
        if at + rows > n {
            return Err(wrong);
        }
        blocks.push((at, rows, row));
        at += rows;
    }
    Ok(blocks)
}

/// Solves a·x = b, given the factors of a matrix, of which the lower triangle is read.
///
/// # Errors
/// [`Fault::NoRow`] if a pivot is invalid; [`Fault::Limit`] if the deadline has passed.
pub fn solve<T: Field>(
    (factors, pivots, hermitian): (&ArrayView2<'_, T>, &[i32], bool),
    b: &ArrayView2<'_, T>,
    limits: &Limits,
) -> Result<Array2<T>, Fault> {
    let (mut x, turn) = (b.as_standard_layout().into_owned(), mirror::<T>(hermitian));
    let blocks = blocks(pivots)?;
    for &(at, rows, row) in &blocks {
        limits.check_deadline()?;
        swap(&mut x.view_mut(), at + rows - 1, row);
        let (known, mut rest) = x.view_mut().split_at(Axis(0), at + rows);
        let mut known = known.slice_move(s![at.., ..]);
        let below = factors.slice(s![at + rows.., at..at + rows]);
        general_mat_mul(-T::one(), &below, &known, T::one(), &mut rest);
        let block = |i: usize, j: usize| factors[[at + i, at + j]];
        if rows == 1 {
            known.mapv_inplace(|x| x / block(0, 0));
            continue;
        }
        let matrix = [[block(0, 0), turn(block(1, 0))], [block(1, 0), block(1, 1)]];
        for mut pair in known.columns_mut() {
            let [first, second] = solve_two(matrix, [pair[0], pair[1]]);
            (pair[0], pair[1]) = (first, second);
        }
    }
    for &(at, rows, row) in blocks.iter().rev() {
        limits.check_deadline()?;
        let below = factors.slice(s![at + rows.., at..at + rows]).t().mapv(turn);
        let (known, rest) = x.view_mut().split_at(Axis(0), at + rows);
        general_mat_mul(-T::one(), &below, &rest, T::one(), &mut known.slice_move(s![at.., ..]));
        swap(&mut x.view_mut(), at + rows - 1, row);
    }
    Ok(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::Complex;
    use ndarray::array;
    use proptest::prelude::*;

    #[test]
    fn a_block_of_two() {
        let a = array![[0.0, 1.0], [1.0, 0.0]];
        let found = Ldl::of(&a.view(), false, &Limits::default()).unwrap();
        assert_eq!((found.factors, found.pivots), (array![[0.0, 0.0], [1.0, 0.0]], vec![-2, -2]));
        let zeros = Ldl::of(&Array2::<f32>::zeros((2, 2)).view(), true, &Limits::default()).unwrap();
        assert_eq!((zeros.singular, zeros.pivots), (Some(0), vec![1, 2]));
    }

    #[test]
    fn invalid_pivots_are_errors() {
        let unit = Array2::<f64>::eye(2);
        for pivots in [[0, 1], [1, 3], [1, -2], [i32::MIN, i32::MIN]] {
            let found = solve((&unit.view(), &pivots, false), &unit.view(), &Limits::default());
            assert!(matches!(found, Err(Fault::NoRow { rows: 2, .. })), "{pivots:?}");
        }
    }

    proptest! {
        #[test]
        fn equations_are_solved(n in 0..20usize, seed in 0..1000usize, hermitian: bool, zeros: bool) {
            let number = |i: usize, j: usize| {
                let at = i * 37 + j * 91 + i * j * 13 + seed;
                Complex::new((at % 101) as f64 / 50.0 - 1.0, (at % 37) as f64 / 18.0 - 1.0)
            };
            let turn = mirror::<Complex<f64>>(hermitian);
            let a = Array2::from_shape_fn((n, n), |(i, j)| match i.cmp(&j) {
                std::cmp::Ordering::Less => turn(number(j, i)),
                std::cmp::Ordering::Equal if zeros => Complex::new(0.0, 0.0),
                std::cmp::Ordering::Equal => Complex::new(number(i, i).re, if hermitian { 0.0 } else { number(i, i).im }),
                std::cmp::Ordering::Greater => number(i, j),
            });
            let limits = Limits::default();
            let found = Ldl::of(&a.view(), hermitian, &limits).unwrap();
            prop_assume!(found.singular.is_none());
            let want = Array2::from_shape_fn((n, 2), |(i, j)| number(j, i));
            let b = a.dot(&want);
            let x = solve((&found.factors.view(), &found.pivots, hermitian), &b.view(), &limits).unwrap();
            // Small relative to the solution, because some of these matrices are nearly singular.
            let left = (a.dot(&x) - b).iter().fold(0.0, |most: f64, x| most.max(x.norm()));
            let size = 1.0 + x.iter().fold(0.0, |most: f64, x| most.max(x.norm()));
            prop_assert!(left < 1e-11 * size, "{left}");
        }
    }
}
