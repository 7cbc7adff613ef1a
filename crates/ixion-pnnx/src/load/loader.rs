//! Building a graph from the lines of a text.

use super::link::{Unlinked, link};
use super::place::{Source, error_at, lines, shorten};
use crate::attribute::{Attribute, Origin};
use crate::error::PnnxError;
use crate::graph::Graph;
use crate::ids::{OperandId, OperatorId};
use crate::operand::Dim;
use crate::parameter::Parameter;
use crate::problem::SyntaxProblem;
use crate::text::{self, Field, Line, MAGIC, Stop, is_blank};
use ixion_tensor::DType;
use ixion_tensor::{LimitError, Limits};
use std::collections::HashMap;
use std::collections::btree_map::Entry as Slot;

type Loaded<T = ()> = Result<T, PnnxError>;

/// Parses a text into a graph. `file` is its name in error messages.
pub(super) fn load(file: &str, text: &str, limits: &Limits) -> Loaded<Graph> {
    let lines = lines(file, text);
    let (header, operators) = lines.split_at_checked(2).unwrap_or((&lines, &[]));
    let header = Header::read(file, header, limits)?;
    header.check_operators(operators.len())?;
    let graph = Graph::with_capacity(operators.len(), operators.len());
    let mut loader = Loader { limits, graph, weights: 0, repeats: HashMap::new() };
    for (index, &source) in operators.iter().enumerate() {
        loader.operator(source, operators.get(index + 1..).unwrap_or_default())?;
    }
    header.check_operands(loader.graph.operand_count());
    Ok(loader.graph)
}

/// The first two lines: the magic number, and the counts of operators and operands.
struct Header<'a> {
    file: &'a str,
    counts: Source<'a>,
    operators: usize,
    operands: usize,
}

impl<'a> Header<'a> {
    fn read(file: &'a str, lines: &[Source<'a>], limits: &Limits) -> Loaded<Self> {
        let Some(magic) = lines.first() else {
            return Err(error_at(file, 1, 1, SyntaxProblem::Empty));
        };
        let found = magic.text.trim_matches(is_blank);
        if found != MAGIC {
            return Err(magic.error(SyntaxProblem::Magic { found: shorten(found) }));
        }
        let Some(&counts) = lines.get(1) else {
            let wanted = "the numbers of operators and operands on the next line";
            return Err(magic.error_at_stop(Stop { at: "", wanted }));
        };
        let (operators, operands) = text::counts(counts.text).map_err(|stop| counts.error_at_stop(stop))?;
        for (what, count) in [("the number of operators", operators), ("the number of operands", operands)] {
            limits.check_ops(what, count).map_err(|error| counts.error(error.into()))?;
        }
        Ok(Self { file, counts, operators, operands })
    }

    fn check_operators(&self, found: usize) -> Loaded {
        if self.operators == found {
            return Ok(());
        }
        Err(self.counts.error(SyntaxProblem::OperatorCount { wanted: self.operators, found }))
    }

    /// Only logs a mismatch: PNNX itself sometimes counts operands that it has removed, and never reads the count.
    fn check_operands(&self, found: usize) {
        if self.operands != found {
            log::warn!("{}: line 2 counts {} operands, found {found}", self.file, self.operands);
        }
    }
}

/// Adds lines to a graph one by one.
struct Loader<'a> {
    limits: &'a Limits,
    graph: Graph,
    /// The total size in bytes of all attributes so far.
    weights: u64,
    /// How often each name was given to an operator, if more than once.
    repeats: HashMap<String, usize>,
}

/// The line that is being added, and its operator.
struct Current<'a> {
    id: OperatorId,
    source: Source<'a>,
    line: Line<'a>,
}

