//! Advanced indexing with tensors of the file or the graph, which are broadcast together.

use super::codegen::element;
use super::indexing::is_index;
use super::kernel_builder::no_kernel;
use super::movement::copy_as;
use super::prelude::*;
use super::scattering::{accumulator_dtype, has_scalar_kernel, scalar_tensor};
use super::support::{input, int, is_any_dtype, kernel_shape, kernel_strides, shape, strides};
use crate::ops::indexing::advanced::{Index, IndexPut, Item, Items};
use crate::ops::support::broadcast::TensorOrScalar;
use crate::tensor::broadcast_shapes;

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[&Own::<Index>::ENTRY, &Own::<IndexPut>::ENTRY];

/// The maximum number of index tensors of a kernel.
const MAX_INDICES: usize = 4;

/// The index tensors of the file.
fn constant_indices(items: &Items) -> Result<Vec<Tensor>> {
    let Items::Listed(items) = items else { return Ok(Vec::new()) };
    let of_file = items.iter().filter_map(|item| match item {
        Item::Given(indices) => Some(indices),
        _ => None,
    });
    of_file.map(|indices| indices.tensor()).collect()
}

/// Returns an error if there is no kernel for the items.
fn check(items: &Items, inputs: &[TensorMeta]) -> Result<()> {
    let dtypes: Vec<DType> = inputs.iter().map(TensorMeta::dtype).collect();
    let items = items.by_axis(&dtypes).ok_or_else(no_kernel)?;
    let indexed = items.iter().filter(|item| **item != Item::Whole);
    let same = |item: &Item| match item {
        Item::Input(position) => dtypes.get(*position) == Some(&DType::I64),
        _ => true,
    };
    let count = indexed.clone().count();
    if (1..=MAX_INDICES).contains(&count) && indexed.clone().all(same) { Ok(()) } else { Err(no_kernel()) }
}

/// An indexed axis.
#[derive(Debug)]
struct IndexedAxis<'a> {
    index: DeviceTensor<'a>,
    /// The stride and the length of the axis.
    stride: usize,
    len: usize,
}

/// The elements that indices select: the axes of the result, in three groups of which the middle one belongs to the indices.
#[derive(Debug)]
struct AdvancedIndex<'a> {
    axes: Vec<IndexedAxis<'a>>,
    before: Vec<usize>,
    middle: Vec<usize>,
    after: Vec<usize>,
    /// The strides of the indexed tensor along the axes before and after.
    outer_strides: [Vec<usize>; 2],
}

impl<'a> AdvancedIndex<'a> {
    fn new(items: &Items, layout: &Layout, io: &CudaIo<'a, '_>) -> Result<Self> {
        let Items::Listed(items) = items else { return Err(no_kernel()) };
        let (mut axes, mut indexed, mut weight) = (Vec::new(), Vec::new(), 0);
        let mut middle = shape(&[])?;
        for (axis, item) in items.iter().enumerate() {
            let index = match item {
                Item::Whole => continue,
                Item::Input(position) => input(io.inputs, *position)?,
                Item::Given(_) => {
                    weight += 1;
                    io.context.weight(weight - 1)?
                }
            };
            middle = broadcast_shapes(&middle, index.shape())?;
            let (Some(&stride), Some(&len)) = (layout.strides().get(axis), layout.shape().get(axis)) else {
                return Err(LayerError::shape("the input", "an axis for each index", layout.shape()));
            };
            axes.push(IndexedAxis { index, stride, len });
            indexed.push(axis);
        }
        let first = match (indexed.first(), indexed.last()) {
            (Some(first), Some(last)) if last - first + 1 == indexed.len() => *first,
            _ => 0,
        };
        let (mut dims, mut outer_strides) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for (axis, (&len, &stride)) in layout.shape().iter().zip(layout.strides()).enumerate() {
            if !indexed.contains(&axis) {
                let part = usize::from(axis >= first);
                dims[part].push(len);
                outer_strides[part].push(stride);
            }
        }
        let [before, after] = dims;
        Ok(Self { axes, before, middle: middle.to_vec(), after, outer_strides })
    }

    /// The shape of the result.
    fn dims(&self) -> Vec<usize> {
        [&self.before[..], &self.middle, &self.after].concat()
    }

    /// The strides of the indexed tensor along the axes of the result.
    fn strides(&self) -> KernelStrides {
        let middle = vec![0; self.middle.len()];
        kernel_strides(&[&self.outer_strides[0][..], &middle, &self.outer_strides[1]].concat())
    }

    /// The arguments of kernels for all index tensors, with strides along the axes of the result (`along_result`), or of the
    /// middle group alone.
    fn arguments(&self, along_result: bool) -> Result<Vec<Argument<'a>>> {
        let mut arguments = Vec::new();
        for axis in &self.axes {
            let layout = axis.index.layout().expand(&shape(&self.middle)?)?;
            let mut strides = KernelStrides::default();
            let first = if along_result { self.before.len() } else { 0 };
            let by = strides.by.iter_mut().skip(first);
            by.zip(layout.strides()).for_each(|(to, &stride)| *to = stride as i64);
            arguments.extend([
                Argument::Read(axis.index),
                Argument::Strides(strides),
                Argument::Long(axis.stride as i64),
                Argument::Int(int(axis.len)?),
            ]);
        }
        for _ in self.axes.len()..MAX_INDICES {
            let none = KernelStrides::default();
            arguments.extend([Argument::None, Argument::Strides(none), Argument::Long(0), Argument::Int(0)]);
        }
        Ok(arguments)
    }
}

