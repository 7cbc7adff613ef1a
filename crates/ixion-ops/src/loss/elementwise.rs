//! Losses of single elements: each is an expression of the elements of the input and of the target.

use super::reduction::Reduction;
use crate::arithmetic::binary::{compiled, expr_of};
use crate::arithmetic::expression::Expression;
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::TensorOrScalar;
use crate::support::delegation::delegating;
use crate::support::float;
use crate::support::float::with_float;
use ixion_kernels::Float;
use ixion_pnnx::Expr;
use ixion_tensor::TensorView;
use std::ops::RangeInclusive;

/// The input.
const X: Expr = Expr::Input(0);

fn tensor(position: InputIndex) -> Expr {
    Expr::Input(position.0)
}

/// The element type of the losses.
#[derive(Debug, Clone, Copy)]
enum Typed {
    /// That of the expression.
    Promoted,
    /// That of the expression, which must be a float.
    Float,
    /// That of an input; the expression must be a float.
    Like(usize),
}

/// A loss that an expression computes for each element.
#[derive(Debug, Clone)]
pub(super) struct Elementwise {
    each: Expression,
    typed: Typed,
    reduction: Reduction,
}

impl Elementwise {
    /// The loss of a template, in which `@0`, `@1` and so on are the operands.
    fn new(template: &str, operands: &[Expr], typed: Typed, reduction: Reduction) -> Result<Self> {
        Ok(Self { each: compiled(template, operands)?, typed, reduction })
    }

    /// The loss of a template of floats, in which `@0`, `@1` and so on are the operands.
    pub(super) fn of_floats(template: &str, operands: &[Expr], reduction: Reduction) -> Result<Self> {
        Self::new(template, operands, Typed::Float, reduction)
    }

    /// The losses of all elements.
    fn losses(&self, inputs: &[TensorMeta]) -> Result<TensorMeta> {
        let losses = self.each.expr.infer(inputs)?;
        if matches!(self.typed, Typed::Promoted) {
            return Ok(losses);
        }
        float::check("the losses of these inputs", &losses)?;
        match self.typed {
            Typed::Like(position) => {
                let input =
                    inputs.get(position).ok_or_else(|| LayerError::missing_input(position, inputs.len()))?;
                float::check(&format!("input {position}"), input)?;
                if let Some(complex) = inputs.iter().find(|input| input.dtype().is_complex()) {
                    return Err(LayerError::dtype("an input", "real numbers", complex.dtype()));
                }
                Ok(losses.with_dtype(input.dtype()))
            }
            Typed::Promoted | Typed::Float => Ok(losses),
        }
    }
}

impl Layer for Elementwise {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.reduction.infer(self.losses(inputs)?)
    }
}

impl CpuLayer for Elementwise {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let losses = self.losses(&TensorMeta::of_all(io.inputs))?;
        let Self { each, reduction, .. } = self;
        reduction.write(&losses, io, &mut |inputs, output, context| {
            each.forward(&mut Io::new(inputs, &mut [output.reborrow()], context))
        })
    }

    fn workspace(&self, _: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        Reduction::workspace(outputs)
    }
}

crate::operator! {
    /// `torch.nn.functional.mse_loss`: the squared differences between the input and the target.
    pub struct MseLoss for "aten::mse_loss" {
        /// The targets; both are broadcast.
        target: InputIndex,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
    }
}

crate::operator! {
    /// `torch.nn.functional.l1_loss`: the absolute differences between the input and the target, which may be complex.
    pub struct L1Loss for "aten::l1_loss" {
        /// The targets; both are broadcast.
        target: InputIndex,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
    }
}

crate::operator! {
    /// `torch.nn.functional.smooth_l1_loss`: z²/(2·`beta`) for an absolute difference z below `beta`, else z − `beta`/2.
    pub struct SmoothL1Loss for "aten::smooth_l1_loss" {
        /// The targets; both are broadcast.
        target: InputIndex,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
        /// The difference from which on the loss grows linearly.
        beta: f64 = 1.0,
    }
    validate |loss| {
        match loss.beta >= 0.0 {
            true => Ok(()),
            false => Err(LayerError::invalid("beta", loss.beta, "it must not be negative")),
        }
    }
}

