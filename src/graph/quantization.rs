//! Quantised tensors: what their whole numbers stand for.
//!
//! In PyTorch a quantised tensor carries its scale and zero point. Here it is a plain tensor of i8 or u8, and the two are
//! parameters of whoever makes or reads it: `x = scale · (q − zero_point)`. They are constants of a trained model, so they
//! are known before it runs, and passes, plans and kernels see nothing new. PNNX writes them where a tensor is quantised
//! and where an operator's output is, but not where it is read. This is done here, on the file's graph, before
//! anything else looks at it:
//!
//! - What puts a tensor in floats again (`torch.dequantize`) and what computes with whole numbers (`nn.quantized.Conv2d`,
//!   `nn.quantized.Linear`, `nn.quantized.cat`) gets the scale and zero point of its inputs as parameters.
//! - What moves elements only (`Tensor.reshape`, `F.max_pool2d`) stays, and what it makes has the scale of its input. An
//!   axis with scales of its own is followed through views.
//! - Everything else (`F.sigmoid`, `quantized.add`, `F.avg_pool2d`) is computed in floats between a `torch.dequantize` and
//!   a `torch.quantize_per_tensor`, which is how PyTorch defines it, too. Means of windows and of the last axes are
//!   computed of whole numbers, with a scale of 1, so that halves stay halves and are rounded as PyTorch rounds them.
//!   Comparisons give plain tensors.
//! - What PyTorch cannot do with quantised tensors is an error.
//!
//! A graph that was resolved stays as it is when that is done again.

mod axis;
mod lower;
mod roles;

use super::GraphError;
use super::convert::literal;
use super::error::{OperatorPlace, Stage};
use super::sort::{dependencies, topological_order};
use crate::op::LayerError;
use crate::pnnx::{Graph, OperandId, Operator, OperatorId, Parameter, PnnxError};
use crate::tensor::DType;
use axis::Move;
use roles::{Role, is_function, role, supported_functions};
use std::collections::HashMap;

/// A number that is known, or that the graph computes.
#[derive(Debug, Clone)]
enum Source {
    Text(String),
    Operand(OperandId),
}

/// What a tensor's whole numbers stand for.
#[derive(Debug, Clone)]
struct Known {
    scale: Source,
    zero_point: Source,
    /// Where each slice along an axis has its own.
    axis: Option<i64>,
    dtype: DType,
}

