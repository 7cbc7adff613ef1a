//! The shapes and the cost of each operator in a file.
//!
//! A graph must be complete to run, but not to be inspected: operators may be unknown, and weights missing. So the survey
//! walks through the file and derives as much as it can. If a shape cannot be derived, it uses the shape that the file
//! recorded at export.

use super::value::{Known, Value};
use ixion::op::{CpuLayer, LayerError, OperatorReader, Registry, RuntimeAttribute, TensorMeta, catch_panic};
use ixion::pnnx::{Dim as FileDim, Graph, OperandId, Operator, OperatorId};
use ixion::tensor::Dim;
use std::collections::{BTreeMap, HashMap};

/// The results of a walk through a file.
pub(super) struct Survey<'a> {
    pub(super) graph: &'a Graph,
    /// All operators, in file order.
    pub(super) rows: Vec<Row<'a>>,
    pub(super) inputs: Vec<Known>,
    pub(super) outputs: Vec<Known>,
    /// Whether some sizes are unknown. They count as 1 in MACs.
    pub(super) has_unknown_sizes: bool,
    values: HashMap<OperandId, Value>,
}

/// One operator.
pub(super) struct Row<'a> {
    pub(super) id: OperatorId,
    pub(super) operator: &'a Operator,
    pub(super) state: State,
    /// The number of multiply-accumulate operations, with 1 for every unknown size. `None` if shapes are unknown.
    pub(super) macs: Option<u64>,
}

/// The support status of an operator.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    /// An input or output of the model, or a tuple, which computes nothing.
    Structure,
    /// A layer supports the operator.
    Supported,
    /// The layer could not derive the output's shape, for this reason.
    Underived(String),
    /// The layer does not support these parameters, weights or inputs, for this reason.
    Refused(String),
    /// No layer is registered for the type. Holds the registered type with the most similar name.
    Unsupported(Option<String>),
}

impl<'a> Survey<'a> {
    /// Walks through a file.
    pub(super) fn new(graph: &'a Graph, registry: &Registry) -> Self {
        let survey = Survey {
            graph,
            rows: Vec::with_capacity(graph.operator_count()),
            inputs: Vec::new(),
            outputs: Vec::new(),
            has_unknown_sizes: false,
            values: HashMap::new(),
        };
        let mut walk = Walk { registry, symbols: Symbols::of_inputs(graph), uses_left: MAX_USES, survey };
        graph.operators().for_each(|(id, operator)| walk.visit(id, operator));
        Survey { has_unknown_sizes: walk.symbols.count > 0, ..walk.survey }
    }

    /// The value of an operand.
    pub(super) fn value(&self, operand: OperandId) -> Option<&Value> {
        self.values.get(&operand)
    }

    /// The operators that compute something.
    pub(super) fn layers(&self) -> impl Iterator<Item = &Row<'a>> {
        self.rows.iter().filter(|row| row.state != State::Structure)
    }

    /// The types without a layer, with the number of operators of each.
    pub(super) fn unsupported(&self) -> BTreeMap<&'a str, usize> {
        let mut types = BTreeMap::new();
        for row in self.rows.iter().filter(|row| matches!(row.state, State::Unsupported(_))) {
            *types.entry(row.operator.op_type()).or_default() += 1;
        }
        types
    }

    /// The size of all weights in bytes, by element type.
    pub(super) fn weight_bytes(&self) -> BTreeMap<&'static str, u64> {
        let mut bytes = BTreeMap::new();
        for attribute in self.rows.iter().flat_map(|row| row.operator.attrs().values()) {
            *bytes.entry(attribute.dtype().name()).or_default() += attribute.byte_len() as u64;
        }
        bytes
    }

    /// The sum of all known MACs, and the number of operators whose MACs are unknown.
    pub(super) fn macs(&self) -> (u64, usize) {
        let known = self.layers().filter_map(|row| row.macs).fold(0, u64::saturating_add);
        (known, self.layers().filter(|row| row.macs.is_none()).count())
    }
}

impl Row<'_> {
    /// The size of the operator's weights in bytes.
    pub(super) fn weight_bytes(&self) -> u64 {
        self.operator.attrs().values().map(|attribute| attribute.byte_len() as u64).sum()
    }
}

/// Names for unknown sizes. Each `?` in a file may be a different number, so each gets its own name. If the inputs have only
/// one, all are assumed to be the batch size and share the name `?`.
struct Symbols {
    count: usize,
    several: bool,
}

