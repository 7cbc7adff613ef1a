//! Memory planning: the lifetime of every operand, and its place in a single arena.
//!
//! A [`MemoryPlan`] is created for concrete shapes. It gives the location of every operand's elements ([`Place`]) and what is
//! left to do for every operator ([`Action`]): views cost nothing, and some operators overwrite an input. While the model
//! runs, [`Memory`] lends each operator its tensors out of an [`Arena`] and the caller's tensors.

pub mod aliases;
mod arena;
mod borrow;
mod error;
mod groups;
mod local_search;
mod offsets;
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

pub use arena::Arena;
pub use borrow::{Borrowed, InputBinding, Memory};
pub use error::MemoryError;
pub use plan::{Holds, Load, MemoryPlan, Place, Root, Slot, Step};
pub use problem::Problem;
pub use report::MemoryReport;
pub use values::Action;
