//! The different elements of a tensor, or its different slices along an axis: unique, unique_consecutive.

use crate::indexing::by_index::take_into;
use crate::op::{Layer, LayerError, Result, TensorMeta};
use crate::reduction::extremes::{check_order, with_order};
use crate::support::broadcast::Converted;
use crate::support::dynamic::dynamic_layers;
use crate::support::order::{First, Ordered, in_order, keys};
use crate::support::views::{Plain, axis_of};
use ixion_tensor::{DType, Dim, Element, Limits, Tensor, TensorView};

crate::operator! {
    /// `torch.unique`: the different elements in ascending order, the index among them of each element of the input, and how
    /// often each of them occurs. NaN counts as the largest number; as in PyTorch, every NaN differs from all others.
    pub struct UniqueElements for "aten::_unique2" {
        /// Accepted for compatibility: the elements are always sorted, as PyTorch does on CPUs.
        sorted: bool = true,
        /// Whether the second output has the indices, in the shape of the input; else it is an empty vector.
        return_inverse: bool = false,
        /// Whether the third output has the numbers of occurrences; else it is an empty vector.
        return_counts: bool = false,
    }
}

crate::operator! {
    /// `torch._unique`: the different elements in ascending order, and the index among them of each element of the input. NaN
    /// counts as the largest number; as in PyTorch, every NaN differs from all others.
    pub struct UniqueWithInverse for "aten::_unique" {
        /// Accepted for compatibility: the elements are always sorted, as PyTorch does on CPUs.
        sorted: bool = true,
        /// Whether the second output has the indices, in the shape of the input; else it is an empty vector.
        return_inverse: bool = false,
    }
}

crate::operator! {
    /// `torch.unique` with `dim`: the different slices along an axis in lexicographic order, the index among them of each slice
    /// of the input, and how often each of them occurs. NaN counts as the largest number, and a slice with NaN differs from all
    /// others; PyTorch leaves the order of such slices open.
    pub struct UniqueSlicesOfAxis for "aten::unique_dim" {
        /// The axis; may be negative, counting from the end.
        dim: i64,
        /// Accepted for compatibility: the slices are always sorted, as PyTorch does on CPUs.
        sorted: bool = true,
        /// Accepted for compatibility: as in PyTorch, the second output always has the indices.
        return_inverse: bool = false,
        /// Accepted for compatibility: as in PyTorch, the third output always has the numbers of occurrences.
        return_counts: bool = false,
    }
}

crate::operator! {
    /// `torch.unique_consecutive`: the first of each run of equal elements or slices, the index among them of each element or
    /// slice of the input, and the lengths of the runs. NaN differs from NaN.
    pub struct UniqueConsecutive for "aten::unique_consecutive" {
        /// Whether the second output has the indices, in the shape of the input; else it is an empty vector, unless slices are
        /// compared.
        return_inverse: bool = false,
        /// Whether the third output has the lengths; else it is an empty vector, unless slices are compared.
        return_counts: bool = false,
        /// The axis whose slices are compared; may be negative, counting from the end. By default, and for axis 0 of a vector,
        /// the elements of the flattened input are compared.
        dim: Option<i64> = None,
    }
}

/// What the parameters of an operator ask for.
struct Search {
    /// The axis whose slices are compared; `None` for the elements of the flattened input.
    dim: Option<i64>,
    order: Order,
    has_inverse: bool,
    has_counts: bool,
    outputs: usize,
}

impl Search {
    fn infer(&self, input: &TensorMeta) -> Result<Vec<TensorMeta>> {
        check_order(input)?;
        let count = Dim::fresh("different");
        let vector = |len: &Dim, is_wanted: bool| {
            TensorMeta::new(DType::I64, [if is_wanted { len.clone() } else { Dim::Fixed(0) }])
        };
        let (values, inverse) = match self.dim {
            None if self.has_inverse => (input.with_dims([count.clone()]), input.with_dtype(DType::I64)),
            None => (input.with_dims([count.clone()]), vector(&count, false)),
            Some(dim) => {
                let axis = axis_of(dim, input)?;
                let mut dims = input.dims().to_vec();
                let len = std::mem::replace(&mut dims[axis], count.clone());
                if dims.iter().any(|len| *len == 0usize) {
                    let wanted = format!("slices along axis {axis} that are not empty");
                    return Err(LayerError::shape("the input", wanted, input));
                }
                (input.with_dims(dims), vector(&len, self.has_inverse))
            }
        };
        let mut outputs = vec![values, inverse, vector(&count, self.has_counts)];
        outputs.truncate(self.outputs);
        Ok(outputs)
    }

