//! Products with a constant matrix are linear layers.
//!
//! ```text
//! pnnx.Attribute w            0 1 w @data=(64,192)f32
//! torch.matmul product        2 1 x w y $input=x $other=w
//!     ↓
//! nn.Linear product           1 1 x y bias=False in_features=64 out_features=192 @weight=(192,64)f32
//! ```

use super::site::{NewOperator, meta, only_reader, own_producer, producer};
use super::visit::{Verdict, Visit};
use super::weights;
use crate::passes::Facts;
use crate::passes::writes::written_through;
use crate::pnnx::{Attribute, Graph, GraphError, OperandId, Operator, OperatorId};
use crate::tensor::Tensor;

/// The pass that makes them.
pub(super) const PRODUCT_TO_LINEAR: Visit = Visit {
    name: "product_to_linear",
    doc: "The product with a constant matrix, plus a constant, is a linear layer.",
    visit: product,
};

/// The pass that takes away what a product of matrices needed and a linear layer does not.
pub(super) const LINEAR_IN_PLACE: Visit = Visit {
    name: "linear_in_place",
    doc: "A linear layer takes any number of axes: reshaping to a matrix and back is left out.",
    visit: in_place,
};

/// Input, matrix and summand of a product.
struct Factors {
    input: OperandId,
    matrix: OperandId,
    summand: Option<OperandId>,
}

impl Factors {
    fn of(operator: &Operator) -> Option<Self> {
        let inputs = operator.inputs();
        let find = |key: &str, position: usize| {
            let is_unnamed = operator.input_names().iter().all(Option::is_none);
            operator.named_input(key).or_else(|| inputs.get(position).copied().filter(|_| is_unnamed))
        };
        let one = |key: &str| operator.get_or(key, 1.0).is_ok_and(|factor| factor == 1.0);
        match (operator.op_type(), inputs.len()) {
            ("torch.matmul" | "Tensor.matmul", 2) => {
                Some(Self { input: find("input", 0)?, matrix: find("other", 1)?, summand: None })
            }
            ("torch.mm", 2) => {
                Some(Self { input: find("input", 0)?, matrix: find("mat2", 1)?, summand: None })
            }
            ("torch.addmm", 3) if one("alpha") && one("beta") => Some(Self {
                input: find("mat1", 1)?,
                matrix: find("mat2", 2)?,
                summand: Some(find("input", 0)?),
            }),
            _ => None,
        }
    }
}

fn product(graph: &mut Graph, _: &Facts, id: OperatorId) -> Result<Verdict, GraphError> {
    let Some(operator) = graph.get_operator(id).filter(|operator| !operator.has_param("epilogue")) else {
        return Ok(Verdict::Other);
    };
    let Some(factors) = Factors::of(operator) else { return Ok(Verdict::Other) };
    let Some(matrix) = weights::constant(graph, factors.matrix) else { return Ok(Verdict::Other) };
    let &[features, outputs] = matrix.shape() else { return Ok(Verdict::Other) };
    if graph.operand(factors.matrix).consumers().len() > 1 {
        return Ok(Verdict::Refused("others read the matrix, too: it would be stored twice".to_owned()));
    }
    let bias = match factors.summand {
        None => None,
        Some(summand) => match weights::constant(graph, summand) {
            Some(bias) if bias.shape() == [outputs] && bias.dtype() == matrix.dtype() => Some(bias.clone()),
            _ => return Ok(Verdict::Refused("what is added is no constant for each column".to_owned())),
        },
    };
    let Some(weight) = transposed(matrix) else { return Ok(Verdict::Other) };
    let size = |len: usize| i64::try_from(len).unwrap_or(i64::MAX);
    let mut new = NewOperator::new("nn.Linear", operator.name()).input(factors.input, None);
    new = new.param("in_features", size(features)).param("out_features", size(outputs));
    new = new.param("bias", bias.is_some()).attr("weight", weight);
    if let Some(bias) = bias {
        new = new.attr("bias", bias);
    }
    new.replace(graph, &[id])?;
    Ok(Verdict::Fired)
}

fn transposed(matrix: &Attribute) -> Option<Attribute> {
    if !matrix.dtype().is_float() {
        return None;
    }
    let tensor = Tensor::from_le_bytes(matrix.dtype(), matrix.shape(), &matrix.bytes().ok()?).ok()?;
    let turned = tensor.permute(&[1, 0]).ok()?.contiguous().ok()?;
    Attribute::new(matrix.dtype(), turned.shape().dims().to_vec(), turned.to_le_bytes().ok()?).ok()
}

fn is_reshape(operator: &Operator) -> bool {
    matches!(operator.op_type(), "Tensor.reshape" | "Tensor.view" | "torch.flatten" | "Tensor.reshape_as")
}

