//! Arithmetic on stored weights, for passes that fold one operator into another.

use crate::passes::matched;
use crate::pnnx::{Attribute, Graph, OperandId};
use crate::tensor::{DType, Tensor};

/// The elements of a float weight. `None` if the type is not a float, or if the weight is missing: a graph may lack weights.
pub(super) fn numbers(attribute: &Attribute) -> Option<Vec<f64>> {
    if !attribute.dtype().is_float() || !attribute.is_present() {
        return None;
    }
    let bytes = attribute.bytes().ok()?;
    let tensor = Tensor::from_le_bytes(attribute.dtype(), attribute.shape(), &bytes).ok()?;
    tensor.cast(DType::F64).ok()?.to_vec::<f64>().ok()
}

/// A weight of these numbers, rounded once to the element type. `None` if the type is not a float, or if a number would
/// overflow or, in half precision, become subnormal.
pub(super) fn attribute(dtype: DType, shape: &[usize], numbers: &[f64]) -> Option<Attribute> {
    let (smallest, largest) = match dtype {
        DType::F64 => (f64::MIN_POSITIVE, f64::MAX),
        DType::F32 => (f32::MIN_POSITIVE.into(), f32::MAX.into()),
        DType::Bf16 => (half::bf16::MIN_POSITIVE.to_f64(), half::bf16::MAX.to_f64()),
        DType::F16 => (half::f16::MIN_POSITIVE.to_f64(), half::f16::MAX.to_f64()),
        _ => return None,
    };
    let is_half = matches!(dtype, DType::F16 | DType::Bf16);
    let holds = |&number: &f64| {
        let size = number.abs();
        size == 0.0 || (size <= largest && (size >= smallest || !is_half))
    };
    if !numbers.iter().all(holds) {
        return None;
    }
    let tensor = Tensor::from_vec(numbers.to_vec(), shape).ok()?.cast(dtype).ok()?;
    Attribute::new(dtype, shape.to_vec(), tensor.to_le_bytes().ok()?).ok()
}

/// The stored tensor of a constant operand, if its elements are present.
pub(super) fn constant(graph: &Graph, operand: OperandId) -> Option<&Attribute> {
    matched::constant(graph, operand).filter(|stored| stored.is_present())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_a_round_trip() {
        for dtype in [DType::F64, DType::F32, DType::F16, DType::Bf16] {
            let values = [1.5, -0.25, 0.0, 96.0];
            let weight = attribute(dtype, &[2, 2], &values).unwrap();
            assert_eq!((weight.dtype(), weight.shape()), (dtype, &[2, 2][..]));
            assert_eq!(numbers(&weight).unwrap(), values);
        }
    }

    #[test]
    fn numbers_that_an_element_type_cannot_represent_are_refused() {
        assert!(attribute(DType::F16, &[1], &[1e5]).is_none());
        assert!(attribute(DType::F16, &[1], &[1e-6]).is_none());
        assert!(attribute(DType::Bf16, &[1], &[1e5]).is_some());
        assert!(attribute(DType::F32, &[1], &[1e39]).is_none());
        assert!(attribute(DType::F32, &[1], &[f64::NAN]).is_none());
        assert!(attribute(DType::F64, &[1], &[f64::INFINITY]).is_none());
        assert!(attribute(DType::I64, &[1], &[1.0]).is_none());
    }

    #[test]
    fn weights_without_float_numbers_are_refused() {
        assert!(numbers(&Attribute::new(DType::I32, vec![1], vec![0; 4]).unwrap()).is_none());
        let text = "7767517\n1 1\npnnx.Attribute w 0 1 x @data=(2)f32\n";
        let graph = Graph::parse(text, &crate::Limits::default()).unwrap();
        let operand = graph.operand_named("x").unwrap();
        assert!(constant(&graph, operand).is_none());
        assert!(numbers(graph.operators().next().unwrap().1.attr("data").unwrap()).is_none());
    }
}
