//! Memory: which operand lives how long, and where in one arena it lies.
//!
//! A [`MemoryPlan`] is made for concrete shapes. It says for every operand where its elements are ([`Place`]), and for
//! every operator what is left to do ([`Action`]): views cost nothing, some operators overwrite an input. While the
//! model runs, [`Memory`] lends the tensors of one operator after the other out of an [`Arena`] and the caller's tensors.

pub mod aliases;
mod arena;
mod borrow;
mod climb;
mod error;
mod groups;
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
pub use plan::{Action, Holds, Load, MemoryPlan, Place, Root, Slot, Step};
pub use problem::Problem;
pub use report::MemoryReport;
