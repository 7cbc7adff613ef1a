//! Reusing the slots of a larger plan.

use super::{Holds, MemoryPlan};

impl MemoryPlan {
    /// The same plan with every slot moved to its offset in a plan for larger shapes, so that it fits any arena of the larger
    /// plan. `None` if the plans do not have the same slots, which can happen if a shape decides whether an operator is a
    /// view or works in place.
    pub fn in_slots_of(&self, larger: &Self) -> Option<Self> {
        if self.slots.len() != larger.slots.len() {
            return None;
        }
        let (arena_bytes, device_bytes) = (larger.arena_bytes, larger.device_bytes);
        let mut plan = Self { arena_bytes, device_bytes, ..self.clone() };
        for slot in &mut plan.slots {
            let other = larger.slots.iter().find(|other| other.holds == slot.holds)?;
            if other.steps != slot.steps || other.bytes < slot.bytes || other.device != slot.device {
                return None;
            }
            slot.offset = other.offset;
        }
        for slot in &plan.slots {
            match &slot.holds {
                Holds::Operands(operands) => {
                    for &operand in operands {
                        if let Some(Some(place)) = plan.places.get_mut(operand) {
                            place.root = slot.root();
                        }
                    }
                }
                Holds::Workspace(step) => {
                    plan.steps.get_mut(*step)?.workspace = slot.offset..slot.offset + slot.bytes;
                }
            }
        }
        Some(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::graph::RuntimeGraph;
    use crate::memory::{Problem, Root};
    use crate::op::TensorMeta;
    use crate::pnnx::Graph;
    use crate::shape::Shapes;
    use crate::tensor::DType;

    const CHAIN: &str = "7767517
5 4
pnnx.Input input 0 1 x #x=(?)f32
torch.cumsum a 1 1 x 1 dim=0
torch.cumsum b 1 1 1 2 dim=0
torch.cumsum c 1 1 2 y dim=0
pnnx.Output output 1 0 y
";

    fn plan(len: usize) -> MemoryPlan {
        let mut graph = RuntimeGraph::from_pnnx(Graph::parse(CHAIN, &Limits::default()).unwrap());
        graph.build().unwrap();
        let shapes = Shapes::infer(&graph, &[TensorMeta::new(DType::F32, [len])]).unwrap();
        let problem = Problem {
            graph: &graph,
            metas: shapes.metas(),
            workspaces: &[64, 0, 128],
            constants: &[false; 3],
            donations: &[],
        };
        MemoryPlan::new(&problem).unwrap()
    }

    #[test]
    fn a_smaller_plan_takes_the_offsets_of_a_larger_one() {
        let (small, large) = (plan(10), plan(1000));
        let moved = small.in_slots_of(&large).unwrap();
        let offsets = |plan: &MemoryPlan| plan.slots.iter().map(|slot| slot.offset).collect::<Vec<_>>();
        let mut sorted = [offsets(&moved), offsets(&large)];
        sorted.iter_mut().for_each(|offsets| offsets.sort_unstable());
        assert_eq!(sorted[0], sorted[1]);
        assert_eq!(moved.arena_bytes, large.arena_bytes);
        for (place, other) in moved.places.iter().zip(&large.places) {
            match (place.unwrap().root, other.unwrap().root) {
                (Root::Arena { offset, bytes }, Root::Arena { offset: wanted, bytes: room }) => {
                    assert!(offset == wanted && bytes <= room);
                }
                (root, other) => assert_eq!(root, other),
            }
        }
        for (step, other) in moved.steps.iter().zip(&large.steps) {
            assert_eq!(step.workspace.start, other.workspace.start);
        }
        assert!(large.in_slots_of(&small).is_none());
    }
}
