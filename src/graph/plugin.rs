//! Plugins: layers that somebody else registered, and the names that tell them apart.
//!
//! Namespace, type and version together name a plugin: `acme/Conv/1`. Operators may have such a name as their type; those
//! that a plugin runs get it when a graph is loaded. So no pass takes them for one of Ixion's own, and a plan says whose
//! they are.

use super::registry::{Creator, DeviceLayer, FromOperator, Registry, RegistryError};
use super::{CpuLayer, INPUT_KIND};
use crate::pnnx::{Graph, GraphError, OperatorId};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// What PNNX puts before the name of an operator of one's own: `pnnx.custom_op.my_ops.gated`.
const CUSTOM: &str = "pnnx.custom_op.";

/// Namespace, type and version of a layer, written `namespace/type/version`.
///
/// ```
/// use ixion::graph::PluginName;
/// let name: PluginName = "acme/Conv/1".parse()?;
/// assert_eq!((name.namespace(), name.op_type(), name.version()), ("acme", "Conv", "1"));
/// let error = "Conv".parse::<PluginName>().unwrap_err().to_string();
/// assert_eq!(error, "`Conv` is no name of a plugin: a name has three parts: namespace/type/version, such as acme/Conv/1");
/// # Ok::<(), ixion::graph::RegistryError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginName {
    namespace: String,
    op_type: String,
    version: String,
}

impl PluginName {
    /// The most bytes of a namespace, a type or a version.
    pub const MAX_BYTES: usize = 1024;

    /// A name of these parts.
    ///
    /// # Errors
    /// [`RegistryError::Name`] for a part that is empty, longer than [`PluginName::MAX_BYTES`], or has a `/` or blanks in it.
    pub fn new(
        namespace: impl Into<String>,
        op_type: impl Into<String>,
        version: impl Into<String>,
    ) -> Result<Self, RegistryError> {
        let name = Self { namespace: namespace.into(), op_type: op_type.into(), version: version.into() };
        let parts = [("namespace", &name.namespace), ("type", &name.op_type), ("version", &name.version)];
        let fault = parts.iter().find_map(|(what, part)| fault(what, part));
        match fault {
            Some(reason) => Err(RegistryError::Name { name: name.shortened(), reason }),
            None => Ok(name),
        }
    }

    /// Whose it is: `ixion` for the built-in layers.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The type of the operators that it runs.
    pub fn op_type(&self) -> &str {
        &self.op_type
    }

    /// The version, counted up when the meaning of the fields changes.
    pub fn version(&self) -> &str {
        &self.version
    }

    fn is_of<L: ?Sized>(&self, creator: &Creator<L>) -> bool {
        creator.namespace == self.namespace && creator.version == self.version
    }

    /// The name as a message can show it.
    fn shortened(&self) -> String {
        const MOST: usize = 80;
        let text = self.to_string();
        match text.char_indices().nth(MOST) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    }
}

/// What is wrong with a part of a name.
fn fault(what: &str, part: &str) -> Option<String> {
    let most = PluginName::MAX_BYTES;
    match part {
        "" => Some(format!("its {what} is empty")),
        _ if part.len() > most => {
            Some(format!("its {what} has {} bytes, and {most} are allowed", part.len()))
        }
        _ if part.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control()) => {
            Some(format!("its {what} has a slash, a blank or a control character in it"))
        }
        _ => None,
    }
}

/// What can be done about a layer that is there already. Of a plugin, the type is its name.
pub(super) fn advice_for_duplicate(op_type: &str) -> &'static str {
    match op_type.parse::<PluginName>() {
        Ok(_) => "it was given twice, or two libraries have it; `replace_plugin` takes its place",
        Err(_) => "use `replace` to take its place",
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.op_type, self.version)
    }
}

impl FromStr for PluginName {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        match text.split('/').collect::<Vec<_>>()[..] {
            [namespace, op_type, version] => Self::new(namespace, op_type, version),
            _ => Err(RegistryError::Name {
                name: text.chars().take(80).collect(),
                reason: "a name has three parts: namespace/type/version, such as acme/Conv/1".to_owned(),
            }),
        }
    }
}

