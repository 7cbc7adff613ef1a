//! The positions of indexed elements in memory.

use super::items::{Indices, check_offsets};
use crate::op::{LayerError, Result, TensorMeta};
use ixion_tensor::{Dim, Limits, Shape, TensorError, resolve_index};
use ndarray::IxDyn;

/// The dimensions of an input that is indexed along `axes` by indices of the given shape.
pub(super) fn indexed_dims(input: &TensorMeta, shape: Vec<Dim>, axes: &[usize]) -> Result<Vec<Dim>> {
    if axes.iter().any(|&axis| axis >= input.rank()) {
        return Err(LayerError::shape("the input", "an axis for each index", input));
    }
    let rest = |range: std::ops::Range<usize>| {
        range.filter(|axis| !axes.contains(axis)).map(|axis| input.dims()[axis].clone()).collect::<Vec<_>>()
    };
    let first = first_axis(axes);
    Ok([rest(0..first), shape, rest(first..input.rank())].concat())
}

/// The position of the indices' axes in the result: at the first indexed axis if these are adjacent, otherwise in front.
fn first_axis(axes: &[usize]) -> usize {
    match axes {
        [first, .., last] if last - first + 1 != axes.len() => 0,
        [first, ..] => *first,
        [] => 0,
    }
}

/// The positions of the result's elements in a contiguous input. `block` elements start at each sum of an offset of `outer`,
/// `indexed` and `inner`, in the order of these loops.
pub(super) struct Places {
    outer: Vec<usize>,
    indexed: Vec<usize>,
    inner: Vec<usize>,
    pub(super) block: usize,
    pub(super) result: Shape,
}

impl Places {
    pub(super) fn new(items: &[Option<Indices>], input: &Shape, limits: &Limits) -> Result<Self> {
        let axes: Vec<usize> = (0..items.len()).filter(|&axis| items[axis].is_some()).collect();
        let mut shape = Shape::new(&[])?;
        for item in items.iter().flatten() {
            shape = ixion_tensor::broadcast_shapes(&shape, item.array.shape())?;
        }
        let whole = |from: usize, to: usize| (from..to).filter(|axis| !axes.contains(axis));
        let (first, last) = (first_axis(&axes), axes.last().map_or(0, |last| last + 1));
        if last > input.rank() {
            return Err(LayerError::shape("the input", "an axis for each index", input));
        }
        let lens = |axes: &mut dyn Iterator<Item = usize>| axes.map(|axis| input[axis]).collect::<Vec<_>>();
        let (before, after) = (lens(&mut whole(0, first)), lens(&mut whole(first, input.rank())));
        let result = Shape::new(&[before, shape.to_vec(), after].concat())?;
        let block = input.iter().skip(last).product();
        if result.num_elements() == 0 {
            return Ok(Self { outer: Vec::new(), indexed: Vec::new(), inner: Vec::new(), block, result });
        }
        check_offsets(result.num_elements() / block.max(1), limits)?;
        let mut indexed = vec![0usize; shape.num_elements()];
        let strides = input.row_major_strides();
        for (axis, item) in items.iter().enumerate() {
            let Some(Indices { array, covers }) = item else { continue };
            if covers.is_some_and(|covers| covers != input[axis]) {
                return Err(LayerError::shape("the mask", format!("{} elements", input[axis]), array.len()));
            }
            let whole = array
                .broadcast(IxDyn(&shape))
                .ok_or_else(|| LayerError::shape("the indices", shape, array.len()))?;
            let (len, stride) = (input[axis], strides[axis]);
            let mut add = |(offset, &index): (&mut usize, &i64)| {
                // Most indices count from the start.
                let place = match usize::try_from(index) {
                    Ok(place) if place < len => place,
                    _ => resolve_index(index, len)?,
                };
                *offset += place * stride;
                Ok::<_, TensorError>(())
            };
            match whole.as_slice() {
                Some(whole) => indexed.iter_mut().zip(whole).try_for_each(&mut add)?,
                None => indexed.iter_mut().zip(&whole).try_for_each(&mut add)?,
            }
        }
        let offsets = |axes: &mut dyn Iterator<Item = usize>| offsets(axes, input);
        let (outer, inner) = (offsets(&mut whole(0, first)), offsets(&mut whole(first, last)));
        Ok(Self { outer, indexed, inner, block, result })
    }

    /// The start of each block of the result in the input.
    pub(super) fn blocks(&self) -> impl Iterator<Item = usize> + '_ {
        let places = self.outer.iter().flat_map(|outer| self.indexed.iter().map(move |index| outer + index));
        places.flat_map(|place| self.inner.iter().map(move |inner| place + inner))
    }
}

/// The offsets of all elements along some axes, in row-major order.
fn offsets(axes: &mut dyn Iterator<Item = usize>, shape: &Shape) -> Vec<usize> {
    let strides = shape.row_major_strides();
    axes.fold(vec![0], |offsets, axis| {
        let along = |&start: &usize| (0..shape[axis]).map(move |index| start + index * strides[axis]);
        offsets.iter().flat_map(along).collect()
    })
}
