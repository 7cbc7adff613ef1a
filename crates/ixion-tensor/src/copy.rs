//! Copying of elements between layouts.

use super::{Format, Layout, MAX_RANK, Result, TensorError, TensorView, TensorViewMut};
use smallvec::SmallVec;

/// One axis of source and target, or several that are contiguous in both. Strides are in bytes.
#[derive(Clone, Copy)]
struct Axis {
    len: usize,
    from: isize,
    to: isize,
}

type Axes = SmallVec<[Axis; MAX_RANK]>;

/// Rows of fewer elements than this are copied together.
const SHORT: usize = 8;
/// How many short rows are copied together, so that they stay in the first-level cache.
const TOGETHER: usize = 512;

impl TensorViewMut<'_> {
    /// Copies all elements of a tensor of the same type and shape; the layouts may differ.
    ///
    /// # Errors
    /// [`TensorError::WrongDType`] or [`TensorError::ShapeMismatch`]; [`TensorError::Blocked`] for a blocked layout.
    pub fn copy_from(&mut self, source: &TensorView<'_>) -> Result<()> {
        self.copy_reversed(source, &[])
    }

    /// As [`TensorViewMut::copy_from`], with the axes `reversed` of the source in reverse order.
    ///
    /// # Errors
    /// As [`TensorViewMut::copy_from`].
    pub fn copy_reversed(&mut self, source: &TensorView<'_>, reversed: &[usize]) -> Result<()> {
        if source.dtype() != self.dtype() {
            return Err(TensorError::WrongDType { wanted: self.dtype(), found: source.dtype() });
        }
        if source.shape() != self.shape() {
            return Err(TensorError::ShapeMismatch {
                operation: "copy",
                wanted: self.shape().to_vec(),
                found: source.shape().to_vec(),
            });
        }
        if self.shape().num_elements() == 0 {
            return Ok(());
        }
        let size = self.dtype().size();
        let (axes, first) = merged(self.layout(), source.layout(), reversed, size)?;
        let (from, to) = (source.address().wrapping_add(first), self.address_mut());
        // SAFETY: both layouts are within their storage, and so are all positions that the axes reach: reversing only changes
        // their order. The target is exclusively borrowed, and both tensors have the same element type.
        unsafe {
            match size {
                1 => copy::<1>(&axes, from, to),
                2 => copy::<2>(&axes, from, to),
                4 => copy::<4>(&axes, from, to),
                8 => copy::<8>(&axes, from, to),
                _ => copy::<16>(&axes, from, to),
            }
        }
        Ok(())
    }
}

/// The axes of two layouts of the same shape, merged where they are contiguous in both, and the byte offset from the
/// source's lowest address to its first element.
fn merged(to: &Layout, from: &Layout, reversed: &[usize], size: usize) -> Result<(Axes, usize)> {
    for layout in [to, from] {
        if let Format::Blocked { axis, block } = layout.format() {
            return Err(TensorError::Blocked { axis: axis.into(), block: block.into() });
        }
    }
    let (mut axes, mut first) = (Axes::new(), 0);
    let strides = from.strides().iter().zip(to.strides());
    for (axis, (&len, (&from, &to))) in to.shape().iter().zip(strides).enumerate() {
        if len == 1 {
            continue;
        }
        let (mut from, to, count) = ((from * size) as isize, (to * size) as isize, len as isize);
        if reversed.contains(&axis) {
            first += from.unsigned_abs() * (len - 1);
            from = -from;
        }
        match axes.last_mut() {
            Some(outer) if outer.from == from * count && outer.to == to * count => {
                *outer = Axis { len: outer.len * len, from, to };
            }
            _ => axes.push(Axis { len, from, to }),
        }
    }
    Ok((axes, first))
}

/// Copies elements of `N` bytes along all axes.
///
/// # Safety
/// At every position that the axes reach, there must be a readable element at `from` and an exclusively owned one at `to`.
unsafe fn copy<const N: usize>(axes: &[Axis], from: *const u8, to: *mut u8) {
    match axes {
        // SAFETY: by contract.
        [] => unsafe { to.copy_from_nonoverlapping(from, N) },
        // SAFETY: as above.
        [row] => unsafe { copy_row::<N>(*row, from, to) },
        [outer, row] if row.len < SHORT && row.len < outer.len => {
            for start in (0..outer.len).step_by(TOGETHER) {
                let rows = Axis { len: TOGETHER.min(outer.len - start), ..*outer };
                for column in 0..row.len as isize {
                    let from = from.wrapping_offset(start as isize * outer.from + column * row.from);
                    let to = to.wrapping_offset(start as isize * outer.to + column * row.to);
                    // SAFETY: as above.
                    unsafe { copy_row::<N>(rows, from, to) };
                }
            }
        }
        [outer, inner @ ..] => {
            for index in 0..outer.len as isize {
                let (from, to) =
                    (from.wrapping_offset(index * outer.from), to.wrapping_offset(index * outer.to));
                // SAFETY: as above.
                unsafe { copy::<N>(inner, from, to) };
            }
        }
    }
}

