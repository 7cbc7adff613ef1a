//! Folding zero padding into the convolution that reads it.
//!
//! PNNX writes padding that differs at both ends as two numbers for each axis, the last axis first.

use super::site::spatial_axes;
use crate::passes::{Match, Replacement, Rewrite, Rule};
use crate::pnnx::Operator;

// ANCHOR: pictures
const PADDED: &str = "7767517
4 3
pnnx.Input                  input   0 1 x
F.pad|nn.ZeroPad1d|nn.ZeroPad2d|nn.ZeroPad3d|nn.ConstantPad1d|nn.ConstantPad2d|nn.ConstantPad3d \
                            pad     1 1 x a %*=%*
nn.Conv1d|nn.Conv2d|nn.Conv3d|F.conv1d|F.conv2d|F.conv3d \
                            conv    2 1 a ... y %*=%*
pnnx.Output                 output  1 0 y
";
const PADDING: &str = "7767517
3 2
pnnx.Input                  input   0 1 x
%conv                       conv    2 1 x ... y %*=%*
pnnx.Output                 output  1 0 y
";
// ANCHOR_END: pictures

/// The pass.
pub(super) fn fold_padding() -> Rewrite {
    Rewrite::new("fold_padding", "Folds zero padding of a convolution's input into the convolution.")
        .rule(Rule::new(PADDED, PADDING).write(pad))
}

/// Sets the convolution's padding to the sum of both.
fn pad(found: &Match<'_>, new: &mut Replacement) -> Result<(), String> {
    let (pad, conv) = (found.operator("pad")?, found.operator("conv")?);
    let axes = spatial_axes(conv.op_type()).ok_or("the type of the convolution states no number of axes")?;
    let zeros = zeros_around(pad, axes)
        .ok_or("the input is not padded by zeros along the axes of the window alone")?;
    let own = own_padding(conv, axes)
        .ok_or("the convolution's own padding is not zeros, or is not given as numbers")?;
    let sum: Vec<i64> = zeros.iter().zip(&own).map(|(zeros, own)| zeros.saturating_add(*own)).collect();
    let is_even = sum.chunks(2).all(|pair| matches!(pair, [before, after] if before == after));
    let written = if is_even { sum.iter().rev().step_by(2).copied().collect() } else { sum };
    new.set_param("conv", "padding", written)
}

/// The number of zeros that an operator adds before and after each axis, the last axis first. `None` if it does anything
/// else.
fn zeros_around(operator: &Operator, axes: usize) -> Option<Vec<i64>> {
    let mode = operator.get_or("mode", "constant".to_owned()).ok()?;
    let value = operator.get_or::<Option<f64>>("value", None).ok()?;
    let zero = mode == "constant" && value.is_none_or(|value| value == 0.0);
    let key = if operator.has_param("pad") { "pad" } else { "padding" };
    let mut places = operator.get::<Vec<i64>>(key).ok()?;
    let beyond = places.split_off(places.len().min(2 * axes));
    let fits = places.len() % 2 == 0 && places.iter().all(|&n| n >= 0) && beyond.iter().all(|&n| n == 0);
    places.resize(2 * axes, 0);
    (zero && fits).then_some(places)
}

