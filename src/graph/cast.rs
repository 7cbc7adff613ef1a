//! Casting operators to another element type, by creating their layers again with weights of that type.

use super::RuntimeGraph;
use super::operator::{OperandIndex, OperatorIndex, RuntimeOperator};
use crate::op::{
    CpuLayer, Creator, LayerError, OperatorReader, RuntimeAttribute, RuntimeParameter, WeightSource,
};
use crate::pnnx::{self, Expr, Value};
use crate::tensor::{DType, Tensor};
use std::collections::BTreeMap;

type Attributes = BTreeMap<String, RuntimeAttribute>;

impl RuntimeGraph {
    /// The layer of an operator with its f32 weights and tensors cast to this type, as after `module.to(dtype)` in PyTorch.
    /// Plugins keep their weights: they state themselves which types they support.
    ///
    /// # Errors
    /// Returns an error if the layer cannot be created.
    pub(crate) fn cast_layer(
        &self,
        operator: &RuntimeOperator,
        dtype: DType,
    ) -> Result<Option<Box<dyn CpuLayer>>, LayerError> {
        let Some(creator) = self.caster(operator) else { return Ok(operator.layer.clone()) };
        let cast = |(key, weight): (&String, &RuntimeAttribute)| {
            let is_f32 = weight.dtype() == DType::F32;
            (key.clone(), if is_f32 { weight.cast(dtype) } else { weight.clone() })
        };
        let mut attrs = Attributes::new();
        attrs.extend(operator.attrs.iter().map(cast));
        self.created(operator, creator, &attrs, dtype).map(Some)
    }

    /// Gives an operator the layer of [`RuntimeGraph::cast_layer`], and stores the cast weights in the file's graph. Logs a
    /// warning if one of its constants becomes infinite.
    ///
    /// # Errors
    /// Returns an error if weights cannot be read or the layer cannot be created.
    pub(crate) fn cast_operator(&mut self, index: OperatorIndex, dtype: DType) -> Result<(), LayerError> {
        let operator = &self.operators[index.position()];
        if let Some(creator) = self.caster(operator) {
            let (mut attrs, mut weights) = (BTreeMap::new(), Attributes::new());
            let mut large = operator.params.iter().find_map(|(key, parameter)| large_number(key, parameter));
            for (key, weight) in &operator.attrs {
                let narrowed = narrowed(weight, dtype, &mut large)?;
                weights.insert(key.clone(), RuntimeAttribute::from_file(narrowed.clone()));
                attrs.insert(key.clone(), narrowed);
            }
            if let (Some(large), DType::F16) = (large, dtype) {
                let (op_type, name) = (operator.op_type(), operator.name());
                log::warn!(
                    "{op_type} `{name}` computes in f16, in which its constant {large:e} is infinite; allow bf16 instead, which has the range of f32"
                );
            }
            let layer = self.created(operator, creator, &weights, dtype)?;
            let operator = &mut self.operators[index.position()];
            (operator.attrs, operator.layer) = (weights, Some(layer));
            self.store(index, attrs)?;
        }
        self.hint(index, dtype)
    }

    /// The creator of a layer that computes in the type of its weights; `None` for plugins.
    fn caster(&self, operator: &RuntimeOperator) -> Option<&Creator> {
        let creator = self.registry().known(operator.op_type())?;
        (creator.namespace == Creator::<dyn CpuLayer>::BUILT_IN).then_some(creator)
    }

    fn created(
        &self,
        operator: &RuntimeOperator,
        creator: &Creator,
        attrs: &Attributes,
        dtype: DType,
    ) -> Result<Box<dyn CpuLayer>, LayerError> {
        let shapes =
            |operands: &[OperandIndex]| operands.iter().map(|&it| self.operand(it).shape()).collect();
        let cast = |found: DType| if found == DType::F32 { dtype } else { found };
        let dtypes = |operands: &[OperandIndex]| {
            operands.iter().map(|&it| self.operand(it).dtype().map(cast)).collect()
        };
        let count = operator.outputs.len();
        let reader = OperatorReader::new(&operator.params, attrs, &operator.input_names, count)
            .with_name(operator.name())
            .with_op_type(operator.op_type())
            .with_shapes(shapes(&operator.inputs), shapes(&operator.outputs))
            .with_dtypes(dtypes(&operator.inputs), dtypes(&operator.outputs));
        creator.create(reader)
    }

