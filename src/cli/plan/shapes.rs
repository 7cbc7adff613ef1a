//! The shapes that a model is planned for.

use crate::cli::Failure;
use crate::cli::run::port::{Port, ports, position, too_many};
use ixion::graph::RuntimeGraph;
use ixion::op::TensorMeta;
use ixion::pnnx::Dim;
use ixion::tensor::DType;

/// `[NAME=]DIMS` on the command line, optionally with an element type after a colon, for files without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InputShape {
    name: Option<String>,
    dims: Vec<i64>,
    dtype: Option<DType>,
}

impl InputShape {
    /// Parses `x=1,3,224,224`, `1,3,224,224` or `x=2,16:i64`. No lengths mean a scalar.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wanted = || "expected lengths, such as x=1,3,224,224 or x=2,16:i64".to_owned();
        let (name, rest) = match text.rsplit_once('=') {
            Some((name, rest)) => (Some(name.to_owned()), rest),
            None => (None, text),
        };
        let (dims, dtype) = match rest.split_once(':') {
            Some((dims, dtype)) => (dims, Some(DType::from_name(dtype.trim()).ok_or_else(wanted)?)),
            None => (rest, None),
        };
        let len = |len: &str| len.trim().parse::<u32>().map(i64::from).map_err(|_| wanted());
        let dims = match dims.trim() {
            "" => Vec::new(),
            dims => dims.split(',').map(len).collect::<Result<_, _>>()?,
        };
        Ok(Self { name, dims, dtype })
    }
}

/// The types and shapes of the inputs: as given, else as in the file, with 1 for unknown sizes.
pub(super) fn metas(graph: &RuntimeGraph, given: &[InputShape]) -> Result<Vec<TensorMeta>, Failure> {
    let ports = ports(graph);
    let mut found: Vec<Option<&InputShape>> = vec![None; ports.len()];
    for shape in given {
        let at = match &shape.name {
            Some(name) => position(&ports, name)?,
            None => found.iter().position(Option::is_none).ok_or_else(|| too_many(&ports, given.len()))?,
        };
        if let Some(slot) = found.get_mut(at) {
            if slot.is_some() {
                return Err(Failure::unusable(format!("the shape of input {at} was given twice")));
            }
            *slot = Some(shape);
        }
    }
    ports.iter().zip(found).map(|(port, given)| meta(port, given)).collect()
}

fn meta(port: &Port, given: Option<&InputShape>) -> Result<TensorMeta, Failure> {
    let name = &port.name;
    let dtype = given.and_then(|given| given.dtype).or(port.dtype);
    let advice = |example: &str| format!("give it with --input-shape, such as {name}={example}");
    let dtype = dtype.ok_or_else(|| {
        Failure::unusable(format!("the file does not specify the element type of input `{name}`"))
            .advise(advice("1,16:f32"))
    })?;
    if let Some(given) = given {
        return Ok(TensorMeta::new(dtype, given.dims.iter().copied()));
    }
    let dims = port.shape.as_ref().ok_or_else(|| {
        Failure::unusable(format!("the file does not specify the shape of input `{name}`"))
            .advise(advice("1,16"))
    })?;
    let len = |dim: &Dim| match dim {
        Dim::Fixed(len) => i64::try_from(*len).unwrap_or(i64::MAX),
        _ => 1,
    };
    Ok(TensorMeta::new(dtype, dims.iter().map(len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_names_lengths_and_types() {
        let shape = |name: Option<&str>, dims: &[i64], dtype| {
            Ok(InputShape { name: name.map(str::to_owned), dims: dims.to_vec(), dtype })
        };
        assert_eq!(InputShape::parse("x=1,3,224,224"), shape(Some("x"), &[1, 3, 224, 224], None));
        assert_eq!(InputShape::parse(" 2, 16 :i64"), shape(None, &[2, 16], Some(DType::I64)));
        assert_eq!(InputShape::parse("a=b="), shape(Some("a=b"), &[], None));
        for wrong in ["x=1,-1", "x=a", "1,,2", "2:float", "9999999999999"] {
            assert!(InputShape::parse(wrong).unwrap_err().contains("expected lengths"), "{wrong}");
        }
    }
}
