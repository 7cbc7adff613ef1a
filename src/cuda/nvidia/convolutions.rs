//! Convolutions of channels-last tensors by cuDNN.

use super::calls::Prepared;
use super::{libraries, library_error};
use crate::cuda::device::{Call, ConvolutionWork, CudaError, Result, Version};
use crate::tensor::DType;
use cudarc::cudnn::sys::{self, cudnnDataType_t as Type, cudnnStatus_t as Status};
use cudarc::driver::sys::CUstream;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

/// The library, initialised. Each queue has its own, because a handle works in one stream at a time.
#[derive(Debug)]
pub(super) struct Convolutions {
    handle: sys::cudnnHandle_t,
}

// SAFETY: a queue and its graphs are used by one thread at a time, and so is the handle.
unsafe impl Send for Convolutions {}
// SAFETY: as above.
unsafe impl Sync for Convolutions {}

/// Converts the status of a call to an error that names the call.
fn check(call: &'static str, status: Status) -> Result<()> {
    status.result().map_err(library_error(call))
}

fn type_of(dtype: DType) -> Result<Type> {
    match dtype {
        DType::F32 => Ok(Type::CUDNN_DATA_FLOAT),
        DType::F16 => Ok(Type::CUDNN_DATA_HALF),
        DType::Bf16 => Ok(Type::CUDNN_DATA_BFLOAT16),
        other => Err(CudaError::Driver {
            call: "cudnnConvolutionForward".to_owned(),
            reason: format!("convolutions of {other} are not supported"),
        }),
    }
}

impl Convolutions {
    pub(super) fn new() -> Result<Self> {
        let mut handle = null_mut();
        // SAFETY: the library is there, and the handle outlives the call.
        check("cudnnCreate", unsafe { sys::cudnnCreate(&raw mut handle) })?;
        Ok(Self { handle })
    }

    /// Selects the algorithm that the library considers best, among those for which the scratch memory suffices.
    ///
    /// # Errors
    /// Returns an error if the library has none.
    pub(super) fn prepare(
        self: Arc<Self>,
        work: &ConvolutionWork,
        call: &Call<'_>,
    ) -> Result<Box<dyn Prepared>> {
        let convolution = Convolution::describe(self, work)?;
        Ok(Box::new(convolution.with_algorithm(call.scratch)?))
    }
}

impl Drop for Convolutions {
    fn drop(&mut self) {
        // SAFETY: it was initialised once, and this was its last owner.
        let _ = unsafe { sys::cudnnDestroy(self.handle) };
    }
}

/// A prepared convolution.
#[derive(Debug)]
struct Convolution {
    library: Arc<Convolutions>,
    input: Tensor,
    output: Tensor,
    bias: Tensor,
    weights: Filter,
    windows: Windows,
    activation: Function,
    algorithm: sys::cudnnConvolutionFwdAlgo_t,
    work: ConvolutionWork,
}

// SAFETY: descriptions are read-only after creation.
unsafe impl Send for Convolution {}

/// The values of all axes, or for 2-D convolutions without the first spatial axis.
fn of_axes(lens: &[usize], is_plane: bool) -> Result<Vec<c_int>> {
    let dropped = lens.len() - 3;
    let used = lens.iter().enumerate().filter(|(axis, _)| !is_plane || *axis != dropped);
    let number = |len: usize| {
        c_int::try_from(len).map_err(|_| CudaError::Driver {
            call: "cudnnConvolutionForward".to_owned(),
            reason: format!("{len} exceeds the limits of the library"),
        })
    };
    used.map(|(_, len)| number(*len)).collect()
}

impl Convolution {
    fn describe(library: Arc<Convolutions>, work: &ConvolutionWork) -> Result<Self> {
        let is_plane = work.taps[0] == 1 && work.input[2] == 1 && work.output[2] == 1 && work.padding[0] == 0;
        let dtype = type_of(work.dtype)?;
        let tensor = |lens: &[usize], strides: &[usize]| {
            Tensor::new(dtype, &of_axes(lens, is_plane)?, &of_axes(strides, is_plane)?)
        };
        let channels = work.output[1];
        let of_group = work.input[1].checked_div(work.groups).unwrap_or(0);
        let [d, h, w] = work.taps;
        Ok(Self {
            input: tensor(&work.input, &work.input_strides)?,
            output: tensor(&work.output, &work.output_strides)?,
            bias: tensor(&[1, channels, 1, 1, 1], &[channels, 1, channels, channels, channels])?,
            weights: Filter::new(dtype, &of_axes(&[channels, of_group, d, h, w], is_plane)?)?,
            windows: Windows::new(work, is_plane)?,
            activation: Function::new(work.is_relu)?,
            algorithm: sys::cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
            library,
            work: *work,
        })
    }

