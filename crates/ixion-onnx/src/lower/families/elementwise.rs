//! Arithmetic, comparisons and logic of several operands, which are broadcast.

use super::literals::{self, Operand};
use crate::OnnxError;
use crate::lower::call::{Outputs, Table, one};
use crate::lower::{Call, Value};
use ixion_pnnx::{OperandId, Parameter};
use ixion_tensor::DType;

pub(super) const TABLE: Table = &[
    ("Add", arithmetic),
    ("And", logic),
    ("BitShift", bit_shift),
    ("BitwiseAnd", logic),
    ("BitwiseOr", logic),
    ("BitwiseXor", logic),
    ("Clip", clip),
    ("Div", division),
    ("Equal", comparison),
    ("Greater", comparison),
    ("GreaterOrEqual", comparison),
    ("Less", comparison),
    ("LessOrEqual", comparison),
    ("Max", variadic),
    ("Mean", variadic),
    ("Min", variadic),
    ("Mod", remainder),
    ("Mul", arithmetic),
    ("Or", logic),
    ("PRelu", prelu),
    ("Pow", power),
    ("Sub", arithmetic),
    ("Sum", variadic),
    ("Where", choice),
    ("Xor", logic),
];

/// Sums, differences and products.
fn arithmetic(call: &mut Call<'_>) -> Outputs {
    let function = call.op_type().to_ascii_lowercase();
    let operands = literals::two_operands(call)?;
    one(literals::apply(call, &function, &operands))
}

/// Returns true if a constant among the inputs tells that they are floats, false if it tells that they are not.
fn are_floats(call: &mut Call<'_>) -> Result<Option<bool>, OnnxError> {
    for position in 0..call.num_inputs() {
        if let Some(constant) = call.constant(position)? {
            return Ok(Some(constant.dtype().is_float()));
        }
    }
    Ok(None)
}

/// Quotients. Those of integers are rounded towards 0.
fn division(call: &mut Call<'_>) -> Outputs {
    if are_floats(call)? == Some(true) {
        let operands = literals::two_operands(call)?;
        return one(literals::apply(call, "div", &operands));
    }
    one(with_second(call, "Div", "B"))
}

/// An operator that takes its second operand as an input or a number.
fn with_second(call: &mut Call<'_>, op_type: &str, key: &'static str) -> Result<OperandId, OnnxError> {
    let (a, b) = match literals::two_operands(call)? {
        [Operand::Tensor(a), b] => (a, b),
        [Operand::Literal(_), b] => (call.input(0)?, b),
    };
    with_operand(call, op_type, a, key, &b)
}

/// An operator that takes an operand under a name, as an input or a number.
fn with_operand(
    call: &mut Call<'_>,
    op_type: &str,
    first: OperandId,
    key: &'static str,
    other: &Operand,
) -> Result<OperandId, OnnxError> {
    let emit = call.emit(op_type).input(first);
    match other {
        Operand::Literal(literal) => emit.param(key, literal.clone()).one(),
        Operand::Tensor(tensor) => emit.named(key, *tensor).one(),
    }
}

/// Powers. The result has the type of the base; until version 12, so has the exponent.
fn power(call: &mut Call<'_>) -> Outputs {
    if call.version() < 12 {
        let operands = literals::two_operands(call)?;
        return one(literals::apply(call, "pow", &operands));
    }
    one(with_second(call, "Pow", "Y"))
}

fn remainder(call: &mut Call<'_>) -> Outputs {
    let fmod = call.flag_or("fmod", false)?;
    let (a, b) = (call.input(0)?, call.input(1)?);
    one(call.emit("Mod").input(a).named("B", b).param("fmod", i64::from(fmod)).one())
}

fn comparison(call: &mut Call<'_>) -> Outputs {
    let (op_type, mirrored) = match call.op_type() {
        "Equal" => ("torch.eq", "torch.eq"),
        "Greater" => ("torch.gt", "torch.lt"),
        "GreaterOrEqual" => ("torch.ge", "torch.le"),
        "Less" => ("torch.lt", "torch.gt"),
        _ => ("torch.le", "torch.ge"),
    };
    one(match literals::two_operands(call)? {
        [Operand::Tensor(a), b] => with_operand(call, op_type, a, "other", &b),
        [literal, Operand::Tensor(b)] => with_operand(call, mirrored, b, "other", &literal),
        [_, literal] => {
            let a = call.input(0)?;
            with_operand(call, op_type, a, "other", &literal)
        }
    })
}

fn logic(call: &mut Call<'_>) -> Outputs {
    let op_type = match call.op_type() {
        "And" => "torch.logical_and",
        "BitwiseAnd" => "torch.bitwise_and",
        "BitwiseOr" => "torch.bitwise_or",
        "BitwiseXor" => "torch.bitwise_xor",
        "Or" => "torch.logical_or",
        _ => "torch.logical_xor",
    };
    one(with_second(call, op_type, "other"))
}

