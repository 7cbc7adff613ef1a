//! Elements selected or written by their indices.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::lowering::Source;
use super::steps::{LinearIndex, WrapIndices};
use crate::indexing::by_index::{Gather as TorchGather, IndexSelect};
use crate::indexing::nonzero::Nonzero;
use crate::indexing::scattering::{Scatter as TorchScatter, ScatterReduce, ScatterReduction};
use crate::layout::axes::{ExpandAs, MatrixTranspose};
use crate::layout::reshaping::{MeansNoAxis, Ravel, Squeeze};
use crate::layout::slicing::{Indices, RankStays, Select};
use crate::op::{FieldValue, LayerError, NO_KEY, OperatorReader, Result, TensorMeta};
use crate::support::arguments::{InputIndex, ParamOrInput};
use crate::support::broadcast::TensorOrScalar;
use crate::support::choices::choices;
use crate::support::views::axis_of;
use ixion_tensor::{Dim, resolve_axis};

crate::operator! {
    /// `Gather` (since 1): the slices at the given indices of one axis; the axes of the indices replace it.
    pub struct Gather for "Gather" {
        /// The axis; a negative one counts from the end.
        axis: i64 = 0,
        /// The indices, of any shape; a parameter can be one index or a list. Negative ones count from the end.
        indices: ParamOrInput<Indices>,
        /// Whether an index of the file is a list of one, so that its axis is kept.
        stays: RankStays,
    }
}

crate::operator! {
    /// `GatherElements` (since 11): for each element of `indices`, the input's element at that index of one axis and at
    /// the same position on the others.
    pub struct GatherElements for "GatherElements" {
        /// The axis; a negative one counts from the end.
        axis: i64 = 0,
        /// The indices, with as many axes as the input; negative ones count from the end.
        indices: InputIndex,
    }
}

crate::operator! {
    /// `GatherND` (since 11): for each row of `indices`, the element or slice of the input at that multi-dimensional
    /// index.
    pub struct GatherNd for "GatherND" {
        /// Number of leading batch axes that the input and the indices share.
        batch_dims: usize = 0,
        /// The indices, …×k; negative ones count from the end.
        indices: InputIndex,
        /// k as the file records it, for indices of unknown shape.
        row: RowLength,
    }
}

choices! {
    /// The reduction of elements that are written to one position.
    pub enum Reduction {
        /// The last one replaces the input's element.
        None = "none",
        /// The sum of them and the input's element.
        Add = "add",
        /// The product of them and the input's element.
        Mul = "mul",
        /// The largest of them and the input's element.
        Max = "max",
        /// The smallest of them and the input's element.
        Min = "min",
    }
}

crate::operator! {
    /// `ScatterElements` (since 11), before it `Scatter` (since 9): the input with each element of `updates` written to
    /// the index in `indices` of one axis and to the same position on the others.
    pub struct ScatterElements for "ScatterElements", "Scatter" {
        /// The axis; a negative one counts from the end.
        axis: i64 = 0,
        /// The reduction of elements that are written to one position.
        reduction: Reduction = Reduction::None,
        /// The indices, with as many axes as the input; negative ones count from the end.
        indices: InputIndex,
        /// The elements to write, in the shape of the indices.
        updates: InputIndex,
    }
}

crate::operator! {
    /// `ScatterND` (since 11): the input with an element or slice of `updates` written to the multi-dimensional index
    /// in each row of `indices`.
    pub struct ScatterNd for "ScatterND" {
        /// The reduction of elements that are written to one position.
        reduction: Reduction = Reduction::None,
        /// The indices, …×k; negative ones count from the end.
        indices: InputIndex,
        /// k as the file records it, for indices of unknown shape.
        row: RowLength,
        /// The elements or slices to write, one for each row of the indices.
        updates: InputIndex,
    }
}

crate::operator! {
    /// `Compress` (since 9): the slices along one axis at which a condition is true.
    pub struct Compress for "Compress" {
        /// The axis; a negative one counts from the end. If absent, elements of the flattened input are selected.
        axis: Option<i64> = None,
        /// The condition: a vector of truth values, no longer than the axis.
        condition: InputIndex,
    }
}

crate::operator! {
    /// `NonZero` (since 9): the indices of all non-zero elements, one column for each.
    pub struct NonZero for "NonZero" {}
}

