//! Layers on a GPU, and the context that they run in.

use super::device::{
    Argument, CudaError, Device, DeviceTensor, Grid, Info, Kernel, Libraries, LibraryWork, Queue, Unit,
};
use crate::Limits;
use crate::op::{self, CpuLayer, LayerError, Result, Tactic, TensorFormat, TensorMeta};
use crate::tensor::{DType, Format, Layout, Shape, Tensor};
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

/// A layer that can run on a GPU. The trait is implemented on the type that implements [`CpuLayer`], which defines the
/// operator; the GPU's layer is a clone of the CPU's.
///
/// Calls do not compute anything themselves: they enqueue work. Only [`forward`](CudaLayer::forward) is required.
pub trait CudaLayer: fmt::Debug + Send + Sync + CloneCudaLayer {
    /// Launches the kernels that compute the outputs.
    ///
    /// `io.outputs` have the shapes and element types that [`infer`](op::Layer::infer) returned for `io.inputs`, and hold
    /// arbitrary values. Inputs and outputs may have any strides. An output may share the memory of the input that
    /// [`in_place`](op::Layer::in_place) names.
    ///
    /// # Errors
    /// Returns a [`LayerError`], which ends the run.
    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()>;

    /// Returns true if there are kernels for the tensor at `position`, as [`CpuLayer::supports`]. Default: every plain `f32`
    /// tensor.
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        formats.get(position).is_some_and(|format| is_plain(format) && format.dtype == DType::F32)
    }

    /// The weights, in the order and layout in which the kernels read them. They are uploaded once for all contexts, and are
    /// available as [`CudaContext::weight`]. Default: none.
    ///
    /// # Errors
    /// Returns a [`LayerError`] if the weights cannot be read.
    fn weights(&self) -> Result<Vec<Tensor>> {
        Ok(Vec::new())
    }

    /// The tactics of this layer on a device, the general-purpose one first, as [`CpuLayer::tactics`]. Default: one.
    fn tactics(&self, device: &Info) -> Vec<Tactic> {
        let _ = device;
        vec![Tactic::DEFAULT]
    }

    /// Selects one of [`tactics`](CudaLayer::tactics), before the layer is configured. If the tactic does not suit later
    /// tensors, [`forward`](CudaLayer::forward) uses the first one.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if this layer has no tactic with this ID on any device.
    fn set_tactic(&mut self, id: u32) -> Result<()> {
        match id == Tactic::DEFAULT.id {
            true => Ok(()),
            false => Err(no_tactic(id)),
        }
    }

    /// Returns true if the selected tactic supports what is configured on this device; for a tactic other than the first, also
    /// only if it then computes differently from the first. A tactic that does not suit is neither measured nor chosen.
    /// Default: true.
    fn suits(&self, device: &Info, tf32: Tf32, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> bool {
        let _ = (device, tf32, inputs, outputs);
        true
    }

    /// Prepares for the final shapes and element types, as [`CpuLayer::configure`]. Default: nothing to prepare.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if there is no kernel for them: the operator then runs on the CPU.
    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        let _ = (inputs, outputs);
        Ok(())
    }

    /// Returns true if the layer is as fast with some tensors in row-major order and others channels-last
    /// ([`Format::ChannelsLast`]) as with all in one order: it is then queried about mixed orders, too. Default: false.
    fn changes_order(&self) -> bool {
        false
    }

    /// How well the kernels use the device for tensors like these, as [`CpuLayer::efficiency`]. The layer is not configured for
    /// them: format negotiation compares formats by this value. Default: 1.
    fn efficiency(&self, inputs: &[TensorMeta], outputs: &[TensorMeta], uses: Uses<'_>) -> f64 {
        let _ = (inputs, outputs, uses);
        1.0
    }

    /// Bytes of scratch memory on the device that `forward` uses for the configured shapes and all smaller ones. Default: 0.
    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        let _ = (inputs, outputs);
        0
    }

    /// Bytes of scratch memory with which a library of the device can choose among its algorithms for inputs like these. A layer
    /// gets the larger of this and its [`workspace`](CudaLayer::workspace), and passes on what it does not use itself
    /// ([`CudaContext::spare_scratch`]). Default: 0.
    fn library_workspace(&self, libraries: &Libraries, inputs: &[TensorMeta]) -> usize {
        let _ = (libraries, inputs);
        0
    }

    /// The minimum bytes of scratch memory that `forward` needs. It gets only these if the device has no room for the
    /// workspaces of all layers, and can tell by [`CudaContext::scratch_left`]. Default: all of the
    /// workspace.
    fn min_workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        self.workspace(inputs, outputs)
    }
}

