//! The factors of a product: batches of matrices, and their multiplication.

use crate::op::Result;
use crate::support::number::Number;
use ixion_kernels::elementwise::ApplyEpilogue;
use ixion_kernels::parallel::for_each_chunk;
use ixion_tensor::{Element, Layout, Limits, MAX_RANK, Shape, TensorView, broadcast_shapes};
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder, s};

/// Two factors as batches of equally many matrices.
pub(super) struct Factors<'a, L, R> {
    /// The elements of each factor, starting with the first.
    left: &'a [L],
    right: &'a [R],
    /// The layout of each factor's matrices.
    layouts: [Layout; 2],
    /// The batch axes, which may be none.
    batch: Shape,
    /// Rows, inner length and columns.
    pub(super) dims: [usize; 3],
}

/// The number of rows computed at a time, so that the epilogue runs while they are in the cache.
const ROWS: usize = 512;

/// Products of integers between checks of the deadline, which take about a second.
const BETWEEN_CHECKS: usize = 1 << 30;

/// The number of rows computed at a time, if each of them takes this number of products. Those of floats are fast enough for any
/// number; for very few rows, the right factor would be rearranged too often.
fn rows_at_a_time<T: Element>(products: usize) -> usize {
    if T::DTYPE.is_integer() { (BETWEEN_CHECKS / products.max(1)).clamp(4, ROWS) } else { ROWS }
}

impl<'a, L: Element, R: Element> Factors<'a, L, R> {
    /// Vectors become a row on the left and a column on the right; batches are broadcast.
    pub(super) fn new(left: &TensorView<'a>, right: &TensorView<'a>) -> Result<Self> {
        let (mut a, mut b) = (*left.layout(), *right.layout());
        if a.shape().rank() == 1 {
            a = a.unsqueeze(0)?;
        }
        if b.shape().rank() == 1 {
            b = b.unsqueeze(1)?;
        }
        let (rank, inner) = (a.shape().rank(), a.shape().last().copied().unwrap_or(1));
        if b.shape().rank() == 2 && rank > 2 {
            // One right matrix for the whole batch: the left matrices can be multiplied as one.
            let rows: usize = a.shape()[..rank - 1].iter().product();
            a = a.reshape(&Shape::new(&[rows, inner])?)?.unwrap_or(a);
        }
        let batch = |layout: &Layout| Shape::new(&layout.shape()[..layout.shape().rank() - 2]);
        let batch = broadcast_shapes(&batch(&a)?, &batch(&b)?)?;
        let matrices = |layout: Layout| -> Result<Layout> {
            let mut dims = [1; MAX_RANK];
            let (all, own) = (batch.rank() + 2, layout.shape());
            dims[..batch.rank()].copy_from_slice(&batch);
            dims[all - 2..all].copy_from_slice(&own[own.rank() - 2..]);
            Ok(layout.expand(&dims[..all])?)
        };
        let [rows, columns] = [a.shape()[a.shape().rank() - 2], b.shape()[b.shape().rank() - 1]];
        Ok(Self {
            left: storage(left)?,
            right: storage(right)?,
            layouts: [matrices(a)?, matrices(b)?],
            batch,
            dims: [rows, inner, columns],
        })
    }

    /// The left and the right matrix at an index of the batch.
    pub(super) fn matrices(&self, index: usize) -> Result<(ArrayView2<'a, L>, ArrayView2<'a, R>)> {
        Ok((self.matrix(0, self.left, index)?, self.matrix(1, self.right, index)?))
    }

    /// One matrix of a factor.
    fn matrix<'b, T>(&self, factor: usize, elements: &'b [T], index: usize) -> Result<ArrayView2<'b, T>> {
        let (layout, axes) = (&self.layouts[factor], self.batch.rank());
        let (mut rest, mut offset) = (index, 0);
        for (&len, &stride) in self.batch.iter().zip(layout.strides()).rev() {
            offset += rest % len * stride;
            rest /= len;
        }
        let (rows, columns) = (layout.shape()[axes], layout.shape()[axes + 1]);
        let strides = (layout.strides()[axes], layout.strides()[axes + 1]);
        if rows * columns == 0 {
            return Ok(ArrayView2::from_shape((rows, columns), &[])?);
        }
        let elements = elements.get(offset..).unwrap_or_default();
        Ok(ArrayView2::from_shape((rows, columns).strides(strides), elements)?)
    }
}

impl<T: Number> Factors<'_, T, T> {
    /// Writes the products of all matrices in turn.
    pub(super) fn multiply(
        &self,
        output: &mut [T],
        epilogue: Option<&dyn ApplyEpilogue<T>>,
        limits: &Limits,
    ) -> Result<()> {
        let [rows, inner, columns] = self.dims;
        let at_a_time = rows_at_a_time::<T>(inner.saturating_mul(columns));
        // Matrices without elements need no writing.
        let of_matrix = (rows * columns).max(1);
        for_each_chunk(output, of_matrix, &|start, output: &mut [T]| {
            let (a, b) = self.matrices(start / of_matrix)?;
            for_each_chunk(output, at_a_time * columns, &|from, output: &mut [T]| {
                limits.check_deadline()?;
                let (first, rows) = (from / columns, output.len() / columns);
                let product = ArrayViewMut2::from_shape((rows, columns), &mut *output)?;
                T::multiply(a.slice(s![first..first + rows, ..]), b, product);
                Ok(epilogue.map_or(Ok(()), |epilogue| epilogue.apply(start + from, output))?)
            })
        })
    }
}

/// The storage of a view, from its first element to its last.
pub(crate) fn storage<'a, T: Element>(view: &TensorView<'a>) -> Result<&'a [T]> {
    let layout = view.layout();
    let len = layout.span() - layout.offset();
    Ok(view.with_layout(Layout::strided(Shape::new(&[len])?, &[1], layout.offset())?)?.slice()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_products_of_integers_are_checked_more_often() {
        assert_eq!(rows_at_a_time::<f32>(usize::MAX), ROWS);
        assert_eq!([0, 64 * 64, 1 << 26, usize::MAX].map(rows_at_a_time::<i64>), [ROWS, ROWS, 16, 4]);
    }
}
