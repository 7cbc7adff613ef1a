//! What each type of operator does with quantised tensors.

use crate::pnnx::{Operator, Parameter};

/// What an operator does with quantised tensors.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    /// Makes one of floats.
    Quantize,
    /// Makes one of floats, with a scale for each slice along an axis.
    QuantizeChannels,
    /// Makes floats of one.
    Dequantize,
    /// Computes with whole numbers, and says what those of its output stand for.
    Whole,
    /// Puts several side by side.
    Join,
    /// Lists several.
    List,
    /// Moves elements, in all outputs or in the first.
    Moves {
        /// Whether all outputs are parts of the input.
        all: bool,
    },
    /// Is computed in floats.
    Lowered(Lowering),
    /// Cannot take one.
    Refused,
    /// Takes the whole numbers as they are, or is somebody else's.
    Free,
}

/// How an operator is computed in floats.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lowering {
    /// The operator on floats; none where it is the same.
    pub(super) op_type: Option<&'static str>,
    /// The keys of its parameters, and those that they come from, or their texts after `=`.
    pub(super) params: &'static [(&'static str, &'static str)],
    /// Other parameters that may stand there: with any value, or with this number.
    pub(super) ignored: &'static [(&'static str, Option<f64>)],
    /// How many inputs it has.
    pub(super) inputs: usize,
    /// Whether what is below zero becomes zero.
    pub(super) relu: bool,
    /// What its output stands for.
    pub(super) out: Out,
}

impl Lowering {
    /// Whether a parameter of the operator means something, or may be left out.
    pub(super) fn knows(&self, key: &str, parameter: &Parameter) -> bool {
        let out = match self.out {
            Out::Given { scale, zero_point } => [scale, zero_point].contains(&key),
            _ => false,
        };
        let may_be =
            |wanted: Option<f64>| wanted.is_none_or(|wanted| parameter.as_f64().ok() == Some(wanted));
        out || self.params.iter().any(|(_, from)| *from == key)
            || self.ignored.iter().any(|&(ignored, wanted)| ignored == key && may_be(wanted))
    }
}

/// What the output of an operator stands for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Out {
    /// The same as the input.
    Same,
    /// The same as the input; the operator may be computed without the scale, which it only multiplies through.
    Whole,
    /// As [`Out::Whole`], and halves go to the even number among those of the tensor, not among distances from the zero
    /// point.
    Mean,
    /// A scale of its own, and a zero point for u8 and one for i8.
    Fixed {
        /// The scale.
        scale: &'static str,
        /// For u8 and for i8.
        zero_points: [&'static str; 2],
    },
    /// What these parameters say.
    Given {
        /// The key of the scale.
        scale: &'static str,
        /// The key of the zero point.
        zero_point: &'static str,
    },
}

const SAME: Lowering =
    Lowering { op_type: None, params: &[], ignored: &[], inputs: 1, relu: false, out: Out::Same };
const WHOLE: Lowering = Lowering { out: Out::Whole, ..SAME };
const MEAN: Lowering = Lowering { out: Out::Mean, ..SAME };
const FRACTION: Lowering =
    Lowering { out: Out::Fixed { scale: "0.00390625", zero_points: ["0", "-128"] }, ..SAME };
const SIGNED: Lowering =
    Lowering { out: Out::Fixed { scale: "0.0078125", zero_points: ["128", "0"] }, ..SAME };
const SECOND: Out = Out::Given { scale: "arg_1", zero_point: "arg_2" };
const THIRD: Out = Out::Given { scale: "arg_2", zero_point: "arg_3" };
const FOURTH: Out = Out::Given { scale: "arg_3", zero_point: "arg_4" };
const ADD: Lowering = Lowering {
    op_type: Some("pnnx.Expression"),
    params: &[("expr", "=add(@0,@1)")],
    ignored: &[],
    inputs: 2,
    relu: false,
    out: THIRD,
};
const MUL: Lowering = Lowering { params: &[("expr", "=mul(@0,@1)")], ..ADD };

/// The functions of PyTorch's namespace `quantized`, as PNNX writes them.
fn function(name: &str) -> Role {
    let named = |op_type, params, ignored, out| {
        Role::Lowered(Lowering { op_type: Some(op_type), params, ignored, out, ..SAME })
    };
    match name {
        "add" => Role::Lowered(ADD),
        "add_relu" => Role::Lowered(Lowering { relu: true, ..ADD }),
        "mul" => Role::Lowered(MUL),
        "mul_relu" => Role::Lowered(Lowering { relu: true, ..MUL }),
        "relu6" => named("F.relu6", &[], &[("arg_1", None)], Out::Same),
        "hardswish" => named("F.hardswish", &[], &[], SECOND),
        "sigmoid" => named("F.sigmoid", &[], &[], SECOND),
        "leaky_relu" => named("F.leaky_relu", &[("negative_slope", "arg_1")], &[("arg_2", None)], FOURTH),
        "elu" => named("F.elu", &[("alpha", "arg_3")], &[("arg_4", Some(1.0)), ("arg_5", Some(1.0))], SECOND),
        "celu" => named("F.celu", &[("alpha", "arg_3")], &[], SECOND),
        _ => Role::Refused,
    }
}

/// The name of a function of PyTorch's namespace `quantized`.
fn name(operator: &Operator) -> Option<&str> {
    let op_type = operator.op_type();
    op_type.strip_prefix("pnnx.custom_op.quantized.").or_else(|| op_type.strip_prefix("quantized::"))
}

