//! The sizes that formats are selected for where sizes depend on values.

use crate::graph::RuntimeGraph;
use crate::op::TensorMeta;
use crate::pnnx;
use crate::shape::Shapes;
use crate::tensor::{Dim, DimExpr};
use std::collections::BTreeMap;

/// The metadata of all operands, with numbers for the lengths that depend on values: those that the file records for its
/// sample, as for the lengths of inputs. A length that it does not record, or records as 0, counts as 1.
pub(super) fn assumed(graph: &RuntimeGraph, shapes: &Shapes) -> Vec<Option<TensorMeta>> {
    let mut recorded: BTreeMap<&str, i64> = BTreeMap::new();
    for (operand, meta) in graph.operands().iter().zip(shapes.metas()) {
        let (Some(sample), Some(meta)) = (operand.shape(), meta) else { continue };
        for (dim, found) in meta.dims().iter().zip(sample) {
            if let (Dim::Symbolic(expr), pnnx::Dim::Fixed(len)) = (dim, found)
                && let DimExpr::Symbol(name) = &**expr
                && let Ok(len @ 1..) = i64::try_from(*len)
            {
                recorded.entry(name.as_str()).or_insert(len);
            }
        }
    }
    let length = |name: &str| Some(Dim::Fixed(recorded.get(name).copied().unwrap_or(1)));
    shapes.metas().iter().map(|meta| Some(meta.as_ref()?.replace(&length))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::graph::OperandIndex;
    use crate::pnnx::Graph;
    use crate::tensor::DType;

    /// The assumed shapes of the operands `p` and `q` for an input of 2×3, given what the file says about them.
    fn assumed_of(p: &str, q: &str) -> [String; 2] {
        let text = format!(
            "7767517\n4 3\npnnx.Input in 0 1 x #x=(2,3)f32\naten::nonzero find 1 1 x p {p}\n\
             torch.cat twice 2 1 p p q dim=0 {q}\npnnx.Output out 1 0 q\n"
        );
        let mut graph = RuntimeGraph::from_pnnx(Graph::parse(&text, &Limits::default()).unwrap());
        graph.build().unwrap();
        let shapes = Shapes::infer(&graph, &[TensorMeta::new(DType::F32, [2, 3])]).unwrap();
        let metas = assumed(&graph, &shapes);
        ["p", "q"].map(|name| {
            let position = graph.operands().iter().position(|operand| operand.name() == name).unwrap();
            assert!(!shapes.get(OperandIndex::new(position)).unwrap().is_fixed());
            metas[position].as_ref().unwrap().to_string()
        })
    }

    #[test]
    fn lengths_that_depend_on_values_are_those_of_the_sample() {
        assert_eq!(assumed_of("#p=(5,2)i64", "#q=(10,2)i64"), ["5×2 i64", "10×2 i64"]);
    }

    #[test]
    fn lengths_that_are_not_recorded_count_as_one() {
        for recorded in ["", "#p=(?,2)i64", "#p=(0,2)i64"] {
            assert_eq!(assumed_of(recorded, "#q=(10,2)i64"), ["1×2 i64", "2×2 i64"]);
        }
    }
}
