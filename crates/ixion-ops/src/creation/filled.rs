//! Tensors filled with one value or a range of values.

mod progression;

use crate::op::{
    CpuLayer, FieldValue, ForwardContext, FromOperator, FromParameter, Io, Layer, LayerError, OperatorReader,
    Result, TensorMeta, Written, exactly,
};
use crate::support::arguments::ParamOrInput;
use crate::support::broadcast::{TensorOrScalar, fitting};
use crate::support::choices::MemoryFormat;
use ixion_tensor::{DType, Dim, Limits, Scalar, Tensor, TensorError, TensorView, TensorViewMut};
use progression::Progression;
use std::ops::RangeInclusive;

/// A value given as a parameter or an input; unlike other arguments, it may be the first input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leading<T>(pub(crate) ParamOrInput<T>);

/// A shape, which may be the first input.
pub type Size = Leading<Vec<i64>>;

impl Size {
    /// The dimensions, given the inputs.
    fn dims(&self, inputs: &[TensorMeta]) -> Result<Vec<Dim>> {
        self.0.dims(inputs)
    }

    /// The metadata of a tensor of this shape, given the inputs.
    pub(crate) fn meta(&self, inputs: &[TensorMeta], dtype: DType) -> Result<TensorMeta> {
        meta_of(self.dims(inputs)?, dtype)
    }
}

/// The metadata of a tensor, after a check of its lengths.
fn meta_of(dims: Vec<Dim>, dtype: DType) -> Result<TensorMeta> {
    if dims.iter().any(|dim| dim.fixed().is_some_and(|dim| dim < 0)) {
        return Err(LayerError::invalid("size", format!("{dims:?}"), "lengths must not be negative"));
    }
    Ok(TensorMeta::new(dtype, dims))
}

impl<T: FromParameter> FieldValue for Leading<T> {
    const KIND: &'static str = <T as FromParameter>::KIND;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        Ok(match <T as FieldValue>::read(reader, key)? {
            Some(value) => Some(Self(ParamOrInput::Value(value))),
            None => reader.input(key).map(|position| Self(ParamOrInput::Input(position))),
        })
    }

    fn num_inputs(&self) -> usize {
        self.0.num_inputs()
    }

    fn written(&self) -> Written {
        self.0.written()
    }
}

/// An argument that may be absent, or `None`.
impl<T: FromParameter> FieldValue for Option<Leading<T>> {
    const KIND: &'static str = <T as FromParameter>::KIND;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        match reader.param(key) {
            Some(parameter) if parameter.is_none() => Ok(Some(None)),
            _ => Ok(Leading::read(reader, key)?.map(Some)),
        }
    }

    fn num_inputs(&self) -> usize {
        self.as_ref().map_or(0, |argument| argument.0.num_inputs())
    }

    fn written(&self) -> Written {
        self.as_ref().map_or_else(Written::none, Leading::written)
    }
}

/// An optional number given as a parameter or an input, which may be the first input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NumberArgument(pub(crate) Option<TensorOrScalar>);

impl FieldValue for NumberArgument {
    const KIND: &'static str = "a number or an input";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        Ok(match <Scalar as FieldValue>::read(reader, key)? {
            Some(number) => Some(Self(Some(TensorOrScalar::Number(number)))),
            None => reader.input(key).map(|position| Self(Some(TensorOrScalar::Input(position)))),
        })
    }

    fn num_inputs(&self) -> usize {
        self.0.as_ref().map_or(0, TensorOrScalar::num_inputs)
    }

    fn written(&self) -> Written {
        self.0.as_ref().map_or(Written::Nothing, TensorOrScalar::written)
    }
}

impl NumberArgument {
    /// The number or the input.
    pub fn factor(self) -> Option<TensorOrScalar> {
        self.0
    }

