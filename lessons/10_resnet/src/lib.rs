//! Lesson 10: a residual network on layers of your own.
//!
//! The page of the book: `book/src/lessons/10_resnet.md`. Replace each `todo!` by code. This is the only file to edit.
//!
//! `inputs[0].array::<f32>()?` is a tensor's view as an ndarray, and `.into_dimensionality::<Ix4>()?` says that it has
//! four axes. An output's array can be written to: `.assign(&y)` copies another one into it.

use ixion::kernels::naive::{adaptive_range, conv2d, evaluate, max_pool};
use ixion::kernels::window::Window;
use ixion::op::{
    CpuLayer, ForwardContext, Layer, LayerError, Registry, RegistryError, TensorMeta, View, Weight,
};
use ixion::pnnx::Expr;
use ixion::tensor::{DType, Dim, Layout, Shape, TensorView, TensorViewMut};
use ndarray::{Ix4, s};
use std::ops::RangeInclusive;

// Given: two layers as lesson 07 builds them. Each layer is a struct of what the file says, a rule for shapes, and
// arithmetic.

/// The shape rule of what changes each element on its own: one output like the input, which must be f32.
///
/// # Errors
/// [`LayerError::DType`] for another element type.
pub fn like_the_input(inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
    let input = &inputs[0];
    if input.dtype() != DType::F32 {
        return Err(LayerError::dtype("the input", DType::F32, input.dtype()));
    }
    Ok(vec![input.clone()])
}

/// Writes what a function makes of each element of the input to the same place of the output.
///
/// # Errors
/// A tensor of another type than f32, or one whose elements lie in blocks.
pub fn map(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    function: impl Fn(f32) -> f32,
) -> Result<(), LayerError> {
    let input = input.array::<f32>()?;
    output.array::<f32>()?.zip_mut_with(&input, |to, &from| *to = function(from));
    Ok(())
}

ixion::operator! {
    /// `torch.nn.ReLU`: 0 where x is negative, else x. NaN stays NaN.
    pub struct ReLU for "nn.ReLU", "F.relu" {
        /// Accepted for compatibility; the result is the same.
        inplace: bool = false,
    }
}

impl Layer for ReLU {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        like_the_input(inputs)
    }
}

impl CpuLayer for ReLU {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        map(&inputs[0], &mut outputs[0], |x| if x < 0.0 { 0.0 } else { x })
    }
}

ixion::operator! {
    /// `torch.nn.Linear`: each row of the input times each row of the weights, plus the bias. Input: …×I, output: …×O.
    pub struct Linear for "nn.Linear" {
        /// I, the length of a row of the input.
        in_features: usize,
        /// O, the length of a row of the output.
        out_features: usize,
        /// O×I weights.
        weight: Weight,
        /// O numbers.
        bias: Option<Weight> = None,
    }
}

impl Layer for Linear {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
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

/// Checks that a weight is of f32 and has these dimensions.
fn check_weight(what: &str, weight: &TensorMeta, dims: &[usize]) -> Result<(), LayerError> {
    let wanted = TensorMeta::new(DType::F32, dims.iter().copied());
    if *weight == wanted { Ok(()) } else { Err(LayerError::shape(what, wanted, weight)) }
}

impl CpuLayer for Linear {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let (input, mut output) = (inputs[0].array::<f32>()?, outputs[0].array::<f32>()?);
        let weight = self.weight.view(inputs)?.array::<f32>()?;
        for (x, mut y) in input.rows().into_iter().zip(output.rows_mut()) {
            for (y, weights) in y.iter_mut().zip(weight.rows()) {
                *y = weights.dot(&x);
            }
        }
        if let Some(bias) = &self.bias {
            output += &bias.view(inputs)?.array::<f32>()?;
        }
        Ok(())
    }
}

// Task 1: the residual sum.

ixion::operator! {
    /// `pnnx.Expression`: the value of an expression such as `add(@0,@1)`, where `@0` is the first of some tensors of one
    /// shape.
    pub struct Expression for "pnnx.Expression" {
        /// The expression.
        expr: Expr,
    }
}

impl Layer for Expression {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        todo!(
            "lesson 10, task 1: as many inputs as the expression has (book chapter 10; stuck? cargo learn hint 10)"
        )
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        todo!(
            "lesson 10, task 1: like the first input, if all have its shape (book chapter 10; stuck? cargo learn hint 10)"
        )
    }
}

