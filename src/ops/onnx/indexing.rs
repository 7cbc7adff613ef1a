//! Elements by their indices: Gather, GatherElements, GatherND and what scatters.

use super::recipe::{Recipe, Source};
use super::steps::{FromBeginning, InShape, PlaceOf};
use super::translated::{Translate, entry};
use crate::op::{FieldValue, LayerError, NO_KEY, OperatorReader, TensorMeta};
use crate::ops::indexing::by_index::{Gather as TorchGather, IndexSelect};
use crate::ops::indexing::nonzero::Nonzero;
use crate::ops::indexing::scattering::{Joining, Scatter as TorchScatter, ScatterReduce};
use crate::ops::layout::axes::{ExpandAs, MatrixTranspose};
use crate::ops::layout::reshaping::{Ravel, Squeeze};
use crate::ops::layout::slicing::{Indices, RankStays, Select};
use crate::ops::support::arguments::{Argument, Operand};
use crate::ops::support::broadcast::Factor;
use crate::ops::support::choices::choices;
use crate::ops::support::ready::Ready;
use crate::ops::support::views::axis_of;
use crate::pnnx;
use crate::tensor::{Dim, resolve_axis};
use std::ops::RangeInclusive;

crate::operator! {
    /// `Gather` (since 1): the given indices of one axis, in the shape of the indices.
    pub struct Gather for "Gather" {
        /// The axis; may count from the end.
        axis: i64 = 0,
        /// The indices, of any shape; one or a list may stand in the file. They may count from the end.
        indices: Argument<Indices>,
        /// Whether an index of the file is a list of one, so that its axis stays.
        stays: RankStays,
    }
}

crate::operator! {
    /// `GatherElements` (since 11): for each element of `indices`, the input's element at that index of one axis and at
    /// the element's own indices of the others.
    pub struct GatherElements for "GatherElements" {
        /// The axis; may count from the end.
        axis: i64 = 0,
        /// The indices, with as many axes as the input; they may count from the end.
        indices: Operand,
    }
}

crate::operator! {
    /// `GatherND` (since 11): for each row of `indices` the part of the input that it names, along as many axes as the row
    /// is long.
    pub struct GatherNd for "GatherND" {
        /// How many first axes input and indices share.
        batch_dims: usize = 0,
        /// The indices, …×k; they may count from the end.
        indices: Operand,
        /// k as the file records it, for indices of unknown shape.
        row: RowLength,
    }
}

choices! {
    /// What becomes of elements that are written to one place.
    pub enum Joined {
        /// The last one stays, and the input's own does not.
        None = "none",
        /// Their sum, with the input's own.
        Add = "add",
        /// Their product, with the input's own.
        Mul = "mul",
        /// The largest, also of the input's own.
        Max = "max",
        /// The smallest, also of the input's own.
        Min = "min",
    }
}

crate::operator! {
    /// `ScatterElements` (since 11), before it `Scatter` (since 9): the input with, for each element of `indices`, the element of `updates` there at that
    /// index of one axis and the element's own indices of the others.
    pub struct ScatterElements for "ScatterElements", "Scatter" {
        /// The axis; may count from the end.
        axis: i64 = 0,
        /// How elements that come to one place are joined.
        reduction: Joined = Joined::None,
        /// The indices, with as many axes as the input; they may count from the end.
        indices: Operand,
        /// What is written, in the shape of the indices.
        updates: Operand,
    }
}

crate::operator! {
    /// `ScatterND` (since 11): the input with, for each row of `indices`, the part that it names from `updates`.
    pub struct ScatterNd for "ScatterND" {
        /// How elements that come to one place are joined.
        reduction: Joined = Joined::None,
        /// The indices, …×k; they may count from the end.
        indices: Operand,
        /// k as the file records it, for indices of unknown shape.
        row: RowLength,
        /// What is written: for each row of the indices a part.
        updates: Operand,
    }
}

crate::operator! {
    /// `Compress` (since 9): the elements of one axis for which a condition holds.
    pub struct Compress for "Compress" {
        /// The axis, which may count from the end; where absent, of all elements in their order.
        axis: Option<i64> = None,
        /// Truth values, for no more elements than there are.
        condition: Operand,
    }
}

crate::operator! {
    /// `NonZero` (since 9): the indices of all elements that are not zero, one column for each.
    pub struct NonZero for "NonZero" {}
}

