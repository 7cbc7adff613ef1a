//! Scores of classes: their labels, and what is done to them last.

use crate::OnnxError;
use crate::lower::call::Outputs;
use crate::lower::{Call, Constant, Value};
use ixion_pnnx::{Attribute, OperandId};

/// The labels of classes, in order.
#[derive(Debug)]
pub(super) struct Labels(Vec<i64>);

impl Labels {
    /// The labels that an attribute gives.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if they are strings, or missing.
    pub(super) fn of(call: &Call<'_>, ints: &'static str, strings: &'static str) -> Result<Self, OnnxError> {
        if call.strings(strings)?.is_some_and(|words| !words.is_empty()) {
            return Err(call.error(format!(
                "its labels (`{strings}`) are strings, which Ixion does not have; train with integers as labels"
            )));
        }
        match call.ints(ints)? {
            Some(labels) if !labels.is_empty() => Ok(Self(labels)),
            _ => Err(call.missing(ints)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The labels at these positions.
    fn at(&self, call: &mut Call<'_>, positions: OperandId) -> Result<OperandId, OnnxError> {
        let is_plain = self.0.iter().zip(0..).all(|(label, position)| *label == position);
        if is_plain {
            return Ok(positions);
        }
        let name = format!("{}.labels", call.name());
        let labels = Value::Constant(Constant::of_i64s(&name, vec![self.0.len()], &self.0)?);
        let labels = call.operand(&labels)?;
        call.emit("torch.index_select").named("input", labels).param("dim", 0).named("index", positions).one()
    }
}

/// The scores of a classifier.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scores {
    /// N×classes.
    All(OperandId),
    /// N×1, of the second of two classes, which is chosen above a bound.
    Single { scores: OperandId, bound: f64, first: First },
}

/// The score of the first of two classes, if there is one for the second only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// 1 minus the other.
    Complement,
    /// The other with the opposite sign.
    Opposite,
    /// 0.
    Zero,
}

impl Scores {
    /// The labels with the largest scores, and the scores of all classes.
    ///
    /// # Errors
    /// [`OnnxError`] if the operators cannot be added.
    pub(super) fn outputs(self, call: &mut Call<'_>, labels: &Labels, transform: &str) -> Outputs {
        let (places, scores) = match self {
            Self::All(scores) => {
                let places =
                    call.emit("torch.argmax").named("input", scores).param("dim", 1).param("keepdim", false);
                let places = places.one()?;
                (places, transformed(call, scores, transform)?)
            }
            Self::Single { scores, bound, first } => {
                let pair = match first {
                    First::Zero => both(call, "mul(@0,0.0)", scores)?,
                    _ if transform == "LOGISTIC" => both(call, "neg(@0)", scores)?,
                    First::Complement => both(call, "sub(1.0,@0)", scores)?,
                    First::Opposite => both(call, "neg(@0)", scores)?,
                };
                // The other transformations are for several scores.
                let is_of_one = matches!(transform, "LOGISTIC" | "PROBIT");
                let transform = if first == First::Zero || is_of_one { transform } else { "NONE" };
                (above(call, scores, bound)?, transformed(call, pair, transform)?)
            }
        };
        let labels = labels.at(call, places)?;
        Ok(vec![Value::Operand(labels), Value::Operand(scores)])
    }
}

/// 1 for rows whose only score is above a number, else 0.
fn above(call: &mut Call<'_>, scores: OperandId, bound: f64) -> Result<OperandId, OnnxError> {
    let is_above = call.emit("aten::gt").named("input", scores).param("other", bound).one()?;
    let numbers =
        call.operator("Tensor.to", &[is_above], &[("dtype", "torch.long".into()), ("copy", false.into())])?;
    call.emit("torch.squeeze").named("input", numbers).param("dim", 1).one()
}

/// Both columns: an expression of the only one, and that one.
fn both(call: &mut Call<'_>, text: &str, scores: OperandId) -> Result<OperandId, OnnxError> {
    let first = call.expression(text, &[scores])?;
    call.operator("torch.cat", &[first, scores], &[("dim", 1.into())])
}

/// What the attribute `post_transform` asks for.
///
/// # Errors
/// [`OnnxError::Node`] if it is unknown.
pub(super) fn transformed(
    call: &mut Call<'_>,
    x: OperandId,
    transform: &str,
) -> Result<OperandId, OnnxError> {
    match transform {
        "NONE" => Ok(x),
        "LOGISTIC" => call.emit("F.sigmoid").named("input", x).one(),
        "SOFTMAX" => call.emit("F.softmax").named("input", x).param("dim", 1).one(),
        "SOFTMAX_ZERO" => softmax_of_others(call, x),
        other => Err(call.error(format!("the transformation `{other}` is not supported"))),
    }
}

/// Softmax of the scores that are not 0; those stay.
fn softmax_of_others(call: &mut Call<'_>, x: OperandId) -> Result<OperandId, OnnxError> {
    let most =
        call.emit("torch.amax").named("input", x).param("dim", vec![1i64]).param("keepdim", true).one()?;
    let powers = call.expression("exp(sub(@0,@1))", &[x, most])?;
    let is_zero = call.emit("aten::eq").named("input", x).param("other", 0.0).one()?;
    let emit =
        call.emit("torch.masked_fill").named("input", powers).named("mask", is_zero).param("value", 0.0);
    let powers = emit.one()?;
    let sum = call
        .emit("torch.sum")
        .named("input", powers)
        .param("dim", vec![1i64])
        .param("keepdim", true)
        .one()?;
    // If all are 0, so is the sum.
    let sum = call.expression("max(@0,1e-38)", &[sum])?;
    call.expression("div(@0,@1)", &[powers, sum])
}

/// Numbers as a stored tensor of one axis.
///
/// # Errors
/// [`OnnxError::Weight`] if it cannot be stored.
pub(super) fn vector(call: &mut Call<'_>, values: &[f64]) -> Result<OperandId, OnnxError> {
    let narrow: Vec<f32> = values.iter().map(|value| *value as f32).collect();
    let name = format!("{}.values", call.name());
    let attribute = Attribute::from_f32s(vec![narrow.len()], &narrow)?;
    call.operand(&Value::Constant(Constant::new(&name, attribute)))
}
