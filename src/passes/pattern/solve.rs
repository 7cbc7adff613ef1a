//! Searching a graph for a pattern, by backtracking.
//!
//! The search starts at each operator that may compute the pattern's first output. From there it follows the pattern's
//! operands, back to producers and forward to consumers. If there are several candidates (the inputs of a sum, in either
//! order), the next one is tried when the one before does not lead to a match.

use super::compare::{bind_operand, match_params, used_elsewhere};
use super::expression::{Binding, bindings};
use super::value::Captures;
use super::{DimPattern, FactPattern, OperatorPattern, Pattern, TypePattern};
use crate::op::TensorMeta;
use crate::passes::PassContext;
use crate::pnnx::{Attribute, Expr, Graph, Operand, OperandId, Operator, OperatorId};
use crate::tensor::Dim;
use std::collections::{BTreeMap, HashSet};

/// A match, or part of one: the graph's operators and operands by their position in the pattern.
#[derive(Debug, Clone)]
pub(in crate::passes) struct Found {
    operators: Vec<Option<OperatorId>>,
    operands: Vec<Option<OperandId>>,
    pub(in crate::passes) params: Captures,
    pub(in crate::passes) dims: BTreeMap<String, Dim>,
}

impl Found {
    /// The operators to be replaced, in the order of the pattern.
    pub(in crate::passes) fn replaced(&self, pattern: &Pattern) -> impl Iterator<Item = OperatorId> {
        let all = self.operators.iter().zip(&pattern.operators);
        all.filter(|(_, wanted)| !wanted.stays).filter_map(|(id, _)| *id)
    }

    pub(in crate::passes) fn operator(&self, pattern: &Pattern, name: &str) -> Option<OperatorId> {
        self.operators.get(pattern.operator(name)?).copied().flatten()
    }

    pub(in crate::passes) fn operand(&self, pattern: &Pattern, name: &str) -> Option<OperandId> {
        self.operands.get(pattern.operand(name)?).copied().flatten()
    }

    /// The operands that a pattern returns, with their names in the pattern.
    pub(in crate::passes) fn outputs(&self, pattern: &Pattern) -> Vec<(String, OperandId)> {
        let named = |&at: &usize| {
            Some((pattern.operands.get(at)?.clone(), self.operands.get(at).copied().flatten()?))
        };
        pattern.outputs.iter().filter_map(named).collect()
    }
}

/// The reason why a near match fails, or `None` if nothing resembles the pattern.
type Miss = Option<String>;

/// Searches one graph for one pattern.
#[derive(Debug, Clone, Copy)]
pub(in crate::passes) struct Solver<'a> {
    pub(in crate::passes) pattern: &'a Pattern,
    pub(in crate::passes) graph: &'a Graph,
    pub(in crate::passes) context: &'a PassContext,
    /// Operators that must stay as they are.
    pub(in crate::passes) frozen: &'a HashSet<OperatorId>,
}

