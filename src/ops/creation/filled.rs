//! Tensors of given and counted values.

use crate::Limits;
use crate::op::{CpuLayer, FieldValue, ForwardContext, Layer, LayerError, OperatorReader, TensorMeta};
use crate::ops::support::arguments::Argument;
use crate::ops::support::broadcast::{Factor, fitting};
use crate::ops::support::choices::MemoryFormat;
use crate::tensor::{DType, Dim, Scalar, Tensor, TensorError, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

/// A shape that is a parameter or an input; unlike other arguments, it may be the first input.
#[derive(Debug, Clone, PartialEq)]
pub struct Size(Argument<Vec<i64>>);

impl Size {
    /// How many inputs the shape takes: 0 or 1.
    pub(in crate::ops) fn num_inputs(&self) -> usize {
        self.0.num_inputs()
    }

    /// The lengths, given the inputs.
    pub(in crate::ops) fn dims(&self, inputs: &[TensorMeta]) -> Result<Vec<Dim>, LayerError> {
        self.0.dims(inputs)
    }
}

impl FieldValue for Size {
    const KIND: &'static str = "a list of integers";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(match <Vec<i64> as FieldValue>::read(reader, key)? {
            Some(value) => Some(Self(Argument::Value(value))),
            None => reader.input(key).map(|position| Self(Argument::Input(position))),
        })
    }
}

/// A number that is a parameter or an input, which may be the first one; or nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NumberArgument(Option<Factor>);

impl FieldValue for NumberArgument {
    const KIND: &'static str = "a number or an input";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(match <Scalar as FieldValue>::read(reader, key)? {
            Some(number) => Some(Self(Some(Factor::Number(number)))),
            None => reader.input(key).map(|position| Self(Some(Factor::Input(position)))),
        })
    }
}

impl NumberArgument {
    /// The number or the input.
    #[cfg(feature = "gpu")]
    pub(crate) fn factor(self) -> Option<Factor> {
        self.0
    }

    fn num_inputs(self) -> usize {
        self.0.as_ref().map_or(0, Factor::num_inputs)
    }

    /// The number as PyTorch's `item()` gives it.
    fn value(self, inputs: &[TensorView<'_>]) -> Result<Option<Scalar>, LayerError> {
        self.0.map(|factor| factor.item(inputs)).transpose()
    }
}

/// The element type that PyTorch gives a tensor of a Python number.
fn default_dtype(number: Scalar) -> DType {
    match number {
        Scalar::Bool(_) => DType::Bool,
        Scalar::Int(_) => DType::I64,
        Scalar::Float(_) => DType::F32,
        _ => DType::C64,
    }
}

/// Fills a tensor with one number.
fn fill(output: &mut TensorViewMut<'_>, number: Scalar) -> Result<(), LayerError> {
    // PyTorch converts by way of f32, so that what is too large for half precision becomes infinite.
    let through =
        if matches!(output.dtype(), DType::F16 | DType::Bf16) { DType::F32 } else { output.dtype() };
    let value = fitting(number, through)?.cast(output.dtype())?;
    Ok(output.copy_from(&value.expand(output.shape())?.view())?)
}

/// Operators whose output is one number everywhere: of a size, of a size and another tensor's type, or like a tensor.
macro_rules! filled {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident for $($op_type:literal),+ { $($fields:tt)* }
        |$layer:ident, $inputs:ident| takes $count:expr, $dtype:expr, $dims:expr, |$views:ident| $value:expr;
    )*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $($op_type),+ {
                $($fields)*
                /// The element type; where absent, that which PyTorch chooses.
                dtype: Option<DType> = None,
            }
        }

        impl Layer for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                let $layer = self;
                let _ = $layer;
                let count: usize = $count;
                count..=count
            }

            fn infer(&self, $inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                let $layer = self;
                let dims: Vec<Dim> = $dims;
                if dims.iter().any(|dim| dim.fixed().is_some_and(|dim| dim < 0)) {
                    let (found, reason) = (format!("{dims:?}"), "lengths must not be negative".to_owned());
                    return Err(LayerError::InvalidParameter { key: "size", found, reason });
                }
                Ok(vec![TensorMeta::new($layer.dtype.unwrap_or_else(|| $dtype), dims)])
            }
        }

        impl CpuLayer for $name {
            fn forward(
                &mut self,
                $views: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                _: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                let $layer = &*self;
                let _ = ($layer, $views);
                fill(&mut outputs[0], $value)
            }
        }
    )*};
}

