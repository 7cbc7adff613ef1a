//! Known tensors with their elements in other places.

use super::known::{Element, Known, MOST_AXES, count};

/// The position of an axis; a negative one counts from the end.
pub(super) fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    let signed = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis.checked_add(signed)? } else { axis };
    usize::try_from(axis).ok().filter(|axis| *axis < rank)
}

/// The positions of axes, which must differ.
pub(super) fn axes_of(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    let axes: Vec<usize> = axes.iter().map(|axis| axis_of(*axis, rank)).collect::<Option<_>>()?;
    let is_twice = axes.iter().enumerate().any(|(at, axis)| axes[..at].contains(axis));
    (!is_twice).then_some(axes)
}

/// The shape to which two shapes are broadcast.
pub(super) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let len = |shape: &[usize], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(own) => shape.get(own).copied().unwrap_or(1),
        None => 1,
    };
    let joined = |axis| match (len(a, axis), len(b, axis)) {
        (a, b) if a == b || b == 1 => Some(a),
        (1, b) => Some(b),
        _ => None,
    };
    (0..rank).map(joined).collect()
}

/// The tensor of a shape whose element at an index is that of `x` at another index.
fn taken(x: &Known, shape: Vec<usize>, from: impl Fn(&[usize]) -> Option<Vec<usize>>) -> Option<Known> {
    let total = count(&shape)?;
    let mut elements = Vec::with_capacity(total);
    let mut index = vec![0; shape.len()];
    for _ in 0..total {
        let place = from(&index)?;
        let mut position = 0usize;
        for (at, len) in place.iter().zip(&x.shape) {
            position = position.checked_mul(*len)?.checked_add(*at)?;
        }
        elements.push(x.elements.get(position)?.clone());
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    Some(Known { dtype: x.dtype, shape, elements })
}

/// The tensor repeated along axes of length 1, with new axes before the others.
pub(super) fn expanded(x: &Known, shape: &[usize]) -> Option<Known> {
    let added = shape.len().checked_sub(x.shape.len())?;
    taken(x, shape.to_vec(), |index| {
        let own = index.get(added..)?.iter().zip(&x.shape);
        Some(own.map(|(at, len)| if *len == 1 { 0 } else { *at }).collect())
    })
}

/// The tensor repeated along each axis, `repeats` times.
pub(super) fn tiled(x: &Known, repeats: &[i64]) -> Option<Known> {
    let times: Vec<usize> =
        repeats.iter().map(|count| usize::try_from(*count).ok()).collect::<Option<_>>()?;
    if times.len() != x.shape.len() {
        return None;
    }
    let shape =
        times.iter().zip(&x.shape).map(|(times, len)| times.checked_mul(*len)).collect::<Option<_>>()?;
    taken(x, shape, |index| Some(index.iter().zip(&x.shape).map(|(at, len)| at % len).collect()))
}

/// The axes permuted; reversed by default.
pub(super) fn transposed(x: &Known, perm: Option<&[i64]>) -> Option<Known> {
    let rank = x.shape.len();
    let perm = match perm {
        None => (0..rank).rev().collect(),
        Some(perm) => axes_of(perm, rank)?,
    };
    if perm.len() != rank {
        return None;
    }
    let shape = perm.iter().map(|axis| x.shape[*axis]).collect();
    taken(x, shape, |index| {
        let mut place = vec![0; rank];
        perm.iter().zip(index).for_each(|(axis, at)| place[*axis] = *at);
        Some(place)
    })
}

/// The elements in another shape; -1 is inferred, and 0 is the length of that axis unless `keeps_zero`.
pub(super) fn reshaped(x: &Known, wanted: &[i64], keeps_zero: bool) -> Option<Known> {
    let len = |(axis, len): (usize, &i64)| match *len {
        0 if !keeps_zero => x.shape.get(axis).copied().map(Some),
        -1 => Some(None),
        len => usize::try_from(len).ok().map(Some),
    };
    let lens: Vec<Option<usize>> = wanted.iter().enumerate().map(len).collect::<Option<_>>()?;
    let others = lens.iter().flatten().try_fold(1usize, |count, len| count.checked_mul(*len))?;
    let rest = match lens.iter().filter(|len| len.is_none()).count() {
        0 => 1,
        1 => x.elements.len().checked_div(others)?,
        _ => return None,
    };
    let shape: Vec<usize> = lens.into_iter().map(|len| len.unwrap_or(rest)).collect();
    (count(&shape)? == x.elements.len()).then(|| Known { shape, ..x.clone() })
}

/// The tensor without axes of length 1: these, or all.
pub(super) fn squeezed(x: &Known, axes: Option<&[i64]>) -> Option<Known> {
    let rank = x.shape.len();
    let axes = match axes {
        Some(axes) => axes_of(axes, rank)?,
        None => (0..rank).filter(|axis| x.shape[*axis] == 1).collect(),
    };
    if axes.iter().any(|axis| x.shape[*axis] != 1) {
        return None;
    }
    let kept = (0..rank).filter(|axis| !axes.contains(axis));
    Some(Known { shape: kept.map(|axis| x.shape[axis]).collect(), ..x.clone() })
}

/// The tensor with new axes of length 1 at these positions.
pub(super) fn unsqueezed(x: &Known, axes: &[i64]) -> Option<Known> {
    let rank = x.shape.len().checked_add(axes.len()).filter(|rank| *rank <= MOST_AXES)?;
    let axes = axes_of(axes, rank)?;
    let mut old = x.shape.iter();
    let shape: Option<Vec<usize>> =
        (0..rank).map(|axis| if axes.contains(&axis) { Some(1) } else { old.next().copied() }).collect();
    count(shape.as_deref()?)?;
    Some(Known { shape: shape?, ..x.clone() })
}

/// The tensors joined along an axis.
pub(super) fn concatenated(parts: &[Known], axis: i64) -> Option<Known> {
    let first = parts.first()?;
    let axis = axis_of(axis, first.shape.len())?;
    let mut shape = first.shape.clone();
    shape[axis] = 0;
    for part in parts {
        let fits = part.dtype == first.dtype
            && part.shape.len() == shape.len()
            && (0..shape.len()).all(|other| other == axis || part.shape[other] == shape[other]);
        shape[axis] = shape[axis].checked_add(*part.shape.get(axis).filter(|_| fits)?)?;
    }
    count(&shape)?;
    let outer: usize = shape[..axis].iter().product();
    let mut elements = Vec::new();
    for block in 0..outer {
        for part in parts {
            let len: usize = part.shape[axis..].iter().product();
            elements.extend_from_slice(part.elements.get(block * len..(block + 1) * len)?);
        }
    }
    Some(Known { dtype: first.dtype, shape, elements })
}

/// The slices at the indices of an axis, whose axes replace it.
pub(super) fn gathered(x: &Known, indices: &Known, axis: i64) -> Option<Known> {
    let axis = axis_of(axis, x.shape.len())?;
    let places: Vec<usize> =
        indices.ints()?.into_iter().map(|index| axis_of(index, x.shape[axis])).collect::<Option<_>>()?;
    let flat = [&x.shape[..axis], &[places.len()], &x.shape[axis + 1..]].concat();
    let taken = taken(x, flat, |index| {
        let mut index = index.to_vec();
        index[axis] = *places.get(index[axis])?;
        Some(index)
    })?;
    let shape = [&x.shape[..axis], &indices.shape, &x.shape[axis + 1..]].concat();
    count(&shape)?;
    Some(Known { shape, ..taken })
}

/// A slice of one axis.
pub(super) fn sliced(x: &Known, axis: i64, start: i64, end: i64, step: i64) -> Option<Known> {
    let axis = axis_of(axis, x.shape.len())?;
    let places = places(i64::try_from(x.shape[axis]).ok()?, start, end, step)?;
    let indices = Known::vector(places.into_iter().map(Element::Int).collect());
    gathered(x, &indices, i64::try_from(axis).ok()?)
}

/// The indices of a slice of an axis, in order. Backwards, a start before the axis is its first element, as ONNX says.
fn places(len: i64, start: i64, end: i64, step: i64) -> Option<Vec<i64>> {
    if step == 0 || len == 0 {
        return (step != 0).then(Vec::new);
    }
    let from_start = |bound: i64| if bound < 0 { bound.saturating_add(len) } else { bound };
    let (start, end) = match step > 0 {
        true => (from_start(start).clamp(0, len), from_start(end).clamp(0, len)),
        false => (from_start(start).clamp(0, len - 1), from_start(end).clamp(-1, len - 1)),
    };
    let (mut place, mut places) = (start, Vec::new());
    while if step > 0 { place < end } else { place > end } {
        places.push(place);
        place = place.saturating_add(step);
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(numbers: &[i64]) -> Known {
        Known::vector(numbers.iter().copied().map(Element::Int).collect())
    }

    #[test]
    fn slices_clamp_their_bounds() {
        let slice = |start, end, step| sliced(&vector(&[0, 1, 2, 3]), 0, start, end, step)?.ints();
        assert_eq!(slice(1, i64::MAX, 2), Some(vec![1, 3]));
        assert_eq!(slice(-1, i64::MIN, -1), Some(vec![3, 2, 1, 0]));
        assert_eq!(slice(-9, -8, -1), Some(vec![0]));
        assert_eq!(slice(3, 1, 1), Some(vec![]));
        assert_eq!(slice(0, 4, 0), None);
    }

    #[test]
    fn shapes_of_moved_tensors() {
        let matrix = reshaped(&vector(&[0, 1, 2, 3, 4, 5]), &[2, -1], false).unwrap();
        assert_eq!(matrix.shape, [2, 3]);
        assert_eq!(transposed(&matrix, None).unwrap().ints().unwrap(), [0, 3, 1, 4, 2, 5]);
        assert_eq!(gathered(&matrix, &vector(&[-1]), 1).unwrap().ints().unwrap(), [2, 5]);
        assert_eq!(concatenated(&[matrix.clone(), matrix.clone()], 1).unwrap().shape, [2, 6]);
        assert_eq!(unsqueezed(&matrix, &[0, -1]).unwrap().shape, [1, 2, 3, 1]);
        assert!(reshaped(&matrix, &[4, -1], false).is_none() && squeezed(&matrix, Some(&[0])).is_none());
        assert!(expanded(&matrix, &[1 << 20, 2, 3]).is_none());
    }
}
