//! Lesson 12: improving a graph.
//!
//! The page of the book: `book/src/lessons/12_passes.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion::passes::bypass::bypass;
use ixion::pnnx::{Graph, GraphError, OperandId, Operator, OperatorId, Parameter, Value};
use std::collections::{BTreeMap, HashMap, HashSet};

// Task 1: dead code.

/// Whether nobody reads any result of an operator. The model's inputs are never dead, nor is what it returns.
pub fn is_dead(graph: &Graph, id: OperatorId) -> bool {
    todo!(
        "lesson 12, task 1: no operator but pnnx.Input and pnnx.Output, none of whose outputs has a consumer (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// Removes all operators that are dead, and those that only they read. Returns how many.
///
/// # Errors
/// An operator that cannot be removed.
pub fn remove_dead(graph: &mut Graph) -> Result<usize, GraphError> {
    todo!(
        "lesson 12, task 1: from the last operator to the first, remove those that are dead, and count them (book chapter 12; stuck? cargo learn hint 12)"
    )
}

// Task 2: common subexpressions.

/// Everything that must be equal for two operators to compute the same, but the bytes of attributes: type, inputs and their
/// argument names, number of outputs, parameters as they are written, types and shapes of attributes.
pub fn key(operator: &Operator) -> String {
    todo!(
        "lesson 12, task 2: put all of it into one tuple, and that into a text with {{:?}} (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The first operator that computes the same as this one, if there is one; else this one is the first, and remembered.
/// `seen` has the operators that were looked at before, by their [`key`].
pub fn first_alike(
    seen: &mut HashMap<String, Vec<OperatorId>>,
    graph: &Graph,
    id: OperatorId,
) -> Option<OperatorId> {
    todo!(
        "lesson 12, task 2: of those with the same key, the one whose attributes are equal, bytes included (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// Makes everybody who reads a result of `second` read that of `first`, which computes the same, and removes `second`.
///
/// # Errors
/// An edit that the graph refuses.
pub fn merge(graph: &mut Graph, second: OperatorId, first: OperatorId) -> Result<(), GraphError> {
    todo!(
        "lesson 12, task 2: bypass each output of the second in favour of the first's at the same position (book chapter 12; stuck? cargo learn hint 12)"
    )
}

// Task 3: constant folding.

/// The operands that are computed from constants alone, by operators that may be computed beforehand.
pub fn constants(graph: &Graph, may_fold: &dyn Fn(OperatorId) -> bool) -> HashSet<OperandId> {
    todo!(
        "lesson 12, task 3: in order, the outputs of operators that may fold and read constants alone, or nothing (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The constants at which folding ends: computed, not stored, and read by an operator that is not folded itself.
pub fn frontier(graph: &Graph, constants: &HashSet<OperandId>) -> Vec<OperandId> {
    todo!(
        "lesson 12, task 3: in the order of the graph, those that are no pnnx.Attribute's and have a consumer that does not fold (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The operators that an operand is computed by, in the order of the graph.
pub fn needed(graph: &Graph, operand: OperandId) -> Vec<OperatorId> {
    todo!(
        "lesson 12, task 3: from the operand back to its producer, that one's inputs, and so on (book chapter 12; stuck? cargo learn hint 12)"
    )
}

// Task 4: matching a pattern.

/// The captured parameters of a match, by name.
pub type Captures = BTreeMap<String, Parameter>;

/// A wish for the value of a parameter.
#[derive(Debug, Clone)]
pub enum ValuePattern {
    /// `*`: any value.
    Any,
    /// `%x`: any value, which is captured; where the name stands twice, both must be the same.
    Capture(String),
    /// This value.
    Literal(Parameter),
    /// `(%a,1,*)`: a list, item by item.
    Items(Vec<ValuePattern>),
}

impl ValuePattern {
    /// Reads a wish as patterns write it.
    pub fn parse(raw: &str) -> Self {
        todo!(
            "lesson 12, task 4: `*`, `%name`, a list in brackets that has one of the two in it, or else a value (book chapter 12; stuck? cargo learn hint 12)"
        )
    }

    /// Whether a value is as wanted; what it captures is added.
    pub fn matches(&self, value: &Parameter, captures: &mut Captures) -> bool {
        todo!(
            "lesson 12, task 4: each kind of wish; the items of a list are as many, and each is as wanted (book chapter 12; stuck? cargo learn hint 12)"
        )
    }
}

/// Captures a value, or compares it with what was captured before.
pub fn capture(captures: &mut Captures, name: &str, value: &Parameter) -> bool {
    todo!(
        "lesson 12, task 4: the first time it is noted; later it must be the same (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// Whether two values mean the same: `1` and `1.0` do, `1` and `True` do not.
pub fn same(a: &Parameter, b: &Parameter) -> bool {
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    match (a.value(), b.value()) {
        (Value::Int(a), Value::Int(b)) => a == b,
        (a, b) if number(a).is_some() => number(a) == number(b),
        (Value::Ints(_) | Value::Floats(_), _) => {
            let (a, b) = (items(a.value()), items(b.value()));
            a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same(a, b))
        }
        (first, second) => a.raw() == b.raw() || first == second,
    }
}

/// The items of a list; none for what is no list.
pub fn items(value: &Value) -> Vec<Parameter> {
    match value {
        Value::Bools(items) => items.iter().map(|&item| item.into()).collect(),
        Value::Ints(items) => items.iter().map(|&item| item.into()).collect(),
        Value::Floats(items) => items.iter().map(|&item| item.into()).collect(),
        Value::Strs(items) => items.iter().map(|item| item.as_str().into()).collect(),
        Value::Complexes(items) => items.iter().map(|&item| item.into()).collect(),
        _ => Vec::new(),
    }
}

/// An operator that reads an operand, though it is none of those that will be replaced. Returning it from the model is
/// reading it, too.
pub fn used_elsewhere(
    graph: &Graph,
    operand: OperandId,
    replaced: &HashSet<OperatorId>,
) -> Option<OperatorId> {
    todo!(
        "lesson 12, task 4: the first consumer that is not replaced (book chapter 12; stuck? cargo learn hint 12)"
    )
}

// Task 5: batch norm disappears.

/// What is done to each channel: channel · factor + summand.
#[derive(Debug, Clone, PartialEq)]
pub struct Affine {
    /// One for each channel.
    pub factors: Vec<f64>,
    /// One for each channel.
    pub summands: Vec<f64>,
}

/// What is known of each channel for batch norm, in this order: γ, β, the running mean μ, and the running variance σ².
pub type Statistics<'a> = [&'a [f64]; 4];

/// Batch norm as an affine map: γ · (x − μ) / √(σ² + ε) + β is x · factor + summand. None where the four have not as many
/// channels.
pub fn batch_norm([gamma, beta, mean, variance]: Statistics<'_>, eps: f64) -> Option<Affine> {
    todo!(
        "lesson 12, task 5: the factor is γ / √(σ² + ε), the summand β − μ · factor (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The elements of an n-d weight, in row-major order, with each index of one axis times its own factor.
pub fn scaled(numbers: &[f64], shape: &[usize], axis: usize, factors: &[f64]) -> Vec<f64> {
    todo!(
        "lesson 12, task 5: which index of the axis an element has follows from its position and the axes behind (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The bias of an operator whose channels are multiplied and shifted: bias · factor + summand. An operator without a bias
/// gets one where there are summands.
pub fn folded_bias(bias: Option<&[f64]>, factors: &[f64], summands: Option<&[f64]>) -> Option<Vec<f64>> {
    todo!(
        "lesson 12, task 5: four cases: with and without a bias, with and without summands (book chapter 12; stuck? cargo learn hint 12)"
    )
}

// Task 6: until nothing changes.

/// Does rounds until one of them changes nothing, and `most` at most. A round says how often it changed something. Returns how
/// many rounds there were.
///
/// # Errors
/// The error of a round, which is the last one.
pub fn rounds<E>(most: usize, round: &mut dyn FnMut() -> Result<usize, E>) -> Result<usize, E> {
    todo!(
        "lesson 12, task 6: again and again; the round that changes nothing counts as well (book chapter 12; stuck? cargo learn hint 12)"
    )
}
