//! Conversion between tensor formats: element types, quantisation, and order of axes.

use super::codegen::literal;
use super::elementwise::Map;
use super::kernel_builder::no_kernel;
use super::movement::copy_as;
use super::prelude::*;
use crate::ops::inserted::reformat::Reformat;
use crate::tensor::Format;

/// The layers of this file.
pub(super) const LAYERS: &[&dyn Entry] = &[&Own::<Reformat>::ENTRY];

/// The kernel that converts between quantised values with different scales; `None` as a scale means float.
fn map([from, to]: [DType; 2], [from_scale, to_scale]: [Option<f32>; 2]) -> Option<Map> {
    let real = match from_scale {
        Some(scale) => format!("((float)in0 * {})", literal(f64::from(scale), "float")),
        None => "(float)in0".to_owned(),
    };
    let value = match to_scale {
        Some(scale) => format!("(i64)quantize({real}, {})", literal(f64::from(scale), "float")),
        None if from_scale.is_some() => real,
        None => "in0".to_owned(),
    };
    Map::new(vec![(0, from)], to, "", &value)
}

impl CudaLayer for Reformat {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        formats.get(position).is_some_and(|it| !matches!(it.format, Format::Blocked { .. }))
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        let dtypes = [inputs[0].dtype(), outputs[0].dtype()];
        let is_moved = dtypes[0] == dtypes[1] && self.scales() == [None; 2];
        if !self.makes_blocks() && (is_moved || map(dtypes, self.scales()).is_some()) {
            return Ok(());
        }
        Err(no_kernel())
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        if self.scales() == [None; 2] {
            return copy_as(&io.inputs[0], &io.outputs[0], io.context);
        }
        let map = map([io.inputs[0].dtype(), io.outputs[0].dtype()], self.scales());
        map.ok_or_else(no_kernel)?.run(io.inputs, &io.outputs[0], io.context)
    }
}
