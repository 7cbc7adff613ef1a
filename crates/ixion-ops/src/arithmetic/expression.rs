//! `pnnx.Expression`: element-wise arithmetic, arithmetic on sizes, and lists of integers.
//!
//! PNNX folds chains of such operators into one and writes them as text (see [`Expr`](ixion_pnnx::Expr)). The text is
//! parsed once, when the layer is created. The whole expression is computed in one pass over the data
//! ([`elementwise`](ixion_kernels::elementwise)), however many functions it has.
//!
//! Element types follow PyTorch. Inputs are tensors; literals and sizes are Python numbers, which decide only the kind of the
//! result's type (bool, integer, float, complex), not its precision: see [`result_type`].

mod formula;
mod inference;
mod int8;
mod typing;
mod values;

pub use crate::support::promotion::{Standing, promote, result_type};
pub use formula::Compiled;

use crate::op::{CpuLayer, ForwardContext, Io, Layer, LayerError, Result, TensorFormat, TensorMeta};
use crate::support::int8::pointwise::Pointwise;
use crate::support::shape_cache::ShapeCache;
use formula::{Form, Formula};
use inference::sizes;
use ixion_kernels::elementwise::Prepared;
use ixion_tensor::{DType, Dim, Format, Layout, Limits, Shape, Tensor, TensorView, TensorViewMut};
use smallvec::SmallVec;
use std::ops::RangeInclusive;

crate::operator! {
    /// `pnnx.Expression`: evaluates an expression such as `add(mul(@0,2),@1)`, where `@0` is the first input.
    ///
    /// Inputs may have any element type and are broadcast against each other. `[a,b]` of integers is a vector of i64; of
    /// tensors with axes, it is their stack along a new first axis, for use as an index. `size(x,d)` is an integer, `size(x)`
    /// a vector of all sizes. Without inputs, the result is a 0-D tensor: i64 for an integer, f32 for a float.
    /// `floor_divide` rounds down, like PyTorch's function of that name.
    pub struct Expression for "pnnx.Expression" {
        /// The expression.
        expr: Compiled,
        /// The program that was prepared for the inputs of the last run.
        ready: ShapeCache<PreparedExpression>,
        /// The program that was prepared for the last run in place.
        ready_in_place: ShapeCache<Prepared>,
        /// What is computed of quantised tensors.
        int8: Pointwise,
    }
}

impl Expression {
    /// The layer of an expression.
    pub fn new(expr: Compiled) -> Self {
        let (ready, ready_in_place) = (ShapeCache::default(), ShapeCache::default());
        Self { expr, ready, ready_in_place, int8: Pointwise::Nothing }
    }

    fn run(
        &mut self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let (form, shape, dtype) = (&self.expr.form, *output.shape(), output.dtype());
        let fits = |ready: &PreparedExpression| ready.fits(inputs, dtype, &shape);
        let ready = self.ready.get_or_make(fits, || PreparedExpression::new(form, inputs, dtype, &shape))?;
        match &mut ready.result {
            Computed::Known(value) => Ok(output.copy_from(&value.view())?),
            Computed::Value(program) => Ok(program.start(inputs)?.whole(output, limits)?),
            Computed::Items(programs) => {
                for (position, program) in programs.iter_mut().enumerate() {
                    let layout = output.layout().select(0, position)?;
                    program.start(inputs)?.whole(&mut output.reborrow().with_layout(layout)?, limits)?;
                }
                Ok(())
            }
        }
    }
}

/// An expression that is prepared for inputs of certain types, shapes and strides.
#[derive(Debug)]
pub struct PreparedExpression {
    inputs: Vec<(DType, Layout)>,
    output: (DType, Shape),
    result: Computed,
}

#[derive(Debug)]
enum Computed {
    Value(Box<Prepared>),
    Items(Vec<Prepared>),
    /// Sizes, which do not depend on elements, or an empty tensor.
    Known(Tensor),
}

impl PreparedExpression {
    fn new(form: &Form, inputs: &[TensorView<'_>], dtype: DType, shape: &Shape) -> Result<Self> {
        let metas = metas_of(inputs);
        let result = match form {
            _ if shape.num_elements() == 0 => Computed::Known(Tensor::zeros(dtype, shape)?),
            Form::Value(formula) => {
                Computed::Value(Box::new(prepare(formula, &metas, inputs, dtype, shape)?))
            }
            Form::Sizes(formula) => {
                let sizes: Option<Vec<i64>> = sizes(formula, &metas)?.iter().map(Dim::fixed).collect();
                let sizes = sizes.unwrap_or_default();
                Computed::Known(Tensor::from_vec(sizes.clone(), &[sizes.len()])?)
            }
            Form::List(items) => {
                let shape = Shape::new(shape.get(1..).unwrap_or_default())?;
                let items = items.iter().map(|item| prepare(item, &metas, inputs, dtype, &shape));
                Computed::Items(items.collect::<Result<_, _>>()?)
            }
        };
        let inputs = inputs.iter().map(|input| (input.dtype(), *input.layout())).collect();
        Ok(Self { inputs, output: (dtype, *shape), result })
    }

    fn fits(&self, inputs: &[TensorView<'_>], dtype: DType, shape: &Shape) -> bool {
        let same = |(known, input): (&(DType, Layout), &TensorView<'_>)| {
            known.0 == input.dtype() && known.1.is_moved(input.layout())
        };
        self.output == (dtype, *shape)
            && self.inputs.len() == inputs.len()
            && self.inputs.iter().zip(inputs).all(same)
    }
}

/// The axis of a blocked tensor that is split into blocks; `None` for other layouts.
fn blocked_axis(meta: &TensorMeta) -> Option<usize> {
    match meta.format() {
        Format::Blocked { axis, .. } => Some(axis.into()),
        Format::Plain | Format::ChannelsLast => None,
    }
}

/// Tensors in the order in which they are stored.
fn unrolled<'a>(inputs: &[TensorView<'a>]) -> Result<SmallVec<[TensorView<'a>; 4]>> {
    inputs.iter().map(|input| Ok(input.with_layout(input.layout().unrolled()?)?)).collect()
}

