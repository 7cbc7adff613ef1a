//! Arguments beyond plain parameters: values that the graph may compute, inputs that the file names, and the number of
//! outputs that it lists.

use super::choices::PerAxis;
use crate::op::{FieldValue, FromParameter, INPUT_KIND, LayerError, OperatorReader, TensorMeta};
use crate::tensor::{DType, Dim};

/// An argument that is a parameter of the file (`shape=(2,-1)`) or an input whose values the graph computes (`$shape=…`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument<T> {
    /// Given in the file.
    Value(T),
    /// Computed by the graph: the position of the input.
    Input(usize),
}

impl<T> Argument<T> {
    /// How many inputs of the operator this argument takes: 0 or 1.
    pub fn num_inputs(&self) -> usize {
        usize::from(matches!(self, Argument::Input(_)))
    }
}

impl Argument<Vec<i64>> {
    /// The integers of the list, given the inputs.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] when an input's values are not known, [`LayerError::DType`] when they are no i64.
    pub fn dims(&self, inputs: &[TensorMeta]) -> Result<Vec<Dim>, LayerError> {
        match self {
            Argument::Value(values) => Ok(values.iter().copied().map(Dim::Fixed).collect()),
            Argument::Input(position) => Ok(known_values(inputs, *position)?.to_vec()),
        }
    }
}

impl Argument<PerAxis> {
    /// The numbers, one for each axis or one for all, given the inputs.
    ///
    /// # Errors
    /// As those of a list of integers.
    pub fn dims(&self, inputs: &[TensorMeta]) -> Result<Vec<Dim>, LayerError> {
        match self {
            Argument::Value(values) => Ok(values.values().iter().copied().map(Dim::from).collect()),
            Argument::Input(position) => Ok(known_values(inputs, *position)?.to_vec()),
        }
    }
}

impl Argument<i64> {
    /// The integer, given the inputs.
    ///
    /// # Errors
    /// As [`Argument::dims`]; [`LayerError::Shape`] when the input is a list.
    pub fn dim(&self, inputs: &[TensorMeta]) -> Result<Dim, LayerError> {
        match self {
            Argument::Value(value) => Ok(Dim::Fixed(*value)),
            Argument::Input(position) => match known_values(inputs, *position)? {
                [value] => Ok(value.clone()),
                values => Err(LayerError::shape(format!("input {position}"), "one integer", values.len())),
            },
        }
    }
}

fn known_values(inputs: &[TensorMeta], position: usize) -> Result<&[Dim], LayerError> {
    let Some(input) = inputs.get(position) else {
        return Err(LayerError::missing_input(position, inputs.len()));
    };
    if input.dtype() != DType::I64 {
        let what = format!("input {position}");
        return Err(LayerError::DType { what, wanted: "i64".to_owned(), found: input.dtype() });
    }
    input.values().ok_or_else(|| {
        let most = TensorMeta::MAX_VALUES;
        LayerError::Unsupported(format!(
            "the values of input {position} ({input}) decide the output's shape and must be known: a list of at most {most}"
        ))
    })
}

impl<T: FromParameter> FieldValue for Argument<T> {
    const KIND: &'static str = <T as FromParameter>::KIND;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>, LayerError> {
        match <T as FieldValue>::read(reader, key)? {
            Some(value) => Ok(Some(Argument::Value(value))),
            None => Ok(reader.later_input(key)?.map(Argument::Input)),
        }
    }
}

/// An argument that may be absent, or `None`.
impl<T: FromParameter> FieldValue for Option<Argument<T>> {
    const KIND: &'static str = <T as FromParameter>::KIND;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>, LayerError> {
        match reader.param(key) {
            Some(parameter) if parameter.raw() == "None" => Ok(Some(None)),
            _ => Ok(Argument::read(reader, key)?.map(Some)),
        }
    }
}

/// The position of an input that the operator cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operand(pub usize);

impl FieldValue for Operand {
    const KIND: &'static str = INPUT_KIND;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(reader.later_input(key)?.map(Operand))
    }

    fn require(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Self, LayerError> {
        let found = reader.num_inputs();
        Self::read(reader, key)?
            .ok_or_else(|| LayerError::InputCount { wanted: format!("`{key}` and more"), found })
    }
}

/// The element type that the input of a sum, a mean or the like is converted to first.
///
/// PNNX drops the parameter, but records the types of input and output: where these differ, the result is of that type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accumulator(pub Option<Wanted>);

/// An element type, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The file asks for it.
    Given(DType),
    /// The file records that an input of one type became an output of another.
    Recorded {
        /// The type of the input: of others nothing is known.
        input: DType,
        /// That of the output.
        output: DType,
    },
}