impl Solver<'_> {
    /// Tries an operator as the one that computes the pattern's first output. `accept` may still refuse a match.
    ///
    /// # Errors
    /// The reason if a near match is refused, by `accept` or by the graph; `None` if nothing resembles the pattern.
    pub(in crate::passes) fn solve<T>(
        &self,
        anchor: OperatorId,
        accept: &mut dyn FnMut(&Found) -> Result<T, String>,
    ) -> Result<(Found, T), Miss> {
        let first =
            self.pattern.outputs.first().and_then(|&output| self.pattern.producer(output)).ok_or(None)?;
        let types = &self.pattern.operators.get(first).ok_or(None)?.types;
        let op_type = self.graph.get_operator(anchor).ok_or(None)?.op_type();
        if !types.iter().any(|wanted| wanted == op_type) {
            return Err(None);
        }
        let empty = Found {
            operators: vec![None; self.pattern.operators.len()],
            operands: vec![None; self.pattern.operands.len()],
            params: Captures::new(),
            dims: BTreeMap::new(),
        };
        self.try_operator(first, anchor, &empty, accept)
    }

    fn extend<T>(
        &self,
        found: &Found,
        accept: &mut dyn FnMut(&Found) -> Result<T, String>,
    ) -> Result<(Found, T), Miss> {
        // The caller checks the deadline before the next operator, and reports the error.
        let is_late = self.context.limits().check_deadline().is_err();
        if is_late || !self.has_its_inputs(found) {
            return Err(None);
        }
        if let Some((next, candidates)) = self.next(found) {
            return first(candidates, |candidate| self.try_operator(next, candidate, found, accept));
        }
        if let Some((next, candidates)) = self.next_input(found) {
            return first(candidates, |candidate| {
                let mut way = found.clone();
                bind_operand(&mut way.operands, next, candidate);
                self.extend(&way, accept)
            });
        }
        let found = self.complete(found.clone()).map_err(Some)?;
        let accepted = accept(&found).map_err(Some)?;
        Ok((found, accepted))
    }

    fn try_operator<T>(
        &self,
        at: usize,
        candidate: OperatorId,
        found: &Found,
        accept: &mut dyn FnMut(&Found) -> Result<T, String>,
    ) -> Result<(Found, T), Miss> {
        first(self.bind(at, candidate, found)?, |way| self.extend(&way, accept))
    }

    /// The next operator of the pattern to bind, and its candidates: the producer of a bound operand, else the consumers of
    /// one.
    fn next(&self, found: &Found) -> Option<(usize, Vec<OperatorId>)> {
        let known = |&operand: &usize| found.operands.get(operand).copied().flatten();
        let open = || {
            let unbound = |at: &usize| found.operators.get(*at).is_some_and(Option::is_none);
            self.pattern.operators.iter().enumerate().filter(move |(at, _)| unbound(at))
        };
        let producer = open().find_map(|(at, operator)| {
            let operand = operator.outputs.iter().find_map(known)?;
            Some((at, self.graph.operand(operand).producer().into_iter().collect()))
        });
        producer.or_else(|| {
            open().find_map(|(at, operator)| {
                let operand = operator.inputs.iter().find_map(|(_, operand)| known(operand))?;
                let mut consumers = self.graph.operand(operand).consumers().to_vec();
                consumers.dedup();
                Some((at, consumers))
            })
        })
    }

    /// The bound operators whose inputs have no order.
    fn unordered(&self, found: &Found) -> impl Iterator<Item = (&OperatorPattern, &Operator)> {
        let pairs = self.pattern.operators.iter().zip(&found.operators);
        let known = pairs.filter_map(|(wanted, id)| Some((wanted, self.graph.get_operator((*id)?)?)));
        known.filter(|(wanted, operator)| wanted.is_unordered(operator))
    }

    /// Returns true if the operators whose inputs have no order read all operands bound to their inputs so far.
    fn has_its_inputs(&self, found: &Found) -> bool {
        let known = |at: usize| found.operands.get(at).copied().flatten();
        self.unordered(found).all(|(wanted, operator)| {
            let mut inputs = wanted.inputs.iter().filter_map(|(_, at)| known(*at));
            inputs.all(|operand| operator.inputs().contains(&operand))
        })
    }

    /// The next operand of the pattern to bind among inputs that have no order, and its candidates. Operands with a producer
    /// in the pattern come first, since the producer's type leaves few candidates.
    fn next_input(&self, found: &Found) -> Option<(usize, Vec<OperandId>)> {
        let is_open = |at: usize| found.operands.get(at).is_some_and(Option::is_none);
        let open = || {
            let all = self.unordered(found);
            let all =
                all.flat_map(|(wanted, operator)| wanted.inputs.iter().map(move |(_, at)| (*at, operator)));
            all.filter(|(at, _)| is_open(*at))
        };
        let (next, operator) =
            open().find(|(at, _)| self.pattern.producer(*at).is_some()).or_else(|| open().next())?;
        let mut operands = operator.inputs().to_vec();
        operands.sort_unstable();
        operands.dedup();
        operands.retain(|&operand| self.may_be(next, operand));
        Some((next, operands))
    }

    /// All extensions of a match that bind operator `at` of the pattern to an operator of the graph.
    fn bind(&self, at: usize, candidate: OperatorId, found: &Found) -> Result<Vec<Found>, Miss> {
        let wanted = self.pattern.operators.get(at).ok_or(None)?;
        let operator = self.graph.get_operator(candidate).ok_or(None)?;
        let alike = wanted.types.iter().any(|op_type| op_type == operator.op_type())
            && wanted.outputs.len() == operator.outputs().len()
            && !found.operators.contains(&Some(candidate));
        if !alike {
            return Err(None);
        }
        let others = found.operators.iter().any(Option::is_some);
        let near = |reason: String| others.then_some(reason);
        let mut found = found.clone();
        if let Some(slot) = found.operators.get_mut(at) {
            *slot = Some(candidate);
        }
        for (&output, &operand) in wanted.outputs.iter().zip(operator.outputs()) {
            if !bind_operand(&mut found.operands, output, operand) {
                return Err(None);
            }
        }
        let ways = self.bind_inputs(wanted, operator, found, &near)?;
        if !wanted.stays && self.frozen.contains(&candidate) {
            return Err(Some(format!("data is written through `{}`", operator.name())));
        }
        Ok(ways)
    }

    fn bind_inputs(
        &self,
        wanted: &OperatorPattern,
        operator: &Operator,
        mut found: Found,
        near: &dyn Fn(String) -> Miss,
    ) -> Result<Vec<Found>, Miss> {
        match_params(&wanted.params, wanted.open, operator, &mut found.params).map_err(near)?;
        match_attributes(wanted, operator, &mut found).map_err(near)?;
        if let Some(expression) = &wanted.expression {
            return Ok(bind_expression(expression, wanted, operator, &found));
        }
        let (few, count) = (wanted.inputs.len(), operator.inputs().len());
        if few > count || (few < count && !wanted.further) {
            return Err(None);
        }
        if wanted.is_unordered(operator) {
            return Ok(vec![found]);
        }
        let mut ways = Vec::new();
        ways.extend(bind_in_order(wanted, operator, found.clone(), false));
        if wanted.either_way {
            ways.extend(bind_in_order(wanted, operator, found, true));
        }
        Ok(ways)
    }

    /// Returns true if the producer of an operand has a type that the pattern allows for operand `at`.
    fn may_be(&self, at: usize, operand: OperandId) -> bool {
        let Some(wanted) = self.pattern.producer(at).and_then(|at| self.pattern.operators.get(at)) else {
            return true;
        };
        let producer = self.graph.operand(operand).producer().map(|id| self.graph.operator(id).op_type());
        producer.is_some_and(|op_type| wanted.types.iter().any(|wanted| wanted == op_type))
    }

    /// Checks the match as a whole: operands that vanish must not be used elsewhere, and the facts must match.
    fn complete(&self, mut found: Found) -> Result<Found, String> {
        self.check_uses(&found)?;
        for fact in &self.pattern.facts {
            self.check_fact(fact, &mut found)?;
        }
        Ok(found)
    }

    fn check_uses(&self, found: &Found) -> Result<(), String> {
        let matched: HashSet<OperatorId> = found.replaced(self.pattern).collect();
        for (at, operand) in found.operands.iter().enumerate() {
            let Some(id) = *operand else { continue };
            let operand = self.graph.operand(id);
            let inside = operand.producer().is_some_and(|producer| matched.contains(&producer));
            if inside && self.pattern.inputs.contains(&at) {
                return Err(format!("`{}` is both an input and a result of the match", operand.name()));
            }
            if self.pattern.is_interior(at) {
                if let Some(consumer) = used_elsewhere(self.graph, id, &matched) {
                    let consumer = self.graph.operator(consumer).name();
                    return Err(format!("`{}` is also used by `{consumer}`", operand.name()));
                }
            } else if inside {
                self.check_order(operand, &matched)?;
            }
        }
        Ok(())
    }

    /// The replacement is placed at the last operator of the match, so no consumer may come before it.
    fn check_order(&self, operand: &Operand, matched: &HashSet<OperatorId>) -> Result<(), String> {
        let mut left = matched.len();
        for id in self.graph.operator_ids() {
            if left == 0 {
                break;
            } else if matched.contains(id) {
                left -= 1;
            } else if operand.consumers().contains(id) {
                let consumer = self.graph.operator(*id).name();
                return Err(format!(
                    "`{consumer}` needs `{}` before the whole match is computed",
                    operand.name()
                ));
            }
        }
        Ok(())
    }

    fn check_fact(&self, fact: &FactPattern, found: &mut Found) -> Result<(), String> {
        let Some(operand) = found.operands.get(fact.operand).copied().flatten() else { return Ok(()) };
        let name = self.graph.operand(operand).name();
        let meta = self.context.facts(self.graph).get(name);
        let meta = meta.ok_or_else(|| format!("type and shape of `{name}` are unknown"))?;
        if fact.wanted.matches(meta, found) { Ok(()) } else { Err(format!("`{name}` is {meta}")) }
    }
}

