//! Indexing with tensors and masks: `x[[0, 2], :, mask]`, and writing there.

use super::arguments::Operand;
use super::broadcast::{Factor, broadcast, broadcasts, owned};
use crate::Limits;
use crate::graph::{
    CpuLayer, FieldValue, ForwardContext, Layer, LayerError, OperatorReader, Registry, RegistryError,
    TensorMeta,
};
use crate::kernels::elementwise::Program;
use crate::pnnx::{Expr, Function};
use crate::tensor::{
    DType, Dim, Element, Scalar, Shape, Tensor, TensorView, TensorViewMut, resolve_axis, resolve_index,
    with_bits,
};
use ndarray::{Array1, ArrayD, ArrayViewD, Axis, IxDyn};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.Tensor.__getitem__` with lists, tensors and masks: each item of `expr` is for one axis. `None` takes the whole
    /// axis; a list or tensor of integers takes those indices; a mask of n axes stands for n axes. All indices are
    /// broadcast, and together become the axes where the first of them stood, or the first axes where others lie between.
    pub struct Index for "Tensor.index" {
        /// The items, or an input with one index tensor for each of the first axes.
        expr: Items,
    }
}

crate::operator! {
    /// `torch.Tensor.index_put`: the input with other elements at some indices.
    pub struct IndexPut for "Tensor.index_put" {
        /// The items, as those of `Tensor.index`.
        indices: Items,
        /// What is written: a number, or a tensor that is broadcast.
        values: Factor,
        /// Whether it is added to what is there.
        accumulate: bool = false,
    }
}

crate::operator! {
    /// `torch.index_fill`: the input with one number at some indices of one axis.
    pub struct IndexFill for "torch.index_fill", "Tensor.index_fill", "aten::index_fill" {
        /// The axis; may count from the end.
        dim: i64,
        /// The indices, a vector.
        index: Operand,
        /// The number.
        value: Factor,
    }
}

crate::operator! {
    /// `torch.index_add`: the input plus, for each index of one axis, the slice of `source` at that place, times `alpha`.
    pub struct IndexAdd for "torch.index_add", "Tensor.index_add", "aten::index_add" {
        /// The axis; may count from the end.
        dim: i64,
        /// The indices, a vector.
        index: Operand,
        /// What is added.
        source: Operand,
        /// What `source` is multiplied by.
        alpha: Scalar = Scalar::Int(1),
    }
}

/// The items of an index.
#[derive(Debug, Clone, PartialEq)]
pub enum Items {
    /// Listed: one item for each axis, but a mask stands for all of its axes.
    Listed(Vec<Item>),
    /// Computed: one index tensor for each axis, stacked; or masks.
    Input(usize),
}

/// One item of a list of indices.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// The whole axis.
    Whole,
    /// Given in the file.
    Given(Indices),
    /// Computed: the position of the input, which holds indices, or a mask of one axis or more.
    Input(usize),
}

/// The indices of one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Indices {
    array: ArrayD<i64>,
    /// The length that the axis must have, where they are those of a mask.
    covers: Option<usize>,
}

impl FieldValue for Items {
    const KIND: &'static str = "a list of indices such as [None,[0,2]], or an input";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>, LayerError> {
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
}

/// The indices that an item of the file stands for: one tensor, or of a mask one for each of its axes.
fn constant(item: &Expr) -> Option<Vec<Indices>> {
    let Nested { shape, values, is_mask } = nested(item)?;
    let array = ArrayD::from_shape_vec(IxDyn(&shape), values).ok()?;
    if is_mask == Some(true) {
        return Some(places_of(&array.mapv(|x| x != 0).view()));
    }
    Some(vec![Indices { array, covers: None }])
}

/// What lists of lists hold; of an empty list it is open whether it is a mask.
struct Nested {
    shape: Vec<usize>,
    values: Vec<i64>,
    is_mask: Option<bool>,
}

/// The values of lists that are all of one shape and of one type.
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

/// The indices of the true elements of a mask, a vector for each axis.
fn places_of(mask: &ArrayViewD<'_, bool>) -> Vec<Indices> {
    let mut places: Vec<Vec<i64>> = vec![Vec::new(); mask.ndim()];
    for (at, _) in mask.indexed_iter().filter(|(_, taken)| **taken) {
        let at = ndarray::Dimension::slice(&at);
        places.iter_mut().zip(at).for_each(|(places, &index)| places.push(index as i64));
    }
    let indices = |(places, &len): (Vec<i64>, &usize)| Indices {
        array: Array1::from(places).into_dyn(),
        covers: Some(len),
    };
    places.into_iter().zip(mask.shape()).map(indices).collect()
}

impl Items {
    fn num_inputs(&self) -> usize {
        match self {
            Items::Input(_) => 1,
            Items::Listed(items) => items.iter().filter(|item| matches!(item, Item::Input(_))).count(),
        }
    }

    /// The shape that the indices have together, and the axes that they are for; masks must be as long as those.
    fn shape(&self, inputs: &[TensorMeta]) -> Result<(Vec<Dim>, Vec<usize>), LayerError> {
        match self {
            Items::Listed(items) => listed_shape(items, inputs),
            Items::Input(position) => {
                let index = &inputs[*position];
                let Some((count, dims)) = index.dims().split_first() else {
                    return Err(LayerError::shape("the indices", "at least one axis", index));
                };
                let count = count.fixed().and_then(|count| usize::try_from(count).ok());
                let count =
                    count.ok_or_else(|| LayerError::shape("the indices", "a known number of them", index))?;
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

    /// The indices for each axis.
    fn values(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Vec<Option<Indices>>, LayerError> {
        match self {
            Items::Listed(items) => listed_values(items, inputs, limits),
            Items::Input(position) if inputs[*position].dtype() == DType::Bool => {
                let mask = inputs[*position].array::<bool>()?;
                if mask.len_of(Axis(0)) == 0 {
                    return Ok(Vec::new());
                }
                Ok(checked_places(&mask.index_axis(Axis(0), 0), limits)?.into_iter().map(Some).collect())
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

/// The indices of the true elements of a mask, if so many may be held.
fn checked_places(mask: &ArrayViewD<'_, bool>, limits: &Limits) -> Result<Vec<Indices>, LayerError> {
    let taken = mask.iter().filter(|&&taken| taken).count();
    check_offsets(taken.saturating_mul(mask.ndim()), limits)?;
    Ok(places_of(mask))
}

/// What [`Items::shape`] is of listed items.
fn listed_shape(items: &[Item], inputs: &[TensorMeta]) -> Result<(Vec<Dim>, Vec<usize>), LayerError> {
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
        // A mask may take one element, which is broadcast, so its number is only known to go with any other.
        shape = if shape.is_empty() { dims } else { broadcast(&shape, &dims)? };
        let next = axis + covered.len().max(1);
        axes.extend(axis..next);
        axis = next;
    }
    Ok((shape, axes))
}

/// The shape of computed indices, and the axes that they cover if they are a mask.
fn computed_shape(index: &TensorMeta) -> Result<(Vec<Dim>, Vec<Dim>), LayerError> {
    match index.dtype() {
        DType::I64 | DType::I32 | DType::I16 | DType::I8 => Ok((index.dims().to_vec(), Vec::new())),
        DType::Bool | DType::U8 if index.rank() > 0 => Ok((vec![Dim::fresh("taken")], index.dims().to_vec())),
        found => {
            let wanted = "integers, or a mask of bool with axes".to_owned();
            Err(LayerError::DType { what: "an index".to_owned(), wanted, found })
        }
    }
}

/// What [`Items::values`] is of listed items.
fn listed_values(
    items: &[Item],
    inputs: &[TensorView<'_>],
    limits: &Limits,
) -> Result<Vec<Option<Indices>>, LayerError> {
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Item::Whole => values.push(None),
            Item::Given(indices) => values.push(Some(indices.clone())),
            Item::Input(position) if matches!(inputs[*position].dtype(), DType::Bool | DType::U8) => {
                let mask = inputs[*position].cast(DType::Bool)?;
                let places = checked_places(&mask.view().array::<bool>()?, limits)?;
                values.extend(places.into_iter().map(Some));
            }
            Item::Input(position) => {
                check_offsets(inputs[*position].num_elements(), limits)?;
                let indices = inputs[*position].cast(DType::I64)?;
                let array = owned(&indices.view().array::<i64>()?)?;
                values.push(Some(Indices { array, covers: None }));
            }
        }
    }
    Ok(values)
}

/// Checks that a mask is as long as the axis it is for.
fn check_mask(axis: &Dim, mask: &Dim, input: &TensorMeta) -> Result<(), LayerError> {
    if axis.differs(mask) {
        return Err(LayerError::shape(
            "the input",
            format!("an axis of {mask} elements, as the mask"),
            input,
        ));
    }
    Ok(())
}

/// Checks that so many positions may be held.
fn check_offsets(count: usize, limits: &Limits) -> Result<(), LayerError> {
    let bytes = (count as u64).saturating_mul(size_of::<usize>() as u64);
    Ok(limits.check_tensor("the positions of an index", bytes)?)
}

/// The dimensions of what indices of some shape leave of an input.
fn indexed_dims(input: &TensorMeta, shape: Vec<Dim>, axes: &[usize]) -> Result<Vec<Dim>, LayerError> {
    if axes.iter().any(|&axis| axis >= input.rank()) {
        return Err(LayerError::shape("the input", "an axis for each index", input));
    }
    let rest = |range: std::ops::Range<usize>| {
        range.filter(|axis| !axes.contains(axis)).map(|axis| input.dims()[axis].clone()).collect::<Vec<_>>()
    };
    let first = first_axis(axes);
    Ok([rest(0..first), shape, rest(first..input.rank())].concat())
}

/// Where the axes of the indices stand in the result: at the first of them if they are neighbours, else in front.
fn first_axis(axes: &[usize]) -> usize {
    match axes {
        [first, .., last] if last - first + 1 != axes.len() => 0,
        [first, ..] => *first,
        [] => 0,
    }
}

/// Where the result's elements are in a contiguous input: at every sum of an offset of `outer`, `indexed` and `inner`, in
/// that order, begin `block` elements of the result.
struct Places {
    outer: Vec<usize>,
    indexed: Vec<usize>,
    inner: Vec<usize>,
    block: usize,
    result: Shape,
}

impl Places {
    fn new(items: &[Option<Indices>], input: &Shape, limits: &Limits) -> Result<Self, LayerError> {
        let axes: Vec<usize> = (0..items.len()).filter(|&axis| items[axis].is_some()).collect();
        let mut shape = Shape::new(&[])?;
        for item in items.iter().flatten() {
            shape = crate::tensor::broadcast_shapes(&shape, item.array.shape())?;
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
            for (offset, &index) in indexed.iter_mut().zip(whole.iter()) {
                *offset += resolve_index(index, input[axis])? * strides[axis];
            }
        }
        let offsets = |axes: &mut dyn Iterator<Item = usize>| offsets(axes, input);
        let (outer, inner) = (offsets(&mut whole(0, first)), offsets(&mut whole(first, last)));
        Ok(Self { outer, indexed, inner, block, result })
    }

    /// Where each block of the result begins in the input.
    fn blocks(&self) -> impl Iterator<Item = usize> + '_ {
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

impl Index {
    fn fill(
        places: &Places,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<(), LayerError> {
        if output.num_elements() == 0 {
            return Ok(());
        }
        if !input.layout().is_contiguous() {
            return Self::fill(places, &input.to_tensor()?.view(), output, limits);
        }
        if !output.layout().is_contiguous() {
            let mut result = Tensor::zeros(output.dtype(), &places.result)?;
            Self::fill(places, input, &mut result.view_mut()?, limits)?;
            return Ok(output.copy_from(&result.view())?);
        }
        limits.check_deadline()?;
        with_bits!(input.dtype(), B => {
            let (input, mut output) = (input.bits::<B>()?, output.bits::<B>()?);
            let (Some(from), Some(to)) = (input.as_slice(), output.as_slice_mut()) else {
                return Err(LayerError::shape("the input", "one block of memory", "strides"));
            };
            for (to, start) in to.chunks_exact_mut(places.block.max(1)).zip(places.blocks()) {
                to.copy_from_slice(from.get(start..start + places.block).unwrap_or_default());
            }
        });
        Ok(())
    }
}

impl Layer for Index {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.expr.num_inputs();
        count..=count
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let (shape, axes) = self.expr.shape(inputs)?;
        Ok(vec![inputs[0].with_dims(indexed_dims(&inputs[0], shape, &axes)?)])
    }

    /// How many elements a mask takes is only known when it is there.
    fn is_data_dependent(&self) -> bool {
        self.expr.num_inputs() > 0
    }
}

impl CpuLayer for Index {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let limits = context.limits();
        let places = Places::new(&self.expr.values(inputs, limits)?, inputs[0].shape(), limits)?;
        Self::fill(&places, &inputs[0], &mut outputs[0], limits)
    }

    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>, LayerError> {
        let limits = context.limits();
        let places = Places::new(&self.expr.values(inputs, limits)?, inputs[0].shape(), limits)?;
        let bytes = (places.result.num_elements() as u64).saturating_mul(inputs[0].dtype().size() as u64);
        limits.check_tensor("the indexed elements", bytes)?;
        let mut output = Tensor::zeros(inputs[0].dtype(), &places.result)?;
        Self::fill(&places, &inputs[0], &mut output.view_mut()?, limits)?;
        Ok(vec![output])
    }
}

impl Layer for IndexPut {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.indices.num_inputs() + self.values.num_inputs();
        count..=count
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let (shape, axes) = self.indices.shape(inputs)?;
        let dims = indexed_dims(&inputs[0], shape, &axes)?;
        if !broadcasts(self.values.dims(inputs), &dims) {
            let wanted = format!("what broadcasts to {}", inputs[0].with_dims(dims));
            return Err(LayerError::shape("the values", wanted, format!("{:?}", self.values.dims(inputs))));
        }
        self.values.check_fits(inputs[0].dtype())?;
        if let Factor::Input(position) = self.values
            && inputs[position].dtype() != inputs[0].dtype()
        {
            let (what, wanted) = ("the values".to_owned(), inputs[0].dtype().to_string());
            return Err(LayerError::DType { what, wanted, found: inputs[position].dtype() });
        }
        if self.accumulate && inputs[0].dtype().is_complex() {
            let wanted = "real numbers where `accumulate` is True".to_owned();
            return Err(LayerError::DType { what: "the input".to_owned(), wanted, found: inputs[0].dtype() });
        }
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for IndexPut {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let (input, limits) = (&inputs[0], context.limits());
        let places = Places::new(&self.indices.values(inputs, limits)?, input.shape(), limits)?;
        if places.result.num_elements() == 0 {
            return Ok(outputs[0].copy_from(input)?);
        }
        let values = self.values.converted(inputs, input.dtype())?;
        let values = values.expanded(&places.result)?;
        let bytes = (places.result.num_elements() as u64).saturating_mul(size_of::<f64>() as u64);
        limits.check_tensor("the values of index_put", bytes)?;
        let result = match (self.accumulate, input.dtype()) {
            (false, _) => replaced(&places, input, &values)?,
            (true, DType::F32 | DType::F64 | DType::F16 | DType::Bf16) => {
                added::<f64>(&places, input, &values, |a, b| a + b)?
            }
            // Of bool, the lowest bit is set by one true value or more.
            (true, DType::Bool) => added::<i64>(&places, input, &values, |a, b| a | b)?,
            (true, _) => added::<i64>(&places, input, &values, i64::wrapping_add)?,
        };
        Ok(outputs[0].copy_from(&result.view())?)
    }
}

/// The input with values at some places, the last one where a place is named more than once.
fn replaced(places: &Places, input: &TensorView<'_>, values: &TensorView<'_>) -> Result<Tensor, LayerError> {
    let (mut result, values) = (input.to_tensor()?, values.to_tensor()?);
    let mut view = result.view_mut()?;
    with_bits!(input.dtype(), B => {
        let values = values.view();
        let (mut to, from) = (view.bits::<B>()?, values.bits::<B>()?);
        let (Some(to), Some(from)) = (to.as_slice_mut(), from.as_slice()) else {
            return Err(LayerError::shape("the input", "one block of memory", "strides"));
        };
        for (from, start) in from.chunks_exact(places.block.max(1)).zip(places.blocks()) {
            to.get_mut(start..start + places.block).unwrap_or_default().copy_from_slice(from);
        }
    });
    Ok(result)
}

/// The input with values added at some places, in order and in a wide type.
fn added<T: Element>(
    places: &Places,
    input: &TensorView<'_>,
    values: &TensorView<'_>,
    add: impl Fn(T, T) -> T,
) -> Result<Tensor, LayerError> {
    let mut sum = input.cast(T::DTYPE)?.to_vec::<T>()?;
    let values = values.cast(T::DTYPE)?;
    for (values, start) in values.slice::<T>()?.chunks_exact(places.block.max(1)).zip(places.blocks()) {
        let sums = sum.get_mut(start..start + places.block).unwrap_or_default();
        sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum = add(*sum, value));
    }
    Ok(Tensor::from_vec(sum, input.shape())?.cast(input.dtype())?)
}

/// The write that indices of one axis are.
fn along(
    dim: i64,
    rank: usize,
    index: Operand,
    values: Factor,
    accumulate: bool,
) -> Result<IndexPut, LayerError> {
    let axis = resolve_axis(dim, rank)?;
    let mut items = vec![Item::Whole; axis];
    items.push(Item::Input(index.0));
    Ok(IndexPut { indices: Items::Listed(items), values, accumulate })
}

impl IndexFill {
    fn put(&self, rank: usize) -> Result<IndexPut, LayerError> {
        along(self.dim, rank, self.index, self.value, false)
    }
}

impl Layer for IndexFill {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 2 + self.value.num_inputs();
        count..=count
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        self.put(inputs[0].rank())?.infer(inputs)
    }
}

impl CpuLayer for IndexFill {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        self.put(inputs[0].shape().rank())?.forward(inputs, outputs, context)
    }
}

impl IndexAdd {
    fn put(&self, rank: usize) -> Result<IndexPut, LayerError> {
        along(self.dim, rank, self.index, Factor::Input(self.source.0), true)
    }
}

impl Layer for IndexAdd {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        3..=3
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        self.put(inputs[0].rank())?.infer(inputs)
    }
}

impl CpuLayer for IndexAdd {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let mut put = self.put(inputs[0].shape().rank())?;
        if self.alpha == Scalar::Int(1) {
            return put.forward(inputs, outputs, context);
        }
        let source = &inputs[self.source.0];
        let mut program = Program::default();
        let value = program.input(0, source.dtype());
        let alpha = program.constant(self.alpha, source.dtype());
        let product = program.apply(Function::Mul, source.dtype(), value, alpha);
        let mut scaled = Tensor::zeros(source.dtype(), source.shape())?;
        program.run(product, &[*source], &mut scaled.view_mut()?, context.limits())?;
        let mut inputs = inputs.to_vec();
        inputs[self.source.0] = scaled.view();
        put.forward(&inputs, outputs, context)
    }
}

/// Registers the layers of this family.
pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register::<Index>()?;
    registry.register::<IndexPut>()?;
    registry.register::<IndexFill>()?;
    registry.register::<IndexAdd>()
}

#[cfg(test)]
mod tests;
