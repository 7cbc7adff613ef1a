//! From the type of an operator to the layer that runs it.

use super::reader::{Field, NO_KEY, SEED_KEY};
use super::{CpuLayer, LayerError, OperatorReader, catch_panic};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a layer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// A GPU, or what stands for one.
    Cuda,
}

impl Device {
    /// What formats and plans call it: `cpu` or `cuda`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

/// What layers are called on a device; implemented for the trait object of each device's trait.
pub trait DeviceLayer {
    /// The device that such layers run on.
    const DEVICE: Device;
}

impl DeviceLayer for dyn CpuLayer {
    const DEVICE: Device = Device::Cpu;
}

/// An operator that can be created from the keys of a file.
///
/// The macro [`operator!`](crate::operator) implements it for a struct; by hand it is a dozen lines.
pub trait FromOperator: Sized {
    /// The operator types that this layer runs, the principal one first.
    const TYPES: &'static [&'static str];
    /// What the operator does, in one or a few sentences.
    const DOC: &'static str;
    /// The parameters, weights and named inputs.
    const FIELDS: &'static [Field];

    /// Reads the fields.
    ///
    /// # Errors
    /// A [`LayerError`] that names the key, what is wanted and what is there.
    fn from_operator(reader: &mut OperatorReader<'_>) -> Result<Self, LayerError>;

    /// Checks what the fields' types cannot say, such as a stride of 0. Default: nothing to check.
    ///
    /// # Errors
    /// A [`LayerError`], usually [`LayerError::InvalidParameter`].
    fn validate(&self) -> Result<(), LayerError> {
        Ok(())
    }
}

pub(super) type Create<L> = Arc<dyn Fn(&mut OperatorReader<'_>) -> Result<Box<L>, LayerError> + Send + Sync>;

/// How layers of one operator type are made, and what is published of it. [`Registry::add_plugin`] takes one of a namespace of
/// one's own.
pub struct Creator<L: ?Sized = dyn CpuLayer> {
    /// Whose operator it is: `ixion` for the built-in ones.
    pub namespace: String,
    /// The version, counted up when the meaning of the fields changes.
    pub version: String,
    /// What the operator does.
    pub doc: String,
    /// The parameters, weights and named inputs.
    pub fields: Vec<Field>,
    /// Whether the results are random, as those of operators with a field `seed` are: no two operators share them.
    pub is_random: bool,
    /// Its [name](super::PluginName), where it is a plugin: set when it is put into a registry.
    pub plugin: Option<Arc<str>>,
    pub(super) create: Create<L>,
}

impl<L: ?Sized> Clone for Creator<L> {
    fn clone(&self) -> Self {
        Self {
            namespace: self.namespace.clone(),
            version: self.version.clone(),
            doc: self.doc.clone(),
            fields: self.fields.clone(),
            is_random: self.is_random,
            plugin: self.plugin.clone(),
            create: Arc::clone(&self.create),
        }
    }
}

impl<L: ?Sized> std::fmt::Debug for Creator<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Creator").field("namespace", &self.namespace).field("version", &self.version).finish()
    }
}

impl<L: ?Sized> Creator<L> {
    /// The namespace of the layers that come with Ixion.
    pub const BUILT_IN: &'static str = "ixion";