crate::operator! {
    /// `torch.nn.functional.huber_loss`: z²/2 for an absolute difference z below `delta`, else `delta`·(z − `delta`/2).
    pub struct HuberLoss for "aten::huber_loss" {
        /// The targets; both are broadcast.
        target: InputIndex,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
        /// The difference from which on the loss grows linearly.
        delta: f64 = 1.0,
    }
    validate |loss| {
        match loss.delta > 0.0 {
            true => Ok(()),
            false => Err(LayerError::invalid("delta", loss.delta, "it must be positive")),
        }
    }
}

crate::operator! {
    /// `torch.nn.functional.kl_div`: the terms of the divergence of distributions (Kullback and Leibler, 1951), t·(ln t − x)
    /// for the logarithm x of a probability and the target t; 0 for t = 0.
    pub struct KlDiv for "aten::kl_div" {
        /// The targets, which are probabilities; both are broadcast.
        target: InputIndex,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
        /// Whether the targets are logarithms of probabilities.
        log_target: bool = false,
    }
}

crate::operator! {
    /// `torch.nn.functional.binary_cross_entropy`: −t·ln x − (1 − t)·ln(1 − x) for a probability x and the target t, with
    /// logarithms of at least −100.
    pub struct BinaryCrossEntropy for "aten::binary_cross_entropy" {
        /// The targets, of the shape and the element type of the input.
        target: InputIndex,
        /// Factors of the losses, which are broadcast.
        weight: Option<TensorOrScalar> = None,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
    }
}

crate::operator! {
    /// `torch.nn.functional.binary_cross_entropy_with_logits`: the binary cross-entropy of the sigmoid of the input and the
    /// target, without overflow.
    pub struct BinaryCrossEntropyWithLogits for "aten::binary_cross_entropy_with_logits" {
        /// The targets, which determine the element type of the output.
        target: InputIndex,
        /// Factors of the losses, which are broadcast.
        weight: Option<TensorOrScalar> = None,
        /// Factors of the terms of the targets, not of their complements, which are broadcast.
        pos_weight: Option<TensorOrScalar> = None,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
    }
}

crate::operator! {
    /// `torch.nn.functional.poisson_nll_loss`: the negative logarithm of the likelihood of counts t, eˣ − t·x, or
    /// x − t·ln(x + `eps`).
    pub struct PoissonNllLoss for "aten::poisson_nll_loss" {
        /// The counts; both are broadcast.
        target: InputIndex,
        /// Whether the input is the logarithm of the expected counts.
        log_input: bool = true,
        /// Whether to add Stirling's approximation of ln t! for counts above 1.
        full: bool = false,
        /// The value that is added to expected counts before their logarithm.
        eps: f64 = 1e-8,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
    }
}

crate::operator! {
    /// `torch.nn.functional.hinge_embedding_loss`: x for a target of 1, max(0, `margin` − x) for a target of −1, and the sum
    /// of both for any other.
    pub struct HingeEmbeddingLoss for "aten::hinge_embedding_loss" {
        /// The targets; both are broadcast.
        target: InputIndex,
        /// The margin.
        margin: f64 = 1.0,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
    }
}

crate::operator! {
    /// `torch.nn.functional.margin_ranking_loss`: max(0, −t·(x − y) + `margin`), for a target t of 1 if the input x should be
    /// ranked higher than y, and of −1 if lower.
    pub struct MarginRankingLoss for "aten::margin_ranking_loss" {
        /// The other ranks y; all three are broadcast.
        input2: InputIndex,
        /// The targets.
        target: InputIndex,
        /// The margin.
        margin: f64 = 0.0,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
    }
}

crate::operator! {
    /// `torch.nn.functional.soft_margin_loss`: ln(1 + e⁻ᵗˣ) for the target t, 1 or −1.
    pub struct SoftMarginLoss for "aten::soft_margin_loss" {
        /// The targets; both are broadcast.
        target: InputIndex,
        /// How the losses are combined.
        reduction: Reduction = Reduction::Mean,
    }
}

