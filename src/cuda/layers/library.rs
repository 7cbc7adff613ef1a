//! Products by a library of the device, if it has one: the work for the library, and the conditions under which kernels run
//! instead. The shared parts also apply to convolutions.

use super::epilogue::{Arguments, EpilogueCode, Form, kernel_shape};
use super::product::{Product, Sides};
use super::support::{computed_in, strides};
use crate::cuda::CudaContext;
use crate::cuda::device::{
    Activation, Argument, DeviceTensor, Grid, LibraryWork, MatrixPlace, ProductWork, Unit,
};
use crate::op::LayerError;
use crate::pnnx::Function;
use crate::tensor::DType;

/// If a library cannot do all of an epilogue, a kernel does it in a second pass over the result. That is worthwhile from this
/// number of multiplications, which take several times as long as the pass.
const WORTH_A_PASS: usize = 1 << 30;

/// Returns true if a library should do work with this many multiplications. `is_whole`: it can do the whole epilogue, too.
pub(super) fn is_worth(is_whole: bool, multiplications: usize) -> bool {
    is_whole || multiplications >= WORTH_A_PASS
}

pub(super) fn scratch<'a>(context: &CudaContext<'a>) -> Result<Argument<'a>, LayerError> {
    Ok(context.spare_scratch()?.map_or(Argument::None, Argument::Write))
}

/// Applies an epilogue to each element of a result, in place.
pub(super) fn finish(
    finish: &EpilogueCode,
    arguments: &Arguments<'_>,
    y: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let mut arguments: Arguments<'_> = arguments.iter().copied().collect();
    let unit: Unit = finish.unit("finish.cu", include_str!("../kernels/finish.cu"));
    let unit = unit.define("T", y.dtype().name()).define("C", computed_in(y.dtype())?);
    let kernel = context.kernel(&unit, "finish")?;
    arguments.extend([
        Argument::Write(*y),
        Argument::Strides(strides(y.layout())),
        Argument::Shape(kernel_shape(y.shape())),
        Argument::Long(y.num_elements() as i64),
    ]);
    context.launch(&kernel, Grid::over(y.num_elements()), &arguments)
}

/// The layout of a matrix with these strides of rows, columns and batch. `None` if neither rows nor columns are contiguous.
fn place([rows, columns]: [usize; 2], [by_row, by_column]: [i64; 2], between: i64) -> Option<MatrixPlace> {
    let between = usize::try_from(between).ok()?;
    let lies = |is_by_rows: bool| {
        let (lines, piece) = if is_by_rows { (rows, columns) } else { (columns, rows) };
        let (step, line) = if is_by_rows { (by_column, by_row) } else { (by_row, by_column) };
        let line = usize::try_from(line).ok()?;
        let is_one = (step == 1 || piece == 1) && (lines == 1 || line >= piece);
        is_one.then_some(MatrixPlace { is_by_rows, line: line.max(piece), between })
    };
    lies(true).or_else(|| lies(false))
}

