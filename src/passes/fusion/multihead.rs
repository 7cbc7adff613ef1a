//! Replacing attention and the linear layers around it by `nn.MultiheadAttention`.
//!
//! ```text
//! nn.Linear qkv               1 1 x a
//! …                           views of a as queries, keys and values, N×heads×L×D
//! F.scaled_dot_product_attention attention 3 1 q k v h
//! …                           h as N×L×(heads·D)
//! nn.Linear out               1 1 b y
//!     ↓
//! nn.MultiheadAttention attention 1 1 x y
//! ```
//!
//! There are many ways to spell the views. What they do is therefore not read from their types: the pass follows the positions of
//! elements through them, and compares these with the positions that the module expects.

use super::affine::Channels;
use super::site::{NewOperator, is_computed_in, only_reader, producer};
use crate::passes::axes::{is_reshape, order_of};
use crate::passes::visit::{Verdict, Visit};
use crate::passes::{Facts, Match, PassContext, Replacement, Rewrite, Rule};
use crate::pnnx::{Attribute, Graph, GraphError, OperandId, Operator, OperatorId};
use crate::tensor::{Layout, Shape};

/// The pass.
pub(super) const FUSE_MULTIHEAD_ATTENTION: Visit = Visit {
    name: "fuse_multihead_attention",
    doc: "Replaces attention and the linear layers around it by `nn.MultiheadAttention`.",
    visit,
};

/// The most operators between a linear layer and the attention.
const MOST_VIEWS: usize = 16;

fn visit(graph: &mut Graph, context: &PassContext, id: OperatorId) -> Result<Verdict, GraphError> {
    let Some(found) = Found::of(graph, context.facts(graph), id) else { return Ok(Verdict::Other) };
    if context.allows_int8() {
        let reason = "its linear layers can be int8, `nn.MultiheadAttention` cannot";
        return Ok(Verdict::Refused(reason.to_owned()));
    }
    match found.rows {
        None => found.module.replace(graph, &[found.last])?,
        Some(rows) => {
            let name = format!("{}_rows", found.module.name);
            let whole = found.module.insert(graph, found.last)?;
            let flat = NewOperator::new("Tensor.reshape", &name).input(whole, Some("input"));
            flat.param("shape", rows).replace(graph, &[found.last])?;
        }
    }
    Ok(Verdict::Fired)
}

/// An attention with its linear layers.
struct Found {
    /// The module that computes them.
    module: NewOperator,
    /// The last linear layer.
    last: OperatorId,
    /// The shape of the last linear layer's result, if that is a matrix of all rows.
    rows: Option<Vec<i64>>,
}

impl Found {
    fn of(graph: &Graph, facts: &Facts, id: OperatorId) -> Option<Self> {
        let is_attention = |operator: &&Operator| operator.op_type() == "F.scaled_dot_product_attention";
        let attention = graph.get_operator(id).filter(is_attention)?;
        let heads = Heads::of(graph, facts, attention)?;
        let projected = |key: &str| Projection::of(graph, facts, attention.named_input(key)?);
        let parts = [projected("query")?, projected("key")?, projected("value")?];
        let (last, merged) = reader(graph, facts, attention)?;
        let (&[x], &[y]) = (graph.operator(parts.first()?.linear).inputs(), graph.operator(last).outputs())
        else {
            return None;
        };
        let (whole, result) = (shape(graph, facts, x)?, shape(graph, facts, y)?);
        let &[first, second, features] = whole.dims() else { return None };
        let rows = [first.checked_mul(second)?, features];
        let is_flat = result.dims() == rows;
        if !is_flat && result != whole || heads.features()? != features || !are_only_for(graph, id, &parts) {
            return None;
        }
        let fits = |batch_first: &bool| {
            let are_placed = parts.iter().all(|part| heads.are_at(&part.layout, &part.shape, *batch_first));
            are_placed && merged.offset() == 0 && heads.are_at(&merged, &whole, *batch_first)
        };
        let batch_first = [true, false].into_iter().find(fits)?;
        let module = NewOperator::new("nn.MultiheadAttention", attention.name())
            .input(x, None)
            .param("batch_first", batch_first)
            .param("num_heads", i64::try_from(heads.heads).ok()?);
        let module = weighted(module, graph, &parts, graph.operator(last), (x, features))?;
        let signed = |len: usize| i64::try_from(len).ok();
        let rows = rows.into_iter().map(signed).collect::<Option<Vec<i64>>>()?;
        Some(Self { module, last, rows: is_flat.then_some(rows) })
    }
}

