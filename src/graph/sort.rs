//! Topological order: every operator after the operators whose results it reads.
//!
//! Operators are represented by their positions in the file.

use crate::pnnx::{Graph, OperandId, OperatorId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

// ANCHOR: dependencies
/// For each operator, by position in the file, the positions of the operators whose results it reads, with one entry for each
/// input.
///
/// # Errors
/// Returns an operator and one of its inputs that no operator produces.
pub fn dependencies(file: &Graph) -> Result<Vec<Vec<usize>>, (OperatorId, OperandId)> {
    // ANCHOR: dependencies_todo -- task 1: for each input of each operator, the position of its producer
    let operators = file.operator_ids().iter().enumerate();
    let positions: HashMap<OperatorId, usize> = operators.map(|(position, &id)| (id, position)).collect();
    let mut dependencies = Vec::with_capacity(positions.len());
    for (id, operator) in file.operators() {
        let mut needs = Vec::with_capacity(operator.inputs().len());
        for &input in operator.inputs() {
            let producer = file.operand(input).producer().and_then(|producer| positions.get(&producer));
            needs.push(*producer.ok_or((id, input))?);
        }
        dependencies.push(needs);
    }
    Ok(dependencies)
    // ANCHOR_END: dependencies_todo
}
// ANCHOR_END: dependencies

// ANCHOR: orderable
/// For each node, the nodes that depend on it, with one entry for each dependency.
///
/// # Panics
/// Panics if a dependency is out of range.
pub fn dependents(dependencies: &[Vec<usize>]) -> Vec<Vec<usize>> {
    // ANCHOR: dependents_todo -- task 2: the same edges, reversed
    let mut dependents = vec![Vec::new(); dependencies.len()];
    for (node, needs) in dependencies.iter().enumerate() {
        for &need in needs {
            dependents[need].push(node);
        }
    }
    dependents
    // ANCHOR_END: dependents_todo
}

/// The nodes that can be ordered topologically, in that order: all except those on a cycle and those that depend on a cycle.
///
/// Uses Kahn's algorithm (1962). Of the nodes that are ready, the smallest comes first, so that an order that is already
/// topological does not change. A dependency may be listed more than once.
///
/// # Panics
/// Panics if a dependency is out of range.
pub fn orderable(dependencies: &[Vec<usize>]) -> Vec<usize> {
    // ANCHOR: orderable_todo -- task 2: take the smallest node without missing dependencies, and update its dependents
    let waiting = dependents(dependencies);
    let mut missing: Vec<usize> = dependencies.iter().map(Vec::len).collect();
    let mut ready = BinaryHeap::new();
    ready.extend((0..missing.len()).filter(|&node| missing[node] == 0).map(Reverse));
    let mut order = Vec::with_capacity(missing.len());
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for &dependent in &waiting[node] {
            missing[dependent] -= 1;
            if missing[dependent] == 0 {
                ready.push(Reverse(dependent));
            }
        }
    }
    order
    // ANCHOR_END: orderable_todo
}
// ANCHOR_END: orderable

// ANCHOR: topological_order
/// Orders `0..dependencies.len()` so that each node comes after all nodes that it depends on, as [`orderable`] does.
///
/// # Errors
/// Returns the nodes on a cycle or between two cycles: those that can be ordered neither forwards nor backwards.
///
/// # Panics
/// Panics if a dependency is out of range.
pub fn topological_order(dependencies: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    // ANCHOR: topological_order_todo -- task 3: the order, or the nodes that can be ordered in neither direction
    let order = orderable(dependencies);
    if order.len() == dependencies.len() {
        return Ok(order);
    }
    let mut on_cycle = vec![true; dependencies.len()];
    for node in order.into_iter().chain(orderable(&dependents(dependencies))) {
        on_cycle[node] = false;
    }
    Err((0..on_cycle.len()).filter(|&node| on_cycle[node]).collect())
    // ANCHOR_END: topological_order_todo
}
// ANCHOR_END: topological_order

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_diamond_and_two_inputs_that_join() {
        assert_eq!(topological_order(&[vec![], vec![0], vec![0], vec![1, 2]]).unwrap(), [0, 1, 2, 3]);
        assert_eq!(topological_order(&[vec![3], vec![], vec![1], vec![1, 2]]).unwrap(), [1, 2, 3, 0]);
        assert_eq!(topological_order(&[]).unwrap(), [] as [usize; 0]);
    }

    #[test]
    fn a_cycle_is_reported_without_the_nodes_that_depend_on_it() {
        assert_eq!(topological_order(&[vec![], vec![0, 2], vec![1], vec![2]]).unwrap_err(), [1, 2]);
        assert_eq!(topological_order(&[vec![0]]).unwrap_err(), [0]);
        let between = [vec![1], vec![0], vec![1], vec![2, 4], vec![3], vec![4]];
        assert_eq!(topological_order(&between).unwrap_err(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_cycle_before_a_long_chain_is_found_quickly() {
        let chain: Vec<Vec<usize>> = (0..100_000usize).map(|i| vec![i.saturating_sub(1)]).collect();
        assert_eq!(topological_order(&chain).unwrap_err(), [0]);
    }

    #[test]
    fn a_chain_of_100_000_does_not_overflow_the_stack() {
        let chain: Vec<Vec<usize>> =
            (0..100_000).map(|i| if i == 0 { vec![] } else { vec![i - 1] }).collect();
        assert_eq!(topological_order(&chain).unwrap().len(), 100_000);
    }

    proptest! {
        #[test]
        fn every_random_acyclic_graph_is_ordered(
            edges in proptest::collection::vec((0usize..30, 0usize..30), 0..80),
            rotation in 0usize..30,
        ) {
            let label = |node: usize| (node + rotation) % 30;
            let mut dependencies = vec![Vec::new(); 30];
            for (a, b) in edges {
                if a != b { dependencies[label(a.max(b))].push(label(a.min(b))); }
            }
            let order = topological_order(&dependencies).unwrap();
            let place: Vec<usize> = (0..30).map(|n| order.iter().position(|&o| o == n).unwrap()).collect();
            for (node, needs) in dependencies.iter().enumerate() {
                prop_assert!(needs.iter().all(|&need| place[need] < place[node]));
            }
        }
    }
}
