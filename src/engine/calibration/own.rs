//! The steps that a model states itself.
//!
//! Fake quantisation returns whole multiples of its scale, which int8 with this scale and the right zero point holds exactly.
//! Models have it after quantisation-aware training, and passes make it of operators that quantise and dequantise. Whether the
//! tensors around it are int8 changes no result by more than a step, but how fast it is computed. Layers whose weights int8
//! would round are the exception: the selection knows them.

use super::shared::moved;
use crate::graph::{OperandIndex, RuntimeGraph, RuntimeOperator};
use crate::op::{CpuLayer, Step};
use crate::ops::quantized::FakeQuantize;
use std::collections::BTreeMap;

/// The step of int8 tensors that hold all results of a layer, if it is one for fake quantisation and there is such a step.
pub(super) fn own_step(layer: &dyn CpuLayer) -> Option<Step> {
    layer.as_any().downcast_ref::<FakeQuantize>()?.int8_step()
}

/// The steps of the operands that may be int8 without losing anything, by the operands' names:
///
/// - results of fake quantisation, also after operators that only move elements;
/// - what only fake quantisation to this step reads, also before such operators: it would be rounded in any case. Inputs of the
///   model are not among these, since fake quantisation itself rounds even ties as the model does.
pub(in crate::engine) fn own_steps(graph: &RuntimeGraph) -> BTreeMap<String, Step> {
    let count = graph.operands().len();
    let mut found = Found { graph, steps: vec![None; count], wanted: vec![Wanted::default(); count] };
    for operator in graph.operators() {
        found.follow(operator);
    }
    for operator in graph.operators().iter().rev() {
        found.lead(operator);
    }
    let named = graph.operands().iter().zip(found.steps);
    named.filter_map(|(operand, step)| Some((operand.name().to_owned(), step?))).collect()
}

/// The steps that have been found, and those to which readers round, by the operand's position.
struct Found<'g> {
    graph: &'g RuntimeGraph,
    steps: Vec<Option<Step>>,
    wanted: Vec<Wanted>,
}

/// The step to which the readers of an operand round.
#[derive(Debug, Clone, Copy, Default)]
struct Wanted {
    /// `None` if there are several.
    step: Option<Step>,
    readers: usize,
}

