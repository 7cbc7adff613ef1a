//! Lesson 18: an engine with a convolution of your own.
//!
//! The page of the book: `book/src/lessons/18_capstone.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion::course::window::Window;
use ixion::engine::{Builder, EngineError, Formats, Plan, Precision, Scales};
use ixion::op::{
    Cost, CpuLayer, Io, Layer, LayerError, PluginName, Registry, RegistryError, Result, State, TensorFormat,
    TensorMeta, Weight,
};
use ixion::shape::InputRange;
use ixion::tensor::{DType, Dim, Tensor};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView1, ArrayView2, ArrayView3, ArrayView4, ArrayViewMut2, ArrayViewMut4, Ix4};
use std::sync::Arc;

// Given: the layer's fields, and its configuration by the engine.

ixion::operator! {
    /// `torch.nn.Conv2d` with one group: slides a window over H and W of an N×C×H×W input. Each output element is the sum of
    /// the products of the elements in the window with the O×C×kH×kW weights of its channel, plus a bias.
    pub struct Conv2d for "Conv2d" {
        /// The number of input channels, C.
        in_channels: usize,
        /// The number of output channels, O.
        out_channels: usize,
        /// The height and width of the window.
        kernel_size: [usize; 2],
        /// The distance between one position of the window and the next.
        stride: [usize; 2] = [1, 1],
        /// The number of zeros added on both sides of H and W.
        padding: [usize; 2] = [0, 0],
        /// The distance between the elements that the window covers.
        dilation: [usize; 2] = [1, 1],
        /// The number of groups; only 1 is supported.
        groups: usize = 1,
        /// The values outside of the input; only `zeros` is supported.
        padding_mode: String = "zeros".to_owned(),
        /// The weights, O×C×kH×kW.
        weight: Weight,
        /// The bias, O elements.
        bias: Option<Weight> = None,
        /// The engine's configuration. It is not a key of the file.
        state: State<Option<Configuration>>,
    }
    validate |conv| {
        conv.check()
    }
}

/// The configuration that the engine selected for a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// N, C, H and W of the input.
    pub input: [usize; 4],
    /// N, O, H and W of the output.
    pub output: [usize; 4],
    /// The quantised weights; `None` if all tensors are `f32`. Clones of a layer share them.
    pub int8: Option<Arc<QuantizedWeights>>,
}

/// Checks that a weight is stored in the file, in `f32` and in this shape.
fn stored(what: &str, weight: &Weight, shape: &[usize]) -> Result<()> {
    let Weight::Attribute(found) = weight else {
        return Err(LayerError::Unsupported(format!("{what} must be stored in the file")));
    };
    if found.dtype() != DType::F32 {
        return Err(LayerError::dtype(what, DType::F32, found.dtype()));
    }
    if found.shape() != shape || shape.contains(&0) {
        return Err(LayerError::shape(what, format!("{shape:?}"), format!("{:?}", found.shape())));
    }
    Ok(())
}

/// N, C, H and W as the engine configured them.
fn lens(meta: &TensorMeta) -> Result<[usize; 4]> {
    let shape = meta.shape()?;
    shape.dims().try_into().map_err(|_| LayerError::shape("a tensor", "N×C×H×W", meta))
}

impl Conv2d {
    /// The windows over rows and over columns.
    fn windows(&self) -> [Window; 2] {
        windows(self.kernel_size, self.stride, self.padding, self.dilation)
    }

    /// The number of input elements that each output element depends on.
    fn taps(&self) -> usize {
        self.in_channels * self.kernel_size[0] * self.kernel_size[1]
    }

    /// The weights as a matrix, with one row for each output channel.
    fn rows(&self) -> Result<ArrayView2<'_, f32>> {
        let weights = self.weight.view(&[])?.slice::<f32>()?;
        Ok(ArrayView2::from_shape((self.out_channels, self.taps()), weights)?)
    }

    /// One bias for each output channel.
    fn biases(&self) -> Result<Vec<f32>> {
        match &self.bias {
            Some(bias) => Ok(bias.view(&[])?.to_vec::<f32>()?),
            None => Ok(vec![0.0; self.out_channels]),
        }
    }
}