    /// Stores weights in the file's graph, so that they are saved with it.
    fn store(
        &mut self,
        index: OperatorIndex,
        attrs: BTreeMap<String, pnnx::Attribute>,
    ) -> Result<(), LayerError> {
        let (Some(file), operator) = (&mut self.file, &self.operators[index.position()]) else {
            return Ok(());
        };
        let Some(id) = file.operator_named(operator.name()) else { return Ok(()) };
        for (key, weight) in attrs {
            file.set_attribute(id, &key, weight).map_err(unchanged)?;
        }
        Ok(())
    }

    /// Records the type of f32 outputs, here and in the file's graph.
    fn hint(&mut self, index: OperatorIndex, dtype: DType) -> Result<(), LayerError> {
        for output in self.operators[index.position()].outputs.clone() {
            let operand = &mut self.operands[output.position()];
            if operand.dtype != Some(DType::F32) {
                continue;
            }
            operand.dtype = Some(dtype);
            let Some(file) = &mut self.file else { continue };
            if let Some(id) = file.operand_named(&operand.name) {
                let shape = file.operand(id).shape().map(<[_]>::to_vec);
                file.set_operand_type(id, Some(dtype), shape).map_err(unchanged)?;
            }
        }
        Ok(())
    }
}

fn unchanged(error: pnnx::GraphError) -> LayerError {
    LayerError::Unsupported(error.to_string())
}

/// Returns true for a number that f16 rounds to an infinity.
fn is_large(number: &f64) -> bool {
    // Half a unit above the largest number, 65504.
    number.is_finite() && number.abs() >= 65520.0
}

/// A number of a parameter that is infinite in f16. Integers count in expressions only, as others are sizes and positions.
fn large_number(key: &str, parameter: &RuntimeParameter) -> Option<f64> {
    match (key, parameter.value()) {
        ("expr" | "epilogue", _) => {
            let expr = Expr::parse(parameter.raw()).ok()?;
            let mut large = None;
            expr.walk(&mut |part| {
                let number = match part {
                    Expr::Int(number) => *number as f64,
                    Expr::Float(number) => *number,
                    _ => return,
                };
                large = large.or(Some(number).filter(is_large));
            });
            large
        }
        (_, Value::Float(number)) => Some(*number).filter(is_large),
        (_, Value::Floats(numbers)) => numbers.iter().copied().find(is_large),
        _ => None,
    }
}

/// An element of an f32 tensor that is infinite in f16.
fn large_element(values: &Tensor) -> Result<Option<f64>, LayerError> {
    let array = values.array::<f32>()?;
    Ok(array.iter().map(|&element| f64::from(element)).find(is_large))
}

/// A weight as an attribute of a file, with f32 elements rounded to `dtype`. If an element is infinite in f16, it is stored in
/// `large`.
fn narrowed(
    weight: &RuntimeAttribute,
    dtype: DType,
    large: &mut Option<f64>,
) -> Result<pnnx::Attribute, LayerError> {
    let detached = weight.detached();
    if let (true, WeightSource::File(attribute)) = (weight.dtype() != DType::F32, detached.source()) {
        return Ok(attribute.clone());
    }
    let values = detached.decode()?;
    if large.is_none() && (values.dtype(), dtype) == (DType::F32, DType::F16) {
        *large = large_element(values)?;
    }
    let values = if values.dtype() == DType::F32 { values.cast(dtype)? } else { values.clone() };
    Ok(pnnx::Attribute::new(values.dtype(), weight.shape().to_vec(), values.to_le_bytes()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_beyond_f16_are_found() {
        let large = |key: &str, raw: &str| large_number(key, &RuntimeParameter::parse(raw));
        assert_eq!(large("expr", "add(mul(@0,0.5),1e10)"), Some(1e10));
        assert_eq!(large("epilogue", "clamp(@0,-70000,6)"), Some(-70000.0));
        assert_eq!(large("value", "-1.0e9"), Some(-1e9));
        assert_eq!(large("value", "65504.0"), None);
        assert_eq!(large("value", "-inf"), None);
        assert_eq!(large("end", "2147483647"), None);
        let values = Tensor::from_vec(vec![1.0f32, f32::INFINITY, 65519.0, -65520.0], &[2, 2]).unwrap();
        assert_eq!(large_element(&values).unwrap(), Some(-65520.0));
        assert_eq!(large_element(&values.narrow(0, 0, 1).unwrap()).unwrap(), None);
    }
}
