//! The traits of layers: what an operator means, and how it runs on the CPU.
//!
//! A type of operator is one Rust type. It implements [`Layer`], which says what the operator means (shapes, element
//! types, which outputs are views), once for all devices; and one trait for each device that it runs on, here
//! [`CpuLayer`]. Required are two methods, [`Layer::infer`] and [`CpuLayer::forward`]; all others have defaults.

use super::{Device, LayerError, TensorMeta};
use crate::Limits;
use crate::tensor::{DType, Element, Format, Layout, Scratch, Shape, Tensor, TensorView, TensorViewMut};
use std::any::Any;
use std::fmt;
use std::ops::RangeInclusive;

/// What an operator means, on whatever device it runs.
///
/// ```
/// use ixion::op::{Layer, LayerError, TensorMeta};
///
/// /// Twice its input.
/// #[derive(Debug, Clone)]
/// struct Double;
///
/// impl Layer for Double {
///     fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
///         Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
///     }
/// }
/// # let x = TensorMeta::new(ixion::tensor::DType::F32, [2, 3]);
/// # assert_eq!(Double.infer(&[x.clone()]).unwrap(), [x]);
/// ```
pub trait Layer: fmt::Debug + Send + Sync {
    /// How many inputs the layer takes. The graph checks it before any other method sees an input, so that indexing
    /// within this range is safe. Default: exactly one.
    fn num_inputs(&self) -> RangeInclusive<usize> {
        1..=1
    }

    /// How many outputs the layer makes. Default: one.
    fn num_outputs(&self) -> usize {
        1
    }

    /// The rule for shapes and element types: what the outputs will be, given the inputs.
    ///
    /// The same rule serves when the model is built, with symbolic dimensions, and when it runs, with numbers. It is
    /// also the place to refuse inputs that the layer cannot take.
    ///
    /// # Errors
    /// A [`LayerError`] that says which input is wrong and what is needed.
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError>;

    /// An output that is an input under another layout, so that nothing needs to be computed or copied.
    ///
    /// `inputs` are the layouts of all inputs, `shape` is that of the output. A layer returns a view for all of its
    /// outputs or for none; where it returns views, `forward` is not called. Default: none.
    ///
    /// # Errors
    /// A [`LayerError`] when the layout cannot be made.
    fn view(&self, output: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>, LayerError> {
        let _ = (output, inputs, shape);
        Ok(None)
    }

    /// As [`Layer::view`], for layers whose view depends on the inputs' element types. Default: it does not.
    ///
    /// # Errors
    /// As [`Layer::view`].
    fn view_of(
        &self,
        output: usize,
        inputs: &[(DType, Layout)],
        shape: &Shape,
    ) -> Result<Option<View>, LayerError> {
        with_layouts(inputs, &mut |layouts| self.view(output, layouts, shape))
    }

    /// The input whose memory an output may overwrite, element for element. A planner may then give both the same
    /// place and call [`CpuLayer::forward_in_place`]. Default: none.
    fn in_place(&self, output: usize) -> Option<usize> {
        let _ = output;
        None
    }

    /// Where each input lies in the only output, for a layer that does nothing but put its inputs side by side, as
    /// `torch.cat` does. A planner may then let the operators before it write there, so that nothing is left to do.
    ///
    /// `output` is the layout of the output. Default: the layer is no such layer.
    ///
    /// # Errors
    /// A [`LayerError`] when a layout cannot be made.
    fn parts(&self, inputs: &[TensorMeta], output: &Layout) -> Result<Option<Vec<Layout>>, LayerError> {
        let _ = (inputs, output);
        Ok(None)
    }

    /// The only output, where it does not depend on any input, such as a stored constant, within the limits of the run.
    /// Default: none.
    ///
    /// # Errors
    /// A [`LayerError`] when it cannot be read, or is larger than the limits allow.
    fn constant(&self, limits: &Limits) -> Result<Option<Tensor>, LayerError> {
        let _ = limits;
        Ok(None)
    }

    /// True when the sizes of the outputs depend on values, as with `masked_select`. Such a layer implements
    /// [`CpuLayer::forward_dynamic`] instead of `forward`; it is called even where the values, and so the sizes, are known
    /// before the run, as those of `torch.arange` often are. Default: false.
    fn is_data_dependent(&self) -> bool {
        false
    }

    /// What one run costs. Default: no multiplications, every input read and every output written once.
    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        Cost::of_moving(inputs, outputs)
    }
}

/// An output that lies in the memory of an input; see [`Layer::view`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Position of the input.
    pub input: usize,
    /// Where the output's elements lie in the input's storage, counted in elements of the output: complex numbers may be
    /// seen as their parts, and pairs of numbers as complex ones.
    pub layout: Layout,
}

