//! Generators for random graphs: operators and small groups of operators, as in exported models.

use super::maker::Maker;
use super::net::Value;
use super::{blocks, images, spelled};
use ixion::tensor::{DType, Dim};
use rand::Rng;

/// Adds operators. Returns `None` and adds nothing if no value fits.
pub(crate) type Generator = fn(&mut Maker) -> Option<()>;

/// All generators with their weights.
const GENERATORS: &[(u32, Generator)] = &[
    (6, activation),
    (2, spelled::chosen_rows),
    (6, arithmetic),
    (4, residual),
    (4, shifted_by_constant),
    (3, nothing),
    (3, there_and_back),
    (3, again),
    (2, dead_end),
    (3, folded),
    (2, along_an_axis),
    (2, rearranged),
    (3, triangle_from_a_size),
    (2, selected),
    (2, joined_and_taken_apart),
    (2, gated_twice),
    (9, images::convolution),
    (3, images::padded_convolution),
    (2, images::transposed),
    (3, images::pooled),
    (2, images::normalized),
    (2, images::resized),
    (2, images::squeezed_and_excited),
    (2, images::branches),
    (3, images::to_tokens),
    (2, images::to_vector),
    (6, blocks::linear),
    (3, blocks::sibling_linears),
    (2, blocks::attention),
    (2, blocks::fused_attention),
    (2, blocks::layer_norm),
    (2, blocks::primitive_gelu),
    (2, blocks::primitive_silu),
    (2, blocks::products),
    (2, blocks::softmax),
    (2, blocks::to_vector),
    (5, spelled::norm_ahead),
    (4, spelled::constant_product),
    (4, spelled::functional),
    (3, spelled::scaled_channels),
    (3, spelled::identities),
    (6, spelled::as_matrix),
    (7, spelled::norm),
    (1, spelled::places),
    (2, spelled::onnx),
];

/// Generates the graph of this seed.
pub(crate) fn graph(seed: u64) -> Maker {
    let mut maker = Maker::new(seed);
    let steps = maker.rng.random_range(2..16);
    let total: u32 = GENERATORS.iter().map(|generator| generator.0).sum();
    for _ in 0..steps {
        let mut ticket = maker.rng.random_range(0..total);
        let generator = GENERATORS.iter().find(|generator| {
            let is_drawn = ticket < generator.0;
            ticket = ticket.saturating_sub(generator.0);
            is_drawn
        });
        generator.and_then(|generator| generator.1(&mut maker));
    }
    choose_outputs(&mut maker);
    maker
}

/// Makes all values without readers outputs, and sometimes others.
fn choose_outputs(maker: &mut Maker) {
    let net = &maker.net;
    let made = net.nodes.iter().flat_map(|node| node.outputs.iter().copied());
    let is_read =
        |value: &Value| net.nodes.iter().any(|node| node.inputs.iter().any(|(input, _)| input == value));
    let mut outputs: Vec<Value> =
        made.filter(|value| !is_read(value) && !maker.dead.contains(value)).collect();
    outputs.truncate(4);
    if outputs.is_empty() || maker.chance(20) {
        outputs.push(maker.rng.random_range(0..maker.net.metas.len()));
    }
    outputs.dedup();
    maker.net.outputs = outputs;
}

