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
    /// Puts several that stand for the same numbers along a new axis.
    Stack,
    /// Is computed in floats.
    Lowered(Lowering),
    /// Is a function of PyTorch's namespace `quantized` that is not here.
    Unknown,
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
    /// A scale and a zero point of its own: for u8, for i8 and for i32.
    Fixed([(&'static str, &'static str); 3]),
    /// It is not quantised.
    Plain,
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
const PLAIN: Lowering = Lowering { out: Out::Plain, ..SAME };
/// From 0 to 1.
const FRACTION: Lowering = Lowering {
    out: Out::Fixed([("0.00390625", "0"), ("0.00390625", "-128"), ("2.3283064365386963e-10", "0")]),
    ..SAME
};
/// From −1 to 1.
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

/// What to say of a function that is not here.
pub(super) fn supported_functions() -> String {
    let names: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
    format!(
        "of this namespace there are {}, and as modules `nn.quantized.Conv2d`, `nn.quantized.Linear`, their forms with \
         ReLU and `nn.quantized.cat`; put other operators between `torch.dequantize` and `torch.quantize_per_tensor`",
        names.join(", ")
    )
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

/// The name of a function or method of PyTorch's tensors.
pub(super) fn method(op_type: &str) -> Option<&str> {
    ["torch.", "Tensor.", "aten::"].iter().find_map(|space| op_type.strip_prefix(space))
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
        "torch.stack" => Role::Stack,
        "pnnx.Expression" if is_list(operator) => Role::List,
        "prim::ListConstruct" | "prim::TupleConstruct" => Role::List,
        _ if is_view(op_type) || is_choice(op_type) => Role::Moves { all: false },
        "F.interpolate" | "F.upsample" | "nn.Upsample" => match operator.param("mode").map(|mode| mode.raw())
        {
            None | Some("nearest" | "nearest-exact") => Role::Moves { all: false },
            Some(_) => Role::Lowered(WHOLE),
        },
        "F.pad" => match operator.param("mode").map(|mode| mode.raw()) {
            None | Some("constant") => Role::Lowered(SAME),
            Some("reflect") => Role::Moves { all: false },
            Some(_) => Role::Refused,
        },
        _ => method(op_type).map_or_else(|| in_floats(op_type), of_method),
    }
}

/// Functions and methods of tensors.
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

/// Operators that PyTorch defines on quantised tensors by floats.
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
        "F.upsample_bilinear" | "nn.UpsamplingBilinear2d" => Role::Lowered(WHOLE),
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

/// Operators that choose elements by their order, which is that of the whole numbers.
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
