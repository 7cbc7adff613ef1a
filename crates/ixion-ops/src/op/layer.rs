//! The layer traits: the semantics of an operator, and its implementation on the CPU.
//!
//! Each operator type is one Rust type. It implements [`Layer`], which defines the device-independent semantics (shapes,
//! element types, which outputs are views), and one trait for each device that it runs on, here [`CpuLayer`]. Only two
//! methods are required, [`Layer::infer`] and [`CpuLayer::forward`]; all others have defaults.

use super::format::TensorFormat;
use super::io::{ForwardContext, Io};
use super::{LayerError, QuantizedWeight, Result, TensorMeta};
use ixion_tensor::{DType, Format, Layout, Limits, Shape, Tensor, TensorView, TensorViewMut};
use std::any::Any;
use std::fmt;
use std::ops::RangeInclusive;

/// The semantics of an operator, independent of the device that it runs on.
///
/// ```
/// use ixion_ops::op::{Layer, Result, TensorMeta};
///
/// /// Twice its input.
/// #[derive(Debug, Clone)]
/// struct Double;
///
/// impl Layer for Double {
///     fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
///         Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())])
///     }
/// }
/// # let x = TensorMeta::new(ixion_tensor::DType::F32, [2, 3]);
/// # assert_eq!(Double.infer(&[x.clone()]).unwrap(), [x]);
/// ```
pub trait Layer: fmt::Debug + Send + Sync + AsLayer {
    /// The number of inputs that the layer takes. The graph checks it before it calls any other method with inputs, so that
    /// indexing within this range is safe. A layer of [`operator!`](crate::operator) whose fields take inputs returns
    /// `exactly(1 + self.field_inputs())`, see [`exactly`] and [`FromOperator`](super::FromOperator). Default: exactly one.
    fn num_inputs(&self) -> RangeInclusive<usize> {
        1..=1
    }

    /// The number of outputs that the layer produces. Default: one.
    fn num_outputs(&self) -> usize {
        1
    }

    /// The shape rule: infers the shapes and element types of the outputs from the inputs.
    ///
    /// The same rule is used when the model is built, with symbolic dimensions, and when it runs, with concrete ones. It is
    /// also the place to refuse inputs that the layer does not support.
    ///
    /// # Errors
    /// A [`LayerError`] that names the invalid input and what was expected.
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>>;

    /// Returns an output as a view of an input with another layout, so that nothing needs to be computed or copied.
    ///
    /// `inputs` are the layouts of all inputs, `shape` is the shape of the output. A layer returns views for all of its
    /// outputs or for none; if it does, `forward` is not called. Default: `None`.
    ///
    /// # Errors
    /// A [`LayerError`] if the layout cannot be created.
    fn view(&self, output: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        let _ = (output, inputs, shape);
        Ok(None)
    }

    /// As [`Layer::view`], for layers whose views depend on the element types of the inputs. Default: calls [`Layer::view`].
    ///
    /// # Errors
    /// As [`Layer::view`].
    fn view_of(&self, output: usize, inputs: &[(DType, Layout)], shape: &Shape) -> Result<Option<View>> {
        view_by_layouts(self.as_layer(), output, inputs, shape)
    }

    /// The input whose memory an output may overwrite, element by element. A planner may then give both the same place and
    /// call [`CpuLayer::forward_in_place`]. Default: `None`.
    fn in_place(&self, output: usize) -> Option<usize> {
        let _ = output;
        None
    }

    /// The layout of each input within the only output, for a layer that only concatenates its inputs, such as `torch.cat`.
    /// A planner may then let the preceding operators write directly into the output, so that nothing is left to do.
    ///
    /// `output` is the layout of the output. Default: `None`, for layers that do anything else.
    ///
    /// # Errors
    /// A [`LayerError`] if a layout cannot be created.
    fn parts(&self, inputs: &[TensorMeta], output: &Layout) -> Result<Option<Vec<Layout>>> {
        let _ = (inputs, output);
        Ok(None)
    }

