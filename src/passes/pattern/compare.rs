//! Comparing an operator of a graph, its parameters and its operands with those of a pattern.

use super::value::{Captures, ValuePattern};
use crate::pnnx::{Graph, OperandId, Operator, OperatorId, Parameter};
use std::collections::HashSet;

/// A pattern for the value of a key.
#[derive(Debug, Clone)]
pub struct Keyed<T> {
    /// The key, such as `stride`.
    pub key: String,
    /// Whether the key may be missing.
    pub optional: bool,
    /// The pattern that the value must match if the key is present.
    pub wanted: T,
}

// ANCHOR: match_params
/// Checks that an operator has the parameters that a pattern names and, unless the pattern is `open`, no others. Captured
/// values are added to `captures`.
///
/// ```
/// use ixion::passes::pattern::{Captures, Keyed, ValuePattern, match_params};
/// use ixion::{Limits, pnnx::Graph};
/// let text = "7767517\n2 2\npnnx.Input in 0 1 x\nnn.LeakyReLU act 1 1 x y negative_slope=0.1\n";
/// let graph = Graph::parse(text, &Limits::default())?;
/// let operator = graph.operator(graph.operator_ids()[1]);
/// let slope = Keyed { key: "negative_slope".into(), optional: false, wanted: ValuePattern::parse("%s") };
/// let mut captures = Captures::new();
/// match_params(&[slope], false, operator, &mut captures)?;
/// assert_eq!(captures["s"].raw(), "0.1");
/// assert_eq!(match_params(&[], false, operator, &mut captures).unwrap_err(), "`act` has negative_slope=0.1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The reason why the operator does not match.
pub fn match_params(
    wanted: &[Keyed<ValuePattern>],
    open: bool,
    operator: &Operator,
    captures: &mut Captures,
) -> Result<(), String> {
    // ANCHOR: match_params_todo -- task 4: look up each wanted key, then look for keys that the pattern does not name
    for param in wanted {
        match operator.param(&param.key) {
            Some(value) if param.wanted.matches(value, captures) => {}
            Some(value) => return Err(wrong_param(operator, &param.key, value)),
            None if param.optional => {}
            None => return Err(format!("`{}` has no `{}`", operator.name(), param.key)),
        }
    }
    let is_wanted = |key: &String| wanted.iter().any(|param| param.key == *key);
    match operator.params().iter().find(|(key, _)| !open && !is_wanted(key)) {
        Some((key, value)) => Err(wrong_param(operator, key, value)),
        None => Ok(()),
    }
    // ANCHOR_END: match_params_todo
}
// ANCHOR_END: match_params

// ANCHOR: wrong_param
/// The reason for a parameter that has the wrong value, or that the pattern does not name.
fn wrong_param(operator: &Operator, key: &str, value: &Parameter) -> String {
    format!("`{}` has {key}={}", operator.name(), value.raw())
}
// ANCHOR_END: wrong_param

// ANCHOR: operands
/// Binds operand `at` of a pattern to an operand of the graph. Returns false if `at` is out of range, or already bound to
/// another operand.
pub fn bind_operand(found: &mut [Option<OperandId>], at: usize, operand: OperandId) -> bool {
    // ANCHOR: bind_operand_todo -- task 4: fill an empty slot, or compare with the operand in it
    match found.get_mut(at) {
        Some(Some(before)) => *before == operand,
        Some(place) => {
            *place = Some(operand);
            true
        }
        None => false,
    }
    // ANCHOR_END: bind_operand_todo
}

/// The first consumer of an operand that is not among the operators to be replaced.
pub fn used_elsewhere(
    graph: &Graph,
    operand: OperandId,
    replaced: &HashSet<OperatorId>,
) -> Option<OperatorId> {
    // ANCHOR: used_elsewhere_todo -- task 4: find a consumer that is not replaced
    graph.operand(operand).consumers().iter().copied().find(|reader| !replaced.contains(reader))
    // ANCHOR_END: used_elsewhere_todo
}
// ANCHOR_END: operands
