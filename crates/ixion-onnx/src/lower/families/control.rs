//! Branches and loops.
//!
//! A graph of Ixion has no branches. If a condition is known when the model is read, the nodes of its branch take the place of
//! `If`; else both branches are computed, and the operator `If` chooses between their results. The iterations of a loop follow
//! one another in the graph, so that their number has to be known.

use super::super::{Call, Constant, Value};
use super::stacking::{empty, stack};
use crate::OnnxError;
use crate::lower::call::{Outputs, Table};
use crate::schema::ValueInfoProto;
use ixion_pnnx::Attribute;
use ixion_tensor::DType;

pub(super) const TABLE: Table = &[("If", if_), ("Loop", loop_)];

/// What to know about a condition that is computed.
const BOTH: &str = "its condition is computed by the graph, so that both branches are computed, and neither may fail; \
                    if it depends on an input that never changes, fix that input (`--constant NAME=VALUE`)";

/// One of two graphs, or a choice between the results of both.
fn if_(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["then_branch", "else_branch"]);
    if let Some(condition) = truth(call, 0)? {
        let body = call.body(if condition { "then_branch" } else { "else_branch" })?;
        return call.run(&body, Vec::new());
    }
    if call.lowering().is_outermost() {
        log::warn!("{}", call.error(BOTH));
    }
    let then = call.body("then_branch")?;
    let then = call.run(&then, Vec::new())?;
    let other = call.body("else_branch")?;
    let other = call.run(&other, Vec::new())?;
    if then.len() != other.len() {
        let (first, second) = (then.len(), other.len());
        return Err(call.error(format!("its branches have {first} and {second} outputs")));
    }
    let mut pairs = Vec::new();
    let chosen: Result<Vec<Chosen>, OnnxError> =
        then.into_iter().zip(other).map(|(then, other)| choice(call, then, other, &mut pairs)).collect();
    let chosen = chosen?;
    let operands = choose(call, &pairs)?;
    let values = chosen.into_iter().map(|chosen| chosen.value(&operands));
    values.collect::<Option<_>>().ok_or_else(|| call.error("an output is missing"))
}

/// Where the value of an output comes from.
enum Chosen {
    /// The same value in both branches.
    Both(Value),
    /// An output of the operator that chooses.
    Output(usize),
    Sequence(Vec<Chosen>),
}

impl Chosen {
    fn value(self, operands: &[Value]) -> Option<Value> {
        match self {
            Self::Both(value) => Some(value),
            Self::Output(position) => operands.get(position).cloned(),
            Self::Sequence(items) => {
                items.into_iter().map(|item| item.value(operands)).collect::<Option<_>>().map(Value::sequence)
            }
        }
    }
}

/// The choice between two values. Those that differ are added to `pairs`.
fn choice(
    call: &mut Call<'_>,
    then: Value,
    other: Value,
    pairs: &mut Vec<[Value; 2]>,
) -> Result<Chosen, OnnxError> {
    match (then, other) {
        (Value::Absent, Value::Absent) => Ok(Chosen::Both(Value::Absent)),
        (Value::Operand(then), Value::Operand(other)) if then == other => {
            Ok(Chosen::Both(Value::Operand(then)))
        }
        (Value::Constant(then), Value::Constant(other)) if are_equal(&then, &other)? => {
            Ok(Chosen::Both(Value::Constant(then)))
        }
        (Value::Sequence(then), Value::Sequence(other)) if then.len() == other.len() => {
            call.spend_on(then.len())?;
            let items = then.iter().cloned().zip(other.iter().cloned());
            let items = items.map(|(then, other)| choice(call, then, other, pairs));
            Ok(Chosen::Sequence(items.collect::<Result<_, _>>()?))
        }
        (then, other) if then.is_tensor() && other.is_tensor() => {
            pairs.push([then, other]);
            Ok(Chosen::Output(pairs.len() - 1))
        }
        (then, other) => {
            let (then, other) = (describe(&then), describe(&other));
            Err(call.error(format!(
                "its condition is computed, and the results are {then} and {other}; only tensors, and sequences of one length, \
                 can be chosen between when the model runs"
            )))
        }
    }
}

/// Whether two constants are known to be equal. Large ones are not read.
fn are_equal(a: &Constant, b: &Constant) -> Result<bool, OnnxError> {
    const MOST_COMPARED: usize = 1 << 16;
    Ok(a.attribute().byte_len() <= MOST_COMPARED && a.attribute().equals(b.attribute())?)
}

fn describe(value: &Value) -> String {
    match value {
        Value::Sequence(items) => format!("a sequence of {}", items.len()),
        Value::Absent => "an empty optional".to_owned(),
        _ => "a tensor".to_owned(),
    }
}