fn bit_shift(call: &mut Call<'_>) -> Outputs {
    let direction = call.string_or("direction", "")?;
    if !matches!(direction, "LEFT" | "RIGHT") {
        return Err(call.error(format!("expected `direction` to be LEFT or RIGHT, got `{direction}`")));
    }
    let (x, y) = (call.input(0)?, call.input(1)?);
    one(call.emit("BitShift").input(x).named("Y", y).param("direction", direction).one())
}

/// Maxima, minima, sums and means of any number of inputs.
fn variadic(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["consumed_inputs"]);
    let function = match call.op_type() {
        "Max" => "maximum",
        "Min" => "minimum",
        _ => "add",
    };
    let operands = literals::operands(call)?;
    let count = operands.len();
    let mut rest = operands.into_iter();
    let first = rest.next().ok_or_else(|| call.error("expected at least one input, got none"))?;
    let mut result = first;
    for operand in rest {
        result = match (&result, &operand) {
            // Two literals in a row: one of them as a tensor.
            (Operand::Literal(_), Operand::Literal(_)) => {
                let first = Operand::Tensor(call.input(0)?);
                Operand::Tensor(literals::apply(call, function, &[first, operand])?)
            }
            _ => Operand::Tensor(literals::apply(call, function, &[result, operand])?),
        };
    }
    let Operand::Tensor(result) = result else { return Ok(vec![call.value(0)?]) };
    match call.op_type() {
        "Mean" if count > 1 => one(call.expression(&format!("div(@0,{count}.0)"), &[result])),
        _ => Ok(vec![Value::Operand(result)]),
    }
}

/// A bound of a clamp.
fn bound(call: &mut Call<'_>, position: usize) -> Result<Option<Operand>, OnnxError> {
    let constant = call.constant(position)?.filter(|constant| constant.attribute().elem_count() == 1);
    if let Some(constant) = constant
        && let Some(number) = literals::number(&constant)?
    {
        return Ok(Some(Operand::Literal(number)));
    }
    Ok(call.optional_input(position)?.map(Operand::Tensor))
}

/// The bounds: attributes before version 11, then inputs.
fn bounds(call: &mut Call<'_>) -> Result<[Option<Operand>; 2], OnnxError> {
    call.ignore(&["consumed_inputs"]);
    if call.version() >= 11 {
        return Ok([bound(call, 1)?, bound(call, 2)?]);
    }
    let given = [call.float("min")?, call.float("max")?];
    Ok(given
        .map(|bound| Some(Operand::Literal(Parameter::from(bound.filter(|bound| bound.abs() < f32::MAX)?)))))
}

fn clip(call: &mut Call<'_>) -> Outputs {
    let bounds = bounds(call)?;
    if let [None, None] = bounds {
        return Ok(vec![call.value(0)?]);
    }
    let x = call.input(0)?;
    let number = |bound: &Option<Operand>| match bound {
        Some(Operand::Literal(literal)) => literal.as_f64().ok(),
        _ => None,
    };
    let [low, high] = [number(&bounds[0]), number(&bounds[1])];
    // What PNNX writes for PyTorch's activations.
    if low == Some(0.0) && high == Some(6.0) {
        return one(call.operator("F.relu6", &[x], &[]));
    }
    if low == Some(0.0) && bounds[1].is_none() {
        return one(call.operator("F.relu", &[x], &[]));
    }
    let mut emit = call.emit("torch.clamp").input(x);
    for (key, bound) in ["min", "max"].into_iter().zip(bounds) {
        emit = match bound {
            None => emit.param(key, "None"),
            Some(Operand::Literal(literal)) => emit.param(key, literal),
            Some(Operand::Tensor(tensor)) => emit.named(key, tensor),
        };
    }
    one(emit.one())
}

fn prelu(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["consumed_inputs"]);
    let (x, slope) = (call.input(0)?, call.input(1)?);
    if call.version() < 7 {
        // A slope for each channel, as in PyTorch; later versions broadcast it.
        return one(call.emit("F.prelu").input(x).named("weight", slope).one());
    }
    one(call.emit("PRelu").input(x).named("slope", slope).one())
}

/// Elements of the second input where the first one is true, else of the third.
fn choice(call: &mut Call<'_>) -> Outputs {
    let condition = call.input(0)?;
    let known = [call.constant(1)?, call.constant(2)?];
    let both_known = known.iter().all(Option::is_some);
    let mut emit_later = Vec::new();
    for (constant, position) in known.iter().zip([1, 2]) {
        let literal = match constant {
            Some(constant) if !both_known && constant.dtype() != DType::Bool => literals::literal(constant)?,
            _ => None,
        };
        emit_later.push(match literal {
            Some(literal) => Operand::Literal(literal),
            None => Operand::Tensor(call.input(position)?),
        });
    }
    let mut emit = call.emit("torch.where").input(condition);
    for (key, operand) in ["input", "other"].into_iter().zip(emit_later) {
        emit = match operand {
            Operand::Literal(literal) => emit.param(key, literal),
            Operand::Tensor(tensor) => emit.named(key, tensor),
        };
    }
    one(emit.one())
}