/// The single stride of a batch of several axes; `None` if there is none.
fn one_stride(dims: &[i32], by: &[i64; 8]) -> Option<i64> {
    let axes = || dims.iter().zip(by).filter(|(len, _)| **len > 1);
    let steps: Vec<(i64, i64)> = axes().map(|(len, by)| (i64::from(*len), *by)).collect();
    let goes_on = steps.windows(2).all(|pair| pair[0].1 == pair[1].1 * pair[1].0);
    goes_on.then(|| steps.last().map_or(0, |(_, by)| *by))
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
    sides: &Sides,
    (epilogue, arguments): (&EpilogueCode, &Arguments<'a>),
    context: &mut CudaContext<'_>,
) -> Result<bool, LayerError> {
    if context.device().info().libraries.products.is_none() || product.steps.is_some() {
        return Ok(false);
    }
    let Some(mut work) = work_of(product, sides, context.tf32().products) else { return Ok(false) };
    let whole = activation(epilogue.form()).filter(|(added, _)| added.is_none());
    work.activation = whole.map_or(Activation::Identity, |(_, activation)| activation);
    let multiplications = sides.sizes.iter().fold(sides.batches, |all, len| all.saturating_mul(*len));
    if !is_worth(whole.is_some(), multiplications) {
        return Ok(false);
    }
    let added = |is_there: bool| product.added.filter(|_| is_there).map_or(Argument::None, Argument::Read);
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
    if whole.is_none() {
        finish(epilogue, arguments, &product.output, context)?;
    }
    Ok(true)
}

/// The product in the form of a library; `None` if libraries do not support its types or layouts.
fn work_of(product: &Product<'_>, sides: &Sides, allow_tf32: bool) -> Option<ProductWork> {
    let dtype = product.output.dtype();
    let is_alike = |tensor: &DeviceTensor<'_>| tensor.dtype() == dtype;
    let are_alike = [Some(&product.left), Some(&product.right), product.added.as_ref()];
    let is_known = matches!(dtype, DType::F32 | DType::F16 | DType::Bf16);
    if !is_known
        || !are_alike.into_iter().flatten().all(is_alike)
        || sides.sizes.contains(&0)
        || sides.batches == 0
    {
        return None;
    }
    let [rows, columns, depth] = sides.sizes;
    let dims = sides.batch.dims.get(..usize::try_from(sides.batch.rank).ok()?)?;
    let lies = |tensor: usize, sizes: [usize; 2]| {
        let by = &sides.strides.get(tensor)?.by;
        place(sizes, [by[6], by[7]], one_stride(dims, by)?)
    };
    let is_bias = product.scales == [1.0, 1.0]
        && product.added.is_some()
        && (sides.strides[2].by[6] == 0 || rows == 1)
        && (sides.strides[2].by[7] == 1 || columns == 1)
        && one_stride(dims, &sides.strides[2].by) == Some(0);
    let added = match product.added {
        Some(_) if !is_bias => Some(lies(2, [rows, columns]).filter(|place| place.is_by_rows)?),
        _ => None,
    };
    Some(ProductWork {
        dtype,
        sizes: sides.sizes,
        batches: sides.batches,
        left: lies(0, [rows, depth])?,
        right: lies(1, [depth, columns])?,
        added,
        output: lies(3, [rows, columns]).filter(|place| place.is_by_rows)?,
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
        let by_rows = |line| Some(MatrixPlace { is_by_rows: true, line, between: 7 });
        let by_columns = |line| Some(MatrixPlace { is_by_rows: false, line, between: 7 });
        assert_eq!(place([3, 4], [4, 1], 7), by_rows(4));
        assert_eq!(place([3, 4], [9, 1], 7), by_rows(9));
        assert_eq!(place([3, 4], [1, 3], 7), by_columns(3));
        assert_eq!(place([1, 4], [0, 1], 7), by_rows(4));
        assert_eq!(place([3, 1], [1, 0], 7), by_rows(1));
        // Rows that repeat, or overlap, or are strided along both axes.
        assert_eq!(place([3, 4], [0, 1], 7), None);
        assert_eq!(place([3, 4], [2, 1], 7), None);
        assert_eq!(place([3, 4], [8, 2], 7), None);
    }

    #[test]
    fn batch_axes_are_merged_if_they_can_be() {
        let by = |steps: &[i64]| {
            let mut by = [0; 8];
            by[..steps.len()].copy_from_slice(steps);
            by
        };
        assert_eq!(one_stride(&[], &by(&[])), Some(0));
        assert_eq!(one_stride(&[2, 3], &by(&[36, 12])), Some(12));
        assert_eq!(one_stride(&[2, 1, 3], &by(&[36, 999, 12])), Some(12));
        assert_eq!(one_stride(&[2, 3], &by(&[0, 0])), Some(0));
        assert_eq!(one_stride(&[2, 3], &by(&[12, 24])), None);
        assert_eq!(one_stride(&[2, 3], &by(&[0, 12])), None);
    }
}
