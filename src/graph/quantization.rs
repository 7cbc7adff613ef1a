//! Quantised tensors: propagating scales and zero points through the graph.
//!
//! In PyTorch a quantised tensor carries its scale and zero point. Here it is a plain tensor of i8 or u8, and scale and zero
//! point are parameters of the operators that write or read it: `x = scale · (q − zero_point)`. They are constants of a
//! trained model, so they are known before it runs, and passes, plans and kernels need no special support. PNNX writes them
//! where a tensor is quantised and for the outputs of operators, but not where a tensor is read. This module adds them there,
//! on the file's graph, before anything else uses it:
//!
//! - Operators that dequantise (`torch.dequantize`) or compute with quantised values (`nn.quantized.Conv2d`,
//!   `nn.quantized.Linear`, `nn.quantized.cat`) get the scale and zero point of their inputs as parameters.
//! - Operators that only move elements (`Tensor.reshape`, `F.max_pool2d`) stay unchanged, and their outputs have the scale of
//!   the input. The axis of per-channel scales is followed through views.
//! - All other operators (`F.sigmoid`, `quantized.add`, `F.avg_pool2d`) are computed in floats between a `torch.dequantize` and
//!   a `torch.quantize_per_tensor`, which is also how PyTorch defines them. Means over windows and over the last axes are
//!   computed from the quantised values, with a scale of 1, so that halves stay exact and are rounded as in PyTorch.
//!   Comparisons give plain tensors.
//! - Operators that PyTorch does not support for quantised tensors are an error.
//!
//! Resolving a resolved graph again does not change it.

mod axis;
mod constants;
mod lower;
mod roles;

use super::GraphError;
use super::convert::literal;
use super::sort::{dependencies, topological_order};
use crate::op::LayerError;
use crate::pnnx::{Graph, OperandId, Operator, OperatorId, Parameter, PnnxError};
use crate::tensor::DType;
use axis::Move;
use roles::{Role, function, role, supported_functions};
use std::collections::HashMap;

/// A number that is a constant, or that the graph computes.
#[derive(Debug, Clone)]
enum Source {
    Text(String),
    Operand(OperandId),
}

/// The quantisation of a tensor.
#[derive(Debug, Clone)]
struct Known {
    scale: Source,
    zero_point: Source,
    /// The axis of per-channel quantisation; `None` for per-tensor quantisation.
    axis: Option<i64>,
    dtype: DType,
}

impl Known {
    /// Returns true if both are constant per-tensor quantisations with the same values and element type.
    fn is_like(&self, other: &Self) -> bool {
        let number = |text: &str| Parameter::parse(text).as_f64().ok();
        let pairs = self.texts().zip(other.texts());
        pairs.is_some_and(|(a, b)| number(a.0) == number(b.0) && number(a.1) == number(b.1))
            && self.dtype == other.dtype
    }

    fn texts(&self) -> Option<(&str, &str)> {
        match (&self.scale, &self.zero_point, &self.axis) {
            (Source::Text(scale), Source::Text(zero_point), None) => Some((scale, zero_point)),
            _ => None,
        }
    }
}

/// The quantisation of an operand: a tensor, or a list of tensors.
#[derive(Debug, Clone)]
enum Kind {
    Tensor(Known),
    List(Vec<Known>),
}

/// Gives every operator that reads a quantised tensor the scale and zero point of that tensor.
///
/// # Errors
/// Returns an error for an operator that does not support quantised tensors, or not with a computed scale.
pub(crate) fn resolve(file: &mut Graph) -> Result<(), GraphError> {
    let mut refused = resolve_partly(file)?.into_iter();
    refused.next().map_or(Ok(()), |(_, error)| Err(error))
}