/// The error for a tactic ID that a layer does not have.
pub fn no_tactic(id: u32) -> LayerError {
    LayerError::Unsupported(format!("there is no tactic {id} on a device"))
}

/// The device that a layer is queried about, and the precision that it may use there.
#[derive(Debug, Clone, Copy)]
pub struct Uses<'a> {
    /// Properties of the device.
    pub info: &'a Info,
    /// The operations in which f32 may be multiplied as TF32.
    pub tf32: Tf32,
}

/// Returns true if a tensor is row-major and not quantised.
pub(crate) fn is_plain(format: &TensorFormat) -> bool {
    format.format == Format::Plain && !format.is_quantized
}

impl op::DeviceLayer for dyn CudaLayer {
    const DEVICE: op::Device = op::Device::Cuda;
}

/// Cloning through a `dyn CudaLayer`. Implemented for every layer that is `Clone`.
pub trait CloneCudaLayer {
    /// A clone of the layer, with its own state.
    fn clone_layer(&self) -> Box<dyn CudaLayer>;
}

impl<L: CudaLayer + Clone + 'static> CloneCudaLayer for L {
    fn clone_layer(&self) -> Box<dyn CudaLayer> {
        Box::new(self.clone())
    }
}

/// The operations in which tensor cores may multiply f32 as TF32: with 10 mantissa bits instead of 23, and sums in f32. The
/// default is PyTorch's: convolutions, but not matrix products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tf32 {
    /// In matrix products, as `torch.backends.cuda.matmul.allow_tf32`.
    pub products: bool,
    /// In convolutions, as `torch.backends.cudnn.allow_tf32`.
    pub convolutions: bool,
}

impl Tf32 {
    /// No operations.
    pub const NONE: Self = Self { products: false, convolutions: false };
    /// All operations, if there are tensor cores.
    pub const ALL: Self = Self { products: true, convolutions: true };
}

impl Default for Tf32 {
    fn default() -> Self {
        Self { products: false, convolutions: true }
    }
}

/// An entry of a table of layers: a type of CPU layers, and how their GPU layers are made.
pub(super) trait Entry: Sync {
    /// The type of the CPU layers.
    fn layer_type(&self) -> TypeId;

    /// The GPU layer for a CPU layer of this type; `None` for one of another type.
    fn make(&'static self, layer: &dyn Any) -> Option<Box<dyn CudaLayer>>;
}

/// The entry of a type of CPU layers that implements [`CudaLayer`] itself.
pub(super) struct Own<L>(PhantomData<fn() -> L>);

impl<L> Own<L> {
    /// The entry.
    pub(super) const ENTRY: Self = Self(PhantomData);
}

impl<L: CudaLayer + Clone + 'static> Entry for Own<L> {
    fn layer_type(&self) -> TypeId {
        TypeId::of::<L>()
    }

    fn make(&'static self, layer: &dyn Any) -> Option<Box<dyn CudaLayer>> {
        Some(Box::new(layer.downcast_ref::<L>()?.clone()))
    }
}

/// The layer types that can run on a GPU, and the precision that they may use.
#[derive(Clone)]
pub struct CudaLayers {
    entries: HashMap<TypeId, &'static dyn Entry>,
    tf32: Tf32,
}

impl CudaLayers {
    /// An empty registry.
    #[must_use]
    pub fn empty() -> Self {
        Self { entries: HashMap::new(), tf32: Tf32::default() }
    }

    /// Sets the operations in which f32 is multiplied as TF32.
    #[must_use]
    pub fn with_tf32(self, tf32: Tf32) -> Self {
        Self { tf32, ..self }
    }

