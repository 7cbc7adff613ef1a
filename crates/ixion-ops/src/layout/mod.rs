//! Reshaping, reordering, slicing, joining and padding tensors.

pub mod axes;
pub mod combining;
pub mod concatenation;
pub mod diagonals;
pub mod identity;
pub mod movement;
pub mod padding;
pub mod parts;
pub mod repetition;
pub mod reshaping;
pub mod shuffling;
pub mod slicing;
pub mod splitting;
pub mod stacking;
pub mod striding;

operators! {
    of axes, combining, concatenation, diagonals, identity, movement, padding, parts, repetition, reshaping,
    shuffling, slicing, splitting, stacking, striding; category Shape
}