impl Symbols {
    fn of_inputs(graph: &Graph) -> Self {
        let inputs = graph.operators().filter(|(_, operator)| operator.op_type() == "pnnx.Input");
        let operands =
            inputs.flat_map(|(_, operator)| operator.outputs()).filter_map(|&id| graph.get_operand(id));
        let dims = operands.filter_map(|operand| operand.shape()).flatten();
        Self { count: 0, several: dims.filter(|dim| !matches!(dim, FileDim::Fixed(_))).count() > 1 }
    }

    fn dim(&mut self, dim: &FileDim) -> Dim {
        match dim {
            FileDim::Fixed(size) => Dim::Fixed(i64::try_from(*size).unwrap_or(i64::MAX)),
            FileDim::Named(name) => {
                self.count += 1;
                Dim::symbol(name)
            }
            FileDim::Unknown => {
                self.count += 1;
                Dim::symbol(if self.several { format!("?{}", self.count) } else { "?".to_owned() })
            }
        }
    }
}

/// The maximum number of uses of tensors, counted for each tensor of each tuple. Beyond it, values are unknown. Without a
/// limit, a short file could use a large tuple on every line.
const MAX_USES: usize = 1 << 22;

struct Walk<'a, 'r> {
    registry: &'r Registry,
    symbols: Symbols,
    uses_left: usize,
    survey: Survey<'a>,
}

