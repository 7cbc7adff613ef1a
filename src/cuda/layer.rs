//! How layers run on a GPU.

use super::device::{
    Argument, CudaError, Device, DeviceTensor, Grid, Info, Kernel, LibraryWork, Queue, Unit,
};
use crate::Limits;
use crate::op;
use crate::op::{CpuLayer, Layer, LayerError, Tactic, TensorFormat, TensorMeta};
use crate::tensor::{DType, Format, Layout, Shape, Tensor};
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;

/// How a layer runs on a GPU. It is implemented on the type that implements [`CpuLayer`], which says what the operator means; a
/// GPU's layer is a clone of the CPU's.
///
/// Nothing is computed when it is called: it puts work into a queue. Required is [`forward`](CudaLayer::forward) alone.
pub trait CudaLayer: Layer + CloneCudaLayer {
    /// Launches the kernels that compute the outputs.
    ///
    /// `outputs` have the shapes and types that [`Layer::infer`] returned for these inputs, and hold arbitrary values. Inputs and
    /// outputs may have any strides. An output may lie in the place of the input that [`Layer::in_place`] names.
    ///
    /// # Errors
    /// A [`LayerError`]; it ends the run.
    fn forward(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        context: &mut CudaContext<'_>,
    ) -> Result<(), LayerError>;

    /// Whether there are kernels for the tensor at `position`, as of [`CpuLayer::supports`]. Default: every plain tensor of `f32`.
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        formats.get(position).is_some_and(|format| is_plain(format) && format.dtype == DType::F32)
    }

    /// The weights in the order and layout in which kernels read them. They are brought to the device once for all contexts, and
    /// stand in [`CudaContext::weight`]. Default: none.
    ///
    /// # Errors
    /// A [`LayerError`] for weights that cannot be read.
    fn weights(&self) -> Result<Vec<Tensor>, LayerError> {
        Ok(Vec::new())
    }

    /// The ways of computing this layer on such a device, the one for general use first, as of [`CpuLayer::tactics`]. Default: one.
    fn tactics(&self, device: &Info) -> Vec<Tactic> {
        let _ = device;
        vec![Tactic::DEFAULT]
    }

    /// Settles one of [`tactics`](CudaLayer::tactics), before it is configured. Where the tactic does not suit tensors that come
    /// later, [`forward`](CudaLayer::forward) computes by the first one.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] for a number that no tactic of this layer has on any device.
    fn set_tactic(&mut self, id: u32) -> Result<(), LayerError> {
        match id == Tactic::DEFAULT.id {
            true => Ok(()),
            false => Err(no_tactic(id)),
        }
    }

    /// Whether the settled tactic computes on such a device what is configured; of one that is not the first, whether it does so
    /// otherwise than the first. One that does not is neither measured nor chosen. Default: it does.
    fn suits(&self, device: &Info, tf32: Tf32, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> bool {
        let _ = (device, tf32, inputs, outputs);
        true
    }

    /// Takes note of the final shapes and element types, as [`CpuLayer::configure`]. Default: nothing to note.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] where there is no kernel for them: the CPU runs the operator.
    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        let _ = (inputs, outputs);
        Ok(())
    }

    /// Whether it is as fast where some of its tensors lie in row-major order and others have their channels last
    /// ([`Format::ChannelsLast`]) as where all lie in one order: it is asked about both then. Default: it is not.
    fn changes_order(&self) -> bool {
        false
    }

    /// How well the kernels use the device for tensors like these, as [`CpuLayer::efficiency`], which are not configured: the
    /// negotiation compares formats by it. Default: 1.
    fn efficiency(&self, inputs: &[TensorMeta], outputs: &[TensorMeta], uses: Uses<'_>) -> f64 {
        let _ = (inputs, outputs, uses);
        1.0
    }

    /// Bytes of scratch memory on the device that `forward` makes use of for the configured shapes and all smaller ones. Default:
    /// none.
    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        let _ = (inputs, outputs);
        0
    }

    /// Bytes of scratch memory without which `forward` cannot do: it gets so few where the device has no room for all that layers
    /// [want](CudaLayer::workspace), and finds out by [`CudaContext::scratch_left`]. Default: all of it.
    fn least_workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        self.workspace(inputs, outputs)
    }
}

/// The refusal of a tactic's number that a layer does not know.
pub fn no_tactic(id: u32) -> LayerError {
    LayerError::Unsupported(format!("there is no tactic {id} on a device"))
}

