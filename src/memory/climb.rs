//! Better and better orders, step by step.

use super::packing::{Packing, Request, aligned, pack_in};

/// Most comparisons of two requests, and most orders that are tried, from each order on.
const MOST_COMPARISONS: usize = 6_000_000;
const MOST_ORDERS: usize = 400;

/// Improves orders, the best first, until one of them needs no more than `wanted`. Returns the best of all.
pub(super) fn climb(
    requests: &[Request],
    orders: Vec<(Vec<usize>, Packing)>,
    wanted: usize,
) -> Option<Packing> {
    let mut best: Option<Packing> = None;
    for (order, packing) in orders {
        let packing = climb_from(requests, order, packing, wanted);
        if best.as_ref().is_none_or(|best| packing.bytes < best.bytes) {
            best = Some(packing);
        }
        if best.as_ref().is_some_and(|best| best.bytes <= wanted) {
            break;
        }
    }
    best
}

/// Moves one request ahead of another in the order, both of them alive with one that reaches the top, and keeps what is no
/// worse. Ends when nothing more than `wanted` is needed.
///
/// The choice looks random and is the same in every run.
fn climb_from(requests: &[Request], order: Vec<usize>, packing: Packing, wanted: usize) -> Packing {
    let comparisons = requests.len().saturating_mul(requests.len()).max(1);
    let (mut order, mut best, mut numbers) = (order, packing, Numbers(1));
    for _ in 0..MOST_ORDERS.min(MOST_COMPARISONS / comparisons) {
        if best.bytes <= wanted {
            break;
        }
        let Some(next) = neighbour(requests, &order, &best, &mut numbers) else { break };
        let packing = pack_in(requests, &next);
        if packing.bytes <= best.bytes {
            (order, best) = (next, packing);
        }
    }
    best
}

/// An order in which one request comes earlier.
fn neighbour(
    requests: &[Request],
    order: &[usize],
    packing: &Packing,
    numbers: &mut Numbers,
) -> Option<Vec<usize>> {
    let request = |position: usize| requests.get(position);
    let end = |position: usize| {
        let bytes = request(position).map_or(0, |request| aligned(request.bytes));
        packing.offsets.get(position).map_or(0, |offset| offset.saturating_add(bytes))
    };
    let highest: Vec<usize> =
        order.iter().copied().filter(|&position| end(position) == packing.bytes).collect();
    let top = request(numbers.pick(&highest)?)?;
    let beside: Vec<usize> = (0..order.len())
        .filter(|&at| {
            order.get(at).and_then(|&position| request(position)).is_some_and(|other| other.meets(top))
        })
        .collect();
    let (one, other) = (numbers.pick(&beside)?, numbers.pick(&beside)?);
    let mut next = order.to_vec();
    let moved = next.remove(one.max(other));
    next.insert(one.min(other), moved);
    Some(next)
}

/// Numbers that look random: a linear congruential generator with the factors of Knuth's MMIX.
struct Numbers(u64);

impl Numbers {
    fn pick(&mut self, choices: &[usize]) -> Option<usize> {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (self.0 >> 33) as usize;
        choices.get(at.checked_rem(choices.len())?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::offsets::{orders, pack};
    use super::super::packing::lower_bound;
    use super::*;

    #[test]
    fn what_no_plain_order_meets_is_met() {
        let request = |bytes: usize, first, last| Request { bytes: 64 * bytes, first, last };
        let requests = [
            request(3, 4, 7),
            request(3, 4, 5),
            request(1, 2, 4),
            request(4, 3, 4),
            request(3, 1, 2),
            request(4, 2, 3),
            request(4, 3, 7),
        ];
        assert!(orders(&requests).all(|order| pack_in(&requests, &order).bytes > lower_bound(&requests)));
        let packing = pack(&requests);
        assert_eq!(packing.bytes, lower_bound(&requests));
    }

    #[test]
    fn it_gives_up_where_there_is_nothing_to_move() {
        let alone = [Request { bytes: 64, first: 0, last: 1 }];
        let packing = pack_in(&alone, &[0]);
        assert_eq!(climb(&alone, vec![(vec![0], packing.clone())], 0), Some(packing));
        assert_eq!(climb(&[], Vec::new(), 0), None);
    }
}
