//! Packed weights that a plan stored.

use crate::op::{FieldValue, NO_KEY, OperatorReader, PACKED, Result, RuntimeAttribute, Written};
use ixion_kernels::packed::Panels;
use ixion_tensor::Tensor;
use std::sync::{Arc, OnceLock};

/// The packed weights that a plan stored, if any, and their packing order, which the layer's state records. An attribute of
/// that name is ignored without such a state, because no plan has stored it.
#[derive(Debug, Clone)]
pub struct PackedWeights<O> {
    attribute: Option<RuntimeAttribute>,
    order: Option<O>,
    /// The loaded attribute; clones share it.
    loaded: Arc<OnceLock<Tensor>>,
}

impl<O> Default for PackedWeights<O> {
    fn default() -> Self {
        Self { attribute: None, order: None, loaded: Arc::default() }
    }
}

impl<O: Send> FieldValue for PackedWeights<O> {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        Ok(Some(Self { attribute: reader.attr(PACKED), ..Self::default() }))
    }

    fn written(&self) -> Written {
        Written::Nothing
    }
}

impl<O: PartialEq> PackedWeights<O> {
    /// Restores the packing order from a plan's state.
    pub(crate) fn set_order(&mut self, order: Option<O>) {
        self.order = order;
    }

    /// All elements, if they are stored in this order. If the plan is memory-mapped, they are not read yet.
    ///
    /// # Errors
    /// Returns an error if the elements cannot be read.
    pub(crate) fn numbers(&self, order: &O) -> Result<Option<Tensor>> {
        let is_of_order = self.order.as_ref() == Some(order);
        let Some(attribute) = self.attribute.as_ref().filter(|_| is_of_order) else { return Ok(None) };
        if let Some(loaded) = self.loaded.get() {
            return Ok(Some(loaded.clone()));
        }
        let loaded = attribute.load()?;
        Ok(Some(self.loaded.get_or_init(|| loaded).clone()))
    }
}

/// The elements of all panels, concatenated, as a plan stores them.
pub(crate) fn numbers_of<'a>(panels: impl IntoIterator<Item = &'a Panels>) -> Vec<f32> {
    panels.into_iter().flat_map(Panels::numbers).copied().collect()
}
