//! Functions whose name or arguments are not the same in PNNX's files and in PyTorch.

use super::Writer;
use super::arguments::Arguments;
use super::error::{PythonProblem, Written};
use super::kind::constant;
use super::literal::{literal, tuple};
use crate::ids::OperandId;
use crate::operand::Dim;
use crate::operator::Operator;
use crate::parameter::Parameter;
use ixion_tensor::DType;

impl Writer<'_> {
    /// The call for a function that has another name in PyTorch.
    pub(super) fn other_call(
        &self,
        operator: &Operator,
        arguments: &mut Arguments,
    ) -> Written<Option<String>> {
        match operator.op_type() {
            "F.dropoutnd" => {
                arguments.rename("training", "train");
                Ok(Some(format!("torch.feature_dropout({})", arguments.text())))
            }
            "torch.normal" => Ok(self.normal(operator, arguments)),
            "torch.split" if is_none(operator, "split_size_or_sections") => {
                Ok(Some(equal_parts(operator, arguments)))
            }
            "torch.unsqueeze" => {
                let axes = operator.param("dim").and_then(|axes| axes.as_i64s().ok());
                axes.map(|axes| unsqueezed(axes, arguments)).transpose()
            }
            _ => Ok(None),
        }
    }

    /// The method `normal_`, which is a function of the tensor that it fills in PNNX's files.
    fn normal(&self, operator: &Operator, arguments: &Arguments) -> Option<String> {
        let (mean, std) = (self.argument(operator, "mean")?, self.argument(operator, "std")?);
        Some(format!("torch.empty_like({}).normal_({mean}, {std})", arguments.first()?))
    }

    /// Adjusts arguments where PNNX's differ from PyTorch's.
    pub(super) fn adjust(&self, operator: &Operator, arguments: &mut Arguments) {
        match operator.op_type() {
            "torch.einsum" => {
                if let Some(equation) = arguments.take("equation") {
                    arguments.push_front(equation);
                }
                arguments.by_position("operands");
            }
            // ONNX's names of interpolations.
            "F.grid_sample" => arguments.change("mode", |mode| match mode {
                "\"linear\"" => "\"bilinear\"".to_owned(),
                "\"cubic\"" => "\"bicubic\"".to_owned(),
                _ => mode.to_owned(),
            }),
            // PNNX drops calls of `contiguous`, which views need.
            "torch.view_as_complex" | "torch.as_strided" => {
                arguments.change_first(|tensor| format!("{tensor}.contiguous()"));
            }
            // PyTorch allows omitting these, but does not accept None.
            "torch.roll" if is_none(operator, "dims") => {
                arguments.take("dims");
            }
            // By name, PyTorch only accepts tensors.
            "torch.where" => {
                for key in ["condition", "input", "other"] {
                    arguments.by_position(key);
                }
            }
            "torch.var" | "torch.std"
                if self.constant(operator, "unbiased").is_some_and(|unbiased| unbiased.as_i64().is_ok()) =>
            {
                arguments.rename("unbiased", "correction");
            }
            // Without statistics, PNNX has dropped `training`.
            "F.batch_norm" => {
                let has_statistics = match self.constant(operator, "running_mean") {
                    Some(given) => !given.is_none(),
                    None => {
                        let is_second = operator.input_names().get(1).is_some_and(Option::is_none);
                        is_second || operator.has_input("running_mean")
                    }
                };
                if !has_statistics {
                    arguments.take("training");
                    arguments.name("training", "True".to_owned());
                }
            }
            "torch.reshape" => {
                let shape = arguments.first().and_then(|tensor| self.copied_sizes(operator, tensor));
                arguments.change("shape", |given| shape.unwrap_or_else(|| given.to_owned()));
            }
            name if name.starts_with("F.adaptive_") => arguments.change("output_size", none_for_zero),
            _ => {}
        }
        if let Some(dtype) = self.dropped_dtype(operator) {
            arguments.name("dtype", dtype.torch_name().to_owned());
        }
    }

    /// Writes the empty lists for which PNNX writes `None`. `squeeze` without axes removes all that have one element, unless the
    /// file records such axes, and as many of the output as of the input: then its list was empty.
    pub(super) fn restore_empty_lists(&self, operator: &Operator, arguments: &mut Arguments) {
        match operator.op_type().rsplit(['.', ':']).next() {
            Some("flip" | "tile") => arguments.change("dims", |dims| match dims {
                "None" => "()".to_owned(),
                _ => dims.to_owned(),
            }),
            Some("squeeze") if operator.inputs().len() == 1 => {
                if operator.param("dim").is_some_and(|dim| dim.raw() != "None") {
                    return;
                }
                arguments.take("dim");
                if self.keeps_axes_of_one(operator) {
                    arguments.name("dim", "()".to_owned());
                }
            }
            _ => {}
        }
    }

    /// Returns true if the file records axes with one element for the input, and as many axes for the output.
    fn keeps_axes_of_one(&self, operator: &Operator) -> bool {
        let shape = |operands: &[OperandId]| self.graph.get_operand(*operands.first()?)?.shape();
        let has_ones = |dims: &&[Dim]| dims.contains(&Dim::Fixed(1));
        let (input, output) = (shape(operator.inputs()), shape(operator.outputs()));
        input.filter(has_ones).zip(output).is_some_and(|(from, to)| from.len() == to.len())
    }

    /// The argument `dtype` of a function, which PNNX drops for some: no function of a single tensor returns floats of another
    /// type without it.
    fn dropped_dtype(&self, operator: &Operator) -> Option<DType> {
        if operator.has_param("dtype") || operator.has_input("dtype") {
            return None;
        }
        let dtype = |&operand: &_| self.graph.get_operand(operand).and_then(|operand| operand.dtype());
        let inputs: Vec<DType> = operator.inputs().iter().filter_map(dtype).collect();
        let ([from], [output]) = (inputs.as_slice(), operator.outputs()) else { return None };
        let to = dtype(output)?;
        let is_dropped = to.is_float() && *from != to && (from.is_float() || to == DType::F64);
        (is_dropped && !from.is_complex()).then_some(to)
    }

    /// The value of an argument that is a constant: a parameter, or an input from an operator that is one.
    fn constant(&self, operator: &Operator, key: &str) -> Option<Parameter> {
        if let Some(parameter) = operator.param(key) {
            return Some(parameter.clone());
        }
        let producer = self.graph.get_operand(operator.named_input(key)?)?.producer()?;
        constant(self.graph.get_operator(producer)?)
    }
}