impl Loader<'_> {
    fn operator<'a>(&mut self, source: Source<'a>, later: &[Source<'a>]) -> Loaded {
        let line = text::text_constant(source.text).map_or_else(|| text::operator_line(source.text), Ok);
        let mut line = line.map_err(|stop| source.error_at_stop(stop))?;
        let fields = std::mem::take(&mut line.fields);
        let id = self.link(source, &line, later)?;
        self.graph.operator_mut(id)?.line = Some(source.number);
        let current = Current { id, source, line };
        for field in fields {
            self.field(&current, field)?;
        }
        Ok(())
    }

    /// Adds the operator of a line. If an earlier operator has its name, it gets another one.
    fn link<'a>(&mut self, source: Source<'a>, line: &Line<'a>, later: &[Source<'a>]) -> Loaded<OperatorId> {
        let alias = self.alias(line);
        let renamed = alias.as_deref().map(|name| Line { name, ..line.clone() });
        let linked = link(&mut self.graph, renamed.as_ref().unwrap_or(line));
        let id = linked.map_err(|fault| self.unlinked(source, line, fault, later))?;
        if alias.is_some() {
            self.graph.operator_mut(id)?.written_name = Some(line.name.into());
        }
        Ok(id)
    }

    /// A unique name for an operator that has the name of an earlier one: see [`Operator::written_name`]. The names of inputs
    /// and outputs must differ, because they are known by their names.
    ///
    /// [`Operator::written_name`]: crate::Operator::written_name
    fn alias(&mut self, line: &Line<'_>) -> Option<String> {
        let is_port = matches!(line.op_type, "pnnx.Input" | "pnnx.Output");
        if is_port || self.graph.operator_named(line.name).is_none() {
            return None;
        }
        let number = self.repeats.entry(line.name.to_owned()).or_insert(1);
        loop {
            *number += 1;
            let alias = format!("{}@{number}", line.name);
            if self.graph.operator_named(&alias).is_none() {
                return Some(alias);
            }
        }
    }

    /// The error for a line that cannot be added.
    fn unlinked<'a>(
        &self,
        source: Source<'a>,
        line: &Line<'a>,
        fault: Unlinked<'a>,
        later: &[Source<'a>],
    ) -> PnnxError {
        match fault {
            Unlinked::DuplicateOperator(_) => {
                let first = self.graph.operator_named(line.name).and_then(|id| self.line_of(id));
                let problem = SyntaxProblem::DuplicateOperator {
                    operator: line.name.to_owned(),
                    line: first.unwrap_or_default(),
                };
                source.error_at_word(line.name, problem)
            }
            Unlinked::UnknownOperand(name) => source.error_at_word(name, unknown_input(line, name, later)),
            Unlinked::ComputedTwice(name) => {
                // An operator has no line number until it is linked: the operand is then computed on this line.
                let line = self.line_computing(name).unwrap_or(source.number);
                source.error_at_word(name, SyntaxProblem::ComputedTwice { operand: name.to_owned(), line })
            }
            Unlinked::Refused(error) => error.into(),
        }
    }

    fn line_of(&self, id: OperatorId) -> Option<usize> {
        self.graph.get_operator(id)?.line()
    }

    fn line_computing(&self, operand: &str) -> Option<usize> {
        let operand = self.graph.get_operand(self.graph.operand_named(operand)?)?;
        self.line_of(operand.producer()?)
    }

    fn field<'a>(&mut self, current: &Current<'a>, field: Field<'a>) -> Loaded {
        match field {
            Field::Param { key, value } => {
                let slot = self.graph.operator_mut(current.id)?.params.entry(key.to_owned());
                current.fill(slot, Parameter::parse(value), "", key)
            }
            Field::Attr { key, shape, dtype } => self.attribute(current, key, shape, dtype),
            Field::InputName { key, operand } => self.input_name(current, key, operand),
            Field::Shape { operand, shape, dtype } => self.operand_shape(current, operand, shape, dtype),
        }
    }

    fn attribute<'a>(
        &mut self,
        current: &Current<'a>,
        key: &'a str,
        shape: Vec<usize>,
        dtype: DType,
    ) -> Loaded {
        let rank = shape.len();
        let operator = self.graph.operator_mut(current.id)?;
        let origin = Origin::new(&operator.name, operator.written_name.as_deref(), key);
        let Some(attribute) = Attribute::announced(dtype, shape, origin) else {
            return Err(current.source.error_at_word(key, SyntaxProblem::TooLarge));
        };
        let bytes = attribute.byte_len() as u64;
        self.weights = self.weights.saturating_add(bytes);
        let (limits, weights) = (self.limits, self.weights);
        let what = || format!("attribute `{key}` of operator `{}`", current.line.name);
        within(what, |what| limits.check_rank(what, rank))
            .and_then(|()| within(what, |what| limits.check_tensor(what, bytes)))
            .and_then(|()| limits.check_total("all weights together", weights))
            .map_err(|error| current.source.error_at_word(key, error.into()))?;
        let slot = self.graph.operator_mut(current.id)?.attrs.entry(key.to_owned());
        current.fill(slot, attribute, "@", key)
    }

    /// Names the first unnamed input that is this operand: one operand can be passed as several arguments.
    fn input_name<'a>(&mut self, current: &Current<'a>, key: &'a str, operand: &'a str) -> Loaded {
        let names = &mut self.graph.operator_mut(current.id)?.input_names;
        let mut slots = current.line.inputs.iter().zip(names);
        if let Some((_, name)) = slots.find(|(input, name)| **input == operand && name.is_none()) {
            *name = Some(key.to_owned());
            return Ok(());
        }
        let [operator, key, name] = [current.line.name, key, operand].map(str::to_owned);
        let problem = SyntaxProblem::NotAnInput { operator, key, operand: name };
        Err(current.source.error_at_word(operand, problem))
    }

    fn operand_shape<'a>(
        &mut self,
        current: &Current<'a>,
        name: &'a str,
        shape: Vec<Dim>,
        dtype: Option<DType>,
    ) -> Loaded {
        let error = |problem| Err(current.source.error_at_word(name, problem));
        let Some(operand) = self.linked_operand(current.id, name) else {
            let [operator, operand] = [current.line.name, name].map(str::to_owned);
            return error(SyntaxProblem::NotConnected { operator, operand });
        };
        if !fits(&shape, dtype) {
            return error(SyntaxProblem::TooLarge);
        }
        let rank = shape.len();
        match within(|| format!("operand `{name}`"), |what| self.limits.check_rank(what, rank)) {
            Ok(()) => self.set_shape(operand, current.source, shape, dtype),
            Err(limit) => error(limit.into()),
        }
    }

    /// The operand with this name, if the operator reads or computes it.
    fn linked_operand(&self, id: OperatorId, name: &str) -> Option<OperandId> {
        let (operator, operand) = (self.graph.get_operator(id)?, self.graph.operand_named(name)?);
        let mut linked = operator.outputs().iter().chain(operator.inputs());
        linked.any(|&other| other == operand).then_some(operand)
    }

    /// Sets the shape of an operand. Every operator repeats the shapes of its operands; if they differ, the last one
    /// wins, because shapes are only hints.
    fn set_shape(
        &mut self,
        id: OperandId,
        source: Source<'_>,
        shape: Vec<Dim>,
        dtype: Option<DType>,
    ) -> Loaded {
        let operand = self.graph.operand_mut(id)?;
        let (shape, file) = (Some(shape), source.file);
        if operand.shape.is_some() && (&operand.shape, operand.dtype) != (&shape, dtype) {
            log::warn!(
                "{file}:{}: operand `{}` has another shape on an earlier line",
                source.number,
                operand.name
            );
        }
        (operand.shape, operand.dtype) = (shape, dtype);
        Ok(())
    }
}

