//! From the graph of the file to the runtime graph.
//!
//! Operators are taken over in topological order and get their layers. Tuples and lists exist in the file only:
//! they are resolved here, so that the runtime graph passes tensors and nothing else.

use super::error::{OperatorPlace, Stage, UnknownOperator};
use super::operator::{OperandIndex, OperatorIndex, RuntimeOperand, RuntimeOperator};
use super::registry::RegistryError;
use super::runtime::{InputPort, OutputPort};
use super::sort::topological_order;
use super::{CpuLayer, GraphError, LayerError, OperatorReader, Registry, RuntimeAttribute};
use crate::Limits;
use crate::pnnx::{self, OperandId, OperatorId};
use crate::tensor::{DType, Tensor};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// The parts of a runtime graph.
#[derive(Debug, Default)]
pub(super) struct Converted {
    pub(super) operators: Vec<RuntimeOperator>,
    pub(super) operands: Vec<RuntimeOperand>,
    pub(super) inputs: Vec<InputPort>,
    pub(super) outputs: Vec<OutputPort>,
}

/// What an operand of the file stands for. Cloning shares the items of a tuple.
#[derive(Debug, Clone)]
enum Value {
    Tensor(OperandIndex),
    Tuple(Arc<Tuple>),
}

/// The items of a tuple, and how many tensors and levels are in it: a small file can describe a huge one.
#[derive(Debug)]
struct Tuple {
    items: Vec<Value>,
    tensors: usize,
    depth: usize,
}

/// The most levels of tuples within tuples. PyTorch's models have two or three.
const MAX_DEPTH: usize = 64;

impl Value {
    fn tuple(items: Vec<Value>) -> Self {
        let tensors = items.iter().map(Value::tensors).fold(0, usize::saturating_add);
        let depth = items.iter().map(Value::depth).max().unwrap_or(0) + 1;
        Value::Tuple(Arc::new(Tuple { items, tensors, depth }))
    }

    fn tensors(&self) -> usize {
        match self {
            Value::Tensor(_) => 1,
            Value::Tuple(tuple) => tuple.tensors,
        }
    }

    fn depth(&self) -> usize {
        match self {
            Value::Tensor(_) => 0,
            Value::Tuple(tuple) => tuple.depth,
        }
    }

    /// All tensors, depth first.
    fn flatten(&self, into: &mut Vec<OperandIndex>) {
        match self {
            Value::Tensor(index) => into.push(*index),
            Value::Tuple(tuple) => tuple.items.iter().for_each(|item| item.flatten(into)),
        }
    }
}

/// Converts a graph.
///
/// # Errors
/// A cycle, an operand without a producer, a misused tuple, a layer that cannot be created; or all operators that the
/// registry does not know, at once.
pub(super) fn convert(
    file: &pnnx::Graph,
    path: Option<&Path>,
    registry: &Registry,
    random_weights: Option<u64>,
    limits: &Limits,
) -> Result<Converted, GraphError> {
    let order = sorted(file, path)?;
    let mut converter = Converter {
        file,
        path,
        registry,
        random_weights,
        limits,
        values: HashMap::new(),
        unknown: Vec::new(),
        result: Converted::default(),
    };
    order.into_iter().try_for_each(|id| converter.add(id))?;
    if !converter.unknown.is_empty() {
        return Err(GraphError::UnknownOperators { operators: converter.unknown });
    }
    Ok(converter.result)
}

