//! Attention that was spelled out in products and a softmax.
//!
//! ```text
//! torch.transpose turned      1 1 k t dim0=-2 dim1=-1
//! torch.matmul scores         2 1 q t s
//! pnnx.Expression scaled      2 1 s mask a expr=add(mul(@0,0.25),@1)
//! F.softmax softmax           1 1 a p dim=-1
//! torch.matmul heads          2 1 p v y
//!     ↓
//! F.scaled_dot_product_attention heads 4 1 q k v mask y scale=0.25 $query=q $key=k $value=v $attn_mask=mask
//! ```
//!
//! The scale may also stand ahead of the first product, the mask may be missing or a sum of several. The scores are then
//! never all in memory.

use super::algebra::Polynomial;
use super::formula::Formula;
use super::site::{NewOperator, fits_into, is_computed_in, meta, only_reader, own_producer, producer};
use super::visit::{Verdict, Visit};
use crate::passes::Facts;
use crate::pnnx::{Expr, Graph, GraphError, OperandId, Operator, OperatorId};
use crate::tensor::resolve_axis;

/// The pass.
pub(super) const FUSE_ATTENTION: Visit = Visit {
    name: "fuse_attention",
    doc: "Attention that was spelled out in products and a softmax becomes one operator.",
    visit,
};

struct Attention {
    query: OperandId,
    key: Key,
    value: OperandId,
    mask: Option<Formula>,
    scale: f64,
    /// From the last to the first; nobody else reads what they compute.
    operators: Vec<OperatorId>,
}

/// Where the keys are.
enum Key {
    /// A row for each.
    Rows(OperandId),
    /// A column for each: they are to be turned.
    Columns(OperandId),
    /// Axes in another order, with the last two swapped.
    Permuted(OperandId, Vec<i64>),
}

fn visit(graph: &mut Graph, facts: &Facts, id: OperatorId) -> Result<Verdict, GraphError> {
    match find(graph, facts, id) {
        Some(attention) => attention.fuse(graph),
        None => Ok(Verdict::Other),
    }
}

/// The factors of a product of matrices or batches of them.
struct Factors {
    left: OperandId,
    right: OperandId,
    /// Whether the right one is to be turned: the product is of rows with rows.
    of_rows: bool,
}

impl Factors {
    fn of(operator: &Operator) -> Option<Self> {
        let &[first, second] = operator.inputs() else { return None };
        let name = |key: &str, default| operator.named_input(key).unwrap_or(default);
        let (right, of_rows) = match operator.op_type() {
            _ if operator.has_param("epilogue") => return None,
            "torch.matmul" | "Tensor.matmul" => (name("other", second), false),
            "torch.bmm" => (name("mat2", second), false),
            "torch.einsum" => (second, is_of_rows(operator.param("equation")?.raw())?),
            _ => return None,
        };
        Some(Self { left: name("input", first), right, of_rows })
    }
}

/// Whether an equation is a product of rows with rows, as `ijkln,ijkmn->ijklm` is, or of rows with columns, as
/// `ijkln,ijknm->ijklm`. `None` where it is neither.
fn is_of_rows(equation: &str) -> Option<bool> {
    let (factors, product) = equation.split_once("->")?;
    let (left, right) = factors.split_once(',')?;
    let letters = |text: &str| text.chars().collect::<Vec<char>>();
    let (left, right, product) = (letters(left), letters(right), letters(product));
    let ([batch @ .., row, inner], [.., column]) = (left.as_slice(), product.as_slice()) else { return None };
    let written = |last: [&char; 2]| batch.iter().chain(last).copied().collect::<Vec<char>>();
    let mut all = written([row, inner]);
    all.push(*column);
    let is_distinct = all.iter().enumerate().all(|(at, letter)| {
        letter.is_ascii_alphabetic() && all.iter().skip(at + 1).all(|other| other != letter)
    });
    if !is_distinct || product != written([row, column]) {
        return None;
    }
    match right {
        right if right == written([column, inner]) => Some(true),
        right if right == written([inner, column]) => Some(false),
        _ => None,
    }
}

fn rank(graph: &Graph, facts: &Facts, operand: OperandId) -> Option<usize> {
    meta(graph, facts, operand).map(|meta| meta.rank())
}