/// How long the last axis of the second input is, as the file records it. Not a key: no file sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowLength(pub Option<usize>);

impl FieldValue for RowLength {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>, LayerError> {
        let len = match reader.input_shape(1).and_then(<[_]>::last) {
            Some(pnnx::Dim::Fixed(len)) => usize::try_from(*len).ok(),
            _ => None,
        };
        Ok(Some(Self(len)))
    }
}

/// The dimensions of `part` in the place of some axes of `whole`.
fn replaced(whole: &TensorMeta, axes: std::ops::Range<usize>, part: &[Dim]) -> Vec<Dim> {
    let dims = whole.dims();
    let (before, after) = (dims.get(..axes.start), dims.get(axes.end..));
    [before.unwrap_or_default(), part, after.unwrap_or_default()].concat()
}

/// The product of dimensions.
fn product(dims: &[Dim]) -> Dim {
    dims.iter().fold(Dim::Fixed(1), |product, dim| product * dim.clone())
}

/// The elements of one axis at these indices, which are a vector and count from the beginning.
fn select(recipe: &mut Recipe, x: Source, axis: usize, index: Source) -> Result<Source, LayerError> {
    let dim = i64::try_from(axis).unwrap_or(i64::MAX);
    recipe.then(IndexSelect { dim, index: Operand(1), places: Ready::default() }, &[x, index])
}

impl Translate for Gather {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis"), ("index", "indices")]
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.indices.num_inputs();
        count..=count
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let x = Source::Input(0);
        let indices = match &self.indices {
            Argument::Input(position) => Source::Input(*position),
            Argument::Value(index) => {
                let index = Argument::Value(index.clone());
                return Ok(vec![recipe.then(Select { dim: self.axis, index, stays: self.stays }, &[x])?]);
            }
        };
        let axis = axis_of(self.axis, recipe.meta(x)?)?;
        let (whole, index) = (recipe.meta(x)?.clone(), recipe.meta(indices)?.clone());
        let dims = replaced(&whole, axis..axis + 1, index.dims());
        let indices = recipe.step(FromBeginning { axis }, &[indices, x])?;
        if index.rank() == 1 {
            return Ok(vec![select(recipe, x, axis, indices)?]);
        }
        let list = recipe.step(InShape(vec![index.num_elements()]), &[indices])?;
        let taken = select(recipe, x, axis, list)?;
        Ok(vec![recipe.step(InShape(dims), &[taken])?])
    }
}

impl Translate for GatherElements {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis")]
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let (x, indices) = (Source::Input(0), Source::Input(self.indices.0));
        let axis = resolve_axis(self.axis, recipe.rank(x)?)?;
        let index = recipe.step(FromBeginning { axis }, &[indices, x])?;
        let (dim, index_at) = (self.axis, Operand(1));
        let gather = TorchGather { dim, index: index_at, sparse_grad: false, places: Ready::default() };
        Ok(vec![recipe.then(gather, &[x, index])?])
    }
}

/// How an index of …×k lies in a tensor, whose first axes both may share.
struct Rows {
    /// The shared axes and those that the index has beside them.
    index: Vec<Dim>,
    /// The elements that are told apart by the index.
    places: Dim,
    /// The axes that it does not name.
    rest: Vec<Dim>,
}

impl Rows {
    /// `row` is how long rows are where the index does not say it.
    fn new(whole: &TensorMeta, index: &TensorMeta, batch: usize, row: RowLength) -> Result<Self, LayerError> {
        let refuse = |wanted: String| Err(LayerError::shape("the indices", wanted, index));
        let Some((depth, dims)) = index.dims().split_last() else {
            return refuse("at least one axis".to_owned());
        };
        let known = depth.fixed().and_then(|depth| usize::try_from(depth).ok());
        let Some(depth) = known.or(row.0) else {
            return refuse("a last axis of known length".to_owned());
        };
        let named = batch.saturating_add(depth);
        if named > whole.rank() || batch > dims.len() {
            let most = whole.rank().saturating_sub(batch);
            return refuse(format!("{batch} shared axes and rows of at most {most}"));
        }
        if whole.dims().iter().zip(dims).take(batch).any(|(a, b)| a.differs(b)) {
            return refuse(format!("the first {batch} axes of {whole}"));
        }
        let (places, rest) = whole.dims().split_at(named);
        Ok(Self { index: dims.to_vec(), places: product(places), rest: rest.to_vec() })
    }
}

