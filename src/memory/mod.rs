//! Memory: which operand lives how long, and where in one arena it lies.
//!
//! A [`MemoryPlan`] is made for concrete shapes. It says for every operand where its elements are ([`Place`]), and for
//! every operator what is left to do ([`Action`]): views cost nothing, some operators overwrite an input.

use crate::tensor::{DType, Layout};
use std::ops::Range;

/// The memory that an operand lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// The arena, from this byte on.
    Arena {
        /// The first byte.
        offset: usize,
        /// How many bytes.
        bytes: usize,
    },
    /// The caller's tensor for the input at this position, which is contiguous.
    Input(usize),
    /// The buffer for the output at this position, which is contiguous.
    Output(usize),
    /// A constant: the only output of the operator at this position.
    Constant(usize),
}

/// Where the elements of an operand are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The memory.
    pub root: Root,
    /// The element type.
    pub dtype: DType,
    /// Where the elements lie from the root's first byte on, counted in elements of `dtype`.
    pub layout: Layout,
}

/// What is left to do for an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing: the outputs are views or constants, or the operators before wrote them where they belong.
    Nothing,
    /// [`CpuLayer::forward`](crate::graph::CpuLayer::forward).
    Forward,
    /// [`CpuLayer::forward_in_place`](crate::graph::CpuLayer::forward_in_place) on the input at this position.
    InPlace {
        /// The position of the input.
        input: usize,
    },
    /// Shapes are not known before the operators ahead have run: the operator runs on tensors of its own.
    Dynamic,
}

/// The part of a plan that belongs to one operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What to do.
    pub action: Action,
    /// The bytes of the arena that it may use as scratch memory.
    pub workspace: Range<usize>,
}

/// Where everything lies, for one set of input shapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPlan {
    /// One for each operator of the graph, in its order.
    pub steps: Vec<Step>,
    /// By the operand's position; none for operands that are dynamic.
    pub places: Vec<Option<Place>>,
    /// Outputs (operand's position, output's position) that are to be copied into their buffers after the run: views,
    /// inputs and constants that are returned, and operands that are returned twice.
    pub copies: Vec<(usize, usize)>,
    /// The size of the arena.
    pub arena_bytes: usize,
}
