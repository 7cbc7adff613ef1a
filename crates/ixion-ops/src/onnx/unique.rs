//! The unique elements of a tensor.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::Flag;
use super::lowering::Source;
use crate::layout::reshaping::Ravel;
use crate::op::Result;
use crate::sorting::unique::{Order, UniqueSlices};
use crate::support::arguments::OutputCount;
use ixion_tensor::resolve_axis;

const X: Source = Source::Input(0);

crate::operator! {
    /// `Unique` (since 11): the unique elements of a tensor, or the unique slices along an axis. Further outputs, as
    /// far as the file lists them: the first index of each, the inverse indices, and the counts. All NaNs are equal.
    pub struct Unique for "Unique" {
        /// The axis; a negative one counts from the end. If absent, the elements of the flattened tensor are compared.
        axis: Option<i64> = None,
        /// Whether results are sorted, instead of in order of first occurrence.
        sorted: Flag = Flag::of(1),
        /// Number of outputs that the file lists.
        outputs: OutputCount,
    }
}

impl Decompose for Unique {
    fn num_outputs(&self) -> usize {
        self.outputs.0.clamp(1, 4)
    }

    fn is_data_dependent(&self) -> bool {
        true
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let (x, axis) = match self.axis {
            Some(axis) => (X, resolve_axis(axis, decomposition.rank(X)?)?),
            None => (decomposition.then(Ravel {}, &[X])?, 0),
        };
        let order = if self.sorted.0 { Order::Sorted } else { Order::FirstOccurrence };
        let unique = decomposition.step(UniqueSlices { axis, order, nan_is_equal: true }, &[x])?;
        Ok((0..self.num_outputs()).map(|output| unique.output(output)).collect())
    }
}

operators! { entry => Unique }
