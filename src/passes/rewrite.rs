//! Passes that replace patterns.

use super::context::frozen_operators;
use super::matched::Match;
use super::pattern::{Pattern, Solver, read_lines};
use super::replacement::{Draft, Edit, Problem, Replacement};
use super::{Outcome, Pass, PassContext, PassError, PatternError};
use crate::pnnx::{Graph, OperatorId};
use std::borrow::Cow;
use std::collections::HashSet;

/// Accepts a match, or refuses it with a reason.
pub type Check = fn(&Match<'_>) -> Result<(), String>;

/// Computes what text cannot express, such as the weights of two merged layers. An error refuses the match.
pub type Write = fn(&Match<'_>, &mut Replacement) -> Result<(), String>;

/// A pattern and its replacement.
#[derive(Debug, Clone)]
pub struct Rule {
    pattern: Cow<'static, str>,
    target: Target,
    checks: Vec<Check>,
    writes: Vec<Write>,
}

#[derive(Debug, Clone)]
enum Target {
    Text(Cow<'static, str>),
    Computed(fn(&Match<'_>) -> Result<Draft, String>),
}

impl Rule {
    /// Replaces `pattern` by `replacement`. See [`Pattern`] and [`Replacement`] for the syntax.
    pub fn new(pattern: impl Into<Cow<'static, str>>, replacement: impl Into<Cow<'static, str>>) -> Self {
        Self::to(pattern, Target::Text(replacement.into()))
    }

    /// Replaces `pattern` by what `replacement` returns for the match. An error of `replacement` refuses the match.
    pub fn computed(
        pattern: impl Into<Cow<'static, str>>,
        replacement: fn(&Match<'_>) -> Result<Draft, String>,
    ) -> Self {
        Self::to(pattern, Target::Computed(replacement))
    }

    fn to(pattern: impl Into<Cow<'static, str>>, target: Target) -> Self {
        Self { pattern: pattern.into(), target, checks: Vec::new(), writes: Vec::new() }
    }

    /// Fires only if `check` accepts the match.
    #[must_use]
    pub fn when(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    /// Completes the replacement with `write`.
    #[must_use]
    pub fn write(mut self, write: Write) -> Self {
        self.writes.push(write);
        self
    }
}

/// A pass made of rules, which are tried in order.
#[derive(Debug, Clone)]
pub struct Rewrite {
    name: &'static str,
    doc: &'static str,
    rules: Vec<Rule>,
}

impl Rewrite {
    /// A pass without rules.
    pub fn new(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, rules: Vec::new() }
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    fn pattern_error(&self, source: PatternError) -> PassError {
        PassError::Pattern { pass: self.name.to_owned(), source }
    }

    /// Tries the rules at one operator. Returns the edit, or the reasons why no rule fires.
    fn plan(&self, sweep: &Sweep<'_>, anchor: OperatorId) -> Result<Result<Edit, Vec<String>>, PassError> {
        let mut reasons = Vec::new();
        for (rule, pattern) in sweep.patterns {
            let solver = Solver { pattern, graph: sweep.graph, context: sweep.context, frozen: sweep.frozen };
            let mut fault = None;
            let mut accept = |found: &_| {
                let found = Match { graph: sweep.graph, context: sweep.context, pattern, found };
                rule.plan(&found).map_err(|problem| match problem {
                    Problem::Match(reason) => reason,
                    Problem::Text(error) => fault.insert(error).to_string(),
                })
            };
            let solved = solver.solve(anchor, &mut accept);
            if let Some(fault) = fault {
                return Err(self.pattern_error(fault));
            }
            match solved {
                Ok((_, plan)) => return Ok(Ok(plan)),
                Err(reason) => reasons.extend(reason),
            }
        }
        Ok(Err(reasons))
    }
}

/// The state shared by all rules at one operator.
struct Sweep<'a> {
    patterns: &'a [(&'a Rule, Pattern)],
    graph: &'a Graph,
    context: &'a PassContext,
    frozen: &'a HashSet<OperatorId>,
}

impl Rule {
    fn plan(&self, found: &Match<'_>) -> Result<Edit, Problem> {
        self.checks.iter().try_for_each(|check| check(found))?;
        let mut replacement = match &self.target {
            Target::Text(text) => Replacement::read(text, found)?,
            Target::Computed(compute) => compute(found)?.read(found)?,
        };
        self.writes.iter().try_for_each(|write| write(found, &mut replacement))?;
        replacement.refuse(found)?;
        Ok(replacement.plan(found))
    }
}

impl Pass for Rewrite {
    fn name(&self) -> &str {
        self.name
    }

    fn doc(&self) -> &str {
        self.doc
    }

    fn validate(&self) -> Result<(), PassError> {
        let check = |rule: &Rule| {
            Pattern::variants(&rule.pattern)?;
            match &rule.target {
                Target::Text(text) => read_lines(text).map(|_| ()),
                Target::Computed(_) => Ok(()),
            }
        };
        self.rules.iter().try_for_each(check).map_err(|source| self.pattern_error(source))
    }

    fn run(&self, graph: &mut Graph, context: &mut PassContext) -> Result<Outcome, PassError> {
        let mut patterns = Vec::new();
        for rule in &self.rules {
            let variants = Pattern::variants(&rule.pattern).map_err(|source| self.pattern_error(source))?;
            patterns.extend(variants.into_iter().map(|pattern| (rule, pattern)));
        }
        let max_fired = graph.operator_count().saturating_mul(4).saturating_add(16);
        let mut fired = 0;
        loop {
            let mut outcome = Outcome { fired, refused: Vec::new() };
            let frozen = frozen_operators(graph);
            for anchor in graph.operator_ids().iter().rev().copied().collect::<Vec<_>>() {
                context.limits().check_deadline().map_err(PassError::limit(self.name))?;
                if graph.get_operator(anchor).is_none() {
                    continue;
                }
                let sweep = Sweep { patterns: &patterns, graph, context, frozen: &frozen };
                match self.plan(&sweep, anchor)? {
                    Ok(plan) => {
                        plan.apply(graph).map_err(PassError::edit(self.name))?;
                        outcome.fired += 1;
                    }
                    Err(reasons) => {
                        let name = graph.operator(anchor).name();
                        reasons.into_iter().for_each(|reason| outcome.refuse(name, reason));
                    }
                }
            }
            if outcome.fired == fired {
                return Ok(outcome);
            }
            fired = outcome.fired;
            context.graph_changed();
            if fired > max_fired {
                return Err(PassError::Endless { pass: self.name.to_owned(), fired });
            }
        }
    }
}

#[cfg(test)]
mod tests;