impl<'a> Walk<'a, '_> {
    fn visit(&mut self, id: OperatorId, operator: &'a Operator) {
        let mut macs = Some(0);
        let state = match operator.op_type() {
            "pnnx.Input" => {
                operator.outputs().iter().for_each(|&output| self.take_from_file(output));
                let inputs = operator.outputs().iter().filter_map(|output| self.survey.values.get(output));
                let inputs = inputs.flat_map(Value::tensors);
                self.survey
                    .inputs
                    .extend(inputs.map(|known| Known { name: operator.name().to_owned(), ..known.clone() }));
                State::Structure
            }
            "pnnx.Output" => {
                let values = self.inputs_of(operator);
                let tensors: Vec<&Known> = values.iter().flat_map(Value::tensors).collect();
                let name = |known: &Known| {
                    if tensors.len() == 1 { operator.name().to_owned() } else { known.name.clone() }
                };
                let outputs =
                    tensors.iter().map(|known| Known { name: name(known), meta: known.meta.clone() });
                self.survey.outputs.extend(outputs);
                State::Structure
            }
            "prim::TupleConstruct" | "prim::ListConstruct" => {
                let tuple = Value::tuple(self.inputs_of(operator));
                match (operator.outputs(), tuple) {
                    ([output], Some(tuple)) => drop(self.survey.values.insert(*output, tuple)),
                    (outputs, _) => outputs.iter().for_each(|&output| self.take_from_file(output)),
                }
                State::Structure
            }
            "prim::TupleUnpack" | "prim::ListUnpack" => {
                self.unpack(operator);
                State::Structure
            }
            _ => {
                let (state, cost) = self.visit_layer(operator);
                macs = cost;
                state
            }
        };
        self.survey.rows.push(Row { id, operator, state, macs });
    }

    fn visit_layer(&mut self, operator: &'a Operator) -> (State, Option<u64>) {
        let values = self.inputs_of(operator);
        let (inputs, names) = flatten_named(&values, operator.input_names());
        let layer = match self.layer(operator, &names) {
            Ok(layer) => layer,
            Err(state) => {
                operator.outputs().iter().for_each(|&output| self.take_from_file(output));
                return (state, None);
            }
        };
        let metas: Option<Vec<TensorMeta>> = inputs.into_iter().collect();
        let inferred = metas.map(|metas| catch_panic(|| layer.infer(&metas)).map(|outputs| (metas, outputs)));
        let (state, macs, outputs) = match inferred {
            Some(Ok((metas, outputs))) => (State::Supported, Some(macs(&*layer, &metas, &outputs)), outputs),
            Some(Err(error)) => (State::Underived(error.to_string()), None, Vec::new()),
            None => (State::Supported, None, Vec::new()),
        };
        match catch_panic(|| Ok(layer.num_outputs())) {
            Ok(count) => self.put(operator, count, outputs),
            Err(error) => return (State::Refused(error.to_string()), None),
        }
        (state, macs)
    }

    /// Creates the operator's layer, or returns the state that explains why there is none.
    fn layer(&self, operator: &Operator, names: &[Option<String>]) -> Result<Box<dyn CpuLayer>, State> {
        let Some(creator) = self.registry.known(operator.op_type()) else {
            return Err(State::Unsupported(self.registry.nearest(operator.op_type())));
        };
        let attrs = operator.attrs().iter();
        let attrs =
            attrs.map(|(key, attribute)| (key.clone(), RuntimeAttribute::from_file(attribute.clone())));
        let attrs: BTreeMap<String, RuntimeAttribute> = attrs.collect();
        let reader = OperatorReader::new(operator.params(), &attrs, names, operator.outputs().len())
            .with_op_type(operator.op_type());
        let refused = |error: LayerError| State::Refused(error.to_string());
        let layer = creator.create(reader).map_err(refused)?;
        let wanted = catch_panic(|| Ok(layer.num_inputs())).map_err(refused)?;
        if wanted.contains(&names.len()) {
            return Ok(layer);
        }
        let wanted = format!("{} to {}", wanted.start(), wanted.end());
        Err(refused(LayerError::InputCount { wanted, found: names.len() }))
    }

    /// Stores the outputs of a layer: one operand for each, or a single operand for a tuple of all.
    fn put(&mut self, operator: &Operator, count: usize, metas: Vec<TensorMeta>) {
        let mut metas = metas.into_iter();
        match operator.outputs() {
            outputs if outputs.len() == count => {
                for &output in outputs {
                    match metas.next() {
                        Some(meta) => self.put_tensor(output, Some(meta)),
                        None => self.take_from_file(output),
                    }
                }
            }
            [tuple] => {
                let name = self.name_of(*tuple);
                let item =
                    |index| Value::Tensor(Known { name: format!("{name}.{index}"), meta: metas.next() });
                match Value::tuple((0..count).map(item).collect()) {
                    Some(value) => drop(self.survey.values.insert(*tuple, value)),
                    None => self.take_from_file(*tuple),
                }
            }
            outputs => outputs.iter().for_each(|&output| self.take_from_file(output)),
        }
    }

    fn unpack(&mut self, operator: &Operator) {
        let items = match self.inputs_of(operator).into_iter().next() {
            Some(Value::Tuple(tuple)) => tuple.items.to_vec(),
            _ => Vec::new(),
        };
        let mut items = items.into_iter();
        for &output in operator.outputs() {
            match items.next() {
                // The tensor takes the name of this operand.
                Some(Value::Tensor(Known { meta: Some(meta), .. })) => self.put_tensor(output, Some(meta)),
                Some(tuple @ Value::Tuple(_)) => drop(self.survey.values.insert(output, tuple)),
                _ => self.take_from_file(output),
            }
        }
    }

    /// Stores an operand's type and shape as recorded in the file.
    fn take_from_file(&mut self, id: OperandId) {
        let operand = self.survey.graph.get_operand(id);
        let hint = operand.and_then(|operand| operand.dtype().zip(operand.shape()));
        let meta = hint.map(|(dtype, shape)| {
            let dims: Vec<Dim> = shape.iter().map(|dim| self.symbols.dim(dim)).collect();
            TensorMeta::new(dtype, dims)
        });
        self.put_tensor(id, meta);
    }

    fn put_tensor(&mut self, id: OperandId, meta: Option<TensorMeta>) {
        let name = self.name_of(id);
        self.survey.values.insert(id, Value::Tensor(Known { name, meta }));
    }

    fn name_of(&self, id: OperandId) -> String {
        self.survey.graph.get_operand(id).map(|operand| operand.name().to_owned()).unwrap_or_default()
    }

    fn inputs_of(&mut self, operator: &Operator) -> Vec<Value> {
        let mut values = Vec::with_capacity(operator.inputs().len());
        for input in operator.inputs() {
            let Some(value) = self.survey.values.get(input) else { continue };
            match self.uses_left.checked_sub(value.count()) {
                Some(left) => {
                    self.uses_left = left;
                    values.push(value.clone());
                }
                None => values.push(Value::Tensor(Known { name: self.name_of(*input), meta: None })),
            }
        }
        values
    }
}