/// ```text
/// Tensor.reshape ahead        1 1 x a   #x=(2,16,64)f32 #a=(32,64)f32
/// nn.Linear fc                1 1 a b   #b=(32,192)f32
/// Tensor.reshape behind       1 1 b y   #y=(2,16,192)f32
/// ```
fn in_place(graph: &mut Graph, facts: &Facts, id: OperatorId) -> Result<Verdict, GraphError> {
    let Some(found) = reshaped(graph, facts, id) else { return Ok(Verdict::Other) };
    let (outer, ahead, behind) = found;
    if written_through(graph).contains(&behind) {
        return Ok(Verdict::Refused("what it is reshaped to is written to".to_owned()));
    }
    let mut new = NewOperator::like(graph.operator(id));
    new.inputs = vec![(outer, None)];
    new.replace(graph, &[behind, id])?;
    if graph.operator(ahead).outputs().iter().all(|&output| graph.operand(output).consumers().is_empty()) {
        graph.remove_operator(ahead)?;
    }
    Ok(Verdict::Fired)
}

fn reshaped(graph: &Graph, facts: &Facts, id: OperatorId) -> Option<(OperandId, OperatorId, OperatorId)> {
    let linear = graph.get_operator(id).filter(|operator| operator.op_type() == "nn.Linear")?;
    let &[input] = linear.inputs() else { return None };
    let (ahead, first) = producer(graph, input).filter(|(_, first)| is_reshape(first))?;
    let (behind, last) = only_reader(graph, linear).filter(|(_, last)| is_reshape(last))?;
    let (&outer, &result) = (first.inputs().first()?, last.outputs().first()?);
    own_producer(graph, *linear.outputs().first()?, behind)?;
    if last.inputs().first() != linear.outputs().first() {
        return None;
    }
    let dims = |operand| meta(graph, facts, operand).map(|meta| meta.dims());
    let (wide, narrow, product, end) =
        (dims(outer)?, dims(input)?, dims(*linear.outputs().first()?)?, dims(result)?);
    let (features, rows) = wide.split_last()?;
    let (outputs, end_rows) = end.split_last()?;
    // The rows keep their features, and come back as they were.
    (narrow.last() == Some(features) && product.last() == Some(outputs) && rows == end_rows)
        .then_some((outer, ahead, behind))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, refuses, refuses_without_weights};
    use super::*;

    const ADDMM: &str = "pnnx.Input in 0 1 x #x=(5,4)f32\npnnx.Attribute w 0 1 w @data=(4,6)f32\n\
        pnnx.Attribute b 0 1 b @data=(6)f32\n\
        torch.addmm p 3 1 b x w y alpha=1 beta=1 $input=b $mat1=x $mat2=w\npnnx.Output out 1 0 y";
    const MATMUL: &str = "pnnx.Input in 0 1 x #x=(2,5,4)f32\npnnx.Attribute w 0 1 w @data=(4,6)f32\n\
        torch.matmul p 2 1 x w y $input=x $other=w\npnnx.Output out 1 0 y";

    #[test]
    fn constant_matrices_become_weights() {
        let left = fires(&PRODUCT_TO_LINEAR, ADDMM);
        assert_eq!(left.last().unwrap(), "nn.Linear(x)->y bias=True in_features=4 out_features=6");
        let left = fires(&PRODUCT_TO_LINEAR, MATMUL);
        assert_eq!(left.last().unwrap(), "nn.Linear(x)->y bias=False in_features=4 out_features=6");
    }

    #[test]
    fn other_products_stay() {
        refuses(&PRODUCT_TO_LINEAR, &ADDMM.replace("alpha=1", "alpha=2"));
        refuses(&PRODUCT_TO_LINEAR, &ADDMM.replace("@data=(6)f32", "@data=(5,6)f32"));
        refuses(
            &PRODUCT_TO_LINEAR,
            &MATMUL.replace("x w y $input=x $other=w", "w x y").replace("(2,5,4)", "(2,6,4)"),
        );
        refuses(&PRODUCT_TO_LINEAR, &MATMUL.replace("(4,6)f32", "(2,4,6)f32"));
        refuses(&PRODUCT_TO_LINEAR, &MATMUL.replace("out 1 0 y", "out 2 0 y w"));
        refuses_without_weights(&PRODUCT_TO_LINEAR, MATMUL);
    }

    const RESHAPED: &str = "pnnx.Input in 0 1 x #x=(2,5,4)f32\nTensor.reshape r 1 1 x a shape=(10,4) $input=x\n\
        nn.Linear p 1 1 a b @weight=(6,4)f32\nTensor.reshape s 1 1 b y shape=(2,5,6) $input=b\npnnx.Output out 1 0 y";

    #[test]
    fn reshaping_to_a_matrix_and_back_is_left_out() {
        assert_eq!(fires(&LINEAR_IN_PLACE, RESHAPED), ["nn.Linear(x)->y"]);
        let read = RESHAPED.replace("out 1 0 y", "out 2 0 y a");
        assert_eq!(fires(&LINEAR_IN_PLACE, &read).len(), 2);
    }

    #[test]
    fn reshaping_to_anything_else_stays() {
        refuses(&LINEAR_IN_PLACE, &RESHAPED.replace("shape=(2,5,6)", "shape=(5,2,6)"));
        refuses(&LINEAR_IN_PLACE, &RESHAPED.replace("shape=(2,5,6)", "shape=(2,5,3,2)"));
        refuses(&LINEAR_IN_PLACE, &RESHAPED.replace("(10,4)", "(20,2)").replace("(6,4)f32", "(3,2)f32"));
        refuses(&LINEAR_IN_PLACE, &RESHAPED.replace("out 1 0 y", "out 2 0 y b"));
    }
}
