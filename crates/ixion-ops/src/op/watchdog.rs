//! Layers that may never return: plugins that run with a deadline.
//!
//! Such a layer runs on its own thread, on its own copies of the tensors. If it does not return in time, the thread is
//! abandoned together with everything that it can access: it may continue indefinitely, and nothing waits for it. Ixion's own
//! layers, which check the deadline themselves, and runs without a deadline are not affected.

use crate::op::{
    CloneCpuLayer, Cost, CpuLayer, ForwardContext, Io, Layer, LayerError, Result, Tactic, TensorFormat,
    TensorMeta, View, catch_panic,
};
use ixion_tensor::{
    DType, Format, Layout, LimitError, Limits, Shape, Tensor, TensorView, TensorViewMut, Workspace,
};
use std::cell::RefCell;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

thread_local! {
    /// The limits of the current work on this thread, if they have a deadline.
    static LIMITS: RefCell<Option<Limits>> = const { RefCell::new(None) };
}

/// The interval between checks for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The time that a call has to return after its deadline or after it is cancelled.
const GRACE: Duration = Duration::from_millis(200);

/// Runs `work` with the deadline of these limits for all plugins in it.
pub fn with_deadline<T>(limits: &Limits, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<Limits>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LIMITS.set(self.0.take());
        }
    }
    let timed = limits.deadline.is_some().then(|| limits.clone());
    let _restore = Restore(LIMITS.replace(timed));
    work()
}

/// The current limits of this thread, if they have a deadline.
pub fn timed_limits() -> Option<Limits> {
    LIMITS.with_borrow(Clone::clone)
}

/// Makes a call that may never return: on its own thread, if there is a deadline.
///
/// # Errors
/// [`LayerError::Stuck`] if it does not return in time; the thread is then abandoned. Otherwise the error of the call.
pub fn watched<T: Send + 'static>(
    limits: Option<&Limits>,
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let Some((limits, deadline)) = limits.and_then(|limits| Some((limits, limits.deadline?))) else {
        return call();
    };
    let output = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&output);
    let call = move || {
        let result = call()?;
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        Ok(())
    };
    on_a_thread(limits, deadline, Box::new(call))?;
    let output = output.lock().unwrap_or_else(PoisonError::into_inner).take();
    output.ok_or_else(no_result)
}

/// The part of [`watched`] that does not depend on the type of the result.
fn on_a_thread(
    limits: &Limits,
    deadline: Instant,
    call: Box<dyn FnOnce() -> Result<()> + Send>,
) -> Result<()> {
    limits.check_deadline()?;
    let (sender, receiver) = channel();
    let own = limits.clone();
    let work = move || {
        // The receiver is gone if the thread has been abandoned.
        let _ = sender.send(catch_panic(|| with_deadline(&own, call)));
    };
    let thread = std::thread::Builder::new().name("ixion-plugin".to_owned()).spawn(work);
    thread.map_err(|error| LayerError::Plugin(format!("cannot start a thread for the layer: {error}")))?;
    let mut exceeded = None;
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).min(POLL_INTERVAL);
        match (receiver.recv_timeout(if exceeded.is_some() { GRACE } else { left }), exceeded) {
            (Ok(result), _) => return result,
            (Err(RecvTimeoutError::Disconnected), _) => return Err(no_result()),
            (Err(RecvTimeoutError::Timeout), Some(limit)) => return Err(LayerError::Stuck(limit)),
            (Err(RecvTimeoutError::Timeout), None) => exceeded = limits.check_deadline().err(),
        }
    }
}

fn no_result() -> LayerError {
    LayerError::Plugin("the thread of the layer ended without a result".to_owned())
}

/// A layer that may never return.
pub struct Watchdog {
    /// Shared with abandoned threads.
    layer: Arc<RwLock<Box<dyn CpuLayer>>>,
    /// The reason why the layer can no longer be called.
    fault: OnceLock<Fault>,
    inputs: RangeInclusive<usize>,
    outputs: usize,
    /// The inputs and outputs that it was last configured for.
    configured: Option<Arc<[Vec<TensorMeta>; 2]>>,
}

