//! Replacing functional operators whose weights are constants by modules, which own their weights.
//!
//! ```text
//! pnnx.Attribute w            0 1 w @data=(16,3,3,3)f32
//! F.conv2d conv               2 1 x w y $input=x $weight=w bias=None
//!     ↓
//! nn.Conv2d conv              1 1 x y @weight=(16,3,3,3)f32 bias=False
//! ```

use super::site::NewOperator;
use super::visit::{Verdict, Visit};
use super::weights;
use crate::passes::Facts;
use crate::pnnx::{Graph, GraphError, OperatorId};

/// Functional form, module, required weights and optional weights.
const FORMS: &[(&str, &str, &[&str], &[&str])] = &[
    ("F.conv1d", "nn.Conv1d", &["weight"], &["bias"]),
    ("F.conv2d", "nn.Conv2d", &["weight"], &["bias"]),
    ("F.conv3d", "nn.Conv3d", &["weight"], &["bias"]),
    ("F.conv_transpose1d", "nn.ConvTranspose1d", &["weight"], &["bias"]),
    ("F.conv_transpose2d", "nn.ConvTranspose2d", &["weight"], &["bias"]),
    ("F.conv_transpose3d", "nn.ConvTranspose3d", &["weight"], &["bias"]),
    ("F.linear", "nn.Linear", &["weight"], &["bias"]),
    ("F.layer_norm", "nn.LayerNorm", &[], &["weight", "bias"]),
    ("F.rms_norm", "nn.RMSNorm", &[], &["weight"]),
    ("F.group_norm", "nn.GroupNorm", &[], &["weight", "bias"]),
    ("F.batch_norm", "nn.BatchNorm", &["running_mean", "running_var"], &["weight", "bias"]),
];

/// The pass.
pub(super) const OWN_WEIGHTS: Visit = Visit {
    name: "own_weights",
    doc: "Replaces functional operators whose weights are constants by modules.",
    visit,
};

fn visit(graph: &mut Graph, facts: &Facts, id: OperatorId) -> Result<Verdict, GraphError> {
    let Some(new) = module(graph, facts, id) else { return Ok(Verdict::Other) };
    new.replace(graph, &[id])?;
    Ok(Verdict::Fired)
}

fn module(graph: &Graph, facts: &Facts, id: OperatorId) -> Option<NewOperator> {
    let operator = graph.get_operator(id)?;
    let &(_, module, needed, others) = FORMS.iter().find(|form| form.0 == operator.op_type())?;
    // Without argument names, only the meaning of the first input is known.
    let named = operator.input_names().iter().skip(1).all(Option::is_some);
    if operator.has_param("epilogue") || !named || operator.inputs().len() < 2 {
        return None;
    }
    let keys: Vec<&str> = needed.iter().chain(others).copied().collect();
    let mut new = NewOperator::like(operator);
    new.op_type = match module {
        "nn.BatchNorm" => {
            batch_norm(facts.get(graph.operand(*operator.inputs().first()?).name())?.rank())?.to_owned()
        }
        module => module.to_owned(),
    };
    new.inputs.retain(|(_, name)| !name.as_deref().is_some_and(|name| keys.contains(&name)));
    new.params.retain(|(key, _)| !keys.contains(&key.as_str()));
    let [(_, name)] = new.inputs.as_mut_slice() else { return None };
    *name = None;
    for &key in &keys {
        match operator.named_input(key) {
            Some(input) => new = new.attr(key, weights::constant(graph, input)?.clone()),
            None if needed.contains(&key) => return None,
            None => {}
        }
    }
    Some(described(new))
}

/// The module for inputs of this rank. Unlike the function, it is named after the rank.
fn batch_norm(rank: usize) -> Option<&'static str> {
    match rank {
        2 | 3 => Some("nn.BatchNorm1d"),
        4 => Some("nn.BatchNorm2d"),
        5 => Some("nn.BatchNorm3d"),
        _ => None,
    }
}

/// Adds the parameters of a module that describe its weights.
fn described(new: NewOperator) -> NewOperator {
    let shape = |key: &str| -> Vec<i64> {
        let found = new.attrs.iter().find(|(other, _)| other == key);
        found.map_or(Vec::new(), |(_, weight)| weight.shape().iter().map(|&len| len as i64).collect())
    };
    let (weight, has_bias) = (shape("weight"), !shape("bias").is_empty());
    let groups =
        new.params.iter().find(|(key, _)| key == "groups").and_then(|(_, groups)| groups.as_i64().ok());
    let groups = groups.unwrap_or(1);
    match (new.op_type.as_str(), weight.as_slice()) {
        ("nn.Linear", &[outputs, inputs]) => {
            new.param("in_features", inputs).param("out_features", outputs).param("bias", has_bias)
        }
        ("nn.Conv1d" | "nn.Conv2d" | "nn.Conv3d", [outputs, inputs, kernel @ ..]) => {
            new.conv(inputs.saturating_mul(groups), *outputs, kernel, has_bias)
        }
        (
            "nn.ConvTranspose1d" | "nn.ConvTranspose2d" | "nn.ConvTranspose3d",
            [inputs, outputs, kernel @ ..],
        ) => new.conv(*inputs, outputs.saturating_mul(groups), kernel, has_bias),
        ("nn.BatchNorm1d" | "nn.BatchNorm2d" | "nn.BatchNorm3d", _) => {
            let channels = shape("running_mean").first().copied().unwrap_or(0);
            new.param("num_features", channels).param("affine", !weight.is_empty())
        }
        ("nn.GroupNorm", &[channels]) => new.param("num_channels", channels).param("affine", true),
        ("nn.LayerNorm" | "nn.RMSNorm", [_, ..]) => new.param("elementwise_affine", true),
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