/// The module with the weights of the linear layers; `None` if they do not fit.
fn weighted(
    module: NewOperator,
    graph: &Graph,
    parts: &[Projection; 3],
    out: &Operator,
    (x, features): (OperandId, usize),
) -> Option<NewOperator> {
    let weights = |key: &str| joined(graph, parts, x, key, features);
    let weight = out.attr("weight").filter(|weight| weight.shape() == [features, features])?;
    let len = i64::try_from(features).ok()?;
    let module = module
        .param("add_bias_kv", false)
        .param("add_zero_attn", false)
        .param("bias", out.has_attr("bias"))
        .param("embed_dim", len)
        .param("kdim", len)
        .param("vdim", len)
        .attr("in_proj_weight", weights("weight")?)
        .attr("out_proj.weight", weight.clone());
    let biases = parts.iter().filter(|part| graph.operator(part.linear).has_attr("bias")).count();
    match (biases, out.attr("bias")) {
        (0, None) => Some(module),
        (3, Some(bias)) => {
            Some(module.attr("in_proj_bias", weights("bias")?).attr("out_proj.bias", bias.clone()))
        }
        _ => None,
    }
}

fn shape(graph: &Graph, facts: &Facts, operand: OperandId) -> Option<Shape> {
    facts.meta(graph, operand)?.shape().ok()
}

fn is_linear(operator: &Operator) -> bool {
    Channels::of(operator).is_some_and(|channels| channels.is_linear())
}

/// The sizes of queries, keys and values, N×heads×rows×len.
struct Heads {
    count: usize,
    heads: usize,
    rows: usize,
    len: usize,
}

impl Heads {
    /// The sizes of an attention of a sequence to itself, without a mask, and with the usual factor.
    fn of(graph: &Graph, facts: &Facts, attention: &Operator) -> Option<Self> {
        let query = facts.meta(graph, attention.named_input("query")?)?;
        let whole = query.shape().ok()?;
        let &[count, heads, rows, len] = whole.dims() else { return None };
        let is_alike = |key| shape(graph, facts, attention.named_input(key)?).map(|shape| shape == whole);
        let is_of_itself = is_alike("key")? && is_alike("value")? && attention.inputs().len() == 3;
        let is_causal = attention.get_or("is_causal", false).ok()?;
        let dropout = attention.get_or("dropout_p", 0.0_f64).ok()?;
        let usual = (len as f64).sqrt().recip();
        let scale = attention.get_or::<Option<f64>>("scale", None).ok()?.unwrap_or(usual);
        let is_usual = (scale - usual).abs() <= usual * 1e-6 && dropout == 0.0 && !is_causal;
        let is_supported = is_of_itself && is_usual && is_computed_in(query.dtype());
        is_supported.then_some(Self { count, heads, rows, len })
    }

    /// The number of features of all heads.
    fn features(&self) -> Option<usize> {
        self.heads.checked_mul(self.len)
    }

    /// Returns true if elements N×heads×rows×len with this layout are side by side in the rows of a tensor of this shape: N×rows×…
    /// with `batch_first`, or rows×N×….
    fn are_at(&self, layout: &Layout, shape: &[usize], batch_first: bool) -> bool {
        let &[first, second, width] = shape else { return false };
        let Some(whole) = second.checked_mul(width) else { return false };
        let (outer, [by_sample, by_row]) = match batch_first {
            true => ([self.count, self.rows], [whole, width]),
            false => ([self.rows, self.count], [width, whole]),
        };
        let lens = [self.count, self.heads, self.rows, self.len];
        let wanted = [by_sample, self.len, by_row, 1];
        let mut axes = layout.strides().iter().zip(wanted).zip(lens);
        let is_inside = self.heads.saturating_mul(self.len).saturating_add(layout.offset()) <= width;
        [first, second] == outer
            && layout.shape().dims() == lens
            && is_inside
            && axes.all(|((stride, wanted), len)| len <= 1 || *stride == wanted)
    }
}

/// Queries, keys or values as a view of the result of a linear layer.
struct Projection {
    linear: OperatorId,
    /// The shape of the linear layer's result.
    shape: Shape,
    layout: Layout,
    /// The operators in between.
    views: Vec<OperatorId>,
}

impl Projection {
    fn of(graph: &Graph, facts: &Facts, operand: OperandId) -> Option<Self> {
        let (mut at, mut steps) = (operand, Vec::new());
        let linear = loop {
            let (id, operator) = producer(graph, at)?;
            if is_linear(operator) {
                break id;
            }
            let &[input] = operator.inputs() else { return None };
            let output = operator.outputs().iter().position(|&output| output == at)?;
            steps.push((id, output, at));
            if steps.len() > MOST_VIEWS {
                return None;
            }
            at = input;
        };
        let whole = shape(graph, facts, at)?;
        let mut layout = Layout::contiguous(whole);
        for &(id, output, operand) in steps.iter().rev() {
            let layer = facts.operator(graph.operator(id).name())?.layer()?;
            let meta = facts.meta(graph, operand)?;
            let view = layer.view_of(output, &[(meta.dtype(), layout)], &meta.shape().ok()?).ok()??;
            layout = view.layout;
        }
        Some(Self { linear, shape: whole, layout, views: steps.iter().map(|step| step.0).collect() })
    }
}

