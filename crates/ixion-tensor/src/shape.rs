//! Shapes: the number of elements along each axis, stored inline.

use super::{MAX_RANK, Order, Result, TensorError, contiguous_strides};
use std::fmt;
use std::ops::Deref;

/// The shape of a tensor: up to [`MAX_RANK`] axis lengths, without an allocation.
///
/// It dereferences to a slice. [`Shape::new`] checks that the number of elements fits the address space, so that arithmetic
/// on a `Shape` cannot overflow.
///
/// ```
/// use ixion_tensor::Shape;
/// let shape = Shape::new(&[2, 3, 4])?;
/// assert_eq!((shape.rank(), shape.num_elements(), shape[1]), (3, 24, 3));
/// # Ok::<(), ixion_tensor::TensorError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [usize; MAX_RANK],
    rank: u8,
}

/// The largest number of elements: at 16 bytes each they must fit `isize::MAX` bytes.
const MAX_ELEMENTS: usize = isize::MAX as usize / 16;

impl Shape {
    /// The shape of a scalar: no axes, one element.
    pub const SCALAR: Shape = Shape { dims: [1; MAX_RANK], rank: 0 };

    /// A shape with the given axis lengths.
    ///
    /// # Errors
    /// [`TensorError::RankTooLarge`] above [`MAX_RANK`] axes, [`TensorError::SizeOverflow`] if a tensor of that shape
    /// could not be addressed (zero-length axes count as one here, so that strides stay in range too).
    pub fn new(dims: &[usize]) -> Result<Self> {
        let mut padded = [1; MAX_RANK];
        let Some(slots) = padded.get_mut(..dims.len()) else {
            return Err(TensorError::RankTooLarge { rank: dims.len(), max: MAX_RANK });
        };
        slots.copy_from_slice(dims);
        let elements = dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim.max(1)));
        match elements {
            Some(n) if n <= MAX_ELEMENTS => Ok(Self { dims: padded, rank: dims.len() as u8 }),
            _ => Err(TensorError::SizeOverflow { shape: dims.to_vec() }),
        }
    }

    /// The number of axes.
    pub const fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The axis lengths.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank()]
    }

    /// The number of elements: the product of all axis lengths, 1 for a scalar.
    pub fn num_elements(&self) -> usize {
        self.dims().iter().product()
    }

    /// The strides, in elements, of a contiguous row-major tensor of this shape.
    pub fn row_major_strides(&self) -> [usize; MAX_RANK] {
        self.contiguous_strides(Order::RowMajor)
    }

    /// The strides, in elements, of a tensor of this shape stored in `order` without gaps; 0 after the last axis.
    pub(super) fn contiguous_strides(&self, order: Order) -> [usize; MAX_RANK] {
        let mut strides = [0; MAX_RANK];
        contiguous_strides(self, order, &mut strides);
        strides
    }

    /// The index of the element at a position counted in row-major order, as [`index_of`](super::index_of).
    pub fn index_of(&self, position: usize) -> Vec<usize> {
        super::index_of(position, self)
    }

    /// Resolves an axis; a negative axis counts from the end, as in PyTorch: -1 is the last axis.
    ///
    /// # Errors
    /// [`TensorError::OutOfRange`] outside `-rank..rank`. A scalar accepts 0 and -1, as in PyTorch.
    pub fn axis(&self, axis: i64) -> Result<usize> {
        resolve_axis(axis, self.rank())
    }
}

/// Resolves an axis of a tensor of `rank` axes; see [`Shape::axis`].
///
/// # Errors
/// [`TensorError::OutOfRange`] outside `-rank..rank`.
pub fn resolve_axis(axis: i64, rank: usize) -> Result<usize> {
    let len = rank.max(1) as i64;
    let resolved = if axis < 0 { axis.saturating_add(len) } else { axis };
    if (0..len).contains(&resolved) {
        return Ok(resolved as usize);
    }
    Err(TensorError::OutOfRange { what: "axis", index: axis, len: rank })
}

/// Resolves an index into `len` elements; a negative index counts from the end.
///
/// # Errors
/// [`TensorError::OutOfRange`] outside `-len..len`.
pub fn resolve_index(index: i64, len: usize) -> Result<usize> {
    let from_start = match i64::try_from(len) {
        Ok(len) if index < 0 => index.saturating_add(len),
        _ => index,
    };
    let resolved = usize::try_from(from_start).ok().filter(|&index| index < len);
    resolved.ok_or(TensorError::OutOfRange { what: "index", index, len })
}

