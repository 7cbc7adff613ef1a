//! Modules of quantised tensors, which are not in `torch.nn`.

use super::Writer;
use super::arguments::Arguments;
use super::error::{PythonProblem, Written};
use super::module::weight;
use super::prelude::Helper;
use crate::ids::OperatorId;
use crate::operator::Operator;
use ixion_tensor::DType;

/// The weights of a module, in the order in which `quantized` takes them.
const WEIGHTS: [&str; 4] =
    ["weight", "weight.q_per_channel_scales", "weight.q_per_channel_zero_points", "bias"];

impl Writer<'_> {
    pub(super) fn quantized(&mut self, id: OperatorId, operator: &Operator) -> Written {
        let class = operator.op_type().rsplit('.').next().unwrap_or_default();
        let texts = self.input_variables(operator);
        if class.starts_with(|c: char| c.is_ascii_lowercase()) {
            let call = self.call(&format!("quantized::{class}"), Arguments::in_order(operator, texts));
            self.assign(operator, &call);
            return Ok(());
        }
        let member = self.member(id);
        let made = match class {
            "Quantize" | "DeQuantize" => self.conversion(operator),
            _ => self.with_weights(operator)?,
        };
        self.init.push(format!("{member} = {made}"));
        self.assign(operator, &format!("{member}({})", texts.join(", ")));
        Ok(())
    }

    /// A module that quantises or dequantises. PNNX writes another type than that of the result.
    fn conversion(&self, operator: &Operator) -> String {
        let mut arguments = Arguments::in_order(operator, Vec::new());
        let output = operator.outputs().first().and_then(|&output| self.graph.get_operand(output));
        let dtype = match output.and_then(|output| output.dtype()) {
            Some(DType::U8) => Some("torch.quint8"),
            Some(DType::I8) => Some("torch.qint8"),
            Some(DType::I32) => Some("torch.qint32"),
            _ => None,
        };
        if let Some(dtype) = dtype {
            arguments.change("dtype", |_| dtype.to_owned());
        }
        format!("torch.ao.{}({})", operator.op_type(), arguments.text())
    }

    /// A module whose weight is quantised by output channel.
    fn with_weights(&mut self, operator: &Operator) -> Written<String> {
        let mut arguments = Arguments::in_order(operator, Vec::new());
        let scale = arguments.take("scale").ok_or(PythonProblem::Missing { key: "scale" })?;
        let zero_point = arguments.take("zero_point").ok_or(PythonProblem::Missing { key: "zero_point" })?;
        // Linear layers call it differently, and replace their bias anyway.
        if !operator.has_param("kernel_size") {
            arguments.take("bias");
        }
        let text = |&key: &&str| match operator.attr(key) {
            Some(attribute) => weight(operator, key, attribute),
            None => "None".to_owned(),
        };
        let weights: Vec<String> = WEIGHTS.iter().map(text).collect();
        let module = format!("torch.ao.{}({})", operator.op_type(), arguments.text());
        self.helpers.insert(Helper::Quantized);
        Ok(format!("quantized({module}, {scale}, {zero_point}, {})", weights.join(", ")))
    }
}
