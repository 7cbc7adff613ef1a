//! The GPU parts of a builder, a plan and a context.

use super::outputs::PinnedOutputs;
use super::segments::{MIN_JOBS, Segments};
use super::{Scratch, SegmentAction};
use crate::Limits;
use crate::cuda::device::{CudaError, Device, DeviceTensor, Info, Memory as DeviceMemory, Queue};
use crate::cuda::{CudaContext, CudaIo, CudaLayer, CudaLayers, Faults, Tf32, Uses};
use crate::engine::prepared::Job;
use crate::graph::RuntimeGraph;
use crate::memory::{Action, InputBinding, Memory, MemoryError, Place, Root};
use crate::op::{CpuLayer, LayerError, Tactic, TensorFormat, TensorMeta};
use crate::tensor::{DType, Layout, Shape, Tensor, TensorError, TensorView};
use smallvec::SmallVec;
use std::sync::Arc;

/// A device for a builder, and the layers that it runs.
#[derive(Debug, Clone)]
pub(in crate::engine) struct Accelerator {
    pub(in crate::engine) device: Device,
    pub(in crate::engine) layers: CudaLayers,
}

impl Accelerator {
    /// All tactics of a layer; `None` if there are no kernels for it.
    pub(in crate::engine) fn tactics(&self, layer: &dyn CpuLayer) -> Option<Vec<Tactic>> {
        self.layers.of(layer).map(|layer| layer.tactics(self.device.info()))
    }

    /// Returns true if there are kernels for tensors in these formats.
    pub(in crate::engine) fn takes(&self, layer: &dyn CpuLayer, formats: &[TensorFormat]) -> bool {
        let asked =
            |layer: &dyn CudaLayer, at: usize| layer.supports(at, formats.get(..=at).unwrap_or_default());
        let layer = self.layers.of(layer);
        layer.is_some_and(|layer| (0..formats.len()).all(|at| asked(&*layer, at)))
    }

    /// The tactics that suit a layer with tensors in these formats; empty if there are no kernels for them.
    ///
    /// # Errors
    /// Returns an error if the layer rejects its own tactics or fails to configure itself.
    pub(in crate::engine) fn suited(
        &self,
        layer: &dyn CpuLayer,
        formats: &[TensorFormat],
        (inputs, outputs): (&[TensorMeta], &[TensorMeta]),
    ) -> Result<Vec<Tactic>, LayerError> {
        let taken = self.layers.of(layer).filter(|_| self.takes(layer, formats));
        let Some(layer) = taken else { return Ok(Vec::new()) };
        let (info, tf32, mut suited) = (self.device.info(), self.layers.tf32(), Vec::new());
        for tactic in layer.tactics(info) {
            let mut layer = layer.clone_layer();
            layer.set_tactic(tactic.id)?;
            match layer.configure(inputs, outputs) {
                Err(LayerError::Unsupported(reason)) => {
                    log::debug!("{layer:?} does not run on the device, {}: {reason}", tactic.name);
                    continue;
                }
                configured => configured?,
            }
            if layer.suits(info, tf32, inputs, outputs) {
                suited.push(tactic);
            }
        }
        Ok(suited)
    }

    /// The efficiency with which a layer's kernels use the device, for tensors like these.
    pub(in crate::engine) fn efficiency(
        &self,
        layer: &dyn CpuLayer,
        (inputs, outputs): (&[TensorMeta], &[TensorMeta]),
    ) -> f64 {
        let uses = Uses { info: self.device.info(), tf32: self.layers.tf32() };
        self.layers.of(layer).map_or(1.0, |layer| layer.efficiency(inputs, outputs, uses))
    }

    /// Returns true if a layer changes the order of axes as fast as it keeps it.
    pub(in crate::engine) fn changes_order(&self, layer: &dyn CpuLayer) -> bool {
        self.layers.of(layer).is_some_and(|layer| layer.changes_order())
    }
}

/// The location of a tensor that stays on the device from run to run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resident {
    dtype: DType,
    layout: Layout,
    first: usize,
    bytes: usize,
}

impl Resident {
    pub(super) fn tensor<'a>(&self, memory: &'a DeviceMemory) -> Result<DeviceTensor<'a>, CudaError> {
        memory.tensor(self.dtype, self.layout, self.first, self.bytes)
    }

    /// The same bytes in another layout.
    pub(super) fn with_layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }
}

