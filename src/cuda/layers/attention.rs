//! Scaled dot-product attention.

use super::prelude::*;
use super::support::{input, int, is_float, is_real, kernel_lengths, matrix_strides, typed};
use super::tiles::{self, is_vectorized};
use crate::cuda::device::Info;
use crate::ops::attention::dot_product::ScaledDotProductAttention;
use crate::tensor::MAX_RANK;
use smallvec::SmallVec;

/// The layers of this file.
pub(super) const LAYERS: &[&dyn Entry] = &[&Own::<ScaledDotProductAttention>::ENTRY];

/// The rows of a block, and its maximum shared memory in bytes.
const ROWS: usize = 16;
const MAX_SHARED: usize = 48 * 1024;

/// Attention of a batch of heads. All tensors have the batch axes before their last two axes.
#[derive(Clone, Copy)]
pub(super) struct Attention<'a> {
    pub(super) query: DeviceTensor<'a>,
    pub(super) key: DeviceTensor<'a>,
    pub(super) value: DeviceTensor<'a>,
    /// The mask, …×L×S.
    pub(super) mask: Option<DeviceTensor<'a>>,
    /// A mask that is the same for all rows.
    pub(super) padding: Option<DeviceTensor<'a>>,
    /// The truth value of masks for a visible column.
    pub(super) mask_keep: bool,
    /// The number of columns that masks cover.
    pub(super) mask_columns: usize,
    pub(super) scale: f64,
    pub(super) is_causal: bool,
    /// Whether rows without visible columns are 0; otherwise they are NaN.
    pub(super) masked_row_is_zero: bool,
}

/// The maximum number of keys in a block at a time, and the shared memory for them in bytes.
fn tile(dtype: DType, width: usize, out: usize) -> Option<(usize, usize)> {
    let size = if dtype == DType::F64 { 8 } else { 4 };
    let bytes = |tile: usize| (ROWS * width + tile * (width + 1) + tile * out) * size;
    [32, 16, 8, 4].into_iter().map(|tile| (tile, bytes(tile))).find(|(_, bytes)| *bytes <= MAX_SHARED)
}

/// Checks that there is a kernel for heads of this width.
///
/// # Errors
/// [`LayerError::Unsupported`] if there is none.
pub(super) fn check(dtype: DType, width: usize, out: usize) -> Result<()> {
    const MAX_WIDTH: usize = 512;
    match tile(dtype, width, out).filter(|_| out <= MAX_WIDTH) {
        Some(_) => Ok(()),
        None => Err(unsupported_width(width, out)),
    }
}

fn unsupported_width(width: usize, out: usize) -> LayerError {
    LayerError::Unsupported(format!("heads of width {width} (keys) and {out} (values) are too wide"))
}

/// The tiling of attention for tensor cores, as in `attention_tiles.cu`.
struct Tiles {
    /// The padded width of queries and keys, and of values.
    depth: usize,
    out: usize,
    /// The number of keys in a block at a time; there are two such stages.
    keys: usize,
    /// The bytes of an element.
    size: usize,
}

impl Tiles {
    /// The rows of a block.
    const ROWS: usize = 64;

    /// The tiling for heads of this width, or `None` if tensor cores cannot compute them. This is the only place that decides.
    fn of(dtype: DType, widths: [usize; 2], (allow_tf32, info): (bool, &Info)) -> Option<Self> {
        const MAX_WIDTH: usize = 128;
        /// The bytes of a row that an instruction multiplies.
        const STEP: usize = 32;
        let chunk = tiles::chunk(dtype);
        let is_supported = |width: &usize| (1..=MAX_WIDTH).contains(width) && width.is_multiple_of(chunk);
        if !tiles::supports(dtype, allow_tf32, info) || !widths.iter().all(is_supported) {
            return None;
        }
        let size = dtype.size();
        let [depth, out] = widths.map(|width| width.next_multiple_of(STEP / size));
        let keys = if depth.max(out) <= 64 { 128 } else { 64 } / size;
        Some(Self { depth, out, keys, size }).filter(|tiles| tiles.shared() <= info.shared_memory as usize)
    }

    /// The shared memory of a block in bytes: its rows, and two stages of keys and values, with 16 bytes of padding after each
    /// row.
    fn shared(&self) -> usize {
        let row = |numbers: usize| self.size * numbers + 16;
        Self::ROWS * row(self.depth.max(self.out)) + 2 * self.keys * (row(self.depth) + row(self.out))
    }

    fn define(&self, unit: Unit) -> Unit {
        unit.define("DEPTH", self.depth).define("OUT", self.out).define("KEYS", self.keys)
    }
}

