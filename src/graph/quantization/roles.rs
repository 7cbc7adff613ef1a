//! The behaviour of each operator type for quantised tensors.

use crate::pnnx::{Operator, Parameter};

/// The behaviour of an operator for quantised tensors.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    /// Quantises floats, per tensor.
    Quantize,
    /// Quantises floats, per channel along an axis.
    QuantizeChannels,
    /// Dequantises to floats.
    Dequantize,
    /// Computes with quantised values, and has the output quantisation as parameters.
    Quantized,
    /// Concatenates several tensors.
    Join,
    /// Lists several tensors.
    List,
    /// Moves elements, to all outputs or to the first one only.
    Moves {
        /// Whether all outputs contain elements of the input.
        all: bool,
    },
    /// Stacks tensors of the same quantisation along a new axis.
    Stack,
    /// Is computed in floats.
    Lowered(Lowering),
    /// Is an unsupported function of PyTorch's namespace `quantized`.
    Unknown,
    /// Does not support quantised tensors.
    Refused,
    /// Reads the quantised values as plain integers, or is not one of Ixion's operators.
    Free,
}

/// The lowering of an operator to floats.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lowering {
    /// The operator type on floats; `None` if it is the same.
    pub(super) op_type: Option<&'static str>,
    /// The parameters: each key with the key that it is copied from, or with a fixed text after `=`.
    pub(super) params: &'static [(&'static str, &'static str)],
    /// Parameters that are ignored: with any value, or only if they have this value.
    pub(super) ignored: &'static [(&'static str, Option<f64>)],
    /// The number of inputs.
    pub(super) inputs: usize,
    /// Whether a ReLU follows.
    pub(super) relu: bool,
    /// The quantisation of its output.
    pub(super) out: Out,
}

impl Lowering {
    /// Returns true if a parameter of the operator is used, or may be ignored.
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

/// The quantisation of an operator's output.
#[derive(Debug, Clone, Copy)]
pub(super) enum Out {
    /// The same as the input.
    Same,
    /// The same as the input. The scale only passes through as a factor, so the operator may be computed without it.
    Unscaled,
    /// As [`Out::Unscaled`], but rounding half to even applies to the quantised values, not to their distances from the zero
    /// point.
    Mean,
    /// A fixed scale and zero point: for u8, i8 and i32.
    Fixed([(&'static str, &'static str); 3]),
    /// Not quantised.
    Plain,
    /// The values of these parameters.
    Given {
        /// The key of the scale.
        scale: &'static str,
        /// The key of the zero point.
        zero_point: &'static str,
    },
}

const SAME: Lowering =
    Lowering { op_type: None, params: &[], ignored: &[], inputs: 1, relu: false, out: Out::Same };
const UNSCALED: Lowering = Lowering { out: Out::Unscaled, ..SAME };
const MEAN: Lowering = Lowering { out: Out::Mean, ..SAME };
const PLAIN: Lowering = Lowering { out: Out::Plain, ..SAME };
/// An output range of 0 to 1.
const FRACTION: Lowering = Lowering {
    out: Out::Fixed([("0.00390625", "0"), ("0.00390625", "-128"), ("2.3283064365386963e-10", "0")]),
    ..SAME
};
/// An output range of −1 to 1.
const SIGNED: Lowering = Lowering {
    out: Out::Fixed([("0.0078125", "128"), ("0.0078125", "0"), ("4.656612873077393e-10", "0")]),
    ..SAME
};
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
const FUNCTIONS: [(&str, Lowering); 10] = [
    ("add", ADD),
    ("add_relu", Lowering { relu: true, ..ADD }),
    ("mul", MUL),
    ("mul_relu", Lowering { relu: true, ..MUL }),
    ("relu6", Lowering { op_type: Some("F.relu6"), ignored: &[("arg_1", None)], ..SAME }),
    ("hardswish", Lowering { op_type: Some("F.hardswish"), out: SECOND, ..SAME }),
    ("sigmoid", Lowering { op_type: Some("F.sigmoid"), out: SECOND, ..SAME }),
    (
        "leaky_relu",
        Lowering {
            op_type: Some("F.leaky_relu"),
            params: &[("negative_slope", "arg_1")],
            ignored: &[("arg_2", None)],
            out: FOURTH,
            ..SAME
        },
    ),
    (
        "elu",
        Lowering {
            op_type: Some("F.elu"),
            params: &[("alpha", "arg_3")],
            ignored: &[("arg_4", Some(1.0)), ("arg_5", Some(1.0))],
            out: SECOND,
            ..SAME
        },
    ),
    ("celu", Lowering { op_type: Some("F.celu"), params: &[("alpha", "arg_3")], out: SECOND, ..SAME }),
];

fn function(name: &str) -> Role {
    let known = FUNCTIONS.iter().find(|(known, _)| *known == name);
    known.map_or(Role::Unknown, |(_, lowering)| Role::Lowered(*lowering))
}

/// The error text for an unsupported function of the namespace `quantized`.
pub(super) fn supported_functions() -> String {
    let names: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
    format!(
        "unsupported function of the namespace `quantized`; supported: {}, and the modules `nn.quantized.Conv2d`, \
         `nn.quantized.Linear`, their variants with ReLU and `nn.quantized.cat`; put other operators between \
         `torch.dequantize` and `torch.quantize_per_tensor`",
        names.join(", ")
    )
}

/// The name of a function of PyTorch's namespace `quantized`.
fn name(operator: &Operator) -> Option<&str> {
    let op_type = operator.op_type();
    op_type.strip_prefix("pnnx.custom_op.quantized.").or_else(|| op_type.strip_prefix("quantized::"))
}

/// Returns true if an operator is a function of PyTorch's namespace `quantized`.
pub(super) fn is_function(operator: &Operator) -> bool {
    name(operator).is_some()
}

/// The name of a tensor function or method of PyTorch, without its namespace.
pub(super) fn method(op_type: &str) -> Option<&str> {
    ["torch.", "Tensor.", "aten::"].iter().find_map(|space| op_type.strip_prefix(space))
}

/// The behaviour of an operator for quantised tensors.
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
        | "nn.intrinsic.quantized.LinearReLU" => Role::Quantized,
        "nn.quantized.cat" | "torch.cat" => Role::Join,
        "torch.stack" => Role::Stack,
        "pnnx.Expression" if is_list(operator) => Role::List,
        "prim::ListConstruct" | "prim::TupleConstruct" => Role::List,
        _ if is_view(op_type) || is_choice(op_type) => Role::Moves { all: false },
        "F.interpolate" | "F.upsample" | "nn.Upsample" => match operator.param("mode").map(|mode| mode.raw())
        {
            None | Some("nearest" | "nearest-exact") => Role::Moves { all: false },
            Some(_) => Role::Lowered(UNSCALED),
        },
        "F.pad" => match operator.param("mode").map(|mode| mode.raw()) {
            None | Some("constant") => Role::Lowered(SAME),
            Some("reflect") => Role::Moves { all: false },
            Some(_) => Role::Refused,
        },
        _ => method(op_type).map_or_else(|| in_floats(op_type), of_method),
    }
}

