//! Reading an input that is broadcast, strided or of another type than it is computed in.

use super::number::Stored;
use crate::tensor::{DType, Element, Layout, Result, Shape, TensorView};
use std::ops::Range;

/// An input of a program, seen in the shape of the output.
#[derive(Debug, Clone)]
pub(super) struct Source<'a> {
    /// The whole storage, as a row.
    storage: TensorView<'a>,
    offset: usize,
    /// (length, stride) of each axis; axes that continue each other are one.
    axes: Vec<(usize, usize)>,
    /// Whether the elements lie in the output's order already, in the type that they are computed in.
    is_direct: bool,
    /// Whether there is one element only.
    is_uniform: bool,
}

impl<'a> Source<'a> {
    /// An input, broadcast to `shape`.
    ///
    /// # Errors
    /// When it cannot be broadcast, or is blocked.
    pub(super) fn new(view: TensorView<'a>, shape: &Shape) -> Result<Self> {
        let layout = view.layout().expand(shape)?;
        let row = Layout::contiguous(Shape::new(&[view.layout().span()])?);
        let native = matches!(view.dtype(), DType::I64 | DType::F32 | DType::F64 | DType::C64 | DType::C128);
        Ok(Self {
            storage: view.with_layout(row)?,
            offset: layout.offset(),
            axes: merge(shape, layout.strides()),
            is_direct: native && view.shape() == shape && view.layout().is_contiguous(),
            is_uniform: view.num_elements() == 1,
        })
    }

    pub(super) fn is_direct(&self) -> bool {
        self.is_direct
    }

    pub(super) fn is_uniform(&self) -> bool {
        self.is_uniform
    }

    /// Some elements of a direct source, where they lie.
    pub(super) fn slice<T: Element>(&self, range: Range<usize>) -> Result<&'a [T]> {
        let elements = self.storage.slice::<T>()?.get(self.offset..).unwrap_or_default();
        Ok(elements.get(range).unwrap_or_default())
    }

    /// Reads the elements at these positions of the output.
    pub(super) fn gather<E: Stored>(&self, range: Range<usize>, out: &mut [E::Number]) -> Result<()> {
        let storage = self.storage.slice::<E>()?;
        let (inner_len, stride) = self.axes.last().copied().unwrap_or((1, 0));
        let outer = self.axes.split_last().map_or(&[][..], |(_, outer)| outer);
        let mut out = out;
        let mut position = range.start;
        while position < range.end {
            let (row, column) = (position / inner_len, position % inner_len);
            let len = (inner_len - column).min(range.end - position);
            let start = self.offset + offset_of(row, outer) + column * stride;
            let (run, rest) = out.split_at_mut(len);
            read_run(&storage[start..], stride, run);
            out = rest;
            position += len;
        }
        Ok(())
    }
}

/// Drops axes of length 1 and joins axes that continue each other.
fn merge(shape: &Shape, strides: &[usize]) -> Vec<(usize, usize)> {
    let mut merged: Vec<(usize, usize)> = Vec::with_capacity(shape.rank());
    for (&len, &stride) in shape.iter().zip(strides).filter(|(len, _)| **len != 1) {
        match merged.last_mut() {
            Some(outer) if outer.1 == len * stride => *outer = (outer.0 * len, stride),
            _ => merged.push((len, stride)),
        }
    }
    merged
}

/// Where a row of the innermost axis begins.
fn offset_of(mut row: usize, outer: &[(usize, usize)]) -> usize {
    let mut offset = 0;
    for &(len, stride) in outer.iter().rev() {
        offset += row % len * stride;
        row /= len;
    }
    offset
}

fn read_run<E: Stored>(storage: &[E], stride: usize, run: &mut [E::Number]) {
    match stride {
        0 => run.fill(storage[0].load()),
        1 => E::load_all(storage, run),
        _ => run.iter_mut().zip(storage.iter().step_by(stride)).for_each(|(to, from)| *to = from.load()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    #[test]
    fn axes_that_continue_each_other_are_one() {
        let shape = |dims: &[usize]| Shape::new(dims).unwrap();
        assert_eq!(merge(&shape(&[2, 3, 4]), &[12, 4, 1]), [(24, 1)]);
        assert_eq!(merge(&shape(&[2, 3, 4]), &[0, 1, 0]), [(2, 0), (3, 1), (4, 0)]);
        assert_eq!(merge(&shape(&[2, 1, 4, 5]), &[0, 7, 0, 0]), [(40, 0)]);
        assert_eq!(merge(&shape(&[]), &[]), []);
    }

    #[test]
    fn any_range_of_any_layout() {
        let x = Tensor::from_vec((0..24).collect::<Vec<i32>>(), &[2, 3, 4]).unwrap();
        let turned = x.permute(&[2, 0, 1]).unwrap().narrow(0, 1, 3).unwrap();
        let shape = Shape::new(&[2, 3, 2, 3]).unwrap();
        let want: Vec<i64> =
            turned.expand(&shape).unwrap().to_vec::<i32>().unwrap().into_iter().map(i64::from).collect();
        let source = Source::new(turned.view(), &shape).unwrap();
        for (start, end) in [(0, 36), (5, 6), (7, 29), (35, 36)] {
            let mut got = vec![0; end - start];
            source.gather::<i32>(start..end, &mut got).unwrap();
            assert_eq!(got, &want[start..end]);
        }
        assert!(source.gather::<f32>(0..1, &mut [0.0]).is_err());
    }
}
