//! Padding and cropping tensors.

use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::ParamOrInput;
use crate::support::choices::choices;
use crate::support::delegation::Delegating;
use crate::support::views::{Plain, write_plain};
use ixion_kernels::naive::PadMode;
use ixion_kernels::take::take_axes;
use ixion_tensor::{Dim, Layout, Tensor, TensorError, TensorView, TensorViewMut, with_bits};
use std::ops::RangeInclusive;

choices! {
    /// The values that a tensor is padded with.
    pub enum PaddingMode {
        /// A constant.
        Constant = "constant",
        /// Zeros, as convolutions name them.
        Zeros = "zeros",
        /// The tensor mirrored at its edge, without repeating the edge element.
        Reflect = "reflect",
        /// The edge element repeated.
        Replicate = "replicate",
        /// The elements at the opposite end of the tensor.
        Circular = "circular",
    }
}

impl PaddingMode {
    /// The rule that computes the padding from the tensor; `None` for a constant.
    pub fn mirror(self) -> Option<PadMode> {
        match self {
            Self::Constant | Self::Zeros => None,
            Self::Reflect => Some(PadMode::Reflect),
            Self::Replicate => Some(PadMode::Replicate),
            Self::Circular => Some(PadMode::Circular),
        }
    }
}

crate::operator! {
    /// `torch.nn.functional.pad`: pads some of the last axes before and after their elements. A negative number removes
    /// elements.
    pub struct Pad for "F.pad", "aten::pad" {
        /// The number of elements to add before and after the last axis, before and after the last but one, and so on.
        pad: ParamOrInput<Vec<i64>>,
        /// The values of the padding.
        mode: PaddingMode = PaddingMode::Constant,
        /// The value of mode `constant`; by default 0.
        value: Option<f64> = None,
    }
    validate |layer| {
        match &layer.pad {
            ParamOrInput::Value(pad) => pairs("pad", pad).map(drop),
            ParamOrInput::Input(_) => Ok(()),
        }
    }
}

macro_rules! pad_modules {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident is $mode:ident for $($op_type:literal),+ { $($fields:tt)* } |$layer:ident| $value:expr;
    )*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $($op_type),+ {
                /// The number of elements to add before and after the last axis, before and after the last but one, and so on.
                padding: Vec<i64>,
                $($fields)*
            }
            validate |layer| { pairs("padding", &layer.padding).map(drop) }
        }

        impl $name {
            /// The padding that the parameters give, not yet checked against an input.
            ///
            /// # Errors
            /// Returns an error if `padding` has an odd number of elements, or one that exceeds 2⁴⁰ in magnitude.
            pub fn padding(&self) -> Result<Padding> {
                let ($layer, pairs) = (self, pairs("padding", &self.padding)?);
                Ok(Padding { pairs, mode: PaddingMode::$mode, value: $value })
            }
        }

        impl Delegating for $name {
            fn delegate(&self, _: usize) -> Result<impl CpuLayer> {
                self.padding()
            }
        }
    )*};
}

pad_modules! {
    /// `torch.nn.ConstantPad1d`, `2d`, `3d`: pads the last axes with a constant. A negative number removes elements.
    ConstantPad is Constant for "nn.ConstantPad1d", "nn.ConstantPad2d", "nn.ConstantPad3d" {
        /// The constant.
        value: f64,
    }
    |layer| layer.value;

    /// `torch.nn.ZeroPad1d`, `2d`, `3d`: pads the last axes with zeros. A negative number removes elements.
    ZeroPad is Constant for "nn.ZeroPad2d", "nn.ZeroPad1d", "nn.ZeroPad3d" {}
    |_layer| 0.0;

    /// `torch.nn.ReflectionPad1d`, `2d`, `3d`: pads the last axes with the input mirrored at its edges, without repeating the
    /// edge elements.
    ReflectionPad is Reflect for "nn.ReflectionPad1d", "nn.ReflectionPad2d", "nn.ReflectionPad3d" {}
    |_layer| 0.0;

    /// `torch.nn.ReplicationPad1d`, `2d`, `3d`: pads the last axes by repeating their edge elements.
    ReplicationPad is Replicate for "nn.ReplicationPad1d", "nn.ReplicationPad2d", "nn.ReplicationPad3d" {}
    |_layer| 0.0;

    /// `torch.nn.CircularPad1d`, `2d`, `3d`: pads the last axes with the elements at their opposite ends.
    CircularPad is Circular for "nn.CircularPad1d", "nn.CircularPad2d", "nn.CircularPad3d" {}
    |_layer| 0.0;
}