fn find(graph: &Graph, facts: &Facts, id: OperatorId) -> Option<Attention> {
    let softmax =
        graph.get_operator(id).filter(|found| matches!(found.op_type(), "F.softmax" | "nn.Softmax"))?;
    let (&[input], &[weights]) = (softmax.inputs(), softmax.outputs()) else { return None };
    let rank_of = rank(graph, facts, input).filter(|&rank| rank >= 2)?;
    let axis = resolve_axis(softmax.get::<i64>("dim").ok()?, rank_of).ok()?;
    let untyped = softmax.param("dtype").is_none_or(|dtype| dtype.is_none());
    let (last, heads) = only_reader(graph, softmax)?;
    let Factors { left, right: value, of_rows } = Factors::of(heads)?;
    if axis + 1 != rank_of || !untyped || left != weights || of_rows || rank(graph, facts, value)? < 2 {
        return None;
    }
    let mut operators = vec![last, id];
    let (scores, mask, mut scale) = scores(graph, facts, input, id, &mut operators)?;
    let (first, product) = own_producer(graph, scores, *operators.last()?)?;
    let Factors { left: mut query, right, of_rows } = Factors::of(product)?;
    operators.push(first);
    if let Some((scaling, from, factor)) = scaled_query(graph, facts, query, first) {
        operators.push(scaling);
        scale *= factor;
        query = from;
    }
    let same_type = |&operand: &OperandId| {
        let type_of = |operand| meta(graph, facts, operand).map(|meta| meta.dtype());
        type_of(operand).is_some_and(is_computed_in) && type_of(operand) == type_of(scores)
    };
    let key = if of_rows { Key::Rows(right) } else { key(graph, facts, right)? };
    let is_batch = [query, right, value].iter().all(|&operand| rank(graph, facts, operand) == Some(rank_of));
    let fits = [query, right, value].iter().all(same_type) && is_batch;
    fits.then_some(Attention { query, key, value, mask, scale, operators })
}

/// The product behind what softmax is taken of, the mask that was added to it, and the number it was multiplied by.
fn scores(
    graph: &Graph,
    facts: &Facts,
    input: OperandId,
    softmax: OperatorId,
    operators: &mut Vec<OperatorId>,
) -> Option<(OperandId, Option<Formula>, f64)> {
    let (id, operator) = own_producer(graph, input, softmax)?;
    if Factors::of(operator).is_some() {
        return Some((input, None, 1.0));
    }
    let whole = Formula::of(operator).filter(|_| operator.op_type() == "pnnx.Expression")?;
    let parts = Polynomial::of(&whole.expr)?.linear()?;
    let is_product = |&(index, _): &(usize, f64)| {
        let source = whole.inputs.get(index).and_then(|&operand| own_producer(graph, operand, id));
        source.is_some_and(|(_, operator)| Factors::of(operator).is_some())
    };
    let position = parts.iter().position(is_product)?;
    let &(index, scale) = parts.get(position)?;
    let scores = *whole.inputs.get(index)?;
    let known = meta(graph, facts, scores)?;
    let others = parts.iter().enumerate().filter(|(other, _)| *other != position).map(|(_, part)| *part);
    let others: Vec<(OperandId, f64)> =
        others.map(|(index, factor)| Some((*whole.inputs.get(index)?, factor))).collect::<Option<_>>()?;
    // A mask must neither be of another type nor make the scores larger.
    let fits = |&(operand, _): &(OperandId, f64)| {
        let mask = meta(graph, facts, operand)?;
        Some(mask.dtype() == known.dtype() && fits_into(mask.dims(), known.dims()))
    };
    operators.push(id);
    if scale == 0.0 || !others.iter().all(|other| fits(other) == Some(true)) {
        return None;
    }
    let mask = if others.is_empty() { None } else { Some(sum(&others)?) };
    Some((scores, mask, scale))
}

/// The sum of operands times numbers. `None` where there are none, or a number cannot be written.
fn sum(parts: &[(OperandId, f64)]) -> Option<Formula> {
    let terms = parts.iter().enumerate().map(|(index, &(_, factor))| match factor {
        1.0 => format!("@{index}"),
        _ => format!("mul(@{index},{factor:e})"),
    });
    let text = terms.reduce(|sum, term| format!("add({sum},{term})"))?;
    Some(Formula { expr: Expr::parse(&text).ok()?, inputs: parts.iter().map(|part| part.0).collect() })
}

/// Queries that were multiplied by a number for this product only.
fn scaled_query(
    graph: &Graph,
    facts: &Facts,
    query: OperandId,
    product: OperatorId,
) -> Option<(OperatorId, OperandId, f64)> {
    let (id, operator) = own_producer(graph, query, product)?;
    let whole = Formula::of(operator).filter(|_| operator.op_type() == "pnnx.Expression")?;
    let parts = Polynomial::of(&whole.expr)?.linear()?;
    let (&[(0, factor)], &[from]) = (parts.as_slice(), whole.inputs.as_slice()) else { return None };
    let same = meta(graph, facts, from)?.dtype() == meta(graph, facts, query)?.dtype();
    (same && factor != 0.0).then_some((id, from, factor))
}

