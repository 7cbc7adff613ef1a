//! The kind of an operator, by its type, which determines the colour of its card.

use ixion_drawing::NodeKind;

/// For each kind, patterns for the last component of a type in lower case: `=t` matches the whole component, others a part of
/// it. The first matching line decides.
const SIGNS: &[(NodeKind, &str)] = &[
    (NodeKind::Input, "=input"),
    (NodeKind::Output, "=output"),
    (NodeKind::Pooling, "pool"),
    (NodeKind::Normalisation, "norm"),
    (NodeKind::Weighted, "conv linear embedding lstm gru rnn attention attribute matmul =mm =bmm einsum"),
    (
        NodeKind::Activation,
        "relu elu silu glu sigmoid tanh softmax softmin softplus softsign swish mish shrink threshold dropout",
    ),
    (
        NodeKind::Shape,
        "reshape view flatten permute transpose squeeze cat stack slice select split chunk expand repeat pad flip roll \
         tuple list shuffle unbind index gather upsample interpolate fold size narrow clone contiguous tile movedim =t =to",
    ),
    (
        NodeKind::Elementwise,
        "expression =add =sub =mul =div pow =exp =log sqrt abs neg clamp hardtanh where mean =sum =prod =max =min =eq =ne \
         =lt =le =gt =ge",
    ),
];

/// The kind of an operator of this type.
pub(crate) fn kind(op_type: &str) -> NodeKind {
    let last = op_type.rsplit(['.', ':']).next().unwrap_or(op_type).to_lowercase();
    let shows = |sign: &str| match sign.strip_prefix('=') {
        Some(word) => last == word,
        None => last.contains(sign),
    };
    let found = SIGNS.iter().find(|(_, signs)| signs.split_whitespace().any(shows));
    found.map_or(NodeKind::Other, |(kind, _)| *kind)
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
            (NodeKind::Other, "torch.fft.fft aten::stft torch.topk"),
        ] {
            types.split_whitespace().for_each(|op_type| assert_eq!(kind(op_type), wanted, "{op_type}"));
        }
    }
}
