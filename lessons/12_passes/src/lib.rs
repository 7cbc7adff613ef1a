//! Lesson 12: passes, which make a graph smaller without changing its results.
//!
//! The page of the book: `book/src/lessons/12_passes.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion::course::bypass::bypass;
use ixion::course::common_subexpressions::{Seen, outputs, same_attributes};
use ixion::course::frozen_operators;
use ixion::course::pattern::{Keyed, items, same};
use ixion::passes::PassContext;
use ixion::pnnx::{Graph, GraphError, OperandId, Operator, OperatorId, Parameter};
use std::collections::{BTreeMap, HashSet};

// Task 1: dead code.

/// Returns true if an operator can be removed: none of its results has a consumer. False for the model's inputs and
/// outputs.
pub fn is_dead(graph: &Graph, id: OperatorId) -> bool {
    todo!(
        "lesson 12, task 1: return whether no result of the operator has a consumer (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// Removes operators whose results have no consumer, and then those that only such operators read. Returns the number of
/// operators removed.
///
/// ```
/// use ixion::{Limits, passes::dead_code::remove_dead, pnnx::Graph};
/// let text = "7767517\n4 3\npnnx.Input in 0 1 x\nF.relu a 1 1 x y\nF.tanh b 1 1 x z\npnnx.Output out 1 0 y\n";
/// let mut graph = Graph::parse(text, &Limits::default())?;
/// assert_eq!(remove_dead(&mut graph)?, 1);
/// assert_eq!(graph.operator_named("b"), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the graph rejects a removal.
pub fn remove_dead(graph: &mut Graph) -> Result<usize, GraphError> {
    todo!(
        "lesson 12, task 1: remove dead operators, and those that become dead by it (book chapter 12; stuck? cargo learn hint 12)"
    )
}

// Task 2: common subexpressions.

/// The operators that return the same results for the same inputs every time, and that no data is written through. Only
/// these can be computed once.
pub fn repeatable(graph: &Graph, context: &PassContext) -> HashSet<OperatorId> {
    todo!(
        "lesson 12, task 2: collect the pure operators that nothing is written through (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// Everything that must be equal for two operators to compute the same, except the bytes of their attributes.
pub fn key(operator: &Operator) -> String {
    todo!(
        "lesson 12, task 2: write everything that must be equal into one string (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The operator in `seen` that computes the same as this one. If there is none, this one is added to `seen`.
pub fn twin(graph: &Graph, id: OperatorId, seen: &mut Seen) -> Option<OperatorId> {
    todo!(
        "lesson 12, task 2: find an operator of the same key and attributes, or remember this one (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// Makes all consumers of `second` read the outputs of `first`, and removes `second`.
///
/// # Errors
/// Fails if the graph rejects an edit.
pub fn merge(graph: &mut Graph, second: OperatorId, first: OperatorId) -> Result<(), GraphError> {
    todo!(
        "lesson 12, task 2: bypass each output of the second, then remove the second (book chapter 12; stuck? cargo learn hint 12)"
    )
}

// Task 3: constants.

/// The operands that depend on constants alone: results of foldable operators whose inputs, if any, are constants
/// themselves.
pub fn constants(graph: &Graph, foldable: &HashSet<OperatorId>) -> HashSet<OperandId> {
    todo!(
        "lesson 12, task 3: collect the results of foldable operators that read constants alone (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The constants worth storing, in the order in which they are computed: those that are not stored yet and that are read by
/// an operator whose own results are not constants.
pub fn frontier(graph: &Graph, constants: &HashSet<OperandId>) -> Vec<OperandId> {
    todo!(
        "lesson 12, task 3: pick the constants that are computed, and read where constants end (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The maximum size of a folded result, in bytes.
pub const MAX_BYTES: u64 = 16 << 20;
/// The maximum size of a folded result, as a multiple of the size of the constants that it is computed from.
pub const MAX_GROWTH: u64 = 4;
/// Results of at most this many bytes are folded whatever the size of the constants.
pub const SMALL_BYTES: u64 = 64 << 10;

/// Checks whether a result of `bytes` bytes may be stored, if it is computed from constants of `from` bytes.
///
/// # Errors
/// The reason if the result is too large.
pub fn check_size(bytes: u64, from: u64) -> Result<(), String> {
    todo!(
        "lesson 12, task 3: refuse what is too large, or too large for what it is computed from (book chapter 12; stuck? cargo learn hint 12)"
    )
}

// Task 4: matching a pattern. Given: the pattern for the value of a parameter.

/// The captured parameters of a match, by the names of the captures.
pub type Captures = BTreeMap<String, Parameter>;

/// A pattern for the value of a parameter.
#[derive(Debug, Clone)]
pub enum ValuePattern {
    /// `*`: any value.
    Any,
    /// `%x`: any value, captured under this name. If the name was captured before, both values must be equal.
    Capture(String),
    /// Exactly this value.
    Literal(Parameter),
    /// `(%a,1,*)`: a list with a pattern for each item.
    Items(Vec<ValuePattern>),
}

impl ValuePattern {
    /// Parses a pattern. Every text is valid.
    pub fn parse(raw: &str) -> Self {
        if raw == "*" {
            return Self::Any;
        }
        if let Some(name) = raw.strip_prefix('%') {
            return Self::Capture(name.to_owned());
        }
        let body = raw.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        match body.filter(|body| body.contains(['%', '*'])) {
            Some(body) => Self::Items(body.split(',').map(Self::parse).collect()),
            None => Self::Literal(Parameter::parse(raw)),
        }
    }
}

/// Captures a value, or compares it with the value captured under this name before. Returns false if they differ.
pub fn capture(captures: &mut Captures, name: &str, value: &Parameter) -> bool {
    todo!(
        "lesson 12, task 4: remember the value, or compare it with the one before (book chapter 12; stuck? cargo learn hint 12)"
    )
}

impl ValuePattern {
    /// Returns true if a value matches, and adds what it captures to `captures`.
    pub fn matches(&self, value: &Parameter, captures: &mut Captures) -> bool {
        todo!(
            "lesson 12, task 4: compare a value with each of the four kinds of patterns (book chapter 12; stuck? cargo learn hint 12)"
        )
    }
}

/// The reason for a parameter that has the wrong value, or that the pattern does not name.
fn wrong_param(operator: &Operator, key: &str, value: &Parameter) -> String {
    format!("`{}` has {key}={}", operator.name(), value.raw())
}

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
    todo!(
        "lesson 12, task 4: look up each wanted key, then look for keys that the pattern does not name (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// Binds operand `at` of a pattern to an operand of the graph. Returns false if `at` is out of range, or already bound to
/// another operand.
pub fn bind_operand(found: &mut [Option<OperandId>], at: usize, operand: OperandId) -> bool {
    todo!(
        "lesson 12, task 4: fill an empty slot, or compare with the operand in it (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The first consumer of an operand that is not among the operators to be replaced.
pub fn used_elsewhere(
    graph: &Graph,
    operand: OperandId,
    replaced: &HashSet<OperatorId>,
) -> Option<OperatorId> {
    todo!(
        "lesson 12, task 4: find a consumer that is not replaced (book chapter 12; stuck? cargo learn hint 12)"
    )
}

// Task 5: folding batch norm. Given: its parameters, and the resulting factors and summands.

/// The parameters of a batch norm in inference mode: one value for each channel, and ε.
#[derive(Debug, Clone, Copy)]
pub struct Norm<'a> {
    /// γ, the learnt factors.
    pub gamma: &'a [f64],
    /// β, the learnt summands.
    pub beta: &'a [f64],
    /// μ, the means of the channels.
    pub mean: &'a [f64],
    /// σ², the variances of the channels.
    pub variance: &'a [f64],
    /// ε, which keeps the root away from 0.
    pub eps: f64,
}

/// An affine function for each channel: channel · factor + summand.
#[derive(Debug, Clone, PartialEq)]
pub struct Affine {
    /// The factor of each channel.
    pub factors: Vec<f64>,
    /// The summand of each channel.
    pub summands: Vec<f64>,
}

/// Batch norm as a factor and a summand: γ · (x − μ) / √(σ² + ε) + β.
///
/// ```
/// use ixion::passes::folding::{Norm, affine};
/// let norm = Norm { gamma: &[6.0], beta: &[1.0], mean: &[5.0], variance: &[8.0], eps: 1.0 };
/// let affine = affine(&norm);
/// assert_eq!((affine.factors, affine.summands), (vec![2.0], vec![-9.0]));
/// ```
pub fn affine(norm: &Norm<'_>) -> Affine {
    todo!(
        "lesson 12, task 5: compute a factor and a summand for each channel (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// Multiplies an array of this shape, in row-major order, by one factor for each index along `axis`.
pub fn scaled(numbers: &[f64], shape: &[usize], axis: usize, factors: &[f64]) -> Vec<f64> {
    todo!(
        "lesson 12, task 5: multiply each number by the factor of its index along the axis (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The same for a transposed convolution, whose weight is C×(O/groups)×…: each group of input channels has its own share
/// of the output channels, and so of the factors.
pub fn scaled_transposed(numbers: &[f64], shape: &[usize], groups: usize, factors: &[f64]) -> Vec<f64> {
    todo!(
        "lesson 12, task 5: split numbers and factors into groups, and scale each along its second axis (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The bias after folding: bias · factor + summand for each channel. A missing bias counts as 0.
pub fn folded_bias(bias: Option<&[f64]>, factors: &[f64], summands: &[f64]) -> Vec<f64> {
    todo!(
        "lesson 12, task 5: scale and shift the bias like any other summand of the channel (book chapter 12; stuck? cargo learn hint 12)"
    )
}

// Task 6: several passes.

/// Runs all passes in order, round after round, until no pass fires in a round or `max_rounds` is reached. Returns the
/// number of rounds. `run` returns whether a pass fired.
///
/// # Errors
/// The first error of `run`.
pub fn run_to_fixpoint<P, E>(
    passes: &[P],
    max_rounds: usize,
    run: &mut dyn FnMut(&P) -> Result<bool, E>,
) -> Result<usize, E> {
    todo!(
        "lesson 12, task 6: run all passes until a whole round changes nothing (book chapter 12; stuck? cargo learn hint 12)"
    )
}