// ANCHOR: broadcast_shapes
/// Broadcasts two shapes against each other by NumPy's and PyTorch's rule.
///
/// Axes are paired from the last; a missing axis counts as 1; paired lengths must be equal, or one of them 1.
///
/// # Errors
/// [`TensorError::NotBroadcastable`], with both shapes.
pub fn broadcast_shapes(left: &[usize], right: &[usize]) -> Result<Shape> {
    // ANCHOR: broadcast_shapes_todo -- task 3: pair the axes from the last; if one of a pair is 1, take the other
    let rank = left.len().max(right.len());
    let from_last = |shape: &[usize], i: usize| shape.iter().rev().nth(i).copied().unwrap_or(1);
    let mut dims = vec![0; rank];
    for (i, dim) in dims.iter_mut().rev().enumerate() {
        *dim = match (from_last(left, i), from_last(right, i)) {
            (l, r) if l == r || r == 1 => l,
            (1, r) => r,
            _ => return Err(TensorError::NotBroadcastable { left: left.to_vec(), right: right.to_vec() }),
        };
    }
    Shape::new(&dims)
    // ANCHOR_END: broadcast_shapes_todo
}
// ANCHOR_END: broadcast_shapes

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        self.dims()
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.dims(), f)
    }
}

/// Formats the axis lengths as `2×3×4`, or `scalar` if there are no axes.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rank == 0 {
            return f.pad("scalar");
        }
        let text: Vec<String> = self.dims().iter().map(usize::to_string).collect();
        f.pad(&text.join("×"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scalar_empty_and_full_shapes() {
        assert_eq!(Shape::SCALAR.num_elements(), 1);
        assert_eq!(Shape::new(&[]).unwrap(), Shape::SCALAR);
        let empty = Shape::new(&[3, 0, 2]).unwrap();
        assert_eq!(empty.num_elements(), 0);
        assert_eq!(&empty.row_major_strides()[..3], &[2, 2, 1]);
        assert_eq!(Shape::new(&[1; MAX_RANK]).unwrap().rank(), MAX_RANK);
    }

    #[test]
    fn too_many_axes_or_elements_are_errors() {
        assert!(matches!(Shape::new(&[1; 9]), Err(TensorError::RankTooLarge { rank: 9, max: 8 })));
        assert!(matches!(Shape::new(&[usize::MAX, 2]), Err(TensorError::SizeOverflow { .. })));
        assert!(matches!(Shape::new(&[usize::MAX, 0]), Err(TensorError::SizeOverflow { .. })));
    }

    #[test]
    fn axes_count_from_the_end() {
        let shape = Shape::new(&[2, 3, 4]).unwrap();
        assert_eq!(shape.axis(-1).unwrap(), 2);
        assert_eq!(shape.axis(0).unwrap(), 0);
        assert!(shape.axis(3).is_err() && shape.axis(-4).is_err() && shape.axis(i64::MIN).is_err());
        assert_eq!(Shape::SCALAR.axis(-1).unwrap(), 0);
    }

    #[test]
    fn positions_become_indices() {
        let shape = Shape::new(&[2, 3, 4]).unwrap();
        assert_eq!(shape.index_of(0), [0, 0, 0]);
        assert_eq!(shape.index_of(23), [1, 2, 3]);
        assert_eq!(shape.index_of(6), [0, 1, 2]);
        assert!(Shape::SCALAR.index_of(0).is_empty());
    }

    #[test]
    fn broadcasting_by_hand() {
        assert_eq!(broadcast_shapes(&[2, 1, 4], &[3, 1]).unwrap().dims(), &[2, 3, 4]);
        assert_eq!(broadcast_shapes(&[], &[5]).unwrap().dims(), &[5]);
        assert_eq!(broadcast_shapes(&[0], &[1]).unwrap().dims(), &[0]);
        assert!(broadcast_shapes(&[0], &[2]).is_err());
        assert!(broadcast_shapes(&[2, 3], &[2]).is_err());
    }

    #[test]
    fn display_is_short() {
        assert_eq!(Shape::new(&[1, 3, 224]).unwrap().to_string(), "1×3×224");
        assert_eq!(Shape::SCALAR.to_string(), "scalar");
    }

    proptest! {
        #[test]
        fn broadcasting_is_symmetric_and_absorbs_ones(dims in proptest::collection::vec(0usize..5, 0..6), mask: u8) {
            let thinned: Vec<usize> =
                dims.iter().enumerate().map(|(i, &d)| if mask >> i & 1 == 1 { 1 } else { d }).collect();
            let result = broadcast_shapes(&dims, &thinned).unwrap();
            prop_assert_eq!(result.dims(), &dims[..]);
            prop_assert_eq!(broadcast_shapes(&thinned, &dims).unwrap(), result);
        }
    }
}