/// The keys, of which the second factor of the first product has one for each column.
fn key(graph: &Graph, facts: &Facts, columns: OperandId) -> Option<Key> {
    let rank = rank(graph, facts, columns).filter(|&rank| rank >= 2)?;
    let Some((_, operator)) = producer(graph, columns) else { return Some(Key::Columns(columns)) };
    let &[input, ..] = operator.inputs() else { return Some(Key::Columns(columns)) };
    let axis = |key: &str| resolve_axis(operator.get::<i64>(key).ok()?, rank).ok();
    match operator.op_type() {
        "torch.transpose" => {
            let mut swapped = [axis("dim0")?, axis("dim1")?];
            swapped.sort_unstable();
            Some(if swapped == [rank - 2, rank - 1] { Key::Rows(input) } else { Key::Columns(columns) })
        }
        "Tensor.permute" => {
            let mut order = operator.get::<Vec<i64>>("dims").ok().filter(|order| order.len() == rank)?;
            order.swap(rank - 2, rank - 1);
            Some(Key::Permuted(input, order))
        }
        _ => Some(Key::Columns(columns)),
    }
}

impl Attention {
    fn fuse(self, graph: &mut Graph) -> Result<Verdict, GraphError> {
        let Some(&last) = self.operators.first() else { return Ok(Verdict::Other) };
        let name = graph.operator(last).name().to_owned();
        let key = match self.key {
            Key::Rows(key) => key,
            Key::Columns(columns) => {
                let turn = NewOperator::new("torch.transpose", &format!("{name}_key"));
                turn.input(columns, Some("input")).param("dim0", -2).param("dim1", -1).insert(graph, last)?
            }
            Key::Permuted(from, order) => {
                let turn = NewOperator::new("Tensor.permute", &format!("{name}_key"));
                turn.input(from, Some("input")).param("dims", order).insert(graph, last)?
            }
        };
        let mask = match self.mask {
            None => None,
            Some(Formula { expr: Expr::Input(0), inputs }) => inputs.first().copied(),
            Some(sum) => {
                let mut add = NewOperator::new("pnnx.Expression", &format!("{name}_mask"));
                add.inputs = sum.inputs.iter().map(|&input| (input, None)).collect();
                Some(add.param("expr", sum.expr.to_string()).insert(graph, last)?)
            }
        };
        let mut new = NewOperator::new("F.scaled_dot_product_attention", &name);
        new = new.input(self.query, Some("query")).input(key, Some("key")).input(self.value, Some("value"));
        if let Some(mask) = mask {
            new = new.input(mask, Some("attn_mask"));
        }
        new = new.param("dropout_p", 0.0).param("is_causal", false).param("scale", self.scale);
        new.replace(graph, &self.operators)?;
        Ok(Verdict::Fired)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, refuses};
    use super::*;

    /// Heads whose keys come out of `key`, with the scores passed through `scores`.
    fn heads(key: &str, scores: &str) -> String {
        format!(
            "pnnx.Input in0 0 1 q #q=(2,3,5,8)f32\npnnx.Input in1 0 1 k #k=(2,3,7,8)f32\n\
             pnnx.Input in2 0 1 v #v=(2,3,7,4)f32\npnnx.Input in3 0 1 m #m=(2,1,5,7)f32\n\
             {key}\ntorch.matmul p 2 1 q t s $input=q $other=t\n{scores}\nF.softmax soft 1 1 a w dim=-1 $input=a\n\
             torch.matmul h 2 1 w v y $input=w $other=v\npnnx.Output out 1 0 y"
        )
    }

    const TURNED: &str = "torch.transpose t 1 1 k t dim0=-2 dim1=-1 $input=k";
    const MASKED: &str = "pnnx.Expression e 2 1 s m a expr=add(div(@0,4.0),@1)";

