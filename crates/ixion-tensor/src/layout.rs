//! Layouts: where in its storage each element of a tensor lies.

use super::strides::{Axes, expanded_axes, merged_axes, reshaped_axes};
use super::{MAX_RANK, Order, Result, Shape, TensorError, resolve_axis};
use smallvec::{SmallVec, smallvec};

/// One number for each axis.
type PerAxis = SmallVec<[usize; MAX_RANK]>;

/// How the axes of a tensor are ordered in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// One stride for each axis. The format of PyTorch, ndarray and the naive kernels.
    #[default]
    Plain,
    /// One axis is cut into blocks whose elements lie innermost: NCHW with `axis` 1 and `block` 16 is stored as
    /// N, ⌈C/16⌉, H, W, 16, the last block padded with zeros.
    Blocked {
        /// The axis that is cut.
        axis: u8,
        /// The number of elements in a block.
        block: u8,
    },
    /// Axis 1 lies innermost, as tensor cores of GPUs like it: N×C×H×W is stored as N, H, W, C. For a [`Layout`] that is a plain
    /// tensor with other strides, so that [`Layout::format`] is never this one.
    ChannelsLast,
}

/// Shape, strides and offset of a tensor, in elements of its storage.
///
/// Strides are never negative (as in PyTorch); a stride of zero repeats an element along its axis. All methods that
/// make a view (`permute`, `narrow`, …) are arithmetic on the layout alone: no element moves.
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

    /// The layout of elements that lie in an order without gaps.
    pub fn contiguous_in(shape: Shape, order: Order) -> Self {
        Self { shape, strides: shape.contiguous_strides(order), offset: 0, format: Format::Plain }
    }

    /// The layout without gaps in which axis 1 lies innermost: of N×C×H×W that of N, H, W, C. Row-major where there are fewer than
    /// three axes.
    pub fn channels_last(shape: Shape) -> Self {
        let mut strides = [0; MAX_RANK];
        let mut step = 1usize;
        let others = (0..shape.rank()).rev().filter(|axis| *axis != 1);
        let channels = (shape.rank() > 1).then_some(1);
        // Of two axes, the second is the innermost anyway.
        for axis in channels.into_iter().chain(others) {
            strides[axis] = step;
            step = step.saturating_mul(shape[axis].max(1));
        }
        Self { shape, strides, offset: 0, format: Format::Plain }
    }

    /// A plain layout of given strides and offset, in elements.
    ///
    /// # Errors
    /// [`TensorError::ShapeMismatch`] when there are not as many strides as axes; [`TensorError::BadLayout`] when the
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

    /// A blocked layout: `shape` with `axis` cut into blocks of `block` elements.
    ///
    /// # Errors
    /// An axis out of range, a block of zero, or a shape whose padded size overflows.
    pub fn blocked(shape: Shape, axis: usize, block: usize) -> Result<Self> {
        let dim = *shape.get(axis).ok_or(TensorError::OutOfRange {
            what: "axis",
            index: axis as i64,
            len: shape.rank(),
        })?;
        let Ok(block @ 1..) = u8::try_from(block) else {
            return Err(TensorError::InvalidArgument(format!(
                "a block of {block} elements: 1 to 255 are possible"
            )));
        };
        let mut padded = PerAxis::from_slice(&shape);
        padded[axis] = dim.checked_next_multiple_of(block.into()).unwrap_or(usize::MAX);
        Shape::new(&padded)?;
        let format = Format::Blocked { axis: axis as u8, block };
        Ok(Self { shape, strides: [0; MAX_RANK], offset: 0, format })
    }

    /// The plain layout of the storage: with one more axis where one is cut into blocks, whose elements lie innermost
    /// (N, ⌈C/16⌉, H, W, 16 for channels in blocks of 16); itself where it is plain.
    ///
    /// # Errors
    /// A rank above [`MAX_RANK`].
    pub fn unrolled(&self) -> Result<Self> {
        let Format::Blocked { axis, block } = self.format else { return Ok(*self) };
        let mut dims = PerAxis::from_slice(&self.shape);
        if let Some(dim) = dims.get_mut(usize::from(axis)) {
            *dim = dim.div_ceil(block.into());
        }
        dims.push(block.into());
        Ok(Self::contiguous(Shape::new(&dims)?).with_offset(self.offset))
    }

    /// The logical shape, whatever the format.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// One stride for each axis, in elements. All zero for a blocked layout, where they have no meaning.
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.shape.rank()]
    }

    /// Position of the first element in the storage, in elements.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The same with its first element here.
    pub fn with_offset(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    /// Plain or blocked; the channels last are plain.
    pub fn format(&self) -> Format {
        self.format
    }

    /// True when the other layout is the same, wherever the two begin.
    pub fn is_moved(&self, other: &Layout) -> bool {
        Self { offset: other.offset, ..*self } == *other
    }

    /// True when an element of one lies where the same element of the other does, wherever the two begin: strides of axes of length
    /// 1 do not matter.
    pub fn lies_as(&self, other: &Layout) -> bool {
        let is_same = |axis: usize| self.shape[axis] == 1 || self.strides[axis] == other.strides[axis];
        self.shape == other.shape
            && self.format == other.format
            && (self.shape.num_elements() == 0 || (0..self.shape.rank()).all(is_same))
    }

    /// True when no axis that lies within another in the other layout lies around it in this one: both have their channels last, or
    /// neither. Layouts of other ranks are never alike.
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

    /// True when the elements fill their part of the storage without gaps, wherever they begin: in some order of the axes, or in
    /// blocks, of which the last may hold elements that nobody reads.
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

    /// True when the elements lie in row-major order without gaps, wherever they begin.
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
    /// [`TensorError::BadLayout`] when it does not.
    pub fn check_within(&self, len: usize) -> Result<()> {
        if self.span() <= len { Ok(()) } else { Err(self.does_not_fit(len)) }
    }

    /// True when no two elements can share a place: what a layout needs to be written through.
    ///
    /// The test is sufficient, not necessary: sorted by stride, each axis must step over all that lies below it.
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

    /// A plain layout of these (length, stride) pairs. One without elements begins at 0, so that it fits any storage.
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
    /// When `order` is not a permutation of the axes.
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

    /// Two axes exchanged (`torch.transpose`); negative axes count from the end.
    ///
    /// # Errors
    /// An axis out of range.
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
    /// `start > end`, `end` past the axis, or a step of zero.
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

    /// One index of an axis, which disappears (`torch.select`).
    ///
    /// # Errors
    /// An axis or an index out of range.
    pub fn select(&self, axis: usize, index: usize) -> Result<Self> {
        let mut axes = self.narrow(axis, index, 1)?;
        axes = axes.squeeze(axis)?;
        Ok(axes)
    }

    /// Removes an axis of length 1 (`torch.squeeze`).
    ///
    /// # Errors
    /// An axis out of range or of another length than 1.
    pub fn squeeze(&self, axis: usize) -> Result<Self> {
        self.require_plain()?;
        let mut axes = self.axes();
        match axes.get(axis) {
            Some(&(1, _)) => drop(axes.remove(axis)),
            Some(&(dim, _)) => {
                return Err(TensorError::InvalidArgument(format!(
                    "axis {axis} has length {dim}, only 1 can be removed"
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
    /// An axis above the rank, or a rank above [`MAX_RANK`].
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

    /// Axes of length 1 repeated without a copy, and new axes in front (`torch.expand`).
    ///
    /// # Errors
    /// [`TensorError::NotBroadcastable`] when another axis would have to change.
    pub fn expand(&self, shape: &[usize]) -> Result<Self> {
        self.require_plain()?;
        let refuse = || TensorError::NotBroadcastable { left: self.shape.to_vec(), right: shape.to_vec() };
        let axes = expanded_axes(&self.axes(), shape).ok_or_else(refuse)?;
        self.with_axes(&axes, self.offset)
    }

    /// The same elements under another shape in row-major order, where that needs no copy (`torch.Tensor.view`).
    ///
    /// `Ok(None)` means that the elements would have to move.
    ///
    /// # Errors
    /// [`TensorError::ShapeMismatch`] when the numbers of elements differ.
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

/// Resolves possibly negative axes to a permutation, as PyTorch's `permute(dims)` reads them.
///
/// # Errors
/// An axis out of range. Repeated axes are left for [`Layout::permute`] to refuse.
pub fn resolve_axes(axes: &[i64], rank: usize) -> Result<Vec<usize>> {
    axes.iter().map(|&axis| resolve_axis(axis, rank)).collect()
}

#[cfg(test)]
mod tests;
