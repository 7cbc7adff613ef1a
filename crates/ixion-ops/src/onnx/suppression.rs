//! Non-maximum suppression.

use crate::op::{CpuLayer, ForwardContext, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::broadcast::Converted;
use ixion_kernels::suppression::suppress;
use ixion_tensor::{DType, Dim, LimitError, Limits, Tensor, TensorView};
use ndarray::{ArrayView1, ArrayView2, s};
use std::ops::RangeInclusive;

/// Greedy non-maximum suppression of boxes N×boxes×4 with scores N×classes×boxes: the best box is kept, boxes that
/// overlap it too much are dropped, and so on with the next best.
#[derive(Debug, Clone)]
pub(super) struct Nms {
    /// Whether boxes are centre and size, x first, instead of two opposite corners, y first.
    pub(super) has_centres: bool,
    /// The input with the maximum number of boxes per class and image; without it, no box is kept.
    pub(super) max_boxes: Option<usize>,
    /// The input with the largest intersection over union at which a box is kept; 0 without it.
    pub(super) overlap: Option<usize>,
    /// The input with the score that boxes must exceed; without it, all are kept.
    pub(super) score: Option<usize>,
}

/// The minimum and maximum coordinates of a box.
fn corners(numbers: ArrayView1<'_, f64>, has_centre: bool) -> [f64; 4] {
    let number = |position: usize| numbers.get(position).copied().unwrap_or(f64::NAN);
    let [a, b, c, d] = [number(0), number(1), number(2), number(3)];
    if has_centre {
        return [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0];
    }
    [a.min(c), b.min(d), a.max(c), b.max(d)]
}

/// The indices of the boxes that are kept, the best first.
fn kept(
    boxes: &[[f64; 4]],
    scores: ArrayView1<'_, f64>,
    max_boxes: usize,
    [overlap, min_score]: [f64; 2],
    limits: &Limits,
) -> Result<Vec<usize>, LimitError> {
    let mut order: Vec<usize> = (0..boxes.len()).filter(|&place| scores[place] > min_score).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    suppress(boxes, &order, max_boxes, overlap, limits)
}

/// The value of a one-element input; `None` if the input is absent.
fn number(inputs: &[TensorView<'_>], position: Option<usize>) -> Result<Option<f64>> {
    let Some(input) = position.and_then(|position| inputs.get(position)) else { return Ok(None) };
    Ok(input.to_tensor()?.cast(DType::F64)?.to_vec::<f64>()?.first().copied())
}

impl Layer for Nms {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=5
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (boxes, scores) = (&inputs[0], &inputs[1]);
        let [pictures, count, four] = boxes.dims() else {
            return Err(LayerError::shape("the boxes", "N×boxes×4", boxes));
        };
        if four.differs(&Dim::Fixed(4)) {
            return Err(LayerError::shape("the boxes", "N×boxes×4", boxes));
        }
        match scores.dims() {
            [n, _, boxes] if !n.differs(pictures) && !boxes.differs(count) => {}
            _ => return Err(LayerError::shape("the scores", format!("{pictures}×classes×{count}"), scores)),
        }
        Ok(vec![TensorMeta::new(DType::I64, [Dim::fresh("kept"), Dim::Fixed(3)])])
    }

    fn is_data_dependent(&self) -> bool {
        true
    }
}

impl CpuLayer for Nms {
    fn forward(&mut self, _: &mut Io<'_, '_>) -> Result<()> {
        Err(LayerError::Unsupported("the output size is known only after the layer has run".to_owned()))
    }

    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>> {
        let max_boxes = number(inputs, self.max_boxes)?.unwrap_or(0.0).max(0.0) as usize;
        let overlap = number(inputs, self.overlap)?.unwrap_or(0.0);
        let least = number(inputs, self.score)?.unwrap_or(f64::NEG_INFINITY);
        let (boxes, scores) =
            (Converted::of(&inputs[0], DType::F64)?, Converted::of(&inputs[1], DType::F64)?);
        let (boxes, scores) = (boxes.view().array::<f64>()?, scores.view().array::<f64>()?);
        let (boxes, scores) =
            (boxes.into_dimensionality::<ndarray::Ix3>()?, scores.into_dimensionality::<ndarray::Ix3>()?);
        let mut rows: Vec<i64> = Vec::new();
        for (picture, (boxes, scores)) in boxes.outer_iter().zip(scores.outer_iter()).enumerate() {
            let boxes: ArrayView2<'_, f64> = boxes.slice_move(s![.., ..]);
            let corners: Vec<[f64; 4]> =
                boxes.outer_iter().map(|numbers| corners(numbers, self.has_centres)).collect();
            for (class, scores) in scores.outer_iter().enumerate() {
                let limits = context.limits();
                for place in kept(&corners, scores, max_boxes, [overlap, least], limits)? {
                    rows.extend([picture as i64, class as i64, place as i64]);
                }
            }
        }
        let count = rows.len() / 3;
        Ok(vec![Tensor::from_vec(rows, &[count, 3])?])
    }
}
