//! The registry, which maps operator types to layers.

use super::deferred::create_or_defer;
use super::format::Device;
use super::properties::{Category, Properties};
use super::reader::{Field, NO_KEY, SEED_KEY, Written};
use super::{CpuLayer, OperatorReader, RegistryError, Result, catch_panic};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Implemented for the trait object of each device's layer trait.
pub trait DeviceLayer {
    /// The device on which these layers run.
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
    /// A description of the operator in one or a few sentences.
    const DOC: &'static str;
    /// The parameters, weights and named inputs.
    const FIELDS: &'static [Field];
    /// Whether [`validate`](Self::validate) checks anything. Default: true.
    #[doc(hidden)]
    const VALIDATES: bool = true;

    /// Reads the fields.
    ///
    /// # Errors
    /// A [`LayerError`](crate::op::LayerError) that names the key, the expected kind and the actual value.
    fn from_operator(reader: &mut OperatorReader<'_>) -> Result<Self>;

    /// The number of inputs that the fields take, which is what [`Layer::num_inputs`](super::Layer::num_inputs) of most
    /// layers adds to the inputs that are not fields. Default: 0.
    fn field_inputs(&self) -> usize {
        0
    }

    /// What a file says about each field, by key, for an operator that is created in code. Default: nothing.
    fn written(&self) -> Vec<(&'static str, Written)> {
        Vec::new()
    }

    /// Checks constraints that the types of the fields cannot express, such as a stride of 0. Default: accepts everything.
    ///
    /// # Errors
    /// A [`LayerError`](crate::op::LayerError), usually [`LayerError::InvalidParameter`](crate::op::LayerError::InvalidParameter).
    fn validate(&self) -> Result<()> {
        Ok(())
    }
}

/// The arguments of an overload of a TorchScript operator, if they are not `input` and the fields in their order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Overload {
    /// The number of arguments of the overload; `None` for all overloads that are not listed.
    pub(crate) count: Option<usize>,
    pub(crate) arguments: &'static [&'static str],
}

pub(super) type Create<L> = Arc<dyn Fn(&mut OperatorReader<'_>) -> Result<Box<L>> + Send + Sync>;

/// Creates the layers of one operator type, and describes the operator. [`Registry::add_plugin`] takes creators with a
/// namespace other than Ixion's.
pub struct Creator<L: ?Sized = dyn CpuLayer> {
    /// The namespace of the operator: `ixion` for built-in operators.
    pub namespace: String,
    /// The version, incremented when the meaning of the fields changes.
    pub version: String,
    /// The description of the operator.
    pub doc: String,
    /// The parameters, weights and named inputs.
    pub fields: Vec<Field>,
    /// Whether the results are random, as for operators with a field `seed`: identical operators must then not be merged.
    pub is_random: bool,
    /// Whether the result is a number in TorchScript; here it is a tensor without axes.
    pub returns_number: bool,
    /// Whether the operator takes a list of tensors as one argument; other lists are lists of numbers.
    pub takes_tensors: bool,
    /// All types that the layer runs, if it implements [`FromOperator`].
    #[doc(hidden)]
    pub types: &'static [&'static str],
    /// The properties of the operator, if it is built in: see [`Properties::of`].
    #[doc(hidden)]
    pub properties: Properties,
    pub(super) overloads: Vec<Overload>,
    /// The [name](super::PluginName) of a plugin, set when the creator is added to a registry; `None` for other creators.
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
            returns_number: self.returns_number,
            takes_tensors: self.takes_tensors,
            types: self.types,
            properties: self.properties,
            overloads: self.overloads.clone(),
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
        create: impl Fn(&mut OperatorReader<'_>) -> Result<Box<L>> + Send + Sync + 'static,
    ) -> Self {
        Self::calling(namespace.into(), version.into(), Arc::new(create))
    }

    fn calling(namespace: String, version: String, create: Create<L>) -> Self {
        let (doc, fields) = (String::new(), Vec::new());
        Self {
            namespace,
            version,
            doc,
            fields,
            is_random: false,
            returns_number: false,
            takes_tensors: false,
            types: &[],
            properties: Properties::NONE,
            overloads: Vec::new(),
            plugin: None,
            create,
        }
    }

    /// Sets the published description and fields. The fields must be in the order of the arguments of the TorchScript operator,
    /// whose inputs have no names: see [`Registry`].
    #[must_use]
    pub fn described(self, doc: impl Into<String>, fields: impl Into<Vec<Field>>) -> Self {
        let mut fields = fields.into();
        let is_random = fields.iter().any(|field| field.key == SEED_KEY);
        fields.retain(|field| field.kind != NO_KEY);
        Self { doc: without_links(&doc.into()), fields, is_random, ..self }
    }

    /// Marks an operator of TorchScript whose result is a number, such as `aten::size`.
    #[must_use]
    pub fn returning_number(self) -> Self {
        Self { returns_number: true, ..self }
    }

    /// The same creator for an operator with these properties.
    #[must_use]
    pub(crate) fn with_properties(self, properties: Properties) -> Self {
        Self { properties, ..self }
    }

    /// The names of `count` positional arguments in TorchScript, unless they are `input` and the fields in their order.
    pub fn overload(&self, count: usize) -> Option<&'static [&'static str]> {
        let found =
            self.overloads.iter().find(|overload| overload.count.is_none_or(|wanted| wanted == count));
        found.map(|overload| overload.arguments)
    }

    /// Creates a layer, which must read every key of the operator.
    ///
    /// # Errors
    /// A [`LayerError`](crate::op::LayerError) that names the key; [`LayerError::Panic`](crate::op::LayerError::Panic) if the
    /// layer panics.
    pub fn create(&self, mut reader: OperatorReader<'_>) -> Result<Box<L>> {
        let layer = catch_panic(|| (self.create)(&mut reader))?;
        reader.finish()?;
        Ok(layer)
    }
}

