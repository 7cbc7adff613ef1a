//! Lesson 10: a residual network on layers of your own.
//!
//! The page of the book: `book/src/lessons/10_resnet.md`. Replace each `todo!` by code. This is the only file to edit.
//!
//! `io.inputs[0].array::<f32>()?` is a tensor's view as an ndarray, and `.into_dimensionality::<Ix4>()?` converts it to four
//! axes. An output's array is writable: `.assign(&y)` copies another one into it.

use ixion::course::naive::{adaptive_range, conv2d, evaluate, max_pool};
use ixion::course::window::Window;
use ixion::op::{CpuLayer, Io, Layer, LayerError, Registry, RegistryError, Result, TensorMeta, View, Weight};
use ixion::pnnx::Expr;
use ixion::tensor::{DType, Dim, Layout, Shape, TensorView, TensorViewMut};
use ndarray::{Ix4, s};
use std::ops::RangeInclusive;

// Given: two layers as in lesson 07. Each layer has a struct with the fields from the file, a shape rule, and
// arithmetic.

/// The shape rule of element-wise layers: one output like the input, which must be `f32`.
///
/// # Errors
/// [`LayerError::DType`] if the input has another element type.
pub fn like_the_input(inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
    let input = &inputs[0];
    if input.dtype() != DType::F32 {
        return Err(LayerError::dtype("the input", DType::F32, input.dtype()));
    }
    Ok(vec![input.clone()])
}

/// Applies a function to each element of the input and writes the result to the same position of the output.
///
/// # Errors
/// Returns an error if a tensor is not `f32`, or if its layout is blocked.
pub fn map(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    function: impl Fn(f32) -> f32,
) -> Result<()> {
    let input = input.array::<f32>()?;
    output.array::<f32>()?.zip_mut_with(&input, |to, &from| *to = function(from));
    Ok(())
}

ixion::operator! {
    /// `torch.nn.ReLU`: 0 if x is negative, else x. NaN stays NaN.
    pub struct ReLU for "nn.ReLU", "F.relu" {
        /// Accepted for compatibility; the result is the same.
        inplace: bool = false,
    }
}

impl Layer for ReLU {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        like_the_input(inputs)
    }
}

impl CpuLayer for ReLU {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        map(&io.inputs[0], &mut io.outputs[0], |x| if x < 0.0 { 0.0 } else { x })
    }
}

ixion::operator! {
    /// `torch.nn.Linear`: the dot product of each row of the input with each row of the weights, plus the bias. Input: …×I,
    /// output: …×O.
    pub struct Linear for "nn.Linear" {
        /// I, the length of a row of the input.
        in_features: usize,
        /// O, the length of a row of the output.
        out_features: usize,
        /// The weights, O×I.
        weight: Weight,
        /// The bias, O elements.
        bias: Option<Weight> = None,
    }
}

impl Layer for Linear {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        check_weight("the weight", &self.weight.meta(inputs)?, &[self.out_features, self.in_features])?;
        if let Some(bias) = &self.bias {
            check_weight("the bias", &bias.meta(inputs)?, &[self.out_features])?;
        }
        let input = like_the_input(inputs)?.remove(0);
        let Some((last, rest)) = input.dims().split_last() else {
            return Err(LayerError::shape("the input", "at least one axis", input));
        };
        if last.differs(&Dim::from(self.in_features)) {
            return Err(LayerError::shape("the last axis of the input", self.in_features, last));
        }
        let dims = rest.iter().cloned().chain([Dim::from(self.out_features)]);
        Ok(vec![input.with_dims(dims)])
    }
}

/// Checks that a weight is `f32` and has these dimensions.
fn check_weight(what: &str, weight: &TensorMeta, dims: &[usize]) -> Result<()> {
    let wanted = TensorMeta::new(DType::F32, dims.iter().copied());
    if *weight == wanted { Ok(()) } else { Err(LayerError::shape(what, wanted, weight)) }
}

impl CpuLayer for Linear {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, mut output) = (io.inputs[0].array::<f32>()?, io.outputs[0].array::<f32>()?);
        let weight = self.weight.view(io.inputs)?.array::<f32>()?;
        for (x, mut y) in input.rows().into_iter().zip(output.rows_mut()) {
            for (y, weights) in y.iter_mut().zip(weight.rows()) {
                *y = weights.dot(&x);
            }
        }
        if let Some(bias) = &self.bias {
            output += &bias.view(io.inputs)?.array::<f32>()?;
        }
        Ok(())
    }
}