/// The linear layer that reads the result of an attention, and the layout of that result in the linear layer's input.
fn reader(graph: &Graph, facts: &Facts, attention: &Operator) -> Option<(OperatorId, Layout)> {
    let (mut operator, mut steps) = (attention, Vec::new());
    let linear = loop {
        let (id, reader) = only_reader(graph, operator)?;
        if is_linear(reader) {
            break id;
        }
        steps.push(reader);
        if steps.len() > MOST_VIEWS {
            return None;
        }
        operator = reader;
    };
    let &[input] = graph.operator(linear).inputs() else { return None };
    let mut layout = Layout::contiguous(shape(graph, facts, input)?);
    for step in steps.into_iter().rev() {
        let &[input] = step.inputs() else { return None };
        let before = shape(graph, facts, input)?;
        layout = match is_reshape(step.op_type()) {
            true => layout.reshape(&before).ok()??,
            false => layout.permute(&inverse(&order_of(step, before.rank())?)?).ok()?,
        };
    }
    Some((linear, layout))
}

/// The permutation that undoes another one.
fn inverse(order: &[usize]) -> Option<Vec<usize>> {
    (0..order.len()).map(|axis| order.iter().position(|&other| other == axis)).collect()
}

/// Returns true if nothing but the attention reads the linear layers and the views of them.
fn are_only_for(graph: &Graph, attention: OperatorId, parts: &[Projection]) -> bool {
    let inside = |id: &OperatorId| *id == attention || parts.iter().any(|part| part.views.contains(id));
    let of_part = |part: &Projection| [&part.views[..], &[part.linear]].concat();
    parts.iter().flat_map(of_part).all(|id| {
        let outputs = graph.operator(id).outputs().iter();
        outputs.flat_map(|&output| graph.operand(output).consumers()).all(inside)
    })
}

/// The weights or biases of queries, keys and values below each other, if all are computed from `x`.
fn joined(
    graph: &Graph,
    parts: &[Projection; 3],
    x: OperandId,
    key: &str,
    features: usize,
) -> Option<Attribute> {
    let of_part = |part: &Projection| {
        let stored = graph.operator(part.linear).attr(key)?;
        let width = stored.shape().get(1).copied().unwrap_or(features);
        (width == features).then_some(stored)
    };
    if !parts.iter().all(|part| graph.operator(part.linear).inputs() == [x]) {
        return None;
    }
    let [first, second, third] = parts;
    let whole = of_part(first)?;
    let is_whole = [first, second, third].iter().enumerate().all(|(index, part)| {
        part.linear == first.linear && part.layout.offset() == index.saturating_mul(features)
    });
    if is_whole && whole.shape().first() == Some(&features.checked_mul(3)?) {
        return Some(whole.clone());
    }
    let rows_of = |part: &Projection| rows(of_part(part)?, part.layout.offset(), features);
    rows_of(first)?.concat(&rows_of(second)?).ok()?.concat(&rows_of(third)?).ok()
}

/// Some rows of a weight.
fn rows(stored: &Attribute, start: usize, count: usize) -> Option<Attribute> {
    let (&all, rest) = stored.shape().split_first()?;
    if !stored.is_present() {
        return None;
    }
    if start == 0 && count == all {
        return Some(stored.clone());
    }
    let bytes = stored.bytes().ok()?;
    let row = bytes.len().checked_div(all)?;
    let part = bytes.get(start.checked_mul(row)?..start.checked_add(count)?.checked_mul(row)?)?;
    let shape = std::iter::once(count).chain(rest.iter().copied()).collect();
    Attribute::new(stored.dtype(), shape, part.to_vec()).ok()
}

const TURNED: &str = "7767517
5 4
pnnx.Input                  input   0 1 x
torch.permute|Tensor.permute|torch.transpose \
                            ahead   1 1 x a     %*=%*
nn.MultiheadAttention       heads   1 1 a b     %*=%*
torch.permute|Tensor.permute|torch.transpose \
                            behind  1 1 b y     %*=%*
pnnx.Output                 output  1 0 y
";

const IN_PLACE: &str = "7767517
3 2
pnnx.Input                  input   0 1 x
nn.MultiheadAttention       heads   1 1 x y     %*=%*
pnnx.Output                 output  1 0 y
";

