//! Recurrent networks.
//!
//! With known weights and the usual functions, a network becomes PyTorch's module, with its gates in PyTorch's order. Otherwise it
//! keeps its ONNX name.

use super::recurrent_weights::{Network, network};
use crate::OnnxError;
use crate::lower::call::{Outputs, Table};
use crate::lower::{Call, Value};
use ixion_pnnx::{OperandId, Parameter};

pub(super) const TABLE: Table = &[("GRU", recurrent), ("LSTM", recurrent), ("RNN", recurrent)];

/// Positions of the optional inputs.
const LENS: usize = 4;
const HIDDEN: usize = 5;
const MEMORY: usize = 6;
const PEEPHOLES: usize = 7;

fn recurrent(call: &mut Call<'_>) -> Outputs {
    let options = Options::of(call)?;
    let has_more = call.has_input(LENS) || call.has_input(PEEPHOLES);
    if !has_more && options.is_usual(call.op_type()) {
        let weights = (call.constant(1)?, call.constant(2)?, call.constant(3)?);
        if let (Some(input), Some(state), bias) = weights
            && bias.is_some() == call.has_input(3)
            && let Some(network) = network(call.op_type(), [&input, &state], bias.as_ref())?
        {
            return module(call, &options, network);
        }
    }
    operator(call, options)
}

/// The attributes.
struct Options<'c> {
    direction: &'c str,
    activations: Vec<&'c str>,
    alphas: Vec<f32>,
    betas: Vec<f32>,
    clip: Option<f32>,
    layout: i64,
    hidden_size: Option<i64>,
    input_forget: i64,
    linear_before_reset: i64,
}

impl<'c> Options<'c> {
    fn of(call: &Call<'c>) -> Result<Self, OnnxError> {
        let is = |op_type: &str| call.op_type() == op_type;
        Ok(Self {
            direction: call.string_or("direction", "forward")?,
            activations: call.strings("activations")?.unwrap_or_default(),
            alphas: call.floats("activation_alpha")?.unwrap_or_default(),
            betas: call.floats("activation_beta")?.unwrap_or_default(),
            clip: call.float("clip")?,
            layout: call.int_or("layout", 0)?,
            hidden_size: call.int("hidden_size")?,
            input_forget: if is("LSTM") { call.int_or("input_forget", 0)? } else { 0 },
            linear_before_reset: if is("GRU") { call.int_or("linear_before_reset", 0)? } else { 1 },
        })
    }

    /// Returns true if PyTorch's module computes the same.
    fn is_usual(&self, op_type: &str) -> bool {
        let usual: &[&str] = match op_type {
            "LSTM" => &["sigmoid", "tanh", "tanh"],
            "GRU" => &["sigmoid", "tanh"],
            _ => &["tanh"],
        };
        let mut names = self.activations.iter().zip(usual.iter().cycle());
        let is_default = names.all(|(name, usual)| name.eq_ignore_ascii_case(usual));
        let is_one_kind = self.input_forget == 0 && self.linear_before_reset != 0 && self.layout == 0;
        let is_known = matches!(self.direction, "forward" | "bidirectional");
        is_default && is_one_kind && self.clip.is_none() && is_known
    }
}

/// The network as a module of PyTorch, whose output joins both directions along the last axis.
fn module(call: &mut Call<'_>, options: &Options<'_>, network: Network) -> Outputs {
    let is_bidirectional = options.direction == "bidirectional";
    let directions = if is_bidirectional { 2 } else { 1 };
    if network.directions != directions {
        let (found, direction) = (network.directions, options.direction);
        return Err(
            call.error(format!("its weights have {found} directions, but its direction is `{direction}`"))
        );
    }
    let hidden = call.optional_input(HIDDEN)?;
    let has_memory = call.op_type() == "LSTM";
    let memory = if has_memory { call.optional_input(MEMORY)? } else { None };
    let (hidden, memory) = states(call, has_memory, hidden, memory)?;
    let x = call.input(0)?;
    let op_type = format!("nn.{}", call.op_type());
    let size = i64::try_from(network.hidden_size).unwrap_or_default();
    let mut emit = call.emit(&op_type).input(x).named_if("initial_h", hidden).named_if("initial_c", memory);
    emit = emit.param("batch_first", false).param("bidirectional", is_bidirectional).param("num_layers", 1);
    emit = emit.param("input_size", i64::try_from(network.input_size).unwrap_or_default());
    emit = emit.param("hidden_size", size).param("bias", network.has_bias);
    emit = match has_memory {
        true => emit.param("proj_size", 0),
        false if op_type == "nn.RNN" => emit.param("nonlinearity", "tanh"),
        false => emit,
    };
    for (key, weight) in network.weights {
        emit = emit.attribute(key, weight);
    }
    let results = emit.many(if has_memory { 3 } else { 2 })?;
    let mut values: Vec<Value> = results.iter().copied().map(Value::Operand).collect();
    if let (Some(all), Some(&output)) = (values.first_mut(), results.first()) {
        *all = Value::Operand(by_direction(call, output, directions, size)?);
    }
    Ok(values)
}

