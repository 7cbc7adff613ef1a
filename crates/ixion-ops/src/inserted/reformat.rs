//! Conversion of tensor formats: the operator that the engine inserts between layers whose formats differ.

use crate::op::{
    Cost, CpuLayer, ForwardContext, Io, Layer, LayerError, Result, Step, TensorFormat, TensorMeta, View,
};
use crate::support::int8::quantization;
use half::{bf16, f16};
use ixion_kernels::reformat::{Cut, Stored, quantize_last, rearrange, reformat};
use ixion_tensor::{Bits, DType, Format, Layout, MAX_RANK, Shape, TensorView, TensorViewMut, with_bits};
use smallvec::SmallVec;

/// Converts a tensor to another format: another element type, a plain, blocked or channels-last layout, quantised or not.
///
/// No file contains this operator. Conversions between types round to the nearest value. Quantised values are int8: with the
/// zero point 0, from -127 to 127 times a scale, which is symmetric quantisation, as in TensorRT and in PyTorch's `torch.qint8`
/// weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Reformat {
    to: TensorFormat,
    /// The step of the input, if it is quantised.
    from_step: Option<Step>,
    /// The step of the output, if it is quantised.
    to_step: Option<Step>,
}

impl Reformat {
    /// The operator type that graphs show.
    pub const TYPE: &'static str = "ixion.Reformat";

    /// A layer that converts to this format; the scales are those of a quantised input and output with the zero point 0.
    pub fn new(to: TensorFormat, from_scale: Option<f32>, to_scale: Option<f32>) -> Self {
        Self::between(to, [from_scale, to_scale].map(|scale| scale.map(Step::from)))
    }

    /// A layer that converts to this format; the steps are those of a quantised input and output.
    pub fn between(to: TensorFormat, [from_step, to_step]: [Option<Step>; 2]) -> Self {
        Self { to, from_step, to_step }
    }

    /// Returns true if the output is blocked.
    pub fn makes_blocks(&self) -> bool {
        matches!(self.to.format, Format::Blocked { .. })
    }

    /// The scales of input and output, if these are quantised.
    pub fn scales(&self) -> [Option<f32>; 2] {
        [self.from_step, self.to_step].map(|step| step.map(|step| step.scale))
    }
}

/// Returns true if values of this type can be converted.
fn is_convertible(dtype: DType, step: Option<Step>) -> bool {
    matches!((dtype, step), (DType::F32 | DType::F16 | DType::Bf16, None) | (DType::I8, Some(_)))
}

impl Layer for Reformat {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let input = &inputs[0];
        // Shape rules see a float type for tensors that the engine quantised.
        let from = if self.from_step.is_some() { DType::I8 } else { input.dtype() };
        let changes = from != self.to.dtype || self.from_step != self.to_step;
        if changes && !(is_convertible(from, self.from_step) && is_convertible(self.to.dtype, self.to_step)) {
            return Err(LayerError::dtype(
                "the input",
                format!("a type that can be converted to {}", self.to),
                input.dtype(),
            ));
        }
        Ok(vec![input.with_dtype(self.to.dtype).with_format(self.to.format).with_step(self.to_step)])
    }

    /// A view, if elements are stored in the same order in both formats, as those of N×C×1×1 are for any order of axes.
    fn view_of(&self, _: usize, inputs: &[(DType, Layout)], shape: &Shape) -> Result<Option<View>> {
        let is_kept = |dtype: DType| dtype == self.to.dtype && self.from_step == self.to_step;
        let wanted = match self.to.format {
            Format::Plain => Layout::contiguous(*shape),
            Format::ChannelsLast => Layout::channels_last(*shape),
            Format::Blocked { .. } => return Ok(None),
        };
        let input =
            inputs.first().filter(|(dtype, layout)| is_kept(*dtype) && layout.has_same_positions(&wanted));
        Ok(input.map(|&(_, layout)| View { input: 0, layout: wanted.with_offset(layout.offset()) }))
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        Cost::of_moving(inputs, outputs)
    }
}