/// The reason why a layer cannot be called: a call got stuck, [`CpuLayer::supports`] failed, or the layer could not be cloned.
#[derive(Debug, Clone)]
enum Fault {
    Stuck(LimitError),
    Limit(LimitError),
    Panic(String),
    Other(String),
}

impl From<LayerError> for Fault {
    fn from(error: LayerError) -> Self {
        match error {
            LayerError::Stuck(limit) => Self::Stuck(limit),
            LayerError::Limit(limit) => Self::Limit(limit),
            LayerError::Panic(message) => Self::Panic(message),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<Fault> for LayerError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Stuck(limit) => Self::Stuck(limit),
            Fault::Limit(limit) => Self::Limit(limit),
            Fault::Panic(message) => Self::Panic(message),
            Fault::Other(reason) => Self::Plugin(reason),
        }
    }
}

impl Watchdog {
    /// Wraps a layer. Its numbers of inputs and outputs are read here, once and without a deadline.
    pub fn new(layer: Box<dyn CpuLayer>) -> Self {
        Self {
            inputs: layer.num_inputs(),
            outputs: layer.num_outputs(),
            layer: Arc::new(RwLock::new(layer)),
            fault: OnceLock::new(),
            configured: None,
        }
    }

    fn check(&self) -> Result<()> {
        self.fault.get().map_or(Ok(()), |fault| Err(fault.clone().into()))
    }

    /// The layer, for a call that is not watched. This never blocks: only abandoned threads keep the lock, and if one of them
    /// may change the layer, `fault` is set.
    fn read(&self) -> Result<RwLockReadGuard<'_, Box<dyn CpuLayer>>> {
        self.check()?;
        Ok(self.layer.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&mut self) -> Result<RwLockWriteGuard<'_, Box<dyn CpuLayer>>> {
        self.check()?;
        alone(&self.layer)
    }

    /// A watched call that does not change the layer. Other calls may run at the same time, and if it gets stuck, the layer can
    /// still be used by callers with more time.
    fn ask<T: Send + 'static>(
        &self,
        limits: &Limits,
        call: impl FnOnce(&dyn CpuLayer) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.check()?;
        let layer = Arc::clone(&self.layer);
        let call = move || call(&**layer.read().unwrap_or_else(PoisonError::into_inner));
        watched(Some(limits), call)
    }

    /// A watched call that changes the layer.
    fn tell<T: Send + 'static>(
        &mut self,
        limits: &Limits,
        call: impl FnOnce(&mut dyn CpuLayer) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.check()?;
        let layer = Arc::clone(&self.layer);
        let call = move || call(&mut **alone(&layer)?);
        watched(Some(limits), call).map_err(|error| match error {
            LayerError::Stuck(_) => self.is_lost(error),
            error => error,
        })
    }

    /// Records that the layer can no longer be called, with the reason.
    fn is_lost(&self, error: LayerError) -> LayerError {
        self.fault.get_or_init(|| error.into()).clone().into()
    }

    /// A call that changes the layer and borrows nothing. It is watched if there is a deadline.
    fn change(&mut self, call: impl FnOnce(&mut dyn CpuLayer) -> Result<()> + Send + 'static) -> Result<()> {
        match timed_limits() {
            Some(limits) => self.tell(&limits, call),
            None => call(&mut **self.write()?),
        }
    }

    /// Computes on copies of the tensors.
    fn compute<T: Send + 'static>(
        &mut self,
        bytes: usize,
        limits: &Limits,
        call: impl FnOnce(&mut dyn CpuLayer, &mut ForwardContext<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (configured, own) = (self.configured.clone(), limits.clone());
        self.tell(limits, move |layer| {
            // The workspace of a layer may depend on the number of threads, which differs on this thread.
            let requested = configured.map_or(0, |metas| layer.workspace(&metas[0], &metas[1]));
            own.check_tensor("its workspace", requested as u64)?;
            let mut workspace = Workspace::new()?;
            workspace.reserve(bytes.max(requested))?;
            call(layer, &mut ForwardContext::new(&mut workspace, &own))
        })
    }
}