/// The padding before and after each axis, the last axis first.
fn pairs(key: &'static str, numbers: &[i64]) -> Result<Vec<(i64, i64)>> {
    const MAX: i64 = 1 << 40;
    let (pairs, rest) = numbers.as_chunks::<2>();
    let refuse = |reason: &str| Err(LayerError::invalid(key, format!("{numbers:?}"), reason));
    if !rest.is_empty() {
        return refuse("expected two numbers for each axis");
    }
    if numbers.iter().any(|number| !(-MAX..=MAX).contains(number)) {
        return refuse("no number may exceed 2⁴⁰ in magnitude");
    }
    Ok(pairs.iter().map(|&[before, after]| (before, after)).collect())
}

/// The padding of an operator of this family.
#[derive(Debug, Clone)]
pub struct Padding {
    /// The padding before and after each axis, the last axis first.
    pub pairs: Vec<(i64, i64)>,
    /// What the padding holds: a constant, or elements of the tensor.
    pub mode: PaddingMode,
    /// The value that is written, converted to the tensor's element type; modes that mirror or repeat the tensor ignore it.
    pub value: f64,
}

impl Layer for Padding {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let input = &inputs[0];
        if self.pairs.len() > input.rank() {
            return Err(LayerError::shape("the input", format!("at least {} axes", self.pairs.len()), input));
        }
        let mut dims = input.dims().to_vec();
        for (dim, &(before, after)) in dims.iter_mut().rev().zip(&self.pairs) {
            if let (Some(mode), Some(len)) =
                (self.mode.mirror(), dim.fixed().and_then(|len| usize::try_from(len).ok()))
            {
                check_room(mode, len, before, after, input)?;
            }
            *dim = dim.clone() + (before + after);
            if dim.fixed().is_some_and(|len| len < 0) {
                let wanted = format!("more elements than the padding ({before}, {after}) cuts off");
                return Err(LayerError::shape("an axis of the input", wanted, input));
            }
        }
        Ok(vec![input.with_dims(dims)])
    }
}

impl CpuLayer for Padding {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, output, limits) = (&io.inputs[0], &mut io.outputs[0], io.context.limits());
        if output.num_elements() == 0 {
            return Ok(());
        }
        let Some(mode) = self.mode.mirror() else { return self.surround(input, output) };
        let places = output.shape().iter().fold(0u64, |sum, &len| sum.saturating_add(len as u64));
        limits.check_tensor("the indices of a padding", places.saturating_mul(size_of::<usize>() as u64))?;
        let (axes, inner) = self.sources(mode, input)?;
        let input = Plain::of(input)?;
        write_plain(output, &mut |output| {
            with_bits!(output.dtype(), B => {
                take_axes(input.view().bits_slice::<B>()?, &axes, inner, output.bits_slice::<B>()?);
            });
            Ok(())
        })
    }
}

