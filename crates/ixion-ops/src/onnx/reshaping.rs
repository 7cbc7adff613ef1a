//! `Flatten`, whose steps depend on the rank of the input.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::lowering::Source;
use crate::layout::reshaping::{Flatten as TorchFlatten, Unsqueeze};
use crate::op::{LayerError, Result};

const X: Source = Source::Input(0);

crate::operator! {
    /// `Flatten` (since 1): a matrix; the axes before one are merged into its rows, the others into its columns.
    pub struct Flatten for "Flatten" {
        /// The first axis of the columns; a negative one counts from the end.
        axis: i64 = 1,
    }
}

impl Decompose for Flatten {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let rank = decomposition.rank(X)?;
        let signed = i64::try_from(rank).unwrap_or(i64::MAX);
        let axis = if self.axis < 0 { self.axis.saturating_add(signed) } else { self.axis };
        if !(0..=signed).contains(&axis) {
            let reason = format!("it must be between {} and {signed}", -signed);
            return Err(LayerError::invalid("axis", self.axis, reason));
        }
        let is_row = axis == 0;
        if is_row || axis == signed {
            let flat = decomposition.then(TorchFlatten { start_dim: 0, end_dim: -1 }, &[X])?;
            let dim = vec![i64::from(!is_row)];
            return Ok(vec![decomposition.then(Unsqueeze { dim }, &[flat])?]);
        }
        let mut flat = decomposition.then(TorchFlatten { start_dim: axis, end_dim: -1 }, &[X])?;
        if axis > 1 {
            flat = decomposition.then(TorchFlatten { start_dim: 0, end_dim: axis - 1 }, &[flat])?;
        }
        Ok(vec![flat])
    }
}

operators! { entry => Flatten; category Shape }
