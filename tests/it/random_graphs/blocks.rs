//! Building blocks of transformers.

use super::maker::Maker;
use super::net::Value;
use super::recipes::activate;

/// A value with a number of features along its last axis.
fn features(maker: &mut Maker) -> Option<Value> {
    maker.pick(|maker, x| {
        let dims = maker.meta(x).dims();
        (2..=3).contains(&dims.len()) && dims.last().is_some_and(|dim| dim.fixed().is_some_and(|len| len > 1))
    })
}

pub(crate) fn linear(maker: &mut Maker) -> Option<()> {
    let x = features(maker)?;
    let same = maker.fixed(x, maker.meta(x).rank() - 1);
    let outputs = maker.number(&[same, 8, 12, 6]);
    let y = match maker.chance(80) {
        true => maker.linear(x, outputs),
        false => {
            let weight = maker.constant(&[outputs, same]);
            let bias = maker.constant(&[outputs]);
            maker.make("F.linear", &[("input", x), ("weight", weight), ("bias", bias)], &[], &[], 1)[0]
        }
    };
    if maker.meta(y).rank() == 2 && maker.chance(50) {
        maker.batch_norm("nn.BatchNorm1d", y);
    } else if maker.chance(60) {
        activate(maker, y);
    }
    Some(())
}

/// Linear layers with the same input, like query, key and value projections.
pub(crate) fn sibling_linears(maker: &mut Maker) -> Option<()> {
    let x = features(maker)?;
    let count = maker.number(&[2, 3]);
    let same: Vec<Value> = (0..count).map(|_| maker.linear(x, 8)).collect();
    match maker.chance(50) {
        true => maker.expression("mul(@0,sigmoid(@1))", &same[..2]),
        false => {
            let parts: Vec<(&str, Value)> = same.iter().map(|&part| ("", part)).collect();
            maker.make("torch.cat", &parts, &[("dim", "-1")], &[], 1)[0]
        }
    };
    Some(())
}

/// Splits queries, keys or values into heads: batch, head, length, features of a head.
fn heads(maker: &mut Maker, x: Value) -> Value {
    let x = maker.linear(x, 8);
    let split = maker.unary("Tensor.reshape", x, &[("shape", "(0,-1,2,4)")]);
    maker.unary("torch.permute", split, &[("dims", "(0,2,1,3)")])
}

fn from_heads(maker: &mut Maker, x: Value) -> Value {
    let x = maker.unary("torch.permute", x, &[("dims", "(0,2,1,3)")]);
    let x = maker.unary("Tensor.reshape", x, &[("shape", "(0,-1,8)")]);
    maker.linear(x, 8)
}

/// A value with so few tokens that attention between all of them is small.
fn few_tokens(maker: &mut Maker) -> Option<Value> {
    let x = maker.tokens()?;
    let length = maker.dim(x, 1);
    super::net::SIZES.iter().all(|sizes| super::net::length(&length, sizes) <= 48).then_some(x)
}

pub(crate) fn attention(maker: &mut Maker) -> Option<()> {
    let x = few_tokens(maker)?;
    let [query, key, value] = [heads(maker, x), heads(maker, x), heads(maker, x)];
    let key = match maker.chance(50) {
        true => maker.unary("torch.transpose", key, &[("dim0", "-2"), ("dim1", "-1")]),
        false => maker.unary("torch.permute", key, &[("dims", "(0,1,3,2)")]),
    };
    let scores = maker.make("torch.matmul", &[("input", query), ("other", key)], &[], &[], 1)[0];
    let text = maker.one_of(&["mul(@0,5.000000e-01)", "div(@0,2.0)"]);
    let scores = maker.expression(text, &[scores]);
    let weights = maker.unary("F.softmax", scores, &[("dim", "-1")]);
    let y = maker.make("torch.matmul", &[("input", weights), ("other", value)], &[], &[], 1)[0];
    from_heads(maker, y);
    Some(())
}

pub(crate) fn fused_attention(maker: &mut Maker) -> Option<()> {
    let x = few_tokens(maker)?;
    let [query, key, value] = [heads(maker, x), heads(maker, x), heads(maker, x)];
    let params = [("attn_mask", "None"), ("dropout_p", "0.0"), ("is_causal", "False")];
    let inputs = [("query", query), ("key", key), ("value", value)];
    let y = maker.make("F.scaled_dot_product_attention", &inputs, &params, &[], 1)[0];
    from_heads(maker, y);
    Some(())
}