/// The strides of a tensor that is broadcast to a batch and the lengths of its last two axes.
fn kernel_strides(layout: &Layout, batch: &[usize], last: [usize; 2]) -> Result<KernelStrides> {
    Ok(matrix_strides(&layout.expand(&[batch, &last].concat())?, batch.len()))
}

/// As [`kernel_strides`], as an argument.
pub(super) fn strides_of(layout: &Layout, batch: &[usize], last: [usize; 2]) -> Result<Argument<'static>> {
    kernel_strides(layout, batch, last).map(Argument::Strides)
}

/// The number and the sizes of heads.
struct Sizes {
    batch: SmallVec<[usize; MAX_RANK]>,
    rows: usize,
    columns: usize,
    width: usize,
    out: usize,
}

impl<'a> Attention<'a> {
    /// A source with the definitions for masks.
    pub(super) fn unit(&self, name: &'static str, text: &'static str) -> Result<Unit> {
        let dtype = self.query.dtype();
        let of = |mask: Option<DeviceTensor<'_>>| mask.map_or(dtype, |mask| mask.dtype());
        let is_bool = |mask: Option<DeviceTensor<'_>>| u8::from(of(mask) == DType::Bool);
        Ok(typed(Unit::new(name, text), dtype)?
            .define("M", of(self.mask).name())
            .define("P", of(self.padding).name())
            .define("MASK_IS_BOOL", is_bool(self.mask))
            .define("PADDING_IS_BOOL", is_bool(self.padding))
            .define("MASK_KEEP", u8::from(self.mask_keep)))
    }

