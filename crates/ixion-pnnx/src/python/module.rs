//! Operators that become modules: created and loaded with weights in `__init__`, called in `forward`.

use super::Writer;
use super::arguments::Arguments;
use super::error::{PythonProblem, Written};
use super::literal::{literal, string, tuple};
use super::prelude::Helper;
use super::spelling::none_for_zero;
use crate::attribute::Attribute;
use crate::ids::{OperandId, OperatorId};
use crate::operand::Dim;
use crate::operator::Operator;

/// Returns true if a type is a module class: PyTorch capitalises these.
pub(super) fn is_module(op_type: &str) -> bool {
    let class = op_type.rsplit('.').next().unwrap_or_default();
    let known = op_type.strip_prefix("nn.").is_some_and(|class| !class.contains('.'))
        || op_type.starts_with("torchvision.ops.")
        || op_type.starts_with("torchaudio.transforms.");
    known && class.starts_with(|c: char| c.is_ascii_uppercase())
}

impl Writer<'_> {
    pub(super) fn module(&mut self, id: OperatorId, operator: &Operator) -> Written {
        let member = self.member(id);
        let mut arguments = Arguments::in_order(operator, Vec::new());
        adjust(operator, &mut arguments);
        let mut inputs = self.module_inputs(operator);
        if let (Some(input), Some(padding)) = (inputs.first_mut(), uneven_padding(operator)) {
            *input = padded(operator, input, &padding, &mut arguments);
        }
        if let (Some(input), Some(window)) = (inputs.first_mut(), strided_same(operator)) {
            arguments.change("padding", |_| "0".to_owned());
            self.helpers.insert(Helper::Same);
            *input = format!("same({input}, {window})");
        }
        arguments.drop_usual();
        self.init.push(format!("{member} = {}({})", operator.op_type(), arguments.text()));
        self.fill(&member, operator);
        match operator.op_type() {
            "nn.MultiheadAttention" => self.attention(&member, operator),
            "nn.RNN" | "nn.GRU" | "nn.LSTM" => self.recurrent(&member, operator, &inputs),
            "torchvision.ops.RoIAlign" => self.regions(&member, operator),
            _ => {
                self.assign(operator, &format!("{member}({})", inputs.join(", ")));
                Ok(())
            }
        }
    }

    /// Loads the tensors of a module.
    pub(super) fn fill(&mut self, member: &str, operator: &Operator) {
        if operator.attrs().is_empty() {
            return;
        }
        let name = string(operator.written_name());
        self.init.push(format!("weights.fill({member}, {name}, {{"));
        for (key, attribute) in operator.attrs() {
            let shape = tuple(attribute.shape().iter().map(usize::to_string));
            let dtype = attribute.dtype().torch_name();
            self.init.push(format!("    {}: ({dtype}, {shape}),", string(key)));
        }
        self.init.push("})".to_owned());
    }

    /// The inputs of a module. TorchScript passes weights that are shared by several modules to each of them, before the other
    /// inputs; PNNX keeps these inputs, although the module has the weights.
    fn module_inputs(&self, operator: &Operator) -> Vec<String> {
        let inputs = self.input_variables(operator);
        let op_type = operator.op_type();
        let is_nameless = operator.input_names().iter().all(Option::is_none);
        // A learnt query of an attention may have the same shape as its weights.
        if !(is_nameless && op_type.starts_with("nn.") && op_type != "nn.MultiheadAttention") {
            return inputs;
        }
        let mut weights: Vec<&Attribute> = operator.attrs().values().collect();
        let before = operator.inputs().iter().take(inputs.len().saturating_sub(1));
        let shared = before.take_while(|&&input| self.take_weight(input, &mut weights)).count();
        inputs.into_iter().skip(shared).collect()
    }

    /// Returns true if an input is a stored tensor with the type and shape of one of these weights, and removes that weight.
    fn take_weight(&self, input: OperandId, weights: &mut Vec<&Attribute>) -> bool {
        let producer = self.graph.get_operand(input).and_then(|operand| operand.producer());
        let stored = producer.and_then(|id| self.graph.get_operator(id));
        let stored = stored.filter(|stored| stored.op_type() == "pnnx.Attribute");
        let Some(stored) = stored.and_then(|stored| stored.attrs().values().next()) else { return false };
        let same = |weight: &&Attribute| (weight.dtype(), weight.shape()) == (stored.dtype(), stored.shape());
        let position = weights.iter().position(same);
        position.map(|position| weights.swap_remove(position)).is_some()
    }

    /// Calls `RoIAlign` with images, which have four axes, and boxes: in one tensor after the images, or in a list, one tensor
    /// for each image, whose items PNNX writes before the images.
    fn regions(&mut self, member: &str, operator: &Operator) -> Written {
        let rank = |&input: &_| self.rank(input);
        let position = operator.inputs().iter().position(|input| rank(input) == Some(4)).unwrap_or(0);
        let mut boxes = self.input_variables(operator);
        if boxes.len() < 2 {
            return Err(PythonProblem::Inputs { wanted: "images and boxes", found: boxes.len() });
        }
        let images = boxes.remove(position);
        let boxes = match boxes.as_slice() {
            [boxes] if position == 0 && !self.has_columns(operator, 4) => boxes.clone(),
            boxes => format!("[{}]", boxes.join(", ")),
        };
        self.assign(operator, &format!("{member}({images}, {boxes})"));
        Ok(())
    }

    /// Returns true if the last axis of the last input is recorded to have this length.
    fn has_columns(&self, operator: &Operator, length: u64) -> bool {
        let operand = operator.inputs().last().and_then(|&input| self.graph.get_operand(input));
        operand.and_then(|operand| operand.shape()?.last()) == Some(&Dim::Fixed(length))
    }
}