#[cfg(test)]
mod tests {
    use crate::lower::testing::{FLOAT, graph, integer, lines, node, of_int, refusal, tensor};
    use crate::schema::{GraphProto, TensorProto};

    fn number(name: &str, value: f32) -> TensorProto {
        tensor(name, FLOAT, &[], &value.to_le_bytes())
    }

    /// The operators that a node of `x` and constants becomes.
    fn lowered(op_type: &str, inputs: &[&str], initializer: Vec<TensorProto>) -> Vec<String> {
        let nodes = vec![node(op_type, inputs, &["y"], Vec::new())];
        lines(GraphProto { initializer, ..graph(&["x"], nodes, &["y"]) })
    }

    #[test]
    fn constants_without_axes_are_literals() {
        let tenth = || vec![number("c", 0.1)];
        assert_eq!(lowered("Mul", &["x", "c"], tenth()), ["pnnx.Expression x -> y expr=mul(@0,0.1)"]);
        assert_eq!(lowered("Sub", &["c", "x"], tenth()), ["pnnx.Expression x -> y expr=sub(0.1,@0)"]);
        assert_eq!(lowered("Add", &["x", "x"], tenth()), ["pnnx.Expression x -> y expr=add(@0,@0)"]);
        let three = vec![integer("c", 3)];
        assert_eq!(lowered("Add", &["x", "c"], three), ["pnnx.Expression x -> y expr=add(@0,3)"]);
        let vector = vec![tensor("c", FLOAT, &[1], &1f32.to_le_bytes())];
        let lines = lowered("Add", &["x", "c"], vector);
        assert_eq!(lines, ["pnnx.Attribute  -> c", "pnnx.Expression x c -> y expr=add(@0,@1)"]);
    }

    #[test]
    fn quotients_of_integers_are_an_operator_of_their_own() {
        assert_eq!(lowered("Div", &["x", "c"], vec![integer("c", 2)]), ["Div x -> y B=2"]);
        let twice = lowered("Div", &["x", "x"], Vec::new());
        assert_eq!(twice, ["torch.clone x -> y.1", "Div x y.1 -> y"]);
        let half = vec![number("c", 2.0)];
        assert_eq!(lowered("Div", &["x", "c"], half), ["pnnx.Expression x -> y expr=div(@0,2.0)"]);
    }

    #[test]
    fn comparisons_with_a_number_on_the_left_are_turned() {
        let zero = || vec![number("c", 0.0)];
        assert_eq!(lowered("Less", &["c", "x"], zero()), ["torch.gt x -> y other=0.0"]);
        assert_eq!(lowered("Less", &["x", "c"], zero()), ["torch.lt x -> y other=0.0"]);
    }

    #[test]
    fn clips_are_activations_if_pytorch_has_them() {
        let bounds = |high| vec![number("a", 0.0), number("b", high)];
        assert_eq!(lowered("Clip", &["x", "a", "b"], bounds(6.0)), ["F.relu6 x -> y"]);
        assert_eq!(lowered("Clip", &["x", "a"], bounds(6.0)), ["F.relu x -> y"]);
        assert_eq!(lowered("Clip", &["x", "a", "b"], bounds(5.0)), ["torch.clamp x -> y max=5.0 min=0.0"]);
        assert_eq!(lowered("Clip", &["x", "", "b"], bounds(5.0)), ["torch.clamp x -> y max=5.0 min=None"]);
    }

    #[test]
    fn any_number_of_operands() {
        let one = || vec![number("c", 1.0), number("d", 2.0)];
        let lines = lowered("Max", &["x", "c", "x"], one());
        let [first, second] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(first.ends_with("expr=maximum(@0,1.0)"), "{first}");
        assert!(second.ends_with("expr=maximum(@0,@1)"), "{second}");
        let lines = lowered("Mean", &["x", "x"], one());
        assert!(lines.last().is_some_and(|line| line.ends_with("expr=div(@0,2.0)")));
    }

    #[test]
    fn an_unknown_direction_of_a_shift_is_refused() {
        let nodes = vec![node("BitShift", &["x", "x"], &["y"], vec![of_int("direction", 1)])];
        assert!(refusal(graph(&["x"], nodes, &["y"])).contains("`direction` to be a string"));
        let nodes = vec![node("Add", &["x"], &["y"], Vec::new())];
        assert!(refusal(graph(&["x"], nodes, &["y"])).contains("expected 2 inputs, got 1"));
    }
}
