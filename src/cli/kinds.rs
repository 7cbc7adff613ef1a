//! The kind of an operator, by its type, which determines the colour of its card.

use ixion::op::{Category, PluginName, Properties};
use ixion_drawing::NodeKind;

/// The kind of an operator of this type.
pub(crate) fn kind(op_type: &str) -> NodeKind {
    let plugin = op_type.parse::<PluginName>().ok();
    let op_type = plugin.as_ref().map_or(op_type, PluginName::op_type);
    let builds_list = ["prim::Tuple", "prim::List"].iter().any(|prefix| op_type.starts_with(prefix));
    match (op_type, Properties::of(op_type).category) {
        ("pnnx.Input", _) => NodeKind::Input,
        ("pnnx.Output", _) => NodeKind::Output,
        (_, Category::Activation) => NodeKind::Activation,
        (_, Category::Elementwise) => NodeKind::Elementwise,
        (_, Category::Normalization) => NodeKind::Normalisation,
        (_, Category::Pooling) => NodeKind::Pooling,
        (_, Category::Shape) => NodeKind::Shape,
        (_, Category::Weighted) => NodeKind::Weighted,
        (_, Category::Other) if builds_list => NodeKind::Shape,
        (_, Category::Other) => NodeKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_types_have_their_kinds() {
        for (wanted, types) in [
            (NodeKind::Input, "pnnx.Input"),
            (NodeKind::Output, "pnnx.Output"),
            (NodeKind::Weighted, "nn.Conv2d nn.MultiheadAttention F.linear torch.bmm"),
            (NodeKind::Normalisation, "nn.BatchNorm2d F.layer_norm"),
            (NodeKind::Activation, "nn.ReLU6 F.gelu nn.Hardswish"),
            (NodeKind::Pooling, "nn.AdaptiveAvgPool2d F.max_pool2d"),
            (NodeKind::Elementwise, "pnnx.Expression torch.add torch.max"),
            (NodeKind::Shape, "torch.cat Tensor.reshape prim::TupleConstruct torch.t"),
            (NodeKind::Other, "torch.fft.fft aten::stft aten::sort"),
        ] {
            types.split_whitespace().for_each(|op_type| assert_eq!(kind(op_type), wanted, "{op_type}"));
        }
    }

    #[test]
    fn some_operators_are_of_another_kind_than_their_family() {
        for (wanted, types) in [
            (NodeKind::Weighted, "nn.Embedding pnnx.Attribute nn.quantized.Conv2d acme/nn.Linear/1"),
            (NodeKind::Elementwise, "torch.clamp ReduceMean"),
            (NodeKind::Shape, "torch.index_select F.interpolate Tensor.to nn.quantized.cat"),
        ] {
            types.split_whitespace().for_each(|op_type| assert_eq!(kind(op_type), wanted, "{op_type}"));
        }
    }
}
