//! Plugins from shared libraries, through a small C ABI.
//!
//! A library has one symbol, `ixion_plugin`, behind which is a table of operators: what is published of each, and its
//! functions. [`Plugin::load`] reads it, checks it, and gives creators for a [`Registry`](crate::op::Registry); after that
//! nobody can tell these layers from others. The header is `include/ixion_plugin.h`, written from [`abi`], and the book's
//! page "Plugins in C" explains it. A crate of layers in Rust becomes such a library by
//! [`export_plugins!`](crate::export_plugins).
//!
//! # What is checked
//!
//! Version and sizes of the table, names (UTF-8, at most 1,024 bytes), fields and their fallbacks, null pointers; every value
//! of a field; the number, types, ranks and lengths of what `infer` returns; formats, before `configure`; sizes of scratch
//! memory and state against the [`Limits`](crate::Limits), and that nothing was written just behind them; that truth values
//! are 0 or 1. What a plugin says of a failure becomes the error. A library that writes elsewhere, or crashes, takes the
//! process along: load only what you trust.
//!
//! # Lengths that are not known
//!
//! `infer` is called with symbols while a model is built, and with numbers when it runs. A symbol is a negative number that
//! stands for an expression of Ixion's own: it can be copied from an input to an output, computed with by `host->dim`, or
//! given up for `IXION_UNKNOWN`. So one rule serves for both, as in [`Layer::infer`](crate::op::Layer::infer).

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
mod values;

pub use declare::{Constant, Member, Struct};
pub use error::{PluginError, PluginProblem};
pub use export::Exported;
pub use header::header;
pub use library::Plugin;