/// A tensor of the archive.
pub(super) fn weight(operator: &Operator, key: &str, attribute: &Attribute) -> String {
    let entry = string(&format!("{}.{key}", operator.written_name()));
    let shape = tuple(attribute.shape().iter().map(usize::to_string));
    format!("weights.tensor({entry}, {}, {shape})", attribute.dtype().torch_name())
}

/// Adjusts settings where PNNX's differ from PyTorch's.
fn adjust(operator: &Operator, arguments: &mut Arguments) {
    // PNNX's own notes, such as the order of outputs.
    arguments.keep(|key| !key.starts_with("pnnx_"));
    match operator.op_type() {
        // Without weights, PNNX does not write the number of channels, which only has to be a multiple of this one.
        "nn.GroupNorm" if !operator.has_param("num_channels") => {
            let groups = operator.param("num_groups").map_or_else(|| "1".to_owned(), literal);
            arguments.name("num_channels", groups);
        }
        name if name.starts_with("nn.Adaptive") => arguments.change("output_size", none_for_zero),
        _ => {}
    }
    // PNNX writes this for the padding `same` of one axis, unless it is of zeros.
    let is_lost = operator.param("padding").is_some_and(|padding| padding.is_none());
    if is_lost && operator.has_param("padding_mode") {
        arguments.change("padding", |_| string("same"));
    }
}

/// The padding of a convolution that has two numbers for each axis, the last axis first, as PNNX writes it for even kernels.
fn uneven_padding(operator: &Operator) -> Option<Vec<i64>> {
    let numbers = |key| operator.param(key).and_then(|parameter| parameter.as_i64s().ok());
    let kernel = numbers("kernel_size").filter(|kernel| !kernel.is_empty())?;
    numbers("padding").filter(|padding| padding.len() == 2 * kernel.len())
}

/// The window of a convolution with the padding `same` and a stride, which PyTorch rejects; PNNX writes ONNX's `SAME_UPPER` this
/// way.
fn strided_same(operator: &Operator) -> Option<String> {
    let stride = operator.param("stride")?;
    let is_same = operator.param("padding")?.raw() == "same";
    let strides = stride.as_i64s().ok().filter(|_| is_same)?;
    if strides.iter().all(|stride| *stride == 1) {
        return None;
    }
    let ones = || tuple(strides.iter().map(|_| "1".to_owned()));
    let dilation = operator.param("dilation").map_or_else(ones, literal);
    Some(format!("{}, {}, {dilation}", literal(operator.param("kernel_size")?), literal(stride)))
}

/// The input with uneven padding, which PyTorch's convolutions do not add.
fn padded(operator: &Operator, input: &str, padding: &[i64], arguments: &mut Arguments) -> String {
    arguments.change("padding", |_| "0".to_owned());
    arguments.take("padding_mode");
    let mode = match operator.param("padding_mode").map(|mode| mode.raw()) {
        None | Some("zeros") => "constant",
        Some(mode) => mode,
    };
    format!("F.pad({input}, {}, mode={})", tuple(padding.iter().map(i64::to_string)), string(mode))
}