impl Accumulator {
    /// The type that is asked for, given that of the input.
    pub fn of(self, input: DType) -> Option<DType> {
        match self.0? {
            Wanted::Given(dtype) => Some(dtype),
            Wanted::Recorded { input: recorded, output } => (recorded == input).then_some(output),
        }
    }
}

impl FieldValue for Accumulator {
    const KIND: &'static str = <Option<DType> as FieldValue>::KIND;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>, LayerError> {
        if let Some(given) = <Option<DType> as FieldValue>::read(reader, key)?.flatten() {
            return Ok(Some(Self(Some(Wanted::Given(given)))));
        }
        let recorded = reader.input_dtype(0).zip(reader.output_dtype(0));
        // The norm of complex numbers is real without being asked.
        let told = recorded.filter(|(input, output)| *output != input.real());
        Ok(Some(Self(told.map(|(input, output)| Wanted::Recorded { input, output }))))
    }
}

/// How many inputs the operator has. Not a key: no file sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputCount(pub usize);

impl FieldValue for InputCount {
    const KIND: &'static str = crate::op::NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(Some(Self(reader.num_inputs())))
    }
}

/// How many outputs the file lists for the operator. Not a key: no file sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputCount(pub usize);

impl FieldValue for OutputCount {
    const KIND: &'static str = crate::op::NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>, LayerError> {
        Ok(Some(Self(reader.num_outputs())))
    }
}

/// The element type that the file records for the output, where it is another than that of the input. Not a key: it
/// stands in for a parameter `dtype` that PNNX does not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedType(pub Option<DType>);

impl FieldValue for RecordedType {
    const KIND: &'static str = crate::op::NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>, LayerError> {
        let (input, output) = (reader.input_dtype(0), reader.output_dtype(0));
        Ok(Some(Self(if input.is_some() && input != output { output } else { None })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::RuntimeParameter;
    use std::collections::BTreeMap;

    fn read<T: FieldValue>(params: &[(&str, &str)], names: &[Option<&str>]) -> Result<T, LayerError> {
        let params: BTreeMap<_, _> =
            params.iter().map(|(k, v)| (k.to_string(), RuntimeParameter::parse(v))).collect();
        let names: Vec<Option<String>> = names.iter().map(|name| name.map(str::to_owned)).collect();
        T::require(&mut OperatorReader::new(&params, &BTreeMap::new(), &names, 3), "shape")
    }

    #[test]
    fn arguments_come_from_the_file_or_the_graph() {
        let read = read::<Argument<Vec<i64>>>;
        assert_eq!(read(&[("shape", "(2,-1)")], &[None]).unwrap(), Argument::Value(vec![2, -1]));
        assert_eq!(read(&[], &[None, None]).unwrap(), Argument::Input(1));
        assert_eq!(read(&[], &[Some("input"), Some("other"), Some("shape")]).unwrap(), Argument::Input(2));
        assert!(read(&[("shape", "zeros")], &[None]).is_err() && read(&[], &[None]).is_err());
    }

    #[test]
    fn values_must_be_known_integers() {
        let sizes = TensorMeta::new(DType::I64, [2]);
        let known = sizes.clone().with_values(vec![Dim::symbol("n"), Dim::Fixed(3)]);
        let list = Argument::<Vec<i64>>::Input(0);
        assert_eq!(list.dims(std::slice::from_ref(&known)).unwrap(), [Dim::symbol("n"), Dim::Fixed(3)]);
        assert!(matches!(list.dims(std::slice::from_ref(&sizes)), Err(LayerError::Unsupported(_))));
        assert!(matches!(list.dims(&[sizes.with_dtype(DType::F32)]), Err(LayerError::DType { .. })));
        assert!(matches!(list.dims(&[]), Err(LayerError::InputCount { .. })));
        assert!(matches!(Argument::<i64>::Input(0).dim(&[known]), Err(LayerError::Shape { .. })));
    }

    #[test]
    fn operands_and_output_counts() {
        assert_eq!(read::<Operand>(&[], &[None, Some("shape")]).unwrap(), Operand(1));
        assert!(matches!(read::<Operand>(&[], &[None]), Err(LayerError::InputCount { .. })));
        let first = read::<Operand>(&[], &[Some("shape"), Some("input")]);
        assert!(matches!(first, Err(LayerError::InvalidParameter { .. })));
        assert_eq!(read::<OutputCount>(&[], &[None]).unwrap(), OutputCount(3));
    }
}
