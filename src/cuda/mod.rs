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
#[cfg(feature = "cuda")]
pub mod nvidia;
mod plugin;

pub use layer::{
    CloneCudaLayer, CudaContext, CudaLayer, CudaLayers, Faults, Tf32, Uses, is_plain, no_tactic,
    scratch_bytes,
};
use layers::copy;

use device::{CudaError, Device, Info, KernelCache};

/// The device of this name: `cuda`, `cuda:1`, `cuda-emulator`. With `is_checked`, the emulator looks at every access to memory.
///
/// # Errors
/// [`CudaError::NoDevice`] with what was looked for.
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

/// A kind of devices, and those that are there, or why there is none.
pub type Found = (&'static str, Result<Vec<Info>, CudaError>);

/// What [`open`] would find.
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