// Task 1: the residual sum.

ixion::operator! {
    /// `pnnx.Expression`: evaluates an expression such as `add(@0,@1)`, where `@0` is the first input. All inputs have the
    /// same shape.
    pub struct Expression for "pnnx.Expression" {
        /// The expression.
        expr: Expr,
    }
}

impl Layer for Expression {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        todo!(
            "lesson 10, task 1: return the number of inputs of the expression (book chapter 10; stuck? cargo learn hint 10)"
        )
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        todo!(
            "lesson 10, task 1: return one output like the first input, if all inputs have its shape (book chapter 10; stuck? cargo learn hint 10)"
        )
    }
}

impl CpuLayer for Expression {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        todo!(
            "lesson 10, task 1: evaluate the expression on the inputs as f64 (book chapter 10; stuck? cargo learn hint 10)"
        )
    }
}

// Task 2: convolution.

/// The windows over rows and over columns, from parameters that list rows first.
pub fn windows(
    kernel_size: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
) -> [Window; 2] {
    todo!(
        "lesson 10, task 2: return a window for each axis, with the same padding on both sides (book chapter 10; stuck? cargo learn hint 10)"
    )
}

/// The number of window positions along an axis, whose length may be a symbol: ⌊(len + padding − reach) / stride⌋ + 1.
pub fn slid(len: &Dim, window: &Window) -> Dim {
    todo!(
        "lesson 10, task 2: compute the number of window positions, in the arithmetic of Dim (book chapter 10; stuck? cargo learn hint 10)"
    )
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

ixion::operator! {
    /// `torch.nn.Conv2d`: slides a window over H and W of an N×C×H×W input. Each output element is the sum of the products of
    /// the elements in the window with the O×(C/groups)×kH×kW weights of its channel, plus a bias.
    pub struct Conv2d for "nn.Conv2d" {
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
        /// The number of groups; each uses its own share of the channels.
        groups: usize = 1,
        /// The values outside of the input; only `zeros` is supported.
        padding_mode: String = "zeros".to_owned(),
        /// The weights, O×(C/groups)×kH×kW.
        weight: Weight,
        /// The bias, O elements.
        bias: Option<Weight> = None,
    }
    validate |conv| {
        if conv.padding_mode != "zeros" {
            return Err(LayerError::invalid("padding_mode", &conv.padding_mode, "only zeros is supported"));
        }
        let divides = |channels: usize| conv.groups != 0 && channels.is_multiple_of(conv.groups);
        if !divides(conv.in_channels) || !divides(conv.out_channels) {
            return Err(LayerError::invalid("groups", conv.groups, "it must divide both numbers of channels"));
        }
        check(&conv.windows())
    }
}

impl Conv2d {
    /// The windows over rows and over columns.
    fn windows(&self) -> [Window; 2] {
        windows(self.kernel_size, self.stride, self.padding, self.dilation)
    }

    /// Checks that the weight and the bias have the shapes that the parameters specify.
    fn check_weights(&self, inputs: &[TensorMeta]) -> Result<()> {
        let [height, width] = self.kernel_size;
        let wanted = [self.out_channels, self.in_channels / self.groups, height, width].map(Dim::from);
        let weight = self.weight.meta(inputs)?;
        if weight.dims() != wanted {
            return Err(LayerError::shape("the weight", format!("{wanted:?}"), &weight));
        }
        match &self.bias {
            Some(bias) if bias.meta(inputs)?.dims() != &wanted[..1] => {
                Err(LayerError::shape("the bias", &wanted[0], bias.meta(inputs)?))
            }
            _ => Ok(()),
        }
    }
}

impl Layer for Conv2d {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        todo!(
            "lesson 10, task 2: check weights and channels; then return N×O×H×W (book chapter 10; stuck? cargo learn hint 10)"
        )
    }
}

impl CpuLayer for Conv2d {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        todo!(
            "lesson 10, task 2: get input, weight and bias as arrays, and call conv2d (book chapter 10; stuck? cargo learn hint 10)"
        )
    }
}

// Task 3: pooling.

