//! Inputs, outputs and initialisers of graphs.

use super::names::writable;
use super::scope::Entry;
use super::{Lowering, Value};
use crate::OnnxError;
use crate::fixed::Constants;
use crate::schema::{DimensionValue, SparseTensorProto, TensorProto, ValueInfoProto, ValueType};
use crate::tensors::ElementType;
use ixion_pnnx::Dim;
use ixion_tensor::DType;

impl Lowering {
    /// Names the stored tensors of a graph. They are decoded when a node asks for them.
    pub(super) fn define_initializers(
        &mut self,
        dense: Vec<TensorProto>,
        sparse: Vec<SparseTensorProto>,
    ) -> Result<(), OnnxError> {
        for tensor in dense {
            let name = tensor.name.clone().unwrap_or_default();
            self.define_stored(name, Entry::Stored(Box::new(tensor)))?;
        }
        for tensor in sparse {
            let name = tensor.values.as_ref().and_then(|values| values.name.clone());
            self.define_stored(name.unwrap_or_default(), Entry::Sparse(Box::new(tensor)))?;
        }
        Ok(())
    }

    fn define_stored(&mut self, name: String, tensor: Entry) -> Result<(), OnnxError> {
        let problem = format!("two initializers are called `{name}`");
        match self.scope().entries.insert(name, tensor) {
            None => Ok(()),
            Some(_) => Err(OnnxError::Model { file: self.files.name(), problem }),
        }
    }

    /// Adds the inputs of the model. Those with an initialiser are constants: the initialiser is their default. Those with a value
    /// in `constants` are constants, too.
    pub(super) fn add_inputs(
        &mut self,
        inputs: &[ValueInfoProto],
        constants: &Constants,
    ) -> Result<(), OnnxError> {
        for input in inputs {
            let name = input.name.as_deref().unwrap_or_default();
            if let Some(fixed) = constants.get(name) {
                let (dtype, shape) = self.declared_type(input)?;
                let constant = fixed.constant(name, dtype, shape.as_deref(), self.files.limits());
                let constant = constant.map_err(|problem| self.input_problem(name, &problem))?;
                self.define(name, Value::Constant(constant));
            }
            if matches!(self.scope().entries.get(name), Some(Entry::Value(Value::Operand(_)))) {
                return Err(self.input_problem(name, "two inputs have this name"));
            }
            if self.scope().entries.contains_key(name) {
                continue;
            }
            let (dtype, shape) = self.declared_type(input)?;
            let operator = self.graph.new_operator("pnnx.Input", &writable(name))?;
            let operand = self.graph.new_operand(&writable(name))?;
            self.graph.connect_output(operator, operand)?;
            self.graph.set_operand_type(operand, Some(dtype), shape)?;
            self.define(name, Value::Operand(operand));
        }
        self.check_inputs_exist(inputs, constants)
    }

    /// Checks that the model has an input for each constant.
    fn check_inputs_exist(&self, inputs: &[ValueInfoProto], constants: &Constants) -> Result<(), OnnxError> {
        let names: Vec<&str> = inputs.iter().filter_map(|input| input.name.as_deref()).collect();
        match constants.keys().find(|name| !names.contains(&name.as_str())) {
            None => Ok(()),
            Some(missing) => {
                let problem = format!("there is no such input; inputs are: {}", names.join(", "));
                Err(self.input_problem(missing, &problem))
            }
        }
    }

    fn input_problem(&self, name: &str, problem: &str) -> OnnxError {
        OnnxError::Model { file: self.files.name(), problem: format!("input `{name}`: {problem}") }
    }

    /// The element type and shape that a model declares for an input.
    fn declared_type(&self, input: &ValueInfoProto) -> Result<(DType, Option<Vec<Dim>>), OnnxError> {
        let name = input.name.as_deref().unwrap_or_default();
        let problem = |problem: String| self.input_problem(name, &problem);
        let kind = input.r#type.as_ref().and_then(|kind| kind.value.as_ref());
        let tensor = match kind {
            Some(ValueType::Tensor(tensor)) => tensor,
            Some(other) => {
                let found = match other {
                    ValueType::Sequence(_) => "a sequence",
                    ValueType::Map(_) => "a map",
                    ValueType::Optional(_) => "an optional value",
                    ValueType::SparseTensor(_) => "a sparse tensor",
                    _ => "of an unknown type",
                };
                return Err(problem(format!("expected a tensor, but it is {found}")));
            }
            None => return Err(problem("it has no type".to_owned())),
        };
        let dtype = ElementType::of(tensor.elem_type.unwrap_or_default()).map_err(problem)?.dtype();
        let Some(shape) = &tensor.shape else { return Ok((dtype, None)) };
        let check = self.files.limits().check_rank(&format!("input `{name}`"), shape.dim.len());
        check.map_err(|source| OnnxError::Limit { file: self.files.name(), source })?;
        let dims = shape.dim.iter().map(|dim| match &dim.value {
            Some(DimensionValue::DimValue(len)) => match u64::try_from(*len) {
                Ok(len) => Ok(Dim::Fixed(len)),
                // Exporters write −1 for a length that is free.
                Err(_) => Ok(Dim::Unknown),
            },
            // Paddle calls every free length `?`.
            Some(DimensionValue::DimParam(name)) if !matches!(name.as_str(), "" | "?") => {
                Ok(Dim::Named(dim_name(name)))
            }
            _ => Ok(Dim::Unknown),
        });
        Ok((dtype, Some(dims.collect::<Result<_, OnnxError>>()?)))
    }

    /// Adds the outputs of the model, each named as in the file.
    pub(super) fn add_outputs(&mut self, outputs: &[ValueInfoProto]) -> Result<(), OnnxError> {
        for output in outputs {
            let name = output.name.as_deref().unwrap_or_default();
            let value = self.value(name)?;
            if !value.is_tensor() {
                let problem = format!(
                    "output `{name}`: expected a tensor, but it is a sequence or an empty optional value"
                );
                return Err(OnnxError::Model { file: self.files.name(), problem });
            }
            let operand = self.operand(&value)?;
            let operand = self.own_output(operand, name)?;
            // The name of the output is that of its operator; the names of outputs were kept for them.
            let operator = match self.graph.operator_named(&writable(name)) {
                None => writable(name),
                Some(_) => self.names.free(name),
            };
            let operator = self.graph.new_operator("pnnx.Output", &operator)?;
            self.graph.connect_input(operator, operand, None)?;
        }
        Ok(())
    }

    /// The operand of an output under its own name: another one if the operand is an input or has another name already.
    fn own_output(
        &mut self,
        operand: ixion_pnnx::OperandId,
        name: &str,
    ) -> Result<ixion_pnnx::OperandId, OnnxError> {
        let name = writable(name);
        if self.graph.operand(operand).name() == name {
            return Ok(operand);
        }
        let operator = self.names.free(&name);
        let operator = self.graph.new_operator("torch.clone", &operator)?;
        let output = self.graph.new_operand(&name)?;
        self.graph.connect_input(operator, operand, Some("input"))?;
        self.graph.connect_output(operator, output)?;
        Ok(output)
    }
}

/// The name of a length as a `.param` text can have it.
fn dim_name(name: &str) -> String {
    writable(name).replace([',', ')', '('], "_")
}
