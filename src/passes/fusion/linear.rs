//! Replacing products with a constant matrix by linear layers.

use crate::passes::{Match, Replacement, Rewrite, Rule};
use crate::pnnx::Attribute;
use crate::tensor::Tensor;

const PRODUCT: &str = "7767517
4 3
pnnx.Input                  input   0 1 x
pnnx.Attribute              matrix  0 1 w       @data=(%features,%outputs)
torch.matmul|Tensor.matmul|torch.mm \
                            product 2 1 x w y   $input=x $other|mat2=w
pnnx.Output                 output  1 0 y
";

const SUM: &str = "7767517
5 4
pnnx.Input                  input   0 1 x
=pnnx.Attribute             summand 0 1 b       @data=(%outputs)
pnnx.Attribute              matrix  0 1 w       @data=(%features,%outputs)
torch.addmm                 product 3 1 b x w y ?alpha=1 ?beta=1 $input=b $mat1=x $mat2=w
pnnx.Output                 output  1 0 y
";

const LINEAR: &str = "7767517
3 2
pnnx.Input                  input   0 1 x
nn.Linear                   product 1 1 x y     bias=False in_features=%features out_features=%outputs
pnnx.Output                 output  1 0 y
";

const LINEAR_WITH_BIAS: &str = "7767517
3 2
pnnx.Input                  input   0 1 x
nn.Linear                   product 1 1 x y     bias=True in_features=%features out_features=%outputs \
                                                @bias=%summand.data
pnnx.Output                 output  1 0 y
";

/// The pass that creates linear layers.
pub(super) fn product_to_linear() -> Rewrite {
    Rewrite::new(
        "product_to_linear",
        "Replaces a product with a constant matrix, optionally plus a constant, by a linear layer.",
    )
    .rule(Rule::new(PRODUCT, LINEAR).write(turn_matrix))
    .rule(Rule::new(SUM, LINEAR_WITH_BIAS).when(is_of_one_type).write(turn_matrix))
}

fn is_of_one_type(found: &Match<'_>) -> Result<(), String> {
    let (bias, matrix) = (found.attribute("summand", "data")?, found.attribute("matrix", "data")?);
    match bias.dtype() == matrix.dtype() && bias.is_present() {
        true => Ok(()),
        false => Err("the summand is missing, or has another type".to_owned()),
    }
}

fn turn_matrix(found: &Match<'_>, new: &mut Replacement) -> Result<(), String> {
    let weight = transposed(found.attribute("matrix", "data")?);
    new.set_attribute("product", "weight", weight.ok_or("the matrix is missing or not of a float type")?)
}

fn transposed(matrix: &Attribute) -> Option<Attribute> {
    if !matrix.dtype().is_float() {
        return None;
    }
    let tensor = Tensor::from_le_bytes(matrix.dtype(), matrix.shape(), &matrix.bytes().ok()?).ok()?;
    let turned = tensor.permute(&[1, 0]).ok()?.contiguous().ok()?;
    Attribute::new(matrix.dtype(), turned.shape().dims().to_vec(), turned.to_le_bytes().ok()?).ok()
}

const RESHAPED: &str = "7767517
5 4
pnnx.Input                  input   0 1 x
=Tensor.reshape|Tensor.view|torch.flatten|Tensor.reshape_as \
                            ahead   2 1 x ... a %*=%*
nn.Linear                   linear  1 1 a b     %*=%*
Tensor.reshape|Tensor.view|torch.flatten|Tensor.reshape_as \
                            behind  2 1 b ... y %*=%*
pnnx.Output                 output  1 0 y
";

const IN_PLACE: &str = "7767517
3 2
pnnx.Input                  input   0 1 x
nn.Linear                   linear  1 1 x y     %*=%*
pnnx.Output                 output  1 0 y
";

/// The pass that removes the reshapes around a linear layer, which a matrix product needs and a linear layer does not.
pub(super) fn linear_in_place() -> Rewrite {
    Rewrite::new(
        "linear_in_place",
        "Removes reshapes to a matrix and back around a linear layer, which accepts any number of axes.",
    )
    .rule(Rule::new(RESHAPED, IN_PLACE).when(rows_come_back))
}

/// Checks that the reshapes keep the features, and that the last one restores the leading axes.
fn rows_come_back(found: &Match<'_>) -> Result<(), String> {
    let dims = |name| found.meta(name).map(|meta| meta.dims());
    let (wide, narrow, product, end) = (dims("x")?, dims("a")?, dims("b")?, dims("y")?);
    let same =
        wide.split_last().zip(end.split_last()).is_some_and(|((features, rows), (outputs, end_rows))| {
            narrow.last() == Some(features) && product.last() == Some(outputs) && rows == end_rows
        });
    if same { Ok(()) } else { Err("the reshapes do not restore the leading axes".to_owned()) }
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
        let left = fires(&product_to_linear(), ADDMM);
        assert_eq!(left.last().unwrap(), "nn.Linear(x)->y bias=True in_features=4 out_features=6");
        let left = fires(&product_to_linear(), MATMUL);
        assert_eq!(left.last().unwrap(), "nn.Linear(x)->y bias=False in_features=4 out_features=6");
    }

    #[test]
    fn other_products_stay() {
        refuses(&product_to_linear(), &ADDMM.replace("alpha=1", "alpha=2"));
        refuses(&product_to_linear(), &ADDMM.replace("@data=(6)f32", "@data=(5,6)f32"));
        refuses(
            &product_to_linear(),
            &MATMUL.replace("x w y $input=x $other=w", "w x y").replace("(2,5,4)", "(2,6,4)"),
        );
        refuses(&product_to_linear(), &MATMUL.replace("(4,6)f32", "(2,4,6)f32"));
        refuses(&product_to_linear(), &MATMUL.replace("out 1 0 y", "out 2 0 y w"));
        refuses_without_weights(&product_to_linear(), MATMUL);
    }

    const MODEL: &str = "pnnx.Input in 0 1 x #x=(2,5,4)f32\nTensor.reshape r 1 1 x a shape=(10,4) $input=x\n\
        nn.Linear p 1 1 a b @weight=(6,4)f32\nTensor.reshape s 1 1 b y shape=(2,5,6) $input=b\npnnx.Output out 1 0 y";

    #[test]
    fn reshapes_to_a_matrix_and_back_are_removed() {
        // Unused operators are left to the pass `dead_code`.
        assert_eq!(fires(&linear_in_place(), MODEL)[1], "nn.Linear(x)->y");
        let read = MODEL.replace("out 1 0 y", "out 2 0 y a");
        assert_eq!(fires(&linear_in_place(), &read).len(), 2);
    }

    #[test]
    fn reshaping_to_anything_else_stays() {
        refuses(&linear_in_place(), &MODEL.replace("shape=(2,5,6)", "shape=(5,2,6)"));
        refuses(&linear_in_place(), &MODEL.replace("shape=(2,5,6)", "shape=(2,5,3,2)"));
        refuses(&linear_in_place(), &MODEL.replace("(10,4)", "(20,2)").replace("(6,4)f32", "(3,2)f32"));
        refuses(&linear_in_place(), &MODEL.replace("out 1 0 y", "out 2 0 y b"));
    }
}
