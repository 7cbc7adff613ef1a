//! Registering plugins in a [`Registry`], and looking them up.
//!
//! A registry maps keys to creators. A plugin is registered under its full name, `acme/Conv/1`, and under each operator type
//! that it runs, such as `Conv`; [`Creator::plugin`] is its full name. Built-in layers are registered under their types only.
//!
//! The methods of a registry, such as [`Registry::add_plugin`], call these functions.

use super::PluginName;
use crate::op::{Creator, DeviceLayer, Registry, RegistryError};

// ANCHOR: find
/// The creator with this namespace, type and version, whether built-in or a plugin.
pub fn find<'r, L: ?Sized + DeviceLayer>(
    registry: &'r Registry<L>,
    name: &PluginName,
) -> Option<&'r Creator<L>> {
    // ANCHOR: find_todo -- task 2: look under the full name, otherwise for a built-in layer under the type
    let is_built_in = |creator: &&Creator<L>| {
        creator.plugin.is_none() && creator.namespace == name.namespace() && creator.version == name.version()
    };
    let of_type = || registry.known(name.op_type()).filter(is_built_in);
    registry.known(&name.to_string()).or_else(of_type)
    // ANCHOR_END: find_todo
}
// ANCHOR_END: find

// ANCHOR: put
/// Registers a plugin under its full name and under all keys of the plugin that had this name before, which it replaces. It is
/// also registered under its type if the type is free. The namespace and version of the name must be the creator's, as [`add`]
/// ensures.
pub fn put<L: ?Sized + DeviceLayer>(registry: &mut Registry<L>, name: &PluginName, mut creator: Creator<L>) {
    // ANCHOR: put_todo -- task 2: under every key that leads to this name, and under the type if it is free
    let text = name.to_string();
    let is_same = |creator: &Creator<L>| creator.plugin.as_deref() == Some(text.as_str());
    let leads_here = registry.iter().filter(|(_, known)| is_same(known));
    let mut keys: Vec<String> = leads_here.map(|(key, _)| key.to_owned()).collect();
    keys.push(text.clone());
    if registry.known(name.op_type()).is_none() {
        keys.push(name.op_type().to_owned());
    }
    creator.plugin = Some(text.into());
    for key in keys {
        registry.replace(key, creator.clone());
    }
    // ANCHOR_END: put_todo
}
// ANCHOR_END: put

// ANCHOR: add
/// Adds a plugin, named by this type and the creator's namespace and version.
///
/// # Errors
/// [`RegistryError::Duplicate`] if a layer of that name exists, [`RegistryError::Name`] if the name is invalid.
pub fn add<L: ?Sized + DeviceLayer>(
    registry: &mut Registry<L>,
    op_type: &str,
    creator: Creator<L>,
) -> Result<PluginName, RegistryError> {
    // ANCHOR: add_todo -- task 2: an error if the name is taken
    let name = PluginName::new(&*creator.namespace, op_type, &*creator.version)?;
    if find(registry, &name).is_some() {
        return Err(RegistryError::Duplicate { op_type: name.to_string() });
    }
    put(registry, &name, creator);
    Ok(name)
    // ANCHOR_END: add_todo
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
// ANCHOR_END: add

// ANCHOR: route
/// Assigns an operator type to the layer of this name.
///
/// # Errors
/// [`RegistryError::Missing`] if there is no layer of that name.
pub fn route<L: ?Sized + DeviceLayer>(
    registry: &mut Registry<L>,
    op_type: &str,
    to: &PluginName,
) -> Result<(), RegistryError> {
    // ANCHOR: route_todo -- task 2: the type leads to that layer; a replaced built-in layer keeps its full name
    let name = to.to_string();
    let Some(mut creator) = find(registry, to).cloned() else {
        let nearest = registry.nearest(&name);
        return Err(RegistryError::Missing { op_type: name, nearest });
    };
    if registry.name_of(op_type).is_some_and(|own| own.to_string() == name) {
        return Ok(());
    }
    creator.plugin = Some(name.into());
    let before = registry.replace(op_type, creator);
    // A built-in layer was registered under its type only, which now leads elsewhere.
    if let Some(before) = before.filter(|before| before.plugin.is_none())
        && let Ok(own) = PluginName::new(&*before.namespace, op_type, &*before.version)
        && find(registry, &own).is_none()
    {
        registry.replace(own.to_string(), before);
    }
    Ok(())
    // ANCHOR_END: route_todo
}
// ANCHOR_END: route
