//! From the lines of a text to a graph.

use super::place::{Source, error_at, lines, shorten};
use crate::Limits;
use crate::pnnx::attribute::{Attribute, Origin};
use crate::pnnx::error::PnnxError;
use crate::pnnx::graph::Graph;
use crate::pnnx::operand::{Dim, OperandId};
use crate::pnnx::operator::OperatorId;
use crate::pnnx::parameter::Parameter;
use crate::pnnx::text::{self, Field, Line, MAGIC, Stop, SyntaxProblem, is_blank};
use crate::tensor::DType;
use std::collections::btree_map::Entry as Slot;

type Loaded<T = ()> = Result<T, PnnxError>;

/// Turns a text into a graph. `file` is its name in messages.
pub(super) fn load(file: &str, text: &str, limits: &Limits) -> Loaded<Graph> {
    let lines = lines(file, text);
    let (header, operators) = lines.split_at_checked(2).unwrap_or((&lines, &[]));
    let header = Header::read(file, header, limits)?;
    header.check_operators(operators.len())?;
    let graph = Graph::with_capacity(operators.len(), operators.len());
    let mut loader = Loader {
        limits,
        graph,
        weights: 0,
    };
    for (index, &source) in operators.iter().enumerate() {
        loader.operator(source, operators.get(index + 1..).unwrap_or_default())?;
    }
    header.check_operands(loader.graph.operand_count())?;
    Ok(loader.graph)
}

/// The first two lines: the magic number, and how much is to come.
struct Header<'a> {
    counts: Source<'a>,
    operators: usize,
    operands: usize,
}

impl<'a> Header<'a> {
    fn read(file: &str, lines: &[Source<'a>], limits: &Limits) -> Loaded<Self> {
        let Some(magic) = lines.first() else {
            return Err(error_at(file, 1, 1, SyntaxProblem::Empty));
        };
        let found = magic.text.trim_matches(is_blank);
        if found != MAGIC {
            return Err(magic.error(SyntaxProblem::Magic {
                found: shorten(found),
            }));
        }
        let Some(&counts) = lines.get(1) else {
            let wanted = "the numbers of operators and operands on the next line";
            return Err(magic.error_at_stop(Stop { at: "", wanted }));
        };
        let (operators, operands) = text::counts(counts.text).map_err(|stop| counts.error_at_stop(stop))?;
        for (what, count) in [
            ("the number of operators", operators),
            ("the number of operands", operands),
        ] {
            limits
                .check_ops(what, count)
                .map_err(|error| counts.error(error.into()))?;
        }
        Ok(Self {
            counts,
            operators,
            operands,
        })
    }

    fn check_operators(&self, found: usize) -> Loaded {
        if self.operators == found {
            return Ok(());
        }
        Err(self.counts.error(SyntaxProblem::OperatorCount {
            wanted: self.operators,
            found,
        }))
    }

    fn check_operands(&self, found: usize) -> Loaded {
        if self.operands == found {
            return Ok(());
        }
        let mut words = self.counts.text.split(is_blank).filter(|word| !word.is_empty());
        let second = words.nth(1).unwrap_or_default();
        Err(self.counts.error_at_word(
            second,
            SyntaxProblem::OperandCount {
                wanted: self.operands,
                found,
            },
        ))
    }
}

/// Adds line after line to a graph.
struct Loader<'a> {
    limits: &'a Limits,
    graph: Graph,
    /// Bytes of all attributes so far.
    weights: u64,
}

