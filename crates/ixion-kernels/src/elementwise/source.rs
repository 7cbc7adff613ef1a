//! Reading an input that is broadcast, strided or of another type than it is computed in.

use super::number;
use super::number::Stored;
use ixion_tensor::{Element, Layout, Result, Shape, TensorError, TensorView};
use smallvec::SmallVec;
use std::ops::Range;

/// Lengths and strides of axes. Axes that are contiguous with each other are merged.
pub(super) type Axes = SmallVec<[(usize, usize); 4]>;

/// How an input of a program is read in the shape of the output.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// The position of the input.
    pub(super) position: usize,
    axes: Axes,
    /// Whether the elements are stored in the output's order already, in the type that they are computed in.
    pub(super) is_direct: bool,
    /// Whether there is only one element.
    pub(super) is_uniform: bool,
}

impl Source {
    /// An input, broadcast to `shape`.
    ///
    /// # Errors
    /// Fails if the input cannot be broadcast, or is blocked.
    pub(super) fn new(position: usize, view: &TensorView<'_>, shape: &Shape) -> Result<Self> {
        let layout = view.layout().expand(shape)?;
        let native = number::dtype_of(view.dtype()) == view.dtype();
        Ok(Self {
            position,
            axes: merge(shape, layout.strides()),
            is_direct: native && view.shape() == shape && view.layout().is_contiguous(),
            is_uniform: view.num_elements() == 1,
        })
    }

    /// Reads the elements at these positions of the output; `storage` begins at the input's first element.
    pub(super) fn gather<E: Stored>(&self, storage: &[E], range: Range<usize>, out: &mut [E::Number]) {
        let (inner_len, stride) = self.inner();
        let mut out = out;
        for Rows { start, column, len } in self.rows(range) {
            let (rows, rest) = out.split_at_mut(len);
            let (first, second) = rows.split_at_mut((inner_len - column).min(len));
            read_run(&storage[start + column * stride..], stride, first);
            let len = second.len().min(column);
            read_run(&storage[start..], stride, &mut second[..len]);
            repeat(rows, inner_len);
            out = rest;
        }
    }

    /// Length and stride of the innermost axis.
    pub(super) fn inner(&self) -> (usize, usize) {
        self.axes.last().copied().unwrap_or((1, 0))
    }

    /// The number of consecutive elements that come from one contiguous row, or from a single element. 0 if the elements
    /// of a row are not contiguous.
    pub(super) fn repeats_for(&self) -> usize {
        let [(len, stride), (above, step)] = match self.axes.as_slice() {
            [.., above, inner] => [*inner, *above],
            [inner] => [*inner, (1, 0)],
            [] => return 0,
        };
        match stride {
            0 | 1 if step == 0 => len.saturating_mul(above),
            0 | 1 => len,
            _ => 0,
        }
    }

    /// The positions in storage of the elements at these positions of the output.
    pub(super) fn rows(&self, range: Range<usize>) -> impl Iterator<Item = Rows> {
        let (inner_len, _) = self.inner();
        let outer = self.axes.split_last().map_or(&[][..], |(_, outer)| outer);
        // Rows of an axis that is broadcast are equal.
        let equal = outer.last().map_or(1, |&(len, stride)| if stride == 0 { len } else { 1 });
        let mut position = range.start;
        std::iter::from_fn(move || {
            if position >= range.end {
                return None;
            }
            let (row, column) = (position / inner_len, position % inner_len);
            let len = ((equal - row % equal) * inner_len - column).min(range.end - position);
            position += len;
            Some(Rows { start: offset_of(row, outer), column, len })
        })
    }
}

/// Elements of consecutive rows of the innermost axis that are equal, because the row is broadcast.
pub(super) struct Rows {
    /// The start of the row.
    pub(super) start: usize,
    /// The position of the first element in the row.
    pub(super) column: usize,
    /// The number of elements, which may belong to several repetitions of the row.
    pub(super) len: usize,
}

