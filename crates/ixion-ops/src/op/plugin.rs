//! Plugins: layers registered by third parties, and the names that identify them.
//!
//! Namespace, type and version together name a plugin: `acme/Conv/1`. Operators may have such a name as their type, and
//! operators that a plugin runs get it when a graph is loaded. So no pass mistakes them for Ixion's own operators, and a plan
//! records which plugin they need.

pub mod lookup;
mod name;
#[cfg(test)]
mod tests;

pub use name::{PluginName, RegistryError};

use super::registry::{Creator, DeviceLayer, FromOperator, Registry};
use super::{CpuLayer, INPUT_KIND};
use ixion_pnnx::{Graph, GraphError, OperatorId};
use std::collections::BTreeSet;

/// The prefix that PNNX adds to custom operators: `pnnx.custom_op.my_ops.gated`.
const CUSTOM: &str = "pnnx.custom_op.";

impl<L: ?Sized + DeviceLayer> Registry<L> {
    /// Adds a plugin, named by the operator type and the creator's namespace and version. It runs operators whose type is that
    /// name, operators of its own type if no other layer runs them, and operators that [`Registry::route`] assigns to it.
    ///
    /// ```
    /// use ixion_ops::op::{Creator, Registry};
    /// # ixion_ops::operator! {
    /// #     /// Its input.
    /// #     struct Gate for "Gate" {}
    /// # }
    /// # impl ixion_ops::op::Layer for Gate {
    /// #     fn infer(&self, inputs: &[ixion_ops::op::TensorMeta]) -> ixion_ops::op::Result<Vec<ixion_ops::op::TensorMeta>> {
    /// #         Ok(inputs.to_vec())
    /// #     }
    /// # }
    /// # impl ixion_ops::op::CpuLayer for Gate {
    /// #     fn forward(&mut self, _: &mut ixion_ops::op::Io<'_, '_>) -> ixion_ops::op::Result<()> { Ok(()) }
    /// # }
    /// let mut registry = Registry::default();
    /// registry.add_plugin("Gate", Creator::plugin::<Gate>("acme", "1"))?;
    /// registry.add_plugin("Gate", Creator::plugin::<Gate>("acme", "2"))?;
    /// let again = registry.add_plugin("Gate", Creator::plugin::<Gate>("acme", "2")).unwrap_err();
    /// assert!(again.to_string().starts_with("a layer is already registered for `acme/Gate/2`; it was registered twice"));
    /// # Ok::<(), ixion_ops::op::RegistryError>(())
    /// ```
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] if a layer of that name exists, [`RegistryError::Name`] if the name is invalid.
    pub fn add_plugin(
        &mut self,
        op_type: impl Into<String>,
        creator: Creator<L>,
    ) -> Result<PluginName, RegistryError> {
        lookup::add(self, &op_type.into(), creator)
    }

    /// Adds a plugin as [`Registry::add_plugin`], replacing the layer of that name if there is one. Returns the previous layer.
    ///
    /// # Errors
    /// [`RegistryError::Name`] if the name is invalid.
    pub fn replace_plugin(
        &mut self,
        op_type: impl Into<String>,
        creator: Creator<L>,
    ) -> Result<Option<Creator<L>>, RegistryError> {
        lookup::replace(self, &op_type.into(), creator)
    }

    /// Assigns an operator type to a layer of another type, namespace or version. The layer gets the parameters, weights and
    /// inputs of the operator, so it must have fields of these names.
    ///
    /// # Errors
    /// [`RegistryError::Missing`] if there is no layer of that name.
    pub fn route(&mut self, op_type: impl Into<String>, to: &PluginName) -> Result<(), RegistryError> {
        lookup::route(self, &op_type.into(), to)
    }

    /// The creator with this namespace, type and version, whether built-in or a plugin.
    pub fn find(&self, name: &PluginName) -> Option<&Creator<L>> {
        lookup::find(self, name)
    }

    /// The namespace, type and version of every layer, in alphabetical order.
    pub fn names(&self) -> BTreeSet<PluginName> {
        self.iter().filter_map(|(op_type, creator)| creator.name(op_type)).collect()
    }

    /// The namespace, type and version of the layer that runs an operator type.
    pub fn name_of(&self, op_type: &str) -> Option<PluginName> {
        self.known(op_type)?.name(op_type)
    }

    /// Changes the type of each operator that a plugin runs to the plugin's name.
    ///
    /// # Errors
    /// Returns an error if the type of an operator cannot be changed.
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

    /// The operator type for a layer of this name: built-in layers are registered under their types only.
    fn written(&self, name: &str) -> String {
        match (self.known(name), name.parse::<PluginName>()) {
            (None, Ok(parts)) => parts.op_type().to_owned(),
            _ => name.to_owned(),
        }
    }

    /// The creator that runs an operator type. The type of a custom TorchScript operator, `pnnx.custom_op.my_ops.gated`, is
    /// mapped to the plugin `gated` in the namespace `my_ops`, if there is exactly one version of it.
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
    /// The full name of the creator if it is registered for this operator type.
    fn name(&self, op_type: &str) -> Option<PluginName> {
        match &self.plugin {
            Some(name) => name.parse().ok(),
            None if op_type.contains('/') => op_type.parse().ok(),
            None => PluginName::new(&*self.namespace, op_type, &*self.version).ok(),
        }
    }
}

impl Creator<dyn CpuLayer> {
    /// The creator of an operator that implements [`FromOperator`], with its own namespace and version.
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

/// Renames the arguments of a custom operator, `arg_0`, `arg_1` and so on, to the fields of the layer. The first argument is
/// the tensor that the operator works on. Does nothing if the layer itself has fields with such names.
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

/// The position in an argument name such as `arg_2`.
fn position_of(argument: &str) -> Option<usize> {
    argument.strip_prefix("arg_")?.parse().ok()
}
