//! Errors of loading and registering plugins.

use super::abi;
use crate::op::RegistryError;
use std::path::PathBuf;

/// An error for a library that cannot be used as a plugin.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct PluginError {
    /// The library.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub problem: PluginProblem,
}

/// What is wrong with a library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginProblem {
    /// The file does not exist.
    #[error("there is no such file; give the path of a shared library, such as ./libfoo.so")]
    NoFile,
    /// The operating system cannot load the library.
    #[error("it cannot be loaded: {0}; a plugin must be a shared library for this system and processor")]
    NotALibrary(String),
    /// The library does not export the symbol that every plugin has.
    #[error(
        "it has no symbol `{}`, so it is not an Ixion plugin; export the symbol with `IXION_EXPORT` or `ixion::export_plugins!`",
        abi::ENTRY
    )]
    NoEntry,
    /// The library has no table for this version of the interface, or could not create one.
    #[error(
        "it has no table for version {} of the plugin interface, which this Ixion uses, or it could not register its operators (see its output); build it with this Ixion's ixion_plugin.h",
        abi::ABI
    )]
    NoTable,
    /// The library was built for another version of the interface.
    #[error(
        "it uses version {found} of the plugin interface, this Ixion uses version {}; rebuild it with this Ixion's ixion_plugin.h",
        abi::ABI
    )]
    Version {
        /// The version that the library uses.
        found: u32,
    },
    /// The library's table is invalid: a bug in the plugin.
    #[error("{place}{reason}; this is a bug in the plugin")]
    Broken {
        /// The operator, followed by a colon; empty for the table itself.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// The registry already has an operator with this name.
    #[error(transparent)]
    Twice(#[from] RegistryError),
}

/// The problem with an operator or, if `place` is empty, with the table itself.
pub(super) fn broken(place: &str, reason: impl Into<String>) -> PluginProblem {
    let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
    PluginProblem::Broken { place, reason: reason.into() }
}

impl PluginProblem {
    pub(super) fn of(self, path: impl Into<PathBuf>) -> PluginError {
        PluginError { path: path.into(), problem: self }
    }
}
