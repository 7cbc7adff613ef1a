//! Medians: median and nanmedian.

use super::extremes::{check_order, places, with_order, with_places, write_both};
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::reduction::along_axes::Axes;
use crate::support::delegation::delegating;
use crate::support::order::{First, Ordered, keys, part};
use ixion_tensor::{DType, Tensor};

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
    part(&keys(First::Smallest, row), &mut places, half);
    places[half]
}

delegating! {
    {
        /// The axis; a negative value counts from the end. By default all axes, without positions.
        dim: Option<i64> = None,
        /// Whether to keep the axis, with length 1.
        keepdim: bool = false,
    }

    /// `torch.median`: the median of the elements; NaN if there is one.
    /// Of two middle elements, it is the lower one. With `dim`, there is a second output: the positions of the medians.
    Median for "aten::median" |layer| Medians { dim: layer.dim, keepdim: layer.keepdim, skip_nan: false };

    /// `torch.nanmedian`: the median of the elements that are not NaN.
    /// Of two middle elements, it is the lower one. With `dim`, there is a second output: the positions of the medians.
    NanMedian for "aten::nanmedian" |layer| Medians { dim: layer.dim, keepdim: layer.keepdim, skip_nan: true };
}

/// Medians along an axis with their positions, or the median of all elements.
#[derive(Debug, Clone)]
struct Medians {
    dim: Option<i64>,
    keepdim: bool,
    skip_nan: bool,
}

impl Medians {
    fn axes(&self, rank: usize) -> Result<Axes> {
        Axes::along(self.dim, self.keepdim && self.dim.is_some(), rank)
    }
}

impl Layer for Medians {
    fn num_outputs(&self) -> usize {
        1 + usize::from(self.dim.is_some())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let input = &inputs[0];
        check_order(input)?;
        if input.dtype() == DType::Bool {
            return Err(LayerError::dtype("the input", "numbers", input.dtype()));
        }
        let axes = self.axes(input.rank())?;
        if self.dim.is_some() || !input.dtype().is_float() {
            axes.check_not_empty(input)?;
        }
        let mut outputs = with_places(input.with_dims(axes.dims(input)));
        outputs.truncate(self.num_outputs());
        Ok(outputs)
    }
}

impl CpuLayer for Medians {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let axes = self.axes(io.inputs[0].shape().rank())?;
        let (rows, len) = (axes.rows(&io.inputs[0])?, axes.len(io.inputs[0].shape()));
        if len == 0 && io.outputs[0].num_elements() > 0 {
            return Ok(io.outputs[0].cast_from(&Tensor::scalar(f64::NAN).view())?);
        }
        let found = with_order!(rows.dtype(), T => {
            places::<T>(&rows, len, io.context.limits(), |row| vec![middle(row, self.skip_nan)])
        })?;
        write_both(&rows, len, found, io.outputs)
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
