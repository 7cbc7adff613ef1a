//! Convolutions, and what adds overlapping windows.

use super::windows::{AutoPad, Windows, per_axis, torch_pads};
use crate::OnnxError;
use crate::lower::call::Table;
use crate::lower::call::{Outputs, one};
use crate::lower::emit::Emit;
use crate::lower::{Call, Constant};
use ixion_pnnx::{OperandId, Parameter};

pub(super) const TABLE: Table =
    &[("Col2Im", col2im), ("Conv", conv), ("ConvTranspose", conv_transpose), ("DeformConv", deform_conv)];

/// The weights of a convolution.
enum Weights {
    /// Those of a module.
    Known { weight: Constant, bias: Option<Constant> },
    /// Those that the graph computes.
    Computed { weight: OperandId, bias: Option<OperandId> },
}

impl Weights {
    fn of(call: &mut Call<'_>) -> Result<Self, OnnxError> {
        let (weight, bias) = (call.constant(1)?, call.constant(2)?);
        let is_known = bias.is_some() == call.has_input(2);
        match weight.filter(|weight| is_known && (3..=5).contains(&weight.shape().len())) {
            Some(weight) if bias.as_ref().is_none_or(|bias| bias.dtype() == weight.dtype()) => {
                Ok(Self::Known { weight, bias })
            }
            _ => Ok(Self::Computed { weight: call.input(1)?, bias: call.optional_input(2)? }),
        }
    }

    /// The window; `None` if weights are computed, and too little is known about them.
    fn windows(&self, call: &mut Call<'_>) -> Result<Option<Windows>, OnnxError> {
        match self {
            Self::Known { weight, .. } => {
                let kernel = weight.shape().get(2..).unwrap_or_default();
                Windows::of_weights(call, kernel).map(Some)
            }
            Self::Computed { .. } => Windows::of_computed(call),
        }
    }

    /// The numbers of input and output channels, if they are known. `is_transposed` if the weights have input channels first.
    fn channels(
        &self,
        call: &Call<'_>,
        groups: i64,
        is_transposed: bool,
    ) -> Result<Option<[i64; 2]>, OnnxError> {
        let Self::Known { weight, bias } = self else { return Ok(None) };
        let &[first, second, ..] = weight.shape() else { return Ok(None) };
        let [first, second] = [first, second].map(|len| i64::try_from(len).unwrap_or(i64::MAX));
        if first % groups != 0 {
            let problem =
                format!("expected `group` to divide the {first} channels of the weights, got {groups}");
            return Err(call.error(problem));
        }
        let second = second.saturating_mul(groups);
        let [inputs, outputs] = if is_transposed { [first, second] } else { [second, first] };
        match bias {
            Some(bias) if bias.shape() != [usize::try_from(outputs).unwrap_or(usize::MAX)] => {
                let found = bias.shape();
                Err(call.error(format!("expected the bias to have the shape [{outputs}], got {found:?}")))
            }
            _ => Ok(Some([inputs, outputs])),
        }
    }
}

fn groups_of(call: &Call<'_>) -> Result<i64, OnnxError> {
    match call.int_or("group", 1)? {
        groups if groups >= 1 => Ok(groups),
        groups => Err(call.error(format!("expected `group` to be at least 1, got {groups}"))),
    }
}

/// A convolution: a module with known weights, or the function of computed ones.
struct Convolution {
    module: &'static str,
    function: &'static str,
    x: OperandId,
    weights: Weights,
    groups: i64,
    channels: Option<[i64; 2]>,
}

