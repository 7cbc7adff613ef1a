//! Layers from plugins, and the operators that they run.

use super::Failure;
use clap::Args;
use ixion::op::{PluginName, Registry};
use ixion::plugin::Plugin;
use std::path::PathBuf;

/// `--plugin` and `--use`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PluginArgs {
    /// Load a library of operators, such as ./libfoo.so; may be repeated. Its code runs, so load only what you trust
    ///
    /// The book's page "Plugins in C" describes such libraries. A library must be given for every model or plan that uses its
    /// operators.
    #[arg(long = "plugin", value_name = "LIBRARY", help_heading = "Plugins", hide_short_help = true)]
    libraries: Vec<PathBuf>,
    /// Run operators of a type by a plugin, or by a built-in layer of another type; may be repeated
    ///
    /// A layer is named by its namespace, type and version, such as nn.Conv2d=acme/Conv/1; built-in layers have the namespace
    /// ixion and the version 1. The layer receives the operator's parameters and weights by name.
    #[arg(
        long = "use", value_name = "TYPE=NAMESPACE/TYPE/VERSION", value_parser = parse_route, help_heading = "Plugins",
        hide_short_help = true
    )]
    routes: Vec<(String, PluginName)>,
}

fn parse_route(text: &str) -> Result<(String, PluginName), String> {
    let parts = text.split_once('=').filter(|(op_type, _)| !op_type.is_empty());
    let (op_type, name) = parts
        .ok_or_else(|| "expected a type and the name of a layer, such as nn.Conv2d=acme/Conv/1".to_owned())?;
    Ok((op_type.to_owned(), name.parse().map_err(|error| format!("{error}"))?))
}

impl PluginArgs {
    /// Returns true if `--use` is given.
    pub(crate) fn has_routes(&self) -> bool {
        !self.routes.is_empty()
    }

    /// The built-in layers and those of all plugins, with the routes of `--use`.
    ///
    /// # Errors
    /// Fails if a library is not a plugin, if a layer is already registered, or if a route names an unknown layer.
    pub(crate) fn registry(&self) -> Result<Registry, Failure> {
        let mut registry = Registry::default();
        for library in &self.libraries {
            // SAFETY: the user passed `--plugin`, whose help states that the library's code runs.
            let plugin = unsafe { Plugin::load(library) }.map_err(Failure::unusable)?;
            plugin.register(&mut registry).map_err(Failure::unusable)?;
        }
        for (op_type, name) in &self.routes {
            registry.route(op_type, name).map_err(|error| {
                Failure::unusable(error)
                    .advise("`ixion operators --json` lists types, namespaces and versions")
            })?;
        }
        Ok(registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_a_type_and_a_name() {
        let route = parse_route("nn.Conv2d=acme/Conv/1").unwrap();
        assert_eq!((route.0.as_str(), route.1.to_string().as_str()), ("nn.Conv2d", "acme/Conv/1"));
        for wrong in ["nn.Conv2d", "=acme/Conv/1", "nn.Conv2d=Conv", "nn.Conv2d=acme//1", "nn.Conv2d=a/b/c/d"]
        {
            assert!(parse_route(wrong).is_err(), "{wrong}");
        }
    }
}