/// The first attempt that succeeds, else the first reason why one fails.
fn first<W, T>(
    ways: impl IntoIterator<Item = W>,
    mut attempt: impl FnMut(W) -> Result<T, Miss>,
) -> Result<T, Miss> {
    let mut miss = None;
    for way in ways {
        match attempt(way) {
            Ok(done) => return Ok(done),
            Err(reason) => miss = miss.or(reason),
        }
    }
    Err(miss)
}

impl OperatorPattern {
    /// Returns true if the pattern's inputs may be at any position among those of this operator.
    fn is_unordered(&self, operator: &Operator) -> bool {
        self.further && operator.op_type() == "pnnx.Expression" && self.expression.is_none()
    }
}

impl TypePattern {
    fn matches(&self, meta: &TensorMeta, found: &mut Found) -> bool {
        let dims = self.dims.as_deref().is_none_or(|dims| {
            dims.len() == meta.rank()
                && dims.iter().zip(meta.dims()).all(|(wanted, dim)| wanted.matches(dim, found))
        });
        dims && self.dtype.is_none_or(|dtype| dtype == meta.dtype())
    }

    fn describes(&self, attribute: &Attribute, found: &mut Found) -> bool {
        self.matches(&TensorMeta::new(attribute.dtype(), attribute.shape().iter().copied()), found)
    }
}

