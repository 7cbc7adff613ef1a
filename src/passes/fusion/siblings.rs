//! Merging linear layers that read the same input into one product, whose result is split.
//!
//! ```text
//! nn.Linear q                 1 1 x a out_features=64
//! nn.Linear k                 1 1 x b out_features=32
//! nn.Linear v                 1 1 x c out_features=32
//!     ↓
//! nn.Linear q                 1 1 x abc out_features=128
//! torch.split q_parts         1 3 abc a b c dim=-1 split_size_or_sections=(64,32,32)
//! ```
//!
//! This pays only if the results are reshaped or transposed next, as in attention, since the parts are views that are not
//! contiguous.

use super::affine::Channels;
use super::site::{NewOperator, only_reader, producer};
use crate::passes::PassContext;
use crate::passes::axes::{is_permutation, is_reshape};
use crate::passes::visit::{Verdict, Visit};
use crate::pnnx::{Attribute, Graph, GraphError, OperandId, OperatorId};

/// The pass.
pub(super) const MERGE_SIBLINGS: Visit = Visit {
    name: "merge_siblings",
    doc: "Merges linear layers that read the same input into one, followed by a split.",
    visit,
};

/// A merged layer, and the parts of its output.
struct Family {
    members: Vec<OperatorId>,
    outputs: Vec<OperandId>,
    sizes: Vec<i64>,
    weight: Attribute,
    bias: Option<Attribute>,
}

fn visit(graph: &mut Graph, _: &PassContext, id: OperatorId) -> Result<Verdict, GraphError> {
    match family(graph, id) {
        Some(family) => family.merge(graph),
        None => Ok(Verdict::Other),
    }
}

/// Returns true if an operator is a linear layer whose result is only reshaped or transposed. If `like` is given, the
/// weights must have its element type and number of input features.
fn is_member(graph: &Graph, id: OperatorId, like: Option<&Attribute>) -> bool {
    let Some(operator) = graph.get_operator(id) else { return false };
    let is_linear = Channels::of(operator).is_some_and(|channels| channels.is_linear());
    let fits = like.is_none_or(|like| {
        operator
            .attr("weight")
            .is_some_and(|own| (own.dtype(), own.shape().get(1)) == (like.dtype(), like.shape().get(1)))
    });
    let views = |op_type: &str| is_reshape(op_type) || is_permutation(op_type);
    is_linear && fits && only_reader(graph, operator).is_some_and(|(_, reader)| views(reader.op_type()))
}

fn family(graph: &Graph, id: OperatorId) -> Option<Family> {
    let first = graph.get_operator(id).filter(|_| is_member(graph, id, None))?;
    let &[input] = first.inputs() else { return None };
    producer(graph, input)?;
    let (like, has_bias) = (first.attr("weight")?, first.has_attr("bias"));
    let same_bias =
        |id: &OperatorId| graph.get_operator(*id).is_some_and(|one| one.has_attr("bias") == has_bias);
    let readers = graph.get_operand(input)?.consumers().iter().copied();
    let members: Vec<OperatorId> =
        readers.filter(|&reader| is_member(graph, reader, Some(like))).filter(same_bias).collect();
    let order = |id: &OperatorId| graph.operator_ids().iter().position(|other| other == id);
    if members.len() < 2 || members.iter().filter_map(order).min() != order(&id) {
        return None;
    }
    let operators = || members.iter().filter_map(|&id| graph.get_operator(id));
    let joined = |key: &str| -> Option<Attribute> {
        let mut all = operators().filter_map(|operator| operator.attr(key)).cloned();
        let first = all.next()?;
        all.try_fold(first, |joined, next| joined.concat(&next).ok())
    };
    let size = |weight: &Attribute| weight.shape().first().and_then(|&len| i64::try_from(len).ok());
    Some(Family {
        outputs: operators().filter_map(|operator| operator.outputs().first()).copied().collect(),
        sizes: operators().map(|operator| size(operator.attr("weight")?)).collect::<Option<_>>()?,
        weight: joined("weight")?,
        bias: if has_bias { Some(joined("bias")?) } else { None },
        members,
    })
}

impl Family {
    fn merge(self, graph: &mut Graph) -> Result<Verdict, GraphError> {
        let Some(&first) = self.members.first() else { return Ok(Verdict::Other) };
        let mut new = NewOperator::like(graph.operator(first)).attr("weight", self.weight);
        new.name = format!("{}_merged", new.name);
        new = new.param("out_features", self.sizes.iter().sum::<i64>());
        if let Some(bias) = self.bias {
            new = new.attr("bias", bias);
        }
        let ids = graph.operator_ids();
        let at = ids.iter().copied().find(|id| self.members.contains(id)).unwrap_or(first);
        let parts = format!("{}_parts", new.name);
        let whole = new.insert(graph, at)?;
        let split = NewOperator::new("torch.split", &parts).input(whole, Some("tensor"));
        let split = split.param("dim", -1).param("split_size_or_sections", self.sizes);
        split.insert_for(graph, at, &self.outputs)?;
        for member in self.members {
            graph.remove_operator(member)?;
        }
        Ok(Verdict::Fired)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, refuses, refuses_without_weights};
    use super::*;

    const QKV: &str = "pnnx.Input in 0 1 i #i=(2,5,8)f32\nF.relu r 1 1 i x\n\
        nn.Linear q 1 1 x a bias=True @weight=(8,8)f32 @bias=(8)f32\n\
        Tensor.reshape rq 1 1 a qq shape=(2,5,2,4) $input=a\n\
        nn.Linear k 1 1 x b bias=True @weight=(4,8)f32 @bias=(4)f32\n\
        Tensor.reshape rk 1 1 b kk shape=(2,5,1,4) $input=b\n\
        nn.Linear v 1 1 x c bias=True @weight=(4,8)f32 @bias=(4)f32\n\
        torch.transpose rv 1 1 c vv dim0=1 dim1=2 $input=c\n\
        pnnx.Output out 3 0 qq kk vv";

    #[test]
    fn three_products_become_one() {
        let left = fires(&MERGE_SIBLINGS, QKV);
        assert_eq!(left[1], "nn.Linear(x)->q_merged_0 bias=True out_features=16");
        assert_eq!(left[2], "torch.split(q_merged_0)->a,b,c dim=-1 split_size_or_sections=(8,4,4)");
        assert_eq!(left.len(), 6);
    }

    #[test]
    fn layers_on_other_inputs_are_left_alone() {
        let one = |text: &str| text.replace("nn.Linear k 1 1 x b", "nn.Linear k 1 1 i b");
        assert_eq!(fires(&MERGE_SIBLINGS, &one(QKV)).len(), 7, "q and v are still merged");
        refuses(
            &MERGE_SIBLINGS,
            &one(QKV)
                .replace("nn.Linear v 1 1 x c", "nn.Linear v 1 1 kk c")
                .replace("(4,8)f32 @bias=(4)f32\ntorch", "(4,4)f32 @bias=(4)f32\ntorch"),
        );
        // Arithmetic on the result would read it with strides.
        let arithmetic =
            QKV.replace("Tensor.reshape rk 1 1 b kk shape=(2,5,1,4) $input=b", "F.relu rk 1 1 b kk");
        let arithmetic =
            arithmetic.replace("Tensor.reshape rq 1 1 a qq shape=(2,5,2,4) $input=a", "F.relu rq 1 1 a qq");
        refuses(&MERGE_SIBLINGS, &arithmetic);
        refuses_without_weights(&MERGE_SIBLINGS, QKV);
    }
}
