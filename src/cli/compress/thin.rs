//! Splitting linear layers into two thin ones, by dropping the small singular values of their weights.

use ixion::Limits;
use ixion::kernels::lapack::{self, Singular};
use ixion::pnnx::{Attribute, Dim, Graph, GraphError, OperandId, OperatorId, Parameter, WeightError};
use ixion::tensor::DType;
use ndarray::{Array2, Axis, s};

/// The number of singular values to keep of each layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wanted {
    /// A fixed number.
    Rank(usize),
    /// As few as possible with at most this relative error of the weights.
    Error(f64),
}

/// The result for a linear layer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layer {
    pub(super) name: String,
    /// The numbers of outputs and inputs.
    pub(super) size: [usize; 2],
    /// The selected rank.
    pub(super) rank: usize,
    /// The norm of the weights' error, relative to the norm of the weights.
    pub(super) error: f64,
    pub(super) fate: Fate,
}

/// The outcome for a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was replaced by two thin layers.
    Replaced,
    /// Two thin layers would not be smaller.
    Kept,
    /// Its weights are not floats.
    NotFloat(DType),
}

impl Fate {
    /// The reason why a layer was not replaced.
    pub(super) fn reason(self) -> Option<String> {
        match self {
            Self::Replaced => None,
            Self::Kept => Some("two thin layers would not be smaller".to_owned()),
            Self::NotFloat(dtype) => Some(format!("its weights are {dtype}, not f32, f64, f16 or bf16")),
        }
    }
}

impl Layer {
    /// The number of weights before, without the bias.
    pub(super) fn before(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// Returns true if the layer was replaced by two thin ones.
    pub(super) fn is_replaced(&self) -> bool {
        self.fate == Fate::Replaced
    }

    /// The number of weights after, without the bias.
    pub(super) fn after(&self) -> usize {
        if self.is_replaced() { self.rank * (self.size[0] + self.size[1]) } else { self.before() }
    }
}

/// An error of splitting a layer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unthinned {
    #[error("the weights of `{name}`: {reason}")]
    Matrix { name: String, reason: lapack::Fault },
    #[error("the weights of `{name}`")]
    Weight { name: String, source: WeightError },
    #[error("the graph cannot be changed")]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Limit(#[from] ixion::LimitError),
}

/// A linear layer with constant weights.
struct Found {
    operator: OperatorId,
    input: OperandId,
    weight: Attribute,
    bias: Option<Attribute>,
}

/// Replaces linear layers by two thin ones if that makes them smaller. Returns all linear layers, in graph order.
pub(super) fn thin(graph: &mut Graph, wanted: Wanted, limits: &Limits) -> Result<Vec<Layer>, Unthinned> {
    let found: Vec<Found> = graph.operator_ids().iter().filter_map(|&id| find(graph, id)).collect();
    found
        .into_iter()
        .map(|found| {
            limits.check_deadline()?;
            replace(graph, found, wanted, limits)
        })
        .collect()
}

/// The constant connected to the input `key` of an operator, if it is one.
fn constant(graph: &Graph, operator: OperatorId, key: &str) -> Option<Attribute> {
    let operand = graph.operator(operator).named_input(key)?;
    let producer = graph.operator(graph.operand(operand).producer()?);
    (producer.op_type() == "pnnx.Attribute").then(|| producer.attrs().values().next().cloned()).flatten()
}

/// A linear layer, if its weights and its bias are constants.
fn find(graph: &Graph, id: OperatorId) -> Option<Found> {
    let operator = graph.operator(id);
    let input = operator.named_input("input").or(operator.inputs().first().copied())?;
    let (weight, bias) = match operator.op_type() {
        "nn.Linear" if operator.inputs().len() == 1 => {
            (operator.attr("weight").cloned()?, operator.attr("bias").cloned())
        }
        "F.linear" if operator.has_input("bias") => {
            (constant(graph, id, "weight")?, Some(constant(graph, id, "bias")?))
        }
        "F.linear" => (constant(graph, id, "weight")?, None),
        _ => return None,
    };
    (weight.shape().len() == 2).then_some(Found { operator: id, input, weight, bias })
}

/// The rank to keep of these singular values, and the relative error that it leaves.
fn rank(values: &[f64], wanted: Wanted) -> (usize, f64) {
    let total: f64 = values.iter().map(|s| s * s).sum();
    let error = |rank: usize| {
        let lost: f64 = values.iter().skip(rank).map(|s| s * s).sum();
        if total > 0.0 { (lost / total).sqrt() } else { 0.0 }
    };
    let rank = match wanted {
        Wanted::Rank(rank) => rank.min(values.len()),
        Wanted::Error(bound) => (1..=values.len()).find(|&rank| error(rank) <= bound).unwrap_or(values.len()),
    };
    (rank, error(rank))
}

/// Two factors of a matrix, outputs × rank and rank × inputs, each scaled by the roots of the singular values.
fn factors(parts: &Singular<f64>, rank: usize) -> [Array2<f64>; 2] {
    let mut outer = parts.u.slice(s![.., ..rank]).to_owned();
    let mut inner = parts.vh.slice(s![..rank, ..]).to_owned();
    for (index, root) in parts.s.iter().take(rank).map(|s| s.sqrt()).enumerate() {
        outer.index_axis_mut(Axis(1), index).mapv_inplace(|x| x * root);
        inner.index_axis_mut(Axis(0), index).mapv_inplace(|x| x * root);
    }
    [outer, inner]
}

