//! The tactics of products and convolutions: a library, tensor-core tiles of two sizes, or plain kernels.

use super::tiles::{self, Tiles};
use crate::cuda::device::Info;
use crate::cuda::no_tactic;
use crate::op::{Result, Tactic, TensorMeta};
use crate::ops::inserted::device_tactic::DeviceTactic;
use crate::tensor::{DType, Format};

/// An algorithm for products. If it does not support certain tensors, the choice falls back to their types and sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ProductTactic {
    /// A library if it can, else as types and sizes suggest.
    #[default]
    Auto,
    /// Tensor-core tiles with this side.
    Tiles(usize),
    /// Kernels without tensor cores.
    Plain,
}

/// All algorithms with their IDs and names, the general-purpose one first.
const ALL: [(ProductTactic, Tactic); 4] = [
    (ProductTactic::Auto, Tactic::DEFAULT),
    (ProductTactic::Tiles(Tiles::LARGE), Tactic { id: 1, name: "tiles-128" }),
    (ProductTactic::Tiles(Tiles::SMALL), Tactic { id: 2, name: "tiles-64" }),
    (ProductTactic::Plain, Tactic { id: 3, name: "plain" }),
];

impl ProductTactic {
    /// The tactics of a layer of products.
    pub(super) fn tactics(device: &Info) -> Vec<Tactic> {
        let count = if device.has_tensor_cores { ALL.len() } else { 1 };
        ALL.iter().take(count).map(|(_, tactic)| *tactic).collect()
    }

    /// The side of tiles that this tactic determines.
    pub(super) fn tile_side(self) -> Option<usize> {
        if let Self::Tiles(side) = self { Some(side) } else { None }
    }

    /// Selects the tactic with this ID.
    ///
    /// # Errors
    /// [`Unsupported`](crate::op::LayerError::Unsupported) if there is no such tactic.
    pub(super) fn select(tactic: &mut DeviceTactic, id: u32) -> Result<()> {
        if ALL.iter().all(|(_, tactic)| tactic.id != id) {
            return Err(no_tactic(id));
        }
        *tactic = DeviceTactic(id);
        Ok(())
    }

    /// The algorithm of the selected tactic.
    pub(super) fn of(selected: DeviceTactic) -> Self {
        let found = ALL.iter().find(|(_, tactic)| tactic.id == selected.0);
        found.map_or(Self::Auto, |(algorithm, _)| *algorithm)
    }

    /// The bytes of scratch memory that products with these inputs use.
    pub(super) fn workspace(self, inputs: &[TensorMeta]) -> usize {
        match self {
            Self::Auto | Self::Tiles(Tiles::SMALL) => tiles::workspace(inputs),
            Self::Tiles(_) | Self::Plain => 0,
        }
    }

    /// The bytes of scratch memory with which a library can choose among its algorithms for products with these inputs.
    pub(super) fn library_workspace(self, inputs: &[TensorMeta], has_library: bool) -> usize {
        /// What cuBLASLt's documentation recommends for a GPU like the H100. With the 2 MiB of our own kernels, cuDNN computed
        /// 13 of ResNet-50's convolutions without tensor cores: 17.4 instead of 4.1 ms on an H200, for f32 and a batch of 64.
        const BYTES: usize = 32 << 20;
        /// For pictures with three channels, cuDNN asked for 2.5 times the bytes that they take with 16 bytes of channels.
        const COPIES: usize = 3;
        let Some(first) = inputs.first().filter(|_| has_library && self == Self::Auto) else { return 0 };
        BYTES.saturating_add(padded_channels(first).saturating_mul(COPIES))
    }

    /// Returns true if it may differ from the first for factors of this type, given whether f32 may be multiplied as TF32 and
    /// whether there is a library. Quantised values are multiplied in tiles; for f16 and bf16, no other kernel is worth trying.
    pub(super) fn suits(
        self,
        factor: Option<&TensorMeta>,
        (allow_tf32, has_library): (bool, bool),
        device: &Info,
    ) -> bool {
        let Some(dtype) = factor.map(TensorMeta::dtype) else { return false };
        let is_int8 = dtype == DType::I8 && factor.is_some_and(|factor| factor.scale().is_some());
        let is_tiled = is_int8 || tiles::supports(dtype, allow_tf32, device);
        match self {
            Self::Auto => true,
            Self::Tiles(side) => is_tiled && Tiles::shared(side) <= device.shared_memory,
            Self::Plain => dtype == DType::F32 && (is_tiled || has_library),
        }
    }
}

/// The bytes of a channels-last copy of a tensor whose channels are not a multiple of 16 bytes, in which they are: tensor cores
/// read it instead.
fn padded_channels(input: &TensorMeta) -> usize {
    let lens = input.dims().iter().map(|dim| dim.fixed().and_then(|len| usize::try_from(len).ok()));
    let (Some(lens), true) = (lens.collect::<Option<Vec<_>>>(), input.format() == Format::ChannelsLast)
    else {
        return 0;
    };
    let (chunk, channels) = (tiles::chunk(input.dtype()), lens.get(1).copied().unwrap_or(1));
    if channels.is_multiple_of(chunk) {
        return 0;
    }
    let others = lens.iter().enumerate().filter(|(axis, _)| *axis != 1);
    let padded = others.fold(channels.next_multiple_of(chunk), |all, (_, len)| all.saturating_mul(*len));
    padded.saturating_mul(input.dtype().size())
}

/// Implements the tactics of a layer of products, with the selected one in its field `on_device`, and the scratch memory that
/// they use. `$kind` selects the TF32 setting and the library; a method of the layer may return whether tiles are possible at
/// all.
macro_rules! product_tactics {
    ($kind:ident $(, $may_be_tiled:ident)?) => {
        fn tactics(&self, device: &crate::cuda::device::Info) -> Vec<crate::op::Tactic> {
            ProductTactic::tactics(device)
        }

        fn set_tactic(&mut self, id: u32) -> Result<()> {
            ProductTactic::select(&mut self.on_device, id)
        }

        fn suits(
            &self,
            device: &crate::cuda::device::Info,
            tf32: crate::cuda::Tf32,
            inputs: &[TensorMeta],
            _: &[TensorMeta],
        ) -> bool {
            let (allow_tf32, has_library) = (tf32.$kind, device.libraries.$kind.is_some());
            let tactic = ProductTactic::of(self.on_device);
            tactic == ProductTactic::Auto
                || ($(self.$may_be_tiled() &&)? tactic.suits(inputs.first(), (allow_tf32, has_library), device))
        }

        fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
            ProductTactic::of(self.on_device).workspace(inputs)
        }

        fn library_workspace(
            &self,
            libraries: &crate::cuda::device::Libraries,
            inputs: &[TensorMeta],
        ) -> usize {
            let has_library = libraries.$kind.is_some();
            ProductTactic::of(self.on_device).library_workspace(inputs, has_library)
        }

        fn min_workspace(&self, _: &[TensorMeta], _: &[TensorMeta]) -> usize {
            0
        }
    };
}
pub(super) use product_tactics;
