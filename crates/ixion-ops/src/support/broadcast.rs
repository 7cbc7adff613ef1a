//! Broadcasting and type promotion: one shape and one element type for several operands.

use crate::op::{FieldValue, FromParameter, LayerError, OperatorReader, Result, TensorMeta, Written};
use crate::support::promotion::{Standing, result_type};
use ixion_tensor::{DType, Dim, Scalar, Shape, Tensor, TensorView, bf16};

/// An operand that is another input (`$other=…`) or a number of the file (`other=0.5`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TensorOrScalar {
    /// The position of the input.
    Input(usize),
    /// A Python number. It decides only the kind of the result's element type, not its precision.
    Number(Scalar),
}

impl TensorOrScalar {
    /// The number of operator inputs that this operand takes: 0 or 1.
    pub fn num_inputs(&self) -> usize {
        usize::from(matches!(self, TensorOrScalar::Input(_)))
    }

    /// The element type and standing, as [`result_type`] expects them.
    pub(crate) fn kind(&self, inputs: &[TensorMeta]) -> (DType, Standing) {
        match self {
            TensorOrScalar::Input(position) => kind(&inputs[*position]),
            TensorOrScalar::Number(Scalar::Bool(_)) => (DType::Bool, Standing::Number),
            TensorOrScalar::Number(Scalar::Int(_)) => (DType::I64, Standing::Number),
            TensorOrScalar::Number(Scalar::Float(_)) => (DType::F64, Standing::Number),
            TensorOrScalar::Number(_) => (DType::C128, Standing::Number),
        }
    }

    /// The dimensions; a number has none.
    pub(crate) fn dims<'a>(&self, inputs: &'a [TensorMeta]) -> &'a [Dim] {
        match self {
            TensorOrScalar::Input(position) => inputs[*position].dims(),
            TensorOrScalar::Number(_) => &[],
        }
    }

    /// The elements, converted to an element type. A number that does not fit the type is wrapped or saturated.
    pub(crate) fn converted<'a>(&self, inputs: &[TensorView<'a>], dtype: DType) -> Result<Converted<'a>> {
        match self {
            TensorOrScalar::Input(position) => Converted::of(&inputs[*position], dtype),
            TensorOrScalar::Number(number) => Ok(Converted::Copy(scalar(*number).cast(dtype)?)),
        }
    }

    /// The single value of this operand, in an element type that can hold it.
    ///
    /// # Errors
    /// As [`fitting`]; [`LayerError::Shape`] if the input does not have exactly one element.
    pub(crate) fn number(&self, inputs: &[TensorView<'_>], dtype: DType) -> Result<Tensor> {
        fitting(self.item(inputs)?, dtype)
    }

    /// The single value of this operand, as PyTorch's `item()` returns it.
    pub(crate) fn item(&self, inputs: &[TensorView<'_>]) -> Result<Scalar> {
        match self {
            TensorOrScalar::Number(number) => Ok(*number),
            TensorOrScalar::Input(position) if inputs[*position].num_elements() == 1 => {
                Ok(inputs[*position].to_tensor()?.reshape(&[])?.get_scalar(&[])?)
            }
            TensorOrScalar::Input(position) => {
                let what = format!("input {position}");
                Err(LayerError::shape(what, "one number", inputs[*position].shape()))
            }
        }
    }

    /// Checks that an element type can hold a number of the file.
    pub(crate) fn check_fits(&self, dtype: DType) -> Result<()> {
        match self {
            TensorOrScalar::Number(number) => fitting(*number, dtype).map(|_| ()),
            TensorOrScalar::Input(_) => Ok(()),
        }
    }
}

/// Converts a number to a 0-D tensor of an element type that can hold it. Fractions are truncated, and negative integers
/// wrap around in unsigned types.
///
/// # Errors
/// [`LayerError::Unsupported`] if the number is out of range, like PyTorch's "cannot be converted without overflow".
pub(crate) fn fitting(number: Scalar, dtype: DType) -> Result<Tensor> {
    let number = match number {
        Scalar::Complex(value) if value.im == 0.0 => Scalar::Float(value.re),
        number => number,
    };
    let fits = match number {
        _ if dtype == DType::Bool => true,
        Scalar::Bool(_) => true,
        Scalar::Complex(value) => {
            dtype.is_complex() && float_fits(value.re, dtype) && float_fits(value.im, dtype)
        }
        Scalar::Float(value) => float_fits(value, dtype),
        Scalar::Int(value) => match integer_range(dtype) {
            Some((0, most)) => i128::from(value).abs() <= most,
            Some((least, most)) => (least..=most).contains(&i128::from(value)),
            None => float_fits(value as f64, dtype),
        },
    };
    if fits {
        return Ok(scalar(number).cast(dtype)?);
    }
    Err(LayerError::Unsupported(format!("{number} is out of range for {dtype}; use a wider element type")))
}

fn float_fits(value: f64, dtype: DType) -> bool {
    let most = match dtype {
        DType::F16 | DType::C32 => 65504.0,
        DType::Bf16 => f64::from(bf16::MAX),
        DType::F32 | DType::C64 => f64::from(f32::MAX),
        DType::F64 | DType::C128 => return true,
        _ => {
            let (least, most) = integer_range(dtype).unwrap_or_default();
            // 2⁶³ and 2⁶⁴ are exact as f64, the largest 64-bit integers are not.
            return value >= least as f64 && value < (most + 1) as f64
                || value == most as f64 && most < 1 << 53;
        }
    };
    // PNNX writes nine digits, which may round the largest value up.
    const SLACK: f64 = 1.0 + 1e-8;
    !value.is_finite() || value.abs() <= most * SLACK
}

/// The minimum and the maximum of an integer type; `None` for other types.
pub(crate) fn integer_range(dtype: DType) -> Option<(i128, i128)> {
    let bits = u32::try_from(dtype.size()).ok()?.checked_mul(8).filter(|_| dtype.is_integer())?;
    let signed = matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
    Some(if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) })
}

