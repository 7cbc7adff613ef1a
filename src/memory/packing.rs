//! Packing requests with lifetimes into one arena, so that requests alive at the same time do not overlap.

use crate::tensor::ALIGNMENT;
use std::cmp::Reverse;

// ANCHOR: request
/// A number of bytes that are needed from one step to another, inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The number of bytes.
    pub bytes: usize,
    /// The first step: the operator that writes them.
    pub first: usize,
    /// The last step: the last operator that reads them.
    pub last: usize,
}

impl Request {
    /// Returns true if both are needed in the same step at least once.
    pub fn meets(&self, other: &Self) -> bool {
        // ANCHOR: meets_todo -- task 1: true if there is a step in which both are alive
        self.first <= other.last && other.first <= self.last
        // ANCHOR_END: meets_todo
    }

    /// The number of steps in which it is needed. Saturates.
    pub fn steps(&self) -> usize {
        // ANCHOR: steps_todo -- task 1: count the steps from the first to the last, both included
        self.last.saturating_sub(self.first).saturating_add(1)
        // ANCHOR_END: steps_todo
    }
}
// ANCHOR_END: request

// ANCHOR: aligned
/// The number of bytes that a request takes in the arena: the next multiple of [`ALIGNMENT`]. Saturates, so that a size that
/// is too large is refused when it is allocated.
pub fn aligned(bytes: usize) -> usize {
    // ANCHOR: aligned_todo -- task 1: round up to a multiple of ALIGNMENT; usize::MAX where there is none
    bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX)
    // ANCHOR_END: aligned_todo
}
// ANCHOR_END: aligned

// ANCHOR: lower_bound
/// The largest number of bytes, aligned, that are needed in a single step: no packing needs less.
pub fn lower_bound(requests: &[Request]) -> usize {
    // ANCHOR: lower_bound_todo -- task 2: walk through the starts and ends in order of time, and keep the largest load
    let mut changes: Vec<(usize, bool, usize)> = Vec::with_capacity(2 * requests.len());
    for request in requests {
        let bytes = aligned(request.bytes);
        changes.push((request.first, true, bytes));
        changes.push((request.last.saturating_add(1), false, bytes));
    }
    // Requests that end before a step are released before others begin in it.
    changes.sort_unstable();
    let (mut load, mut most) = (0usize, 0);
    for (_, begins, bytes) in changes {
        load = if begins { load.saturating_add(bytes) } else { load.saturating_sub(bytes) };
        most = most.max(load);
    }
    most
    // ANCHOR_END: lower_bound_todo
}
// ANCHOR_END: lower_bound

// ANCHOR: placed
/// A request with its place in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The first byte.
    pub offset: usize,
    /// The first byte after it; like `offset`, a multiple of [`ALIGNMENT`].
    pub end: usize,
    /// The request: its size and lifetime.
    pub request: Request,
}
// ANCHOR_END: placed

// ANCHOR: best_fit
/// The start of the smallest gap that the request fits, considering only placed requests that overlap it in time. Of several
/// such gaps the lowest is taken. If no gap is large enough, the start is above all of these requests. `placed` is sorted by
/// offset.
pub fn best_fit(placed: &[Placed], request: &Request) -> usize {
    // ANCHOR: best_fit_todo -- task 3: of the gaps between the requests that it meets, take the smallest that is large enough
    let bytes = aligned(request.bytes);
    let (mut top, mut best) = (0, None);
    for other in placed.iter().filter(|other| other.request.meets(request)) {
        let gap = other.offset.saturating_sub(top);
        if gap >= bytes && best.is_none_or(|(smallest, _)| gap < smallest) {
            best = Some((gap, top));
        }
        top = top.max(other.end);
    }
    best.map_or(top, |(_, start)| start)
    // ANCHOR_END: best_fit_todo
}
// ANCHOR_END: best_fit

// ANCHOR: packing
/// An offset for each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packing {
    /// The offsets in the order of the requests; multiples of [`ALIGNMENT`].
    pub offsets: Vec<usize>,
    /// The size of the arena: the end of the highest request.
    pub bytes: usize,
}

impl Packing {
    /// A packing of `requests` requests, none of which is placed yet.
    pub fn empty(requests: usize) -> Self {
        Self { offsets: vec![0; requests], bytes: 0 }
    }

    /// Places one more request, the one at `position`. `placed` stays sorted by offset.
    pub fn lay_down(&mut self, placed: &mut Vec<Placed>, position: usize, request: &Request) {
        // ANCHOR: lay_down_todo -- task 4: record the offset and the size of the arena, and insert the request into `placed`
        let offset = best_fit(placed, request);
        let end = offset.saturating_add(aligned(request.bytes));
        let at = placed.partition_point(|other| other.offset <= offset);
        placed.insert(at, Placed { offset, end, request: *request });
        self.bytes = self.bytes.max(end);
        if let Some(place) = self.offsets.get_mut(position) {
            *place = offset;
        }
        // ANCHOR_END: lay_down_todo
    }
}
// ANCHOR_END: packing

// ANCHOR: pack_in
/// Places requests in the given order of their positions, each by [`best_fit`] among those already placed.
pub fn pack_in(requests: &[Request], order: &[usize]) -> Packing {
    // ANCHOR: pack_in_todo -- task 4: lay down one request after the other, in the order of `order`
    let mut packing = Packing::empty(requests.len());
    let mut placed = Vec::with_capacity(requests.len());
    for &position in order {
        if let Some(request) = requests.get(position) {
            packing.lay_down(&mut placed, position, request);
        }
    }
    packing
    // ANCHOR_END: pack_in_todo
}
// ANCHOR_END: pack_in

