//! Tiling of products for tensor cores: the size of the tiles, and the number of blocks that share the depth of a product.

use super::prelude::*;
use super::support::int;
use crate::cuda::device::{Info, Kernel};
use crate::tensor::Shape;
use smallvec::SmallVec;

/// The number of blocks that a large GPU runs concurrently. A constant, so that plans are the same everywhere.
const CONCURRENT_BLOCKS: usize = 128;

/// The maximum number of blocks along y and z.
const MAX_BLOCKS: usize = 65535;

/// The minimum number of steps along the depth that are worth a block of their own.
const MIN_STEPS: usize = 4;

/// The bytes of each row of a tile that one step multiplies.
const STEP_BYTES: usize = 64;

/// The number of blocks that share a tile when partial sums are added up: enough to keep a GPU busy even if there are few tiles.
const BANDS: usize = 16;

/// The tiling of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tiles {
    /// The number of rows, and of columns, of a tile.
    side: usize,
    /// The number of independent products.
    batches: usize,
    /// The number of tiles of a product along columns and rows.
    tiles: [usize; 2],
    /// The number of blocks that share the depth of a tile.
    splits: usize,
}

/// The phases of a product, as defined in `tiles.cuh`.
const WHOLE: i32 = 0;
const PART: i32 = 1;
const ADD: i32 = 2;

impl Tiles {
    /// The sides of large and small tiles.
    pub(super) const LARGE: usize = 128;
    pub(super) const SMALL: usize = 64;

    /// The tiling of `batches` products of rows by columns, with factors of this type. Unless `side` is given, the size of
    /// tiles depends on their number.
    pub(super) fn of(
        batches: usize,
        [rows, columns, depth]: [usize; 3],
        dtype: DType,
        (side, context): (Option<usize>, &CudaContext<'_>),
    ) -> Self {
        let tiling = |side: usize| {
            let tiles = [columns.div_ceil(side), rows.div_ceil(side)];
            Self { side, batches, tiles, splits: 1 }
        };
        let large = tiling(Self::LARGE);
        let is_large = match side {
            Some(side) => side == Self::LARGE,
            None => large.count() >= CONCURRENT_BLOCKS,
        };
        if is_large && Self::shared(Self::LARGE) <= context.device().info().shared_memory {
            return large;
        }
        let (small, steps) = (tiling(Self::SMALL), depth.saturating_mul(dtype.size()).div_ceil(STEP_BYTES));
        let splits = (CONCURRENT_BLOCKS / small.count().max(1)).min(steps / MIN_STEPS);
        let has_room = context.scratch_left() >= Self::workspace();
        Self { splits: if has_room { splits.max(1) } else { 1 }, ..small }
    }

    /// The bytes of scratch memory that products of any size need: blocks share the depth of a tile only if there are few
    /// tiles.
    pub(super) fn workspace() -> usize {
        scratch_bytes(DType::F32, CONCURRENT_BLOCKS * Self::SMALL * Self::SMALL)
    }

    /// Returns true if a launch can have enough blocks for `rows` rows: the number of blocks along that axis is limited.
    pub(super) fn fit_grid(rows: usize) -> bool {
        rows.div_ceil(Self::SMALL) <= MAX_BLOCKS
    }

    fn count(&self) -> usize {
        self.batches.saturating_mul(self.tiles.iter().product())
    }

    /// The bytes of shared memory of a block, for tiles of this side: four stages of rows and columns, 80 bytes each.
    pub(super) fn shared(side: usize) -> u32 {
        4 * 2 * side as u32 * 80
    }

    /// Defines the sizes of tiles for a source.
    pub(super) fn define(&self, unit: Unit) -> Unit {
        let warp_rows = if self.side == Self::LARGE { 64 } else { 32 };
        let unit = unit.define("ROWS", self.side).define("COLUMNS", self.side);
        unit.define("WARP_ROWS", warp_rows).define("BANDS", BANDS)
    }

    /// Launches a kernel whose last parameters are `f32* parts, int splits, int phase`.
    pub(super) fn launch(
        &self,
        kernel: &Kernel,
        arguments: &[Argument<'_>],
        sums: DType,
        context: &mut CudaContext<'_>,
    ) -> Result<()> {
        let tile = self.side * self.side;
        let partial_sums = match self.splits {
            1 => None,
            splits => Some(context.scratch(sums, Shape::new(&[splits * self.count() * tile])?)?),
        };
        let launch = |phase: i32, batches: usize, context: &mut CudaContext<'_>| {
            let mut arguments: SmallVec<[Argument<'_>; 32]> = SmallVec::from_slice(arguments);
            arguments.extend([
                partial_sums.map_or(Argument::None, Argument::Write),
                Argument::Int(int(self.splits)?),
                Argument::Int(phase),
            ]);
            let [along_columns, along_rows] = self.tiles;
            let blocks = [along_columns, along_rows, batches.min(MAX_BLOCKS)];
            let blocks = blocks.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            let threads = if self.side == Self::LARGE { 256 } else { 128 };
            // Sums are added up in registers.
            let shared = if phase == ADD { 0 } else { Self::shared(self.side) };
            context.launch(kernel, Grid { blocks, shared, ..Grid::of(1, threads) }, &arguments)
        };
        if partial_sums.is_none() {
            return launch(WHOLE, self.batches, context);
        }
        launch(PART, self.batches * self.splits, context)?;
        launch(ADD, self.batches * BANDS, context)
    }
}

/// The number of elements of a type in a copy of 16 bytes.
pub(super) fn chunk(dtype: DType) -> usize {
    16 / dtype.size()
}

/// Returns true if a matrix of a batch can be copied 16 bytes at a time: elements are contiguous along an axis of its layout,
/// and everything else is aligned to such a boundary.
pub(super) fn is_vectorized(tensor: &DeviceTensor<'_>, strides: &[i64], along: i64) -> bool {
    let chunk = chunk(tensor.dtype()) as i64;
    along == 1 && tensor.is_aligned(16) && strides.iter().all(|stride| stride % chunk == 0)
}

/// The scratch memory of a product with these inputs, depending on the type of the first factor.
pub(super) fn workspace(inputs: &[TensorMeta]) -> usize {
    let may_be_tiled = |dtype: DType| matches!(dtype, DType::F16 | DType::Bf16 | DType::F32 | DType::I8);
    inputs.first().filter(|meta| may_be_tiled(meta.dtype())).map_or(0, |_| Tiles::workspace())
}

/// Returns true if tensor cores multiply elements of this type; f32 only if it may be multiplied as TF32.
pub(super) fn supports(dtype: DType, allow_tf32: bool, info: &Info) -> bool {
    let is_supported = matches!(dtype, DType::F16 | DType::Bf16) || (dtype == DType::F32 && allow_tf32);
    is_supported && info.has_tensor_cores
}
