//! Weights that are whole multiples of a scale, stored as int8.
//!
//! A model that was trained or exported for integers has such weights, but as floats: PNNX computes what does not depend on the
//! inputs when it exports. For layers that read quantised tensors, the integers and the scale of each output channel are found
//! again, so that int8 has the same products. Otherwise the engine would quantise such weights a second time, by their largest
//! magnitude.

use super::visit::{Verdict, Visit};
use super::{Facts, PassContext};
use crate::op::{Elements, FromOperator, Product, Properties, scales_key};
use crate::ops::quantized::FakeQuantize;
use crate::pnnx::{Attribute, Graph, GraphError, OperandId, Operator, OperatorId};
use crate::tensor::DType;
use std::collections::HashSet;

/// The pass.
pub(super) const QUANTIZED_WEIGHTS: Visit = Visit {
    name: "quantized_weights",
    doc: "Stores weights of layers that read quantised tensors as int8, if they are whole multiples of a scale.",
    visit,
};

const WEIGHT: &str = "weight";

fn visit(graph: &mut Graph, context: &PassContext, id: OperatorId) -> Result<Verdict, GraphError> {
    let Some(weight) = weight(graph, context, id) else { return Ok(Verdict::Other) };
    let Some(rows) = Rows::of(weight) else {
        return Ok(Verdict::Refused("its weights are not whole multiples of a scale".to_owned()));
    };
    let Some((values, scales)) = rows.attributes(weight.shape()) else { return Ok(Verdict::Other) };
    graph.set_attribute(id, WEIGHT, values)?;
    graph.set_attribute(id, &scales_key(WEIGHT), scales)?;
    Ok(Verdict::Fired)
}

/// The weight of a convolution or linear layer that reads a quantised tensor, if it is stored as floats.
fn weight<'g>(graph: &'g Graph, context: &PassContext, id: OperatorId) -> Option<&'g Attribute> {
    // Layers that are not built in do not know of the scales.
    let operator = graph.get_operator(id).filter(|operator| context.is_pure(operator.op_type()))?;
    let is_product =
        matches!(Properties::of(operator.op_type()).product, Some(Product::Dense | Product::Convolution));
    let weight =
        operator.attr(WEIGHT).filter(|weight| weight.dtype() == DType::F32 && weight.is_present())?;
    let has_rows = weight.shape().len() > 1 && weight.elem_count() > 0;
    let input = operator.inputs().first().copied()?;
    let is_wanted = is_product && has_rows && !is_normalized(graph, operator);
    (is_wanted && is_quantized(graph, context, input)).then_some(weight)
}

/// Returns true if a batch norm reads a result: it is folded into the weights first, in a later round.
fn is_normalized(graph: &Graph, operator: &Operator) -> bool {
    let outputs = operator.outputs().iter().filter_map(|&output| graph.get_operand(output));
    let mut readers = outputs.flat_map(|output| output.consumers()).filter_map(|&id| graph.get_operator(id));
    readers.any(|reader| reader.has_attr("running_mean"))
}

/// Returns true if an operand was rounded to numbers that int8 holds.
fn is_quantized(graph: &Graph, context: &PassContext, operand: OperandId) -> bool {
    rounding(graph, context, operand).is_some_and(|fake| fake.int8_step().is_some())
}

/// The fake quantisation that computes an operand, directly or before operators that only move elements. If they join several
/// tensors, all of these must have been rounded to the same numbers.
pub(super) fn rounding<'c>(
    graph: &Graph,
    context: &'c PassContext,
    operand: OperandId,
) -> Option<&'c FakeQuantize> {
    let mut found: Option<&FakeQuantize> = None;
    let (mut open, mut seen) = (vec![operand], HashSet::new());
    while let Some(operand) = open.pop() {
        // The graph of a damaged file may have a cycle.
        if !seen.insert(operand) {
            continue;
        }
        let operator = graph.get_operator(graph.get_operand(operand)?.producer()?)?;
        if !FakeQuantize::TYPES.contains(&operator.op_type()) {
            let inputs = moved(context.facts(graph), operator, operand);
            open.extend(inputs.filter(|_| context.is_pure(operator.op_type()))?);
            continue;
        }
        let fake = context.facts(graph).layer(operator.name())?;
        if found.is_some_and(|found| !has_same_steps(found, fake)) {
            return None;
        }
        found = Some(fake);
    }
    found
}

