//! Patterns for passes: layers written as arithmetic, and operators next to others into which they can be fused.

use super::maker::Maker;
use super::net::Value;
use super::recipes::activate;
use ixion::tensor::Dim;

/// A matrix or tokens, with a fixed number of features along the last axis.
fn rows(maker: &mut Maker, ranks: &[usize]) -> Option<(Value, usize)> {
    let x = maker.pick(|maker, x| {
        let dims = maker.meta(x).dims();
        ranks.contains(&dims.len()) && dims.last().is_some_and(|dim| dim.fixed().is_some_and(|len| len > 1))
    })?;
    Some((x, maker.fixed(x, maker.meta(x).rank() - 1)))
}

/// Batch normalisation before a convolution without padding or before a linear layer.
pub(crate) fn norm_ahead(maker: &mut Maker) -> Option<()> {
    if maker.chance(60) {
        let x = maker.image()?;
        let x = activate(maker, x);
        let y = maker.batch_norm("nn.BatchNorm2d", x);
        let space = maker.least(y, 2).min(maker.least(y, 3));
        let kernel = if space >= 3 { maker.number(&[1, 3]) } else { 1 };
        let channels = maker.number(&[4, 6]);
        maker.conv(y, channels, kernel, 1, 0);
    } else {
        let (x, _) = rows(maker, &[2])?;
        let x = activate(maker, x);
        let y = maker.batch_norm("nn.BatchNorm1d", x);
        maker.linear(y, 8);
    }
    Some(())
}

/// Products with a constant matrix, plus a constant vector.
pub(crate) fn constant_product(maker: &mut Maker) -> Option<()> {
    let (x, len) = rows(maker, &[2, 3])?;
    let matrix = maker.constant(&[len, 6]);
    let y = match (maker.meta(x).rank(), maker.rng_below(3)) {
        (2, 0) => maker.make("torch.mm", &[("input", x), ("mat2", matrix)], &[], &[], 1)[0],
        (2, 1) => {
            let summand = maker.constant(&[6]);
            let inputs = [("input", summand), ("mat1", x), ("mat2", matrix)];
            maker.make("torch.addmm", &inputs, &[("alpha", "1"), ("beta", "1")], &[], 1)[0]
        }
        _ => maker.make("torch.matmul", &[("input", x), ("other", matrix)], &[], &[], 1)[0],
    };
    if maker.chance(70) {
        let bias = maker.constant(&[6]);
        maker.expression("add(@0,@1)", &[y, bias]);
    }
    Some(())
}

/// Functions whose weights are constants.
pub(crate) fn functional(maker: &mut Maker) -> Option<()> {
    let has_bias = maker.chance(60);
    let without: &[(&str, &str)] = if has_bias { &[] } else { &[("bias", "None")] };
    let (op_type, x, weight, params) = match maker.rng_below(3) {
        0 => {
            let x = maker.image()?;
            let weight = vec![4, maker.fixed(x, 1), 3, 3];
            let params = [("stride", "(1,1)"), ("padding", "(1,1)"), ("dilation", "(1,1)"), ("groups", "1")];
            ("F.conv2d", x, weight, params.map(|(key, value)| (key, value.to_owned())).to_vec())
        }
        1 => {
            let (x, len) = rows(maker, &[2, 3])?;
            ("F.linear", x, vec![6, len], vec![])
        }
        _ => {
            let (x, len) = rows(maker, &[2, 3])?;
            let params = vec![("normalized_shape", format!("({len})")), ("eps", "1.000000e-03".to_owned())];
            ("F.layer_norm", x, vec![len], params)
        }
    };
    let mut inputs = vec![("input", x), ("weight", maker.constant(&weight))];
    if has_bias {
        inputs.push(("bias", maker.constant(&weight[..1])));
    }
    let params = params.iter().map(|(key, value)| (*key, value.as_str()));
    let params: Vec<(&str, &str)> = params.chain(without.iter().copied()).collect();
    let y = maker.make(op_type, &inputs, &params, &[], 1)[0];
    if maker.chance(50) {
        activate(maker, y);
    }
    Some(())
}

