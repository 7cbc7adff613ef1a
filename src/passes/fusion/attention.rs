//! Replacing attention that is spelled out as products and a softmax by one operator.
//!
//! The mask may be a sum of several tensors. The fused operator never holds all scores in memory.

use super::algebra::Polynomial;
use super::formula::Formula;
use super::site::{fits_into, is_computed_in};
use crate::passes::{Draft, Match, Rewrite, Rule};
use crate::pnnx::OperandId;
use crate::tensor::resolve_axis;
use std::fmt::Write as _;

const SPELLED_OUT: &str = "7767517
7 8
pnnx.Input                  input   0 3 q k v
?pnnx.Expression            scaling 1 1 q u         expr=*
torch.matmul|Tensor.matmul|torch.bmm|torch.einsum \
                            scores  2 1 u k s       ?equation=* $input=u $other|mat2=k
?pnnx.Expression            scaled  2 1 s ... a     expr=*
F.softmax|nn.Softmax        softmax 1 1 a p         dim=* ?dtype=None
torch.matmul|Tensor.matmul|torch.bmm|torch.einsum \
                            heads   2 1 p v y       ?equation=* $input=p $other|mat2=v
pnnx.Output                 output  1 0 y
";

/// Some exporters multiply both queries and keys by the root of the factor.
const SCALED_KEYS: &str = "7767517
8 9
pnnx.Input                  input   0 3 q k v
?pnnx.Expression            scaling 1 1 q u         expr=*
pnnx.Expression             keys    1 1 k w         expr=*
torch.matmul|Tensor.matmul|torch.bmm|torch.einsum \
                            scores  2 1 u w s       ?equation=* $input=u $other|mat2=w
?pnnx.Expression            scaled  2 1 s ... a     expr=*
F.softmax|nn.Softmax        softmax 1 1 a p         dim=* ?dtype=None
torch.matmul|Tensor.matmul|torch.bmm|torch.einsum \
                            heads   2 1 p v y       ?equation=* $input=p $other|mat2=v
pnnx.Output                 output  1 0 y
";

/// The pass.
pub(super) fn fuse_attention() -> Rewrite {
    Rewrite::new(
        "fuse_attention",
        "Replaces attention that is spelled out as products and a softmax by one operator.",
    )
    .rule(Rule::computed(SCALED_KEYS, attention))
    .rule(Rule::computed(SPELLED_OUT, attention))
}

fn attention(found: &Match<'_>) -> Result<Draft, String> {
    check_axis_and_types(found)?;
    if is_of_rows(found, "heads")? {
        return Err("the softmax does not weight the values".to_owned());
    }
    let factor = factor(found, "scaling", ["q", "u"])? * factor(found, "keys", ["k", "w"])?;
    let (scale, mask) = scale_and_mask(found)?;
    let mut lines = String::new();
    let key = if is_of_rows(found, "scores")? {
        "k"
    } else {
        lines += "torch.transpose key 1 1 k rows dim0=-2 dim1=-1 $input=k\n";
        "rows"
    };
    let (count, mask) = match mask {
        None => (3, String::new()),
        Some(mask) => (4, mask.write(&mut lines)),
    };
    let names = if mask.is_empty() { String::new() } else { format!(" $attn_mask={mask}") };
    let _ = writeln!(
        lines,
        "F.scaled_dot_product_attention heads {count} 1 q {key} v {mask} y dropout_p=0.0 is_causal=False \
         scale={:?} $query=q $key={key} $value=v{names}",
        scale * factor
    );
    Ok(Draft::new(lines + "pnnx.Output output 1 0 y"))
}

/// Checks that the softmax is over the last axis, and that queries, keys and values have its rank and element type.
fn check_axis_and_types(found: &Match<'_>) -> Result<(), String> {
    let scores = found.meta("softmax.0")?;
    let axis = found.setting::<i64>("softmax", "dim", -1)?;
    let is_last = resolve_axis(axis, scores.rank()).is_ok_and(|axis| axis + 1 == scores.rank());
    if scores.rank() < 2 || !is_last {
        return Err("the softmax is not over the last axis".to_owned());
    }
    for name in ["q", "k", "v"] {
        let meta = found.meta(name)?;
        if meta.rank() != scores.rank() || meta.dtype() != scores.dtype() || !is_computed_in(meta.dtype()) {
            return Err(format!(
                "expected an f32 or f64 tensor with the rank and type of {scores}, got {meta}"
            ));
        }
    }
    Ok(())
}

/// Returns true if a product multiplies rows by rows: by the transpose of its second factor, as attention does with keys.
fn is_of_rows(found: &Match<'_>, product: &str) -> Result<bool, String> {
    let Some(equation) = found.operator(product)?.param("equation") else { return Ok(false) };
    rows_or_columns(equation.raw()).ok_or_else(|| format!("`{}` is not a matrix product", equation.raw()))
}

