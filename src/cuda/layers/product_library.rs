//! Products by a library of the device, if it has one: the work for the library, and the conditions under which kernels run
//! instead. The shared parts also apply to convolutions.

use super::epilogue::{EpilogueCode, Form};
use super::prelude::*;
use super::product::{Product, ProductLayouts};
use crate::cuda::device::{Activation, LibraryWork, MatrixLayout, ProductWork};
use crate::pnnx::Function;

/// If a library cannot do all of an epilogue, a kernel does it in a second pass over the result. That is worthwhile from this
/// number of multiplications. On an H200, a library took 4 to 5 µs for the smaller layers of networks, and a pass takes 3 to 4;
/// our kernels, which need no pass, took 8.6 µs for the smallest of these, 5 million multiplications, and several times as long
/// as the library for larger ones.
const MIN_MULTIPLICATIONS: usize = 1 << 22;

/// Returns true if a library should do work with this many multiplications. `is_fused`: it can do the whole epilogue, too.
pub(super) fn is_worthwhile(is_fused: bool, multiplications: usize) -> bool {
    is_fused || multiplications >= MIN_MULTIPLICATIONS
}

pub(super) fn scratch<'a>(context: &CudaContext<'a>) -> Result<Argument<'a>> {
    Ok(context.spare_scratch()?.map_or(Argument::None, Argument::Write))
}

/// The layout of a matrix with these strides of rows, columns and batch. `None` if neither rows nor columns are contiguous.
fn matrix_layout(
    [rows, columns]: [usize; 2],
    [by_row, by_column]: [i64; 2],
    batch_stride: i64,
) -> Option<MatrixLayout> {
    let batch_stride = usize::try_from(batch_stride).ok()?;
    let layout = |is_row_major: bool| {
        let (lines, length) = if is_row_major { (rows, columns) } else { (columns, rows) };
        let (stride, line_stride) = if is_row_major { (by_column, by_row) } else { (by_row, by_column) };
        let line_stride = usize::try_from(line_stride).ok()?;
        let is_valid = (stride == 1 || length == 1) && (lines == 1 || line_stride >= length);
        is_valid.then_some(MatrixLayout {
            is_row_major,
            leading_dimension: line_stride.max(length),
            batch_stride,
        })
    };
    layout(true).or_else(|| layout(false))
}

/// The single stride of a batch of several axes; `None` if there is none.
fn batch_stride(dims: &[i32], by: &[i64; 8]) -> Option<i64> {
    let axes = || dims.iter().zip(by).filter(|(len, _)| **len > 1);
    let merged: Vec<(i64, i64)> = axes().map(|(len, by)| (i64::from(*len), *by)).collect();
    let is_contiguous = merged.windows(2).all(|pair| pair[0].1 == pair[1].1 * pair[1].0);
    is_contiguous.then(|| merged.last().map_or(0, |(_, by)| *by))
}

/// The addend and the activation by which a library can do the whole epilogue of a layer with these inputs and this output. The
/// addend has the type and the layout of the output.
pub(super) fn fused<'a>(
    epilogue: &EpilogueCode,
    inputs: &[DeviceTensor<'a>],
    output: &DeviceTensor<'_>,
) -> Option<(Option<DeviceTensor<'a>>, Activation)> {
    let (added, activation) = match epilogue.form() {
        Form::Nothing => (None, Activation::Identity),
        Form::FunctionOfSum(added, None) => (added, Activation::Identity),
        Form::FunctionOfSum(added, Some(Function::Relu)) => (added, Activation::Relu),
        Form::FunctionOfSum(added, Some(Function::GeluTanh)) => (added, Activation::GeluTanh),
        _ => return None,
    };
    let Some(position) = added else { return Some((None, activation)) };
    let is_like_output = |added: &&DeviceTensor<'a>| {
        added.dtype() == output.dtype()
            && added.shape() == output.shape()
            && added.layout().strides() == output.layout().strides()
    };
    Some((Some(*inputs.get(position).filter(is_like_output)?), activation))
}