/// The padding of a convolution in the same form. `None` if it is not zeros, or is not given as numbers.
fn own_padding(operator: &Operator, axes: usize) -> Option<Vec<i64>> {
    if operator.get_or("padding_mode", "zeros".to_owned()).ok()? != "zeros" {
        return None;
    }
    let Some(padding) = operator.param("padding") else {
        // The graph may compute it.
        return operator.named_input("padding").is_none().then(|| vec![0; 2 * axes]);
    };
    if padding.raw() == "valid" {
        return Some(vec![0; 2 * axes]);
    }
    let places = padding.as_i64s().or_else(|_| padding.as_i64().map(|one| vec![one])).ok()?;
    match places.len() {
        1 => Some(places.repeat(2 * axes)),
        len if len == axes => Some(places.iter().rev().flat_map(|&n| [n, n]).collect()),
        len if len == 2 * axes => Some(places),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, refuses};
    use super::*;

    fn padded(pad: &str, conv: &str, input: &str) -> String {
        format!(
            "pnnx.Input in 0 1 x #x={input}f32\n{} pad 1 1 x a {}\n{} conv 1 1 a y {}\npnnx.Output out 1 0 y",
            pad.split_once(' ').unwrap().0,
            pad.split_once(' ').unwrap().1,
            conv.split_once(' ').unwrap().0,
            conv.split_once(' ').unwrap().1,
        )
    }

    #[test]
    fn zeros_become_padding() {
        for (pad, conv, input, padding) in [
            (
                "nn.ZeroPad2d padding=(0,1,0,1)",
                "nn.Conv2d stride=(2,2) @weight=(2,3,3,3)f32",
                "(1,3,8,6)",
                "(0,1,0,1)",
            ),
            (
                "nn.ZeroPad2d padding=(2,2,1,1)",
                "nn.Conv2d padding=(1,0) @weight=(2,3,3,3)f32",
                "(1,3,8,6)",
                "(2,2)",
            ),
            (
                "nn.ZeroPad2d padding=(2,1,1,0)",
                "nn.Conv2d padding=(1,0) @weight=(2,3,3,3)f32",
                "(1,3,8,6)",
                "(2,1,2,1)",
            ),
            (
                "F.pad pad=(1,1) mode=constant value=None",
                "nn.Conv2d padding=(1,0) @weight=(2,3,3,3)f32",
                "(1,3,8,6)",
                "(1,1)",
            ),
            (
                "F.pad pad=(3,0) mode=constant value=0.0",
                "nn.Conv1d padding=2 @weight=(2,3,3)f32",
                "(1,3,8)",
                "(5,2)",
            ),
            (
                "F.pad pad=(0,1,2,3,4,5)",
                "nn.Conv3d padding=valid @weight=(2,1,2,2,2)f32",
                "(1,1,4,4,4)",
                "(0,1,2,3,4,5)",
            ),
            ("nn.ConstantPad1d padding=(1,2) value=0.0", "nn.Conv1d @weight=(2,3,3)f32", "(1,3,8)", "(1,2)"),
        ] {
            let left = fires(&fold_padding(), &padded(pad, conv, input));
            assert_eq!(left.len(), 1, "{left:?}");
            assert!(left[0].contains(&format!("padding={padding}")), "{left:?}");
        }
    }

    #[test]
    fn other_padding_stays() {
        const CONV: &str = "nn.Conv2d @weight=(2,3,3,3)f32";
        for (pad, conv) in [
            ("nn.ConstantPad2d padding=(1,1,1,1) value=1.0", CONV),
            ("F.pad pad=(1,1) mode=reflect", CONV),
            ("F.pad pad=(1,-1)", CONV),
            ("F.pad pad=(1,1,0,0,1,1)", "nn.Conv2d @weight=(2,5,3,3)f32"),
            ("nn.ReflectionPad2d padding=(1,1,1,1)", CONV),
            (
                "nn.ZeroPad2d padding=(1,1,1,1)",
                "nn.Conv2d padding_mode=circular padding=(1,1) @weight=(2,3,3,3)f32",
            ),
            ("nn.ZeroPad2d padding=(1,1,1,1)", "nn.Conv2d padding=same @weight=(2,3,3,3)f32"),
        ] {
            refuses(&fold_padding(), &padded(pad, conv, "(1,3,8,6)"));
        }
    }

    #[test]
    fn padding_that_the_graph_computes_stays() {
        let model = "pnnx.Input in 0 1 x #x=(1,1,4,4)f32\npnnx.Attribute w 0 1 w @data=(1,1,3,3)f32\n\
            pnnx.Expression e 1 1 x p expr=sub(size(@0,2),3)\nF.pad pad 1 1 x a pad=(1,1,1,1)\n\
            F.conv2d conv 3 1 a w p y $input=a $weight=w $padding=p\npnnx.Output out 1 0 y";
        refuses(&fold_padding(), model);
    }

    #[test]
    fn padding_of_padding_is_one() {
        let model = padded("F.pad pad=(1,2)", "nn.Conv1d padding=(1) @weight=(2,3,3)f32", "(1,3,8)");
        let model = model.replace("F.pad pad 1 1 x a", "F.pad first 1 1 x b pad=(0,1)\nF.pad pad 1 1 b a");
        let left = fires(&fold_padding(), &model);
        assert!(left.len() == 1 && left[0].contains("padding=(2,4)"), "{left:?}");
    }

    #[test]
    fn a_padded_input_that_is_also_the_weight_stays() {
        let model = "pnnx.Input in 0 1 x #x=(1,1,3,3)f32\nF.pad pad 1 1 x a pad=(1,1,1,1)\n\
            F.conv2d conv 2 1 a a y $input=a $weight=a\npnnx.Output out 1 0 y";
        let outcome = refuses(&fold_padding(), model);
        assert!(outcome.refused[0].reason.contains("`a` would vanish"), "{outcome:?}");
    }

    #[test]
    fn a_padded_input_that_others_read_stays() {
        let model = padded("nn.ZeroPad2d padding=(1,1,1,1)", "nn.Conv2d @weight=(2,3,3,3)f32", "(1,3,8,6)");
        refuses(&fold_padding(), &model.replace("out 1 0 y", "out 2 0 y a"));
    }
}
