//! Weights of layers, stored or computed.

use super::reader::{FieldValue, OperatorReader, Written};
use super::{LayerError, Result, RuntimeAttribute, RuntimeParameter, TensorMeta, scales_key};
use ixion_tensor::{DType, TensorView};

/// A weight of a layer: an attribute of the operator (as in `nn.Conv2d`) or one of its inputs (as in `F.conv2d`).
#[derive(Debug, Clone)]
pub enum Weight {
    /// Stored in the model file.
    Attribute(RuntimeAttribute),
    /// Computed by the graph: the position of the input.
    Input(usize),
}

impl Weight {
    /// The weight's elements, given the inputs of this run.
    ///
    /// # Errors
    /// [`LayerError::Weight`] if the attribute cannot be read, [`LayerError::InputCount`] if the input does not exist.
    pub fn view<'a>(&'a self, inputs: &[TensorView<'a>]) -> Result<TensorView<'a>> {
        match self {
            Weight::Attribute(attribute) => Ok(attribute.decode()?.view()),
            Weight::Input(position) => inputs
                .get(*position)
                .copied()
                .ok_or_else(|| LayerError::missing_input(*position, inputs.len())),
        }
    }

    /// The weight's element type and dimensions, given the metadata of the inputs.
    ///
    /// # Errors
    /// [`LayerError::InputCount`] if the input does not exist.
    pub fn meta(&self, inputs: &[TensorMeta]) -> Result<TensorMeta> {
        match self {
            Weight::Attribute(attribute) => {
                Ok(TensorMeta::new(attribute.dtype(), attribute.shape().iter().copied()))
            }
            Weight::Input(position) => inputs
                .get(*position)
                .cloned()
                .ok_or_else(|| LayerError::missing_input(*position, inputs.len())),
        }
    }

    /// The number of inputs of the operator that this weight takes: 0 or 1.
    pub fn num_inputs(&self) -> usize {
        usize::from(matches!(self, Weight::Input(_)))
    }
}

impl FieldValue for Weight {
    const KIND: &'static str = "a weight";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        if let Some(attribute) = reader.attr(key) {
            return Ok(Some(Weight::Attribute(with_stored_scales(attribute, reader, key))));
        }
        Ok(reader.later_input(key)?.map(Weight::Input))
    }

    fn require(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Self> {
        Self::read(reader, key)?.ok_or_else(|| LayerError::MissingWeight { key: key.to_owned() })
    }

    fn num_inputs(&self) -> usize {
        Weight::num_inputs(self)
    }

    fn written(&self) -> Written {
        match self {
            Weight::Input(position) => Written::Input(*position),
            Weight::Attribute(_) => Written::Unwritable,
        }
    }
}

/// The weight itself, or the `f32` weight that a plan stores as these int8 values and scales.
fn with_stored_scales(
    attribute: RuntimeAttribute,
    reader: &mut OperatorReader<'_>,
    key: &str,
) -> RuntimeAttribute {
    let scales = (attribute.dtype() == DType::I8).then(|| reader.attr(scales_key(key))).flatten();
    match scales {
        Some(scales) => attribute.with_scales(&scales),
        None => attribute,
    }
}

/// A weight that may be absent. Functional operators mark absence with `key=None`; modules have no attribute with that key,
/// and sometimes a flag of the same name (`bias=False`).
impl FieldValue for Option<Weight> {
    const KIND: &'static str = "a weight or None";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        let (flag, attribute) = (reader.param(key).map(RuntimeParameter::raw), reader.attr(key));
        match (flag, attribute) {
            (None | Some("True" | "False" | "None"), Some(attribute)) => {
                Ok(Some(Some(Weight::Attribute(attribute))))
            }
            (Some("None" | "False"), None) => Ok(Some(None)),
            (Some("True"), None) => Err(LayerError::MissingWeight { key: key.to_owned() }),
            (Some(other), _) => Err(LayerError::WrongParameter {
                key: key.to_owned(),
                wanted: "a weight, None or False".to_owned(),
                found: other.to_owned(),
            }),
            (None, None) => Ok(Some(reader.later_input(key)?.map(Weight::Input))),
        }
    }

    fn num_inputs(&self) -> usize {
        self.as_ref().map_or(0, Weight::num_inputs)
    }

    fn written(&self) -> Written {
        self.as_ref().map_or_else(Written::none, Weight::written)
    }
}

#[cfg(test)]
mod tests {
    use super::super::reader::tests::{Source, source};
    use super::*;

    #[test]
    fn weights_are_attributes_or_named_or_unnamed_inputs() {
        let position = |source: &Source, key| match Weight::require(&mut source.reader(), key).unwrap() {
            Weight::Input(position) => Some(position),
            Weight::Attribute(_) => None,
        };
        assert_eq!(position(&source(&[], &["weight"], &[None]), "weight"), None);
        assert_eq!(
            position(&source(&[], &[], &[Some("input"), Some("bias"), Some("weight")]), "weight"),
            Some(2)
        );
        assert_eq!(position(&source(&[], &[], &[None, None]), "weight"), Some(1));
        assert!(Weight::require(&mut source(&[], &[], &[None]).reader(), "weight").is_err());
        let first = source(&[], &[], &[Some("weight"), Some("input")]);
        assert!(matches!(
            Weight::require(&mut first.reader(), "weight"),
            Err(LayerError::InvalidParameter { .. })
        ));
    }

    #[test]
    fn an_optional_weight_may_be_absent_but_not_missing() {
        let optional = |source: &Source| Option::<Weight>::require(&mut source.reader(), "bias");
        assert!(optional(&source(&[("bias", "None")], &[], &[None, None])).unwrap().is_none());
        assert!(optional(&source(&[("bias", "False")], &[], &[None])).unwrap().is_none());
        assert!(optional(&source(&[], &[], &[None])).unwrap().is_none());
        assert!(optional(&source(&[("bias", "True")], &["bias"], &[None])).unwrap().is_some());
        assert!(matches!(
            optional(&source(&[("bias", "True")], &[], &[None])),
            Err(LayerError::MissingWeight { .. })
        ));
    }
}
