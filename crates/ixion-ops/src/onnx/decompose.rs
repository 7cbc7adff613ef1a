//! ONNX operators as layers, computed by the layers of PyTorch operators.

use super::decomposition::Decomposition;
use super::lowering::{Lowered, Source};
use crate::op::{
    Cost, CpuLayer, Entry, ForwardContext, FromOperator, Io, Layer, LayerError, OperatorReader, Result,
    TensorMeta, View, exactly,
};
use crate::support::shape_cache::ShapeCache;
use ixion_tensor::{DType, Layout, Shape, Tensor, TensorView};
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

    /// The number of inputs that the operator accepts. Default: the first one and those that the fields take.
    fn num_inputs(&self) -> Option<RangeInclusive<usize>> {
        None
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
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>>;
}

/// An ONNX operator as a layer.
#[derive(Debug, Clone)]
struct DecomposedLayer {
    operator: Arc<dyn Decompose>,
    /// The operator's name, which seeds its random numbers.
    name: String,
    inputs: RangeInclusive<usize>,
    ready: ShapeCache<Decomposition>,
}

impl DecomposedLayer {
    /// The operator as ordinary operators; `None` if a file cannot name all of them.
    fn lower(&self, inputs: &[TensorMeta]) -> Result<Option<Lowered>> {
        let mut decomposition = Decomposition::new(&self.name, inputs).recording();
        let outputs = self.operator.decompose(&mut decomposition);
        let outputs = outputs.map_err(|error| renamed(&*self.operator, error))?;
        Ok(decomposition.recorded().map(|operators| Lowered { operators, outputs }))
    }

    fn decomposition(&self, inputs: &[TensorMeta]) -> Result<Decomposition> {
        decomposition_of(&*self.operator, &self.name, inputs)
    }

    /// The decomposition for the inputs of this run, cached for later runs with equal inputs.
    fn ready(&mut self, inputs: &[TensorView<'_>]) -> Result<&mut Decomposition> {
        let metas = TensorMeta::of_all(inputs);
        let Self { operator, name, ready, .. } = self;
        ready.get_or_make(
            |decomposition| decomposition.fits(&metas),
            || decomposition_of(&**operator, name, &metas),
        )
    }
}

/// Decomposes an operator for these inputs.
fn decomposition_of(operator: &dyn Decompose, name: &str, inputs: &[TensorMeta]) -> Result<Decomposition> {
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
        self.inputs.clone()
    }

    fn num_outputs(&self) -> usize {
        self.operator.num_outputs()
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.decomposition(inputs)?.outputs()
    }

    fn view_of(&self, output: usize, inputs: &[(DType, Layout)], shape: &Shape) -> Result<Option<View>> {
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
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let result = self.ready(io.inputs)?.run(io.inputs, io.outputs, io.context.limits());
        result.map_err(|error| renamed(&*self.operator, error))
    }

    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>> {
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
) -> Result<Box<dyn CpuLayer>> {
    match T::from_operator(reader) {
        Ok(operator) => {
            let inputs = 1 + operator.field_inputs();
            let validated = if T::VALIDATES { operator.validate() } else { Ok(()) };
            boxed(reader, validated, Arc::new(operator), inputs)
        }
        Err(error) => Err(error),
    }
}

/// The part of [`create`] that does not depend on the operator's type. `inputs` is the usual number of inputs.
fn boxed(
    reader: &OperatorReader<'_>,
    validated: Result<()>,
    operator: Arc<dyn Decompose>,
    inputs: usize,
) -> Result<Box<dyn CpuLayer>> {
    // Unknown keys first: a misspelt key may be why another one is missing.
    reader.finish()?;
    validated?;
    let name = reader.name().to_owned();
    let inputs = operator.num_inputs().unwrap_or(exactly(inputs));
    Ok(Box::new(DecomposedLayer { operator, name, inputs, ready: ShapeCache::default() }))
}

/// Decomposes an ONNX operator for inputs of these types and dimensions, which may be symbolic. `None` if the layer is not an
/// ONNX operator, or if a part of it is not an operator that a file can name.
///
/// # Errors
/// As [`Layer::infer`](crate::op::Layer::infer): the operator does not accept the inputs.
pub fn lower(layer: &dyn CpuLayer, inputs: &[TensorMeta]) -> Result<Option<Lowered>> {
    match layer.as_any().downcast_ref::<DecomposedLayer>() {
        Some(layer) => layer.lower(inputs),
        None => Ok(None),
    }
}