/// The length of the second input's last axis, as the file records it. Not a parameter: no file sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowLength(pub Option<usize>);

impl FieldValue for RowLength {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        let len = match reader.input_shape(1).and_then(<[_]>::last) {
            Some(ixion_pnnx::Dim::Fixed(len)) => usize::try_from(*len).ok(),
            _ => None,
        };
        Ok(Some(Self(len)))
    }
}

/// The dimensions of `whole`, with some of its axes replaced by `part`.
fn replaced(whole: &TensorMeta, axes: std::ops::Range<usize>, part: &[Dim]) -> Vec<Dim> {
    let dims = whole.dims();
    let (before, after) = (dims.get(..axes.start), dims.get(axes.end..));
    [before.unwrap_or_default(), part, after.unwrap_or_default()].concat()
}

/// The product of dimensions.
fn product(dims: &[Dim]) -> Dim {
    dims.iter().fold(Dim::Fixed(1), |product, dim| product * dim.clone())
}

/// The slices of one axis at these indices, a vector of non-negative values.
fn select(decomposition: &mut Decomposition, x: Source, axis: usize, index: Source) -> Result<Source> {
    let dim = i64::try_from(axis).unwrap_or(i64::MAX);
    decomposition.then(IndexSelect { dim, index: InputIndex(1) }, &[x, index])
}

impl Decompose for Gather {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis"), ("index", "indices")]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let x = Source::Input(0);
        let indices = match &self.indices {
            ParamOrInput::Input(position) => Source::Input(*position),
            ParamOrInput::Value(index) => {
                let index = ParamOrInput::Value(index.clone());
                return Ok(vec![
                    decomposition.then(Select { dim: self.axis, index, stays: self.stays }, &[x])?,
                ]);
            }
        };
        let axis = axis_of(self.axis, decomposition.meta(x)?)?;
        let (whole, index) = (decomposition.meta(x)?.clone(), decomposition.meta(indices)?.clone());
        let dims = replaced(&whole, axis..axis + 1, index.dims());
        let indices = decomposition.step(WrapIndices { axis }, &[indices, x])?;
        if index.rank() == 1 {
            return Ok(vec![select(decomposition, x, axis, indices)?]);
        }
        let list = decomposition.reshape(vec![index.num_elements()], indices)?;
        let taken = select(decomposition, x, axis, list)?;
        Ok(vec![decomposition.reshape(dims, taken)?])
    }
}

impl Decompose for GatherElements {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis")]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let (x, indices) = (Source::Input(0), Source::Input(self.indices.0));
        let axis = resolve_axis(self.axis, decomposition.rank(x)?)?;
        let index = decomposition.step(WrapIndices { axis }, &[indices, x])?;
        let (dim, index_at) = (self.axis, InputIndex(1));
        let gather = TorchGather { dim, index: index_at, sparse_grad: false };
        Ok(vec![decomposition.then(gather, &[x, index])?])
    }
}

/// The axes of a tensor and of indices …×k into it, with which it may share batch axes.
struct Rows {
    /// The axes of the indices but the last: the batch axes, then their own.
    index: Vec<Dim>,
    /// The number of elements or slices that an index can select.
    places: Dim,
    /// The axes that an index does not select from.
    rest: Vec<Dim>,
}

impl Rows {
    /// `row` is the row length if the shape of the indices does not give it.
    fn new(whole: &TensorMeta, index: &TensorMeta, batch: usize, row: RowLength) -> Result<Self> {
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
            return refuse(format!("{batch} batch axes and rows of at most {most}"));
        }
        if whole.dims().iter().zip(dims).take(batch).any(|(a, b)| a.differs(b)) {
            return refuse(format!("batch axes like the first {batch} of {whole}"));
        }
        let (places, rest) = whole.dims().split_at(named);
        Ok(Self { index: dims.to_vec(), places: product(places), rest: rest.to_vec() })
    }
}