/// Adds the operator that chooses between the values of each pair.
fn choose(call: &mut Call<'_>, pairs: &[[Value; 2]]) -> Result<Vec<Value>, OnnxError> {
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let condition = call.input(0)?;
    let mut operands = vec![condition];
    for branch in 0..2 {
        for value in pairs.iter().filter_map(|pair| pair.get(branch)) {
            operands.push(call.operand(value)?);
        }
    }
    let emit = operands.into_iter().fold(call.emit("If"), |emit, operand| emit.input(operand));
    Ok(emit.many(pairs.len())?.into_iter().map(Value::Operand).collect())
}

/// A graph for each iteration. Values of an iteration go into the next, and others are stacked.
fn loop_(call: &mut Call<'_>) -> Outputs {
    let body = call.body("body")?;
    let trips = trips(call)?;
    let condition = if call.has_input(1) { truth(call, 1)? } else { Some(true) };
    let Some(mut condition) = condition else {
        return Err(call.error(format!("its condition is computed by the graph; {ADVICE}")));
    };
    let mut state: Vec<Value> =
        (2..call.num_inputs()).map(|position| call.value(position)).collect::<Result<_, _>>()?;
    let carried = state.len();
    let outputs = body.graph.output.len();
    let Some(stacked) = outputs.checked_sub(1 + carried) else {
        return Err(
            call.error(format!("expected its graph to have at least {} outputs, got {outputs}", 1 + carried))
        );
    };
    let mut columns: Vec<Vec<Value>> = vec![Vec::new(); stacked];
    let mut iteration = 0i64;
    while condition && trips.is_none_or(|trips| iteration < trips) {
        let mut values = vec![integer(call, iteration)?, boolean(call, condition)?];
        values.append(&mut state);
        let results = call.run(&body, values)?;
        iteration += 1;
        let mut results = results.into_iter();
        let next = results.next().unwrap_or(Value::Absent);
        state.extend(results.by_ref().take(carried));
        columns.iter_mut().zip(results).for_each(|(column, value)| column.push(value));
        if trips != Some(iteration) {
            condition = continues(call, &next, iteration)?;
        }
    }
    let declared = body.graph.output.iter().skip(1 + carried);
    for (column, declared) in columns.into_iter().zip(declared) {
        state.push(column_of(call, column, declared)?);
    }
    Ok(state)
}

/// What to do about a loop whose number of iterations is not known.
const ADVICE: &str = "Ixion repeats the nodes of a loop, so that the number of iterations must be known when the model is \
                      read: give it as a constant, or fix the inputs on which it depends (`--constant NAME=VALUE`)";

/// The largest number of iterations; `None` if there is none.
fn trips(call: &mut Call<'_>) -> Result<Option<i64>, OnnxError> {
    if !call.has_input(0) || matches!(call.value(0)?, Value::Absent) {
        return Ok(None);
    }
    match call.constant_int(0)? {
        Some(trips) => Ok(Some(trips)),
        None => Err(call.error(format!("its number of iterations is computed by the graph; {ADVICE}"))),
    }
}

/// Whether a loop goes on after an iteration.
fn continues(call: &mut Call<'_>, condition: &Value, iteration: i64) -> Result<bool, OnnxError> {
    match truth_of(condition)? {
        Some(truth) => Ok(truth),
        None => {
            Err(call
                .error(format!("its condition is computed by the graph in iteration {iteration}; {ADVICE}")))
        }
    }
}

/// The stacked values of all iterations.
fn column_of(call: &mut Call<'_>, column: Vec<Value>, declared: &ValueInfoProto) -> Result<Value, OnnxError> {
    match column.is_empty() {
        true => empty(call, declared),
        false => stack(call, column, 0),
    }
}

/// A known input of one bool.
fn truth(call: &mut Call<'_>, position: usize) -> Result<Option<bool>, OnnxError> {
    match call.value(position)? {
        Value::Operand(_) | Value::Lengths(_) => Ok(None),
        // A loop's condition that is left out is true.
        Value::Absent if position == 1 => Ok(Some(true)),
        value => {
            let truth = truth_of(&value)?;
            truth.map(Some).ok_or_else(|| call.error("expected its condition to be one bool"))
        }
    }
}

/// A value of one bool, if it is known.
fn truth_of(value: &Value) -> Result<Option<bool>, OnnxError> {
    let Value::Constant(constant) = value else { return Ok(None) };
    if constant.dtype() != DType::Bool || constant.attribute().elem_count() != 1 {
        return Ok(None);
    }
    Ok(constant.i64s()?.and_then(|values| values.first().map(|value| *value != 0)))
}

fn integer(call: &Call<'_>, value: i64) -> Result<Value, OnnxError> {
    Ok(Value::Constant(Constant::of_i64s(&format!("{}.iteration", call.name()), Vec::new(), &[value])?))
}

fn boolean(call: &Call<'_>, value: bool) -> Result<Value, OnnxError> {
    let attribute = Attribute::new(DType::Bool, Vec::new(), vec![u8::from(value)])?;
    Ok(Value::Constant(Constant::new(&format!("{}.condition", call.name()), attribute)))
}
