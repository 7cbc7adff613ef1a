//! Sharing of buffers: in-place operators, the caller's output buffers, and parts of a concatenation.

use super::groups::Pin;
use super::packing::Request;
use super::values::{Action, Values, fault};
use super::{MemoryError, Problem, aliases, packing};
use crate::graph::RuntimeOperator;
use crate::op::{Device, TensorMeta, catch_panic};

/// Lets operators share memory. Returns the copies that remain to be done after the run.
pub(super) fn share(problem: &Problem<'_>, values: &mut Values) -> Result<Vec<(usize, usize)>, MemoryError> {
    for (step, operator) in problem.graph.operators().iter().enumerate() {
        work_in_place(problem, values, step, operator)?;
    }
    let copies = place_outputs(problem, values)?;
    let mut usage = Usage::new(problem, values);
    for (step, operator) in problem.graph.operators().iter().enumerate() {
        put_side_by_side(problem, values, step, operator, &mut usage)?;
    }
    Ok(copies)
}

/// Lets an operator overwrite the input that it names, if that input is not needed afterwards.
fn work_in_place(
    problem: &Problem<'_>,
    values: &mut Values,
    step: usize,
    operator: &RuntimeOperator,
) -> Result<(), MemoryError> {
    let ([output], Some(Action::Forward), Some(layer)) =
        (operator.outputs(), values.actions.get(step), operator.layer())
    else {
        return Ok(());
    };
    let overwritten = catch_panic(|| Ok(layer.in_place(0))).map_err(|source| fault(operator, source))?;
    let Some(input) = overwritten else { return Ok(()) };
    let Some(data) = operator.inputs().get(input).map(|data| data.position()) else { return Ok(()) };
    let (Some(from), Some(to)) = (values.value(data), values.value(output.position())) else { return Ok(()) };
    let Some(root) = values.filled(data) else { return Ok(()) };
    let buffer = values.buffers.get(root)?;
    let is_own = match buffer.pin {
        None => true,
        Some(Pin::Input(position)) => problem.donations.iter().any(|donation| donation.0 == position),
        Some(_) => false,
    };
    let others = operator.inputs().iter().enumerate().filter(|&(position, _)| position != input);
    let others = others.filter_map(|(_, other)| values.value(other.position()));
    let others: Vec<usize> = others.map(|other| values.buffers.root(other.buffer).0).collect();
    let is_alike = from.dtype == to.dtype
        && from.layout.has_same_positions(&to.layout)
        && buffer.device == values.buffers.get(to.buffer)?.device;
    if is_alike && aliases::may_overwrite((root, &buffer.request), step, is_own, &others) {
        values.buffers.join(to.buffer, root, 0)?;
        values.buffers.get_mut(root)?.overwrites.push(step);
        if let Some(action) = values.actions.get_mut(step) {
            *action = Action::InPlace { input };
        }
    }
    Ok(())
}

/// Places outputs of the model in the caller's buffers. Returns the outputs that must be copied there instead.
fn place_outputs(problem: &Problem<'_>, values: &mut Values) -> Result<Vec<(usize, usize)>, MemoryError> {
    let mut copies = Vec::new();
    for (position, port) in problem.graph.outputs().iter().enumerate() {
        let operand = port.operand.position();
        if values.value(operand).is_none() {
            continue;
        }
        let donated =
            problem.donations.iter().find(|donation| donation.1 == position).map(|donation| donation.0);
        let root = values
            .filled(operand)
            .filter(|_| values.value(operand).is_some_and(|v| v.layout.is_contiguous()));
        let pin = root.and_then(|root| values.buffers.get(root).ok()?.pin);
        match (donated, root, pin) {
            (Some(input), Some(_), Some(Pin::Input(there))) if there == input => {}
            (None, Some(root), None) if values.buffers.get(root)?.device == Device::Cpu => {
                values.buffers.get_mut(root)?.pin = Some(Pin::Output(position));
            }
            _ => copies.push((operand, position)),
        }
    }
    in_order(problem, values, copies)
}

/// Orders the copies so that none overwrites what a later one reads.
fn in_order(
    problem: &Problem<'_>,
    values: &Values,
    mut copies: Vec<(usize, usize)>,
) -> Result<Vec<(usize, usize)>, MemoryError> {
    let written = |output: usize| problem.donations.iter().find(|donation| donation.1 == output).map(|d| d.0);
    let read = |operand: usize| {
        let value = values.value(operand)?;
        match values.buffers.get(values.buffers.root(value.buffer).0).ok()?.pin {
            Some(Pin::Input(input)) => Some(input),
            _ => None,
        }
    };
    let mut ordered = Vec::with_capacity(copies.len());
    while !copies.is_empty() {
        let is_free = |&(operand, output): &(usize, usize)| {
            let Some(input) = written(output) else { return true };
            copies.iter().all(|other| other.0 == operand && other.1 == output || read(other.0) != Some(input))
        };
        let Some(next) = copies.iter().position(is_free) else {
            return Err(MemoryError::Problem(
                "donated inputs are returned in each other's buffers; donate all but one of them".into(),
            ));
        };
        ordered.push(copies.remove(next));
    }
    Ok(ordered)
}