    /// The arguments for masks.
    pub(super) fn masks(&self, batch: &[usize], rows: usize) -> Result<[Argument<'a>; 4]> {
        let last = [rows, self.mask_columns];
        let strides = |mask: Option<DeviceTensor<'a>>| match mask {
            Some(mask) => strides_of(mask.layout(), batch, last),
            None => Ok(Argument::Strides(KernelStrides::default())),
        };
        let read = |mask: Option<DeviceTensor<'a>>| mask.map_or(Argument::None, Argument::Read);
        Ok([read(self.mask), strides(self.mask)?, read(self.padding), strides(self.padding)?])
    }

    fn sizes(&self, y: &DeviceTensor<'a>) -> Sizes {
        let last = |tensor: &DeviceTensor<'_>, axis: usize| {
            tensor.shape().iter().rev().nth(axis).copied().unwrap_or(1)
        };
        let rank = y.shape().len();
        Sizes {
            batch: y.shape().iter().take(rank.saturating_sub(2)).copied().collect(),
            rows: last(y, 1),
            columns: last(&self.key, 1),
            width: last(&self.key, 0),
            out: last(y, 0),
        }
    }

    /// Computes the attention.
    ///
    /// # Errors
    /// Returns an error if the shapes do not match.
    pub(super) fn run(&self, y: &DeviceTensor<'a>, context: &mut CudaContext<'_>) -> Result<()> {
        let sizes = self.sizes(y);
        let may_be_used = (context.tf32().products, context.device().info());
        match Tiles::of(self.query.dtype(), [sizes.width, sizes.out], may_be_used) {
            Some(tiles) => self.run_tiles(&tiles, y, &sizes, context),
            None => self.run_plain(y, &sizes, context),
        }
    }

    /// Computes the attention with tensor cores.
    fn run_tiles(
        &self,
        tiles: &Tiles,
        y: &DeviceTensor<'a>,
        sizes: &Sizes,
        context: &mut CudaContext<'_>,
    ) -> Result<()> {
        let attention = self.with_mask_of_columns(sizes)?;
        let unit = attention.unit("attention_tiles.cu", include_str!("../kernels/attention_tiles.cu"))?;
        let mut unit = tiles
            .define(unit)
            .define("HAS_MASK", u8::from(attention.mask.is_some()))
            .define("HAS_PADDING", u8::from(attention.padding.is_some()));
        let &Sizes { ref batch, rows, columns, width, out } = sizes;
        for (name, tensor, last) in [
            ("Q_VECTORIZED", &self.query, [rows, width]),
            ("K_VECTORIZED", &self.key, [columns, width]),
            ("V_VECTORIZED", &self.value, [columns, out]),
            ("Y_VECTORIZED", y, [rows, out]),
        ] {
            let strides = kernel_strides(tensor.layout(), batch, last)?.by;
            unit = unit.define(name, u8::from(is_vectorized(tensor, &strides[..7], strides[7])));
        }
        attention.launch(unit, [Tiles::ROWS, tiles.shared()], y, sizes, context)
    }

    /// Computes the attention without tensor cores.
    fn run_plain(&self, y: &DeviceTensor<'a>, sizes: &Sizes, context: &mut CudaContext<'_>) -> Result<()> {
        let &Sizes { width, out, .. } = sizes;
        let (tile, shared) =
            tile(self.query.dtype(), width, out).ok_or_else(|| unsupported_width(width, out))?;
        let unit = self
            .unit("attention.cu", include_str!("../kernels/attention.cu"))?
            .define("TILE", tile)
            .define("CHUNKS", out.div_ceil(32).max(1));
        self.launch(unit, [ROWS, shared], y, sizes, context)
    }

    /// Turns a mask that does not depend on the row into a padding mask, which is read once for all rows of a thread.
    fn with_mask_of_columns(&self, sizes: &Sizes) -> Result<Self> {
        let (Some(mask), None) = (self.mask, self.padding) else { return Ok(*self) };
        let strides = kernel_strides(mask.layout(), &sizes.batch, [sizes.rows, self.mask_columns])?;
        let is_of_columns = sizes.rows == 1 || strides.by[6] == 0;
        Ok(if is_of_columns { Self { mask: None, padding: self.mask, ..*self } } else { *self })
    }

    /// Launches the kernel of a source, with the rows and the shared memory of its blocks.
    fn launch(
        &self,
        unit: Unit,
        [of_block, shared]: [usize; 2],
        y: &DeviceTensor<'a>,
        sizes: &Sizes,
        context: &mut CudaContext<'_>,
    ) -> Result<()> {
        let unit = unit
            .define("CAUSAL", u8::from(self.is_causal))
            .define("MASKED_ROW_IS_ZERO", u8::from(self.masked_row_is_zero));
        let &Sizes { ref batch, rows, columns, width, out } = sizes;
        let [mask, mask_strides, padding, padding_strides] = self.masks(batch, rows)?;
        let batches: usize = batch.iter().product();
        let arguments = [
            Argument::Read(self.query),
            strides_of(self.query.layout(), batch, [rows, width])?,
            Argument::Read(self.key),
            strides_of(self.key.layout(), batch, [columns, width])?,
            Argument::Read(self.value),
            strides_of(self.value.layout(), batch, [columns, out])?,
            mask,
            mask_strides,
            padding,
            padding_strides,
            Argument::Write(*y),
            strides_of(y.layout(), batch, [rows, out])?,
            Argument::Shape(kernel_lengths(batch.iter().copied())?),
            Argument::Long(batches as i64),
            Argument::Int(int(rows)?),
            Argument::Int(int(columns)?),
            Argument::Int(int(self.mask_columns)?),
            Argument::Int(int(width)?),
            Argument::Int(int(out)?),
            Argument::Double(self.scale),
        ];
        const MAX_BLOCKS: usize = 65535;
        let blocks = [rows.div_ceil(of_block), batches.min(MAX_BLOCKS)].map(|count| count as u32);
        let grid = Grid {
            blocks: [blocks[0], blocks[1], u32::from(out > 0)],
            threads: [128, 1, 1],
            shared: shared as u32,
        };
        context.run(&unit, "attention", grid, &arguments)
    }
}

/// Splits the head axis (−3) in two, where several adjacent query heads share one head of keys and values: queries (`is_query`)
/// are split into groups of `group_size` heads; for keys and values, the second axis is broadcast.
fn group_heads<'a>(tensor: &DeviceTensor<'a>, group_size: usize, is_query: bool) -> Result<DeviceTensor<'a>> {
    let (mut dims, mut strides) = (tensor.shape().dims().to_vec(), tensor.layout().strides().to_vec());
    let Some(axis) = dims.len().checked_sub(3) else { return Ok(*tensor) };
    if is_query {
        dims.insert(axis + 1, group_size);
        dims[axis] /= group_size.max(1);
        let stride = strides[axis];
        strides.insert(axis + 1, stride);
        strides[axis] = stride * group_size;
    } else {
        dims.insert(axis + 1, 1);
        strides.insert(axis + 1, 0);
    }
    Ok(tensor.with_axes(&dims, &strides)?)
}

/// The number of query heads that share one head of keys, and of values.
fn group_sizes(
    layer: &ScaledDotProductAttention,
    heads: impl Fn(usize) -> Option<i64>,
) -> Result<[usize; 2]> {
    let group_size = |position: usize| -> Result<usize> {
        let group_size = layer.shared_heads(heads(0), heads(position))?;
        Ok(usize::try_from(group_size).unwrap_or(1).max(1))
    };
    Ok([group_size(layer.key.0)?, group_size(layer.value.0)?])
}

