//! Tensors that are constants, or made from a shape or a range.

use super::literals;
use super::types;
use crate::OnnxError;
use crate::lower::call::{Outputs, Table, one};
use crate::lower::{Call, Constant, Value};
use ixion_pnnx::{Attribute, OperandId, Parameter};
use ixion_tensor::DType;

pub(super) const TABLE: Table = &[
    ("Constant", constant),
    ("ConstantOfShape", constant_of_shape),
    ("EyeLike", eye_like),
    ("OneHot", one_hot),
    ("Range", range),
];

fn constant(call: &mut Call<'_>) -> Outputs {
    for name in ["value_string", "value_strings"] {
        if call.has(name) {
            return Err(call.error(format!("`{name}`: strings are not supported")));
        }
    }
    let given = ["value", "sparse_value", "value_float", "value_floats", "value_int", "value_ints"];
    let given: Vec<&'static str> = given.into_iter().filter(|name| call.has(name)).collect();
    let &[name] = given.as_slice() else {
        let found = if given.is_empty() { "none".to_owned() } else { given.join(", ") };
        return Err(call.error(format!("expected one attribute with the value, got {found}")));
    };
    Ok(vec![Value::Constant(value_of(call, name)?)])
}

/// The value that an attribute of `Constant` holds.
fn value_of(call: &mut Call<'_>, name: &'static str) -> Result<Constant, OnnxError> {
    match name {
        "value" => call.tensor(name)?.ok_or_else(|| call.missing(name)),
        "sparse_value" => sparse(call, name),
        "value_float" => of_floats(call, Vec::new(), &[call.float(name)?.unwrap_or_default()]),
        "value_int" => of_integers(call, Vec::new(), &[call.int_or(name, 0)?]),
        "value_floats" => {
            let values = call.floats(name)?.unwrap_or_default();
            of_floats(call, vec![values.len()], &values)
        }
        _ => {
            let values = call.ints(name)?.unwrap_or_default();
            of_integers(call, vec![values.len()], &values)
        }
    }
}

/// A sparse tensor with all of its elements.
fn sparse(call: &mut Call<'_>, name: &'static str) -> Result<Constant, OnnxError> {
    let tensor = call.attribute(name).and_then(|attribute| attribute.sparse_tensor.as_ref());
    let tensor =
        tensor.ok_or_else(|| call.error(format!("expected the attribute `{name}` to be a sparse tensor")))?;
    let attribute = crate::tensors::dense(tensor, call.lowering().files())?;
    Ok(Constant::new(call.name(), attribute))
}

fn of_integers(call: &Call<'_>, shape: Vec<usize>, values: &[i64]) -> Result<Constant, OnnxError> {
    Ok(Constant::of_i64s(call.name(), shape, values)?)
}

fn of_floats(call: &Call<'_>, shape: Vec<usize>, values: &[f32]) -> Result<Constant, OnnxError> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Ok(Constant::new(call.name(), Attribute::new(DType::F32, shape, bytes)?))
}

fn constant_of_shape(call: &mut Call<'_>) -> Outputs {
    let value = match call.tensor("value")? {
        Some(value) => value,
        None => of_floats(call, vec![1], &[0.0])?,
    };
    if value.attribute().elem_count() != 1 {
        let found = value.attribute().elem_count();
        return Err(call.error(format!("expected `value` to have one element, got {found}")));
    }
    let shape = call.constant_ints(0)?;
    if let Some(shape) = shape.as_ref().filter(|shape| shape.iter().any(|len| *len < 0)) {
        return Err(call.error(format!("the shape {shape:?} has a negative length")));
    }
    let dtype = value.dtype();
    let number = match dtype {
        DType::Bool => value.i64s()?.and_then(|values| Some(Parameter::from(*values.first()? != 0))),
        _ => literals::number(&value)?,
    };
    let number = number.ok_or_else(|| call.error(format!("`value` of type {dtype} is not supported")))?;
    let size = if shape.is_none() { Some(call.input(0)?) } else { None };
    let emit = call.emit("torch.full").param_if("size", shape).named_if("size", size);
    one(emit.param("fill_value", number).param("dtype", dtype.torch_name()).one())
}

fn eye_like(call: &mut Call<'_>) -> Outputs {
    let dtype = types::of_attribute(call, "dtype")?.and(call.int("dtype")?);
    let k = call.int_or("k", 0)?;
    let x = call.input(0)?;
    one(call.emit("EyeLike").input(x).param_if("dtype", dtype).param("k", k).one())
}