impl Known {
    /// Whether both stand for the same numbers, as far as is known before the graph runs.
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

/// What is known of an operand.
#[derive(Debug, Clone)]
enum Kind {
    Tensor(Known),
    List(Vec<Known>),
}

/// Tells every operator that reads a quantised tensor what its numbers stand for.
///
/// # Errors
/// An operator that cannot work with quantised tensors, or with ones whose scale the graph computes.
pub(crate) fn resolve(file: &mut Graph) -> Result<(), GraphError> {
    let quantizes = |operator| {
        is_function(operator)
            || matches!(role(operator), Role::Quantize | Role::QuantizeChannels | Role::Whole)
    };
    if !file.operators().any(|(_, operator)| quantizes(operator)) {
        return Ok(());
    }
    // What is wrong with the order is told by whoever needs it.
    let Some(order) = dependencies(file).ok().and_then(|needs| topological_order(&needs).ok()) else {
        return Ok(());
    };
    let ids = file.operator_ids().to_vec();
    let mut resolver = Resolver { file, known: HashMap::new() };
    order.into_iter().filter_map(|at| ids.get(at).copied()).try_for_each(|id| resolver.visit(id))
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
            Role::Quantize => self.quantized(&operator, false)?,
            Role::QuantizeChannels => self.quantized(&operator, true)?,
            Role::Whole => self.whole(id, &operator, kinds.first().cloned().flatten())?,
            Role::Join if reads || operator.op_type() == JOIN => self.join(id, &operator, &kinds)?,
            Role::List if reads => self.list(&operator, kinds),
            Role::Dequantize => self.dequantize(id, &operator, kinds.first().cloned().flatten())?,
            Role::Moves { all } if reads => self.moved(&operator, kinds.into_iter().next().flatten(), all)?,
            Role::Stack if reads => self.stacked(&operator, kinds)?,
            Role::Lowered(lowering) if reads => self.lower(id, &operator, lowering, &kinds)?,
            Role::Unknown => return Err(refused(&operator, &supported_functions())),
            _ if is_function(&operator) && !reads => {
                return Err(refused(&operator, "none of its inputs is one"));
            }
            Role::Refused if reads => {
                return Err(refused(
                    &operator,
                    "it is not computed with them; put `torch.dequantize` before it",
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes what the output of an operator stands for that says it in parameters or inputs.
    fn quantized(&mut self, operator: &Operator, channels: bool) -> Result<(), GraphError> {
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

    /// An argument by its key, or by the position of its input.
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

    /// The type that the file records; else the one that is asked for.
    fn type_of(&self, operator: &Operator, output: OperandId) -> DType {
        let wanted = || match self.argument(operator, "dtype", operator.inputs().len().saturating_sub(1)) {
            Some(Source::Text(raw)) if matches!(&*raw, "torch.qint8" | "12") => DType::I8,
            Some(Source::Text(raw)) if matches!(&*raw, "torch.qint32" | "14") => DType::I32,
            _ => DType::U8,
        };
        self.file.operand(output).dtype().filter(|dtype| dtype.is_integer()).unwrap_or_else(wanted)
    }

    /// What an operator on whole numbers reads; what it makes it says itself.
    fn whole(&mut self, id: OperatorId, operator: &Operator, input: Option<Kind>) -> Result<(), GraphError> {
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
        self.said(operator, ("scale", "zero_point"), dtype);
        Ok(())
    }

    /// Notes what the output of an operator stands for that says it in these parameters.
    fn said(&mut self, operator: &Operator, keys: (&str, &str), dtype: DType) {
        let text = |key| operator.param(key).map(|parameter| Source::Text(parameter.raw().to_owned()));
        if let (Some(&output), Some(scale), Some(zero_point)) =
            (operator.outputs().first(), text(keys.0), text(keys.1))
        {
            self.known.insert(output, Kind::Tensor(Known { scale, zero_point, axis: None, dtype }));
        }
    }

    /// Tensors that are joined are brought to the scale of the output, which is the first one's where nobody says it.
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
                None => return Err(refused(operator, "some of its inputs are quantised and some are not")),
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
        self.said(&operator, ("scale", "zero_point"), dtype);
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

    fn dequantize(
        &mut self,
        id: OperatorId,
        operator: &Operator,
        kind: Option<Kind>,
    ) -> Result<(), GraphError> {
        let is_told = operator.param("scale").is_some() || operator.named_input("scale").is_some();
        let Some(Kind::Tensor(known)) = kind.filter(|_| !is_told) else { return Ok(()) };
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

    /// Tensors that stand for the same numbers, along a new axis.
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
            _ => Err(refused(operator, "its inputs must all be quantised with the same constants")),
        }
    }

    fn set(&mut self, id: OperatorId, key: &str, raw: &str) -> Result<(), GraphError> {
        self.file.set_param(id, key, Parameter::parse(raw)).map_err(PnnxError::from)?;
        Ok(())
    }
}

/// The operator that joins quantised tensors.
const JOIN: &str = "nn.quantized.cat";

/// Scale and zero point as texts.
fn constant<'k>(operator: &Operator, known: &'k Known) -> Result<(&'k str, &'k str), GraphError> {
    let reason = "scale and zero point of what it reads are computed, or differ along an axis; it takes constants only";
    known.texts().ok_or_else(|| refused(operator, reason))
}

fn refused(operator: &Operator, reason: &str) -> GraphError {
    let source = LayerError::Unsupported(format!("quantised tensors: {reason}"));
    GraphError::Operator {
        place: Box::new(OperatorPlace {
            op_type: operator.op_type().to_owned(),
            name: operator.name().to_owned(),
            file: None,
            line: operator.line(),
        }),
        stage: Stage::Create,
        source: Box::new(source),
        inputs: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