/// The storage of a view, from its first element to its last, as a flat row.
///
/// # Errors
/// [`TensorError::Blocked`] if the view is blocked.
pub(super) fn row<'a>(view: &TensorView<'a>) -> Result<TensorView<'a>> {
    let layout = view.layout();
    if let ixion_tensor::Format::Blocked { axis, block } = layout.format() {
        return Err(TensorError::Blocked { axis: axis.into(), block: block.into() });
    }
    let len = layout.span() - layout.offset();
    view.with_layout(Layout::strided(Shape::new(&[len])?, &[1], layout.offset())?)
}

/// Some elements of a row.
pub(super) fn slice_of<'a, T: Element>(row: &TensorView<'a>, range: Range<usize>) -> Result<&'a [T]> {
    Ok(row.slice::<T>()?.get(range).unwrap_or_default())
}

/// Drops axes of length 1, and merges axes that are contiguous with each other.
pub(super) fn merge(shape: &Shape, strides: &[usize]) -> Axes {
    let mut merged = Axes::new();
    for (&len, &stride) in shape.iter().zip(strides).filter(|(len, _)| **len != 1) {
        match merged.last_mut() {
            Some(outer) if outer.1 == len * stride => *outer = (outer.0 * len, stride),
            _ => merged.push((len, stride)),
        }
    }
    merged
}

/// The start of a row of the innermost axis.
pub(super) fn offset_of(mut row: usize, outer: &[(usize, usize)]) -> usize {
    let mut offset = 0;
    for &(len, stride) in outer.iter().rev() {
        offset += row % len * stride;
        row /= len;
    }
    offset
}

/// Fills a slice by repeating its first `period` elements.
fn repeat<T: Copy>(slice: &mut [T], period: usize) {
    let mut known = period.max(1);
    while known < slice.len() {
        let len = known.min(slice.len() - known);
        slice.copy_within(..len, known);
        known += len;
    }
}

fn read_run<E: Stored>(storage: &[E], stride: usize, run: &mut [E::Number]) {
    match stride {
        _ if run.is_empty() => {}
        0 => run.fill(storage[0].load()),
        1 => E::load_all(storage, run),
        _ => run.iter_mut().zip(storage.iter().step_by(stride)).for_each(|(to, from)| *to = from.load()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::Tensor;

    #[test]
    fn contiguous_axes_are_merged() {
        let merge = |dims: &[usize], strides: &[usize]| merge(&Shape::new(dims).unwrap(), strides).to_vec();
        assert_eq!(merge(&[2, 3, 4], &[12, 4, 1]), [(24, 1)]);
        assert_eq!(merge(&[2, 3, 4], &[0, 1, 0]), [(2, 0), (3, 1), (4, 0)]);
        assert_eq!(merge(&[2, 1, 4, 5], &[0, 7, 0, 0]), [(40, 0)]);
        assert_eq!(merge(&[], &[]), []);
    }

    #[test]
    fn any_range_of_any_layout() {
        let x = Tensor::from_vec((0..24).collect::<Vec<i32>>(), &[2, 3, 4]).unwrap();
        let turned = x.permute(&[2, 0, 1]).unwrap().narrow(0, 1, 3).unwrap();
        let shape = Shape::new(&[2, 3, 2, 3]).unwrap();
        let want = turned.expand(&shape).unwrap().to_vec::<i32>().unwrap();
        check_ranges(&turned.view(), &shape, &want);
    }

    fn check_ranges(view: &TensorView<'_>, shape: &Shape, want: &[i32]) {
        let (source, row) = (Source::new(0, view, shape).unwrap(), row(view).unwrap());
        for start in 0..want.len() {
            for end in start + 1..=want.len() {
                let mut got = vec![0; end - start];
                source.gather::<i32>(row.slice().unwrap(), start..end, &mut got);
                assert_eq!(got, &want[start..end], "{start} to {end}");
            }
        }
    }

    #[test]
    fn rows_that_are_repeated() {
        let x = Tensor::from_vec((0..6).collect::<Vec<i32>>(), &[2, 1, 3]).unwrap();
        let shape = Shape::new(&[2, 7, 3]).unwrap();
        let want = x.expand(&shape).unwrap().to_vec::<i32>().unwrap();
        check_ranges(&x.view(), &shape, &want);
    }
}