/// Activations in every form: modules, functions, and tensor methods.
pub(crate) fn activate(maker: &mut Maker, x: Value) -> Value {
    const PLAIN: &[&str] = &[
        "nn.ReLU",
        "F.relu",
        "nn.SiLU",
        "F.silu",
        "nn.GELU",
        "F.gelu",
        "nn.Sigmoid",
        "F.sigmoid",
        "nn.Tanh",
        "F.tanh",
        "nn.Hardswish",
        "F.hardswish",
        "nn.Hardsigmoid",
        "F.hardsigmoid",
        "nn.ReLU6",
        "F.relu6",
        "nn.ELU",
        "F.elu",
        "nn.SELU",
        "nn.CELU",
        "nn.Softplus",
        "nn.Softsign",
        "nn.Mish",
        "F.mish",
        "nn.LogSigmoid",
        "nn.Tanhshrink",
        "nn.ReLU",
        "F.relu",
        "nn.ReLU",
        "F.relu",
    ];
    match maker.rng.random_range(0..12) {
        0 => maker.unary("nn.LeakyReLU", x, &[("negative_slope", "1.000000e-01")]),
        1 => maker.unary("F.leaky_relu", x, &[("negative_slope", "2.000000e-01")]),
        2 => maker.unary("nn.Hardtanh", x, &[("min_val", "-5.000000e-01"), ("max_val", "7.000000e-01")]),
        3 => maker.unary("torch.clamp", x, &[("min", "-7.000000e-01"), ("max", "6.000000e-01")]),
        4 => maker.expression(["tanh(@0)", "sigmoid(@0)", "exp(neg(abs(@0)))", "sqrt(abs(@0))"][x % 4], &[x]),
        _ => {
            let op_type = maker.one_of(PLAIN);
            maker.unary(op_type, x, &[])
        }
    }
}

fn activation(maker: &mut Maker) -> Option<()> {
    let x = maker.any()?;
    activate(maker, x);
    Some(())
}

/// A sequence of arithmetic operators with numbers.
fn arithmetic(maker: &mut Maker) -> Option<()> {
    const TEXTS: &[&str] = &[
        "add(@0,1.500000e-01)",
        "mul(@0,7.000000e-01)",
        "sub(1.0,@0)",
        "div(@0,2.0)",
        "neg(@0)",
        "abs(@0)",
        "add(mul(@0,5.000000e-01),2.500000e-01)",
        "mul(@0,@0)",
        "square(@0)",
        "max(@0,0.0)",
        "sin(@0)",
        "div(@0,add(abs(@0),1.0))",
    ];
    let mut x = maker.any()?;
    for _ in 0..maker.rng.random_range(1..4) {
        let text = maker.one_of(TEXTS);
        x = maker.expression(text, &[x]);
        x = if text == "square(@0)" || text == "mul(@0,@0)" { maker.unary("F.tanh", x, &[]) } else { x };
    }
    Some(())
}

/// Two values of the same shape, added or otherwise joined.
fn residual(maker: &mut Maker) -> Option<()> {
    let x = maker.any()?;
    let y = maker.twin(x);
    let texts = [
        "add(@0,@1)",
        "add(@0,@1)",
        "sub(@0,@1)",
        "mul(@0,tanh(@1))",
        "max(@0,@1)",
        "mul(add(@0,@1),5.000000e-01)",
    ];
    let text = maker.one_of(&texts);
    let y = maker.expression(text, &[x, y]);
    if maker.chance(60) {
        maker.unary("F.relu", y, &[]);
    }
    Some(())
}

/// A stored tensor that is broadcast over another one.
fn shifted_by_constant(maker: &mut Maker) -> Option<()> {
    let x = maker.any()?;
    let shape = match &maker.meta(x).dims()[1..] {
        [Dim::Fixed(c), _, _] => vec![*c as usize, 1, 1],
        [_, Dim::Fixed(c)] | [Dim::Fixed(c)] => vec![*c as usize],
        _ => vec![1],
    };
    let mut constant = maker.constant(&shape);
    if maker.chance(50) {
        let other = maker.constant(&shape);
        let text = maker.one_of(&["add(@0,@1)", "mul(@0,@1)", "sub(@0,mul(@1,2.0))"]);
        constant = maker.expression(text, &[constant, other]);
    }
    let text = maker.one_of(&["add(@0,@1)", "mul(@0,@1)", "sub(@1,@0)"]);
    maker.expression(text, &[x, constant]);
    Some(())
}

