//! Element-wise kernels: each output element depends only on the input elements at the same position.
//!
//! A [`Map`] is such a kernel: C++ that computes `out` from `in0`, `in1`, …, which are variables of the type in which elements
//! are computed. Inputs are broadcast and may have any strides; axes that are contiguous in all tensors are merged. A thread
//! processes as many elements at a time as fit a word, if the layouts permit.

use super::axes::{Traversal, collapsed_in_output_order};
use super::codegen::{code, compute_type};
use super::prelude::*;
use super::support::{input, is_real_in_any_order, metas};
use crate::ops::arithmetic::expression::{Compiled, Expression};
use smallvec::SmallVec;

/// An element-wise kernel with one output.
#[derive(Debug, Clone)]
pub(super) struct Map {
    /// The positions of the layer's inputs that it reads, and their element types.
    inputs: Vec<(usize, DType)>,
    unit: Unit,
}

const HEADERS: [&str; 4] = ["common.cuh", "functions.cuh", "quantization.cuh", "chunks.cuh"];

impl Map {
    /// A kernel with these lines of C++ as its body, and an expression for the output, which is of this type. `None` for types
    /// that kernels do not support.
    pub(super) fn new(inputs: Vec<(usize, DType)>, output: DType, body: &str, value: &str) -> Option<Self> {
        let (mut parameters, mut chunks, mut loads) = (String::new(), String::new(), String::new());
        for (at, (position, dtype)) in inputs.iter().enumerate() {
            let compute_type = compute_type(*dtype)?;
            parameters += &format!("const {dtype}* x{position}, Strides s{position}, ");
            let chunk = format!(
                "load_chunk<CHUNK>(x{position} + offset(i, shape, s{position}), BROADCAST >> {at} & 1, count - i)"
            );
            chunks += &format!("        Chunk<{dtype}, CHUNK> chunk{position} = {chunk};\n");
            let load = format!("load<{compute_type}>(chunk{position}.at[k])");
            loads += &format!("        {compute_type} in{position} = {load};\n");
        }
        let to = compute_type(output)?;
        let headers: String = HEADERS.iter().map(|header| format!("#include \"{header}\"\n")).collect();
        let text = format!(
            "{headers}
extern \"C\" __global__ void elementwise({parameters}{output}* y, Strides sy, Shape shape, i64 count) {{
    for (i64 i = GLOBAL_THREAD * CHUNK; i < count; i += GRID_STRIDE * CHUNK) {{
{chunks}        Chunk<{output}, CHUNK> results;
#pragma unroll
        for (int k = 0; k < CHUNK; ++k) {{
{loads}{body}        store<{to}>(results.at[k], {value});
        }}
        store_chunk(y + offset(i, shape, sy), results, count - i);
    }}
}}
"
        );
        Some(Self { inputs, unit: Unit::new("elementwise.cu", text) })
    }

    /// The kernel of an expression of inputs like these. `None` if a function of it has no code.
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
    ) -> Result<()> {
        let mut layouts: SmallVec<[Layout; 8]> = SmallVec::new();
        let mut read: SmallVec<[DeviceTensor<'_>; 8]> = SmallVec::new();
        for (position, _) in &self.inputs {
            let input = input(inputs, *position)?;
            layouts.push(input.layout().expand(output.shape())?);
            read.push(input);
        }
        layouts.push(*output.layout());
        let (shape, strides) = collapsed_in_output_order(&layouts)?;
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
        let tensors: SmallVec<[&DeviceTensor<'_>; 8]> = read.iter().chain([output]).collect();
        let traversal = Traversal::of(&tensors, &shape, &strides);
        context.run(&traversal.define(self.unit.clone()), "elementwise", traversal.grid(count), &arguments)
    }
}

/// The layers of this file.
pub(super) const LAYERS: &[&dyn Entry] = &[&Own::<Expression>::ENTRY];

impl CudaLayer for Expression {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real_in_any_order(position, formats)
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        map_of(self, inputs, outputs).map(drop)
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        map_of(self, &metas(io.inputs), &metas(io.outputs))?.run(io.inputs, &io.outputs[0], io.context)
    }
}

/// The kernel for tensors like these.
fn map_of(expression: &Expression, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<Map> {
    let output = outputs.first().map(TensorMeta::dtype);
    let map = output.and_then(|output| Map::of_expression(&expression.expr, inputs, output));
    map.ok_or_else(|| LayerError::Unsupported("this expression has no kernel".to_owned()))
}