impl<L: ?Sized + DeviceLayer> Registry<L> {
    /// Adds a plugin: the layer of an operator type, named by this type and the creator's namespace and version. It runs
    /// operators whose type is that name, those of its own type if nobody else runs these, and those that
    /// [`Registry::route`] gives it.
    ///
    /// ```
    /// use ixion::graph::{Creator, Registry};
    /// # ixion::operator! {
    /// #     /// Its input.
    /// #     struct Gate for "Gate" {}
    /// # }
    /// # impl ixion::graph::Layer for Gate {
    /// #     fn infer(&self, inputs: &[ixion::graph::TensorMeta]) -> Result<Vec<ixion::graph::TensorMeta>, ixion::graph::LayerError> {
    /// #         Ok(inputs.to_vec())
    /// #     }
    /// # }
    /// # impl ixion::graph::CpuLayer for Gate {
    /// #     fn forward(
    /// #         &mut self,
    /// #         _: &[ixion::tensor::TensorView<'_>],
    /// #         _: &mut [ixion::tensor::TensorViewMut<'_>],
    /// #         _: &mut ixion::graph::ForwardContext<'_>,
    /// #     ) -> Result<(), ixion::graph::LayerError> { Ok(()) }
    /// # }
    /// let mut registry = Registry::default();
    /// registry.add_plugin("Gate", Creator::plugin::<Gate>("acme", "1"))?;
    /// registry.add_plugin("Gate", Creator::plugin::<Gate>("acme", "2"))?;
    /// let again = registry.add_plugin("Gate", Creator::plugin::<Gate>("acme", "2")).unwrap_err();
    /// assert!(again.to_string().starts_with("a layer is already registered for `acme/Gate/2`; it was given twice"));
    /// # Ok::<(), ixion::graph::RegistryError>(())
    /// ```
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] when there is a plugin of that name, [`RegistryError::Name`] when there cannot be one.
    pub fn add_plugin(
        &mut self,
        op_type: impl Into<String>,
        creator: Creator<L>,
    ) -> Result<PluginName, RegistryError> {
        let name = PluginName::new(&*creator.namespace, op_type, &*creator.version)?;
        if self.find(&name).is_some() {
            return Err(RegistryError::Duplicate { op_type: name.to_string() });
        }
        self.put(&name, creator);
        Ok(name)
    }

    /// Adds a plugin as [`Registry::add_plugin`], and returns the one of that name that it takes the place of.
    ///
    /// # Errors
    /// [`RegistryError::Name`].
    pub fn replace_plugin(
        &mut self,
        op_type: impl Into<String>,
        creator: Creator<L>,
    ) -> Result<Option<Creator<L>>, RegistryError> {
        let name = PluginName::new(&*creator.namespace, op_type, &*creator.version)?;
        let before = self.find(&name).cloned();
        let routed: Vec<String> =
            self.iter().filter(|(_, known)| known.is(&name)).map(|(key, _)| key.to_owned()).collect();
        let creator = creator.named(&name);
        for key in routed {
            self.replace(key, creator.clone());
        }
        self.put(&name, creator);
        Ok(before)
    }

    /// Has operators of a type run by a layer of another one, or of another namespace or version. Its parameters, weights and
    /// inputs are those of the operator: the layer must have fields of these names.
    ///
    /// # Errors
    /// [`RegistryError::Missing`] when there is no layer of that name.
    pub fn route(&mut self, op_type: impl Into<String>, to: &PluginName) -> Result<(), RegistryError> {
        let op_type = op_type.into();
        let creator = self.find(to).cloned().ok_or_else(|| RegistryError::Missing {
            op_type: to.to_string(),
            nearest: self.nearest(&to.to_string()),
        })?;
        if self.name_of(&op_type).as_ref() == Some(to) {
            return Ok(());
        }
        let before = self.replace(&*op_type, creator.named(to));
        // Whoever ran these operators before can still be asked for by name.
        if let Some(before) = before
            && let Ok(name) = PluginName::new(&*before.namespace, op_type, &*before.version)
            && self.find(&name).is_none()
        {
            self.replace(name.to_string(), before);
        }
        Ok(())
    }

    /// The creator of this namespace, type and version, built-in or not.
    pub fn find(&self, name: &PluginName) -> Option<&Creator<L>> {
        let of_type =
            || self.known(name.op_type()).filter(|creator| name.is_of(creator) && creator.plugin.is_none());
        self.known(&name.to_string()).or_else(of_type)
    }

    /// Namespace, type and version of every layer, in alphabetical order.
    pub fn names(&self) -> BTreeSet<PluginName> {
        self.iter().filter_map(|(op_type, creator)| creator.name(op_type)).collect()
    }

    /// Namespace, type and version of the layer that runs operators of a type.
    pub fn name_of(&self, op_type: &str) -> Option<PluginName> {
        self.known(op_type)?.name(op_type)
    }

    fn put(&mut self, name: &PluginName, creator: Creator<L>) {
        let creator = creator.named(name);
        if self.known(name.op_type()).is_none() {
            self.replace(name.op_type(), creator.clone());
        }
        self.replace(name.to_string(), creator);
    }

    /// Gives operators that a plugin runs its name as their type.
    ///
    /// # Errors
    /// An operator whose type cannot be changed.
    pub fn resolve(&self, file: &mut Graph) -> Result<(), GraphError> {
        for id in file.operator_ids().to_vec() {
            let op_type = file.operator(id).op_type().to_owned();
            let Some(creator) = self.runner(&op_type) else { continue };
            match &creator.plugin {
                Some(name) => {
                    if op_type.starts_with(CUSTOM) {
                        name_arguments(file, id, creator)?;
                    }
                    file.set_op_type(id, &self.written(name))?;
                }
                None if op_type.contains('/') => file.set_op_type(id, &self.written(&op_type))?,
                None => {}
            }
        }
        Ok(())
    }

    /// The type that leads to a layer of this name: built-in ones are known by their types alone.
    fn written(&self, name: &str) -> String {
        match (self.known(name), name.parse::<PluginName>()) {
            (None, Ok(parts)) => parts.op_type,
            _ => name.to_owned(),
        }
    }

    /// Who runs operators of a type. A type of TorchScript's operators of one's own, `pnnx.custom_op.my_ops.gated`, leads to
    /// the plugin `gated` of the namespace `my_ops`, if there is one version of it.
    fn runner(&self, op_type: &str) -> Option<&Creator<L>> {
        if let Some(creator) = self.known(op_type) {
            return Some(creator);
        }
        if let Ok(name) = op_type.parse::<PluginName>() {
            return self.find(&name);
        }
        let (namespace, op_type) = op_type.strip_prefix(CUSTOM)?.split_once('.')?;
        let prefix = format!("{namespace}/{op_type}/");
        let mut versions = self.iter().filter(|(key, _)| key.starts_with(&prefix));
        versions.next().map(|(_, creator)| creator).filter(|_| versions.next().is_none())
    }
}