/// The operators of the file in topological order.
fn sorted(file: &pnnx::Graph, path: Option<&Path>) -> Result<Vec<OperatorId>, GraphError> {
    let ids: Vec<OperatorId> = file.operators().map(|(id, _)| id).collect();
    let index: HashMap<OperatorId, usize> = ids.iter().enumerate().map(|(index, &id)| (id, index)).collect();
    let mut dependencies = Vec::with_capacity(ids.len());
    for (_, operator) in file.operators() {
        let mut needs = Vec::with_capacity(operator.inputs().len());
        for &input in operator.inputs() {
            let operand = file.operand(input);
            let producer = operand.producer().and_then(|id| index.get(&id)).ok_or_else(|| {
                let consumer = place_of(operator, path);
                GraphError::DanglingOperand { operand: operand.name().to_owned(), consumer }
            })?;
            needs.push(*producer);
        }
        dependencies.push(needs);
    }
    let name = |index: usize| file.operator(ids[index]).name().to_owned();
    match topological_order(&dependencies) {
        Ok(order) => Ok(order.into_iter().map(|index| ids[index]).collect()),
        Err(cycle) => Err(GraphError::Cycle { operators: cycle.into_iter().map(name).collect() }),
    }
}

fn place_of(operator: &pnnx::Operator, path: Option<&Path>) -> Box<OperatorPlace> {
    Box::new(OperatorPlace {
        op_type: operator.op_type().to_owned(),
        name: operator.name().to_owned(),
        file: path.map(Path::to_path_buf),
        line: operator.line(),
    })
}

struct Converter<'a> {
    file: &'a pnnx::Graph,
    path: Option<&'a Path>,
    registry: &'a Registry,
    random_weights: Option<u64>,
    limits: &'a Limits,
    values: HashMap<OperandId, Value>,
    unknown: Vec<UnknownOperator>,
    result: Converted,
}