impl CpuLayer for Expression {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        todo!(
            "lesson 10, task 1: evaluate the expression on the inputs as f64 (book chapter 10; stuck? cargo learn hint 10)"
        )
    }
}

// Task 2: convolution.

/// The window over rows, and the window over columns, from parameters that have the rows first.
pub fn windows(
    kernel_size: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
) -> [Window; 2] {
    todo!(
        "lesson 10, task 2: a window for each axis; the same padding on both sides (book chapter 10; stuck? cargo learn hint 10)"
    )
}

/// How often a window fits on an axis whose length may be a symbol: ⌊(len + padding − reach) / stride⌋ + 1.
pub fn slid(len: &Dim, window: &Window) -> Dim {
    todo!(
        "lesson 10, task 2: how often a window fits, in the arithmetic of Dim (book chapter 10; stuck? cargo learn hint 10)"
    )
}

/// The dimensions of N×C×H×W after windows slid over H and W.
///
/// # Errors
/// A [`LayerError`] for another rank, and where a window does not fit.
pub fn planes(input: &TensorMeta, windows: &[Window; 2]) -> Result<[Dim; 4], LayerError> {
    let [batch, channels, height, width] = input.dims() else {
        return Err(LayerError::shape("the input", "N×C×H×W", input));
    };
    let [height, width] = [slid(height, &windows[0]), slid(width, &windows[1])];
    if [&height, &width].iter().any(|len| len.fixed().is_some_and(|len| len < 1)) {
        return Err(LayerError::shape("the window does not fit", "a larger picture", input));
    }
    Ok([batch.clone(), channels.clone(), height, width])
}

/// Refuses windows that cannot slide.
///
/// # Errors
/// A [`LayerError`] that names the window.
pub fn check(windows: &[Window; 2]) -> Result<(), LayerError> {
    match windows.iter().find(|window| !window.is_sane()) {
        Some(window) => Err(LayerError::invalid("kernel_size", format!("{window:?}"), "it cannot slide")),
        None => Ok(()),
    }
}

ixion::operator! {
    /// `torch.nn.Conv2d`: N×C×H×W under windows that slide over H and W, times O×(C/groups)×kH×kW weights, plus a bias.
    pub struct Conv2d for "nn.Conv2d" {
        /// C.
        in_channels: usize,
        /// O.
        out_channels: usize,
        /// Height and width of the window.
        kernel_size: [usize; 2],
        /// Distance between one position of the window and the next.
        stride: [usize; 2] = [1, 1],
        /// Zeros added on both sides.
        padding: [usize; 2] = [0, 0],
        /// Distance between the places that the window looks at.
        dilation: [usize; 2] = [1, 1],
        /// Number of groups; each sees its own share of the channels.
        groups: usize = 1,
        /// What lies outside of the input; only `zeros`.
        padding_mode: String = "zeros".to_owned(),
        /// O×(C/groups)×kH×kW weights.
        weight: Weight,
        /// O numbers, added at the end.
        bias: Option<Weight> = None,
    }
    validate |conv| {
        if conv.padding_mode != "zeros" {
            return Err(LayerError::invalid("padding_mode", &conv.padding_mode, "only zeros can be added"));
        }
        let divides = |channels: usize| conv.groups != 0 && channels.is_multiple_of(conv.groups);
        if !divides(conv.in_channels) || !divides(conv.out_channels) {
            return Err(LayerError::invalid("groups", conv.groups, "it must divide both numbers of channels"));
        }
        check(&conv.windows())
    }
}

impl Conv2d {
    /// The window over rows, and the window over columns.
    fn windows(&self) -> [Window; 2] {
        windows(self.kernel_size, self.stride, self.padding, self.dilation)
    }

    /// The weights as the parameters promise them.
    fn check_weights(&self, inputs: &[TensorMeta]) -> Result<(), LayerError> {
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
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        todo!(
            "lesson 10, task 2: check weights and channels; then N×O×H×W (book chapter 10; stuck? cargo learn hint 10)"
        )
    }
}

impl CpuLayer for Conv2d {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        todo!(
            "lesson 10, task 2: input, weight and bias as arrays, and conv2d (book chapter 10; stuck? cargo learn hint 10)"
        )
    }
}

