//! Lesson 15: plugins.
//!
//! The page of the book: `book/src/lessons/15_plugins.md`. Replace each `todo!` by code. This is the only file to edit.
//!
//! `Registry` and `Creator` are Ixion's own. `PluginName` is the type that you write here.
//!
//! `array.len_of(axis)` is the length of an axis of an ndarray array.

use ixion::course::layers::like_the_input;
use ixion::op::{
    CpuLayer, Creator, DeviceLayer, Io, Layer, LayerError, Registry, RegistryError, Result, State,
    TensorFormat, TensorMeta,
};
use ixion::tensor::{Bits, DType, Format};
use ndarray::{ArrayViewD, ArrayViewMutD, Axis};
use std::any::Any;
use std::fmt;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::Arc;

// Task 1: the name.

/// Namespace, type and version of a layer, written `namespace/type/version`.
///
/// ```
/// use ixion::op::PluginName;
/// let name: PluginName = "acme/Conv/1".parse()?;
/// assert_eq!((name.namespace(), name.op_type(), name.version()), ("acme", "Conv", "1"));
/// let error = "Conv".parse::<PluginName>().unwrap_err().to_string();
/// assert_eq!(error, "`Conv` is not a valid plugin name: expected three parts, namespace/type/version, such as acme/Conv/1");
/// # Ok::<(), ixion::op::RegistryError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginName {
    namespace: String,
    op_type: String,
    version: String,
}

impl PluginName {
    /// The maximum length of a namespace, type or version in bytes.
    pub const MAX_BYTES: usize = 1024;

    /// Creates a name from its parts.
    ///
    /// # Errors
    /// [`RegistryError::Name`] if a part is empty, is longer than [`PluginName::MAX_BYTES`], or contains a slash, whitespace or
    /// control characters.
    pub fn new(
        namespace: impl Into<String>,
        op_type: impl Into<String>,
        version: impl Into<String>,
    ) -> Result<Self, RegistryError> {
        todo!(
            "lesson 15, task 1: the three parts, or an error with the first problem of a part (book chapter 15; stuck? cargo learn hint 15)"
        )
    }

    /// The namespace: `ixion` for built-in layers.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The type of the operators that it runs.
    pub fn op_type(&self) -> &str {
        &self.op_type
    }

    /// The version, incremented when the meaning of the fields changes.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// The first problem of a part of a name, if any.
fn fault(what: &str, part: &str) -> Option<String> {
    todo!(
        "lesson 15, task 1: empty, too many bytes, or a character that is not allowed (book chapter 15; stuck? cargo learn hint 15)"
    )
}

/// A name, shortened for error messages.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!("lesson 15, task 1: namespace/type/version (book chapter 15; stuck? cargo learn hint 15)")
    }
}

impl FromStr for PluginName {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        todo!(
            "lesson 15, task 1: the text split at its slashes, if that gives three parts (book chapter 15; stuck? cargo learn hint 15)"
        )
    }
}

// Task 2: the registry.

/// The creator with this namespace, type and version, whether built-in or a plugin.
pub fn find<'r, L: ?Sized + DeviceLayer>(
    registry: &'r Registry<L>,
    name: &PluginName,
) -> Option<&'r Creator<L>> {
    todo!(
        "lesson 15, task 2: look under the full name, otherwise for a built-in layer under the type (book chapter 15; stuck? cargo learn hint 15)"
    )
}

/// Registers a plugin under its full name and under all keys of the plugin that had this name before, which it replaces. It is
/// also registered under its type if the type is free. The namespace and version of the name must be the creator's, as [`add`]
/// ensures.
pub fn put<L: ?Sized + DeviceLayer>(registry: &mut Registry<L>, name: &PluginName, mut creator: Creator<L>) {
    todo!(
        "lesson 15, task 2: under every key that leads to this name, and under the type if it is free (book chapter 15; stuck? cargo learn hint 15)"
    )
}

/// Adds a plugin, named by this type and the creator's namespace and version.
///
/// # Errors
/// [`RegistryError::Duplicate`] if a layer of that name exists, [`RegistryError::Name`] if the name is invalid.
pub fn add<L: ?Sized + DeviceLayer>(
    registry: &mut Registry<L>,
    op_type: &str,
    creator: Creator<L>,
) -> Result<PluginName, RegistryError> {
    todo!("lesson 15, task 2: an error if the name is taken (book chapter 15; stuck? cargo learn hint 15)")
}