impl DimPattern {
    fn matches(&self, dim: &Dim, found: &mut Found) -> bool {
        match self {
            Self::Any => true,
            Self::Fixed(size) => dim.fixed() == Some(*size),
            Self::Capture(name) => match (found.dims.get(name), found.params.get(name)) {
                (Some(before), _) => before == dim,
                (None, Some(before)) => before.as_f64().ok() == dim.fixed().map(|size| size as f64),
                (None, None) => {
                    found.dims.insert(name.clone(), dim.clone());
                    true
                }
            },
        }
    }
}

/// Binds inputs by argument name if both the pattern and the file have names, else by position.
fn bind_in_order(
    wanted: &OperatorPattern,
    operator: &Operator,
    mut found: Found,
    swapped: bool,
) -> Option<Found> {
    let count = wanted.inputs.len();
    for (position, (key, operand)) in wanted.inputs.iter().enumerate() {
        let position = if swapped { count - 1 - position } else { position };
        let has_names = operator.input_names().iter().any(Option::is_some);
        let input = match key {
            Some(keys) if has_names => keys.split('|').find_map(|key| operator.named_input(key)),
            _ => operator.inputs().get(position).copied(),
        };
        if !bind_operand(&mut found.operands, *operand, input?) {
            return None;
        }
    }
    Some(found)
}

fn bind_expression(
    wanted: &Expr,
    pattern: &OperatorPattern,
    operator: &Operator,
    found: &Found,
) -> Vec<Found> {
    let expression = operator.param("expr").and_then(|expr| Expr::parse(expr.raw()).ok());
    let Some(expression) = expression else { return Vec::new() };
    let inputs = operator.inputs();
    let before = Binding { inputs: Vec::new(), captures: found.params.clone() };
    let same = |a: usize, b: usize| inputs.get(a) == inputs.get(b);
    let ways = bindings(wanted, &expression, before, &same);
    let bound = |way: Binding| {
        let mut found = Found { params: way.captures, ..found.clone() };
        for (wanted, input) in way.inputs {
            let ((_, operand), input) = (pattern.inputs.get(wanted)?, inputs.get(input)?);
            bind_operand(&mut found.operands, *operand, *input).then_some(())?;
        }
        Some(found)
    };
    ways.into_iter().filter_map(bound).collect()
}

fn match_attributes(wanted: &OperatorPattern, operator: &Operator, found: &mut Found) -> Result<(), String> {
    for attribute in &wanted.attrs {
        match (&attribute.wanted, operator.attr(&attribute.key)) {
            (_, None) if attribute.optional => {}
            (_, None) => return Err(format!("`{}` has no attribute `{}`", operator.name(), attribute.key)),
            (Some(wanted), Some(value)) if !wanted.describes(value, found) => {
                let (name, key, shape) = (operator.name(), &attribute.key, value.shape());
                return Err(format!("attribute `{key}` of `{name}` is {shape:?} {}", value.dtype()));
            }
            _ => {}
        }
    }
    let known = |key: &String| wanted.attrs.iter().any(|attribute| attribute.key == *key);
    match operator.attrs().keys().find(|key| !wanted.open && !known(key)) {
        Some(key) => Err(format!("`{}` has an attribute `{key}`", operator.name())),
        None => Ok(()),
    }
}