/// The device part of a plan: layers, weights and constants, which all contexts share.
#[derive(Debug)]
pub(in crate::engine) struct OnDevice {
    device: Device,
    tf32: Tf32,
    /// By the operator's position.
    layers: Vec<Option<Box<dyn CudaLayer>>>,
    weights: Vec<Vec<Resident>>,
    constants: Vec<Option<Resident>>,
    memory: Arc<DeviceMemory>,
}

impl OnDevice {
    /// Creates the layers of the operators that were placed on the device, and uploads weights and constants.
    ///
    /// # Errors
    /// Returns the error, and the position of the operator that caused it, if one did.
    pub(in crate::engine) fn new(
        accelerator: &Accelerator,
        graph: &RuntimeGraph,
        constants: &[Option<Tensor>],
    ) -> Result<Self, (Option<usize>, LayerError)> {
        let mut store = Store::default();
        let (mut layers, mut weights) = (Vec::new(), Vec::new());
        for (position, operator) in graph.operators().iter().enumerate() {
            let layer = operator.layer().filter(|_| operator.device() == crate::op::Device::Cuda);
            let mut layer = layer.and_then(|layer| accelerator.layers.of(layer));
            let own = layer.as_mut().map_or(Ok(Vec::new()), |layer| {
                layer.set_tactic(operator.device_tactic())?;
                layer.weights()
            });
            let own = own.map_err(|source| (Some(position), source))?;
            weights.push(own.into_iter().map(|tensor| store.put(tensor)).collect());
            layers.push(layer);
        }
        let is_there = |position: usize| {
            let output = graph.operators().get(position).and_then(|operator| operator.outputs().first());
            output.is_some_and(|&output| graph.operand(output).device() == crate::op::Device::Cuda)
        };
        let constants = constants.iter().enumerate().map(|(position, constant)| {
            constant.as_ref().filter(|_| is_there(position)).map(|constant| store.put(constant.clone()))
        });
        let constants = constants.collect();
        let memory = store.upload(&accelerator.device).map_err(|source| (None, source))?;
        let (device, tf32) = (accelerator.device.clone(), accelerator.layers.tf32());
        Ok(Self { device, tf32, layers, weights, constants, memory: Arc::new(memory) })
    }
}

/// Tensors to upload to a device, and the location of each.
#[derive(Debug, Default)]
pub(super) struct Store {
    tensors: Vec<(Tensor, Resident)>,
    end: usize,
}

impl Store {
    pub(super) fn put(&mut self, tensor: Tensor) -> Resident {
        let kept = self.reserve(tensor.dtype(), Layout::contiguous(*tensor.shape()));
        self.tensors.push((tensor, kept));
        kept
    }

    /// Reserves memory for a tensor without uploading one.
    pub(super) fn reserve(&mut self, dtype: DType, layout: Layout) -> Resident {
        const ALIGNMENT: usize = 256;
        let bytes = layout.span().saturating_mul(dtype.size());
        let kept = Resident { dtype, layout, first: self.end, bytes };
        self.end = self.end.saturating_add(bytes).checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX);
        kept
    }

    pub(super) fn upload(self, device: &Device) -> Result<DeviceMemory, LayerError> {
        let memory = device.allocate(self.end)?;
        let mut queue = device.queue()?;
        for (tensor, kept) in self.tensors {
            with_bytes(&tensor.view(), |bytes| Ok(queue.upload(&kept.tensor(&memory)?, bytes)?))?;
        }
        queue.synchronize()?;
        Ok(memory)
    }
}

/// The bytes of scratch memory that a layer and the libraries of a device make use of.
pub(super) fn preferred_workspace(
    layer: &dyn CudaLayer,
    info: &Info,
    (inputs, outputs): (&[TensorMeta], &[TensorMeta]),
) -> usize {
    layer.workspace(inputs, outputs).max(layer.library_workspace(&info.libraries, inputs))
}

/// Passes the bytes of a tensor in row-major order to `then`.
fn with_bytes(
    view: &TensorView<'_>,
    then: impl FnOnce(&[u8]) -> Result<(), LayerError>,
) -> Result<(), LayerError> {
    if view.layout().is_contiguous() {
        return then(view.bytes()?);
    }
    then(view.to_tensor()?.view().bytes()?)
}

/// The device part of a context: a queue, its own layers, and the memory for activations.
#[derive(Debug)]
pub(in crate::engine) struct DeviceState {
    queue: Queue,
    layers: Vec<Option<Box<dyn CudaLayer>>>,
    arena: Arc<DeviceMemory>,
    segments: Segments,
    /// The memory in which kernels report errors; see [`Faults`].
    faults: Arc<DeviceMemory>,
    /// Whether a kernel may have reported an error.
    may_have_failed: bool,
    /// The bytes of a download that cannot go to its target directly.
    staging: Vec<u8>,
    outputs: PinnedOutputs,
}

