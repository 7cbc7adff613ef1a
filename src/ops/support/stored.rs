//! Packed weights that a plan stored.

use crate::kernels::packed::Panels;
use crate::op::{FieldValue, LayerError, NO_KEY, OperatorReader, PACKED, RuntimeAttribute};
use crate::tensor::Tensor;
use std::sync::{Arc, OnceLock};

/// The packed weights of a plan, if it stored some, and the order in which they are, as the layer's state tells it. An
/// attribute of that name without such a state says nothing: no plan has stored it.
#[derive(Debug, Clone)]
pub struct Stored<O> {
    attribute: Option<RuntimeAttribute>,
    order: Option<O>,
    /// What was read of it; clones share it.
    loaded: Arc<OnceLock<Tensor>>,
}

impl<O> Default for Stored<O> {
    fn default() -> Self {
        Self { attribute: None, order: None, loaded: Arc::default() }
    }
}

impl<O: Send> FieldValue for Stored<O> {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(Some(Self { attribute: reader.attr(PACKED), ..Self::default() }))
    }
}

impl<O: PartialEq> Stored<O> {
    /// Takes over from a plan's state in which order they are.
    pub(in crate::ops) fn settle(&mut self, order: Option<O>) {
        self.order = order;
    }

    /// All numbers, if they are stored in this order. Those of a mapped plan are not read here.
    ///
    /// # Errors
    /// Numbers that cannot be read.
    pub(in crate::ops) fn numbers(&self, order: &O) -> Result<Option<Tensor>, LayerError> {
        let is_of_order = self.order.as_ref() == Some(order);
        let Some(attribute) = self.attribute.as_ref().filter(|_| is_of_order) else { return Ok(None) };
        if let Some(loaded) = self.loaded.get() {
            return Ok(Some(loaded.clone()));
        }
        let loaded = attribute.load()?;
        Ok(Some(self.loaded.get_or_init(|| loaded).clone()))
    }
}

/// All numbers of some panels, one after the other, as a plan stores them.
pub(in crate::ops) fn numbers_of<'a>(panels: impl IntoIterator<Item = &'a Panels>) -> Vec<f32> {
    panels.into_iter().flat_map(Panels::numbers).copied().collect()
}