    fn compute(&self, input: &TensorView<'_>, limits: &Limits) -> Result<Vec<Tensor>> {
        let flat = self.dim.is_none().then(|| Plain::flattened(input)).transpose()?;
        let axis = match self.dim {
            Some(dim) => input.shape().axis(dim)?,
            None => 0,
        };
        let slices = UniqueSlices { axis, order: self.order, nan_is_equal: false };
        let Found { values, which, counts, .. } =
            slices.find(&flat.as_ref().map_or(*input, Plain::view), limits)?;
        let inverse = match (self.has_inverse, self.dim) {
            (false, _) => vector(Vec::new())?,
            (true, None) => Tensor::from_vec(which, input.shape())?,
            (true, Some(_)) => vector(which)?,
        };
        let counts = vector(if self.has_counts { counts } else { Vec::new() })?;
        let mut outputs = vec![values, inverse, counts];
        outputs.truncate(self.outputs);
        Ok(outputs)
    }
}

/// Implements the layers of operators, given the search that their parameters ask for, which may depend on the number of axes.
macro_rules! searches {
    ($($name:ident |$layer:ident, $rank:ident| $search:expr;)+) => {$(
        impl $name {
            fn search(&self, $rank: usize) -> Search {
                let $layer = self;
                $search
            }

            fn compute(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Vec<Tensor>> {
                self.search(inputs[0].shape().rank()).compute(&inputs[0], limits)
            }
        }

        impl Layer for $name {
            fn num_outputs(&self) -> usize {
                self.search(0).outputs
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
                self.search(inputs[0].rank()).infer(&inputs[0])
            }

            fn is_data_dependent(&self) -> bool {
                true
            }
        }

        dynamic_layers!($name);
    )+};
}

searches! {
    UniqueElements |layer, _rank| Search {
        dim: None,
        order: Order::Sorted,
        has_inverse: layer.return_inverse,
        has_counts: layer.return_counts,
        outputs: 3,
    };
    UniqueWithInverse |layer, _rank| Search {
        dim: None,
        order: Order::Sorted,
        has_inverse: layer.return_inverse,
        has_counts: false,
        outputs: 2,
    };
    UniqueSlicesOfAxis |layer, _rank| Search {
        dim: Some(layer.dim),
        order: Order::Sorted,
        has_inverse: true,
        has_counts: true,
        outputs: 3,
    };
    UniqueConsecutive |layer, rank| {
        // PyTorch treats axis 0 of a vector as if no axis was given.
        let dim = layer.dim.filter(|&dim| (dim, rank) != (0, 1));
        Search {
            dim,
            order: Order::Runs,
            has_inverse: layer.return_inverse || dim.is_some(),
            has_counts: layer.return_counts || dim.is_some(),
            outputs: 3,
        }
    };
}

/// Which slices are compared, and in which order the different ones are returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// All slices; sorted.
    Sorted,
    /// All slices; in the order in which they occur first.
    FirstOccurrence,
    /// Adjacent slices only; in the order of the input.
    Runs,
}

/// Finds the different slices along an axis. The outputs are these slices, the first index of each, the index among them of each
/// slice of the input, and their counts.
#[derive(Debug, Clone)]
pub(crate) struct UniqueSlices {
    /// The axis; there must be one.
    pub(crate) axis: usize,
    pub(crate) order: Order,
    /// Whether NaN equals NaN.
    pub(crate) nan_is_equal: bool,
}

/// The results of a search.
struct Found {
    values: Tensor,
    firsts: Vec<usize>,
    which: Vec<i64>,
    counts: Vec<i64>,
}

/// Groups of equal slices: the first slice of each, the group of each slice, and the numbers of slices.
#[derive(Default)]
struct Groups {
    firsts: Vec<usize>,
    which: Vec<i64>,
    counts: Vec<i64>,
}

impl Groups {
    /// The groups of slices in this order, in which equal slices are adjacent.
    fn new(order: &[usize], slices: &Slices) -> Self {
        let mut groups = Self { which: vec![0; order.len()], ..Self::default() };
        for group in order.chunk_by(|&a, &b| slices.are_equal(a, b)) {
            for &place in group {
                groups.which[place] = groups.firsts.len() as i64;
            }
            groups.firsts.extend(group.first());
            groups.counts.push(group.len() as i64);
        }
        groups
    }

    /// The same groups in the order of their first slices.
    fn by_first(self) -> Self {
        let Self { firsts, which, counts } = self;
        let mut order: Vec<usize> = (0..firsts.len()).collect();
        order.sort_unstable_by_key(|&group| firsts[group]);
        let mut moved = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, &group)| moved[group] = place as i64);
        Self {
            firsts: order.iter().map(|&group| firsts[group]).collect(),
            which: which.into_iter().map(|group| moved[group as usize]).collect(),
            counts: order.iter().map(|&group| counts[group]).collect(),
        }
    }
}

/// The key of NaN.
const NAN: i64 = i64::MAX;

