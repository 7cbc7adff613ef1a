//! Measuring what candidates cost, where a builder is asked to.
//!
//! A candidate runs on made-up tensors of the sizes that the plan is made for, as often as fits into a few milliseconds; the
//! fastest run counts. What was measured once is kept in a [`TimingCache`]. An operator with one candidate is never measured.

mod cache;
mod timer;

use crate::Limits;
use crate::graph::{
    CpuLayer, Creator, LayerError, RuntimeGraph, RuntimeOperator, Tactic, TensorMeta, guarded,
};
use crate::kernels::parallel::Threads;
use crate::layers::reformat::Reformat;
use crate::tensor::DType;
pub use cache::TimingCache;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use timer::Timer;

/// Measures, or remembers what was measured.
#[derive(Debug)]
pub(super) struct Tuner {
    cache: Mutex<TimingCache>,
    timer: Timer,
}

impl Tuner {
    /// One that measures in this pool; without one, on the caller's thread.
    pub(super) fn new(cache: TimingCache, pool: Option<Threads>, limits: Limits) -> Self {
        Self { cache: Mutex::new(cache), timer: Timer::new(pool, limits) }
    }

    /// Nanoseconds of one run of a layer that is configured and has its tactic; none where it cannot be measured.
    ///
    /// # Errors
    /// A layer that cannot be initialised; a deadline that has passed.
    pub(super) fn layer(
        &self,
        key: &Key,
        layer: &mut dyn CpuLayer,
        tactic: Tactic,
        (inputs, outputs): (&[TensorMeta], &[TensorMeta]),
    ) -> Result<Option<f64>, LayerError> {
        let key = key.of(tactic, inputs, outputs, self.timer.threads());
        self.known_or(key, || self.timer.time(layer, inputs, outputs))
    }

    /// Nanoseconds of bringing a tensor from one format into another; none where it cannot be measured.
    pub(super) fn reformat(&self, from: &TensorMeta, to: &TensorMeta) -> Option<f64> {
        // What the numbers are multiplied with makes no difference to the time.
        let scale = |meta: &TensorMeta| meta.dtype().eq(&DType::I8).then_some(0.01);
        let (from, to) = (from.clone().with_scale(scale(from)), to.clone().with_scale(scale(to)));
        let mut layer = Reformat::new(to.tensor_format(), from.scale(), to.scale());
        let key = Key(Reformat::TYPE.to_owned());
        let (from, to) = (std::slice::from_ref(&from), std::slice::from_ref(&to));
        let key = key.of(Tactic::DEFAULT, from, to, self.timer.threads());
        self.known_or(key, || self.timer.time(&mut layer, from, to)).ok().flatten()
    }

    /// Writes down what is new, where there is a file. That it cannot be written costs time and nothing else.
    pub(super) fn store(&self) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = cache.store() {
            log::warn!("timings are not kept: {error}");
        }
    }

    fn known_or(
        &self,
        key: String,
        measure: impl FnOnce() -> Result<Option<f64>, LayerError>,
    ) -> Result<Option<f64>, LayerError> {
        let cache = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = cache().get(&key) {
            return Ok(Some(known));
        }
        let found = guarded(measure)?;
        if let Some(nanoseconds) = found {
            log::debug!("{key}: {nanoseconds:.0} ns");
            cache().insert(key, nanoseconds);
        }
        Ok(found)
    }
}

/// What an operator's time depends on beside its tensors: its type and version, its parameters, the shapes of its weights.
#[derive(Debug, Clone)]
pub(super) struct Key(String);

impl Key {
    pub(super) fn new(graph: &RuntimeGraph, operator: &RuntimeOperator) -> Self {
        let mut text = operator.op_type().to_owned();
        if let Ok(Creator { namespace, version, .. }) = graph.registry().get(operator.op_type()) {
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

    fn of(&self, tactic: Tactic, inputs: &[TensorMeta], outputs: &[TensorMeta], threads: usize) -> String {
        let list = |metas: &[TensorMeta]| {
            let text = |meta: &TensorMeta| {
                let plain = meta.with_dtype(meta.dtype()).with_format(meta.format());
                plain.with_scale(meta.scale()).to_string()
            };
            metas.iter().map(text).collect::<Vec<_>>().join(", ")
        };
        let (inputs, outputs) = (list(inputs), list(outputs));
        format!("{} | {inputs} -> {outputs} | {} {} | {threads}", self.0, tactic.id, tactic.name)
    }
}
