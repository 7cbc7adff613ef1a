//! Computing element-wise arithmetic on a product's result along with the product.
//!
//! ```text
//! nn.Conv2d conv              1 1 x a
//! pnnx.Expression add         2 1 a r y expr=relu(add(@0,@1))
//!     ↓
//! nn.Conv2d conv              2 1 x r y epilogue=relu(add(@0,@1)) $epilogue_1=r
//! ```
//!
//! `@0` is the product's element; `@1`, … are the elements at the same position of further inputs.

use super::formula::{Formula, renumbered};
use super::site::{NewOperator, fits_into, is_computed_in, producer};
use crate::op::Registry;
use crate::passes::visit::{Verdict, Visit};
use crate::passes::{Facts, PassContext};
use crate::pnnx::{Graph, GraphError, OperandId, Operator, OperatorId};

/// The pass.
pub(super) const FUSE_EPILOGUE: Visit = Visit {
    name: "fuse_epilogue",
    doc: "Computes an activation or arithmetic on the result of a product along with the product.",
    visit,
};

/// The maximum number of inputs of an epilogue, not counting the product.
const MAX_INPUTS: usize = 4;

/// Returns true if an operator is a product that supports an epilogue and has none yet.
fn takes_epilogue(operator: &Operator) -> bool {
    let creator = Registry::built_in().known(operator.op_type());
    let has_field = creator.is_some_and(|creator| creator.fields.iter().any(|field| field.key == "epilogue"));
    has_field && !operator.has_param("epilogue")
}

fn visit(graph: &mut Graph, context: &PassContext, id: OperatorId) -> Result<Verdict, GraphError> {
    let facts = context.facts(graph);
    let Some(whole) = graph.get_operator(id).and_then(Formula::of) else { return Ok(Verdict::Other) };
    if whole.inputs.len() > 1 + MAX_INPUTS {
        return Ok(Verdict::Refused(format!(
            "it reads {} tensors besides the product; an epilogue reads at most {MAX_INPUTS}",
            whole.inputs.len() - 1
        )));
    }
    let candidates = whole.inputs.iter().filter_map(|&operand| {
        let (source, operator) = producer(graph, operand).filter(|(_, operator)| takes_epilogue(operator))?;
        let is_own = graph.operand(operand).consumers().iter().all(|&reader| reader == id);
        let position = graph.operator_ids().iter().position(|&other| other == source);
        let fits = is_own && operator.outputs().len() == 1 && fits(graph, facts, id, &whole, operand);
        fits.then_some((position, source, operand))
    });
    // The last product, since the others have been computed by then.
    let Some((_, source, operand)) = candidates.max_by_key(|candidate| candidate.0) else {
        return Ok(Verdict::Other);
    };
    fused(graph, &whole, source, operand).replace(graph, &[id, source])?;
    Ok(Verdict::Fired)
}

/// Returns true if the result has the shape and element type of the product, and all inputs can be broadcast to that shape.
fn fits(graph: &Graph, facts: &Facts, id: OperatorId, whole: &Formula, operand: OperandId) -> bool {
    let known = |operand| facts.meta(graph, operand);
    let (Some(product), Some(result)) =
        (known(operand), graph.operator(id).outputs().first().and_then(|&output| known(output)))
    else {
        return false;
    };
    let is_input = |&input: &OperandId| {
        known(input)
            .is_some_and(|input| input.dtype() == product.dtype() && fits_into(input.dims(), product.dims()))
    };
    let same = product.dtype() == result.dtype() && product.dims() == result.dims();
    same && is_computed_in(product.dtype()) && whole.inputs.iter().all(is_input)
}

