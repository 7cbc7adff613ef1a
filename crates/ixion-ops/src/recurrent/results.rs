//! The shapes that a file records, by which the results of a recurrent network are told apart.

use crate::op::{FieldValue, OperatorReader, Result};
use ixion_pnnx::Dim;
use ixion_pnnx::recurrent::{Network, Part};

/// The shapes that the file records for the operator's outputs and its first input.
#[derive(Debug, Clone)]
pub struct Recorded {
    input: Option<Vec<Dim>>,
    outputs: Vec<Option<Vec<Dim>>>,
}

impl FieldValue for Recorded {
    const KIND: &'static str = crate::op::NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        let owned = |shape: Option<&[Dim]>| shape.map(<[Dim]>::to_vec);
        let outputs = (0..reader.num_outputs()).map(|position| owned(reader.output_shape(position)));
        Ok(Some(Self { outputs: outputs.collect(), input: owned(reader.input_shape(0)) }))
    }
}

impl Recorded {
    /// The shape of the first input.
    pub(super) fn input(&self) -> Option<&[Dim]> {
        self.input.as_deref()
    }

    /// The results of a network that the operator's outputs hold, in their order; `None` if there are too many or too few
    /// outputs.
    pub(super) fn parts(&self, network: Network<'_>) -> Option<&'static [Part]> {
        let outputs: Vec<Option<&[Dim]>> = self.outputs.iter().map(Option::as_deref).collect();
        network.parts(&outputs)
    }

    /// The number of the operator's outputs.
    pub(super) fn count(&self) -> usize {
        self.outputs.len()
    }
}
