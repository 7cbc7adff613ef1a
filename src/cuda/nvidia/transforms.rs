//! Fourier transforms by cuFFT.

use super::calls::Prepared;
use super::{libraries, library_error};
use crate::cuda::device::{Call, CudaError, Result, SignalLayout, TransformKind, TransformWork, Version};
use cudarc::cufft::result;
use cudarc::cufft::sys::{self, cufftType as Kind};
use cudarc::driver::sys::CUstream;
use std::ffi::c_int;

/// A prepared batch of transforms. The library keeps its tables and scratch memory on the device.
#[derive(Debug)]
struct Plan {
    handle: sys::cufftHandle,
    work: TransformWork,
}

fn kind(work: &TransformWork) -> Kind {
    match (work.kind, work.is_double) {
        (TransformKind::Complex { .. }, false) => Kind::CUFFT_C2C,
        (TransformKind::Complex { .. }, true) => Kind::CUFFT_Z2Z,
        (TransformKind::FromReal, false) => Kind::CUFFT_R2C,
        (TransformKind::FromReal, true) => Kind::CUFFT_D2Z,
        (TransformKind::ToReal, false) => Kind::CUFFT_C2R,
        (TransformKind::ToReal, true) => Kind::CUFFT_Z2D,
    }
}

fn number(count: usize) -> Result<c_int> {
    c_int::try_from(count).map_err(|_| CudaError::Driver {
        call: "cufftMakePlanMany".to_owned(),
        reason: format!("{count} exceeds the limits of the library"),
    })
}

/// Prepares some transforms.
///
/// # Errors
/// Returns an error if the library cannot do them.
pub(super) fn prepare(work: &TransformWork) -> Result<Box<dyn Prepared>> {
    let handle = result::create().map_err(library_error("cufftCreate"))?;
    let plan = Plan { handle, work: *work };
    let mut length = number(work.length)?;
    let layout =
        |layout: SignalLayout| Ok::<_, CudaError>([number(layout.stride)?, number(layout.distance)?]);
    let ([from_stride, from_distance], [to_stride, to_distance]) =
        (layout(work.input)?, layout(work.output)?);
    // The lengths of signals in memory only matter for further axes.
    let (mut from_lens, mut to_lens, mut bytes) = (length, length, 0);
    // SAFETY: the plan is valid, and all values outlive the call.
    let status = unsafe {
        sys::cufftMakePlanMany(
            plan.handle,
            1,
            &raw mut length,
            &raw mut from_lens,
            from_stride,
            from_distance,
            &raw mut to_lens,
            to_stride,
            to_distance,
            kind(work),
            number(work.batches)?,
            &raw mut bytes,
        )
    };
    status.result().map_err(library_error("cufftMakePlanMany"))?;
    Ok(Box::new(plan))
}

impl Prepared for Plan {
    unsafe fn run(&self, call: Call<'_>, stream: CUstream) -> Result<()> {
        let ([from, to], plan) = (call.tensors(), self.handle);
        let is_forward = matches!(self.work.kind, TransformKind::Complex { is_forward: true });
        let direction = if is_forward { -1 } else { 1 };
        // SAFETY: by contract all tensors are valid and match the plan; the library overwrites its input only for
        // complex-to-real transforms, which the caller allows.
        let status = unsafe {
            sys::cufftSetStream(plan, stream.cast()).result().map_err(library_error("cufftSetStream"))?;
            match kind(&self.work) {
                Kind::CUFFT_C2C => sys::cufftExecC2C(plan, from.cast(), to.cast(), direction),
                Kind::CUFFT_Z2Z => sys::cufftExecZ2Z(plan, from.cast(), to.cast(), direction),
                Kind::CUFFT_R2C => sys::cufftExecR2C(plan, from.cast(), to.cast()),
                Kind::CUFFT_D2Z => sys::cufftExecD2Z(plan, from.cast(), to.cast()),
                Kind::CUFFT_C2R => sys::cufftExecC2R(plan, from.cast(), to.cast()),
                Kind::CUFFT_Z2D => sys::cufftExecZ2D(plan, from.cast(), to.cast()),
            }
        };
        status.result().map_err(library_error("cufftExec"))
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: this was the plan's only owner, which has waited for its work.
        let _ = unsafe { result::destroy(self.handle) };
    }
}

/// The version, if the library is available.
pub(super) fn version() -> Option<Version> {
    libraries::TRANSFORMS.find().map_err(|reason| log::debug!("{reason}")).ok()?;
    let property = |which| {
        let mut value = 0;
        // SAFETY: the library is loaded, and the value outlives the call.
        let status = unsafe { sys::cufftGetProperty(which, &raw mut value) };
        status.result().ok().and_then(|()| usize::try_from(value).ok())
    };
    let major = property(sys::libraryPropertyType_t::MAJOR_VERSION)?;
    libraries::version(major, property(sys::libraryPropertyType_t::MINOR_VERSION)?, 11)
}
