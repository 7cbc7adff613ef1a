//! Losses, which models keep when they are exported with their training graph.

use super::types;
use crate::OnnxError;
use crate::lower::call::{Outputs, Table};
use crate::lower::{Call, Value};
use ixion_pnnx::OperandId;

pub(super) const TABLE: Table =
    &[("NegativeLogLikelihoodLoss", likelihood), ("SoftmaxCrossEntropyLoss", entropy)];

fn likelihood(call: &mut Call<'_>) -> Outputs {
    Ok(vec![Value::Operand(loss(call, "aten::nll_loss_nd")?)])
}

/// The loss, and the logarithms of the probabilities.
fn entropy(call: &mut Call<'_>) -> Outputs {
    let loss = loss(call, "aten::cross_entropy_loss")?;
    let mut outputs = vec![Value::Operand(loss)];
    if call.has_output(1) {
        let scores = call.input(0)?;
        outputs.push(Value::Operand(call.operator("F.log_softmax", &[scores], &[("dim", 1i64.into())])?));
    }
    Ok(outputs)
}

fn loss(call: &mut Call<'_>, op_type: &str) -> Result<OperandId, OnnxError> {
    let reduction = call.string_or("reduction", "mean")?;
    if !matches!(reduction, "mean" | "none" | "sum") {
        return Err(call.error(format!("expected `reduction` to be mean, none or sum, got `{reduction}`")));
    }
    let ignored = call.int("ignore_index")?;
    let (scores, target) = (call.input(0)?, types::long(call, 1)?);
    let weight = call.optional_input(2)?;
    let emit = call.emit(op_type).input(scores).named("target", target).named_if("weight", weight);
    emit.param_if("ignore_index", ignored).param("reduction", reduction).one()
}
