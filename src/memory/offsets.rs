//! In which order requests are laid down, so that the arena is small.

use super::climb::climb;
use super::packing::{Packing, Request, lower_bound, pack_by_time, pack_in};
use std::cmp::Reverse;

/// More requests than these are laid down once, in the order of time.
pub(super) const MOST: usize = 10_000;

/// Lays requests into an arena, each into the smallest gap that it fits: in several orders, of which the best is taken,
/// and from there on in orders that are a little different, until the lower bound is met or it has taken long enough.
pub(super) fn pack(requests: &[Request]) -> Packing {
    if requests.len() > MOST {
        return pack_by_time(requests);
    }
    let wanted = lower_bound(requests);
    let mut tried: Vec<(Vec<usize>, Packing)> = Vec::new();
    for order in orders(requests) {
        let packing = pack_in(requests, &order);
        if packing.bytes <= wanted {
            return packing;
        }
        tried.push((order, packing));
    }
    tried.sort_by_key(|(_, packing)| packing.bytes);
    climb(requests, tried, wanted).unwrap_or_else(|| Packing::empty(0))
}

/// What decides the place of a request in an order.
type Key = (Reverse<usize>, Reverse<usize>, usize);

/// Orders in which requests may be laid down. Ties are broken by position, so that every run gives the same.
pub(super) fn orders(requests: &[Request]) -> impl Iterator<Item = Vec<usize>> {
    const KEYS: [fn(&Request) -> Key; 4] = [
        |r| (Reverse(r.bytes), Reverse(r.steps()), r.first),
        |r| (Reverse(r.bytes.saturating_mul(r.steps())), Reverse(r.bytes), r.first),
        |r| (Reverse(r.steps()), Reverse(r.bytes), r.first),
        by_time,
    ];
    KEYS.into_iter().map(|key| in_order(requests, key))
}

fn by_time(request: &Request) -> Key {
    (Reverse(usize::MAX - request.first), Reverse(request.bytes), request.last)
}

fn in_order(requests: &[Request], key: fn(&Request) -> Key) -> Vec<usize> {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|&position| requests.get(position).map(key));
    order
}

#[cfg(test)]
mod tests {
    use super::super::packing::{aligned, clash};
    use super::*;
    use proptest::prelude::*;

    fn request(bytes: usize, first: usize, last: usize) -> Request {
        Request { bytes, first, last }
    }

    #[test]
    fn requests_that_never_meet_share_their_place() {
        let packing = pack(&[request(100, 0, 1), request(120, 2, 3), request(10, 4, 9)]);
        assert_eq!((packing.offsets, packing.bytes), (vec![0, 0, 0], 128));
        assert_eq!(pack(&[]).bytes, 0);
    }

    #[test]
    fn many_requests_are_laid_down_as_they_come() {
        let requests: Vec<Request> = (0..MOST + 1).map(|i| request(64 * (1 + i % 7), i, i + 3)).collect();
        let packing = pack(&requests);
        assert!(packing.bytes <= 2 * lower_bound(&requests), "{}", packing.bytes);
        // Requests are in the order of time, and none meets those farther away.
        for start in (0..MOST - 100).step_by(50) {
            let (part, offsets) =
                (&requests[start..start + 100], packing.offsets[start..start + 100].to_vec());
            assert_eq!(clash(part, &Packing { offsets, bytes: packing.bytes }), None);
        }
    }

    #[test]
    fn what_is_too_large_saturates() {
        let packing = pack(&[request(usize::MAX, 0, 1), request(usize::MAX / 2, 0, 1), request(1, 1, 1)]);
        assert_eq!(packing.bytes, usize::MAX);
    }

    fn requests() -> impl Strategy<Value = Vec<Request>> {
        let one = (0usize..5000, 0usize..40, 0usize..12);
        let one = one.prop_map(|(bytes, first, steps)| request(bytes, first, first + steps));
        proptest::collection::vec(one, 0..40)
    }

    proptest! {
        #[test]
        fn what_lives_at_one_time_does_not_overlap(requests in requests()) {
            prop_assert_eq!(clash(&requests, &pack(&requests)), None);
        }

        #[test]
        fn between_the_lower_bound_and_the_sum(requests in requests()) {
            let packing = pack(&requests);
            let naive: usize = requests.iter().map(|request| aligned(request.bytes)).sum();
            prop_assert!(lower_bound(&requests) <= packing.bytes && packing.bytes <= naive);
            prop_assert_eq!(pack(&requests), packing);
        }
    }
}
