//! Families: types of layers that share an implementation of [`CudaLayer`].

use crate::cuda::layer::Entry;
use crate::cuda::{CudaIo, CudaLayer};
use crate::op::{CpuLayer, Result, TensorFormat, TensorMeta};
use crate::tensor::Tensor;
use std::any::{Any, TypeId};
use std::fmt;

/// A family. Its values are entries of tables: each holds the functions in which one type of layers differs from the others.
pub(super) trait Family: Sync + 'static {
    /// The type of the CPU layers.
    type Layer: CpuLayer + Clone + 'static;
}

/// A GPU layer of a family: a clone of the CPU layer, with the entry of its type.
pub(super) struct Member<F: Family> {
    pub(super) layer: F::Layer,
    pub(super) entry: &'static F,
}

impl<F: Family> Clone for Member<F> {
    fn clone(&self) -> Self {
        Self { layer: self.layer.clone(), entry: self.entry }
    }
}

impl<F: Family> fmt::Debug for Member<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.layer, f)
    }
}

impl<F: Family> Entry for F
where
    Member<F>: CudaLayer,
{
    fn layer_type(&self) -> TypeId {
        TypeId::of::<F::Layer>()
    }

    fn make(&'static self, layer: &dyn Any) -> Option<Box<dyn CudaLayer>> {
        Some(Box::new(Member { layer: layer.downcast_ref::<F::Layer>()?.clone(), entry: self }))
    }
}

/// Layers that need only a few functions; the others are the defaults of [`CudaLayer`].
pub(super) struct Simple<L> {
    supports: fn(usize, &[TensorFormat]) -> bool,
    forward: fn(&L, &mut CudaIo<'_, '_>) -> Result<()>,
    weights: fn(&L) -> Result<Vec<Tensor>>,
    check: fn(&L, &[TensorMeta]) -> Result<()>,
    workspace: fn(&L, &[TensorMeta]) -> usize,
    changes_order: bool,
}

impl<L> Simple<L> {
    /// The entry of a type with [`CudaLayer::supports`], which depends on the formats alone, and [`CudaLayer::forward`].
    pub(super) const fn new(
        supports: fn(usize, &[TensorFormat]) -> bool,
        forward: fn(&L, &mut CudaIo<'_, '_>) -> Result<()>,
    ) -> Self {
        Self {
            supports,
            forward,
            weights: |_| Ok(Vec::new()),
            check: |_, _| Ok(()),
            workspace: |_, _| 0,
            changes_order: false,
        }
    }

    /// Sets [`CudaLayer::weights`].
    pub(super) const fn with_weights(self, weights: fn(&L) -> Result<Vec<Tensor>>) -> Self {
        Self { weights, ..self }
    }

    /// Sets what [`CudaLayer::configure`] checks of the inputs.
    pub(super) const fn with_check(self, check: fn(&L, &[TensorMeta]) -> Result<()>) -> Self {
        Self { check, ..self }
    }

    /// Sets [`CudaLayer::workspace`] for inputs like these.
    pub(super) const fn with_workspace(self, workspace: fn(&L, &[TensorMeta]) -> usize) -> Self {
        Self { workspace, ..self }
    }

    /// Marks a type whose layers [change the order](CudaLayer::changes_order) as fast as they keep it.
    pub(super) const fn changing_order(self) -> Self {
        Self { changes_order: true, ..self }
    }
}

impl<L: CpuLayer + Clone + 'static> Family for Simple<L> {
    type Layer = L;
}

impl<L: CpuLayer + Clone + 'static> CudaLayer for Member<Simple<L>> {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        (self.entry.supports)(position, formats)
    }

    fn weights(&self) -> Result<Vec<Tensor>> {
        (self.entry.weights)(&self.layer)
    }

    fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<()> {
        (self.entry.check)(&self.layer, inputs)
    }

    fn changes_order(&self) -> bool {
        self.entry.changes_order
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        (self.entry.workspace)(&self.layer, inputs)
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        (self.entry.forward)(&self.layer, io)
    }
}