impl Translate for GatherNd {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let (x, indices) = (Source::Input(0), Source::Input(self.indices.0));
        let rows = Rows::new(recipe.meta(x)?, recipe.meta(indices)?, self.batch_dims, self.row)?;
        let places = recipe.step(PlaceOf { batch: self.batch_dims }, &[indices, x])?;
        let list = recipe.step(InShape(vec![product(&rows.index)]), &[places])?;
        let whole = [&[rows.places][..], &rows.rest].concat();
        let whole = recipe.step(InShape(whole), &[x])?;
        let taken = select(recipe, whole, 0, list)?;
        Ok(vec![recipe.step(InShape([rows.index, rows.rest].concat()), &[taken])?])
    }
}

/// Writes `updates` to the places of an axis that an index names.
fn scatter(
    recipe: &mut Recipe,
    joined: Joined,
    axis: usize,
    inputs: [Source; 3],
) -> Result<Source, LayerError> {
    let dim = i64::try_from(axis).unwrap_or(i64::MAX);
    let reduce = match joined {
        Joined::None => {
            return recipe.then(TorchScatter { dim, index: Operand(1), src: Factor::Input(2) }, &inputs);
        }
        Joined::Add => Joining::Sum,
        Joined::Mul => Joining::Product,
        Joined::Max => Joining::Largest,
        Joined::Min => Joining::Smallest,
    };
    let (index, src) = (Operand(1), Operand(2));
    recipe.then(ScatterReduce { dim, index, src, reduce, include_self: true }, &inputs)
}

impl Translate for ScatterElements {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis")]
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        3..=3
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let [x, indices, updates] = [0, self.indices.0, self.updates.0].map(Source::Input);
        let axis = resolve_axis(self.axis, recipe.rank(x)?)?;
        let index = recipe.step(FromBeginning { axis }, &[indices, x])?;
        Ok(vec![scatter(recipe, self.reduction, axis, [x, index, updates])?])
    }
}

impl Translate for ScatterNd {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        3..=3
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let [x, indices, updates] = [0, self.indices.0, self.updates.0].map(Source::Input);
        let whole = recipe.meta(x)?.clone();
        let rows = Rows::new(&whole, recipe.meta(indices)?, 0, self.row)?;
        let (count, len) = (product(&rows.index), product(&rows.rest));
        let wanted = [rows.index, rows.rest].concat();
        if !recipe.meta(updates)?.may_have_dims(&wanted) {
            let wanted = whole.with_dims(wanted);
            return Err(LayerError::shape("the updates", wanted, recipe.meta(updates)?));
        }
        // As a matrix of places and what is at each.
        let places = recipe.step(PlaceOf { batch: 0 }, &[indices, x])?;
        let places = recipe.step(InShape(vec![count.clone(), Dim::Fixed(1)]), &[places])?;
        let matrix = recipe.step(InShape(vec![rows.places, len.clone()]), &[x])?;
        let updates = recipe.step(InShape(vec![count, len]), &[updates])?;
        let places = recipe.then(ExpandAs { other: Operand(1) }, &[places, updates])?;
        let written = scatter(recipe, self.reduction, 0, [matrix, places, updates])?;
        Ok(vec![recipe.step(InShape(whole.dims().to_vec()), &[written])?])
    }
}

impl Translate for Compress {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis")]
    }

    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn is_data_dependent(&self) -> bool {
        true
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let (x, condition) = (Source::Input(0), Source::Input(self.condition.0));
        let meta = recipe.meta(condition)?;
        if meta.rank() != 1 {
            return Err(LayerError::shape("the condition", "a vector", meta));
        }
        let found = recipe.then(Nonzero {}, &[condition])?;
        let index = recipe.then(Squeeze { dim: Some(vec![1]) }, &[found])?;
        let (x, axis) = match self.axis {
            Some(axis) => (x, axis_of(axis, recipe.meta(x)?)?),
            None => (recipe.then(Ravel {}, &[x])?, 0),
        };
        Ok(vec![select(recipe, x, axis, index)?])
    }
}

impl Translate for NonZero {
    fn is_data_dependent(&self) -> bool {
        true
    }

    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError> {
        let found = recipe.then(Nonzero {}, &[Source::Input(0)])?;
        Ok(vec![recipe.then(MatrixTranspose {}, &[found])?])
    }
}

operators! {
    entry => Gather, GatherElements, GatherNd, ScatterElements, ScatterNd, Compress, NonZero
}
