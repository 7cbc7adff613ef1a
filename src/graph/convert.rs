//! Conversion of the file's graph to the runtime graph.
//!
//! Operators are converted in topological order and get their layers. Tuples, lists and constants exist only in the file: they
//! are resolved here, so that the operands of the runtime graph are tensors only.

mod arguments;
mod inputs;
mod partial;
mod script;
mod shared;
mod tuples;
mod values;
mod writes;

use super::GraphError;
use super::draft::{
    Draft, Value, add_input, add_operand, add_outputs, add_tensor, connect, inputs_of, runtime_operator,
};
use super::error::{OperatorPlace, UnknownOperator};
use super::operator::{OperandIndex, RuntimeOperand, RuntimeOperator};
use super::sort::{dependencies, topological_order};
use crate::Limits;
use crate::op::{
    CpuLayer, Creator, LayerError, OperatorReader, Registry, RegistryError, RuntimeAttribute, TensorMeta,
    Watchdog, catch_panic,
};
use crate::pnnx::{self, OperandId, OperatorId};
use crate::tensor::{DType, Tensor};
use arguments::Arguments;
pub(super) use partial::convert_partly;
pub use partial::{Outlined, Problem};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
pub(super) use values::literal;
pub(crate) use writes::{is_view, is_write};

/// Converts a graph.
///
/// # Errors
/// Returns an error for a cycle, an operand without a producer, a misused tuple, or a layer that cannot be created. Operators
/// without a registered layer are reported together, in one error.
pub(super) fn convert(
    file: &pnnx::Graph,
    path: Option<&Path>,
    registry: &Registry,
    random_weights: Option<u64>,
    limits: &Limits,
) -> Result<Draft, GraphError> {
    let order = sorted(file, path)?;
    let mut converter = Converter::new(file, path, registry, limits);
    converter.random_weights = random_weights;
    order.into_iter().try_for_each(|id| converter.add(id))?;
    if !converter.unknown.is_empty() {
        return Err(GraphError::UnknownOperators { operators: converter.unknown });
    }
    Ok(converter.draft)
}

/// The operators of the file in topological order.
fn sorted(file: &pnnx::Graph, path: Option<&Path>) -> Result<Vec<OperatorId>, GraphError> {
    let ids = file.operator_ids();
    let dependencies = dependencies(file).map_err(|(reader, operand)| GraphError::DanglingOperand {
        operand: file.operand(operand).name().to_owned(),
        consumer: OperatorPlace::of(file.operator(reader), path),
    })?;
    match topological_order(&dependencies) {
        Ok(order) => Ok(order.into_iter().map(|index| ids[index]).collect()),
        Err(cycle) => {
            let name = |index: usize| file.operator(ids[index]).name().to_owned();
            Err(GraphError::Cycle { operators: cycle.into_iter().map(name).collect() })
        }
    }
}

/// The maximum number of outputs of one operator: a layer may report a wrong number.
const MAX_OUTPUTS: usize = 1 << 16;

struct Converter<'a> {
    file: &'a pnnx::Graph,
    path: Option<&'a Path>,
    registry: &'a Registry,
    random_weights: Option<u64>,
    limits: &'a Limits,
    /// The tensors of constants that some layer reads as tensors.
    made: HashMap<OperandId, OperandIndex>,
    /// Scalars that the graph computes, such as the size of an axis.
    numbers: HashSet<OperandIndex>,
    unknown: Vec<UnknownOperator>,
    draft: Draft,
}

impl<'a> Converter<'a> {
    /// A converter that has not added any operators yet, and reads weights from the file.
    fn new(
        file: &'a pnnx::Graph,
        path: Option<&'a Path>,
        registry: &'a Registry,
        limits: &'a Limits,
    ) -> Self {
        Self {
            file,
            path,
            registry,
            random_weights: None,
            limits,
            made: HashMap::new(),
            numbers: HashSet::new(),
            unknown: Vec::new(),
            draft: Draft::default(),
        }
    }
}