impl CpuLayer for Reformat {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        // Only devices have floats with the channels last.
        let is_known =
            formats.get(position).is_some_and(|it| it.format != Format::ChannelsLast || it.is_quantized);
        is_known && (position == 0 || formats.get(position) == Some(&self.to))
    }

    fn takes_zero_points(&self) -> bool {
        true
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, output) = (&io.inputs[0], &mut io.outputs[0]);
        if output.num_elements() == 0 {
            return Ok(());
        }
        if input.layout().format() == Format::Plain && dense(input.layout()).is_none() {
            let input = input.to_tensor()?;
            return self.convert(&input.view(), output, &io.context);
        }
        self.convert(input, output, &io.context)
    }
}

impl Reformat {
    /// Converts a dense input.
    fn convert(
        &self,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        context: &ForwardContext<'_>,
    ) -> Result<()> {
        if [input.layout(), output.layout()].iter().all(|layout| layout.is_contiguous())
            && self.from_step.is_none()
            && self.to_step.is_none()
        {
            return Ok(output.cast_from(input)?);
        }
        let cuts = Self::cuts(input.layout(), output.layout())?;
        if input.dtype() == output.dtype() && self.from_step == self.to_step {
            return with_bits!(input.dtype(), B => Self::moved::<B>(cuts, input, output, context));
        }
        match input.dtype() {
            DType::F32 => self.convert_from::<f32>(cuts, input, output, context),
            DType::F16 => self.convert_from::<f16>(cuts, input, output, context),
            DType::Bf16 => self.convert_from::<bf16>(cuts, input, output, context),
            DType::I8 => self.convert_from::<i8>(cuts, input, output, context),
            found => Err(not_stored(found)),
        }
    }

    /// Converts elements of one type.
    fn convert_from<T: Stored>(
        &self,
        cuts: (Cut, Cut),
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        context: &ForwardContext<'_>,
    ) -> Result<()> {
        match output.dtype() {
            DType::F32 => self.stored::<T, f32>(cuts, input, output, context),
            DType::F16 => self.stored::<T, f16>(cuts, input, output, context),
            DType::Bf16 => self.stored::<T, bf16>(cuts, input, output, context),
            DType::I8 => self.stored::<T, i8>(cuts, input, output, context),
            found => Err(not_stored(found)),
        }
    }

    /// Input and output as cuts along the same axis; without blocks if both are plain.
    fn cuts(from: &Layout, to: &Layout) -> Result<(Cut, Cut)> {
        let axis = |layout: &Layout| match layout.format() {
            Format::Blocked { axis, block } => Some((usize::from(axis), usize::from(block))),
            _ if layout.is_contiguous() => None,
            // With the channels last, they are one block.
            _ => layout.shape().get(1).map(|&channels| (1, channels)),
        };
        let (source, target) = (axis(from), axis(to));
        let cut = match (source, target) {
            (Some((a, _)), Some((b, _))) if a != b => {
                return Err(LayerError::Unsupported(format!(
                    "cannot convert from blocks along axis {a} to blocks along axis {b}; convert to the plain format in between"
                )));
            }
            (Some((axis, _)), _) | (None, Some((axis, _))) => axis,
            (None, None) => 0,
        };
        let dims = from.shape().dims();
        let (outer, rest) = dims.split_at(cut.min(dims.len()));
        let (len, inner) = rest.split_first().map_or((1, rest), |(&len, inner)| (len, inner));
        let whole = Cut { outer: outer.iter().product(), len, inner: inner.iter().product(), block: None };
        let of = |found: Option<(usize, usize)>| Cut { block: found.map(|found| found.1), ..whole };
        Ok((of(source), of(target)))
    }

    /// Moves elements without conversion.
    fn moved<B: Bits>(
        (from, to): (Cut, Cut),
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        context: &ForwardContext<'_>,
    ) -> Result<()> {
        let source = input.with_layout(flat(input.layout())?)?;
        let layout = flat(output.layout())?;
        let mut output = output.reborrow().with_layout(layout)?;
        let (Ok(source), Ok(target)) = (source.bits_slice::<B>(), output.bits_slice::<B>()) else {
            return Err(not_dense());
        };
        Ok(rearrange((from, source), (to, target), context.limits())?)
    }