impl Loader<'_> {
    fn operator<'a>(&mut self, source: Source<'a>, later: &[Source<'a>]) -> Loaded {
        let line = text::operator_line(source.text).map_err(|stop| source.error_at_stop(stop))?;
        let Ok(id) = self.graph.new_operator(line.op_type, line.name) else {
            let first = self
                .graph
                .operator_named(line.name)
                .and_then(|id| self.line_of(id));
            let (operator, line_number) = (line.name.to_owned(), first.unwrap_or_default());
            let problem = SyntaxProblem::DuplicateOperator {
                operator,
                line: line_number,
            };
            return Err(source.error_at_word(line.name, problem));
        };
        self.graph.operator_mut(id)?.line = Some(source.number);
        self.inputs(id, source, &line, later)?;
        self.outputs(id, source, &line)?;
        for field in &line.fields {
            self.field(id, source, &line, field)?;
        }
        Ok(())
    }

    fn inputs<'a>(
        &mut self,
        id: OperatorId,
        source: Source<'a>,
        line: &Line<'a>,
        later: &[Source<'a>],
    ) -> Loaded {
        for &name in &line.inputs {
            match self.graph.operand_named(name) {
                Some(operand) => self.graph.connect_input(id, operand, None)?,
                None => return Err(source.error_at_word(name, unknown_input(line, name, later))),
            }
        }
        Ok(())
    }

    fn outputs<'a>(&mut self, id: OperatorId, source: Source<'a>, line: &Line<'a>) -> Loaded {
        for &name in &line.outputs {
            let Ok(operand) = self.graph.new_operand(name) else {
                let (operand, line) = (name.to_owned(), self.line_computing(name).unwrap_or_default());
                return Err(source.error_at_word(name, SyntaxProblem::ComputedTwice { operand, line }));
            };
            self.graph.connect_output(id, operand)?;
        }
        Ok(())
    }

    fn line_of(&self, id: OperatorId) -> Option<usize> {
        self.graph.get_operator(id)?.line()
    }

    fn line_computing(&self, operand: &str) -> Option<usize> {
        let operand = self.graph.get_operand(self.graph.operand_named(operand)?)?;
        // The producer of the same line is the operator that is being read.
        self.line_of(operand.producer()?)
    }

    fn field<'a>(
        &mut self,
        id: OperatorId,
        source: Source<'a>,
        line: &Line<'a>,
        field: &Field<'a>,
    ) -> Loaded {
        match *field {
            Field::Param { key, value } => {
                let slot = self.graph.operator_mut(id)?.params.entry(key.to_owned());
                match fill(slot, Parameter::parse(value)) {
                    true => Ok(()),
                    false => Err(source.error_at_word(key, duplicate_key(line, "", key))),
                }
            }
            Field::Attr {
                key,
                ref shape,
                dtype,
            } => self.attribute(id, source, line, (key, shape, dtype)),
            Field::InputName { key, operand } => self.input_name(id, source, line, (key, operand)),
            Field::Shape {
                operand,
                ref shape,
                dtype,
            } => self.operand_shape(id, source, line, (operand, shape, dtype)),
        }
    }

    fn attribute<'a>(
        &mut self,
        id: OperatorId,
        source: Source<'a>,
        line: &Line<'a>,
        (key, sizes, dtype): (&'a str, &[u64], DType),
    ) -> Loaded {
        let origin = Origin {
            operator: line.name.to_owned(),
            key: key.to_owned(),
        };
        let shape: Option<Vec<usize>> = sizes.iter().map(|&size| usize::try_from(size).ok()).collect();
        let Some(attribute) = shape.and_then(|shape| Attribute::announced(dtype, shape, origin)) else {
            return Err(source.error_at_word(key, SyntaxProblem::TooLarge));
        };
        let bytes = attribute.byte_len() as u64;
        self.weights = self.weights.saturating_add(bytes);
        let what = format!("attribute `{key}` of operator `{}`", line.name);
        let check = self.limits.check_rank(&what, sizes.len());
        let check = check.and_then(|()| self.limits.check_tensor(&what, bytes));
        let check = check.and_then(|()| self.limits.check_total("all weights together", self.weights));
        check.map_err(|error| source.error_at_word(key, error.into()))?;
        match fill(
            self.graph.operator_mut(id)?.attrs.entry(key.to_owned()),
            attribute,
        ) {
            true => Ok(()),
            false => Err(source.error_at_word(key, duplicate_key(line, "@", key))),
        }
    }

    /// Names the first still unnamed input that is this operand: one operand can be several arguments.
    fn input_name<'a>(
        &mut self,
        id: OperatorId,
        source: Source<'a>,
        line: &Line<'a>,
        (key, operand): (&'a str, &'a str),
    ) -> Loaded {
        let mut slots = line
            .inputs
            .iter()
            .zip(&mut self.graph.operator_mut(id)?.input_names);
        if let Some((_, name)) = slots.find(|(input, name)| **input == operand && name.is_none()) {
            *name = Some(key.to_owned());
            return Ok(());
        }
        let [operator, key, name] = [line.name, key, operand].map(str::to_owned);
        let problem = SyntaxProblem::NotAnInput {
            operator,
            key,
            operand: name,
        };
        Err(source.error_at_word(operand, problem))
    }

    fn operand_shape<'a>(
        &mut self,
        id: OperatorId,
        source: Source<'a>,
        line: &Line<'a>,
        (name, shape, dtype): (&'a str, &[Dim], Option<DType>),
    ) -> Loaded {
        let Some(operand) = self.linked_operand(id, name) else {
            let [operator, operand] = [line.name, name].map(str::to_owned);
            return Err(source.error_at_word(name, SyntaxProblem::NotConnected { operator, operand }));
        };
        if !fits(shape, dtype) {
            return Err(source.error_at_word(name, SyntaxProblem::TooLarge));
        }
        let check = self.limits.check_rank(&format!("operand `{name}`"), shape.len());
        check.map_err(|error| source.error_at_word(name, error.into()))?;
        self.set_shape(operand, source, shape, dtype)
    }

    /// The operand of that name if the operator reads or computes it.
    fn linked_operand(&self, id: OperatorId, name: &str) -> Option<OperandId> {
        let (operator, operand) = (self.graph.get_operator(id)?, self.graph.operand_named(name)?);
        let mut linked = operator.outputs().iter().chain(operator.inputs());
        linked.any(|&other| other == operand).then_some(operand)
    }

    /// Every operator repeats the shapes of its operands. If they differ, the last one counts: shapes are
    /// hints.
    fn set_shape(
        &mut self,
        id: OperandId,
        source: Source<'_>,
        shape: &[Dim],
        dtype: Option<DType>,
    ) -> Loaded {
        let operand = self.graph.operand_mut(id)?;
        if operand.shape.as_deref() == Some(shape) && operand.dtype == dtype {
            return Ok(());
        }
        if operand.shape.is_some() {
            let Source { file, number, .. } = source;
            log::warn!(
                "{file}:{number}: operand `{}` had another shape before",
                operand.name
            );
        }
        (operand.shape, operand.dtype) = (Some(shape.to_vec()), dtype);
        Ok(())
    }
}

