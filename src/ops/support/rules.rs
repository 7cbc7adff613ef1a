//! Rules for lengths that several layers share, in arithmetic that takes symbols and numbers alike.

use crate::kernels::window::Window;
use crate::tensor::Dim;

// ANCHOR: positions
/// How often a window fits on an axis whose length may be a symbol. Where it does not fit, the number is below 1.
///
/// PyTorch's rule: a last step that is only partly there is left out. With `ceil_mode` it counts, if the window then begins
/// inside of the axis or of the padding before it.
pub fn positions(window: &Window, len: &Dim, ceil_mode: bool) -> Dim {
    // ANCHOR: positions_todo -- task 2: the room in steps of the stride, rounded down or up
    let reach = window.dilation * window.kernel.saturating_sub(1) + 1;
    let room = len.clone() + (window.pad_before + window.pad_after) - reach;
    if !ceil_mode {
        return room.floor_div(window.stride) + 1;
    }
    let last_start = (len.clone() + window.pad_before - 1).floor_div(window.stride);
    room.ceil_div(window.stride).min(last_start) + 1
    // ANCHOR_END: positions_todo
}
// ANCHOR_END: positions

// ANCHOR: joined
/// The length that two lengths are, where they may be the same: a number rather than a symbol, otherwise the left one.
/// `None` where they are known to differ.
pub fn agreed(left: &Dim, right: &Dim) -> Option<Dim> {
    // ANCHOR: agreed_todo -- task 2: none if they differ, and of a number and a symbol the number
    match (left, right) {
        _ if left.differs(right) => None,
        (Dim::Symbolic(_), Dim::Fixed(_)) => Some(right.clone()),
        _ => Some(left.clone()),
    }
    // ANCHOR_END: agreed_todo
}

/// The lengths of two tensors put one after the other along an axis. `None` where they do not fit: other axes must agree.
pub fn joined(left: &[Dim], right: &[Dim], axis: usize) -> Option<Vec<Dim>> {
    // ANCHOR: joined_todo -- task 2: the sum along the axis, and what both agree on along all others
    if left.len() != right.len() {
        return None;
    }
    let pairs = left.iter().zip(right).enumerate();
    pairs
        .map(|(at, (left, right))| match at == axis {
            true => Some(left.clone() + right.clone()),
            false => agreed(left, right),
        })
        .collect()
    // ANCHOR_END: joined_todo
}
// ANCHOR_END: joined