/// Adds a plugin, replacing the layer of that name if there is one. Returns the previous layer.
///
/// # Errors
/// [`RegistryError::Name`] if the name is invalid.
pub fn replace<L: ?Sized + DeviceLayer>(
    registry: &mut Registry<L>,
    op_type: &str,
    creator: Creator<L>,
) -> Result<Option<Creator<L>>, RegistryError> {
    let name = PluginName::new(&*creator.namespace, op_type, &*creator.version)?;
    let before = find(registry, &name).cloned();
    put(registry, &name, creator);
    Ok(before)
}

/// Assigns an operator type to the layer of this name.
///
/// # Errors
/// [`RegistryError::Missing`] if there is no layer of that name.
pub fn route<L: ?Sized + DeviceLayer>(
    registry: &mut Registry<L>,
    op_type: &str,
    to: &PluginName,
) -> Result<(), RegistryError> {
    todo!(
        "lesson 15, task 2: the type leads to that layer; a replaced built-in layer keeps its full name (book chapter 15; stuck? cargo learn hint 15)"
    )
}

// Tasks 3 and 4: a plugin with two inputs and two outputs. `supports` is task 4.

ixion::operator! {
    /// Copies one of two inputs, and concatenates both along an axis, like `torch.cat`.
    pub struct CopyConcat for "CopyConcat" {
        /// The input to copy: 0 or 1.
        copy: usize = 1,
        /// The axis along which the inputs are concatenated; a negative value counts from the end.
        axis: i64 = 1,
    }
    validate |this| {
        this.check()
    }
}

impl CopyConcat {
    /// Checks what the types of the fields cannot express.
    fn check(&self) -> Result<()> {
        todo!(
            "lesson 15, task 3: return an error for a `copy` that is neither 0 nor 1 (book chapter 15; stuck? cargo learn hint 15)"
        )
    }

    /// The position of the axis, for tensors of this rank.
    ///
    /// # Errors
    /// [`LayerError::InvalidParameter`] if there is no such axis.
    pub fn position(&self, rank: usize) -> Result<usize> {
        todo!(
            "lesson 15, task 3: resolve the axis, where -1 is the last; return an error if it is out of range (book chapter 15; stuck? cargo learn hint 15)"
        )
    }
}

impl Layer for CopyConcat {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        todo!(
            "lesson 15, task 3: return one output like the copied input, and one like the first, with the sum of both lengths along the axis (book chapter 15; stuck? cargo learn hint 15)"
        )
    }
}

impl CpuLayer for CopyConcat {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        todo!(
            "lesson 15, task 4: f32 or f16 in row-major order for the first tensor, and its format for all others (book chapter 15; stuck? cargo learn hint 15)"
        )
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        io.outputs[0].copy_from(&io.inputs[self.copy])?;
        let axis = Axis(self.position(io.inputs[0].shape().rank())?);
        // Elements are only moved, so their type does not matter, just their size: 4 bytes or 2.
        match io.inputs[0].dtype().size() {
            4 => {
                put_side_by_side::<u32>(
                    axis,
                    [io.inputs[0].bits()?, io.inputs[1].bits()?],
                    io.outputs[1].bits()?,
                );
            }
            _ => {
                put_side_by_side::<u16>(
                    axis,
                    [io.inputs[0].bits()?, io.inputs[1].bits()?],
                    io.outputs[1].bits()?,
                );
            }
        }
        Ok(())
    }
}

