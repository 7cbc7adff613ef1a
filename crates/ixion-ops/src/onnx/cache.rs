//! `TensorScatter`, which writes new keys and values into those that were kept.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::Optional;
use super::lowering::Source;
use crate::creation::filled::OnesLike;
use crate::indexing::scattering::Scatter;
use crate::layout::reshaping::Unsqueeze;
use crate::op::{LayerError, Result};
use crate::reduction::scan::Cumsum;
use crate::support::arguments::{Accumulator, InputIndex, Wanted};
use crate::support::broadcast::TensorOrScalar;
use crate::support::choices::choices;
use ixion_tensor::{DType, resolve_axis};

const X: Source = Source::Input(0);

choices! {
    /// What happens behind the end of the axis.
    pub enum WriteMode {
        /// Nothing may be written there.
        Linear = "linear",
        /// Writing continues at the start of the axis.
        Circular = "circular",
    }
}

crate::operator! {
    /// `TensorScatter` (since 24): the input with `update` written along one axis, for each sample from a position of its own on.
    pub struct TensorScatter for "TensorScatter" {
        /// The axis; a negative one counts from the end. It is not the first one, the batch.
        axis: i64 = -2,
        /// What happens behind the end of the axis.
        mode: WriteMode = WriteMode::Linear,
        /// The elements to write; as long as the input on all other axes.
        update: InputIndex,
        /// The first position of each sample; 0 if absent.
        write_indices: Optional = Optional(None),
    }
}

impl Decompose for TensorScatter {
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[("dim", "axis")]
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let update = Source::Input(self.update.0);
        let rank = decomposition.rank(X)?;
        let axis = resolve_axis(self.axis, rank)?;
        if axis == 0 {
            return Err(LayerError::invalid("axis", self.axis, "the first axis is the batch"));
        }
        let dim = i64::try_from(axis).unwrap_or(i64::MAX);
        let ones = OnesLike { dtype: Some(DType::I64), memory_format: None };
        let ones = decomposition.then(ones, &[update])?;
        let dtype = Accumulator(Some(Wanted::Given(DType::I64)));
        let counts = decomposition.then(Cumsum { dim, dtype }, &[ones])?;
        let mut places = decomposition.compute("sub(@0,1)", &[counts])?;
        if let Some(starts) = self.write_indices.source() {
            let starts = decomposition.cast(starts, DType::I64)?;
            let axes: Vec<i64> = (1..i64::try_from(rank).unwrap_or(i64::MAX)).collect();
            let starts = decomposition.then(Unsqueeze { dim: axes }, &[starts])?;
            places = decomposition.compute("add(@0,@1)", &[places, starts])?;
        }
        if self.mode == WriteMode::Circular {
            places = decomposition.compute(&format!("remainder(@0,size(@1,{axis}))"), &[places, X])?;
        }
        let (index, src) = (InputIndex(1), TensorOrScalar::Input(2));
        Ok(vec![decomposition.then(Scatter { dim, index, src, reduce: None }, &[X, places, update])?])
    }
}

operators! { entry => TensorScatter; category Shape }