    /// The operations in which f32 is multiplied as TF32.
    pub fn tf32(&self) -> Tf32 {
        self.tf32
    }

    /// Registers a layer type. Registering it again has no effect.
    pub fn register<L: CudaLayer + Clone + 'static>(&mut self) {
        self.add(const { &Own::<L>::ENTRY });
    }

    /// Registers the layer type of an entry.
    pub(super) fn add(&mut self, entry: &'static dyn Entry) {
        self.entries.insert(entry.layer_type(), entry);
    }

    /// The GPU layer for a CPU layer, or `None` if its type is not registered.
    #[must_use]
    pub fn of(&self, layer: &dyn CpuLayer) -> Option<Box<dyn CudaLayer>> {
        if let Some(layer) = op::unwatched(layer) {
            return self.of(&*layer);
        }
        let layer = layer.as_any();
        self.entries.get(&layer.type_id())?.make(layer)
    }

    /// The number of registered layer types.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if no layer type is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Default for CudaLayers {
    /// All GPU layers that come with Ixion.
    fn default() -> Self {
        super::layers::all()
    }
}

impl fmt::Debug for CudaLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaLayers").field("types", &self.len()).finish()
    }
}

/// What one call of [`CudaLayer::forward`] reads, writes and uses.
#[derive(Debug)]
pub struct CudaIo<'a, 'c> {
    /// The inputs, as many as [`num_inputs`](op::Layer::num_inputs) allows.
    pub inputs: &'a [DeviceTensor<'a>],
    /// The outputs to write, as many as [`num_outputs`](op::Layer::num_outputs).
    pub outputs: &'a [DeviceTensor<'a>],
    /// The queue, scratch memory and weights.
    pub context: &'a mut CudaContext<'c>,
}

impl<'a, 'c> CudaIo<'a, 'c> {
    /// A call with these inputs and outputs, for as long as the context is borrowed.
    pub fn new(
        inputs: &'a [DeviceTensor<'a>],
        outputs: &'a [DeviceTensor<'a>],
        context: &'a mut CudaContext<'c>,
    ) -> Self {
        Self { inputs, outputs, context }
    }
}

/// The resources that a layer uses while it enqueues its work.
#[derive(Debug)]
pub struct CudaContext<'a> {
    queue: &'a mut Queue,
    scratch: Option<DeviceTensor<'a>>,
    scratch_used: usize,
    weights: &'a [DeviceTensor<'a>],
    limits: &'a Limits,
    faults: Faults<'a>,
    tf32: Tf32,
}

/// A record in which kernels report invalid values, such as indices that are out of range.
#[derive(Debug, Clone, Copy)]
pub struct Faults<'a> {
    /// Three `i64` for the first such value, all 0 until there is one: the layer, the value, and the length that it exceeds.
    pub record: DeviceTensor<'a>,
    /// The number, above 0, that identifies the layer there.
    pub operator_id: i64,
    /// Whether the layer has passed it to a kernel.
    pub is_used: bool,
}

