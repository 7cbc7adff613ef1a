//! The same operators on a GPU.
//!
//! [`device`] is the hardware behind one interface: memory, kernels that are compiled when they are first needed, and queues of
//! work. There are two kinds of it: GPUs, by the libraries of their driver, which are looked for when a program asks (feature
//! `cuda`); and an emulator that runs the same kernels on the CPU, for those who learn or test without a GPU (feature
//! `cuda-emulator`).

pub mod device;
#[cfg(feature = "cuda-emulator")]
pub mod emulator;
mod layer;
pub mod layers;

pub use layer::{CloneCudaLayer, CudaContext, CudaLayer, CudaLayers, is_plain, scratch_bytes};

use device::{CudaError, Device, KernelCache};

/// The device of this name: `cuda-emulator`. With `is_checked`, the emulator looks at every access to memory.
///
/// # Errors
/// [`CudaError::NoDevice`] with what was looked for.
pub fn open(id: &str, cache: KernelCache, is_checked: bool) -> Result<Device, CudaError> {
    match id {
        #[cfg(feature = "cuda-emulator")]
        emulator::Emulator::ID => {
            let emulator = emulator::Emulator::new().with_cache(cache);
            if is_checked { emulator.with_checker(1) } else { emulator }.open()
        }
        _ => {
            let _ = (cache, is_checked);
            let known = if cfg!(feature = "cuda-emulator") { "cuda-emulator" } else { "none" };
            let reason = format!("this program was built with these: {known}");
            Err(CudaError::NoDevice { wanted: id.to_owned(), reason })
        }
    }
}
