//! The constants of a head, which PNNX numbers instead of naming them.
//!
//! Tensors that a module keeps in lists are neither parameters nor buffers, but constants of the traced graph. PNNX numbers
//! them in the order in which they are used, as `pnnx_00`; its versions before August 2023 number them in reverse, as `pnnx_0`.
//! A head uses the grid of the first map, the strides and the anchors of the first map, then the grid and the anchors of the
//! second map, and so on.

use crate::op::{LayerError, OperatorReader, Result, RuntimeAttribute, TensorMeta};

/// The constants of a head.
#[derive(Debug)]
pub(super) struct Constants {
    /// Pixels per position of each map.
    pub(super) strides: RuntimeAttribute,
    /// All others, in the order in which they are used.
    pub(super) others: Vec<RuntimeAttribute>,
}

impl Constants {
    /// Reads the constants of a head with this number of maps.
    pub(super) fn read(reader: &mut OperatorReader<'_>, maps: usize) -> Result<Self> {
        let numbered = reader.keys().into_iter().filter_map(|key| Some((number_of(&key)?, key)));
        let mut numbered: Vec<(usize, String)> = numbered.collect();
        numbered.sort();
        numbered.dedup();
        let is_padded = numbered.iter().any(|(_, key)| is_padded(key));
        let mut all = Vec::with_capacity(numbered.len());
        for (_, key) in numbered {
            all.push(reader.attr(key.clone()).ok_or(LayerError::MissingWeight { key })?);
        }
        let Some(position) = all.iter().position(|constant| constant.shape() == [maps]) else {
            return Err(unusable(format!("one with the strides of {maps} maps"), &all));
        };
        let Some(is_forward) = is_forward(position, all.len(), is_padded) else {
            let wanted = format!("the strides of {maps} maps near the first or the last one");
            return Err(unusable(wanted, &all));
        };
        let strides = all.remove(position);
        if !is_forward {
            all.reverse();
        }
        Ok(Self { strides, others: all })
    }

    /// The error for constants that are not those of a head with this number of maps.
    pub(super) fn unusable(&self, maps: usize) -> LayerError {
        let wanted = format!(
            "a grid for each of {maps} maps, or a grid and anchors for each, apart from the strides; anchors may also be an attribute `anchors` or `anchor_grid`"
        );
        unusable(wanted, &self.others)
    }
}

/// The number of a constant, if this is its key.
fn number_of(key: &str) -> Option<usize> {
    key.strip_prefix("pnnx_")?.parse().ok()
}

/// Returns true if the number begins with a 0 that it does not need.
fn is_padded(key: &str) -> bool {
    key.strip_prefix("pnnx_0").is_some_and(|rest| !rest.is_empty())
}

/// Whether `count` constants are in the order in which they are used, given the position of the strides, which are used first
/// or second. `None` if they are used neither early nor late. Where there are so few that it is both, padded numbers decide.
fn is_forward(strides: usize, count: usize, is_padded: bool) -> Option<bool> {
    match strides {
        _ if count < 4 => Some(is_padded),
        0 | 1 => Some(true),
        strides => (strides + 2 >= count).then_some(false),
    }
}

fn unusable(wanted: String, found: &[RuntimeAttribute]) -> LayerError {
    let meta = |constant: &RuntimeAttribute| meta_of(constant).to_string();
    let found: Vec<String> = found.iter().map(meta).collect();
    let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
    LayerError::shape("the constants `pnnx_…` of the head", wanted, found)
}

/// The metadata of an attribute.
pub(super) fn meta_of(attribute: &RuntimeAttribute) -> TensorMeta {
    TensorMeta::new(attribute.dtype(), attribute.shape().iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_their_order() {
        let keys = ["pnnx_0", "pnnx_07", "pnnx_12", "pnnx_", "pnnx_x", "m.0.bias", "pnnx_00"];
        let numbers = keys.map(number_of);
        assert_eq!(numbers, [Some(0), Some(7), Some(12), None, None, None, Some(0)]);
        assert_eq!(keys.map(is_padded), [false, true, false, false, false, false, true]);
        // Grid, strides, anchors, grid, …, and the reverse.
        assert_eq!([1, 5].map(|strides| is_forward(strides, 7, false)), [Some(true), Some(false)]);
        assert_eq!([0, 6, 3].map(|strides| is_forward(strides, 7, true)), [Some(true), Some(false), None]);
        assert_eq!([true, false].map(|is_padded| is_forward(1, 3, is_padded)), [Some(true), Some(false)]);
        assert_eq!(is_forward(2, 4, true), Some(false));
    }
}