    /// The only output of a layer that does not depend on any input, such as a stored constant, within the limits of the
    /// run. Default: `None`.
    ///
    /// # Errors
    /// A [`LayerError`] if it cannot be read, or is larger than the limits allow.
    fn constant(&self, limits: &Limits) -> Result<Option<Tensor>> {
        let _ = limits;
        Ok(None)
    }

    /// Returns true if the output shapes depend on input values, as for `masked_select`. Such a layer implements
    /// [`CpuLayer::forward_dynamic`] instead of `forward`. It is called even if the values, and so the shapes, are known before
    /// the run, as is often the case for `torch.arange`. Default: false.
    fn is_data_dependent(&self) -> bool {
        false
    }

    /// The cost of one run. Default: no multiplications; every input is read and every output written once.
    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        Cost::of_moving(inputs, outputs)
    }
}

/// An output that shares the memory of an input; see [`Layer::view`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// The position of the input.
    pub input: usize,
    /// The layout of the output in the input's storage, in units of the output's element type: complex numbers may be viewed
    /// as pairs of real numbers and vice versa.
    pub layout: Layout,
}

/// The cost of one run of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Multiply-accumulate operations.
    pub macs: u64,
    /// The bytes of the inputs and outputs, each counted once. Weights that are attributes are not included.
    pub bytes: u64,
}

impl Cost {
    /// The cost of reading every input and writing every output once. Tensors with symbolic dimensions count as zero.
    pub fn of_moving(inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Self {
        let size = |meta: &TensorMeta| meta.byte_len().unwrap_or(0);
        Self { macs: 0, bytes: inputs.iter().chain(outputs).map(size).fold(0, u64::saturating_add) }
    }

    /// The same cost with `macs` multiply-accumulate operations.
    #[must_use]
    pub fn with_macs(self, macs: u64) -> Self {
        Self { macs, ..self }
    }
}

/// The key of the attribute in which a plan stores what [`CpuLayer::packed`] returned.
pub const PACKED: &str = "ixion.packed";

/// One implementation of a layer. The engine measures the available tactics and selects one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tactic {
    /// The identifier, unique within the layer.
    pub id: u32,
    /// A short name for reports, such as `im2col`. A tactic that is named after a precision, such as `bf16`, loses as much
    /// accuracy: the engine selects it only if that precision is allowed, or if the tactic is requested by name.
    pub name: &'static str,
}

impl Tactic {
    /// The tactic of a layer with a single implementation.
    pub const DEFAULT: Self = Self { id: 0, name: "default" };
}

/// The CPU implementation of a layer.
///
/// # Life of a layer
///
/// 1. It is **created** from its parameters and weights; its state may then be restored by
///    [`deserialize`](CpuLayer::deserialize) from bytes that [`serialize`](CpuLayer::serialize) returned.
/// 2. [`supports`](CpuLayer::supports) and [`tactics`](CpuLayer::tactics) report what it can do;
///    [`set_tactic`](CpuLayer::set_tactic) selects a tactic.
/// 3. [`configure`](CpuLayer::configure) passes shapes and types, and is called again whenever they change;
///    [`workspace`](CpuLayer::workspace) is called after that.
/// 4. [`initialize`](CpuLayer::initialize) is called once, before anything runs, then [`forward`](CpuLayer::forward) any number
///    of times. [`terminate`](CpuLayer::terminate) is called once for each `initialize`, when the graph is dropped.
/// 5. It is **cloned** for another context: the clone is initialised and configured like the original, has its own
///    parameters and state, and shares only the weights, which are never changed.
///
/// When a plan is built, `configure` is called before `initialize`; when a plan is loaded, `initialize` is called right after
/// `deserialize`, and `configure` later, in a context. Neither may rely on the other. Some layers are created, asked only
/// for [`infer`](Layer::infer), and dropped.
pub trait CpuLayer: Layer + CloneCpuLayer {
    /// Computes the outputs.
    ///
    /// `io.outputs` have the shapes and types that [`Layer::infer`] returned for `io.inputs`, and hold arbitrary values.
    /// Inputs may have any strides.
    ///
    /// # Errors
    /// A [`LayerError`], which ends the run.
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()>;