/// The element types and shapes of tensors, without known values.
pub(super) fn metas_of(inputs: &[TensorView<'_>]) -> Vec<TensorMeta> {
    inputs.iter().map(|input| TensorMeta::new(input.dtype(), input.shape().iter().copied())).collect()
}

/// The program of a formula; the output may have another integer type than its value.
fn prepare(
    formula: &Formula,
    metas: &[TensorMeta],
    inputs: &[TensorView<'_>],
    dtype: DType,
    shape: &Shape,
) -> Result<Prepared> {
    let (mut program, value) = formula.program(&formula.types(metas)?, Some)?;
    let value = program.cast(value, dtype);
    Ok(program.prepare(value, inputs, dtype, shape)?)
}

/// The program of a formula whose input 0 is in the output; `others` are the other inputs.
fn prepare_in_place(formula: &Formula, data: (DType, &Shape), others: &[TensorView<'_>]) -> Result<Prepared> {
    let mut metas = vec![TensorMeta::new(data.0, data.1.iter().copied())];
    metas.extend(metas_of(others));
    let (program, value) = formula.program(&formula.types(&metas)?, |position| position.checked_sub(1))?;
    Ok(program.prepare(value, others, data.0, data.1)?)
}

impl Layer for Expression {
    /// At least n + 1 for the largest `@n`.
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.expr.input_count..=usize::MAX
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![self.expr.infer(inputs)?])
    }

    /// Input 0, if the expression is arithmetic on it: an element that was overwritten is not read again.
    fn in_place(&self, _: usize) -> Option<usize> {
        match &self.expr.form {
            Form::Value(formula) if formula.reads(0) => Some(0),
            _ => None,
        }
    }

    fn constant(&self, limits: &Limits) -> Result<Option<Tensor>> {
        if self.expr.input_count > 0 {
            return Ok(None);
        }
        let Some(meta) = self.infer(&[])?.pop() else { return Ok(None) };
        let mut value = Tensor::empty(meta.dtype(), &meta.shape()?)?;
        self.clone().run(&[], &mut value.view_mut()?, limits)?;
        Ok(Some(value))
    }
}

impl CpuLayer for Expression {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if let [first, others @ ..] = io.inputs
            && self.run_int8((Some(first), others), &mut io.outputs[0], &mut io.context)?
        {
            return Ok(());
        }
        if io.outputs[0].layout().format() == Format::Plain {
            return self.run(io.inputs, &mut io.outputs[0], io.context.limits());
        }
        let layout = io.outputs[0].layout().unrolled()?;
        self.run(
            &unrolled(io.inputs)?,
            &mut io.outputs[0].reborrow().with_layout(layout)?,
            io.context.limits(),
        )
    }

    fn is_pointwise(&self) -> bool {
        self.expr.is_pointwise()
    }

    fn takes_zero_points(&self) -> bool {
        true
    }

    /// Supports plain tensors of any type, and blocked `f32` tensors that all have the same layout, because these can be
    /// broadcast in the order in which they are stored; also quantised tensors, for some expressions.
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let (Some(format), Some(first)) = (formats.get(position), formats.first()) else { return false };
        if first.is_quantized {
            return self.supports_int8(position, formats);
        }
        let is_blocked = format.format != Format::Plain;
        let is_possible = !is_blocked || (self.expr.is_pointwise() && format.dtype == DType::F32);
        !format.is_quantized && format.format == first.format && is_possible
    }

    fn workspace(&self, _: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        self.int8_workspace(outputs)
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        self.configure_int8(inputs, outputs)?;
        let Some((output, axis)) = outputs.first().and_then(|output| Some((output, blocked_axis(output)?)))
        else {
            return Ok(());
        };
        let whole = |meta: &TensorMeta| meta.dims().get(axis) == output.dims().get(axis);
        if inputs.iter().all(|input| input.rank() == output.rank() && whole(input)) {
            return Ok(());
        }
        Err(LayerError::Unsupported(
            "blocked tensors cannot be broadcast along the axis that is split into blocks".to_owned(),
        ))
    }

    fn forward_in_place(
        &mut self,
        data: &mut TensorViewMut<'_>,
        others: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        if self.run_int8((None, others), data, context)? {
            return Ok(());
        }
        if data.layout().format() != Format::Plain {
            let layout = data.layout().unrolled()?;
            let data = &mut data.reborrow().with_layout(layout)?;
            return self.forward_in_place(data, &unrolled(others)?, context);
        }
        let Form::Value(formula) = &self.expr.form else {
            return Err(LayerError::Unsupported("a list cannot be computed in place".to_owned()));
        };
        if data.num_elements() == 0 {
            return Ok(());
        }
        let (dtype, shape) = (data.dtype(), *data.shape());
        let program = self.ready_in_place.get_or_make(
            |program| program.fits(others, dtype, &shape),
            || prepare_in_place(formula, (dtype, &shape), others),
        )?;
        Ok(program.start(others)?.whole(data, context.limits())?)
    }
}

operators! { Expression }

#[cfg(test)]
mod tests;