impl<L: ?Sized> Creator<L> {
    /// The same as the plugin of this name.
    fn named(self, name: &PluginName) -> Self {
        Self { plugin: Some(name.to_string().into()), ..self }
    }

    fn is(&self, name: &PluginName) -> bool {
        self.plugin.as_deref() == Some(&*name.to_string())
    }

    /// Its name, where it stands for operators of this type.
    fn name(&self, op_type: &str) -> Option<PluginName> {
        match &self.plugin {
            Some(name) => name.parse().ok(),
            None if op_type.contains('/') => op_type.parse().ok(),
            None => PluginName::new(&*self.namespace, op_type, &*self.version).ok(),
        }
    }
}

impl Creator<dyn CpuLayer> {
    /// The creator of an operator that implements [`FromOperator`], in a namespace of one's own.
    pub fn plugin<T: FromOperator + CpuLayer + 'static>(
        namespace: impl Into<String>,
        version: impl Into<String>,
    ) -> Self {
        Self { namespace: namespace.into(), version: version.into(), ..Self::of::<T>() }
    }
}

impl Registry<dyn CpuLayer> {
    /// Adds a plugin under all types of an operator.
    ///
    /// # Errors
    /// As [`Registry::add_plugin`].
    pub fn register_plugin<T: FromOperator + CpuLayer + 'static>(
        &mut self,
        namespace: &str,
        version: &str,
    ) -> Result<(), RegistryError> {
        let mut types = T::TYPES.iter();
        types.try_for_each(|op_type| {
            self.add_plugin(*op_type, Creator::plugin::<T>(namespace, version)).map(drop)
        })
    }
}

/// Gives the arguments of an operator of one's own, `arg_0`, `arg_1` and so on, the names of the layer's fields: the first
/// one is the tensor that the operator works on. Fields that are called like that stay.
fn name_arguments<L: ?Sized>(
    file: &mut Graph,
    id: OperatorId,
    creator: &Creator<L>,
) -> Result<(), GraphError> {
    if creator.fields.is_empty() || creator.fields.iter().any(|field| position_of(field.key).is_some()) {
        return Ok(());
    }
    let is_first =
        creator.fields.first().is_some_and(|field| field.kind == INPUT_KIND && field.key == "input");
    let keys = creator.fields.iter().map(|field| field.key);
    let keys: Vec<&str> = (!is_first).then_some("input").into_iter().chain(keys).collect();
    let key = |argument: &str| keys.get(position_of(argument)?).map(|key| (*key).to_owned());
    let operator = file.operator(id);
    let names = operator.input_names().iter();
    let names =
        names.map(|name| name.as_ref().map(|name| key(name).unwrap_or_else(|| name.clone()))).collect();
    let params: Vec<(String, String)> =
        operator.params().keys().filter_map(|old| Some((old.clone(), key(old)?))).collect();
    file.set_input_names(id, names)?;
    for (old, new) in params {
        if let Some(value) = file.remove_param(id, &old)? {
            file.set_param(id, &new, value)?;
        }
    }
    Ok(())
}

