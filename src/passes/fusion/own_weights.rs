//! Replacing functional operators whose weights are constants by modules, which own their weights.
//!
//! ```text
//! pnnx.Attribute w            0 1 w @data=(16,3,3,3)f32
//! F.conv2d conv               2 1 x w y $input=x $weight=w bias=None
//!     ↓
//! nn.Conv2d conv              1 1 x y @weight=(16,3,3,3)f32 bias=False
//! ```

use super::site::{NewOperator, spatial_axes};
use super::weights;
use crate::op::{Category, Creator, Field, FieldValue, Product, Registry, Weight};
use crate::passes::visit::{Verdict, Visit};
use crate::passes::{Facts, PassContext};
use crate::pnnx::{Graph, GraphError, OperatorId};

/// The pass.
pub(super) const OWN_WEIGHTS: Visit = Visit {
    name: "own_weights",
    doc: "Replaces functional operators whose weights are constants by modules.",
    visit,
};

fn visit(graph: &mut Graph, context: &PassContext, id: OperatorId) -> Result<Verdict, GraphError> {
    let facts = context.facts(graph);
    let Some(new) = module(graph, facts, id) else { return Ok(Verdict::Other) };
    new.replace(graph, &[id])?;
    Ok(Verdict::Fired)
}

fn module(graph: &Graph, facts: &Facts, id: OperatorId) -> Option<NewOperator> {
    let operator = graph.get_operator(id)?;
    let creator = Registry::built_in().known(operator.op_type())?;
    // Only these are folded by other passes.
    let is_folded =
        creator.properties.product.is_some() || creator.properties.category == Category::Normalization;
    if !operator.op_type().starts_with("F.") || !is_folded {
        return None;
    }
    // Without argument names, only the meaning of the first input is known.
    let named = operator.input_names().iter().skip(1).all(Option::is_some);
    if operator.has_param("epilogue") || !named || operator.inputs().len() < 2 {
        return None;
    }
    let rank = || facts.meta(graph, *operator.inputs().first()?).map(|meta| meta.rank());
    let mut new = NewOperator::like(operator);
    new.op_type = module_type(creator, operator.op_type(), rank)?.to_owned();
    let kinds = [Weight::KIND, Option::<Weight>::KIND];
    let weights: Vec<&Field> = creator.fields.iter().filter(|field| kinds.contains(&field.kind)).collect();
    let is_weight = |name: &str| weights.iter().any(|field| field.key == name);
    new.inputs.retain(|(_, name)| !name.as_deref().is_some_and(is_weight));
    new.params.retain(|(key, _)| !is_weight(key));
    let [(_, name)] = new.inputs.as_mut_slice() else { return None };
    *name = None;
    for field in weights {
        match operator.named_input(field.key) {
            Some(input) => new = new.attr(field.key, weights::constant(graph, input)?.clone()),
            None if field.kind == Weight::KIND => return None,
            None => {}
        }
    }
    Some(described(new, creator))
}

/// The module of a function, which the same layer runs. Where there is one for each number of spatial axes, the type of the
/// function states the number, or the rank of its input does.
fn module_type(creator: &Creator, function: &str, rank: impl Fn() -> Option<usize>) -> Option<&'static str> {
    let mut modules = creator.types.iter().copied().filter(|op_type| op_type.starts_with("nn."));
    let (first, is_only) = (modules.clone().next()?, modules.clone().count() == 1);
    if is_only {
        return Some(first);
    }
    let of_input = || Some(rank()?.checked_sub(2)?.max(1));
    let axes = spatial_axes(function).or_else(of_input)?;
    modules.find(|module| spatial_axes(module) == Some(axes))
}

