//! `Scan`: a loop over the slices of tensors.

use super::super::call::Body;
use super::super::{Call, Value};
use super::stacking::{length, slices, stack};
use crate::OnnxError;
use crate::lower::call::{Outputs, Table};

pub(super) const TABLE: Table = &[("Scan", scan)];

/// What the attributes say about one scanned input or output.
#[derive(Debug, Clone, Copy)]
struct Way {
    axis: i64,
    is_backwards: bool,
}

/// A `Scan` without its batches.
struct Scan<'b, 'c> {
    body: &'b Body<'c>,
    /// Values that go from each iteration into the next.
    carried: usize,
    outputs: Vec<Way>,
}

fn scan(call: &mut Call<'_>) -> Outputs {
    let body = call.body("body")?;
    let scanned = call.int("num_scan_inputs")?.ok_or_else(|| call.missing("num_scan_inputs"))?;
    let scanned = usize::try_from(scanned).ok().filter(|scanned| *scanned > 0);
    let scanned = scanned.ok_or_else(|| call.error("`num_scan_inputs` must be at least 1"))?;
    // Version 8 has lengths of sequences before all other inputs, and all tensors have batches.
    let is_batched = call.version() < 9;
    let first = usize::from(is_batched);
    if is_batched && call.has_input(0) {
        return Err(
            call.error("sequences of different lengths (`sequence_lens`) are not supported; leave them out")
        );
    }
    let carried = call.num_inputs().checked_sub(first + scanned);
    let carried =
        carried.ok_or_else(|| call.error(format!("expected at least {} inputs", first + scanned)))?;
    let outputs = body.graph.output.len();
    let stacked = outputs.checked_sub(carried);
    let stacked = stacked.ok_or_else(|| {
        call.error(format!("expected its graph to have at least {carried} outputs, got {outputs}"))
    })?;
    let names = if is_batched { BATCHED } else { PLAIN };
    let inputs = ways(call, names[0], names[1], scanned)?;
    let outputs = ways(call, names[2], names[3], stacked)?;
    let scan = Scan { body: &body, carried, outputs };
    let state =
        (first..first + carried).map(|position| call.value(position)).collect::<Result<Vec<_>, _>>()?;
    if is_batched { batches(call, &scan, &state, &inputs) } else { single(call, &scan, state, &inputs) }
}

/// Names of the attributes with the axes and directions of inputs and outputs.
type WayNames = [Option<&'static str>; 4];

const BATCHED: WayNames = [None, Some("directions"), None, None];
const PLAIN: WayNames = [
    Some("scan_input_axes"),
    Some("scan_input_directions"),
    Some("scan_output_axes"),
    Some("scan_output_directions"),
];

fn ways(
    call: &Call<'_>,
    axes: Option<&'static str>,
    directions: Option<&'static str>,
    count: usize,
) -> Result<Vec<Way>, OnnxError> {
    let numbers = |name: Option<&'static str>| -> Result<Vec<i64>, OnnxError> {
        let Some(name) = name else { return Ok(vec![0; count]) };
        match call.ints(name)? {
            None => Ok(vec![0; count]),
            Some(numbers) if numbers.len() == count => Ok(numbers),
            Some(numbers) => {
                let found = numbers.len();
                Err(call.error(format!("expected `{name}` to have {count} elements, got {found}")))
            }
        }
    };
    let (axes, directions) = (numbers(axes)?, numbers(directions)?);
    Ok(axes.into_iter().zip(directions).map(|(axis, way)| Way { axis, is_backwards: way != 0 }).collect())
}

/// The operator from version 9 on.
fn single(call: &mut Call<'_>, scan: &Scan<'_, '_>, state: Vec<Value>, ways: &[Way]) -> Outputs {
    let first = scan.carried;
    let steps = steps(call, first, ways)?;
    let mut scanned = Vec::new();
    for (position, way) in ways.iter().enumerate() {
        let operand = call.input(first + position)?;
        let mut parts = slices(call, operand, way.axis, steps)?;
        if way.is_backwards {
            parts.reverse();
        }
        scanned.push(parts);
    }
    iterate(call, scan, state, &scanned)
}

/// The number of iterations: the length of the scanned axes.
fn steps(call: &mut Call<'_>, first: usize, ways: &[Way]) -> Result<usize, OnnxError> {
    let mut found = None;
    for (position, way) in ways.iter().enumerate() {
        found = found.or(length(call, first + position, way.axis)?);
    }
    match found {
        Some(0) => Err(call.error("it has no iterations: the axis that it scans is empty")),
        Some(steps) => Ok(steps),
        None => Err(call.error(
            "the length of the axis that it scans is not known when the model is read; Ixion repeats the nodes of its graph, so \
             give inputs a fixed shape and infer shapes (`onnx.shape_inference`)",
        )),
    }
}

/// Version 8: all tensors have batches along axis 0, and are scanned along axis 1.
fn batches(call: &mut Call<'_>, scan: &Scan<'_, '_>, state: &[Value], ways: &[Way]) -> Outputs {
    let first = 1 + scan.carried;
    let along: Vec<Way> = ways.iter().map(|way| Way { axis: 1, ..*way }).collect();
    let steps = steps(call, first, &along)?;
    let mut count = None;
    for position in 1..call.num_inputs() {
        count = count.or(length(call, position, 0)?);
    }
    let count = count.filter(|count| *count > 0);
    let count = count.ok_or_else(|| {
        call.error("the number of its batches is not known, or 0; give inputs a fixed shape")
    })?;
    let mut states = Vec::new();
    for value in state {
        let operand = call.operand(value)?;
        states.push(slices(call, operand, 0, count)?);
    }
    let mut inputs = Vec::new();
    for position in first..call.num_inputs() {
        let operand = call.input(position)?;
        inputs.push(slices(call, operand, 0, count)?);
    }
    let mut columns: Vec<Vec<Value>> = vec![Vec::new(); scan.carried + scan.outputs.len()];
    for batch in 0..count {
        let state = states.iter().filter_map(|values| values.get(batch).cloned()).collect();
        let mut scanned = Vec::new();
        for (values, way) in inputs.iter().zip(ways) {
            let operand = values.get(batch).map_or(Ok(None), |value| call.operand(value).map(Some))?;
            let operand = operand.ok_or_else(|| call.error("a batch is missing"))?;
            let mut parts = slices(call, operand, 0, steps)?;
            if way.is_backwards {
                parts.reverse();
            }
            scanned.push(parts);
        }
        let results = iterate(call, scan, state, &scanned)?;
        columns.iter_mut().zip(results).for_each(|(column, value)| column.push(value));
    }
    columns.into_iter().map(|column| stack(call, column, 0)).collect()
}

/// One iteration for each slice of the scanned inputs.
fn iterate(
    call: &mut Call<'_>,
    scan: &Scan<'_, '_>,
    mut state: Vec<Value>,
    scanned: &[Vec<Value>],
) -> Outputs {
    let mut columns: Vec<Vec<Value>> = vec![Vec::new(); scan.outputs.len()];
    for step in 0..scanned.first().map_or(0, Vec::len) {
        let mut values = std::mem::take(&mut state);
        values.extend(scanned.iter().filter_map(|parts| parts.get(step).cloned()));
        let mut results = call.run(scan.body, values)?.into_iter();
        state.extend(results.by_ref().take(scan.carried));
        columns.iter_mut().zip(results).for_each(|(column, value)| column.push(value));
    }
    for (mut column, way) in columns.into_iter().zip(&scan.outputs) {
        if way.is_backwards {
            column.reverse();
        }
        state.push(stack(call, column, way.axis)?);
    }
    Ok(state)
}