/// Returns true if both round to the same numbers. Parameters that the graph computes are the same only if both read them from
/// the same operands, which is not checked.
pub(super) fn has_same_steps(a: &FakeQuantize, b: &FakeQuantize) -> bool {
    let is_same = a.scale == b.scale && a.zero_point == b.zero_point;
    is_same && [a.quant_min, a.quant_max] == [b.quant_min, b.quant_max]
}

/// The inputs whose elements an operator moves to one of its outputs, if it does nothing else.
fn moved<'o>(facts: &Facts, operator: &'o Operator, output: OperandId) -> Option<&'o [OperandId]> {
    match Properties::of(operator.op_type()).elements {
        Elements::Computed | Elements::Cast | Elements::Padded => None,
        // `aten::max` finds the largest element of one tensor, but of two it computes the maximum of each pair.
        Elements::Moved if facts.operator(operator.name())?.layer()?.is_pointwise() => None,
        Elements::Joined | Elements::Stacked => Some(operator.inputs()),
        Elements::Divided | Elements::Unbound => operator.inputs().get(..1),
        // Further outputs are indices.
        _ => operator.inputs().get(..1).filter(|_| operator.outputs().first() == Some(&output)),
    }
}

/// The rows of a weight in units of a scale each.
struct Rows {
    values: Vec<i8>,
    scales: Vec<f32>,
}

impl Rows {
    /// The rows of a weight with more than one axis; `None` if one of them is not of whole multiples.
    fn of(weight: &Attribute) -> Option<Self> {
        let (numbers, count) = (weight.to_f32s().ok()?, *weight.shape().first()?);
        let depth = numbers.len().checked_div(count)?.max(1);
        let (mut values, mut scales) = (Vec::with_capacity(numbers.len()), Vec::with_capacity(count));
        for row in numbers.chunks_exact(depth) {
            let (whole, scale) = multiples(row)?;
            values.extend(whole);
            scales.push(scale);
        }
        Some(Self { values, scales })
    }

    fn attributes(self, shape: &[usize]) -> Option<(Attribute, Attribute)> {
        let bytes: Vec<u8> = self.values.into_iter().map(i8::cast_unsigned).collect();
        let values = Attribute::new(DType::I8, shape.to_vec(), bytes).ok()?;
        Some((values, Attribute::from_f32s(vec![self.scales.len()], &self.scales).ok()?))
    }
}

/// The numbers of a row in units of a scale, and that scale: a whole fraction of the largest magnitude, which may be any integer
/// up to 128, most likely the largest.
fn multiples(row: &[f32]) -> Option<(Vec<i8>, f32)> {
    let largest = row.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    if row.iter().all(|&x| x == 0.0) {
        return Some((vec![0; row.len()], 0.0));
    }
    let counts = [127u8, 128].into_iter().chain((1..127).rev());
    let mut scales = counts.map(|count| largest / f32::from(count)).filter(|scale| scale.is_normal());
    scales.find_map(|scale| {
        let values = row.iter().map(|&x| whole(x / scale)).collect::<Option<Vec<i8>>>()?;
        Some((values, scale))
    })
}

