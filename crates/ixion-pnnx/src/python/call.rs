//! Operators that become calls to functions and methods.

use super::Writer;
use super::arguments::Arguments;
use super::literal::tuple;
use crate::operator::Operator;

/// Functions that take all their tensors as one sequence.
const TAKE_SEQUENCE: &[&str] = &[
    "torch.cat",
    "torch.stack",
    "torch.concat",
    "torch.hstack",
    "torch.vstack",
    "torch.dstack",
    "torch.column_stack",
    "torch.cartesian_prod",
    "torch.block_diag",
];

/// Functions that return a sequence even if it has one element.
const GIVE_SEQUENCE: &[&str] = &["torch.chunk", "torch.split", "torch.tensor_split", "torch.unbind"];

/// Functions that return values and indices if an axis is given.
const GIVE_INDICES: &[&str] = &["torch.max", "torch.min", "torch.median"];

/// PNNX's names for sizes that methods take by position.
const SIZES: &[&str] = &["shape", "sizes", "dims"];

impl Writer<'_> {
    /// `F.relu(x)`, `torch.cat((a, b), dim=1)` and the like.
    pub(super) fn function(&mut self, operator: &Operator) {
        let op_type = operator.op_type();
        let variables = self.input_variables(operator);
        let mut arguments = Arguments::of(operator, &variables);
        adjust(operator, &mut arguments);
        if TAKE_SEQUENCE.contains(&op_type) && !self.reads_sequence(operator) {
            arguments.gather(tuple);
        }
        let call = format!("{op_type}({})", arguments.text());
        self.assign_call(operator, &call);
    }

    /// `x.reshape(…)` and the like: the method is called on the first input.
    pub(super) fn method(&mut self, operator: &Operator, name: &str) {
        let variables = self.input_variables(operator);
        let Some((tensor, _)) = variables.split_first() else {
            return self.unknown(operator);
        };
        let mut arguments = Arguments::of_method(operator, &variables);
        for size in SIZES {
            arguments.by_position(size);
        }
        if name == "reshape" {
            self.copy_zero_sizes(operator, tensor, &mut arguments);
        }
        if name == "size" && operator.has_param("dim") {
            self.numbers.extend(operator.outputs());
        }
        let call = format!("{tensor}.{name}({})", arguments.text());
        self.assign_call(operator, &call);
    }

    /// Replaces each size 0 of a reshape by the input's size along the same axis.
    fn copy_zero_sizes(&mut self, operator: &Operator, tensor: &str, arguments: &mut Arguments) {
        let Ok(shape) = operator.get::<Vec<i64>>("shape") else {
            return;
        };
        if shape.contains(&0) {
            let size = |(axis, &size): (usize, &i64)| match size {
                0 => format!("{tensor}.size({axis})"),
                _ => size.to_string(),
            };
            let sizes = tuple(shape.iter().enumerate().map(size));
            arguments.gather(|_| sizes);
        }
    }

    /// Assigns the result of a call. If the function returns several values and the operator has one output, it takes the
    /// first.
    fn assign_call(&mut self, operator: &Operator, call: &str) {
        let (op_type, single) = (operator.op_type(), operator.outputs().len() == 1);
        let has_axis = operator.has_param("dim") || operator.has_input("dim");
        if single && GIVE_INDICES.contains(&op_type) && has_axis {
            return self.assign(operator, &format!("{call}[0]"));
        }
        if single && GIVE_SEQUENCE.contains(&op_type) && !self.feeds_unpack(operator) {
            return self.assign(operator, &format!("{call}[0]"));
        }
        self.assign(operator, call);
    }

    /// Returns true if the only input is already a sequence.
    fn reads_sequence(&self, operator: &Operator) -> bool {
        let [input] = operator.inputs() else { return false };
        let producer = self.graph.operand(*input).producer().and_then(|id| self.graph.get_operator(id));
        producer.is_some_and(|producer| {
            let op_type = producer.op_type();
            let builds = matches!(op_type, "prim::ListConstruct" | "prim::TupleConstruct");
            builds || (GIVE_SEQUENCE.contains(&op_type) && producer.outputs().len() == 1)
        })
    }

    /// Returns true if the only output is unpacked or used as a sequence.
    fn feeds_unpack(&self, operator: &Operator) -> bool {
        let [output] = operator.outputs() else {
            return false;
        };
        let consumers = self.graph.operand(*output).consumers().iter();
        let mut consumers = consumers.filter_map(|&id| self.graph.get_operator(id));
        consumers.any(|consumer| {
            let op_type = consumer.op_type();
            matches!(op_type, "prim::ListUnpack" | "prim::TupleUnpack")
                || (TAKE_SEQUENCE.contains(&op_type) && consumer.inputs().len() == 1)
        })
    }
}

/// Adjusts arguments where PNNX's differ from PyTorch's.
fn adjust(operator: &Operator, arguments: &mut Arguments) {
    match operator.op_type() {
        "torch.einsum" => {
            if let Some(equation) = arguments.take("equation") {
                arguments.push_front(equation);
            }
        }
        // PyTorch allows omitting these, but does not accept None.
        "torch.roll" if operator.param("dims").is_some_and(|dims| dims.is_none()) => {
            arguments.take("dims");
        }
        name if name.starts_with("F.adaptive_") => arguments.change("output_size", none_for_zero),
        _ => {}
    }
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
