//! Eliminates the variables, the one with the smallest table first, and goes back to choose the best value of each.

use super::choices::{Choices, Term, entry_of, spread};
use std::cmp::Reverse;
use std::collections::BTreeSet;

// ANCHOR: eliminating
/// The best response of a variable to each combination of options of the variables in `scope`: the lowest total price of
/// `terms`, and the first option that has it. Both lists are tables over `scope`, which holds all variables of the terms but
/// this one.
pub fn best_responses(
    options: &[usize],
    terms: &[Term],
    variable: usize,
    scope: &[usize],
) -> (Vec<f64>, Vec<usize>) {
    // ANCHOR: best_responses_todo -- task 3: for each entry of the table try every option of the variable, and keep the cheapest
    let entries: usize = scope.iter().map(|&other| options[other]).product();
    let (mut prices, mut best) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
    let mut assignment = vec![0; options.len()];
    for entry in 0..entries {
        spread(entry, scope, options, &mut assignment);
        let (mut option, mut least) = (0, f64::INFINITY);
        for candidate in 0..options[variable] {
            assignment[variable] = candidate;
            let price: f64 = terms.iter().map(|term| term.price(options, &assignment)).sum();
            if price < least {
                (option, least) = (candidate, price);
            }
        }
        prices.push(least);
        best.push(option);
    }
    (prices, best)
    // ANCHOR_END: best_responses_todo
}

/// A variable that was eliminated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// Its position.
    pub variable: usize,
    /// The variables that its best option depends on, in ascending order. All of them were eliminated later.
    pub scope: Vec<usize>,
    /// Its best option for each combination of their options: a table over the scope.
    pub best: Vec<usize>,
}

/// An option for each variable, which were decided in this order.
pub fn unwind(options: &[usize], decided: &[Decided]) -> Vec<usize> {
    // ANCHOR: unwind_todo -- task 3: from the last to the first, look up the best option given those that are already assigned
    let mut assignment = vec![0; options.len()];
    for Decided { variable, scope, best } in decided.iter().rev() {
        assignment[*variable] = best[entry_of(scope, options, &assignment)];
    }
    assignment
    // ANCHOR_END: unwind_todo
}
// ANCHOR_END: eliminating

// ANCHOR: elimination
/// The maximum number of entries of a table.
const MAX_TABLE_ENTRIES: usize = 1 << 13;

/// The variables that are left, and the decisions about the others.
#[derive(Debug)]
pub struct Elimination<'a> {
    options: Vec<usize>,
    incumbent: &'a [usize],
    /// The terms that are still in use, by position; others are `None`.
    terms: Vec<Option<Term>>,
    /// The positions of the terms of each variable.
    of_variable: Vec<Vec<usize>>,
    /// The variables that are left, each preceded by the size of the table that eliminating it takes.
    left: BTreeSet<(usize, usize)>,
    table_lens: Vec<usize>,
    /// In the order of elimination.
    decided: Vec<Decided>,
}

impl<'a> Elimination<'a> {
    /// Starts with all variables left, and with a known assignment, the incumbent.
    pub fn new(choices: &Choices, incumbent: &'a [usize]) -> Self {
        let count = choices.options.len();
        let mut elimination = Self {
            options: choices.options.clone(),
            incumbent,
            terms: choices.terms.iter().cloned().map(Some).collect(),
            of_variable: choices.by_variable(),
            left: (0..count).map(|variable| (0, variable)).collect(),
            table_lens: vec![0; count],
            decided: Vec::new(),
        };
        (0..count).for_each(|variable| elimination.measure(variable));
        elimination
    }

    /// The variables that are decided, in the order of elimination.
    pub fn decided(&self) -> &[Decided] {
        &self.decided
    }

    /// Decides one more variable. Returns false if none is left.
    pub fn step(&mut self) -> bool {
        let Some(&(entries, variable)) = self.left.first() else { return false };
        if entries <= MAX_TABLE_ENTRIES {
            self.eliminate(variable);
        } else {
            let count =
                |&(_, variable): &(usize, usize)| (self.neighbours(variable).len(), Reverse(variable));
            let busiest = self.left.iter().copied().max_by_key(count);
            self.fix(busiest.map_or(variable, |found| found.1));
        }
        true
    }

    /// Updates the size of the table that eliminating a variable takes.
    fn measure(&mut self, variable: usize) {
        let len = self.table_len(variable);
        let known = std::mem::replace(&mut self.table_lens[variable], len);
        if self.left.remove(&(known, variable)) {
            self.left.insert((len, variable));
        }
    }

    /// Records the decision about a variable, which depends on the options of those in the scope.
    fn decide(&mut self, variable: usize, scope: Vec<usize>, best: Vec<usize>) {
        self.left.remove(&(self.table_lens[variable], variable));
        self.decided.push(Decided { variable, scope, best });
    }

    /// The variables that share a term with this one.
    fn neighbours(&self, variable: usize) -> Vec<usize> {
        let terms = self.of_variable[variable].iter().filter_map(|&term| self.terms[term].as_ref());
        let mut found: Vec<usize> = terms.flat_map(|term| term.scope.iter().copied()).collect();
        found.sort_unstable();
        found.dedup();
        found.retain(|other| *other != variable);
        found
    }

    /// The number of prices that eliminating a variable looks at.
    fn table_len(&self, variable: usize) -> usize {
        let sizes = self.neighbours(variable).into_iter().chain([variable]).map(|v| self.options[v]);
        sizes.fold(1, usize::saturating_mul)
    }

    /// Replaces a variable by its best responses.
    fn eliminate(&mut self, variable: usize) {
        let scope = self.neighbours(variable);
        let terms = self.take_terms(variable);
        let (prices, best) = best_responses(&self.options, &terms, variable, &scope);
        if !scope.is_empty() {
            self.push_term(Term { scope: scope.clone(), prices });
        }
        scope.iter().for_each(|&other| self.measure(other));
        self.decide(variable, scope, best);
    }

    /// Fixes a variable to its option in the incumbent.
    fn fix(&mut self, variable: usize) {
        let (option, neighbours) = (self.incumbent[variable], self.neighbours(variable));
        for mut term in self.take_terms(variable) {
            let Some(axis) = term.scope.iter().position(|&v| v == variable) else { continue };
            let inner: usize = term.scope[axis + 1..].iter().map(|&v| self.options[v]).product();
            let len = self.options[variable];
            let rows = term.prices.chunks(inner * len);
            term.prices =
                rows.flat_map(|row| row[option * inner..(option + 1) * inner].iter().copied()).collect();
            term.scope.remove(axis);
            if !term.scope.is_empty() {
                self.push_term(term);
            }
        }
        neighbours.iter().for_each(|&other| self.measure(other));
        self.decide(variable, Vec::new(), vec![option]);
    }

    fn take_terms(&mut self, variable: usize) -> Vec<Term> {
        let positions = std::mem::take(&mut self.of_variable[variable]);
        let terms: Vec<Term> = positions.iter().filter_map(|&term| self.terms[term].take()).collect();
        for other in terms.iter().flat_map(|term| term.scope.iter().copied()) {
            self.of_variable[other].retain(|term| !positions.contains(term));
        }
        terms
    }

    fn push_term(&mut self, term: Term) {
        let position = self.terms.len();
        term.scope.iter().for_each(|&variable| self.of_variable[variable].push(position));
        self.terms.push(Some(term));
    }
}
// ANCHOR_END: elimination
