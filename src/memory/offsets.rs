//! Offsets: requests with lifetimes are laid into one arena, so that those alive at one time do not overlap.

use super::climb::climb;
use crate::tensor::ALIGNMENT;
use std::cmp::Reverse;

/// Bytes that are needed from one step to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// How many bytes.
    pub(super) bytes: usize,
    /// The first step.
    pub(super) first: usize,
    /// The last step.
    pub(super) last: usize,
}

impl Request {
    pub(super) fn meets(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    fn steps(&self) -> usize {
        self.last.saturating_sub(self.first).saturating_add(1)
    }
}

/// An offset for each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packing {
    /// In the order of the requests; multiples of [`ALIGNMENT`].
    pub(super) offsets: Vec<usize>,
    /// The end of the last one.
    pub(super) bytes: usize,
}

/// The bytes that a request takes in the arena. Saturates, so that what is too large is refused when it is allocated.
pub(super) fn aligned(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX)
}

/// The most bytes that are needed at a time.
pub(super) fn lower_bound(requests: &[Request]) -> usize {
    let mut changes: Vec<(usize, bool, usize)> = Vec::with_capacity(2 * requests.len());
    for request in requests {
        let bytes = aligned(request.bytes);
        changes.push((request.first, true, bytes));
        changes.push((request.last.saturating_add(1), false, bytes));
    }
    // What ends before a step is let go before anything begins in it.
    changes.sort_unstable();
    let (mut load, mut most) = (0usize, 0);
    for (_, begins, bytes) in changes {
        load = if begins { load.saturating_add(bytes) } else { load.saturating_sub(bytes) };
        most = most.max(load);
    }
    most
}

/// More requests than these are laid down once, in the order of time.
const MOST: usize = 10_000;

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
    climb(requests, tried, wanted).unwrap_or(Packing { offsets: Vec::new(), bytes: 0 })
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

/// Lays requests down as they begin, and forgets those that have ended.
fn pack_by_time(requests: &[Request]) -> Packing {
    let mut packing = Packing { offsets: vec![0; requests.len()], bytes: 0 };
    let mut placed = Vec::new();
    for position in in_order(requests, by_time) {
        let Some(request) = requests.get(position) else { continue };
        placed.retain(|(.., other): &Placed| other.last >= request.first);
        packing.lay_down(&mut placed, position, request);
    }
    packing
}

/// Lays requests down in this order, each into the smallest gap between those that it meets.
pub(super) fn pack_in(requests: &[Request], order: &[usize]) -> Packing {
    let mut packing = Packing { offsets: vec![0; requests.len()], bytes: 0 };
    let mut placed = Vec::with_capacity(requests.len());
    for &position in order {
        if let Some(request) = requests.get(position) {
            packing.lay_down(&mut placed, position, request);
        }
    }
    packing
}

/// A request that has its place: offset, end, and what it is.
type Placed = (usize, usize, Request);

impl Packing {
    /// Finds a place for one more request. Those before it are kept in the order of their offsets.
    fn lay_down(&mut self, placed: &mut Vec<Placed>, position: usize, request: &Request) {
        let offset = best_fit(placed, request);
        let end = offset.saturating_add(aligned(request.bytes));
        let at = placed.partition_point(|other| other.0 <= offset);
        placed.insert(at, (offset, end, *request));
        self.bytes = self.bytes.max(end);
        if let Some(slot) = self.offsets.get_mut(position) {
            *slot = offset;
        }
    }
}

/// The start of the smallest gap between the placed requests that this one meets; above all of them if none is enough.
fn best_fit(placed: &[Placed], request: &Request) -> usize {
    let bytes = aligned(request.bytes);
    let (mut top, mut best) = (0, None);
    for (offset, end, _) in placed.iter().filter(|(.., other)| other.meets(request)) {
        let gap = offset.saturating_sub(top);
        if gap >= bytes && best.is_none_or(|(smallest, _)| gap < smallest) {
            best = Some((gap, top));
        }
        top = top.max(*end);
    }
    best.map_or(top, |(_, start)| start)
}

#[cfg(test)]
mod tests {
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
    fn the_smallest_gap_is_taken() {
        let (low, top) = (request(64, 0, 9), request(64, 0, 9));
        let placed = [(0, 64, low), (192, 256, top), (320, 384, top)];
        assert_eq!(best_fit(&placed, &request(64, 3, 4)), 256);
        assert_eq!(best_fit(&placed, &request(65, 3, 4)), 64);
        assert_eq!(best_fit(&placed, &request(640, 3, 4)), 384);
        assert_eq!(best_fit(&placed, &request(640, 10, 12)), 0);
    }

    #[test]
    fn many_requests_are_laid_down_as_they_come() {
        let requests: Vec<Request> = (0..MOST + 1).map(|i| request(64 * (1 + i % 7), i, i + 3)).collect();
        let packing = pack(&requests);
        assert_no_overlap(&requests, &packing);
        assert!(packing.bytes <= 2 * lower_bound(&requests), "{}", packing.bytes);
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

    fn assert_no_overlap(requests: &[Request], packing: &Packing) {
        let end = |i: usize| packing.offsets[i] + requests[i].bytes;
        for (i, a) in requests.iter().enumerate() {
            assert!(end(i) <= packing.bytes && packing.offsets[i].is_multiple_of(ALIGNMENT));
            // Requests of the large test are in the order of time.
            for (j, b) in requests.iter().enumerate().skip(i + 1).take(100) {
                let apart = end(i) <= packing.offsets[j] || end(j) <= packing.offsets[i];
                assert!(apart || !a.meets(b), "{a:?} and {b:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_lives_at_one_time_does_not_overlap(requests in requests()) {
            assert_no_overlap(&requests, &pack(&requests));
            assert_no_overlap(&requests, &pack_by_time(&requests));
        }

        #[test]
        fn between_the_lower_bound_and_the_sum(requests in requests()) {
            let packing = pack(&requests);
            let naive: usize = requests.iter().map(|request| aligned(request.bytes)).sum();
            let load = |step| requests.iter().filter(|r| r.first <= step && step <= r.last).map(|r| aligned(r.bytes)).sum();
            let most: usize = (0..60).map(load).max().unwrap_or_default();
            prop_assert_eq!(lower_bound(&requests), most);
            prop_assert!(most <= packing.bytes && packing.bytes <= naive);
            prop_assert_eq!(pack(&requests), packing);
        }
    }
}
