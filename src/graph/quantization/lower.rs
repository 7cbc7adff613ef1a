//! Lowering of operators that are computed in floats between dequantisation and quantisation.

use super::roles::{Lowering, Out, method};
use super::{Kind, Known, Resolver, Source, constant, refused};
use crate::graph::GraphError;
use crate::pnnx::{Operator, OperatorId, Parameter, PnnxError};
use crate::tensor::DType;

impl Resolver<'_> {
    /// Inserts a `torch.dequantize` before each quantised input of an operator, and a `torch.quantize_per_tensor` after it.
    pub(super) fn lower(
        &mut self,
        id: OperatorId,
        operator: &Operator,
        lowering: Lowering,
        kinds: &[Option<Kind>],
    ) -> Result<(), GraphError> {
        let Some(Some(Kind::Tensor(first))) = kinds.first() else {
            return Err(refused(operator, "expected a quantised first input"));
        };
        let lowering = match lowering.out {
            Out::Mean if method(operator.op_type()) == Some("mean") && !self.is_over_last_axes(operator) => {
                Lowering { out: Out::Same, ..lowering }
            }
            _ => lowering,
        };
        let unscaled = matches!(lowering.out, Out::Unscaled | Out::Mean);
        for (position, kind) in kinds.iter().enumerate() {
            if let Some(Kind::Tensor(known)) = kind {
                self.dequantize_input(id, operator, position, known, unscaled)?;
            }
        }
        let (_, zero_point) = constant(operator, first)?;
        let (scale, made_zero) = match lowering.out {
            Out::Same => (first.scale.clone(), first.zero_point.clone()),
            Out::Unscaled => (Source::Text("1.0".to_owned()), Source::Text(zero_point.to_owned())),
            Out::Mean => (Source::Text("1.0".to_owned()), Source::Text("0".to_owned())),
            Out::Fixed(fixed) => {
                let (scale, zero_point) = match first.dtype {
                    DType::I8 => fixed[1],
                    DType::I32 => fixed[2],
                    _ => fixed[0],
                };
                (Source::Text(scale.to_owned()), Source::Text(zero_point.to_owned()))
            }
            Out::Plain => return Ok(()),
            Out::Given { scale, zero_point } => {
                let missing = || refused(operator, "missing scale and zero point of its output");
                let given = |key| self.argument(operator, key, usize::MAX);
                (given(scale).ok_or_else(missing)?, given(zero_point).ok_or_else(missing)?)
            }
        };
        let made = Known { scale, zero_point: made_zero, axis: None, dtype: first.dtype };
        let mut steps = Vec::new();
        if lowering.relu {
            steps.push(("F.relu", "relu", None));
        }
        if matches!(lowering.out, Out::Mean) {
            steps.push(("pnnx.Expression", "shift", Some(format!("add(@0,{zero_point})"))));
        }
        self.quantize_output(id, operator, steps, &made)?;
        if let Some(&output) = operator.outputs().first() {
            let made = if unscaled { first.clone() } else { made };
            self.known.insert(output, Kind::Tensor(made));
        }
        self.rewrite(id, operator, &lowering)
    }

    /// Returns true if a mean is over the last axes or all axes: PyTorch computes these from the quantised values, and others
    /// in floats.
    fn is_over_last_axes(&self, operator: &Operator) -> bool {
        let Some(dims) = operator.param("dim").filter(|dims| !dims.is_none()) else {
            return operator.named_input("dim").is_none();
        };
        let dims = dims.as_i64s().or_else(|_| dims.as_i64().map(|one| vec![one])).unwrap_or_default();
        let shape = operator.inputs().first().and_then(|&input| self.file.operand(input).shape());
        let from_end = |dim: i64| match shape {
            _ if dim < 0 => Some(dim),
            Some(shape) => dim.checked_sub(i64::try_from(shape.len()).ok()?),
            None => None,
        };
        let mut dims: Vec<Option<i64>> = dims.into_iter().map(from_end).collect();
        dims.sort_unstable();
        dims.iter().rev().zip(1..).all(|(dim, count)| *dim == Some(-count))
    }

    fn dequantize_input(
        &mut self,
        id: OperatorId,
        operator: &Operator,
        position: usize,
        known: &Known,
        unscaled: bool,
    ) -> Result<(), GraphError> {
        let (scale, zero_point) = constant(operator, known)?;
        let Some(&input) = operator.inputs().get(position) else { return Ok(()) };
        let name = format!("{}.dequantize_{position}", operator.name());
        let mut edit = || -> Result<OperatorId, crate::pnnx::GraphError> {
            let shape = self.file.operand(input).shape().map(<[_]>::to_vec);
            let made = self.file.new_operator_before("torch.dequantize", &name, id)?;
            self.file.set_line(made, operator.line())?;
            self.file.connect_input(made, input, Some("input"))?;
            let output = self.file.new_operand(&name)?;
            self.file.set_operand_type(output, Some(DType::F32), shape)?;
            self.file.connect_output(made, output)?;
            self.file.replace_input(id, position, output)?;
            Ok(made)
        };
        let made = edit().map_err(PnnxError::from)?;
        self.set(made, "scale", if unscaled { "1.0" } else { scale })?;
        self.set(made, "zero_point", zero_point)
    }

    /// Inserts these operators (type, name, expression) and a `torch.quantize_per_tensor` after an operator.
    fn quantize_output(
        &mut self,
        id: OperatorId,
        operator: &Operator,
        mut steps: Vec<(&str, &str, Option<String>)>,
        made: &Known,
    ) -> Result<(), GraphError> {
        let Some(&output) = operator.outputs().first() else { return Ok(()) };
        let (scale, zero_point) = constant(operator, made)?;
        steps.push(("torch.quantize_per_tensor", "quantize", None));
        let mut last = id;
        let edit = || -> Result<OperatorId, crate::pnnx::GraphError> {
            let shape = self.file.operand(output).shape().map(<[_]>::to_vec);
            self.file.disconnect_output(id, output)?;
            for (op_type, suffix, expr) in steps {
                let name = format!("{}.{suffix}", operator.name());
                let between = self.file.new_operand(&name)?;
                self.file.set_operand_type(between, Some(DType::F32), shape.clone())?;
                self.file.connect_output(last, between)?;
                last = self.file.new_operator_after(op_type, &name, last)?;
                self.file.set_line(last, operator.line())?;
                self.file.connect_input(last, between, expr.is_none().then_some("input"))?;
                if let Some(expr) = expr {
                    self.file.set_param(last, "expr", Parameter::parse(&expr))?;
                }
            }
            self.file.connect_output(last, output)?;
            Ok(last)
        };
        let quantize = edit().map_err(PnnxError::from)?;
        self.set(quantize, "scale", scale)?;
        self.set(quantize, "zero_point", zero_point)?;
        let dtype = match made.dtype {
            DType::I8 => "torch.qint8",
            DType::I32 => "torch.qint32",
            _ => "torch.quint8",
        };
        self.set(quantize, "dtype", dtype)
    }

    /// Replaces an operator by its counterpart on floats.
    fn rewrite(
        &mut self,
        id: OperatorId,
        operator: &Operator,
        lowering: &Lowering,
    ) -> Result<(), GraphError> {
        let Some(op_type) = lowering.op_type else { return Ok(()) };
        if let Some((key, parameter)) =
            operator.params().iter().find(|(key, value)| !lowering.knows(key, value))
        {
            return Err(refused(operator, &format!("unsupported parameter `{key}={}`", parameter.raw())));
        }
        self.file.set_op_type(id, op_type).map_err(PnnxError::from)?;
        for key in operator.params().keys() {
            self.file.remove_param(id, key).map_err(PnnxError::from)?;
        }
        for (key, from) in lowering.params {
            match from.strip_prefix('=') {
                Some(raw) => self.set(id, key, raw)?,
                None => {
                    if let Some(parameter) = operator.param(from) {
                        self.set(id, key, parameter.raw())?;
                    }
                }
            }
        }
        let count = self.file.operator(id).inputs().len();
        let inputs = self.file.operator(id).inputs().to_vec();
        for position in (0..count).rev() {
            self.file.disconnect_input(id, position).map_err(PnnxError::from)?;
        }
        let named = op_type != "pnnx.Expression";
        for input in inputs.into_iter().take(lowering.inputs) {
            self.file.connect_input(id, input, named.then_some("input")).map_err(PnnxError::from)?;
        }
        Ok(())
    }
}