impl Converter<'_> {
    fn add(&mut self, id: OperatorId) -> Result<(), GraphError> {
        let operator = self.file.operator(id);
        match operator.op_type() {
            "pnnx.Input" => {
                add_input(&mut self.draft, self.file, operator);
                Ok(())
            }
            "pnnx.Output" => self.add_output(operator),
            "prim::TupleConstruct" | "prim::ListConstruct" => self.add_tuple(operator),
            "prim::DictConstruct" => self.add_dict(operator),
            "prim::TupleUnpack" | "prim::ListUnpack" => self.unpack_tuple(operator),
            "pnnx.Expression" if self.is_index_list(operator) => self.add_index_list(operator),
            op_type if is_write(op_type) => self.add_write(operator),
            op_type if self.is_scripted(op_type) => self.add_scripted(operator),
            _ => match (literal(operator), operator.outputs()) {
                (Some(raw), &[output]) => {
                    self.draft.values.insert(output, Value::constant(&raw, Some(output)));
                    Ok(())
                }
                _ => self.add_layer(operator),
            },
        }
    }

    fn add_output(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        let mut operands = Vec::new();
        let values = self.inputs_of(operator)?;
        values.iter().try_for_each(|value| self.flatten(operator, value, &mut operands))?;
        add_outputs(&mut self.draft, operator, &operands);
        Ok(())
    }

    /// Gives a tensor the name, element type and shape of an operand of the file.
    fn name_operand(&mut self, index: OperandIndex, operand: OperandId) {
        let (runtime, operand) = (&mut self.draft.operands[index.0], self.file.operand(operand));
        runtime.name = operand.name().to_owned();
        runtime.dtype = operand.dtype();
        runtime.shape = operand.shape().map(<[_]>::to_vec);
    }

    fn add_layer(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        let values = self.without_shared_weights(operator, self.inputs_of(operator)?);
        let mut made = runtime_operator(operator);
        if let Some(seed) = self.random_weights {
            made = made.with_attrs(self.random_attributes(operator, seed)?);
        }
        let registry = self.registry;
        let creator = match registry.get(operator.op_type()) {
            Ok(creator) => creator,
            Err(error) => return self.skip_unknown(operator, error),
        };
        let arguments = self.arguments(operator, creator, &values)?;
        let arguments = self.with_constant_input(operator, creator, arguments)?;
        let used = self.outputs_in_use(operator);
        let layer =
            self.create((operator, operator.op_type()), creator, &arguments, made.attrs(), Some(&used))?;
        let count =
            catch_panic(|| Ok(layer.num_outputs())).map_err(|source| self.create_error(operator, source))?;
        let outputs = self.add_outputs(operator, count)?;
        let returns_number = self.fact_holds(operator.op_type(), |creator| creator.returns_number);
        let returns_number =
            returns_number || (self.is_of_numbers(operator, &arguments) && has_no_axes(&*layer, &arguments));
        if returns_number {
            self.numbers.extend(&outputs);
        }
        self.push_operator(made.with_layer(layer), arguments, outputs);
        Ok(())
    }

    /// Returns true if a fact of TorchScript holds for an operator type. It also holds for a layer that replaces a built-in one.
    fn fact_holds(&self, op_type: &str, fact: impl Fn(&Creator) -> bool) -> bool {
        [self.registry, Registry::built_in()].iter().filter_map(|layers| layers.known(op_type)).any(fact)
    }

    /// Returns true if a TorchScript operator reads numbers only.
    fn is_of_numbers(&self, operator: &pnnx::Operator, arguments: &Arguments) -> bool {
        let inputs = &arguments.inputs;
        operator.op_type().starts_with("aten::")
            && !inputs.is_empty()
            && inputs.iter().all(|input| self.numbers.contains(input))
    }

    /// Inserts an auxiliary operator for an operator of the file. Returns its output.
    fn insert(
        &mut self,
        operator: &pnnx::Operator,
        op_type: &str,
        name: String,
        arguments: Arguments,
    ) -> Result<OperandIndex, GraphError> {
        let output = add_operand(&mut self.draft, RuntimeOperand::new(&*name));
        let registry = self.registry;
        let creator = match registry.get(op_type) {
            Ok(creator) => creator,
            Err(error) => {
                let place =
                    OperatorPlace { op_type: op_type.to_owned(), ..*OperatorPlace::of(operator, self.path) };
                self.unknown.push(UnknownOperator { place, nearest: nearest(error) });
                return Ok(output);
            }
        };
        let layer = self.create((operator, op_type), creator, &arguments, &BTreeMap::new(), None)?;
        let made = RuntimeOperator::new(name, op_type).with_line(operator.line()).with_layer(layer);
        self.push_operator(made, arguments, vec![output]);
        Ok(output)
    }

    fn create(
        &self,
        (operator, op_type): (&pnnx::Operator, &str),
        creator: &Creator,
        arguments: &Arguments,
        attrs: &BTreeMap<String, RuntimeAttribute>,
        outputs: Option<&[OperandId]>,
    ) -> Result<Box<dyn CpuLayer>, GraphError> {
        let recorded = |input: &OperandIndex| self.draft.operands[input.0].shape.as_deref();
        let input_shapes = arguments.inputs.iter().map(recorded).collect();
        let recorded = |input: &OperandIndex| self.draft.operands[input.0].dtype;
        let input_dtypes = arguments.inputs.iter().map(recorded).collect();
        let outputs_of_file = outputs.unwrap_or_default().iter().map(|&output| self.file.operand(output));
        let output_dtypes = outputs_of_file.clone().map(pnnx::Operand::dtype).collect();
        let output_shapes = outputs_of_file.map(pnnx::Operand::shape).collect();
        let count = outputs.map_or(1, <[_]>::len);
        let reader = OperatorReader::new(&arguments.params, attrs, &arguments.names, count)
            .with_name(operator.name())
            .with_op_type(op_type)
            .with_shapes(input_shapes, output_shapes)
            .with_dtypes(input_dtypes, output_dtypes);
        let layer = creator.create(reader).map_err(|source| self.create_error(operator, source))?;
        let layer = match creator.namespace == Creator::<dyn CpuLayer>::BUILT_IN {
            true => layer,
            false => {
                let watched = catch_panic(|| Ok(Watchdog::new(layer)));
                Box::new(watched.map_err(|source| self.create_error(operator, source))?)
            }
        };
        self.check_inputs(operator, &*layer, arguments.inputs.len())?;
        Ok(layer)
    }

    /// Connects an operator with its operands.
    fn push_operator(&mut self, made: RuntimeOperator, arguments: Arguments, outputs: Vec<OperandIndex>) {
        let Arguments { params, inputs, names } = arguments;
        connect(&mut self.draft, made.with_params(params).with_inputs(inputs, names).with_outputs(outputs));
    }

    /// Records an operator without a layer and continues, so that all of them are reported together.
    fn skip_unknown(&mut self, operator: &pnnx::Operator, error: RegistryError) -> Result<(), GraphError> {
        self.unknown.push(UnknownOperator {
            place: *OperatorPlace::of(operator, self.path),
            nearest: nearest(error),
        });
        self.fill_in(operator);
        Ok(())
    }

    /// Adds tensors for the outputs of an operator that is not in the graph.
    fn fill_in(&mut self, operator: &pnnx::Operator) {
        for &output in operator.outputs() {
            if !self.is_unpacked(output) {
                add_tensor(&mut self.draft, self.file, output);
                continue;
            }
            let name = self.file.operand(output).name();
            let item = |item| RuntimeOperand::new(format!("{name}.{item}"));
            let items = (0..self.items_of(output).map_or(1, <[_]>::len)).map(item);
            let items = items.map(|item| Value::Tensor(add_operand(&mut self.draft, item))).collect();
            self.draft.values.insert(output, Value::tuple(items));
        }
    }

    /// Adds one operand for each output that the layer produces. If the file has a single operand for several outputs, it is a
    /// tuple; so is the last operand if the file unpacks it.
    fn add_outputs(
        &mut self,
        operator: &pnnx::Operator,
        wanted: usize,
    ) -> Result<Vec<OperandIndex>, GraphError> {
        match operator.outputs() {
            outputs
                if outputs.len() == wanted && outputs.last().is_none_or(|last| !self.is_unpacked(*last)) =>
            {
                let add = |&output: &OperandId| add_tensor(&mut self.draft, self.file, output);
                Ok(outputs.iter().map(add).collect())
            }
            [others @ .., tuple]
                if (others.len()..=MAX_OUTPUTS).contains(&wanted)
                    && (others.is_empty() || self.is_unpacked(*tuple)) =>
            {
                let add = |&output: &OperandId| add_tensor(&mut self.draft, self.file, output);
                let mut added: Vec<OperandIndex> = others.iter().map(add).collect();
                let name = self.file.operand(*tuple).name();
                let mut item =
                    |item| add_operand(&mut self.draft, RuntimeOperand::new(format!("{name}.{item}")));
                let items: Vec<OperandIndex> = (0..wanted - others.len()).map(&mut item).collect();
                let values = items.iter().map(|&item| Value::Tensor(item)).collect();
                self.draft.values.insert(*tuple, Value::tuple(values));
                added.extend(items);
                Ok(added)
            }
            outputs => {
                let source = LayerError::OutputCount { wanted, found: outputs.len() };
                Err(self.create_error(operator, source))
            }
        }
    }

    /// The values of an operator's inputs. Sorting ensures that all producers come first, so a value can only be missing if its
    /// producer has no outputs, such as a `pnnx.Output`.
    fn inputs_of(&self, operator: &pnnx::Operator) -> Result<Vec<Value>, GraphError> {
        inputs_of(&self.draft, operator).map_err(|input| GraphError::DanglingOperand {
            operand: self.file.operand(input).name().to_owned(),
            consumer: OperatorPlace::of(operator, self.path),
        })
    }

    fn random_attributes(
        &self,
        operator: &pnnx::Operator,
        seed: u64,
    ) -> Result<BTreeMap<String, RuntimeAttribute>, GraphError> {
        let mut attrs = BTreeMap::new();
        for (key, attribute) in operator.attrs() {
            let made = random_attribute(attribute, operator.name(), key, seed);
            attrs.insert(key.clone(), made.map_err(|source| self.create_error(operator, source))?);
        }
        Ok(attrs)
    }

    fn check_inputs(
        &self,
        operator: &pnnx::Operator,
        layer: &dyn CpuLayer,
        found: usize,
    ) -> Result<(), GraphError> {
        let range =
            catch_panic(|| Ok(layer.num_inputs())).map_err(|source| self.create_error(operator, source))?;
        if range.contains(&found) {
            return Ok(());
        }
        Err(self.create_error(operator, LayerError::input_count(&range, found)))
    }

    fn create_error(&self, operator: &pnnx::Operator, source: LayerError) -> GraphError {
        GraphError::in_creation(operator, self.path, source)
    }
}

