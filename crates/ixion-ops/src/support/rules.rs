//! Shape rules that several layers share. Lengths may be numbers or symbols.

use ixion_kernels::window::Window;
use ixion_tensor::Dim;

// ANCHOR: positions
/// The number of window positions along an axis, whose length may be a symbol. It is below 1 if the window does not fit.
///
/// As in PyTorch, an incomplete last step is dropped. With `ceil_mode` it counts if the window starts inside the axis or the
/// padding before it.
pub fn positions(window: &Window, len: &Dim, ceil_mode: bool) -> Dim {
    // ANCHOR: positions_todo -- task 2: divide the room by the stride, rounding down or up
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
/// The common length of two axes that must be equal: a number rather than a symbol, otherwise the left one. `None` if they
/// are known to differ.
pub fn agreed(left: &Dim, right: &Dim) -> Option<Dim> {
    // ANCHOR: agreed_todo -- task 2: `None` if they differ; of a number and a symbol, the number
    match (left, right) {
        _ if left.differs(right) => None,
        (Dim::Symbolic(_), Dim::Fixed(_)) => Some(right.clone()),
        _ => Some(left.clone()),
    }
    // ANCHOR_END: agreed_todo
}

/// The shape of two tensors concatenated along an axis. `None` if they are incompatible: all other axes must agree.
pub fn joined(left: &[Dim], right: &[Dim], axis: usize) -> Option<Vec<Dim>> {
    // ANCHOR: joined_todo -- task 2: the sum along the axis, and the common length along all others
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