/// As [`resolve`], but goes on after an operator that does not support quantised tensors. Returns all of these.
pub(super) fn resolve_partly(file: &mut Graph) -> Result<Vec<(OperatorId, GraphError)>, GraphError> {
    let quantizes = |operator| {
        function(operator).is_some()
            || matches!(role(operator), Role::Quantize | Role::QuantizeChannels | Role::Quantized)
    };
    if !file.operators().any(|(_, operator)| quantizes(operator)) {
        return Ok(Vec::new());
    }
    constants::become_parameters(file).map_err(PnnxError::from)?;
    // Ordering errors are reported by the stage that needs the order.
    let Some(order) = dependencies(file).ok().and_then(|needs| topological_order(&needs).ok()) else {
        return Ok(Vec::new());
    };
    let ids = file.operator_ids().to_vec();
    let mut resolver = Resolver { file, known: HashMap::new() };
    let ids = order.into_iter().filter_map(|at| ids.get(at).copied());
    Ok(ids.filter_map(|id| Some((id, resolver.visit(id).err()?))).collect())
}

struct Resolver<'a> {
    file: &'a mut Graph,
    known: HashMap<OperandId, Kind>,
}

impl Resolver<'_> {
    fn visit(&mut self, id: OperatorId) -> Result<(), GraphError> {
        let operator = self.file.operator(id).clone();
        let kinds: Vec<Option<Kind>> =
            operator.inputs().iter().map(|input| self.known.get(input).cloned()).collect();
        let reads = kinds.iter().any(Option::is_some);
        match role(&operator) {
            Role::Quantize => self.quantize(&operator, false)?,
            Role::QuantizeChannels => self.quantize(&operator, true)?,
            Role::Quantized => self.quantized(id, &operator, kinds.first().cloned().flatten())?,
            Role::Join if reads || operator.op_type() == JOIN => self.join(id, &operator, &kinds)?,
            Role::List if reads => self.list(&operator, kinds),
            Role::Unpack if reads => self.unpack(&operator, kinds.into_iter().next().flatten()),
            Role::Dequantize => self.dequantize(id, &operator, kinds.first().cloned().flatten())?,
            Role::Moves { all } if reads => self.moved(&operator, kinds.into_iter().next().flatten(), all)?,
            Role::Stack if reads => self.stacked(&operator, kinds)?,
            Role::Lowered(lowering) if reads => self.lower(id, &operator, lowering, &kinds)?,
            Role::Unknown => return Err(refused(&operator, &supported_functions())),
            _ if function(&operator).is_some() && !reads => {
                return Err(refused(&operator, "none of its inputs is quantised"));
            }
            Role::Refused if reads => {
                return Err(refused(
                    &operator,
                    "the operator does not support them; put `torch.dequantize` before it",
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// Records the quantisation of an operator's output from the operator's parameters or inputs.
    fn quantize(&mut self, operator: &Operator, channels: bool) -> Result<(), GraphError> {
        let Some(&output) = operator.outputs().first() else { return Ok(()) };
        let dtype = self.type_of(operator, output);
        let found = |key, position| self.argument(operator, key, position);
        if let (Some(scale), Some(zero_point)) = (found("scale", 1), found("zero_point", 2)) {
            let axis = match (channels, found("axis", 3)) {
                (false, _) => None,
                (true, None) => Some(0),
                (true, Some(Source::Text(raw))) => Parameter::parse(&raw).as_i64().ok(),
                (true, Some(Source::Operand(_))) => {
                    return Err(refused(operator, "`axis` must be a constant"));
                }
            };
            self.known.insert(output, Kind::Tensor(Known { scale, zero_point, axis, dtype }));
        }
        Ok(())
    }

    /// An argument by its key, or by its input position.
    fn argument(&self, operator: &Operator, key: &str, position: usize) -> Option<Source> {
        if let Some(parameter) = operator.param(key) {
            return Some(Source::Text(parameter.raw().to_owned()));
        }
        let unnamed = || operator.inputs().get(position).copied();
        let input = operator.named_input(key).or_else(unnamed)?;
        let producer = self.file.operand(input).producer();
        match producer.and_then(|producer| literal(self.file.operator(producer))) {
            Some(raw) => Some(Source::Text(raw)),
            None => Some(Source::Operand(input)),
        }
    }

    /// The type that the file records, or else the requested type.
    fn type_of(&self, operator: &Operator, output: OperandId) -> DType {
        let wanted = || match self.argument(operator, "dtype", operator.inputs().len().saturating_sub(1)) {
            Some(Source::Text(raw)) if matches!(&*raw, "torch.qint8" | "12") => DType::I8,
            Some(Source::Text(raw)) if matches!(&*raw, "torch.qint32" | "14") => DType::I32,
            _ => DType::U8,
        };
        self.file.operand(output).dtype().filter(|dtype| dtype.is_integer()).unwrap_or_else(wanted)
    }

    /// Sets the input quantisation of an operator on quantised values. Its parameters contain the output quantisation.
    fn quantized(
        &mut self,
        id: OperatorId,
        operator: &Operator,
        input: Option<Kind>,
    ) -> Result<(), GraphError> {
        let dtype = match &input {
            Some(Kind::Tensor(known)) => known.dtype,
            _ => DType::U8,
        };
        if operator.param("input_scale").is_none()
            && let Some(Kind::Tensor(known)) = &input
        {
            let (scale, zero_point) = constant(operator, known)?;
            self.set(id, "input_scale", scale)?;
            self.set(id, "input_zero_point", zero_point)?;
        }
        self.record_output(operator, ("scale", "zero_point"), dtype);
        Ok(())
    }

    /// Records the quantisation of an operator's output from these arguments.
    fn record_output(&mut self, operator: &Operator, keys: (&str, &str), dtype: DType) {
        let named = |key| self.argument(operator, key, usize::MAX);
        if let (Some(&output), Some(scale), Some(zero_point)) =
            (operator.outputs().first(), named(keys.0), named(keys.1))
        {
            self.known.insert(output, Kind::Tensor(Known { scale, zero_point, axis: None, dtype }));
        }
    }

    /// Joined tensors are requantised to the scale of the output, which defaults to the scale of the first tensor.
    fn join(
        &mut self,
        id: OperatorId,
        operator: &Operator,
        kinds: &[Option<Kind>],
    ) -> Result<(), GraphError> {
        let mut all = Vec::new();
        for kind in kinds {
            match kind {
                Some(Kind::Tensor(known)) => all.push(known.clone()),
                Some(Kind::List(list)) => all.extend(list.iter().cloned()),
                None if operator.param("input_scales").is_some() => {}
                None => return Err(refused(operator, "some of its inputs are quantised and others are not")),
            }
        }
        let Some(first) = all.first() else { return Ok(()) };
        let (mut scales, mut zero_points) = (Vec::new(), Vec::new());
        for known in &all {
            let (scale, zero_point) = constant(operator, known)?;
            scales.push(scale);
            zero_points.push(zero_point);
        }
        if operator.op_type() != JOIN {
            self.set(id, "scale", scales[0])?;
            self.set(id, "zero_point", zero_points[0])?;
            self.file.set_op_type(id, JOIN).map_err(PnnxError::from)?;
        }
        if operator.param("input_scales").is_none() {
            self.set(id, "input_scales", &format!("({})", scales.join(",")))?;
            self.set(id, "input_zero_points", &format!("({})", zero_points.join(",")))?;
        }
        let dtype = first.dtype;
        let operator = self.file.operator(id).clone();
        self.record_output(&operator, ("scale", "zero_point"), dtype);
        Ok(())
    }

    fn list(&mut self, operator: &Operator, kinds: Vec<Option<Kind>>) {
        let tensor = |kind| match kind {
            Some(Kind::Tensor(known)) => Some(known),
            _ => None,
        };
        let items: Option<Vec<Known>> = kinds.into_iter().map(tensor).collect();
        if let (Some(&output), Some(items)) = (operator.outputs().first(), items) {
            self.known.insert(output, Kind::List(items));
        }
    }

    /// The parts of a divided tensor have its quantisation, the items of a list their own.
    fn unpack(&mut self, operator: &Operator, kind: Option<Kind>) {
        match kind {
            Some(Kind::List(items)) => {
                let items = items.into_iter().map(Kind::Tensor);
                self.known.extend(operator.outputs().iter().copied().zip(items));
            }
            Some(kind) => self.known.extend(operator.outputs().iter().map(|&output| (output, kind.clone()))),
            None => {}
        }
    }

    fn dequantize(
        &mut self,
        id: OperatorId,
        operator: &Operator,
        kind: Option<Kind>,
    ) -> Result<(), GraphError> {
        let has_scale = operator.param("scale").is_some() || operator.named_input("scale").is_some();
        let Some(Kind::Tensor(known)) = kind.filter(|_| !has_scale) else { return Ok(()) };
        for (key, source) in [("scale", &known.scale), ("zero_point", &known.zero_point)] {
            match source {
                Source::Text(raw) => self.set(id, key, raw)?,
                Source::Operand(operand) => {
                    self.file.connect_input(id, *operand, Some(key)).map_err(PnnxError::from)?;
                }
            }
        }
        known.axis.map_or(Ok(()), |axis| self.set(id, "axis", &axis.to_string()))
    }

    fn moved(&mut self, operator: &Operator, kind: Option<Kind>, all: bool) -> Result<(), GraphError> {
        let Some(kind) = kind else { return Ok(()) };
        let outputs = if all { operator.outputs() } else { operator.outputs().get(..1).unwrap_or_default() };
        for &output in outputs {
            let mut kind = kind.clone();
            if let Kind::Tensor(Known { axis: Some(axis), .. }) = &mut kind {
                let shape = |operand: OperandId| self.file.operand(operand).shape();
                let from = operator.inputs().first().and_then(|&input| shape(input));
                let moved = Move { operator, from, to: shape(output) }.axis(*axis);
                *axis = moved
                    .map_err(|why| refused(operator, &format!("{why}; put `torch.dequantize` before it")))?;
            }
            self.known.insert(output, kind);
        }
        Ok(())
    }

    /// Tensors with the same quantisation, stacked along a new axis.
    fn stacked(&mut self, operator: &Operator, kinds: Vec<Option<Kind>>) -> Result<(), GraphError> {
        let mut all = Vec::new();
        for kind in kinds {
            match kind {
                Some(Kind::Tensor(known)) => all.push(Some(known)),
                Some(Kind::List(list)) => all.extend(list.into_iter().map(Some)),
                None => all.push(None),
            }
        }
        match &all[..] {
            [Some(first), rest @ ..]
                if rest.iter().all(|known| known.as_ref().is_some_and(|known| known.is_like(first))) =>
            {
                let kind = Kind::Tensor(first.clone());
                self.known.extend(operator.outputs().first().map(|&output| (output, kind)));
                Ok(())
            }
            _ => Err(refused(operator, "all inputs must be quantised with the same constants")),
        }
    }

    fn set(&mut self, id: OperatorId, key: &str, raw: &str) -> Result<(), GraphError> {
        self.file.set_param(id, key, Parameter::parse(raw)).map_err(PnnxError::from)?;
        Ok(())
    }
}

/// The operator that concatenates quantised tensors.
const JOIN: &str = "nn.quantized.cat";

/// The scale and zero point as text; an error if they are computed or per-channel.
fn constant<'k>(operator: &Operator, known: &'k Known) -> Result<(&'k str, &'k str), GraphError> {
    let reason = "expected a constant scale and zero point for its inputs, got computed or per-channel ones";
    known.texts().ok_or_else(|| refused(operator, reason))
}

fn refused(operator: &Operator, reason: &str) -> GraphError {
    let source = LayerError::Unsupported(format!("quantised tensors: {reason}"));
    GraphError::in_creation(operator, None, source)
}

#[cfg(test)]
mod tests;
