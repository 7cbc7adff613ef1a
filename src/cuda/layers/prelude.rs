//! What most files of layers use.

pub(super) use super::family::Simple;
pub(super) use crate::cuda::device::{Argument, DeviceTensor, Grid, KernelShape, KernelStrides, Unit};
pub(super) use crate::cuda::layer::{Entry, Own};
pub(super) use crate::cuda::{CudaContext, CudaIo, CudaLayer, is_plain, scratch_bytes};
pub(super) use crate::op::{LayerError, Result, TensorFormat, TensorMeta, Weight};
pub(super) use crate::tensor::{DType, Layout, Tensor};
