//! Lesson 12: passes, which make a graph smaller and keep what it computes.
//!
//! The page of the book: `book/src/lessons/12_passes.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion::passes::bypass::bypass;
use ixion::passes::common_subexpressions::{Seen, outputs, same_attributes};
use ixion::passes::pattern::{Keyed, items, same};
use ixion::passes::{PassContext, written_through};
use ixion::pnnx::{Graph, GraphError, OperandId, Operator, OperatorId, Parameter};
use std::collections::{BTreeMap, HashMap, HashSet};

// Task 1: dead code.

/// Whether an operator may go: nobody reads any of its results. The model's own inputs and outputs never may.
pub fn is_dead(graph: &Graph, id: OperatorId) -> bool {
    todo!(
        "lesson 12, task 1: say whether nobody reads any result of the operator (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// Removes operators whose results nobody reads, and those that only they read. Returns how many.
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
/// When the graph refuses to remove an operator.
pub fn remove_dead(graph: &mut Graph) -> Result<usize, GraphError> {
    todo!(
        "lesson 12, task 1: remove what is dead, and what is dead then (book chapter 12; stuck? cargo learn hint 12)"
    )
}

// Task 2: common subexpressions.

/// The operators that give the same results for the same inputs, every time, and through which nothing is written. Only
/// they can be computed once for all.
pub fn repeatable(graph: &Graph, context: &PassContext) -> HashSet<OperatorId> {
    todo!(
        "lesson 12, task 2: collect the pure operators that nothing is written through (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// Everything that must be equal for two operators to compute the same, but for the bytes of their attributes.
pub fn key(operator: &Operator) -> String {
    todo!(
        "lesson 12, task 2: put all that must be equal into one text (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The operator among those seen that computes what this one computes. If there is none, this one is seen from now on.
pub fn twin(graph: &Graph, id: OperatorId, seen: &mut Seen) -> Option<OperatorId> {
    todo!(
        "lesson 12, task 2: find an operator of the same key and attributes, or remember this one (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// Makes those who read the second of two operators read the first, and removes the second.
///
/// # Errors
/// When the graph refuses an edit.
pub fn merge(graph: &mut Graph, second: OperatorId, first: OperatorId) -> Result<(), GraphError> {
    todo!(
        "lesson 12, task 2: bypass each output of the second, then remove the second (book chapter 12; stuck? cargo learn hint 12)"
    )
}

// Task 3: constants.

/// The operands that depend on constants alone: computed by operators that can be computed ahead, from nothing or from
/// such operands.
pub fn constants(graph: &Graph, foldable: &HashSet<OperatorId>) -> HashSet<OperandId> {
    todo!(
        "lesson 12, task 3: collect the results of foldable operators that read constants alone (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The constants that are worth storing, in the order in which they are computed: those that are not stored yet, and
/// that somebody reads whose own results are no constants.
pub fn frontier(graph: &Graph, constants: &HashSet<OperandId>) -> Vec<OperandId> {
    todo!(
        "lesson 12, task 3: pick the constants that are computed, and read where constants end (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// Results may take this many bytes, ...
pub const MOST_BYTES: u64 = 16 << 20;
/// ... and so many times as many as the constants that they are computed from, ...
pub const MOST_TIMES: u64 = 4;
/// ... unless they take no more than this.
pub const SMALL_BYTES: u64 = 64 << 10;

/// Whether a result of so many bytes may be stored, computed `from` constants of so many.
///
/// # Errors
/// The reason why not.
pub fn check_size(bytes: u64, from: u64) -> Result<(), String> {
    todo!(
        "lesson 12, task 3: refuse what is too large, or too large for what it is computed from (book chapter 12; stuck? cargo learn hint 12)"
    )
}

// Task 4: matching a pattern. Given: a wish for the value of a parameter.

/// The captured parameters of a match, by the names of the captures.
pub type Captures = BTreeMap<String, Parameter>;

/// A wish for the value of a parameter.
#[derive(Debug, Clone)]
pub enum ValuePattern {
    /// `*`: any value.
    Any,
    /// `%x`: any value, under this name; where a name stands twice, both values must be the same.
    Capture(String),
    /// This value.
    Literal(Parameter),
    /// `(%a,1,*)`: a list with a wish for each item.
    Items(Vec<ValuePattern>),
}

impl ValuePattern {
    /// Reads a wish. Every text is one.
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

/// Captures a value, or compares it with what was captured under this name before.
pub fn capture(captures: &mut Captures, name: &str, value: &Parameter) -> bool {
    todo!(
        "lesson 12, task 4: remember the value, or compare it with the one before (book chapter 12; stuck? cargo learn hint 12)"
    )
}

impl ValuePattern {
    /// Whether a value is as wanted; what it captures is added.
    pub fn matches(&self, value: &Parameter, captures: &mut Captures) -> bool {
        todo!(
            "lesson 12, task 4: compare a value with each of the four kinds of wishes (book chapter 12; stuck? cargo learn hint 12)"
        )
    }
}

/// What to say of a parameter that is not as wanted, or not wanted at all.
fn wrong_param(operator: &Operator, key: &str, value: &Parameter) -> String {
    format!("`{}` has {key}={}", operator.name(), value.raw())
}

/// Whether an operator has the parameters that a pattern wants, and, unless the pattern is `open`, no others.
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
/// The reason why not.
pub fn match_params(
    wanted: &[Keyed<ValuePattern>],
    open: bool,
    operator: &Operator,
    captures: &mut Captures,
) -> Result<(), String> {
    todo!(
        "lesson 12, task 4: look up each wanted key, then look for keys that nobody wants (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// Says that number `at` of a pattern's operands is this one of the graph. Whether that can be: the place
/// is there, and does not hold another one already.
pub fn bind_operand(found: &mut [Option<OperandId>], at: usize, operand: OperandId) -> bool {
    todo!(
        "lesson 12, task 4: fill an empty place, or compare with what stands there (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The first of those who read an operand that is not among the operators that will be replaced.
pub fn used_elsewhere(
    graph: &Graph,
    operand: OperandId,
    replaced: &HashSet<OperatorId>,
) -> Option<OperatorId> {
    todo!("lesson 12, task 4: find a reader that stays (book chapter 12; stuck? cargo learn hint 12)")
}

// Task 5: folding batch norm. Given: its numbers, and what they come to.

/// The numbers of a batch norm that no longer learns, one for each channel, and ε.
#[derive(Debug, Clone, Copy)]
pub struct Norm<'a> {
    /// γ, the factors that were learnt.
    pub gamma: &'a [f64],
    /// β, the summands that were learnt.
    pub beta: &'a [f64],
    /// μ, the means of the channels.
    pub mean: &'a [f64],
    /// σ², the variances of the channels.
    pub variance: &'a [f64],
    /// ε, which keeps the root away from 0.
    pub eps: f64,
}

/// What becomes of each channel: channel · factor + summand.
#[derive(Debug, Clone, PartialEq)]
pub struct Affine {
    /// The factors.
    pub factors: Vec<f64>,
    /// The summands.
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

/// The numbers of an array of this shape, each index of one axis times its own factor.
pub fn scaled(numbers: &[f64], shape: &[usize], axis: usize, factors: &[f64]) -> Vec<f64> {
    todo!(
        "lesson 12, task 5: multiply each number by the factor of its index along the axis (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The same for a transposed convolution, whose weight is C×(O/groups)×…: each group of input channels has its own share
/// of the output channels, and so of the factors.
pub fn scaled_transposed(numbers: &[f64], shape: &[usize], groups: usize, factors: &[f64]) -> Vec<f64> {
    todo!(
        "lesson 12, task 5: cut numbers and factors into groups, and scale each along its second axis (book chapter 12; stuck? cargo learn hint 12)"
    )
}

/// The bias that takes in the summands; where there was none, it was 0.
pub fn folded_bias(bias: Option<&[f64]>, factors: &[f64], summands: &[f64]) -> Vec<f64> {
    todo!(
        "lesson 12, task 5: scale and shift the bias as any other summand of the channel (book chapter 12; stuck? cargo learn hint 12)"
    )
}

// Task 6: several passes.

/// Runs all passes one after the other, again and again, until a round in which none fires, or until there were `most`
/// rounds. Returns how many there were. `run` says whether a pass fired.
///
/// # Errors
/// The first one of `run`.
pub fn in_rounds<P, E>(
    passes: &[P],
    most: usize,
    run: &mut dyn FnMut(&P) -> Result<bool, E>,
) -> Result<usize, E> {
    todo!(
        "lesson 12, task 6: run all passes until a whole round changes nothing (book chapter 12; stuck? cargo learn hint 12)"
    )
}