/// What one run of a layer costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Multiply-accumulate operations.
    pub macs: u64,
    /// Bytes of the inputs and outputs, each counted once; weights that are attributes are not included.
    pub bytes: u64,
}

impl Cost {
    /// The cost of reading every input and writing every output once. Symbolic sizes count as zero.
    pub fn of_moving(inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Self {
        let size = |meta: &TensorMeta| meta.byte_len().unwrap_or(0);
        Self { macs: 0, bytes: inputs.iter().chain(outputs).map(size).fold(0, u64::saturating_add) }
    }

    /// The same with this number of multiply-accumulate operations.
    #[must_use]
    pub fn with_macs(self, macs: u64) -> Self {
        Self { macs, ..self }
    }
}

/// Element type and memory format of one tensor of a layer, as [`CpuLayer::supports`] is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorFormat {
    /// The element type.
    pub dtype: DType,
    /// Plain, blocked, or with the channels last.
    pub format: Format,
    /// Whether whole numbers stand for real ones, by a scale that [`CpuLayer::configure`] tells.
    pub is_quantized: bool,
    /// In whose memory it lies.
    pub device: Device,
}

impl TensorFormat {
    /// Elements of this type in row-major order.
    pub fn plain(dtype: DType) -> Self {
        Self { dtype, format: Format::Plain, is_quantized: false, device: Device::Cpu }
    }

    /// Whole numbers from -127 to 127 that stand for real ones, in row-major order.
    pub fn quantized() -> Self {
        Self { is_quantized: true, ..Self::plain(DType::I8) }
    }

    /// The same in the memory of a device.
    #[must_use]
    pub fn on(self, device: Device) -> Self {
        Self { device, ..self }
    }

    /// The same with one axis cut into blocks that lie innermost.
    #[must_use]
    pub fn blocked(self, axis: u8, block: u8) -> Self {
        Self { format: Format::Blocked { axis, block }, ..self }
    }

    /// The same in row-major order.
    #[must_use]
    pub fn row_major(self) -> Self {
        Self { format: Format::Plain, ..self }
    }

    /// The same with axis 1 innermost: [`Format::ChannelsLast`].
    #[must_use]
    pub fn channels_last(self) -> Self {
        Self { format: Format::ChannelsLast, ..self }
    }
}

/// `f32`, and what is not plain about it: `i8 quantized`, `f32 16c` (channels in blocks of 16), `f32 8@2` (axis 2 in blocks of 8),
/// `f16 nhwc cuda` (channels last, in the memory of a GPU).
impl fmt::Display for TensorFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quantized = if self.is_quantized { " quantized" } else { "" };
        let device = if self.device == Device::Cuda { " cuda" } else { "" };
        f.pad(&match self.format {
            Format::Plain => format!("{}{quantized}{device}", self.dtype),
            Format::ChannelsLast => format!("{}{quantized} nhwc{device}", self.dtype),
            Format::Blocked { axis: 1, block } => format!("{}{quantized} {block}c{device}", self.dtype),
            Format::Blocked { axis, block } => format!("{}{quantized} {block}@{axis}{device}", self.dtype),
        })
    }
}

/// The key of the attribute in which a plan stores what [`CpuLayer::packed`] returned.
pub const PACKED: &str = "ixion.packed";

/// One way of computing a layer; the engine times them and picks one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tactic {
    /// The number by which the layer knows it.
    pub id: u32,
    /// A short name for reports, such as `im2col`. One that is named after a precision, such as `bf16`, loses as much: the engine
    /// chooses it only where that precision is allowed, or the tactic is asked for by name.
    pub name: &'static str,
}

impl Tactic {
    /// That of a layer with one way of computing.
    pub const DEFAULT: Self = Self { id: 0, name: "default" };
}