    /// The number, as PyTorch's `item()` returns it.
    pub(crate) fn value(self, inputs: &[TensorView<'_>]) -> Result<Option<Scalar>> {
        self.0.map(|factor| factor.item(inputs)).transpose()
    }
}

/// The element type that PyTorch chooses for a Python number.
fn default_dtype(number: Scalar) -> DType {
    match number {
        Scalar::Bool(_) => DType::Bool,
        Scalar::Int(_) => DType::I64,
        Scalar::Float(_) => DType::F32,
        _ => DType::C64,
    }
}

/// Fills a tensor with a number.
fn fill(output: &mut TensorViewMut<'_>, number: Scalar) -> Result<()> {
    // PyTorch converts through f32, so that numbers too large for half precision become infinite.
    let through =
        if matches!(output.dtype(), DType::F16 | DType::Bf16) { DType::F32 } else { output.dtype() };
    let value = fitting(number, through)?.cast(output.dtype())?;
    Ok(output.copy_from(&value.expand(output.shape())?.view())?)
}

/// Operators that fill a tensor with one number: of a given size, of a size and another tensor's type, or like a tensor.
/// `beside` states the number of inputs that are not fields.
macro_rules! filled {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident for $($op_type:literal),+ { $($fields:tt)* }
        |$layer:ident, $inputs:ident| beside $others:literal, $dtype:expr, $dims:expr, $value:expr;
    )*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $($op_type),+ {
                $($fields)*
                /// The element type; PyTorch's choice by default.
                dtype: Option<DType> = None,
            }
        }

        impl Layer for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                exactly($others + self.field_inputs())
            }

            fn infer(&self, $inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
                let $layer = self;
                Ok(vec![meta_of($dims, $layer.dtype.unwrap_or_else(|| $dtype))?])
            }
        }

        impl CpuLayer for $name {
            fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
                let $layer = &*self;
                let _ = $layer;
                fill(&mut io.outputs[0], $value.value(io.inputs)?.unwrap_or(Scalar::Int(0)))
            }
        }
    )*};
}

const ZERO: NumberArgument = NumberArgument(Some(TensorOrScalar::Number(Scalar::Int(0))));
const ONE: NumberArgument = NumberArgument(Some(TensorOrScalar::Number(Scalar::Int(1))));

filled! {
    /// `torch.zeros`: a tensor filled with 0.
    Zeros for "torch.zeros", "aten::zeros" {
        /// The shape.
        size: Size,
    }
    |layer, inputs| beside 0, DType::F32, layer.size.dims(inputs)?, ZERO;

    /// `torch.ones`: a tensor filled with 1.
    Ones for "torch.ones", "aten::ones" {
        /// The shape.
        size: Size,
    }
    |layer, inputs| beside 0, DType::F32, layer.size.dims(inputs)?, ONE;

    /// `torch.empty`: a tensor of unspecified values; they are 0 here, so that every run gives the same result.
    Empty for "torch.empty", "aten::empty" {
        /// The shape.
        size: Size,
    }
    |layer, inputs| beside 0, DType::F32, layer.size.dims(inputs)?, ZERO;

    /// `torch.full`: a tensor filled with a number.
    Full for "torch.full", "aten::full" {
        /// The shape.
        size: Size,
        /// The number.
        fill_value: NumberArgument,
    }
    |layer, inputs| beside 0, number_dtype(layer.fill_value, inputs), layer.size.dims(inputs)?,
        layer.fill_value;

    /// `torch.empty_strided`: a tensor of unspecified values; they are 0 here, so that every run gives the same result.
    EmptyStrided for "aten::empty_strided" {
        /// The shape.
        size: Size,
        /// Accepted for compatibility; without effect, because the memory layout cannot be observed.
        stride: Size,
    }
    |layer, inputs| beside 0, DType::F32, layer.size.dims(inputs)?, ZERO;

    /// `torch.scalar_tensor`: a tensor without axes that holds a number.
    ScalarTensor for "aten::scalar_tensor" {
        /// The number.
        value as "s": NumberArgument,
    }
    |layer, _inputs| beside 0, DType::F32, Vec::new(), layer.value;

    /// `torch.zeros_like`: a tensor of the input's shape and element type, filled with 0.
    ZerosLike for "torch.zeros_like", "aten::zeros_like", "aten::zero" {
        /// Accepted for compatibility; without effect, because the memory layout cannot be observed.
        memory_format: Option<MemoryFormat> = None,
    }
    |layer, inputs| beside 1, inputs[0].dtype(), inputs[0].dims().to_vec(), ZERO;

    /// `torch.ones_like`: a tensor of the input's shape and element type, filled with 1.
    OnesLike for "torch.ones_like", "aten::ones_like" {
        /// Accepted for compatibility; without effect, because the memory layout cannot be observed.
        memory_format: Option<MemoryFormat> = None,
    }
    |layer, inputs| beside 1, inputs[0].dtype(), inputs[0].dims().to_vec(), ONE;

    /// `torch.empty_like`: a tensor of the input's shape and element type with unspecified values; they are 0 here, so that
    /// every run gives the same result.
    EmptyLike for "torch.empty_like", "aten::empty_like" {
        /// Accepted for compatibility; without effect, because the memory layout cannot be observed.
        memory_format: Option<MemoryFormat> = None,
    }
    |layer, inputs| beside 1, inputs[0].dtype(), inputs[0].dims().to_vec(), ZERO;

    /// `torch.full_like`: a tensor of the input's shape and element type, filled with a number.
    FullLike for "torch.full_like", "aten::full_like" {
        /// The number.
        fill_value: NumberArgument,
        /// Accepted for compatibility; without effect, because the memory layout cannot be observed.
        memory_format: Option<MemoryFormat> = None,
    }
    |layer, inputs| beside 1, inputs[0].dtype(), inputs[0].dims().to_vec(), layer.fill_value;

    /// `torch.Tensor.new_zeros`: a tensor of the given shape and the input's element type, filled with 0.
    NewZeros for "Tensor.new_zeros", "aten::new_zeros" {
        /// The shape.
        size: Size,
    }
    |layer, inputs| beside 1, inputs[0].dtype(), layer.size.dims(inputs)?, ZERO;

    /// `torch.Tensor.new_ones`: a tensor of the given shape and the input's element type, filled with 1.
    NewOnes for "Tensor.new_ones", "aten::new_ones" {
        /// The shape.
        size: Size,
    }
    |layer, inputs| beside 1, inputs[0].dtype(), layer.size.dims(inputs)?, ONE;

    /// `torch.Tensor.new_empty`: a tensor of the given shape and the input's element type with unspecified values; they are 0
    /// here.
    NewEmpty for "Tensor.new_empty", "aten::new_empty" {
        /// The shape.
        size: Size,
    }
    |layer, inputs| beside 1, inputs[0].dtype(), layer.size.dims(inputs)?, ZERO;

    /// `torch.Tensor.new_full`: a tensor of the given shape and the input's element type, filled with a number.
    NewFull for "Tensor.new_full", "aten::new_full" {
        /// The shape.
        size: Size,
        /// The number.
        fill_value: NumberArgument,
    }
    |layer, inputs| beside 1, inputs[0].dtype(), layer.size.dims(inputs)?, layer.fill_value;

    /// `torch.Tensor.fill_`: a tensor of the input's shape and element type, filled with a number.
    Fill for "Tensor.fill" {
        /// The number.
        value: NumberArgument,
    }
    |layer, inputs| beside 1, inputs[0].dtype(), inputs[0].dims().to_vec(), layer.value;
}