/// As [`copy`], along one axis.
///
/// # Safety
/// As [`copy`].
#[inline]
unsafe fn copy_row<const N: usize>(row: Axis, from: *const u8, to: *mut u8) {
    let step = N as isize;
    if (row.from, row.to) == (step, step) {
        // SAFETY: the elements of both are contiguous.
        return unsafe { to.copy_from_nonoverlapping(from, row.len * N) };
    }
    let (from, to) = (from.cast::<[u8; N]>(), to.cast::<[u8; N]>());
    if row.to == step {
        // SAFETY: the elements of the target are contiguous, and bytes need no alignment.
        let to = unsafe { std::slice::from_raw_parts_mut(to, row.len) };
        if row.from == 0 {
            // SAFETY: by contract, there is an element.
            return to.fill(unsafe { *from });
        }
        if row.from == -step {
            // SAFETY: the elements of the source are contiguous, and this is the last one.
            let from = unsafe { std::slice::from_raw_parts(from.wrapping_sub(row.len - 1), row.len) };
            return to.iter_mut().zip(from.iter().rev()).for_each(|(to, from)| *to = *from);
        }
        for (index, to) in to.iter_mut().enumerate() {
            // SAFETY: by contract, there is an element for each index.
            *to = unsafe { *from.wrapping_byte_offset(index as isize * row.from) };
        }
        return;
    }
    for index in 0..row.len as isize {
        // SAFETY: as above, in both.
        unsafe { *to.wrapping_byte_offset(index * row.to) = *from.wrapping_byte_offset(index * row.from) };
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, Tensor};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_order_of_axes(
            dims in proptest::collection::vec(0usize..4, 0..7),
            turns in (0usize..7, 0usize..7),
            dtype in prop::sample::select(vec![DType::F32, DType::Bool, DType::C64]),
        ) {
            let count: usize = dims.iter().product();
            let order = |turn: usize| {
                let mut order: Vec<i64> = (0..dims.len() as i64).collect();
                order.rotate_left(turn % dims.len().max(1));
                order
            };
            let dense = |turn: usize| {
                let mut inverse = vec![0i64; dims.len()];
                order(turn).iter().enumerate().for_each(|(at, &axis)| inverse[axis as usize] = at as i64);
                let lens: Vec<usize> = order(turn).iter().map(|&axis| dims[axis as usize]).collect();
                let numbers = Tensor::arange(DType::F64, 0.0, count as f64, 1.0).unwrap();
                numbers.cast(dtype).unwrap().reshape(&lens).unwrap().permute(&inverse).unwrap()
            };
            let (from, mut to) = (dense(turns.0), dense(turns.1));
            to.view_mut().unwrap().copy_from(&from.view()).unwrap();
            prop_assert!(to == from);
        }
    }

    proptest! {
        #[test]
        fn reversed_axes(dims in proptest::collection::vec(0usize..4, 0..5), turn in 0usize..5, which in 0u8..32) {
            let count: usize = dims.iter().product();
            let mut order: Vec<i64> = (0..dims.len() as i64).collect();
            order.rotate_left(turn % dims.len().max(1));
            let from = Tensor::arange(DType::I16, 0.0, count as f64, 1.0).unwrap().reshape(&dims).unwrap();
            let from = from.permute(&order).unwrap();
            let reversed: Vec<usize> = (0..dims.len()).filter(|axis| which >> axis & 1 == 1).collect();
            let mut to = Tensor::zeros(DType::I16, from.shape()).unwrap();
            to.view_mut().unwrap().copy_reversed(&from.view(), &reversed).unwrap();
            let mut wanted = from.array::<i16>().unwrap();
            reversed.iter().for_each(|&axis| wanted.invert_axis(ndarray::Axis(axis)));
            prop_assert_eq!(to.array::<i16>().unwrap(), wanted);
        }
    }

    #[test]
    fn long_columns_and_reversed_rows() {
        let x = Tensor::from_vec((0..3000).collect::<Vec<i32>>(), &[2, 1500]).unwrap();
        let turned = x.permute(&[1, 0]).unwrap().to_vec::<i32>().unwrap();
        assert!(turned.chunks(2).zip(0..).all(|(pair, i)| pair == [i, 1500 + i]));
        let mut reversed = Tensor::zeros(DType::I32, &[2, 1500]).unwrap();
        reversed.view_mut().unwrap().copy_reversed(&x.view(), &[0, 1]).unwrap();
        assert!(reversed.to_vec::<i32>().unwrap().into_iter().eq((0..3000).rev()));
    }

    #[test]
    fn repeated_elements_and_gaps() {
        let row = Tensor::from_vec(vec![1i32, 2], &[2]).unwrap().expand(&[3, 2]).unwrap();
        let mut wide = Tensor::zeros(DType::I32, &[3, 4]).unwrap();
        let part = wide.layout().narrow(1, 1, 2).unwrap();
        wide.view_mut().unwrap().with_layout(part).unwrap().copy_from(&row.view()).unwrap();
        assert_eq!(wide.to_vec::<i32>().unwrap(), [0, 1, 2, 0, 0, 1, 2, 0, 0, 1, 2, 0]);
    }
}