/// The device that a layer is asked about, and what it may be used for.
#[derive(Debug, Clone, Copy)]
pub struct Uses<'a> {
    /// What is known of the device.
    pub info: &'a Info,
    /// Where f32 may be multiplied as TF32.
    pub tf32: Tf32,
}

/// Whether a tensor lies in row-major order and its numbers are themselves.
pub fn is_plain(format: &TensorFormat) -> bool {
    format.format == Format::Plain && !format.is_quantized
}

impl op::DeviceLayer for dyn CudaLayer {
    const DEVICE: op::Device = op::Device::Cuda;
}

/// Cloning through a `dyn CudaLayer`. Implemented for every layer that is `Clone`.
pub trait CloneCudaLayer {
    /// A clone of the layer, with state of its own.
    fn clone_layer(&self) -> Box<dyn CudaLayer>;
}

impl<L: CudaLayer + Clone + 'static> CloneCudaLayer for L {
    fn clone_layer(&self) -> Box<dyn CudaLayer> {
        Box::new(self.clone())
    }
}

/// Where f32 may be multiplied as TF32 by tensor cores: with 10 instead of 23 bits behind the point, and sums in f32. The default is
/// that of PyTorch: in convolutions, not in products of matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tf32 {
    /// In products of matrices, as `torch.backends.cuda.matmul.allow_tf32`.
    pub products: bool,
    /// In convolutions, as `torch.backends.cudnn.allow_tf32`.
    pub convolutions: bool,
}

impl Tf32 {
    /// Nowhere.
    pub const NONE: Self = Self { products: false, convolutions: false };
    /// Wherever there are tensor cores.
    pub const ALL: Self = Self { products: true, convolutions: true };
}

impl Default for Tf32 {
    fn default() -> Self {
        Self { products: false, convolutions: true }
    }
}

/// Which layers run on a GPU, by their types, and how exact they are.
#[derive(Clone)]
pub struct CudaLayers {
    makers: HashMap<TypeId, Make>,
    tf32: Tf32,
}

type Make = fn(&dyn Any) -> Option<Box<dyn CudaLayer>>;

impl CudaLayers {
    /// None.
    #[must_use]
    pub fn empty() -> Self {
        Self { makers: HashMap::new(), tf32: Tf32::default() }
    }

    /// The same layers with another choice of where f32 is multiplied as TF32.
    #[must_use]
    pub fn with_tf32(self, tf32: Tf32) -> Self {
        Self { tf32, ..self }
    }

    /// Where f32 is multiplied as TF32.
    pub fn tf32(&self) -> Tf32 {
        self.tf32
    }

    /// Adds a type of layers. One that is there already stays.
    pub fn register<L: CudaLayer + Clone + 'static>(&mut self) {
        let make: Make = |layer| Some(Box::new(layer.downcast_ref::<L>()?.clone()));
        self.makers.insert(TypeId::of::<L>(), make);
    }

    /// The layer that runs on a GPU what this one runs on the CPU.
    #[must_use]
    pub fn of(&self, layer: &dyn CpuLayer) -> Option<Box<dyn CudaLayer>> {
        if let Some(layer) = op::unwatched(layer) {
            return self.of(&*layer);
        }
        let layer = layer.as_any();
        self.makers.get(&layer.type_id())?(layer)
    }

    /// How many types there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.makers.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.makers.is_empty()
    }
}

impl Default for CudaLayers {
    /// All that come with Ixion.
    fn default() -> Self {
        super::layers::all()
    }
}

impl fmt::Debug for CudaLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaLayers").field("types", &self.len()).finish()
    }
}

/// What a layer may use while it puts its work into the queue.
#[derive(Debug)]
pub struct CudaContext<'a> {
    queue: &'a mut Queue,
    scratch: Option<DeviceTensor<'a>>,
    taken: usize,
    weights: &'a [DeviceTensor<'a>],
    limits: &'a Limits,
    faults: Faults<'a>,
    tf32: Tf32,
}

/// Where kernels report values that they cannot use.
#[derive(Debug, Clone, Copy)]
pub struct Faults<'a> {
    /// Who met the first such value, the value, and the length that it is beyond: three numbers of `i64`, all 0 so far.
    pub place: DeviceTensor<'a>,
    /// What the layer is called there: a number above 0.
    pub who: i64,
    /// Whether the layer asked for it.
    pub is_used: bool,
}