impl Decompose for GatherNd {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let (x, indices) = (Source::Input(0), Source::Input(self.indices.0));
        let rows =
            Rows::new(decomposition.meta(x)?, decomposition.meta(indices)?, self.batch_dims, self.row)?;
        let places = decomposition.step(LinearIndex { batch: self.batch_dims }, &[indices, x])?;
        let list = decomposition.reshape(vec![product(&rows.index)], places)?;
        let whole = [&[rows.places][..], &rows.rest].concat();
        let whole = decomposition.reshape(whole, x)?;
        let taken = select(decomposition, whole, 0, list)?;
        Ok(vec![decomposition.reshape([rows.index, rows.rest].concat(), taken)?])
    }
}

/// Writes `updates` to the indices of an axis.
fn scatter(
    decomposition: &mut Decomposition,
    joined: Reduction,
    axis: usize,
    inputs: [Source; 3],
) -> Result<Source> {
    let dim = i64::try_from(axis).unwrap_or(i64::MAX);
    let reduce = match joined {
        Reduction::None => {
            let (index, src) = (InputIndex(1), TensorOrScalar::Input(2));
            return decomposition.then(TorchScatter { dim, index, src, reduce: None }, &inputs);
        }
        Reduction::Add => ScatterReduction::Sum,
        Reduction::Mul => ScatterReduction::Product,
        Reduction::Max => ScatterReduction::Amax,
        Reduction::Min => ScatterReduction::Amin,
    };
    let (index, src) = (InputIndex(1), InputIndex(2));
    decomposition.then(ScatterReduce { dim, index, src, reduce, include_self: true }, &inputs)
}

impl Decompose for ScatterElements {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis")]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let [x, indices, updates] = [0, self.indices.0, self.updates.0].map(Source::Input);
        let axis = resolve_axis(self.axis, decomposition.rank(x)?)?;
        let index = decomposition.step(WrapIndices { axis }, &[indices, x])?;
        Ok(vec![scatter(decomposition, self.reduction, axis, [x, index, updates])?])
    }
}

impl Decompose for ScatterNd {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let [x, indices, updates] = [0, self.indices.0, self.updates.0].map(Source::Input);
        let whole = decomposition.meta(x)?.clone();
        let rows = Rows::new(&whole, decomposition.meta(indices)?, 0, self.row)?;
        let (count, len) = (product(&rows.index), product(&rows.rest));
        let wanted = [rows.index, rows.rest].concat();
        if !decomposition.meta(updates)?.may_have_dims(&wanted) {
            let wanted = whole.with_dims(wanted);
            return Err(LayerError::shape("the updates", wanted, decomposition.meta(updates)?));
        }
        // As a matrix with a row for each position that an index can select.
        let places = decomposition.step(LinearIndex { batch: 0 }, &[indices, x])?;
        let places = decomposition.reshape(vec![count.clone(), Dim::Fixed(1)], places)?;
        let matrix = decomposition.reshape(vec![rows.places, len.clone()], x)?;
        let updates = decomposition.reshape(vec![count, len], updates)?;
        let places = decomposition.then(ExpandAs { other: InputIndex(1) }, &[places, updates])?;
        let written = scatter(decomposition, self.reduction, 0, [matrix, places, updates])?;
        Ok(vec![decomposition.reshape(whole.dims().to_vec(), written)?])
    }
}

impl Decompose for Compress {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis")]
    }

    fn is_data_dependent(&self) -> bool {
        true
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let (x, condition) = (Source::Input(0), Source::Input(self.condition.0));
        let meta = decomposition.meta(condition)?;
        if meta.rank() != 1 {
            return Err(LayerError::shape("the condition", "a vector", meta));
        }
        let found = decomposition.then(Nonzero {}, &[condition])?;
        let squeeze = Squeeze { dim: Some(vec![1]), none: MeansNoAxis(false) };
        let index = decomposition.then(squeeze, &[found])?;
        let (x, axis) = match self.axis {
            Some(axis) => (x, axis_of(axis, decomposition.meta(x)?)?),
            None => (decomposition.then(Ravel {}, &[x])?, 0),
        };
        Ok(vec![select(decomposition, x, axis, index)?])
    }
}

impl Decompose for NonZero {
    fn is_data_dependent(&self) -> bool {
        true
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let found = decomposition.then(Nonzero {}, &[Source::Input(0)])?;
        Ok(vec![decomposition.then(MatrixTranspose {}, &[found])?])
    }
}

operators! {
    entry => Gather, GatherElements, GatherNd, ScatterElements, ScatterNd, Compress, NonZero; category Shape
}
