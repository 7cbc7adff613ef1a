//! The operators that replace a match.

use super::bypass::{bypass, refuse_bypass};
use super::pattern::{Line, Word, WordKind, is_name, read_body, read_lines};
use super::{Match, PatternError};
use crate::pnnx::{Attribute, Graph, GraphError, OperandId, Operator, OperatorId, Parameter};
use std::collections::{BTreeMap, HashMap};

/// A replacement that depends on the match: its text, and weights that text cannot hold.
#[derive(Debug, Clone)]
pub struct Draft {
    text: String,
    attrs: Vec<(String, String, Attribute)>,
}

impl Draft {
    /// A replacement with these lines, in the syntax of [`Replacement`] but without the magic number and the counts.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), attrs: Vec::new() }
    }

    /// Adds an attribute to one of its operators.
    #[must_use]
    pub fn with_attribute(mut self, operator: &str, key: &str, value: Attribute) -> Self {
        self.attrs.push((operator.to_owned(), key.to_owned(), value));
        self
    }

    pub(super) fn read(self, found: &Match<'_>) -> Result<Replacement, Problem> {
        let mut replacement = Replacement::of(read_body(&self.text)?, found)?;
        for (operator, key, value) in self.attrs {
            replacement.set_attribute(&operator, &key, value)?;
        }
        Ok(replacement)
    }
}

/// The operators that replace a match. A [`Write`](super::Write) hook may change them before they are added to the graph.
///
/// A replacement has the syntax of a pattern, where
///
/// | in the text | meaning |
/// |---|---|
/// | `nn.Conv2d` | this type; `%conv`: the type of the pattern's operator `conv` |
/// | `%*=%*` | all parameters, attributes and argument names of the pattern's operator of the same name; `%*=%conv`: of `conv` |
/// | `key=value` | a parameter; `%x` in it is replaced by the captured value, `%conv.key` by a parameter of `conv` |
/// | `@weight=%conv.weight` | an attribute of the pattern's operator `conv` |
/// | `$weight=w` | the argument name of an input |
/// | `2 1 x ... y` | the further inputs of the pattern's operator of the same name; not for a `pnnx.Expression` |
/// | `conv.1` | as an input: the second input of the pattern's operator `conv` |
///
/// If the replacement returns one of its own inputs, all consumers read that input instead.
#[derive(Debug, Clone, Default)]
pub struct Replacement {
    operators: Vec<New>,
    /// For each output of the pattern, its operand in the graph and its name in the replacement.
    outputs: Vec<(OperandId, String)>,
}

/// An operator to create.
#[derive(Debug, Clone)]
struct New {
    name: String,
    op_type: String,
    inputs: Vec<(Option<String>, String)>,
    outputs: Vec<String>,
    params: BTreeMap<String, Parameter>,
    attrs: BTreeMap<String, Attribute>,
}

/// The reason why a replacement cannot be made.
pub(super) enum Problem {
    /// The text is invalid: a bug in the pass.
    Text(PatternError),
    /// The match is refused, for this reason.
    Match(String),
}

impl From<PatternError> for Problem {
    fn from(error: PatternError) -> Self {
        Self::Text(error)
    }
}

impl From<String> for Problem {
    fn from(reason: String) -> Self {
        Self::Match(reason)
    }
}

impl Replacement {
    /// Reads a replacement for a match.
    pub(super) fn read(text: &str, found: &Match<'_>) -> Result<Self, Problem> {
        Self::of(read_lines(text)?, found)
    }

    fn of(lines: Vec<Line>, found: &Match<'_>) -> Result<Self, Problem> {
        let mut replacement = Self::default();
        let mut returned = Vec::new();
        for line in lines {
            match line.op_type.as_str() {
                "pnnx.Input" => {}
                "pnnx.Output" => returned.extend(line.inputs),
                _ => replacement.operators.push(New::read(&line, found)?),
            }
        }
        let outputs = found.found.outputs(found.pattern);
        if outputs.len() != returned.len() {
            let problem =
                format!("the pattern returns {}, the replacement {}", outputs.len(), returned.len());
            return Err(PatternError::new(2, problem).into());
        }
        replacement.outputs = outputs.into_iter().map(|(_, operand)| operand).zip(returned).collect();
        Ok(replacement)
    }

