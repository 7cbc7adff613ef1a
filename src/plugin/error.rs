//! Why a library is no plugin.

use super::abi;
use crate::op::RegistryError;
use std::path::PathBuf;

/// A library that cannot be used, and why.
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
    /// There is no file.
    #[error("there is no such file; give the path of a library, such as ./libfoo.so")]
    NoFile,
    /// The system cannot load it.
    #[error("it cannot be loaded: {0}; a plugin is a shared library for this system and processor")]
    NotALibrary(String),
    /// It lacks the one symbol that a plugin has.
    #[error(
        "it has no symbol `{}`, so it is no plugin of Ixion; export it with `IXION_EXPORT` or `ixion::export_plugins!`",
        abi::ENTRY
    )]
    NoEntry,
    /// It has no table for this version, or could not make one.
    #[error(
        "it has nothing for version {} of the plugin interface, the one that this Ixion speaks, or it could not register its operators, see its output; build it with this Ixion's ixion_plugin.h",
        abi::ABI
    )]
    NoTable,
    /// It was built for another version.
    #[error(
        "it speaks version {found} of the plugin interface, and this Ixion version {}; build it again with this Ixion's ixion_plugin.h",
        abi::ABI
    )]
    Version {
        /// The version that it speaks.
        found: u32,
    },
    /// Its table cannot be right. A fault of the plugin.
    #[error("{place}{reason}; this is a fault of the plugin")]
    Broken {
        /// Which operator, followed by a colon; empty for the table.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// Two operators of one type.
    #[error(transparent)]
    Twice(#[from] RegistryError),
}

impl PluginProblem {
    pub(super) fn broken(place: &str, reason: impl Into<String>) -> Self {
        let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
        Self::Broken { place, reason: reason.into() }
    }

    pub(super) fn of(self, path: impl Into<PathBuf>) -> PluginError {
        PluginError { path: path.into(), problem: self }
    }
}
