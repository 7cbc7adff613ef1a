//! The labels of axes.

use crate::op::Result;
use ixion_tensor::{Layout, Shape};

/// The label of an axis: its letter, or for axes of `...` the number counted from the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// An axis of `...`, counted from the last one, which is 0.
    Further(usize),
    /// An axis with an ASCII letter; upper and lower case differ.
    Letter(char),
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Further(_) => f.write_str("..."),
            Self::Letter(letter) => write!(f, "{letter}"),
        }
    }
}

/// The labels of axes longer than 1 and the layout of their elements: the diagonal for repeated labels.
pub fn strides_of(labels: &[Label], layout: &Layout) -> Result<(Vec<Label>, Layout)> {
    let (mut kept, mut dims, mut strides) = (Vec::new(), Vec::new(), Vec::<usize>::new());
    for ((label, &len), &stride) in labels.iter().zip(layout.shape().iter()).zip(layout.strides()) {
        match kept.iter().position(|other| other == label) {
            _ if len == 1 => {}
            Some(axis) => strides[axis] = strides[axis].saturating_add(stride),
            None => {
                kept.push(*label);
                dims.push(len);
                strides.push(stride);
            }
        }
    }
    let layout = Layout::strided(Shape::new(&dims)?, &strides, layout.offset())?;
    Ok((kept, layout))
}
