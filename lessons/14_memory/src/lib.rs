//! Lesson 14: one arena for everything.
//!
//! The page of the book: `book/src/lessons/14_memory.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion::tensor::ALIGNMENT;
use std::cmp::Reverse;

// Task 1: who is alive when.

/// Bytes that are needed from one step to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// How many bytes.
    pub bytes: usize,
    /// The first step: that of the operator that writes them.
    pub first: usize,
    /// The last step: that of the last operator that reads them.
    pub last: usize,
}

impl Request {
    /// Whether both are needed in some step.
    pub fn meets(&self, other: &Self) -> bool {
        todo!(
            "lesson 14, task 1: whether there is a step in which both are alive (book chapter 14; stuck? cargo learn hint 14)"
        )
    }

    /// In how many steps it is needed. Saturates.
    pub fn steps(&self) -> usize {
        todo!(
            "lesson 14, task 1: count the steps from the first to the last, both included (book chapter 14; stuck? cargo learn hint 14)"
        )
    }
}

/// The bytes that a request takes in the arena: the next multiple of [`ALIGNMENT`]. Saturates, so that what is too large is
/// refused when it is allocated.
pub fn aligned(bytes: usize) -> usize {
    todo!(
        "lesson 14, task 1: round up to a multiple of ALIGNMENT; usize::MAX where there is none (book chapter 14; stuck? cargo learn hint 14)"
    )
}

// Task 2: what no packing can undercut.

/// The most bytes, aligned, that are needed in one step: no packing takes less.
pub fn lower_bound(requests: &[Request]) -> usize {
    todo!(
        "lesson 14, task 2: walk through the beginnings and ends in the order of time, and keep the largest load (book chapter 14; stuck? cargo learn hint 14)"
    )
}

// Task 3: the smallest gap.

/// A request that has its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The first byte.
    pub offset: usize,
    /// The first byte behind it: a multiple of [`ALIGNMENT`], as the first is.
    pub end: usize,
    /// What lies there, and when.
    pub request: Request,
}

/// The start of the smallest gap that a request fits, between those that have a place and that it meets, and of several such
/// gaps the lowest; above all that it meets if no gap is large enough. `placed` is in the order of offsets.
pub fn best_fit(placed: &[Placed], request: &Request) -> usize {
    todo!(
        "lesson 14, task 3: of the gaps between those that the request meets, take the smallest that is large enough (book chapter 14; stuck? cargo learn hint 14)"
    )
}

// Task 4: one after the other.

/// An offset for each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packing {
    /// In the order of the requests; multiples of [`ALIGNMENT`].
    pub offsets: Vec<usize>,
    /// The size of the arena: where the last of them ends.
    pub bytes: usize,
}

impl Packing {
    /// The packing of so many requests, none of which has its place yet.
    pub fn empty(requests: usize) -> Self {
        Self { offsets: vec![0; requests], bytes: 0 }
    }

    /// Finds a place for one more request, which is that at `position`. `placed` is kept in the order of offsets.
    pub fn lay_down(&mut self, placed: &mut Vec<Placed>, position: usize, request: &Request) {
        todo!(
            "lesson 14, task 4: note offset and size of the arena, and put the request among the placed ones (book chapter 14; stuck? cargo learn hint 14)"
        )
    }
}

/// Lays requests down in this order of their positions, each by [`best_fit`] among those that are there.
pub fn pack_in(requests: &[Request], order: &[usize]) -> Packing {
    todo!(
        "lesson 14, task 4: lay down one request after the other, in the order of `order` (book chapter 14; stuck? cargo learn hint 14)"
    )
}

/// Lays requests down as they begin, and forgets those that have ended: one scan along the time. Where several begin at once,
/// those of more bytes come first, then those that end earlier.
pub fn pack_by_time(requests: &[Request]) -> Packing {
    todo!(
        "lesson 14, task 4: sort by first step, larger ones first, then by last step; before each, forget what has ended (book chapter 14; stuck? cargo learn hint 14)"
    )
}

// Task 5: buffers that share their bytes.

/// Where in another buffer a buffer lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The other buffer, which may be a part itself.
    pub whole: usize,
    /// The byte of it at which this one begins.
    pub offset: usize,
}

/// The buffer that is nobody's part and that holds the buffer at `index`, and the byte of it at which that one begins. `parts`
/// has an entry for each buffer: none for those that are nobody's part. Nobody may be a part of itself, by whatever detour.
pub fn root(parts: &[Option<Part>], index: usize) -> (usize, usize) {
    todo!(
        "lesson 14, task 5: go from part to whole as long as there is one, and add the offsets up (book chapter 14; stuck? cargo learn hint 14)"
    )
}

/// What is needed where `part` becomes a part of `whole`: the bytes of the whole, for as long as either is alive.
pub fn joined(part: &Request, whole: &Request) -> Request {
    todo!(
        "lesson 14, task 5: from the earlier first step to the later last one (book chapter 14; stuck? cargo learn hint 14)"
    )
}

/// Whether the operator of a step may write its result over `data`, the buffer of one of its inputs: if it is the planner's
/// own, nobody reads it later, and the operator reads it through no other input. `others` are the buffers of its other
/// inputs. All of them are roots.
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

/// What is wrong with a packing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clash {
    /// There are more or fewer offsets than requests.
    Count,
    /// The request at this position does not begin at a multiple of [`ALIGNMENT`].
    Unaligned(usize),
    /// The request at this position ends behind the end of the arena.
    Outside(usize),
    /// The requests at these positions are alive in one step and have a byte in common. The first one is the smaller.
    Overlap(usize, usize),
}

/// The first fault of a packing, or none: then it is proved to be right for these requests.
pub fn clash(requests: &[Request], packing: &Packing) -> Option<Clash> {
    todo!(
        "lesson 14, task 6: check the count, each request alone, and each pair that is alive at one time (book chapter 14; stuck? cargo learn hint 14)"
    )
}
