//! The cheapest choice for many variables at once, where the price of one choice depends on others.
//!
//! Each variable has a few options. Terms price the options of one variable or of several together; ∞ forbids a
//! combination. [`solve`] minimises the sum of all terms by bucket elimination (Dechter 1999): a variable is replaced by
//! the best that it can do for each choice of its neighbours, until none is left, and is set on the way back. The graphs of
//! networks are nearly chains, so that few variables ever depend on each other and the result is exact. Where too many
//! would, one of them is fixed first to what it has in the best assignment that local search found; the result is then
//! never worse than that assignment.

use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Variables that a term depends on, in ascending order.
type Scope = SmallVec<[usize; 4]>;

/// The most entries that a table may have.
const MOST_ENTRIES: usize = 1 << 13;

/// A price for every combination of options of a few variables.
#[derive(Debug, Clone)]
struct Term {
    scope: Scope,
    /// Row-major: the options of the last variable follow each other.
    prices: Vec<f64>,
}

/// Variables, and what combinations of their options cost.
#[derive(Debug, Clone, Default)]
pub(super) struct Choices {
    options: Vec<usize>,
    terms: Vec<Term>,
}

impl Choices {
    /// Adds a variable with a price for each option; there must be at least one. Returns its number.
    pub(super) fn add(&mut self, prices: Vec<f64>) -> usize {
        let variable = self.options.len();
        self.options.push(prices.len());
        self.terms.push(Term { scope: Scope::from_slice(&[variable]), prices });
        variable
    }

    /// Prices the options of a variable once more.
    pub(super) fn alone(&mut self, variable: usize, prices: Vec<f64>) {
        self.terms.push(Term { scope: Scope::from_slice(&[variable]), prices });
    }

    /// Prices the options of two different variables together.
    pub(super) fn pair(&mut self, a: usize, b: usize, price: impl Fn(usize, usize) -> f64) {
        let (first, second) = (a.min(b), a.max(b));
        let mut prices = Vec::with_capacity(self.options[first] * self.options[second]);
        for i in 0..self.options[first] {
            for j in 0..self.options[second] {
                prices.push(if a < b { price(i, j) } else { price(j, i) });
            }
        }
        self.terms.push(Term { scope: Scope::from_slice(&[first, second]), prices });
    }

    /// What an assignment costs.
    pub(super) fn price(&self, assignment: &[usize]) -> f64 {
        self.terms.iter().map(|term| term.price(&self.options, assignment)).sum()
    }

    /// The terms of each variable, by their positions.
    fn by_variable(&self) -> Vec<Vec<usize>> {
        let mut found = vec![Vec::new(); self.options.len()];
        for (position, term) in self.terms.iter().enumerate() {
            term.scope.iter().for_each(|&variable| found[variable].push(position));
        }
        found
    }
}

impl Term {
    /// The price of this combination; `assignment` holds an option for each variable there is.
    fn price(&self, options: &[usize], assignment: &[usize]) -> f64 {
        let index = self.scope.iter().fold(0, |index, &v| index * options[v] + assignment[v]);
        self.prices[index]
    }
}

/// The cheapest assignment, or nearly so (see the [module](self)); the same for the same choices. Where every assignment
/// is forbidden, some assignment.
pub(super) fn solve(choices: &Choices) -> Vec<usize> {
    let incumbent = improved(choices, greedy(choices));
    let mut elimination = Elimination::new(choices, &incumbent);
    while elimination.step() {}
    let found = elimination.assignment();
    if choices.price(&found) <= choices.price(&incumbent) { found } else { incumbent }
}

/// One variable after the other takes what is cheapest given those before it.
pub(super) fn greedy(choices: &Choices) -> Vec<usize> {
    let terms = choices.by_variable();
    let mut assignment = vec![0; choices.options.len()];
    for (variable, terms) in terms.iter().enumerate() {
        let decided = |&&term: &&usize| choices.terms[term].scope.iter().all(|&v| v <= variable);
        let known: Vec<usize> = terms.iter().filter(decided).copied().collect();
        set_best(choices, &known, variable, &mut assignment);
    }
    assignment
}

