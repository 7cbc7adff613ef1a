//! Operators that show by themselves that PNNX has lost a part of the model, whatever they return.

use super::evidence::Evidence;
use crate::graph::{OperandIndex, OperatorIndex, RuntimeGraph, RuntimeOperand, RuntimeOperator};
use crate::op::{Properties, RuntimeAttribute, WeightSource, Writes};
use crate::pnnx::{self, Expr, Function};
use crate::tensor::DType;
use std::collections::BTreeMap;

/// The reason why an operator cannot be what the exported model had in its place, whatever it returns.
pub(super) fn suspicion(graph: &RuntimeGraph, operator: &RuntimeOperator) -> Option<Evidence> {
    let itself = itself(graph, operator).or_else(|| stored_product(graph, operator));
    itself.or_else(|| written_constant(graph, operator))
}

/// The operand that an expression reads by two names.
///
/// An expression has one name for each operand, unless PNNX drops or merges operators afterwards. It drops slices of axes of
/// unknown size, in error. Rightly, it drops `x[:]` and a padding by nothing, which models hardly have, and, if all sizes are
/// known, reshapes to the same shape. It merges equal operators, as in `sigmoid(x) * (1 - sigmoid(x))`. So there is no doubt about
/// inputs of the model, which cannot be merged, with axes of unknown size. Of other tensors, only the difference and the quotient
/// of multiples of one tensor are evidence, for no model computes `y - 0.97 * y`. Lists have a name for each item, and their
/// items may repeat.
fn itself(graph: &RuntimeGraph, operator: &RuntimeOperator) -> Option<Evidence> {
    let inputs = operator.inputs();
    let mut numbered = inputs.iter().enumerate();
    let is_repeated = numbered.any(|(at, input)| inputs.iter().take(at).any(|it| it == input));
    if operator.op_type() != "pnnx.Expression" || !is_repeated {
        return None;
    }
    let expr = Expr::parse(operator.params().get("expr")?.raw()).ok()?;
    let found = with_two_names(graph, inputs, &expr).or_else(|| against_itself(graph, inputs, &expr))?;
    Some(Evidence::Itself { operand: graph.operand(found).name().to_owned() })
}

/// The input of the model with an axis of unknown size whose elements an expression reads by two names.
fn with_two_names(graph: &RuntimeGraph, inputs: &[OperandIndex], expr: &Expr) -> Option<OperandIndex> {
    let mut names = Vec::new();
    read(expr, &mut names);
    let mut first_names = BTreeMap::new();
    let mut operands = names.into_iter().filter_map(|name| Some((name, *inputs.get(name)?)));
    let (_, found) = operands.find(|(name, operand)| {
        let is_second = *first_names.entry(*operand).or_insert(*name) != *name;
        is_second && graph.operand(*operand).producer().is_none() && has_unknown_size(graph, *operand)
    })?;
    Some(found)
}

/// Whether the file records an axis of unknown size.
fn has_unknown_size(graph: &RuntimeGraph, operand: OperandIndex) -> bool {
    graph.operand(operand).shape().is_some_and(|dims| dims.contains(&pnnx::Dim::Unknown))
}

/// Collects the names of the inputs whose elements an expression reads, not their sizes alone.
fn read(expr: &Expr, names: &mut Vec<usize>) {
    match expr {
        Expr::Input(name) => names.push(*name),
        Expr::Call { function: Function::Size, .. } | Expr::List(_) => {}
        other => other.children().iter().for_each(|child| read(child, names)),
    }
}

/// The operand that an expression subtracts from itself, or divides by itself, by two names. If it has an axis of unknown size,
/// this may be multiples of it.
fn against_itself(graph: &RuntimeGraph, inputs: &[OperandIndex], expr: &Expr) -> Option<OperandIndex> {
    let mut found = None;
    expr.walk(&mut |part| {
        let Expr::Call { function: Function::Sub | Function::Div, args } = part else { return };
        let [left, right] = args.as_slice() else { return };
        let (Some(a), Some(b)) = (multiplied(left), multiplied(right)) else { return };
        let (Some(&operand), Some(&other)) = (inputs.get(a), inputs.get(b)) else { return };
        let are_plain = matches!((left, right), (Expr::Input(_), Expr::Input(_)));
        if a != b && operand == other && (are_plain || has_unknown_size(graph, operand)) {
            found = Some(operand);
        }
    });
    found
}