/// Both states of an LSTM, of which the file may leave out one: it is zero then.
fn states(
    call: &mut Call<'_>,
    has_memory: bool,
    hidden: Option<OperandId>,
    memory: Option<OperandId>,
) -> Result<(Option<OperandId>, Option<OperandId>), OnnxError> {
    Ok(match (hidden, memory) {
        (Some(hidden), None) if has_memory => (Some(hidden), Some(zeros(call, hidden)?)),
        (None, Some(memory)) => (Some(zeros(call, memory)?), Some(memory)),
        both => both,
    })
}

fn zeros(call: &mut Call<'_>, like: OperandId) -> Result<OperandId, OnnxError> {
    call.emit("torch.zeros_like").named("input", like).one()
}

/// L×N×directions·H as L×directions×N×H.
fn by_direction(
    call: &mut Call<'_>,
    output: OperandId,
    directions: usize,
    hidden_size: i64,
) -> Result<OperandId, OnnxError> {
    if directions == 1 {
        return call.emit("torch.unsqueeze").named("input", output).param("dim", 1).one();
    }
    let sizes = Parameter::from(vec![2, hidden_size]);
    let parts =
        call.emit("Tensor.unflatten").named("input", output).param("dim", -1).param("sizes", sizes).one()?;
    call.emit("torch.permute").named("input", parts).param("dims", vec![0i64, 2, 1, 3]).one()
}

/// The network under its ONNX name.
fn operator(call: &mut Call<'_>, options: Options<'_>) -> Outputs {
    let has_memory = call.op_type() == "LSTM";
    let mut inputs = vec![call.input(0)?, call.input(1)?, call.input(2)?];
    inputs.extend(call.optional_input(3)?);
    inputs.extend(call.optional_input(LENS)?);
    let hidden = call.optional_input(HIDDEN)?;
    let memory = if has_memory { call.optional_input(MEMORY)? } else { None };
    let (hidden, memory) = states(call, has_memory, hidden, memory)?;
    inputs.extend(hidden);
    inputs.extend(memory);
    if has_memory {
        inputs.extend(call.optional_input(PEEPHOLES)?);
    }
    let op_type = call.op_type();
    let mut emit = call.emit(op_type);
    for input in inputs {
        emit = emit.input(input);
    }
    let numbers = |list: Vec<f32>| (!list.is_empty()).then(|| Parameter::from(widened(&list)));
    emit = emit.param("direction", options.direction).param("layout", options.layout);
    emit = emit.param_if("hidden_size", options.hidden_size);
    emit = emit.param_if("activation_alpha", numbers(options.alphas));
    emit = emit.param_if("activation_beta", numbers(options.betas));
    emit = emit.param_if("clip", options.clip.map(f64::from));
    if !options.activations.is_empty() {
        emit = emit.param("activations", format!("({})", options.activations.join(",")));
    }
    emit = match op_type {
        "LSTM" => emit.param("input_forget", options.input_forget),
        "GRU" => emit.param("linear_before_reset", options.linear_before_reset),
        _ => emit,
    };
    let (results, count) = if has_memory { ("(Y,Y_h,Y_c)", 3) } else { ("(Y,Y_h)", 2) };
    let results = emit.param("results", results).many(count)?;
    Ok(results.into_iter().map(Value::Operand).collect())
}

fn widened(list: &[f32]) -> Vec<f64> {
    list.iter().map(|number| f64::from(*number)).collect()
}