    /// Converts elements from one type to another.
    fn stored<T: Stored, U: Stored>(
        &self,
        (from, to): (Cut, Cut),
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        context: &ForwardContext<'_>,
    ) -> Result<()> {
        let source = input.with_layout(dense(input.layout()).ok_or_else(not_dense)?)?;
        let layout = dense(output.layout()).ok_or_else(not_dense)?;
        let mut target = output.reborrow().with_layout(layout)?;
        let [from_how, to_how] =
            [self.from_step, self.to_step].map(|step| quantization(step.unwrap_or(Step::from(1.0))));
        if let (Some(block), DType::F32, DType::I8) = (to.block, T::DTYPE, U::DTYPE)
            && block == to.len
            && quantize_last(from, source.slice()?, to_how, target.slice()?, context.limits())?
        {
            return Ok(());
        }
        let convert = |x: T| U::store_as(x.load_as(&from_how), &to_how);
        let filler = U::store_as(0.0, &to_how);
        Ok(reformat((from, source.slice()?), (to, target.slice()?), filler, context.limits(), convert)?)
    }
}

/// All stored elements as one axis: arrays of few axes need no allocation.
fn flat(layout: &Layout) -> Result<Layout> {
    let dense = dense(layout).ok_or_else(not_dense)?;
    let elements = Shape::new(&[dense.shape().num_elements()])?;
    dense.reshape(&elements)?.ok_or_else(not_dense)
}

/// The elements in the order of memory, as a contiguous layout; `None` if there are gaps between them, or if their order is
/// none of a [`Format`].
fn dense(layout: &Layout) -> Option<Layout> {
    let ordered = match layout.format() {
        Format::Plain if !layout.is_contiguous() => {
            let rank = layout.shape().rank();
            let order: SmallVec<[usize; MAX_RANK]> = [0].into_iter().chain(2..rank).chain([1]).collect();
            layout.permute(&order).ok()?
        }
        _ => layout.unrolled().ok()?,
    };
    ordered.is_contiguous().then_some(ordered)
}

fn not_stored(found: DType) -> LayerError {
    LayerError::dtype("a tensor that is reformatted", "f32, f16, bf16 or i8", found)
}