/// The name of the input of which an expression is a multiple.
fn multiplied(expr: &Expr) -> Option<usize> {
    let is_number = |expr: &Expr| matches!(expr, Expr::Int(_) | Expr::Float(_));
    match expr {
        Expr::Input(name) => Some(*name),
        Expr::Call { function, args } => match (function, args.as_slice()) {
            (Function::Neg, [x]) => multiplied(x),
            (Function::Mul | Function::Div, [x, factor]) if is_number(factor) => multiplied(x),
            (Function::Mul, [factor, x]) if is_number(factor) => multiplied(x),
            _ => None,
        },
        _ => None,
    }
}

/// The stored product of a recurrent cell to which an expression adds another. Only these cells use `aten::unsafe_chunk`, which
/// divides the sum in `nn.LSTMCell`, and each product in `nn.GRUCell`.
fn stored_product(graph: &RuntimeGraph, operator: &RuntimeOperator) -> Option<Evidence> {
    let (&[a, b], &[sum]) = (operator.inputs(), operator.outputs()) else { return None };
    let is = |operator: OperatorIndex, op_type: &str| graph.operator(operator).op_type() == op_type;
    let is_from = |operand: OperandIndex, op_type: &str| {
        graph.operand(operand).producer().is_some_and(|producer| is(producer, op_type))
    };
    let is_sum = operator.op_type() == "pnnx.Expression"
        && operator.params().get("expr").is_some_and(|expr| expr.raw() == "add(@0,@1)");
    let (stored, other) = if is_from(a, "pnnx.Attribute") { (a, b) } else { (b, a) };
    let mut consumers = graph.operand(sum).consumers().iter();
    let is_of_cell =
        is_from(other, "aten::unsafe_chunk") || consumers.any(|&consumer| is(consumer, "aten::unsafe_chunk"));
    if !is_sum || !is_of_cell || !is_from(stored, "pnnx.Attribute") {
        return None;
    }
    // A stored bias would be a vector.
    let (stored, other) = (graph.operand(stored), graph.operand(other));
    let is_product = stored.shape().is_some() && stored.shape() == other.shape();
    is_product.then(|| Evidence::Product { operand: stored.name().to_owned() })
}

/// The constant into which an operator writes although PNNX's sample is written there already.
///
/// PNNX writes `total.index_add_(…)` like `total.index_add(…)`. If `total` depends on no input, it stores it, as it is after the
/// model has run on a sample of ones. A constant whose elements differ is suspicious, since a model creates those that it writes
/// into by `zeros` or `full`. A false alarm takes one such as `torch.eye(n)` that `forward` creates, and writes into by a function
/// that is not in place; buffers and parameters keep their names, so they are never suspected. Nor are writes that hide what was
/// there: to places that are constant, or of as many elements as the constant has, as when a permutation is inverted. Filling by
/// a mask is not a write in this sense, since masks of attention are joined that way.
fn written_constant(graph: &RuntimeGraph, operator: &RuntimeOperator) -> Option<Evidence> {
    let writes = Properties::of(operator.op_type()).writes?;
    let constant = graph.operand(*operator.inputs().first()?);
    let producer = graph.operator(constant.producer()?);
    if producer.op_type() != "pnnx.Attribute" || !producer.name().starts_with("pnnx_fold") {
        return None;
    }
    let attribute = producer.attrs().values().next()?;
    let is_hidden = || has_constant_places(graph, operator) || replaces_all(graph, operator, attribute);
    if !combines(operator, writes) && is_hidden() {
        return None;
    }
    has_different_elements(attribute).then(|| Evidence::Written { operand: constant.name().to_owned() })
}

/// Whether an operator computes what it writes from what is there.
fn combines(operator: &RuntimeOperator, writes: Writes) -> bool {
    let is_set = |key: &str| {
        let value = operator.params().get(key);
        value.is_some_and(|value| !value.is_none() && value.raw() != "False")
    };
    writes == Writes::Combines || is_set("accumulate") || is_set("reduce")
}

/// Whether the places to which an operator writes do not depend on the model's inputs.
fn has_constant_places(graph: &RuntimeGraph, operator: &RuntimeOperator) -> bool {
    let is_constant = |operand: OperandIndex| {
        let producer = graph.operand(operand).producer();
        producer.is_some_and(|producer| graph.operator(producer).inputs().is_empty())
    };
    operator.inputs().iter().zip(operator.input_names()).all(|(&input, name)| {
        // The items of a list of indices have no names.
        let is_place = name.as_deref().is_none_or(|name| matches!(name, "index" | "indices" | "mask"));
        !is_place || is_constant(input)
    })
}