impl<'a> Current<'a> {
    /// Inserts a value into a vacant slot. An occupied slot is an error: the key is a duplicate.
    fn fill<V>(&self, slot: Slot<'_, String, V>, value: V, sign: &str, key: &'a str) -> Loaded {
        match slot {
            Slot::Vacant(free) => {
                free.insert(value);
                Ok(())
            }
            Slot::Occupied(_) => {
                let (operator, named) = (self.line.name.to_owned(), format!("{sign}{key}"));
                let problem = SyntaxProblem::DuplicateKey { operator, key: named };
                Err(self.source.error_at_word(key, problem))
            }
        }
    }
}

/// Checks a limit. The name for the error is only built if the check fails: building it costs more than the check.
fn within(
    what: impl Fn() -> String,
    check: impl Fn(&str) -> Result<(), LimitError>,
) -> Result<(), LimitError> {
    check("").or_else(|_| check(&what()))
}

/// Returns whether the size in bytes of a tensor fits an `i64`, counting unknown sizes as 1.
fn fits(shape: &[Dim], dtype: Option<DType>) -> bool {
    let size = |dim: &Dim| match dim {
        Dim::Fixed(size) => (*size).max(1),
        Dim::Unknown | Dim::Named(_) => 1,
    };
    let element = dtype.map_or(1, DType::size) as u64;
    let bytes = shape.iter().try_fold(element, |bytes, dim| bytes.checked_mul(size(dim)));
    bytes.is_some_and(|bytes| i64::try_from(bytes).is_ok())
}

/// The error for an unknown input: it is computed on the same line, on a later line, or not at all.
fn unknown_input(line: &Line<'_>, name: &str, later: &[Source<'_>]) -> SyntaxProblem {
    let (operator, operand) = (line.name.to_owned(), name.to_owned());
    if line.outputs.contains(&name) {
        return SyntaxProblem::FeedsItself { operator, operand };
    }
    let computes = |source: &&Source<'_>| {
        text::operator_line(source.text).is_ok_and(|line| line.outputs.contains(&name))
    };
    match later.iter().find(computes) {
        Some(source) => SyntaxProblem::ReadBeforeComputed { operator, operand, line: source.number },
        None => SyntaxProblem::UnknownOperand { operator, operand },
    }
}
