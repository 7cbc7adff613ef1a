//! Loads and calls kernels that are compiled for the CPU.

use crate::cuda::device::{CudaError, Extent, Launch, Module, Result, Unit};
use std::ffi::c_void;
use tempfile::TempPath;

/// `ixion::Launch` of the shim.
#[repr(C)]
struct Call {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    seed: u32,
    arguments: *mut *mut c_void,
    extents: *const Extent,
    extent_count: u64,
    report: *mut u8,
    report_size: u64,
}

type Entry = unsafe extern "C" fn(*const Call) -> i32;

/// The maximum bytes of a report.
const REPORT: usize = 512;

/// A shared library of kernels.
#[derive(Debug)]
pub(super) struct Library {
    library: libloading::Library,
    /// The file that it was loaded from, kept for a debugger.
    _file: Option<TempPath>,
}

impl Library {
    pub(super) fn load(unit: &Unit, image: &[u8]) -> Result<Self> {
        let fault = |reason: String| CudaError::Driver {
            call: format!("loading the kernels of {}", unit.name()),
            reason,
        };
        // The system loads libraries only from files. After loading, only a debugger needs the file.
        let mut file = tempfile::Builder::new()
            .prefix("ixion-")
            .suffix(".so")
            .tempfile()
            .map_err(|e| fault(e.to_string()))?;
        std::io::Write::write_all(&mut file, image).map_err(|error| fault(error.to_string()))?;
        let path = file.into_temp_path();
        // SAFETY: the library is compiled from the shim and a source. No code runs when it is loaded.
        let library = unsafe { libloading::Library::new(path.as_os_str()) }
            .map_err(|error| fault(error.to_string()))?;
        Ok(Self { library, _file: is_traced().then_some(path) })
    }
}

/// Returns true if a debugger is attached to this program, as far as the system reports it.
pub(super) fn is_traced() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|id| id.trim() != "0")
}

impl Module for Library {
    fn function(&self, kernel: &str) -> Option<u64> {
        let name = format!("ixion_launch_{kernel}");
        // SAFETY: the shim declares functions of these names with this type.
        let entry = unsafe { self.library.get::<Entry>(name.as_bytes()) }.ok()?;
        Some(*entry as usize as u64)
    }
}

/// Runs all blocks and threads of a launch.
///
/// # Safety
/// The function must have been returned by [`Library::function`] of a library that is still loaded, and the arguments must
/// match the kernel's parameters.
pub(super) unsafe fn launch(launch: Launch<'_>, seed: u32) -> Result<()> {
    let mut report = [0u8; REPORT];
    let call = Call {
        grid: launch.grid.blocks,
        block: launch.grid.threads,
        shared: launch.grid.shared,
        seed,
        arguments: launch.arguments.as_mut_ptr(),
        extents: launch.extents.as_ptr(),
        extent_count: launch.extents.len() as u64,
        report: report.as_mut_ptr(),
        report_size: REPORT as u64,
    };
    // SAFETY: by contract it is the address of such a function.
    let entry = unsafe { std::mem::transmute::<usize, Entry>(launch.function as usize) };
    // SAFETY: the call and everything that it points to outlive the call.
    if unsafe { entry(&raw const call) } == 0 {
        return Ok(());
    }
    let len = report.iter().position(|&byte| byte == 0).unwrap_or(REPORT);
    let report = String::from_utf8_lossy(report.get(..len).unwrap_or_default()).into_owned();
    Err(CudaError::Fault { kernel: launch.kernel.to_owned(), report })
}
