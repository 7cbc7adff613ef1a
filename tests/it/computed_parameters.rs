//! Parameters that the graph computes: every parameter of every operator in the cases, turned into an input.

use crate::common::parallel::each_of;
use crate::common::runnable_cases;
use ixion::Limits;
use ixion::engine::Builder;
use ixion::graph::RuntimeGraph;
use ixion::op::{Field, Registry};
use ixion::pnnx::{Graph, Operator, OperatorId, Parameter, Value};
use ixion::tensor::Tensor;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

/// The expression of a parameter with an input of the model, whose sizes it only seems to depend on.
fn expression(value: &Value) -> Option<String> {
    let zero = "sub(size(@0,0),size(@0,0))";
    let float = |value: f64| value.is_finite().then(|| format!("add({zero},{value:?})"));
    let integer = |value: i64| format!("add({zero},{value})");
    let list = |items: Vec<String>| format!("[{}]", items.join(","));
    match value {
        Value::Int(value) => Some(integer(*value)),
        Value::Float(value) => float(*value),
        Value::Ints(values) => Some(list(values.iter().map(|&value| integer(value)).collect())),
        _ => None,
    }
}

/// The parameters of an operator that a graph could compute, with their expressions.
fn parameters(graph: &Graph, id: OperatorId, registry: &Registry) -> Vec<(Field, String)> {
    let operator = graph.operator(id);
    let Some(creator) = registry.iter().find(|(op_type, _)| *op_type == operator.op_type()) else {
        return Vec::new();
    };
    let fields = creator.1.fields.iter().filter(|field| field.is_parameter);
    fields.filter_map(|field| Some((*field, expression(operator.param(field.key)?.value())?))).collect()
}

/// What decides how a plan comes by a parameter: the kind of the field; that of the value, since integers that follow from
/// sizes are known when the plan is built, and floats are not; and whether the operator has several outputs, or weights.
type Way = (&'static str, Option<&'static str>, bool, bool);

fn way(field: &Field, operator: &Operator) -> Way {
    let value = operator.param(field.key).map(|parameter| parameter.value().kind());
    (field.kind, value, operator.outputs().len() > 1, !operator.attrs().is_empty())
}

/// The same model, in which the graph computes a parameter from the sizes of an input.
fn with_computed(graph: &Graph, id: OperatorId, key: &str, expression: &str) -> Option<Graph> {
    let mut graph = graph.clone();
    let inputs = graph.operators().filter(|(_, operator)| operator.op_type() == "pnnx.Input");
    let sized = |operand: &_| graph.operand(*operand).shape().is_some_and(|shape| !shape.is_empty());
    let source = inputs.flat_map(|(_, input)| input.outputs().to_vec()).find(sized)?;
    let edited = (|| {
        let made = graph.new_operator_before("pnnx.Expression", "computed", id)?;
        graph.set_param(made, "expr", expression)?;
        graph.connect_input(made, source, None)?;
        let operand = graph.new_operand("computed")?;
        graph.connect_output(made, operand)?;
        graph.remove_param(id, key)?;
        graph.connect_input(id, operand, Some(key))
    })();
    edited.unwrap();
    Some(graph)
}

fn inputs(folder: &Path, count: usize) -> Vec<Tensor> {
    let arrays = Tensor::load_npz(folder.join("arrays.npz"), &Limits::default()).unwrap();
    let array = |index: usize| {
        let key = format!("in_{index}");
        arrays.iter().find(|(name, _)| *name == key).unwrap().1.clone()
    };
    (0..count).map(array).collect()
}

fn interpreted(folder: &Path, graph: Graph) -> Result<Vec<Tensor>, String> {
    let mut graph = RuntimeGraph::from_pnnx(graph);
    graph.build().map_err(|error| error.to_string())?;
    let inputs = inputs(folder, graph.inputs().len());
    graph.run_with(inputs).map_err(|error| error.to_string())
}

fn planned(folder: &Path, graph: Graph) -> Result<Vec<Tensor>, String> {
    let plan = Builder::from_pnnx(graph).build().map_err(|error| error.to_string())?;
    let mut context = plan.context().map_err(|error| error.to_string())?;
    context.run(&inputs(folder, plan.inputs().len())).map_err(|error| error.to_string())
}

/// Results depend on more than the inputs, or the quantisation of results is decided when the graph is built.
fn is_left_out(folder: &Path) -> bool {
    let has = |file: &str, word: &str| {
        std::fs::read_to_string(folder.join(file)).is_ok_and(|text| text.contains(word))
    };
    has("case.toml", "values") || has("model.param", "quantize")
}

#[test]
fn every_parameter_may_be_computed() {
    let registry = Registry::default();
    // Plans take most of the time, so one is built for each way only; the interpreter computes every parameter.
    let planned_ways = Mutex::new(BTreeSet::new());
    let compared = each_of(&runnable_cases(), |folder| {
        if is_left_out(folder) {
            return 0;
        }
        let archive = Some(folder.join("model.bin")).filter(|path| path.exists());
        let file = Graph::load(folder.join("model.param"), archive.as_deref(), &Limits::default()).unwrap();
        let mut wanted = None;
        let mut compared = 0;
        let mut failed = Vec::new();
        for (id, operator) in file.operators() {
            for (field, expression) in parameters(&file, id, &registry) {
                let key = field.key;
                let Some(changed) = with_computed(&file, id, key, &expression) else { continue };
                let wanted = wanted.get_or_insert_with(|| interpreted(folder, file.clone()).unwrap());
                let mut check = |way: &str, found: Result<Vec<Tensor>, String>| {
                    let what = format!("{} `{}`, {key}, {way}", operator.op_type(), operator.name());
                    match found {
                        Ok(found) if same(wanted, &found) => compared += 1,
                        // The graph computes in single precision.
                        Ok(_) if !is_single(operator.param(key)) => {}
                        Ok(_) => failed.push(format!("{what}: other results")),
                        // The number of items of a list is needed when the graph is built.
                        Err(error) if error.contains("its input is not a list") => {}
                        Err(error) => failed.push(format!("{what}: {error}")),
                    }
                };
                if planned_ways.lock().unwrap().insert(way(&field, operator)) {
                    check("planned", planned(folder, changed.clone()));
                }
                check("interpreted", interpreted(folder, changed));
            }
        }
        assert!(failed.is_empty(), "{}", failed.join("\n"));
        compared
    });
    assert!(compared.iter().sum::<usize>() > 500, "{} were compared", compared.iter().sum::<usize>());
}

/// Returns true unless a parameter is a number that single precision rounds.
fn is_single(parameter: Option<&Parameter>) -> bool {
    parameter
        .and_then(|parameter| parameter.as_f64().ok())
        .is_none_or(|value| f64::from(value as f32) == value)
}

fn same(wanted: &[Tensor], found: &[Tensor]) -> bool {
    let close = |(wanted, found): (&Tensor, &Tensor)| {
        wanted.allclose(found, 1e-5, 1e-6, true).is_ok_and(|comparison| comparison.holds())
    };
    wanted.len() == found.len() && wanted.iter().zip(found).all(close)
}