/// How a layer runs on the CPU.
///
/// # Life of a layer
///
/// 1. It is **created** from its parameters and weights, or with [`deserialize`](CpuLayer::deserialize) from bytes that
///    [`serialize`](CpuLayer::serialize) made.
/// 2. [`supports`](CpuLayer::supports) and [`tactics`](CpuLayer::tactics) say what it can do;
///    [`set_tactic`](CpuLayer::set_tactic) settles one.
/// 3. [`configure`](CpuLayer::configure) tells it shapes and types, again whenever they change;
///    [`workspace`](CpuLayer::workspace) is asked after that.
/// 4. [`initialize`](CpuLayer::initialize) once, before anything runs; [`terminate`](CpuLayer::terminate) once for each
///    `initialize`, when the graph is dropped. Then [`forward`](CpuLayer::forward), any number of times.
/// 5. It is **cloned** for another context: the clone is initialised and configured as the original is, has
///    parameters and state of its own, and shares only weights, which nobody changes.
///
/// While a plan is built, `configure` comes before `initialize`; when one is loaded, `initialize` comes right after
/// `deserialize`, and `configure` later, in a context. Neither may count on the other. Some layers are created, asked
/// [`infer`](Layer::infer) alone, and dropped.
pub trait CpuLayer: Layer + CloneCpuLayer {
    /// Computes the outputs.
    ///
    /// `outputs` have the shapes and types that [`Layer::infer`] returned for these inputs, and hold arbitrary values.
    /// Inputs may have any strides.
    ///
    /// # Errors
    /// A [`LayerError`]; it ends the run.
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError>;

    /// Computes outputs whose sizes were not known before; only where [`Layer::is_data_dependent`].
    ///
    /// # Errors
    /// A [`LayerError`]; it ends the run. The default says that the layer has no such form.
    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>, LayerError> {
        let _ = (inputs, context);
        Err(lacks(&self, "has no outputs of data-dependent size"))
    }

    /// Computes an output in the memory of the input that [`Layer::in_place`] names; `others` are the other inputs.
    ///
    /// # Errors
    /// A [`LayerError`]; it ends the run. The default says that the layer has no such form.
    fn forward_in_place(
        &mut self,
        data: &mut TensorViewMut<'_>,
        others: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let _ = (data, others, context);
        Err(lacks(&self, "cannot work in place"))
    }

    /// Whether the tensor at `position` may have the format `formats[position]`, given those before it.
    ///
    /// Positions count the inputs first, then the outputs. What [`Layer::infer`] refuses is never asked about. Default:
    /// every element type, plain, and no whole numbers that stand for real ones.
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_plain(formats, position)
    }

    /// Whether every element of the outputs depends on the elements of the inputs at the same place alone, where all have the
    /// same shape. An engine may then give it tensors in any format, all in the same one, that it sees as plain tensors of
    /// the shape in which they lie in memory; [`CpuLayer::supports`] is not asked about these. Default: false.
    fn is_pointwise(&self) -> bool {
        false
    }

    /// The ways of computing this layer, the one for general use first. Default: one.
    fn tactics(&self) -> Vec<Tactic> {
        one_tactic()
    }

    /// Settles one of [`tactics`](CpuLayer::tactics).
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] for a number that is not among them.
    fn set_tactic(&mut self, id: u32) -> Result<(), LayerError> {
        is_among(self.tactics(), id)
    }

    /// How well the settled tactic uses the processor for what is configured: the multiplications that it does in the time in
    /// which a good product of large matrices does 1. Engines that do not measure compare tactics and formats by it.
    /// Default: 1.
    fn efficiency(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> f64 {
        let _ = (inputs, outputs);
        1.0
    }

    /// Takes note of the final shapes and element types. Called before the first `forward` and again whenever they
    /// change. Default: nothing to note.
    ///
    /// # Errors
    /// A [`LayerError`] when the layer cannot work with them.
    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<(), LayerError> {
        let _ = (inputs, outputs);
        Ok(())
    }

    /// Bytes of scratch memory that `forward` needs for the configured shapes and all smaller ones. Default: none.
    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        let _ = (inputs, outputs);
        0
    }

    /// Prepares whatever lasts until [`terminate`](CpuLayer::terminate), such as packed weights. Default: nothing.
    ///
    /// # Errors
    /// A [`LayerError`]; the graph is then not built.
    fn initialize(&mut self) -> Result<(), LayerError> {
        Ok(())
    }

    /// Lets go of what [`initialize`](CpuLayer::initialize) prepared. Default: nothing.
    fn terminate(&mut self) {}

    /// The layer's state beyond its parameters and weights: tactic, configured types, packed weights. Default: empty.
    ///
    /// # Errors
    /// A [`LayerError`] when the state cannot be written.
    fn serialize(&self) -> Result<Vec<u8>, LayerError> {
        Ok(Vec::new())
    }

    /// Weights in the order in which the layer multiplies them, if [`initialize`](CpuLayer::initialize) has made them. A plan
    /// stores them as the operator's attribute [`PACKED`], where the layer finds them when it is created again; its state
    /// should say in which order they are. Default: none.
    ///
    /// # Errors
    /// A [`LayerError`] when the weights cannot be read.
    fn packed(&self) -> Result<Option<Vec<f32>>, LayerError> {
        Ok(None)
    }

    /// Takes over the state that [`serialize`](CpuLayer::serialize) wrote, on a layer of the same parameters.
    ///
    /// # Errors
    /// A [`LayerError`] when these bytes were not written by such a layer. The default takes no bytes at all.
    fn deserialize(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        no_state(bytes)
    }
}

