//! Non-maximum suppression: of boxes that overlap, only the best one is kept.

use crate::op::{FromOperator, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::dynamic::dynamic_layers;
use crate::support::float;
use crate::support::float::with_float;
use crate::support::order::{First, Ordered, in_order, keys};
use ixion_kernels::Float;
use ixion_kernels::suppression::suppress;
use ixion_tensor::{DType, Dim, Limits, Tensor, TensorView};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torchvision.ops.nms`, as PNNX writes it: non-maximum suppression of boxes K×4 (left, top, right, bottom). The indices of
    /// the boxes that are kept, those with the highest scores first; equal scores keep their order, and NaN counts as the
    /// highest. A box is kept if its intersection over union with every better one that was kept is at most the threshold.
    pub struct Nms for "pnnx.custom_op.torchvision.nms", "torchvision::nms" {
        /// The score of each box.
        scores as "arg_1": InputIndex,
        /// The largest intersection over union with a better box at which a box is kept.
        iou_threshold as "arg_2": f64,
    }
}

impl Nms {
    fn compute(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Vec<Tensor>> {
        with_float!(inputs[0].dtype(), T => self.kept::<T>(inputs, limits))
    }

    fn kept<T: Float + Ordered>(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Vec<Tensor>> {
        let (boxes, scores) = (float::read::<T>(&inputs[0])?, float::read::<T>(&inputs[self.scores.0])?);
        limits.check_tensor("the indices", (scores.len() as u64).saturating_mul(8))?;
        let order = in_order(&keys(First::Largest, &scores));
        let kept = suppress(boxes.as_chunks::<4>().0, &order, usize::MAX, self.iou_threshold, limits)?;
        let kept: Vec<i64> = kept.into_iter().map(|position| position as i64).collect();
        let count = kept.len();
        Ok(vec![Tensor::from_vec(kept, &[count])?])
    }
}

impl Layer for Nms {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (boxes, scores) = (&inputs[0], &inputs[self.scores.0]);
        float::check("the boxes", boxes)?;
        if scores.dtype() != boxes.dtype() {
            return Err(LayerError::dtype("the scores", boxes.dtype(), scores.dtype()));
        }
        let count = match boxes.dims() {
            [count, numbers] if !numbers.differs(&Dim::Fixed(4)) => count,
            _ => return Err(LayerError::shape("the boxes", "K×4 (left, top, right, bottom)", boxes)),
        };
        match scores.dims() {
            [len] if !len.differs(count) => Ok(vec![TensorMeta::new(DType::I64, [Dim::fresh("kept")])]),
            _ => Err(LayerError::shape("the scores", format!("one for each of {count} boxes"), scores)),
        }
    }

    fn is_data_dependent(&self) -> bool {
        true
    }
}

dynamic_layers!(Nms);

operators! { Nms }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{operator, tensor};

    fn kept(threshold: &str, boxes: &Tensor, scores: &Tensor) -> Result<Vec<i64>> {
        let params = [("arg_2", threshold)];
        let function = operator("pnnx.custom_op.torchvision.nms", &params).with_names(&["arg_0", "arg_1"]);
        Ok(function.run_one(&[boxes, scores])?.to_vec()?)
    }

    /// Equal boxes, empty ones, equal scores, NaN and infinities.
    const BOXES: [[f32; 4]; 8] = [
        [0.0, 0.0, 4.0, 4.0],
        [1.0, 0.0, 5.0, 4.0],
        [0.0, 0.0, 4.0, 4.0],
        [6.0, 6.0, 8.0, 8.0],
        [2.0, 2.0, 2.0, 2.0],
        [2.0, 2.0, 2.0, 2.0],
        [f32::NAN, 0.0, 4.0, 4.0],
        [f32::NEG_INFINITY, 0.0, f32::INFINITY, 4.0],
    ];
    const SCORES: [f32; 8] = [0.5, 0.9, 0.5, f32::NAN, 0.1, 0.1, 0.7, f32::INFINITY];

    #[test]
    fn the_best_boxes_are_kept() {
        let (boxes, scores) = (tensor(&[8, 4], BOXES.as_flattened()), tensor(&[8], &SCORES));
        assert_eq!(kept("0.5", &boxes, &scores).unwrap(), [3, 7, 1, 6, 4, 5]);
        // As f32, three fifths are rounded up, and are more than 0.6.
        assert_eq!(kept("0.6", &boxes, &scores).unwrap(), [3, 7, 1, 6, 4, 5]);
        assert_eq!(kept("0", &boxes, &scores).unwrap(), [3, 7, 1, 6, 4, 5]);
        assert_eq!(kept("1.0", &boxes, &scores).unwrap(), [3, 7, 1, 6, 0, 2, 4, 5]);
        assert_eq!(kept("-0.1", &boxes, &scores).unwrap(), [3, 6]);
        assert_eq!(kept("nan", &boxes, &scores).unwrap(), [3, 7, 1, 6, 0, 2, 4, 5]);
        let wide = |tensor: &Tensor| tensor.cast(DType::F64).unwrap();
        assert_eq!(kept("0.6", &wide(&boxes), &wide(&scores)).unwrap(), [3, 7, 1, 6, 0, 4, 5]);
        let half = |tensor: &Tensor| tensor.cast(DType::F16).unwrap();
        assert_eq!(kept("0.5", &half(&boxes), &half(&scores)).unwrap(), [3, 7, 1, 6, 4, 5]);
    }

    #[test]
    fn no_boxes_and_strides() {
        let none = kept("0.5", &Tensor::zeros(DType::F32, &[0, 4]).unwrap(), &tensor::<f32>(&[0], &[]));
        assert_eq!(none.unwrap(), [] as [i64; 0]);
        let columns = tensor(&[4, 3], &[0.0f32, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0]);
        let scores = tensor(&[3], &[1.0f32; 3]);
        assert_eq!(kept("0.5", &columns.permute(&[1, 0]).unwrap(), &scores).unwrap(), [0, 2]);
    }

    #[test]
    fn symbols_and_mismatches() {
        let function = operator("torchvision::nms", &[("arg_2", "0.5")]);
        let meta = |dims: &[Dim]| TensorMeta::new(DType::F32, dims.to_vec());
        let (boxes, scores) = (meta(&[Dim::symbol("k"), Dim::Fixed(4)]), meta(&[Dim::symbol("k")]));
        let output = function.infer(&[boxes.clone(), scores.clone()]).unwrap().remove(0);
        assert_eq!((output.dtype(), output.rank()), (DType::I64, 1));
        let wrong = |inputs: [&TensorMeta; 2]| {
            function.infer(&inputs.map(TensorMeta::clone)).unwrap_err().to_string()
        };
        assert!(wrong([&scores, &scores]).starts_with("the boxes: expected K×4"));
        assert!(
            wrong([&meta(&[Dim::Fixed(3), Dim::Fixed(5)]), &scores]).starts_with("the boxes: expected K×4")
        );
        let three = meta(&[Dim::Fixed(3), Dim::Fixed(4)]);
        assert!(wrong([&three, &meta(&[Dim::Fixed(2)])]).contains("one for each of 3 boxes, got 2 f32"));
        assert!(wrong([&boxes, &boxes]).starts_with("the scores: expected one for each"));
        assert!(wrong([&boxes, &scores.with_dtype(DType::F64)]).contains("expected f32, got f64"));
        assert!(wrong([&boxes.with_dtype(DType::I64), &scores]).contains("i64"));
        assert!(operator("torchvision::nms", &[]).create(2).is_err());
        function.survives(2);
    }
}
