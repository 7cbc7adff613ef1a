//! Errors of a device.

/// An error of a device, its driver or a kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// There is no such device, or the libraries that it needs are missing.
    #[error("there is no device `{wanted}`: {reason}")]
    NoDevice {
        /// The ID of the requested device.
        wanted: String,
        /// Why it is not available, with what was searched.
        reason: String,
    },
    /// The compiler rejected the kernels of a source.
    #[error("the kernels of `{unit}` cannot be compiled:\n{log}")]
    Compile {
        /// The source's name and definitions.
        unit: String,
        /// The compiler's output.
        log: String,
    },
    /// A source has no such kernel.
    #[error("there is no kernel `{kernel}` in `{unit}`; it has {}", known.join(", "))]
    NoKernel {
        /// The source's name and definitions.
        unit: String,
        /// The requested kernel.
        kernel: String,
        /// The kernels that the source declares.
        known: Vec<String>,
    },
    /// The arguments do not match those that a kernel or library declares.
    #[error("kernel `{kernel}` of `{unit}` takes {wanted}, got {found}")]
    Arguments {
        /// The source's name and definitions, or the library.
        unit: String,
        /// The kernel, or the library's work.
        kernel: String,
        /// The declared parameters.
        wanted: String,
        /// The arguments.
        found: String,
    },
    /// There is not enough memory on the device.
    #[error(
        "cannot allocate {wanted} bytes on {device}: {taken} bytes are in use; use a smaller batch or half precision"
    )]
    OutOfMemory {
        /// The device.
        device: String,
        /// The number of bytes requested.
        wanted: usize,
        /// The number of bytes that this program has allocated.
        taken: usize,
    },
    /// A read or write beyond the end of its memory. A bug in the caller.
    #[error("bytes {first}..{end} are outside of {room} bytes of device memory")]
    OutOfBounds {
        /// The offset of the first byte.
        first: usize,
        /// The offset after the last byte.
        end: usize,
        /// The size of the memory in bytes.
        room: usize,
    },
    /// The emulator's checker found a bug in a kernel.
    #[error("kernel `{kernel}`: {report}")]
    Fault {
        /// The kernel.
        kernel: String,
        /// The checker's report, with block and thread.
        report: String,
    },
    /// A call of the driver or a library failed.
    #[error("{call} failed: {reason}")]
    Driver {
        /// The function.
        call: String,
        /// The driver's message.
        reason: String,
    },
    /// Compiled kernels could not be written or read.
    #[error("{action} {path}: {reason}")]
    File {
        /// The operation that failed, such as `read`.
        action: &'static str,
        /// The file.
        path: String,
        /// The system's message.
        reason: String,
    },
}

pub(crate) type Result<T, E = CudaError> = std::result::Result<T, E>;
