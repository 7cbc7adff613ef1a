//! Plans and runs graphs in tests: a minimal engine without optimisations.

use super::packing::{Packing, Request, clash};
use super::{
    Action, Arena, Holds, InputBinding, Memory, MemoryError, MemoryPlan, Place, Problem, Root, Slot,
};
use crate::Limits;
use crate::graph::{OperandIndex, RuntimeGraph, RuntimeOperator};
use crate::op::{ForwardContext, Io, TensorMeta};
use crate::pnnx::Graph;
use crate::shape::Shapes;
use crate::tensor::{Shape, Tensor};

/// A graph, its shapes, and a plan.
pub(super) struct Planned {
    pub(super) graph: RuntimeGraph,
    pub(super) metas: Vec<Option<TensorMeta>>,
    pub(super) workspaces: Vec<usize>,
    pub(super) constants: Vec<bool>,
    pub(super) donations: Vec<(usize, usize)>,
    pub(super) plan: MemoryPlan,
}

/// A built graph of these operator lines; the file header is added.
pub(super) fn graph(lines: &str) -> RuntimeGraph {
    let lines: Vec<&str> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = format!("7767517\n{} 0\n{}\n", lines.len(), lines.join("\n"));
    let file = Graph::parse(&text, &Limits::default()).unwrap();
    let mut graph = RuntimeGraph::from_pnnx(file).with_random_weights(1);
    graph.build().unwrap();
    graph
}

/// The plan for these operator lines and the input shapes in them. Attributes are constants.
pub(super) fn plan(lines: &str, donations: &[(usize, usize)]) -> Planned {
    try_plan(graph(lines), donations).unwrap()
}

pub(super) fn try_plan(graph: RuntimeGraph, donations: &[(usize, usize)]) -> Result<Planned, MemoryError> {
    let shapes =
        Shapes::infer(&graph, &inputs(&graph).iter().map(|x| TensorMeta::of(&x.view())).collect::<Vec<_>>());
    let metas = shapes.unwrap().metas().to_vec();
    let constants: Vec<bool> = graph.operators().iter().map(|op| op.op_type() == "pnnx.Attribute").collect();
    let workspaces: Vec<usize> = graph.operators().iter().map(|op| workspace(op, &metas)).collect();
    let plan = MemoryPlan::new(&Problem {
        graph: &graph,
        metas: &metas,
        workspaces: &workspaces,
        constants: &constants,
        donations,
    })?;
    Ok(Planned { graph, metas, workspaces, constants, donations: donations.to_vec(), plan })
}

fn all(operands: &[OperandIndex], metas: &[Option<TensorMeta>]) -> Option<Vec<TensorMeta>> {
    operands.iter().map(|operand| metas[operand.position()].clone()).collect()
}

fn workspace(operator: &RuntimeOperator, metas: &[Option<TensorMeta>]) -> usize {
    let (Some(inputs), Some(outputs)) = (all(operator.inputs(), metas), all(operator.outputs(), metas))
    else {
        return 0;
    };
    operator.layer().unwrap().workspace(&inputs, &outputs)
}

/// Inputs of the sizes in the file; all elements differ.
pub(super) fn inputs(graph: &RuntimeGraph) -> Vec<Tensor> {
    let mut start = 1.0;
    let ports = graph.inputs().iter().map(|port| {
        let operand = graph.operand(port.operand);
        let dims: Vec<usize> =
            operand.shape().unwrap().iter().map(|dim| dim.to_string().parse().unwrap()).collect();
        let len = Shape::new(&dims).unwrap().num_elements() as f64;
        start += len;
        Tensor::arange(operand.dtype().unwrap(), start - len, start, 1.0).unwrap().reshape(&dims).unwrap()
    });
    ports.collect()
}

impl Planned {
    pub(super) fn place(&self, operand: &str) -> Place {
        let position = self.graph.operands().iter().position(|o| o.name() == operand);
        self.plan.places[position.unwrap()].unwrap()
    }

    pub(super) fn root(&self, operand: &str) -> Root {
        self.place(operand).root
    }

    pub(super) fn action(&self, operator: &str) -> Action {
        let position = self.graph.operators().iter().position(|o| o.name() == operator);
        self.plan.steps[position.unwrap()].action
    }

    /// Runs the plan in an arena filled with garbage, and compares the outputs with the interpreter's. The graph must not
    /// contain dynamic operators.
    pub(super) fn check(&mut self) {
        self.check_slots();
        let mut inputs = inputs(&self.graph);
        let wanted = self.graph.run_with(inputs.iter().map(|x| x.deep_copy().unwrap()).collect()).unwrap();
        let empty = |tensor: &Tensor| Tensor::zeros(tensor.dtype(), tensor.shape()).unwrap();
        let mut outputs: Vec<Tensor> = wanted.iter().map(empty).collect();
        self.follow(&mut inputs, &mut outputs);
        for (position, (output, wanted)) in outputs.iter().zip(&wanted).enumerate() {
            let donated = self.donations.iter().find(|donation| donation.1 == position);
            let found = donated.map_or(output, |donation| &inputs[donation.0]);
            assert_eq!(
                found.to_le_bytes().unwrap(),
                wanted.to_le_bytes().unwrap(),
                "output {position}: {:#?}",
                self.plan
            );
        }
    }