impl Found<'_> {
    /// Gives the outputs of an operator the step of its results.
    fn follow(&mut self, operator: &RuntimeOperator) {
        let (outputs, step) = match operator.layer().and_then(own_step) {
            Some(step) => (operator.outputs(), Some(step)),
            None => {
                let (inputs, outputs) = moved(operator);
                (outputs, self.common(inputs))
            }
        };
        outputs.iter().for_each(|&output| self.set(output, step));
    }

    /// Gives the outputs of an operator, all of whose readers have been visited, the step to which these round; then asks for the
    /// step to which the operator itself rounds.
    fn lead(&mut self, operator: &RuntimeOperator) {
        let Some(layer) = operator.layer() else { return };
        for &output in operator.outputs() {
            if self.step(output).is_none() {
                self.set(output, self.wanted_by_all(output));
            }
        }
        let (inputs, step) = match own_step(layer) {
            Some(step) => (operator.inputs(), Some(step)),
            None => {
                let (inputs, outputs) = moved(operator);
                (inputs, self.common(outputs))
            }
        };
        if let Some(step) = step {
            inputs.iter().for_each(|&input| self.want(input, step));
        }
    }

    fn want(&mut self, operand: OperandIndex, step: Step) {
        if let Some(wanted) = self.wanted.get_mut(operand.position()) {
            let is_same = wanted.readers == 0 || wanted.step == Some(step);
            *wanted = Wanted { step: is_same.then_some(step), readers: wanted.readers + 1 };
        }
    }

    /// The step to which all readers of an operand round, if it is the same and the model does not return the operand.
    fn wanted_by_all(&self, operand: OperandIndex) -> Option<Step> {
        let (wanted, operand) = (self.wanted.get(operand.position())?, self.graph.operand(operand));
        wanted.step.filter(|_| wanted.readers == operand.consumers().len() && !operand.is_output())
    }

    /// The step of all of these operands, if there is any and it is the same.
    fn common(&self, operands: &[OperandIndex]) -> Option<Step> {
        let mut steps = operands.iter().map(|&operand| self.step(operand));
        let first = steps.next()??;
        steps.all(|step| step == Some(first)).then_some(first)
    }

    fn step(&self, operand: OperandIndex) -> Option<Step> {
        self.steps.get(operand.position()).copied().flatten()
    }

    fn set(&mut self, operand: OperandIndex, step: Option<Step>) {
        if let Some(place) = self.steps.get_mut(operand.position()) {
            *place = step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::pnnx::Graph;

    /// A quantised input that is pooled, and the flattened result of an activation, which is quantised again.
    const GRAPH: &str = "7767517\n7 6\npnnx.Input in 0 1 x #x=(1,2,4,4)f32
aten::fake_quantize_per_tensor_affine q 1 1 x a quant_max=127 quant_min=-128 scale=0.5 zero_point=0 $input=x
F.max_pool2d p 1 1 a b ceil_mode=False dilation=(1,1) kernel_size=(2,2) padding=(0,0) stride=(2,2)
F.sigmoid s 1 1 b c $input=b
torch.flatten f 1 1 c d end_dim=-1 start_dim=1 $input=c
aten::fake_quantize_per_tensor_affine r 1 1 d e quant_max=255 quant_min=0 scale=0.25 zero_point=128 $input=d
pnnx.Output out 1 0 e\n";

    fn own(text: &str) -> BTreeMap<String, Step> {
        let mut graph = RuntimeGraph::from_pnnx(Graph::parse(text, &Limits::default()).unwrap());
        graph.build().unwrap();
        own_steps(&graph)
    }

    /// Steps with the zero point 0.
    fn named(scales: &[(&str, f32)]) -> BTreeMap<String, Step> {
        scales.iter().map(|&(name, scale)| (name.to_owned(), Step::from(scale))).collect()
    }

    #[test]
    fn what_is_rounded_before_or_behind_may_be_int8() {
        let all = [("a", 0.5), ("b", 0.5), ("c", 0.25), ("d", 0.25), ("e", 0.25)];
        assert_eq!(own(GRAPH), named(&all));
    }

    #[test]
    fn the_larger_elements_of_two_tensors_are_not_all_rounded() {
        let pool = "F.max_pool2d p 1 1 a b ceil_mode=False dilation=(1,1) kernel_size=(2,2) padding=(0,0) stride=(2,2)";
        let larger = GRAPH.replace(pool, "aten::max p 2 1 a x b $input=a $other=x");
        assert_eq!(own(&larger), named(&[("a", 0.5), ("c", 0.25), ("d", 0.25), ("e", 0.25)]));
    }

    #[test]
    fn what_others_read_unrounded_stays_a_float() {
        let returned = GRAPH.replace("out 1 0 e", "out 2 0 e c");
        assert_eq!(own(&returned), named(&[("a", 0.5), ("b", 0.5), ("d", 0.25), ("e", 0.25)]));
    }

    #[test]
    fn all_readers_must_round_to_the_same_scale() {
        let others = |scale: &str| {
            let other = "aten::fake_quantize_per_tensor_affine o 1 1 c g quant_max=127 quant_min=-127";
            let other = format!("{other} scale={scale} zero_point=0 $input=c\npnnx.Output out 2 0 e g");
            let text = GRAPH.replace("7 6", "8 7").replace("pnnx.Output out 1 0 e", &other);
            own(&text).contains_key("c")
        };
        assert!(others("0.25") && !others("0.5"));
    }

    #[test]
    fn steps_that_int8_does_not_have_are_left_alone() {
        let wide = GRAPH.replace("quant_max=255", "quant_max=256");
        assert_eq!(own(&wide), named(&[("a", 0.5), ("b", 0.5)]));
    }

    #[test]
    fn any_256_steps_have_a_zero_point() {
        let shifted = own(&GRAPH.replace("zero_point=128", "zero_point=100"));
        let of_last = Step { scale: 0.25, zero_point: -28 };
        assert!(["c", "d", "e"].into_iter().all(|name| shifted[name] == of_last), "{shifted:?}");
        assert_eq!(shifted["a"], Step::from(0.5));
    }

    #[test]
    fn tensors_of_other_zero_points_are_not_joined() {
        let joined = |zero_point: &str| {
            let fake = "aten::fake_quantize_per_tensor_affine";
            let text = format!(
                "7767517\n5 4\npnnx.Input in 0 1 x #x=(1,2,4,4)f32\n\
                 {fake} q 1 1 x a quant_max=255 quant_min=0 scale=0.5 zero_point=7 $input=x\n\
                 {fake} r 1 1 x b quant_max=255 quant_min=0 scale=0.5 zero_point={zero_point} $input=x\n\
                 torch.cat j 2 1 a b y dim=1\npnnx.Output out 1 0 y\n"
            );
            own(&text).contains_key("y")
        };
        assert!(joined("7") && !joined("8"));
    }
}
