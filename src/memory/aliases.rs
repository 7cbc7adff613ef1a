//! Buffers that share memory: one overwrites the other or is a part of it.

use super::packing::Request;

// ANCHOR: part
/// The position of a buffer within another buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The enclosing buffer, which may be a part itself.
    pub whole: usize,
    /// The byte offset in the enclosing buffer.
    pub offset: usize,
}
// ANCHOR_END: part

// ANCHOR: root
/// The root of the buffer at `index`, that is the outermost buffer that contains it, and the buffer's byte offset in the root.
/// `parts` has an entry for each buffer, `None` for roots. It must not contain cycles.
pub fn root(parts: &[Option<Part>], index: usize) -> (usize, usize) {
    // ANCHOR: root_todo -- task 5: follow the parts to the root, and add up the offsets
    let (mut root, mut start) = (index, 0usize);
    while let Some(Some(part)) = parts.get(root) {
        (root, start) = (part.whole, start.saturating_add(part.offset));
    }
    (root, start)
    // ANCHOR_END: root_todo
}
// ANCHOR_END: root

// ANCHOR: joined
/// The request for `whole` after `part` has become a part of it: the size of `whole`, for as long as either is alive.
pub fn joined(part: &Request, whole: &Request) -> Request {
    // ANCHOR: joined_todo -- task 5: from the earlier first step to the later last step
    Request { bytes: whole.bytes, first: whole.first.min(part.first), last: whole.last.max(part.last) }
    // ANCHOR_END: joined_todo
}
// ANCHOR_END: joined

// ANCHOR: may_overwrite
/// Returns true if the operator of a step may overwrite `data`, the buffer of one of its inputs: the buffer must be the
/// planner's own, must not be read after this step, and must not be another input of the operator as well. `others` are the
/// buffers of the other inputs. All buffers are given by their roots.
pub fn may_overwrite(
    (data, request): (usize, &Request),
    step: usize,
    is_own: bool,
    others: &[usize],
) -> bool {
    // ANCHOR: may_overwrite_todo -- task 5: three conditions, each of which has broken a runtime
    is_own && request.last == step && !others.contains(&data)
    // ANCHOR_END: may_overwrite_todo
}
// ANCHOR_END: may_overwrite
