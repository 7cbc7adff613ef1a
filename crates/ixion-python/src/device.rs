//! The options `device`, `tf32` and `check_kernels`: the device that models run on, and how it computes.

use ixion::engine::{Builder, PlanFile};

/// The device that models run on, and how it computes.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeviceOptions {
    /// Its name, such as `cuda:1`; `cpu` for none.
    pub(crate) id: Option<String>,
    pub(crate) tf32: Option<Tf32Use>,
    /// Whether the emulator checks every memory access of its kernels.
    pub(crate) is_checked: bool,
}

/// The operators in which TF32 replaces f32.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tf32Use {
    None,
    Convolutions,
    /// Convolutions and matrix products.
    All,
}

impl DeviceOptions {
    /// True if there are options for a device, but none is named.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.id.is_none() && (self.tf32.is_some() || self.is_checked)
    }

    /// Configures a builder.
    ///
    /// # Errors
    /// Fails if the device is not available, with the reason.
    pub(crate) fn of_builder(&self, builder: Builder) -> ixion::Result<Builder> {
        match self.wanted() {
            None => Ok(builder),
            Some(id) => there::of_builder(builder, id, self),
        }
    }

    /// Configures a plan that is about to be loaded.
    ///
    /// # Errors
    /// As [`DeviceOptions::of_builder`].
    pub(crate) fn of_file(&self, file: PlanFile) -> ixion::Result<PlanFile> {
        match self.wanted() {
            None => Ok(file),
            Some(id) => there::of_file(file, id, self),
        }
    }

    fn wanted(&self) -> Option<&str> {
        self.id.as_deref().filter(|id| *id != "cpu")
    }
}

#[cfg(any(feature = "cuda", feature = "cuda-emulator"))]
mod there {
    use super::{DeviceOptions, Tf32Use};
    use ixion::cli::open_device;
    use ixion::cuda::{CudaLayers, Tf32};
    use ixion::engine::{Builder, PlanFile};

    pub(super) fn of_builder(builder: Builder, id: &str, options: &DeviceOptions) -> ixion::Result<Builder> {
        Ok(builder.with_device(open_device(id, options.is_checked)?, layers(options)))
    }

    pub(super) fn of_file(file: PlanFile, id: &str, options: &DeviceOptions) -> ixion::Result<PlanFile> {
        Ok(file.with_device(open_device(id, options.is_checked)?, layers(options)))
    }

    fn layers(options: &DeviceOptions) -> CudaLayers {
        CudaLayers::default().with_tf32(match options.tf32 {
            Some(Tf32Use::None) => Tf32::NONE,
            Some(Tf32Use::Convolutions) | None => Tf32::default(),
            Some(Tf32Use::All) => Tf32::ALL,
        })
    }
}

#[cfg(not(any(feature = "cuda", feature = "cuda-emulator")))]
mod there {
    use super::DeviceOptions;
    use ixion::engine::{Builder, EngineError, PlanFile};

    pub(super) fn of_builder(_: Builder, id: &str, _: &DeviceOptions) -> ixion::Result<Builder> {
        Err(absent(id))
    }

    pub(super) fn of_file(_: PlanFile, id: &str, _: &DeviceOptions) -> ixion::Result<PlanFile> {
        Err(absent(id))
    }

    fn absent(id: &str) -> ixion::Error {
        let advice =
            "this package of Ixion was built for the CPU only; build it from source with `--features cuda`";
        EngineError::Device(format!("there is no device `{id}`: {advice}").into()).into()
    }
}