/// Operators that change nothing.
fn nothing(maker: &mut Maker) -> Option<()> {
    let x = maker.any()?;
    let order: Vec<String> = (0..maker.meta(x).rank()).map(|axis| axis.to_string()).collect();
    let order = format!("({})", order.join(","));
    match maker.rng.random_range(0..9) {
        0 => maker.unary("nn.Identity", x, &[]),
        1 => maker.unary("nn.Dropout", x, &[]),
        2 => maker.unary("F.dropout", x, &[("p", "5.000000e-01"), ("training", "False")]),
        3 => maker.unary("torch.clone", x, &[]),
        4 => maker.unary("Tensor.contiguous", x, &[]),
        5 => maker.expression("add(@0,0.0)", &[x]),
        6 => maker.expression("mul(@0,1.0)", &[x]),
        7 => maker.unary("torch.permute", x, &[("dims", &order)]),
        _ => maker.unary("Tensor.to", x, &[("dtype", "torch.float"), ("copy", "False")]),
    };
    Some(())
}

/// Two operators, the second of which undoes the first.
fn there_and_back(maker: &mut Maker) -> Option<()> {
    let x = maker.any()?;
    let rank = maker.meta(x).rank();
    let y = match maker.rng.random_range(0..4) {
        0 => {
            let swap = [("dim0", "1"), ("dim1", "-1")];
            let y = maker.unary("torch.transpose", x, &swap);
            maker.unary("torch.transpose", y, &swap)
        }
        1 => {
            let y = maker.unary("torch.unsqueeze", x, &[("dim", "1")]);
            maker.unary("torch.squeeze", y, &[("dim", "1")])
        }
        2 if rank == 4 => {
            let y = maker.unary("torch.permute", x, &[("dims", "(0,2,3,1)")]);
            let y = if maker.chance(50) { activate(maker, y) } else { y };
            maker.unary("torch.permute", y, &[("dims", "(0,3,1,2)")])
        }
        _ => {
            let y = maker.expression("neg(@0)", &[x]);
            maker.expression("neg(@0)", &[y])
        }
    };
    if maker.chance(50) {
        activate(maker, y);
    }
    Some(())
}

/// A duplicate of an existing operator.
fn again(maker: &mut Maker) -> Option<()> {
    let count = maker.net.nodes.len();
    let node = maker.net.nodes.get(maker.rng.random_range(0..count.max(1)))?.clone();
    let (outputs, first) = (node.outputs.len(), *node.outputs.first()?);
    if node.op_type == "pnnx.Attribute" || maker.meta(first).dtype() == DType::I64 {
        return None;
    }
    let twin = maker.net.push(node, outputs)[0];
    if maker.chance(70) {
        maker.expression("add(@0,mul(@1,3.000000e-01))", &[first, twin]);
    }
    Some(())
}

/// A branch without readers.
fn dead_end(maker: &mut Maker) -> Option<()> {
    let x = maker.any()?;
    let y = activate(maker, x);
    let z = maker.expression("mul(@0,2.0)", &[y]);
    maker.dead.extend([y, z]);
    Some(())
}

/// Arithmetic on constants only, which can be folded.
fn folded(maker: &mut Maker) -> Option<()> {
    let x = maker.any()?;
    let constant = maker.constant(&[1]);
    let y = activate(maker, constant);
    let y = maker.expression("add(mul(@0,2.0),1.0)", &[y]);
    maker.expression("mul(@0,@1)", &[x, y]);
    Some(())
}

fn along_an_axis(maker: &mut Maker) -> Option<()> {
    let x = maker.any()?;
    let dim = maker.one_of(&["-1", "1"]);
    let keep = [("dim", dim), ("keepdim", "True")];
    let list = format!("({dim})");
    let listed = [("dim", &*list), ("keepdim", "True")];
    let y = match maker.rng.random_range(0..6) {
        0 => maker.unary("torch.mean", x, &listed),
        1 => maker.unary("torch.amax", x, &listed),
        2 => maker.unary("torch.amin", x, &listed),
        3 => maker.unary("torch.logsumexp", x, &listed),
        4 => maker.unary("F.normalize", x, &[("dim", dim), ("eps", "1.000000e-12"), ("p", "2.0")]),
        _ => maker.unary("torch.cumsum", x, &keep[..1]),
    };
    let text = maker.one_of(&["sub(@0,@1)", "mul(@0,sigmoid(@1))"]);
    maker.expression(text, &[x, y]);
    Some(())
}