/// The pass that removes the permutations around a module that swap the sequence and the batch.
pub(super) fn multihead_in_place() -> Rewrite {
    Rewrite::new(
        "multihead_in_place",
        "Removes permutations around `nn.MultiheadAttention` that swap samples and rows, which it can read either way.",
    )
    .rule(Rule::new(TURNED, IN_PLACE).when(samples_and_rows_are_swapped).write(swap))
}

fn samples_and_rows_are_swapped(found: &Match<'_>) -> Result<(), String> {
    for name in ["ahead", "behind"] {
        let rank = found.meta("x")?.rank();
        if rank != 3 || order_of(found.operator(name)?, rank) != Some(vec![1, 0, 2]) {
            return Err("the permutations do not just swap samples and rows".to_owned());
        }
    }
    Ok(())
}

fn swap(found: &Match<'_>, new: &mut Replacement) -> Result<(), String> {
    let batch_first = found.setting::<bool>("heads", "batch_first", false)?;
    new.set_param("heads", "batch_first", !batch_first)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, model as with_weights, refuses};
    use super::*;
    use crate::op::TensorMeta;
    use crate::passes::testing::run_in;
    use crate::tensor::DType;

    /// Attention of two heads between the linear layers `before` and `behind`, N×L×E and E = 8.
    fn model(before: &str, behind: &str) -> String {
        format!(
            "pnnx.Input in 0 1 x #x=(2,5,8)f32\n{before}\n\
             F.scaled_dot_product_attention h 3 1 q k v o $query=q $key=k $value=v\n{behind}\n\
             nn.Linear l 1 1 b y bias=True in_features=8 out_features=8 @bias=(8)f32 @weight=(8,8)f32\n\
             pnnx.Output out 1 0 y"
        )
    }

    const MERGED: &str = "nn.Linear p 1 1 x a bias=True in_features=8 out_features=24 @bias=(24)f32 @weight=(24,8)f32\n\
        Tensor.reshape r 1 1 a s shape=(2,5,3,2,4) $input=a\n\
        torch.permute t 1 1 s u dims=(2,0,3,1,4) $input=s\n\
        torch.unbind c 1 3 u q k v dim=0 $input=u";
    const BEHIND: &str = "torch.transpose z 1 1 o w dim0=1 dim1=2 $input=o\n\
        Tensor.reshape m 1 1 w b shape=(2,5,8) $input=w";

    fn apart() -> String {
        let part = |name: &str| {
            format!(
                "nn.Linear p{name} 1 1 x a{name} bias=True in_features=8 out_features=8 @bias=(8)f32 @weight=(8,8)f32\n\
                 Tensor.reshape r{name} 1 1 a{name} s{name} shape=(2,5,2,4) $input=a{name}\n\
                 torch.permute t{name} 1 1 s{name} {name} dims=(0,2,1,3) $input=s{name}"
            )
        };
        [part("q"), part("k"), part("v")].join("\n")
    }

    #[test]
    fn one_projection_or_three() {
        for before in [MERGED.to_owned(), apart()] {
            let left = fires(&FUSE_MULTIHEAD_ATTENTION, &model(&before, BEHIND));
            let line = left.last().unwrap();
            assert!(line.starts_with("nn.MultiheadAttention(x)->y"), "{left:?}");
            assert!(line.contains("batch_first=True") && line.contains("num_heads=2"), "{left:?}");
        }
    }

    #[test]
    fn linear_layers_that_may_be_int8_stay() {
        let mut graph = with_weights(&model(MERGED, BEHIND));
        let shape = TensorMeta::new(DType::F32, [2, 5, 8]);
        let context = PassContext::default().with_input("in", shape).with_int8(true);
        let outcome = run_in(&FUSE_MULTIHEAD_ATTENTION, &mut graph, context);
        assert_eq!((outcome.fired, outcome.refused.len()), (0, 1), "{:?}", outcome.refused);
    }

    #[test]
    fn heads_in_another_order_stay() {
        let before = &apart();
        let unturned =
            BEHIND.replace("torch.transpose z 1 1 o w dim0=1 dim1=2 $input=o", "F.relu z 1 1 o w $input=o");
        refuses(&FUSE_MULTIHEAD_ATTENTION, &model(before, &unturned));
        let scaled = model(before, BEHIND).replace("$value=v", "scale=0.3 $value=v");
        refuses(&FUSE_MULTIHEAD_ATTENTION, &scaled);
        let read = model(before, BEHIND).replace("pnnx.Output out 1 0 y", "pnnx.Output out 2 0 y k");
        refuses(&FUSE_MULTIHEAD_ATTENTION, &read);
        let causal = model(before, BEHIND).replace("$value=v", "is_causal=True $value=v");
        refuses(&FUSE_MULTIHEAD_ATTENTION, &causal);
    }
}