    #[test]
    fn attention_becomes_one_operator() {
        let left = fires(&FUSE_ATTENTION, &heads(TURNED, MASKED));
        assert_eq!(
            left.last().unwrap(),
            "F.scaled_dot_product_attention(q,k,v,m)->y dropout_p=0.0 is_causal=False scale=0.25"
        );
        let left = fires(&FUSE_ATTENTION, &heads(TURNED, "pnnx.Expression e 1 1 s a expr=mul(@0,0.5)"));
        assert!(left.last().unwrap().starts_with("F.scaled_dot_product_attention(q,k,v)->y"), "{left:?}");
        let left =
            fires(&FUSE_ATTENTION, &heads(TURNED, "pnnx.Expression e 2 1 s m a expr=div(add(@0,@1),4.0)"));
        assert!(left.iter().any(|line| line.contains("expr=mul(@0,0.25)")), "{left:?}");
    }

    #[test]
    fn the_scale_may_stand_ahead_and_nothing_between() {
        let model = heads(TURNED, "").replace(" 1 1 a w dim=-1 $input=a", " 1 1 s w dim=3 $input=s");
        let model = model.replace(
            "torch.matmul p 2 1 q t s $input=q",
            "pnnx.Expression e 1 1 q u expr=mul(@0,0.125)\ntorch.matmul p 2 1 u t s $input=u",
        );
        let left = fires(&FUSE_ATTENTION, &model);
        assert!(
            left.last().unwrap().ends_with("(q,k,v)->y dropout_p=0.0 is_causal=False scale=0.125"),
            "{left:?}"
        );
    }

    #[test]
    fn keys_may_come_in_columns_or_in_another_order() {
        let columns = heads("F.relu t 1 1 k t", MASKED).replace("#k=(2,3,7,8)", "#k=(2,3,8,7)");
        assert!(fires(&FUSE_ATTENTION, &columns).iter().any(|line| line.starts_with("torch.transpose(t)")));
        let permuted = heads("Tensor.permute t 1 1 k t dims=(0,2,3,1) $input=k", MASKED)
            .replace("#k=(2,3,7,8)", "#k=(2,7,3,8)");
        let left = fires(&FUSE_ATTENTION, &permuted);
        assert!(
            left.iter().any(|line| line.starts_with("Tensor.permute(k)") && line.ends_with("dims=(0,2,1,3)")),
            "{left:?}"
        );
    }

    #[test]
    fn products_may_be_written_as_einsum() {
        let model = heads("F.relu t 1 1 k t", MASKED)
            .replace(
                "torch.matmul p 2 1 q t s $input=q $other=t",
                "torch.einsum p 2 1 q t s equation=abld,abmd->ablm",
            )
            .replace(
                "torch.matmul h 2 1 w v y $input=w $other=v",
                "torch.einsum h 2 1 w v y equation=ijkl,ijlm->ijkm",
            );
        let left = fires(&FUSE_ATTENTION, &model);
        assert!(left.last().unwrap().starts_with("F.scaled_dot_product_attention(q,t,v,m)->y"), "{left:?}");
        for equation in
            ["abld,ambd->ablm", "abld,abmd->abml", "abld,abd->abl", "abll,abml->ablm", "...ld,...md->...lm"]
        {
            assert_eq!(is_of_rows(equation), None, "{equation}");
        }
    }

    #[test]
    fn what_is_nearly_attention_stays() {
        refuses(&FUSE_ATTENTION, &heads(TURNED, MASKED).replace("dim=-1 $input=a", "dim=-2 $input=a"));
        refuses(&FUSE_ATTENTION, &heads(TURNED, "pnnx.Expression e 2 1 s m a expr=mul(@0,@1)"));
        refuses(&FUSE_ATTENTION, &heads(TURNED, "pnnx.Expression e 1 1 s a expr=tanh(@0)"));
        refuses(&FUSE_ATTENTION, &heads(TURNED, MASKED).replace("out 1 0 y", "out 2 0 y w"));
        refuses(&FUSE_ATTENTION, &heads(TURNED, MASKED).replace("out 1 0 y", "out 2 0 y s"));
        // The mask makes more of the scores.
        let larger = heads(TURNED, MASKED)
            .replace("#q=(2,3,5,8)", "#q=(1,3,5,8)")
            .replace("#k=(2,3,7,8)", "#k=(1,3,7,8)");
        refuses(&FUSE_ATTENTION, &larger);
        refuses(&FUSE_ATTENTION, &heads(TURNED, MASKED).replace("f32", "f16"));
        // The values weigh the softmax, not the other way round.
        let swapped =
            heads(TURNED, MASKED).replace("2 1 w v y $input=w $other=v", "2 1 v w y $input=v $other=w");
        refuses(&FUSE_ATTENTION, &swapped.replace("#v=(2,3,7,4)", "#v=(2,3,4,5)"));
    }
}
