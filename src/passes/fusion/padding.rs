//! Zeros put around the input of a convolution are what the convolution does itself.
//!
//! ```text
//! nn.ZeroPad2d pad            1 1 x a padding=(0,1,0,1)
//! nn.Conv2d conv              1 1 a y padding=(1,1)
//!     ↓
//! nn.Conv2d conv              1 1 x y padding=(1,2,1,2)
//! ```
//!
//! Two numbers for each axis, the last axis first, is how PNNX writes padding that differs at both ends.

use super::site::own_producer;
use super::visit::{Verdict, Visit};
use crate::passes::Facts;
use crate::pnnx::{Graph, GraphError, Operator, OperatorId};

/// The pass.
pub(super) const FOLD_PADDING: Visit =
    Visit { name: "fold_padding", doc: "Zeros around the input of a convolution become its padding.", visit };

fn visit(graph: &mut Graph, _: &Facts, id: OperatorId) -> Result<Verdict, GraphError> {
    let Some(operator) = graph.get_operator(id) else { return Ok(Verdict::Other) };
    let Some(&input) = operator.inputs().first() else { return Ok(Verdict::Other) };
    let axes = match operator.op_type() {
        "nn.Conv1d" | "F.conv1d" => 1,
        "nn.Conv2d" | "F.conv2d" => 2,
        "nn.Conv3d" | "F.conv3d" => 3,
        _ => return Ok(Verdict::Other),
    };
    let Some((pad, padding)) = own_producer(graph, input, id) else { return Ok(Verdict::Other) };
    let Some(zeros) = zeros_around(padding, axes) else { return Ok(Verdict::Other) };
    let Some(own) = own_padding(operator, axes) else {
        return Ok(Verdict::Refused("its own padding is not of zeros, or not in numbers".to_owned()));
    };
    let &[outer] = padding.inputs() else { return Ok(Verdict::Other) };
    let sum: Vec<i64> = zeros.iter().zip(&own).map(|(zeros, own)| zeros.saturating_add(*own)).collect();
    let is_even = sum.chunks(2).all(|pair| matches!(pair, [before, after] if before == after));
    let written = if is_even { sum.iter().rev().step_by(2).copied().collect() } else { sum };
    graph.set_param(id, "padding", written)?;
    graph.replace_input(id, 0, outer)?;
    graph.remove_operator(pad)?;
    Ok(Verdict::Fired)
}

/// How many zeros an operator puts before and after each axis, the last axis first. `None` where it does anything else.
fn zeros_around(operator: &Operator, axes: usize) -> Option<Vec<i64>> {
    let (key, zero) = match operator.op_type() {
        "nn.ZeroPad1d" | "nn.ZeroPad2d" | "nn.ZeroPad3d" => ("padding", true),
        "nn.ConstantPad1d" | "nn.ConstantPad2d" | "nn.ConstantPad3d" => {
            ("padding", operator.get::<f64>("value").ok()? == 0.0)
        }
        "F.pad" => {
            let mode = operator.get_or("mode", "constant".to_owned()).ok()?;
            let value = operator.get_or::<Option<f64>>("value", None).ok()?;
            ("pad", mode == "constant" && value.is_none_or(|value| value == 0.0))
        }
        _ => return None,
    };
    let mut places = operator.get::<Vec<i64>>(key).ok()?;
    let beyond = places.split_off(places.len().min(2 * axes));
    let fits = places.len() % 2 == 0 && places.iter().all(|&n| n >= 0) && beyond.iter().all(|&n| n == 0);
    places.resize(2 * axes, 0);
    (zero && fits).then_some(places)
}

/// The padding of a convolution in the same form. `None` where it is not of zeros, or not in numbers.
fn own_padding(operator: &Operator, axes: usize) -> Option<Vec<i64>> {
    if operator.get_or("padding_mode", "zeros".to_owned()).ok()? != "zeros" {
        return None;
    }
    let Some(padding) = operator.param("padding") else { return Some(vec![0; 2 * axes]) };
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
            let left = fires(&FOLD_PADDING, &padded(pad, conv, input));
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
            refuses(&FOLD_PADDING, &padded(pad, conv, "(1,3,8,6)"));
        }
    }

    #[test]
    fn a_padded_input_that_others_read_stays() {
        let model = padded("nn.ZeroPad2d padding=(1,1,1,1)", "nn.Conv2d @weight=(2,3,3,3)f32", "(1,3,8,6)");
        refuses(&FOLD_PADDING, &model.replace("out 1 0 y", "out 2 0 y a"));
    }
}