/// Whether an operator writes at least as many elements as a constant has. A mask has as many, but selects fewer.
fn replaces_all(graph: &RuntimeGraph, operator: &RuntimeOperator, constant: &RuntimeAttribute) -> bool {
    let count = constant.shape().iter().try_fold(1u64, |count, &len| count.checked_mul(len as u64));
    let is_as_many = |operand: &RuntimeOperand| {
        let is_mask = operand.dtype() == Some(DType::Bool);
        !is_mask && count.is_some() && recorded_count(operand) >= count
    };
    operator.inputs().iter().skip(1).any(|&input| is_as_many(graph.operand(input)))
}

/// The recorded number of elements of an operand.
fn recorded_count(operand: &RuntimeOperand) -> Option<u64> {
    let len = |dim: &pnnx::Dim| match dim {
        pnnx::Dim::Fixed(len) => Some(*len),
        _ => None,
    };
    operand.shape()?.iter().map(len).try_fold(1u64, |count, len| count.checked_mul(len?))
}

/// Whether the elements of a weight differ. Random ones are not those of the model.
fn has_different_elements(weight: &RuntimeAttribute) -> bool {
    if matches!(weight.source(), WeightSource::Random { .. }) {
        return false;
    }
    let bytes = weight.load().ok().and_then(|tensor| tensor.to_le_bytes().ok()).unwrap_or_default();
    let mut elements = bytes.chunks_exact(weight.dtype().size());
    let first = elements.next();
    elements.any(|element| Some(element) != first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::pnnx::Attribute;
    use crate::shape::contradictions;

    /// The contradictions in a model of these lines, whose constants have these elements.
    fn texts(lines: &str, elements: &[f32]) -> Vec<String> {
        let lines: Vec<&str> = lines.lines().map(str::trim).collect();
        let text = format!("7767517\n{} 9\n{}\n", lines.len(), lines.join("\n"));
        let mut file = pnnx::Graph::parse(&text, &Limits::default()).unwrap();
        for id in file.operator_ids().to_vec() {
            if let Some(shape) = file.operator(id).attr("data").map(|data| data.shape().to_vec()) {
                let count = shape.iter().product();
                let elements: Vec<f32> = elements.iter().copied().cycle().take(count).collect();
                file.set_attribute(id, "data", Attribute::from_f32s(shape, &elements).unwrap()).unwrap();
            }
        }
        let mut graph = RuntimeGraph::from_pnnx(file);
        graph.build().unwrap();
        contradictions(&graph).unwrap().iter().map(ToString::to_string).collect()
    }

    const NOTHING: [&str; 0] = [];

    #[test]
    fn products_of_cells_that_contain_the_sample() {
        let lstm = |stored: &str| {
            let lines = format!(
                "pnnx.Input in 0 1 a #a=(2,8)f32
                 pnnx.Attribute fold 0 1 h @data={stored}f32 #h={stored}f32
                 pnnx.Expression e 2 1 h a b expr=add(@0,@1) #b=(2,8)f32
                 aten::unsafe_chunk c 1 1 b l chunks=4 dim=1
                 prim::ListUnpack u 1 4 l i f g o #i=(2,2)f32 #f=(2,2)f32 #g=(2,2)f32 #o=(2,2)f32
                 pnnx.Output out 4 0 i f g o"
            );
            texts(&lines, &[0.5])
        };
        let wanted =
            ["pnnx.Expression `e` adds `h`, a product of a recurrent cell that contains PNNX's sample"];
        assert_eq!(lstm("(2,8)"), wanted);
        assert_eq!(lstm("(8)"), NOTHING);
        let gru = "pnnx.Input in 0 1 a #a=(2,6)f32
             aten::unsafe_chunk c 1 1 a l chunks=3 dim=1
             prim::ListUnpack u 1 3 l r z n #r=(2,2)f32 #z=(2,2)f32 #n=(2,2)f32
             pnnx.Attribute fold 0 1 h @data=(2,2)f32 #h=(2,2)f32
             pnnx.Expression e 2 1 r h s expr=add(@0,@1) #s=(2,2)f32
             pnnx.Output out 3 0 s z n";
        assert_eq!(texts(gru, &[0.5]), wanted);
    }

    /// What is found in a model that writes rows of an input into a constant of 4×3 by an operator.
    fn written(constant: &str, rows: usize, write: &str, elements: &[f32]) -> Vec<String> {
        let lines = format!(
            "pnnx.Input in 0 1 x #x=({rows},3)f32
             pnnx.Input at 0 1 i #i=({rows})i64
             pnnx.Attribute {constant} 0 1 s @data=(4,3)f32 #s=(4,3)f32
             pnnx.Expression l 1 1 i l expr=[@0]
             pnnx.Expression k 0 1 k expr=[[0,2]]
             {write} #y=(4,3)f32
             pnnx.Output out 1 0 y"
        );
        texts(&lines, elements)
    }

    const ADD: &str = "torch.index_add w 3 1 s i x y alpha=1 dim=0 $input=s $index=i $source=x";
    const COPY: &str = "aten::index_copy w 3 1 s i x y dim=0 $input=s $index=i $source=x";
    const PUT: &str = "Tensor.index_put w 3 1 s l x y accumulate=False $input=s $indices=l $values=x";
    const PUT_AT_CONSTANTS: &str =
        "Tensor.index_put w 3 1 s k x y accumulate=False $input=s $indices=k $values=x";

    #[test]
    fn constants_in_which_the_sample_is_written() {
        let written = |rows, write: &str| written("pnnx_fold_1", rows, write, &[0.0, 1.0]);
        let wanted = |op_type: &str| {
            [format!("{op_type} `w` writes into the constant `s`, in which PNNX's sample is written already")]
        };
        assert_eq!(written(2, ADD), wanted("torch.index_add"));
        assert_eq!(written(4, ADD), wanted("torch.index_add"));
        assert_eq!(written(2, COPY), wanted("aten::index_copy"));
        assert_eq!(written(2, PUT), wanted("Tensor.index_put"));
        let add_at_constants = PUT_AT_CONSTANTS.replace("=False", "=True");
        assert_eq!(written(2, &add_at_constants), wanted("Tensor.index_put"));
    }

    #[test]
    fn constants_to_write_into() {
        let differing: &[f32] = &[0.0, 1.0];
        assert_eq!(written("pnnx_fold_1", 2, ADD, &[0.5]), NOTHING, "filled with one number");
        assert_eq!(written("table", 2, ADD, differing), NOTHING, "a buffer");
        assert_eq!(written("pnnx_fold_1", 4, COPY, differing), NOTHING, "all rows are replaced");
        assert_eq!(written("pnnx_fold_1", 2, PUT_AT_CONSTANTS, differing), NOTHING, "always the same places");
        let mask = "pnnx.Input in 0 1 m #m=(2,2)bool
            pnnx.Attribute pnnx_fold_1 0 1 s @data=(2,2)f32 #s=(2,2)f32
            Tensor.masked_fill w 2 1 s m y value=-inf $input=s $mask=m #y=(2,2)f32
            pnnx.Output out 1 0 y";
        assert_eq!(texts(mask, differing), NOTHING, "masks that are joined");
    }

    #[test]
    fn an_operand_with_two_names() {
        let expression = |expr: &str, inputs: &str, shape: &str| {
            let lines = format!(
                "pnnx.Input in 0 1 a #a={shape}f32
                 pnnx.Expression e {inputs} b expr={expr} #b={shape}f32
                 pnnx.Output out 1 0 b"
            );
            texts(&lines, &[])
        };
        let wanted = ["pnnx.Expression `e` reads `a` by two names, as if it were two tensors"];
        for expr in ["abs(sub(@0,@1))", "sub(@0,mul(@1,0.97))", "div(add(@0,@1),2)", "sub(@2,abs(@0))"] {
            let inputs = if expr.contains("@2") { "3 1 a a a" } else { "2 1 a a" };
            assert_eq!(expression(expr, inputs, "(2,?)"), wanted, "{expr}");
        }
        let of_result = |expr: &str| {
            let lines = format!(
                "pnnx.Input in 0 1 x #x=(2,?)f32
                 F.sigmoid s 1 1 x a $input=x #a=(2,?)f32
                 pnnx.Expression e 2 1 a a b expr={expr} #b=(2,?)f32
                 pnnx.Output out 1 0 b"
            );
            texts(&lines, &[])
        };
        for expr in ["sub(@0,@1)", "sub(mul(0.5,@0),neg(@1))", "div(@0,div(@1,2))"] {
            assert_eq!(of_result(expr), wanted, "{expr}");
        }
        for expr in ["mul(@0,sub(1,@1))", "sub(@0,pow(@1,2))", "add(@0,@1)"] {
            assert_eq!(of_result(expr), NOTHING, "two operators that were merged: {expr}");
        }
        assert_eq!(expression("div(@0,@1)", "2 1 a a", "(2,3)"), wanted);
        assert_eq!(expression("sub(@0,mul(@1,0.97))", "2 1 a a", "(2,3)"), NOTHING);
        assert_eq!(expression("sub(@0,@0)", "1 1 a", "(2,?)"), NOTHING);
        assert_eq!(expression("mul(@0,size(@1,0))", "2 1 a a", "(2,?)"), NOTHING);
    }
}
