//! The most frequent elements: mode.

use super::extremes::{check_order, places, with_order, with_places, write_both};
use crate::op::{CpuLayer, Io, Layer, Result, TensorMeta};
use crate::reduction::along_axes::Axes;
use crate::support::order::{First, Ordered, in_order, keys};

crate::operator! {
    /// `torch.mode`: the most frequent element along an axis, the smallest of several, and its last position. Every NaN differs
    /// from all others, so that NaN is the result only if nothing else is there; PyTorch leaves the results of rows with NaN,
    /// and the positions in rows of more than 16 elements, open.
    pub struct Mode for "aten::mode" {
        /// The axis; a negative value counts from the end.
        dim: i64 = -1,
        /// Whether to keep the axis, with length 1.
        keepdim: bool = false,
    }
}

impl Mode {
    fn axes(&self, rank: usize) -> Result<Axes> {
        Axes::along(Some(self.dim), self.keepdim, rank)
    }
}

/// The last position of the most frequent element of a row; `None` if it is empty.
fn most_frequent<T: Ordered>(row: &[T]) -> Option<usize> {
    let order = in_order(&keys(First::Smallest, row));
    let mut most: &[usize] = &[];
    for equal in order.chunk_by(|&a, &b| row[a] == row[b]) {
        if equal.len() > most.len() {
            most = equal;
        }
    }
    most.last().copied()
}

impl Layer for Mode {
    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_order(&inputs[0])?;
        let axes = self.axes(inputs[0].rank())?;
        axes.check_not_empty(&inputs[0])?;
        Ok(with_places(inputs[0].with_dims(axes.dims(&inputs[0]))))
    }
}

impl CpuLayer for Mode {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let axes = self.axes(io.inputs[0].shape().rank())?;
        let (rows, len) = (axes.rows(&io.inputs[0])?, axes.len(io.inputs[0].shape()));
        let found = with_order!(rows.dtype(), T => {
            places::<T>(&rows, len, io.context.limits(), |row| most_frequent(row).into_iter().collect())
        })?;
        write_both(&rows, len, found, io.outputs)
    }
}

operators! { Mode }

#[cfg(test)]
mod tests {
    use crate::support::testing::{operator, tensor};
    use ixion_tensor::{DType, Tensor};

    fn mode(params: &[(&'static str, &'static str)], x: &Tensor) -> (Vec<f64>, Vec<i64>) {
        let found = operator("aten::mode", params).with_outputs(2).run(&[x]).unwrap();
        (found[0].cast(DType::F64).unwrap().to_vec().unwrap(), found[1].to_vec().unwrap())
    }

    /// PyTorch's results.
    #[test]
    fn the_most_frequent() {
        let x = tensor(&[2, 5], &[3i64, 1, 3, 2, 1, 5, 4, 2, 2, 5]);
        assert_eq!(mode(&[], &x), (vec![1.0, 2.0], vec![4, 3]));
        assert_eq!(mode(&[("dim", "0"), ("keepdim", "True")], &x).0, [3.0, 1.0, 2.0, 2.0, 1.0]);
        assert_eq!(mode(&[], &tensor(&[3], &[true, false, true])), (vec![1.0], vec![2]));
        assert_eq!(mode(&[], &tensor(&[4], &[0.0f32, -0.0, 1.0, 1.0])), (vec![0.0], vec![1]));
        let infinite = [f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY, 2.0];
        assert_eq!(mode(&[], &tensor(&[4], &infinite)), (vec![f64::INFINITY], vec![2]));
        assert_eq!(mode(&[], &Tensor::scalar(3i64)), (vec![3.0], vec![0]));
        assert_eq!(mode(&[], &Tensor::zeros(DType::F32, &[0, 3]).unwrap()), (vec![], vec![]));
    }

    #[test]
    fn nan_is_never_frequent() {
        let nan = f32::NAN;
        assert_eq!(mode(&[], &tensor(&[5], &[nan, 1.0, nan, 1.0, nan])), (vec![1.0], vec![3]));
        assert_eq!(mode(&[], &tensor(&[3], &[nan, 7.0, nan])).1, [1]);
        let (values, places) = mode(&[], &tensor(&[2], &[nan, nan]));
        assert!(values[0].is_nan() && places == [0]);
    }

    #[test]
    fn odd_inputs() {
        let refused = |x: &Tensor| operator("aten::mode", &[("dim", "0")]).with_outputs(2).run(&[x]).is_err();
        assert!(refused(&Tensor::zeros(DType::F32, &[0, 3]).unwrap()));
        assert!(refused(&Tensor::zeros(DType::C64, &[2]).unwrap()));
        operator("aten::mode", &[]).with_outputs(2).survives(1);
        operator("aten::mode", &[("dim", "0"), ("keepdim", "True")]).with_outputs(2).survives(1);
    }
}