impl Padding {
    /// Fills the output with the value, then copies the input into it.
    fn surround(&self, input: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<()> {
        let value = Tensor::scalar(self.value).cast(output.dtype())?.expand(output.shape())?;
        output.copy_from(&value.view())?;
        let (mut from, mut to): (Layout, Layout) = (*input.layout(), *output.layout());
        for (i, &(before, after)) in self.pairs.iter().enumerate() {
            let axis = from.shape().rank() - 1 - i;
            let (cut_before, cut_after) = (positive(-before), positive(-after));
            let kept = from.shape()[axis].saturating_sub(cut_before).saturating_sub(cut_after);
            if kept == 0 {
                return Ok(());
            }
            from = from.narrow(axis, cut_before, kept)?;
            to = to.narrow(axis, positive(before), kept)?;
        }
        Ok(output.reborrow().with_layout(to)?.copy_from(&input.with_layout(from)?)?)
    }

    /// For all axes from the first to the last that are padded, the length and the indices of the source elements; and the
    /// number of elements along the axes after them.
    fn sources(&self, mode: PadMode, input: &TensorView<'_>) -> Result<Sources> {
        let shape = input.shape();
        let changing = |(_, pair): &(usize, &(i64, i64))| **pair != (0, 0);
        let axes: Vec<usize> =
            self.pairs.iter().enumerate().filter(changing).map(|(i, _)| shape.rank() - 1 - i).collect();
        let (Some(&last), Some(&first)) = (axes.first(), axes.last()) else { return Ok((Vec::new(), 1)) };
        let sources = (first..=last).map(|axis| {
            let (before, after) = self.pairs.get(shape.rank() - 1 - axis).copied().unwrap_or_default();
            let sources = match mode {
                PadMode::Circular => cut_first(mode, shape[axis], before, after),
                _ => mode.sources(shape[axis], before, after),
            };
            Ok((shape[axis], sources.ok_or_else(too_short)?))
        });
        Ok((sources.collect::<Result<_>>()?, shape.iter().skip(last + 1).product()))
    }
}

/// Axes, each with its length and the indices of the source elements, and the number of elements along the axes after them.
type Sources = (Vec<(usize, Vec<usize>)>, usize);

/// The indices of the source elements of a padded axis, if elements removed at one end do not reappear at the other.
fn cut_first(mode: PadMode, len: usize, before: i64, after: i64) -> Option<Vec<usize>> {
    let cut = positive(-before);
    let kept = len.checked_sub(cut)?.checked_sub(positive(-after))?;
    let sources = mode.sources(kept, before.max(0), after.max(0))?;
    Some(sources.into_iter().map(|source| source + cut).collect())
}

fn too_short() -> LayerError {
    TensorError::InvalidArgument("an axis of the input is too short for its padding".into()).into()
}

/// Checks that an axis is long enough for its padding.
fn check_room(mode: PadMode, len: usize, before: i64, after: i64, input: &TensorMeta) -> Result<()> {
    let most = match mode {
        PadMode::Reflect => len.saturating_sub(1),
        PadMode::Circular => len,
        PadMode::Replicate if len > 0 => return Ok(()),
        PadMode::Replicate => 0,
    };
    if positive(before.max(after)) <= most {
        return Ok(());
    }
    let wanted = format!("axes that are longer than their padding ({before}, {after})");
    Err(LayerError::shape("the input", wanted, input))
}

fn positive(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

impl Pad {
    /// The padding for these values of `pad`, two for each axis, the last axis first. The constant is 0 if `value` is absent.
    ///
    /// # Errors
    /// Returns an error if `pad` has an odd number of elements, or one that exceeds 2⁴⁰ in magnitude.
    pub fn padding(&self, pad: &[i64]) -> Result<Padding> {
        Ok(Padding { pairs: pairs("pad", pad)?, mode: self.mode, value: self.value.unwrap_or(0.0) })
    }
}

impl Layer for Pad {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let pad = self.pad.dims(inputs)?;
        if let Some(pad) = pad.iter().map(Dim::fixed).collect::<Option<Vec<i64>>>() {
            return self.padding(&pad)?.infer(inputs);
        }
        if pad.len() % 2 != 0 || pad.len() / 2 > inputs[0].rank() {
            let wanted = format!("two numbers for each of at most {} axes", inputs[0].rank());
            return Err(LayerError::shape("`pad`", wanted, pad.len()));
        }
        let mut dims = inputs[0].dims().to_vec();
        for (dim, pair) in dims.iter_mut().rev().zip(pad.chunks_exact(2)) {
            *dim = pair.iter().fold(dim.clone(), |dim, places| dim + places.clone());
        }
        Ok(vec![inputs[0].with_dims(dims)])
    }
}

impl CpuLayer for Pad {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let mut padding = match &self.pad {
            ParamOrInput::Value(pad) => self.padding(pad)?,
            ParamOrInput::Input(position) => self.padding(&io.inputs[*position].to_vec::<i64>()?)?,
        };
        padding.forward(io)
    }
}