    /// Checks that slots in use at the same time do not overlap, and that all slots are within the arena.
    fn check_slots(&self) {
        let slots = &self.plan.slots;
        let request =
            |slot: &Slot| Request { bytes: slot.bytes, first: *slot.steps.start(), last: *slot.steps.end() };
        let requests: Vec<Request> = slots.iter().map(request).collect();
        let offsets = slots.iter().map(|slot| slot.offset).collect();
        assert_eq!(clash(&requests, &Packing { offsets, bytes: self.plan.arena_bytes }), None, "{slots:?}");
        assert!(self.plan.lower_bound() <= self.plan.arena_bytes);
        let held = self.plan.slots.iter().filter_map(|slot| match &slot.holds {
            Holds::Operands(operands) => Some(operands.len()),
            Holds::Workspace(_) => None,
        });
        assert!(held.sum::<usize>() <= self.graph.operands().len());
    }

    fn follow(&mut self, inputs: &mut [Tensor], outputs: &mut [Tensor]) {
        let mut arena = Arena::new(self.plan.arena_bytes).unwrap();
        let constants: Vec<Option<Tensor>> = self.constants().collect();
        let is_donated = |input: usize| self.donations.iter().any(|donation| donation.0 == input);
        let mut inputs: Vec<InputBinding<'_>> = inputs
            .iter_mut()
            .enumerate()
            .map(|(position, input)| match is_donated(position) {
                true => InputBinding::Donated(input.view_mut().unwrap()),
                false => InputBinding::Shared(input.view()),
            })
            .collect();
        let mut outputs: Vec<_> = outputs.iter_mut().map(|output| output.view_mut().unwrap()).collect();
        let mut memory =
            Memory { arena: &mut arena, inputs: &mut inputs, outputs: &mut outputs, constants: &constants };
        let bytes = memory.arena.len();
        memory.borrow(&[], &[], 0..bytes).unwrap().scratch.slice::<u8>(bytes).unwrap().fill(0x5a);
        for (step, operator) in self.graph.operators().iter().enumerate() {
            self.step(step, operator, &mut memory);
        }
        for &(operand, output) in &self.plan.copies {
            let donated = self.donations.iter().find(|donation| donation.1 == output);
            let root = donated.map_or(Root::Output(output), |donation| Root::Input(donation.0));
            memory.copy(&self.plan.places[operand].unwrap(), root).unwrap();
        }
    }

    fn constants(&self) -> impl Iterator<Item = Option<Tensor>> {
        let operators = self.graph.operators().iter().zip(&self.constants);
        operators.map(|(operator, &is_constant)| match is_constant {
            true => operator.layer().unwrap().constant(&Limits::default()).unwrap(),
            false => None,
        })
    }

    fn step(&self, step: usize, operator: &RuntimeOperator, memory: &mut Memory<'_, '_>) {
        let places = |operands: &[OperandIndex]| -> Vec<Place> {
            operands.iter().filter_map(|operand| self.plan.places[operand.position()]).collect()
        };
        let (mut reads, writes) = (places(operator.inputs()), places(operator.outputs()));
        let step = &self.plan.steps[step];
        let in_place = match step.action {
            Action::Nothing => return,
            Action::Dynamic => panic!("{} is dynamic", operator.name()),
            Action::Forward => None,
            Action::InPlace { input } => Some(reads.remove(input)),
        };
        let mut borrowed = memory.borrow(&reads, &writes, step.workspace.clone()).unwrap();
        borrowed.scratch.slice::<u8>(step.workspace.len()).unwrap().fill(0x5a);
        let limits = Limits::default();
        let mut layer = operator.layer().unwrap().clone_layer();
        layer.initialize().unwrap();
        let (inputs, outputs) = (all(operator.inputs(), &self.metas), all(operator.outputs(), &self.metas));
        layer.configure(&inputs.unwrap(), &outputs.unwrap()).unwrap();
        let mut context = ForwardContext::new(borrowed.scratch, &limits);
        match in_place {
            Some(data) => {
                let start =
                    |place: &Place| (place.root, place.dtype, place.layout.offset(), *place.layout.shape());
                assert_eq!(
                    start(&data),
                    start(&writes[0]),
                    "an in-place operator reads and writes the same place"
                );
                layer.forward_in_place(&mut borrowed.outputs[0], &borrowed.inputs, &mut context).unwrap();
            }
            None => {
                layer.forward(&mut Io::new(&borrowed.inputs, &mut borrowed.outputs, &mut context)).unwrap()
            }
        }
        layer.terminate();
    }
}