/// Removes rustdoc links from documentation: ``[`name`](path)`` becomes `` `name` ``.
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
        Self { types: T::TYPES, ..Self::built_in(create::<T>, T::DOC, T::FIELDS) }
    }

    /// The same creator in this category, unless it has one.
    fn in_category(mut self, category: Category) -> Self {
        if self.properties.category == Category::Other {
            self.properties.category = category;
        }
        self
    }

    /// The part of [`Creator::of`] that does not depend on the operator.
    fn built_in(create: CreateCpu, doc: &str, fields: &'static [Field]) -> Self {
        let create = move |reader: &mut OperatorReader<'_>| create_or_defer(create, fields, reader);
        Self::calling(Self::BUILT_IN.to_owned(), "1".to_owned(), Arc::new(create)).described(doc, fields)
    }
}

/// A function pointer that creates a CPU layer, so that hundreds of layer types share the code around it.
type CreateCpu = fn(&mut OperatorReader<'_>) -> Result<Box<dyn CpuLayer>>;

fn create<T: FromOperator + CpuLayer + 'static>(
    reader: &mut OperatorReader<'_>,
) -> Result<Box<dyn CpuLayer>> {
    match T::from_operator(reader) {
        Ok(layer) if T::VALIDATES => checked(layer.validate(), Box::new(layer)),
        Ok(layer) => Ok(Box::new(layer)),
        Err(error) => Err(error),
    }
}

/// The part of [`create`] that does not depend on the type of the layer.
fn checked(validated: Result<()>, layer: Box<dyn CpuLayer>) -> Result<Box<dyn CpuLayer>> {
    validated.map(|()| layer)
}

