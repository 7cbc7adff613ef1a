//! Lesson 13: shapes that may change.
//!
//! The page of the book: `book/src/lessons/13_shapes.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion::course::dim::{Leaf, Operation};
use ixion::course::window::Window;
use ixion::course::{apply_rule, at_operator, check_inputs, is_open};
use ixion::graph::{GraphError, OperandIndex, OperatorIndex, RuntimeGraph, RuntimeOperator};
use ixion::op::TensorMeta;
use ixion::shape::ShapeError;
use ixion::tensor::{DType, Dim};
use std::collections::BTreeMap;

// Task 1: evaluating an expression.

/// The quotient rounded towards minus infinity. Dividing by zero gives zero; overflow gives `i64::MAX`.
pub fn floor_div(left: i64, right: i64) -> i64 {
    todo!(
        "lesson 13, task 1: the quotient, one less where it was rounded up (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// The quotient rounded towards plus infinity. Dividing by zero gives zero; overflow gives `i64::MAX`.
pub fn ceil_div(left: i64, right: i64) -> i64 {
    todo!(
        "lesson 13, task 1: the quotient rounded down, plus one if there is a remainder (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// The result of an operation on two numbers; overflow saturates to `i64::MAX` or `i64::MIN`.
pub fn compute(operation: Operation, left: i64, right: i64) -> i64 {
    todo!(
        "lesson 13, task 1: one line for each of the six operations (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// The value of an expression with every symbol replaced by a number, or `None` if a symbol has no value.
pub fn evaluate(dim: &Dim, value_of: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    todo!(
        "lesson 13, task 1: rebuild the expression, with numbers in place of symbols (book chapter 13; stuck? cargo learn hint 13)"
    )
}

// Task 2: one rule for numbers and symbols.

/// The number of window positions along an axis, whose length may be a symbol. It is below 1 if the window does not fit.
///
/// As in PyTorch, an incomplete last step is dropped. With `ceil_mode` it counts if the window starts inside the axis or the
/// padding before it.
pub fn positions(window: &Window, len: &Dim, ceil_mode: bool) -> Dim {
    todo!(
        "lesson 13, task 2: divide the room by the stride, rounding down or up (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// The common length of two axes that must be equal: a number rather than a symbol, otherwise the left one. `None` if they
/// are known to differ.
pub fn agreed(left: &Dim, right: &Dim) -> Option<Dim> {
    todo!(
        "lesson 13, task 2: `None` if they differ; of a number and a symbol, the number (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// The shape of two tensors concatenated along an axis. `None` if they are incompatible: all other axes must agree.
pub fn joined(left: &[Dim], right: &[Dim], axis: usize) -> Option<Vec<Dim>> {
    todo!(
        "lesson 13, task 2: the sum along the axis, and the common length along all others (book chapter 13; stuck? cargo learn hint 13)"
    )
}

// Task 3: operator by operator.

/// The metadata of an operator's inputs, in order; `None` if one of them is unknown.
pub fn known_inputs(operator: &RuntimeOperator, metas: &[Option<TensorMeta>]) -> Option<Vec<TensorMeta>> {
    todo!(
        "lesson 13, task 3: the metadata of each input, or `None` (book chapter 13; stuck? cargo learn hint 13)"
    )
}

// Given: the description of an input in a message.

/// The producer and the metadata of an operand, as text for messages.
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

/// Infers the outputs of one operator; `None` if its rule needs something that is unknown.
///
/// # Errors
/// Returns an error if the operator rejects its inputs, with the operator and the producers of its inputs.
pub fn infer_operator(
    graph: &RuntimeGraph,
    operator: &RuntimeOperator,
    metas: &[Option<TensorMeta>],
) -> Result<Option<Vec<TensorMeta>>, ShapeError> {
    todo!(
        "lesson 13, task 3: apply the rule; unknown inputs are not an error, and an error names the operator (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// Infers the metadata of all operands, by position, given the model's inputs in order.
///
/// # Errors
/// As [`check_inputs`]; the error of the first operator that rejects its inputs.
pub fn infer_all(
    graph: &RuntimeGraph,
    inputs: &[Option<TensorMeta>],
) -> Result<Vec<Option<TensorMeta>>, ShapeError> {
    todo!(
        "lesson 13, task 3: check and set the inputs, then infer the operators in order (book chapter 13; stuck? cargo learn hint 13)"
    )
}

// Task 4: only what depends on the change.

/// Returns true if `inputs` are equal to the inputs recorded in `metas`.
pub fn same_inputs(graph: &RuntimeGraph, metas: &[Option<TensorMeta>], inputs: &[TensorMeta]) -> bool {
    todo!(
        "lesson 13, task 4: as many as the model has, each equal to its recorded metadata (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// An incremental update of the metadata of a graph's operands for other inputs.
#[derive(Debug)]
pub struct Update<'a> {
    graph: &'a RuntimeGraph,
    /// The metadata of each operand, by position.
    metas: &'a mut Vec<Option<TensorMeta>>,
    /// Whether each operand changed, by position.
    is_changed: Vec<bool>,
    /// The operands that changed, in order, with their previous metadata.
    before: Vec<(OperandIndex, Option<TensorMeta>)>,
    /// The operators whose rules were applied.
    operators: Vec<OperatorIndex>,
}

impl<'a> Update<'a> {
    /// An update without changes so far. Operands beyond the end of `metas` are unknown.
    pub fn new(graph: &'a RuntimeGraph, metas: &'a mut Vec<Option<TensorMeta>>) -> Self {
        metas.resize(graph.operands().len(), None);
        let is_changed = vec![false; metas.len()];
        Self { graph, metas, is_changed, before: Vec::new(), operators: Vec::new() }
    }

    /// Sets the metadata of an operand. Does nothing if it is unchanged.
    pub fn set(&mut self, operand: OperandIndex, meta: Option<TensorMeta>) {
        todo!(
            "lesson 13, task 4: if it differs, mark the operand, and keep the previous metadata (book chapter 13; stuck? cargo learn hint 13)"
        )
    }

    /// Returns true if an operator reads an operand that changed.
    pub fn is_stale(&self, operator: &RuntimeOperator) -> bool {
        todo!(
            "lesson 13, task 4: look at the marks of its inputs (book chapter 13; stuck? cargo learn hint 13)"
        )
    }

    /// Sets the inputs, then infers all operators that depend on a change.
    ///
    /// # Errors
    /// The error of the first operator that rejects its inputs; the metadata is then partly old and partly new.
    pub fn walk(&mut self, inputs: &[Option<TensorMeta>]) -> Result<(), ShapeError> {
        todo!(
            "lesson 13, task 4: as in task 3, but skip operators that are not stale (book chapter 13; stuck? cargo learn hint 13)"
        )
    }

    /// Restores the metadata from before the walk.
    pub fn undo(&mut self) {
        todo!(
            "lesson 13, task 4: put the previous metadata back (book chapter 13; stuck? cargo learn hint 13)"
        )
    }

    /// Updates everything or nothing: after an error, the metadata is as before.
    ///
    /// # Errors
    /// As [`check_inputs`]; the error of the first operator that rejects its inputs.
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

/// The changed operands that need more bytes than ever before. `largest` holds the largest size of each operand so far, by
/// position, and is updated.
pub fn larger(
    metas: &[Option<TensorMeta>],
    changed: &[OperandIndex],
    largest: &mut [u64],
) -> Vec<OperandIndex> {
    todo!(
        "lesson 13, task 4: compare with the largest so far, not with the size before (book chapter 13; stuck? cargo learn hint 13)"
    )
}

// Task 5: shapes given by the user, and the values of symbols in one run.

/// Sorts values that are given by input name into the order of the model's inputs; `None` for inputs that are not named.
///
/// # Errors
/// [`GraphError::UnknownName`], which lists the existing names; [`ShapeError::GivenTwice`] if a name occurs twice.
pub fn by_name<'a, T: Clone>(
    graph: &RuntimeGraph,
    given: impl IntoIterator<Item = (&'a str, T)>,
) -> Result<Vec<Option<T>>, ShapeError> {
    todo!(
        "lesson 13, task 5: each value at the position of its input; an unknown or duplicate name is an error (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// The values of symbols in one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Binding {
    /// For each symbol, the input, axis and length of its first occurrence.
    values: BTreeMap<String, (String, usize, i64)>,
}

impl Binding {
    /// Binds a symbol to `value`, the length of axis `axis` of an input.
    ///
    /// # Errors
    /// [`ShapeError::Contradiction`] if the symbol already has another value, which it then keeps.
    pub fn set(&mut self, symbol: &str, value: i64, input: &str, axis: usize) -> Result<(), ShapeError> {
        todo!(
            "lesson 13, task 5: record a new symbol, and refuse a second value for a known one (book chapter 13; stuck? cargo learn hint 13)"
        )
    }

    /// Matches the symbolic shape of one input with its actual shape: symbols are bound, and numbers must be equal.
    ///
    /// # Errors
    /// [`ShapeError::InputRank`] if the number of axes differs, [`ShapeError::OutOfRange`] if a fixed length differs, and the
    /// error of [`Binding::set`].
    pub fn bind(&mut self, name: &str, symbolic: &TensorMeta, input: &TensorMeta) -> Result<(), ShapeError> {
        todo!(
            "lesson 13, task 5: first the ranks, then axis by axis (book chapter 13; stuck? cargo learn hint 13)"
        )
    }

    /// The value of a symbol, if it is bound.
    pub fn get(&self, symbol: &str) -> Option<i64> {
        todo!("lesson 13, task 5: only the value (book chapter 13; stuck? cargo learn hint 13)")
    }

    /// The value of a symbolic length, if all its symbols are bound.
    pub fn value(&self, dim: &Dim) -> Option<i64> {
        dim.evaluate(&|symbol| self.get(symbol))
    }

    /// Replaces all bound symbols in tensor metadata by their values.
    pub fn apply(&self, meta: &TensorMeta) -> TensorMeta {
        meta.replace(&|symbol| self.get(symbol).map(Dim::Fixed))
    }
}

/// The error for an axis whose length differs from its fixed length.
fn not_fixed(name: &str, axis: usize, wanted: i64, found: &Dim) -> ShapeError {
    let len = usize::try_from(wanted).unwrap_or(0);
    ShapeError::OutOfRange { name: name.to_owned(), axis, found: found.clone(), min: len, max: len }
}

// Task 6: a range of shapes.

/// The first axis that does not satisfy minimum ≤ optimum ≤ maximum.
pub fn disorder(min: &[usize], optimum: &[usize], max: &[usize]) -> Option<usize> {
    todo!(
        "lesson 13, task 6: the position of the first axis that is out of order (book chapter 13; stuck? cargo learn hint 13)"
    )
}

/// The range of shapes of one input, with a minimum and a maximum length for each axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRange {
    name: String,
    dtype: DType,
    min: Vec<usize>,
    optimum: Vec<usize>,
    max: Vec<usize>,
}

impl InputRange {
    /// Creates a range for the input of this name. The model is tuned for `optimum`.
    ///
    /// # Errors
    /// [`ShapeError::Profile`] if the three shapes have different numbers of axes, or an axis does not satisfy
    /// `min` ≤ `optimum` ≤ `max`.
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
            let reason =
                format!("minimum, optimum and maximum must have the same number of axes, got {ranks}");
            return Err(ShapeError::Profile { name, reason });
        }
        if let Some(axis) = disorder(&min, &optimum, &max) {
            let lens = format!("{}, {}, {}", min[axis], optimum[axis], max[axis]);
            let reason = format!("axis {axis} must satisfy minimum ≤ optimum ≤ maximum, got {lens}");
            return Err(ShapeError::Profile { name, reason });
        }
        Ok(Self { name, dtype, min, optimum, max })
    }

    /// Checks the metadata of an input.
    ///
    /// # Errors
    /// [`ShapeError::InputDType`] or [`ShapeError::InputRank`] if the type or the number of axes differs, and
    /// [`ShapeError::OutOfRange`] with the first axis whose length is out of range or not a number.
    pub fn check(&self, input: &TensorMeta) -> Result<(), ShapeError> {
        todo!(
            "lesson 13, task 6: the type, the number of axes, then each length (book chapter 13; stuck? cargo learn hint 13)"
        )
    }
}
