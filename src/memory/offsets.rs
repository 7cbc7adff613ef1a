//! Offsets: requests with lifetimes are laid into one arena, so that those alive at one time do not overlap.

use crate::tensor::ALIGNMENT;

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
    fn meets(&self, other: &Self) -> bool {
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

/// Lays requests into an arena: in several orders, each into the smallest gap that it fits, and the best of all.
pub(super) fn pack(requests: &[Request]) -> Packing {
    let wanted = lower_bound(requests);
    let mut best: Option<Packing> = None;
    for order in orders(requests) {
        let packing = pack_in(requests, &order);
        if best.as_ref().is_none_or(|best| packing.bytes < best.bytes) {
            best = Some(packing);
        }
        if best.as_ref().is_some_and(|best| best.bytes <= wanted) {
            break;
        }
    }
    best.unwrap_or(Packing { offsets: Vec::new(), bytes: 0 })
}

/// Orders in which requests may be laid down. Ties are broken by position, so that every run gives the same.
fn orders(requests: &[Request]) -> impl Iterator<Item = Vec<usize>> {
    use std::cmp::Reverse;
    type Key = fn(&Request) -> (Reverse<usize>, Reverse<usize>, usize);
    const KEYS: [Key; 4] = [
        |r| (Reverse(r.bytes), Reverse(r.steps()), r.first),
        |r| (Reverse(r.bytes.saturating_mul(r.steps())), Reverse(r.bytes), r.first),
        |r| (Reverse(r.steps()), Reverse(r.bytes), r.first),
        |r| (Reverse(usize::MAX - r.first), Reverse(r.bytes), r.last),
    ];
    KEYS.into_iter().map(|key| {
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_by_key(|&position| requests.get(position).map(key));
        order
    })
}

/// Lays requests down in this order, each into the smallest gap between those that it meets.
fn pack_in(requests: &[Request], order: &[usize]) -> Packing {
    let mut packing = Packing { offsets: vec![0; requests.len()], bytes: 0 };
    // Those laid down so far, by offset: (offset, end, request).
    let mut placed: Vec<(usize, usize, Request)> = Vec::with_capacity(requests.len());
    for &position in order {
        let Some(&request) = requests.get(position) else { continue };
        let offset = best_fit(&placed, &request);
        let end = offset.saturating_add(aligned(request.bytes));
        let at = placed.partition_point(|other| other.0 <= offset);
        placed.insert(at, (offset, end, request));
        packing.bytes = packing.bytes.max(end);
        if let Some(slot) = packing.offsets.get_mut(position) {
            *slot = offset;
        }
    }
    packing
}

/// The start of the smallest gap between the placed requests that this one meets; above all of them if none is enough.
fn best_fit(placed: &[(usize, usize, Request)], request: &Request) -> usize {
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
            let packing = pack(&requests);
            let ends: Vec<usize> =
                requests.iter().zip(&packing.offsets).map(|(request, offset)| offset + request.bytes).collect();
            for (i, a) in requests.iter().enumerate() {
                prop_assert!(ends[i] <= packing.bytes && packing.offsets[i] % ALIGNMENT == 0);
                for (j, b) in requests.iter().enumerate().skip(i + 1) {
                    let apart = ends[i] <= packing.offsets[j] || ends[j] <= packing.offsets[i];
                    prop_assert!(apart || !a.meets(b), "{a:?} and {b:?}");
                }
            }
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
