//! ONNX operators as layers, computed by the layers of PyTorch operators.

use super::decomposition::{Decomposition, Source};
use crate::op::{
    Cost, CpuLayer, Entry, ForwardContext, FromOperator, Layer, LayerError, OperatorReader, TensorMeta, View,
};
use crate::support::shape_cache::ShapeCache;
use ixion_tensor::{DType, Layout, Shape, Tensor, TensorView, TensorViewMut};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// An ONNX operator: its attributes, and its decomposition into PyTorch operators.
pub(super) trait Decompose: fmt::Debug + Send + Sync {
    /// Pairs of PyTorch's and ONNX's names of the same parameter, for error messages. Default: none, the names are
    /// equal.
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The number of inputs that the operator accepts. Default: exactly one.
    fn num_inputs(&self) -> RangeInclusive<usize> {
        1..=1
    }

    /// The number of outputs. Default: one.
    fn num_outputs(&self) -> usize {
        1
    }

    /// Returns true if the output shapes depend on values. Default: false.
    fn is_data_dependent(&self) -> bool {
        false
    }

    /// Adds the steps for the inputs of `decomposition`, and returns the sources of the outputs.
    ///
    /// # Errors
    /// Returns an error if the operator does not accept the inputs, or if a value that must be known is not.
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>, LayerError>;
}

/// An ONNX operator as a layer.
#[derive(Debug, Clone)]
struct DecomposedLayer {
    operator: Arc<dyn Decompose>,
    /// The operator's name, which seeds its random numbers.
    name: String,
    ready: ShapeCache<Decomposition>,
}

impl DecomposedLayer {
    fn decomposition(&self, inputs: &[TensorMeta]) -> Result<Decomposition, LayerError> {
        decomposition_of(&*self.operator, &self.name, inputs)
    }

    /// The decomposition for the inputs of this run, cached for later runs with equal inputs.
    fn ready(&mut self, inputs: &[TensorView<'_>]) -> Result<&mut Decomposition, LayerError> {
        let metas = TensorMeta::of_all(inputs);
        let Self { operator, name, ready } = self;
        ready.get_or_make(
            |decomposition| decomposition.fits(&metas),
            || decomposition_of(&**operator, name, &metas),
        )
    }
}

/// Decomposes an operator for these inputs.
fn decomposition_of(
    operator: &dyn Decompose,
    name: &str,
    inputs: &[TensorMeta],
) -> Result<Decomposition, LayerError> {
    let mut decomposition = Decomposition::new(name, inputs);
    let outputs = operator.decompose(&mut decomposition).map_err(|error| renamed(operator, error))?;
    Ok(decomposition.returning(outputs))
}

/// Replaces PyTorch's name of a parameter by ONNX's in an error.
fn renamed(operator: &dyn Decompose, error: LayerError) -> LayerError {
    let names = operator.names();
    let name = |key: &'static str| names.iter().find(|(torch, _)| *torch == key).map_or(key, |pair| pair.1);
    match error {
        LayerError::InvalidParameter { key, found, reason } => {
            LayerError::InvalidParameter { key: name(key), found, reason }
        }
        error => error,
    }
}

impl Layer for DecomposedLayer {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.operator.num_inputs()
    }

    fn num_outputs(&self) -> usize {
        self.operator.num_outputs()
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        self.decomposition(inputs)?.outputs()
    }

    fn view_of(
        &self,
        output: usize,
        inputs: &[(DType, Layout)],
        shape: &Shape,
    ) -> Result<Option<View>, LayerError> {
        let metas: Vec<TensorMeta> = inputs
            .iter()
            .map(|(dtype, layout)| TensorMeta::new(*dtype, layout.shape().iter().copied()))
            .collect();
        // Decomposing may need the values of the inputs, which are unknown here: then there is no view.
        match self.decomposition(&metas) {
            Ok(decomposition) => decomposition.view_of(output, inputs, shape),
            Err(_) => Ok(None),
        }
    }

    fn is_data_dependent(&self) -> bool {
        self.operator.is_data_dependent()
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let macs = self.decomposition(inputs).map_or(0, |decomposition| decomposition.macs());
        Cost::of_moving(inputs, outputs).with_macs(macs)
    }
}

impl CpuLayer for DecomposedLayer {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let result = self.ready(inputs)?.run(inputs, outputs, context.limits());
        result.map_err(|error| renamed(&*self.operator, error))
    }

    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>, LayerError> {
        let result = self.ready(inputs)?.run_dynamic(inputs, context.limits());
        result.map_err(|error| renamed(&*self.operator, error))
    }
}

/// The registry entry of an ONNX operator.
pub(super) const fn entry<T: FromOperator + Decompose + 'static>() -> Entry {
    Entry::made_by::<T>(create::<T>)
}

fn create<T: FromOperator + Decompose + 'static>(
    reader: &mut OperatorReader<'_>,
) -> Result<Box<dyn CpuLayer>, LayerError> {
    match T::from_operator(reader) {
        Ok(operator) => boxed(reader, operator.validate(), Arc::new(operator)),
        Err(error) => Err(error),
    }
}

/// The part of [`create`] that does not depend on the operator's type.
fn boxed(
    reader: &OperatorReader<'_>,
    validated: Result<(), LayerError>,
    operator: Arc<dyn Decompose>,
) -> Result<Box<dyn CpuLayer>, LayerError> {
    // Unknown keys first: a misspelt key may be why another one is missing.
    reader.finish()?;
    validated?;
    Ok(Box::new(DecomposedLayer { operator, name: reader.name().to_owned(), ready: ShapeCache::default() }))
}
