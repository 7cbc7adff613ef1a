//! A product of matrices, and the same product in other forms and in parts.

use crate::Float;
use smallvec::SmallVec;

/// A product of matrices with arbitrary strides.
#[derive(Clone, Copy)]
pub(super) struct Problem<T> {
    /// m, n and k.
    pub(super) dims: [usize; 3],
    pub(super) a: *const T,
    pub(super) a_strides: [isize; 2],
    pub(super) b: *const T,
    pub(super) b_strides: [isize; 2],
    pub(super) c: *mut T,
    pub(super) c_strides: [isize; 2],
    pub(super) accumulate: bool,
}

// SAFETY: a problem borrows its matrices as a call of `gemm` does: its parts share A and B for reading, and write disjoint
// elements of C.
unsafe impl<T: Send + Sync> Send for Problem<T> {}

impl<T: Float> Problem<T> {
    /// The same product, or its transpose, so that the output is column-major, in the direction of the vectors.
    pub(super) fn turned(self) -> Self {
        if self.c_strides[0].abs() <= self.c_strides[1].abs() {
            return self;
        }
        let turn = |[a, b]: [isize; 2]| [b, a];
        let [m, n, k] = self.dims;
        Self {
            dims: [n, m, k],
            a: self.b,
            a_strides: turn(self.b_strides),
            b: self.a,
            b_strides: turn(self.a_strides),
            c_strides: turn(self.c_strides),
            ..self
        }
    }

    /// Returns true if the crate `gemm` has a special loop for the product, which packs nothing: thin and small products.
    pub(super) fn is_thin(&self) -> bool {
        let ([m, n, k], [a_rows, a_cols]) = (self.dims, self.a_strides);
        let ([b_rows, b_cols], [c_rows, c_cols]) = (self.b_strides, self.c_strides);
        k <= 2
            || (a_cols == 1 && b_rows == 1 && m * n <= 256)
            || (n == 1 && ((a_rows == 1 && c_rows == 1) || (a_cols == 1 && b_rows == 1)))
            || (m == 1 && ((b_cols == 1 && c_cols == 1) || (b_rows == 1 && a_cols == 1)))
    }

    /// Splits the output into up to `parts` parts, at the positions where it may be split.
    pub(super) fn cut(self, parts: usize, cuts: [usize; 2], all: &mut SmallVec<[Self; 8]>) {
        let [m, n, k] = self.dims;
        let (rows, columns) = (m / cuts[0], n / cuts[1]);
        if parts <= 1 || rows.max(columns) <= 1 {
            return all.push(self);
        }
        let (first, second) = if rows >= columns {
            let cut = rows / 2 * cuts[0];
            let [a_step, c_step] = [self.a_strides[0], self.c_strides[0]].map(|step| step * cut as isize);
            let (a, c) = (self.a.wrapping_offset(a_step), self.c.wrapping_offset(c_step));
            (Self { dims: [cut, n, k], ..self }, Self { dims: [m - cut, n, k], a, c, ..self })
        } else {
            let cut = columns / 2 * cuts[1];
            let [b_step, c_step] = [self.b_strides[1], self.c_strides[1]].map(|step| step * cut as isize);
            let (b, c) = (self.b.wrapping_offset(b_step), self.c.wrapping_offset(c_step));
            (Self { dims: [m, cut, k], ..self }, Self { dims: [m, n - cut, k], b, c, ..self })
        };
        first.cut(parts / 2, cuts, all);
        second.cut(parts - parts / 2, cuts, all);
    }

    /// The same product with non-negative strides along the axes of C, and along k in A, as the crate `gemm` requires.
    pub(super) fn upwards(mut self) -> Self {
        let [m, n, k] = self.dims;
        let end = |len: usize, stride: isize| len.saturating_sub(1) as isize * stride;
        if self.c_strides[0] < 0 {
            self.c = self.c.wrapping_offset(end(m, self.c_strides[0]));
            self.a = self.a.wrapping_offset(end(m, self.a_strides[0]));
            (self.c_strides[0], self.a_strides[0]) = (-self.c_strides[0], -self.a_strides[0]);
        }
        if self.c_strides[1] < 0 {
            self.c = self.c.wrapping_offset(end(n, self.c_strides[1]));
            self.b = self.b.wrapping_offset(end(n, self.b_strides[1]));
            (self.c_strides[1], self.b_strides[1]) = (-self.c_strides[1], -self.b_strides[1]);
        }
        if self.a_strides[1] < 0 {
            self.a = self.a.wrapping_offset(end(k, self.a_strides[1]));
            self.b = self.b.wrapping_offset(end(k, self.b_strides[0]));
            (self.a_strides[1], self.b_strides[0]) = (-self.a_strides[1], -self.b_strides[0]);
        }
        self
    }

    /// The same product with pointers to `S`, which must be `T`.
    pub(super) fn cast<S: Float>(self) -> Problem<S> {
        debug_assert!(S::DTYPE == T::DTYPE);
        let Self { dims, a_strides, b_strides, c_strides, accumulate, .. } = self;
        let (a, b, c) = (self.a.cast::<S>(), self.b.cast::<S>(), self.c.cast::<S>());
        Problem { dims, a, a_strides, b, b_strides, c, c_strides, accumulate }
    }
}
