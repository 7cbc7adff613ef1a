//! Operators that only reshape a tensor or permute its axes.

use crate::op::{Elements, Properties};
use crate::pnnx::Operator;

/// Returns true if an operator only changes the shape and keeps the elements in row-major order.
pub(super) fn is_reshape(op_type: &str) -> bool {
    matches!(Properties::of(op_type).elements, Elements::Reshaped | Elements::Unsqueezed)
}

/// Returns true if an operator only permutes axes.
pub(super) fn is_permutation(op_type: &str) -> bool {
    Properties::of(op_type).elements == Elements::Permuted
}

/// The permutation of an operator that only permutes axes: for each axis of the output, the axis of the input.
pub(super) fn order_of(operator: &Operator, rank: usize) -> Option<Vec<usize>> {
    let axis = |axis: i64| {
        let axis = if axis < 0 { axis.checked_add(i64::try_from(rank).ok()?)? } else { axis };
        usize::try_from(axis).ok().filter(|&axis| axis < rank)
    };
    let mut order: Vec<usize> = (0..rank).collect();
    if !is_permutation(operator.op_type()) {
        return None;
    }
    if operator.has_param("dims") {
        let dims = operator.get::<Vec<i64>>("dims").ok()?;
        order = dims.into_iter().map(axis).collect::<Option<_>>()?;
    } else if operator.has_param("dim0") {
        order.swap(axis(operator.get("dim0").ok()?)?, axis(operator.get("dim1").ok()?)?);
    } else if rank <= 2 && operator.inputs().len() == 1 {
        order.reverse();
    } else {
        return None;
    }
    let mut sorted = order.clone();
    sorted.sort_unstable();
    sorted.into_iter().eq(0..rank).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::super::testing::graph;
    use super::*;

    #[test]
    fn orders() {
        let order = |line: &str, rank| {
            let graph = graph(&format!("pnnx.Input in 0 1 0\n{line}\npnnx.Output out 1 0 1"));
            order_of(graph.operator(graph.operator_named("p").unwrap()), rank)
        };
        assert_eq!(order("Tensor.permute p 1 1 0 1 dims=(0,-1,1)", 3), Some(vec![0, 2, 1]));
        assert_eq!(order("torch.transpose p 1 1 0 1 dim0=-1 dim1=0", 3), Some(vec![2, 1, 0]));
        assert_eq!(order("torch.t p 1 1 0 1", 2), Some(vec![1, 0]));
        assert_eq!(order("Tensor.permute p 1 1 0 1 dims=(0,0)", 2), None);
        assert_eq!(order("torch.transpose p 1 1 0 1 dim0=0 dim1=3", 3), None);
        assert_eq!(order("nn.ReLU p 1 1 0 1", 3), None);
    }
}
