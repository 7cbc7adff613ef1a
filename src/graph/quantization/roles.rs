//! What operators do with quantised tensors, as in PyTorch.

use crate::op::{Elements, Properties, Quantized, Scale};
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
    /// Returns the items of a list, or of a tensor that was divided.
    Unpack,
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
    /// The expression that a function of the namespace `quantized` becomes; by default, it becomes the function of floats with
    /// its name.
    pub(super) expr: Option<&'static str>,
    /// The parameters of the function of floats: each key with the key that it is copied from.
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
    const fn to(scale: Scale) -> Self {
        Self { expr: None, params: &[], ignored: &[], inputs: 1, relu: false, out: Out::Of(scale) }
    }

    /// Returns true if a parameter of the operator is used, or may be ignored.
    pub(super) fn knows(&self, key: &str, parameter: &Parameter) -> bool {
        let out = match self.out {
            Out::Given { scale, zero_point } => [scale, zero_point].contains(&key),
            Out::Of(_) => false,
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
    /// The one that PyTorch chooses.
    Of(Scale),
    /// The values of these parameters.
    Given {
        /// The key of the scale.
        scale: &'static str,
        /// The key of the zero point.
        zero_point: &'static str,
    },
}

const SAME: Lowering = Lowering::to(Scale::OfInput);
const SECOND: Out = Out::Given { scale: "arg_1", zero_point: "arg_2" };
const THIRD: Out = Out::Given { scale: "arg_2", zero_point: "arg_3" };
const FOURTH: Out = Out::Given { scale: "arg_3", zero_point: "arg_4" };
const ADD: Lowering = Lowering { expr: Some("add(@0,@1)"), inputs: 2, out: THIRD, ..SAME };
const MUL: Lowering = Lowering { expr: Some("mul(@0,@1)"), ..ADD };

/// The functions of PyTorch's namespace `quantized`, as PNNX writes them.
const FUNCTIONS: [(&str, Lowering); 10] = [
    ("add", ADD),
    ("add_relu", Lowering { relu: true, ..ADD }),
    ("mul", MUL),
    ("mul_relu", Lowering { relu: true, ..MUL }),
    ("relu6", Lowering { ignored: &[("arg_1", None)], ..SAME }),
    ("hardswish", Lowering { out: SECOND, ..SAME }),
    ("sigmoid", Lowering { out: SECOND, ..SAME }),
    (
        "leaky_relu",
        Lowering { params: &[("negative_slope", "arg_1")], ignored: &[("arg_2", None)], out: FOURTH, ..SAME },
    ),
    (
        "elu",
        Lowering {
            params: &[("alpha", "arg_3")],
            ignored: &[("arg_4", Some(1.0)), ("arg_5", Some(1.0))],
            out: SECOND,
            ..SAME
        },
    ),
    ("celu", Lowering { params: &[("alpha", "arg_3")], out: SECOND, ..SAME }),
];

fn of_function(name: &str) -> Role {
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

/// The name of an operator that is a function of PyTorch's namespace `quantized`.
pub(super) fn function(operator: &Operator) -> Option<&str> {
    let op_type = operator.op_type();
    op_type.strip_prefix("pnnx.custom_op.quantized.").or_else(|| op_type.strip_prefix("quantized::"))
}

/// The behaviour of an operator for quantised tensors.
pub(super) fn role(operator: &Operator) -> Role {
    if let Some(name) = function(operator) {
        return of_function(name);
    }
    let op_type = operator.op_type();
    if matches!(op_type, "prim::ListConstruct" | "prim::TupleConstruct") || is_list(operator) {
        return Role::List;
    }
    if matches!(op_type, "prim::ListUnpack" | "prim::TupleUnpack") {
        return Role::Unpack;
    }
    let properties = Properties::of(op_type);
    match properties.elements {
        Elements::Computed | Elements::Cast | Elements::Padded => {
            of_quantized(properties.quantized, operator)
        }
        Elements::Joined => Role::Join,
        Elements::Stacked => Role::Stack,
        Elements::Divided | Elements::Unbound => Role::Moves { all: true },
        _ => Role::Moves { all: false },
    }
}

/// The namespaces of the operators that PyTorch defines: of these it refuses quantised tensors, unless it supports them.
const PYTORCH: [&str; 6] = ["torch.", "Tensor.", "aten::", "F.", "nn.", "pnnx.Expression"];

fn of_quantized(quantized: Quantized, operator: &Operator) -> Role {
    match quantized {
        Quantized::Unsupported if PYTORCH.iter().any(|name| operator.op_type().starts_with(name)) => {
            Role::Refused
        }
        Quantized::Unsupported | Quantized::ReadsIntegers => Role::Free,
        Quantized::Moves => Role::Moves { all: false },
        Quantized::Quantizes => Role::Quantize,
        Quantized::QuantizesChannels => Role::QuantizeChannels,
        Quantized::Dequantizes => Role::Dequantize,
        Quantized::Computes => Role::Quantized,
        Quantized::Joins => Role::Join,
        Quantized::InFloats(scale) => Role::Lowered(Lowering::to(scale)),
        Quantized::ByMode(modes, others) => {
            let known = match operator.param("mode") {
                None => modes.first(),
                Some(mode) => modes.iter().find(|(known, _)| *known == mode.raw()),
            };
            of_quantized(known.map_or(*others, |(_, quantized)| *quantized), operator)
        }
    }
}

fn is_list(operator: &Operator) -> bool {
    operator.op_type() == "pnnx.Expression"
        && operator.param("expr").is_some_and(|expr| expr.raw().starts_with('['))
}
