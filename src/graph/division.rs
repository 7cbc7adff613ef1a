//! Floor divisions that PNNX writes as true divisions.
//!
//! PNNX writes `torch.div(a, b, rounding_mode="floor")` as `div(@0,@1)`, but records the element type of the result. The true
//! quotient of integers is a float, so a result of integers means that the quotient was rounded down. A quotient of floats
//! keeps its type when it is rounded, so nothing tells whether one was.

use super::GraphError;
use crate::pnnx::{Expr, Function, Graph, OperatorId, PnnxError};
use crate::tensor::DType;

/// Turns the true divisions in expressions whose results are recorded as integers into floor divisions.
///
/// Doing it again changes nothing.
///
/// ```
/// use ixion::Limits;
/// use ixion::graph::restore_floor_divisions;
/// use ixion::pnnx::Graph;
///
/// let text = "7767517\n3 2\npnnx.Input in 0 1 a #a=(4)i64\n\
///     pnnx.Expression half 1 1 a b expr=div(@0,2) #a=(4)i64 #b=(4)i64\npnnx.Output out 1 0 b\n";
/// let mut graph = Graph::parse(text, &Limits::default())?;
/// restore_floor_divisions(&mut graph)?;
/// let half = graph.operator(graph.operator_named("half").unwrap());
/// assert_eq!(half.param("expr").unwrap().raw(), "floor_divide(@0,2)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns an error if the graph cannot be changed; a graph that was read from a file always can.
pub fn restore_floor_divisions(file: &mut Graph) -> Result<(), GraphError> {
    for id in file.operator_ids().to_vec() {
        if let Some(expr) = rounded(file, id) {
            let operator = file.operator(id);
            log::debug!("pnnx.Expression `{}` returns integers, so it is {expr}", operator.name());
            file.set_param(id, "expr", expr.to_string()).map_err(PnnxError::from)?;
        }
    }
    Ok(())
}

/// The expression of an operator with floor divisions; `None` if it stays as it is.
fn rounded(file: &Graph, id: OperatorId) -> Option<Expr> {
    let operator = file.operator(id);
    let ("pnnx.Expression", &[output]) = (operator.op_type(), operator.outputs()) else { return None };
    let raw = operator.param("expr")?.raw();
    // Most expressions have no division, and need not be parsed.
    if !raw.contains("div") || !file.operand(output).dtype()?.is_integer() {
        return None;
    }
    let expr = Expr::parse(raw).ok()?;
    let is_float = |input: usize| {
        let dtype = operator.inputs().get(input).and_then(|&input| file.operand(input).dtype());
        dtype.is_some_and(|dtype| !dtype.is_integer() && dtype != DType::Bool)
    };
    // Something else was lost if the result of floats is an integer.
    if reads_floats(&expr, &is_float) { None } else { floored(&expr) }
}

/// Returns true if a float is among the numbers that an integer is computed from.
fn reads_floats(expr: &Expr, is_float: &dyn Fn(usize) -> bool) -> bool {
    match expr {
        Expr::Input(input) => is_float(*input),
        Expr::Float(_) => true,
        Expr::Call { function, args } if *function == Function::Div || is_of_integers(*function) => {
            args.iter().any(|arg| reads_floats(arg, is_float))
        }
        _ => false,
    }
}

/// An expression whose value is an integer, with floor divisions; `None` if nothing changes.
fn floored(expr: &Expr) -> Option<Expr> {
    let Expr::Call { function, args } = expr else { return None };
    let is_division = *function == Function::Div;
    if !is_division && !is_of_integers(*function) {
        return None;
    }
    let changed: Vec<Option<Expr>> = args.iter().map(floored).collect();
    if !is_division && changed.iter().all(Option::is_none) {
        return None;
    }
    let args =
        args.iter().zip(changed).map(|(arg, changed)| changed.unwrap_or_else(|| arg.clone())).collect();
    Some(Expr::Call { function: if is_division { Function::FloorDivide } else { *function }, args })
}

/// Returns true if an integer as the result of a function means that its arguments are integers. Python's rounding of a
/// number returns an integer for a float as well.
fn is_of_integers(function: Function) -> bool {
    use Function as F;
    matches!(
        function,
        F::Abs
            | F::Add
            | F::And
            | F::FloorDivide
            | F::Fmod
            | F::Lshift
            | F::Max
            | F::Maximum
            | F::Min
            | F::Minimum
            | F::Mul
            | F::Neg
            | F::Or
            | F::Pow
            | F::Remainder
            | F::Rshift
            | F::Sign
            | F::Square
            | F::Sub
            | F::Xor
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    /// The expression of an operator that reads an i64 and a tensor of another type, and is recorded to return `output`.
    fn restored_for(other: &str, expr: &str, output: &str) -> String {
        let text = format!(
            "7767517\n4 3\npnnx.Input a 0 1 a #a=(4)i64\npnnx.Input b 0 1 b #b=(4){other}\n\
             pnnx.Expression e 2 1 a b c expr={expr} #a=(4)i64 #b=(4){other}{output}\npnnx.Output out 1 0 c\n"
        );
        let mut graph = Graph::parse(&text, &Limits::default()).unwrap();
        let mut texts = Vec::new();
        for _ in 0..2 {
            restore_floor_divisions(&mut graph).unwrap();
            let operator = graph.operator(graph.operator_named("e").unwrap());
            texts.push(operator.param("expr").unwrap().raw().to_owned());
        }
        assert_eq!(texts[0], texts[1], "a second time changes nothing");
        texts.remove(0)
    }

    fn restored(expr: &str, output: &str) -> String {
        restored_for("i64", expr, output)
    }

    #[test]
    fn quotients_that_are_integers_are_rounded_down() {
        let integers = |expr: &str| restored(expr, " #c=(4)i64");
        assert_eq!(integers("div(@0,5)"), "floor_divide(@0,5)");
        assert_eq!(integers("add(mul(div(@0,add(@1,1)),2),1)"), "add(mul(floor_divide(@0,add(@1,1)),2),1)");
        assert_eq!(integers("div(div(@0,@1),2)"), "floor_divide(floor_divide(@0,@1),2)");
        assert_eq!(restored("div(@0,@1)", " #c=(4)u8"), "floor_divide(@0,@1)");
    }

    #[test]
    fn a_quotient_of_floats_is_no_integer() {
        assert_eq!(restored_for("f32", "div(@0,@1)", " #c=(4)i64"), "div(@0,@1)");
        assert_eq!(restored_for("f32", "div(@0,add(@1,1))", " #c=(4)i64"), "div(@0,add(@1,1))");
        assert_eq!(restored("div(@0,2.5)", " #c=(4)i64"), "div(@0,2.5)");
        assert_eq!(restored_for("f32", "div(@0,size(@1,0))", " #c=(4)i64"), "floor_divide(@0,size(@1,0))");
    }

    #[test]
    fn others_stay_as_they_are() {
        for (expr, output) in [
            ("div(@0,5)", " #c=(4)f32"),
            ("div(@0,5)", ""),
            ("torch.long(div(@0,5))", " #c=(4)i64"),
            ("add(@0,int(div(size(@1,0),2)))", " #c=(4)i64"),
            ("add(@0,ceil(div(size(@1,0),2)))", " #c=(4)i64"),
            ("[trunc(div(size(@0,0),2)),size(@1,0)]", " #c=(2)i64"),
            ("floor_divide(@0,@1)", " #c=(4)i64"),
        ] {
            assert_eq!(restored(expr, output), expr, "{output}");
        }
    }
}