/// Local search: changes one variable at a time for as long as that helps.
fn improved(choices: &Choices, mut assignment: Vec<usize>) -> Vec<usize> {
    /// Enough for choices to travel along a network's branches; exactness does not depend on it.
    const ROUNDS: usize = 8;
    let terms = choices.by_variable();
    for _ in 0..ROUNDS {
        let before = assignment.clone();
        for (variable, terms) in terms.iter().enumerate() {
            set_best(choices, terms, variable, &mut assignment);
        }
        if assignment == before {
            break;
        }
    }
    assignment
}

/// Gives a variable its cheapest option in these terms; of equals what it has, else the first.
fn set_best(choices: &Choices, terms: &[usize], variable: usize, assignment: &mut [usize]) {
    let price = |assignment: &[usize]| -> f64 {
        terms.iter().map(|&term| choices.terms[term].price(&choices.options, assignment)).sum()
    };
    let (mut best, mut least) = (assignment[variable], price(assignment));
    for option in 0..choices.options[variable] {
        assignment[variable] = option;
        let found = price(assignment);
        if found < least {
            (best, least) = (option, found);
        }
    }
    assignment[variable] = best;
}

/// The variables that are left, and what was decided of the others.
struct Elimination<'a> {
    options: Vec<usize>,
    incumbent: &'a [usize],
    /// Terms that are still in use, by position; others are empty.
    terms: Vec<Option<Term>>,
    /// Positions of terms by variable.
    of_variable: Vec<Vec<usize>>,
    /// The variables that are left, each behind the size of the table that eliminating it takes.
    left: BTreeSet<(usize, usize)>,
    table_lens: Vec<usize>,
    /// In the order of elimination: a variable, those that it depends on, and its best option for each of their choices.
    decided: Vec<(usize, Scope, Vec<usize>)>,
}

