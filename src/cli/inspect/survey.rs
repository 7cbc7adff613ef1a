//! The shapes and the cost of each operator in a file.
//!
//! A graph must be complete to run, but not to be inspected: operators may be unknown, and weights missing. So the survey takes
//! the graph that would run, connected as far as possible, and derives as much as it can. If a shape cannot be derived, it uses
//! the shape that the file recorded at export.

use super::value::{Known, Value};
use ixion::graph::{OperandIndex, Outline, Outlined, Problem, RuntimeOperand, RuntimeOperator, draft};
use ixion::op::{PACKED, TensorMeta};
use ixion::pnnx::{Attribute, Dim as FileDim, Graph, Operand, OperandId, Operator, OperatorId};
use ixion::shape::walk::known_inputs;
use ixion::shape::{apply_rule, is_open};
use ixion::tensor::{DType, Dim};
use std::collections::{BTreeMap, HashMap};

/// What is known of the operators of a file.
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
    /// An input or output of the model, a tuple, a constant, or an assertion that is left out: it computes nothing.
    Structure,
    /// A layer supports the operator.
    Supported,
    /// The layer could not derive the output's shape, for this reason.
    Underived(String),
    /// The layer does not support these parameters, weights or inputs, for this reason.
    Refused(String),
    /// No layer is registered for the type.
    Unsupported {
        /// The registered type with the most similar name.
        nearest: Option<String>,
        /// What to do.
        advice: String,
    },
}

impl<'a> Survey<'a> {
    /// Describes a file by the graph that would run.
    pub(super) fn new(graph: &'a Graph, outline: &Outline) -> Self {
        let mut derived = Derived::new(graph, outline);
        outline.graph.operators().iter().for_each(|operator| derived.visit(operator));
        let rows = graph.operators().map(|(id, operator)| derived.row(id, operator)).collect();
        let values = derived.values();
        let port = |name: &str, operand: OperandIndex| Known {
            name: name.to_owned(),
            meta: derived.meta(operand).cloned(),
        };
        Survey {
            graph,
            rows,
            inputs: outline.graph.inputs().iter().map(|it| port(&it.name, it.operand)).collect(),
            outputs: outline.graph.outputs().iter().map(|it| port(&it.name, it.operand)).collect(),
            has_unknown_sizes: derived.has_unknown_sizes(),
            values,
        }
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
        for row in self.rows.iter().filter(|row| matches!(row.state, State::Unsupported { .. })) {
            *types.entry(row.operator.op_type()).or_default() += 1;
        }
        types
    }

    /// The size of all weights in bytes, by element type, without the packed copies of a plan.
    pub(super) fn weight_bytes(&self) -> BTreeMap<&'static str, u64> {
        let mut bytes = BTreeMap::new();
        for attribute in self.rows.iter().flat_map(Row::weights) {
            let sum: &mut u64 = bytes.entry(attribute.dtype().name()).or_default();
            *sum = sum.saturating_add(attribute.byte_len() as u64);
        }
        bytes
    }

    /// The size in bytes of the packed copies of weights; zero unless the file is a plan.
    pub(super) fn packed_bytes(&self) -> u64 {
        let packed = self.rows.iter().filter_map(|row| row.operator.attrs().get(PACKED));
        packed.map(|attribute| attribute.byte_len() as u64).fold(0, u64::saturating_add)
    }

    /// The sum of all known MACs, and the number of operators whose MACs are unknown.
    pub(super) fn macs(&self) -> (u64, usize) {
        let known = self.layers().filter_map(|row| row.macs).fold(0, u64::saturating_add);
        (known, self.layers().filter(|row| row.macs.is_none()).count())
    }
}

