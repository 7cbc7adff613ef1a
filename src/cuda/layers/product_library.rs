//! Products by a library of the device, if it has one: the work for the library, and the conditions under which kernels run
//! instead. The shared parts also apply to convolutions.

use super::epilogue::{Arguments, EpilogueCode, Form};
use super::prelude::*;
use super::product::{Product, ProductLayouts};
use super::support::{kernel_shape, strides, typed};
use crate::cuda::device::{Activation, LibraryWork, MatrixLayout, ProductWork};
use crate::pnnx::Function;

/// If a library cannot do all of an epilogue, a kernel does it in a second pass over the result. That is worthwhile from this
/// number of multiplications, which take several times as long as the pass.
const MIN_MULTIPLICATIONS: usize = 1 << 30;

/// Returns true if a library should do work with this many multiplications. `is_fused`: it can do the whole epilogue, too.
pub(super) fn is_worthwhile(is_fused: bool, multiplications: usize) -> bool {
    is_fused || multiplications >= MIN_MULTIPLICATIONS
}

pub(super) fn scratch<'a>(context: &CudaContext<'a>) -> Result<Argument<'a>> {
    Ok(context.spare_scratch()?.map_or(Argument::None, Argument::Write))
}

/// Applies an epilogue to each element of a result, in place.
pub(super) fn apply_epilogue(
    epilogue: &EpilogueCode,
    arguments: &Arguments<'_>,
    y: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<()> {
    let mut arguments: Arguments<'_> = arguments.iter().copied().collect();
    let unit = epilogue.unit("epilogue.cu", include_str!("../kernels/epilogue.cu"));
    let unit = typed(unit, y.dtype())?;
    arguments.extend([
        Argument::Write(*y),
        Argument::Strides(strides(y.layout())),
        Argument::Shape(kernel_shape(y.shape())),
        Argument::Long(y.num_elements() as i64),
    ]);
    context.run(&unit, "epilogue", Grid::over(y.num_elements()), &arguments)
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

/// The addend and the activation by which a library can do the whole epilogue.
pub(super) fn activation(form: Form) -> Option<(Option<usize>, Activation)> {
    match form {
        Form::Nothing => Some((None, Activation::Identity)),
        Form::FunctionOfSum(added, None) => Some((added, Activation::Identity)),
        Form::FunctionOfSum(added, Some(Function::Relu)) => Some((added, Activation::Relu)),
        Form::FunctionOfSum(added, Some(Function::GeluTanh)) => Some((added, Activation::GeluTanh)),
        _ => None,
    }
}

/// Computes a product by a library; returns false if no library can. The arguments are those of the epilogue.
///
/// # Errors
/// Those of the library, and of the epilogue's kernel after it.
pub(super) fn product<'a>(
    product: &Product<'a>,
    layouts: &ProductLayouts,
    (epilogue, arguments): (&EpilogueCode, &Arguments<'a>),
    context: &mut CudaContext<'_>,
) -> Result<bool> {
    if context.device().info().libraries.products.is_none() || product.int8_scales.is_some() {
        return Ok(false);
    }
    let Some(mut work) = work_of(product, layouts, context.tf32().products) else { return Ok(false) };
    let fused = activation(epilogue.form()).filter(|(added, _)| added.is_none());
    work.activation = fused.map_or(Activation::Identity, |(_, activation)| activation);
    let multiplications = layouts.sizes.iter().fold(layouts.batches, |all, len| all.saturating_mul(*len));
    if !is_worthwhile(fused.is_some(), multiplications) {
        return Ok(false);
    }
    let added = |is_used: bool| product.added.filter(|_| is_used).map_or(Argument::None, Argument::Read);
    let call = [
        Argument::Read(product.left),
        Argument::Read(product.right),
        added(work.added.is_some()),
        added(work.has_bias),
        Argument::Write(product.output),
        scratch(context)?,
    ];
    if !context.call(&LibraryWork::Product(work), &call)? {
        return Ok(false);
    }
    if fused.is_none() {
        apply_epilogue(epilogue, arguments, &product.output, context)?;
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