/// The element type of a number; that of PyTorch's tensor for a number of the file.
pub(crate) fn number_dtype(number: NumberArgument, inputs: &[TensorMeta]) -> DType {
    match number.0 {
        Some(TensorOrScalar::Number(number)) => default_dtype(number),
        Some(TensorOrScalar::Input(position)) => inputs[position].dtype(),
        None => DType::F32,
    }
}

crate::operator! {
    /// `torch.arange`: a vector of the numbers `start`, `start + step`, … up to but excluding `end`.
    pub struct Arange for "torch.arange", "aten::arange" {
        /// The first number; 0 by default.
        start: NumberArgument = NumberArgument(None),
        /// The end of the range, exclusive.
        end: NumberArgument,
        /// The difference of adjacent numbers; 1 by default.
        step: NumberArgument = NumberArgument(None),
        /// The element type; by default i64 if all three numbers are integers, otherwise f32.
        dtype: Option<DType> = None,
    }
}

impl Arange {
    fn numbers(&self) -> [NumberArgument; 3] {
        [self.start, self.end, self.step]
    }

    fn dtype(&self, inputs: &[TensorMeta]) -> DType {
        let is_float = |number: &NumberArgument| {
            let dtype = number_dtype(*number, inputs);
            number.0.is_some() && dtype != DType::Bool && !dtype.is_integer()
        };
        let usual = if self.numbers().iter().any(is_float) { DType::F32 } else { DType::I64 };
        self.dtype.unwrap_or(usual)
    }

    /// The number of values, if known before the run.
    fn len(&self, inputs: &[TensorMeta]) -> Option<Dim> {
        let known = |number: NumberArgument, absent: i64| match number.0 {
            None => Some(Dim::Fixed(absent)),
            Some(TensorOrScalar::Number(Scalar::Int(value))) => Some(Dim::Fixed(value)),
            Some(TensorOrScalar::Input(position)) => {
                inputs[position].values().and_then(|values| values.first().cloned())
            }
            Some(_) => None,
        };
        let step = known(self.step, 1)?.fixed().filter(|&step| step > 0)?;
        Some((known(self.end, 0)? - known(self.start, 0)?).max(0).ceil_div(step))
    }

