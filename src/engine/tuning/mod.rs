//! Measures the cost of candidates, if the builder requests it.
//!
//! A candidate runs on synthetic tensors of the sizes that the plan is built for, as often as fits into a few milliseconds;
//! the fastest run counts. Times are kept in a [`TimingCache`]. An operator with a single candidate is never measured.

mod cache;
mod timer;

use super::device::Accelerator;
use crate::Limits;
use crate::graph::{RuntimeGraph, RuntimeOperator};
use crate::kernels::parallel::Threads;
use crate::op::{CpuLayer, Creator, LayerError, Tactic, TensorMeta, catch_panic};
use crate::ops::inserted::reformat::Reformat;
use crate::tensor::DType;
pub use cache::{CACHE_VERSION, Devices, TimingCache, Timings, TimingsFile, known_or, usable};
use std::fmt::{Display, Write};
use std::sync::{Mutex, PoisonError};
use timer::Timer;
pub use timer::{Budget, OF_A_LAYER, fastest};

/// Measures times, or takes them from a cache.
#[derive(Debug)]
pub(super) struct Tuner {
    cache: Mutex<TimingCache>,
    /// The cache's name of the CPU.
    cpu: String,
    timer: Timer,
}

impl Tuner {
    /// Creates a tuner that measures in this pool or, without one, on the caller's thread.
    pub(super) fn new(cache: TimingCache, pool: Option<Threads>, limits: Limits) -> Self {
        Self { cache: Mutex::new(cache), cpu: cache::cpu(), timer: Timer::new(pool, limits) }
    }

    /// The nanoseconds of one run of a layer that is configured and has its tactic; `None` if it cannot be measured.
    ///
    /// # Errors
    /// Returns an error if the layer cannot be initialised or the deadline has passed.
    pub(super) fn layer(
        &self,
        key: &Key,
        layer: &mut dyn CpuLayer,
        tactic: Tactic,
        (inputs, outputs): (&[TensorMeta], &[TensorMeta]),
    ) -> Result<Option<f64>, LayerError> {
        let key = key.of(tactic, (inputs, outputs), &self.timer.threads());
        self.known_or((&self.cpu, key), || self.timer.time(layer, inputs, outputs))
    }

    /// The nanoseconds of one run of a layer with a tactic on a device; `None` if it cannot be measured or fails there.
    ///
    /// # Errors
    /// Returns an error if the deadline has passed or tensors exceed the limits.
    pub(super) fn on_device(
        &self,
        key: &Key,
        accelerator: &Accelerator,
        (layer, tactic): (&dyn CpuLayer, Tactic),
        (inputs, outputs): (&[TensorMeta], &[TensorMeta]),
    ) -> Result<Option<f64>, LayerError> {
        let key = key.of(tactic, (inputs, outputs), &accelerator.settings());
        let device = cache::gpu(&accelerator.name());
        self.known_or((&device, key), || {
            accelerator.time(layer, tactic, (inputs, outputs), self.timer.limits())
        })
    }

    /// The nanoseconds of converting a tensor from one format to another; `None` if it cannot be measured.
    pub(super) fn reformat(&self, from: &TensorMeta, to: &TensorMeta) -> Option<f64> {
        let (mut layer, from, to) = reformat(from, to);
        self.layer(&Key::of_reformat(), &mut layer, Tactic::DEFAULT, (&[from], &[to])).ok().flatten()
    }

    /// As [`Tuner::reformat`], for a tensor that stays on a device.
    pub(super) fn reformat_on_device(
        &self,
        accelerator: &Accelerator,
        from: &TensorMeta,
        to: &TensorMeta,
    ) -> Option<f64> {
        let (layer, from, to) = reformat(from, to);
        let (key, layer) = (Key::of_reformat(), (&layer as &dyn CpuLayer, Tactic::DEFAULT));
        self.on_device(&key, accelerator, layer, (&[from], &[to])).ok().flatten()
    }

    /// Saves new times if the cache has a file. A failure costs only time, and is logged.
    pub(super) fn store(&self) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = cache.store() {
            log::warn!("timings cannot be saved: {error}");
        }
    }

    fn known_or(
        &self,
        (device, key): (&str, String),
        mut measure: impl FnMut() -> Result<Option<f64>, LayerError>,
    ) -> Result<Option<f64>, LayerError> {
        known_or(&self.cache, device, &key, &mut || {
            let found = catch_panic(&mut measure)?;
            if let Some(nanoseconds) = found {
                log::debug!("{key}: {nanoseconds:.0} ns");
            }
            Ok(found)
        })
    }
}

/// The layer that converts between two formats, and its input and output. The scale makes no difference to the time.
fn reformat(from: &TensorMeta, to: &TensorMeta) -> (Reformat, TensorMeta, TensorMeta) {
    let scale = |meta: &TensorMeta| meta.dtype().eq(&DType::I8).then_some(0.01);
    let (from, to) = (from.clone().with_scale(scale(from)), to.clone().with_scale(scale(to)));
    (Reformat::new(to.tensor_format(), from.scale(), to.scale()), from, to)
}

/// Everything but tensors that an operator's time depends on: its type and version, its parameters, the shapes of its weights.
#[derive(Debug, Clone)]
pub(super) struct Key(String);

impl Key {
    pub(super) fn new(graph: &RuntimeGraph, operator: &RuntimeOperator) -> Self {
        let mut text = operator.op_type().to_owned();
        if let Some(Creator { namespace, version, .. }) = graph.registry().known(operator.op_type()) {
            _ = write!(text, " {namespace}/{version}");
        }
        for (key, value) in operator.params() {
            _ = write!(text, " {key}={value:?}");
        }
        for (key, weight) in operator.attrs() {
            _ = write!(text, " @{key}={:?}", weight.shape());
        }
        Self(text)
    }

    fn of_reformat() -> Self {
        Self(Reformat::TYPE.to_owned())
    }

    /// The key of a tactic with these tensors; `by` is the number of threads, or the settings of the device.
    fn of(
        &self,
        tactic: Tactic,
        (inputs, outputs): (&[TensorMeta], &[TensorMeta]),
        by: &dyn Display,
    ) -> String {
        let list = |metas: &[TensorMeta]| {
            let text = |meta: &TensorMeta| {
                let plain = meta.with_dtype(meta.dtype()).with_format(meta.format());
                plain.with_scale(meta.scale()).to_string()
            };
            metas.iter().map(text).collect::<Vec<_>>().join(", ")
        };
        let (inputs, outputs) = (list(inputs), list(outputs));
        format!("{} | {inputs} -> {outputs} | {} {} | {by}", self.0, tactic.id, tactic.name)
    }
}