impl Row<'_> {
    /// The operator's weights, without the packed copies of a plan.
    fn weights(&self) -> impl Iterator<Item = &Attribute> {
        self.operator.attrs().iter().filter(|(key, _)| *key != PACKED).map(|(_, attribute)| attribute)
    }

    /// The size of the operator's weights in bytes.
    pub(super) fn weight_bytes(&self) -> u64 {
        self.weights().map(|attribute| attribute.byte_len() as u64).fold(0, u64::saturating_add)
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

    /// The type and shape that the file records, if any.
    fn recorded(&mut self, dtype: Option<DType>, shape: Option<&[FileDim]>) -> Option<TensorMeta> {
        let (dtype, shape) = dtype.zip(shape)?;
        let dims: Vec<Dim> = shape.iter().map(|dim| self.dim(dim)).collect();
        Some(TensorMeta::new(dtype, dims))
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

/// The maximum number of tensors in all values, counted for each tuple that contains them. Beyond it, values are unknown.
/// Without a limit, a short file could use a large tuple on every line.
const MAX_USES: usize = 1 << 22;

/// What follows from the shapes that the file records for the inputs.
struct Derived<'a, 'o> {
    graph: &'a Graph,
    outline: &'o Outline,
    symbols: Symbols,
    /// The types and shapes of the operands, by position.
    metas: Vec<Option<TensorMeta>>,
    /// The MACs of each operator that has a layer, if known, or why its shapes cannot be derived.
    costs: Vec<Result<Option<u64>, String>>,
}

impl<'a, 'o> Derived<'a, 'o> {
    /// The inputs, and the outputs of operators without layers, as recorded in the file.
    fn new(graph: &'a Graph, outline: &'o Outline) -> Self {
        let mut symbols = Symbols::of_inputs(graph);
        let recorded = |operand: &RuntimeOperand| match operand.producer() {
            None => symbols.recorded(operand.dtype(), operand.shape()),
            Some(_) => None,
        };
        let metas = outline.graph.operands().iter().map(recorded).collect();
        Self { graph, outline, symbols, metas, costs: Vec::new() }
    }

    /// Derives the outputs of an operator from its inputs.
    fn visit(&mut self, operator: &RuntimeOperator) {
        let cost = self.infer(operator);
        self.costs.push(cost);
        let outline = self.outline;
        for &output in operator.outputs() {
            let operand = outline.graph.operand(output);
            if self.meta(output).is_none() {
                self.metas[output.position()] = self.symbols.recorded(operand.dtype(), operand.shape());
            }
        }
    }

    fn infer(&mut self, operator: &RuntimeOperator) -> Result<Option<u64>, String> {
        let Some(inputs) = known_inputs(operator, &self.metas) else { return Ok(None) };
        let outputs = match apply_rule(&self.outline.graph, operator, &inputs) {
            Ok(outputs) => outputs,
            Err(error) if is_open(&error, &inputs) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let macs = macs(operator, &inputs, &outputs);
        for (output, meta) in operator.outputs().iter().zip(outputs) {
            self.metas[output.position()] = Some(meta);
        }
        Ok(Some(macs))
    }

    fn meta(&self, operand: OperandIndex) -> Option<&TensorMeta> {
        self.metas.get(operand.position())?.as_ref()
    }

    fn has_unknown_sizes(&self) -> bool {
        let is_unknown = |meta: &TensorMeta| meta.dims().iter().any(|dim| dim.fixed().is_none());
        self.metas.iter().flatten().any(is_unknown)
    }

    fn row(&self, id: OperatorId, operator: &'a Operator) -> Row<'a> {
        let outlined = self.outline.operators.get(&id);
        let layers = outlined.and_then(|outlined| self.costs.get(outlined.layers.clone()));
        let layers = layers.unwrap_or_default();
        let state = state(operator, outlined, layers);
        let mut known = layers.iter().map(|cost| cost.as_ref().ok().copied().flatten());
        let macs = match state {
            State::Structure | State::Supported => {
                known.try_fold(0u64, |sum, macs| Some(sum.saturating_add(macs?)))
            }
            State::Underived(_) | State::Refused(_) | State::Unsupported { .. } => None,
        };
        Row { id, operator, state, macs }
    }

    /// The values of all operands of the file.
    fn values(&mut self) -> HashMap<OperandId, Value> {
        let (graph, mut left) = (self.graph, MAX_USES);
        graph.operands().map(|(id, operand)| (id, self.value(id, operand, &mut left))).collect()
    }

    /// The value of an operand, which has its name in the file.
    fn value(&mut self, id: OperandId, operand: &Operand, left: &mut usize) -> Value {
        let name = operand.name().to_owned();
        let meta = match self.outline.values.get(&id) {
            Some(draft::Value::Tensor(index)) => self.meta(*index).cloned(),
            Some(tuple @ draft::Value::Tuple(_)) => {
                let made = left.checked_sub(tuple.tensors()).and_then(|rest| {
                    *left = rest;
                    self.part(tuple)
                });
                if let Some(made) = made {
                    return made;
                }
                None
            }
            Some(draft::Value::Constant(_)) => None,
            // The operator is left out.
            None => self.symbols.recorded(operand.dtype(), operand.shape()),
        };
        Value::Tensor(Known { name, meta })
    }

    /// A tuple or a part of one. `None` if it is too large or too deep.
    fn part(&self, value: &draft::Value) -> Option<Value> {
        match value {
            draft::Value::Tensor(index) => {
                let name = self.outline.graph.operand(*index).name().to_owned();
                Some(Value::Tensor(Known { name, meta: self.meta(*index).cloned() }))
            }
            draft::Value::Constant(constant) => {
                let name = constant.parameter.raw().to_owned();
                Some(Value::Tensor(Known { name, meta: None }))
            }
            draft::Value::Tuple(tuple) if tuple.tensors > Value::MAX_TENSORS => None,
            draft::Value::Tuple(tuple) => {
                let items = tuple.items.iter().map(|item| self.part(item));
                Value::tuple(items.collect::<Option<Vec<Value>>>()?)
            }
        }
    }
}

/// The support status of an operator whose layers have these costs.
fn state(operator: &Operator, outlined: Option<&Outlined>, layers: &[Result<Option<u64>, String>]) -> State {
    let Some(outlined) = outlined else { return State::Structure };
    match &outlined.problem {
        Some(Problem::Unknown { nearest, advice }) => {
            return State::Unsupported { nearest: nearest.clone(), advice: advice.clone() };
        }
        Some(Problem::Refused(reason)) => return State::Refused(reason.clone()),
        None => {}
    }
    // An expression that is a number or a list of indices has no layer, either.
    let is_structure = ["prim::", "pnnx."].iter().any(|prefix| operator.op_type().starts_with(prefix));
    match layers.iter().find_map(|cost| cost.as_ref().err()) {
        Some(reason) => State::Underived(reason.clone()),
        None if is_structure && layers.is_empty() => State::Structure,
        None => State::Supported,
    }
}

/// The MACs of one run, with 1 for every unknown size.
fn macs(operator: &RuntimeOperator, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> u64 {
    let with_ones = |metas: &[TensorMeta]| -> Vec<TensorMeta> {
        let number = |dim: &Dim| Dim::Fixed(dim.evaluate(&|_| Some(1)).unwrap_or(1));
        metas.iter().map(|meta| TensorMeta::new(meta.dtype(), meta.dims().iter().map(number))).collect()
    };
    operator.cost(&with_ones(inputs), &with_ones(outputs)).map_or(0, |cost| cost.macs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion::Limits;
    use ixion::graph::RuntimeGraph;

    fn survey(lines: &[&str], operands: usize, check: impl FnOnce(&Survey<'_>)) {
        let text = format!("7767517\n{} {operands}\n{}\n", lines.len(), lines.join("\n"));
        let graph = Graph::parse(&text, &Limits::default()).unwrap();
        let outline = RuntimeGraph::from_pnnx(graph.clone()).outline().unwrap();
        check(&Survey::new(&graph, &outline));
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
            assert_eq!((names, survey.layers().count()), (vec!["y", "x"], 0));
        });
    }

    #[test]
    fn constants_are_parameters_of_the_operators_that_read_them() {
        let lines = [
            "pnnx.Input in 0 1 x #x=(2,6)f32",
            "prim::Constant a 0 1 one value=1",
            "prim::Constant b 0 1 three value=3",
            "prim::ListConstruct c 2 1 three one sizes",
            "aten::softmax d 2 1 x one y",
            "aten::narrow e 4 1 y one one three z",
            "aten::repeat f 2 1 z sizes u",
            "torch.sum g 2 1 u one w $input=u $dim=one",
            "pnnx.Output out 1 0 w",
        ];
        survey(&lines, 8, |survey| {
            let states: Vec<&State> = survey.rows.iter().map(|row| &row.state).collect();
            assert!(states[1..4].iter().all(|state| **state == State::Structure), "{states:?}");
            assert!(states[4..8].iter().all(|state| **state == State::Supported), "{states:?}");
            assert_eq!(survey.layers().count(), 4, "{states:?}");
            let u = survey.graph.operand_named("u").unwrap();
            assert_eq!(survey.value(u).unwrap().to_string(), "6×3 f32");
        });
    }
}
