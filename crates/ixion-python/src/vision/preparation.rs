//! How pictures become an input: as the card says, in the size and the element type of the model.

use ixion::pnnx::Dim;
use ixion::tensor::{DType, Preprocess, Tensor, TensorError};
use ixion::vision::{Frame, ModelCard};
use ixion::{Limits, Picture};

/// The preparation of pictures for an input.
pub(crate) struct Preparation {
    rule: Preprocess,
    dtype: DType,
    /// Whether the input has no batch axis.
    is_single: bool,
}

impl Preparation {
    /// The preparation that a card describes, for an input with these axes. What the card leaves open is that of the input.
    pub(crate) fn new(card: &ModelCard, dims: &[Dim], dtype: Option<DType>) -> Self {
        let mut rule = card.input.clone().unwrap_or_default();
        rule.size = rule.size.or(size(dims));
        Self { rule, dtype: dtype.unwrap_or(DType::F32), is_single: dims.len() == 3 }
    }

    /// Returns true if the input has no batch axis.
    pub(crate) fn is_single(&self) -> bool {
        self.is_single
    }

    /// A tensor of 1 × channels × height × width, also for an input without a batch axis, and the place of the picture in it.
    ///
    /// # Errors
    /// Fails if the size exceeds the limits.
    pub(crate) fn prepare(&self, picture: &Picture, limits: &Limits) -> Result<(Tensor, Frame), TensorError> {
        let (tensor, frame) = Frame::prepare(&self.rule, picture, limits)?;
        Ok((tensor.cast(self.dtype)?, frame))
    }
}

/// A length that the file fixes, unless it is 0.
pub(super) fn fixed(dim: &Dim) -> Option<usize> {
    match dim {
        Dim::Fixed(length) => usize::try_from(*length).ok().filter(|length| *length > 0),
        _ => None,
    }
}

/// Height and width, if the file fixes them.
fn size(dims: &[Dim]) -> Option<[usize; 2]> {
    let ([_, height, width] | [_, _, height, width]) = dims else {
        return None;
    };
    Some([fixed(height)?, fixed(width)?])
}
