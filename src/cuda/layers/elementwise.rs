//! Kernels in which every element of the output depends on the elements of the inputs at the same place alone.
//!
//! A [`Map`] is such a kernel: C++ that computes `out` from `in0`, `in1`, …, which are numbers of the type in which elements are
//! computed. Inputs are broadcast and may have any strides; axes that lie behind each other in all tensors are one.

use super::formula::{code, number};
use crate::cuda::device::{Argument, DeviceTensor, Grid, KernelShape, KernelStrides, Unit};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers, is_plain};
use crate::graph::{LayerError, TensorFormat, TensorMeta};
use crate::layers::expression::{Compiled, Expression};
use crate::tensor::{DType, Layout};
use smallvec::SmallVec;
use std::fmt::Write;

/// A kernel of one output.
#[derive(Debug, Clone)]
pub(super) struct Map {
    /// The inputs of the layer that it reads, and their element types.
    inputs: Vec<(usize, DType)>,
    unit: Unit,
}

const HEADERS: &str = "#include \"common.cuh\"\n#include \"functions.cuh\"\n#include \"whole_numbers.cuh\"\n";

impl Map {
    /// A kernel whose body is some lines of C++ ending with the value of the output, which is of this type; none for types that
    /// kernels do not compute in.
    pub(super) fn new(inputs: Vec<(usize, DType)>, output: DType, body: &str, value: &str) -> Option<Self> {
        let mut text = format!("{HEADERS}\nextern \"C\" __global__ void elementwise(");
        let (mut parameters, mut loads) = (String::new(), String::new());
        for (position, dtype) in &inputs {
            let number = number(*dtype)?;
            write!(parameters, "const {dtype}* x{position}, Strides s{position}, ").ok()?;
            let place = format!("x{position}[offset(i, shape, s{position})]");
            writeln!(loads, "        {number} in{position} = load<{number}>({place});").ok()?;
        }
        let made = number(output)?;
        writeln!(text, "{parameters}{output}* y, Strides sy, Shape shape, i64 count) {{").ok()?;
        writeln!(text, "    for (i64 i = FIRST; i < count; i += STEP) {{\n{loads}{body}").ok()?;
        writeln!(text, "        store<{made}>(y[offset(i, shape, sy)], {value});\n    }}\n}}").ok()?;
        Some(Self { inputs, unit: Unit::new("elementwise.cu", text) })
    }

    /// The kernel of an expression of inputs like these; none where there is no code for one of its functions.
    pub(super) fn of_expression(expr: &Compiled, inputs: &[TensorMeta], output: DType) -> Option<Self> {
        let (mut program, value) = expr.program(inputs, Some).ok()?;
        let value = program.cast(value, output);
        let (body, read) = code(&program, value)?;
        Self::new(read, output, &body, &format!("v{}", value.position()))
    }

