//! What can go wrong on a GPU.

/// An error of a device, its driver or a kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// There is nothing that could run kernels.
    #[error("there is no device `{wanted}`: {reason}")]
    NoDevice {
        /// What was asked for.
        wanted: String,
        /// What was looked for, and where.
        reason: String,
    },
    /// A kernel that the compiler refuses.
    #[error("the kernels of `{unit}` cannot be compiled:\n{log}")]
    Compile {
        /// The source.
        unit: String,
        /// What the compiler said.
        log: String,
    },
    /// There is no such kernel in a source.
    #[error("there is no kernel `{kernel}` in `{unit}`; it has {}", known.join(", "))]
    NoKernel {
        /// The source.
        unit: String,
        /// What was asked for.
        kernel: String,
        /// What is there.
        known: Vec<String>,
    },
    /// Arguments that are not those which a kernel declares.
    #[error("kernel `{kernel}` of `{unit}` takes {wanted}, but is given {found}")]
    Arguments {
        /// The source.
        unit: String,
        /// The kernel.
        kernel: String,
        /// What it declares.
        wanted: String,
        /// What it is given.
        found: String,
    },
    /// There is not enough memory on the device.
    #[error(
        "{wanted} bytes of memory on {device} are not to be had, {taken} are taken; use a smaller batch, or half precision"
    )]
    OutOfMemory {
        /// The device.
        device: String,
        /// How many bytes were asked for.
        wanted: usize,
        /// How many this program has.
        taken: usize,
    },
    /// Something that is read or written beyond the memory that it is in. A fault of who asked.
    #[error("bytes {first} to {end} are outside of {room} bytes of device memory")]
    OutOfBounds {
        /// The first byte.
        first: usize,
        /// The end.
        end: usize,
        /// How many bytes there are.
        room: usize,
    },
    /// The checker of the emulator found a fault in a kernel.
    #[error("kernel `{kernel}`: {report}")]
    Fault {
        /// The kernel.
        kernel: String,
        /// What is wrong, with block and thread.
        report: String,
    },
    /// The driver refused a call.
    #[error("{call} failed: {reason}")]
    Driver {
        /// What was called.
        call: String,
        /// What the driver says.
        reason: String,
    },
    /// Kernels could not be stored or read where that is needed.
    #[error("{action} {path}: {reason}")]
    File {
        /// What was to be done.
        action: &'static str,
        /// The file.
        path: String,
        /// Why it was not.
        reason: String,
    },
}

pub(crate) type Result<T, E = CudaError> = std::result::Result<T, E>;
