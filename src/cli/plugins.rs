//! Layers that do not come with Ixion, and which operators they run.

use super::failure::Failure;
use clap::Args;
use ixion::op::{PluginName, Registry};
use ixion::plugin::Plugin;
use std::path::PathBuf;

/// `--plugin` and `--use`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PluginArgs {
    /// Loads a library of operators, such as ./libfoo.so; may be repeated. Its code runs, so trust it
    ///
    /// The book's page "Plugins in C" says what such a library is. It has to be given wherever a model, or a plan, with its
    /// operators is.
    #[arg(long = "plugin", value_name = "LIBRARY", help_heading = "Plugins", hide_short_help = true)]
    libraries: Vec<PathBuf>,
    /// Has operators of a type run by a plugin, or by a built-in layer of another type; may be repeated
    ///
    /// The name of a layer is its namespace, type and version, such as nn.Conv2d=acme/Conv/1; those of built-in layers are
    /// ixion and 1. The layer gets the operator's parameters and weights by their names.
    #[arg(
        long = "use", value_name = "TYPE=NAMESPACE/TYPE/VERSION", value_parser = parse_route, help_heading = "Plugins",
        hide_short_help = true
    )]
    routes: Vec<(String, PluginName)>,
}

fn parse_route(text: &str) -> Result<(String, PluginName), String> {
    let parts = text.split_once('=').filter(|(op_type, _)| !op_type.is_empty());
    let (op_type, name) = parts
        .ok_or_else(|| "give a type and the name of a layer, such as nn.Conv2d=acme/Conv/1".to_owned())?;
    Ok((op_type.to_owned(), name.parse().map_err(|error| format!("{error}"))?))
}

impl PluginArgs {
    /// Whether some operators are run by other layers than else.
    pub(crate) fn has_routes(&self) -> bool {
        !self.routes.is_empty()
    }

    /// The layers.
    ///
    /// # Errors
    /// A library that is no plugin, a plugin that is there already, a layer that is not there.
    pub(crate) fn registry(&self) -> Result<Registry, Failure> {
        let mut registry = Registry::default();
        for library in &self.libraries {
            // SAFETY: `--plugin` says that the library's code runs, and the user asked for it.
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