fn fused(graph: &Graph, whole: &Formula, source: OperatorId, operand: OperandId) -> NewOperator {
    let mut new = NewOperator::like(graph.operator(source));
    let mut places = Vec::new();
    for &input in &whole.inputs {
        if input == operand {
            places.push(0);
            continue;
        }
        let place = 1 + places.iter().filter(|&&place| place > 0).count();
        new = new.input(input, Some(&format!("epilogue_{place}")));
        places.push(place);
    }
    new.param("epilogue", renumbered(&whole.expr, &places).to_string())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, refuses};
    use super::*;

    fn residual(product: &str, input: &str, rest: &str, expr: &str) -> String {
        format!(
            "pnnx.Input in 0 1 x #x={input}f32\npnnx.Input in2 0 1 r #r={rest}f32\n{} p 1 1 x a {}\n\
             pnnx.Expression e 2 1 r a y expr={expr}\npnnx.Output out 1 0 y",
            product.split_once(' ').unwrap().0,
            product.split_once(' ').unwrap().1,
        )
    }

    const CONV: &str = "nn.Conv2d padding=(1,1) @weight=(6,4,3,3)f32 @bias=(6)f32";

    #[test]
    fn arithmetic_and_activations_are_computed_along_with_products() {
        for (product, input, rest) in [
            (CONV, "(2,4,5,6)", "(2,6,5,6)"),
            (CONV, "(2,4,5,6)", "(1,6,1,1)"),
            ("nn.Conv1d @weight=(6,4,1)f32", "(2,4,5)", "(2,6,5)"),
            ("nn.Conv3d groups=2 @weight=(6,2,1,1,1)f32", "(1,4,2,3,4)", "(1,6,2,3,4)"),
            ("nn.ConvTranspose2d stride=(2,2) @weight=(4,6,2,2)f32", "(1,4,3,3)", "(1,6,6,6)"),
            ("nn.Linear @weight=(6,4)f32", "(2,3,4)", "(2,3,6)"),
        ] {
            let left = fires(&FUSE_EPILOGUE, &residual(product, input, rest, "relu(add(@0,@1))"));
            assert_eq!(left.len(), 1, "{left:?}");
            assert!(
                left[0].contains("(x,r)->y") && left[0].contains("epilogue=relu(add(@1,@0))"),
                "{left:?}"
            );
        }
        let alone = "pnnx.Input in 0 1 x #x=(2,4)f32\nnn.Linear p 1 1 x a @weight=(6,4)f32\n\
            nn.GELU g 1 1 a y\npnnx.Output out 1 0 y";
        assert_eq!(fires(&FUSE_EPILOGUE, alone), ["nn.Linear(x)->y epilogue=gelu(@0)"]);
    }

    #[test]
    fn products_of_two_inputs_are_supported() {
        let model = "pnnx.Input in 0 1 x #x=(2,3,4)f32\npnnx.Input in2 0 1 z #z=(2,4,5)f32\n\
            torch.matmul p 2 1 x z a $input=x $other=z\npnnx.Expression e 1 1 a y expr=mul(@0,0.5)\npnnx.Output out 1 0 y";
        assert_eq!(fires(&FUSE_EPILOGUE, model), ["torch.matmul(x,z)->y epilogue=mul(@0,0.5)"]);
    }

    #[test]
    fn of_two_products_the_later_one_gets_the_epilogue() {
        let model = "pnnx.Input in 0 1 x #x=(2,4)f32\nnn.Linear gate 1 1 x a @weight=(6,4)f32\n\
            nn.Linear up 1 1 x b @weight=(6,4)f32\npnnx.Expression e 2 1 a b y expr=mul(silu(@0),@1)\npnnx.Output out 1 0 y";
        let left = fires(&FUSE_EPILOGUE, model);
        assert_eq!(left, ["nn.Linear(x)->a", "nn.Linear(x,a)->y epilogue=mul(silu(@1),@0)"]);
    }

    #[test]
    fn products_with_other_readers_and_larger_results_stay() {
        let model = residual(CONV, "(2,4,5,6)", "(2,6,5,6)", "add(@0,@1)");
        refuses(&FUSE_EPILOGUE, &model.replace("out 1 0 y", "out 2 0 y a"));
        refuses(&FUSE_EPILOGUE, &model.replace("f32", "f16"));
        refuses(&FUSE_EPILOGUE, &residual("nn.Linear @weight=(6,4)f32", "(3,4)", "(2,3,6)", "add(@0,@1)"));
        refuses(&FUSE_EPILOGUE, &residual("nn.Linear @weight=(6,4)f32", "(1,4)", "(3,6)", "add(@0,@1)"));
        refuses(
            &FUSE_EPILOGUE,
            &residual("nn.MaxPool2d kernel_size=(1,1)", "(2,6,5,6)", "(2,6,5,6)", "add(@0,@1)"),
        );
    }
}