impl DeviceState {
    pub(in crate::engine) fn new(plan: &OnDevice) -> Result<Self, LayerError> {
        let layers =
            plan.layers.iter().map(|layer| layer.as_ref().map(|layer| layer.clone_layer())).collect();
        let (mut queue, arena) = (plan.device.queue()?, Arc::new(plan.device.allocate(0)?));
        let faults = Arc::new(plan.device.allocate(FAULTS)?);
        queue.upload(&faults_in(&faults)?, &[0; FAULTS])?;
        Ok(Self {
            queue,
            layers,
            arena,
            segments: Segments::default(),
            faults,
            may_have_failed: false,
            staging: Vec::new(),
            outputs: PinnedOutputs::default(),
        })
    }

    /// Configures a layer for its final shapes; one that failed before is cloned again.
    pub(in crate::engine) fn configure(
        &mut self,
        plan: &OnDevice,
        position: usize,
        (inputs, outputs): (&[TensorMeta], &[TensorMeta]),
    ) -> Result<(), LayerError> {
        let Some(slot) = self.layers.get_mut(position) else { return Ok(()) };
        if slot.is_none() {
            *slot = plan.layers.get(position).and_then(|layer| Some(layer.as_ref()?.clone_layer()));
        }
        slot.as_mut().map_or(Ok(()), |layer| layer.configure(inputs, outputs))
    }

    pub(in crate::engine) fn workspace(
        &self,
        position: usize,
        (inputs, outputs): (&[TensorMeta], &[TensorMeta]),
        scratch: Scratch,
    ) -> usize {
        let layer = self.layers.get(position).and_then(Option::as_ref);
        layer.map_or(0, |layer| match scratch {
            Scratch::Preferred => {
                preferred_workspace(&**layer, self.queue.device().info(), (inputs, outputs))
            }
            Scratch::Minimum => layer.min_workspace(inputs, outputs),
        })
    }

    /// Reserves memory for the activations of new shapes. If there is not enough, none is reserved afterwards.
    pub(in crate::engine) fn reserve(&mut self, bytes: usize) -> Result<(), LayerError> {
        self.segments.clear();
        if bytes > self.arena.len() {
            self.queue.synchronize()?;
            let device = self.arena.device().clone();
            // Free the old memory first: there may not be room for both.
            self.arena = Arc::new(device.allocate(0)?);
            self.arena = Arc::new(device.allocate(bytes)?);
        }
        Ok(())
    }

    /// Replays the segment that starts at `position`, or else starts to record it and returns its number of jobs.
    pub(in crate::engine) fn segment(
        &mut self,
        plan: &OnDevice,
        jobs: &[Job],
        position: usize,
    ) -> Result<SegmentAction, LayerError> {
        let memory = [&self.arena, &plan.memory, &self.faults];
        if let Some(known) = self.segments.replay(position, &mut self.queue, memory)? {
            return Ok(known);
        }
        let rest = jobs.get(position..).unwrap_or_default();
        let count = rest.iter().take_while(|job| self.computes(job)).count();
        if count < MIN_JOBS {
            return Ok(SegmentAction::One);
        }
        self.queue.record();
        Ok(SegmentAction::Record(count))
    }

    /// Returns true if the device computes a job.
    fn computes(&self, job: &Job) -> bool {
        job.is_on_device && self.layers.get(job.operator).is_some_and(Option::is_some)
    }

    /// Keeps the recorded launches of a segment.
    pub(in crate::engine) fn keep(&mut self, position: usize, jobs: usize) {
        self.segments.keep(position, jobs, self.queue.recorded());
    }

    /// Replaces the buffer of an output that is written again, if a page-locked one is faster.
    pub(in crate::engine) fn pin_output(&mut self, position: usize, jobs: &[Job], buffer: &mut Tensor) {
        self.outputs.pin(self.queue.device(), position, jobs, buffer);
    }

    /// Discards all recordings after a job failed, and waits until inputs are no longer read.
    fn forget(&mut self) {
        // A device that failed has stopped.
        let _ = self.queue.synchronize();
        self.queue.recorded();
        self.segments.clear();
    }

    /// Drops a layer that failed.
    pub(in crate::engine) fn drop_layer(&mut self, position: usize) {
        self.forget();
        self.layers.get_mut(position).into_iter().for_each(|layer| *layer = None);
    }

