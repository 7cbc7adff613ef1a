//! Topological order: every operator after those whose results it reads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Orders `0..dependencies.len()` so that each number comes after all numbers it depends on.
///
/// Kahn's algorithm (1962). Among those that are ready the smallest number goes first, so that an order that is
/// already topological stays as it is. A dependency may be listed more than once.
///
/// # Errors
/// The numbers that lie on a cycle, or behind one only through other cycles.
pub fn topological_order(dependencies: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let count = dependencies.len();
    let mut dependents = vec![Vec::new(); count];
    let mut missing = vec![0usize; count];
    for (node, needs) in dependencies.iter().enumerate() {
        for &need in needs {
            if let Some(waiting) = dependents.get_mut(need) {
                waiting.push(node);
                missing[node] += 1;
            }
        }
    }
    let mut ready: BinaryHeap<_> = (0..count).filter(|&node| missing[node] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for &dependent in &dependents[node] {
            missing[dependent] -= 1;
            if missing[dependent] == 0 {
                ready.push(Reverse(dependent));
            }
        }
    }
    if order.len() == count { Ok(order) } else { Err(on_cycles(dependents, &missing)) }
}

/// Of the nodes that never became ready, those that something on a cycle depends on: the rest merely wait.
fn on_cycles(dependents: Vec<Vec<usize>>, missing: &[usize]) -> Vec<usize> {
    let mut stuck: Vec<bool> = missing.iter().map(|&count| count > 0).collect();
    loop {
        let idle: Vec<usize> = (0..stuck.len())
            .filter(|&node| stuck[node] && !dependents[node].iter().any(|&dependent| stuck[dependent]))
            .collect();
        if idle.is_empty() {
            break;
        }
        idle.into_iter().for_each(|node| stuck[node] = false);
    }
    (0..stuck.len()).filter(|&node| stuck[node]).collect()
}

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
    fn a_cycle_is_named_without_those_that_wait_for_it() {
        assert_eq!(topological_order(&[vec![], vec![0, 2], vec![1], vec![2]]).unwrap_err(), [1, 2]);
        assert_eq!(topological_order(&[vec![0]]).unwrap_err(), [0]);
    }

    #[test]
    fn a_chain_of_100_000_needs_no_stack() {
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