impl SmoothL1Loss {
    fn loss(&self) -> Result<Elementwise> {
        // The part of the difference below `beta`, and the rest.
        let template = if self.beta == 0.0 {
            "abs(sub(@0,@1))"
        } else {
            "add(div(mul(mul(minimum(abs(sub(@0,@1)),@2),0.5),minimum(abs(sub(@0,@1)),@2)),@2),\
             sub(abs(sub(@0,@1)),minimum(abs(sub(@0,@1)),@2)))"
        };
        Elementwise::of_floats(template, &[X, tensor(self.target), Expr::Float(self.beta)], self.reduction)
    }
}

impl HuberLoss {
    fn loss(&self) -> Result<Elementwise> {
        // The part of the difference below `delta`, and the rest.
        let template = if self.delta == f64::INFINITY {
            "mul(mul(sub(@0,@1),0.5),sub(@0,@1))"
        } else {
            "add(mul(mul(minimum(abs(sub(@0,@1)),@2),0.5),minimum(abs(sub(@0,@1)),@2)),\
             mul(sub(abs(sub(@0,@1)),minimum(abs(sub(@0,@1)),@2)),@2))"
        };
        let operands = [X, tensor(self.target), Expr::Float(self.delta)];
        Elementwise::new(template, &operands, Typed::Like(0), self.reduction)
    }
}

impl KlDiv {
    fn loss(&self) -> Result<Elementwise> {
        let template = match self.log_target {
            true => "mul(exp(@1),sub(@1,@0))",
            // The logarithm of 1, not of 0, for a target of 0.
            false => "sub(mul(@1,log(add(@1,sub(1,sign(abs(@1)))))),mul(@1,@0))",
        };
        Elementwise::of_floats(template, &[X, tensor(self.target)], self.reduction)
    }
}

/// A template with a factor, if there is one, and the operand that it is.
fn weighted(template: &str, weight: Option<TensorOrScalar>, operands: &mut Vec<Expr>) -> String {
    match weight {
        None => template.to_owned(),
        Some(weight) => {
            operands.push(expr_of(weight));
            format!("mul({template},@{})", operands.len() - 1)
        }
    }
}

impl BinaryCrossEntropy {
    fn loss(&self) -> Result<Elementwise> {
        let template = "sub(mul(sub(@1,1),maximum(log1p(neg(@0)),-100)),mul(@1,maximum(log(@0),-100)))";
        let mut operands = vec![X, tensor(self.target)];
        let template = weighted(template, self.weight, &mut operands);
        Elementwise::new(&template, &operands, Typed::Like(0), self.reduction)
    }
}

impl BinaryCrossEntropyWithLogits {
    fn loss(&self) -> Result<Elementwise> {
        let log_sigmoid = "sub(minimum(@0,0),log1p(exp(neg(abs(@0)))))";
        let mut operands = vec![X, tensor(self.target)];
        let log_sigmoid = match self.pos_weight {
            None => log_sigmoid.to_owned(),
            Some(weight) => {
                operands.push(expr_of(weight));
                format!("mul({log_sigmoid},add(mul(sub(@2,1),@1),1))")
            }
        };
        let template = format!("sub(mul(sub(1,@1),@0),{log_sigmoid})");
        let template = weighted(&template, self.weight, &mut operands);
        Elementwise::new(&template, &operands, Typed::Like(self.target.0), self.reduction)
    }
}

impl PoissonNllLoss {
    fn loss(&self) -> Result<Elementwise> {
        let template = match self.log_input {
            true => "sub(exp(@0),mul(@1,@0))",
            false => "sub(@0,mul(@1,log(add(@0,@2))))",
        };
        // The factor `sign` is 0 for counts up to 1.
        let stirling = "mul(add(sub(mul(maximum(@1,1),log(maximum(@1,1))),maximum(@1,1)),\
                        mul(log(mul(maximum(@1,1),@3)),0.5)),sign(sub(maximum(@1,1),1)))";
        let template = match self.full {
            true => format!("add({template},{stirling})"),
            false => template.to_owned(),
        };
        let circle = Expr::Float(2.0 * std::f64::consts::PI);
        let operands = [X, tensor(self.target), Expr::Float(self.eps), circle];
        Elementwise::of_floats(&template, &operands, self.reduction)
    }
}

