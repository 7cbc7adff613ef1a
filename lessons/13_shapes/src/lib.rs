//! Lesson 13: shapes that may change.
//!
//! The page of the book: `book/src/lessons/13_shapes.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion::graph::{GraphError, OperandIndex, OperatorIndex, RuntimeGraph, RuntimeOperator};
use ixion::kernels::window::Window;
use ixion::op::TensorMeta;
use ixion::shape::{ShapeError, apply_rule, at_operator, check_inputs, is_open};
use ixion::tensor::dim::{Leaf, Operation};
use ixion::tensor::{DType, Dim};
use std::collections::BTreeMap;

// Task 1: what an expression comes to.

/// The quotient rounded towards minus infinity. Dividing by zero gives zero; what is too large for a number is the largest.
pub fn floor_div(left: i64, right: i64) -> i64 {
    todo!(
        "lesson 13, task 1: the quotient, one less where it was rounded up (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// The quotient rounded towards plus infinity. Dividing by zero gives zero; what is too large for a number is the largest.
pub fn ceil_div(left: i64, right: i64) -> i64 {
    todo!(
        "lesson 13, task 1: the quotient rounded down, and one more where something is left (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// What an operation makes of two numbers. What is too large for a number is the largest, or the smallest.
pub fn compute(operation: Operation, left: i64, right: i64) -> i64 {
    todo!(
        "lesson 13, task 1: one line for each of the six operations (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// The number that an expression is when every symbol gets a value, or `None` if one of its symbols has none.
pub fn evaluate(dim: &Dim, value_of: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    todo!(
        "lesson 13, task 1: rebuild the expression, with numbers in the place of symbols (book chapter 13; stuck? cargo learn hint 13)"
    )
}

// Task 2: rules for numbers and symbols alike.

/// How often a window fits on an axis whose length may be a symbol. Where it does not fit, the number is below 1.
///
/// PyTorch's rule: a last step that is only partly there is left out. With `ceil_mode` it counts, if the window then begins
/// inside of the axis or of the padding before it.
pub fn positions(window: &Window, len: &Dim, ceil_mode: bool) -> Dim {
    todo!(
        "lesson 13, task 2: the room in steps of the stride, rounded down or up (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// The length that two lengths are, where they may be the same: a number rather than a symbol, otherwise the left one.
/// `None` where they are known to differ.
pub fn agreed(left: &Dim, right: &Dim) -> Option<Dim> {
    todo!(
        "lesson 13, task 2: none if they differ, and of a number and a symbol the number (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// The lengths of two tensors put one after the other along an axis. `None` where they do not fit: other axes must agree.
pub fn joined(left: &[Dim], right: &[Dim], axis: usize) -> Option<Vec<Dim>> {
    todo!(
        "lesson 13, task 2: the sum along the axis, and what both agree on along all others (book chapter 13; stuck? cargo learn hint 13)"
    )
}

// Task 3: one operator after the other.

/// What is known of an operator's inputs, in their order; `None` if nothing is known of one of them.
pub fn known_inputs(operator: &RuntimeOperator, metas: &[Option<TensorMeta>]) -> Option<Vec<TensorMeta>> {
    todo!(
        "lesson 13, task 3: the description of each input, or none at all (book chapter 13; stuck? cargo learn hint 13)"
    )
}

// Given: what a message says of an input.

/// Where an operand comes from and what is known of it, as messages say it.
pub fn origin(graph: &RuntimeGraph, index: OperandIndex, metas: &[Option<TensorMeta>]) -> String {
    let operand = graph.operand(index);
    let meta = metas.get(index.position()).and_then(Option::as_ref);
    let shape = meta.map_or_else(|| "unknown".to_owned(), TensorMeta::to_string);
    match operand.producer().map(|producer| graph.operator(producer)) {
        Some(producer) => {
            format!("`{}` from {} `{}` is {shape}", operand.name(), producer.op_type(), producer.name())
        }
        None => {
            let port = graph.inputs().iter().find(|port| port.operand == index);
            format!("input `{}` is {shape}", port.map_or(operand.name(), |port| &port.name))
        }
    }
}

/// What the rule of one operator says of its outputs; `None` if it needs what is not known.
///
/// # Errors
/// An operator that does not fit its inputs, with its name, and with the operators that they come from.
pub fn infer_operator(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    metas: &[Option<TensorMeta>],
) -> Result<Option<Vec<TensorMeta>>, ShapeError> {
    todo!(
        "lesson 13, task 3: apply the rule; what is not known is no error, what is wrong has a name (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// What is known of all operands, by their position, given the model's inputs in their order.
///
/// # Errors
/// As [`check_inputs`]; the first operator that does not fit its inputs.
pub fn infer_all(
    graph: &RuntimeGraph,
    inputs: &[Option<TensorMeta>],
) -> Result<Vec<Option<TensorMeta>>, ShapeError> {
    todo!(
        "lesson 13, task 3: check, enter the inputs, then one operator after the other (book chapter 13; stuck? cargo learn hint 13)"
    )
}

// Task 4: only what depends on what changed.

/// Whether these are the inputs that are described already.
pub fn same_inputs(graph: &RuntimeGraph, metas: &[Option<TensorMeta>], inputs: &[TensorMeta]) -> bool {
    todo!(
        "lesson 13, task 4: as many as the model has, and each as it is described (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// A walk through the operators of a graph whose operands are all described, for other inputs.
#[derive(Debug)]
pub struct Update<'a> {
    graph: &'a RuntimeGraph,
    /// What is known of each operand, by its position.
    metas: &'a mut Vec<Option<TensorMeta>>,
    /// Which operands changed, by their position.
    is_changed: Vec<bool>,
    /// The operands that changed, in order, and what was known of each before.
    before: Vec<(OperandIndex, Option<TensorMeta>)>,
    /// The operators whose rules were applied.
    operators: Vec<OperatorIndex>,
}

impl<'a> Update<'a> {
    /// The beginning of a walk, where nothing changed yet. Of operands that `metas` has no place for, nothing is known.
    pub fn new(graph: &'a RuntimeGraph, metas: &'a mut Vec<Option<TensorMeta>>) -> Self {
        metas.resize(graph.operands().len(), None);
        let is_changed = vec![false; metas.len()];
        Self { graph, metas, is_changed, before: Vec::new(), operators: Vec::new() }
    }

    /// Takes over what is known of an operand now. Where it is what was known before, nothing happens.
    pub fn set(&mut self, operand: OperandIndex, meta: Option<TensorMeta>) {
        todo!(
            "lesson 13, task 4: if it is something else, mark the operand, and keep what was there (book chapter 13; stuck? cargo learn hint 13)"
        )
    }

    /// Whether an operator reads an operand that changed.
    pub fn is_stale(&self, operator: &RuntimeOperator) -> bool {
        todo!("lesson 13, task 4: ask the marks of its inputs (book chapter 13; stuck? cargo learn hint 13)")
    }

    /// Takes over the inputs, then infers again whatever depends on what changed.
    ///
    /// # Errors
    /// The first operator that does not fit its inputs; what was known is then half old, half new.
    pub fn walk(&mut self, inputs: &[Option<TensorMeta>]) -> Result<(), ShapeError> {
        todo!(
            "lesson 13, task 4: as in task 3, but whoever is not stale is left alone (book chapter 13; stuck? cargo learn hint 13)"
        )
    }

    /// Puts everything back that was there before the walk.
    pub fn undo(&mut self) {
        todo!(
            "lesson 13, task 4: what was kept goes back to its place (book chapter 13; stuck? cargo learn hint 13)"
        )
    }

    /// Takes over all of it or nothing: after an error everything is as it was before.
    ///
    /// # Errors
    /// As [`check_inputs`]; the first operator that does not fit its inputs.
    pub fn run(&mut self, inputs: &[Option<TensorMeta>]) -> Result<(), ShapeError> {
        check_inputs(self.graph, inputs)?;
        let result = self.walk(inputs);
        if result.is_err() {
            self.undo();
        }
        result
    }

    /// The operands that changed, and the operators whose rules were applied.
    pub fn changed(self) -> (Vec<OperandIndex>, Vec<OperatorIndex>) {
        (self.before.into_iter().map(|(operand, _)| operand).collect(), self.operators)
    }
}

/// The operands among those that changed which take more bytes than ever before. `largest` has the most bytes that each
/// operand has taken, by its position, and is brought up to date.
pub fn larger(
    metas: &[Option<TensorMeta>],
    changed: &[OperandIndex],
    largest: &mut [u64],
) -> Vec<OperandIndex> {
    todo!(
        "lesson 13, task 4: compare with the largest so far, not with the size before (book chapter 13; stuck? cargo learn hint 13)"
    )
}

// Task 5: what a user says of shapes, and what symbols are in one run.

/// What a user says of inputs by their names, in the order of the model's inputs; `None` for those of which nothing is said.
///
/// # Errors
/// [`GraphError::UnknownName`], which lists the names that there are; [`ShapeError::GivenTwice`].
pub fn by_name<'a, T: Clone>(
    graph: &RuntimeGraph,
    given: impl IntoIterator<Item = (&'a str, T)>,
) -> Result<Vec<Option<T>>, ShapeError> {
    todo!(
        "lesson 13, task 5: each to the place of its input; a name that is unknown or given twice is an error (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// The numbers that symbols stand for in one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Binding {
    /// By the symbol: input, axis and length where it stood first.
    values: BTreeMap<String, (String, usize, i64)>,
}

impl Binding {
    /// Notes that axis `axis` of an input is `value`, which a symbol stands for.
    ///
    /// # Errors
    /// [`ShapeError::Contradiction`] where the symbol stands for another number already; it then keeps that.
    pub fn set(&mut self, symbol: &str, value: i64, input: &str, axis: usize) -> Result<(), ShapeError> {
        todo!(
            "lesson 13, task 5: note a new symbol, and refuse one that would be two numbers (book chapter 13; stuck? cargo learn hint 13)"
        )
    }

    /// Matches the lengths of one input with what stands for them: symbols are noted, numbers must agree.
    ///
    /// # Errors
    /// Another number of axes, another length than a fixed one, and as [`Binding::set`].
    pub fn bind(&mut self, name: &str, symbolic: &TensorMeta, input: &TensorMeta) -> Result<(), ShapeError> {
        todo!(
            "lesson 13, task 5: first the ranks, then axis by axis (book chapter 13; stuck? cargo learn hint 13)"
        )
    }

    /// The number of a symbol.
    pub fn get(&self, symbol: &str) -> Option<i64> {
        todo!("lesson 13, task 5: the number alone (book chapter 13; stuck? cargo learn hint 13)")
    }

    /// The number of a length, if all its symbols are bound.
    pub fn value(&self, dim: &Dim) -> Option<i64> {
        dim.evaluate(&|symbol| self.get(symbol))
    }

    /// A description with numbers in the place of all symbols that are bound.
    pub fn apply(&self, meta: &TensorMeta) -> TensorMeta {
        meta.replace(&|symbol| self.get(symbol).map(Dim::Fixed))
    }
}

/// The error for an axis of another length than the one that it is fixed to.
fn not_fixed(name: &str, axis: usize, wanted: i64, found: &Dim) -> ShapeError {
    let len = usize::try_from(wanted).unwrap_or(0);
    ShapeError::OutOfRange { name: name.to_owned(), axis, found: found.clone(), min: len, max: len }
}

// Task 6: which shapes a model is ready for.

/// The first axis that does not grow from minimum to optimum to maximum.
pub fn disorder(min: &[usize], optimum: &[usize], max: &[usize]) -> Option<usize> {
    todo!(
        "lesson 13, task 6: the position of the first axis that is out of order (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// The shapes that one input may have: on each axis from the smallest to the largest length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRange {
    name: String,
    dtype: DType,
    min: Vec<usize>,
    optimum: Vec<usize>,
    max: Vec<usize>,
}

impl InputRange {
    /// A range of shapes for the input of this name. What is tuned is tuned for `optimum`.
    ///
    /// # Errors
    /// [`ShapeError::Profile`] when the three have not as many axes, or are not in order on every axis.
    pub fn new(
        name: impl Into<String>,
        dtype: DType,
        min: impl Into<Vec<usize>>,
        optimum: impl Into<Vec<usize>>,
        max: impl Into<Vec<usize>>,
    ) -> Result<Self, ShapeError> {
        let (name, min, optimum, max) = (name.into(), min.into(), optimum.into(), max.into());
        if min.len() != optimum.len() || max.len() != optimum.len() {
            let ranks = format!("{}, {} and {}", min.len(), optimum.len(), max.len());
            let reason = format!("minimum, optimum and maximum need equally many axes, but have {ranks}");
            return Err(ShapeError::Profile { name, reason });
        }
        if let Some(axis) = disorder(&min, &optimum, &max) {
            let lens = format!("{}, {}, {}", min[axis], optimum[axis], max[axis]);
            let reason = format!("axis {axis} should grow from minimum to optimum to maximum, but is {lens}");
            return Err(ShapeError::Profile { name, reason });
        }
        Ok(Self { name, dtype, min, optimum, max })
    }

    /// Checks the description of an input.
    ///
    /// # Errors
    /// [`ShapeError::InputDType`], [`ShapeError::InputRank`], and [`ShapeError::OutOfRange`] with the first axis whose
    /// length is not allowed, or is no number.
    pub fn check(&self, input: &TensorMeta) -> Result<(), ShapeError> {
        todo!(
            "lesson 13, task 6: the type, the number of axes, then each length (book chapter 13; stuck? cargo learn hint 13)"
        )
    }
}