/// Exclusive access to a layer. Fails instead of waiting if an abandoned thread holds the lock.
fn alone(layer: &RwLock<Box<dyn CpuLayer>>) -> Result<RwLockWriteGuard<'_, Box<dyn CpuLayer>>> {
    match layer.try_write() {
        Ok(layer) => Ok(layer),
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => Err(LayerError::Stuck(LimitError::DeadlineExceeded)),
    }
}

/// A copy of a tensor, without gaps.
fn owned(view: &TensorView<'_>) -> Result<Tensor> {
    let mut copy = Tensor::zeros_with_layout(view.dtype(), compact(view.layout())?)?;
    copy_all(&mut copy.view_mut()?, view)?;
    Ok(copy)
}

fn owned_all(views: &[TensorView<'_>]) -> Result<Vec<Tensor>> {
    views.iter().map(owned).collect()
}

/// The layout of a copy: without gaps, in the same format.
fn compact(layout: &Layout) -> Result<Layout> {
    Ok(match layout.format() {
        Format::Plain | Format::ChannelsLast => Layout::contiguous(*layout.shape()),
        Format::Blocked { axis, block } => Layout::blocked(*layout.shape(), axis.into(), block.into())?,
    })
}

/// Copies between tensors of the same format.
fn copy_all(to: &mut TensorViewMut<'_>, from: &TensorView<'_>) -> Result<()> {
    let (layout, from) = (to.layout().unrolled()?, from.with_layout(from.layout().unrolled()?)?);
    Ok(to.reborrow().with_layout(layout)?.copy_from(&from)?)
}

fn views(tensors: &[Tensor]) -> Vec<TensorView<'_>> {
    tensors.iter().map(Tensor::view).collect()
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.read() {
            Ok(layer) => layer.fmt(f),
            Err(_) => f.write_str("a layer that cannot be called"),
        }
    }
}

impl Layer for Watchdog {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.inputs.clone()
    }

    fn num_outputs(&self) -> usize {
        self.outputs
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let Some(limits) = timed_limits() else { return self.read()?.infer(inputs) };
        let inputs = inputs.to_vec();
        self.ask(&limits, move |layer| layer.infer(&inputs))
    }

    fn view(&self, output: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        self.read()?.view(output, inputs, shape)
    }

    fn view_of(&self, output: usize, inputs: &[(DType, Layout)], shape: &Shape) -> Result<Option<View>> {
        self.read()?.view_of(output, inputs, shape)
    }

    fn in_place(&self, output: usize) -> Option<usize> {
        self.read().ok()?.in_place(output)
    }

    fn parts(&self, inputs: &[TensorMeta], output: &Layout) -> Result<Option<Vec<Layout>>> {
        self.read()?.parts(inputs, output)
    }

    fn constant(&self, limits: &Limits) -> Result<Option<Tensor>> {
        self.read()?.constant(limits)
    }

    fn is_data_dependent(&self) -> bool {
        self.read().is_ok_and(|layer| layer.is_data_dependent())
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        self.read().map(|layer| layer.cost(inputs, outputs)).unwrap_or_default()
    }
}

