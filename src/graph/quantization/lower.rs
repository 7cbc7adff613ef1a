//! Lowering of operators that are computed in floats between dequantisation and quantisation.

use super::roles::{Lowering, Out, function};
use super::{Kind, Known, Resolver, Source, constant, refused};
use crate::graph::GraphError;
use crate::op::Scale;
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
        let out = match lowering.out {
            Out::Of(Scale::OfMean) if !self.is_over_last_axes(operator) => Out::Of(Scale::OfInput),
            out => out,
        };
        let unscaled = matches!(out, Out::Of(Scale::Unscaled | Scale::OfMean));
        for (position, kind) in kinds.iter().enumerate() {
            if let Some(Kind::Tensor(known)) = kind {
                self.dequantize_input(id, operator, position, known, unscaled)?;
            }
        }
        let (_, zero_point) = constant(operator, first)?;
        let texts = |scale: &str, zero_point: &str| {
            (Source::Text(scale.to_owned()), Source::Text(zero_point.to_owned()))
        };
        let (scale, made_zero) = match out {
            Out::Of(Scale::OfInput) => (first.scale.clone(), first.zero_point.clone()),
            Out::Of(Scale::Unscaled) => texts("1.0", zero_point),
            Out::Of(Scale::OfMean) => texts("1.0", "0"),
            Out::Of(Scale::Fraction) => match first.dtype {
                DType::I8 => texts("0.00390625", "-128"),
                DType::I32 => texts("2.3283064365386963e-10", "0"),
                _ => texts("0.00390625", "0"),
            },
            Out::Of(Scale::Signed) => match first.dtype {
                DType::I8 => texts("0.0078125", "0"),
                DType::I32 => texts("4.656612873077393e-10", "0"),
                _ => texts("0.0078125", "128"),
            },
            Out::Of(Scale::Plain) => return Ok(()),
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
        if matches!(out, Out::Of(Scale::OfMean)) {
            steps.push(("pnnx.Expression", "shift", Some(format!("add(@0,{zero_point})"))));
        }
        self.quantize_output(id, operator, steps, &made)?;
        if let Some(&output) = operator.outputs().first() {
            let made = if unscaled { first.clone() } else { made };
            self.known.insert(output, Kind::Tensor(made));
        }
        self.rewrite(id, operator, &lowering)
    }

    /// Returns true if a mean is over the last axes, as that of a window, or over all axes: PyTorch computes these from the
    /// quantised values, and others in floats.
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

    /// Replaces a function of the namespace `quantized` by one of floats.
    fn rewrite(
        &mut self,
        id: OperatorId,
        operator: &Operator,
        lowering: &Lowering,
    ) -> Result<(), GraphError> {
        let Some(name) = function(operator) else { return Ok(()) };
        if let Some((key, parameter)) =
            operator.params().iter().find(|(key, value)| !lowering.knows(key, value))
        {
            return Err(refused(operator, &format!("unsupported parameter `{key}={}`", parameter.raw())));
        }
        let op_type = lowering.expr.map_or_else(|| format!("F.{name}"), |_| "pnnx.Expression".to_owned());
        self.file.set_op_type(id, &op_type).map_err(PnnxError::from)?;
        for key in operator.params().keys() {
            self.file.remove_param(id, key).map_err(PnnxError::from)?;
        }
        if let Some(expr) = lowering.expr {
            self.set(id, "expr", expr)?;
        }
        for (key, from) in lowering.params {
            if let Some(parameter) = operator.param(from) {
                self.set(id, key, parameter.raw())?;
            }
        }
        let inputs = self.file.operator(id).inputs().to_vec();
        for position in (0..inputs.len()).rev() {
            self.file.disconnect_input(id, position).map_err(PnnxError::from)?;
        }
        let name = lowering.expr.is_none().then_some("input");
        for input in inputs.into_iter().take(lowering.inputs) {
            self.file.connect_input(id, input, name).map_err(PnnxError::from)?;
        }
        Ok(())
    }
}