// Given: windows over both axes, and their shape rule, as in lesson 10.

/// The windows over rows and over columns, from parameters that list rows first.
pub fn windows(
    kernel_size: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
) -> [Window; 2] {
    [0, 1].map(|axis| Window {
        kernel: kernel_size[axis],
        stride: stride[axis],
        dilation: dilation[axis],
        pad_before: padding[axis],
        pad_after: padding[axis],
    })
}

/// The number of window positions along an axis, whose length may be a symbol: ⌊(len + padding − reach) / stride⌋ + 1.
pub fn slid(len: &Dim, window: &Window) -> Dim {
    let reach = window.dilation * window.kernel.saturating_sub(1) + 1;
    let room = len.clone() + window.pad_before + window.pad_after - reach;
    room.floor_div(window.stride) + 1
}

/// The dimensions of an N×C×H×W input after windows slide over H and W.
///
/// # Errors
/// [`LayerError::Shape`] if the input has another rank, or if a window does not fit.
pub fn planes(input: &TensorMeta, windows: &[Window; 2]) -> Result<[Dim; 4]> {
    let [batch, channels, height, width] = input.dims() else {
        return Err(LayerError::shape("the input", "N×C×H×W", input));
    };
    let [height, width] = [slid(height, &windows[0]), slid(width, &windows[1])];
    if [&height, &width].iter().any(|len| len.fixed().is_some_and(|len| len < 1)) {
        return Err(LayerError::shape("the input", "H and W that the window fits into", input));
    }
    Ok([batch.clone(), channels.clone(), height, width])
}

/// Checks that windows can slide.
///
/// # Errors
/// [`LayerError::InvalidParameter`] with the first window that cannot.
pub fn check(windows: &[Window; 2]) -> Result<()> {
    match windows.iter().find(|window| !window.is_sane()) {
        Some(window) => {
            Err(LayerError::invalid("kernel_size", format!("{window:?}"), "this window cannot slide"))
        }
        None => Ok(()),
    }
}

// Task 1: fields and shapes.

impl Conv2d {
    /// Checks that this layer supports its fields.
    fn check(&self) -> Result<()> {
        todo!(
            "lesson 18, task 1: return an error for padding other than zeros, groups, weights of other shapes, and windows that cannot slide (book chapter 18; stuck? cargo learn hint 18)"
        )
    }
}

impl Layer for Conv2d {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        todo!(
            "lesson 18, task 1: return N×O×H×W for an f32 input, whose lengths are numbers or symbols (book chapter 18; stuck? cargo learn hint 18)"
        )
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let elements = outputs.first().and_then(|output| output.num_elements().fixed()).unwrap_or(0);
        let macs = elements.unsigned_abs().saturating_mul(self.taps() as u64);
        Cost::of_moving(inputs, outputs).with_macs(macs)
    }
}

// Tasks 2, 3 and 5: the methods that the engine calls.

