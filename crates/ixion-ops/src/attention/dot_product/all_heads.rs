//! Attention of all heads together, in `f32`.

use crate::matmul::product::storage;
use crate::op::Result;
use ixion_kernels::attention::{Heads, Matrices, Place, Sizes};
use ixion_tensor::{DType, Limits, TensorView};
use ndarray::{ArrayView4, ArrayViewD, ArrayViewMut2, Axis, s};

/// With fewer queries, packing keys and values does not pay.
const MIN_ROWS: usize = 8;

/// The sizes for an output, given the number of columns of the scores and the length of a query; `None` if this algorithm does
/// not suit them.
pub(super) fn sizes_of(output: &[usize], columns: usize, width: usize) -> Option<Sizes> {
    let [batch @ .., rows, out_width] = output else { return None };
    let (samples, heads) = match *batch {
        [] => (1, 1),
        [heads] => (1, heads),
        [samples, heads] => (samples, heads),
        _ => return None,
    };
    let sizes = Sizes { samples, heads, rows: *rows, columns, width, out_width: *out_width };
    (columns > 0 && width > 0 && *rows >= MIN_ROWS).then_some(sizes)
}

/// Queries, keys and values, with the parameters of the attention.
pub(super) struct AllHeads<'a> {
    pub(super) sizes: Sizes,
    pub(super) parts: [Matrices<'a>; 3],
    pub(super) mask: Option<ArrayView4<'a, f32>>,
    pub(super) scale: f64,
    pub(super) causal: bool,
}

/// The matrices of a tensor whose batch axes are broadcast, where each head is shared by `shared` heads of the queries; `None`
/// if its rows are not contiguous, or if it is empty or not `f32`.
pub(super) fn matrices<'a>(tensor: &TensorView<'a>, shared: usize) -> Result<Option<Matrices<'a>>> {
    let layout = tensor.layout();
    let (shape, strides) = (layout.shape(), layout.strides());
    let place = match *strides {
        [row, _] => Place { sample: 0, head: 0, row, shared },
        [head, row, _] => Place { sample: 0, head, row, shared },
        [sample, head, row, _] => Place { sample, head, row, shared },
        _ => return Ok(None),
    };
    let is_contiguous = strides.last() == Some(&1) || shape.last() == Some(&1);
    if tensor.dtype() != DType::F32 || !is_contiguous || tensor.num_elements() == 0 {
        return Ok(None);
    }
    Ok(Some(Matrices { data: storage::<f32>(tensor)?, place }))
}

/// A mask with up to four axes as samples×heads×rows×columns.
///
/// # Errors
/// Fails if the mask has more than four axes.
pub(super) fn of_all_heads(mut mask: ArrayViewD<'_, f32>) -> Result<ArrayView4<'_, f32>> {
    while mask.ndim() < 4 {
        mask.insert_axis_inplace(Axis(0));
    }
    Ok(mask.into_dimensionality()?)
}

impl AllHeads<'_> {
    /// Writes the output in row-major order.
    pub(super) fn run(&self, output: &mut [f32], scratch: &mut [f32], limits: &Limits) -> Result<()> {
        let Sizes { heads, rows, out_width, .. } = self.sizes;
        let add = |at: [usize; 2], first: usize, mut block: ArrayViewMut2<'_, f32>| {
            let Some(mask) = &self.mask else { return };
            block += &mask.slice(s![at[0], at[1], first..first + block.nrows(), ..]);
        };
        let [query, key, value] = self.parts;
        let all = Heads {
            sizes: self.sizes,
            query,
            key,
            value,
            mask: self.mask.is_some().then_some(&add),
            scale: self.scale as f32,
            causal: self.causal,
            blind_is_zero: true,
        };
        let head = rows * out_width;
        let place = Place { sample: heads * head, head, row: out_width, shared: 1 };
        Ok(all.attend((output, place), scratch, limits)?)
    }
}
