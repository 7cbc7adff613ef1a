//! The ways of computing products and convolutions, which are their tactics: by a library, in tiles of tensor cores of either size, or
//! without these.

use super::tiles::{self, Tiles};
use crate::cuda::device::Info;
use crate::cuda::no_tactic;
use crate::op::{LayerError, Tactic, TensorMeta};
use crate::ops::inserted::device_tactic::DeviceTactic;
use crate::tensor::DType;

/// A way of computing a product. One that is not possible for some tensors gives way to the choice by their types and sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Way {
    /// By a library that can, else as types and sizes suggest.
    #[default]
    Any,
    /// In tiles of tensor cores that are so long and wide.
    Tiles(usize),
    /// Without tensor cores.
    Plain,
}

/// All ways, the one for general use first, and what they are called.
const ALL: [(Way, Tactic); 4] = [
    (Way::Any, Tactic::DEFAULT),
    (Way::Tiles(Tiles::LARGE), Tactic { id: 1, name: "tiles-128" }),
    (Way::Tiles(Tiles::SMALL), Tactic { id: 2, name: "tiles-64" }),
    (Way::Plain, Tactic { id: 3, name: "plain" }),
];

impl Way {
    /// The tactics of a layer of products.
    pub(super) fn tactics(device: &Info) -> Vec<Tactic> {
        let count = if device.has_tensor_cores { ALL.len() } else { 1 };
        ALL.iter().take(count).map(|(_, tactic)| *tactic).collect()
    }

    /// Settles the tactic of this number.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] where there is none.
    pub(super) fn settle(settled: &mut DeviceTactic, id: u32) -> Result<(), LayerError> {
        if ALL.iter().all(|(_, tactic)| tactic.id != id) {
            return Err(no_tactic(id));
        }
        *settled = DeviceTactic(id);
        Ok(())
    }

    /// The way that is settled.
    pub(super) fn of(settled: DeviceTactic) -> Self {
        let found = ALL.iter().find(|(_, tactic)| tactic.id == settled.0);
        found.map_or(Self::Any, |(way, _)| *way)
    }

    /// The scratch memory that products of these factors make use of.
    pub(super) fn workspace(self, inputs: &[TensorMeta]) -> usize {
        match self {
            Self::Any | Self::Tiles(Tiles::SMALL) => tiles::workspace(inputs),
            Self::Tiles(_) | Self::Plain => 0,
        }
    }

    /// Whether it may be another than the first for factors of one type, with f32 as TF32 where that is allowed and perhaps by a
    /// library: whole numbers are multiplied in tiles, halves by kernels in nothing else that would be worth a try.
    pub(super) fn suits(
        self,
        factor: Option<&TensorMeta>,
        (allow_tf32, has_library): (bool, bool),
        device: &Info,
    ) -> bool {
        let Some(dtype) = factor.map(TensorMeta::dtype) else { return false };
        let is_whole = dtype == DType::I8 && factor.is_some_and(|factor| factor.scale().is_some());
        let is_tiled = is_whole || tiles::suit(dtype, allow_tf32, device);
        match self {
            Self::Any => true,
            Self::Tiles(side) => is_tiled && Tiles::shared(side) <= device.shared_memory,
            Self::Plain => dtype == DType::F32 && (is_tiled || has_library),
        }
    }
}

/// What a layer of products says of its tactics, of which the settled one stands in its field `on_device`, and of the scratch memory
/// that they make use of. `$of` says where TF32 is allowed; a method of the layer may say whether tiles are possible at all.
macro_rules! ways {
    ($of:ident $(, $is_possible:ident)?) => {
        fn tactics(&self, device: &crate::cuda::device::Info) -> Vec<crate::op::Tactic> {
            Way::tactics(device)
        }

        fn set_tactic(&mut self, id: u32) -> Result<(), LayerError> {
            Way::settle(&mut self.on_device, id)
        }

        fn suits(
            &self,
            device: &crate::cuda::device::Info,
            tf32: crate::cuda::Tf32,
            inputs: &[TensorMeta],
            _: &[TensorMeta],
        ) -> bool {
            let terms = (tf32.$of, device.libraries.$of.is_some());
            let way = Way::of(self.on_device);
            way == Way::Any || ($(self.$is_possible() &&)? way.suits(inputs.first(), terms, device))
        }

        fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
            Way::of(self.on_device).workspace(inputs)
        }

        fn least_workspace(&self, _: &[TensorMeta], _: &[TensorMeta]) -> usize {
            0
        }
    };
}
pub(super) use ways;