operators! {
    Pad: moves(Padded).when_quantized(ByMode(&[("constant", InFloats(OfInput)), ("reflect", Moves)], &Unsupported)),
    ConstantPad: moves(Padded).when_quantized(InFloats(OfInput)), ZeroPad: moves(Padded).when_quantized(InFloats(OfInput)),
    ReflectionPad: moves(Padded).when_quantized(Moves), ReplicationPad: moves(Padded), CircularPad: moves(Padded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{counting, operator};
    use ixion_tensor::DType;

    fn pad(op_type: &str, params: &[(&str, &str)], shape: &[usize]) -> Result<(Vec<usize>, Vec<i32>)> {
        let output = operator(op_type, params).run_one(&[&counting(DType::I32, shape)])?;
        Ok((output.shape().to_vec(), output.to_vec().unwrap()))
    }

    #[test]
    fn places_are_those_of_pytorch() {
        let f =
            |mode, pads| pad("F.pad", &[("mode", mode), ("pad", pads), ("value", "None")], &[2, 3]).unwrap();
        assert_eq!(f("constant", "(1,0,0,1)"), (vec![3, 4], vec![0, 0, 1, 2, 0, 3, 4, 5, 0, 0, 0, 0]));
        assert_eq!(f("constant", "(-1,1)"), (vec![2, 3], vec![1, 2, 0, 4, 5, 0]));
        assert_eq!(f("constant", "(-2,-1)"), (vec![2, 0], vec![]));
        assert_eq!(f("constant", "(-3,3)"), (vec![2, 3], vec![0; 6]));
        assert_eq!(
            f("reflect", "(2,1,1,0)"),
            (vec![3, 6], vec![5, 4, 3, 4, 5, 4, 2, 1, 0, 1, 2, 1, 5, 4, 3, 4, 5, 4])
        );
        assert_eq!(f("replicate", "(1,-2)"), (vec![2, 2], vec![0, 0, 3, 3]));
        assert_eq!(f("circular", "(-1,2)"), (vec![2, 4], vec![1, 2, 1, 2, 4, 5, 4, 5]));
        assert_eq!(f("circular", "(3,1)"), (vec![2, 7], vec![0, 1, 2, 0, 1, 2, 0, 3, 4, 5, 3, 4, 5, 3]));
        assert_eq!(f("reflect", "()"), (vec![2, 3], vec![0, 1, 2, 3, 4, 5]));
        let module = |op_type, params: &[(&str, &str)]| pad(op_type, params, &[1, 2, 2]).unwrap();
        assert_eq!(
            module("nn.ConstantPad1d", &[("padding", "(1,0)"), ("value", "-3.7")]).1,
            [-3, 0, 1, -3, 2, 3]
        );
        assert_eq!(module("nn.ZeroPad2d", &[("padding", "(0,0,1,0)")]).1, [0, 0, 0, 1, 2, 3]);
        assert_eq!(module("nn.ReflectionPad1d", &[("padding", "(1,1)")]).1, [1, 0, 1, 0, 3, 2, 3, 2]);
        assert_eq!(module("nn.ReplicationPad2d", &[("padding", "(0,1,0,0)")]).1, [0, 1, 1, 2, 3, 3]);
        assert_eq!(module("nn.CircularPad1d", &[("padding", "(1,0)")]).1, [1, 0, 1, 3, 2, 3]);
    }

    #[test]
    fn every_type_can_be_padded() {
        for dtype in DType::ALL {
            let x = counting(DType::U8, &[1, 2]).cast(dtype).unwrap();
            let one = operator("F.pad", &[("pad", "(1,0)"), ("value", "1")]).run_one(&[&x]).unwrap();
            let want = counting(DType::U8, &[1, 2]).pad(&[(0, 0), (1, 0)], 1u8).unwrap().cast(dtype).unwrap();
            assert_eq!(one, want);
            assert!(operator("F.pad", &[("pad", "(0,1)"), ("mode", "circular")]).run_one(&[&x]).is_ok());
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let error =
            |mode, pads, shape: &[usize]| pad("F.pad", &[("mode", mode), ("pad", pads)], shape).unwrap_err();
        assert_eq!(
            error("reflect", "(3,0)", &[2, 3]).to_string(),
            "the input: expected axes that are longer than their padding (3, 0), got 2×3 i32"
        );
        assert_eq!(
            error("constant", "(-2,-2)", &[3]).to_string(),
            "an axis of the input: expected more elements than the padding (-2, -2) cuts off, got 3 i32"
        );
        error("constant", "(1,1,1,1)", &[3]);
        error("circular", "(0,3)", &[2]);
        error("replicate", "(1,0)", &[0]);
        error("mirror", "(1,1)", &[3]);
        assert!(operator("F.pad", &[("pad", "(1,1,1)")]).create(1).is_err());
        assert!(operator("nn.ZeroPad2d", &[("padding", "(9223372036854775807,1)")]).create(1).is_err());
    }

    #[test]
    fn symbols_and_odd_inputs() {
        let symbolic = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::symbol("w")]);
        let output = operator("F.pad", &[("pad", "(1,2)"), ("mode", "reflect")]).infer(&[symbolic]).unwrap();
        assert_eq!(output[0].to_string(), "n×(w + 3) f32");
        for mode in ["constant", "reflect", "replicate", "circular"] {
            for pads in ["(1,2,0,1)", "(-1,-1)", "(-3,4,1,-2)", "(1000000000000,0)"] {
                operator("F.pad", &[("pad", pads), ("mode", mode)]).survives(1);
            }
        }
    }
}
