//! Who runs what: how plugins are put into a [`Registry`], and found there.
//!
//! A registry leads from keys to creators. A plugin stands under its full name, `acme/Conv/1`, and under each type that leads to
//! it, `Conv`; a creator knows by [`Creator::plugin`] which one it is. Built-in layers stand under their types alone.
//!
//! The methods of a registry, such as [`Registry::add_plugin`], are these functions.

use super::PluginName;
use crate::op::{Creator, DeviceLayer, Registry, RegistryError};

// ANCHOR: find
/// The creator of this namespace, type and version, built-in or not.
pub fn find<'r, L: ?Sized + DeviceLayer>(
    registry: &'r Registry<L>,
    name: &PluginName,
) -> Option<&'r Creator<L>> {
    // ANCHOR: find_todo -- task 2: under its full name, else a built-in one under its type
    let is_built_in = |creator: &&Creator<L>| {
        creator.plugin.is_none() && creator.namespace == name.namespace() && creator.version == name.version()
    };
    let of_type = || registry.known(name.op_type()).filter(is_built_in);
    registry.known(&name.to_string()).or_else(of_type)
    // ANCHOR_END: find_todo
}
// ANCHOR_END: find

// ANCHOR: put
/// Puts a plugin under its full name, and in the place of the one that had it; under its type, if nobody else is there. The
/// name's namespace and version are the creator's, as [`add`] sees to.
pub fn put<L: ?Sized + DeviceLayer>(registry: &mut Registry<L>, name: &PluginName, mut creator: Creator<L>) {
    // ANCHOR: put_todo -- task 2: under every key that leads to this name, and the type if it is free
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
/// [`RegistryError::Duplicate`] when there is a layer of that name, [`RegistryError::Name`] when there cannot be one.
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

/// Adds a plugin, and returns the layer of that name that it takes the place of.
///
/// # Errors
/// [`RegistryError::Name`].
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
/// Has operators of a type run by the layer of this name.
///
/// # Errors
/// [`RegistryError::Missing`] when there is no layer of that name.
pub fn route<L: ?Sized + DeviceLayer>(
    registry: &mut Registry<L>,
    op_type: &str,
    to: &PluginName,
) -> Result<(), RegistryError> {
    // ANCHOR: route_todo -- task 2: the type leads to that layer; a built-in one keeps its full name
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
    // A built-in layer stood under its type alone, which now leads elsewhere.
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
