//! Indexing with tensors and masks: `x[[0, 2], :, mask]`, and writing there.

use super::arguments::later_input;
use super::broadcast::{Factor, broadcast, owned};
use crate::graph::{
    CpuLayer, FieldValue, ForwardContext, Layer, LayerError, OperatorReader, Registry, RegistryError,
    TensorMeta,
};
use crate::pnnx::Expr;
use crate::tensor::{DType, Dim, Layout, Shape, Tensor, TensorError, TensorView, TensorViewMut};
use ndarray::{ArrayD, ArrayView1, Axis, IxDyn};
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

/// The items of an index.
#[derive(Debug, Clone, PartialEq)]
pub enum Items {
    /// Given in the file: for each axis the indices, or nothing for the whole axis.
    Given(Vec<Option<ArrayD<i64>>>),
    /// Computed: one index tensor for each axis, stacked; or masks.
    Input(usize),
}

impl FieldValue for Items {
    const KIND: &'static str = "a list of indices such as [None,[0,2]], or an input";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>, LayerError> {
        let Some(parameter) = reader.param(key) else {
            return Ok(later_input(reader, key)?.map(Items::Input));
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
                Expr::None => given.push(None),
                _ => given.extend(constant(item).ok_or_else(wrong)?.into_iter().map(Some)),
            }
        }
        Ok(Some(Items::Given(given)))
    }
}

/// The indices that an item of the file stands for: one tensor, or of a mask one for each of its axes.
fn constant(item: &Expr) -> Option<Vec<ArrayD<i64>>> {
    let (mut shape, mut values, mut is_mask) = (Vec::new(), Vec::new(), false);
    flatten(item, 0, &mut shape, &mut values, &mut is_mask)?;
    let array = ArrayD::from_shape_vec(IxDyn(&shape), values).ok()?;
    if is_mask { Some(places_of(&array.mapv(|x| x != 0))) } else { Some(vec![array]) }
}

fn flatten(
    item: &Expr,
    depth: usize,
    shape: &mut Vec<usize>,
    values: &mut Vec<i64>,
    is_mask: &mut bool,
) -> Option<()> {
    match item {
        Expr::List(items) => {
            if shape.len() == depth {
                shape.push(items.len());
            }
            (shape.get(depth) == Some(&items.len())).then_some(())?;
            items.iter().try_for_each(|item| flatten(item, depth + 1, shape, values, is_mask))
        }
        Expr::Int(value) => {
            values.push(*value);
            (shape.len() == depth).then_some(())
        }
        Expr::Bool(value) => {
            *is_mask = true;
            values.push(i64::from(*value));
            (shape.len() == depth).then_some(())
        }
        _ => None,
    }
}

/// The indices of the true elements of a mask, a vector for each axis.
fn places_of(mask: &ArrayD<bool>) -> Vec<ArrayD<i64>> {
    let places: Vec<Vec<usize>> = mask
        .indexed_iter()
        .filter(|(_, taken)| **taken)
        .map(|(at, _)| ndarray::Dimension::slice(&at).to_vec())
        .collect();
    let axis = |axis: usize| places.iter().map(|place| place[axis] as i64).collect::<Vec<_>>();
    (0..mask.ndim()).map(|number| ArrayView1::from(&axis(number)).to_owned().into_dyn()).collect()
}

impl Items {
    fn num_inputs(&self) -> usize {
        usize::from(matches!(self, Items::Input(_)))
    }

