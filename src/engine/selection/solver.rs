//! Finds the cheapest assignment of many variables, where the price of one choice depends on others.
//!
//! Each variable has a few options. [`Term`]s price the options of one variable or of several together; ∞ forbids a
//! combination. [`solve`] minimises the sum of all terms by bucket elimination (Dechter 1999): variables are replaced in turn
//! by their best response to each choice of their neighbours, until none is left, and then assigned in reverse order. The
//! graphs of networks are nearly chains, so that few variables ever depend on each other and the result is exact. If too many
//! would, one of them is first fixed to its option in the best assignment found by local search; the result is then never
//! worse than that assignment.
//!
//! ```
//! use ixion::engine::selection::solver::{Choices, solve};
//!
//! let mut choices = Choices::default();
//! let (first, second) = (choices.add(vec![1.0, 2.0]), choices.add(vec![9.0, 0.0]));
//! choices.pair(first, second, |a, b| if a == b { 0.0 } else { 5.0 });
//! assert_eq!(solve(&choices), [1, 1]);
//! ```

pub use super::choices::{Choices, Term, entry_of, spread};
use super::elimination::Elimination;
pub use super::elimination::{Decided, best_responses, unwind};

// ANCHOR: solve
/// The cheapest assignment, or nearly so if too many variables depend on each other. Deterministic. If every assignment is
/// forbidden, returns some assignment.
pub fn solve(choices: &Choices) -> Vec<usize> {
    let incumbent = improved(choices, greedy(choices));
    let mut elimination = Elimination::new(choices, &incumbent);
    while elimination.step() {}
    let found = unwind(&choices.options, elimination.decided());
    if choices.price(&found) <= choices.price(&incumbent) { found } else { incumbent }
}

/// Assigns the variables in order, each to its cheapest option given those before it.
pub fn greedy(choices: &Choices) -> Vec<usize> {
    let terms = choices.by_variable();
    let mut assignment = vec![0; choices.options.len()];
    for (variable, terms) in terms.iter().enumerate() {
        let decided = |&&term: &&usize| choices.terms[term].scope.iter().all(|&v| v <= variable);
        let known: Vec<usize> = terms.iter().filter(decided).copied().collect();
        set_best(choices, &known, variable, &mut assignment);
    }
    assignment
}

/// Local search: changes one variable at a time for as long as that lowers the price.
fn improved(choices: &Choices, mut assignment: Vec<usize>) -> Vec<usize> {
    /// Enough for choices to propagate along a network's branches; exactness does not depend on it.
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

/// Sets a variable to its cheapest option in these terms; of equals, the current one or else the first.
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
// ANCHOR_END: solve

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tries every assignment.
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
        // Option 1 costs more at first, but the third variable needs it, and changing is expensive.
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
    fn forbidden_options_are_not_chosen() {
        let mut choices = Choices::default();
        let (a, b) = (choices.add(vec![0.0, 3.0]), choices.add(vec![0.0, 3.0]));
        choices.pair(b, a, |b, a| if a == b { f64::INFINITY } else { 0.0 });
        assert_eq!(choices.price(&solve(&choices)), 3.0);
    }

    #[test]
    fn a_thousand_variables_are_solved_quickly() {
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
        fn the_result_is_optimal(
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
