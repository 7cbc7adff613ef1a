//! Layouts: the position of each element of a tensor in its storage.

use super::strides::{Axes, expanded_axes, merged_axes, reshaped_axes};
use super::{MAX_RANK, Order, Result, Shape, TensorError, resolve_axis};
use smallvec::{SmallVec, smallvec};

/// One value for each axis.
type PerAxis = SmallVec<[usize; MAX_RANK]>;

/// The order of a tensor's axes in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// One stride for each axis. The format of PyTorch, ndarray and the naive kernels.
    #[default]
    Plain,
    /// One axis is split into blocks whose elements are innermost: NCHW with `axis` 1 and `block` 16 is stored as
    /// N, ⌈C/16⌉, H, W, 16, the last block padded with zeros.
    Blocked {
        /// The axis that is split.
        axis: u8,
        /// The number of elements per block.
        block: u8,
    },
    /// Axis 1 is innermost, as GPU tensor cores require: N×C×H×W is stored as N, H, W, C. A [`Layout`] expresses this
    /// by its strides alone, so [`Layout::format`] never returns this variant.
    ChannelsLast,
}

/// Shape, strides and offset of a tensor, in elements of its storage.
///
/// Strides are never negative (as in PyTorch); a stride of zero repeats an element along its axis. All methods that
/// create a view (`permute`, `narrow`, …) only compute a new layout: no element moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Shape,
    strides: [usize; MAX_RANK],
    offset: usize,
    format: Format,
}

impl Layout {
    /// The row-major layout of a contiguous tensor.
    pub fn contiguous(shape: Shape) -> Self {
        Self::contiguous_in(shape, Order::RowMajor)
    }

    /// The layout of elements stored in the given order without gaps.
    pub fn contiguous_in(shape: Shape, order: Order) -> Self {
        Self { shape, strides: shape.contiguous_strides(order), offset: 0, format: Format::Plain }
    }

    /// The layout without gaps in which axis 1 is innermost: N×C×H×W is stored as N, H, W, C. Row-major for fewer than
    /// three axes.
    pub fn channels_last(shape: Shape) -> Self {
        let mut strides = [0; MAX_RANK];
        let mut step = 1usize;
        let others = (0..shape.rank()).rev().filter(|axis| *axis != 1);
        let channels = (shape.rank() > 1).then_some(1);
        // With two axes, the second is innermost anyway.
        for axis in channels.into_iter().chain(others) {
            strides[axis] = step;
            step = step.saturating_mul(shape[axis].max(1));
        }
        Self { shape, strides, offset: 0, format: Format::Plain }
    }

    /// A plain layout with the given strides and offset, in elements.
    ///
    /// # Errors
    /// [`TensorError::ShapeMismatch`] unless there is one stride for each axis; [`TensorError::BadLayout`] if the
    /// position of the last element overflows.
    pub fn strided(shape: Shape, strides: &[usize], offset: usize) -> Result<Self> {
        if strides.len() != shape.rank() {
            return Err(TensorError::ShapeMismatch {
                operation: "strides",
                wanted: shape.to_vec(),
                found: strides.to_vec(),
            });
        }
        let mut inline = [0; MAX_RANK];
        inline[..strides.len()].copy_from_slice(strides);
        let layout = Self { shape, strides: inline, offset, format: Format::Plain };
        match layout.checked_span() {
            Some(_) => Ok(layout),
            None => Err(layout.does_not_fit(0)),
        }
    }

    /// A blocked layout: `shape` with `axis` split into blocks of `block` elements.
    ///
    /// # Errors
    /// [`TensorError::OutOfRange`] for the axis, [`TensorError::InvalidArgument`] unless `block` is 1 to 255, or
    /// [`TensorError::SizeOverflow`] if the padded size overflows.
    pub fn blocked(shape: Shape, axis: usize, block: usize) -> Result<Self> {
        let dim = *shape.get(axis).ok_or(TensorError::OutOfRange {
            what: "axis",
            index: axis as i64,
            len: shape.rank(),
        })?;
        let Ok(block @ 1..) = u8::try_from(block) else {
            return Err(TensorError::InvalidArgument(format!(
                "expected a block of 1 to 255 elements, got {block}"
            )));
        };
        let mut padded = PerAxis::from_slice(&shape);
        padded[axis] = dim.checked_next_multiple_of(block.into()).unwrap_or(usize::MAX);
        Shape::new(&padded)?;
        let format = Format::Blocked { axis: axis as u8, block };
        Ok(Self { shape, strides: [0; MAX_RANK], offset: 0, format })
    }

