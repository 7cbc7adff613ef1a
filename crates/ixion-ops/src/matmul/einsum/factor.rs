//! Factors of an Einstein summation: elements whose axes have labels.

use super::labels::{Label, strides_of};
use crate::matmul::product::storage;
use crate::op::Result;
use crate::support::number;
use crate::support::number::{Number, sums_along};
use ixion_tensor::{Layout, Limits, MAX_RANK, Shape, TensorView, TensorViewMut};
use ndarray::{ArrayViewD, ArrayViewMutD, IxDyn, ShapeBuilder};
use std::borrow::Cow;

/// An axis of a factor; its length is not 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) label: Label,
    pub(super) len: usize,
    pub(super) stride: usize,
}

/// Elements, from the first one on, and their axes. Axes of length 1 are dropped: they need not be repeated where other
/// factors are longer.
pub(super) struct Factor<'a, T: Number> {
    pub(super) elements: Cow<'a, [T]>,
    pub(super) axes: Vec<Axis>,
}

impl<'a, T: Number> Factor<'a, T> {
    /// An input with repeated labels reduced to their diagonal. Its elements stay where they are if they are `T`.
    pub(super) fn new(input: &TensorView<'a>, labels: &[Label], limits: &Limits) -> Result<Self> {
        let (labels, layout) = strides_of(labels, input.layout())?;
        let input = input.with_layout(layout)?;
        let lens = labels.into_iter().zip(layout.shape().iter().copied());
        if input.dtype() == T::DTYPE {
            let axes = lens.zip(layout.strides()).map(|((label, len), &stride)| Axis { label, len, stride });
            return Ok(Self { axes: axes.collect(), elements: Cow::Borrowed(storage(&input)?) });
        }
        check_copy::<T>(input.num_elements(), limits)?;
        let axes = lens.map(|(label, len)| Axis { label, len, stride: 1 }).collect();
        Ok(Self { axes: row_major(axes), elements: number::read(&input)? })
    }

    /// The length and the stride of an axis, if the factor has it.
    pub(super) fn axis(&self, label: Label) -> Option<Axis> {
        self.axes.iter().find(|axis| axis.label == label).copied()
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = Label> {
        self.axes.iter().map(|axis| axis.label)
    }

    /// Sums over all labels that are not needed.
    pub(super) fn summed(self, needed: &dyn Fn(&Label) -> bool, limits: &Limits) -> Result<Self> {
        if self.labels().all(|label| needed(&label)) {
            return Ok(self);
        }
        let labels: Vec<Label> = self.labels().collect();
        let mut factor = if self.is_row_major() { self } else { self.ordered(&labels, limits)? };
        for (place, label) in labels.iter().enumerate().rev() {
            if needed(label) {
                continue;
            }
            let lens: Vec<usize> = factor.axes.iter().map(|axis| axis.len).collect();
            let sums = sums_along(&factor.elements, &lens, place);
            factor.axes.retain(|axis| axis.label != *label);
            factor = Factor { axes: row_major(factor.axes), elements: Cow::Owned(sums) };
        }
        Ok(factor)
    }

    /// Returns true if the elements are all that there are, in row-major order.
    fn is_row_major(&self) -> bool {
        let axes = row_major(self.axes.clone());
        axes == self.axes && self.elements.len() == len_of(&axes)
    }

    /// A copy with the axes in this order of their labels; labels that the factor lacks are ignored.
    pub(super) fn ordered(&self, labels: &[Label], limits: &Limits) -> Result<Factor<'static, T>> {
        let axes: Vec<Axis> = labels.iter().filter_map(|&label| self.axis(label)).collect();
        let len = len_of(&axes);
        check_copy::<T>(len, limits)?;
        let mut elements = vec![T::default(); len];
        self.copy_to(labels, &mut elements)?;
        Ok(Factor { elements: Cow::Owned(elements), axes: row_major(axes) })
    }

    /// The elements in row-major order of these labels, which include all labels of the factor.
    pub(super) fn in_order(&self, labels: &[Label], limits: &Limits) -> Result<Cow<'_, [T]>> {
        let known = labels.iter().copied().filter(|&label| self.axis(label).is_some());
        if self.is_row_major() && self.labels().eq(known) {
            return Ok(Cow::Borrowed(self.elements.as_ref()));
        }
        Ok(self.ordered(labels, limits)?.elements)
    }

    /// Copies the elements in row-major order of these labels, which include all labels of the factor.
    pub(super) fn copy_to(&self, labels: &[Label], output: &mut [T]) -> Result<()> {
        if output.is_empty() {
            return Ok(());
        }
        let (lens, strides) = self.dims(labels);
        if lens.len() > MAX_RANK {
            ArrayViewMutD::from_shape(IxDyn(&lens), output)?.assign(&self.array(labels)?);
            return Ok(());
        }
        let shape = Shape::new(&lens)?;
        let from = TensorView::from_slice(&self.elements, Layout::strided(shape, &strides, 0)?)?;
        Ok(TensorViewMut::from_slice(output, Layout::contiguous(shape))?.copy_from(&from)?)
    }

    /// The elements with the axes in this order of their labels; there must be at least one element.
    fn array(&self, labels: &[Label]) -> Result<ArrayViewD<'_, T>> {
        let (lens, strides) = self.dims(labels);
        Ok(ArrayViewD::from_shape(IxDyn(&lens).strides(IxDyn(&strides)), &self.elements)?)
    }

    /// The lengths and strides of these labels.
    fn dims(&self, labels: &[Label]) -> (Vec<usize>, Vec<usize>) {
        labels.iter().filter_map(|&label| self.axis(label)).map(|axis| (axis.len, axis.stride)).unzip()
    }
}

/// These axes with the strides of elements in row-major order.
pub(super) fn row_major(mut axes: Vec<Axis>) -> Vec<Axis> {
    let mut stride = 1usize;
    for axis in axes.iter_mut().rev() {
        axis.stride = stride;
        stride = stride.saturating_mul(axis.len);
    }
    axes
}

/// The number of elements.
pub(super) fn len_of(axes: &[Axis]) -> usize {
    axes.iter().fold(1, |product: usize, axis| product.saturating_mul(axis.len))
}

/// Checks that a copy of `count` elements is within the limits.
pub(super) fn check_copy<T>(count: usize, limits: &Limits) -> Result<()> {
    let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
    Ok(limits.check_tensor("a factor or product of einsum", bytes)?)
}
