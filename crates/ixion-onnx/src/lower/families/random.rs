//! Random numbers. ONNX does not say which numbers follow from a seed.

use super::types;
use crate::lower::Call;
use crate::lower::call::{Outputs, Table, one};
use ixion_pnnx::Parameter;

pub(super) const TABLE: Table = &[
    ("Bernoulli", like),
    ("Multinomial", multinomial),
    ("RandomNormal", of_shape),
    ("RandomNormalLike", like),
    ("RandomUniform", of_shape),
    ("RandomUniformLike", like),
];

/// The factors of a distribution that are given.
fn factors(call: &Call<'_>) -> Result<Vec<(&'static str, Parameter)>, crate::OnnxError> {
    let keys: &[&'static str] = match call.op_type() {
        "RandomNormal" | "RandomNormalLike" => &["mean", "scale"],
        "RandomUniform" | "RandomUniformLike" => &["low", "high"],
        _ => &[],
    };
    let mut factors = Vec::new();
    for key in keys {
        if let Some(factor) = call.float(key)? {
            factors.push((*key, factor.into()));
        }
    }
    if types::of_attribute(call, "dtype")?.is_some() {
        factors.extend(call.int("dtype")?.map(|number| ("dtype", number.into())));
    }
    call.ignore(&["seed"]);
    Ok(factors)
}

fn like(call: &mut Call<'_>) -> Outputs {
    let factors = factors(call)?;
    let x = call.input(0)?;
    let op_type = call.op_type();
    one(call.operator(op_type, &[x], &factors))
}

fn of_shape(call: &mut Call<'_>) -> Outputs {
    let mut factors = factors(call)?;
    let shape = call.ints("shape")?.ok_or_else(|| call.missing("shape"))?;
    factors.push(("shape", shape.into()));
    let op_type = call.op_type();
    one(call.operator(op_type, &[], &factors))
}

fn multinomial(call: &mut Call<'_>) -> Outputs {
    let mut factors = factors(call)?;
    factors.push(("sample_size", call.int_or("sample_size", 1)?.into()));
    let x = call.input(0)?;
    one(call.operator("Multinomial", &[x], &factors))
}