/// Constant factors and summands for the channels of a convolution or linear layer.
pub(crate) fn scaled_channels(maker: &mut Maker) -> Option<()> {
    let (y, shape) = if maker.chance(60) {
        let x = maker.image()?;
        let shape = if maker.chance(70) { vec![6, 1, 1] } else { vec![1, 6, 1, 1] };
        (maker.conv(x, 6, 1, 1, 0), shape)
    } else {
        let (x, _) = rows(maker, &[2, 3])?;
        (maker.linear(x, 6), vec![6])
    };
    let [first, second] = [maker.constant(&shape), maker.constant(&shape)];
    match maker.rng_below(4) {
        0 => maker.expression("mul(@0,@1)", &[y, first]),
        1 => maker.expression("sub(@0,@1)", &[y, first]),
        2 => maker.expression("add(mul(@0,@1),@2)", &[y, first, second]),
        _ => maker.expression("relu(add(@1,mul(@0,5.000000e-01)))", &[y, first]),
    };
    Some(())
}

/// Arithmetic that changes nothing, by itself and within other arithmetic.
pub(crate) fn identities(maker: &mut Maker) -> Option<()> {
    const TEXTS: &[&str] = &[
        "mul(1,@0)",
        "div(@0,1.0)",
        "sub(@0,0)",
        "pow(@0,1)",
        "neg(neg(@0))",
        "add(mul(@0,1),0)",
        "mul(tanh(@0),1.0)",
        "sin(div(@0,1))",
    ];
    let x = maker.any()?;
    let text = maker.one_of(TEXTS);
    maker.expression(text, &[x]);
    Some(())
}

/// A linear layer on tokens reshaped to a matrix and back, sometimes with batch normalisation.
pub(crate) fn as_matrix(maker: &mut Maker) -> Option<()> {
    let (x, len) = rows(maker, &[3])?;
    let flat = |maker: &mut Maker, x: Value| match maker.chance(50) {
        true => maker.unary("torch.flatten", x, &[("start_dim", "0"), ("end_dim", "1")]),
        false => maker.unary("Tensor.reshape", x, &[("shape", &format!("(-1,{len})"))]),
    };
    let (y, like) = if maker.chance(70) {
        let matrix = flat(maker, x);
        (maker.linear(matrix, len), x)
    } else {
        let product = maker.linear(x, len);
        let matrix = flat(maker, product);
        (maker.batch_norm("nn.BatchNorm1d", matrix), product)
    };
    maker.make("Tensor.reshape_as", &[("input", y), ("other", like)], &[], &[], 1);
    Some(())
}

/// Layer normalisation or RMS normalisation as arithmetic.
pub(crate) fn norm(maker: &mut Maker) -> Option<()> {
    let (x, len) = rows(maker, &[2, 3])?;
    let mean = [("dim", "(-1)"), ("keepdim", "True")];
    let (kind, weight, bias) = (maker.rng_below(6), maker.constant(&[len]), maker.constant(&[len]));
    // The numerator: the difference written each time, computed once, or the input itself.
    let (inputs, centred) = match kind {
        0 | 1 => (vec![x, maker.unary("torch.mean", x, &mean)], "sub(@0,@1)"),
        2 => {
            let mean = maker.unary("torch.mean", x, &mean);
            (vec![maker.expression("sub(@0,@1)", &[x, mean])], "@0")
        }
        _ => (vec![x], "@0"),
    };
    let square = maker.one_of(&["pow(%,2)", "square(%)"]).replace('%', centred);
    let squares = maker.expression(&square, &inputs);
    let variance = maker.unary("torch.mean", squares, &mean);
    let spread = inputs.len();
    let text = match maker.chance(50) {
        true => format!("div({centred},sqrt(add(@{spread},1.000000e-03)))"),
        false => format!("mul({centred},rsqrt(add(@{spread},1.000000e-03)))"),
    };
    let inputs = [inputs, vec![variance]].concat();
    // PNNX merges arithmetic into one expression; here, it may be two.
    let (text, inputs) = match maker.chance(50) {
        true => (text, inputs),
        false => ("@0".to_owned(), vec![maker.expression(&text, &inputs)]),
    };
    let (scale, shift) = (inputs.len(), inputs.len() + 1);
    match maker.chance(60) && kind < 3 {
        true => maker.expression(
            &format!("add(mul({text},@{scale}),@{shift})"),
            &[inputs, vec![weight, bias]].concat(),
        ),
        false => maker.expression(&format!("mul(@{scale},{text})"), &[inputs, vec![weight]].concat()),
    };
    Some(())
}