filled! {
    /// `torch.zeros`: a tensor of zeros.
    Zeros for "torch.zeros" {
        /// The shape.
        size: Size,
    }
    |layer, inputs| takes layer.size.num_inputs(), DType::F32, layer.size.dims(inputs)?, |_views| Scalar::Int(0);

    /// `torch.ones`: a tensor of ones.
    Ones for "torch.ones" {
        /// The shape.
        size: Size,
    }
    |layer, inputs| takes layer.size.num_inputs(), DType::F32, layer.size.dims(inputs)?, |_views| Scalar::Int(1);

    /// `torch.empty`: a tensor of any values; zeros here, so that every run gives the same.
    Empty for "torch.empty" {
        /// The shape.
        size: Size,
    }
    |layer, inputs| takes layer.size.num_inputs(), DType::F32, layer.size.dims(inputs)?, |_views| Scalar::Int(0);

    /// `torch.full`: a tensor of one number.
    Full for "torch.full" {
        /// The shape.
        size: Size,
        /// The number.
        fill_value: NumberArgument,
    }
    |layer, inputs| takes layer.size.num_inputs() + layer.fill_value.num_inputs(),
        number_dtype(layer.fill_value, inputs), layer.size.dims(inputs)?,
        |views| layer.fill_value.value(views)?.unwrap_or(Scalar::Int(0));

    /// `torch.zeros_like`: zeros in the shape of a tensor.
    ZerosLike for "torch.zeros_like", "aten::zero" {
        /// Accepted for compatibility; how elements lie in memory cannot be seen from outside.
        memory_format: Option<MemoryFormat> = None,
    }
    |layer, inputs| takes 1, inputs[0].dtype(), inputs[0].dims().to_vec(), |_views| Scalar::Int(0);

    /// `torch.ones_like`: ones in the shape of a tensor.
    OnesLike for "torch.ones_like" {
        /// Accepted for compatibility; how elements lie in memory cannot be seen from outside.
        memory_format: Option<MemoryFormat> = None,
    }
    |layer, inputs| takes 1, inputs[0].dtype(), inputs[0].dims().to_vec(), |_views| Scalar::Int(1);

    /// `torch.empty_like`: any values in the shape of a tensor; zeros here, so that every run gives the same.
    EmptyLike for "torch.empty_like" {
        /// Accepted for compatibility; how elements lie in memory cannot be seen from outside.
        memory_format: Option<MemoryFormat> = None,
    }
    |layer, inputs| takes 1, inputs[0].dtype(), inputs[0].dims().to_vec(), |_views| Scalar::Int(0);

    /// `torch.full_like`: one number in the shape of a tensor.
    FullLike for "torch.full_like" {
        /// The number.
        fill_value: NumberArgument,
        /// Accepted for compatibility; how elements lie in memory cannot be seen from outside.
        memory_format: Option<MemoryFormat> = None,
    }
    |layer, inputs| takes 1 + layer.fill_value.num_inputs(), inputs[0].dtype(), inputs[0].dims().to_vec(),
        |views| layer.fill_value.value(views)?.unwrap_or(Scalar::Int(0));

    /// `torch.Tensor.new_zeros`: zeros of another tensor's element type.
    NewZeros for "Tensor.new_zeros" {
        /// The shape.
        size: Size,
    }
    |layer, inputs| takes 1 + layer.size.num_inputs(), inputs[0].dtype(), layer.size.dims(inputs)?, |_views| Scalar::Int(0);

    /// `torch.Tensor.new_ones`: ones of another tensor's element type.
    NewOnes for "Tensor.new_ones" {
        /// The shape.
        size: Size,
    }
    |layer, inputs| takes 1 + layer.size.num_inputs(), inputs[0].dtype(), layer.size.dims(inputs)?, |_views| Scalar::Int(1);

    /// `torch.Tensor.new_empty`: any values of another tensor's element type; zeros here.
    NewEmpty for "Tensor.new_empty" {
        /// The shape.
        size: Size,
    }
    |layer, inputs| takes 1 + layer.size.num_inputs(), inputs[0].dtype(), layer.size.dims(inputs)?, |_views| Scalar::Int(0);

    /// `torch.Tensor.new_full`: one number, of another tensor's element type.
    NewFull for "Tensor.new_full", "aten::new_full" {
        /// The shape.
        size: Size,
        /// The number.
        fill_value: NumberArgument,
    }
    |layer, inputs| takes 1 + layer.size.num_inputs() + layer.fill_value.num_inputs(),
        inputs[0].dtype(), layer.size.dims(inputs)?,
        |views| layer.fill_value.value(views)?.unwrap_or(Scalar::Int(0));

    /// `torch.Tensor.fill_`: one number in the shape and element type of a tensor.
    Fill for "Tensor.fill" {
        /// The number.
        value: NumberArgument,
    }
    |layer, inputs| takes 1 + layer.value.num_inputs(), inputs[0].dtype(), inputs[0].dims().to_vec(),
        |views| layer.value.value(views)?.unwrap_or(Scalar::Int(0));
}