/// Returns true for an equation that multiplies rows by rows, like `ijkln,ijkmn->ijklm`, and false for rows by columns, like
/// `ijkln,ijknm->ijklm`. `None` for any other equation.
fn rows_or_columns(equation: &str) -> Option<bool> {
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

/// The number that queries or keys are multiplied by before the product, if no other operator reads them scaled. The names are
/// those of the operator that scales them, its input and its output.
fn factor(found: &Match<'_>, scaling: &str, [from, to]: [&str; 2]) -> Result<f64, String> {
    let Ok(scaling) = found.operator(scaling) else { return Ok(1.0) };
    let same_type = found.meta(from)?.dtype() == found.meta(to)?.dtype();
    let parts = Formula::of(scaling).and_then(|whole| Polynomial::of(&whole.expr)?.linear());
    match parts.as_deref() {
        Some(&[(0, factor)]) if same_type && is_scale(factor) => Ok(factor),
        _ => Err("queries or keys are not just multiplied by a number".to_owned()),
    }
}

/// The tensors added to the scores: positions among the inputs of the operator `scaled`, and factors.
struct Mask(Vec<(usize, f64)>);

/// The factor of the scores, and the mask that is added to them.
fn scale_and_mask(found: &Match<'_>) -> Result<(f64, Option<Mask>), String> {
    let Ok(scaled) = found.operator("scaled") else { return Ok((1.0, None)) };
    let whole = Formula::of(scaled).ok_or("the expression on the scores cannot be read")?;
    let parts = Polynomial::of(&whole.expr).and_then(|sum| sum.linear());
    let parts = parts.ok_or("the expression on the scores is not just a factor and a mask")?;
    let (scores, known) = (found.operand_id("s")?, found.meta("s")?);
    let (mut scale, mut mask) = (0.0, Vec::new());
    for (index, factor) in parts {
        let operand = *whole.inputs.get(index).ok_or("an input is missing")?;
        if operand == scores {
            scale = factor;
            continue;
        }
        let place = place(scaled.inputs(), operand)?;
        // A mask must neither have another type nor enlarge the scores by broadcasting.
        let meta = found.meta(&format!("scaled.{place}"))?;
        if meta.dtype() != known.dtype() || !fits_into(meta.dims(), known.dims()) {
            return Err(format!("{meta} cannot be the mask of {known}"));
        }
        mask.push((place, factor));
    }
    match is_scale(scale) && mask.iter().all(|(_, factor)| factor.is_finite()) {
        true => Ok((scale, Some(Mask(mask)).filter(|mask| !mask.0.is_empty()))),
        false => Err("the factor of the scores is 0, or a factor is not finite".to_owned()),
    }
}

fn is_scale(factor: f64) -> bool {
    factor != 0.0 && factor.is_finite()
}

fn place(inputs: &[OperandId], operand: OperandId) -> Result<usize, String> {
    inputs.iter().position(|&input| input == operand).ok_or_else(|| "an input is missing".to_owned())
}

impl Mask {
    /// The name of the mask. An expression that sums it up is added to the lines, if one is needed.
    fn write(&self, lines: &mut String) -> String {
        if let [(place, 1.0)] = self.0.as_slice() {
            return format!("scaled.{place}");
        }
        let term = |(index, &(_, factor)): (usize, &(usize, f64))| match factor {
            1.0 => format!("@{index}"),
            _ => format!("mul(@{index},{factor:?})"),
        };
        let sum = self.0.iter().enumerate().map(term).reduce(|sum, term| format!("add({sum},{term})"));
        let names: String = self.0.iter().map(|(place, _)| format!(" scaled.{place}")).collect();
        let expr = sum.unwrap_or_default();
        let _ = writeln!(lines, "pnnx.Expression mask {} 1{names} mask expr={expr}", self.0.len());
        "mask".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, refuses};
    use super::*;

    /// Attention whose keys are computed by `key`, with the scores passed through `scores`.
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
        let left = fires(&fuse_attention(), &heads(TURNED, MASKED));
        assert_eq!(
            left.last().unwrap(),
            "F.scaled_dot_product_attention(q,rows,v,m)->y dropout_p=0.0 is_causal=False scale=0.25"
        );
        let left = fires(&fuse_attention(), &heads(TURNED, "pnnx.Expression e 1 1 s a expr=mul(@0,0.5)"));
        assert!(left.last().unwrap().starts_with("F.scaled_dot_product_attention(q,rows,v)->y"), "{left:?}");
        let left =
            fires(&fuse_attention(), &heads(TURNED, "pnnx.Expression e 2 1 s m a expr=div(add(@0,@1),4.0)"));
        assert!(left.iter().any(|line| line.contains("expr=mul(@0,0.25)")), "{left:?}");
    }

    #[test]
    fn the_scale_may_be_applied_to_the_queries() {
        let model = heads(TURNED, "").replace(" 1 1 a w dim=-1 $input=a", " 1 1 s w dim=3 $input=s");
        let model = model.replace(
            "torch.matmul p 2 1 q t s $input=q",
            "pnnx.Expression e 1 1 q u expr=mul(@0,0.125)\ntorch.matmul p 2 1 u t s $input=u",
        );
        let left = fires(&fuse_attention(), &model);
        assert!(
            left.last().unwrap().ends_with("(q,rows,v)->y dropout_p=0.0 is_causal=False scale=0.125"),
            "{left:?}"
        );
    }

    #[test]
    fn the_scale_may_be_applied_to_queries_and_keys() {
        let model = heads(TURNED, "").replace(" 1 1 a w dim=-1 $input=a", " 1 1 s w dim=3 $input=s");
        let model = model.replace(
            "torch.matmul p 2 1 q t s $input=q $other=t",
            "pnnx.Expression e 1 1 q u expr=mul(@0,0.5)\npnnx.Expression f 1 1 t o expr=mul(@0,0.25)\n\
             torch.matmul p 2 1 u o s $input=u $other=o",
        );
        let left = fires(&fuse_attention(), &model);
        assert!(
            left.last().unwrap().ends_with("(q,rows,v)->y dropout_p=0.0 is_causal=False scale=0.125"),
            "{left:?}"
        );
    }

    #[test]
    fn keys_are_always_transposed() {
        // Two transpositions cancel out: the pass `permute_chains` removes them.
        let columns = heads("F.relu t 1 1 k t", MASKED).replace("#k=(2,3,7,8)", "#k=(2,3,8,7)");
        let left = fires(&fuse_attention(), &columns);
        assert_eq!(left[1], "torch.transpose(t)->rows dim0=-2 dim1=-1");
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
        let left = fires(&fuse_attention(), &model);
        assert!(left.last().unwrap().starts_with("F.scaled_dot_product_attention(q,t,v,m)->y"), "{left:?}");
        for equation in
            ["abld,ambd->ablm", "abld,abmd->abml", "abld,abd->abl", "abll,abml->ablm", "...ld,...md->...lm"]
        {
            assert_eq!(rows_or_columns(equation), None, "{equation}");
        }
    }

    #[test]
    fn scaled_queries_may_be_the_mask_too() {
        let model = heads(TURNED, "pnnx.Expression e 2 1 s u a expr=add(@0,@1)")
            .replace("torch.matmul p 2 1 q t s $input=q", "torch.matmul p 2 1 u t s $input=u")
            .replace("torch.transpose t", "pnnx.Expression d 1 1 q u expr=mul(@0,0.125)\ntorch.transpose t")
            .replace("(2,3,7,", "(2,3,8,")
            .replace("5,7)", "5,8)");
        let left = fires(&fuse_attention(), &model);
        assert!(
            left.last().unwrap().starts_with("F.scaled_dot_product_attention(u,rows,v,u)->y"),
            "{left:?}"
        );
    }

    #[test]
    fn masks_may_be_products_and_names_may_be_taken() {
        let masked =
            "torch.matmul n 2 1 q t m2 $input=q $other=t\npnnx.Expression e 2 1 m2 s a expr=add(@0,@1)";
        assert!(fires(&fuse_attention(), &heads(TURNED, masked)).last().unwrap().starts_with("F.scaled"));
        let named = heads(TURNED, "pnnx.Expression h_mask 2 1 s m a expr=div(add(@0,@1),4.0)")
            .replace("k t dim0", "k rows dim0")
            .replace("q t s", "q rows s")
            .replace("other=t", "other=rows")
            .replace(" a w dim", " mask w dim")
            .replace("=a\n", "=mask\n")
            .replace("m a expr", "m mask expr");
        assert!(fires(&fuse_attention(), &named).last().unwrap().starts_with("F.scaled"));
    }

    #[test]
    fn near_attention_stays() {
        refuses(&fuse_attention(), &heads(TURNED, "pnnx.Expression e 2 1 s m a expr=add(@0,div(@1,0.0))"));
        refuses(&fuse_attention(), &heads(TURNED, "pnnx.Expression e 1 1 s a expr=div(@0,0.0)"));
        refuses(&fuse_attention(), &heads(TURNED, MASKED).replace("dim=-1 $input=a", "dim=-2 $input=a"));
        refuses(&fuse_attention(), &heads(TURNED, "pnnx.Expression e 2 1 s m a expr=mul(@0,@1)"));
        refuses(&fuse_attention(), &heads(TURNED, "pnnx.Expression e 1 1 s a expr=tanh(@0)"));
        refuses(&fuse_attention(), &heads(TURNED, MASKED).replace("out 1 0 y", "out 2 0 y w"));
        refuses(&fuse_attention(), &heads(TURNED, MASKED).replace("out 1 0 y", "out 2 0 y s"));
        // The mask enlarges the scores.
        let larger = heads(TURNED, MASKED)
            .replace("#q=(2,3,5,8)", "#q=(1,3,5,8)")
            .replace("#k=(2,3,7,8)", "#k=(1,3,7,8)");
        refuses(&fuse_attention(), &larger);
        refuses(&fuse_attention(), &heads(TURNED, MASKED).replace("f32", "f16"));
        // The values weigh the softmax, not the other way round.
        let swapped =
            heads(TURNED, MASKED).replace("2 1 w v y $input=w $other=v", "2 1 v w y $input=v $other=w");
        refuses(&fuse_attention(), &swapped.replace("#v=(2,3,7,4)", "#v=(2,3,4,5)"));
    }
}