    /// Computes the output.
    pub(super) fn run(
        &self,
        inputs: &[DeviceTensor<'_>],
        output: &DeviceTensor<'_>,
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let mut layouts: SmallVec<[Layout; 8]> = SmallVec::new();
        let mut read: SmallVec<[DeviceTensor<'_>; 8]> = SmallVec::new();
        for (position, _) in &self.inputs {
            let input =
                inputs.get(*position).ok_or_else(|| LayerError::missing_input(*position, inputs.len()))?;
            layouts.push(input.layout().expand(output.shape())?);
            read.push(*input);
        }
        layouts.push(*output.layout());
        let (shape, strides) = collapsed(&layouts);
        let mut arguments: SmallVec<[Argument<'_>; 16]> = SmallVec::new();
        for (tensor, strides) in read.iter().zip(&strides) {
            arguments.extend([Argument::Read(*tensor), Argument::Strides(*strides)]);
        }
        let last = strides.last().copied().unwrap_or_default();
        let count = output.num_elements();
        arguments.extend([
            Argument::Write(*output),
            Argument::Strides(last),
            Argument::Shape(shape),
            Argument::Long(count as i64),
        ]);
        let kernel = context.kernel(&self.unit, "elementwise")?;
        context.launch(&kernel, Grid::over(count), &arguments)
    }
}

/// Copies elements, whatever their type: to a tensor of the same shape and size of elements.
pub(crate) fn copy(
    from: &DeviceTensor<'_>,
    to: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let unit = Unit::new("copy.cu", include_str!("../kernels/copy.cu")).define("T", element(from.dtype()));
    let (shape, strides) = collapsed(&[from.layout().expand(to.shape())?, *to.layout()]);
    let count = to.num_elements();
    let kernel = context.kernel(&unit, "copy_elements")?;
    let [from_strides, to_strides] = [0, 1].map(|at| strides.get(at).copied().unwrap_or_default());
    let arguments = [
        Argument::Read(*from),
        Argument::Strides(from_strides),
        Argument::Write(*to),
        Argument::Strides(to_strides),
        Argument::Shape(shape),
        Argument::Long(count as i64),
    ];
    context.launch(&kernel, Grid::over(count), &arguments)
}

/// A type of kernels with as many bytes as an element, for those that only move elements.
pub(super) fn element(dtype: DType) -> &'static str {
    match dtype.size() {
        1 => "u8",
        2 => "i16",
        4 => "i32",
        8 => "i64",
        _ => "Bytes16",
    }
}

/// The strides of tensors of one shape, and that shape: without axes of length 1, and with one axis in the place of neighbours
/// that lie behind each other in all of them.
pub(super) fn collapsed(layouts: &[Layout]) -> (KernelShape, SmallVec<[KernelStrides; 8]>) {
    let dims = layouts.first().map(|layout| *layout.shape());
    let mut shape = KernelShape::default();
    let mut strides: SmallVec<[KernelStrides; 8]> =
        layouts.iter().map(|_| KernelStrides::default()).collect();
    let mut rank = 0usize;
    for (axis, &len) in dims.iter().flat_map(|dims| dims.iter()).enumerate() {
        if len == 1 {
            continue;
        }
        let steps: SmallVec<[i64; 8]> = layouts.iter().map(|layout| layout.strides()[axis] as i64).collect();
        let goes_on = rank > 0
            && strides.iter().zip(&steps).all(|(known, step)| known.by[rank - 1] == step * len as i64);
        let at = if goes_on { rank - 1 } else { rank };
        let before = if goes_on { shape.dims[at] } else { 1 };
        shape.dims[at] = before.saturating_mul(i32::try_from(len).unwrap_or(i32::MAX));
        strides.iter_mut().zip(steps).for_each(|(known, step)| known.by[at] = step);
        rank = at + 1;
    }
    shape.rank = rank as i32;
    (shape, strides)
}

impl CudaLayer for Expression {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        formats.get(position).is_some_and(|format| is_plain(format) && number(format.dtype).is_some())
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        self.map(inputs, outputs).map(drop)
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let meta =
            |tensor: &DeviceTensor<'_>| TensorMeta::new(tensor.dtype(), tensor.shape().iter().copied());
        let [inputs_meta, outputs_meta] =
            [inputs, outputs].map(|all| all.iter().map(meta).collect::<Vec<_>>());
        self.map(&inputs_meta, &outputs_meta)?.run(inputs, &outputs[0], context)
    }
}

impl Expression {
    /// The kernel for tensors like these.
    fn map(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<Map, LayerError> {
        let output = outputs.first().map(TensorMeta::dtype);
        let map = output.and_then(|output| Map::of_expression(&self.expr, inputs, output));
        map.ok_or_else(|| LayerError::Unsupported("this expression has no kernel".to_owned()))
    }
}

/// Registers the layers of this family.
pub(super) fn register(layers: &mut CudaLayers) {
    layers.register::<Expression>();
}