/// The integer that a number of units is, up to rounding of the number and of the unit.
fn whole(units: f32) -> Option<i8> {
    const ROUNDING: f32 = 1e-4;
    let nearest = units.round_ties_even();
    let fits = (units - nearest).abs() <= ROUNDING && (-128.0..=127.0).contains(&nearest);
    fits.then_some(nearest as i8)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{graph, lines, run};
    use super::*;

    const MODEL: &str = "pnnx.Input in 0 1 x #x=(1,2,3,3)f32
         aten::fake_quantize_per_tensor_affine q 1 1 x a quant_max=127 quant_min=-128 scale=0.5 zero_point=0 $input=x
         Tensor.permute m 1 1 a b dims=(0,1,3,2) $input=a
         nn.Conv2d c 1 1 b y bias=False in_channels=2 out_channels=3 kernel_size=(1,1) @weight=(3,2,1,1)f32
         pnnx.Output out 1 0 y";

    fn with_weight(text: &str, weight: &[f32]) -> Graph {
        let mut graph = graph(text);
        let id = graph.operator_named("c").unwrap();
        let weight = Attribute::from_f32s(vec![3, 2, 1, 1], weight).unwrap();
        graph.set_attribute(id, "weight", weight).unwrap();
        graph
    }

    fn fired(text: &str, weight: &[f32]) -> usize {
        run(&QUANTIZED_WEIGHTS, &mut with_weight(text, weight)).fired
    }

    /// The stored weights after the pass, and their scales; `None` if they are still floats.
    fn stored(text: &str, weight: &[f32]) -> Option<(Vec<i8>, Vec<f32>)> {
        let mut graph = with_weight(text, weight);
        let id = graph.operator_named("c").unwrap();
        let before = lines(&graph);
        let fired = run(&QUANTIZED_WEIGHTS, &mut graph).fired;
        assert_eq!(lines(&graph), before);
        assert_eq!(run(&QUANTIZED_WEIGHTS, &mut graph).fired, 0, "once is enough");
        let operator = graph.operator(id);
        let scales = operator.attr(&scales_key("weight")).map(|scales| scales.to_f32s().unwrap());
        assert_eq!(scales.is_some(), fired == 1);
        let bytes = operator.attr("weight").unwrap().bytes().unwrap();
        let values = bytes.iter().map(|byte| byte.cast_signed()).collect();
        Some((values, scales?))
    }

    #[test]
    fn multiples_of_a_scale_become_integers() {
        let scale = 0.013f32;
        let weight = [127.0, -1.0, -128.0, 5.0, 100.0, -33.0].map(|units| units * scale);
        let (values, scales) = stored(MODEL, &weight).unwrap();
        for (row, (&scale, values)) in weight.chunks(2).zip(scales.iter().zip(values.chunks(2))) {
            for (&wanted, &units) in row.iter().zip(values) {
                assert!((f32::from(units) * scale - wanted).abs() <= 1e-6, "{units} of {scale} for {wanted}");
            }
        }
        assert_eq!(values[..4], [127, -1, -128, 5]);
    }

    #[test]
    fn all_tensors_that_are_joined_must_have_the_same_steps() {
        let joined = |range: &str| {
            let other =
                format!("aten::fake_quantize_per_tensor_affine r 1 1 x d {range} scale=0.5 zero_point=0");
            let moved = "Tensor.permute m 1 1 a b dims=(0,1,3,2) $input=a";
            MODEL.replace(moved, &format!("{other} $input=x\ntorch.cat m 2 1 a d b dim=2"))
        };
        let half = [1.0, 0.5].repeat(3);
        assert!(stored(&joined("quant_max=127 quant_min=-128"), &half).is_some());
        assert!(stored(&joined("quant_max=127 quant_min=0"), &half).is_none());
        let floats = joined("quant_max=127 quant_min=-128").replace("m 2 1 a d b", "m 2 1 a x b");
        assert!(stored(&floats, &half).is_none());
    }

    #[test]
    fn a_batch_norm_is_folded_first() {
        let norm =
            "nn.BatchNorm2d n 1 1 y z eps=1e-5 num_features=3 @running_mean=(3)f32 @running_var=(3)f32";
        let normalised = MODEL.replace("pnnx.Output out 1 0 y", &format!("{norm}\npnnx.Output out 1 0 z"));
        assert!(fired(&normalised, &[0.5; 6]) == 0 && fired(MODEL, &[0.5; 6]) == 1);
    }

    #[test]
    fn rows_of_zeros_have_a_scale_of_zero() {
        let (values, scales) = stored(MODEL, &[0.0, 0.0, 1.0, 0.5, -1.0, 0.0]).unwrap();
        assert_eq!((values[..2].to_vec(), scales[0]), (vec![0, 0], 0.0));
    }

    #[test]
    fn other_weights_and_other_inputs_stay_floats() {
        let half = [1.0, 0.5].repeat(3);
        assert!(stored(MODEL, &half).is_some());
        let odd = [1.0, 0.503, 1.0, 0.5, 1.0, 0.5];
        assert!(stored(MODEL, &odd).is_none());
        for odd in [f32::NAN, f32::INFINITY, 1e-45] {
            assert!(stored(MODEL, &[odd, 0.0, 1.0, 0.5, 1.0, 0.5]).is_none(), "{odd}");
        }
        // The output of a sigmoid is not rounded.
        let moved = "Tensor.permute m 1 1 a b dims=(0,1,3,2) $input=a";
        let computed = MODEL.replace(moved, "F.sigmoid m 1 1 a b");
        assert!(stored(&computed, &half).is_none());
        assert!(stored(&MODEL.replace("zero_point=0", "zero_point=9"), &half).is_some());
        // There are more numbers than int8 can hold.
        assert!(stored(&MODEL.replace("quant_max=127", "quant_max=200"), &half).is_none());
    }
}
