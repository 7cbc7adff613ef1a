//! Values that a model's inputs are fixed to.

use crate::lower::Constant;
use half::{bf16, f16};
use ixion_pnnx::{Attribute, Dim, WeightError, element_count};
use ixion_tensor::{DType, Limits};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Values for inputs of a model by their names. They replace the inputs.
pub type Constants = BTreeMap<String, Fixed>;

/// The value of an input that never changes, such as a sampling rate. It gets the element type and the shape of the input.
///
/// ```
/// use ixion_onnx::Fixed;
/// assert_eq!("16000".parse::<Fixed>()?, Fixed::Integers(vec![16000]));
/// assert_eq!("0.5, 2".parse::<Fixed>()?, Fixed::Floats(vec![0.5, 2.0]));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Fixed {
    /// Integers in row-major order. For an input of bools, 0 is false and 1 is true.
    Integers(Vec<i64>),
    /// Real numbers in row-major order.
    Floats(Vec<f64>),
}

impl FromStr for Fixed {
    type Err = String;

    /// Reads numbers with commas between them. `false` and `true` are 0 and 1.
    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let integer = |word: &&str| match *word {
            "false" => Some(0),
            "true" => Some(1),
            word => word.parse().ok(),
        };
        if let Some(integers) = words.iter().map(integer).collect() {
            return Ok(Self::Integers(integers));
        }
        let floats: Option<Vec<f64>> = words.iter().map(|word| word.parse().ok()).collect();
        floats
            .map(Self::Floats)
            .ok_or_else(|| format!("expected numbers with commas between them, got `{text}`"))
    }
}

impl Fixed {
    fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Floats(values) => values.len(),
        }
    }

    /// The constant for an input of this type and shape.
    ///
    /// # Errors
    /// The problem, if the values do not fit the type or the shape.
    pub(crate) fn constant(
        &self,
        name: &str,
        dtype: DType,
        shape: Option<&[Dim]>,
        limits: &Limits,
    ) -> Result<Constant, String> {
        let shape = self.shape(shape)?;
        let bytes = (self.len() as u64).saturating_mul(dtype.size() as u64);
        limits.check_tensor("the value of an input", bytes).map_err(|error| error.to_string())?;
        let bytes = self.bytes(dtype)?;
        let attribute = Attribute::new(dtype, shape, bytes);
        attribute
            .map(|attribute| Constant::new(name, attribute))
            .map_err(|error: WeightError| error.to_string())
    }

    /// The shape that the values have, if it is this one with at most one length that is free.
    fn shape(&self, declared: Option<&[Dim]>) -> Result<Vec<usize>, String> {
        let found = self.len();
        let Some(declared) = declared else {
            return Ok(if found == 1 { Vec::new() } else { vec![found] });
        };
        let wrong = || {
            let dims: Vec<String> = declared.iter().map(Dim::to_string).collect();
            format!("its shape is ({}), which {found} values do not fill", dims.join(", "))
        };
        let mut is_open = true;
        let known: Vec<usize> = declared.iter().filter_map(fixed).collect();
        let known = element_count(DType::U8, &known).filter(|known| *known > 0).ok_or_else(wrong)?;
        let shape = declared.iter().map(|dim| match fixed(dim) {
            Some(len) => len,
            // All lengths that are free but the first one are 1.
            None if std::mem::take(&mut is_open) => found / known,
            None => 1,
        });
        let shape: Vec<usize> = shape.collect();
        (element_count(DType::U8, &shape) == Some(found)).then_some(shape).ok_or_else(wrong)
    }

    /// The elements in the form of a type, little-endian.
    fn bytes(&self, dtype: DType) -> Result<Vec<u8>, String> {
        match (self, dtype) {
            (Self::Integers(values), DType::F16 | DType::Bf16 | DType::F32 | DType::F64) => {
                let floats = values.iter().map(|value| *value as f64).collect();
                Self::Floats(floats).bytes(dtype)
            }
            (Self::Integers(values), _) => {
                let each = values.iter().map(|value| integer(*value, dtype));
                each.collect::<Option<Vec<_>>>().map(|each| each.concat()).ok_or_else(|| self.unfit(dtype))
            }
            (Self::Floats(values), _) => {
                let each = values.iter().map(|value| float(*value, dtype));
                each.collect::<Option<Vec<_>>>().map(|each| each.concat()).ok_or_else(|| self.unfit(dtype))
            }
        }
    }

    fn unfit(&self, dtype: DType) -> String {
        let found = if matches!(self, Self::Integers(_)) { "integers" } else { "real numbers" };
        format!("its elements are {dtype}, which cannot hold these {found}")
    }
}

/// A length that is known.
fn fixed(dim: &Dim) -> Option<usize> {
    match dim {
        Dim::Fixed(len) => usize::try_from(*len).ok(),
        _ => None,
    }
}

fn integer(value: i64, dtype: DType) -> Option<Vec<u8>> {
    Some(match dtype {
        DType::I64 => value.to_le_bytes().to_vec(),
        DType::I32 => i32::try_from(value).ok()?.to_le_bytes().to_vec(),
        DType::I16 => i16::try_from(value).ok()?.to_le_bytes().to_vec(),
        DType::I8 => i8::try_from(value).ok()?.to_le_bytes().to_vec(),
        DType::U8 => u8::try_from(value).ok()?.to_le_bytes().to_vec(),
        DType::Bool => u8::try_from(value).ok().filter(|value| *value < 2)?.to_le_bytes().to_vec(),
        _ => return None,
    })
}

fn float(value: f64, dtype: DType) -> Option<Vec<u8>> {
    Some(match dtype {
        DType::F64 => value.to_le_bytes().to_vec(),
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
        DType::Bf16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_type_and_shape_of_the_input() {
        let constant = |text: &str, dtype, shape: Option<&[Dim]>| {
            let fixed: Fixed = text.parse().unwrap();
            let constant = fixed.constant("x", dtype, shape, &Limits::default())?;
            Ok::<_, String>((constant.shape().to_vec(), constant.f64s().unwrap().unwrap()))
        };
        assert_eq!(constant("16000", DType::I64, Some(&[])), Ok((vec![], vec![16000.0])));
        assert_eq!(
            constant("1,2", DType::F16, Some(&[Dim::Unknown, Dim::Fixed(2)])),
            Ok((vec![1, 2], vec![1.0, 2.0]))
        );
        assert_eq!(constant("1,0.5", DType::F32, None), Ok((vec![2], vec![1.0, 0.5])));
        assert_eq!(constant("true", DType::Bool, Some(&[Dim::Fixed(1)])), Ok((vec![1], vec![1.0])));
        assert!(constant("2", DType::Bool, None).unwrap_err().contains("bool"));
        assert!(constant("0.5", DType::I64, None).unwrap_err().contains("real numbers"));
        assert!(constant("1,2", DType::I64, Some(&[Dim::Fixed(3)])).unwrap_err().contains("(3)"));
        assert!(constant("1", DType::I64, Some(&[Dim::Fixed(0), Dim::Unknown])).is_err());
        assert!("1;2".parse::<Fixed>().is_err());
    }
}