pub(crate) fn layer_norm(maker: &mut Maker) -> Option<()> {
    let x = features(maker)?;
    let len = maker.fixed(x, maker.meta(x).rank() - 1);
    let shape = format!("({len})");
    let params = [("normalized_shape", &*shape), ("eps", "1.000000e-05")];
    if maker.chance(50) {
        let params = [params[0], params[1], ("elementwise_affine", "True")];
        maker.make("nn.LayerNorm", &[("", x)], &params, &[("weight", vec![len]), ("bias", vec![len])], 1);
    } else {
        let params = [params[0], params[1], ("weight", "None"), ("bias", "None")];
        maker.unary("F.layer_norm", x, &params);
    }
    Some(())
}

/// GELU as arithmetic: with the error function or its approximation.
pub(crate) fn primitive_gelu(maker: &mut Maker) -> Option<()> {
    let x = maker.any()?;
    match maker.rng_below(3) {
        0 => {
            maker.expression("mul(mul(@0,5.000000e-01),add(erf(div(@0,1.414214)),1.0))", &[x]);
        }
        1 => {
            let scaled = maker.expression("mul(@0,7.071068e-01)", &[x]);
            let erf = maker.expression("erf(@0)", &[scaled]);
            maker.expression("mul(mul(@0,add(@1,1)),5.000000e-01)", &[x, erf]);
        }
        _ => {
            let inner = "mul(add(@0,mul(pow(@0,3),4.471500e-02)),7.978846e-01)";
            maker.expression(&format!("mul(mul(@0,5.000000e-01),add(tanh({inner}),1))"), &[x]);
        }
    }
    Some(())
}

/// SiLU and hard swish as arithmetic.
pub(crate) fn primitive_silu(maker: &mut Maker) -> Option<()> {
    let x = maker.any()?;
    match maker.rng_below(3) {
        0 => {
            let gate = maker.unary("F.sigmoid", x, &[]);
            maker.expression("mul(@0,@1)", &[x, gate]);
        }
        1 => {
            maker.expression("mul(@0,sigmoid(@0))", &[x]);
        }
        _ => {
            let shifted = maker.expression("add(@0,3)", &[x]);
            let gate = maker.unary("F.relu6", shifted, &[]);
            maker.expression("div(mul(@0,@1),6)", &[x, gate]);
        }
    }
    Some(())
}

pub(crate) fn products(maker: &mut Maker) -> Option<()> {
    let x = maker.tokens().filter(|&x| maker.is_small(x))?;
    let len = maker.fixed(x, 2);
    match maker.rng_below(4) {
        0 => {
            let matrix = maker.constant(&[len, 6]);
            let y = maker.make("torch.matmul", &[("input", x), ("other", matrix)], &[], &[], 1)[0];
            let bias = maker.constant(&[6]);
            maker.expression("add(@0,@1)", &[y, bias]);
        }
        1 => {
            let turned = maker.unary("torch.transpose", x, &[("dim0", "1"), ("dim1", "2")]);
            let y = maker.make("torch.bmm", &[("input", turned), ("mat2", x)], &[], &[], 1)[0];
            maker.unary("F.tanh", y, &[]);
        }
        2 => {
            let matrix = maker.constant(&[len, 5]);
            maker.make("torch.einsum", &[("", x), ("", matrix)], &[("equation", "ntc,cd->ntd")], &[], 1);
        }
        _ => {
            let parts = maker.make("torch.stack", &[("", x), ("", x)], &[("dim", "1")], &[], 1)[0];
            maker.unary("Tensor.select", parts, &[("dim", "1"), ("index", "1")]);
        }
    }
    Some(())
}

pub(crate) fn softmax(maker: &mut Maker) -> Option<()> {
    let x = maker.any()?;
    let op_type = maker.one_of(&["F.softmax", "nn.Softmax", "F.log_softmax", "nn.LogSoftmax"]);
    let dim = maker.one_of(&["-1", "1"]);
    maker.unary(op_type, x, &[("dim", dim)]);
    Some(())
}

/// The first token, or the mean of all tokens.
pub(crate) fn to_vector(maker: &mut Maker) -> Option<()> {
    let x = maker.tokens()?;
    let y = match maker.chance(50) {
        true => maker.unary("Tensor.select", x, &[("dim", "1"), ("index", "0")]),
        false => maker.unary("torch.mean", x, &[("dim", "(1)"), ("keepdim", "False")]),
    };
    maker.linear(y, 6);
    Some(())
}