impl<'a> CudaContext<'a> {
    /// A context of a queue, bytes of scratch memory and weights.
    pub fn new(
        queue: &'a mut Queue,
        scratch: Option<DeviceTensor<'a>>,
        weights: &'a [DeviceTensor<'a>],
        limits: &'a Limits,
        faults: Faults<'a>,
    ) -> Self {
        Self { queue, scratch, taken: 0, weights, limits, faults, tf32: Tf32::default() }
    }

    /// The same with another choice of where f32 is multiplied as TF32.
    #[must_use]
    pub fn with_tf32(self, tf32: Tf32) -> Self {
        Self { tf32, ..self }
    }

    /// Where f32 may be multiplied as TF32.
    pub fn tf32(&self) -> Tf32 {
        self.tf32
    }

    /// The arguments `i64* faults, i64 who` of kernels that may meet values which they cannot use, such as indices: what they
    /// report fails the run when the device is done.
    pub fn faults(&mut self) -> [Argument<'a>; 2] {
        self.faults.is_used = true;
        [Argument::Write(self.faults.place), Argument::Long(self.faults.who)]
    }

    /// Whether the layer may have met such a value.
    pub fn may_have_failed(&self) -> bool {
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
    /// [`LayerError::MissingWeight`] where it named fewer.
    pub fn weight(&self, position: usize) -> Result<DeviceTensor<'a>, LayerError> {
        let missing = || LayerError::MissingWeight { key: position.to_string() };
        self.weights.get(position).copied().ok_or_else(missing)
    }

    /// The bytes of scratch memory that were not taken yet.
    pub fn scratch_left(&self) -> usize {
        self.scratch.map_or(0, |it| it.num_elements()).saturating_sub(self.taken)
    }

    /// A tensor in the scratch memory, behind those that were taken before. It holds arbitrary values.
    ///
    /// # Errors
    /// [`LayerError::Workspace`] where [`CudaLayer::workspace`] asked for less.
    pub fn scratch(&mut self, dtype: DType, shape: Shape) -> Result<DeviceTensor<'a>, LayerError> {
        let bytes = scratch_bytes(dtype, shape.num_elements());
        if bytes == 0 {
            return Ok(DeviceTensor::nothing(dtype, shape));
        }
        let (wanted, found) =
            (self.taken.saturating_add(bytes), self.scratch.map_or(0, |it| it.num_elements()));
        let memory =
            self.scratch.filter(|_| wanted <= found).ok_or(LayerError::Workspace { wanted, found })?;
        let tensor = memory.reinterpreted(dtype, Layout::contiguous(shape), self.taken, bytes)?;
        self.taken = wanted;
        Ok(tensor)
    }

    /// The scratch memory that was not taken, which is not taken by this either: for a library, which may do nothing after all.
    ///
    /// # Errors
    /// None but faults of the engine.
    pub fn spare_scratch(&self) -> Result<Option<DeviceTensor<'a>>, LayerError> {
        let left = self.scratch_left();
        let Some(memory) = self.scratch.filter(|_| left > 0) else { return Ok(None) };
        let layout = Layout::contiguous(Shape::new(&[left])?);
        Ok(Some(memory.reinterpreted(DType::U8, layout, self.taken, left)?))
    }

    /// A kernel of a source; see [`Device::kernel`].
    ///
    /// # Errors
    /// Those of the compiler.
    pub fn kernel(&self, unit: &Unit, name: &str) -> Result<Kernel, LayerError> {
        Ok(self.device().kernel(unit, name)?)
    }

    /// Launches a kernel; see [`Queue::launch`].
    ///
    /// # Errors
    /// As there.
    pub fn launch(
        &mut self,
        kernel: &Kernel,
        grid: Grid,
        arguments: &[Argument<'_>],
    ) -> Result<(), LayerError> {
        Ok(self.queue.launch(kernel, grid, arguments)?)
    }

    /// Lets a library do some work; see [`Queue::call`].
    ///
    /// # Errors
    /// As there.
    pub fn call(&mut self, work: &LibraryWork, arguments: &[Argument<'_>]) -> Result<bool, LayerError> {
        Ok(self.queue.call(work, arguments)?)
    }
}

/// The bytes that a tensor takes in scratch memory.
pub fn scratch_bytes(dtype: DType, elements: usize) -> usize {
    const LINE: usize = 256;
    elements.saturating_mul(dtype.size()).checked_next_multiple_of(LINE).unwrap_or(usize::MAX)
}

impl From<CudaError> for LayerError {
    fn from(error: CudaError) -> Self {
        LayerError::Device(Box::new(error))
    }
}