// What defaults do, outside of them: they are compiled once for every layer.

type Found = Result<Option<View>, LayerError>;

fn with_layouts(inputs: &[(DType, Layout)], view: &mut dyn FnMut(&[Layout]) -> Found) -> Found {
    let layouts: Vec<Layout> = inputs.iter().map(|input| input.1).collect();
    view(&layouts)
}

fn lacks(layer: &dyn fmt::Debug, what: &str) -> LayerError {
    cannot(&format_args!("{layer:?} {what}"))
}

fn is_plain(formats: &[TensorFormat], position: usize) -> bool {
    formats.get(position).is_some_and(|format| format.format == Format::Plain && !format.is_quantized)
}

fn one_tactic() -> Vec<Tactic> {
    vec![Tactic::DEFAULT]
}

fn cannot(what: &dyn fmt::Display) -> LayerError {
    LayerError::Unsupported(what.to_string())
}

fn is_among(tactics: Vec<Tactic>, id: u32) -> Result<(), LayerError> {
    match tactics.iter().any(|tactic| tactic.id == id) {
        true => Ok(()),
        false => Err(cannot(&format_args!("there is no tactic {id}"))),
    }
}

fn no_state(bytes: &[u8]) -> Result<(), LayerError> {
    match bytes.len() {
        0 => Ok(()),
        len => Err(cannot(&format_args!("{len} bytes of state, but this layer keeps none"))),
    }
}

/// Cloning through a `dyn CpuLayer`. Implemented for every layer that is `Clone`.
pub trait CloneCpuLayer {
    /// A clone of the layer; see [the life of a layer](CpuLayer#life-of-a-layer).
    fn clone_layer(&self) -> Box<dyn CpuLayer>;

    /// The layer as what it is, so that another device's trait of the same type can be found.
    fn as_any(&self) -> &dyn Any;
}

impl<L: CpuLayer + Clone + 'static> CloneCpuLayer for L {
    fn clone_layer(&self) -> Box<dyn CpuLayer> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Clone for Box<dyn CpuLayer> {
    fn clone(&self) -> Self {
        (**self).clone_layer()
    }
}

/// What a layer may use while it computes.
#[derive(Debug)]
pub struct ForwardContext<'a> {
    scratch: Scratch<'a>,
    limits: &'a Limits,
}

impl<'a> ForwardContext<'a> {
    /// A context of scratch memory and limits. The memory comes from a [`Workspace`](crate::tensor::Workspace), or from
    /// an arena.
    pub fn new(scratch: impl Into<Scratch<'a>>, limits: &'a Limits) -> Self {
        Self { scratch: scratch.into(), limits }
    }

    /// Scratch memory for `len` elements, holding arbitrary values. [`CpuLayer::workspace`] must have asked for it.
    ///
    /// # Errors
    /// [`LayerError::Workspace`] when it asked for less.
    pub fn scratch<T: Element>(&mut self, len: usize) -> Result<&mut [T], LayerError> {
        Ok(self.scratch_and_limits(len)?.0)
    }

    /// Scratch memory as from [`ForwardContext::scratch`], and the limits beside it.
    ///
    /// # Errors
    /// As [`ForwardContext::scratch`].
    pub fn scratch_and_limits<T: Element>(
        &mut self,
        len: usize,
    ) -> Result<(&mut [T], &'a Limits), LayerError> {
        let (wanted, found) = (len.saturating_mul(size_of::<T>()), self.scratch.len());
        if wanted > found {
            return Err(LayerError::Workspace { wanted, found });
        }
        Ok((self.scratch.slice(len)?, self.limits))
    }

    /// As many elements of scratch memory as there are, between a number that is needed and one that is of use.
    ///
    /// # Errors
    /// As [`ForwardContext::scratch`], when there are fewer than are needed.
    pub fn scratch_between<T: Element>(&mut self, least: usize, most: usize) -> Result<&mut [T], LayerError> {
        let room = self.scratch.len() / size_of::<T>().max(1);
        self.scratch(room.min(most).max(least))
    }

    /// The number of bytes of scratch memory.
    pub(crate) fn scratch_len(&self) -> usize {
        self.scratch.len()
    }

    /// The limits of this run; a layer that computes for long checks the deadline from time to time.
    pub fn limits(&self) -> &'a Limits {
        self.limits
    }
}
