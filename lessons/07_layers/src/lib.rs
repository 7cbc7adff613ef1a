//! Lesson 07: layers and the registry.
//!
//! The page of the book: `book/src/lessons/07_layers.md`. Replace each `todo!` by code. This is the only file to edit.
//!
//! `forward` gets everything in `io`: `io.inputs`, `io.outputs` and `io.context`. `input.array::<f32>()?` is an ndarray view of
//! a tensor, whatever its strides; the view of an output is writable.

use ixion::op::{
    self, CpuLayer, Creator, Device, DeviceLayer, FromOperator, Io, Layer, LayerError, RegistryError, Result,
    TensorMeta, Weight,
};
use ixion::tensor::{DType, Dim, TensorView, TensorViewMut};
use std::collections::BTreeMap;
use std::sync::Arc;

// Task 1: a layer.

/// The shape rule of element-wise layers: one output like the input, which must be `f32`.
///
/// # Errors
/// [`LayerError::DType`] if the input has another element type.
pub fn like_the_input(inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
    todo!(
        "lesson 07, task 1: return an error unless the input is f32, else the one output (book chapter 7; stuck? cargo learn hint 7)"
    )
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
    todo!(
        "lesson 07, task 1: get both as arrays, and apply the function to each element (book chapter 7; stuck? cargo learn hint 7)"
    )
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
        todo!(
            "lesson 07, task 1: 0 for negative numbers, all others unchanged (book chapter 7; stuck? cargo learn hint 7)"
        )
    }
}

// Task 2: parameters.

ixion::operator! {
    /// `torch.nn.LeakyReLU`: x if x is positive, else `negative_slope` · x.
    pub struct LeakyReLU for "nn.LeakyReLU", "F.leaky_relu" {
        /// The slope for negative x.
        negative_slope: f64 = 0.01,
    }
}

impl Layer for LeakyReLU {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        like_the_input(inputs)
    }
}

impl CpuLayer for LeakyReLU {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        todo!(
            "lesson 07, task 2: x if it is positive, else the slope times x (book chapter 7; stuck? cargo learn hint 7)"
        )
    }
}

ixion::operator! {
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
        todo!("lesson 07, task 2: 1 / (1 + e⁻ˣ) (book chapter 7; stuck? cargo learn hint 7)")
    }
}

// Task 3: weights.

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
        todo!(
            "lesson 07, task 3: check weight, bias and input, and replace the input's last length (book chapter 7; stuck? cargo learn hint 7)"
        )
    }
}

/// Checks that a weight is `f32` and has these dimensions.
fn check_weight(what: &str, weight: &TensorMeta, dims: &[usize]) -> Result<()> {
    let wanted = TensorMeta::new(DType::F32, dims.iter().copied());
    if *weight == wanted { Ok(()) } else { Err(LayerError::shape(what, wanted, weight)) }
}

impl CpuLayer for Linear {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        todo!(
            "lesson 07, task 3: the dot product of each input row with each weight row, then the bias (book chapter 7; stuck? cargo learn hint 7)"
        )
    }
}

// Task 4: a registry. `L` is the layer trait of a device; there is only one so far, so read `Registry<L>` as `Registry`.

/// The layers of one device, by operator type. It is consulted while a graph is built, never while it runs.
///
/// ```
/// use ixion::op::Registry;
/// let registry = Registry::default();
/// assert!(registry.get("nn.ReLU").is_ok());
/// let error = registry.get("nn.Relu").unwrap_err();
/// assert_eq!(error.to_string(), "no layer is registered for `nn.Relu`; did you mean `nn.ReLU`?");
/// ```
#[derive(Debug)]
pub struct Registry<L: ?Sized = dyn CpuLayer> {
    /// Shared with clones until one of them changes: each graph, pass and plan has a registry, almost always the same one.
    creators: Arc<BTreeMap<String, Creator<L>>>,
}

