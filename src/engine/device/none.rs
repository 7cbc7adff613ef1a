//! Stand-ins for a build without GPUs. They have no values, so their methods can take anything.

use super::SegmentAction;
use crate::op::{LayerError, Result, Tactic};

/// A device for a builder.
#[derive(Debug, Clone)]
pub(in crate::engine) enum Accelerator {}

impl Accelerator {
    pub(in crate::engine) fn changes_order<L>(&self, _: L) -> bool {
        match *self {}
    }

    pub(in crate::engine) fn efficiency<L, T>(&self, _: L, _: T) -> f64 {
        match *self {}
    }

    pub(in crate::engine) fn tactics<L>(&self, _: L) -> Option<Vec<Tactic>> {
        match *self {}
    }

    pub(in crate::engine) fn takes<L, F>(&self, _: L, _: F) -> bool {
        match *self {}
    }

    pub(in crate::engine) fn suited<L, F, T>(&self, _: L, _: F, _: T) -> Result<Vec<Tactic>> {
        match *self {}
    }

    pub(in crate::engine) fn name(&self) -> String {
        match *self {}
    }

    pub(in crate::engine) fn settings(&self) -> String {
        match *self {}
    }

    pub(in crate::engine) fn time<L, T, M, I>(&self, _: L, _: T, _: M, _: I) -> Result<Option<f64>> {
        match *self {}
    }
}

/// The device part of a plan.
#[derive(Debug)]
pub(in crate::engine) enum OnDevice {}

impl OnDevice {
    pub(in crate::engine) fn new<G, C>(
        accelerator: &Accelerator,
        _: G,
        _: C,
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
    pub(in crate::engine) fn new(plan: &OnDevice) -> Result<Self> {
        match *plan {}
    }

    pub(in crate::engine) fn configure<T>(&mut self, _: &OnDevice, _: usize, _: T) -> Result<()> {
        match *self {}
    }

    pub(in crate::engine) fn workspace<T, S>(&self, _: usize, _: T, _: S) -> usize {
        match *self {}
    }

    pub(in crate::engine) fn reserve(&mut self, _: usize) -> Result<()> {
        match *self {}
    }

    pub(in crate::engine) fn segment<J>(&mut self, _: &OnDevice, _: J, _: usize) -> Result<SegmentAction> {
        match *self {}
    }

    pub(in crate::engine) fn keep(&mut self, _: usize, _: usize) {
        match *self {}
    }

    pub(in crate::engine) fn pin_output<J, B>(&mut self, _: usize, _: J, _: B) {
        match *self {}
    }

    pub(in crate::engine) fn drop_layer(&mut self, _: usize) {
        match *self {}
    }

    pub(in crate::engine) fn run<J, M, L>(&mut self, _: &OnDevice, _: J, _: M, _: L) -> Result<()> {
        match *self {}
    }

    pub(in crate::engine) fn synchronize(&mut self) -> Result<(), (Option<usize>, LayerError)> {
        match *self {}
    }
}