/// Whether an operator is a function of PyTorch's namespace `quantized`.
pub(super) fn is_function(operator: &Operator) -> bool {
    name(operator).is_some()
}

/// What an operator does with quantised tensors.
pub(super) fn role(operator: &Operator) -> Role {
    let op_type = operator.op_type();
    if let Some(name) = name(operator) {
        return function(name);
    }
    match op_type {
        "torch.quantize_per_tensor" | "aten::quantize_per_tensor" | "nn.quantized.Quantize" => Role::Quantize,
        "torch.quantize_per_channel" | "aten::quantize_per_channel" => Role::QuantizeChannels,
        "torch.dequantize" | "aten::dequantize" | "nn.quantized.DeQuantize" => Role::Dequantize,
        "nn.quantized.Conv2d"
        | "nn.quantized.Linear"
        | "nn.intrinsic.quantized.ConvReLU2d"
        | "nn.intrinsic.quantized.LinearReLU" => Role::Whole,
        "nn.quantized.cat" | "torch.cat" => Role::Join,
        "pnnx.Expression" if is_list(operator) => Role::List,
        "prim::ListConstruct" | "prim::TupleConstruct" => Role::List,
        "torch.chunk" | "torch.split" | "torch.tensor_split" | "torch.unbind" => Role::Moves { all: true },
        _ if is_view(op_type) || is_pool(op_type) => Role::Moves { all: false },
        "F.interpolate" | "F.upsample" | "nn.Upsample" => match operator.param("mode").map(|mode| mode.raw())
        {
            None | Some("nearest" | "nearest-exact") => Role::Moves { all: false },
            Some(_) => Role::Lowered(WHOLE),
        },
        _ => in_floats(op_type),
    }
}

/// Operators that PyTorch defines on quantised tensors by floats.
fn in_floats(op_type: &str) -> Role {
    match op_type {
        "F.relu" | "nn.ReLU" | "aten::relu" | "F.relu6" | "nn.ReLU6" | "torch.clamp" | "F.hardtanh"
        | "nn.Hardtanh" | "F.leaky_relu" | "nn.LeakyReLU" | "F.threshold" | "nn.Threshold" => {
            Role::Lowered(SAME)
        }
        "F.sigmoid" | "nn.Sigmoid" | "F.hardsigmoid" | "nn.Hardsigmoid" => Role::Lowered(FRACTION),
        "F.tanh" | "nn.Tanh" => Role::Lowered(SIGNED),
        "F.avg_pool1d"
        | "F.avg_pool2d"
        | "F.avg_pool3d"
        | "nn.AvgPool1d"
        | "nn.AvgPool2d"
        | "nn.AvgPool3d"
        | "F.adaptive_avg_pool1d"
        | "F.adaptive_avg_pool2d"
        | "F.adaptive_avg_pool3d"
        | "nn.AdaptiveAvgPool1d"
        | "nn.AdaptiveAvgPool2d"
        | "nn.AdaptiveAvgPool3d"
        | "torch.mean" => Role::Lowered(MEAN),
        "F.upsample_bilinear" | "nn.UpsamplingBilinear2d" => Role::Lowered(WHOLE),
        "aten::int_repr" | "torch.int_repr" | "pnnx.Output" => Role::Free,
        _ if ["F.", "nn.", "torch.", "Tensor.", "aten::", "pnnx.Expression"]
            .iter()
            .any(|own| op_type.starts_with(own)) =>
        {
            Role::Refused
        }
        _ => Role::Free,
    }
}

fn is_view(op_type: &str) -> bool {
    matches!(
        op_type,
        "Tensor.reshape"
            | "Tensor.view"
            | "Tensor.permute"
            | "Tensor.slice"
            | "Tensor.select"
            | "Tensor.expand"
            | "Tensor.contiguous"
            | "Tensor.clone"
            | "Tensor.unflatten"
            | "Tensor.reshape_as"
            | "Tensor.repeat"
            | "torch.clone"
            | "torch.flatten"
            | "torch.transpose"
            | "torch.permute"
            | "torch.t"
            | "torch.squeeze"
            | "torch.unsqueeze"
            | "torch.narrow"
            | "torch.flip"
            | "torch.index_select"
            | "torch.roll"
            | "torch.tile"
            | "nn.Flatten"
            | "nn.Unflatten"
            | "nn.Identity"
            | "nn.Dropout"
            | "nn.Dropout1d"
            | "nn.Dropout2d"
            | "nn.Dropout3d"
            | "F.dropout"
            | "F.dropout1d"
            | "F.dropout2d"
            | "F.dropout3d"
            | "nn.ChannelShuffle"
            | "nn.PixelShuffle"
            | "nn.PixelUnshuffle"
            | "F.pixel_shuffle"
            | "F.pixel_unshuffle"
            | "F.upsample_nearest"
            | "nn.UpsamplingNearest2d"
    )
}

fn is_pool(op_type: &str) -> bool {
    matches!(
        op_type,
        "F.max_pool1d"
            | "F.max_pool2d"
            | "F.max_pool3d"
            | "nn.MaxPool1d"
            | "nn.MaxPool2d"
            | "nn.MaxPool3d"
            | "F.adaptive_max_pool1d"
            | "F.adaptive_max_pool2d"
            | "F.adaptive_max_pool3d"
    )
}

fn is_list(operator: &Operator) -> bool {
    operator.param("expr").is_some_and(|expr| expr.raw().starts_with('['))
}
