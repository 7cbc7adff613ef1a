//! Copying elements between layouts.

use super::{Format, Layout, MAX_RANK, Result, Shape, TensorError, TensorView, TensorViewMut, with_bits};
use smallvec::SmallVec;

/// ndarray keeps so many axes without allocating.
const INLINE_AXES: usize = 4;

/// One axis of both, or several that continue each other in both.
#[derive(Clone, Copy)]
struct Axis {
    len: usize,
    from: usize,
    to: usize,
}

type Axes = SmallVec<[Axis; MAX_RANK]>;

impl TensorViewMut<'_> {
    /// Copies all elements of a tensor of the same type and shape, whatever the two layouts.
    ///
    /// # Errors
    /// [`TensorError::WrongDType`] or [`TensorError::ShapeMismatch`]; [`TensorError::Blocked`] for a blocked layout.
    pub fn copy_from(&mut self, source: &TensorView<'_>) -> Result<()> {
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
        let axes = merged(self.layout(), source.layout())?;
        let offsets = (source.layout().offset(), self.layout().offset());
        copy(self.reborrow(), *source, &axes, offsets)
    }
}

/// The axes of two layouts of one shape, with those merged that continue each other in both.
fn merged(to: &Layout, from: &Layout) -> Result<Axes> {
    for layout in [to, from] {
        if let Format::Blocked { axis, block } = layout.format() {
            return Err(TensorError::Blocked { axis: axis.into(), block: block.into() });
        }
    }
    let mut axes = Axes::new();
    let strides = from.strides().iter().zip(to.strides());
    for (&len, (&from, &to)) in to.shape().iter().zip(strides).filter(|(len, _)| **len != 1) {
        match axes.last_mut() {
            Some(outer) if outer.from == from * len && outer.to == to * len => {
                *outer = Axis { len: outer.len * len, from, to };
            }
            _ => axes.push(Axis { len, from, to }),
        }
    }
    Ok(axes)
}

/// Copies the elements along some axes, from one offset to the other.
fn copy(
    mut to: TensorViewMut<'_>,
    from: TensorView<'_>,
    axes: &[Axis],
    (source, target): (usize, usize),
) -> Result<()> {
    if let [outer, inner @ ..] = axes
        && axes.len() > INLINE_AXES
    {
        for index in 0..outer.len {
            let offsets = (source + index * outer.from, target + index * outer.to);
            copy(to.reborrow(), from, inner, offsets)?;
        }
        return Ok(());
    }
    let each = |of: fn(&Axis) -> usize| axes.iter().map(of).collect::<SmallVec<[usize; INLINE_AXES]>>();
    let shape = Shape::new(&each(|axis| axis.len))?;
    let from = from.with_layout(Layout::strided(shape, &each(|axis| axis.from), source)?)?;
    let mut to = to.with_layout(Layout::strided(shape, &each(|axis| axis.to), target)?)?;
    with_bits!(from.dtype(), B => to.bits::<B>()?.assign(&from.bits::<B>()?));
    Ok(())
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

    #[test]
    fn repeated_elements_and_gaps() {
        let row = Tensor::from_vec(vec![1i32, 2], &[2]).unwrap().expand(&[3, 2]).unwrap();
        let mut wide = Tensor::zeros(DType::I32, &[3, 4]).unwrap();
        let part = wide.layout().narrow(1, 1, 2).unwrap();
        wide.view_mut().unwrap().with_layout(part).unwrap().copy_from(&row.view()).unwrap();
        assert_eq!(wide.to_vec::<i32>().unwrap(), [0, 1, 2, 0, 0, 1, 2, 0, 0, 1, 2, 0]);
    }
}