    /// Returns true if bias, addition and activation are part of the call.
    fn is_fused(&self) -> bool {
        self.work.has_bias || self.work.is_added || self.work.is_relu
    }

    fn with_algorithm(self, scratch: usize) -> Result<Self> {
        use sys::cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM as FUSED;
        const MAX_ALGORITHMS: usize = 8;
        let mut found: [std::mem::MaybeUninit<sys::cudnnConvolutionFwdAlgoPerf_t>; MAX_ALGORITHMS] =
            [const { std::mem::MaybeUninit::uninit() }; MAX_ALGORITHMS];
        let mut count = 0;
        // SAFETY: all descriptions are valid, and there is room for the requested number of answers.
        let status = unsafe {
            sys::cudnnGetConvolutionForwardAlgorithm_v7(
                self.library.handle,
                self.input.0,
                self.weights.0,
                self.windows.0,
                self.output.0,
                MAX_ALGORITHMS as c_int,
                &raw mut count,
                found.as_mut_ptr().cast(),
            )
        };
        check("cudnnGetConvolutionForwardAlgorithm_v7", status)?;
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: the library wrote the first `count` of them.
        let candidates = found.iter().take(count).map(|candidate| unsafe { candidate.assume_init_ref() });
        let has_room = |it: &&sys::cudnnConvolutionFwdAlgoPerf_t| {
            if it.memory > scratch {
                log::debug!("cuDNN would rather have {} than {scratch} bytes of scratch memory", it.memory);
            }
            it.memory <= scratch
        };
        // A fused convolution without an activation supports only one algorithm.
        let is_allowed = |algorithm| !self.is_fused() || self.work.is_relu || algorithm == FUSED;
        let mut suitable = candidates
            .filter(|it| it.status == Status::CUDNN_STATUS_SUCCESS && is_allowed(it.algo))
            .filter(has_room);
        let chosen = suitable.next().ok_or_else(|| CudaError::Driver {
            call: "cudnnGetConvolutionForwardAlgorithm_v7".to_owned(),
            reason: format!("no algorithm works with {scratch} bytes of scratch memory"),
        })?;
        if self.work.allow_tf32 || self.work.dtype != DType::F32 {
            self.windows.set_math(chosen.mathType)?;
        }
        Ok(Self { algorithm: chosen.algo, ..self })
    }
}

impl Prepared for Convolution {
    unsafe fn run(&self, call: Call<'_>, stream: CUstream) -> Result<()> {
        let [input, weights, bias, added, output, scratch] = call.tensors();
        let (one, zero) = (1.0f32, 0.0f32);
        let handle = self.library.handle;
        // SAFETY: both are valid.
        check("cudnnSetStream", unsafe { sys::cudnnSetStream(handle, stream.cast()) })?;
        let (alpha, beta) = ((&raw const one).cast(), (&raw const zero).cast());
        if !self.is_fused() {
            // SAFETY: by contract all tensors are valid, with the described layouts.
            let status = unsafe {
                sys::cudnnConvolutionForward(
                    handle,
                    alpha,
                    self.input.0,
                    input,
                    self.weights.0,
                    weights,
                    self.windows.0,
                    self.algorithm,
                    scratch,
                    call.scratch,
                    beta,
                    self.output.0,
                    output,
                )
            };
            return check("cudnnConvolutionForward", status);
        }
        let (scale, added) = if self.work.is_added { (alpha, added) } else { (beta, output) };
        // SAFETY: as above.
        let status = unsafe {
            sys::cudnnConvolutionBiasActivationForward(
                handle,
                alpha,
                self.input.0,
                input,
                self.weights.0,
                weights,
                self.windows.0,
                self.algorithm,
                scratch,
                call.scratch,
                scale,
                self.output.0,
                added,
                self.bias.0,
                bias,
                self.activation.0,
                self.output.0,
                output,
            )
        };
        check("cudnnConvolutionBiasActivationForward", status)
    }
}

/// Declares a descriptor of the library: its creation and destruction.
macro_rules! descriptors {
    ($(#[doc = $doc:literal] $name:ident($handle:ty): $create:ident, $destroy:ident;)*) => {$(
        #[doc = $doc]
        #[derive(Debug)]
        struct $name($handle);

        impl $name {
            fn empty() -> Result<Self> {
                let mut handle = null_mut();
                // SAFETY: the library is there, and the handle outlives the call.
                check(stringify!($create), unsafe { sys::$create(&raw mut handle) })?;
                Ok(Self(handle))
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: it was created once, and this was its only owner.
                let _ = unsafe { sys::$destroy(self.0) };
            }
        }
    )*};
}