    /// Computes outputs whose shapes are not known in advance. Called only if [`Layer::is_data_dependent`] returns true.
    ///
    /// # Errors
    /// A [`LayerError`], which ends the run. The default always returns [`LayerError::Unsupported`].
    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>> {
        let _ = (inputs, context);
        Err(lacks(self.as_layer(), "has no outputs of data-dependent size"))
    }

    /// Computes the output in the memory of the input that [`Layer::in_place`] names; `others` are the other inputs.
    ///
    /// # Errors
    /// A [`LayerError`], which ends the run. The default always returns [`LayerError::Unsupported`].
    fn forward_in_place(
        &mut self,
        data: &mut TensorViewMut<'_>,
        others: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let _ = (data, others, context);
        Err(lacks(self.as_layer(), "cannot work in place"))
    }

    /// Returns true if the tensor at `position` may have the format `formats[position]`, given the formats before it.
    ///
    /// Positions count the inputs first, then the outputs. Combinations that [`Layer::infer`] refuses are never passed.
    /// Default: every element type in the plain format, not quantised.
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_plain(formats, position)
    }

    /// Returns true if every output element depends only on the input elements at the same position, given that all tensors
    /// have the same shape. An engine may then pass tensors in any format, the same for all, which the layer sees as plain
    /// tensors with the shape of their memory layout. [`CpuLayer::supports`] is not called for these formats. Default: false.
    fn is_pointwise(&self) -> bool {
        false
    }

    /// Returns true if quantised tensors may have a [zero point](super::Step::zero_point) other than 0, wherever the layer supports
    /// quantised ones at all. Default: false.
    fn takes_zero_points(&self) -> bool {
        false
    }

    /// The tactics of this layer, the general one first. Default: [`Tactic::DEFAULT`] only.
    fn tactics(&self) -> Vec<Tactic> {
        one_tactic()
    }

    /// Selects one of [`tactics`](CpuLayer::tactics).
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if there is no tactic with this identifier.
    fn set_tactic(&mut self, id: u32) -> Result<()> {
        is_among(self.tactics(), id)
    }

    /// The estimated efficiency of the selected tactic for the configured shapes: its multiplication throughput relative to a
    /// well-optimised product of large matrices. Engines that do not measure compare tactics and formats by it. Default: 1.
    fn efficiency(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> f64 {
        let _ = (inputs, outputs);
        1.0
    }

    /// The estimated rounding error of the selected tactic, in multiples of that of the general one. Engines select a tactic
    /// with far larger errors only if they are allowed to. The precision that a tactic is named after does not count.
    /// Default: 1.
    fn rounding(&self) -> f64 {
        1.0
    }

    /// Prepares the layer for the final shapes and element types. Called before the first `forward` and again whenever they
    /// change. Default: does nothing.
    ///
    /// # Errors
    /// A [`LayerError`] if the layer does not support them.
    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        let _ = (inputs, outputs);
        Ok(())
    }

    /// The number of bytes of scratch memory that `forward` needs for the configured shapes and all smaller ones. Default: 0.
    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        let _ = (inputs, outputs);
        0
    }

    /// Prepares whatever lasts until [`terminate`](CpuLayer::terminate), such as packed weights. Default: does nothing.
    ///
    /// # Errors
    /// A [`LayerError`], which makes building the graph fail.
    fn initialize(&mut self) -> Result<()> {
        Ok(())
    }

    /// Releases what [`initialize`](CpuLayer::initialize) prepared. Default: does nothing.
    fn terminate(&mut self) {}

    /// The layer's state apart from its parameters and weights: tactic, configured types, packed weights. Default: empty.
    ///
    /// # Errors
    /// A [`LayerError`] if the state cannot be written.
    fn serialize(&self) -> Result<Vec<u8>> {
        empty_state()
    }

    /// The packed weights, if [`initialize`](CpuLayer::initialize) has created them. A plan stores them as the operator's
    /// attribute [`PACKED`], from which the layer can read them when it is created again; its serialised state should specify
    /// the packing order. Default: `None`.
    ///
    /// # Errors
    /// A [`LayerError`] if the weights cannot be read.
    fn packed(&self) -> Result<Option<Vec<f32>>> {
        Ok(None)
    }

    /// The attribute `weight` in int8, if the layer reads nothing else of it. A plan stores it instead of the original, with a
    /// scale for each row under [`scales_key`](super::scales_key); a [`Weight`](super::Weight) is then read from both. Default:
    /// `None`.
    ///
    /// # Errors
    /// A [`LayerError`] if the weight cannot be read.
    fn quantized_weight(&self) -> Result<Option<QuantizedWeight>> {
        Ok(None)
    }

    /// Restores the state that [`serialize`](CpuLayer::serialize) returned on a layer with the same parameters.
    ///
    /// # Errors
    /// A [`LayerError`] if the bytes were not written by such a layer. The default accepts only an empty state.
    fn deserialize(&mut self, bytes: &[u8]) -> Result<()> {
        no_state(bytes)
    }
}