/// A number as a 0-D tensor.
pub(crate) fn scalar(number: Scalar) -> Tensor {
    match number {
        Scalar::Bool(value) => Tensor::scalar(value),
        Scalar::Int(value) => Tensor::scalar(value),
        Scalar::Float(value) => Tensor::scalar(value),
        Scalar::Complex(value) => Tensor::scalar(value),
    }
}

/// The element type and standing of a tensor, as [`result_type`] expects them.
pub(crate) fn kind(meta: &TensorMeta) -> (DType, Standing) {
    (meta.dtype(), if meta.rank() == 0 { Standing::Scalar } else { Standing::Tensor })
}

/// The element type in which operands are computed.
pub fn common(inputs: &[TensorMeta], operands: &[TensorOrScalar]) -> DType {
    result_type(operands.iter().map(|operand| operand.kind(inputs)))
}

impl crate::op::FromParameter for Scalar {
    const KIND: &'static str = "a number";

    fn from_parameter(parameter: &crate::op::RuntimeParameter) -> Option<Self> {
        match parameter.value() {
            ixion_pnnx::Value::Bool(value) => Some(Scalar::Bool(*value)),
            ixion_pnnx::Value::Int(value) => Some(Scalar::Int(*value)),
            ixion_pnnx::Value::Float(value) => Some(Scalar::Float(*value)),
            ixion_pnnx::Value::Complex(value) => Some(Scalar::Complex(*value)),
            // The file has `inf` and `nan` as words.
            _ => parameter.as_f64().ok().map(Scalar::Float),
        }
    }

    fn to_parameter(&self) -> Option<crate::op::RuntimeParameter> {
        Some(match *self {
            Scalar::Bool(value) => value.into(),
            Scalar::Int(value) => value.into(),
            Scalar::Float(value) => value.into(),
            Scalar::Complex(value) => value.into(),
        })
    }
}

impl FieldValue for TensorOrScalar {
    const KIND: &'static str = "a number or an input";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        if let Some(number) = <Scalar as FieldValue>::read(reader, key)? {
            return Ok(Some(TensorOrScalar::Number(number)));
        }
        Ok(reader.later_input(key)?.map(TensorOrScalar::Input))
    }

    fn num_inputs(&self) -> usize {
        TensorOrScalar::num_inputs(self)
    }

    fn written(&self) -> Written {
        match self {
            TensorOrScalar::Number(number) => Written::param(number.to_parameter()),
            TensorOrScalar::Input(position) => Written::Input(*position),
        }
    }
}

/// An operand that may be absent, or `None`.
impl FieldValue for Option<TensorOrScalar> {
    const KIND: &'static str = "a number, an input or None";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        match reader.param(key) {
            Some(parameter) if parameter.is_none() => Ok(Some(None)),
            Some(_) => Ok(TensorOrScalar::read(reader, key)?.map(Some)),
            None => Ok(reader.later_input(key)?.map(|position| Some(TensorOrScalar::Input(position)))),
        }
    }

    fn num_inputs(&self) -> usize {
        self.as_ref().map_or(0, TensorOrScalar::num_inputs)
    }

    fn written(&self) -> Written {
        self.as_ref().map_or_else(Written::none, TensorOrScalar::written)
    }
}

/// An input in the element type of the computation: a view, or a converted copy.
pub(crate) enum Converted<'a> {
    /// It already has that type.
    View(TensorView<'a>),
    /// A converted copy.
    Copy(Tensor),
}