/// Returns true if a layer makes tensors without axes of such tensors, as arithmetic does; `aten::linspace` makes a vector.
fn has_no_axes(layer: &dyn CpuLayer, arguments: &Arguments) -> bool {
    let number = TensorMeta::new(DType::I64, [0i64; 0]);
    let inputs = vec![number; arguments.inputs.len()];
    catch_panic(|| layer.infer(&inputs)).is_ok_and(|outputs| outputs.iter().all(|output| output.rank() == 0))
}

fn nearest(error: RegistryError) -> Option<String> {
    match error {
        // A type without a namespace has little to do with one that has.
        RegistryError::Missing { op_type, nearest } => {
            nearest.filter(|nearest| nearest.contains(['.', ':']) || !op_type.contains("::"))
        }
        _ => None,
    }
}

/// Generates random values for all weights.
///
/// # Errors
/// [`GraphError::Operator`] if a weight does not fit in memory.
pub(super) fn randomize(file: &mut pnnx::Graph, seed: u64) -> Result<(), GraphError> {
    for id in file.operator_ids().to_vec() {
        let operator = file.operator(id).clone();
        let fault = |source: LayerError| GraphError::in_creation(&operator, None, source);
        for (key, attribute) in operator.attrs() {
            let random = random_attribute(attribute, operator.name(), key, seed).map_err(fault)?;
            let bytes = random.decode().and_then(|tensor| Ok(tensor.to_le_bytes()?)).map_err(fault)?;
            let made = pnnx::Attribute::new(attribute.dtype(), attribute.shape().to_vec(), bytes);
            file.set_attribute(id, key, made.map_err(|error| fault(error.into()))?)
                .map_err(pnnx::PnnxError::from)?;
        }
    }
    Ok(())
}

/// Random values for a weight. The scale and variance of a normalisation become one.
fn random_attribute(
    attribute: &pnnx::Attribute,
    operator: &str,
    key: &str,
    seed: u64,
) -> Result<RuntimeAttribute, LayerError> {
    let shape = attribute.shape();
    if shape.len() == 1 && attribute.dtype().is_float() && (key.ends_with("weight") || key == "running_var") {
        return Ok(RuntimeAttribute::from_tensor(Tensor::ones(attribute.dtype(), shape)?));
    }
    let name = u64::from(crc32fast::hash(format!("{operator}.{key}").as_bytes()));
    Ok(RuntimeAttribute::random(attribute.dtype(), shape, seed ^ (name << 32 | name)))
}