descriptors! {
    #[doc = "The layout of a tensor."]
    Tensor(sys::cudnnTensorDescriptor_t): cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor;
    #[doc = "The layout of the weights: output channels, taps, input channels."]
    Filter(sys::cudnnFilterDescriptor_t): cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor;
    #[doc = "The parameters of the window."]
    Windows(sys::cudnnConvolutionDescriptor_t): cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor;
    #[doc = "The activation function."]
    Function(sys::cudnnActivationDescriptor_t): cudnnCreateActivationDescriptor, cudnnDestroyActivationDescriptor;
}

impl Tensor {
    fn new(dtype: Type, lens: &[c_int], strides: &[c_int]) -> Result<Self> {
        let tensor = Self::empty()?;
        let rank = lens.len().min(strides.len()) as c_int;
        // SAFETY: there are `rank` lengths and strides.
        let status = unsafe {
            sys::cudnnSetTensorNdDescriptor(tensor.0, dtype, rank, lens.as_ptr(), strides.as_ptr())
        };
        check("cudnnSetTensorNdDescriptor", status).map(|()| tensor)
    }
}

impl Filter {
    fn new(dtype: Type, lens: &[c_int]) -> Result<Self> {
        let filter = Self::empty()?;
        let order = sys::cudnnTensorFormat_t::CUDNN_TENSOR_NHWC;
        // SAFETY: there are that many lengths.
        let status = unsafe {
            sys::cudnnSetFilterNdDescriptor(filter.0, dtype, order, lens.len() as c_int, lens.as_ptr())
        };
        check("cudnnSetFilterNdDescriptor", status).map(|()| filter)
    }
}

impl Windows {
    fn new(work: &ConvolutionWork, is_plane: bool) -> Result<Self> {
        use sys::cudnnMathType_t::{CUDNN_DEFAULT_MATH, CUDNN_FMA_MATH, CUDNN_TENSOR_OP_MATH};
        let windows = Self::empty()?;
        let axes = |numbers: &[usize; 3]| of_axes(numbers, is_plane);
        let (padding, stride, dilation) = (axes(&work.padding)?, axes(&work.stride)?, axes(&work.dilation)?);
        // SAFETY: all three have the same length.
        let status = unsafe {
            sys::cudnnSetConvolutionNdDescriptor(
                windows.0,
                padding.len() as c_int,
                padding.as_ptr(),
                stride.as_ptr(),
                dilation.as_ptr(),
                sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION,
                Type::CUDNN_DATA_FLOAT,
            )
        };
        check("cudnnSetConvolutionNdDescriptor", status)?;
        let groups = c_int::try_from(work.groups).unwrap_or(c_int::MAX);
        // SAFETY: the descriptor is valid.
        check("cudnnSetConvolutionGroupCount", unsafe {
            sys::cudnnSetConvolutionGroupCount(windows.0, groups)
        })?;
        windows.set_math(match (work.dtype, work.allow_tf32) {
            (DType::F32, true) => CUDNN_DEFAULT_MATH,
            (DType::F32, false) => CUDNN_FMA_MATH,
            _ => CUDNN_TENSOR_OP_MATH,
        })?;
        Ok(windows)
    }

    fn set_math(&self, kind: sys::cudnnMathType_t) -> Result<()> {
        // SAFETY: the descriptor is valid.
        check("cudnnSetConvolutionMathType", unsafe { sys::cudnnSetConvolutionMathType(self.0, kind) })
    }
}

impl Function {
    fn new(is_relu: bool) -> Result<Self> {
        use sys::cudnnActivationMode_t::{CUDNN_ACTIVATION_IDENTITY, CUDNN_ACTIVATION_RELU};
        let function = Self::empty()?;
        let mode = if is_relu { CUDNN_ACTIVATION_RELU } else { CUDNN_ACTIVATION_IDENTITY };
        // The library supports nothing else after convolutions: its ReLU maps NaN to 0.
        let nan = sys::cudnnNanPropagation_t::CUDNN_NOT_PROPAGATE_NAN;
        // SAFETY: the descriptor is valid.
        let status = unsafe { sys::cudnnSetActivationDescriptor(function.0, mode, nan, 0.0) };
        check("cudnnSetActivationDescriptor", status).map(|()| function)
    }
}

/// The version, if the library is available.
pub(super) fn version() -> Option<Version> {
    libraries::CONVOLUTIONS.find().map_err(|reason| log::debug!("{reason}")).ok()?;
    // SAFETY: the library is loaded.
    let version = unsafe { sys::cudnnGetVersion() };
    // 90201 is 9.2.1; before version 9, the major version had one digit fewer.
    libraries::version(version / 10_000, version / 100 % 100, 9)
}