fn one_hot(call: &mut Call<'_>) -> Outputs {
    let axis = call.int_or("axis", -1)?;
    // The depth may be a float.
    let depth = call.constant_float(1)?.map(|depth| vec![depth as i64]);
    let (indices, values) = (call.input(0)?, call.input(2)?);
    let computed = if depth.is_none() { Some(types::long(call, 1)?) } else { None };
    let emit = call.emit("OneHot").input(indices).param("axis", axis).param_if("depth", depth);
    one(emit.named_if("depth", computed).named("values", values).one())
}

/// A bound or the step of a range.
enum Number {
    Known(Parameter, f64),
    Computed(OperandId),
}

fn range(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["stash_type"]);
    let mut dtype = None;
    let mut numbers = Vec::new();
    for position in 0..3 {
        let constant = call.constant(position)?;
        dtype = dtype.or(constant.as_ref().map(Constant::dtype));
        let number = constant.as_ref().map(literals::number).transpose()?.flatten();
        let is_float = constant.as_ref().is_some_and(|constant| constant.dtype().is_float());
        numbers.push(match (number, call.constant_float(position)?) {
            // In full: the number of elements may depend on the last digit.
            (Some(_), Some(value)) if is_float => Number::Known(value.into(), value),
            (Some(number), Some(value)) => Number::Known(number, value),
            _ => Number::Computed(call.input(position)?),
        });
    }
    if let Some(dtype) = dtype.filter(|_| is_empty(&numbers)) {
        return Ok(vec![Value::Constant(Constant::new(
            call.name(),
            Attribute::new(dtype, vec![0], Vec::new())?,
        ))]);
    }
    // Without a constant, only the plan knows the type.
    let (op_type, keys) = match dtype {
        Some(_) => ("torch.arange", ["start", "end", "step"]),
        None => ("Range", ["start", "limit", "delta"]),
    };
    let mut emit = call.emit(op_type);
    for (key, number) in keys.into_iter().zip(numbers) {
        emit = match number {
            Number::Known(number, _) => emit.param(key, number),
            Number::Computed(operand) if key == "start" && dtype.is_none() => emit.input(operand),
            Number::Computed(operand) => emit.named(key, operand),
        };
    }
    one(emit.param_if("dtype", dtype.map(DType::torch_name)).one())
}

/// Returns true if a range is known to have no elements because its step leads away from its end. PyTorch refuses that.
fn is_empty(numbers: &[Number]) -> bool {
    match numbers {
        [Number::Known(_, start), Number::Known(_, end), Number::Known(_, step)] => {
            (end - start) * step.signum() <= 0.0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::lower::testing::{graph, integer, lines, node, of_int, of_tensor, refusal};
    use crate::schema::{AttributeProto, GraphProto};

    #[test]
    fn a_constant_has_one_value() {
        let of = |attributes: Vec<AttributeProto>| {
            let nodes =
                vec![node("Constant", &[], &["c"], attributes), node("Add", &["x", "c"], &["y"], Vec::new())];
            graph(&["x"], nodes, &["y"])
        };
        assert_eq!(lines(of(vec![of_int("value_int", 3)])), ["pnnx.Expression x -> y expr=add(@0,3)"]);
        assert!(refusal(of(Vec::new())).contains("expected one attribute with the value, got none"));
        let both = vec![of_int("value_int", 3), of_tensor("value", integer("t", 3))];
        assert!(refusal(of(both)).contains("got value, value_int"));
        assert!(refusal(of(vec![of_int("value_string", 3)])).contains("strings are not supported"));
    }

    #[test]
    fn a_range_with_a_constant_has_its_type() {
        let nodes = vec![node("Range", &["zero", "x", "one"], &["y"], Vec::new())];
        let initializer = vec![integer("zero", 0), integer("one", 1)];
        let graph_of = |initializer| GraphProto { initializer, ..graph(&["x"], nodes.clone(), &["y"]) };
        assert_eq!(lines(graph_of(initializer)), ["torch.arange x -> y dtype=torch.long start=0 step=1"]);
        let computed =
            graph(&["x", "a", "b"], vec![node("Range", &["x", "a", "b"], &["y"], Vec::new())], &["y"]);
        assert_eq!(lines(computed), ["Range x a b -> y"]);
    }

    #[test]
    fn a_shape_is_not_negative() {
        let nodes = vec![node("ConstantOfShape", &["s"], &["y"], Vec::new())];
        let graph = GraphProto { initializer: vec![integer("s", -1)], ..graph(&["x"], nodes, &["y"]) };
        assert!(refusal(graph).contains("negative length"));
    }
}