    /// Enqueues the work of an operator. A transfer to the CPU is complete on return.
    pub(in crate::engine) fn run(
        &mut self,
        plan: &OnDevice,
        job: &Job,
        memory: &mut Memory<'_, '_>,
        limits: &Limits,
    ) -> Result<(), LayerError> {
        let is_there = |place: &Place| is_on_device(plan, place);
        let is_empty = |place: &Place| place.layout.shape().num_elements() == 0;
        match (job.reads.as_slice(), job.writes.as_slice()) {
            _ if self.layers.get(job.operator).is_some_and(Option::is_some) => {
                self.compute(plan, job, limits)
            }
            ([_], [to]) if is_empty(to) => Ok(()),
            ([from], [to]) if !is_there(from) => self.upload(plan, from, to, memory),
            ([from], [to]) => self.download(plan, from, to, memory),
            _ => Err(LayerError::Unsupported("there is no kernel for this operator".to_owned())),
        }
    }

    fn compute(&mut self, plan: &OnDevice, job: &Job, limits: &Limits) -> Result<(), LayerError> {
        let mut inputs: SmallVec<[DeviceTensor<'_>; 4]> = SmallVec::new();
        let mut outputs: SmallVec<[DeviceTensor<'_>; 4]> = SmallVec::new();
        let Self { queue, layers, arena, faults, .. } = self;
        for place in &job.reads {
            inputs.push(tensor(plan, arena, place)?);
        }
        for place in &job.writes {
            outputs.push(tensor(plan, arena, place)?);
        }
        if let (Action::InPlace { input }, Some(data)) = (job.action, outputs.first())
            && input <= inputs.len()
        {
            inputs.insert(input, *data);
        }
        inputs.iter().chain(&outputs).try_for_each(check_axes)?;
        let scratch = match job.workspace.len() {
            0 => None,
            len => {
                let layout = Layout::contiguous(Shape::new(&[len])?);
                Some(arena.tensor(DType::U8, layout, job.workspace.start, len)?)
            }
        };
        let mut weights: SmallVec<[DeviceTensor<'_>; 4]> = SmallVec::new();
        for kept in plan.weights.get(job.operator).into_iter().flatten() {
            weights.push(kept.tensor(&plan.memory)?);
        }
        let faults =
            Faults { record: faults_in(faults)?, operator_id: job.operator as i64 + 1, is_used: false };
        let mut context = CudaContext::new(queue, scratch, &weights, limits, faults).with_tf32(plan.tf32);
        let layer = layers.get_mut(job.operator).and_then(Option::as_mut);
        let mut io = CudaIo::new(&inputs, &outputs, &mut context);
        let result = layer.map_or(Ok(()), |layer| layer.forward(&mut io));
        self.may_have_failed |= context.may_have_failed();
        result
    }

    /// Transfers a tensor from the CPU's memory.
    fn upload(
        &mut self,
        plan: &OnDevice,
        from: &Place,
        to: &Place,
        memory: &mut Memory<'_, '_>,
    ) -> Result<(), LayerError> {
        // Nothing writes to such an input before the end of the run, which waits for the queue.
        let is_kept = match from.root {
            Root::Input(position) => matches!(memory.inputs.get(position), Some(InputBinding::Shared(_))),
            _ => false,
        };
        let borrowed = memory.borrow(&[*from], &[], 0..0).map_err(device_error)?;
        let target = tensor(plan, &self.arena, to)?;
        if !target.is_contiguous() {
            return Err(LayerError::Unsupported(
                "a tensor transferred to a device must be contiguous".to_owned(),
            ));
        }
        let queue = &mut self.queue;
        borrowed.inputs.iter().try_for_each(|view| {
            with_bytes(view, |bytes| match is_kept {
                true => Ok(queue.start_upload(&target, bytes)?),
                false => Ok(queue.upload(&target, bytes)?),
            })
        })
    }

    /// Transfers a tensor to the CPU's memory.
    fn download(
        &mut self,
        plan: &OnDevice,
        from: &Place,
        to: &Place,
        memory: &mut Memory<'_, '_>,
    ) -> Result<(), LayerError> {
        let mut borrowed = memory.borrow(&[], &[*to], 0..0).map_err(device_error)?;
        let Some(target) = borrowed.outputs.first_mut() else { return Ok(()) };
        let source = tensor(plan, &self.arena, from)?;
        if source.is_contiguous() && target.layout().is_contiguous() && source.dtype() != DType::Bool {
            return Ok(self.queue.download(target.bytes_mut()?, &source)?);
        }
        let elements = if source.num_elements() == 0 { 0 } else { source.layout().span() };
        let first = source.layout().offset().min(elements);
        self.staging.clear();
        self.staging.resize((elements - first) * source.dtype().size(), 0);
        self.queue.download(&mut self.staging, &source)?;
        let layout = source.layout().with_offset(0);
        let downloaded = Tensor::from_le_bytes(source.dtype(), &[elements - first], &self.staging)?;
        Ok(target.copy_from(&downloaded.view().with_layout(layout)?)?)
    }

    /// Waits for all work.
    ///
    /// # Errors
    /// Returns the error, and the position of the operator whose kernel reported it, if one did.
    pub(in crate::engine) fn synchronize(&mut self) -> Result<(), (Option<usize>, LayerError)> {
        let reported = self.wait().map_err(|source| (None, source))?;
        let Some([operator_id, index, len]) = reported else { return Ok(()) };
        let position = usize::try_from(operator_id - 1).ok();
        let len = usize::try_from(len).unwrap_or(0);
        Err((position, TensorError::OutOfRange { what: "index", index, len }.into()))
    }

    /// Waits for all work, and returns what kernels reported, if anything.
    fn wait(&mut self) -> Result<Option<[i64; 3]>, LayerError> {
        if !self.may_have_failed {
            self.queue.synchronize()?;
            return Ok(None);
        }
        let mut bytes = [0; FAULTS];
        let record = faults_in(&self.faults)?;
        self.queue.download(&mut bytes, &record)?;
        let (numbers, _) = bytes.as_chunks::<8>();
        let reported = [0, 1, 2].map(|at| numbers.get(at).map_or(0, |number| i64::from_le_bytes(*number)));
        if reported[0] == 0 {
            return Ok(None);
        }
        self.queue.upload(&record, &[0; FAULTS])?;
        self.queue.synchronize()?;
        Ok(Some(reported))
    }
}

/// Returns an error if an axis is longer than kernels can count. They split indices along all axes but the first.
fn check_axes(tensor: &DeviceTensor<'_>) -> Result<(), LayerError> {
    match tensor.shape().iter().skip(1).find(|&&len| i32::try_from(len).is_err()) {
        None => Ok(()),
        Some(len) => Err(LayerError::Unsupported(format!(
            "an axis of {len} elements: on a device, every axis but the first may have at most {}",
            i32::MAX
        ))),
    }
}

/// The size in bytes of the memory in which kernels report errors.
const FAULTS: usize = 24;

/// Returns true if a device ran out of memory.
pub(in crate::engine) fn is_out_of_memory(error: &LayerError) -> bool {
    let LayerError::Device(source) = error else { return false };
    matches!(source.downcast_ref(), Some(CudaError::OutOfMemory { .. }))
}

fn faults_in(memory: &DeviceMemory) -> Result<DeviceTensor<'_>, LayerError> {
    Ok(memory.tensor(DType::I64, Layout::contiguous(Shape::new(&[FAULTS / 8])?), 0, FAULTS)?)
}

fn is_on_device(plan: &OnDevice, place: &Place) -> bool {
    match place.root {
        Root::Device { .. } => true,
        Root::Constant(position) => plan.constants.get(position).is_some_and(Option::is_some),
        _ => false,
    }
}

/// The tensor at a place on the device.
fn tensor<'a>(
    plan: &'a OnDevice,
    arena: &'a DeviceMemory,
    place: &Place,
) -> Result<DeviceTensor<'a>, LayerError> {
    match place.root {
        Root::Device { offset, bytes } => Ok(arena.tensor(place.dtype, place.layout, offset, bytes)?),
        Root::Constant(position) => {
            let kept = plan.constants.get(position).copied().flatten();
            let kept = kept.ok_or_else(|| {
                LayerError::Unsupported(format!("constant {position} is not on the device"))
            })?;
            Ok(plan.memory.tensor(place.dtype, place.layout, kept.first, kept.bytes)?)
        }
        // A tensor without elements has no memory.
        _ if place.layout.shape().num_elements() == 0 => {
            Ok(arena.tensor(place.dtype, Layout::contiguous(*place.layout.shape()), 0, 0)?)
        }
        root => Err(LayerError::Unsupported(format!("{root:?} is not device memory"))),
    }
}

fn device_error(error: MemoryError) -> LayerError {
    LayerError::Device(Box::new(error))
}
