//! Fields that are read from the values of parameters.

use super::{FieldValue, OperatorReader, Written};
use crate::op::{LayerError, Result, RuntimeParameter};
use ixion_pnnx::{Expr, Value};
use ixion_tensor::DType;

/// A type that is read from the value of a parameter, for fields of [`operator!`](crate::operator). It is more lenient than
/// [`pnnx::FromParameter`](ixion_pnnx::FromParameter), which requires the kind of value that the file has: here a single
/// integer is accepted as a list, as in PyTorch.
pub trait FromParameter: Sized {
    /// The kind of value in words.
    const KIND: &'static str;

    /// Converts the parameter; `None` if it is of another kind.
    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self>;

    /// The parameter that [`from_parameter`](Self::from_parameter) converts to this value; `None` if there is none. Default:
    /// `None`.
    fn to_parameter(&self) -> Option<RuntimeParameter> {
        None
    }
}

impl<T: FromParameter> FieldValue for T {
    const KIND: &'static str = <T as FromParameter>::KIND;

    const IS_PARAMETER: bool = true;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        let Some(parameter) = reader.param(key) else { return Ok(None) };
        match T::from_parameter(parameter) {
            Some(value) => Ok(Some(value)),
            None => Err(wrong(parameter, key, <T as FromParameter>::KIND)),
        }
    }

    fn written(&self) -> Written {
        Written::param(self.to_parameter())
    }
}

/// The error for a parameter of another kind.
fn wrong(parameter: &RuntimeParameter, key: &str, wanted: &str) -> LayerError {
    let found = parameter.raw().to_owned();
    LayerError::WrongParameter { key: key.to_owned(), wanted: wanted.to_owned(), found }
}

impl FromParameter for bool {
    const KIND: &'static str = "a bool";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        parameter.as_bool().ok()
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        Some((*self).into())
    }
}

impl FromParameter for i64 {
    const KIND: &'static str = "an integer";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        parameter.as_i64().ok()
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        Some((*self).into())
    }
}

impl FromParameter for usize {
    const KIND: &'static str = "an integer of at least 0";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        usize::try_from(parameter.as_i64().ok()?).ok()
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        Some(i64::try_from(*self).ok()?.into())
    }
}

impl FromParameter for f64 {
    const KIND: &'static str = "a number";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        parameter.as_f64().ok()
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        Some((*self).into())
    }
}

impl FromParameter for String {
    const KIND: &'static str = "a string";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        Some(parameter.raw().to_owned())
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        Some(RuntimeParameter::parse(self))
    }
}

impl FromParameter for DType {
    const KIND: &'static str = "an element type such as torch.float";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        DType::from_torch_name(parameter.raw())
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        Some(RuntimeParameter::parse(self.torch_name()))
    }
}

/// PNNX writes `None` for an empty list of TorchScript, such as the size of a tensor without axes.
impl FromParameter for Vec<i64> {
    const KIND: &'static str = "a list of integers";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        if matches!(parameter.raw(), "()" | "[]" | "None") {
            return Some(Vec::new());
        }
        parameter.as_i64s().ok().or_else(|| Some(vec![parameter.as_i64().ok()?]))
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        Some(self.clone().into())
    }
}

/// Integers are accepted as floats, and a single number as a list of one.
impl FromParameter for Vec<f64> {
    const KIND: &'static str = "a list of numbers";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        if matches!(parameter.raw(), "()" | "[]") {
            return Some(Vec::new());
        }
        parameter.as_f64s().ok().or_else(|| Some(vec![parameter.as_f64().ok()?]))
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        Some(self.clone().into())
    }
}

/// Integers of at least 0, one for each of `N` axes. A single integer applies to all axes, as in PyTorch.
impl<const N: usize> FromParameter for [usize; N] {
    const KIND: &'static str = "an integer of at least 0 for each axis, or one for all";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        let values = Vec::<i64>::from_parameter(parameter)?;
        let values: Option<Vec<usize>> =
            values.into_iter().map(|value| usize::try_from(value).ok()).collect();
        match values?.as_slice() {
            [value] => Some([*value; N]),
            values => values.try_into().ok(),
        }
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        self.iter().map(|&value| i64::try_from(value).ok()).collect::<Option<Vec<i64>>>().map(Into::into)
    }
}

impl FromParameter for Expr {
    const KIND: &'static str = "an expression such as add(@0,@1)";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        parameter.raw().parse().ok()
    }
}

/// `None` in the file, or a value. An empty list is `None`, too, if it is no value: TorchScript has no other way to leave out a
/// list, such as the stride of a pooling.
impl<T: FromParameter> FromParameter for Option<T> {
    const KIND: &'static str = T::KIND;

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        if parameter.raw() == "None" {
            return Some(None);
        }
        T::from_parameter(parameter).map(Some).or_else(|| (*parameter.value() == Value::None).then_some(None))
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        match self {
            Some(value) => value.to_parameter(),
            None => Some(RuntimeParameter::parse("None")),
        }
    }
}
