//! Arguments beyond plain parameters: values that the graph may compute, named inputs, and the number of inputs and outputs.

use super::choices::PerAxis;
use crate::op::{
    FieldValue, FromParameter, INPUT_KIND, LayerError, OperatorReader, Result, TensorMeta, Written,
};
use ixion_tensor::{DType, Dim};

/// An argument that is a parameter of the file (`shape=(2,-1)`) or an input whose values the graph computes (`$shape=…`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParamOrInput<T> {
    /// Given in the file.
    Value(T),
    /// Computed by the graph: the position of the input.
    Input(usize),
}

impl<T> ParamOrInput<T> {
    /// The number of operator inputs that this argument takes: 0 or 1.
    pub fn num_inputs(&self) -> usize {
        usize::from(matches!(self, ParamOrInput::Input(_)))
    }
}

impl ParamOrInput<Vec<i64>> {
    /// The integers of the list, given the inputs.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if the input's values are not known, [`LayerError::DType`] if they are not i64.
    pub fn dims(&self, inputs: &[TensorMeta]) -> Result<Vec<Dim>> {
        match self {
            ParamOrInput::Value(values) => Ok(values.iter().copied().map(Dim::Fixed).collect()),
            ParamOrInput::Input(position) => Ok(known_values(inputs, *position)?.to_vec()),
        }
    }
}

impl ParamOrInput<PerAxis> {
    /// The values, one for each axis or one for all axes, given the inputs.
    ///
    /// # Errors
    /// The same as for a list of integers.
    pub fn dims(&self, inputs: &[TensorMeta]) -> Result<Vec<Dim>> {
        match self {
            ParamOrInput::Value(values) => Ok(values.values().iter().copied().map(Dim::from).collect()),
            ParamOrInput::Input(position) => Ok(known_values(inputs, *position)?.to_vec()),
        }
    }
}

impl ParamOrInput<i64> {
    /// The integer, given the inputs.
    ///
    /// # Errors
    /// The same as [`ParamOrInput::dims`]; [`LayerError::Shape`] if the input is a list.
    pub fn dim(&self, inputs: &[TensorMeta]) -> Result<Dim> {
        match self {
            ParamOrInput::Value(value) => Ok(Dim::Fixed(*value)),
            ParamOrInput::Input(position) => match known_values(inputs, *position)? {
                [value] => Ok(value.clone()),
                values => Err(LayerError::shape(format!("input {position}"), "one integer", values.len())),
            },
        }
    }
}

fn known_values(inputs: &[TensorMeta], position: usize) -> Result<&[Dim]> {
    let Some(input) = inputs.get(position) else {
        return Err(LayerError::missing_input(position, inputs.len()));
    };
    if input.dtype() != DType::I64 {
        return Err(LayerError::dtype(format!("input {position}"), "i64", input.dtype()));
    }
    input.values().ok_or_else(|| {
        let most = TensorMeta::MAX_VALUES;
        LayerError::Unsupported(format!(
            "the output shape depends on the values of input {position} ({input}), but they are not known; values are tracked for lists of at most {most}"
        ))
    })
}

impl<T: FromParameter> FieldValue for ParamOrInput<T> {
    const KIND: &'static str = <T as FromParameter>::KIND;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        match <T as FieldValue>::read(reader, key)? {
            Some(value) => Ok(Some(ParamOrInput::Value(value))),
            None => Ok(reader.later_input(key)?.map(ParamOrInput::Input)),
        }
    }

    fn num_inputs(&self) -> usize {
        ParamOrInput::num_inputs(self)
    }

    fn written(&self) -> Written {
        match self {
            ParamOrInput::Value(value) => Written::param(value.to_parameter()),
            ParamOrInput::Input(position) => Written::Input(*position),
        }
    }
}

/// An argument that may be absent, or `None`.
impl<T: FromParameter> FieldValue for Option<ParamOrInput<T>> {
    const KIND: &'static str = <T as FromParameter>::KIND;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        match reader.param(key) {
            Some(parameter) if parameter.raw() == "None" => Ok(Some(None)),
            _ => Ok(ParamOrInput::read(reader, key)?.map(Some)),
        }
    }

    fn num_inputs(&self) -> usize {
        self.as_ref().map_or(0, ParamOrInput::num_inputs)
    }

    fn written(&self) -> Written {
        self.as_ref().map_or_else(Written::none, ParamOrInput::written)
    }
}

/// The position of a required input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputIndex(pub usize);

impl FieldValue for InputIndex {
    const KIND: &'static str = INPUT_KIND;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        Ok(reader.later_input(key)?.map(InputIndex))
    }

    fn require(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Self> {
        let found = reader.num_inputs();
        Self::read(reader, key)?
            .ok_or_else(|| LayerError::InputCount { wanted: format!("an additional input `{key}`"), found })
    }

    fn num_inputs(&self) -> usize {
        1
    }

    fn written(&self) -> Written {
        Written::Input(self.0)
    }
}

/// The element type that the input of a reduction, such as a sum or a mean, is converted to first: PyTorch's `dtype`.
///
/// PNNX drops the parameter, but records the types of input and output: if they differ, the output's type is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accumulator(pub Option<Wanted>);

