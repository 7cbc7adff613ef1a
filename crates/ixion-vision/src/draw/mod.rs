//! Drawing of results on a copy of the picture.

mod boxes;
mod canvas;
mod mask;
mod text;

pub use boxes::draw_detections;
pub use mask::draw_mask;

#[cfg(test)]
mod tests;