fn is_none(operator: &Operator, key: &str) -> bool {
    operator.param(key).is_some_and(Parameter::is_none)
}

/// ONNX's split into as many parts as there are outputs.
fn equal_parts(operator: &Operator, arguments: &mut Arguments) -> String {
    let tensor = arguments.first().map(str::to_owned).or_else(|| arguments.take("tensor"));
    let dim = operator.param("dim").filter(|dim| !dim.is_none()).map_or_else(|| "0".to_owned(), literal);
    format!("torch.chunk({}, {}, dim={dim})", tensor.unwrap_or_default(), operator.outputs().len())
}

/// ONNX's insertion of several axes, whose positions are those in the output.
fn unsqueezed(mut axes: Vec<i64>, arguments: &Arguments) -> Written<String> {
    axes.sort_unstable();
    let are_from_end = axes.iter().filter(|axis| **axis < 0).count();
    if are_from_end == axes.len() {
        // Those closest to the end are inserted first, since they move the others.
        axes.reverse();
    } else if are_from_end > 0 {
        let found = tuple(axes.iter().map(i64::to_string));
        let wanted = "axes that are all counted from the start, or all from the end";
        return Err(PythonProblem::Parameter { key: "dim", wanted, found });
    }
    let mut text = arguments.first().unwrap_or_default().to_owned();
    for axis in axes {
        text = format!("torch.unsqueeze({text}, dim={axis})");
    }
    Ok(text)
}

/// Replaces 0 by None, the size of the input, in the output size of adaptive pooling.
pub(super) fn none_for_zero(size: &str) -> String {
    let inner = size.trim_start_matches('(').trim_end_matches(')').trim_end_matches(',');
    let item = |item: &str| {
        if item.trim() == "0" { "None".to_owned() } else { item.trim().to_owned() }
    };
    let mut items: Vec<String> = inner.split(',').map(item).collect();
    match items.as_mut_slice() {
        [single] if !size.starts_with('(') => std::mem::take(single),
        _ => tuple(items),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_means_none_for_adaptive_pooling() {
        assert_eq!(none_for_zero("(0, 3)"), "(None, 3)");
        assert_eq!(none_for_zero("(0,)"), "(None,)");
        assert_eq!(none_for_zero("7"), "7");
        assert_eq!(none_for_zero("0"), "None");
        assert_eq!(none_for_zero("(10, 20)"), "(10, 20)");
    }
}
