//! Plugin layers with CUDA kernels: the library describes the launches, and Ixion compiles and launches the kernels.

use super::device::{Argument, DeviceTensor, Grid, Unit};
use super::layer::{Entry, Own};
use super::layers::copy;
use super::{CudaContext, CudaIo, CudaLayer, is_plain, scratch_bytes};
use crate::op::{LayerError, Result, TensorFormat, TensorMeta};
use crate::plugin::abi::{self, Tensor as CTensor};
use crate::plugin::host::{Call, Wanted};
use crate::plugin::layer::Foreign;
use crate::plugin::tensors::{of_format, of_layout};
use crate::tensor::{DType, Format, Tensor};
use std::ptr::null_mut;

/// The layers of plugin libraries.
pub(super) const LAYERS: &[&dyn Entry] = &[&Own::<Foreign>::ENTRY];

impl CudaLayer for Foreign {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let (Some(_), Ok(layer)) = (self.table().cuda_forward, self.layer()) else { return false };
        let Some(supports) = self.table().cuda_supports else {
            return formats.get(position).is_some_and(|it| is_plain(it) && it.dtype == DType::F32);
        };
        // The plugin ABI has no such format.
        if formats.iter().any(|format| format.format == Format::ChannelsLast) {
            return false;
        }
        let formats: Vec<abi::TensorFormat> = formats.iter().map(of_format).collect();
        let (data, count) = (formats.as_ptr(), formats.len());
        // SAFETY: the layer belongs to the library, and the formats outlive the call.
        let query = |host| unsafe { supports(host, layer, position, data, count) };
        position < count && Call::timed().answer(query) != 0
    }

    fn weights(&self) -> Result<Vec<Tensor>> {
        Ok(self.weight_tensors().to_vec())
    }

    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        // For contiguous copies of strided tensors, which the library may not support.
        let bytes = |meta: &TensorMeta| {
            let elements = meta.num_elements().fixed().and_then(|len| usize::try_from(len).ok());
            scratch_bytes(meta.dtype(), elements.unwrap_or(0))
        };
        let all = inputs.iter().chain(outputs).map(bytes).fold(0, usize::saturating_add);
        if self.takes_strides() { 0 } else { all }
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let mut x = Vec::with_capacity(io.inputs.len());
        for input in io.inputs {
            x.push(match self.accepts_layout(input) {
                true => *input,
                false => {
                    let dense = io.context.scratch(input.dtype(), *input.shape())?;
                    copy(input, &dense, io.context)?;
                    dense
                }
            });
        }
        let mut y = Vec::with_capacity(io.outputs.len());
        for output in io.outputs {
            let is_accepted = self.accepts_layout(output);
            y.push(if is_accepted {
                *output
            } else {
                io.context.scratch(output.dtype(), *output.shape())?
            });
        }
        for wanted in self.launches(&x, &y)? {
            self.launch(&wanted, &x, &y, io.context)?;
        }
        let copied = y.iter().zip(io.outputs).filter(|(_, output)| !self.accepts_layout(output));
        copied.into_iter().try_for_each(|(dense, output)| copy(dense, output, io.context))
    }
}

impl Foreign {
    fn accepts_layout(&self, tensor: &DeviceTensor<'_>) -> bool {
        self.takes_strides() || tensor.is_contiguous()
    }

    /// The launches that the library requests.
    fn launches(&self, inputs: &[DeviceTensor<'_>], outputs: &[DeviceTensor<'_>]) -> Result<Vec<Wanted>> {
        let Some(forward) = self.table().cuda_forward else { return Ok(Vec::new()) };
        let describe =
            |tensor: &DeviceTensor<'_>| of_layout(tensor.dtype(), tensor.layout(), null_mut(), 0.0);
        let [x, y] = [inputs, outputs].map(|all| all.iter().map(describe).collect::<Vec<CTensor>>());
        let (call, layer) = (Call::timed(), self.layer()?);
        // SAFETY: the layer belongs to the library, and the descriptions outlive the call.
        call.run(|host| unsafe { forward(host, layer, x.as_ptr(), x.len(), y.as_ptr(), y.len()) })?;
        call.launches()
    }

    fn launch(
        &self,
        wanted: &Wanted,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<()> {
        let mut arguments = Vec::with_capacity(wanted.arguments.len());
        for (position, argument) in wanted.arguments.iter().enumerate() {
            let (index, invalid_argument) =
                (argument.index as usize, || invalid_argument(wanted, position, argument));
            arguments.push(match argument.kind {
                abi::CUDA_INPUT => Argument::Read(*inputs.get(index).ok_or_else(invalid_argument)?),
                abi::CUDA_OUTPUT => Argument::Write(*outputs.get(index).ok_or_else(invalid_argument)?),
                abi::CUDA_WEIGHT => {
                    Argument::Read(context.weight(self.weight_of_field(index).ok_or_else(invalid_argument)?)?)
                }
                abi::CUDA_INT => Argument::Int(i32::try_from(argument.i).map_err(|_| invalid_argument())?),
                abi::CUDA_LONG => Argument::Long(argument.i),
                abi::CUDA_FLOAT => Argument::Float(argument.f as f32),
                abi::CUDA_DOUBLE => Argument::Double(argument.f),
                _ => return Err(invalid_argument()),
            });
        }
        let kernel =
            context.kernel(&Unit::new(wanted.file.clone(), wanted.source.clone()), &wanted.kernel)?;
        let (blocks, threads, shared) = (wanted.blocks, wanted.threads, wanted.shared);
        context.launch(&kernel, Grid { blocks, threads, shared }, &arguments)
    }
}

/// The error for an invalid argument.
fn invalid_argument(wanted: &Wanted, position: usize, argument: &abi::CudaArgument) -> LayerError {
    let abi::CudaArgument { kind, index, i, .. } = *argument;
    let found = match kind {
        abi::CUDA_INPUT => format!("input {index}, which does not exist"),
        abi::CUDA_OUTPUT => format!("output {index}, which does not exist"),
        abi::CUDA_WEIGHT => format!("weight {index}, but field {index} has no weight"),
        abi::CUDA_INT => format!("{i}, which does not fit an int"),
        kind => format!("an argument of unknown kind {kind}"),
    };
    let kernel = &wanted.kernel;
    let wanted = format!("a valid argument {position} of kernel `{kernel}`");
    LayerError::BrokenPromise { wanted, found }
}