/// Lets the operators before a concatenation write directly into its output, if that does not raise the peak.
fn put_side_by_side(
    problem: &Problem<'_>,
    values: &mut Values,
    step: usize,
    operator: &RuntimeOperator,
    usage: &mut Usage,
) -> Result<(), MemoryError> {
    let ([output], Some(Action::Forward)) = (operator.outputs(), values.actions.get(step)) else {
        return Ok(());
    };
    let Some(parts) = parts(problem, values, operator)? else { return Ok(()) };
    let Some(whole) = values.filled(output.position()) else { return Ok(()) };
    if !fits(values, &parts, whole, step)? || !usage.accept(values, &parts, whole)? {
        return Ok(());
    }
    for (part, offset) in parts {
        values.buffers.join(part, whole, offset)?;
    }
    if let Some(action) = values.actions.get_mut(step) {
        *action = Action::Nothing;
    }
    Ok(())
}

/// The inputs of a concatenation as whole buffers, each with its byte offset in the output. `None` if an input does not fill
/// its buffer, or the operator is not a concatenation.
fn parts(
    problem: &Problem<'_>,
    values: &Values,
    operator: &RuntimeOperator,
) -> Result<Option<Vec<(usize, usize)>>, MemoryError> {
    let ([output], Some(layer)) = (operator.outputs(), operator.layer()) else { return Ok(None) };
    let Some(whole) = values.value(output.position()) else { return Ok(None) };
    let metas = operator.inputs().iter().map(|input| problem.metas.get(input.position()).cloned().flatten());
    let Some(metas) = metas.collect::<Option<Vec<TensorMeta>>>() else { return Ok(None) };
    let layouts =
        catch_panic(|| layer.parts(&metas, &whole.layout)).map_err(|source| fault(operator, source))?;
    let Some(layouts) = layouts.filter(|layouts| layouts.len() == metas.len()) else { return Ok(None) };
    let mut parts = Vec::with_capacity(layouts.len());
    for (input, layout) in operator.inputs().iter().zip(&layouts) {
        let Some(value) = values.value(input.position()) else { return Ok(None) };
        if layout.shape().num_elements() == 0 {
            continue;
        }
        let is_alike = value.dtype == whole.dtype && value.layout.has_same_positions(layout);
        let is_whole = is_alike && layout.is_dense() && value.layout.is_dense();
        let root = values.filled(input.position()).filter(|_| is_whole);
        let Some(root) = root.filter(|_| layout.span() <= whole.layout.span()) else { return Ok(None) };
        parts.push((root, layout.offset() * whole.dtype.size()));
    }
    Ok(Some(parts))
}

/// Returns true if buffers may become parts of another: each must be the planner's own and only one part, must not be
/// overwritten once the whole is complete, and must not be read after the whole has been overwritten.
fn fits(values: &Values, parts: &[(usize, usize)], whole: usize, step: usize) -> Result<bool, MemoryError> {
    let overwritten = values.buffers.get(whole)?.overwrites.iter().min().copied();
    for (position, &(part, offset)) in parts.iter().enumerate() {
        let buffer = values.buffers.get(part)?;
        let is_twice =
            parts.iter().skip(position + 1).any(|&(other, start)| other == part || start == offset);
        let is_stable = buffer.overwrites.iter().all(|&overwrite| overwrite < step);
        let is_there = buffer.device == values.buffers.get(whole)?.device;
        let is_read_late = overwritten.is_some_and(|overwrite| buffer.request.last >= overwrite);
        if buffer.pin.is_some() || part == whole || is_twice || !is_stable || is_read_late || !is_there {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The number of bytes of the arena in use in each step.
struct Usage {
    bytes: Vec<usize>,
    /// The limit for concatenations: the peak without them.
    peak: usize,
}

impl Usage {
    fn new(problem: &Problem<'_>, values: &Values) -> Self {
        let mut usage = Self { bytes: vec![0; problem.graph.operators().len() + 1], peak: 0 };
        for (_, buffer) in values.buffers.in_arena() {
            let Request { bytes, first, last } = buffer.request;
            usage.change(first, last, |load| load.saturating_add(packing::aligned(bytes)));
        }
        for (step, &bytes) in problem.workspaces.iter().enumerate() {
            usage.change(step, step, |load| load.saturating_add(packing::aligned(bytes)));
        }
        usage.peak = usage.bytes.iter().copied().max().unwrap_or_default();
        usage
    }

    fn change(&mut self, first: usize, last: usize, change: impl Fn(usize) -> usize) {
        let steps = self.bytes.get_mut(first..=last).unwrap_or_default();
        steps.iter_mut().for_each(|bytes| *bytes = change(*bytes));
    }

    /// Records that buffers become parts of another, unless that would raise the peak. Returns true if it was recorded.
    fn accept(
        &mut self,
        values: &Values,
        parts: &[(usize, usize)],
        whole: usize,
    ) -> Result<bool, MemoryError> {
        let before = self.bytes.clone();
        let buffer = values.buffers.get(whole)?;
        let mut joined = buffer.request;
        for &(part, _) in parts {
            let part = values.buffers.get(part)?.request;
            joined = aliases::joined(&part, &joined);
            self.change(part.first, part.last, |bytes| bytes.saturating_sub(packing::aligned(part.bytes)));
        }
        if buffer.pin.is_none() {
            let (bytes, alone) = (packing::aligned(joined.bytes), buffer.request);
            self.change(alone.first, alone.last, |load| load.saturating_sub(bytes));
            self.change(joined.first, joined.last, |load| load.saturating_add(bytes));
        }
        let is_lower = self.bytes.iter().all(|&bytes| bytes <= self.peak);
        if !is_lower {
            self.bytes = before;
        }
        Ok(is_lower)
    }
}
