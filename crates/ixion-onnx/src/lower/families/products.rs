//! Matrix products.

use crate::OnnxError;
use crate::lower::call::{Outputs, Table, one};
use crate::lower::{Call, Constant};
use ixion_pnnx::{Attribute, OperandId, Parameter};

pub(super) const TABLE: Table = &[("Det", det), ("Einsum", einsum), ("Gemm", gemm), ("MatMul", matmul)];

/// `MatMul`. Passes turn a product with a constant matrix into a linear layer.
fn matmul(call: &mut Call<'_>) -> Outputs {
    let (a, b) = (call.input(0)?, call.input(1)?);
    one(call.emit("torch.matmul").named("input", a).named("other", b).one())
}

/// The attributes of `Gemm`: alpha · A·B + beta · C.
struct Gemm {
    alpha: f32,
    beta: f32,
    turns_a: bool,
    turns_b: bool,
}

impl Gemm {
    fn of(call: &Call<'_>) -> Result<Self, OnnxError> {
        // Since version 7, C is always broadcast.
        call.ignore(&["broadcast"]);
        Ok(Self {
            alpha: call.float("alpha")?.unwrap_or(1.0),
            beta: call.float("beta")?.unwrap_or(1.0),
            turns_a: call.flag_or("transA", false)?,
            turns_b: call.flag_or("transB", false)?,
        })
    }
}

/// `Gemm`: a linear layer if its weights are known and have PyTorch's order; else a product, which passes turn into one if they
/// can.
fn gemm(call: &mut Call<'_>) -> Outputs {
    let gemm = Gemm::of(call)?;
    let (weight, bias) = (call.constant(1)?, known_bias(call)?);
    let is_plain = gemm.alpha == 1.0 && gemm.beta == 1.0 && !gemm.turns_a;
    if let (true, true, Some(weight), Some(bias)) = (is_plain, gemm.turns_b, &weight, &bias)
        && let Some(linear) = linear(call, weight, bias)?
    {
        return one(Ok(linear));
    }
    let (a, b) = (call.input(0)?, call.input(1)?);
    let a = turned(call, a, gemm.turns_a)?;
    let b = turned(call, b, gemm.turns_b)?;
    let summand = match bias {
        // Passes know a bias of one axis.
        Some(Bias::Row(row)) => Some(row_operand(call, &row)?),
        _ => call.optional_input(2)?,
    };
    let Some(summand) = summand.filter(|_| gemm.beta != 0.0) else {
        let product = call.emit("torch.mm").named("input", a).named("mat2", b).one()?;
        return match gemm.alpha == 1.0 {
            true => one(Ok(product)),
            false => one(call.expression(&format!("mul(@0,{})", written(gemm.alpha).raw()), &[product])),
        };
    };
    let emit = call.emit("torch.addmm").named("input", summand).named("mat1", a).named("mat2", b);
    one(emit.param("alpha", written(gemm.alpha)).param("beta", written(gemm.beta)).one())
}

/// A factor; a whole one as an integer, which products of integers can have.
fn written(factor: f32) -> Parameter {
    match factor.fract() == 0.0 && factor.abs() < 1e9 {
        true => (factor as i64).into(),
        false => factor.into(),
    }
}

/// The summand of a product whose value is known.
enum Bias {
    /// There is none.
    None,
    /// One number for each column.
    Row(Attribute),
}

/// The summand if it is known, and one number for each column; `None` for any other.
fn known_bias(call: &mut Call<'_>) -> Result<Option<Bias>, OnnxError> {
    if !call.has_input(2) {
        return Ok(Some(Bias::None));
    }
    let Some(constant) = call.constant(2)? else { return Ok(None) };
    let attribute = constant.attribute();
    Ok(match *attribute.shape() {
        [_] => Some(Bias::Row(attribute.clone())),
        [1, columns] => {
            Some(Bias::Row(Attribute::new(attribute.dtype(), vec![columns], attribute.bytes()?)?))
        }
        _ => None,
    })
}

fn row_operand(call: &mut Call<'_>, row: &Attribute) -> Result<OperandId, OnnxError> {
    call.emit("pnnx.Attribute").attribute("data", row.clone()).one()
}

/// A linear layer with weights as PyTorch stores them; `None` if they do not fit each other.
fn linear(call: &mut Call<'_>, weight: &Constant, bias: &Bias) -> Result<Option<OperandId>, OnnxError> {
    let &[outputs, inputs] = weight.shape() else { return Ok(None) };
    let is_float = weight.dtype().is_float();
    let fits = match bias {
        Bias::None => true,
        Bias::Row(row) => row.dtype() == weight.dtype() && row.shape() == [outputs],
    };
    if !is_float || !fits {
        return Ok(None);
    }
    let x = call.input(0)?;
    let signed = |len: usize| i64::try_from(len).unwrap_or(i64::MAX);
    let emit = call
        .emit("nn.Linear")
        .input(x)
        .param("bias", matches!(bias, Bias::Row(_)))
        .param("in_features", signed(inputs))
        .param("out_features", signed(outputs))
        .attribute("weight", weight.attribute().clone());
    Ok(Some(match bias {
        Bias::None => emit.one()?,
        Bias::Row(row) => emit.attribute("bias", row.clone()).one()?,
    }))
}

/// A matrix with its last two axes exchanged, if it is to be turned.
pub(super) fn turned(call: &mut Call<'_>, matrix: OperandId, turns: bool) -> Result<OperandId, OnnxError> {
    match turns {
        true => call.emit("torch.transpose").named("input", matrix).param("dim0", -2).param("dim1", -1).one(),
        false => Ok(matrix),
    }
}

/// `Einsum`.
fn einsum(call: &mut Call<'_>) -> Outputs {
    let equation = call.string("equation")?.ok_or_else(|| call.missing("equation"))?;
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let inputs = call.inputs_from(0)?;
    one(call.operator("torch.einsum", &inputs, &[("equation", equation.into())]))
}

/// `Det`, under its own name.
fn det(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    one(call.operator("Det", &[x], &[]))
}

#[cfg(test)]
mod tests {
    use crate::lower::testing::{FLOAT, graph, lines, node, of_int, tensor, value};

    fn gemm(weights: &[i64], bias: &[i64], turned: i64) -> Vec<String> {
        let node = node("Gemm", &["x", "w", "b"], &["y"], vec![of_int("transB", turned)]);
        let mut graph = graph(&["x"], vec![node], &["y"]);
        graph.input = vec![value("x", FLOAT, &[2, 3])];
        let stored = |name, dims: &[i64]| {
            let bytes = vec![0; dims.iter().product::<i64>() as usize * 4];
            tensor(name, FLOAT, dims, &bytes)
        };
        graph.initializer = vec![stored("w", weights), stored("b", bias)];
        lines(graph)
    }

    #[test]
    fn known_weights_become_a_linear_layer() {
        let linear = ["nn.Linear x -> y bias=True in_features=3 out_features=4"];
        assert_eq!(gemm(&[4, 3], &[4], 1), linear);
        assert_eq!(gemm(&[4, 3], &[1, 4], 1), linear);
    }

    #[test]
    fn other_products_stay_products() {
        let last = |lines: Vec<String>| lines.last().cloned().unwrap_or_default();
        assert!(last(gemm(&[3, 4], &[4], 0)).starts_with("torch.addmm"));
        assert!(last(gemm(&[4, 3], &[2, 4], 1)).starts_with("torch.addmm"));
    }
}