fn supports(items: &Items, position: usize, formats: &[TensorFormat]) -> bool {
    let is_item = |item: &Item| *item == Item::Input(position);
    match items {
        Items::Listed(items) if items.iter().any(is_item) => is_index(position, formats),
        Items::Listed(_) => is_any_dtype(position, formats),
        Items::Input(_) => false,
    }
}

impl CudaLayer for Index {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        supports(&self.expr, position, formats)
    }

    fn weights(&self) -> Result<Vec<Tensor>> {
        constant_indices(&self.expr)
    }

    fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<()> {
        check(&self.expr, inputs)
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let (x, y) = (&io.inputs[0], &io.outputs[0]);
        let selected = AdvancedIndex::new(&self.expr, x.layout(), io)?;
        let unit = Unit::new("indexing.cu", include_str!("../kernels/indexing.cu"));
        let unit = unit
            .define("T", element(x.dtype()))
            .define("I", DType::I64)
            .define("WRAPS", 1)
            .define("CHUNK", 1);
        let mut arguments = vec![
            Argument::Read(*x),
            Argument::Strides(selected.strides()),
            Argument::Write(*y),
            Argument::Strides(strides(y.layout())),
            Argument::Shape(kernel_shape(y.shape())),
        ];
        arguments.extend(selected.arguments(true)?);
        arguments.push(Argument::Long(y.num_elements() as i64));
        arguments.extend(io.context.faults());
        io.context.run(&unit, "advanced_index", Grid::over(y.num_elements()), &arguments)
    }
}

/// Returns true if sums are accumulated in another type than the output's.
fn needs_accumulator(layer: &IndexPut, dtype: DType) -> bool {
    layer.accumulate && accumulator_dtype(dtype) != dtype
}

impl CudaLayer for IndexPut {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        supports(&self.indices, position, formats)
    }

    fn weights(&self) -> Result<Vec<Tensor>> {
        constant_indices(&self.indices)
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        check(&self.indices, inputs)?;
        let dtype = outputs[0].dtype();
        let is_number = matches!(self.values, TensorOrScalar::Number(_));
        if (is_number && !has_scalar_kernel(self.values, dtype)) || (self.accumulate && dtype.is_complex()) {
            return Err(no_kernel());
        }
        Ok(())
    }

    fn workspace(&self, _: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        let (dtype, shape) = (outputs[0].dtype(), outputs[0].shape());
        let sums =
            if needs_accumulator(self, dtype) { shape.map_or(usize::MAX, |it| it.num_elements()) } else { 0 };
        scratch_bytes(DType::F64, 1).saturating_add(scratch_bytes(accumulator_dtype(dtype), sums))
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let y = &io.outputs[0];
        if needs_accumulator(self, y.dtype()) {
            let sums = io.context.scratch(DType::F32, *y.shape())?;
            put(self, &sums, io)?;
            return copy_as(&sums, y, io.context);
        }
        put(self, y, io)
    }
}

/// Writes to `y`, converting values to its type.
fn put(layer: &IndexPut, y: &DeviceTensor<'_>, io: &mut CudaIo<'_, '_>) -> Result<()> {
    copy_as(&io.inputs[0], y, io.context)?;
    let selected = AdvancedIndex::new(&layer.indices, y.layout(), io)?;
    let dims = selected.dims();
    if dims.contains(&0) {
        return Ok(());
    }
    let values = match layer.values {
        TensorOrScalar::Input(position) => input(io.inputs, position)?,
        number => scalar_tensor(number, io.inputs, io.inputs[0].dtype(), io.context)?.select(0, 0)?,
    };
    let values = values.expand(&dims)?;
    let (first, last) = (selected.before.len(), selected.before.len() + selected.middle.len());
    let by = values.layout().strides();
    let (before, middle, after) = (&by[..first], &by[first..last], &by[last..]);
    let outer_shape = shape(&[&selected.before[..], &selected.after].concat())?;
    let (index_shape, count) = (shape(&selected.middle)?, outer_shape.num_elements());
    let (stored, from, combined) = match (layer.accumulate, y.dtype()) {
        (false, dtype) => (element(dtype), element(dtype), "b"),
        (true, DType::Bool) => ("bool", "bool", "a | b"),
        (true, dtype) if dtype.is_float() => (dtype.name(), values.dtype().name(), "a + b"),
        (true, dtype) => (dtype.name(), dtype.name(), "(T)((unsigned long long)a + (unsigned long long)b)"),
    };
    let unit = Unit::new("index_put.cu", include_str!("../kernels/index_put.cu"));
    let unit =
        unit.define("T", stored).define("S", from).define("WRAPS", 1).define("COMBINE(a, b)", combined);
    let unit = unit.define("CONVERT(b)", if stored == from { "b" } else { "load<T>(b)" });
    let mut arguments = vec![
        Argument::Read(values),
        Argument::Strides(kernel_strides(&[before, after].concat())),
        Argument::Strides(kernel_strides(middle)),
        Argument::Write(*y),
        Argument::Strides(kernel_strides(&selected.outer_strides.concat())),
        Argument::Shape(kernel_shape(&outer_shape)),
        Argument::Shape(kernel_shape(&index_shape)),
        Argument::Long(index_shape.num_elements() as i64),
    ];
    arguments.extend(selected.arguments(false)?);
    arguments.push(Argument::Long(count as i64));
    arguments.extend(io.context.faults());
    io.context.run(&unit, "index_put", Grid::over(count), &arguments)
}