    /// The shape that the indices have together, and the axes that they are for.
    fn shape(&self, inputs: &[TensorMeta]) -> Result<(Vec<Dim>, Vec<usize>), LayerError> {
        match self {
            Items::Given(items) => {
                let mut shape = Vec::new();
                for item in items.iter().flatten() {
                    let dims: Vec<Dim> = item.shape().iter().map(|&len| Dim::from(len)).collect();
                    shape = broadcast(&shape, &dims)?;
                }
                Ok((shape, (0..items.len()).filter(|&axis| items[axis].is_some()).collect()))
            }
            Items::Input(position) => {
                let index = &inputs[*position];
                let Some((count, dims)) = index.dims().split_first() else {
                    return Err(LayerError::shape("the indices", "at least one axis", index));
                };
                let count = count.fixed().and_then(|count| usize::try_from(count).ok());
                let count =
                    count.ok_or_else(|| LayerError::shape("the indices", "a known number of them", index))?;
                match index.dtype() {
                    DType::Bool if count == 1 => Ok((vec![Dim::fresh("taken")], (0..dims.len()).collect())),
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
    fn values(&self, inputs: &[TensorView<'_>]) -> Result<Vec<Option<ArrayD<i64>>>, LayerError> {
        match self {
            Items::Given(items) => Ok(items.clone()),
            Items::Input(position) if inputs[*position].dtype() == DType::Bool => {
                let mask = inputs[*position].array::<bool>()?;
                Ok(places_of(&owned(&mask.index_axis(Axis(0), 0))?).into_iter().map(Some).collect())
            }
            Items::Input(position) => {
                let stacked = inputs[*position].array::<i64>()?;
                stacked.outer_iter().map(|index| owned(&index).map(Some)).collect()
            }
        }
    }
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

/// Where to find the elements: positions in the input for each index, and both layouts with those axes in front.
struct Places {
    positions: Vec<Vec<usize>>,
    shape: Vec<usize>,
    axes: Vec<usize>,
}

impl Places {
    fn new(items: &[Option<ArrayD<i64>>], input: &Shape) -> Result<Self, LayerError> {
        let axes: Vec<usize> = (0..items.len()).filter(|&axis| items[axis].is_some()).collect();
        let mut shape = Shape::new(&[])?;
        for item in items.iter().flatten() {
            shape = crate::tensor::broadcast_shapes(&shape, item.shape())?;
        }
        let mut positions = vec![Vec::with_capacity(axes.len()); shape.num_elements()];
        for &axis in &axes {
            let len = *input
                .get(axis)
                .ok_or_else(|| LayerError::shape("the input", "an axis for each index", input))?;
            let Some(item) = &items[axis] else { continue };
            let whole = item
                .broadcast(IxDyn(&shape))
                .ok_or_else(|| LayerError::shape("the indices", shape, item.len()))?;
            for (position, &index) in positions.iter_mut().zip(whole.iter()) {
                position.push(resolved(index, len)?);
            }
        }
        Ok(Self { positions, shape: shape.to_vec(), axes })
    }

    /// The layout of the input with the indexed axes in front.
    fn of_input(&self, layout: &Layout) -> Result<Layout, TensorError> {
        let rest = (0..layout.shape().rank()).filter(|axis| !self.axes.contains(axis));
        layout.permute(&self.axes.iter().copied().chain(rest).collect::<Vec<_>>())
    }

    /// The layout of the result with the axes of the indices in front.
    fn of_result(&self, layout: &Layout) -> Result<Layout, TensorError> {
        let first = first_axis(&self.axes);
        let own = first..first + self.shape.len();
        let rest = (0..layout.shape().rank()).filter(|axis| !own.contains(axis));
        layout.permute(&own.clone().chain(rest).collect::<Vec<_>>())
    }

    /// The shape of the result.
    fn result(&self, input: &Shape) -> Result<Shape, TensorError> {
        let first = first_axis(&self.axes);
        let rest = |range: std::ops::Range<usize>| {
            range.filter(|axis| !self.axes.contains(axis)).map(|axis| input[axis]).collect::<Vec<_>>()
        };
        Shape::new(&[rest(0..first), self.shape.clone(), rest(first..input.rank())].concat())
    }

    /// The part of a layout with the indexed axes in front that one position names.
    fn at(layout: &Layout, position: &[usize]) -> Result<Layout, TensorError> {
        position.iter().try_fold(*layout, |layout, &index| layout.select(0, index))
    }

    /// The index of each position in the shape of the indices.
    fn indices(&self) -> impl Iterator<Item = Vec<usize>> + '_ {
        let shape = Shape::new(&self.shape);
        (0..self.positions.len())
            .map(move |position| shape.as_ref().map_or_else(|_| Vec::new(), |shape| shape.index_of(position)))
    }
}

fn resolved(index: i64, len: usize) -> Result<usize, TensorError> {
    let wrapped =
        if index < 0 { index.saturating_add(i64::try_from(len).unwrap_or(i64::MAX)) } else { index };
    match usize::try_from(wrapped) {
        Ok(position) if position < len => Ok(position),
        _ => Err(TensorError::OutOfRange { what: "index", index, len }),
    }
}

impl Index {
    fn fill(
        &self,
        places: &Places,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
    ) -> Result<(), LayerError> {
        if output.num_elements() == 0 {
            return Ok(());
        }
        let (from, to) = (places.of_input(input.layout())?, places.of_result(output.layout())?);
        for (position, at) in places.positions.iter().zip(places.indices()) {
            let source = input.with_layout(Places::at(&from, position)?)?;
            output.reborrow().with_layout(Places::at(&to, &at)?)?.copy_from(&source)?;
        }
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
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let places = Places::new(&self.expr.values(inputs)?, inputs[0].shape())?;
        self.fill(&places, &inputs[0], &mut outputs[0])
    }

    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>, LayerError> {
        let places = Places::new(&self.expr.values(inputs)?, inputs[0].shape())?;
        let shape = places.result(inputs[0].shape())?;
        let bytes = (shape.num_elements() as u64).saturating_mul(inputs[0].dtype().size() as u64);
        context.limits().check_tensor("the indexed elements", bytes)?;
        let mut output = Tensor::zeros(inputs[0].dtype(), &shape)?;
        self.fill(&places, &inputs[0], &mut output.view_mut()?)?;
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
        indexed_dims(&inputs[0], shape, &axes)?;
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
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let (input, output) = (&inputs[0], &mut outputs[0]);
        output.copy_from(input)?;
        let places = Places::new(&self.indices.values(inputs)?, input.shape())?;
        let result = places.result(input.shape())?;
        if result.num_elements() == 0 {
            return Ok(());
        }
        let values = self.values.converted(inputs, input.dtype())?;
        let values = values.expanded(&result)?;
        let (to, from) = (places.of_input(output.layout())?, places.of_result(values.layout())?);
        for (position, at) in places.positions.iter().zip(places.indices()) {
            let source = values.with_layout(Places::at(&from, &at)?)?;
            let mut target = output.reborrow().with_layout(Places::at(&to, position)?)?;
            if self.accumulate {
                let sum = target.as_view().to_tensor()?.add(&source.to_tensor()?)?;
                target.copy_from(&sum.view())?;
            } else {
                target.copy_from(&source)?;
            }
        }
        Ok(())
    }
}

/// Registers the layers of this family.
pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register::<Index>()?;
    registry.register::<IndexPut>()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{counting, operator, tensor};
    use super::*;
    use crate::tensor::Workspace;

    fn index(expr: &str, x: &Tensor) -> Result<(Vec<usize>, Vec<i32>), LayerError> {
        let output = operator("Tensor.index", &[("expr", expr)]).run_one(&[x])?;
        Ok((output.shape().to_vec(), output.to_vec()?))
    }

    #[test]
    fn lists_and_masks_of_the_file() {
        let x = counting(DType::I32, &[2, 3]);
        assert_eq!(index("[[1,0,-1]]", &x).unwrap(), (vec![3, 3], vec![3, 4, 5, 0, 1, 2, 3, 4, 5]));
        assert_eq!(index("[None,[2,0]]", &x).unwrap(), (vec![2, 2], vec![2, 0, 5, 3]));
        assert_eq!(index("[[0,1],[2,1]]", &x).unwrap(), (vec![2], vec![2, 4]));
        assert_eq!(index("[[[0],[1]],[2,1]]", &x).unwrap(), (vec![2, 2], vec![2, 1, 5, 4]));
        assert_eq!(index("[[True,False],[1]]", &x).unwrap(), (vec![1], vec![1]));
        assert_eq!(index("[[[True,False,True],[False,True,False]]]", &x).unwrap(), (vec![3], vec![0, 2, 4]));
        let y = counting(DType::I32, &[2, 2, 2]);
        assert_eq!(index("[[0,1],None,[1,1]]", &y).unwrap(), (vec![2, 2], vec![1, 3, 5, 7]));
        assert!(index("[[2]]", &x).is_err() && index("[None,None,[0]]", &x).is_err());
        assert!(index("[zero]", &x).is_err() && index("3", &x).is_err());
    }

    #[test]
    fn indices_that_are_computed() {
        let x = counting(DType::I32, &[2, 3]);
        let run = |items: &Tensor| {
            let mut layer = operator("Tensor.index", &[]).with_names(&["input", "expr"]).create(2)?;
            let (mut workspace, limits) = (Workspace::new()?, crate::Limits::default());
            let mut context = ForwardContext::new(&mut workspace, &limits);
            let output = layer.forward_dynamic(&[x.view(), items.view()], &mut context)?.remove(0);
            Ok::<_, LayerError>(output.to_vec::<i32>()?)
        };
        assert_eq!(run(&tensor(&[2, 2], &[0i64, 1, 2, -3])).unwrap(), [2, 3]);
        assert_eq!(run(&tensor(&[1, 2, 3], &[true, false, false, false, false, true])).unwrap(), [0, 5]);
        assert!(run(&tensor(&[1, 1], &[2i64])).is_err());
    }

    #[test]
    fn elements_are_put() {
        let x = tensor(&[4], &[0f32; 4]);
        let indices = tensor(&[1, 3], &[1i64, 1, 3]);
        let put = |params: &[(&str, &str)], inputs: &[&Tensor]| {
            let layer = operator("Tensor.index_put", params).with_names(&["input", "indices", "values"]);
            layer.run_one(inputs).map(|output| output.to_vec::<f32>().unwrap())
        };
        assert_eq!(put(&[("values", "45.0")], &[&x, &indices]).unwrap(), [0.0, 45.0, 0.0, 45.0]);
        let values = tensor(&[3], &[1f32, 2.0, 4.0]);
        assert_eq!(put(&[("accumulate", "True")], &[&x, &indices, &values]).unwrap(), [0.0, 3.0, 0.0, 4.0]);
        let mask = tensor(&[1, 4], &[true, false, false, true]);
        assert_eq!(put(&[("values", "2")], &[&x, &mask]).unwrap(), [2.0, 0.0, 0.0, 2.0]);
        assert!(put(&[], &[&x, &indices, &tensor(&[2], &[1f32, 2.0])]).is_err());
    }
}