impl<'a> Converted<'a> {
    /// An input converted to an element type.
    pub(crate) fn of(input: &TensorView<'a>, dtype: DType) -> Result<Self> {
        if input.dtype() == dtype {
            return Ok(Self::View(*input));
        }
        Ok(Self::Copy(input.cast(dtype)?))
    }

    /// The elements.
    pub(crate) fn view(&self) -> TensorView<'_> {
        match self {
            Self::View(view) => *view,
            Self::Copy(tensor) => tensor.view(),
        }
    }

    /// The elements, broadcast to a shape.
    pub(crate) fn expanded(&self, shape: &Shape) -> Result<TensorView<'_>> {
        let view = self.view();
        Ok(view.with_layout(view.layout().expand(shape)?)?)
    }
}

/// Copies a view into a row-major array. It supports all strides, also of an axis of length 0 that is broadcast.
///
/// # Errors
/// None in practice: shape and number of elements are those of the view.
pub(crate) fn owned<T: Clone, D: ndarray::Dimension>(
    view: &ndarray::ArrayView<'_, T, D>,
) -> Result<ndarray::Array<T, D>> {
    Ok(ndarray::Array::from_shape_vec(view.raw_dim(), view.iter().cloned().collect())?)
}

/// The shape that results from broadcasting. A symbol that meets a number other than 1 must be that number or 1.
///
/// # Errors
/// [`LayerError::Shape`] if two lengths differ and neither is 1.
pub(crate) fn broadcast(a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let missing = long.len() - short.len();
    let mut dims = long.to_vec();
    for (to, other) in dims.iter_mut().skip(missing).zip(short) {
        let joined = join(to, other);
        *to = joined.ok_or_else(|| {
            let list = |dims: &[Dim]| format!("{:?}", dims.iter().map(Dim::to_string).collect::<Vec<_>>());
            LayerError::shape(
                "broadcast shapes",
                "equal lengths or 1",
                format!("{} and {}", list(a), list(b)),
            )
        })?;
    }
    Ok(dims)
}

/// The length of two axes that are broadcast together; `None` if they are incompatible.
pub(crate) fn join(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a.fixed(), b.fixed()) {
        _ if a == b => Some(a.clone()),
        (_, Some(1)) => Some(a.clone()),
        (Some(1), _) => Some(b.clone()),
        (Some(_), Some(_)) => None,
        (Some(_), None) => Some(a.clone()),
        (None, Some(_)) => Some(b.clone()),
        // Equal, or one of them is 1.
        (None, None) => Some(a.clone().max(b.clone())),
    }
}

/// Returns true if a tensor of dimensions `from` can be broadcast to `to`, or if that is unknown.
pub(crate) fn broadcasts(from: &[Dim], to: &[Dim]) -> bool {
    let fits = |(from, to): (&Dim, &Dim)| match (from.fixed(), to.fixed()) {
        (Some(from), Some(to)) => from == 1 || from == to,
        _ => true,
    };
    from.len() <= to.len() && from.iter().rev().zip(to.iter().rev()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::Complex;

    /// The numbers that `torch.full((), number, dtype=…)` and `masked_fill` accept and refuse.
    #[test]
    fn numbers_that_fit() {
        let (int, float) = (Scalar::Int, Scalar::Float);
        for (number, dtype) in [
            (int(300), DType::U8),
            (int(-256), DType::U8),
            (float(-1.0), DType::U8),
            (float(1e30), DType::I32),
            (float(f64::NAN), DType::I32),
            (int(1 << 40), DType::I32),
            (int(200), DType::I8),
            (float(1e300), DType::F32),
            (float(1e300), DType::C64),
            (float(-1e9), DType::F16),
            (float(9_223_372_036_854_775_808.0), DType::I64),
            (Scalar::Complex(Complex::new(1.0, 2.0)), DType::F32),
        ] {
            assert!(fitting(number, dtype).is_err(), "{number} as {dtype}");
        }
        let taken =
            |number, dtype| fitting(number, dtype).unwrap().cast(DType::F64).unwrap().item::<f64>().unwrap();
        assert_eq!(taken(int(-1), DType::U8), 255.0);
        assert_eq!(taken(int(-255), DType::U8), 1.0);
        assert_eq!(taken(float(2.7), DType::I32), 2.0);
        assert_eq!(taken(int(300), DType::Bool), 1.0);
        assert_eq!(taken(float(f64::NEG_INFINITY), DType::F16), f64::NEG_INFINITY);
        assert_eq!(taken(float(65504.0), DType::F16), 65504.0);
        assert_eq!(taken(float(-3.40282347e38), DType::F32), f64::from(f32::MIN));
        assert_eq!(taken(Scalar::Complex(Complex::new(1.0, 0.0)), DType::F32), 1.0);
        assert_eq!(taken(int(i64::MIN), DType::I64), -9_223_372_036_854_775_808.0);
    }
}
