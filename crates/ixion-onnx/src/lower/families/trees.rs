//! Ensembles of decision trees.
//!
//! The nodes of a file are numbered anew, so that each follows the node that leads to it: then a tree has no cycles.

use super::scores::{First, Labels, Scores, transformed};
use super::tree_nodes::{Leaf, Nodes, Split};
use crate::OnnxError;
use crate::lower::call::{Outputs, Table, one};
use crate::lower::{Call, Value};
use ixion_pnnx::OperandId;

pub(super) const TABLE: Table = &[
    ("TreeEnsemble", ensemble),
    ("TreeEnsembleClassifier", classifier),
    ("TreeEnsembleRegressor", regressor),
];

/// A list of numbers that newer versions store as a tensor, which may be of f64.
fn reals(call: &Call<'_>, name: &'static str, tensor: &'static str) -> Result<Vec<f64>, OnnxError> {
    if let Some(stored) = call.tensor(tensor)? {
        let numbers = stored.f64s()?;
        return numbers.ok_or_else(|| call.error(format!("expected `{tensor}` to have real numbers")));
    }
    Ok(call.floats(name)?.unwrap_or_default().into_iter().map(f64::from).collect())
}

fn ints(call: &Call<'_>, name: &'static str) -> Result<Vec<i64>, OnnxError> {
    Ok(call.ints(name)?.unwrap_or_default())
}

