//! How many weights and factors are together.

/// Outputs per panel of weights.
pub(super) const PANEL: usize = 16;

/// Factors of an output that are multiplied at a time.
pub(super) const QUAD: usize = 4;
