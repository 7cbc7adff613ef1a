//! Buffers that share their bytes: one overwrites the other, or is a part of it.

use super::packing::Request;

// ANCHOR: part
/// Where in another buffer a buffer lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The other buffer, which may be a part itself.
    pub whole: usize,
    /// The byte of it at which this one begins.
    pub offset: usize,
}
// ANCHOR_END: part

// ANCHOR: root
/// The buffer that is nobody's part and that holds the buffer at `index`, and the byte of it at which that one begins. `parts`
/// has an entry for each buffer: none for those that are nobody's part. Nobody may be a part of itself, by whatever detour.
pub fn root(parts: &[Option<Part>], index: usize) -> (usize, usize) {
    // ANCHOR: root_todo -- task 5: go from part to whole as long as there is one, and add the offsets up
    let (mut root, mut start) = (index, 0usize);
    while let Some(Some(part)) = parts.get(root) {
        (root, start) = (part.whole, start.saturating_add(part.offset));
    }
    (root, start)
    // ANCHOR_END: root_todo
}
// ANCHOR_END: root

// ANCHOR: joined
/// What is needed where `part` becomes a part of `whole`: the bytes of the whole, for as long as either is alive.
pub fn joined(part: &Request, whole: &Request) -> Request {
    // ANCHOR: joined_todo -- task 5: from the earlier first step to the later last one
    Request { bytes: whole.bytes, first: whole.first.min(part.first), last: whole.last.max(part.last) }
    // ANCHOR_END: joined_todo
}
// ANCHOR_END: joined

// ANCHOR: may_overwrite
/// Whether the operator of a step may write its result over `data`, the buffer of one of its inputs: if it is the planner's
/// own, nobody reads it later, and the operator reads it through no other input. `others` are the buffers of its other
/// inputs. All of them are roots.
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
