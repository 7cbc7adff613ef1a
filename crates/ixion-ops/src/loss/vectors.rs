//! Losses of vectors: of the angle between two, and of the distances from one to two others.

use super::elementwise::Elementwise;
use super::reduction::{Reduction, room_for};
use crate::op::{CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::reduction::distance::PairwiseDistance;
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{Converted, TensorOrScalar, broadcast, common};
use crate::support::float;
use crate::support::number;
use ixion_pnnx::Expr;
use ixion_tensor::{DType, Tensor, TensorView, broadcast_shapes};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.functional.cosine_embedding_loss`: 1 − cos of the angle between vectors, N×M or M, for a target of 1,
    /// max(0, cos − `margin`) for −1, and 0 for any other.
    pub struct CosineEmbeddingLoss for "aten::cosine_embedding_loss" {
        /// The other vectors, which are broadcast.
        input2: InputIndex,
        /// The targets, a number for each pair of vectors.
        target: InputIndex,
        /// The margin.
        margin: f64 = 0.0,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
    }
}

crate::operator! {
    /// `torch.nn.functional.triplet_margin_loss`: max(0, `margin` + d(anchor, positive) − d(anchor, negative)) for the
    /// distances d of vectors along the last axis: the p-norm of their difference + `eps`.
    pub struct TripletMarginLoss for "aten::triplet_margin_loss" {
        /// Vectors that should be near the anchors, which are the input; all three are broadcast.
        positive: InputIndex,
        /// Vectors that should be far from the anchors.
        negative: InputIndex,
        /// The margin.
        margin: f64 = 1.0,
        /// The order p of the norm.
        p: f64 = 2.0,
        /// The value that is added to each difference.
        eps: f64 = 1e-6,
        /// Whether the smaller of d(anchor, negative) and d(positive, negative) counts.
        swap: bool = false,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
    }
}

/// What PyTorch adds to the squares of lengths.
const EPSILON: f64 = 1e-12;

impl CosineEmbeddingLoss {
    fn vectors(&self) -> [TensorOrScalar; 2] {
        [TensorOrScalar::Input(0), TensorOrScalar::Input(self.input2.0)]
    }

    /// The losses of all pairs.
    fn losses(&self, inputs: &[TensorMeta]) -> Result<TensorMeta> {
        let (input, other, target) = (&inputs[0], &inputs[self.input2.0], &inputs[self.target.0]);
        let both = TensorMeta::new(common(inputs, &self.vectors()), broadcast(input.dims(), other.dims())?);
        float::check("the inputs", &both)?;
        if target.dtype().is_complex() {
            return Err(LayerError::dtype("the target", "real numbers", target.dtype()));
        }
        let wanted = if target.rank() == 0 { "a vector" } else { "N×M vectors" };
        for (what, vectors) in [("the input", input), ("the other input", other)] {
            if target.rank() > 1 || vectors.rank() != target.rank() + 1 {
                let found = format!("{vectors} for the target {target}");
                return Err(LayerError::shape(what, wanted, found));
            }
        }
        let pairs = both.dims().split_last().map_or(&[][..], |(_, pairs)| pairs);
        Ok(both.with_dims(broadcast(pairs, target.dims())?))
    }

    /// The loss of one pair of vectors, of which `lens` elements were there before they were broadcast.
    fn loss(&self, first: &[f64], second: &[f64], lens: [usize; 2], target: f64) -> f64 {
        let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        // Unlike the product, the lengths of the vectors are those before broadcasting.
        let square = |vector: &[f64], len: usize| {
            let own = vector.get(..len).unwrap_or(vector);
            product(own, own) + EPSILON
        };
        let squares = square(first, lens[0]) * square(second, lens[1]);
        let cosine = product(first, second) / squares.sqrt();
        let above = cosine - self.margin;
        if target == 1.0 {
            return 1.0 - cosine;
        }
        // NaN is kept.
        if target != -1.0 || above < 0.0 { 0.0 } else { above }
    }
}

impl Layer for CosineEmbeddingLoss {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.reduction.infer(self.losses(inputs)?)
    }
}

impl CpuLayer for CosineEmbeddingLoss {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let limits = io.context.limits();
        let [first, second] = [&io.inputs[0], &io.inputs[self.input2.0]];
        let lens = [first, second].map(|vectors| vectors.shape().last().copied().unwrap_or(0));
        let losses = self.losses(&TensorMeta::of_all(io.inputs))?.shape()?;
        let len = broadcast_shapes(first.shape(), second.shape())?.last().copied().unwrap_or(0);
        // Each pair of the output, also those that the target repeats.
        let shape = losses.iter().copied().chain([len]).collect::<Vec<usize>>();
        let count = losses.num_elements().saturating_mul(len) as u64;
        limits.check_tensor("the vectors in double precision", count.saturating_mul(16))?;
        let expanded = |input: &TensorView<'_>, shape: &[usize]| -> Result<Vec<f64>> {
            let converted = Converted::of(input, DType::F64)?;
            let view = converted.view();
            Ok(number::read::<f64>(&view.with_layout(view.layout().expand(shape)?)?)?.into_owned())
        };
        let (first, second) = (expanded(first, &shape)?, expanded(second, &shape)?);
        let targets = expanded(&io.inputs[self.target.0], &losses)?;
        let pair = |(pair, &target): (usize, &f64)| -> Result<f64> {
            limits.check_deadline()?;
            let vector = pair * len..(pair + 1) * len;
            let (first, second) = (first.get(vector.clone()), second.get(vector));
            Ok(self.loss(first.unwrap_or_default(), second.unwrap_or_default(), lens, target))
        };
        let losses = targets.iter().enumerate().map(pair).collect::<Result<Vec<f64>>>()?;
        let divisor = losses.len() as f64;
        self.reduction.write_numbers(losses, divisor, &mut io.outputs[0])
    }
}

impl TripletMarginLoss {
    /// The pairs of inputs whose distances count.
    fn pairs(&self) -> Vec<[usize; 2]> {
        let (positive, negative) = (self.positive.0, self.negative.0);
        let swapped = self.swap.then_some([positive, negative]);
        [[0, positive], [0, negative]].into_iter().chain(swapped).collect()
    }

    fn distance(&self) -> PairwiseDistance {
        PairwiseDistance { x2: InputIndex(1), p: self.p, eps: self.eps, keepdim: false }
    }

    /// The loss of the distances of the pairs.
    fn loss(&self) -> Result<Elementwise> {
        let template = match self.swap {
            true => "maximum(sub(add(@0,@3),minimum(@1,@2)),0)",
            false => "maximum(sub(add(@0,@3),@1),0)",
        };
        let operands = [Expr::Input(0), Expr::Input(1), Expr::Input(2), Expr::Float(self.margin)];
        Elementwise::of_floats(template, &operands, self.reduction)
    }

    /// The distances of the pairs.
    fn distances(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let of = |pair: [usize; 2]| self.distance().infer(&pair.map(|position| inputs[position].clone()));
        Ok(self.pairs().into_iter().map(of).collect::<Result<Vec<_>>>()?.concat())
    }

    /// Computes the distance of a pair.
    fn computed(
        &self,
        pair: [usize; 2],
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Tensor> {
        let mut layer = self.distance();
        let inputs = pair.map(|position| inputs[position]);
        let metas = layer.infer(&TensorMeta::of_all(&inputs))?;
        let mut distances = room_for(&metas[0], context.limits())?;
        layer.forward(&mut Io::new(&inputs, &mut [distances.view_mut()?], context))?;
        Ok(distances)
    }
}

impl Layer for TripletMarginLoss {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let anchor = &inputs[0];
        for (what, position) in [("the positive", self.positive.0), ("the negative", self.negative.0)] {
            if inputs[position].rank() != anchor.rank() {
                let wanted = format!("{} axes, as the anchor", anchor.rank());
                return Err(LayerError::shape(what, wanted, &inputs[position]));
            }
        }
        self.loss()?.infer(&self.distances(inputs)?)
    }
}

impl CpuLayer for TripletMarginLoss {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let mut distances = Vec::new();
        for pair in self.pairs() {
            distances.push(self.computed(pair, io.inputs, &mut io.context)?);
        }
        let views: Vec<TensorView<'_>> = distances.iter().map(Tensor::view).collect();
        self.loss()?.forward(&mut Io::new(&views, io.outputs, &mut io.context))
    }

    fn workspace(&self, _: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        Reduction::workspace(outputs)
    }
}

operators! { CosineEmbeddingLoss, TripletMarginLoss }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{assert_close, operator, tensor, waves};

    #[track_caller]
    fn check(op_type: &str, params: &[(&str, &str)], inputs: &[&Tensor], each: [f64; 3]) {
        let sum: f64 = each.iter().sum();
        for (reduction, shape, want) in
            [("0", &[3][..], &each[..]), ("1", &[], &[sum / 3.0]), ("2", &[], &[sum])]
        {
            let params = [params, &[("reduction", reduction)]].concat();
            assert_close(&operator(op_type, &params).run_one(inputs).unwrap(), shape, want);
        }
    }

    fn others() -> Tensor {
        tensor(&[3, 4], &[-0.375, 0.0, 1.75, 2.0, 0.875, 0.75, 2.0, 1.75, 1.0, 0.375, 1.125, 0.375])
    }

    #[test]
    fn angles_are_those_of_pytorch() {
        let (x, y, target) = (waves(&[3, 4]), others(), tensor(&[3], &[1i64, -1, 0]));
        let want = [1.3244267608553186, 0.523105880733872, 0.0];
        check("aten::cosine_embedding_loss", &[("margin", "0.1")], &[&x, &y, &target], want);
        let each = operator("aten::cosine_embedding_loss", &[("reduction", "0")]);
        let one =
            each.run_one(&[&waves(&[4]), &tensor(&[4], &[-0.375, 0.0, 1.75, 2.0]), &Tensor::scalar(1i64)]);
        assert_close(&one.unwrap(), &[], &[1.3244267608553186]);
        let unknown: Tensor = x.map(|_: f64| f64::NAN).unwrap();
        let (nan, zero) = (f64::NAN, 0.0);
        assert_close(&each.run_one(&[&unknown, &y, &target]).unwrap(), &[3], &[nan, nan, zero]);
        let nothing: Tensor = x.map(|_: f64| 0.0).unwrap();
        assert_close(&each.run_one(&[&nothing, &y, &target]).unwrap(), &[3], &[1.0, zero, zero]);
        let column = tensor(&[3, 1], &[2.0, -1.0, 0.5]);
        let broadcast = each.run_one(&[&x, &column, &tensor(&[3], &[1i64, 1, -1])]).unwrap();
        let want = [2.4664711502132866, 1.6163156344275902, 0.8908708063729097];
        assert_close(&broadcast, &[3], &want);
    }

    #[test]
    fn triplets_are_those_of_pytorch() {
        let x = waves(&[3, 4]);
        let rows: Vec<f64> = x.to_vec::<f64>().unwrap();
        let turned = tensor(&[3, 4], &[&rows[8..], &rows[..8]].concat());
        let inputs = [&x, &others(), &turned];
        check("aten::triplet_margin_loss", &[("margin", "0.7")], &inputs, [1.5685882708945416, 0.0, 0.0]);
        let params = [("margin", "5.0"), ("p", "1.0"), ("eps", "0.001"), ("swap", "True")];
        check("aten::triplet_margin_loss", &params, &inputs, [7.246, 0.371, 4.25]);
    }

    #[test]
    fn what_does_not_fit() {
        let error =
            |op_type: &str, inputs: &[&Tensor]| operator(op_type, &[]).run(inputs).unwrap_err().to_string();
        let (x, y) = (waves(&[3, 4]), others());
        let single = error("aten::cosine_embedding_loss", &[&x, &y, &Tensor::scalar(1i64)]);
        assert_eq!(single, "the input: expected a vector, got 3×4 f64 for the target scalar i64");
        assert!(error("aten::cosine_embedding_loss", &[&x, &y, &waves(&[2])]).contains("broadcast"));
        let ranks = error("aten::triplet_margin_loss", &[&x, &waves(&[4]), &y]);
        assert_eq!(ranks, "the positive: expected 2 axes, as the anchor, got 4 f64");
        operator("aten::cosine_embedding_loss", &[]).survives(3);
        operator("aten::triplet_margin_loss", &[("swap", "True")]).survives(3);
    }
}
