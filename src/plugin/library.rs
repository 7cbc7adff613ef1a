//! From the path of a library to creators of layers.

use super::abi::{self, Entry};
use super::error::{PluginError, PluginProblem};
use super::layer::Foreign;
use super::table::{self, Checked};
use crate::op::{CpuLayer, Creator, Registry};
use libloading::Library;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A library of operators that is loaded.
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
    /// [`PluginError`]: no such file, no library, no plugin, another version, or a table that cannot be right.
    ///
    /// # Safety
    /// Code of the library runs from now on, with all that this process may do. What it says of itself is checked and its
    /// errors are errors, but it must keep to the header: pointers that it gives lead to what they should, and it writes
    /// where it may.
    pub unsafe fn load(path: impl AsRef<Path>) -> Result<Self, PluginError> {
        let path = path.as_ref();
        // SAFETY: by contract.
        let found = unsafe { open(path) }.and_then(|table| unsafe { table::read(table) });
        let (name, operators) = found.map_err(|problem| problem.of(path))?;
        let operators = operators.into_iter().map(|operator| &*Box::leak(Box::new(operator))).collect();
        Ok(Self { path: path.to_owned(), name, operators })
    }

    /// Where the library is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the plugin calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The types of its operators, and how layers of them are made.
    pub fn creators(&self) -> impl Iterator<Item = (&str, Creator)> {
        self.operators.iter().map(|operator| (operator.type_name.as_str(), creator(operator)))
    }

    /// Adds all operators to a registry, as [`Registry::add_plugin`] does.
    ///
    /// # Errors
    /// [`PluginProblem::Twice`] when it has one of these plugins already; then nothing is added.
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

/// Loads a library for good and asks for its table.
///
/// # Safety
/// As [`Plugin::load`].
unsafe fn open(path: &Path) -> Result<*const abi::Plugin, PluginProblem> {
    // A name without a folder would be looked for where the system has its libraries.
    let path = path.canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => PluginProblem::NoFile,
        _ => PluginProblem::NotALibrary(error.to_string()),
    })?;
    let not_a_library = |error: libloading::Error| PluginProblem::NotALibrary(reason(&error));
    // SAFETY: by contract, what the library does when it is loaded is fine.
    let library = unsafe { resolved(&path) }.map_err(not_a_library)?;
    // Nobody can say when the last pointer into it is gone.
    let library: &'static Library = Box::leak(Box::new(library));
    // SAFETY: by contract, the function behind this symbol is of this type.
    let entry = unsafe { library.get::<Entry>(abi::ENTRY.as_bytes()) };
    let entry = entry.map_err(|_| PluginProblem::NoEntry)?;
    // SAFETY: by contract, it may be called.
    let table = unsafe { entry(abi::ABI) };
    if table.is_null() { Err(PluginProblem::NoTable) } else { Ok(table) }
}

/// Loads a library with all symbols that it needs: one that is missing would end the process when it is called.
///
/// # Safety
/// As [`Plugin::load`].
#[cfg(unix)]
unsafe fn resolved(path: &Path) -> Result<Library, libloading::Error> {
    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
    // SAFETY: by contract.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
}

/// Loads a library.
///
/// # Safety
/// As [`Plugin::load`].
#[cfg(not(unix))]
unsafe fn resolved(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: by contract.
    unsafe { Library::new(path) }
}

/// What the system says.
fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}
