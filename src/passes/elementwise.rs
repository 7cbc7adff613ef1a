//! Element-wise operators as expressions.

use crate::pnnx::{Expr, Function, Operator};

/// Activation functions without parameters.
const ACTIVATIONS: [(&str, Function); 8] = [
    ("ReLU", Function::Relu),
    ("ReLU6", Function::Relu6),
    ("Sigmoid", Function::Sigmoid),
    ("SiLU", Function::Silu),
    ("Tanh", Function::Tanh),
    ("Hardsigmoid", Function::Hardsigmoid),
    ("Hardswish", Function::Hardswish),
    ("Mish", Function::Mish),
];

/// The expression that an operator computes for each element, if it consists of floating-point arithmetic alone.
pub(super) fn as_expression(operator: &Operator) -> Option<Expr> {
    if operator.outputs().len() != 1 || !operator.attrs().is_empty() {
        return None;
    }
    match (operator.op_type(), operator.inputs().len()) {
        ("pnnx.Expression", 1..) => {
            let expr = Expr::parse(operator.param("expr")?.raw()).ok()?;
            is_arithmetic(&expr).then_some(expr)
        }
        (_, 1) => activation(operator),
        _ => None,
    }
}

fn activation(operator: &Operator) -> Option<Expr> {
    let number =
        |key: &str, default: f64| operator.get_or(key, default).ok().filter(|value| value.is_finite());
    let has_only =
        |keys: &[&str]| operator.params().keys().all(|key| key == "inplace" || keys.contains(&key.as_str()));
    let name = module_name(operator.op_type())?;
    let x = Expr::Input(0);
    match name {
        "LeakyReLU" if has_only(&["negative_slope"]) => {
            Some(call(Function::LeakyRelu, vec![x, Expr::Float(number("negative_slope", 0.01)?)]))
        }
        "ELU" if has_only(&["alpha"]) => {
            Some(call(Function::Elu, vec![x, Expr::Float(number("alpha", 1.0)?)]))
        }
        "Hardtanh" if has_only(&["min_val", "max_val"]) => {
            let bounds = [number("min_val", -1.0)?, number("max_val", 1.0)?].map(Expr::Float);
            Some(call(Function::Clamp, [vec![x], bounds.to_vec()].concat()))
        }
        "GELU" if has_only(&["approximate"]) => {
            match operator.get_or("approximate", "none".to_owned()).ok()?.as_str() {
                "none" => Some(call(Function::Gelu, vec![x])),
                "tanh" => Some(call(Function::GeluTanh, vec![x])),
                _ => None,
            }
        }
        "Softplus" if has_only(&["beta", "threshold"]) => {
            let usual = number("beta", 1.0)? == 1.0 && number("threshold", 20.0)? == 20.0;
            usual.then(|| call(Function::Softplus, vec![x]))
        }
        _ if has_only(&[]) => {
            let (_, function) = ACTIVATIONS.iter().find(|(known, _)| *known == name)?;
            Some(call(*function, vec![x]))
        }
        _ => None,
    }
}

/// The module name of an operator in either form: `ReLU` for both `nn.ReLU` and `F.relu`.
fn module_name(op_type: &str) -> Option<&str> {
    if let Some(module) = op_type.strip_prefix("nn.") {
        return Some(module);
    }
    let function = op_type.strip_prefix("F.")?.replace('_', "");
    let all =
        ACTIVATIONS.iter().map(|(name, _)| *name).chain(["LeakyReLU", "ELU", "Hardtanh", "GELU", "Softplus"]);
    all.into_iter().find(|name| name.eq_ignore_ascii_case(&function))
}

fn call(function: Function, args: Vec<Expr>) -> Expr {
    Expr::Call { function, args }
}

/// Returns true if an expression has only inputs, real literals and functions of floats.
fn is_arithmetic(expr: &Expr) -> bool {
    use Function::{And, Cast, Int, Lshift, Or, Rshift, Size, Xor};
    let mut fits = true;
    expr.walk(&mut |part| {
        fits &= match part {
            Expr::Input(_) | Expr::Int(_) | Expr::Float(_) => true,
            Expr::Call { function, .. } => {
                !matches!(function, And | Cast(_) | Int | Lshift | Or | Rshift | Size | Xor)
            }
            _ => false,
        };
    });
    fits
}

#[cfg(test)]
mod tests {
    use super::super::testing::graph;
    use super::*;

    fn expression(line: &str) -> Option<String> {
        let graph = graph(&format!("pnnx.Input in 0 2 0 1\n{line}\npnnx.Output out 1 0 2"));
        as_expression(graph.operator(graph.operator_named("e").unwrap())).map(|expr| expr.to_string())
    }

    #[test]
    fn modules_and_functions_have_the_same_expression() {
        for (line, wanted) in [
            ("nn.ReLU e 1 1 0 2", "relu(@0)"),
            ("F.relu e 1 1 0 2 $input=0", "relu(@0)"),
            ("F.leaky_relu e 1 1 0 2 negative_slope=0.2", "leaky_relu(@0,0.2)"),
            ("nn.LeakyReLU e 1 1 0 2", "leaky_relu(@0,0.01)"),
            ("nn.Hardtanh e 1 1 0 2 max_val=6.0 min_val=0.0", "clamp(@0,0.0,6.0)"),
            ("F.gelu e 1 1 0 2 approximate=tanh", "gelu_tanh(@0)"),
            ("nn.Softplus e 1 1 0 2 beta=1.0 threshold=20.0", "softplus(@0)"),
            ("pnnx.Expression e 2 1 0 1 2 expr=mul(@1,add(@0,1))", "mul(@1,add(@0,1))"),
        ] {
            assert_eq!(expression(line).as_deref(), Some(wanted), "{line}");
        }
    }

    #[test]
    fn other_operators_have_no_expression() {
        for line in [
            "nn.Softplus e 1 1 0 2 beta=2.0 threshold=20.0",
            "nn.ReLU e 1 1 0 2 device=cpu",
            "pnnx.Expression e 1 1 0 2 expr=size(@0,1)",
            "pnnx.Expression e 1 1 0 2 expr=[@0]",
            "nn.Softmax e 1 1 0 2 dim=1",
            "F.softmax e 1 1 0 2 dim=1",
        ] {
            assert_eq!(expression(line), None, "{line}");
        }
    }
}
