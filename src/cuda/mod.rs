//! Operators on a GPU.
//!
//! [`device`] abstracts the hardware: memory, kernels that are compiled on first use, and queues of work. There are two kinds
//! of devices: GPUs, through the libraries of their driver, which are loaded only on demand (feature `cuda`); and an emulator
//! that runs the same kernels on the CPU, for learning and testing without a GPU (feature `cuda-emulator`).

pub mod device;
#[cfg(feature = "cuda-emulator")]
pub mod emulator;
mod layer;
mod layers;
#[cfg(feature = "cuda")]
pub mod nvidia;
mod plugin;

pub use layer::{CloneCudaLayer, CudaContext, CudaIo, CudaLayer, CudaLayers, Faults, Tf32, Uses, no_tactic};
pub(crate) use layer::{is_plain, scratch_bytes};

use device::{CudaError, Device, Info, KernelCache};

/// Opens the device with this ID: `cuda`, `cuda:1`, `cuda-emulator`. With `is_checked`, the emulator checks every memory
/// access.
///
/// # Errors
/// [`CudaError::NoDevice`], with what was searched, if there is none.
pub fn open(id: &str, cache: KernelCache, is_checked: bool) -> Result<Device, CudaError> {
    #[cfg(feature = "cuda-emulator")]
    if id == emulator::Emulator::ID {
        let emulator = emulator::Emulator::new().with_cache(cache);
        return if is_checked { emulator.with_checker(1) } else { emulator }.open();
    }
    #[cfg(feature = "cuda")]
    if let Some(ordinal) = nvidia::ordinal(id) {
        return nvidia::open(ordinal, cache);
    }
    let _ = (cache, is_checked);
    Err(CudaError::NoDevice {
        wanted: id.to_owned(),
        reason: format!("this program was built for {}", kinds()),
    })
}

/// The kinds of devices that this program was built for.
fn kinds() -> String {
    let kinds =
        [(cfg!(feature = "cuda"), "cuda, cuda:1, …"), (cfg!(feature = "cuda-emulator"), "cuda-emulator")];
    let kinds: Vec<&str> = kinds.into_iter().filter(|kind| kind.0).map(|kind| kind.1).collect();
    if kinds.is_empty() { "the CPU alone".to_owned() } else { kinds.join(", ") }
}

/// A kind of device, and the available devices of that kind, or the reason why there are none.
pub type Found = (&'static str, Result<Vec<Info>, CudaError>);

/// The devices that [`open`] would find.
pub fn devices() -> Vec<Found> {
    vec![
        #[cfg(feature = "cuda")]
        (nvidia::ID, nvidia::devices()),
        #[cfg(feature = "cuda-emulator")]
        {
            let emulator = emulator::Emulator::new().open();
            (emulator::Emulator::ID, emulator.map(|device| vec![device.info().clone()]))
        },
    ]
}