// ANCHOR: pack_by_time
/// Places requests by their first step and forgets those that have ended: a linear scan over time. Of requests that begin in
/// the same step, larger ones come first, then those that end earlier.
pub fn pack_by_time(requests: &[Request]) -> Packing {
    // ANCHOR: pack_by_time_todo -- task 4: sort by first step, larger ones first, then by last step; before each, forget what has ended
    let mut order: Vec<(usize, &Request)> = requests.iter().enumerate().collect();
    order.sort_by_key(|(_, request)| (request.first, Reverse(request.bytes), request.last));
    let mut packing = Packing::empty(requests.len());
    let mut placed: Vec<Placed> = Vec::new();
    for (position, request) in order {
        placed.retain(|other| other.request.last >= request.first);
        packing.lay_down(&mut placed, position, request);
    }
    packing
    // ANCHOR_END: pack_by_time_todo
}
// ANCHOR_END: pack_by_time

// ANCHOR: clash
/// An error in a packing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clash {
    /// There are more or fewer offsets than requests.
    Count,
    /// The request at this position does not begin at a multiple of [`ALIGNMENT`].
    Unaligned(usize),
    /// The request at this position ends beyond the end of the arena.
    Outside(usize),
    /// The requests at these positions are alive in the same step and share a byte. The smaller position comes first.
    Overlap(usize, usize),
}

/// The first error in a packing. `None` proves that the packing is valid for these requests.
pub fn clash(requests: &[Request], packing: &Packing) -> Option<Clash> {
    // ANCHOR: clash_todo -- task 6: check the count, each request alone, and each pair that is alive at the same time
    if requests.len() != packing.offsets.len() {
        return Some(Clash::Count);
    }
    let spans: Vec<(usize, usize, &Request)> = (packing.offsets.iter().zip(requests))
        .map(|(&offset, request)| (offset, offset.saturating_add(request.bytes), request))
        .collect();
    for (position, &(start, end, request)) in spans.iter().enumerate() {
        if !start.is_multiple_of(ALIGNMENT) {
            return Some(Clash::Unaligned(position));
        }
        if end > packing.bytes {
            return Some(Clash::Outside(position));
        }
        let overlaps = |other: &(usize, usize, &Request)| {
            request.meets(other.2) && start.max(other.0) < end.min(other.1)
        };
        if let Some(other) = spans.iter().take(position).position(overlaps) {
            return Some(Clash::Overlap(other, position));
        }
    }
    None
    // ANCHOR_END: clash_todo
}
// ANCHOR_END: clash

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(bytes: usize, first: usize, last: usize) -> Request {
        Request { bytes, first, last }
    }

    #[test]
    fn the_smallest_gap_is_taken() {
        let placed = [(0, 64), (192, 256), (320, 384)];
        let placed = placed.map(|(offset, end)| Placed { offset, end, request: request(64, 0, 9) });
        assert_eq!(best_fit(&placed, &request(64, 3, 4)), 256);
        assert_eq!(best_fit(&placed, &request(65, 3, 4)), 64);
        assert_eq!(best_fit(&placed, &request(640, 3, 4)), 384);
        assert_eq!(best_fit(&placed, &request(640, 10, 12)), 0);
    }

    #[test]
    fn each_error_is_found() {
        let requests = [request(64, 0, 1), request(64, 1, 2), request(64, 2, 3)];
        let found =
            |offsets: &[usize], bytes| clash(&requests, &Packing { offsets: offsets.to_vec(), bytes });
        assert_eq!(found(&[0, 64, 0], 128), None);
        assert_eq!(found(&[0, 64], 128), Some(Clash::Count));
        assert_eq!(found(&[0, 32, 0], 128), Some(Clash::Unaligned(1)));
        assert_eq!(found(&[0, 64, 128], 128), Some(Clash::Outside(2)));
        assert_eq!(found(&[64, 0, 0], 128), Some(Clash::Overlap(1, 2)));
        assert_eq!(found(&[0, usize::MAX - 63, 0], 128), Some(Clash::Outside(1)));
    }

    /// The lower bound by definition: the largest load of any step.
    fn most_in_one_step(requests: &[Request]) -> usize {
        let load = |step| {
            let alive = requests.iter().filter(|request| request.first <= step && step <= request.last);
            alive.map(|request| aligned(request.bytes)).sum()
        };
        (0..60).map(load).max().unwrap_or_default()
    }

    fn requests() -> impl Strategy<Value = Vec<Request>> {
        let one = (0usize..5000, 0usize..40, 0usize..12);
        let one = one.prop_map(|(bytes, first, steps)| request(bytes, first, first + steps));
        proptest::collection::vec(one, 0..40)
    }

    proptest! {
        #[test]
        fn requests_alive_at_the_same_time_do_not_overlap(requests in requests(), turn in 0usize..40) {
            let mut order: Vec<usize> = (0..requests.len()).collect();
            order.rotate_left(turn.checked_rem(requests.len()).unwrap_or(0));
            prop_assert_eq!(clash(&requests, &pack_in(&requests, &order)), None);
            prop_assert_eq!(clash(&requests, &pack_by_time(&requests)), None);
        }

        #[test]
        fn the_lower_bound_is_the_fullest_step(requests in requests()) {
            let most = most_in_one_step(&requests);
            prop_assert_eq!(lower_bound(&requests), most);
            prop_assert!(most <= pack_by_time(&requests).bytes);
        }
    }
}
