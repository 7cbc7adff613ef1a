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
            Some(id) => there::builder(builder, &there::open(id, self.check_kernels)?, self.tf32()),
        }
    }

    /// Configures a plan file that is about to be loaded.
    ///
    /// # Errors
    /// As [`DeviceArgs::apply`].
    pub(crate) fn apply_to_file(&self, plan: PlanFile) -> Result<PlanFile, EngineError> {
        match self.wanted() {
            None => Ok(plan),
            Some(id) => there::file(plan, &there::open(id, self.check_kernels)?, self.tf32()),
        }
    }

    fn tf32(&self) -> Tf32Arg {
        self.tf32.unwrap_or(Tf32Arg::Convolutions)
    }

    fn wanted(&self) -> Option<&str> {
        self.device.as_deref().filter(|id| *id != "cpu")
    }
}

#[cfg(feature = "gpu")]
mod there {
    use super::super::formats::caches;
    use super::Tf32Arg;
    use ixion::cuda::device::{CudaError, Device, KernelCache};
    use ixion::cuda::{CudaLayers, Tf32};
    use ixion::engine::{Builder, EngineError, PlanFile};
    use std::sync::OnceLock;

    /// The device, which all models of this process share, so that kernels are loaded once.
    pub(super) fn open(id: &str, is_checked: bool) -> Result<Device, EngineError> {
        static OPENED: OnceLock<Result<Device, CudaError>> = OnceLock::new();
        let opened = OPENED.get_or_init(|| {
            let folder = caches().map(|caches| caches.join("ixion").join("kernels"));
            let cache = folder.map_or_else(KernelCache::none, KernelCache::in_folder);
            ixion::cuda::open(id, cache, is_checked)
        });
        opened.clone().map_err(|error| EngineError::Device(Box::new(error)))
    }

    pub(super) fn builder(builder: Builder, device: &Device, tf32: Tf32Arg) -> Result<Builder, EngineError> {
        Ok(builder.with_device(device.clone(), layers(tf32)))
    }

    pub(super) fn file(plan: PlanFile, device: &Device, tf32: Tf32Arg) -> Result<PlanFile, EngineError> {
        Ok(plan.with_device(device.clone(), layers(tf32)))
    }

    fn layers(tf32: Tf32Arg) -> CudaLayers {
        CudaLayers::default().with_tf32(match tf32 {
            Tf32Arg::None => Tf32::NONE,
            Tf32Arg::Convolutions => Tf32::default(),
            Tf32Arg::All => Tf32::ALL,
        })
    }
}

#[cfg(not(feature = "gpu"))]
mod there {
    use super::Tf32Arg;
    use ixion::engine::{Builder, EngineError, PlanFile};

    /// No device, since this program was built without any.
    pub(super) enum Device {}

    pub(super) fn open(id: &str, _: bool) -> Result<Device, EngineError> {
        let advice = "this `ixion` was built for the CPU only; rebuild it with `--features cuda`, or with `cuda-emulator` to run \
            without a GPU";
        Err(EngineError::Device(format!("there is no device `{id}`: {advice}").into()))
    }

    pub(super) fn builder(_: Builder, device: &Device, _: Tf32Arg) -> Result<Builder, EngineError> {
        match *device {}
    }

    pub(super) fn file(_: PlanFile, device: &Device, _: Tf32Arg) -> Result<PlanFile, EngineError> {
        match *device {}
    }
}
