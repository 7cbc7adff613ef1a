//! Short, obviously correct layers for `f32`, on ndarray views.
//!
//! They are taught in the lessons, and they are the oracle for the built-in layers of the same types, which support all
//! element types, run in place and are fast. [`over_built_in`] replaces the built-in layers by these, so that a complete
//! graph can be run both ways.

mod convolution;
mod copy_concat;
mod expression;
mod flatten;
mod network;
pub mod plugin_conv;
mod pooling;
mod postfix;
mod smooth;
#[cfg(test)]
mod tests;
pub mod window;

pub use convolution::Conv2d;
pub use copy_concat::CopyConcat;
pub use expression::Expression;
pub use flatten::Flatten;
pub use network::residual_network;
pub use pooling::{AdaptiveAvgPool2d, MaxPool2d};
pub use postfix::{evaluate, postfix};
pub use smooth::Smooth;

use crate::op;
use crate::op::{CpuLayer, Io, Layer, LayerError, Registry, RegistryError, Result, TensorMeta, Weight};
use ixion_tensor::{DType, Dim, TensorView, TensorViewMut};

// ANCHOR: map
/// The shape rule of element-wise layers: one output like the input, which must be `f32`.
///
/// # Errors
/// [`LayerError::DType`] if the input has another element type.
pub fn like_the_input(inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
    // ANCHOR: like_the_input_todo -- task 1: return an error unless the input is f32, else the one output
    let input = &inputs[0];
    if input.dtype() != DType::F32 {
        return Err(LayerError::dtype("the input", DType::F32, input.dtype()));
    }
    Ok(vec![input.clone()])
    // ANCHOR_END: like_the_input_todo
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
    // ANCHOR: map_todo -- task 1: get both as arrays, and apply the function to each element
    let input = input.array::<f32>()?;
    output.array::<f32>()?.zip_mut_with(&input, |to, &from| *to = function(from));
    Ok(())
    // ANCHOR_END: map_todo
}
// ANCHOR_END: map

// ANCHOR: relu
crate::operator! {
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
        // ANCHOR: relu_todo -- task 1: 0 for negative numbers, all others unchanged
        map(&io.inputs[0], &mut io.outputs[0], |x| if x < 0.0 { 0.0 } else { x })
        // ANCHOR_END: relu_todo
    }
}
// ANCHOR_END: relu

// ANCHOR: parameters
// ANCHOR: declaration
crate::operator! {
    /// `torch.nn.LeakyReLU`: x if x is positive, else `negative_slope` · x.
    pub struct LeakyReLU for "nn.LeakyReLU", "F.leaky_relu" {
        /// The slope for negative x.
        negative_slope: f64 = 0.01,
    }
}
// ANCHOR_END: declaration

impl Layer for LeakyReLU {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        like_the_input(inputs)
    }
}

impl CpuLayer for LeakyReLU {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        // ANCHOR: leaky_relu_todo -- task 2: x if it is positive, else the slope times x
        let slope = self.negative_slope as f32;
        map(&io.inputs[0], &mut io.outputs[0], |x| if x > 0.0 { x } else { slope * x })
        // ANCHOR_END: leaky_relu_todo
    }
}

crate::operator! {
    /// `torch.nn.Sigmoid`: 1 / (1 + e⁻ˣ).
    pub struct Sigmoid for "nn.Sigmoid", "F.sigmoid" {}
}

impl Layer for Sigmoid {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        like_the_input(inputs)
    }
}

impl CpuLayer for Sigmoid {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        // ANCHOR: sigmoid_todo -- task 2: 1 / (1 + e⁻ˣ)
        map(&io.inputs[0], &mut io.outputs[0], |x| 1.0 / (1.0 + (-x).exp()))
        // ANCHOR_END: sigmoid_todo
    }
}
// ANCHOR_END: parameters

// ANCHOR: linear
crate::operator! {
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
        // ANCHOR: linear_infer_todo -- task 3: check weight, bias and input, and replace the input's last length
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
        // ANCHOR_END: linear_infer_todo
    }
}

/// Checks that a weight is `f32` and has these dimensions.
fn check_weight(what: &str, weight: &TensorMeta, dims: &[usize]) -> Result<()> {
    let wanted = TensorMeta::new(DType::F32, dims.iter().copied());
    if *weight == wanted { Ok(()) } else { Err(LayerError::shape(what, wanted, weight)) }
}

impl CpuLayer for Linear {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        // ANCHOR: linear_todo -- task 3: the dot product of each input row with each weight row, then the bias
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
        // ANCHOR_END: linear_todo
    }
}
// ANCHOR_END: linear

// ANCHOR: over
/// A registry of only these layers.
///
/// # Errors
/// [`RegistryError::Duplicate`] if two of them have a type in common.
pub fn registry() -> Result<Registry, RegistryError> {
    // ANCHOR: registry_todo -- task 5: create an empty registry, and register the four layers
    let mut registry = Registry::empty();
    registry.register::<ReLU>()?;
    registry.register::<LeakyReLU>()?;
    registry.register::<Sigmoid>()?;
    registry.register::<Linear>()?;
    Ok(registry)
    // ANCHOR_END: registry_todo
}

/// The built-in layers, with those of the same types replaced by `layers`.
pub fn over_built_in(layers: &Registry) -> op::Registry {
    // ANCHOR: over_todo -- task 5: create the default registry, and replace each creator
    let mut all = op::Registry::default();
    for (op_type, creator) in layers.iter() {
        all.replace(op_type, creator.clone());
    }
    all
    // ANCHOR_END: over_todo
}
// ANCHOR_END: over