    fn operator(&mut self, name: &str) -> Result<&mut New, String> {
        let found = self.operators.iter_mut().find(|operator| operator.name == name);
        found.ok_or_else(|| format!("the replacement has no operator `{name}`"))
    }

    /// Sets a parameter of one of its operators.
    ///
    /// # Errors
    /// Fails if the replacement has no operator of this name.
    pub fn set_param(
        &mut self,
        operator: &str,
        key: &str,
        value: impl Into<Parameter>,
    ) -> Result<(), String> {
        self.operator(operator)?.params.insert(key.to_owned(), value.into());
        Ok(())
    }

    /// Removes a parameter of one of its operators.
    ///
    /// # Errors
    /// Fails if the replacement has no operator of this name.
    pub fn remove_param(&mut self, operator: &str, key: &str) -> Result<(), String> {
        self.operator(operator)?.params.remove(key);
        Ok(())
    }

    /// Sets an attribute of one of its operators.
    ///
    /// # Errors
    /// Fails if the replacement has no operator of this name.
    pub fn set_attribute(&mut self, operator: &str, key: &str, value: Attribute) -> Result<(), String> {
        self.operator(operator)?.attrs.insert(key.to_owned(), value);
        Ok(())
    }

    /// Removes an attribute of one of its operators.
    ///
    /// # Errors
    /// Fails if the replacement has no operator of this name.
    pub fn remove_attribute(&mut self, operator: &str, key: &str) -> Result<(), String> {
        self.operator(operator)?.attrs.remove(key);
        Ok(())
    }

    /// Changes the type of one of its operators.
    ///
    /// # Errors
    /// Fails if the replacement has no operator of this name.
    pub fn set_op_type(&mut self, operator: &str, op_type: &str) -> Result<(), String> {
        op_type.clone_into(&mut self.operator(operator)?.op_type);
        Ok(())
    }

    /// Refuses the match if the replacement reads an operand that vanishes or is computed too late, or if a model output
    /// would lose its name.
    pub(super) fn refuse(&self, found: &Match<'_>) -> Result<(), String> {
        let read = self.operators.iter().flat_map(|operator| &operator.inputs).map(|(_, name)| name);
        let read = read.chain(self.outputs.iter().map(|(_, name)| name));
        let kept: Vec<OperandId> = read.filter_map(|name| self.taken(name, found)).collect();
        found.refuse_to_keep(&kept)?;
        for (at, (old, name)) in self.outputs.iter().enumerate() {
            let same =
                self.outputs.iter().take(at).find(|(_, other)| other == name).map(|(operand, _)| *operand);
            let kept = same.or_else(|| self.taken(name, found)).filter(|kept| kept != old);
            if let Some(reason) = kept.and_then(|kept| refuse_bypass(found.graph, *old, kept)) {
                return Err(reason);
            }
        }
        Ok(())
    }

    /// The operand of the match that has this name, unless a new operator computes it.
    fn taken(&self, name: &str, found: &Match<'_>) -> Option<OperandId> {
        let is_new =
            self.operators.iter().any(|operator| operator.outputs.iter().any(|output| output == name));
        if is_new { None } else { found.operand_id(name).ok() }
    }

    /// The edit that applies this replacement to the graph.
    pub(super) fn plan(self, found: &Match<'_>) -> Edit {
        let names: Vec<&str> = self
            .operators
            .iter()
            .flat_map(|operator| &operator.inputs)
            .map(|(_, name)| name.as_str())
            .collect();
        let all = names.into_iter().chain(self.outputs.iter().map(|(_, name)| name.as_str()));
        let operands = all.filter_map(|name| Some((name.to_owned(), self.taken(name, found)?))).collect();
        let kept = self.operators.iter().map(|operator| match found.operator(&operator.name) {
            Ok(old) => (old.name().to_owned(), old.line()),
            Err(_) => (format!("{}_{}", found.last_name(), operator.name), found.last_line()),
        });
        let places = kept.collect();
        let matched = found.found.replaced(found.pattern).collect();
        Edit { operands, places, matched, replacement: self }
    }
}