impl Convolution {
    fn emit<'c>(&self, call: &'c mut Call<'_>, windows: &Windows) -> Emit<'c> {
        let axes = windows.kernel.len();
        let emit = match &self.weights {
            Weights::Known { weight, bias } => {
                let emit = call.emit(&format!("{}{axes}d", self.module)).input(self.x);
                let emit = emit.param("bias", bias.is_some()).attribute("weight", weight.attribute().clone());
                match bias {
                    Some(bias) => emit.attribute("bias", bias.attribute().clone()),
                    None => emit,
                }
            }
            Weights::Computed { weight, bias } => {
                let emit = call.emit(&format!("{}{axes}d", self.function)).named("input", self.x);
                let emit = emit.named("weight", *weight).named_if("bias", *bias);
                emit.param_if("bias", bias.is_none().then_some("None"))
            }
        };
        let emit = emit.param("dilation", windows.dilations.as_slice()).param("groups", self.groups);
        let emit = emit.param("stride", windows.strides.as_slice());
        match self.channels {
            Some([inputs, outputs]) => emit
                .param("in_channels", inputs)
                .param("kernel_size", windows.kernel.as_slice())
                .param("out_channels", outputs),
            None => emit,
        }
    }
}

/// `Conv`.
fn conv(call: &mut Call<'_>) -> Outputs {
    let (x, weights, groups) = (call.input(0)?, Weights::of(call)?, groups_of(call)?);
    let Some(windows) = weights.windows(call)? else { return same(call, x, &[]) };
    let channels = weights.channels(call, groups, false)?;
    let (x, padding): (OperandId, Parameter) = match (windows.even_pads(), windows.known_pads()) {
        (Some(pads), _) => (x, pads.into()),
        // PyTorch knows this for a stride of 1 only, PNNX writes it for all.
        _ if windows.auto_pad == AutoPad::SameUpper => (x, "same".into()),
        (None, Some(pads)) => (padded(call, x, &pads)?, vec![0; pads.len()].into()),
        (None, None) => return same(call, x, &[]),
    };
    let is_module = channels.is_some();
    let conv = Convolution { module: "nn.Conv", function: "F.conv", x, weights, groups, channels };
    let emit = conv.emit(call, &windows).param("padding", padding);
    one(emit.param_if("padding_mode", is_module.then_some("zeros")).one())
}

/// An input with zeros around it.
fn padded(call: &mut Call<'_>, x: OperandId, pads: &[(i64, i64)]) -> Result<OperandId, OnnxError> {
    let emit = call.emit("F.pad").named("input", x).param("mode", "constant");
    emit.param("pad", torch_pads(pads)).param("value", 0.0).one()
}

/// The operator under its own name, for windows or padding that only the shapes of its inputs tell.
fn same(call: &mut Call<'_>, x: OperandId, lists: &[&'static str]) -> Outputs {
    let (w, b) = (call.input(1)?, call.optional_input(2)?);
    let group = call.int_or("group", 1)?;
    let lists = lists.iter().map(|&key| Ok((key, call.ints(key)?))).collect::<Result<Vec<_>, OnnxError>>()?;
    let mut emit = call.same_with_window()?.input(x).named("W", w).named_if("B", b).param("group", group);
    for (key, list) in lists {
        emit = emit.param_if(key, list.filter(|list| !list.is_empty()));
    }
    one(emit.one())
}

/// `ConvTranspose`.
fn conv_transpose(call: &mut Call<'_>) -> Outputs {
    const LISTS: [&str; 2] = ["output_padding", "output_shape"];
    let (x, weights, groups) = (call.input(0)?, Weights::of(call)?, groups_of(call)?);
    let Some(windows) = weights.windows(call)? else { return same(call, x, &LISTS) };
    let channels = weights.channels(call, groups, true)?;
    let axes = windows.kernel.len();
    let added = per_axis(call, "output_padding", axes, 0)?.unwrap_or_else(|| vec![0; axes]);
    let has_shape = call.ints("output_shape")?.is_some_and(|shape| !shape.is_empty());
    let Some(cut) = cut(&windows, &added).filter(|_| !has_shape) else { return same(call, x, &LISTS) };
    let (padding, added): (Vec<i64>, Vec<i64>) = cut.into_iter().unzip();
    let (module, function) = ("nn.ConvTranspose", "F.conv_transpose");
    let conv = Convolution { module, function, x, weights, groups, channels };
    one(conv.emit(call, &windows).param("output_padding", added).param("padding", padding).one())
}

