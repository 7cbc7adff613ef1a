//! Element-wise operators as expressions.

use super::pattern::same;
use crate::op::{Creator, Registry};
use crate::pnnx::{Expr, Function, Operator, Parameter};

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

/// The expression of an activation function with the operator's parameters.
fn activation(operator: &Operator) -> Option<Expr> {
    let creator = Registry::built_in().known(operator.op_type())?;
    let setting = |key: &str| operator.param(key).cloned().or_else(|| default_of(creator, key));
    let has = |(key, value): &(&str, &str)| equals(setting(key), value);
    let (expr, when) = creator.properties.forms.iter().find(|(_, when)| when.iter().all(has))?;
    let expr = Expr::parse(expr).ok()?;
    let mut used = vec!["inplace"];
    used.extend(when.iter().map(|(key, _)| *key));
    expr.walk(&mut |part| used.extend(if let Expr::Word(key) = part { Some(key.as_str()) } else { None }));
    if operator.params().keys().any(|key| !used.contains(&key.as_str())) {
        return None;
    }
    let mut are_finite = true;
    let number = |key: &str| setting(key)?.as_f64().ok().filter(|number| number.is_finite());
    let with_numbers = changed(&expr, &mut |node| {
        let Expr::Word(key) = node else { return None };
        are_finite &= number(key).is_some();
        number(key).map(Expr::Float)
    });
    are_finite.then_some(with_numbers)
}

/// The functional operator that computes an expression, with the parameters that it needs.
pub(super) fn as_operator(expr: &Expr) -> Option<(&'static str, Vec<(&'static str, &'static str)>)> {
    let mut functions = Registry::built_in().iter().filter(|(op_type, _)| op_type.starts_with("F."));
    functions.find_map(|(op_type, creator)| {
        let is_it = |form: &str| Expr::parse(form).is_ok_and(|form| form == *expr);
        let (_, when) = creator.properties.forms.iter().find(|(form, _)| is_it(form))?;
        let differs = |(key, value): &&(&str, &str)| !equals(default_of(creator, key), value);
        Some((op_type, when.iter().filter(differs).copied().collect()))
    })
}

/// The default of an operator's parameter.
fn default_of(creator: &Creator, key: &str) -> Option<Parameter> {
    let field = creator.fields.iter().find(|field| field.key == key)?;
    Some(Parameter::parse(&field.default_in_file()?))
}

fn equals(found: Option<Parameter>, value: &str) -> bool {
    found.is_some_and(|found| same(&found, &Parameter::parse(value)))
}

/// An expression in which `change` may replace every node, parents first.
pub(super) fn changed(expr: &Expr, change: &mut dyn FnMut(&Expr) -> Option<Expr>) -> Expr {
    change(expr).unwrap_or_else(|| match expr {
        Expr::Call { function, args } => {
            let args = args.iter().map(|arg| changed(arg, change)).collect();
            Expr::Call { function: *function, args }
        }
        leaf => leaf.clone(),
    })
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