impl<'a> CudaContext<'a> {
    /// A context of a queue, scratch memory (a tensor of bytes) and weights.
    pub fn new(
        queue: &'a mut Queue,
        scratch: Option<DeviceTensor<'a>>,
        weights: &'a [DeviceTensor<'a>],
        limits: &'a Limits,
        faults: Faults<'a>,
    ) -> Self {
        Self { queue, scratch, scratch_used: 0, weights, limits, faults, tf32: Tf32::default() }
    }

    /// Sets the operations in which f32 may be multiplied as TF32.
    #[must_use]
    pub fn with_tf32(self, tf32: Tf32) -> Self {
        Self { tf32, ..self }
    }

    /// The operations in which f32 may be multiplied as TF32.
    pub fn tf32(&self) -> Tf32 {
        self.tf32
    }

    /// The arguments `i64* faults, i64 operator_id` of kernels that may meet invalid values, such as indices that are out of
    /// range. A reported value fails the run when the device is done.
    pub fn faults(&mut self) -> [Argument<'a>; 2] {
        self.faults.is_used = true;
        [Argument::Write(self.faults.record), Argument::Long(self.faults.operator_id)]
    }

    /// Returns true if the layer may have met an invalid value.
    pub(crate) fn may_have_failed(&self) -> bool {
        self.faults.is_used
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.queue.device()
    }

    /// The limits of this run.
    pub fn limits(&self) -> &'a Limits {
        self.limits
    }

    /// One of the layer's [weights](CudaLayer::weights).
    ///
    /// # Errors
    /// [`LayerError::MissingWeight`] if the layer has fewer.
    pub fn weight(&self, position: usize) -> Result<DeviceTensor<'a>> {
        let missing = || LayerError::MissingWeight { key: position.to_string() };
        self.weights.get(position).copied().ok_or_else(missing)
    }

    /// The bytes of scratch memory that are not taken yet.
    pub fn scratch_left(&self) -> usize {
        self.scratch.map_or(0, |it| it.num_elements()).saturating_sub(self.scratch_used)
    }

    /// Takes a tensor from the scratch memory, after those taken before. It holds arbitrary values.
    ///
    /// # Errors
    /// [`LayerError::Workspace`] if the scratch memory is smaller: [`CudaLayer::workspace`] returned too few bytes.
    pub fn scratch(&mut self, dtype: DType, shape: Shape) -> Result<DeviceTensor<'a>> {
        let bytes = scratch_bytes(dtype, shape.num_elements());
        if bytes == 0 {
            return Ok(DeviceTensor::nothing(dtype, shape));
        }
        let (wanted, found) =
            (self.scratch_used.saturating_add(bytes), self.scratch.map_or(0, |it| it.num_elements()));
        let memory =
            self.scratch.filter(|_| wanted <= found).ok_or(LayerError::Workspace { wanted, found })?;
        let tensor = memory.reinterpreted(dtype, Layout::contiguous(shape), self.scratch_used, bytes)?;
        self.scratch_used = wanted;
        Ok(tensor)
    }

    /// The scratch memory that is not taken yet, without taking it: for a library, which may turn out not to run.
    ///
    /// # Errors
    /// Only if the engine has a bug.
    pub fn spare_scratch(&self) -> Result<Option<DeviceTensor<'a>>> {
        let left = self.scratch_left();
        let Some(memory) = self.scratch.filter(|_| left > 0) else { return Ok(None) };
        let layout = Layout::contiguous(Shape::new(&[left])?);
        Ok(Some(memory.reinterpreted(DType::U8, layout, self.scratch_used, left)?))
    }

    /// A kernel of a source; see [`Device::kernel`].
    ///
    /// # Errors
    /// As [`Device::kernel`].
    pub fn kernel(&self, unit: &Unit, name: &str) -> Result<Kernel> {
        Ok(self.device().kernel(unit, name)?)
    }

    /// Launches a kernel; see [`Queue::launch`].
    ///
    /// # Errors
    /// As [`Queue::launch`].
    pub fn launch(&mut self, kernel: &Kernel, grid: Grid, arguments: &[Argument<'_>]) -> Result<()> {
        Ok(self.queue.launch(kernel, grid, arguments)?)
    }

    /// Launches a kernel of a source.
    ///
    /// # Errors
    /// As [`CudaContext::kernel`] and [`CudaContext::launch`].
    pub(super) fn run(
        &mut self,
        unit: &Unit,
        name: &str,
        grid: Grid,
        arguments: &[Argument<'_>],
    ) -> Result<()> {
        let kernel = self.kernel(unit, name)?;
        self.launch(&kernel, grid, arguments)
    }

    /// Calls a library; see [`Queue::call`].
    ///
    /// # Errors
    /// As [`Queue::call`].
    pub fn call(&mut self, work: &LibraryWork, arguments: &[Argument<'_>]) -> Result<bool> {
        Ok(self.queue.call(work, arguments)?)
    }
}

/// The bytes that a tensor takes in scratch memory: a multiple of 256.
pub(crate) fn scratch_bytes(dtype: DType, elements: usize) -> usize {
    const ALIGNMENT: usize = 256;
    elements.saturating_mul(dtype.size()).checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX)
}

impl From<CudaError> for LayerError {
    fn from(error: CudaError) -> Self {
        LayerError::Device(Box::new(error))
    }
}