// ANCHOR: registry
/// The layers of one device, by operator type. It is consulted while a graph is built, never while it runs.
///
/// ```
/// use ixion_ops::op::Registry;
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
        // ANCHOR: add_todo -- task 4: an error if the type already has a creator, which then stays
        let op_type = op_type.into();
        if self.creators.contains_key(&op_type) {
            return Err(RegistryError::Duplicate { op_type });
        }
        self.replace(op_type, creator);
        Ok(())
        // ANCHOR_END: add_todo
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
    /// The category of the operators in the rest of the table, unless their own entry or table states another one.
    Category(Category),
    /// One operator, under all of its types.
    Operator {
        types: &'static [&'static str],
        create: CreateCpu,
        doc: &'static str,
        fields: &'static [Field],
        properties: Properties,
    },
    /// The operators of another table.
    Table(&'static [Entry]),
    /// Operators that a function adds, because their types or fields are computed.
    Computed(fn(&mut Registry) -> Result<(), RegistryError>),
    /// An operator that was added before takes a list of tensors.
    TakesTensors(&'static str),
    /// An overload of an operator that was added before. Overloads with a number of arguments come first.
    Overload(&'static str, Overload),
}

impl Entry {
    /// An operator that is itself a layer.
    pub(crate) const fn of<T: FromOperator + CpuLayer + 'static>() -> Self {
        Self::made_by::<T>(create::<T>)
    }

    /// An operator whose layer is created by `create`.
    pub(crate) const fn made_by<T: FromOperator>(create: CreateCpu) -> Self {
        let properties = Properties::NONE;
        Self::Operator { types: T::TYPES, create, doc: T::DOC, fields: T::FIELDS, properties }
    }

    /// The same operator with these properties.
    pub(crate) const fn with(self, properties: Properties) -> Self {
        match self {
            Self::Operator { types, create, doc, fields, .. } => {
                Self::Operator { types, create, doc, fields, properties }
            }
            other => other,
        }
    }
}

impl Registry<dyn CpuLayer> {
    /// Adds all operators of a table. After an error the remaining operators are still added; the first error is returned.
    pub(crate) fn register_all(&mut self, entries: &[Entry]) -> Result<(), RegistryError> {
        self.register_table(entries, Category::Other)
    }

    fn register_table(&mut self, entries: &[Entry], mut category: Category) -> Result<(), RegistryError> {
        let mut result = Ok(());
        for entry in entries {
            match *entry {
                Entry::Category(own) => category = own,
                Entry::Operator { types, create, doc, fields, properties } => {
                    let creator = Creator::built_in(create, doc, fields).with_properties(properties);
                    let creator = Creator { types, ..creator.in_category(category) };
                    for op_type in types {
                        result = result.and(self.add(*op_type, creator.clone()));
                    }
                }
                Entry::Table(entries) => result = result.and(self.register_table(entries, category)),
                Entry::Computed(add) => {
                    let mut computed = Self::empty();
                    result = result.and(add(&mut computed));
                    for (op_type, creator) in computed.iter() {
                        result = result.and(self.add(op_type, creator.clone().in_category(category)));
                    }
                }
                Entry::TakesTensors(op_type) => {
                    result = result.and(self.change(op_type, |creator| creator.takes_tensors = true));
                }
                Entry::Overload(op_type, overload) => {
                    result = result.and(self.change(op_type, |creator| creator.overloads.push(overload)));
                }
            }
        }
        result
    }

    fn change(&mut self, op_type: &str, change: impl FnOnce(&mut Creator)) -> Result<(), RegistryError> {
        let missing = || RegistryError::Missing { op_type: op_type.to_owned(), nearest: None };
        Arc::make_mut(&mut self.creators).get_mut(op_type).map(change).ok_or_else(missing)
    }
}

impl<L: ?Sized> Registry<L> {
    /// The creator for an operator type, like [`Registry::get`], but without searching for similar names.
    pub fn known(&self, op_type: &str) -> Option<&Creator<L>> {
        self.creators.get(op_type)
    }
}

impl<L: ?Sized> Clone for Registry<L> {
    fn clone(&self) -> Self {
        Self { creators: Arc::clone(&self.creators) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_have_the_same_meaning_or_nearly_the_same_letters() {
        let mut registry: Registry = Registry::empty();
        let known =
            ["aten::sin", "F.relu", "nn.ReLU", "nn.Linear", "torch.log2", "torch.fft.fft2", "acme/Relu/1"];
        for op_type in known {
            let create = |_: &mut OperatorReader<'_>| Err(crate::op::LayerError::Unsupported(String::new()));
            registry.add(op_type, Creator::new("test", "1", create)).unwrap();
        }
        for (wanted, nearest) in [
            ("nn.Relu", Some("nn.ReLU")),
            ("F.Relu", Some("F.relu")),
            ("nn.Lineal", Some("nn.Linear")),
            ("aten::log2", Some("torch.log2")),
            ("aten::fft_fft2", Some("torch.fft.fft2")),
            ("acme/Relu/2", Some("acme/Relu/1")),
            ("aten::fft_fftshift", None),
            ("aten::sinh", None),
            ("torch.log10", None),
            ("aten::", None),
            ("", None),
        ] {
            assert_eq!(registry.nearest(wanted).as_deref(), nearest, "{wanted}");
        }
        assert_eq!(registry.nearest(&"relu".repeat(1 << 20)), None);
    }

    #[test]
    fn links_become_names() {
        let doc = "as [`Fold`], by [`cast`](ixion_tensor::Tensor::cast) of `x[0]`.";
        assert_eq!(without_links(doc), "as `Fold`, by `cast` of `x[0]`.");
    }
}
