//! Reductions along axes, extremes and their places, and cumulative sums.

use super::arguments::Argument;
use super::types;
use crate::lower::call::{Outputs, Table, one};
use crate::lower::{Call, Value};

pub(super) const TABLE: Table = &[
    ("ArgMax", place),
    ("ArgMin", place),
    ("CumProd", scan),
    ("CumSum", scan),
    ("ReduceL1", reduction),
    ("ReduceL2", reduction),
    ("ReduceLogSum", reduction),
    ("ReduceLogSumExp", reduction),
    ("ReduceMax", reduction),
    ("ReduceMean", reduction),
    ("ReduceMin", reduction),
    ("ReduceProd", reduction),
    ("ReduceSum", reduction),
    ("ReduceSumSquare", reduction),
    ("TopK", top_k),
];

fn reduction(call: &mut Call<'_>) -> Outputs {
    // An input since version 13 or 18, by the operator.
    let axes = match call.ints("axes")? {
        Some(axes) => Argument::list(axes),
        None => call.list_argument(1)?,
    };
    let keepdims = call.flag_or("keepdims", true)?;
    let keeps_all = call.flag_or("noop_with_empty_axes", false)?;
    let x = call.input(0)?;
    let op_type = call.op_type();
    let emit = call.emit(op_type).input(x).param("keepdims", i64::from(keepdims));
    let emit = if keeps_all { emit.param("noop_with_empty_axes", 1) } else { emit };
    one(emit.argument("axes", axes).one())
}

fn place(call: &mut Call<'_>) -> Outputs {
    let (axis, keepdims) = (call.int_or("axis", 0)?, call.flag_or("keepdims", true)?);
    let takes_last = call.flag_or("select_last_index", false)?;
    let x = call.input(0)?;
    let op_type = call.op_type();
    let emit = call.emit(op_type).input(x).param("axis", axis).param("keepdims", i64::from(keepdims));
    one(emit.param("select_last_index", i64::from(takes_last)).one())
}

fn scan(call: &mut Call<'_>) -> Outputs {
    let (exclusive, reverse) = (call.flag_or("exclusive", false)?, call.flag_or("reverse", false)?);
    let axis = match call.constant_ints(1)? {
        Some(axis) => Argument::list(axis),
        None => Argument::Computed(types::long(call, 1)?),
    };
    let x = call.input(0)?;
    let op_type = call.op_type();
    let emit = call.emit(op_type).input(x).param("exclusive", i64::from(exclusive));
    one(emit.param("reverse", i64::from(reverse)).argument("axis", axis).one())
}

fn top_k(call: &mut Call<'_>) -> Outputs {
    let axis = call.int_or("axis", -1)?;
    let (largest, sorted) = (call.flag_or("largest", true)?, call.flag_or("sorted", true)?);
    // An attribute before version 10.
    let k = match call.int("k")? {
        Some(k) => Argument::list(vec![k]),
        None => call.list_argument(1)?,
    };
    if k.is_absent() {
        return Err(call.error("the number of elements, `K`, is required, but left out"));
    }
    let x = call.input(0)?;
    let emit = call.emit("TopK").input(x).param("axis", axis).param("largest", i64::from(largest));
    let outputs = emit.param("sorted", i64::from(sorted)).argument("K", k).many(2)?;
    Ok(outputs.into_iter().map(Value::Operand).collect())
}