    /// A creator that calls `create`.
    pub fn new(
        namespace: impl Into<String>,
        version: impl Into<String>,
        create: impl Fn(&mut OperatorReader<'_>) -> Result<Box<L>, LayerError> + Send + Sync + 'static,
    ) -> Self {
        Self::calling(namespace.into(), version.into(), Arc::new(create))
    }

    fn calling(namespace: String, version: String, create: Create<L>) -> Self {
        let (doc, fields) = (String::new(), Vec::new());
        Self { namespace, version, doc, fields, is_random: false, plugin: None, create }
    }

    /// The same with what is published of the operator. The order of the fields is that of the arguments of an operator of
    /// TorchScript, whose inputs have no names: see [`Registry`].
    #[must_use]
    pub fn described(self, doc: impl Into<String>, fields: impl Into<Vec<Field>>) -> Self {
        let mut fields = fields.into();
        let is_random = fields.iter().any(|field| field.key == SEED_KEY);
        fields.retain(|field| field.kind != NO_KEY);
        Self { doc: without_links(&doc.into()), fields, is_random, ..self }
    }

    /// Makes a layer; every key of the operator must be read by it.
    ///
    /// # Errors
    /// A [`LayerError`] that names the key; [`LayerError::Panic`].
    pub fn create(&self, mut reader: OperatorReader<'_>) -> Result<Box<L>, LayerError> {
        let layer = catch_panic(|| (self.create)(&mut reader))?;
        reader.finish()?;
        Ok(layer)
    }
}

/// Documentation without the links that only rustdoc can follow: `[name](path)` becomes `name`.
fn without_links(doc: &str) -> String {
    let mut text = String::with_capacity(doc.len());
    let mut rest = doc;
    while let Some((before, link)) = rest.split_once("[`") {
        let (name, after) = link.split_once("`]").unwrap_or((link, ""));
        let target = after.strip_prefix('(').and_then(|path| path.split_once(')'));
        text.extend([before, "`", name, "`"]);
        rest = target.map_or(after, |(_, after)| after);
    }
    text + rest
}

impl Creator<dyn CpuLayer> {
    /// The creator of an operator that implements [`FromOperator`].
    pub fn of<T: FromOperator + CpuLayer + 'static>() -> Self {
        Self::built_in(create::<T>, T::DOC, T::FIELDS)
    }

    /// All of the above that does not depend on the operator.
    fn built_in(create: CreateCpu, doc: &str, fields: &[Field]) -> Self {
        Self::calling(Self::BUILT_IN.to_owned(), "1".to_owned(), Arc::new(create)).described(doc, fields)
    }
}

/// How a layer of the CPU is made by a function: hundreds of types share what is done with it.
type CreateCpu = fn(&mut OperatorReader<'_>) -> Result<Box<dyn CpuLayer>, LayerError>;

fn create<T: FromOperator + CpuLayer + 'static>(
    reader: &mut OperatorReader<'_>,
) -> Result<Box<dyn CpuLayer>, LayerError> {
    match T::from_operator(reader) {
        Ok(layer) => checked(layer.validate(), Box::new(layer)),
        Err(error) => Err(error),
    }
}

/// What [`create`] does with a layer of any type.
fn checked(
    validated: Result<(), LayerError>,
    layer: Box<dyn CpuLayer>,
) -> Result<Box<dyn CpuLayer>, LayerError> {
    validated.map(|()| layer)
}

// ANCHOR: registry
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
    /// Shared with clones until one of them changes: each graph, pass and plan has a registry, almost always the same.
    creators: Arc<BTreeMap<String, Creator<L>>>,
}

impl<L: ?Sized + DeviceLayer> Registry<L> {
    /// A registry without layers.
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
    /// [`RegistryError::Duplicate`] when the type has one; [`Registry::replace`] takes its place instead.
    pub fn add(&mut self, op_type: impl Into<String>, creator: Creator<L>) -> Result<(), RegistryError> {
        // ANCHOR: add_todo -- task 4: an error if the type has a creator already, which stays
        let op_type = op_type.into();
        if self.creators.contains_key(&op_type) {
            return Err(RegistryError::Duplicate { op_type });
        }
        self.replace(op_type, creator);
        Ok(())
        // ANCHOR_END: add_todo
    }

    /// Adds a creator for an operator type, and returns the one that it had.
    pub fn replace(&mut self, op_type: impl Into<String>, creator: Creator<L>) -> Option<Creator<L>> {
        Arc::make_mut(&mut self.creators).insert(op_type.into(), creator)
    }

    /// The creator for an operator type.
    ///
    /// # Errors
    /// [`RegistryError::Missing`] with the nearest registered type.
    pub fn get(&self, op_type: &str) -> Result<&Creator<L>, RegistryError> {
        // ANCHOR: get_todo -- task 4: the creator, or an error that names the type and the nearest one
        self.creators.get(op_type).ok_or_else(|| RegistryError::Missing {
            op_type: op_type.to_owned(),
            nearest: self.nearest(op_type),
        })
        // ANCHOR_END: get_todo
    }

