//! Medians: median and nanmedian.

use super::extremes::{check_order, places, with_order};
use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta};
use crate::reduction::along_axes::Axes;
use crate::support::order::{Kind, Ordered, keys, part};
use crate::support::rows::{write_places, write_values};
use ixion_tensor::{DType, Tensor, TensorView, TensorViewMut};

/// The position of the median of a row: of two middle elements, the lower one. If there is a NaN, it is the position of the
/// first NaN, unless NaN are skipped.
fn middle<T: Ordered>(row: &[T], skip_nan: bool) -> usize {
    let is_nan = |x: &T| x.partial_cmp(x).is_none();
    if let Some(place) = row.iter().position(is_nan).filter(|_| !skip_nan) {
        return place;
    }
    let mut places: Vec<usize> = (0..row.len()).filter(|&place| !is_nan(&row[place])).collect();
    let half = places.len().saturating_sub(1) / 2;
    if places.is_empty() {
        return 0;
    }
    part(&keys(Kind::Smallest, row), &mut places, half);
    places[half]
}

macro_rules! medians {
    ($($(#[doc = $doc:literal])* $name:ident for $op_type:literal, $skip_nan:literal;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            /// Of two middle elements, it is the lower one. With `dim`, there is a second output: the positions of the medians.
            pub struct $name for $op_type {
                /// The axis; a negative value counts from the end. By default all axes, without positions.
                dim: Option<i64> = None,
                /// Whether to keep the axis, with length 1.
                keepdim: bool = false,
            }
        }

        impl Layer for $name {
            fn num_outputs(&self) -> usize {
                1 + usize::from(self.dim.is_some())
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                infer(&inputs[0], self.dim, self.keepdim)
            }
        }

        impl CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                _: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                run(&inputs[0], outputs, self.dim, self.keepdim, $skip_nan)
            }
        }
    )*};
}

medians! {
    /// `torch.median`: the median of the elements; NaN if there is one.
    Median for "aten::median", false;

    /// `torch.nanmedian`: the median of the elements that are not NaN.
    NanMedian for "aten::nanmedian", true;
}

fn axes(dim: &Option<i64>, keepdim: bool, rank: usize) -> Result<Axes, LayerError> {
    Axes::new(dim.as_ref().map(std::slice::from_ref), keepdim && dim.is_some(), rank)
}

fn infer(input: &TensorMeta, dim: Option<i64>, keepdim: bool) -> Result<Vec<TensorMeta>, LayerError> {
    check_order(input)?;
    if input.dtype() == DType::Bool {
        let (what, wanted) = ("the input".to_owned(), "numbers".to_owned());
        return Err(LayerError::DType { what, wanted, found: input.dtype() });
    }
    let axes = axes(&dim, keepdim, input.rank())?;
    if dim.is_some() || !input.dtype().is_float() {
        axes.check_not_empty(input)?;
    }
    let values = input.with_dims(axes.dims(input));
    let places = values.with_dtype(DType::I64);
    Ok(if dim.is_some() { vec![values, places] } else { vec![values] })
}

fn run(
    input: &TensorView<'_>,
    outputs: &mut [TensorViewMut<'_>],
    dim: Option<i64>,
    keepdim: bool,
    skip_nan: bool,
) -> Result<(), LayerError> {
    let axes = axes(&dim, keepdim, input.shape().rank())?;
    let (rows, len) = (axes.rows(input)?, axes.len(input.shape()));
    if len == 0 && outputs[0].num_elements() > 0 {
        return Ok(outputs[0].cast_from(&Tensor::scalar(f64::NAN).view())?);
    }
    let found = with_order!(rows.dtype(), T => places::<T>(&rows, len, |row| vec![middle(row, skip_nan)]))?;
    write_values(&rows, len, &found, &mut outputs[0])?;
    match outputs.get_mut(1) {
        Some(output) => write_places(found, output),
        None => Ok(()),
    }
}

operators! { Median, NanMedian }

#[cfg(test)]
mod tests {
    use crate::support::testing::{assert_close, operator, tensor};
    use ixion_tensor::Tensor;

    /// PyTorch's results.
    #[test]
    fn the_middle() {
        let x = tensor(&[2, 4], &[3.0, f64::NAN, 2.0, f64::NAN, 4.0, 1.0, 3.0, 2.0]);
        let along = |op_type: &'static str| {
            let found = operator(op_type, &[("dim", "1")]).with_outputs(2).run(&[&x]).unwrap();
            (found[0].to_vec::<f64>().unwrap(), found[1].to_vec::<i64>().unwrap())
        };
        let (values, places) = along("aten::median");
        assert!(values[0].is_nan() && values[1] == 2.0);
        assert_eq!(places, [1, 3]);
        assert_eq!(along("aten::nanmedian"), (vec![2.0, 2.0], vec![2, 3]));
        assert_close(&operator("aten::nanmedian", &[]).run_one(&[&x]).unwrap(), &[], &[2.0]);
        let empty = operator("aten::median", &[]).run_one(&[&tensor::<f64>(&[0], &[])]).unwrap();
        assert!(empty.item::<f64>().unwrap().is_nan());
        let refused = |x: &Tensor, params: &[(&'static str, &'static str)]| {
            operator("aten::median", params).with_outputs(1 + params.len()).run(&[x]).is_err()
        };
        assert!(refused(&tensor(&[1], &[true]), &[]) && refused(&tensor::<f64>(&[0], &[]), &[("dim", "0")]));
        operator("aten::median", &[]).survives(1);
    }
}