impl<'a> Elimination<'a> {
    fn new(choices: &Choices, incumbent: &'a [usize]) -> Self {
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

    /// Decides one more variable. False when none is left.
    fn step(&mut self) -> bool {
        let Some(&(entries, variable)) = self.left.first() else { return false };
        if entries <= MOST_ENTRIES {
            self.eliminate(variable);
        } else {
            let count =
                |&(_, variable): &(usize, usize)| (self.neighbours(variable).len(), Reverse(variable));
            let busiest = self.left.iter().copied().max_by_key(count);
            self.fix(busiest.map_or(variable, |found| found.1));
        }
        true
    }

    /// Notes how large a table eliminating a variable would take.
    fn measure(&mut self, variable: usize) {
        let len = self.table_len(variable);
        let known = std::mem::replace(&mut self.table_lens[variable], len);
        if self.left.remove(&(known, variable)) {
            self.left.insert((len, variable));
        }
    }

    /// Notes that a variable is decided, by the choices of those in the scope.
    fn decide(&mut self, variable: usize, scope: Scope, best: Vec<usize>) {
        self.left.remove(&(self.table_lens[variable], variable));
        self.decided.push((variable, scope, best));
    }

    /// The variables that share a term with this one.
    fn neighbours(&self, variable: usize) -> Scope {
        let terms = self.of_variable[variable].iter().filter_map(|&term| self.terms[term].as_ref());
        let mut found: Scope = terms.flat_map(|term| term.scope.iter().copied()).collect();
        found.sort_unstable();
        found.dedup();
        found.retain(|other| *other != variable);
        found
    }

    /// How many prices have to be looked at to eliminate a variable.
    fn table_len(&self, variable: usize) -> usize {
        let sizes = self.neighbours(variable).into_iter().chain([variable]).map(|v| self.options[v]);
        sizes.fold(1, usize::saturating_mul)
    }

    /// Replaces a variable by the best that it can do.
    fn eliminate(&mut self, variable: usize) {
        let scope = self.neighbours(variable);
        let terms = self.take_terms(variable);
        let entries: usize = scope.iter().map(|&v| self.options[v]).product();
        let (mut prices, mut best) = (Vec::with_capacity(entries), Vec::with_capacity(entries));
        let mut assignment = vec![0; self.options.len()];
        for entry in 0..entries {
            spread(entry, &scope, &self.options, &mut assignment);
            let (mut option, mut least) = (0, f64::INFINITY);
            for candidate in 0..self.options[variable] {
                assignment[variable] = candidate;
                let price = terms.iter().map(|term| term.price(&self.options, &assignment)).sum();
                if price < least {
                    (option, least) = (candidate, price);
                }
            }
            prices.push(least);
            best.push(option);
        }
        if !scope.is_empty() {
            self.push_term(Term { scope: scope.clone(), prices });
        }
        scope.iter().for_each(|&other| self.measure(other));
        self.decide(variable, scope, best);
    }

    /// Gives a variable the option of the incumbent.
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
        self.decide(variable, Scope::new(), vec![option]);
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

    /// Sets the variables in the opposite order: each finds those that it depends on.
    fn assignment(&self) -> Vec<usize> {
        let mut assignment = vec![0; self.options.len()];
        for (variable, scope, best) in self.decided.iter().rev() {
            let entry = scope.iter().fold(0, |entry, &v| entry * self.options[v] + assignment[v]);
            assignment[*variable] = best[entry];
        }
        assignment
    }
}

/// Writes the options that an entry of a table stands for.
fn spread(mut entry: usize, scope: &[usize], options: &[usize], assignment: &mut [usize]) {
    for &variable in scope.iter().rev() {
        assignment[variable] = entry % options[variable];
        entry /= options[variable];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tries everything.
    fn brute_force(choices: &Choices) -> f64 {
        let scope: Vec<usize> = (0..choices.options.len()).collect();
        let count: usize = choices.options.iter().product();
        let mut assignment = vec![0; scope.len()];
        let prices = (0..count).map(|entry| {
            spread(entry, &scope, &choices.options, &mut assignment);
            choices.price(&assignment)
        });
        prices.fold(f64::INFINITY, f64::min)
    }

    fn choices(sizes: &[usize], pairs: &[(usize, usize)], price: &mut dyn FnMut() -> f64) -> Choices {
        let mut choices = Choices::default();
        for &size in sizes {
            choices.add((0..size).map(|_| price()).collect());
        }
        for &(a, b) in pairs {
            let table: Vec<f64> = (0..sizes[a] * sizes[b]).map(|_| price()).collect();
            choices.pair(a, b, |i, j| table[i * sizes[b] + j]);
        }
        choices
    }

    #[test]
    fn a_chain_looks_ahead() {
        // Option 1 costs more at first, but the third variable cannot do without it, and changing is dear.
        let mut choices = Choices::default();
        let chain: Vec<usize> =
            [vec![1.0, 2.0], vec![0.0, 0.0], vec![9.0, 0.0]].into_iter().map(|p| choices.add(p)).collect();
        for pair in chain.windows(2) {
            choices.pair(pair[0], pair[1], |a, b| if a == b { 0.0 } else { 5.0 });
        }
        assert_eq!(greedy(&choices), [0, 0, 1]);
        assert_eq!(solve(&choices), [1, 1, 1]);
    }

    #[test]
    fn what_is_forbidden_is_not_chosen() {
        let mut choices = Choices::default();
        let (a, b) = (choices.add(vec![0.0, 3.0]), choices.add(vec![0.0, 3.0]));
        choices.pair(b, a, |b, a| if a == b { f64::INFINITY } else { 0.0 });
        assert_eq!(choices.price(&solve(&choices)), 3.0);
    }

    #[test]
    fn a_thousand_variables_take_no_time() {
        let mut state = 1u64;
        let mut price = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f64
        };
        let pairs: Vec<(usize, usize)> =
            (1..1000).map(|i| (i - 1, i)).chain((4..1000).map(|i| (i - 4, i))).collect();
        let choices = choices(&[4; 1000], &pairs, &mut price);
        assert!(choices.price(&solve(&choices)) <= choices.price(&greedy(&choices)));
    }

    proptest! {
        #[test]
        fn nothing_is_cheaper_than_what_is_found(
            sizes in proptest::collection::vec(1usize..4, 1..7),
            pairs in proptest::collection::vec((0usize..7, 0usize..7), 0..12),
            prices in proptest::collection::vec(prop_oneof![9 => 0u8..50, 1 => Just(255u8)], 1..60),
        ) {
            let pairs: Vec<(usize, usize)> = pairs
                .into_iter()
                .map(|(a, b)| (a % sizes.len(), b % sizes.len()))
                .filter(|(a, b)| a != b)
                .collect();
            let mut next = prices.iter().cycle();
            let mut price = || match next.next() {
                Some(255) | None => f64::INFINITY,
                Some(&price) => f64::from(price),
            };
            let choices = choices(&sizes, &pairs, &mut price);
            let found = choices.price(&solve(&choices));
            prop_assert_eq!(found, brute_force(&choices));
            prop_assert!(found <= choices.price(&greedy(&choices)));
        }
    }
}