fn replace(graph: &mut Graph, found: Found, wanted: Wanted, limits: &Limits) -> Result<Layer, Unthinned> {
    let name = graph.operator(found.operator).name().to_owned();
    let weight_error = |source| Unthinned::Weight { name: name.clone(), source };
    let size @ [outputs, inputs] = [found.weight.shape()[0], found.weight.shape()[1]];
    let dtype = found.weight.dtype();
    if !dtype.is_float() {
        return Ok(Layer { name, size, rank: 0, error: 0.0, fate: Fate::NotFloat(dtype) });
    }
    let numbers = numbers(&found.weight).map_err(weight_error)?;
    let matrix = Array2::from_shape_fn((outputs, inputs), |(i, j)| numbers[i * inputs + j]);
    let parts = lapack::svd(&matrix.view(), false, limits)
        .map_err(|reason| Unthinned::Matrix { name: name.clone(), reason })?;
    let (rank, error) = rank(&parts.s, wanted);
    let fate = if rank * (outputs + inputs) < outputs * inputs { Fate::Replaced } else { Fate::Kept };
    if fate == Fate::Replaced {
        let weights = factors(&parts, rank).map(|factor| attribute(&factor, dtype));
        let [outer, inner] = weights;
        split(graph, &found, [outer.map_err(weight_error)?, inner.map_err(weight_error)?])?;
    }
    Ok(Layer { name, size, rank, error, fate })
}

/// The elements of a float attribute.
fn numbers(weight: &Attribute) -> Result<Vec<f64>, WeightError> {
    if weight.dtype() != DType::F64 {
        return Ok(weight.to_f32s()?.into_iter().map(f64::from).collect());
    }
    let bytes = weight.bytes()?;
    Ok(bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
}

/// A matrix as an attribute of this float type.
fn attribute(matrix: &Array2<f64>, dtype: DType) -> Result<Attribute, WeightError> {
    let shape = matrix.shape().to_vec();
    if dtype == DType::F64 {
        let bytes: Vec<u8> = matrix.iter().flat_map(|x| x.to_le_bytes()).collect();
        return Attribute::new(dtype, shape, bytes);
    }
    let bytes = vec![0; matrix.len() * dtype.size()];
    let mut attribute = Attribute::new(dtype, shape, bytes)?;
    attribute.set_f32s(&matrix.iter().map(|&x| x as f32).collect::<Vec<f32>>())?;
    Ok(attribute)
}

/// Inserts a layer with the inner factor before the operator, and gives the operator the outer factor.
fn split(graph: &mut Graph, found: &Found, [outer, inner]: [Attribute; 2]) -> Result<(), GraphError> {
    let id = found.operator;
    let (name, input) = (graph.operator(id).name().to_owned(), found.input);
    let (rank, inputs) = (inner.shape()[0], inner.shape()[1]);
    let between = format!("{}_thin", graph.operand(input).name());
    let between = free_name(&between, |name| graph.operand_named(name).is_some());
    let between = graph.new_operand(&between)?;
    let dtype = graph.operand(input).dtype();
    let shape = graph.operand(input).shape().map(|dims| {
        let mut dims: Vec<Dim> = dims.to_vec();
        dims.iter_mut().next_back().into_iter().for_each(|last| *last = Dim::Fixed(rank as u64));
        dims
    });
    graph.set_operand_type(between, dtype, shape)?;
    let first = free_name(&format!("{name}.thin"), |name| graph.operator_named(name).is_some());
    let first = graph.new_operator_before("nn.Linear", &first, id)?;
    graph.connect_input(first, input, None)?;
    graph.connect_output(first, between)?;
    configure(graph, first, [rank, inputs], inner, None)?;
    let operands = graph.operator(id).inputs().to_vec();
    for index in (0..operands.len()).rev() {
        graph.disconnect_input(id, index)?;
    }
    graph.connect_input(id, between, None)?;
    graph.set_op_type(id, "nn.Linear")?;
    let outputs = outer.shape()[0];
    configure(graph, id, [outputs, rank], outer, found.bias.clone())?;
    operands
        .into_iter()
        .filter(|&operand| operand != input)
        .try_for_each(|operand| drop_unused(graph, operand))
}

fn configure(
    graph: &mut Graph,
    id: OperatorId,
    [outputs, inputs]: [usize; 2],
    weight: Attribute,
    bias: Option<Attribute>,
) -> Result<(), GraphError> {
    let flag = if bias.is_some() { "True" } else { "False" };
    for (key, value) in [
        ("in_features", inputs.to_string()),
        ("out_features", outputs.to_string()),
        ("bias", flag.to_owned()),
    ] {
        graph.set_param(id, key, Parameter::parse(&value))?;
    }
    graph.set_attribute(id, "weight", weight)?;
    if let Some(bias) = bias {
        graph.set_attribute(id, "bias", bias)?;
    }
    Ok(())
}

/// Removes a constant that no operator reads any more.
fn drop_unused(graph: &mut Graph, operand: OperandId) -> Result<(), GraphError> {
    let unused = graph.get_operand(operand).filter(|operand| operand.consumers().is_empty());
    match unused.and_then(|operand| operand.producer()) {
        Some(producer) => graph.remove_operator(producer).map(drop),
        None => Ok(()),
    }
}

/// The name, with a number if it is taken.
fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let names = std::iter::once(name.to_owned()).chain((2..).map(|number| format!("{name}_{number}")));
    names.into_iter().find(|name| !is_taken(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
