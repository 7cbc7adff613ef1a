//! What a reader reads, kept for a layer that is created later.

use super::OperatorReader;
use crate::op::{RuntimeAttribute, RuntimeParameter};
use ixion_pnnx::Dim;
use ixion_tensor::DType;
use std::collections::BTreeMap;

/// The parameters, attributes and inputs of an operator, with what the file records of its operands.
#[derive(Debug, Clone)]
pub(in crate::op) struct Owned {
    name: String,
    op_type: String,
    params: BTreeMap<String, RuntimeParameter>,
    attrs: BTreeMap<String, RuntimeAttribute>,
    input_names: Vec<Option<String>>,
    num_outputs: usize,
    /// Of the inputs, and of the outputs.
    shapes: [Vec<Option<Vec<Dim>>>; 2],
    dtypes: [Vec<Option<DType>>; 2],
}

impl OperatorReader<'_> {
    /// Everything that can be read.
    pub(in crate::op) fn to_owned(&self) -> Owned {
        let shapes = |side: &Vec<Option<&[Dim]>>| side.iter().map(|shape| shape.map(<[_]>::to_vec)).collect();
        let mut attrs = self.attrs.clone();
        for attr in attrs.values_mut() {
            *attr = attr.detached();
        }
        Owned {
            name: self.name.to_owned(),
            op_type: self.op_type.to_owned(),
            params: self.params.clone(),
            attrs,
            input_names: self.input_names.to_vec(),
            num_outputs: self.num_outputs,
            shapes: [shapes(&self.shapes[0]), shapes(&self.shapes[1])],
            dtypes: self.dtypes.clone(),
        }
    }
}

impl Owned {
    /// The number of inputs.
    pub(in crate::op) fn num_inputs(&self) -> usize {
        self.input_names.len()
    }

    /// The number of outputs.
    pub(in crate::op) fn num_outputs(&self) -> usize {
        self.num_outputs
    }

    /// The element type and the number of axes that the file records for an output.
    pub(in crate::op) fn output(&self, position: usize) -> Option<(DType, usize)> {
        let dtype = self.dtypes[1].get(position).copied().flatten()?;
        Some((dtype, self.shapes[1].get(position)?.as_ref()?.len()))
    }

    /// The same operator without the inputs at these positions.
    pub(in crate::op) fn without_inputs(&self, positions: &[usize]) -> Self {
        fn kept<T: Clone>(list: &[T], positions: &[usize]) -> Vec<T> {
            let kept = list.iter().enumerate().filter(|(position, _)| !positions.contains(position));
            kept.map(|(_, item)| item.clone()).collect()
        }
        let mut changed = self.clone();
        changed.input_names = kept(&self.input_names, positions);
        changed.shapes[0] = kept(&self.shapes[0], positions);
        changed.dtypes[0] = kept(&self.dtypes[0], positions);
        changed
    }

    /// Sets parameters.
    pub(in crate::op) fn set_params<'k>(
        &mut self,
        params: impl Iterator<Item = (&'k str, RuntimeParameter)>,
    ) {
        self.params.extend(params.map(|(key, value)| (key.to_owned(), value)));
    }

    /// Calls `read` with a reader of this operator.
    pub(in crate::op) fn read<T>(&self, read: impl FnOnce(&mut OperatorReader<'_>) -> T) -> T {
        let [inputs, outputs] = &self.shapes;
        let mut reader = OperatorReader::new(&self.params, &self.attrs, &self.input_names, self.num_outputs)
            .with_name(&self.name)
            .with_op_type(&self.op_type)
            .with_shapes(borrowed(inputs), borrowed(outputs))
            .with_dtypes(self.dtypes[0].clone(), self.dtypes[1].clone());
        read(&mut reader)
    }
}

fn borrowed(shapes: &[Option<Vec<Dim>>]) -> Vec<Option<&[Dim]>> {
    shapes.iter().map(Option::as_deref).collect()
}
