//! Lesson 14: one arena for everything.
//!
//! The page of the book: `book/src/lessons/14_memory.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion::tensor::ALIGNMENT;
use std::cmp::Reverse;

// Task 1: lifetimes.

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
        todo!(
            "lesson 14, task 1: true if there is a step in which both are alive (book chapter 14; stuck? cargo learn hint 14)"
        )
    }

    /// The number of steps in which it is needed. Saturates.
    pub fn steps(&self) -> usize {
        todo!(
            "lesson 14, task 1: count the steps from the first to the last, both included (book chapter 14; stuck? cargo learn hint 14)"
        )
    }
}

/// The number of bytes that a request takes in the arena: the next multiple of [`ALIGNMENT`]. Saturates, so that a size that
/// is too large is refused when it is allocated.
pub fn aligned(bytes: usize) -> usize {
    todo!(
        "lesson 14, task 1: round up to a multiple of ALIGNMENT; usize::MAX where there is none (book chapter 14; stuck? cargo learn hint 14)"
    )
}

// Task 2: a lower bound.

/// The largest number of bytes, aligned, that are needed in a single step: no packing needs less.
pub fn lower_bound(requests: &[Request]) -> usize {
    todo!(
        "lesson 14, task 2: walk through the starts and ends in order of time, and keep the largest load (book chapter 14; stuck? cargo learn hint 14)"
    )
}

// Task 3: the smallest gap.

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

/// The start of the smallest gap that the request fits, considering only placed requests that overlap it in time. Of several
/// such gaps the lowest is taken. If no gap is large enough, the start is above all of these requests. `placed` is sorted by
/// offset.
pub fn best_fit(placed: &[Placed], request: &Request) -> usize {
    todo!(
        "lesson 14, task 3: of the gaps between the requests that it meets, take the smallest that is large enough (book chapter 14; stuck? cargo learn hint 14)"
    )
}

// Task 4: one after the other.

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
        todo!(
            "lesson 14, task 4: record the offset and the size of the arena, and insert the request into `placed` (book chapter 14; stuck? cargo learn hint 14)"
        )
    }
}

/// Places requests in the given order of their positions, each by [`best_fit`] among those already placed.
pub fn pack_in(requests: &[Request], order: &[usize]) -> Packing {
    todo!(
        "lesson 14, task 4: lay down one request after the other, in the order of `order` (book chapter 14; stuck? cargo learn hint 14)"
    )
}

/// Places requests by their first step and forgets those that have ended: a linear scan over time. Of requests that begin in
/// the same step, larger ones come first, then those that end earlier.
pub fn pack_by_time(requests: &[Request]) -> Packing {
    todo!(
        "lesson 14, task 4: sort by first step, larger ones first, then by last step; before each, forget what has ended (book chapter 14; stuck? cargo learn hint 14)"
    )
}

// Task 5: buffers that share their bytes.

/// The position of a buffer within another buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The enclosing buffer, which may be a part itself.
    pub whole: usize,
    /// The byte offset in the enclosing buffer.
    pub offset: usize,
}

/// The root of the buffer at `index`, that is the outermost buffer that contains it, and the buffer's byte offset in the root.
/// `parts` has an entry for each buffer, `None` for roots. It must not contain cycles.
pub fn root(parts: &[Option<Part>], index: usize) -> (usize, usize) {
    todo!(
        "lesson 14, task 5: follow the parts to the root, and add up the offsets (book chapter 14; stuck? cargo learn hint 14)"
    )
}

/// The request for `whole` after `part` has become a part of it: the size of `whole`, for as long as either is alive.
pub fn joined(part: &Request, whole: &Request) -> Request {
    todo!(
        "lesson 14, task 5: from the earlier first step to the later last step (book chapter 14; stuck? cargo learn hint 14)"
    )
}

/// Returns true if the operator of a step may overwrite `data`, the buffer of one of its inputs: the buffer must be the
/// planner's own, must not be read after this step, and must not be another input of the operator as well. `others` are the
/// buffers of the other inputs. All buffers are given by their roots.
pub fn may_overwrite(
    (data, request): (usize, &Request),
    step: usize,
    is_own: bool,
    others: &[usize],
) -> bool {
    todo!(
        "lesson 14, task 5: three conditions, each of which has broken a runtime (book chapter 14; stuck? cargo learn hint 14)"
    )
}

// Task 6: the proof.

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
    todo!(
        "lesson 14, task 6: check the count, each request alone, and each pair that is alive at the same time (book chapter 14; stuck? cargo learn hint 14)"
    )
}