fn rearranged(maker: &mut Maker) -> Option<()> {
    let x = maker.any()?;
    match maker.rng.random_range(0..4) {
        0 => maker.unary("torch.flip", x, &[("dims", "(1)")]),
        1 => maker.unary("torch.roll", x, &[("dims", "(1)"), ("shifts", "(1)")]),
        2 if maker.is_small(x) => {
            let rank = maker.meta(x).rank();
            let dims = format!("(1,2{})", ",1".repeat(rank - 2));
            maker.unary("torch.tile", x, &[("dims", &dims)])
        }
        _ => {
            let y = maker.unary("torch.unsqueeze", x, &[("dim", "0")]);
            maker.unary("torch.sum", y, &[("dim", "(0)"), ("keepdim", "False")])
        }
    };
    Some(())
}

/// A parameter that the graph computes, known or not before the run.
fn triangle_from_a_size(maker: &mut Maker) -> Option<()> {
    let x = maker.any()?;
    let flat = maker.unary("torch.sum", x, &[("dim", "(0)"), ("keepdim", "True")]);
    let sized = if maker.chance(50) { flat } else { x };
    let diagonal = maker.expression("sub(size(@0,0),2)", &[sized]);
    let kept = maker.one_of(&["aten::triu", "aten::tril"]);
    let y = maker.make(kept, &[("", x), ("", diagonal)], &[], &[], 1)[0];
    maker.expression("mul(@0,@1)", &[y, flat]);
    maker.dead.push(diagonal);
    Some(())
}

/// An elementwise selection that is continuous, like leaky ReLU.
fn selected(maker: &mut Maker) -> Option<()> {
    let x = maker.any()?;
    let small = maker.expression("mul(@0,1.000000e-01)", &[x]);
    let zero = maker.expression("mul(@0,0.0)", &[x]);
    let is_positive = maker.make("torch.gt", &[("input", x), ("other", zero)], &[], &[], 1)[0];
    maker.make("torch.where", &[("condition", is_positive), ("input", x), ("other", small)], &[], &[], 1);
    maker.dead.push(is_positive);
    Some(())
}

/// A concatenation along an axis, and slices of it.
fn joined_and_taken_apart(maker: &mut Maker) -> Option<()> {
    let x = maker.pick(|maker, x| maker.meta(x).dims().get(1).is_some_and(|dim| dim.fixed().is_some()))?;
    let y = maker.twin(x);
    let y = activate(maker, y);
    let joined = maker.make("torch.cat", &[("", x), ("", y)], &[("dim", "1")], &[], 1)[0];
    let parts = match maker.rng.random_range(0..3) {
        0 => maker.make("torch.chunk", &[("input", joined)], &[("chunks", "2"), ("dim", "1")], &[], 2),
        1 => {
            let size = maker.fixed(x, 1).to_string();
            let params = [("split_size_or_sections", &*size), ("dim", "1")];
            maker.make("torch.split", &[("tensor", joined)], &params, &[], 2)
        }
        _ => {
            let end = maker.fixed(x, 1).to_string();
            let params = [("dim", "1"), ("start", "1"), ("end", &*end), ("step", "1")];
            maker.unary("Tensor.slice", joined, &params);
            return Some(());
        }
    };
    maker.expression("mul(@0,tanh(@1))", &parts);
    Some(())
}

/// A gate written twice, which should be computed once.
fn gated_twice(maker: &mut Maker) -> Option<()> {
    let x = maker.any()?;
    let a = maker.unary("F.sigmoid", x, &[]);
    let b = maker.unary("F.sigmoid", x, &[]);
    maker.expression("add(mul(@0,@1),mul(@0,@2))", &[x, a, b]);
    Some(())
}
