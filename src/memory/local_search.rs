//! Local search over packing orders.

use super::packing::{Packing, Request, aligned, pack_in};

/// Limits for each starting order: the number of comparisons of two requests, and the number of orders tried.
const MAX_COMPARISONS: usize = 6_000_000;
const MAX_ORDERS: usize = 400;

/// Improves the orders in turn, best first, until one of them needs at most `wanted` bytes. Returns the best packing found.
pub(super) fn search(
    requests: &[Request],
    orders: Vec<(Vec<usize>, Packing)>,
    wanted: usize,
) -> Option<Packing> {
    let mut best: Option<Packing> = None;
    for (order, packing) in orders {
        let packing = improve_from(requests, order, packing, wanted);
        if best.as_ref().is_none_or(|best| packing.bytes < best.bytes) {
            best = Some(packing);
        }
        if best.as_ref().is_some_and(|best| best.bytes <= wanted) {
            break;
        }
    }
    best
}

/// Repeatedly moves one request ahead of another in the order, where both are alive together with a request that reaches the
/// top of the arena, and keeps the new order if it is no worse. Stops once the packing needs at most `wanted` bytes.
///
/// The choices are pseudo-random and the same in every run.
fn improve_from(requests: &[Request], order: Vec<usize>, packing: Packing, wanted: usize) -> Packing {
    let comparisons = requests.len().saturating_mul(requests.len()).max(1);
    let (mut order, mut best, mut random) = (order, packing, Random(1));
    for _ in 0..MAX_ORDERS.min(MAX_COMPARISONS / comparisons) {
        if best.bytes <= wanted {
            break;
        }
        let Some(next) = neighbour(requests, &order, &best, &mut random) else { break };
        let packing = pack_in(requests, &next);
        if packing.bytes <= best.bytes {
            (order, best) = (next, packing);
        }
    }
    best
}

/// A neighbour of an order: one request is moved ahead.
fn neighbour(
    requests: &[Request],
    order: &[usize],
    packing: &Packing,
    random: &mut Random,
) -> Option<Vec<usize>> {
    let request = |position: usize| requests.get(position);
    let end = |position: usize| {
        let bytes = request(position).map_or(0, |request| aligned(request.bytes));
        packing.offsets.get(position).map_or(0, |offset| offset.saturating_add(bytes))
    };
    let highest: Vec<usize> =
        order.iter().copied().filter(|&position| end(position) == packing.bytes).collect();
    let top = request(random.pick(&highest)?)?;
    let overlapping: Vec<usize> = (0..order.len())
        .filter(|&at| {
            order.get(at).and_then(|&position| request(position)).is_some_and(|other| other.meets(top))
        })
        .collect();
    let (one, other) = (random.pick(&overlapping)?, random.pick(&overlapping)?);
    let mut next = order.to_vec();
    let moved = next.remove(one.max(other));
    next.insert(one.min(other), moved);
    Some(next)
}

/// A linear congruential generator with the constants of Knuth's MMIX.
struct Random(u64);

impl Random {
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
    fn the_search_reaches_a_bound_that_no_plain_order_reaches() {
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
    fn the_search_stops_if_there_is_nothing_to_move() {
        let alone = [Request { bytes: 64, first: 0, last: 1 }];
        let packing = pack_in(&alone, &[0]);
        assert_eq!(search(&alone, vec![(vec![0], packing.clone())], 0), Some(packing));
        assert_eq!(search(&[], Vec::new(), 0), None);
    }
}