/// The engine passes only dense tensors to this layer; other callers may not.
fn not_dense() -> LayerError {
    LayerError::Unsupported("a reformat requires dense tensors, without gaps between elements".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::waves;
    use ixion_tensor::Limits;
    use ixion_tensor::{Shape, Tensor, Workspace};

    fn run(layer: &mut Reformat, input: &Tensor) -> Tensor {
        let input_meta = TensorMeta::new(input.dtype(), input.shape().iter().copied())
            .with_format(input.layout().format());
        let meta = layer.infer(&[input_meta]).unwrap().remove(0);
        let layout = meta.layout().unwrap();
        let len = Shape::new(&[layout.span()]).unwrap();
        let mut output = Tensor::zeros(meta.dtype(), &len).unwrap();
        let (mut workspace, limits) = (Workspace::new().unwrap(), Limits::default());
        let mut context = ForwardContext::new(&mut workspace, &limits);
        let view = output.view_mut().unwrap().with_layout(layout).unwrap();
        layer.forward(&mut Io::new(&[input.view()], &mut [view], &mut context)).unwrap();
        output.with_layout(layout).unwrap()
    }

    #[test]
    fn round_trips_in_every_type() {
        let x = waves(&[2, 19, 3, 5]);
        for dtype in [DType::Bool, DType::I8, DType::F16, DType::I64, DType::F32, DType::C64, DType::C128] {
            let x = x.cast(dtype).unwrap();
            let blocked = TensorFormat::plain(dtype).blocked(1, 16);
            let there = run(&mut Reformat::new(blocked, None, None), &x);
            assert_eq!(there.to_plain().unwrap(), x);
            let eight = TensorFormat::plain(dtype).blocked(1, 8);
            let across = run(&mut Reformat::new(eight, None, None), &there);
            assert_eq!(run(&mut Reformat::new(TensorFormat::plain(dtype), None, None), &across), x);
        }
    }

    #[test]
    fn types_are_converted() {
        let x = Tensor::from_vec(vec![1.0f32, -0.26, 300.0], &[1, 3]).unwrap();
        let half = run(&mut Reformat::new(TensorFormat::plain(DType::F16).blocked(1, 8), None, None), &x);
        assert_eq!(half.to_plain().unwrap(), x.cast(DType::F16).unwrap());
        let whole = run(&mut Reformat::new(TensorFormat::quantized(), None, Some(0.25)), &x);
        assert_eq!(whole.to_vec::<i8>().unwrap(), [4, -1, 127]);
        let back = run(&mut Reformat::new(TensorFormat::plain(DType::F32), Some(0.25), None), &whole);
        assert_eq!(back.to_vec::<f32>().unwrap(), [1.0, -0.25, 31.75]);
    }

    #[test]
    fn int8_without_a_scale_is_not_converted() {
        let to_half = Reformat::new(TensorFormat::plain(DType::F16), None, None);
        let error = to_half.infer(&[TensorMeta::new(DType::I8, [2])]).unwrap_err();
        assert!(error.to_string().contains("f16"), "{error}");
    }

    #[test]
    fn channels_last_is_left_to_devices() {
        let last = TensorFormat::plain(DType::F32).channels_last();
        let layer = Reformat::new(last, None, None);
        assert!(!layer.supports(0, &[last]) && !layer.supports(1, &[TensorFormat::plain(DType::F32), last]));
        let view = |dims: &[usize]| {
            let shape = Shape::new(dims).unwrap();
            layer.view_of(0, &[(DType::F32, Layout::contiguous(shape))], &shape).unwrap()
        };
        assert!(view(&[2, 5, 1, 1]).is_some() && view(&[2, 5, 3, 1]).is_none());
    }

    #[test]
    fn quantised_tensors_may_have_their_channels_last() {
        let (float, quantized) = (TensorFormat::plain(DType::F32), TensorFormat::quantized());
        let last = quantized.channels_last();
        let layer = Reformat::new(last, None, Some(0.25));
        assert!(layer.supports(0, &[float]) && layer.supports(1, &[float, last]));
        let x = waves(&[2, 19, 3, 5]).cast(DType::F32).unwrap();
        let plain = run(&mut Reformat::new(quantized, None, Some(0.25)), &x);
        for from in [float, float.blocked(1, 16), float.blocked(1, 8)] {
            let x = run(&mut Reformat::new(from, None, None), &x);
            let there = run(&mut Reformat::new(last, None, Some(0.25)), &x);
            assert_eq!(*there.layout(), Layout::channels_last(*there.shape()));
            assert_eq!(there, plain);
            let back = run(&mut Reformat::new(from, Some(0.25), None), &there);
            let wanted = run(&mut Reformat::new(from, Some(0.25), None), &plain);
            assert_eq!(back.to_plain().unwrap(), wanted.to_plain().unwrap());
            assert_eq!(run(&mut Reformat::new(quantized, Some(0.25), Some(0.25)), &there), plain);
            assert_eq!(run(&mut Reformat::new(last, Some(0.25), Some(0.25)), &plain), there);
            let coarse = run(&mut Reformat::new(last, Some(0.25), Some(1.0)), &there);
            assert_eq!(coarse, run(&mut Reformat::new(quantized, Some(0.25), Some(1.0)), &plain));
        }
    }

    #[test]
    fn zero_points_are_added_and_subtracted() {
        let x = Tensor::from_vec(vec![1.0f32, -0.26, 300.0, -300.0], &[1, 2, 2, 1]).unwrap();
        let (float, quantized) = (TensorFormat::plain(DType::F32), TensorFormat::quantized());
        let step = |scale, zero_point| Some(Step { scale, zero_point });
        for to in [quantized, quantized.channels_last()] {
            let whole = run(&mut Reformat::between(to, [None, step(0.25, -100)]), &x);
            assert_eq!(whole.to_vec::<i8>().unwrap(), [-96, -101, 127, -128]);
            let back = run(&mut Reformat::between(float, [step(0.25, -100), None]), &whole);
            assert_eq!(back.to_vec::<f32>().unwrap(), [1.0, -0.25, 56.75, -7.0]);
            let coarse = run(&mut Reformat::between(quantized, [step(0.25, -100), step(0.5, 3)]), &whole);
            assert_eq!(coarse.to_vec::<i8>().unwrap(), [5, 3, 117, -11]);
        }
    }

    #[test]
    fn transposed_inputs_are_read() {
        let x = waves(&[3, 4]);
        let transposed = x.permute(&[1, 0]).unwrap();
        let there =
            run(&mut Reformat::new(TensorFormat::plain(DType::F64).blocked(1, 8), None, None), &transposed);
        assert_eq!(there.to_plain().unwrap(), transposed);
    }
}