/// Writes both arrays to the output, the second after the first along the axis.
fn put_side_by_side<B: Bits>(
    axis: Axis,
    [first, second]: [ArrayViewD<'_, B>; 2],
    output: ArrayViewMutD<'_, B>,
) {
    todo!(
        "lesson 15, task 3: split the output along the axis, and assign an array to each part (book chapter 15; stuck? cargo learn hint 15)"
    )
}

// Task 5: a plugin with a life cycle.

ixion::operator! {
    /// Smooths each row: an element becomes the mean of itself and its neighbours, weighted by a kernel. Beyond the ends of a
    /// row, its first and last elements are repeated.
    pub struct Smooth for "Smooth" {
        /// The weights of the neighbours, from left to right. Their sum does not matter.
        kernel: Vec<f64> = vec![1.0, 2.0, 1.0],
        /// The kernel, scaled to a sum of 1. It exists from `initialize` to `terminate` and never changes, so clones share it.
        weights: State<Option<Arc<[f32]>>>,
        /// The length of a row, which `configure` stores. Each clone has its own.
        row: State<Option<usize>>,
    }
    validate |this| {
        if this.kernel.len().is_multiple_of(2) || !this.kernel.iter().sum::<f64>().is_normal() {
            let reason = "expected an odd number of weights whose sum is not 0";
            return Err(LayerError::invalid("kernel", format!("{:?}", this.kernel), reason));
        }
        Ok(())
    }
}

impl Smooth {
    /// The length of a row that is extended by half of the kernel on both sides.
    fn longer(&self, row: usize) -> usize {
        row.saturating_add(self.kernel.len()).saturating_sub(1)
    }
}

/// The length of a tensor's last axis, if it is a number.
fn row_of(input: &TensorMeta) -> Option<usize> {
    usize::try_from(input.dims().last()?.fixed()?).ok()
}

impl Layer for Smooth {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        match inputs[0].rank() {
            0 => Err(LayerError::shape("the input", "at least one axis", &inputs[0])),
            _ => like_the_input(inputs),
        }
    }
}

impl CpuLayer for Smooth {
    fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<()> {
        todo!(
            "lesson 15, task 5: store the length of a row; return an error if it is not a number (book chapter 15; stuck? cargo learn hint 15)"
        )
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        todo!(
            "lesson 15, task 5: return the bytes of one extended row of f32 (book chapter 15; stuck? cargo learn hint 15)"
        )
    }

    fn initialize(&mut self) -> Result<()> {
        todo!(
            "lesson 15, task 5: store the kernel, divided by its sum (book chapter 15; stuck? cargo learn hint 15)"
        )
    }

    fn terminate(&mut self) {
        todo!(
            "lesson 15, task 5: drop what `initialize` created (book chapter 15; stuck? cargo learn hint 15)"
        )
    }

    fn serialize(&self) -> Result<Vec<u8>> {
        todo!(
            "lesson 15, task 5: return the length of a row as 8 bytes, or no bytes if there is none (book chapter 15; stuck? cargo learn hint 15)"
        )
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<()> {
        todo!(
            "lesson 15, task 5: read what `serialize` wrote; return an error for anything else (book chapter 15; stuck? cargo learn hint 15)"
        )
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (Some(weights), Some(row)) = (&self.weights.0, self.row.0) else {
            return Err(LayerError::Unsupported("the layer was not initialised and configured".to_owned()));
        };
        let (input, mut output) = (io.inputs[0].array::<f32>()?, io.outputs[0].array::<f32>()?);
        if input.shape().last() != Some(&row) {
            return Err(LayerError::shape(
                "the input",
                format!("rows of {row} elements"),
                io.inputs[0].shape(),
            ));
        }
        let longer = io.context.scratch::<f32>(self.longer(row))?;
        for (from, mut to) in input.rows().into_iter().zip(output.rows_mut()) {
            let Some(last) = row.checked_sub(1) else { break };
            for (at, x) in longer.iter_mut().enumerate() {
                *x = from[at.saturating_sub(weights.len() / 2).min(last)];
            }
            for (y, seen) in to.iter_mut().zip(longer.windows(weights.len())) {
                *y = seen.iter().zip(weights.iter()).map(|(x, weight)| x * weight).sum();
            }
        }
        Ok(())
    }
}

// Task 6: a panic that becomes an error.

/// Calls a layer and turns a panic into an error. After a panic, anything that the call was changing must not be used again.
///
/// # Errors
/// The errors of the call; [`LayerError::Panic`] if it panics.
pub fn catch_panic<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    todo!(
        "lesson 15, task 6: the result of the call, or its panic as an error (book chapter 15; stuck? cargo learn hint 15)"
    )
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    todo!(
        "lesson 15, task 6: a `&str` or a `String`; it may be something else (book chapter 15; stuck? cargo learn hint 15)"
    )
}
