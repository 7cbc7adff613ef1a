//! What operators do with int8: whether it passes through them, and whether their layers read it and take zero points.

use crate::graph::RuntimeOperator;
use crate::op::{CpuLayer, Device, Elements, Properties, Step, TensorFormat, catch_panic};

/// Returns true if int8 passes through an operator: it only moves elements, and all of its floats have the same step. Its layer
/// then moves int8 as it moves any other elements.
pub(super) fn passes_int8(op_type: &str, floats: impl IntoIterator<Item = Option<Step>>) -> bool {
    let mut floats = floats.into_iter();
    let first = floats.next().flatten();
    only_moves(op_type) && first.is_some() && floats.all(|step| step == first)
}

/// Returns true if an operator moves elements of its inputs to its outputs, and does nothing else.
pub(super) fn only_moves(op_type: &str) -> bool {
    match Properties::of(op_type).elements {
        Elements::Copied
        | Elements::Reshaped
        | Elements::Unsqueezed
        | Elements::Permuted
        | Elements::Sliced
        | Elements::Expanded
        | Elements::Along
        | Elements::Selected
        | Elements::Divided
        | Elements::Unbound
        | Elements::Joined
        | Elements::Stacked => true,
        Elements::Computed | Elements::Cast | Elements::Moved | Elements::Padded => false,
    }
}

/// Returns true if the layer of an operator takes a quantised input; false if it panics.
pub(super) fn reads_int8(operator: &RuntimeOperator) -> bool {
    let quantized = TensorFormat::quantized();
    let formats = [quantized, quantized.channels_last()];
    let reads = |layer: &dyn CpuLayer| {
        catch_panic(|| Ok(formats.iter().any(|&format| layer.supports(0, &[format])))).unwrap_or(false)
    };
    operator.layer().is_some_and(reads)
}

/// Returns true if the layer of an operator computes with any zero points; false if it panics.
pub(super) fn takes_zero_points(operator: &RuntimeOperator) -> bool {
    let takes = |layer: &dyn CpuLayer| catch_panic(|| Ok(layer.takes_zero_points())).unwrap_or(false);
    operator.layer().is_some_and(takes)
}

/// Returns true if an operator may have int8 tensors with these steps: with another zero point than 0, it must run on the CPU,
/// and its layer must take zero points, or it must only move elements between tensors of the same step.
pub(in crate::engine) fn takes_steps(operator: &RuntimeOperator, steps: &[Step]) -> bool {
    let passes = || passes_int8(operator.op_type(), steps.iter().copied().map(Some));
    let is_on_cpu = operator.device() == Device::Cpu;
    steps.iter().all(|step| step.zero_point == 0) || (is_on_cpu && (takes_zero_points(operator) || passes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::graph::{OperatorIndex, RuntimeGraph};
    use crate::pnnx::Graph;

    const GRAPH: &str = "7767517\n6 5\npnnx.Input in 0 1 x #x=(1,2,4,4)f32
F.relu r 1 1 x a
F.upsample_nearest u 1 1 a b size=(8,8) $input=a
torch.cat j 2 1 b b c dim=1
F.softmax s 1 1 c y dim=1 $input=c
pnnx.Output out 1 0 y\n";

    #[test]
    fn only_some_operators_take_zero_points() {
        let mut graph = RuntimeGraph::from_pnnx(Graph::parse(GRAPH, &Limits::default()).unwrap());
        graph.build().unwrap();
        let step = |zero_point| Step { scale: 0.5, zero_point };
        let takes = |graph: &RuntimeGraph, name: &str, zero_points: &[i8]| {
            let steps: Vec<Step> = zero_points.iter().map(|&zero_point| step(zero_point)).collect();
            takes_steps(graph.operator_named(name).unwrap(), &steps)
        };
        assert!(takes(&graph, "r", &[3, -7]));
        assert!(takes(&graph, "u", &[0, 0]) && !takes(&graph, "u", &[3, 3]));
        assert!(takes(&graph, "j", &[3, 3, 3]) && !takes(&graph, "j", &[3, 3, 4]));
        assert!(takes(&graph, "s", &[]) && !takes(&graph, "s", &[3]));
        // Kernels of a device know no zero points.
        let relu = graph.operators().iter().position(|operator| operator.name() == "r").unwrap();
        graph.place_on(OperatorIndex::new(relu), Device::Cuda, 0);
        assert!(takes(&graph, "r", &[0, 0]) && !takes(&graph, "r", &[3, 3]));
    }
}
