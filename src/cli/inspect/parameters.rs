//! Short descriptions of an operator's parameters and weights.

use ixion::pnnx::{Attribute, Operator, Parameter};

/// Parameters that are evident from the shapes of the weights.
const IN_THE_WEIGHTS: &[&str] = &[
    "affine",
    "bias",
    "elementwise_affine",
    "embedding_dim",
    "in_channels",
    "in_features",
    "normalized_shape",
    "num_channels",
    "num_embeddings",
    "num_features",
    "num_parameters",
    "out_channels",
    "out_features",
    "track_running_stats",
];

/// Parameters and their usual values, which are PyTorch's defaults.
const USUAL: &[(&str, &str)] = &[
    ("alpha", "1"),
    ("batch_first", "False"),
    ("bidirectional", "False"),
    ("ceil_mode", "False"),
    ("count_include_pad", "True"),
    ("dilation", "1"),
    ("groups", "1"),
    ("inplace", "False"),
    ("keepdim", "False"),
    ("output_padding", "0"),
    ("padding", "0"),
    ("padding_mode", "zeros"),
    ("return_indices", "False"),
    ("training", "False"),
];

/// The parameters that matter, such as `kernel_size 3` and `stride 2`.
pub(super) fn parameters(operator: &Operator) -> Vec<String> {
    let matters = |key: &str, value: &str| {
        let is_weighted = !operator.attrs().is_empty();
        let is_usual = match key {
            // The default stride of a pooling is its kernel size.
            "stride" => is_weighted && value == "1",
            "eps" => value.parse() == Ok(1e-5),
            _ => value == "None" || USUAL.contains(&(key, value)),
        };
        let repeats = is_weighted && IN_THE_WEIGHTS.contains(&key);
        !is_usual && !repeats
    };
    let shown = operator.params().iter().map(|(key, parameter)| (key.as_str(), value(parameter)));
    let shown = shown.filter(|(key, value)| matters(key, value));
    shown.map(|(key, value)| if key == "expr" { value } else { format!("{key} {value}") }).collect()
}

/// The weights that matter, such as `weight 64×3×7×7`: those with several axes, or the principal one if there are none.
pub(super) fn weights(operator: &Operator) -> Vec<String> {
    let mut attrs: Vec<(&String, &Attribute)> = operator.attrs().iter().collect();
    attrs.sort_by_key(|(key, attribute)| {
        (std::cmp::Reverse(attribute.shape().len()), key.as_str() != "weight")
    });
    let matters = |index: usize, attribute: &Attribute| index == 0 || attribute.shape().len() > 1;
    let shown = attrs.into_iter().enumerate().filter(|(index, (_, attribute))| matters(*index, attribute));
    shown.map(|(_, (key, attribute))| format!("{key} {}", shape(attribute))).collect()
}

/// The shape of a weight as `64×3×7×7`.
fn shape(attribute: &Attribute) -> String {
    let dims: Vec<String> = attribute.shape().iter().map(ToString::to_string).collect();
    if dims.is_empty() { "scalar".to_owned() } else { dims.join("×") }
}

/// Shortens a text to at most `max_chars` characters, replacing the end by `…`.
pub(super) fn elide(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some(_) => text.chars().take(max_chars.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// A value in short form: `3` for `(3,3)`, `3×5` for `(3,5)`.
fn value(parameter: &Parameter) -> String {
    let raw = parameter.raw();
    let inner = raw.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let items: Vec<&str> = inner.map(|inner| inner.split(',').collect()).unwrap_or_default();
    let is_size = items.iter().all(|item| !item.is_empty() && item.bytes().all(|byte| byte.is_ascii_digit()));
    match items.split_first() {
        Some((first, rest)) if is_size && rest.iter().all(|item| item == first) => (*first).to_owned(),
        Some(_) if is_size => items.join("×"),
        _ => raw.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion::{Limits, pnnx::Graph};

    fn operator(line: &str, check: impl FnOnce(&Operator)) {
        let text = format!("7767517\n2 2\npnnx.Input in 0 1 x\n{line}\n");
        let graph = Graph::parse(&text, &Limits::default()).unwrap();
        let last = *graph.operator_ids().last().unwrap();
        check(graph.operator(last));
    }

    #[test]
    fn a_convolution_in_short_form() {
        let line = "nn.Conv2d c 1 1 x y bias=True dilation=(1,1) groups=1 in_channels=3 kernel_size=(7,7) out_channels=64 \
            padding=(3,1) padding_mode=zeros stride=(2,2) @bias=(64)f32 @weight=(64,3,7,7)f32";
        operator(line, |conv| {
            assert_eq!(parameters(conv), ["kernel_size 7", "padding 3×1", "stride 2"]);
            assert_eq!(weights(conv), ["weight 64×3×7×7"]);
        });
    }

    #[test]
    fn values_that_are_not_sizes_stay_unchanged() {
        operator("my.Op o 1 1 x y a=(1,-1) b=None expr=add(@0,1) mode=(a,b) stride=(1,1)", |own| {
            assert_eq!(parameters(own), ["a (1,-1)", "add(@0,1)", "mode (a,b)", "stride 1"]);
        });
    }

    #[test]
    fn long_texts_are_elided() {
        assert_eq!((elide("abc", 3), elide("äbcd", 3)), ("abc".into(), "äb…".into()));
    }
}
