//! `Tensor.copy`: in-place writes, which PNNX turns into functions below optimisation level 2.
//!
//! If `self` is a view of another tensor (`z[:, 0] = src` writes into a slice of `z`), the result is the whole tensor with the
//! elements of the view replaced. So each view on the path from `z` becomes a write: a slice or selection becomes a
//! `Tensor.slice_copy`, and a reshape becomes a reshape back to the previous shape.

use super::Converter;
use super::arguments::Arguments;
use crate::graph::GraphError;
use crate::graph::draft::Value;
use crate::graph::operator::{OperandIndex, RuntimeOperator};
use crate::op::{Elements, Properties, RuntimeParameter};
use crate::pnnx::{self, OperandId};

/// Returns true for operators that write to a view of a tensor and return the whole tensor.
pub(crate) fn is_write(op_type: &str) -> bool {
    matches!(op_type, "Tensor.copy" | "aten::copy")
}

/// Returns true for operators through which PNNX follows a view.
pub(crate) fn is_view(op_type: &str) -> bool {
    is_reshape(op_type) || matches!(Properties::of(op_type).elements, Elements::Sliced | Elements::Selected)
}

/// Returns true for the types of a reshape that may be a view, or a copy.
fn is_reshape(op_type: &str) -> bool {
    matches!(op_type, "Tensor.reshape" | "Tensor.view")
}

impl Converter<'_> {
    /// Adds a write. If the target is a view, the result is written back through all views to the base tensor.
    pub(super) fn add_write(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        let values = self.inputs_of(operator)?;
        let (Some(Value::Tensor(target)), Some(source), &[output]) =
            (values.first(), values.get(1), operator.outputs())
        else {
            return self.add_layer(operator);
        };
        let views = self.views(*target, output);
        if views.is_empty() {
            return self.add_layer(operator);
        }
        let mut inputs = Vec::new();
        self.flatten(operator, source, &mut inputs)?;
        let &[source] = inputs.as_slice() else {
            return Err(self
                .tuple_error(operator, "expected a tensor as source of the write, got a tuple".to_owned()));
        };
        let whole = write(*target, source).with_param("dims", "()");
        let mut written =
            self.insert(operator, "Tensor.slice_copy", format!("{}.0", operator.name()), whole)?;
        let last = views.len();
        for (position, view) in views.into_iter().enumerate() {
            let name = match position + 1 {
                count if count == last => operator.name().to_owned(),
                count => format!("{}.{count}", operator.name()),
            };
            written = self.write_back(operator, name, view, written)?;
        }
        self.name_operand(written, output);
        self.draft.values.insert(output, Value::Tensor(written));
        Ok(())
    }

    /// The operators that make a tensor a view of the tensor that a write returns, last one first. PNNX records the shape of
    /// the returned tensor; if it did not, only operators that are certainly views are followed.
    fn views(&self, target: OperandIndex, output: OperandId) -> Vec<usize> {
        let wanted = self.file.operand(output).shape();
        let (mut views, mut certain, mut fitting) = (Vec::new(), 0, None);
        let mut at = target;
        while let Some(producer) = self.draft.operands[at.0].producer {
            let view = &self.draft.operators[producer.0];
            let Some(&base) = view.inputs.first().filter(|_| is_view(&view.op_type)) else { break };
            views.push(producer.0);
            at = base;
            if certain + 1 == views.len() && !is_reshape(&view.op_type) {
                certain = views.len();
            }
            if wanted.is_some() && self.draft.operands[at.0].shape.as_deref() == wanted {
                fitting = Some(views.len());
            }
        }
        let is_whole = wanted.is_some() && self.draft.operands[target.0].shape.as_deref() == wanted;
        views.truncate(fitting.unwrap_or(if is_whole { 0 } else { certain }));
        views
    }

    /// Writes the new elements of a view back to its base tensor.
    fn write_back(
        &mut self,
        operator: &pnnx::Operator,
        name: String,
        view: usize,
        written: OperandIndex,
    ) -> Result<OperandIndex, GraphError> {
        let view = &self.draft.operators[view];
        let base = view.inputs[0];
        if is_reshape(&view.op_type) {
            let mut sizes = Arguments::default().with_param("expr", "size(@0)");
            sizes.push(&[base], None);
            let sizes = self.insert(operator, "pnnx.Expression", format!("{name}.shape"), sizes)?;
            let mut reshape = Arguments::default();
            reshape.push(&[written], Some("input".to_owned()));
            reshape.push(&[sizes], Some("shape".to_owned()));
            return self.insert(operator, "Tensor.reshape", name, reshape);
        }
        let mut arguments = write(base, written);
        arguments.params.clone_from(&view.params);
        for (&input, key) in view.inputs.iter().zip(&view.input_names).skip(1) {
            arguments.push(&[input], key.clone());
        }
        if Properties::of(&view.op_type).elements == Elements::Selected {
            if view.input_names.iter().flatten().any(|name| name == "dim") {
                let reason = format!("it writes through `{}`, whose `dim` is computed", view.name);
                return Err(self.tuple_error(operator, reason));
            }
            arguments = self.selecting(operator, view_of(view), arguments, &name)?;
        }
        self.insert(operator, "Tensor.slice_copy", name, arguments)
    }

    /// Converts the axis and index of a selection to the lists that a write of several axes takes.
    fn selecting(
        &mut self,
        operator: &pnnx::Operator,
        view: Selection,
        mut arguments: Arguments,
        name: &str,
    ) -> Result<Arguments, GraphError> {
        arguments.params.clear();
        arguments.inputs.truncate(2);
        arguments.names.truncate(2);
        let arguments = arguments.with_param("dims", &format!("({})", view.dim));
        match view.index {
            Index::Given(raw) => Ok(arguments.with_param("selects", &format!("({raw})"))),
            Index::Computed(index) => {
                let mut list = Arguments::default().with_param("expr", "[@0]");
                list.push(&[index], None);
                let list = self.insert(operator, "pnnx.Expression", format!("{name}.index"), list)?;
                let mut arguments = arguments;
                arguments.push(&[list], Some("selects".to_owned()));
                Ok(arguments)
            }
        }
    }
}

/// The axis and index of a `Tensor.select`.
struct Selection {
    dim: String,
    index: Index,
}

enum Index {
    Given(String),
    Computed(OperandIndex),
}

fn view_of(view: &RuntimeOperator) -> Selection {
    let text = |key: &str| view.params.get(key).map_or("0", RuntimeParameter::raw).to_owned();
    let index = match view.inputs.get(1) {
        Some(&index) if !view.params.contains_key("index") => Index::Computed(index),
        _ => Index::Given(text("index")),
    };
    Selection { dim: text("dim"), index }
}

/// The arguments of a write.
fn write(target: OperandIndex, source: OperandIndex) -> Arguments {
    let mut arguments = Arguments::default();
    arguments.push(&[target], Some("self".to_owned()));
    arguments.push(&[source], Some("src".to_owned()));
    arguments
}