impl CudaLayer for ScaledDotProductAttention {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let is_mask = self.attn_mask.0 == Some(position);
        if is_mask { is_real(position, formats) } else { is_float(position, formats) }
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        let last = |meta: Option<&TensorMeta>| {
            meta?.dims().last()?.fixed().and_then(|len| usize::try_from(len).ok())
        };
        let dtype = inputs.first().map_or(DType::F32, TensorMeta::dtype);
        check(dtype, last(inputs.first()).unwrap_or(1), last(outputs.first()).unwrap_or(1))?;
        let heads = |position: usize| inputs.get(position)?.dims().iter().rev().nth(2)?.fixed();
        let [keys, values] = group_sizes(self, heads)?;
        let rank = outputs.first().map_or(0, TensorMeta::rank);
        match keys == values && rank <= if keys > 1 { 7 } else { 8 } {
            true => Ok(()),
            false => Err(LayerError::Unsupported(
                "keys and values must have the same number of heads, and at most 8 axes (7 if queries share heads)".to_owned(),
            )),
        }
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let (mut key, mut value) = (input(io.inputs, self.key.0)?, input(io.inputs, self.value.0)?);
        let (mut query, mut y) = (io.inputs[0], io.outputs[0]);
        let mut mask = self.attn_mask.0.map(|position| input(io.inputs, position)).transpose()?;
        let heads = |position: usize| {
            let heads = io.inputs.get(position)?.shape().iter().rev().nth(2)?;
            i64::try_from(*heads).ok()
        };
        let [group_size, _] = group_sizes(self, heads)?;
        let columns = key.shape().iter().rev().nth(1).copied().unwrap_or(1);
        if group_size > 1 {
            if let Some(own) = mask {
                let (dims, rows) = (y.shape().dims(), y.shape().iter().rev().nth(1).copied().unwrap_or(1));
                let batch = dims.split_at(dims.len().saturating_sub(2)).0;
                let expanded = own.expand(&[batch, &[rows, columns]].concat())?;
                mask = Some(group_heads(&expanded, group_size, true)?);
            }
            (query, y) = (group_heads(&query, group_size, true)?, group_heads(&y, group_size, true)?);
            (key, value) = (group_heads(&key, group_size, false)?, group_heads(&value, group_size, false)?);
        }
        let width = query.shape().last().copied().unwrap_or(1);
        let attention = Attention {
            query,
            key,
            value,
            mask,
            padding: None,
            mask_keep: true,
            mask_columns: columns,
            scale: self.scale.unwrap_or(1.0 / (width as f64).sqrt()),
            is_causal: self.is_causal,
            masked_row_is_zero: true,
        };
        attention.run(&y, io.context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_for_tensor_cores(
        dtype: DType,
        widths: [usize; 2],
        [has_tensor_cores, allow_tf32]: [bool; 2],
    ) -> bool {
        let text = String::new;
        let (id, name, details, target) = (text(), text(), text(), text());
        let (memory, multiprocessors, shared_memory) = (1 << 30, 1, 96 * 1024);
        let libraries = crate::cuda::device::Libraries::default();
        let info = Info {
            id,
            name,
            details,
            target,
            memory,
            multiprocessors,
            shared_memory,
            has_tensor_cores,
            libraries,
        };
        Tiles::of(dtype, widths, (allow_tf32, &info)).is_some()
    }

    #[test]
    fn tensor_cores_take_whole_chunks() {
        for width in [8, 64, 72, 128] {
            for dtype in [DType::F16, DType::Bf16] {
                assert!(is_for_tensor_cores(dtype, [width, 128], [true, false]));
                assert!(is_for_tensor_cores(dtype, [128, width], [true, false]));
                assert!(!is_for_tensor_cores(dtype, [width, width], [false, true]));
            }
        }
        for width in [0, 4, 60, 136] {
            assert!(!is_for_tensor_cores(DType::F16, [width, 64], [true, true]));
            assert!(!is_for_tensor_cores(DType::F16, [64, width], [true, true]));
        }
    }

    #[test]
    fn f32_is_multiplied_as_tf32_only_if_that_is_allowed() {
        for width in [4, 60, 64, 128] {
            assert!(is_for_tensor_cores(DType::F32, [width, 128], [true, true]));
            assert!(!is_for_tensor_cores(DType::F32, [width, 128], [true, false]));
            assert!(!is_for_tensor_cores(DType::F32, [width, 128], [false, true]));
        }
        for (dtype, width) in [(DType::F32, 0), (DType::F32, 62), (DType::F32, 132), (DType::F64, 64)] {
            assert!(!is_for_tensor_cores(dtype, [width, 64], [true, true]));
        }
    }
}