/// What a transposed convolution cuts off at both ends of each axis, and then adds at the end, as PyTorch has it. `None` if it
/// cannot be expressed that way.
fn cut(windows: &Windows, added: &[i64]) -> Option<Vec<(i64, i64)>> {
    let axes = windows.pads.iter().zip(added).zip(windows.strides.iter().zip(&windows.dilations)).enumerate();
    axes.map(|(axis, ((&(before, after), &added), (&stride, &dilation)))| {
        let total = windows.reach(axis).checked_add(added)?.checked_sub(stride)?;
        let (before, after) = match windows.auto_pad {
            AutoPad::NotSet | AutoPad::Valid => (before, after),
            AutoPad::SameUpper => (total / 2, total - total / 2),
            AutoPad::SameLower => (total - total / 2, total / 2),
        };
        let added = added.checked_add(before)?.checked_sub(after)?;
        (before >= 0 && (0..stride.max(dilation)).contains(&added)).then_some((before, added))
    })
    .collect()
}

/// `DeformConv`. PyTorch finds the number of groups of offsets from their channels.
fn deform_conv(call: &mut Call<'_>) -> Outputs {
    let (x, offset, mask) = (call.input(0)?, call.input(2)?, call.optional_input(4)?);
    // Unlike those of other convolutions, the bias is the input after the offsets.
    let (weight, bias) = (call.constant(1)?, call.constant(3)?);
    let groups = groups_of(call)?;
    call.ignore(&["offset_group"]);
    let windows = match &weight {
        Some(weight) => Some(Windows::of_weights(call, weight.shape().get(2..).unwrap_or_default())?),
        None => Windows::of_computed(call)?,
    };
    let Some(windows) = windows.filter(|windows| windows.kernel.len() == 2) else {
        return Err(
            call.error("only images are supported, and computed weights need the attribute `kernel_shape`")
        );
    };
    let weights = match weight.filter(|_| bias.is_some() == call.has_input(3)) {
        Some(weight) => Weights::Known { weight, bias },
        None => Weights::Computed { weight: call.input(1)?, bias: call.optional_input(3)? },
    };
    let (x, padding) = match windows.even_pads() {
        Some(pads) => (x, pads),
        None => (padded(call, x, &windows.pads)?, vec![0, 0]),
    };
    let emit =
        call.emit("torchvision.ops.DeformConv2d").input(x).named("offset", offset).named_if("mask", mask);
    let emit =
        emit.param("groups", groups).param("dilation", windows.dilations).param("stride", windows.strides);
    let emit = emit.param("padding", padding);
    one(match weights {
        Weights::Known { weight, bias } => {
            let emit = emit.param("bias", bias.is_some()).attribute("weight", weight.attribute().clone());
            match bias {
                Some(bias) => emit.attribute("bias", bias.attribute().clone()),
                None => emit,
            }
        }
        Weights::Computed { weight, bias } => {
            let emit = emit.named("weight", weight).named_if("bias", bias);
            emit.param_if("bias", bias.is_none().then_some("None"))
        }
    }
    .one())
}

/// `Col2Im`, under its own name.
fn col2im(call: &mut Call<'_>) -> Outputs {
    let x = call.input(0)?;
    let (image, block) = (call.constant_ints(1)?, call.constant_ints(2)?);
    let computed_image = if image.is_none() { Some(call.input(1)?) } else { None };
    let computed_block = if block.is_none() { Some(call.input(2)?) } else { None };
    let emit = call.same_with_window()?.input(x);
    let emit = emit.named_if("image_shape", computed_image).named_if("block_shape", computed_block);
    one(emit.param_if("image_shape", image).param_if("block_shape", block).one())
}

#[cfg(test)]
mod tests {
    use crate::lower::testing::{FLOAT, graph, lines, node, of_int, refusal, tensor, value};
    use crate::schema::{AttributeProto, GraphProto};