fn number_dtype(number: NumberArgument, inputs: &[TensorMeta]) -> DType {
    match number.0 {
        Some(Factor::Number(number)) => default_dtype(number),
        Some(Factor::Input(position)) => inputs[position].dtype(),
        None => DType::F32,
    }
}

crate::operator! {
    /// `torch.arange`: the numbers `start`, `start + step`, … before `end`.
    pub struct Arange for "torch.arange" {
        /// The first number; 0 where absent.
        start: NumberArgument = NumberArgument(None),
        /// Where the numbers end; not included.
        end: NumberArgument,
        /// From one number to the next; 1 where absent.
        step: NumberArgument = NumberArgument(None),
        /// The element type; where absent, i64 if all three are integers, else f32.
        dtype: Option<DType> = None,
    }
}

impl Arange {
    fn numbers(&self) -> [NumberArgument; 3] {
        [self.start, self.end, self.step]
    }

    fn dtype(&self, inputs: &[TensorMeta]) -> DType {
        let is_float = |number: &NumberArgument| {
            number.0.is_some() && !matches!(number_dtype(*number, inputs), DType::Bool) && {
                let dtype = number_dtype(*number, inputs);
                !dtype.is_integer()
            }
        };
        let usual = if self.numbers().iter().any(is_float) { DType::F32 } else { DType::I64 };
        self.dtype.unwrap_or(usual)
    }

    /// How many numbers there are, where it is known before the run.
    fn len(&self, inputs: &[TensorMeta]) -> Option<Dim> {
        let known = |number: NumberArgument, absent: i64| match number.0 {
            None => Some(Dim::Fixed(absent)),
            Some(Factor::Number(Scalar::Int(value))) => Some(Dim::Fixed(value)),
            Some(Factor::Input(position)) => {
                inputs[position].values().and_then(|values| values.first().cloned())
            }
            Some(_) => None,
        };
        let step = known(self.step, 1)?.fixed().filter(|&step| step > 0)?;
        Some((known(self.end, 0)? - known(self.start, 0)?).max(0).ceil_div(step))
    }

