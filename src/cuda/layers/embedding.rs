//! Lookup of table rows by their indices.

use super::axes::{chunk, is_chunked};
use super::copy::element;
use super::epilogue::kernel_shape;
use super::support::{Weights, int, is_any_dtype, shape, stored, strides};
use crate::cuda::device::{Argument, DeviceTensor, Grid, Unit};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers};
use crate::op::{LayerError, TensorFormat};
use crate::ops::indexing::by_index::Embedding;
use crate::tensor::{Layout, Tensor};

impl CudaLayer for Embedding {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_any_dtype(position, formats)
    }

    fn weights(&self) -> Result<Vec<Tensor>, LayerError> {
        stored([Some(&self.weight)])
    }

    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let (indices, y) = (inputs[0], outputs[0]);
        let table = Weights::default().must(&self.weight, inputs, context)?;
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
        let kernel = context.kernel(&unit.define("CHUNK", chunk), "embedding")?;
        let [faults, operator_id] = context.faults();
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
        context.launch(&kernel, Grid::over(y.num_elements().div_ceil(chunk)), &arguments)
    }
}

/// Registers the layers of this family.
pub(super) fn register(layers: &mut CudaLayers) {
    layers.register::<Embedding>();
}
