//! Exporting layers in Rust as a plugin library, which any Ixion with the same interface version loads.

mod functions;
mod tensors;

use super::abi::{self, Operator, Plugin};
use crate::op::{Creator, Field, FieldValue, INPUT_KIND, PluginName, Registry, Weight};
use functions::functions;
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

/// Makes a `cdylib` a plugin: exports the symbol that `ixion --plugin` and [`Plugin::load`](crate::plugin::Plugin::load) load.
///
/// The argument is a function that adds plugins to a registry. A program that links the crate can call the same function,
/// so the same layers work both ways. Two crates that use this macro cannot be linked into one program, because both define
/// the symbol: use it in a crate of its own, with `crate-type = ["cdylib"]`.
///
/// Features that the interface lacks are ignored: tactics, in-place execution, views, costs. Layers with outputs of
/// data-dependent size are rejected. Layers cannot notice that a run is cancelled or has passed its deadline: like plugins
/// that never call `host->stopped`, they are then abandoned. Each created layer copies its weights once; its clones share
/// them.
///
/// ```
/// use ixion::op::{Registry, RegistryError};
///
/// pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
///     // registry.register_plugin::<Swish>("acme", "1")
///     Ok(())
/// }
///
/// ixion::export_plugins!(register);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_plugins {
    ($register:path) => {
        /// The table of this library's operators.
        #[unsafe(no_mangle)]
        pub extern "C" fn ixion_plugin(abi: u32) -> *const $crate::plugin::abi::Plugin {
            static TABLE: $crate::plugin::Exported = $crate::plugin::Exported::new();
            TABLE.table(abi, env!("CARGO_PKG_NAME"), $register)
        }
    };
}

/// The table of a library in Rust, created on first use; see [`export_plugins!`](crate::export_plugins).
#[derive(Debug, Default)]
pub struct Exported {
    table: OnceLock<Option<Table>>,
}

/// A table that lives as long as the library.
#[derive(Debug, Clone, Copy)]
struct Table(&'static Plugin);

// SAFETY: neither a table nor anything that it points to is written after its creation.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Exported {
    /// A table that is not created yet.
    pub const fn new() -> Self {
        Self { table: OnceLock::new() }
    }

    /// The table of all plugins that `register` adds. Null if `register` fails, or if `abi` is not this version of the
    /// interface.
    pub fn table<E: Display>(
        &self,
        abi: u32,
        name: &str,
        register: impl FnOnce(&mut Registry) -> Result<(), E>,
    ) -> *const Plugin {
        let create = || {
            let build = AssertUnwindSafe(|| table(name, register));
            match catch_unwind(build) {
                Ok(Ok(table)) => Some(Table(table)),
                Ok(Err(reason)) => {
                    eprintln!("error: the plugin {name} cannot register its operators: {reason}");
                    None
                }
                // The panic message is already printed.
                Err(_) => None,
            }
        };
        if abi != abi::ABI {
            return null();
        }
        self.table.get_or_init(create).map_or(null(), |table| std::ptr::from_ref(table.0))
    }
}

fn table<E: Display>(
    name: &str,
    register: impl FnOnce(&mut Registry) -> Result<(), E>,
) -> Result<&'static Plugin, String> {
    let mut registry = Registry::empty();
    register(&mut registry).map_err(|error| error.to_string())?;
    let names = registry.names();
    let creators = names.iter().filter_map(|name| Some((name, registry.find(name)?)));
    let operators: Vec<*const Operator> =
        creators.map(|(name, creator)| std::ptr::from_ref(operator(name, creator))).collect();
    let operators: &'static [*const Operator] = operators.leak();
    Ok(Box::leak(Box::new(Plugin {
        abi: abi::ABI,
        reserved: 0,
        size: size_of::<Plugin>(),
        name: text(name),
        operators: operators.as_ptr(),
        num_operators: operators.len(),
    })))
}

fn operator(name: &PluginName, creator: &Creator) -> &'static Operator {
    let fields: &'static [abi::Field] = creator.fields.iter().map(field).collect::<Vec<_>>().leak();
    let data: &'static Creator = Box::leak(Box::new(creator.clone()));
    Box::leak(Box::new(Operator {
        type_name: text(name.op_type()),
        name_space: text(name.namespace()),
        version: text(name.version()),
        doc: text(&creator.doc),
        fields: fields.as_ptr(),
        num_fields: fields.len(),
        data: std::ptr::from_ref(data).cast_mut().cast(),
        ..functions()
    }))
}

/// The description of a field. Parameters are passed as text, which the layer parses as it would parse the file.
fn field(field: &Field) -> abi::Field {
    let kind = match field.kind {
        kind if kind == <Weight as FieldValue>::KIND => abi::WEIGHT,
        kind if kind == <Option<Weight> as FieldValue>::KIND => abi::OPTIONAL_WEIGHT,
        INPUT_KIND => abi::INPUT,
        _ => abi::STRING,
    };
    let fallback = match kind {
        abi::STRING => field.default_in_file().map(|default| text(&default)),
        _ => field.default.map(|_| text("None")),
    };
    abi::Field {
        key: text(field.key),
        kind,
        reserved: 0,
        fallback: fallback.unwrap_or(null()),
        doc: text(field.doc),
        kind_name: text(field.kind),
        later: [null_mut(); 2],
    }
}

/// Leaks a text as a C string, without its NUL characters.
fn text(text: &str) -> *const c_char {
    let text = CString::new(text.replace('\0', "")).unwrap_or_default();
    CString::into_raw(text).cast_const()
}