/// The names of the attributes of leaves.
struct Names {
    trees: &'static str,
    nodes: &'static str,
    ids: &'static str,
    weights: [&'static str; 2],
}

/// The nodes of the older operators, which name trees and nodes by numbers of their own.
fn named_nodes(call: &Call<'_>, names: &Names) -> Result<Nodes, OnnxError> {
    call.ignore(&["nodes_hitrates", "nodes_hitrates_as_tensor"]);
    let (trees, ids) = (ints(call, "nodes_treeids")?, ints(call, "nodes_nodeids")?);
    let modes = call.strings("nodes_modes")?.unwrap_or_default();
    let values = reals(call, "nodes_values", "nodes_values_as_tensor")?;
    let features = ints(call, "nodes_featureids")?;
    let (yes, no) = (ints(call, "nodes_truenodeids")?, ints(call, "nodes_falsenodeids")?);
    let missing = ints(call, "nodes_missing_value_tracks_true")?;
    let count = ids.len();
    let lens = [trees.len(), modes.len(), values.len(), features.len(), yes.len(), no.len()];
    if lens.iter().any(|len| *len != count) {
        return Err(call.error(format!("expected {count} elements in every list of nodes, got {lens:?}")));
    }
    let mut nodes = Nodes::default();
    for at in 0..count {
        let get = |list: &[i64]| list.get(at).copied().unwrap_or_default();
        let (tree, mode) = (get(&trees), modes.get(at).copied().unwrap_or_default());
        let key = (tree, get(&ids));
        let mode = match mode {
            "LEAF" => {
                nodes.add_leaf(key).map_err(|problem| call.error(problem))?;
                continue;
            }
            "BRANCH_LEQ" => 0,
            "BRANCH_LT" => 1,
            "BRANCH_GTE" => 2,
            "BRANCH_GT" => 3,
            "BRANCH_EQ" => 4,
            "BRANCH_NEQ" => 5,
            other => return Err(call.error(format!("the node mode `{other}` does not exist"))),
        };
        let split = Split {
            feature: get(&features),
            threshold: values.get(at).copied().unwrap_or_default(),
            mode: mode + if get(&missing) != 0 { 8 } else { 0 },
            children: [(tree, get(&yes)), (tree, get(&no))],
        };
        nodes.add_split(key, split).map_err(|problem| call.error(problem))?;
    }
    let (trees, ids) = (ints(call, names.trees)?, ints(call, names.nodes)?);
    let (targets, weights) = (ints(call, names.ids)?, reals(call, names.weights[0], names.weights[1])?);
    if [trees.len(), ids.len(), targets.len()].iter().any(|len| *len != weights.len()) {
        return Err(call.error(format!("expected as many elements in `{}` as weights", names.ids)));
    }
    let keys = trees.into_iter().zip(ids);
    for (key, leaf) in keys.zip(targets.into_iter().zip(weights)) {
        let (target, weight) = leaf;
        nodes.add_weight(key, Leaf { target, weight }).map_err(|problem| call.error(problem))?;
    }
    Ok(nodes)
}

/// The operator that evaluates trees.
fn evaluated(
    call: &mut Call<'_>,
    nodes: &Nodes,
    targets: i64,
    aggregate: &str,
    is_double: bool,
) -> Result<OperandId, OnnxError> {
    let flat = nodes.flattened().map_err(|problem| call.error(problem))?;
    let x = call.input(0)?;
    let mut emit =
        call.emit("TreeEnsemble").input(x).param("n_targets", targets).param("aggregate", aggregate);
    for (key, attribute) in flat.attributes(is_double)? {
        emit = emit.attribute(key, attribute);
    }
    emit.one()
}

fn regressor(call: &mut Call<'_>) -> Outputs {
    let names = Names {
        trees: "target_treeids",
        nodes: "target_nodeids",
        ids: "target_ids",
        weights: ["target_weights", "target_weights_as_tensor"],
    };
    let nodes = named_nodes(call, &names)?;
    let targets = call.int("n_targets")?.ok_or_else(|| call.missing("n_targets"))?;
    let aggregate = call.string_or("aggregate_function", "SUM")?;
    let base = reals(call, "base_values", "base_values_as_tensor")?;
    let x = evaluated(call, &nodes, targets, aggregate, false)?;
    let x = based(call, x, &base)?;
    let transform = call.string_or("post_transform", "NONE")?;
    // A single number is left as it is, as in onnxruntime.
    one(if targets == 1 && transform != "PROBIT" { Ok(x) } else { transformed(call, x, transform) })
}

/// The base values added.
fn based(call: &mut Call<'_>, x: OperandId, base: &[f64]) -> Result<OperandId, OnnxError> {
    match base {
        [] => Ok(x),
        [value] => call.expression(&format!("add(@0,{value:?})"), &[x]),
        values => {
            let values = super::scores::vector(call, values)?;
            call.expression("add(@0,@1)", &[x, values])
        }
    }
}

fn classifier(call: &mut Call<'_>) -> Outputs {
    let names = Names {
        trees: "class_treeids",
        nodes: "class_nodeids",
        ids: "class_ids",
        weights: ["class_weights", "class_weights_as_tensor"],
    };
    let nodes = named_nodes(call, &names)?;
    let labels = Labels::of(call, "classlabels_int64s", "classlabels_strings")?;
    let base = reals(call, "base_values", "base_values_as_tensor")?;
    let classes = nodes.targets();
    let transform = call.string_or("post_transform", "NONE")?;
    let only = if labels.len() == 2 && classes.len() == 1 { classes.first().copied() } else { None };
    let fits = match only {
        Some(0) => base.len() <= 1,
        Some(_) => base.is_empty(),
        None => base.is_empty() || base.len() == labels.len(),
    };
    if !fits {
        return Err(call.error(format!("{} `base_values` are not supported for these classes", base.len())));
    }
    let count = i64::try_from(labels.len()).unwrap_or_default();
    let are_positive = nodes.weights().all(|weight| weight >= 0.0);
    let nodes = if only.is_some() { nodes.with_one_target() } else { nodes };
    let scores = evaluated(call, &nodes, if only.is_some() { 1 } else { count }, "SUM", false)?;
    let scores = based(call, scores, &base)?;
    let first = match (only, are_positive) {
        (Some(0), true) => First::Complement,
        (Some(0), false) => First::Opposite,
        _ => First::Zero,
    };
    let scores = match only {
        Some(_) => Scores::Single { scores, bound: if are_positive { 0.5 } else { 0.0 }, first },
        None => Scores::All(scores),
    };
    scores.outputs(call, &labels, transform)
}

/// The operator of newer versions, whose lists refer to each other by position.
fn ensemble(call: &mut Call<'_>) -> Outputs {
    call.ignore(&["nodes_hitrates"]);
    let targets = call.int("n_targets")?.ok_or_else(|| call.missing("n_targets"))?;
    let tensor = |name: &'static str| call.tensor(name)?.ok_or_else(|| call.missing(name));
    let (splits, modes, weights) = (tensor("nodes_splits")?, tensor("nodes_modes")?, tensor("leaf_weights")?);
    let is_double = weights.dtype() == ixion_tensor::DType::F64;
    let real = |list: Option<Vec<f64>>| list.ok_or_else(|| call.error("expected tensors of real numbers"));
    let (splits, weights) = (real(splits.f64s()?)?, real(weights.f64s()?)?);
    let modes = modes.i64s()?.ok_or_else(|| call.error("expected `nodes_modes` to have integers"))?;
    let members = match call.tensor("membership_values")? {
        Some(members) => real(members.f64s()?)?,
        None => Vec::new(),
    };
    let mut sets = members.split(|value| value.is_nan());
    let features = ints(call, "nodes_featureids")?;
    let (yes, no) = (ints(call, "nodes_truenodeids")?, ints(call, "nodes_falsenodeids")?);
    let (yes_leaf, no_leaf) = (ints(call, "nodes_trueleafs")?, ints(call, "nodes_falseleafs")?);
    let missing = ints(call, "nodes_missing_value_tracks_true")?;
    let leaf_targets = ints(call, "leaf_targetids")?;
    let lens = [splits.len(), modes.len(), yes.len(), no.len(), yes_leaf.len(), no_leaf.len()];
    if lens.iter().any(|len| *len != features.len()) || leaf_targets.len() != weights.len() {
        return Err(
            call.error(format!("expected {} elements in every list of nodes, got {lens:?}", features.len()))
        );
    }
    let mut nodes = Nodes::default();
    // Nodes are of tree 0, leaves of tree 1, and the nodes that a set needs of tree 2.
    for (at, (target, weight)) in leaf_targets.into_iter().zip(weights).enumerate() {
        let key = (1, i64::try_from(at).unwrap_or_default());
        let added = nodes.add_leaf(key).and_then(|()| nodes.add_weight(key, Leaf { target, weight }));
        added.map_err(|problem| call.error(problem))?;
    }
    for at in 0..features.len() {
        let get = |list: &[i64]| list.get(at).copied().unwrap_or_default();
        let child = |leaf: i64, id: i64| (i64::from(leaf != 0), id);
        let children = [child(get(&yes_leaf), get(&yes)), child(get(&no_leaf), get(&no))];
        let key = (0, i64::try_from(at).unwrap_or_default());
        let more = if get(&missing) != 0 { 8 } else { 0 };
        let mode = get(&modes);
        let split = Split {
            feature: get(&features),
            threshold: splits.get(at).copied().unwrap_or_default(),
            mode: 0,
            children,
        };
        let added = match mode {
            0..=5 => {
                nodes.add_split(key, Split { mode: u8::try_from(mode).unwrap_or_default() + more, ..split })
            }
            6 => nodes.add_set(key, &Split { mode: 4 + more, ..split }, sets.next().unwrap_or_default()),
            _ => Err(format!("the node mode {mode} does not exist")),
        };
        added.map_err(|problem| call.error(problem))?;
    }
    let roots: Vec<(i64, i64)> = ints(call, "tree_roots")?.into_iter().map(|root| (0, root)).collect();
    nodes.set_roots(roots);
    let aggregate = match call.int_or("aggregate_function", 1)? {
        0 => "AVERAGE",
        1 => "SUM",
        2 => "MIN",
        3 => "MAX",
        other => {
            return Err(call.error(format!("expected `aggregate_function` to be from 0 to 3, got {other}")));
        }
    };
    let transform = match call.int_or("post_transform", 0)? {
        0 => "NONE",
        1 => "SOFTMAX",
        2 => "LOGISTIC",
        3 => "SOFTMAX_ZERO",
        4 => "PROBIT",
        other => return Err(call.error(format!("expected `post_transform` to be from 0 to 4, got {other}"))),
    };
    let scores = evaluated(call, &nodes, targets, aggregate, is_double)?;
    let scores = transformed(call, scores, transform)?;
    Ok(vec![Value::Operand(scores)])
}
