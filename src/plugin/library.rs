//! Loading a library, and creators for its layers.

use super::abi::{self, Entry};
use super::error::{PluginError, PluginProblem};
use super::layer::Foreign;
use super::table::{self, Checked};
use crate::op::{CpuLayer, Creator, Registry};
use libloading::Library;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A loaded library of operators.
///
/// ```no_run
/// use ixion::engine::Builder;
/// use ixion::op::Registry;
/// use ixion::plugin::Plugin;
///
/// // SAFETY: the library is one that I trust, and it keeps to the header.
/// let plugin = unsafe { Plugin::load("./libswish.so") }?;
/// let mut registry = Registry::default();
/// plugin.register(&mut registry)?;
/// let plan = Builder::new("net.pnnx.param").with_registry(registry).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Plugin {
    path: PathBuf,
    name: String,
    operators: Vec<&'static Checked>,
}

impl Plugin {
    /// Loads a library. It stays loaded until the process ends.
    ///
    /// # Errors
    /// [`PluginError`] if the file does not exist, is not a library or not a plugin, uses another version of the interface, or
    /// has an invalid table.
    ///
    /// # Safety
    /// From now on, code of the library runs with all the rights of this process. Its table is checked and its failures are
    /// reported as errors, but the library must follow the header: its pointers must point to what the header requires, and
    /// it must write only where it may.
    pub unsafe fn load(path: impl AsRef<Path>) -> Result<Self, PluginError> {
        let path = path.as_ref();
        // SAFETY: by contract.
        let found = unsafe { open(path) }.and_then(|table| unsafe { table::read(table) });
        let (name, operators) = found.map_err(|problem| problem.of(path))?;
        let operators = operators.into_iter().map(|operator| &*Box::leak(Box::new(operator))).collect();
        Ok(Self { path: path.to_owned(), name, operators })
    }

    /// The path of the library, as given to [`Plugin::load`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The plugin's name, from its table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of each operator, and a creator for its layers.
    pub fn creators(&self) -> impl Iterator<Item = (&str, Creator)> {
        self.operators.iter().map(|operator| (operator.type_name.as_str(), creator(operator)))
    }

    /// Adds all operators to a registry, with [`Registry::add_plugin`].
    ///
    /// # Errors
    /// [`PluginProblem::Twice`] if the registry already has one of these operators; then nothing is added.
    pub fn register(&self, registry: &mut Registry) -> Result<(), PluginError> {
        let mut added = registry.clone();
        let mut creators = self.creators();
        let result = creators.try_for_each(|(op_type, creator)| added.add_plugin(op_type, creator).map(drop));
        result.map_err(|error| PluginProblem::from(error).of(&self.path))?;
        *registry = added;
        Ok(())
    }
}

fn creator(operator: &'static Checked) -> Creator {
    let fields: Vec<_> = operator.fields.iter().map(|field| field.published).collect();
    Creator::new(&operator.name_space, &operator.version, move |reader| {
        Ok(Box::new(Foreign::create(operator, reader)?) as Box<dyn CpuLayer>)
    })
    .described(&operator.doc, fields)
}

/// Loads a library, never to be unloaded, and returns its table.
///
/// # Safety
/// Same as [`Plugin::load`].
unsafe fn open(path: &Path) -> Result<*const abi::Plugin, PluginProblem> {
    // A name without a folder would be searched in the system's library folders.
    let path = path.canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => PluginProblem::NoFile,
        _ => PluginProblem::NotALibrary(error.to_string()),
    })?;
    let not_a_library = |error: libloading::Error| PluginProblem::NotALibrary(reason(&error));
    // SAFETY: by contract, what the library does when it is loaded is fine.
    let library = unsafe { resolved(&path) }.map_err(not_a_library)?;
    // Never unloaded: there may always be pointers into it.
    let library: &'static Library = Box::leak(Box::new(library));
    // SAFETY: by contract, the function of this symbol has this type.
    let entry = unsafe { library.get::<Entry>(abi::ENTRY.as_bytes()) };
    let entry = entry.map_err(|_| PluginProblem::NoEntry)?;
    // SAFETY: by contract, it may be called.
    let table = unsafe { entry(abi::ABI) };
    if table.is_null() { Err(PluginProblem::NoTable) } else { Ok(table) }
}

/// Loads a library and resolves all its symbols: otherwise calling a missing function would end the process.
///
/// # Safety
/// Same as [`Plugin::load`].
#[cfg(unix)]
unsafe fn resolved(path: &Path) -> Result<Library, libloading::Error> {
    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
    // SAFETY: by contract.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
}

/// Loads a library.
///
/// # Safety
/// Same as [`Plugin::load`].
#[cfg(not(unix))]
unsafe fn resolved(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: by contract.
    unsafe { Library::new(path) }
}

/// The operating system's message.
fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}
