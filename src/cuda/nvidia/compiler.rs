//! NVRTC: compiles kernels at run time, even without a GPU.

use super::libraries::COMPILER;
use crate::cuda::device::{CudaError, Result};
use cudarc::nvrtc::result;
use cudarc::nvrtc::sys::{self, nvrtcProgram};
use std::ffi::{CString, c_char};

/// The output of NVRTC for a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// Machine code for the architecture; empty for a virtual architecture, such as `compute_90`.
    pub cubin: Vec<u8>,
    /// PTX, which drivers compile for this architecture and later ones.
    pub ptx: Vec<u8>,
}

/// Compiles a source for an architecture such as `sm_90`. No GPU is needed.
///
/// # Errors
/// [`CudaError::NoDevice`] if there is no NVRTC; [`CudaError::Compile`] with the compiler's output.
pub fn compile(name: &str, source: &str, architecture: &str) -> Result<Compiled> {
    COMPILER.find().map_err(|reason| CudaError::NoDevice { wanted: super::ID.to_owned(), reason })?;
    let program = Program::new(name, source)?;
    program.compile(architecture)
}

/// The major and minor version of NVRTC.
pub(super) fn version() -> Result<(i32, i32), String> {
    COMPILER.find()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is loaded, and the results outlive the call.
    unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) }.result().map_err(|e| e.to_string())?;
    Ok((major, minor))
}

/// The newest architecture that NVRTC supports and this GPU runs: its own, or the PTX of an older one.
pub(super) fn architecture((major, minor): (i32, i32)) -> Result<String, String> {
    let wanted = major * 10 + minor;
    let mut count = 0;
    // SAFETY: the library is loaded, and the results outlive the call.
    unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) }.result().map_err(|e| e.to_string())?;
    let mut known = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: there is room for the number of architectures that was just returned.
    unsafe { sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) }.result().map_err(|e| e.to_string())?;
    if known.contains(&wanted) {
        return Ok(format!("sm_{wanted}"));
    }
    let below = known.into_iter().filter(|known| *known <= wanted).max();
    below.map(|below| format!("compute_{below}")).ok_or_else(|| {
        format!("this NVRTC supports no architecture up to {wanted}: use one of an older toolkit")
    })
}

/// An NVRTC program.
struct Program {
    name: String,
    handle: nvrtcProgram,
    /// NVRTC may read both until the program is destroyed.
    _texts: [CString; 2],
}

impl Program {
    fn new(name: &str, source: &str) -> Result<Self> {
        let fault = |log: String| CudaError::Compile { unit: name.to_owned(), log };
        let text = |text: &str| CString::new(text).map_err(|error| fault(error.to_string()));
        let texts = [text(source)?, text(name)?];
        let [source, file] = &texts;
        let handle = result::create_program(source, Some(file)).map_err(|error| fault(error.to_string()))?;
        Ok(Self { name: name.to_owned(), handle, _texts: texts })
    }

    fn compile(&self, architecture: &str) -> Result<Compiled> {
        let options = [format!("--gpu-architecture={architecture}"), "--std=c++17".to_owned()];
        // SAFETY: the program was created above and is still valid.
        let result = unsafe { result::compile_program(self.handle, &options) };
        result.map_err(|error| self.fault(&format!("{error} for {architecture}\n{}", self.log())))?;
        Ok(Compiled {
            // SAFETY: each of these functions writes as many bytes as the function before it returned.
            cubin: unsafe { self.take(sys::nvrtcGetCUBINSize, sys::nvrtcGetCUBIN) }?,
            // SAFETY: as above.
            ptx: unsafe { self.take(sys::nvrtcGetPTXSize, sys::nvrtcGetPTX) }?,
        })
    }

    /// # Safety
    /// The second function must write as many bytes as the first returns.
    unsafe fn take(
        &self,
        size_of: unsafe fn(nvrtcProgram, *mut usize) -> sys::nvrtcResult,
        copy: unsafe fn(nvrtcProgram, *mut c_char) -> sys::nvrtcResult,
    ) -> Result<Vec<u8>> {
        let fault = |error: result::NvrtcError| self.fault(&error.to_string());
        let mut size = 0;
        // SAFETY: the program is valid, and the size outlives the call.
        unsafe { size_of(self.handle, &raw mut size) }.result().map_err(fault)?;
        let mut bytes = vec![0u8; size];
        if size > 0 {
            // SAFETY: by contract it writes that many bytes.
            unsafe { copy(self.handle, bytes.as_mut_ptr().cast()) }.result().map_err(fault)?;
        }
        Ok(bytes)
    }

    fn log(&self) -> String {
        // SAFETY: as above.
        let log = unsafe { self.take(sys::nvrtcGetProgramLogSize, sys::nvrtcGetProgramLog) };
        let log = log.unwrap_or_default();
        String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_owned()
    }

    fn fault(&self, log: &str) -> CudaError {
        CudaError::Compile { unit: self.name.clone(), log: log.to_owned() }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program is valid, and is not used after this.
        let _ = unsafe { result::destroy_program(self.handle) };
    }
}