impl CpuLayer for Conv2d {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        todo!(
            "lesson 18, task 2: support plain f32 and quantised tensors, the same format for all (book chapter 18; stuck? cargo learn hint 18)"
        )
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        todo!(
            "lesson 18, task 3: store all lengths; with scales, also the quantised weights, and keep the present ones if the scales did not change (book chapter 18; stuck? cargo learn hint 18)"
        )
    }

    fn workspace(&self, _: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        todo!(
            "lesson 18, task 3: return the bytes for the columns of one image, and for one element of each output channel and position (book chapter 18; stuck? cargo learn hint 18)"
        )
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let Some(Configuration { input, output, int8 }) = &self.state.0 else {
            return Err(LayerError::Unsupported("the layer was not configured".to_owned()));
        };
        if io.inputs[0].shape().dims() != input || io.outputs[0].shape().dims() != output {
            return Err(LayerError::shape("the input", format!("{input:?}"), io.inputs[0].shape()));
        }
        let elements = (self.taps() + output[1]) * output[2] * output[3];
        match int8 {
            None => {
                let x = io.inputs[0].array::<f32>()?.into_dimensionality::<Ix4>()?;
                let y = io.outputs[0].array::<f32>()?.into_dimensionality::<Ix4>()?;
                self.forward_f32(x, y, io.context.scratch::<f32>(elements)?)
            }
            Some(weights) => {
                let x = io.inputs[0].array::<i8>()?.into_dimensionality::<Ix4>()?;
                let y = io.outputs[0].array::<i8>()?.into_dimensionality::<Ix4>()?;
                self.forward_int8(weights, x, y, io.context.scratch::<i32>(elements)?)
            }
        }
    }

    fn serialize(&self) -> Result<Vec<u8>> {
        Ok(self.state.0.as_ref().map(encode).unwrap_or_default())
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<()> {
        todo!(
            "lesson 18, task 5: decode the state, if it belongs to this convolution; none if there are no bytes (book chapter 18; stuck? cargo learn hint 18)"
        )
    }
}

// Task 2: a name.

/// The built-in layers, with `nn.Conv2d` routed to [`Conv2d`].
///
/// # Errors
/// Returns an error if the plugin's name is invalid or already in use.
pub fn registry() -> Result<Registry, RegistryError> {
    todo!(
        "lesson 18, task 2: add the plugin to the default registry, and route `nn.Conv2d` to it (book chapter 18; stuck? cargo learn hint 18)"
    )
}

// Task 3: quantised weights.

/// Weights quantised to −127..=127, and what converts their sums to outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizedWeights {
    /// The scales of the input and of the output.
    pub scales: [f32; 2],
    /// For each output channel, the factor from its sums to quantised outputs.
    pub steps: Vec<f64>,
    /// For each output channel, its bias, quantised like its sums.
    pub bias: Vec<i32>,
    /// The quantised weights, one row for each output channel.
    pub weights: Vec<i8>,
}

/// The largest bias that can be added to this number of products of two int8 values without overflow of an i32.
fn max_bias(taps: usize) -> i64 {
    i64::from(i32::MAX) - i64::try_from(taps).unwrap_or(i64::MAX).saturating_mul(128 * 128)
}

fn too_large() -> LayerError {
    LayerError::Unsupported("the weights are not finite, or their sums may overflow 32 bits".to_owned())
}

impl QuantizedWeights {
    /// Returns true if there are as many values as a convolution with this number of output channels and taps needs, and none
    /// of them is out of range.
    pub fn fits(&self, channels: usize, taps: usize) -> bool {
        let is_positive = |x: f64| x > 0.0 && x.is_finite();
        self.weights.len() == channels.saturating_mul(taps)
            && [self.bias.len(), self.steps.len()] == [channels; 2]
            && self.bias.iter().all(|&bias| i64::from(bias).abs() <= max_bias(taps))
            && self.scales.iter().all(|&scale| is_positive(scale.into()))
            && self.steps.iter().all(|&step| is_positive(step))
    }

    /// The weights of an output channel, its bias and its step.
    ///
    /// # Errors
    /// Returns an error if there is no such channel.
    pub fn channel(&self, channel: usize) -> Result<(&[i8], i32, f64)> {
        let taps = self.weights.len() / self.steps.len().max(1);
        let weights = self.weights.chunks_exact(taps.max(1)).nth(channel);
        match (weights, self.bias.get(channel), self.steps.get(channel)) {
            (Some(weights), Some(&bias), Some(&step)) => Ok((weights, bias, step)),
            _ => Err(LayerError::Unsupported(format!("there is no channel {channel}"))),
        }
    }
}