impl<L: ?Sized + DeviceLayer> Registry<L> {
    /// An empty registry.
    pub fn empty() -> Self {
        Self { creators: Arc::default() }
    }

    /// The device that the layers run on.
    pub fn device(&self) -> Device {
        L::DEVICE
    }

    /// Adds a creator for an operator type.
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] if the type already has a creator; use [`Registry::replace`] to replace it.
    pub fn add(&mut self, op_type: impl Into<String>, creator: Creator<L>) -> Result<(), RegistryError> {
        todo!(
            "lesson 07, task 4: an error if the type already has a creator, which then stays (book chapter 7; stuck? cargo learn hint 7)"
        )
    }

    /// Adds or replaces the creator for an operator type, and returns the previous one.
    pub fn replace(&mut self, op_type: impl Into<String>, creator: Creator<L>) -> Option<Creator<L>> {
        Arc::make_mut(&mut self.creators).insert(op_type.into(), creator)
    }

    /// The creator for an operator type.
    ///
    /// # Errors
    /// [`RegistryError::Missing`] with the most similar registered type.
    pub fn get(&self, op_type: &str) -> Result<&Creator<L>, RegistryError> {
        todo!(
            "lesson 07, task 4: the creator, or an error that names the type and the nearest one (book chapter 7; stuck? cargo learn hint 7)"
        )
    }

    /// All operator types and their creators, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Creator<L>)> {
        self.creators.iter().map(|(op_type, creator)| (op_type.as_str(), creator))
    }

    /// The registered type that is most likely meant by another one: equal but for the namespace and the case of letters, or
    /// with at most one letter in five that differs.
    pub fn nearest(&self, op_type: &str) -> Option<String> {
        let wanted = without_namespace(op_type);
        let distance = |known: &str| {
            let found = without_namespace(known);
            let allowed = wanted.len().max(found.len()) / 5;
            // Names of other lengths cannot be near, however long they are.
            let may_be_near = wanted.len().abs_diff(found.len()) <= allowed;
            may_be_near.then(|| strsim::levenshtein(&wanted, &found)).filter(|letters| *letters <= allowed)
        };
        let near = self.creators.keys().filter_map(|known| Some((distance(known)?, known)));
        let nearest = near.min_by_key(|(letters, known)| (*letters, strsim::levenshtein(op_type, known)));
        nearest.map(|(_, known)| known.clone())
    }
}

/// An operator type without its namespace, in lower case: `fft_fftshift` for `aten::fft_fftshift` and `torch.fft.fftshift`. A
/// plugin's name is kept as a whole.
fn without_namespace(op_type: &str) -> String {
    let name = match op_type.split_once("::").or_else(|| op_type.split_once('.')) {
        Some((_, name)) if !op_type.contains('/') => name,
        _ => op_type,
    };
    name.to_lowercase().replace('.', "_")
}

impl Registry<dyn CpuLayer> {
    /// Adds an operator under all of its types.
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] if one of the types already has a creator.
    pub fn register<T: FromOperator + CpuLayer + 'static>(&mut self) -> Result<(), RegistryError> {
        todo!(
            "lesson 07, task 4: a creator of this operator for each of its types (book chapter 7; stuck? cargo learn hint 7)"
        )
    }
}

// Task 5: your layers in a graph. `op::Registry` is Ixion's own, which a graph uses.

/// A registry of only these layers.
///
/// # Errors
/// [`RegistryError::Duplicate`] if two of them have a type in common.
pub fn registry() -> Result<Registry, RegistryError> {
    todo!(
        "lesson 07, task 5: create an empty registry, and register the four layers (book chapter 7; stuck? cargo learn hint 7)"
    )
}

/// The built-in layers, with those of the same types replaced by `layers`.
pub fn over_built_in(layers: &Registry) -> op::Registry {
    todo!(
        "lesson 07, task 5: create the default registry, and replace each creator (book chapter 7; stuck? cargo learn hint 7)"
    )
}
