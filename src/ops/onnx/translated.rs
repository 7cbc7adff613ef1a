//! A layer of ONNX, which is computed by layers of PyTorch.

use super::recipe::{Recipe, Source};
use crate::op::{
    Cost, CpuLayer, Entry, ForwardContext, FromOperator, Layer, LayerError, OperatorReader, TensorMeta, View,
};
use crate::ops::support::ready::Ready;
use crate::tensor::{DType, Layout, Shape, Tensor, TensorView, TensorViewMut};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// An operator of ONNX: its attributes, and what it is in terms of PyTorch's operators.
pub(super) trait Translate: fmt::Debug + Send + Sync {
    /// What PyTorch's operators call the parameters, and what ONNX calls them: for errors. Default: the same.
    fn names(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// How many inputs the operator takes. Default: exactly one.
    fn num_inputs(&self) -> RangeInclusive<usize> {
        1..=1
    }

    /// How many outputs the operator makes. Default: one.
    fn num_outputs(&self) -> usize {
        1
    }

    /// Whether the sizes of the outputs depend on values. Default: false.
    fn is_data_dependent(&self) -> bool {
        false
    }

    /// Writes down the steps for the inputs of a recipe, and returns the outputs.
    ///
    /// # Errors
    /// Inputs that the operator does not take; values that must be known and are not.
    fn translate(&self, recipe: &mut Recipe) -> Result<Vec<Source>, LayerError>;
}

/// An operator of ONNX as a layer.
#[derive(Debug, Clone)]
struct Translated {
    operator: Arc<dyn Translate>,
    /// The operator's name, from which random numbers follow.
    name: String,
    ready: Ready<Recipe>,
}

impl Translated {
    fn recipe(&self, inputs: &[TensorMeta]) -> Result<Recipe, LayerError> {
        recipe_of(&*self.operator, &self.name, inputs)
    }

    /// What it comes to for the inputs of this run, kept for the next run of the same inputs.
    fn ready(&mut self, inputs: &[TensorView<'_>]) -> Result<&mut Recipe, LayerError> {
        let metas = TensorMeta::of_all(inputs);
        let Self { operator, name, ready } = self;
        ready.get_or_make(|recipe| recipe.fits(&metas), || recipe_of(&**operator, name, &metas))
    }
}

/// What an operator comes to for these inputs.
fn recipe_of(operator: &dyn Translate, name: &str, inputs: &[TensorMeta]) -> Result<Recipe, LayerError> {
    let mut recipe = Recipe::new(name, inputs);
    let outputs = operator.translate(&mut recipe).map_err(|error| renamed(operator, error))?;
    Ok(recipe.returning(outputs))
}

/// An error about a parameter, under ONNX's name for it.
fn renamed(operator: &dyn Translate, error: LayerError) -> LayerError {
    let names = operator.names();
    let name = |key: &'static str| names.iter().find(|(torch, _)| *torch == key).map_or(key, |pair| pair.1);
    match error {
        LayerError::InvalidParameter { key, found, reason } => {
            LayerError::InvalidParameter { key: name(key), found, reason }
        }
        error => error,
    }
}

impl Layer for Translated {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.operator.num_inputs()
    }

    fn num_outputs(&self) -> usize {
        self.operator.num_outputs()
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        self.recipe(inputs)?.outputs()
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
        // Without the values of its inputs an operator may not know what it comes to: then there is no view.
        match self.recipe(&metas) {
            Ok(recipe) => recipe.view_of(output, inputs, shape),
            Err(_) => Ok(None),
        }
    }

    fn is_data_dependent(&self) -> bool {
        self.operator.is_data_dependent()
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let macs = self.recipe(inputs).map_or(0, |recipe| recipe.macs());
        Cost::of_moving(inputs, outputs).with_macs(macs)
    }
}

impl CpuLayer for Translated {
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

/// An operator of ONNX.
pub(super) const fn entry<T: FromOperator + Translate + 'static>() -> Entry {
    Entry::made_by::<T>(create::<T>)
}

fn create<T: FromOperator + Translate + 'static>(
    reader: &mut OperatorReader<'_>,
) -> Result<Box<dyn CpuLayer>, LayerError> {
    match T::from_operator(reader) {
        Ok(operator) => translated(reader, operator.validate(), Arc::new(operator)),
        Err(error) => Err(error),
    }
}

/// What [`create`] does with an operator of any type.
fn translated(
    reader: &OperatorReader<'_>,
    validated: Result<(), LayerError>,
    operator: Arc<dyn Translate>,
) -> Result<Box<dyn CpuLayer>, LayerError> {
    // A key that nobody reads may be why another one is missing.
    reader.finish()?;
    validated?;
    Ok(Box::new(Translated { operator, name: reader.name().to_owned(), ready: Ready::default() }))
}
