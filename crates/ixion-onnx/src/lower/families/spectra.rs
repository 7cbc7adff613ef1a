//! Fourier transforms and windows.

use super::arguments::Argument;
use super::types;
use crate::OnnxError;
use crate::lower::Call;
use crate::lower::call::{Outputs, Table, one};

pub(super) const TABLE: Table = &[
    ("BlackmanWindow", window),
    ("DFT", transform),
    ("HammingWindow", window),
    ("HannWindow", window),
    ("MelWeightMatrix", mel_weights),
    ("STFT", short_time_transform),
];

/// ONNX's number of the output's element type, which Ixion has; f32 by default.
fn output_type(call: &Call<'_>) -> Result<i64, OnnxError> {
    types::of_attribute(call, "output_datatype")?;
    call.int_or("output_datatype", 1)
}

fn window(call: &mut Call<'_>) -> Outputs {
    let number = output_type(call)?;
    let periodic = call.flag_or("periodic", true)?;
    let size = types::long(call, 0)?;
    let op_type = call.op_type();
    let emit = call.emit(op_type).input(size).param("output_datatype", number);
    one(emit.param("periodic", i64::from(periodic)).one())
}

fn transform(call: &mut Call<'_>) -> Outputs {
    let (inverse, onesided) = (call.flag_or("inverse", false)?, call.flag_or("onesided", false)?);
    // An input since version 20, when the default became the last axis of the signal.
    let axis = match call.version() < 20 {
        true => Some(call.int_or("axis", 1)?),
        false if !call.has_input(2) => Some(-2),
        false => call.constant_int(2)?,
    };
    let mut inputs = vec![call.input(0)?];
    if call.has_input(1) {
        inputs.push(types::long(call, 1)?);
    }
    if axis.is_none() {
        inputs.push(types::long(call, 2)?);
    }
    let mut params = vec![("inverse", i64::from(inverse).into()), ("onesided", i64::from(onesided).into())];
    params.extend(axis.map(|axis| ("axis", axis.into())));
    one(call.operator("DFT", &inputs, &params))
}

fn short_time_transform(call: &mut Call<'_>) -> Outputs {
    let onesided = call.flag_or("onesided", true)?;
    let step = match call.constant_ints(1)? {
        Some(step) => Argument::list(step),
        None => Argument::Computed(types::long(call, 1)?),
    };
    let (x, window) = (call.input(0)?, call.optional_input(2)?);
    let length = if call.has_input(3) { Some(types::long(call, 3)?) } else { None };
    let mut emit =
        call.emit("STFT").input(x).param("onesided", i64::from(onesided)).argument("frame_step", step);
    for operand in [window, length].into_iter().flatten() {
        emit = emit.input(operand);
    }
    one(emit.one())
}

/// Weights of filters on the mel scale.
fn mel_weights(call: &mut Call<'_>) -> Outputs {
    let number = output_type(call)?;
    let (bands, len) = (types::long(call, 0)?, types::long(call, 1)?);
    let (rate, lowest, highest) = (call.input(2)?, call.input(3)?, call.input(4)?);
    let emit = call.emit("MelWeightMatrix").input(bands).named("dft_length", len).named("sample_rate", rate);
    let emit = emit.named("lower_edge_hertz", lowest).named("upper_edge_hertz", highest);
    one(emit.param("output_datatype", number).one())
}