impl CpuLayer for Watchdog {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if io.context.limits().deadline.is_none() {
            return self.write()?.forward(io);
        }
        let own = owned_all(io.inputs)?;
        let made = io
            .outputs
            .iter()
            .map(|output| Ok(Tensor::zeros_with_layout(output.dtype(), compact(output.layout())?)?));
        let mut made = made.collect::<Result<Vec<Tensor>>>()?;
        let made = self.compute(io.context.scratch_len(), io.context.limits(), move |layer, context| {
            let mut targets = made.iter_mut().map(Tensor::view_mut).collect::<Result<Vec<_>, _>>()?;
            layer.forward(&mut Io::new(&views(&own), &mut targets, context))?;
            drop(targets);
            Ok(made)
        })?;
        io.outputs.iter_mut().zip(&made).try_for_each(|(output, made)| copy_all(output, &made.view()))
    }

    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>> {
        if context.limits().deadline.is_none() {
            return self.write()?.forward_dynamic(inputs, context);
        }
        let own = owned_all(inputs)?;
        self.compute(context.scratch_len(), context.limits(), move |layer, context| {
            layer.forward_dynamic(&views(&own), context)
        })
    }

    fn forward_in_place(
        &mut self,
        data: &mut TensorViewMut<'_>,
        others: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        if context.limits().deadline.is_none() {
            return self.write()?.forward_in_place(data, others, context);
        }
        let (mut own, others) = (owned(&data.as_view())?, owned_all(others)?);
        let made = self.compute(context.scratch_len(), context.limits(), move |layer, context| {
            layer.forward_in_place(&mut own.view_mut()?, &views(&others), context)?;
            Ok(own)
        })?;
        copy_all(data, &made.view())
    }

    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let Some(limits) = timed_limits() else {
            return self.read().is_ok_and(|layer| layer.supports(position, formats));
        };
        let formats = formats.to_vec();
        let answer = self.ask(&limits, move |layer| Ok(layer.supports(position, &formats)));
        // An answer after the deadline is not valid. The fault is then reported by the next call that can fail.
        let answer = answer.and_then(|is_taken| Ok(limits.check_deadline().map(|()| is_taken)?));
        answer.map_err(|error| self.is_lost(error)).unwrap_or(false)
    }

    fn is_pointwise(&self) -> bool {
        self.read().is_ok_and(|layer| layer.is_pointwise())
    }

    fn takes_zero_points(&self) -> bool {
        self.read().is_ok_and(|layer| layer.takes_zero_points())
    }

    fn tactics(&self) -> Vec<Tactic> {
        self.read().map_or_else(|_| vec![Tactic::DEFAULT], |layer| layer.tactics())
    }

    fn set_tactic(&mut self, id: u32) -> Result<()> {
        self.change(move |layer| layer.set_tactic(id))
    }

    fn efficiency(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> f64 {
        self.read().map_or(1.0, |layer| layer.efficiency(inputs, outputs))
    }

    fn rounding(&self) -> f64 {
        self.read().map_or(1.0, |layer| layer.rounding())
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        let metas = Arc::new([inputs.to_vec(), outputs.to_vec()]);
        self.configured = Some(Arc::clone(&metas));
        self.change(move |layer| layer.configure(&metas[0], &metas[1]))
    }

    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        self.read().map_or(0, |layer| layer.workspace(inputs, outputs))
    }

    fn initialize(&mut self) -> Result<()> {
        self.change(|layer| layer.initialize())
    }

    fn terminate(&mut self) {
        if let Ok(mut layer) = self.write() {
            layer.terminate();
        }
    }

    fn serialize(&self) -> Result<Vec<u8>> {
        self.read()?.serialize()
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<()> {
        let bytes = bytes.to_vec();
        self.change(move |layer| layer.deserialize(&bytes))
    }
}

/// A copy of the layer inside of a watchdog, for a device, which computes without it. `None` for a layer that is not watched.
pub fn unwatched(layer: &dyn CpuLayer) -> Option<Box<dyn CpuLayer>> {
    let watched = layer.as_any().downcast_ref::<Watchdog>()?;
    match timed_limits() {
        None => watched.read().map(|layer| layer.clone_layer()).ok(),
        Some(limits) => watched.ask(&limits, |layer| Ok(layer.clone_layer())).ok(),
    }
}

impl CloneCpuLayer for Watchdog {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn clone_layer(&self) -> Box<dyn CpuLayer> {
        let cloned = match timed_limits() {
            None => self.read().map(|layer| layer.clone_layer()),
            Some(limits) => self.ask(&limits, |layer| Ok(layer.clone_layer())),
        };
        let (layer, fault) = match cloned {
            Ok(layer) => (Arc::new(RwLock::new(layer)), OnceLock::new()),
            // The fault is reported by the next call.
            Err(error) => (Arc::clone(&self.layer), OnceLock::from(Fault::from(error))),
        };
        let (inputs, configured) = (self.inputs.clone(), self.configured.clone());
        Box::new(Self { layer, fault, inputs, outputs: self.outputs, configured })
    }
}