    /// All operator types and their creators, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Creator<L>)> {
        self.creators.iter().map(|(op_type, creator)| (op_type.as_str(), creator))
    }

    /// The registered type whose name is nearest to this one, if any is near.
    pub fn nearest(&self, op_type: &str) -> Option<String> {
        let wanted = op_type.to_lowercase();
        let similarity = |known: &String| strsim::jaro_winkler(&wanted, &known.to_lowercase());
        let scored = self.creators.keys().map(|known| (similarity(known), known));
        let (score, best) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
        (score > 0.85).then(|| best.clone())
    }
}

impl Registry<dyn CpuLayer> {
    /// Adds an operator under all of its types.
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] when one of the types has a creator already.
    pub fn register<T: FromOperator + CpuLayer + 'static>(&mut self) -> Result<(), RegistryError> {
        // ANCHOR: register_todo -- task 4: a creator of this operator for each of its types
        for op_type in T::TYPES {
            self.add(*op_type, Creator::of::<T>())?;
        }
        Ok(())
        // ANCHOR_END: register_todo
    }
}
// ANCHOR_END: registry

/// An entry of a table of built-in operators.
#[derive(Clone, Copy)]
pub(crate) enum Entry {
    /// One, under all of its types.
    Operator {
        types: &'static [&'static str],
        create: CreateCpu,
        doc: &'static str,
        fields: &'static [Field],
    },
    /// Those of another table.
    Table(&'static [Entry]),
    /// Those that a function adds, because their types or fields are computed.
    Computed(fn(&mut Registry) -> Result<(), RegistryError>),
}

impl Entry {
    /// An operator that is a layer.
    pub(crate) const fn of<T: FromOperator + CpuLayer + 'static>() -> Self {
        Self::made_by::<T>(create::<T>)
    }

    /// An operator whose layer `create` makes.
    pub(crate) const fn made_by<T: FromOperator>(create: CreateCpu) -> Self {
        Self::Operator { types: T::TYPES, create, doc: T::DOC, fields: T::FIELDS }
    }
}

impl Registry<dyn CpuLayer> {
    /// Adds all operators of a table. The error is the first one; what comes after it is added all the same.
    pub(crate) fn register_all(&mut self, entries: &[Entry]) -> Result<(), RegistryError> {
        let mut result = Ok(());
        for entry in entries {
            match *entry {
                Entry::Operator { types, create, doc, fields } => {
                    for op_type in types {
                        result = result.and(self.add(*op_type, Creator::built_in(create, doc, fields)));
                    }
                }
                Entry::Table(entries) => result = result.and(self.register_all(entries)),
                Entry::Computed(add) => result = result.and(add(self)),
            }
        }
        result
    }
}

impl<L: ?Sized> Registry<L> {
    /// The creator for an operator type: as [`Registry::get`], for those who do not ask what else there is.
    pub fn known(&self, op_type: &str) -> Option<&Creator<L>> {
        self.creators.get(op_type)
    }
}

impl<L: ?Sized> Clone for Registry<L> {
    fn clone(&self) -> Self {
        Self { creators: Arc::clone(&self.creators) }
    }
}

