//! Lookup of table rows by their indices.

use super::axes::{chunk, is_chunked};
use super::codegen::element;
use super::prelude::*;
use super::support::{Weights, int, is_any_dtype, kernel_shape, shape, stored, strides};
use crate::ops::indexing::by_index::Embedding;

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] =
    &[&Simple::<Embedding>::new(is_any_dtype, run).with_weights(|layer| stored([Some(&layer.weight)]))];

fn run(layer: &Embedding, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let (indices, y) = (io.inputs[0], io.outputs[0]);
    let table = Weights::default().must(&layer.weight, io)?;
    let unit = Unit::new("embedding.cu", include_str!("../kernels/embedding.cu"))
        .define("T", element(y.dtype()))
        .define("I", indices.dtype().name());
    let by = |axis: usize| table.layout().strides().get(axis).map_or(0, |by| *by as i64);
    let len = |axis: usize| table.shape().get(axis).copied().unwrap_or(1);
    // All axes of the output but the last are those of the indices.
    let (dims, by_output) = (y.shape().dims(), y.layout().strides());
    let rank = dims.len().saturating_sub(1);
    let index_shape = shape(dims.get(..rank).unwrap_or_default())?;
    let to = Layout::strided(index_shape, by_output.get(..rank).unwrap_or_default(), 0)?;
    let (width, to_column) = (len(1).max(1), by_output.get(rank).map_or(0, |by| *by as i64));
    let chunk = chunk(&[&y], |chunk| {
        let outer: Vec<i64> = by_output.iter().take(rank).map(|by| *by as i64).collect();
        let is_aligned = is_chunked(&table, &[by(0)], chunk) && is_chunked(&y, &outer, chunk);
        [by(1), to_column] == [1, 1] && width.is_multiple_of(chunk) && is_aligned
    });
    let [faults, operator_id] = io.context.faults();
    let arguments = [
        Argument::Read(indices),
        Argument::Strides(strides(indices.layout())),
        Argument::Shape(kernel_shape(&index_shape)),
        Argument::Read(table),
        Argument::Long(by(0)),
        Argument::Long(by(1)),
        Argument::Long(len(0) as i64),
        Argument::Int(int(width)?),
        Argument::Write(y),
        Argument::Strides(strides(&to)),
        Argument::Long(to_column),
        Argument::Long(y.num_elements() as i64),
        faults,
        operator_id,
    ];
    let (unit, grid) = (unit.define("CHUNK", chunk), Grid::over(y.num_elements().div_ceil(chunk)));
    io.context.run(&unit, "embedding", grid, &arguments)
}
