//! Casting operators to another element type, by creating their layers again with weights of that type.

use super::RuntimeGraph;
use super::operator::{OperandIndex, OperatorIndex, RuntimeOperator};
use crate::op::{CpuLayer, Creator, LayerError, OperatorReader, RuntimeAttribute, WeightSource};
use crate::pnnx;
use crate::tensor::DType;
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

    /// Gives an operator the layer of [`RuntimeGraph::cast_layer`], and stores the cast weights in the file's graph.
    ///
    /// # Errors
    /// Returns an error if weights cannot be read or the layer cannot be created.
    pub(crate) fn cast_operator(&mut self, index: OperatorIndex, dtype: DType) -> Result<(), LayerError> {
        let operator = &self.operators[index.position()];
        if let Some(creator) = self.caster(operator) {
            let (mut attrs, mut weights) = (BTreeMap::new(), Attributes::new());
            for (key, weight) in &operator.attrs {
                let narrowed = narrowed(weight, dtype)?;
                weights.insert(key.clone(), RuntimeAttribute::from_file(narrowed.clone()));
                attrs.insert(key.clone(), narrowed);
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

/// A weight as an attribute of a file, with f32 elements rounded to `dtype`.
fn narrowed(weight: &RuntimeAttribute, dtype: DType) -> Result<pnnx::Attribute, LayerError> {
    let detached = weight.detached();
    if let (true, WeightSource::File(attribute)) = (weight.dtype() != DType::F32, detached.source()) {
        return Ok(attribute.clone());
    }
    let values = detached.decode()?;
    let values = if values.dtype() == DType::F32 { values.cast(dtype)? } else { values.clone() };
    Ok(pnnx::Attribute::new(values.dtype(), weight.shape().to_vec(), values.to_le_bytes()?)?)
}
