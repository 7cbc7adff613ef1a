//! Stand-ins for a build without GPUs.

use super::{Scratch, SegmentAction};
use crate::Limits;
use crate::engine::prepared::Job;
use crate::graph::RuntimeGraph;
use crate::memory::Memory;
use crate::op::{CpuLayer, LayerError, Tactic, TensorFormat, TensorMeta};
use crate::tensor::Tensor;

/// A device for a builder.
#[derive(Debug, Clone)]
pub(in crate::engine) enum Accelerator {}

impl Accelerator {
    pub(in crate::engine) fn changes_order(&self, _: &dyn CpuLayer) -> bool {
        match *self {}
    }

    pub(in crate::engine) fn efficiency(&self, _: &dyn CpuLayer, _: (&[TensorMeta], &[TensorMeta])) -> f64 {
        match *self {}
    }

    pub(in crate::engine) fn tactics(&self, _: &dyn CpuLayer) -> Option<Vec<Tactic>> {
        match *self {}
    }

    pub(in crate::engine) fn takes(&self, _: &dyn CpuLayer, _: &[TensorFormat]) -> bool {
        match *self {}
    }

    pub(in crate::engine) fn suited(
        &self,
        _: &dyn CpuLayer,
        _: &[TensorFormat],
        _: (&[TensorMeta], &[TensorMeta]),
    ) -> Result<Vec<Tactic>, LayerError> {
        match *self {}
    }

    pub(in crate::engine) fn name(&self) -> String {
        match *self {}
    }

    pub(in crate::engine) fn settings(&self) -> String {
        match *self {}
    }

    pub(in crate::engine) fn time(
        &self,
        _: &dyn CpuLayer,
        _: Tactic,
        _: (&[TensorMeta], &[TensorMeta]),
        _: &Limits,
    ) -> Result<Option<f64>, LayerError> {
        match *self {}
    }
}

/// The device part of a plan.
#[derive(Debug)]
pub(in crate::engine) enum OnDevice {}

impl OnDevice {
    pub(in crate::engine) fn new(
        accelerator: &Accelerator,
        _: &RuntimeGraph,
        _: &[Option<Tensor>],
    ) -> Result<Self, (Option<usize>, LayerError)> {
        match *accelerator {}
    }
}

/// Always false without a GPU.
pub(in crate::engine) fn is_out_of_memory(_: &LayerError) -> bool {
    false
}

/// The device part of a context.
#[derive(Debug)]
pub(in crate::engine) enum DeviceState {}

impl DeviceState {
    pub(in crate::engine) fn new(plan: &OnDevice) -> Result<Self, LayerError> {
        match *plan {}
    }

    pub(in crate::engine) fn configure(
        &mut self,
        _: &OnDevice,
        _: usize,
        _: (&[TensorMeta], &[TensorMeta]),
    ) -> Result<(), LayerError> {
        match *self {}
    }

    pub(in crate::engine) fn workspace(
        &self,
        _: usize,
        _: (&[TensorMeta], &[TensorMeta]),
        _: Scratch,
    ) -> usize {
        match *self {}
    }

    pub(in crate::engine) fn reserve(&mut self, _: usize) -> Result<(), LayerError> {
        match *self {}
    }

    pub(in crate::engine) fn segment(
        &mut self,
        _: &OnDevice,
        _: &[Job],
        _: usize,
    ) -> Result<SegmentAction, LayerError> {
        match *self {}
    }

    pub(in crate::engine) fn keep(&mut self, _: usize, _: usize) {
        match *self {}
    }

    pub(in crate::engine) fn drop_layer(&mut self, _: usize) {
        match *self {}
    }

    pub(in crate::engine) fn run(
        &mut self,
        _: &OnDevice,
        _: &Job,
        _: &mut Memory<'_, '_>,
        _: &Limits,
    ) -> Result<(), LayerError> {
        match *self {}
    }

    pub(in crate::engine) fn synchronize(&mut self) -> Result<(), (Option<usize>, LayerError)> {
        match *self {}
    }
}