ixion::operator! {
    /// `torch.nn.MaxPool2d`: slides a window over H and W of an N×C×H×W input. Each output element is the largest element in
    /// the window.
    pub struct MaxPool2d for "nn.MaxPool2d" {
        /// The height and width of the window.
        kernel_size: [usize; 2],
        /// The distance between one position of the window and the next.
        stride: [usize; 2],
        /// The number of positions added on both sides of H and W; they are never the largest.
        padding: [usize; 2] = [0, 0],
        /// The distance between the elements that the window covers.
        dilation: [usize; 2] = [1, 1],
        /// Whether a window may extend past the end; only `False` is supported.
        ceil_mode: bool = false,
        /// Whether to return the positions of the elements as well; only `False` is supported.
        return_indices: bool = false,
    }
    validate |pool| {
        if pool.ceil_mode || pool.return_indices {
            return Err(LayerError::Unsupported("`ceil_mode` and `return_indices` are not implemented".to_owned()));
        }
        check(&pool.windows())
    }
}

impl MaxPool2d {
    /// The windows over rows and over columns.
    fn windows(&self) -> [Window; 2] {
        windows(self.kernel_size, self.stride, self.padding, self.dilation)
    }
}

impl Layer for MaxPool2d {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![inputs[0].with_dims(planes(&inputs[0], &self.windows())?)])
    }
}

impl CpuLayer for MaxPool2d {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        todo!(
            "lesson 10, task 3: write the values of max_pool, without their positions (book chapter 10; stuck? cargo learn hint 10)"
        )
    }
}

ixion::operator! {
    /// `torch.nn.AdaptiveAvgPool2d`: divides H and W of an N×C×H×W input into a number of parts, and returns the mean of each.
    pub struct AdaptiveAvgPool2d for "nn.AdaptiveAvgPool2d" {
        /// The number of parts along H and along W.
        output_size: [usize; 2],
    }
    validate |pool| {
        if pool.output_size.contains(&0) {
            return Err(LayerError::invalid("output_size", 0, "there must be at least one part"));
        }
        Ok(())
    }
}

impl Layer for AdaptiveAvgPool2d {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        todo!(
            "lesson 10, task 3: return N×C, followed by the numbers of parts (book chapter 10; stuck? cargo learn hint 10)"
        )
    }
}

impl CpuLayer for AdaptiveAvgPool2d {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        todo!("lesson 10, task 3: write the mean of each part (book chapter 10; stuck? cargo learn hint 10)")
    }
}

// Task 4: a view.

ixion::operator! {
    /// `torch.flatten`: merges the axes from `start_dim` to `end_dim` into one.
    pub struct Flatten for "torch.flatten" {
        /// The first axis to merge; -1 is the last axis of the input.
        start_dim: i64 = 0,
        /// The last axis to merge; -1 is the last axis of the input.
        end_dim: i64 = -1,
    }
}

/// Resolves an axis that may count from the end: of four axes, -1 is axis 3. `None` if there is no such axis.
fn axis(dim: i64, rank: usize) -> Option<usize> {
    todo!(
        "lesson 10, task 4: resolve an axis that may count from the end (book chapter 10; stuck? cargo learn hint 10)"
    )
}

impl Layer for Flatten {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        todo!(
            "lesson 10, task 4: return the axes before, the product of the merged axes, and the axes after (book chapter 10; stuck? cargo learn hint 10)"
        )
    }

    fn view(&self, _: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        todo!(
            "lesson 10, task 4: view the input's elements in the new shape, if none needs to move (book chapter 10; stuck? cargo learn hint 10)"
        )
    }
}

impl CpuLayer for Flatten {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        todo!(
            "lesson 10, task 4: copy the elements one by one, for an input that cannot be viewed (book chapter 10; stuck? cargo learn hint 10)"
        )
    }
}

// Task 5: the network.

/// A registry of only the layers that residual networks consist of.
///
/// # Errors
/// [`RegistryError::Duplicate`] if two of them have a type in common.
pub fn residual_network() -> Result<Registry, RegistryError> {
    todo!(
        "lesson 10, task 5: create an empty registry, and register the seven layers (book chapter 10; stuck? cargo learn hint 10)"
    )
}

/// The class indices by descending score. NaN counts as −∞; among equal scores, the first class comes first.
pub fn ranked(scores: &[f64]) -> Vec<usize> {
    todo!(
        "lesson 10, task 5: the class indices, sorted by their scores (book chapter 10; stuck? cargo learn hint 10)"
    )
}

/// Top-k accuracy: the share of pictures whose label is among the `top` classes by score; `None` without pictures.
pub fn accuracy(scores: &[Vec<f64>], labels: &[usize], top: usize) -> Option<f64> {
    todo!(
        "lesson 10, task 5: the number of labels among the best, divided by the number of labels (book chapter 10; stuck? cargo learn hint 10)"
    )
}
