//! Tiles that blocks of tensor cores compute: of which size, and how many blocks share the depth of a product.

use super::support::int;
use super::ways::Way;
use crate::cuda::device::{Argument, DeviceTensor, Grid, Info, Kernel, Unit};
use crate::cuda::{CudaContext, scratch_bytes};
use crate::op::{LayerError, TensorMeta};
use crate::tensor::{DType, Shape};
use smallvec::SmallVec;

/// Blocks that a large GPU runs side by side. It is a constant so that plans are the same everywhere.
const SIDE_BY_SIDE: usize = 128;

/// The most blocks along y and z.
const MOST: usize = 65535;

/// The fewest steps along the depth that are worth a block of their own.
const FEWEST_STEPS: usize = 4;

/// Bytes of a row of a tile that a step multiplies.
const STEP: usize = 64;

/// How a product is cut into tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tiles {
    /// Rows, and columns, of a tile.
    side: usize,
    /// Products that are independent of each other.
    batches: usize,
    /// Tiles of a product along columns and rows.
    tiles: [usize; 2],
    /// Blocks that share the depth of a tile.
    parts: usize,
}

/// What a launch does, as `tiles.cuh` calls it.
const WHOLE: i32 = 0;
const PART: i32 = 1;
const ADD: i32 = 2;

impl Tiles {
    /// The sides of large and small ones.
    pub(super) const LARGE: usize = 128;
    pub(super) const SMALL: usize = 64;

    /// The tiles of so many products of rows by columns, of factors of this type; of which size, unless the way says so, depends on
    /// how many there are.
    pub(super) fn of(
        batches: usize,
        [rows, columns, depth]: [usize; 3],
        dtype: DType,
        (way, context): (Way, &CudaContext<'_>),
    ) -> Self {
        let cut = |side: usize| {
            let tiles = [columns.div_ceil(side), rows.div_ceil(side)];
            Self { side, batches, tiles, parts: 1 }
        };
        let large = cut(Self::LARGE);
        let is_large = match way {
            Way::Tiles(side) => side == Self::LARGE,
            _ => large.count() >= SIDE_BY_SIDE,
        };
        if is_large && Self::shared(Self::LARGE) <= context.device().info().shared_memory {
            return large;
        }
        let (small, steps) = (cut(Self::SMALL), depth.saturating_mul(dtype.size()).div_ceil(STEP));
        let parts = (SIDE_BY_SIDE / small.count().max(1)).min(steps / FEWEST_STEPS);
        let has_room = context.scratch_left() >= Self::workspace();
        Self { parts: if has_room { parts.max(1) } else { 1 }, ..small }
    }

    /// The bytes of scratch memory that products of any size need: there are few tiles where blocks share the depth of one.
    pub(super) fn workspace() -> usize {
        scratch_bytes(DType::F32, SIDE_BY_SIDE * Self::SMALL * Self::SMALL)
    }

    /// Whether so many rows have a block each: a launch has few of them along that axis.
    pub(super) fn have_room(rows: usize) -> bool {
        rows.div_ceil(Self::SMALL) <= MOST
    }

    fn count(&self) -> usize {
        self.batches.saturating_mul(self.tiles.iter().product())
    }

    /// Bytes that the threads of a block share, for tiles of this side: four stages of rows and columns, 80 bytes each.
    pub(super) fn shared(side: usize) -> u32 {
        4 * 2 * side as u32 * 80
    }

    /// The source with the sizes of tiles.
    pub(super) fn define(&self, unit: Unit) -> Unit {
        let warp_rows = if self.side == Self::LARGE { 64 } else { 32 };
        unit.define("ROWS", self.side).define("COLUMNS", self.side).define("WARP_ROWS", warp_rows)
    }

    /// Launches a kernel whose last parameters are `f32* parts, int splits, int phase`.
    pub(super) fn launch(
        &self,
        kernel: &Kernel,
        arguments: &[Argument<'_>],
        sums: DType,
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError> {
        let tile = self.side * self.side;
        let parts = match self.parts {
            1 => None,
            parts => Some(context.scratch(sums, Shape::new(&[parts * self.count() * tile])?)?),
        };
        let launch = |phase: i32, batches: usize, context: &mut CudaContext<'_>| {
            let mut arguments: SmallVec<[Argument<'_>; 32]> = SmallVec::from_slice(arguments);
            arguments.extend([
                parts.map_or(Argument::None, Argument::Write),
                Argument::Int(int(self.parts)?),
                Argument::Int(phase),
            ]);
            let [along_columns, along_rows] = self.tiles;
            let blocks = [along_columns, along_rows, batches.min(MOST)];
            let blocks = blocks.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            let threads = if self.side == Self::LARGE { 256 } else { 128 };
            context.launch(
                kernel,
                Grid { blocks, shared: Self::shared(self.side), ..Grid::of(1, threads) },
                &arguments,
            )
        };
        if parts.is_none() {
            return launch(WHOLE, self.batches, context);
        }
        launch(PART, self.batches * self.parts, context)?;
        launch(ADD, self.batches, context)
    }
}

/// How many numbers of a type are copied at once.
pub(super) fn chunk(dtype: DType) -> usize {
    16 / dtype.size()
}

/// Whether a matrix of a batch can be copied 16 bytes at a time: numbers lie side by side along an axis of its layout, and everything
/// else begins on such a boundary.
pub(super) fn is_copied(tensor: &DeviceTensor<'_>, strides: &[i64], along: i64) -> bool {
    let chunk = chunk(tensor.dtype()) as i64;
    along == 1 && tensor.is_aligned(16) && strides.iter().all(|stride| stride % chunk == 0)
}

/// The scratch memory of a product whose first factor is this.
pub(super) fn workspace(inputs: &[TensorMeta]) -> usize {
    let may_suit = |dtype: DType| matches!(dtype, DType::F16 | DType::Bf16 | DType::F32 | DType::I8);
    inputs.first().filter(|meta| may_suit(meta.dtype())).map_or(0, |_| Tiles::workspace())
}

/// Whether tensor cores multiply numbers of a type, and f32 as TF32 if that is allowed.
pub(super) fn suit(dtype: DType, allow_tf32: bool, info: &Info) -> bool {
    let is_known = matches!(dtype, DType::F16 | DType::Bf16) || (dtype == DType::F32 && allow_tf32);
    is_known && info.has_tensor_cores
}