impl Match<'_> {
    /// Fails if one of these operands vanishes with the match, or is computed only after it.
    fn refuse_to_keep(&self, operands: &[OperandId]) -> Result<(), String> {
        let replaced: Vec<OperatorId> = self.found.replaced(self.pattern).collect();
        let order = self.graph.operator_ids();
        let last = order.iter().rposition(|id| replaced.contains(id)).unwrap_or(order.len());
        let late = order.get(last + 1..).unwrap_or_default();
        for &operand in operands {
            let operand = self.graph.operand(operand);
            let is_made_by = |all: &[OperatorId]| operand.producer().is_some_and(|id| all.contains(&id));
            if is_made_by(&replaced) {
                return Err(format!("`{}` would vanish and is still needed", operand.name()));
            }
            if is_made_by(late) {
                return Err(format!("`{}` is needed before it is computed", operand.name()));
            }
        }
        Ok(())
    }

    /// The operator that computes the first output.
    fn last(&self) -> Option<&Operator> {
        let outputs = self.found.outputs(self.pattern);
        let producer = outputs.first().and_then(|&(_, operand)| self.graph.operand(operand).producer());
        producer.map(|producer| self.graph.operator(producer))
    }

    fn last_name(&self) -> &str {
        self.last().map_or("", Operator::name)
    }

    fn last_line(&self) -> Option<usize> {
        self.last().and_then(Operator::line)
    }
}

impl New {
    fn read(line: &Line, found: &Match<'_>) -> Result<Self, Problem> {
        let op_type = match line.op_type.strip_prefix('%') {
            Some(name) => found.operator(name)?.op_type().to_owned(),
            None => line.op_type.clone(),
        };
        let inputs = line.inputs.iter();
        let inputs = inputs.map(|name| (line.input_name(name).map(str::to_owned), name.clone())).collect();
        let mut new = Self {
            name: line.name.clone(),
            op_type,
            inputs,
            outputs: line.outputs.clone(),
            params: BTreeMap::new(),
            attrs: BTreeMap::new(),
        };
        if line.further {
            new.inputs.extend(found.further_inputs(&line.name)?);
        }
        line.words
            .iter()
            .filter(|word| word.kind == WordKind::Open)
            .try_for_each(|word| new.copy(word, found))?;
        line.words.iter().try_for_each(|word| new.set(line, word, found))?;
        Ok(new)
    }

    /// Copies all parameters, attributes and argument names of an operator.
    fn copy(&mut self, word: &Word, found: &Match<'_>) -> Result<(), String> {
        let name =
            word.value.as_deref().and_then(|value| value.strip_prefix('%')).filter(|&name| name != "*");
        let operator = found.operator(name.unwrap_or(&self.name))?;
        for ((name, _), copied) in self.inputs.iter_mut().zip(operator.input_names()) {
            *name = name.take().or_else(|| copied.clone());
        }
        self.params.extend(operator.params().iter().map(|(key, value)| (key.clone(), value.clone())));
        self.attrs.extend(operator.attrs().iter().map(|(key, value)| (key.clone(), value.clone())));
        Ok(())
    }

    fn set(&mut self, line: &Line, word: &Word, found: &Match<'_>) -> Result<(), Problem> {
        let value = word.value.as_deref().unwrap_or_default();
        match word.kind {
            WordKind::Param => {
                let value = substitute(value, found)?;
                self.params.insert(word.key.clone(), Parameter::parse(&value));
            }
            WordKind::Attribute => {
                let source = value.strip_prefix('%').and_then(|source| source.rsplit_once('.'));
                let problem = || {
                    line.error(format!(
                        "expected an attribute of the pattern, such as `%op.key`, got `{value}`"
                    ))
                };
                let (operator, key) = source.ok_or_else(problem)?;
                self.attrs.insert(word.key.clone(), found.attribute(operator, key)?.clone());
            }
            _ => {}
        }
        Ok(())
    }
}