/// Adds the parameters of a module that describe its weights.
fn described(new: NewOperator, creator: &Creator) -> NewOperator {
    let shape = |key: &str| -> Vec<i64> {
        let found = new.attrs.iter().find(|(other, _)| other == key);
        found.map_or(Vec::new(), |(_, weight)| weight.shape().iter().map(|&len| len as i64).collect())
    };
    let (weight, has_bias) = (shape("weight"), !shape("bias").is_empty());
    let groups =
        new.params.iter().find(|(key, _)| key == "groups").and_then(|(_, groups)| groups.as_i64().ok());
    let groups = groups.unwrap_or(1);
    let takes = |key: &str| creator.fields.iter().any(|field| field.key == key);
    match (creator.properties.product, weight.as_slice()) {
        (Some(Product::Dense), &[outputs, inputs]) => {
            new.param("in_features", inputs).param("out_features", outputs).param("bias", has_bias)
        }
        (Some(Product::Convolution), [outputs, inputs, kernel @ ..]) => {
            new.conv(inputs.saturating_mul(groups), *outputs, kernel, has_bias)
        }
        (Some(Product::Transposed), [inputs, outputs, kernel @ ..]) => {
            new.conv(*inputs, outputs.saturating_mul(groups), kernel, has_bias)
        }
        _ if takes("num_features") => {
            let channels = shape("running_mean").first().copied().unwrap_or(0);
            new.param("num_features", channels).param("affine", !weight.is_empty())
        }
        (_, &[channels]) if takes("num_channels") => {
            new.param("num_channels", channels).param("affine", true)
        }
        (_, [_, ..]) if takes("elementwise_affine") => new.param("elementwise_affine", true),
        _ => new,
    }
}

impl NewOperator {
    fn conv(self, inputs: i64, outputs: i64, kernel: &[i64], has_bias: bool) -> Self {
        let new = self.param("in_channels", inputs).param("out_channels", outputs);
        new.param("kernel_size", kernel.to_vec()).param("bias", has_bias)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, refuses, refuses_without_weights};
    use super::*;

    const CONV: &str = "pnnx.Input in 0 1 x #x=(1,4,5,5)f32\n\
        pnnx.Attribute w 0 1 w @data=(6,2,3,3)f32\n\
        pnnx.Attribute b 0 1 b @data=(6)f32\n\
        F.conv2d conv 3 1 x w b y groups=2 stride=(2,1) $input=x $weight=w $bias=b\n\
        pnnx.Output out 1 0 y";

    #[test]
    fn constants_become_weights() {
        let left = fires(&OWN_WEIGHTS, CONV);
        let conv =
            "nn.Conv2d(x)->y bias=True groups=2 in_channels=4 kernel_size=(3,3) out_channels=6 stride=(2,1)";
        assert_eq!(left[2], conv);
        for model in [
            "pnnx.Input in 0 1 x #x=(2,4)f32\npnnx.Attribute w 0 1 w @data=(3,4)f32\n\
             F.linear fc 2 1 x w y bias=None $input=x $weight=w\npnnx.Output out 1 0 y",
            "pnnx.Input in 0 1 x #x=(2,4)f32\npnnx.Attribute w 0 1 w @data=(4)f32\n\
             F.layer_norm n 2 1 x w y bias=None eps=1e-5 normalized_shape=(4) $input=x $weight=w\npnnx.Output out 1 0 y",
            "pnnx.Input in 0 1 x #x=(1,4,5)f32\npnnx.Attribute w 0 1 w @data=(4,3,2)f32\n\
             F.conv_transpose1d c 2 1 x w y bias=None $input=x $weight=w\npnnx.Output out 1 0 y",
        ] {
            fires(&OWN_WEIGHTS, model);
        }
    }

    #[test]
    fn batch_norm_is_named_after_the_rank_of_its_input() {
        for (shape, module) in [("2,4", 1), ("2,4,5", 1), ("1,4,5,5", 2), ("1,4,2,3,3", 3)] {
            let text = format!(
                "pnnx.Input in 0 1 x #x=({shape})f32\npnnx.Attribute m 0 1 m @data=(4)f32\n\
                 pnnx.Attribute running_var 0 1 v @data=(4)f32\nF.batch_norm bn 3 1 x m v y bias=None eps=1e-5 weight=None \
                 $input=x $running_mean=m $running_var=v\npnnx.Output out 1 0 y"
            );
            let left = fires(&OWN_WEIGHTS, &text);
            let wanted = format!("nn.BatchNorm{module}d(x)->y affine=False eps=1e-5 num_features=4");
            assert!(left.contains(&wanted), "{wanted}: {left:?}");
        }
    }

    #[test]
    fn computed_and_missing_weights_stay_inputs() {
        let computed =
            CONV.replace("pnnx.Attribute w 0 1 w @data=(6,2,3,3)f32", "pnnx.Input in2 0 1 w #w=(6,2,3,3)f32");
        refuses(&OWN_WEIGHTS, &computed);
        refuses(&OWN_WEIGHTS, &CONV.replace(" $input=x $weight=w $bias=b", ""));
        refuses_without_weights(&OWN_WEIGHTS, CONV);
    }
}