/// The role of a tensor function or method.
fn of_method(name: &str) -> Role {
    match name {
        "chunk" | "split" | "tensor_split" | "unbind" => Role::Moves { all: true },
        "relu" | "clamp" | "std" | "masked_fill" => Role::Lowered(SAME),
        "mean" => Role::Lowered(MEAN),
        "eq" | "ne" | "lt" | "le" | "gt" | "ge" => Role::Lowered(PLAIN),
        "size" | "dim" | "numel" | "int_repr" => Role::Free,
        _ => Role::Refused,
    }
}

/// The role of operators that PyTorch defines on quantised tensors by computing in floats.
fn in_floats(op_type: &str) -> Role {
    match op_type {
        "F.relu" | "nn.ReLU" | "F.relu6" | "nn.ReLU6" | "F.hardtanh" | "nn.Hardtanh" | "F.leaky_relu"
        | "nn.LeakyReLU" | "F.threshold" | "nn.Threshold" | "F.gelu" | "nn.GELU" | "nn.ConstantPad1d"
        | "nn.ConstantPad2d" | "nn.ConstantPad3d" | "nn.ZeroPad2d" => Role::Lowered(SAME),
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
        | "nn.AdaptiveAvgPool3d" => Role::Lowered(MEAN),
        "F.upsample_bilinear" | "nn.UpsamplingBilinear2d" => Role::Lowered(UNSCALED),
        "pnnx.Output" => Role::Free,
        _ if ["F.", "nn.", "pnnx.Expression"].iter().any(|own| op_type.starts_with(own)) => Role::Refused,
        _ => Role::Free,
    }
}

fn is_view(op_type: &str) -> bool {
    let moves = |name| {
        matches!(
            name,
            "reshape"
                | "view"
                | "reshape_as"
                | "flatten"
                | "unflatten"
                | "permute"
                | "transpose"
                | "t"
                | "slice"
                | "select"
                | "narrow"
                | "index"
                | "index_select"
                | "unfold"
                | "expand"
                | "squeeze"
                | "unsqueeze"
                | "contiguous"
                | "clone"
                | "flip"
                | "roll"
                | "repeat"
                | "tile"
        )
    };
    method(op_type).is_some_and(moves)
        || matches!(
            op_type,
            "nn.Flatten"
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
                | "nn.ReflectionPad1d"
                | "nn.ReflectionPad2d"
        )
}

/// Returns true for operators that select elements by their order, which quantisation preserves.
fn is_choice(op_type: &str) -> bool {
    method(op_type).is_some_and(|name| matches!(name, "max" | "min" | "sort" | "topk"))
        || matches!(
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
                | "nn.AdaptiveMaxPool1d"
                | "nn.AdaptiveMaxPool2d"
                | "nn.AdaptiveMaxPool3d"
        )
}

fn is_list(operator: &Operator) -> bool {
    operator.param("expr").is_some_and(|expr| expr.raw().starts_with('['))
}