    fn ints(name: &str, ints: &[i64]) -> AttributeProto {
        AttributeProto { name: Some(name.to_owned()), ints: ints.to_vec(), ..AttributeProto::default() }
    }

    fn word(name: &str, word: &str) -> AttributeProto {
        let s = Some(word.as_bytes().to_vec());
        AttributeProto { name: Some(name.to_owned()), s, ..AttributeProto::default() }
    }

    /// A convolution of images with six channels, with known weights of these lengths.
    fn convolution(op_type: &str, weights: &[i64], attributes: Vec<AttributeProto>) -> GraphProto {
        let mut graph = graph(&["x"], vec![node(op_type, &["x", "w"], &["y"], attributes)], &["y"]);
        graph.input = vec![value("x", FLOAT, &[1, 6, 8, 8])];
        let bytes = vec![0; weights.iter().product::<i64>() as usize * 4];
        graph.initializer = vec![tensor("w", FLOAT, weights, &bytes)];
        graph
    }

    #[track_caller]
    fn has(graph: GraphProto, wanted: &[&str]) {
        let lines = lines(graph);
        let is_there = |wanted: &&str| lines.iter().any(|line| line.contains(wanted));
        assert!(wanted.iter().all(is_there), "{lines:?}");
    }

    #[test]
    fn known_weights_become_a_module() {
        let attributes = vec![of_int("group", 2), ints("pads", &[1, 0, 1, 0]), ints("strides", &[2, 1])];
        has(
            convolution("Conv", &[4, 3, 3, 3], attributes),
            &[
                "nn.Conv2d x -> y bias=False dilation=(1,1) groups=2 in_channels=6 kernel_size=(3,3) out_channels=4 \
             padding=(1,0) padding_mode=zeros stride=(2,1)",
            ],
        );
    }

    #[test]
    fn padding_may_differ_at_both_ends() {
        let given = convolution("Conv", &[4, 6, 3, 3], vec![ints("pads", &[0, 1, 1, 1])]);
        has(given, &["F.pad x", "pad=(1,1,0,1)", "padding=(0,0)"]);
        let lower = || word("auto_pad", "SAME_LOWER");
        has(convolution("Conv", &[4, 6, 2, 3], vec![lower()]), &["pad=(1,1,1,0)"]);
        has(convolution("Conv", &[4, 6, 2, 3], vec![word("auto_pad", "SAME_UPPER")]), &["padding=same"]);
        let strided = vec![lower(), ints("strides", &[2, 2])];
        has(convolution("Conv", &[4, 6, 2, 3], strided), &["Conv x w -> y auto_pad=SAME_LOWER"]);
    }

    #[test]
    fn what_is_cut_off_may_differ_at_both_ends() {
        let strided = |pads: &[i64]| vec![ints("pads", pads), ints("strides", &[2, 2])];
        let added = convolution("ConvTranspose", &[6, 4, 3, 3], strided(&[1, 1, 0, 1]));
        has(added, &["nn.ConvTranspose2d x -> y", "output_padding=(1,0)", "padding=(1,1)"]);
        let less = convolution("ConvTranspose", &[6, 4, 3, 3], strided(&[0, 1, 1, 1]));
        has(less, &["ConvTranspose x w -> y"]);
    }

    #[test]
    fn wrong_weights_are_refused() {
        let groups = refusal(convolution("Conv", &[4, 3, 3, 3], vec![of_int("group", 3)]));
        assert!(
            groups.contains("expected `group` to divide the 4 channels of the weights, got 3"),
            "{groups}"
        );
        let kernel = refusal(convolution("Conv", &[4, 6, 3, 3], vec![ints("kernel_shape", &[5, 5])]));
        assert!(kernel.contains("to be the size [3, 3] of the weights, got [5, 5]"), "{kernel}");
        let pads = refusal(convolution("Conv", &[4, 6, 3, 3], vec![ints("pads", &[1, -1, 1, 1])]));
        assert!(pads.contains("expected `pads` to have 4 values from 0 on"), "{pads}");
    }
}
