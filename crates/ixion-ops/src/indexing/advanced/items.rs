//! The items of an index, one per axis, from the file or from inputs.

use crate::op::{FieldValue, LayerError, OperatorReader, Result, TensorMeta};
use crate::support::broadcast::{Converted, broadcast, owned};
use crate::support::views::Plain;
use ixion_kernels::mask;
use ixion_pnnx::Expr;
use ixion_tensor::{DType, Dim, Limits, Tensor, TensorView};
use ndarray::{Array1, ArrayD, IxDyn};

/// The items of an index.
#[derive(Debug, Clone, PartialEq)]
pub enum Items {
    /// One item per axis, except that a mask covers all of its axes.
    Listed(Vec<Item>),
    /// The position of an input: stacked index tensors, one per axis, or a mask.
    Input(usize),
}

/// One item of a list of indices.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// The whole axis.
    Whole,
    /// Indices from the file.
    Given(Indices),
    /// The position of an input of indices, or of a mask of one or more axes.
    Input(usize),
}

/// The indices of one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Indices {
    pub(super) array: ArrayD<i64>,
    /// The length that the axis must have, if the indices are from a mask.
    pub(super) covers: Option<usize>,
}

impl FieldValue for Items {
    const KIND: &'static str = "a list of indices such as [None,[0,2]], or an input";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        let Some(parameter) = reader.param(key) else {
            return Ok(reader.later_input(key)?.map(Items::Input));
        };
        let wrong = || LayerError::WrongParameter {
            key: key.to_owned(),
            wanted: Self::KIND.to_owned(),
            found: parameter.raw().to_owned(),
        };
        let Ok(Expr::List(items)) = Expr::parse(parameter.raw()) else { return Err(wrong()) };
        let mut given = Vec::new();
        for item in &items {
            match item {
                Expr::None => given.push(Item::Whole),
                Expr::Input(0) => return Err(wrong()),
                Expr::Input(position) => given.push(Item::Input(*position)),
                _ => given.extend(constant(item).ok_or_else(wrong)?.into_iter().map(Item::Given)),
            }
        }
        Ok(Some(Items::Listed(given)))
    }

    fn num_inputs(&self) -> usize {
        match self {
            Items::Input(_) => 1,
            Items::Listed(items) => items.iter().filter(|item| matches!(item, Item::Input(_))).count(),
        }
    }
}

/// The indices of an item of the file: one tensor, or one per axis for a mask.
fn constant(item: &Expr) -> Option<Vec<Indices>> {
    let Nested { shape, values, is_mask } = nested(item)?;
    if is_mask == Some(true) {
        return Some(places_of(&values.iter().map(|&x| x != 0).collect::<Vec<_>>(), &shape));
    }
    let array = ArrayD::from_shape_vec(IxDyn(&shape), values).ok()?;
    Some(vec![Indices { array, covers: None }])
}

/// The contents of nested lists; `is_mask` is `None` for an empty list, which may be either.
struct Nested {
    shape: Vec<usize>,
    values: Vec<i64>,
    is_mask: Option<bool>,
}

/// The values of nested lists, if they are all of one shape and type.
fn nested(item: &Expr) -> Option<Nested> {
    let number = |value, is_mask| Nested { shape: Vec::new(), values: vec![value], is_mask: Some(is_mask) };
    let items = match item {
        Expr::Int(value) => return Some(number(*value, false)),
        Expr::Bool(value) => return Some(number(i64::from(*value), true)),
        Expr::List(items) => items,
        _ => return None,
    };
    let mut parts = items.iter().map(nested);
    let Some(first) = parts.next() else {
        return Some(Nested { shape: vec![0], values: Vec::new(), is_mask: None });
    };
    let mut all = first?;
    for part in parts {
        let part = part?;
        (part.shape == all.shape && part.is_mask == all.is_mask).then_some(())?;
        all.values.extend(part.values);
    }
    all.shape.insert(0, items.len());
    Some(all)
}