/// Computes a product and its epilogue by a library; returns false if no library can. The tensors are the inputs and the output
/// of the layer.
///
/// # Errors
/// Those of the library, and of the epilogue's kernel after it.
pub(super) fn product<'a>(
    product: &Product<'a>,
    layouts: &ProductLayouts,
    epilogue: &EpilogueCode,
    (inputs, output): (&[DeviceTensor<'a>], &DeviceTensor<'a>),
    context: &mut CudaContext<'_>,
) -> Result<bool> {
    if context.device().info().libraries.products.is_none() || product.int8_scales.is_some() {
        return Ok(false);
    }
    let Some(mut work) = work_of(product, layouts, context.tf32().products) else { return Ok(false) };
    // There is at most one addend besides the bias.
    let fused = fused(epilogue, inputs, output).filter(|(added, _)| added.is_none() || work.added.is_none());
    let (added, activation) = fused.unwrap_or((None, Activation::Identity));
    work.activation = activation;
    if added.is_some() {
        (work.added, work.scales[1]) = (Some(work.output), 1.0);
    }
    let multiplications = layouts.sizes.iter().fold(layouts.batches, |all, len| all.saturating_mul(*len));
    if !is_worthwhile(fused.is_some(), multiplications) {
        return Ok(false);
    }
    let read = |tensor: Option<DeviceTensor<'a>>| tensor.map_or(Argument::None, Argument::Read);
    let call = [
        Argument::Read(product.left),
        Argument::Read(product.right),
        read(work.added.and(added.or(product.added))),
        read(product.added.filter(|_| work.has_bias)),
        Argument::Write(product.output),
        scratch(context)?,
    ];
    if !context.call(&LibraryWork::Product(work), &call)? {
        return Ok(false);
    }
    if fused.is_none() {
        epilogue.apply(inputs, output, context)?;
    }
    Ok(true)
}

/// The product in the form of a library; `None` if libraries do not support its types or layouts.
fn work_of(product: &Product<'_>, layouts: &ProductLayouts, allow_tf32: bool) -> Option<ProductWork> {
    let dtype = product.output.dtype();
    let has_same_dtype = |tensor: &DeviceTensor<'_>| tensor.dtype() == dtype;
    let operands = [Some(&product.left), Some(&product.right), product.added.as_ref()];
    let is_supported = matches!(dtype, DType::F32 | DType::F16 | DType::Bf16);
    if !is_supported
        || !operands.into_iter().flatten().all(has_same_dtype)
        || layouts.sizes.contains(&0)
        || layouts.batches == 0
    {
        return None;
    }
    let [rows, columns, depth] = layouts.sizes;
    let dims = layouts.batch.dims.get(..usize::try_from(layouts.batch.rank).ok()?)?;
    let layout = |tensor: usize, sizes: [usize; 2]| {
        let by = &layouts.strides.get(tensor)?.by;
        matrix_layout(sizes, [by[6], by[7]], batch_stride(dims, by)?)
    };
    let is_bias = product.scales == [1.0, 1.0]
        && product.added.is_some()
        && (layouts.strides[2].by[6] == 0 || rows == 1)
        && (layouts.strides[2].by[7] == 1 || columns == 1)
        && batch_stride(dims, &layouts.strides[2].by) == Some(0);
    let added = match product.added {
        Some(_) if !is_bias => Some(layout(2, [rows, columns]).filter(|layout| layout.is_row_major)?),
        _ => None,
    };
    Some(ProductWork {
        dtype,
        sizes: layouts.sizes,
        batches: layouts.batches,
        left: layout(0, [rows, depth])?,
        right: layout(1, [depth, columns])?,
        added,
        output: layout(3, [rows, columns]).filter(|layout| layout.is_row_major)?,
        scales: product.scales.map(|scale| scale as f32),
        has_bias: is_bias,
        activation: Activation::Identity,
        allow_tf32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_row_major_or_column_major() {
        let row_major =
            |leading_dimension| Some(MatrixLayout { is_row_major: true, leading_dimension, batch_stride: 7 });
        let column_major = |leading_dimension| {
            Some(MatrixLayout { is_row_major: false, leading_dimension, batch_stride: 7 })
        };
        assert_eq!(matrix_layout([3, 4], [4, 1], 7), row_major(4));
        assert_eq!(matrix_layout([3, 4], [9, 1], 7), row_major(9));
        assert_eq!(matrix_layout([3, 4], [1, 3], 7), column_major(3));
        assert_eq!(matrix_layout([1, 4], [0, 1], 7), row_major(4));
        assert_eq!(matrix_layout([3, 1], [1, 0], 7), row_major(1));
        // Rows that repeat, or overlap, or are strided along both axes.
        assert_eq!(matrix_layout([3, 4], [0, 1], 7), None);
        assert_eq!(matrix_layout([3, 4], [2, 1], 7), None);
        assert_eq!(matrix_layout([3, 4], [8, 2], 7), None);
    }

    #[test]
    fn batch_axes_are_merged_if_they_can_be() {
        let by = |strides: &[i64]| {
            let mut by = [0; 8];
            by[..strides.len()].copy_from_slice(strides);
            by
        };
        assert_eq!(batch_stride(&[], &by(&[])), Some(0));
        assert_eq!(batch_stride(&[2, 3], &by(&[36, 12])), Some(12));
        assert_eq!(batch_stride(&[2, 1, 3], &by(&[36, 999, 12])), Some(12));
        assert_eq!(batch_stride(&[2, 3], &by(&[0, 0])), Some(0));
        assert_eq!(batch_stride(&[2, 3], &by(&[12, 24])), None);
        assert_eq!(batch_stride(&[2, 3], &by(&[0, 12])), None);
    }
}