/// Replaces `%x` by the captured value, and `%op.key` by a parameter of the operator `op`.
fn substitute(text: &str, found: &Match<'_>) -> Result<String, String> {
    let mut pieces = text.split('%');
    let mut result = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| !is_name(c.encode_utf8(&mut [0; 4]))).unwrap_or(piece.len());
        let (name, rest) = piece.split_at(end);
        let value = match name.rsplit_once('.') {
            Some((operator, key)) => {
                let operator = found.operator(operator)?;
                operator.param(key).ok_or_else(|| format!("`{}` has no `{key}`", operator.name()))?
            }
            None => match found.dim(name).ok().map(|size| (size, size.fixed())) {
                Some((_, Some(size))) => &Parameter::from(size),
                Some((size, None)) => return Err(format!("`{name}` is {size}, not a number")),
                None => found.param(name)?,
            },
        };
        result.extend([value.raw(), rest]);
    }
    Ok(result)
}

/// An edit that was checked and can be applied.
#[derive(Debug)]
pub(super) struct Edit {
    replacement: Replacement,
    /// Operands of the graph by their name in the replacement.
    operands: HashMap<String, OperandId>,
    /// The preferred names of the new operators, and the lines of the file that they come from.
    places: Vec<(String, Option<usize>)>,
    matched: Vec<OperatorId>,
}

impl Edit {
    /// Replaces the matched operators by the new ones.
    pub(super) fn apply(self, graph: &mut Graph) -> Result<(), GraphError> {
        let Self { replacement, mut operands, places, matched } = self;
        let Replacement { operators, outputs } = replacement;
        let mut order: Vec<OperatorId> = graph.operator_ids().to_vec();
        order.retain(|id| matched.contains(id));
        let Some(&last) = order.last() else { return Ok(()) };
        for (operand, name) in &outputs {
            if !operands.contains_key(name) && operators.iter().any(|new| new.outputs.contains(name)) {
                if let Some(producer) = graph.operand(*operand).producer() {
                    graph.disconnect_output(producer, *operand)?;
                }
                operands.insert(name.clone(), *operand);
            }
        }
        let mut created = Vec::with_capacity(operators.len());
        for new in operators {
            let at = created.last().copied().unwrap_or(last);
            created.push(new.insert(graph, at, &mut operands)?);
        }
        for (operand, name) in &outputs {
            match operands.get(name) {
                Some(&input) if input != *operand => bypass(graph, *operand, input)?,
                _ => {}
            }
        }
        for &operator in order.iter().rev() {
            graph.remove_operator(operator)?;
        }
        for (operator, (name, line)) in created.into_iter().zip(places) {
            graph.set_line(operator, line)?;
            let name = fresh(&name, |name| graph.operator_named(name).is_some_and(|other| other != operator));
            graph.rename_operator(operator, &name)?;
        }
        Ok(())
    }
}

impl New {
    fn insert(
        self,
        graph: &mut Graph,
        after: OperatorId,
        operands: &mut HashMap<String, OperandId>,
    ) -> Result<OperatorId, GraphError> {
        let name = fresh(&self.name, |name| graph.operator_named(name).is_some());
        let id = graph.new_operator_after(&self.op_type, &name, after)?;
        for (key, name) in self.inputs {
            let operand = operand(graph, operands, &name)?;
            graph.connect_input(id, operand, key.as_deref())?;
        }
        for name in self.outputs {
            let operand = operand(graph, operands, &name)?;
            graph.connect_output(id, operand)?;
        }
        for (key, value) in self.params {
            graph.set_param(id, &key, value)?;
        }
        for (key, value) in self.attrs {
            graph.set_attribute(id, &key, value)?;
        }
        Ok(id)
    }
}

/// The operand of this name in the replacement, created on first use.
fn operand(
    graph: &mut Graph,
    operands: &mut HashMap<String, OperandId>,
    name: &str,
) -> Result<OperandId, GraphError> {
    if let Some(&operand) = operands.get(name) {
        return Ok(operand);
    }
    let fresh = fresh(name, |name| graph.operand_named(name).is_some());
    let operand = graph.new_operand(&fresh)?;
    operands.insert(name.to_owned(), operand);
    Ok(operand)
}

/// The name if it is free, else the name with the smallest suffix `_1`, `_2`, … that is.
pub(super) fn fresh(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (1u64..).map(|number| format!("{name}_{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}