/// The indices of the true elements of a mask of these lengths, one vector per axis.
fn places_of(mask: &[bool], lens: &[usize]) -> Vec<Indices> {
    let mut places = vec![0; mask::count(mask) * lens.len()];
    mask::indices(mask, lens, &mut places);
    let along = |(axis, &len): (usize, &usize)| {
        let along: Array1<i64> = places.iter().copied().skip(axis).step_by(lens.len()).collect();
        Indices { array: along.into_dyn(), covers: Some(len) }
    };
    lens.iter().enumerate().map(along).collect()
}

impl Indices {
    /// The indices as a tensor.
    ///
    /// # Errors
    /// Never in practice: the array is contiguous.
    pub fn tensor(&self) -> Result<Tensor> {
        Ok(Tensor::from_array(self.array.clone())?)
    }
}

impl Items {
    /// The items, if each holds indices of a single axis from the file or the graph. `None` if the graph computes a mask,
    /// or one tensor with the indices of several axes.
    pub fn by_axis(&self, inputs: &[DType]) -> Option<&[Item]> {
        let Items::Listed(items) = self else { return None };
        let is_mask = |item: &Item| match item {
            Item::Input(position) => !matches!(inputs.get(*position), Some(DType::I64 | DType::I32)),
            _ => false,
        };
        (!items.iter().any(is_mask)).then_some(items)
    }

    /// The broadcast shape of the indices, and the axes that they index. Masks must have the lengths of their axes.
    pub(super) fn shape(&self, inputs: &[TensorMeta]) -> Result<(Vec<Dim>, Vec<usize>)> {
        match self {
            Items::Listed(items) => listed_shape(items, inputs),
            Items::Input(position) => {
                let index = &inputs[*position];
                let Some((count, dims)) = index.dims().split_first() else {
                    return Err(LayerError::shape("the indices", "at least one axis", index));
                };
                let count = count.fixed().and_then(|count| usize::try_from(count).ok());
                let count = count
                    .ok_or_else(|| LayerError::shape("the indices", "a first axis of known length", index))?;
                match index.dtype() {
                    DType::Bool if count == 1 => {
                        let mut axes = inputs[0].dims().iter().zip(dims);
                        axes.try_for_each(|(axis, mask)| check_mask(axis, mask, &inputs[0]))?;
                        Ok((vec![Dim::fresh("taken")], (0..dims.len()).collect()))
                    }
                    DType::I64 => Ok((dims.to_vec(), (0..count).collect())),
                    found => {
                        let wanted = "i64, or one mask of bool".to_owned();
                        Err(LayerError::DType { what: "the indices".to_owned(), wanted, found })
                    }
                }
            }
        }
    }

    /// The mask, if there are no other indices, and the number of axes before those that it covers.
    pub(super) fn only_mask<'a>(&self, inputs: &[TensorView<'a>]) -> Result<Option<(usize, TensorView<'a>)>> {
        let found = match self {
            Items::Listed(items) => {
                let mut indices = items.iter().enumerate().filter(|(_, item)| **item != Item::Whole);
                match (indices.next(), indices.next()) {
                    (Some((before, Item::Input(position))), None) => Some((before, inputs[*position])),
                    _ => None,
                }
            }
            Items::Input(position) => first_of(&inputs[*position])?.map(|first| (0, first)),
        };
        let is_mask = |mask: &TensorView<'_>| matches!(mask.dtype(), DType::Bool | DType::U8);
        Ok(found.filter(|(_, mask)| is_mask(mask) && mask.shape().rank() > 0))
    }

    /// The indices for each axis.
    pub(super) fn values(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Vec<Option<Indices>>> {
        match self {
            Items::Listed(items) => listed_values(items, inputs, limits),
            Items::Input(position) if inputs[*position].dtype() == DType::Bool => {
                let Some(mask) = first_of(&inputs[*position])? else { return Ok(Vec::new()) };
                Ok(checked_places(&mask, limits)?.into_iter().map(Some).collect())
            }
            Items::Input(position) => {
                check_offsets(inputs[*position].num_elements(), limits)?;
                let stacked = inputs[*position].array::<i64>()?;
                let indices = |array| Some(Indices { array, covers: None });
                stacked.outer_iter().map(|index| owned(&index).map(indices)).collect()
            }
        }
    }
}