impl HingeEmbeddingLoss {
    fn loss(&self) -> Result<Elementwise> {
        // Each term is limited to ±∞ where it counts, and to ±0 elsewhere: as a factor, 0 would make an infinite term NaN.
        let bound = |differs: &str| format!("div({differs},xor({differs},True))");
        let (from_one, from_minus_one) =
            (bound("torch.bool(sub(torch.double(@1),1))"), bound("torch.bool(add(torch.double(@1),1))"));
        let apart = format!("minimum(maximum(sub(@2,@0),0),{from_one})");
        let near = format!("maximum(minimum(@0,{from_minus_one}),neg({from_minus_one}))");
        let operands = [X, tensor(self.target), Expr::Float(self.margin)];
        Elementwise::new(&format!("add({apart},{near})"), &operands, Typed::Like(0), self.reduction)
    }
}

delegating! {
    MseLoss |loss| Elementwise::of_floats("square(sub(@0,@1))", &[X, tensor(loss.target)], loss.reduction)?;
    L1Loss |loss| {
        Elementwise::new("abs(sub(@0,@1))", &[X, tensor(loss.target)], Typed::Promoted, loss.reduction)?
    };
    SmoothL1Loss |loss| loss.loss()?;
    HuberLoss |loss| loss.loss()?;
    KlDiv |loss| loss.loss()?;
    BinaryCrossEntropyWithLogits |loss| loss.loss()?;
    PoissonNllLoss |loss| loss.loss()?;
    HingeEmbeddingLoss |loss| loss.loss()?;
    MarginRankingLoss |loss| {
        let operands = [X, tensor(loss.input2), tensor(loss.target), Expr::Float(loss.margin)];
        Elementwise::of_floats("maximum(add(mul(neg(@2),sub(@0,@1)),@3),0)", &operands, loss.reduction)?
    };
    SoftMarginLoss |loss| {
        let operands = [X, tensor(loss.target)];
        Elementwise::new("log1p(exp(mul(neg(@0),@1)))", &operands, Typed::Like(0), loss.reduction)?
    };
}

/// The first element that is not a probability.
fn improbable<T: Float>(input: &TensorView<'_>) -> Result<Option<f64>> {
    let values = float::read::<T>(input)?;
    let found = values.iter().find(|&x| !(T::zero()..=T::one()).contains(x));
    Ok(found.map(|x| x.to_f64().unwrap_or(f64::NAN)))
}

fn check_probabilities(what: &str, input: &TensorView<'_>) -> Result<()> {
    match with_float!(input.dtype(), T => improbable::<T>(input))? {
        None => Ok(()),
        Some(found) => {
            Err(LayerError::Unsupported(format!("{what}: expected probabilities from 0 to 1, got {found}")))
        }
    }
}

impl Layer for BinaryCrossEntropy {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (input, target) = (&inputs[0], &inputs[self.target.0]);
        if input.dtype() != target.dtype() {
            return Err(LayerError::dtype("the target", input.dtype(), target.dtype()));
        }
        if !target.may_have_dims(input.dims()) {
            return Err(LayerError::shape("the target", input, target));
        }
        self.loss()?.infer(inputs)
    }
}

impl CpuLayer for BinaryCrossEntropy {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        check_probabilities("the input", &io.inputs[0])?;
        check_probabilities("the target", &io.inputs[self.target.0])?;
        self.loss()?.forward(io)
    }

    fn workspace(&self, _: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        Reduction::workspace(outputs)
    }
}

operators! {
    MseLoss, L1Loss, SmoothL1Loss, HuberLoss, KlDiv, BinaryCrossEntropy, BinaryCrossEntropyWithLogits, PoissonNllLoss,
    HingeEmbeddingLoss, MarginRankingLoss, SoftMarginLoss
}

#[cfg(test)]
mod tests;