/// The elements of slices as keys that compare as the elements do.
struct Slices {
    keys: Vec<i64>,
    /// The number of slices.
    count: usize,
    /// The number of elements of a slice.
    len: usize,
    /// Whether a slice with NaN differs from all others.
    nan_differs: bool,
}

impl Slices {
    fn new(input: &TensorView<'_>, axis: usize, nan_is_equal: bool) -> Result<Self> {
        let others = (0..input.shape().rank()).filter(|&other| other != axis);
        let order: Vec<usize> = std::iter::once(axis).chain(others).collect();
        let rows = input.with_layout(input.layout().permute(&order)?)?;
        let keys = with_order!(input.dtype(), T => keys_of::<T>(&rows))?;
        let count = rows.shape().first().copied().unwrap_or(0);
        let len = keys.len() / count.max(1);
        Ok(Self { keys, count, len, nan_differs: !nan_is_equal && input.dtype().is_float() })
    }

    fn slice(&self, place: usize) -> &[i64] {
        self.keys.get(place * self.len..(place + 1) * self.len).unwrap_or_default()
    }

    fn are_equal(&self, a: usize, b: usize) -> bool {
        let slice = self.slice(a);
        slice == self.slice(b) && !(self.nan_differs && slice.contains(&NAN))
    }

    /// The places of all slices in sorted order, the first of equal slices first.
    fn sorted(&self) -> Vec<usize> {
        if self.len == 1 {
            return in_order(&self.keys);
        }
        let mut places: Vec<usize> = (0..self.count).collect();
        places.sort_by(|&a, &b| self.slice(a).cmp(self.slice(b)));
        places
    }
}

/// The keys of all elements in row-major order.
fn keys_of<T: Element + Ordered>(view: &TensorView<'_>) -> Result<Vec<i64>> {
    let values = Converted::of(view, T::DTYPE)?;
    let values = values.view();
    let values = Plain::of(&values)?;
    Ok(keys(First::Smallest, values.view().slice::<T>()?))
}

fn vector(numbers: Vec<i64>) -> Result<Tensor> {
    let len = numbers.len();
    Ok(Tensor::from_vec(numbers, &[len])?)
}

impl UniqueSlices {
    fn find(&self, input: &TensorView<'_>, limits: &Limits) -> Result<Found> {
        let count = input.shape().get(self.axis).copied().unwrap_or(0);
        // A key for each element; and for each slice its place, its group, and the first slice and the size of a group.
        let held = (input.num_elements() as u64).saturating_add((count as u64).saturating_mul(4));
        limits.check_tensor("the slices to compare", held.saturating_mul(8))?;
        let slices = Slices::new(input, self.axis, self.nan_is_equal)?;
        limits.check_deadline()?;
        let groups = match self.order {
            Order::Sorted => Groups::new(&slices.sorted(), &slices),
            Order::FirstOccurrence => Groups::new(&slices.sorted(), &slices).by_first(),
            Order::Runs => Groups::new(&(0..count).collect::<Vec<_>>(), &slices),
        };
        limits.check_deadline()?;
        let Groups { firsts, which, counts } = groups;
        let mut dims = input.shape().to_vec();
        dims.get_mut(self.axis).into_iter().for_each(|dim| *dim = firsts.len());
        let mut values = Tensor::zeros(input.dtype(), &dims)?;
        let inner = input.shape().iter().skip(self.axis + 1).product();
        take_into(input, (count, inner), &firsts, &mut values.view_mut()?)?;
        Ok(Found { values, firsts, which, counts })
    }

    fn compute(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Vec<Tensor>> {
        let Found { values, firsts, which, counts } = self.find(&inputs[0], limits)?;
        let firsts = firsts.into_iter().map(|first| first as i64).collect();
        Ok(vec![values, vector(firsts)?, vector(which)?, vector(counts)?])
    }
}

impl Layer for UniqueSlices {
    fn num_outputs(&self) -> usize {
        4
    }

    fn is_data_dependent(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_order(&inputs[0])?;
        let (mut dims, count) = (inputs[0].dims().to_vec(), Dim::fresh("different"));
        let Some(dim) = dims.get_mut(self.axis) else {
            let wanted = format!("at least {} axes", self.axis + 1);
            return Err(LayerError::shape("the input", wanted, &inputs[0]));
        };
        let len = std::mem::replace(dim, count.clone());
        let vector = |len: Dim| TensorMeta::new(DType::I64, [len]);
        Ok(vec![inputs[0].with_dims(dims), vector(count.clone()), vector(len), vector(count)])
    }
}

dynamic_layers!(UniqueSlices);

operators! { UniqueElements, UniqueWithInverse, UniqueSlicesOfAxis, UniqueConsecutive }

#[cfg(test)]
mod tests;
