//! Normalisation over the last axes, for operators that join it with something else.

use crate::OnnxError;
use crate::lower::call::Outputs;
use crate::lower::{Call, Value};
use ixion_pnnx::{OperandId, Parameter};

/// A normalisation.
#[derive(Debug)]
pub(super) struct Norm {
    /// Added to the variance, or to the mean of squares.
    pub(super) eps: f64,
    pub(super) weight: Value,
    pub(super) bias: Value,
}

/// Layer normalisation. The results are the output, and if `needs` says so the mean and 1 / √(variance + eps).
///
/// # Errors
/// [`OnnxError`] if the operators cannot be added.
pub(super) fn normalized(call: &mut Call<'_>, x: OperandId, norm: &Norm, needs: [bool; 2]) -> Outputs {
    let known = match (&norm.weight, &norm.bias) {
        (Value::Constant(weight), Value::Constant(bias)) => Some((weight.clone(), Some(bias.clone()))),
        (Value::Constant(weight), Value::Absent) => Some((weight.clone(), None)),
        _ => None,
    };
    let is_whole = known.is_some() && needs == [false, false];
    let mut results = [Value::Absent, Value::Absent, Value::Absent];
    if !is_whole {
        let mean = last_mean(call, x)?;
        let centred = call.expression("sub(@0,@1)", &[x, mean])?;
        let squares = call.expression("mul(@0,@0)", &[centred])?;
        let variance = last_mean(call, squares)?;
        let inverse = call.expression(&format!("rsqrt(add(@0,{:?}))", norm.eps), &[variance])?;
        let y = call.expression("mul(@0,@1)", &[centred, inverse])?;
        let y = affine(call, y, norm)?;
        results = [y, mean, inverse].map(Value::Operand);
    }
    if let Some((weight, bias)) = known {
        let lens: Vec<i64> = weight.shape().iter().filter_map(|len| i64::try_from(*len).ok()).collect();
        let mut emit = call.emit("nn.LayerNorm").input(x).param("normalized_shape", Parameter::from(lens));
        emit = emit.param("eps", norm.eps).param("elementwise_affine", true);
        emit = emit.attribute("weight", weight.attribute().clone());
        if let Some(bias) = bias {
            emit = emit.attribute("bias", bias.attribute().clone());
        }
        results[0] = Value::Operand(emit.one()?);
    }
    Ok(results.to_vec())
}

/// Division by the root mean square. The results are the output, nothing, and if `needs` says so its inverse.
///
/// # Errors
/// [`OnnxError`] if the operators cannot be added.
pub(super) fn root_mean_square(
    call: &mut Call<'_>,
    x: OperandId,
    norm: &Norm,
    needs: bool,
) -> Result<[Value; 3], OnnxError> {
    if let (Value::Constant(weight), false) = (&norm.weight, needs) {
        let weight = weight.clone();
        let lens: Vec<i64> = weight.shape().iter().filter_map(|len| i64::try_from(*len).ok()).collect();
        let emit = call.emit("nn.RMSNorm").input(x).param("normalized_shape", Parameter::from(lens));
        let emit = emit.param("eps", norm.eps).param("elementwise_affine", true);
        let y = emit.attribute("weight", weight.attribute().clone()).one()?;
        return Ok([Value::Operand(y), Value::Absent, Value::Absent]);
    }
    let squares = call.expression("mul(@0,@0)", &[x])?;
    let mean = last_mean(call, squares)?;
    let inverse = call.expression(&format!("rsqrt(add(@0,{:?}))", norm.eps), &[mean])?;
    let y = call.expression("mul(@0,@1)", &[x, inverse])?;
    let y = affine(call, y, norm)?;
    Ok([Value::Operand(y), Value::Absent, Value::Operand(inverse)])
}

fn last_mean(call: &mut Call<'_>, x: OperandId) -> Result<OperandId, OnnxError> {
    call.emit("torch.mean").named("input", x).param("dim", vec![-1i64]).param("keepdim", true).one()
}

/// The multiplication by the weight, and the addition of the bias if there is one.
fn affine(call: &mut Call<'_>, y: OperandId, norm: &Norm) -> Result<OperandId, OnnxError> {
    let weight = call.operand(&norm.weight)?;
    let y = call.expression("mul(@0,@1)", &[y, weight])?;
    if matches!(norm.bias, Value::Absent) {
        return Ok(y);
    }
    let bias = call.operand(&norm.bias)?;
    call.expression("add(@0,@1)", &[y, bias])
}