impl Converter<'_> {
    fn add(&mut self, id: OperatorId) -> Result<(), GraphError> {
        let operator = self.file.operator(id);
        match operator.op_type() {
            "pnnx.Input" => self.add_input(operator),
            "pnnx.Output" => self.add_output(operator),
            "prim::TupleConstruct" | "prim::ListConstruct" => self.add_tuple(operator),
            "prim::TupleUnpack" | "prim::ListUnpack" => self.unpack_tuple(operator),
            _ => self.add_layer(operator),
        }
    }

    fn add_input(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        for &output in operator.outputs() {
            let operand = self.add_operand(output);
            self.result.inputs.push(InputPort { name: operator.name().to_owned(), operand });
        }
        Ok(())
    }

    fn add_output(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        let mut operands = Vec::new();
        self.inputs_of(operator)?.iter().for_each(|value| value.flatten(&mut operands));
        let alone = operands.len() == 1;
        for operand in operands {
            let runtime = &mut self.result.operands[operand.0];
            runtime.is_output = true;
            let name = if alone { operator.name() } else { &runtime.name };
            self.result.outputs.push(OutputPort { name: name.to_owned(), operand });
        }
        Ok(())
    }

    fn add_tuple(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        let tuple = Value::tuple(self.inputs_of(operator)?);
        if tuple.tensors() > self.limits.max_ops || tuple.depth() > MAX_DEPTH {
            let reason =
                format!("a tuple of {} tensors in {} levels is too large", tuple.tensors(), tuple.depth());
            return Err(self.tuple_error(operator, reason));
        }
        match operator.outputs() {
            [output] => drop(self.values.insert(*output, tuple)),
            outputs => {
                return Err(
                    self.tuple_error(operator, format!("{} outputs where 1 is needed", outputs.len()))
                );
            }
        }
        Ok(())
    }

    fn unpack_tuple(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        let items = match self.inputs_of(operator)?.as_slice() {
            [Value::Tuple(tuple)] => tuple.items.clone(),
            _ => return Err(self.tuple_error(operator, "its input is no tuple".to_owned())),
        };
        let outputs = operator.outputs();
        if items.len() != outputs.len() {
            let reason = format!("it unpacks {} items from a tuple of {}", outputs.len(), items.len());
            return Err(self.tuple_error(operator, reason));
        }
        for (item, &output) in items.into_iter().zip(outputs) {
            self.rename(&item, output);
            self.values.insert(output, item);
        }
        Ok(())
    }

    /// An item of a tuple that a layer returned has no name of its own until it is unpacked.
    fn rename(&mut self, item: &Value, output: OperandId) {
        let Value::Tensor(index) = item else { return };
        let runtime = &mut self.result.operands[index.0];
        if runtime.shape.is_none() && runtime.dtype.is_none() {
            let operand = self.file.operand(output);
            runtime.name = operand.name().to_owned();
            runtime.dtype = operand.dtype();
            runtime.shape = operand.shape().map(<[_]>::to_vec);
        }
    }

    fn add_layer(&mut self, operator: &pnnx::Operator) -> Result<(), GraphError> {
        let values = self.inputs_of(operator)?;
        let (inputs, input_names) = flatten_named(&values, operator.input_names());
        let attrs = self.attributes(operator)?;
        let creator = match self.registry.get(operator.op_type()) {
            Ok(creator) => creator,
            Err(error) => return self.skip_unknown(operator, error),
        };
        let reader = OperatorReader::new(operator.params(), &attrs, &input_names, operator.outputs().len());
        let layer = creator.create(reader).map_err(|source| self.create_error(operator, source))?;
        self.check_inputs(operator, &*layer, inputs.len())?;
        let index = OperatorIndex(self.result.operators.len());
        let outputs = self.add_outputs(operator, layer.num_outputs())?;
        for &input in &inputs {
            self.result.operands[input.0].consumers.push(index);
        }
        for &output in &outputs {
            self.result.operands[output.0].producer = Some(index);
        }
        self.result.operators.push(RuntimeOperator {
            name: operator.name().to_owned(),
            op_type: operator.op_type().to_owned(),
            line: operator.line(),
            inputs,
            input_names,
            outputs,
            params: operator.params().clone(),
            attrs,
            layer: Some(layer),
            is_initialized: false,
            has_run: false,
            configured: None,
        });
        Ok(())
    }

    /// Notes an operator without a layer and goes on, so that all of them are reported at once.
    fn skip_unknown(&mut self, operator: &pnnx::Operator, error: RegistryError) -> Result<(), GraphError> {
        let nearest = match error {
            RegistryError::Missing { nearest, .. } => nearest,
            RegistryError::Duplicate { .. } => None,
        };
        self.unknown.push(UnknownOperator { place: *place_of(operator, self.path), nearest });
        for &output in operator.outputs() {
            let index = self.add_operand(output);
            if self.is_unpacked(output) {
                let count = self.unpacked_count(output);
                self.values.insert(output, Value::tuple(vec![Value::Tensor(index); count]));
            }
        }
        Ok(())
    }

    /// One operand for each output that the layer makes. Where the file has a single operand for several outputs, that
    /// is a tuple.
    fn add_outputs(
        &mut self,
        operator: &pnnx::Operator,
        wanted: usize,
    ) -> Result<Vec<OperandIndex>, GraphError> {
        match operator.outputs() {
            outputs if outputs.len() == wanted && !(wanted == 1 && self.is_unpacked(outputs[0])) => {
                Ok(outputs.iter().map(|&output| self.add_operand(output)).collect())
            }
            [tuple] => {
                let name = self.file.operand(*tuple).name();
                let items: Vec<OperandIndex> =
                    (0..wanted).map(|item| self.push_operand(format!("{name}.{item}"), None, None)).collect();
                self.values
                    .insert(*tuple, Value::tuple(items.iter().map(|&item| Value::Tensor(item)).collect()));
                Ok(items)
            }
            outputs => {
                let source = LayerError::OutputCount { wanted, found: outputs.len() };
                Err(self.create_error(operator, source))
            }
        }
    }

    fn is_unpacked(&self, operand: OperandId) -> bool {
        let consumers = self.file.operand(operand).consumers();
        consumers.iter().any(|&id| is_unpack(self.file.operator(id)))
    }

    fn unpacked_count(&self, operand: OperandId) -> usize {
        let consumers = self.file.operand(operand).consumers().iter().map(|&id| self.file.operator(id));
        consumers.filter(|consumer| is_unpack(consumer)).map(|c| c.outputs().len()).max().unwrap_or(0)
    }

    fn add_operand(&mut self, id: OperandId) -> OperandIndex {
        let operand = self.file.operand(id);
        let shape = operand.shape().map(<[_]>::to_vec);
        let index = self.push_operand(operand.name().to_owned(), operand.dtype(), shape);
        self.values.insert(id, Value::Tensor(index));
        index
    }

    fn push_operand(
        &mut self,
        name: String,
        dtype: Option<DType>,
        shape: Option<Vec<pnnx::Dim>>,
    ) -> OperandIndex {
        self.result.operands.push(RuntimeOperand {
            name,
            dtype,
            shape,
            producer: None,
            consumers: Vec::new(),
            is_output: false,
            data: None,
        });
        OperandIndex(self.result.operands.len() - 1)
    }

    /// The values of an operator's inputs. Sorting made sure that all producers came before; what is still missing was
    /// made by an operator that makes nothing, such as a `pnnx.Output`.
    fn inputs_of(&self, operator: &pnnx::Operator) -> Result<Vec<Value>, GraphError> {
        let value = |&input: &OperandId| {
            self.values.get(&input).cloned().ok_or_else(|| GraphError::DanglingOperand {
                operand: self.file.operand(input).name().to_owned(),
                consumer: place_of(operator, self.path),
            })
        };
        operator.inputs().iter().map(value).collect()
    }

    fn attributes(
        &self,
        operator: &pnnx::Operator,
    ) -> Result<BTreeMap<String, RuntimeAttribute>, GraphError> {
        let attrs = operator.attrs().iter().map(|(key, attribute)| {
            let attribute = match self.random_weights {
                Some(seed) => random_attribute(attribute, operator.name(), key, seed)?,
                None => RuntimeAttribute::from_file(attribute.clone()),
            };
            Ok((key.clone(), attribute))
        });
        attrs.collect::<Result<_, LayerError>>().map_err(|source| self.create_error(operator, source))
    }

    fn check_inputs(
        &self,
        operator: &pnnx::Operator,
        layer: &dyn CpuLayer,
        found: usize,
    ) -> Result<(), GraphError> {
        let range = layer.num_inputs();
        if range.contains(&found) {
            return Ok(());
        }
        let wanted = match (*range.start(), *range.end()) {
            (least, most) if least == most => least.to_string(),
            (least, usize::MAX) => format!("at least {least}"),
            (least, most) => format!("{least} to {most}"),
        };
        Err(self.create_error(operator, LayerError::InputCount { wanted, found }))
    }

    fn create_error(&self, operator: &pnnx::Operator, source: LayerError) -> GraphError {
        GraphError::Operator {
            place: place_of(operator, self.path),
            stage: Stage::Create,
            source: Box::new(source),
            inputs: Vec::new(),
        }
    }

    fn tuple_error(&self, operator: &pnnx::Operator, reason: String) -> GraphError {
        GraphError::Tuple { place: place_of(operator, self.path), reason }
    }
}

fn is_unpack(operator: &pnnx::Operator) -> bool {
    matches!(operator.op_type(), "prim::TupleUnpack" | "prim::ListUnpack")
}

/// The tensors of all inputs, and their names; of a tuple, the first tensor has the name.
fn flatten_named(values: &[Value], names: &[Option<String>]) -> (Vec<OperandIndex>, Vec<Option<String>>) {
    let mut inputs = Vec::new();
    let mut flat_names = Vec::new();
    for (position, value) in values.iter().enumerate() {
        value.flatten(&mut inputs);
        if flat_names.len() < inputs.len() {
            flat_names.push(names.get(position).cloned().flatten());
        }
        flat_names.resize(inputs.len(), None);
    }
    (inputs, flat_names)
}

/// Random values for a weight that has none. What normalisation multiplies and divides by becomes one.
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