/// A requested element type, and its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The file has a parameter `dtype`.
    Given(DType),
    /// The file records different types for the input and the output.
    Recorded {
        /// The type of the input. Inputs of any other type are not converted.
        input: DType,
        /// The type of the output.
        output: DType,
    },
}

impl Accumulator {
    /// The requested type for an input of type `input`, if any.
    pub fn of(self, input: DType) -> Option<DType> {
        match self.0? {
            Wanted::Given(dtype) => Some(dtype),
            Wanted::Recorded { input: recorded, output } => (recorded == input).then_some(output),
        }
    }
}

impl FieldValue for Accumulator {
    const KIND: &'static str = <Option<DType> as FieldValue>::KIND;

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        if let Some(given) = <Option<DType> as FieldValue>::read(reader, key)?.flatten() {
            return Ok(Some(Self(Some(Wanted::Given(given)))));
        }
        let recorded = reader.input_dtype(0).zip(reader.output_dtype(0));
        // The norm of complex values is real by default.
        let requested = recorded.filter(|(input, output)| *output != input.real());
        Ok(Some(Self(requested.map(|(input, output)| Wanted::Recorded { input, output }))))
    }

    fn written(&self) -> Written {
        match self.0 {
            Some(Wanted::Given(dtype)) => Written::param(dtype.to_parameter()),
            Some(Wanted::Recorded { .. }) => Written::Unwritable,
            None => Written::Nothing,
        }
    }
}

/// The number of the operator's inputs. It is not a key of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputCount(pub usize);

impl FieldValue for InputCount {
    const KIND: &'static str = crate::op::NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        Ok(Some(Self(reader.num_inputs())))
    }

    fn written(&self) -> Written {
        Written::Nothing
    }
}

/// The number of outputs that the file lists for the operator. It is not a key of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputCount(pub usize);

impl FieldValue for OutputCount {
    const KIND: &'static str = crate::op::NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        Ok(Some(Self(reader.num_outputs())))
    }

    fn written(&self) -> Written {
        Written::Nothing
    }
}

/// The element type that the file records for the output, if it differs from the input's. It is not a key of the file: it
/// replaces a parameter `dtype` that PNNX does not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedType(pub Option<DType>);

impl FieldValue for RecordedType {
    const KIND: &'static str = crate::op::NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        let (input, output) = (reader.input_dtype(0), reader.output_dtype(0));
        Ok(Some(Self(if input.is_some() && input != output { output } else { None })))
    }

    fn written(&self) -> Written {
        if self.0.is_none() { Written::Nothing } else { Written::Unwritable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::RuntimeParameter;
    use std::collections::BTreeMap;

    fn read<T: FieldValue>(params: &[(&str, &str)], names: &[Option<&str>]) -> Result<T> {
        let params: BTreeMap<_, _> =
            params.iter().map(|(k, v)| (k.to_string(), RuntimeParameter::parse(v))).collect();
        let names: Vec<Option<String>> = names.iter().map(|name| name.map(str::to_owned)).collect();
        T::require(&mut OperatorReader::new(&params, &BTreeMap::new(), &names, 3), "shape")
    }

    #[test]
    fn arguments_come_from_the_file_or_the_graph() {
        let read = read::<ParamOrInput<Vec<i64>>>;
        assert_eq!(read(&[("shape", "(2,-1)")], &[None]).unwrap(), ParamOrInput::Value(vec![2, -1]));
        assert_eq!(read(&[], &[None, None]).unwrap(), ParamOrInput::Input(1));
        assert_eq!(
            read(&[], &[Some("input"), Some("other"), Some("shape")]).unwrap(),
            ParamOrInput::Input(2)
        );
        assert!(read(&[("shape", "zeros")], &[None]).is_err() && read(&[], &[None]).is_err());
    }

    #[test]
    fn values_must_be_known_integers() {
        let sizes = TensorMeta::new(DType::I64, [2]);
        let known = sizes.clone().with_values(vec![Dim::symbol("n"), Dim::Fixed(3)]);
        let list = ParamOrInput::<Vec<i64>>::Input(0);
        assert_eq!(list.dims(std::slice::from_ref(&known)).unwrap(), [Dim::symbol("n"), Dim::Fixed(3)]);
        assert!(matches!(list.dims(std::slice::from_ref(&sizes)), Err(LayerError::Unsupported(_))));
        assert!(matches!(list.dims(&[sizes.with_dtype(DType::F32)]), Err(LayerError::DType { .. })));
        assert!(matches!(list.dims(&[]), Err(LayerError::InputCount { .. })));
        assert!(matches!(ParamOrInput::<i64>::Input(0).dim(&[known]), Err(LayerError::Shape { .. })));
    }

    #[test]
    fn operands_and_output_counts() {
        assert_eq!(read::<InputIndex>(&[], &[None, Some("shape")]).unwrap(), InputIndex(1));
        assert!(matches!(read::<InputIndex>(&[], &[None]), Err(LayerError::InputCount { .. })));
        let first = read::<InputIndex>(&[], &[Some("shape"), Some("input")]);
        assert!(matches!(first, Err(LayerError::InvalidParameter { .. })));
        assert_eq!(read::<OutputCount>(&[], &[None]).unwrap(), OutputCount(3));
    }
}
