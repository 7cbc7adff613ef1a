//! Blocked layouts: one axis split into innermost blocks, for vectorised kernels.

use super::{Format, Layout, Result, Shape, Tensor};

impl Tensor {
    /// The same elements with `axis` split into innermost blocks of `block` elements ([`Format::Blocked`]): NCHW split along
    /// axis 1 is stored as N, ⌈C/block⌉, H, W, block. The last block is padded with zeros.
    ///
    /// A tensor that already has this format is returned unchanged; any other blocking is undone first.
    ///
    /// # Errors
    /// [`TensorError::OutOfRange`](super::TensorError::OutOfRange) for the axis,
    /// [`TensorError::InvalidArgument`](super::TensorError::InvalidArgument) unless `block` is 1 to 255, or an error if the
    /// size overflows.
    pub fn to_blocked(&self, axis: i64, block: usize) -> Result<Self> {
        let axis = self.shape().axis(axis)?;
        let layout = Layout::blocked(*self.shape(), axis, block)?;
        if layout.format() == self.layout().format() {
            return Ok(self.clone());
        }
        let (cut, whole) = (Cut::new(self.shape(), axis, block), self.to_plain()?);
        let mut result = Self::zeros(self.dtype(), &cut.blocked())?;
        let (source, blocks) = (whole.reshape(&cut.plain())?, *result.layout());
        let mut target = result.view_mut()?;
        for index in 0..cut.blocks {
            let part = source.with_layout(cut.part(source.layout(), index)?)?;
            target.reborrow().with_layout(cut.block(&blocks, index)?)?.copy_from(&part.view())?;
        }
        result.with_layout(layout)
    }

    /// The same elements in a plain layout; a tensor that already has one is returned unchanged.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`](super::TensorError::OutOfMemory).
    pub fn to_plain(&self) -> Result<Self> {
        let Format::Blocked { axis, block } = self.layout().format() else {
            return Ok(self.clone());
        };
        let cut = Cut::new(self.shape(), axis.into(), block.into());
        let blocked = Shape::new(&cut.blocked())?;
        let strides = &blocked.row_major_strides()[..blocked.rank()];
        let source = self.with_layout(Layout::strided(blocked, strides, self.layout().offset())?)?;
        let mut result = Self::zeros(self.dtype(), &cut.plain())?;
        let whole = *result.layout();
        let mut target = result.view_mut()?;
        for index in 0..cut.blocks {
            let part = source.with_layout(cut.block(source.layout(), index)?)?;
            target.reborrow().with_layout(cut.part(&whole, index)?)?.copy_from(&part.view())?;
        }
        result.reshape(self.shape())
    }
}

/// A shape reduced to its outer axes, the split axis, and its inner axes.
struct Cut {
    outer: usize,
    dim: usize,
    inner: usize,
    block: usize,
    blocks: usize,
}

impl Cut {
    fn new(shape: &Shape, axis: usize, block: usize) -> Self {
        let (outer, rest) = shape.dims().split_at(axis);
        let dim = rest[0];
        Self {
            outer: outer.iter().product(),
            dim,
            inner: rest[1..].iter().product(),
            block,
            blocks: dim.div_ceil(block),
        }
    }

    fn plain(&self) -> [usize; 3] {
        [self.outer, self.dim, self.inner]
    }

    fn blocked(&self) -> [usize; 4] {
        [self.outer, self.blocks, self.inner, self.block]
    }

    /// One block as outer × inner × elements, within the plain layout.
    fn part(&self, plain: &Layout, index: usize) -> Result<Layout> {
        let start = index * self.block;
        plain.narrow(1, start, self.len(index))?.permute(&[0, 2, 1])
    }

    /// The same block within the blocked layout.
    fn block(&self, blocked: &Layout, index: usize) -> Result<Layout> {
        blocked.select(1, index)?.narrow(2, 0, self.len(index))
    }

    /// The number of elements in a block; the last may have fewer.
    fn len(&self, index: usize) -> usize {
        self.block.min(self.dim - index * self.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, TensorError};
    use proptest::prelude::*;

    #[test]
    fn five_channels_in_blocks_of_four() {
        let x = Tensor::from_vec((1..=10).collect::<Vec<i16>>(), &[1, 5, 1, 2]).unwrap();
        let blocked = x.to_blocked(1, 4).unwrap();
        assert_eq!(blocked.shape(), x.shape());
        assert_eq!(blocked.layout().format(), Format::Blocked { axis: 1, block: 4 });
        let lying = blocked.with_layout(Layout::contiguous(Shape::new(&[16]).unwrap())).unwrap();
        assert_eq!(lying.to_vec::<i16>().unwrap(), [1, 3, 5, 7, 2, 4, 6, 8, 9, 0, 0, 0, 10, 0, 0, 0]);
        assert!(matches!(blocked.to_vec::<i16>(), Err(TensorError::Blocked { .. })));
        assert!(blocked.to_blocked(1, 4).unwrap().shares_storage(&blocked));
        assert_eq!(blocked.to_blocked(-1, 2).unwrap().to_plain().unwrap(), x);
    }

    #[test]
    fn bad_arguments() {
        let x = Tensor::zeros(DType::F32, &[2, 3]).unwrap();
        assert!(x.to_blocked(2, 4).is_err() && x.to_blocked(0, 0).is_err() && x.to_blocked(0, 256).is_err());
        assert!(Tensor::scalar(1u8).to_blocked(0, 4).is_err());
        let empty = Tensor::zeros(DType::F32, &[2, 0]).unwrap();
        assert_eq!(empty.to_blocked(1, 8).unwrap().to_plain().unwrap(), empty);
    }

    proptest! {
        #[test]
        fn there_and_back(
            dims in proptest::collection::vec(1usize..6, 1..8),
            axis in 0usize..8, block in 1usize..9, turn in 0usize..8,
        ) {
            let mut order: Vec<i64> = (0..dims.len() as i64).collect();
            order.rotate_left(turn % dims.len());
            let len = dims.iter().product::<usize>();
            let axis = (axis % dims.len()) as i64;
            // One element type of each size, and bool.
            for dtype in [DType::Bool, DType::I8, DType::F16, DType::C32, DType::F32, DType::F64, DType::C64, DType::C128] {
                let x = Tensor::arange(DType::F64, 0.0, len as f64, 1.0).unwrap();
                let x = x.cast(dtype).unwrap().reshape(&dims).unwrap().permute(&order).unwrap();
                prop_assert_eq!(x.to_blocked(axis, block).unwrap().to_plain().unwrap(), x);
            }
        }
    }
}