/// The tensors of all inputs, and their argument names. The name of a tuple goes to its first tensor.
fn flatten_named(
    values: &[Value],
    names: &[Option<String>],
) -> (Vec<Option<TensorMeta>>, Vec<Option<String>>) {
    let mut metas = Vec::new();
    let mut flat_names = Vec::new();
    for (position, value) in values.iter().enumerate() {
        metas.extend(value.tensors().into_iter().map(|known| known.meta.clone()));
        if flat_names.len() < metas.len() {
            flat_names.push(names.get(position).cloned().flatten());
        }
        flat_names.resize(metas.len(), None);
    }
    (metas, flat_names)
}

/// The MACs of one run, with 1 for every unknown size.
fn macs(layer: &dyn CpuLayer, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> u64 {
    let with_ones = |metas: &[TensorMeta]| -> Vec<TensorMeta> {
        let number = |dim: &Dim| Dim::Fixed(dim.evaluate(&|_| Some(1)).unwrap_or(1));
        metas.iter().map(|meta| TensorMeta::new(meta.dtype(), meta.dims().iter().map(number))).collect()
    };
    catch_panic(|| Ok(layer.cost(&with_ones(inputs), &with_ones(outputs)).macs)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion::Limits;

    fn survey(lines: &[&str], operands: usize, check: impl FnOnce(&Survey<'_>)) {
        let text = format!("7767517\n{} {operands}\n{}\n", lines.len(), lines.join("\n"));
        let graph = Graph::parse(&text, &Limits::default()).unwrap();
        check(&Survey::new(&graph, &Registry::default()));
    }

    const LINEAR: &str =
        "nn.Linear fc 1 1 x y bias=False in_features=3 out_features=2 @weight=(2,3)f32 #y=(7,2)f32";

    #[test]
    fn shapes_are_derived_and_an_unknown_size_counts_as_one() {
        let lines = ["pnnx.Input in 0 1 x #x=(?,3)f32", LINEAR, "pnnx.Output out 1 0 y"];
        survey(&lines, 2, |survey| {
            assert_eq!(survey.outputs[0].meta.as_ref().unwrap().to_string(), "?×2 f32");
            assert_eq!((survey.outputs[0].name.as_str(), survey.inputs[0].name.as_str()), ("out", "in"));
            assert_eq!((survey.macs(), survey.has_unknown_sizes), ((6, 0), true));
            assert_eq!(survey.weight_bytes()["f32"], 24);
        });
    }

    #[test]
    fn shapes_after_an_unknown_operator_come_from_the_file() {
        let lines = [
            "pnnx.Input in 0 1 x #x=(7,3)f32",
            "my.Own own 1 1 x z #z=(7,3)f32",
            &LINEAR.replace(" x ", " z "),
        ];
        survey(&lines, 3, |survey| {
            assert_eq!(survey.unsupported(), BTreeMap::from([("my.Own", 1)]));
            assert_eq!(survey.rows[2].state, State::Supported);
            assert_eq!(survey.macs(), (42, 1));
        });
    }

    #[test]
    fn problems_are_reported_and_the_walk_continues() {
        let lines = ["pnnx.Input in 0 1 x #x=(7,4)f32", LINEAR, "nn.ReLU relu 1 1 y z sharp=True"];
        survey(&lines, 3, |survey| {
            assert!(matches!(&survey.rows[1].state, State::Underived(why) if why.contains("last axis")));
            assert!(matches!(&survey.rows[2].state, State::Refused(why) if why.contains("sharp")));
            let y = survey.graph.operand_named("y").unwrap();
            assert_eq!(survey.value(y).unwrap().to_string(), "7×2 f32");
        });
    }

    #[test]
    fn tuples_are_unpacked() {
        let lines = [
            "pnnx.Input a 0 1 x #x=(?,?)f32",
            "pnnx.Input b 0 1 y #y=(2)i64",
            "prim::TupleConstruct pack 2 1 x y t",
            "prim::TupleUnpack unpack 1 2 t u v",
            "prim::ListConstruct list 2 1 v u l",
            "pnnx.Output out 1 0 l",
        ];
        survey(&lines, 6, |survey| {
            let t = survey.graph.operand_named("t").unwrap();
            assert_eq!(survey.value(t).unwrap().to_string(), "(?1×?2 f32, 2 i64)");
            let names: Vec<&str> = survey.outputs.iter().map(|output| output.name.as_str()).collect();
            assert_eq!((names, survey.layers().count()), (vec!["v", "u"], 0));
        });
    }
}
