//! `--device`: the device that models run on.

use clap::{Args, ValueEnum};
use ixion::engine::{Builder, EngineError, PlanFile};

/// The device, and how it computes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct DeviceArgs {
    /// Run operators on a device if it has kernels for them: cuda, cuda:1, cuda-emulator [default: cpu]
    ///
    /// All other operators run on the CPU. `ixion devices` lists the available devices.
    #[arg(long, value_name = "DEVICE", hide_short_help = true)]
    pub(crate) device: Option<String>,
    /// Check every memory access of the emulator's kernels, and run their threads in random order
    #[arg(long, requires = "device", hide_short_help = true)]
    pub(crate) check_kernels: bool,
    /// The operators in which a device multiplies f32 as TF32 on tensor cores, with a mantissa of 10 instead of 23 bits
    ///
    /// The default is convolutions, as in PyTorch, and none for `ixion verify`.
    #[arg(long, value_name = "WHERE", requires = "device", hide_short_help = true)]
    pub(crate) tf32: Option<Tf32Arg>,
}

/// The operators in which TF32 replaces f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tf32Arg {
    /// No operators
    None,
    /// Convolutions
    Convolutions,
    /// Convolutions and matrix products
    All,
}

impl DeviceArgs {
    /// Configures a builder.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the device is not available, with the reason.
    pub(crate) fn apply(&self, builder: Builder) -> Result<Builder, EngineError> {
        match self.wanted() {
            None => Ok(builder),
            Some(id) => there::builder(builder, id, self),
        }
    }

    /// Configures a plan file that is about to be loaded.
    ///
    /// # Errors
    /// As [`DeviceArgs::apply`].
    pub(crate) fn apply_to_file(&self, plan: PlanFile) -> Result<PlanFile, EngineError> {
        match self.wanted() {
            None => Ok(plan),
            Some(id) => there::file(plan, id, self),
        }
    }

    fn wanted(&self) -> Option<&str> {
        self.device.as_deref().filter(|id| *id != "cpu")
    }
}

#[cfg(feature = "gpu")]
pub use there::open;

#[cfg(feature = "gpu")]
mod there {
    use super::super::formats::caches;
    use super::{DeviceArgs, Tf32Arg};
    use ixion::cuda::device::{Device, KernelCache};
    use ixion::cuda::{CudaLayers, Tf32};
    use ixion::engine::{Builder, EngineError, PlanFile};
    use std::collections::BTreeMap;
    use std::process;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    pub(super) fn builder(builder: Builder, id: &str, args: &DeviceArgs) -> Result<Builder, EngineError> {
        Ok(builder.with_device(open(id, args.check_kernels)?, layers(args)))
    }

    pub(super) fn file(plan: PlanFile, id: &str, args: &DeviceArgs) -> Result<PlanFile, EngineError> {
        Ok(plan.with_device(open(id, args.check_kernels)?, layers(args)))
    }

    /// Open devices by process, name, and whether they check their kernels. A forked process cannot use those of its parent.
    type Open = BTreeMap<(u32, String, bool), Device>;

    static OPEN: Mutex<Open> = Mutex::new(BTreeMap::new());

    fn lock() -> MutexGuard<'static, Open> {
        OPEN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device of this name, which all models of this process share, so that kernels are loaded once.
    ///
    /// # Errors
    /// [`EngineError::Device`] if it is not available, with the reason.
    pub fn open(id: &str, is_checked: bool) -> Result<Device, EngineError> {
        let key = (process::id(), id.to_owned(), is_checked);
        let known = lock().get(&key).cloned();
        if let Some(device) = known {
            return Ok(device);
        }
        // Not locked meanwhile: a process that another thread forks would find it locked for ever.
        let folder = caches().map(|caches| caches.join("ixion").join("kernels"));
        let cache = folder.map_or_else(KernelCache::none, KernelCache::in_folder);
        let device = ixion::cuda::open(id, cache, is_checked);
        let device = device.map_err(|error| EngineError::Device(Box::new(error)))?;
        Ok(lock().entry(key).or_insert(device).clone())
    }

    fn layers(args: &DeviceArgs) -> CudaLayers {
        CudaLayers::default().with_tf32(match args.tf32 {
            Some(Tf32Arg::None) => Tf32::NONE,
            Some(Tf32Arg::Convolutions) | None => Tf32::default(),
            Some(Tf32Arg::All) => Tf32::ALL,
        })
    }
}

#[cfg(not(feature = "gpu"))]
mod there {
    use super::DeviceArgs;
    use ixion::engine::{Builder, EngineError, PlanFile};

    pub(super) fn builder(_: Builder, id: &str, _: &DeviceArgs) -> Result<Builder, EngineError> {
        Err(absent(id))
    }

    pub(super) fn file(_: PlanFile, id: &str, _: &DeviceArgs) -> Result<PlanFile, EngineError> {
        Err(absent(id))
    }

    fn absent(id: &str) -> EngineError {
        let advice = "this `ixion` was built for the CPU only; rebuild it with `--features cuda`, or with `cuda-emulator` to run \
            without a GPU";
        EngineError::Device(format!("there is no device `{id}`: {advice}").into())
    }
}

#[cfg(all(test, feature = "cuda-emulator"))]
mod tests {
    use super::open;

    #[test]
    fn each_name_has_its_own_device() {
        let missing = open("cuda:1000000", false).unwrap_err().to_string();
        let emulated = open("cuda-emulator", false).unwrap();
        assert_eq!(emulated.info().id, "cuda-emulator");
        assert_eq!(open("cuda:1000000", false).unwrap_err().to_string(), missing);
    }
}