    /// The plain layout of the storage. A blocked layout gets an additional, innermost axis for the elements of a block
    /// (N, ⌈C/16⌉, H, W, 16 for channels in blocks of 16); a plain layout is returned unchanged.
    ///
    /// # Errors
    /// [`TensorError::RankTooLarge`] above [`MAX_RANK`] axes.
    pub fn unrolled(&self) -> Result<Self> {
        let Format::Blocked { axis, block } = self.format else { return Ok(*self) };
        let mut dims = PerAxis::from_slice(&self.shape);
        if let Some(dim) = dims.get_mut(usize::from(axis)) {
            *dim = dim.div_ceil(block.into());
        }
        dims.push(block.into());
        Ok(Self::contiguous(Shape::new(&dims)?).with_offset(self.offset))
    }

    /// The logical shape, independent of the format.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The strides in elements, one for each axis. All zero for a blocked layout, where they have no meaning.
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.shape.rank()]
    }

    /// The position of the first element in the storage, in elements.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The same layout with another offset.
    pub fn with_offset(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    /// Plain or blocked; a channels-last layout is plain.
    pub fn format(&self) -> Format {
        self.format
    }

    /// True if the layouts are equal except for their offsets.
    pub fn is_moved(&self, other: &Layout) -> bool {
        Self { offset: other.offset, ..*self } == *other
    }

    /// True if both layouts place each element at the same position relative to their offsets: strides of axes of length
    /// 1 do not matter.
    pub fn has_same_positions(&self, other: &Layout) -> bool {
        let is_same = |axis: usize| self.shape[axis] == 1 || self.strides[axis] == other.strides[axis];
        self.shape == other.shape
            && self.format == other.format
            && (self.shape.num_elements() == 0 || (0..self.shape.rank()).all(is_same))
    }

    /// True if no two axes are nested in the opposite order in the other layout: both are channels-last, or neither is.
    /// False for different ranks.
    pub fn is_ordered_as(&self, other: &Layout) -> bool {
        let rank = self.shape.rank();
        let long = || (0..rank).filter(|&axis| self.shape[axis] > 1);
        rank == other.shape.rank()
            && long().all(|a| {
                let is_turned =
                    |b: usize| other.strides[a] > other.strides[b] && self.strides[a] < self.strides[b];
                !long().any(is_turned)
            })
    }

    /// True if the elements are stored without gaps, at any offset: in some order of the axes, or in blocks, of which the
    /// last may contain padding.
    pub fn is_dense(&self) -> bool {
        if self.format != Format::Plain || self.is_contiguous() {
            return true;
        }
        let mut axes = self.axes();
        axes.retain(|axis| axis.0 > 1);
        axes.sort_unstable_by_key(|&(_, stride)| stride);
        let mut wanted = 1usize;
        axes.iter().all(|&(dim, stride)| {
            let follows = stride == wanted;
            wanted = wanted.wrapping_mul(dim);
            follows
        })
    }

    /// True if the elements are stored in row-major order without gaps, at any offset.
    pub fn is_contiguous(&self) -> bool {
        if self.format != Format::Plain {
            return false;
        }
        let (mut is_row_major, mut wanted) = (true, 1usize);
        for (&dim, &stride) in self.shape.iter().zip(self.strides()).rev() {
            if dim == 0 {
                return true;
            }
            is_row_major &= dim == 1 || stride == wanted;
            wanted = wanted.wrapping_mul(dim);
        }
        is_row_major
    }

    /// The number of elements, from the start of the storage, that this layout needs: one past its last element.
    pub fn span(&self) -> usize {
        self.checked_span().unwrap_or(usize::MAX)
    }

    fn checked_span(&self) -> Option<usize> {
        let elements = match self.format {
            Format::Blocked { axis, block } => {
                let dims = self.shape.iter().enumerate();
                dims.map(|(i, &d)| if i == axis as usize { d.next_multiple_of(block.into()) } else { d })
                    .product()
            }
            _ if self.shape.num_elements() == 0 => return Some(self.offset),
            Format::Plain | Format::ChannelsLast => {
                let mut last = 0usize;
                for (&dim, &stride) in self.shape.iter().zip(self.strides()) {
                    last = last.checked_add((dim - 1).checked_mul(stride)?)?;
                }
                last.checked_add(1)?
            }
        };
        self.offset.checked_add(elements)
    }

    /// Checks that the layout stays within storage of `len` elements.
    ///
    /// # Errors
    /// [`TensorError::BadLayout`] if it does not.
    pub fn check_within(&self, len: usize) -> Result<()> {
        if self.span() <= len { Ok(()) } else { Err(self.does_not_fit(len)) }
    }

    /// True if no two indices can map to the same position, as required for writing.
    ///
    /// The test is sufficient, not necessary: in order of stride, each axis must step over everything that the axes before
    /// it reach.
    pub fn is_injective(&self) -> bool {
        if self.is_dense() || self.shape.num_elements() <= 1 {
            return true;
        }
        let mut axes = self.axes();
        axes.retain(|axis| axis.0 > 1);
        axes.sort_unstable_by_key(|&(dim, stride)| (stride, dim));
        let mut reach = 0;
        axes.iter().all(|&(dim, stride)| {
            let steps_over = stride > reach;
            reach += (dim - 1) * stride;
            steps_over
        })
    }

    fn does_not_fit(&self, len: usize) -> TensorError {
        TensorError::BadLayout {
            shape: self.shape.to_vec(),
            strides: self.strides().to_vec(),
            offset: self.offset,
            len,
        }
    }

    fn require_plain(&self) -> Result<()> {
        match self.format {
            Format::Plain | Format::ChannelsLast => Ok(()),
            Format::Blocked { axis, block } => {
                Err(TensorError::Blocked { axis: axis.into(), block: block.into() })
            }
        }
    }

    /// A plain layout of (length, stride) pairs. An empty one gets offset 0, so that it fits any storage.
    fn with_axes(&self, axes: &[(usize, usize)], offset: usize) -> Result<Self> {
        let dims: PerAxis = axes.iter().map(|axis| axis.0).collect();
        let strides: PerAxis = axes.iter().map(|axis| axis.1).collect();
        let offset = if dims.contains(&0) { 0 } else { offset };
        Self::strided(Shape::new(&dims)?, &strides, offset)
    }

    fn axes(&self) -> Axes {
        self.shape.iter().copied().zip(self.strides().iter().copied()).collect()
    }

    /// The axes in another order; `order[i]` is the old axis that becomes axis `i` (`torch.permute`).
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] if `order` is not a permutation of the axes; [`TensorError::Blocked`].
    pub fn permute(&self, order: &[usize]) -> Result<Self> {
        self.require_plain()?;
        let mut seen: SmallVec<[bool; MAX_RANK]> = smallvec![false; self.shape.rank()];
        for &axis in order {
            match seen.get_mut(axis) {
                Some(used) if !*used => *used = true,
                _ => return Err(not_a_permutation(order, self.shape.rank())),
            }
        }
        if order.len() != self.shape.rank() {
            return Err(not_a_permutation(order, self.shape.rank()));
        }
        let axes = self.axes();
        let permuted: Axes = order.iter().map(|&axis| axes[axis]).collect();
        self.with_axes(&permuted, self.offset)
    }

    /// Swaps two axes (`torch.transpose`); negative axes count from the end.
    ///
    /// # Errors
    /// [`TensorError::OutOfRange`] for an axis; [`TensorError::Blocked`].
    pub fn transpose(&self, first: i64, second: i64) -> Result<Self> {
        let mut order: PerAxis = (0..self.shape.rank()).collect();
        let (first, second) = (self.shape.axis(first)?, self.shape.axis(second)?);
        if !order.is_empty() {
            order.swap(first, second);
        }
        self.permute(&order)
    }

    /// Every `step`-th element of `start..end` along one axis (`x[start:end:step]` with resolved bounds).
    ///
    /// # Errors
    /// [`TensorError::OutOfRange`] for the axis; [`TensorError::InvalidArgument`] if `start > end`, `end` is past the end of
    /// the axis, or `step` is zero; [`TensorError::Blocked`].
    pub fn slice(&self, axis: usize, start: usize, end: usize, step: usize) -> Result<Self> {
        self.require_plain()?;
        let mut axes = self.axes();
        let Some(&(dim, stride)) = axes.get(axis) else {
            return Err(TensorError::OutOfRange { what: "axis", index: axis as i64, len: axes.len() });
        };
        if start > end || end > dim || step == 0 {
            return Err(TensorError::InvalidArgument(format!(
                "slice {start}..{end} with step {step} does not fit axis {axis} of length {dim}"
            )));
        }
        let len = (end - start).div_ceil(step);
        axes[axis] = (len, if len > 1 { stride.saturating_mul(step) } else { stride });
        self.with_axes(&axes, self.offset.saturating_add(start.saturating_mul(stride)))
    }

    /// `len` elements from `start` along one axis (`torch.narrow`).
    ///
    /// # Errors
    /// As [`Layout::slice`].
    pub fn narrow(&self, axis: usize, start: usize, len: usize) -> Result<Self> {
        self.slice(axis, start, start.saturating_add(len), 1)
    }

    /// Selects one index of an axis and drops the axis (`torch.select`).
    ///
    /// # Errors
    /// As [`Layout::slice`].
    pub fn select(&self, axis: usize, index: usize) -> Result<Self> {
        let mut axes = self.narrow(axis, index, 1)?;
        axes = axes.squeeze(axis)?;
        Ok(axes)
    }

    /// Removes an axis of length 1 (`torch.squeeze`).
    ///
    /// # Errors
    /// [`TensorError::OutOfRange`] for the axis; [`TensorError::InvalidArgument`] if its length is not 1;
    /// [`TensorError::Blocked`].
    pub fn squeeze(&self, axis: usize) -> Result<Self> {
        self.require_plain()?;
        let mut axes = self.axes();
        match axes.get(axis) {
            Some(&(1, _)) => drop(axes.remove(axis)),
            Some(&(dim, _)) => {
                return Err(TensorError::InvalidArgument(format!(
                    "expected an axis of length 1 to remove, got axis {axis} of length {dim}"
                )));
            }
            None => {
                return Err(TensorError::OutOfRange { what: "axis", index: axis as i64, len: axes.len() });
            }
        }
        self.with_axes(&axes, self.offset)
    }

    /// Inserts an axis of length 1 (`torch.unsqueeze`).
    ///
    /// # Errors
    /// [`TensorError::OutOfRange`] if `axis` is above the rank; [`TensorError::RankTooLarge`] above [`MAX_RANK`] axes;
    /// [`TensorError::Blocked`].
    pub fn unsqueeze(&self, axis: usize) -> Result<Self> {
        self.require_plain()?;
        let mut axes = self.axes();
        if axis > axes.len() {
            return Err(TensorError::OutOfRange { what: "axis", index: axis as i64, len: axes.len() + 1 });
        }
        let stride = axes.get(axis).map_or(1, |&(dim, stride)| stride.saturating_mul(dim.max(1)));
        axes.insert(axis, (1, stride));
        self.with_axes(&axes, self.offset)
    }

    /// Repeats axes of length 1 without a copy and adds leading axes (`torch.expand`).
    ///
    /// # Errors
    /// [`TensorError::NotBroadcastable`] if any other axis would have to change; [`TensorError::Blocked`].
    pub fn expand(&self, shape: &[usize]) -> Result<Self> {
        self.require_plain()?;
        let refuse = || TensorError::NotBroadcastable { left: self.shape.to_vec(), right: shape.to_vec() };
        let axes = expanded_axes(&self.axes(), shape).ok_or_else(refuse)?;
        self.with_axes(&axes, self.offset)
    }

    /// The same elements in row-major order under another shape, if no copy is needed (`torch.Tensor.view`).
    ///
    /// `Ok(None)` means that the elements would have to be copied.
    ///
    /// # Errors
    /// [`TensorError::ShapeMismatch`] if the numbers of elements differ.
    pub fn reshape(&self, shape: &Shape) -> Result<Option<Self>> {
        if shape.num_elements() != self.shape.num_elements() {
            return Err(TensorError::ShapeMismatch {
                operation: "reshape",
                wanted: shape.to_vec(),
                found: self.shape.to_vec(),
            });
        }
        if self.format != Format::Plain {
            return Ok(None);
        }
        if self.is_contiguous() {
            return Ok(Some(Self { offset: self.offset, ..Self::contiguous(*shape) }));
        }
        let axes = reshaped_axes(&merged_axes(&self.axes()), shape);
        axes.map(|axes| self.with_axes(&axes, self.offset)).transpose()
    }
}

fn not_a_permutation(order: &[usize], rank: usize) -> TensorError {
    TensorError::InvalidArgument(format!("{order:?} is not a permutation of the {rank} axes"))
}

/// Resolves possibly negative axes to a permutation, as PyTorch's `permute(dims)` does.
///
/// # Errors
/// [`TensorError::OutOfRange`] for an axis. Repeated axes are not detected here, but by [`Layout::permute`].
pub fn resolve_axes(axes: &[i64], rank: usize) -> Result<Vec<usize>> {
    axes.iter().map(|&axis| resolve_axis(axis, rank)).collect()
}

#[cfg(test)]
mod tests;