/// The position of an argument that is called `arg_2`.
fn position_of(argument: &str) -> Option<usize> {
    argument.strip_prefix("arg_")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::graph::{Field, LayerError, OperatorReader};

    fn creator(namespace: &str, version: &str) -> Creator {
        Creator::new(namespace, version, |_: &mut OperatorReader<'_>| {
            Err(LayerError::Unsupported("only its name matters".to_owned()))
        })
    }

    fn name(text: &str) -> PluginName {
        text.parse().unwrap()
    }

    fn resolved(registry: &Registry, operator: &str) -> Graph {
        let text =
            format!("7767517\n3 2\npnnx.Input in 0 1 x\n{operator} op 1 1 x y\npnnx.Output out 1 0 y\n");
        let mut graph = Graph::parse(&text, &Limits::default()).unwrap();
        registry.resolve(&mut graph).unwrap();
        let before = graph.to_param_text();
        registry.resolve(&mut graph).unwrap();
        assert_eq!(graph.to_param_text(), before, "what is resolved stays as it is");
        graph
    }

    fn type_of(registry: &Registry, operator: &str) -> String {
        let graph = resolved(registry, operator);
        graph.operator(graph.operator_named("op").unwrap()).op_type().to_owned()
    }

    #[test]
    fn names_are_bounded_and_of_three_parts() {
        let long = "x".repeat(PluginName::MAX_BYTES);
        assert!(PluginName::new(&*long, &*long, &*long).is_ok());
        let error = PluginName::new("acme", format!("{long}x"), "1").unwrap_err().to_string();
        assert!(
            error.ends_with("its type has 1025 bytes, and 1024 are allowed") && error.len() < 200,
            "{error}"
        );
        for wrong in ["", "Conv", "a/b", "a//c", "/b/c", "a/b/", "a/b c/1", "a/b/c/d", "a/b\n/c"] {
            assert!(matches!(wrong.parse::<PluginName>(), Err(RegistryError::Name { .. })), "{wrong}");
        }
        let mut registry: Registry = Registry::empty();
        assert!(registry.add_plugin("a b", creator("acme", "1")).is_err());
        assert!(registry.add_plugin("", creator("acme", "1")).is_err());
        assert!(registry.add_plugin("Conv", creator("ac/me", "1")).is_err());
        assert_eq!(registry.iter().count(), 0);
    }

    #[test]
    fn namespace_type_and_version_tell_plugins_apart() {
        let mut registry: Registry = Registry::empty();
        for (namespace, version) in [("acme", "1"), ("acme", "2"), ("other", "1")] {
            registry.add_plugin("Conv", creator(namespace, version)).unwrap();
        }
        let duplicate = registry.add_plugin("Conv", creator("acme", "2")).unwrap_err();
        assert_eq!(duplicate, RegistryError::Duplicate { op_type: "acme/Conv/2".to_owned() });
        let names: Vec<String> = registry.names().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["acme/Conv/1", "acme/Conv/2", "other/Conv/1"]);
        assert_eq!(registry.name_of("Conv"), Some(name("acme/Conv/1")), "who came first");
        assert_eq!(registry.find(&name("acme/Conv/2")).unwrap().version, "2");
        assert!(registry.find(&name("acme/Conv/3")).is_none());

        let replaced = registry.replace_plugin("Conv", creator("acme", "1").described("new", [])).unwrap();
        assert!(replaced.is_some_and(|creator| creator.doc.is_empty()));
        assert_eq!(registry.get("Conv").unwrap().doc, "new", "under its type as well");
        assert_eq!(registry.find(&name("acme/Conv/1")).unwrap().doc, "new");
        assert_eq!(registry.names().len(), 3);
    }

    #[test]
    fn built_in_layers_have_a_namespace_of_their_own() {
        let mut registry = Registry::default();
        assert!(registry.names().iter().all(|name| name.namespace() == "ixion"));
        assert_eq!(registry.names().len(), registry.iter().count());
        assert!(registry.find(&name("ixion/nn.ReLU/1")).is_some());
        assert!(registry.find(&name("ixion/nn.ReLU/2")).is_none());
        let taken = registry.add_plugin("nn.ReLU", creator("ixion", "1")).unwrap_err();
        assert_eq!(taken, RegistryError::Duplicate { op_type: "ixion/nn.ReLU/1".to_owned() });
        registry.add_plugin("nn.ReLU", creator("acme", "1")).unwrap();
        assert_eq!(registry.name_of("nn.ReLU"), Some(name("ixion/nn.ReLU/1")), "it keeps its operators");
        assert_eq!(type_of(&registry, "nn.ReLU"), "nn.ReLU");
        assert_eq!(type_of(&registry, "acme/nn.ReLU/1"), "acme/nn.ReLU/1");
        assert_eq!(type_of(&registry, "ixion/nn.ReLU/1"), "nn.ReLU");
        assert_eq!(type_of(&registry, "ixion/nn.ReLU/7"), "ixion/nn.ReLU/7", "which is then reported");
    }

    #[test]
    fn routes_lead_from_types_to_plugins_and_back() {
        let mut registry = Registry::default();
        registry.add_plugin("Relu", creator("acme", "1")).unwrap();
        let missing = registry.route("nn.ReLU", &name("acme/Relu/2")).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "no layer is registered for `acme/Relu/2`; did you mean `acme/Relu/1`?"
        );
        registry.route("nn.ReLU", &name("acme/Relu/1")).unwrap();
        assert_eq!(type_of(&registry, "nn.ReLU"), "acme/Relu/1");
        assert_eq!(registry.name_of("nn.ReLU"), Some(name("acme/Relu/1")));
        assert!(registry.find(&name("ixion/nn.ReLU/1")).is_some(), "the built-in one is still there");
        registry.route("nn.ReLU", &name("ixion/nn.ReLU/1")).unwrap();
        assert_eq!(registry.name_of("nn.ReLU"), Some(name("ixion/nn.ReLU/1")));

        registry.route("nn.Hardswish", &name("ixion/nn.SiLU/1")).unwrap();
        assert_eq!(type_of(&registry, "nn.Hardswish"), "nn.SiLU");
        assert_eq!(registry.name_of("nn.Hardswish"), Some(name("ixion/nn.SiLU/1")));
        assert_eq!(type_of(&registry, "nn.SiLU"), "nn.SiLU");
        assert!(registry.find(&name("ixion/nn.Hardswish/1")).is_some());
    }

    #[test]
    fn modules_kept_whole_and_operators_of_ones_own_lead_to_plugins() {
        let field = |key, kind| Field { key, kind, default: None, doc: "" };
        let fields = [field("mask", INPUT_KIND), field("threshold", "a number")];
        let mut registry = Registry::default();
        let creator = creator("my_ops", "1").described("", fields);
        registry.add_plugin("gated", creator.clone()).unwrap();
        registry.add_plugin("models.common.Focus", creator).unwrap();
        assert_eq!(type_of(&registry, "models.common.Focus"), "my_ops/models.common.Focus/1");
        assert_eq!(type_of(&registry, "pnnx.custom_op.my_ops.gated"), "my_ops/gated/1");
        assert_eq!(type_of(&registry, "pnnx.custom_op.others.gated"), "pnnx.custom_op.others.gated");

        let text = "7767517\n4 3\npnnx.Input a 0 1 x\npnnx.Input b 0 1 m\n\
            pnnx.custom_op.my_ops.gated op 2 1 x m y arg_2=0.5 $arg_0=x $arg_1=m\npnnx.Output out 1 0 y\n";
        let mut graph = Graph::parse(text, &Limits::default()).unwrap();
        registry.resolve(&mut graph).unwrap();
        let operator = graph.operator(graph.operator_named("op").unwrap());
        assert_eq!(operator.input_names(), [Some("input".to_owned()), Some("mask".to_owned())]);
        assert_eq!(operator.param("threshold").unwrap().raw(), "0.5");

        let second = Creator::new("my_ops", "2", |_| Err(LayerError::Unsupported(String::new())));
        registry.add_plugin("gated", second).unwrap();
        let either = type_of(&registry, "pnnx.custom_op.my_ops.gated");
        assert_eq!(either, "pnnx.custom_op.my_ops.gated", "nobody said which version");
    }

    #[test]
    fn a_registry_can_be_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Registry>();
    }
}
