//! The orders in which requests are placed, so that the arena is small.

use super::local_search::search;
use super::packing::{Packing, Request, lower_bound, pack_by_time, pack_in};
use std::cmp::Reverse;

/// With more requests than this, only one order is tried: by first step.
pub(super) const MAX_REQUESTS: usize = 10_000;

/// Places requests in an arena, each in the smallest gap that it fits. Tries several orders and then improves them by local
/// search, until the lower bound is reached or the search has run long enough, and returns the best packing.
pub(super) fn pack(requests: &[Request]) -> Packing {
    if requests.len() > MAX_REQUESTS {
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
    search(requests, tried, wanted).unwrap_or_else(|| Packing::empty(0))
}

/// The sort key of a request.
type Key = (Reverse<usize>, Reverse<usize>, usize);

/// Candidate orders for placing requests. Ties are broken by position, so that every run gives the same result.
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
    fn requests_with_disjoint_lifetimes_share_their_place() {
        let packing = pack(&[request(100, 0, 1), request(120, 2, 3), request(10, 4, 9)]);
        assert_eq!((packing.offsets, packing.bytes), (vec![0, 0, 0], 128));
        assert_eq!(pack(&[]).bytes, 0);
    }

    #[test]
    fn many_requests_are_placed_in_order_of_time() {
        let requests: Vec<Request> =
            (0..MAX_REQUESTS + 1).map(|i| request(64 * (1 + i % 7), i, i + 3)).collect();
        let packing = pack(&requests);
        assert!(packing.bytes <= 2 * lower_bound(&requests), "{}", packing.bytes);
        // Requests are in order of time, and only those close to each other overlap in time.
        for start in (0..MAX_REQUESTS - 100).step_by(50) {
            let (part, offsets) =
                (&requests[start..start + 100], packing.offsets[start..start + 100].to_vec());
            assert_eq!(clash(part, &Packing { offsets, bytes: packing.bytes }), None);
        }
    }

    #[test]
    fn sizes_that_are_too_large_saturate() {
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
        fn requests_alive_at_the_same_time_do_not_overlap(requests in requests()) {
            prop_assert_eq!(clash(&requests, &pack(&requests)), None);
        }

        #[test]
        fn the_size_is_between_the_lower_bound_and_the_sum(requests in requests()) {
            let packing = pack(&requests);
            let naive: usize = requests.iter().map(|request| aligned(request.bytes)).sum();
            prop_assert!(lower_bound(&requests) <= packing.bytes && packing.bytes <= naive);
            prop_assert_eq!(pack(&requests), packing);
        }
    }
}