/// The indices of an input's large elements; their number depends on the values.
///
/// Only inputs are used, because in a comparison of computed values, rounding could change the number.
pub(crate) fn places(maker: &mut Maker) -> Option<()> {
    let count = u32::try_from(maker.net.inputs.len()).ok()?;
    let position = maker.rng_below(count) as usize;
    let input = maker.net.inputs[position];
    let is_large = maker.make("torch.gt", &[("input", input)], &[("other", "5.000000e-01")], &[], 1)[0];
    let places = maker.make("aten::nonzero", &[("", is_large)], &[], &[], 1)[0];
    if maker.chance(50) {
        maker.unary("torch.sum", places, &[("dim", "(0)"), ("keepdim", "False")]);
    }
    Some(())
}

/// What operators compute for some rows of a value, added to the value: the number of rows depends on the values of an input,
/// and the sum has a known size again.
pub(crate) fn chosen_rows(maker: &mut Maker) -> Option<()> {
    let count = u32::try_from(maker.net.inputs.len()).ok()?;
    let position = maker.rng_below(count) as usize;
    let input = maker.net.inputs[position];
    let x = maker.pick(|maker, x| {
        let dims = maker.meta(x).dims();
        let is_counted = |axis: usize| dims[axis].fixed().is_some_and(|len| len > 1);
        (2..=4).contains(&dims.len())
            && dims[0] == Dim::symbol("n")
            && is_counted(if dims.len() == 4 { 1 } else { dims.len() - 1 })
    })?;
    let rows = maker.unary("torch.flatten", input, &[("start_dim", "1"), ("end_dim", "-1")]);
    let first = maker.unary("Tensor.select", rows, &[("dim", "1"), ("index", "0")]);
    let is_large = maker.make("torch.gt", &[("input", first)], &[("other", "1.000000e-01")], &[], 1)[0];
    let places = maker.make("aten::nonzero", &[("", is_large)], &[], &[], 1)[0];
    let indices = maker.unary("torch.squeeze", places, &[("dim", "1")]);
    let inputs = [("input", x), ("index", indices)];
    let mut y = maker.make("torch.index_select", &inputs, &[("dim", "0")], &[], 1)[0];
    for _ in 0..1 + maker.rng_below(2) {
        y = match maker.meta(y).rank() {
            4 => maker.conv(y, maker.fixed(y, 1), 3, 1, 1),
            rank => maker.linear(y, maker.fixed(y, rank - 1)),
        };
        y = activate(maker, y);
    }
    let inputs = [("input", x), ("index", indices), ("source", y)];
    let y = maker.make("torch.index_add", &inputs, &[("dim", "0"), ("alpha", "1")], &[], 1)[0];
    if maker.chance(60) {
        activate(maker, y);
    }
    Some(())
}

/// Operators under their ONNX names.
pub(crate) fn onnx(maker: &mut Maker) -> Option<()> {
    let (x, _) = rows(maker, &[2, 3, 4])?;
    let (op_type, params): (&str, &[(&str, &str)]) = match maker.rng_below(5) {
        0 => ("Softsign", &[]),
        1 => ("Shrink", &[("bias", "0.1"), ("lambd", "0.3")]),
        2 => ("Swish", &[("alpha", "1.5")]),
        3 => ("ReduceMean", &[("axes", "(-1)"), ("keepdims", "1")]),
        _ => ("Selu", &[]),
    };
    maker.make(op_type, &[("", x)], params, &[], 1);
    Some(())
}