/// An operator type that is registered twice, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The type has a creator already.
    #[error(
        "a layer is already registered for `{op_type}`; {}",
        super::plugin::advice_for_duplicate(op_type)
    )]
    Duplicate {
        /// The operator type.
        op_type: String,
    },
    /// The type has no creator.
    #[error("no layer is registered for `{op_type}`{}", nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    Missing {
        /// The operator type.
        op_type: String,
        /// The registered type whose name is nearest.
        nearest: Option<String>,
    },
    /// What cannot be the name of a plugin.
    #[error("`{name}` is no name of a plugin: {reason}")]
    Name {
        /// What was given.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Declares an operator: a struct whose fields are the operator's parameters and weights.
///
/// Each field names its type and, after `=`, the value that PyTorch assumes where the file leaves the key out; a field
/// without a default must be in the file. `as "key"` reads a key that is no Rust name. The macro writes the struct, with
/// `Debug`, `Clone` and public fields, and its [`FromOperator`](crate::op::FromOperator); what remains is the meaning
/// ([`Layer`](crate::op::Layer)) and the arithmetic ([`CpuLayer`](crate::op::CpuLayer)).
///
/// | type of a field | in the file |
/// |---|---|
/// | `bool`, `i64`, `usize`, `f64`, `String`, [`DType`](crate::tensor::DType) | `True`, `-1`, `3`, `0.5`, `reflect`, `torch.float` |
/// | `Vec<i64>`, `Vec<f64>` | `(1,2)`; one number stands for a list of one |
/// | `[usize; N]`, [`PerAxis`](crate::ops::support::choices::PerAxis) | `(3,3)`; one number stands for all |
/// | `Option<T>` of these | `None` or a value |
/// | [`Weight`](crate::op::Weight), `Option<Weight>` | an attribute `@weight=…` or an input `$weight=…` |
/// | [`Operand`](crate::ops::support::arguments::Operand) | a second tensor, an input `$other=…`; its `.0` is the position |
/// | [`SpatialAxes`](crate::op::SpatialAxes) | nothing: the number in the type, as in `nn.MaxPool2d` |
/// | [`State<T>`](crate::op::State) | nothing: what the layer keeps for itself |
///
/// For another type implement [`FromParameter`](crate::op::FromParameter). After the struct, `validate |this| { … }`
/// checks what types cannot say and returns a `Result<(), LayerError>`.
///
/// ```
/// ixion::operator! {
///     /// `torch.nn.Threshold`: x where x is above the threshold, else a constant.
///     pub struct Threshold for "nn.Threshold", "F.threshold" {
///         /// The threshold.
///         threshold: f64,
///         /// The constant.
///         value: f64 = 0.0,
///     }
///     validate |this| {
///         if this.threshold.is_nan() {
///             let (found, reason) = ("nan".to_owned(), "it must be a number".to_owned());
///             return Err(ixion::op::LayerError::InvalidParameter { key: "threshold", found, reason });
///         }
///         Ok(())
///     }
/// }
/// use ixion::op::FromOperator;
/// assert_eq!(Threshold::TYPES, ["nn.Threshold", "F.threshold"]);
/// assert_eq!(Threshold::FIELDS[1].default, Some("0.0"));
/// ```
#[macro_export]
macro_rules! operator {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident for $($op_type:literal),+ $(,)? {
            $($(#[doc = $field_doc:literal])* $field:ident $(as $key:literal)? : $type:ty $(= $default:expr)?),* $(,)?
        }
        $(validate |$this:ident| $validate:block)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone)]
        $vis struct $name {
            $($(#[doc = $field_doc])* pub $field: $type,)*
        }

        impl $crate::op::FromOperator for $name {
            const TYPES: &'static [&'static str] = &[$($op_type),+];
            const DOC: &'static str = concat!($($doc, "\n"),*);
            const FIELDS: &'static [$crate::op::Field] = &[$($crate::op::Field {
                key: $crate::operator!(@key $field $($key)?),
                kind: <$type as $crate::op::FieldValue>::KIND,
                default: $crate::operator!(@default $($default)?),
                doc: concat!($($field_doc, "\n"),*),
            }),*];

            #[allow(unused_variables)]
            fn from_operator(
                reader: &mut $crate::op::OperatorReader<'_>,
            ) -> Result<Self, $crate::op::LayerError> {
                Ok(Self {
                    $($field: $crate::operator!(@read reader, $type, $crate::operator!(@key $field $($key)?) $(, $default)?),)*
                })
            }

            $(fn validate(&self) -> Result<(), $crate::op::LayerError> {
                let $this = self;
                $validate
            })?
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@default) => { None };
    (@default $default:expr) => { Some(stringify!($default)) };
    (@read $reader:ident, $type:ty, $key:expr) => {
        <$type as $crate::op::FieldValue>::require($reader, $key)?
    };
    (@read $reader:ident, $type:ty, $key:expr, $default:expr) => {
        match <$type as $crate::op::FieldValue>::read($reader, $key)? {
            Some(value) => value,
            None => $default,
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_names() {
        let doc = "as [`Fold`], by [`cast`](crate::tensor::Tensor::cast) of `x[0]`.";
        assert_eq!(without_links(doc), "as `Fold`, by `cast` of `x[0]`.");
    }
}