/// Rounds to the nearest integer, half to even, and clamps it to −127..=127.
pub fn to_int8(x: f64) -> i8 {
    todo!(
        "lesson 18, task 3: round half to even, and clamp to ±127 (book chapter 18; stuck? cargo learn hint 18)"
    )
}

/// Quantises the weights, one row for each output channel, and the biases, for these scales of input and output.
///
/// # Errors
/// [`LayerError::Unsupported`] if a weight or a bias is not finite, or if a sum may overflow 32 bits: the engine then keeps
/// `f32`.
pub fn quantize(rows: ArrayView2<'_, f32>, biases: &[f32], scales: [f32; 2]) -> Result<QuantizedWeights> {
    todo!(
        "lesson 18, task 3: for each channel, compute its scale, its quantised weights and bias, and the step of its sums (book chapter 18; stuck? cargo learn hint 18)"
    )
}

// Task 4: arithmetic.

/// Writes the columns of a C×H×W image, like [`unfold`](ixion::kernels::naive::unfold), to the caller's memory: a row for
/// each channel and tap, with the element that the tap covers at each position of the windows, or 0 in the padding. Elements
/// may be widened, such as `i8` to `i32`.
pub fn unfold_into<T: Copy + Into<A>, A: Copy + Default>(
    picture: ArrayView3<'_, T>,
    windows: &[Window; 2],
    columns: &mut [A],
) {
    todo!(
        "lesson 18, task 4: row by row, line by line: write each line by `see`, or zeros if the tap is above or below the image (book chapter 18; stuck? cargo learn hint 18)"
    )
}

/// Writes the elements of an image line that one tap covers at each position of the window; 0 outside of the line.
fn see<T: Copy + Into<A>, A: Copy + Default>(
    line: ArrayView1<'_, T>,
    window: &Window,
    tap: usize,
    seen: &mut [A],
) {
    for (position, seen) in seen.iter_mut().enumerate() {
        *seen = match window.source(position, tap, line.len()) {
            Some(x) => line[x].into(),
            None => A::default(),
        };
    }
}

impl Conv2d {
    /// Computes in `f32`. The scratch memory holds the columns and the products.
    fn forward_f32(
        &self,
        x: ArrayView4<'_, f32>,
        mut y: ArrayViewMut4<'_, f32>,
        memory: &mut [f32],
    ) -> Result<()> {
        todo!(
            "lesson 18, task 4: for each image, compute its columns, and the weights times the columns, plus the bias (book chapter 18; stuck? cargo learn hint 18)"
        )
    }
}

/// Computes the bias plus each weight times its row of the columns, for all positions.
pub fn int8_sums(weights: &[i8], bias: i32, columns: &[i32], sums: &mut [i32]) {
    todo!(
        "lesson 18, task 4: begin with the bias, then add each weight times its row, row by row (book chapter 18; stuck? cargo learn hint 18)"
    )
}

impl Conv2d {
    /// Computes in int8. The scratch memory has as many elements as for `f32`.
    fn forward_int8(
        &self,
        quantized: &QuantizedWeights,
        x: ArrayView4<'_, i8>,
        mut y: ArrayViewMut4<'_, i8>,
        memory: &mut [i32],
    ) -> Result<()> {
        todo!(
            "lesson 18, task 4: for each image, compute its columns, the sums of each channel, and the sums times its step, rounded once (book chapter 18; stuck? cargo learn hint 18)"
        )
    }
}

// Task 5: state in a plan.

/// The first byte: the version of the layout.
const VERSION: u8 = 1;

/// Serialises a configuration; all numbers are little-endian.
///
/// ```text
/// 1: u8 │ input, output: 8 × u64
/// and, for int8:
/// scales: 2 × f32 │ channels: u64 │ steps: f64… │ bias: i32… │ weights: i8…
/// ```
pub fn encode(configuration: &Configuration) -> Vec<u8> {
    todo!(
        "lesson 18, task 5: write the version, all lengths, and the quantised weights, if there are any (book chapter 18; stuck? cargo learn hint 18)"
    )
}