/// Whether a tensor of this shape has at most 2^63 bytes, taking unknown sizes for 1.
fn fits(shape: &[Dim], dtype: Option<DType>) -> bool {
    let size = |dim: &Dim| match dim {
        Dim::Fixed(size) => (*size).max(1),
        Dim::Unknown | Dim::Named(_) => 1,
    };
    let element = dtype.map_or(1, DType::size) as u64;
    let bytes = shape
        .iter()
        .try_fold(element, |bytes, dim| bytes.checked_mul(size(dim)));
    bytes.is_some_and(|bytes| i64::try_from(bytes).is_ok())
}

/// Puts a value into a free slot; false if it is taken.
fn fill<K: Ord, V>(slot: Slot<'_, K, V>, value: V) -> bool {
    match slot {
        Slot::Vacant(free) => {
            free.insert(value);
            true
        }
        Slot::Occupied(_) => false,
    }
}

fn duplicate_key(line: &Line<'_>, sign: &str, key: &str) -> SyntaxProblem {
    SyntaxProblem::DuplicateKey {
        operator: line.name.to_owned(),
        key: format!("{sign}{key}"),
    }
}

/// Why an input is not known: it is computed by the same line, by a later one, or nowhere.
fn unknown_input(line: &Line<'_>, name: &str, later: &[Source<'_>]) -> SyntaxProblem {
    let (operator, operand) = (line.name.to_owned(), name.to_owned());
    if line.outputs.contains(&name) {
        return SyntaxProblem::FeedsItself { operator, operand };
    }
    let computes = |source: &&Source<'_>| {
        text::operator_line(source.text).is_ok_and(|line| line.outputs.contains(&name))
    };
    match later.iter().find(computes) {
        Some(source) => SyntaxProblem::ReadBeforeComputed {
            operator,
            operand,
            line: source.number,
        },
        None => SyntaxProblem::UnknownOperand { operator, operand },
    }
}