    /// Start, end and step, where all are integers and so are the elements.
    fn integers(&self, inputs: &[TensorView<'_>], dtype: DType) -> Result<Option<[i64; 3]>, LayerError> {
        let mut integers = [0, 0, 1];
        for (to, number) in integers.iter_mut().zip(self.numbers()) {
            match number.value(inputs)? {
                None => {}
                Some(Scalar::Bool(value)) => *to = i64::from(value),
                Some(Scalar::Int(value)) => *to = value,
                Some(_) => return Ok(None),
            }
        }
        Ok(dtype.is_integer().then_some(integers))
    }

    fn values(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Tensor, LayerError> {
        let metas = TensorMeta::of_all(inputs);
        let dtype = self.dtype(&metas);
        let [start, end, step] = self.numbers();
        if let Some(numbers) = self.integers(inputs, dtype)? {
            return counted(numbers, dtype, limits);
        }
        let number = |number: NumberArgument, absent| {
            Ok::<_, LayerError>(match number.value(inputs)? {
                None => absent,
                Some(Scalar::Bool(value)) => f64::from(u8::from(value)),
                Some(Scalar::Int(value)) => value as f64,
                Some(Scalar::Float(value)) => value,
                Some(_) => f64::NAN,
            })
        };
        let (start, end, step) = (number(start, 0.0)?, number(end, 0.0)?, number(step, 1.0)?);
        let count = ((end - start) / step).ceil().max(0.0);
        limits.check_tensor("the numbers of arange", (count as u64).saturating_mul(8))?;
        if dtype.is_integer() && count.is_finite() {
            // So many as there would be fractions, but in whole steps.
            return progression([start as i64, step as i64], count as usize, dtype);
        }
        Ok(Tensor::arange(dtype, start, end, step)?)
    }
}

/// The integers `start`, `start + step`, … before `end`, exactly; of a small type the lowest bits.
fn counted([start, end, step]: [i64; 3], dtype: DType, limits: &Limits) -> Result<Tensor, LayerError> {
    let (wide_start, wide_step) = (i128::from(start), i128::from(step));
    let distance = i128::from(end) - wide_start;
    if step == 0 || (distance != 0 && (distance < 0) != (step < 0)) {
        let reason = format!("arange from {start} to {end} in steps of {step} has no end");
        return Err(TensorError::InvalidArgument(reason).into());
    }
    let count = (distance.abs() + wide_step.abs() - 1) / wide_step.abs();
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    limits.check_tensor("the numbers of arange", count.saturating_mul(8))?;
    progression([start, step], usize::try_from(count).unwrap_or(usize::MAX), dtype)
}

/// So many integers from `start` on, exactly; of a small type the lowest bits.
fn progression([start, step]: [i64; 2], count: usize, dtype: DType) -> Result<Tensor, LayerError> {
    let mut tensor = Tensor::zeros(DType::I64, &[count])?;
    let mut view = tensor.view_mut()?;
    let numbers = view.slice::<i64>()?.iter_mut().zip(0i64..);
    numbers.for_each(|(number, i)| *number = start.wrapping_add(i.wrapping_mul(step)));
    Ok(tensor.cast(dtype)?)
}

impl Layer for Arange {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = self.numbers().into_iter().map(NumberArgument::num_inputs).sum();
        count..=count
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let dtype = self.dtype(inputs);
        let len = self.len(inputs).unwrap_or_else(|| Dim::fresh("counted"));
        Ok(vec![TensorMeta::new(dtype, [len])])
    }

    fn constant(&self, limits: &Limits) -> Result<Option<Tensor>, LayerError> {
        if *self.num_inputs().end() > 0 {
            return Ok(None);
        }
        self.values(&[], limits).map(Some)
    }

    fn is_data_dependent(&self) -> bool {
        true
    }
}

impl CpuLayer for Arange {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        Ok(outputs[0].copy_from(&self.values(inputs, context.limits())?.view())?)
    }

    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>, LayerError> {
        Ok(vec![self.values(inputs, context.limits())?])
    }
}

operators! {
    Zeros, Ones, Empty, Full, ZerosLike, OnesLike, EmptyLike, FullLike, NewZeros, NewOnes, NewEmpty, NewFull, Fill,
    Arange
}

#[cfg(test)]
mod tests;