/// Deserialises a configuration that [`encode`] wrote; `None` for any other bytes.
pub fn decode(bytes: &[u8]) -> Option<Configuration> {
    todo!(
        "lesson 18, task 5: read what `encode` wrote, in the same order; the remaining bytes are the weights (book chapter 18; stuck? cargo learn hint 18)"
    )
}

/// The bytes that are left to read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// The next `N` bytes; `None` if there are fewer.
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    /// The next 8 bytes, as a length.
    fn len(&mut self) -> Option<usize> {
        usize::try_from(u64::from_le_bytes(self.take()?)).ok()
    }

    /// The next four lengths.
    fn lens(&mut self) -> Option<[usize; 4]> {
        Some([self.len()?, self.len()?, self.len()?, self.len()?])
    }

    /// The next `count` numbers of `N` bytes each; `None` if there are fewer, without allocating memory.
    fn all<T, const N: usize>(&mut self, count: usize, read: fn([u8; N]) -> T) -> Option<Vec<T>> {
        let (taken, rest) = self.0.split_at_checked(count.checked_mul(N)?)?;
        self.0 = rest;
        Some(taken.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect())
    }
}

impl Conv2d {
    /// Returns true if a configuration belongs to this convolution: if it has the shapes of the shape rule, and as many
    /// quantised weights as there are weights.
    fn fits(&self, configuration: &Configuration) -> bool {
        let input = TensorMeta::new(DType::F32, configuration.input);
        let output = TensorMeta::new(DType::F32, configuration.output);
        let is_inferred = self.infer(&[input]).is_ok_and(|outputs| outputs == [output]);
        is_inferred
            && configuration
                .int8
                .as_ref()
                .is_none_or(|quantized| quantized.fits(self.out_channels, self.taps()))
    }
}

// Task 6: an engine.

/// Builds one plan for all shapes of an f32 input from `least` to `most`, optimised for `best`. With scales, it uses int8
/// wherever possible.
///
/// # Errors
/// As [`InputRange::new`] and [`Builder::build`].
pub fn plan_for(
    builder: Builder,
    input: &str,
    [least, best, most]: [&[usize]; 3],
    scales: Option<&Scales>,
) -> Result<Plan, EngineError> {
    todo!(
        "lesson 18, task 6: a builder with this range and, if there are scales, with int8 in its narrowest formats (book chapter 18; stuck? cargo learn hint 18)"
    )
}

/// Runs a plan on many inputs, each with its own shape, on at most `threads` threads with one context each. Outputs are in the
/// order of the inputs.
///
/// ```
/// use ixion::engine::{Builder, run_all};
/// use ixion::tensor::{DType, Tensor};
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/digits/digits.pnnx.param");
/// let plan = Builder::new(path).build()?;
/// let batches = [3, 1, 2].map(|len| Tensor::zeros(DType::F32, &[len, 1, 8, 8]));
/// let batches = batches.into_iter().map(|batch| Ok(vec![batch?])).collect::<Result<Vec<_>, ixion::tensor::TensorError>>()?;
/// let outputs = run_all(&plan, &batches, 2)?;
/// assert_eq!(outputs[2][0].shape().dims(), [2, 10]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the first error of [`Plan::context`] or of a run, in the order of the inputs, or [`EngineError::Threads`] if the
/// system cannot start another thread. The other threads still finish their shares.
pub fn run_all(plan: &Plan, inputs: &[Vec<Tensor>], threads: usize) -> Result<Vec<Vec<Tensor>>, EngineError> {
    todo!(
        "lesson 18, task 6: split the inputs into one share per thread, which has its own context; all outputs in order (book chapter 18; stuck? cargo learn hint 18)"
    )
}