/// The first of stacked tensors, if there is one.
fn first_of<'a>(stacked: &TensorView<'a>) -> Result<Option<TensorView<'a>>> {
    match stacked.shape().first() {
        None | Some(0) => Ok(None),
        Some(_) => Ok(Some(stacked.with_layout(stacked.layout().select(0, 0)?)?)),
    }
}

/// The indices of the true elements of a mask, if they are within the limits.
fn checked_places(mask: &TensorView<'_>, limits: &Limits) -> Result<Vec<Indices>> {
    let truths = Converted::of(mask, DType::Bool)?;
    let truths = truths.view();
    let plain = Plain::of(&truths)?;
    let plain = plain.view();
    let truths = plain.slice::<bool>()?;
    check_offsets(mask::count(truths).saturating_mul(mask.shape().rank()), limits)?;
    Ok(places_of(truths, mask.shape()))
}

/// [`Items::shape`] for listed items.
fn listed_shape(items: &[Item], inputs: &[TensorMeta]) -> Result<(Vec<Dim>, Vec<usize>)> {
    let (mut shape, mut axes, mut axis) = (Vec::new(), Vec::new(), 0);
    for item in items {
        let (dims, covered) = match item {
            Item::Whole => {
                axis += 1;
                continue;
            }
            Item::Given(Indices { array, covers }) => {
                let covered = covers.iter().map(|&len| Dim::from(len)).collect();
                (array.shape().iter().map(|&len| Dim::from(len)).collect(), covered)
            }
            Item::Input(position) => computed_shape(&inputs[*position])?,
        };
        let mut lens = inputs[0].dims().iter().skip(axis).zip(&covered);
        lens.try_for_each(|(len, mask)| check_mask(len, mask, &inputs[0]))?;
        // A mask may select one element, which is broadcast, so its unknown count is compatible with any other.
        shape = if shape.is_empty() { dims } else { broadcast(&shape, &dims)? };
        let next = axis + covered.len().max(1);
        axes.extend(axis..next);
        axis = next;
    }
    Ok((shape, axes))
}

/// The shape of computed indices, and the dimensions of the axes that they cover if they are a mask.
fn computed_shape(index: &TensorMeta) -> Result<(Vec<Dim>, Vec<Dim>)> {
    match index.dtype() {
        DType::I64 | DType::I32 | DType::I16 | DType::I8 => Ok((index.dims().to_vec(), Vec::new())),
        DType::Bool | DType::U8 if index.rank() > 0 => Ok((vec![Dim::fresh("taken")], index.dims().to_vec())),
        found => {
            let wanted = "integers, or a mask of bool with axes".to_owned();
            Err(LayerError::DType { what: "an index".to_owned(), wanted, found })
        }
    }
}

/// [`Items::values`] for listed items.
fn listed_values(items: &[Item], inputs: &[TensorView<'_>], limits: &Limits) -> Result<Vec<Option<Indices>>> {
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Item::Whole => values.push(None),
            Item::Given(indices) => values.push(Some(indices.clone())),
            Item::Input(position) if matches!(inputs[*position].dtype(), DType::Bool | DType::U8) => {
                let places = checked_places(&inputs[*position], limits)?;
                values.extend(places.into_iter().map(Some));
            }
            Item::Input(position) => {
                check_offsets(inputs[*position].num_elements(), limits)?;
                let indices = Converted::of(&inputs[*position], DType::I64)?;
                let (shape, numbers) = (IxDyn(indices.view().shape()), indices.view().to_vec::<i64>()?);
                let array = ArrayD::from_shape_vec(shape, numbers)?;
                values.push(Some(Indices { array, covers: None }));
            }
        }
    }
    Ok(values)
}

/// Checks that a mask is as long as the axis that it indexes.
fn check_mask(axis: &Dim, mask: &Dim, input: &TensorMeta) -> Result<()> {
    if axis.differs(mask) {
        return Err(LayerError::shape(
            "the input",
            format!("an axis of {mask} elements, like the mask"),
            input,
        ));
    }
    Ok(())
}

/// Checks that `count` positions are within the limits.
pub(super) fn check_offsets(count: usize, limits: &Limits) -> Result<()> {
    let bytes = (count as u64).saturating_mul(size_of::<usize>() as u64);
    Ok(limits.check_tensor("the positions of an index", bytes)?)
}