    /// Start, end and step, if all of them and the elements are integers.
    fn integers(&self, inputs: &[TensorView<'_>], dtype: DType) -> Result<Option<[i64; 3]>> {
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

    fn values(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Tensor> {
        let dtype = self.dtype(&TensorMeta::of_all(inputs));
        let numbers = self.progression(inputs, dtype, limits)?;
        let mut tensor = Tensor::empty(dtype, &[numbers.count])?;
        numbers.write(&mut tensor.view_mut()?)?;
        Ok(tensor)
    }

    fn progression(&self, inputs: &[TensorView<'_>], dtype: DType, limits: &Limits) -> Result<Progression> {
        let [start, end, step] = self.numbers();
        if let Some(numbers) = self.integers(inputs, dtype)? {
            return counted(numbers, limits);
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
        limits.check_tensor("the values of arange", (count as u64).saturating_mul(8))?;
        if dtype.is_integer() && count.is_finite() {
            // The count follows from the fractions, but the steps are integers.
            return Ok(Progression::of_integers([start as i64, step as i64], count as usize));
        }
        Progression::of_floats([start, end, step])
    }
}

/// The integers `start`, `start + step`, … before `end`, computed exactly.
fn counted([start, end, step]: [i64; 3], limits: &Limits) -> Result<Progression> {
    let (wide_start, wide_step) = (i128::from(start), i128::from(step));
    let distance = i128::from(end) - wide_start;
    if step == 0 || (distance != 0 && (distance < 0) != (step < 0)) {
        let reason = format!("arange from {start} in steps of {step} never reaches {end}");
        return Err(TensorError::InvalidArgument(reason).into());
    }
    let count = (distance.abs() + wide_step.abs() - 1) / wide_step.abs();
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    limits.check_tensor("the values of arange", count.saturating_mul(8))?;
    Ok(Progression::of_integers([start, step], usize::try_from(count).unwrap_or(usize::MAX)))
}

impl Layer for Arange {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let dtype = self.dtype(inputs);
        let len = self.len(inputs).unwrap_or_else(|| Dim::fresh("counted"));
        Ok(vec![TensorMeta::new(dtype, [len])])
    }

    fn constant(&self, limits: &Limits) -> Result<Option<Tensor>> {
        if self.field_inputs() > 0 {
            return Ok(None);
        }
        self.values(&[], limits).map(Some)
    }

    fn is_data_dependent(&self) -> bool {
        true
    }
}

impl CpuLayer for Arange {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let output = &mut io.outputs[0];
        self.progression(io.inputs, output.dtype(), io.context.limits())?.write(output)
    }

    fn forward_dynamic(
        &mut self,
        inputs: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<Vec<Tensor>> {
        Ok(vec![self.values(inputs, context.limits())?])
    }
}

operators! {
    Zeros, Ones, Empty, Full, EmptyStrided, ScalarTensor, ZerosLike, OnesLike, EmptyLike, FullLike, NewZeros, NewOnes,
    NewEmpty, NewFull, Fill, Arange;
    overload "aten::zeros"(size, dtype, layout, device, pin_memory),
        "aten::ones"(size, dtype, layout, device, pin_memory),
        "aten::empty"(size, dtype, layout, device, pin_memory, memory_format),
        "aten::full"(size, fill_value, dtype, layout, device, pin_memory),
        "aten::empty_strided"(size, stride, dtype, layout, device, pin_memory),
        "aten::scalar_tensor"(s, dtype, layout, device, pin_memory),
        "aten::zeros_like"(input, dtype, layout, device, pin_memory, memory_format),
        "aten::ones_like"(input, dtype, layout, device, pin_memory, memory_format),
        "aten::empty_like"(input, dtype, layout, device, pin_memory, memory_format),
        "aten::full_like"(input, fill_value, dtype, layout, device, pin_memory, memory_format),
        "aten::new_zeros"(input, size, dtype, layout, device, pin_memory),
        "aten::new_ones"(input, size, dtype, layout, device, pin_memory),
        "aten::new_empty"(input, size, dtype, layout, device, pin_memory),
        "aten::new_full"(input, size, fill_value, dtype, layout, device, pin_memory),
        "aten::arange"(end, dtype, layout, device, pin_memory) of 5,
        "aten::arange"(start, end, dtype, layout, device, pin_memory) of 6,
        "aten::arange"(start, end, step, dtype, layout, device, pin_memory)
}

#[cfg(test)]
mod tests;
