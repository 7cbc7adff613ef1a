//! Plugins from shared libraries, through a small C ABI.
//!
//! A library exports one symbol, `ixion_plugin`, a function that returns a table of operators: their published descriptions
//! and their functions. [`Plugin::load`] reads and checks the table, and provides creators for a
//! [`Registry`](crate::op::Registry); their layers are then used like any others. The header is `include/ixion_plugin.h`,
//! generated from [`abi`]; the page "Plugins in C" of the book explains it. A crate of layers in Rust becomes such a library
//! with [`export_plugins!`](crate::export_plugins).
//!
//! # What is checked
//!
//! The version and sizes of the table, names (UTF-8, at most 1,024 bytes), fields and their fallbacks, null pointers; every
//! value of a field; the number, types, ranks and lengths of the outputs of `infer`; formats, before `configure`; sizes of
//! scratch memory and state against the [`Limits`](crate::Limits), and that nothing was written just past their end. Bools
//! are made 0 or 1. The reason that a plugin reports for a failure becomes the error. A library that writes elsewhere, or
//! crashes, takes the process down with it: load only libraries that you trust.
//!
//! # Unknown lengths
//!
//! `infer` is called with symbols while a model is built, and with numbers when it runs. A symbol is a negative number that
//! represents one of Ixion's expressions: it can be copied from an input to an output, passed to `host->dim`, or replaced by
//! `IXION_UNKNOWN`. So one rule serves both cases, as in [`Layer::infer`](crate::op::Layer::infer).

#[doc(hidden)]
pub mod abi;
mod declare;
mod error;
mod export;
mod header;
pub(crate) mod host;
pub(crate) mod layer;
mod library;
mod redzone;
mod table;
pub(crate) mod tensors;
mod text;
mod values;

#[doc(hidden)]
pub use declare::{Constant, Member, Struct};
pub use error::{PluginError, PluginProblem};
#[doc(hidden)]
pub use export::Exported;
#[doc(hidden)]
pub use header::header;
pub use library::Plugin;