/// A fixed number of inputs, for [`Layer::num_inputs`].
pub const fn exactly(count: usize) -> RangeInclusive<usize> {
    count..=count
}

/// A layer without its type, for the defaults of [`Layer`]. Implemented for every layer.
#[doc(hidden)]
pub trait AsLayer {
    /// The layer itself.
    fn as_layer(&self) -> &dyn Layer;
}

impl<L: Layer> AsLayer for L {
    fn as_layer(&self) -> &dyn Layer {
        self
    }
}

// The bodies of the defaults as separate functions: a default method itself is compiled once for every layer, and so is what
// is inlined in it.

#[inline(never)]
fn view_by_layouts(
    layer: &dyn Layer,
    output: usize,
    inputs: &[(DType, Layout)],
    shape: &Shape,
) -> Result<Option<View>> {
    let layouts: Vec<Layout> = inputs.iter().map(|input| input.1).collect();
    layer.view(output, &layouts, shape)
}

#[inline(never)]
fn lacks(layer: &dyn Layer, what: &str) -> LayerError {
    cannot(&format_args!("{layer:?} {what}"))
}

#[inline(never)]
fn empty_state() -> Result<Vec<u8>> {
    Ok(Vec::new())
}

#[inline(never)]
fn is_plain(formats: &[TensorFormat], position: usize) -> bool {
    formats.get(position).is_some_and(|format| format.format == Format::Plain && !format.is_quantized)
}

#[inline(never)]
fn one_tactic() -> Vec<Tactic> {
    vec![Tactic::DEFAULT]
}

fn cannot(what: &dyn fmt::Display) -> LayerError {
    LayerError::Unsupported(what.to_string())
}

#[inline(never)]
fn is_among(tactics: Vec<Tactic>, id: u32) -> Result<()> {
    match tactics.iter().any(|tactic| tactic.id == id) {
        true => Ok(()),
        false => Err(cannot(&format_args!("there is no tactic {id}"))),
    }
}

#[inline(never)]
fn no_state(bytes: &[u8]) -> Result<()> {
    match bytes.len() {
        0 => Ok(()),
        len => Err(cannot(&format_args!("expected no stored state, got {len} bytes"))),
    }
}

/// Cloning through a `dyn CpuLayer`. Implemented for every layer that is `Clone`.
pub trait CloneCpuLayer {
    /// A clone of the layer; see [the life of a layer](CpuLayer#life-of-a-layer).
    fn clone_layer(&self) -> Box<dyn CpuLayer>;

    /// The layer as [`Any`], so that it can be downcast to its concrete type, for instance to use another device's trait.
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
