//! The packed projections of multi-head attention.

use super::{MultiheadAttention, Sources};
use crate::op::{
    FieldValue, LayerError, NO_KEY, OperatorReader, Result, RuntimeAttribute, Tactic, TensorMeta,
};
use crate::support::packed;
use crate::support::packed::{Early, Packed, pack};
use crate::support::packed_weights::numbers_of;
use ixion_kernels::packed::Panels;

/// The packed projections.
#[derive(Debug, Clone, Default)]
pub struct Projections {
    /// In the order of [`Part`].
    packed: [Packed; 5],
    early: Early,
}

/// A packed projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The projections of queries, keys and values as one matrix.
    Together,
    /// The projection of queries (0), keys (1) or values (2).
    Apart(usize),
    /// The output projection.
    Back,
}

impl FieldValue for Projections {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        Ok(Early::read(reader, key)?.map(|early| Self { early, ..Self::default() }))
    }
}

impl Projections {
    fn of(&self, part: Part) -> &Packed {
        &self.packed[match part {
            Part::Together => 0,
            Part::Apart(part) => 1 + part,
            Part::Back => 4,
        }]
    }
}

impl MultiheadAttention {
    /// Decides whether projections are packed before the first run.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if the tactic does not support the inputs.
    pub(super) fn configure_projections(&mut self, inputs: &[TensorMeta]) -> Result<()> {
        let mut early = std::mem::take(&mut self.projections.early);
        let input = inputs.get(self.sources.query);
        let input = input.filter(|_| self.outputs.count < 2 && self.extra_rows() == 0);
        let configured = early.configure(input, self.stored());
        self.projections.early = early;
        configured
    }

    /// The tactics for the projections.
    pub(super) fn tactics_of_projections(&self) -> Vec<Tactic> {
        Early::tactics(self.stored())
    }

    /// Selects a tactic by its id.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if no tactic has this id.
    pub(super) fn select_tactic(&mut self, id: u32) -> Result<()> {
        let tactics = self.tactics_of_projections();
        if self.projections.early.select_tactic(id, &tactics)? {
            self.projections.packed = Default::default();
        }
        Ok(())
    }

    /// The configuration of early packing.
    pub(super) fn early(&self) -> &Early {
        &self.projections.early
    }

    /// Packs the projections if configured.
    ///
    /// # Errors
    /// Fails if the weights cannot be read.
    pub(super) fn initialize_projections(&self) -> Result<()> {
        if !self.projections.early.is_wanted() {
            return Ok(());
        }
        self.kept_parts().into_iter().try_for_each(|part| self.panels(part).map(drop))
    }

    /// The packed projections that a plan stores.
    pub(super) fn packed_projections(&self) -> Option<Vec<f32>> {
        let panels = self.kept_parts().into_iter().map(|part| self.projections.of(part).get());
        let panels = panels.collect::<Option<Vec<_>>>()?;
        self.projections.early.is_wanted().then(|| numbers_of(panels))
    }

    /// The state that a plan stores.
    pub(super) fn projections_to_bytes(&self) -> Vec<u8> {
        self.projections.early.to_bytes()
    }

    /// Restores the state from a plan.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if the bytes are not such a state.
    pub(super) fn restore_projections(&mut self, bytes: &[u8]) -> Result<()> {
        if self.projections.early.restore(bytes)? {
            return Ok(());
        }
        Err(LayerError::Unsupported(format!("invalid weight packing {bytes:?}")))
    }

    /// The projections that runs use, in the order in which a plan stores them.
    fn kept_parts(&self) -> Vec<Part> {
        match self.is_one() {
            true => vec![Part::Together, Part::Back],
            false => (0..3).map(Part::Apart).chain([Part::Back]).collect(),
        }
    }

    /// Returns true if queries, keys and values are projected from the same rows by one matrix.
    pub(super) fn is_one(&self) -> bool {
        let Sources { query, key, value, .. } = self.sources;
        query == key && key == value && self.in_proj_weight.0.is_some()
    }

    /// The numbers of outputs and of factors per output.
    fn sizes_of(&self, part: Part) -> [usize; 2] {
        let e = self.embed_dim;
        match part {
            Part::Together => [3 * e, e],
            Part::Apart(part) => [e, self.lengths()[part]],
            Part::Back => [e, e],
        }
    }

    /// The packed weights of a projection.
    ///
    /// # Errors
    /// Fails if the weights cannot be read.
    pub(super) fn panels(&self, part: Part) -> Result<&Panels> {
        self.projections.of(part).get_or_make(|| {
            let before = self.kept_parts().into_iter().take_while(|&other| other != part);
            let lens = before.map(|other| self.projections.early.len(self.sizes_of(other)));
            let first = lens.fold(0, usize::saturating_add);
            let is_stored = self.kept_parts().contains(&part);
            let stored = is_stored.then(|| self.projections.early.part(first, self.sizes_of(part)));
            stored.transpose()?.flatten().map_or_else(|| self.pack(part), Ok)
        })
    }

    fn pack(&self, part: Part) -> Result<Panels> {
        let ([outputs, features], e) = (self.sizes_of(part), self.embed_dim);
        let factors = (features, self.projections.early.packing());
        let missing = |key: &str| LayerError::MissingWeight { key: key.to_owned() };
        let (all, bias) = (self.in_proj_weight.0.as_ref(), self.in_proj_bias.0.as_ref());
        match (part, all) {
            (Part::Back, _) => {
                let weight = self.out_weight.0.as_ref().ok_or_else(|| missing("out_proj.weight"))?;
                pack(weight, self.out_bias.0.as_ref(), 0..outputs, factors)
            }
            (Part::Together, all) => {
                pack(all.ok_or_else(|| missing("in_proj_weight"))?, bias, 0..outputs, factors)
            }
            (Part::Apart(part), Some(all)) => pack(all, bias, part * e..(part + 1) * e, factors),
            (Part::Apart(part), None) => {
                let own = [&self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight][part];
                let weight = own.0.as_ref().ok_or_else(|| missing("in_proj_weight"))?;
                let bias = bias.map(|bias| (bias, part * e..(part + 1) * e));
                packed::pack_parts((weight, 0..outputs), bias, factors)
            }
        }
    }

    /// All weights and biases of the projections in the file.
    pub(super) fn stored(&self) -> impl Iterator<Item = &RuntimeAttribute> {
        let weights = [&self.in_proj_weight, &self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight];
        let others = [&self.in_proj_bias, &self.out_weight, &self.out_bias];
        weights.into_iter().chain(others).filter_map(|stored| stored.0.as_ref())
    }
}
