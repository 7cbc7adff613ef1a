//! The element type, the shape and the known values of an expression's result.

use super::formula::{Compiled, Form, Formula};
use super::typing::Type;
use crate::op::{LayerError, Result, TensorMeta};
use crate::support::broadcast::broadcast;
use ixion_tensor::{DType, Dim};

impl Compiled {
    /// Infers the element type, the shape and the known values of the result.
    pub(crate) fn infer(&self, inputs: &[TensorMeta]) -> Result<TensorMeta> {
        match &self.form {
            Form::Value(formula) => infer_value(formula, inputs),
            Form::List(items) => infer_list(items, inputs),
            Form::Sizes(formula) => infer_sizes(formula, inputs),
        }
    }
}

/// The sizes that a formula lists, which are the dimensions of its value.
pub(super) fn sizes(formula: &Formula, inputs: &[TensorMeta]) -> Result<Vec<Dim>> {
    Ok(formula.types(inputs)?.pop().map(|last| last.dims).unwrap_or_default())
}

fn infer_sizes(formula: &Formula, inputs: &[TensorMeta]) -> Result<TensorMeta> {
    let sizes = sizes(formula, inputs)?;
    Ok(TensorMeta::new(DType::I64, [sizes.len()]).with_values(sizes))
}

fn infer_value(formula: &Formula, inputs: &[TensorMeta]) -> Result<TensorMeta> {
    let types = formula.types(inputs)?;
    let values = formula.values(&types, inputs);
    let last = types.last().ok_or_else(|| LayerError::Unsupported("the expression is empty".to_owned()))?;
    let meta = TensorMeta::new(last.stored(), last.dims.iter().cloned());
    Ok(with_values(meta, values))
}

fn infer_list(items: &[Formula], inputs: &[TensorMeta]) -> Result<TensorMeta> {
    let (mut dims, mut masks) = (Vec::new(), 0);
    let mut values = Some(Vec::new());
    for (position, item) in items.iter().enumerate() {
        let types = item.types(inputs)?;
        let Some(last) = types.last() else { continue };
        check_item(position, last)?;
        masks += usize::from(last.dtype == DType::Bool);
        dims = broadcast(&dims, &last.dims)?;
        let item_values = item.values(&types, inputs);
        values = values.zip(item_values).map(|(known, more)| [known, more].concat());
    }
    if masks != 0 && masks != items.len() {
        return Err(LayerError::Unsupported(
            "a list of masks and integers is an index, which only Tensor.index supports".to_owned(),
        ));
    }
    let dtype = if masks == 0 { DType::I64 } else { DType::Bool };
    let values = values.filter(|_| dims.is_empty() && items.len() <= TensorMeta::MAX_VALUES);
    let meta = TensorMeta::new(dtype, std::iter::once(Dim::from(items.len())).chain(dims));
    Ok(with_values(meta, values))
}

/// Checks that an item of a list is an integer or a mask: a bool tensor with axes.
fn check_item(position: usize, item: &Type) -> Result<()> {
    if item.dtype.is_integer() || (item.dtype == DType::Bool && !item.dims.is_empty()) {
        return Ok(());
    }
    let what = format!("item {position} of the list");
    Err(LayerError::dtype(what, "integers, or bool tensors with axes", item.dtype))
}

fn with_values(meta: TensorMeta, values: Option<Vec<Dim>>) -> TensorMeta {
    match values {
        Some(values) => meta.with_values(values),
        None => meta,
    }
}
