//! Losses of scores of classes: those of the target should be higher than all others, by a margin.

use super::classes::class_of;
use super::reduction::Reduction;
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, Weight, exactly};
use crate::support::arguments::InputIndex;
use crate::support::float;
use crate::support::number;
use ixion_tensor::{DType, Dim, Limits, TensorView};
use std::borrow::Cow;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.functional.multi_margin_loss`: the mean over classes c of max(0, `margin` − `x[t]` + `x[c]`)ᵖ, without that of the
    /// target t itself, for scores x, N×C or C.
    pub struct MultiMarginLoss for "aten::multi_margin_loss" {
        /// The class of each sample, i64.
        target: InputIndex,
        /// The power p: 1 or 2.
        p: f64 = 1.0,
        /// The margin.
        margin: f64 = 1.0,
        /// A factor for each class of a target.
        weight: Option<Weight> = None,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
    }
    validate |loss| {
        match loss.p == 1.0 || loss.p == 2.0 {
            true => Ok(()),
            false => Err(LayerError::invalid("p", loss.p, "it must be 1 or 2")),
        }
    }
}

crate::operator! {
    /// `torch.nn.functional.multilabel_margin_loss`: the sum of max(0, 1 − `x[t]` + `x[c]`) over targets t and other classes c,
    /// divided by the number of classes, for scores x, N×C or C.
    pub struct MultilabelMarginLoss for "aten::multilabel_margin_loss" {
        /// The classes of each sample, i64 of the input's shape; −1 ends the list.
        target: InputIndex,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
    }
}

/// The number of classes of an N×C or C input of floats; a number is one class.
fn classes_of(input: &TensorMeta) -> Result<Dim> {
    float::check("the input", input)?;
    let classes = input.dims().last().cloned().unwrap_or(Dim::Fixed(1));
    match input.rank() > 2 || classes == 0usize {
        true => Err(LayerError::shape("the input", "samples and classes, at least one of these", input)),
        false => Ok(classes),
    }
}

fn check_classes(target: &TensorMeta) -> Result<()> {
    match target.dtype() {
        DType::I64 => Ok(()),
        other => Err(LayerError::dtype("the target", "i64", other)),
    }
}

/// The scores in double precision, and the number of classes.
fn scores<'a>(input: &TensorView<'a>, limits: &Limits) -> Result<(Cow<'a, [f64]>, usize)> {
    limits.check_tensor("the scores", (input.num_elements() as u64).saturating_mul(8))?;
    Ok((number::read::<f64>(input)?, input.shape().last().copied().unwrap_or(1).max(1)))
}

impl MultiMarginLoss {
    /// The losses of all samples.
    fn losses(&self, inputs: &[TensorMeta]) -> Result<TensorMeta> {
        let (input, target) = (&inputs[0], &inputs[self.target.0]);
        let classes = classes_of(input)?;
        check_classes(target)?;
        let samples = input.dims().split_last().map_or(&[][..], |(_, samples)| samples);
        let is_single = samples.is_empty() && target.may_have_dims(&[Dim::Fixed(1)]);
        if !is_single && !target.may_have_dims(samples) {
            let wanted = input.with_dims(samples.to_vec()).with_dtype(DType::I64);
            return Err(LayerError::shape("the target", wanted, target));
        }
        if let Some(weight) = &self.weight {
            let weight = weight.meta(inputs)?;
            if weight.dtype() != input.dtype() {
                return Err(LayerError::dtype("the weight", input.dtype(), weight.dtype()));
            }
            if !weight.may_have_dims(std::slice::from_ref(&classes)) {
                return Err(LayerError::shape(
                    "the weight",
                    format!("a vector of {classes} classes"),
                    weight,
                ));
            }
        }
        Ok(input.with_dims(target.dims().to_vec()))
    }

    /// The loss of one sample.
    fn loss(&self, scores: &[f64], target: usize) -> f64 {
        let wanted = scores.get(target).copied().unwrap_or(f64::NAN);
        let others = scores.iter().enumerate().filter(|(class, _)| *class != target);
        let distances = others.map(|(_, &score)| self.margin - wanted + score);
        // Like PyTorch's comparison, this drops NaN.
        let terms = distances.filter(|&distance| distance > 0.0);
        let sum: f64 = terms.map(|distance| if self.p == 1.0 { distance } else { distance * distance }).sum();
        sum / scores.len() as f64
    }
}

impl Layer for MultiMarginLoss {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.reduction.infer(self.losses(inputs)?)
    }
}

impl CpuLayer for MultiMarginLoss {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let limits = io.context.limits();
        let (scores, classes) = scores(&io.inputs[0], limits)?;
        let targets = number::read::<i64>(&io.inputs[self.target.0])?;
        let weight = self.weight.as_ref().map(|weight| weight.view(io.inputs)).transpose()?;
        let weight = weight.map(|weight| number::read::<f64>(&weight)).transpose()?;
        let mut losses = Vec::with_capacity(targets.len());
        for (scores, &target) in scores.chunks_exact(classes).zip(targets.iter()) {
            limits.check_deadline()?;
            let target = class_of(target, classes)?;
            let factor = weight.as_ref().and_then(|weight| weight.get(target)).copied().unwrap_or(1.0);
            losses.push(factor * self.loss(scores, target));
        }
        let count = losses.len().max(1) as f64;
        self.reduction.write_numbers(losses, count, &mut io.outputs[0])
    }
}

/// The loss of one sample for the targets before the first −1.
fn multilabel_loss(scores: &[f64], targets: &[i64]) -> Result<f64> {
    let end = targets.iter().position(|&target| target == -1).unwrap_or(targets.len());
    let targets = targets.iter().take(end).map(|&target| class_of(target, scores.len()));
    let targets = targets.collect::<Result<Vec<usize>>>()?;
    let mut is_target = vec![false; scores.len()];
    targets.iter().for_each(|&target| is_target[target] = true);
    let mut sum = 0.0;
    for target in targets {
        let others = scores.iter().zip(&is_target).filter(|(_, is_target)| !**is_target);
        let distances = others.map(|(score, _)| 1.0 - scores[target] + score);
        sum += distances.filter(|&distance| distance > 0.0).sum::<f64>();
    }
    Ok(sum / scores.len() as f64)
}

impl Layer for MultilabelMarginLoss {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (input, target) = (&inputs[0], &inputs[self.target.0]);
        classes_of(input)?;
        check_classes(target)?;
        if !target.may_have_dims(input.dims()) {
            return Err(LayerError::shape("the target", input.with_dtype(DType::I64), target));
        }
        let samples = input.dims().split_last().map_or(&[][..], |(_, samples)| samples);
        self.reduction.infer(input.with_dims(samples.to_vec()))
    }
}

impl CpuLayer for MultilabelMarginLoss {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let limits = io.context.limits();
        let (scores, classes) = scores(&io.inputs[0], limits)?;
        let targets = number::read::<i64>(&io.inputs[self.target.0])?;
        let mut losses = Vec::new();
        for (scores, targets) in scores.chunks_exact(classes).zip(targets.chunks_exact(classes)) {
            limits.check_deadline()?;
            losses.push(multilabel_loss(scores, targets)?);
        }
        let count = losses.len().max(1) as f64;
        self.reduction.write_numbers(losses, count, &mut io.outputs[0])
    }
}

operators! { MultiMarginLoss, MultilabelMarginLoss }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{assert_close, operator, tensor, waves};
    use ixion_tensor::Tensor;

    #[track_caller]
    fn check(op_type: &str, params: &[(&str, &str)], inputs: &[&Tensor], each: [f64; 2]) {
        let sum = each[0] + each[1];
        for (reduction, shape, want) in
            [("0", &[2][..], &each[..]), ("1", &[], &[sum / 2.0]), ("2", &[], &[sum])]
        {
            let params = [params, &[("reduction", reduction)]].concat();
            assert_close(&operator(op_type, &params).run_one(inputs).unwrap(), shape, want);
        }
    }

    #[test]
    fn losses_are_those_of_pytorch() {
        let (x, target) = (waves(&[2, 4]), tensor(&[2], &[2i64, 0]));
        check("aten::multi_margin_loss", &[], &[&x, &target], [0.1875, 1.6875]);
        let weight = tensor(&[4], &[0.5, 2.0, 1.0, 0.25]);
        let params = [("p", "2"), ("margin", "0.5")];
        check("aten::multi_margin_loss", &params, &[&x, &target, &weight], [0.015625, 1.90625]);
        let targets = tensor(&[2, 4], &[3i64, 0, -1, 1, 1, 2, 3, -1]);
        check("aten::multilabel_margin_loss", &[], &[&x, &targets], [3.25, 0.4375]);
        let same = tensor(&[2, 4], &[0i64, 0, -1, 1, 0, 0, 0, 0]);
        check("aten::multilabel_margin_loss", &[], &[&x, &same], [4.5, 6.75]);
    }

    #[test]
    fn a_single_sample_and_none() {
        let x = waves(&[4]);
        let each = operator("aten::multi_margin_loss", &[("reduction", "0")]);
        assert_close(&each.run_one(&[&x, &Tensor::scalar(2i64)]).unwrap(), &[], &[0.1875]);
        assert_close(&each.run_one(&[&x, &tensor(&[1], &[2i64])]).unwrap(), &[1], &[0.1875]);
        let list = tensor(&[4], &[3i64, 0, -1, 1]);
        let mean = operator("aten::multilabel_margin_loss", &[]);
        assert_close(&mean.run_one(&[&x, &list]).unwrap(), &[], &[3.25]);
        let (nothing, classes) = (Tensor::zeros(DType::F32, &[0, 4]), Tensor::zeros(DType::I64, &[0, 4]));
        assert_close(&mean.run_one(&[&nothing.unwrap(), &classes.unwrap()]).unwrap(), &[], &[0.0]);
        let scores = tensor(&[1, 2], &[f32::NAN, 1.0]);
        assert_close(&each.run_one(&[&scores, &tensor(&[1], &[1i64])]).unwrap(), &[1], &[0.0]);
    }

    #[test]
    fn what_does_not_fit() {
        let error = |op_type: &str, params: &[(&str, &str)], inputs: &[&Tensor]| {
            operator(op_type, params).run(inputs).unwrap_err().to_string()
        };
        let (x, target) = (waves(&[2, 4]), tensor(&[2], &[2i64, 4]));
        let outside = error("aten::multi_margin_loss", &[], &[&x, &target]);
        assert_eq!(outside, "class 4 is out of range: there are 4");
        assert!(error("aten::multi_margin_loss", &[("p", "3")], &[&x, &target]).contains("`p` is 3"));
        let shape = error("aten::multi_margin_loss", &[], &[&x, &tensor(&[3], &[0i64; 3])]);
        assert_eq!(shape, "the target: expected 2 i64, got 3 i64");
        let shape = error("aten::multilabel_margin_loss", &[], &[&x, &target]);
        assert_eq!(shape, "the target: expected 2×4 i64, got 2 i64");
        assert!(error("aten::multilabel_margin_loss", &[], &[&x, &x]).contains("expected i64, got f64"));
        operator("aten::multi_margin_loss", &[]).survives(2);
        operator("aten::multi_margin_loss", &[]).survives(3);
        operator("aten::multilabel_margin_loss", &[]).survives(2);
    }
}