// Task 3: pooling.

ixion::operator! {
    /// `torch.nn.MaxPool2d`: the largest element of each window that slides over H and W of N×C×H×W.
    pub struct MaxPool2d for "nn.MaxPool2d" {
        /// Height and width of the window.
        kernel_size: [usize; 2],
        /// Distance between one position of the window and the next.
        stride: [usize; 2],
        /// Places added on both sides; none of them is ever the largest.
        padding: [usize; 2] = [0, 0],
        /// Distance between the places that the window looks at.
        dilation: [usize; 2] = [1, 1],
        /// Whether a window may reach past the end; only `False`.
        ceil_mode: bool = false,
        /// Whether there is a second output; only `False`.
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
    /// The window over rows, and the window over columns.
    fn windows(&self) -> [Window; 2] {
        windows(self.kernel_size, self.stride, self.padding, self.dilation)
    }
}

impl Layer for MaxPool2d {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![inputs[0].with_dims(planes(&inputs[0], &self.windows())?)])
    }
}

impl CpuLayer for MaxPool2d {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        todo!(
            "lesson 10, task 3: the values of max_pool, without their positions (book chapter 10; stuck? cargo learn hint 10)"
        )
    }
}

ixion::operator! {
    /// `torch.nn.AdaptiveAvgPool2d`: H and W of N×C×H×W cut into so many parts, and the mean of each.
    pub struct AdaptiveAvgPool2d for "nn.AdaptiveAvgPool2d" {
        /// How many parts along H, and along W.
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
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        todo!("lesson 10, task 3: N×C and the numbers of parts (book chapter 10; stuck? cargo learn hint 10)")
    }
}

impl CpuLayer for AdaptiveAvgPool2d {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        todo!("lesson 10, task 3: the mean of each part (book chapter 10; stuck? cargo learn hint 10)")
    }
}

// Task 4: a view.

ixion::operator! {
    /// `torch.flatten`: the axes from `start_dim` to `end_dim` as one.
    pub struct Flatten for "torch.flatten" {
        /// The first of the axes; -1 is the last axis of the input.
        start_dim: i64 = 0,
        /// The last of the axes; -1 is the last axis of the input.
        end_dim: i64 = -1,
    }
}

/// The number of an axis that may count from the end: of four axes -1 is number 3. `None` where there is no such axis.
fn axis(dim: i64, rank: usize) -> Option<usize> {
    todo!(
        "lesson 10, task 4: the number of an axis that may count from the end (book chapter 10; stuck? cargo learn hint 10)"
    )
}

impl Layer for Flatten {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        todo!(
            "lesson 10, task 4: the axes before, the product of those between, the axes behind (book chapter 10; stuck? cargo learn hint 10)"
        )
    }

    fn view(&self, _: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>, LayerError> {
        todo!(
            "lesson 10, task 4: the input's elements under the new shape, where nothing needs to move (book chapter 10; stuck? cargo learn hint 10)"
        )
    }
}

impl CpuLayer for Flatten {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        todo!(
            "lesson 10, task 4: the elements one by one, for an input that cannot be viewed (book chapter 10; stuck? cargo learn hint 10)"
        )
    }
}

// Task 5: the network.

/// The layers of which residual networks are made, and no others.
///
/// # Errors
/// [`RegistryError::Duplicate`] when two of them have a type in common.
pub fn residual_network() -> Result<Registry, RegistryError> {
    todo!(
        "lesson 10, task 5: an empty registry, and the seven layers (book chapter 10; stuck? cargo learn hint 10)"
    )
}

/// The numbers of the classes, that with the highest score first. NaN counts as −∞, and of equals the first is better.
pub fn ranked(scores: &[f64]) -> Vec<usize> {
    todo!(
        "lesson 10, task 5: the numbers of the classes, sorted by their scores (book chapter 10; stuck? cargo learn hint 10)"
    )
}

/// The share of pictures whose label is among the `top` classes of the highest scores; `None` without pictures.
pub fn accuracy(scores: &[Vec<f64>], labels: &[usize], top: usize) -> Option<f64> {
    todo!(
        "lesson 10, task 5: how many labels are among the best, by how many there are (book chapter 10; stuck? cargo learn hint 10)"
    )
}
