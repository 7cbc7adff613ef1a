//! Memory planning: the lifetime of every operand, and its place in a single arena.
//!
//! A [`MemoryPlan`] is created for concrete shapes. It gives the location of every operand's elements ([`Place`]) and what is
//! left to do for every operator ([`Action`]): views cost nothing, and some operators overwrite an input. While the model
//! runs, each operator is lent its tensors out of one arena and the caller's tensors.

#[doc(hidden)]
pub mod aliases;
mod arena;
mod borrow;
mod error;
mod groups;
mod local_search;
mod offsets;
#[doc(hidden)]
pub mod packing;
mod plan;
mod problem;
mod report;
mod reuse;
mod sharing;
mod values;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub(crate) use arena::Arena;
pub(crate) use borrow::{InputBinding, Memory};
pub use error::MemoryError;
pub use plan::{Holds, Load, MemoryPlan, Place, Root, Slot, Step};
#[doc(hidden)]
pub use problem::Problem;
pub use report::MemoryReport;
pub use values::Action;
