//! Convolution of quantised (int8) tensors whose channels are innermost.

use super::Conv;
use crate::layout::padding::PaddingMode;
use crate::op::{ForwardContext, Layer, LayerError, Result, Step, TensorFormat, TensorMeta};
use crate::quantized::write;
use crate::support::epilogue::Epilogue;
use crate::support::int8;
use crate::support::int8::{
    Ending, byte_weights, bytes_last, depthwise_efficiency, finish, max_depth, product_efficiency,
    quantization, quantize_slice, with_function, write_last,
};
use ixion_kernels::quantized::{
    Added, ByteConv, BytePanels, ByteWeights, Bytes, Finish, Outputs, PanelKind, add_bytes,
};
use ixion_kernels::reformat::{Cut, to_planes};
use ixion_tensor::{DType, Limits, TensorView, TensorViewMut};
use std::borrow::Cow;

impl Conv {
    /// Supports quantised inputs with the channels last, and such an output or a plain one of floats, where the kernel supports
    /// the parameters.
    pub(super) fn supports_bytes(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let is_output = position >= *self.num_inputs().end();
        let fits = formats.get(position).is_some_and(|&format| {
            format == TensorFormat::quantized().channels_last()
                || (is_output && format == TensorFormat::plain(DType::F32))
        });
        fits && self.padding_mode == PaddingMode::Zeros
            && int8::has_weights(&self.weight, self.bias.as_ref())
            && Ending::of(self.epilogue.as_ref()).is_some()
            && self.panel_kind().is_ok_and(|kind| kind.depth() > 0 && BytePanels::len(kind).is_some())
    }

    /// The kernel's efficiency relative to an `f32` matrix product, as measured with AVX-512. The cost of each position and each
    /// group of channels is given in `f32` products that take the same time.
    pub(super) fn byte_efficiency(&self, outputs: &[TensorMeta]) -> f64 {
        /// Copying a product's factor, when a window is gathered, and finding a row of the window.
        const FACTOR: f64 = 1.35;
        const ROW: f64 = 450.0;
        /// Finding the channels that a group sees of a place.
        const TAP: f64 = 700.0;
        /// Moving an output to its plane.
        const MOVE: f64 = 30.0;
        /// Applying a function to an output, which waits for others in memory. Otherwise, sums of depthwise convolutions do not
        /// leave registers.
        const FUNCTION: f64 = 12.0;
        const DEPTHWISE_FUNCTION: f64 = 20.0;
        /// Adding another tensor to an output in memory.
        const ADD: f64 = 15.0;
        let Ok(shape) = self.blocked_shape(&[1, 1, 1, 1]) else { return 1.0 };
        let [rows, columns] = shape.windows.map(|window| window.kernel as f64);
        let is_pointwise = shape.windows.iter().all(|window| window.kernel == 1 && window.stride == 1);
        let makes_planes = outputs.first().is_some_and(|output| output.scale().is_none());
        let kind = PanelKind::of(&shape);
        let function = match kind {
            PanelKind::Depthwise { .. } => DEPTHWISE_FUNCTION,
            PanelKind::Product { .. } => FUNCTION,
        };
        let ending = match Ending::of(self.epilogue.as_ref()) {
            Some(Ending::Function) => function,
            Some(Ending::FunctionAndSum(_)) => function + ADD,
            Some(Ending::Sum(..)) | None => 0.0,
        };
        let moving = if makes_planes { MOVE + ending } else { ending };
        match kind {
            PanelKind::Depthwise { channels, .. } => depthwise_efficiency(channels, &shape.windows, moving),
            PanelKind::Product { depth, outputs, groups } => {
                let finding = match groups > 1 {
                    true => TAP * rows * columns,
                    false if is_pointwise => 0.0,
                    false => ROW * rows,
                };
                let gathering = (finding + FACTOR * depth as f64) / outputs.max(1) as f64;
                product_efficiency([outputs, depth], gathering + moving)
            }
        }
    }

    /// The size of the scratch memory: floats with the channels last, before they are moved to their planes or another tensor
    /// is added to them.
    pub(super) fn bytes_workspace(&self, outputs: &[TensorMeta]) -> usize {
        let adds = matches!(Ending::of(self.epilogue.as_ref()), Some(Ending::FunctionAndSum(_)));
        let makes_floats = self.int8.is_last() && (adds || self.int8.output_scale().is_none());
        let floats = outputs.first().filter(|_| makes_floats);
        let count = floats.and_then(|output| output.num_elements().fixed()).unwrap_or(0);
        usize::try_from(count).unwrap_or(0).saturating_mul(size_of::<f32>())
    }

    fn panel_kind(&self) -> Result<PanelKind> {
        Ok(PanelKind::of(&self.blocked_shape(&[1, 1, 1, 1])?))
    }

    /// Stores the step of the input that the epilogue adds.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if that input is not as large as the output, if the padding is not zeros, or if there are too
    /// many products for the zero point.
    pub(super) fn configure_bytes(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        // A plan whose shapes are unknown until it runs may give the layer formats that it does not support.
        if self.padding_mode != PaddingMode::Zeros {
            let reason = "int8 with the channels last: padding that is not zeros";
            return Err(LayerError::Unsupported(reason.to_owned()));
        }
        let has_more = |kind: PanelKind| kind.depth() > max_depth(self.int8.input_zero_point());
        if self.panel_kind().is_ok_and(has_more) {
            return Err(too_deep());
        }
        self.bytes.function = None;
        let added = match Ending::of(self.epilogue.as_ref()) {
            Some(Ending::Sum(Some(position), _)) => inputs.get(position),
            Some(Ending::FunctionAndSum(position)) => {
                self.bytes.function = self.epilogue.as_ref().and_then(Epilogue::without_added);
                inputs.get(position)
            }
            _ => None,
        };
        self.bytes.added_step = added.and_then(TensorMeta::step);
        match added.zip(outputs.first()) {
            Some((added, output)) if added.dims() != output.dims() => Err(too_small()),
            _ => Ok(()),
        }
    }

    /// Packs the quantised weights if scales were configured.
    ///
    /// # Errors
    /// Fails if the weights cannot be read or are not finite.
    pub(super) fn initialize_bytes(&mut self) -> Result<()> {
        if self.bytes.weights.is_some() {
            return Ok(());
        }
        let Some((values, steps)) = self.int8.rows(&self.weight, self.bias.as_ref())? else {
            return Ok(());
        };
        let shape = self.blocked_shape(&[1, 1, 1, 1])?;
        let places = shape.windows.iter().map(|window| window.kernel).product::<usize>();
        let channels = (shape.channels / shape.groups.max(1)).max(1);
        // Files have the window innermost, panels the channels.
        let weight = |output: usize, k: usize| {
            let at = (output * channels + k % channels) * places + k / channels;
            values.get(at).copied().unwrap_or(0)
        };
        let panels = BytePanels::new(PanelKind::of(&shape), weight).ok_or_else(too_deep)?;
        self.bytes.weights = Some(byte_weights(panels, self.int8.input_zero_point(), &steps));
        Ok(())
    }

    /// Runs the convolution.
    ///
    /// # Errors
    /// Fails if the deadline has passed or the epilogue fails.
    pub(super) fn run_bytes(
        &mut self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        if output.num_elements() == 0 {
            return Ok(());
        }
        self.initialize_bytes()?;
        let (mut conv, mut epilogue) = (self.bytes.conv.take(), self.epilogue.take());
        let mut function = self.bytes.function.take();
        let endings = (epilogue.as_mut(), function.as_mut());
        let result = conv
            .of(*inputs[0].shape(), |shape| Ok(ByteConv::new(self.blocked_shape(shape)?)))
            .and_then(|conv| self.convolve(conv, endings, inputs, output, context));
        (self.bytes.conv, self.epilogue, self.bytes.function) = (conv, epilogue, function);
        result
    }

    fn convolve(
        &self,
        conv: &ByteConv,
        (epilogue, function): (Option<&mut Epilogue>, Option<&mut Epilogue>),
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let missing = || LayerError::Unsupported("an int8 input without a scale".to_owned());
        let weights = self.bytes.weights.as_ref().ok_or_else(missing)?;
        let step = match output.dtype() {
            DType::I8 => self.int8.output_step().ok_or_else(missing)?,
            _ => Step::from(1.0),
        };
        let (input, shape) = (bytes_last(&inputs[0])?, *output.shape());
        let finish = finish(step);
        match (Ending::of(epilogue.as_deref()), epilogue) {
            (Some(Ending::Sum(None, bounds)), _) => {
                let finish = Finish { bounds, ..finish };
                run(conv, (&input, weights), &finish, output, context)
            }
            (Some(Ending::Sum(Some(position), bounds)), _) => {
                let (values, Step { scale, zero_point }) = self.added(inputs, position, output)?;
                let (values, zero_point) = (Bytes::from(&*values), zero_point.into());
                let added = Some(Added { values, scale, zero_point });
                run(conv, (&input, weights), &Finish { bounds, added, ..finish }, output, context)
            }
            (Some(Ending::FunctionAndSum(position)), _) => {
                let (values, added_step) = self.added(inputs, position, output)?;
                let function = function.ok_or_else(missing)?;
                with_function(function, inputs, &shape, &mut |function| {
                    let finish = Finish { function: Some(function), ..Finish::NONE };
                    let (last, limits) = context.scratch_and_limits::<f32>(output.num_elements())?;
                    let to = Outputs::F32(&mut *last);
                    conv.run(Bytes::from(&*input), weights, &finish, to, limits)?;
                    add_bytes(last, (&values, quantization(added_step)), limits)?;
                    match output.dtype() {
                        DType::I8 => write_last(output, |output| quantize_slice(last, step, output, limits)),
                        _ => write_planes(last, output, limits),
                    }
                })
            }
            (Some(Ending::Function), Some(epilogue)) => {
                with_function(epilogue, inputs, &shape, &mut |function| {
                    let finish = Finish { function: Some(function), ..finish };
                    run(conv, (&input, weights), &finish, output, context)
                })
            }
            _ => Err(LayerError::Unsupported("int8 with the channels last: this epilogue".to_owned())),
        }
    }

    /// The elements that are added to the output, and their step.
    fn added<'a>(
        &self,
        inputs: &[TensorView<'a>],
        position: usize,
        output: &TensorViewMut<'_>,
    ) -> Result<(Cow<'a, [i8]>, Step)> {
        let missing = || LayerError::Unsupported("int8: a tensor without a scale is added".to_owned());
        let (added, step) = inputs.get(position).zip(self.bytes.added_step).ok_or_else(missing)?;
        let values = bytes_last(added)?;
        match values.len() == output.num_elements() {
            true => Ok((values, step)),
            false => Err(too_small()),
        }
    }
}

fn run(
    conv: &ByteConv,
    (input, weights): (&Cow<'_, [i8]>, &ByteWeights),
    finish: &Finish<'_>,
    output: &mut TensorViewMut<'_>,
    context: &mut ForwardContext<'_>,
) -> Result<()> {
    let input = Bytes::from(&**input);
    if output.dtype() == DType::I8 {
        let limits = context.limits();
        return write_last(output, |output| {
            Ok(conv.run(input, weights, finish, Outputs::I8(output), limits)?)
        });
    }
    let (last, limits) = context.scratch_and_limits::<f32>(output.num_elements())?;
    conv.run(input, weights, finish, Outputs::F32(&mut *last), limits)?;
    write_planes(last, output, limits)
}

/// Writes floats, whose channels are last, as the planes of an output.
fn write_planes(last: &[f32], output: &mut TensorViewMut<'_>, limits: &Limits) -> Result<()> {
    let (shape, count) = (*output.shape(), output.num_elements());
    let [outer, len] = [0usize, 1].map(|axis| shape.get(axis).copied().unwrap_or(1));
    let inner = count.checked_div(outer * len).unwrap_or(0);
    let cut = Cut { outer, len, inner, block: None };
    write::<f32>(output, |planes| Ok(to_planes(cut, last, planes, limits)?))
}

fn too_small() -> LayerError {
    let reason = "int8 with the channels last: the epilogue adds a tensor of another shape than the output's";
    LayerError::Unsupported(reason.to_owned())
}

fn too_deep() -> LayerError {
    LayerError::Unsupported("int8: too many products per output".to_owned())
}

#[cfg(test)]
mod tests {
    use crate::op::{CpuLayer, ForwardContext, Io, Step, TensorFormat, TensorMeta};
    use crate::support::int8::quantization;
    use crate::support::testing::{on_threads, operator, waves};
    use ixion_tensor::{DType, Format, Layout, Limits, Tensor, Workspace};
    use proptest::prelude::*;

    /// A convolution: its parameters, and the shapes of its input and its weight.
    #[derive(Debug, Clone)]
    struct Case {
        params: Vec<(&'static str, &'static str)>,
        input: Vec<usize>,
        weight: Vec<usize>,
    }

    fn cases() -> impl Strategy<Value = Case> {
        let case = |params: &[(&'static str, &'static str)], input: &[usize], weight: &[usize]| Case {
            params: params.to_vec(),
            input: input.to_vec(),
            weight: weight.to_vec(),
        };
        prop::sample::select(vec![
            case(&[("padding", "1")], &[2, 3, 9, 7], &[11, 3, 3, 3]),
            case(&[], &[1, 20, 5, 6], &[33, 20, 1, 1]),
            case(&[("stride", "2"), ("dilation", "2")], &[1, 4, 9, 8], &[5, 4, 2, 3]),
            case(&[("padding", "same")], &[1, 2, 5, 6], &[3, 2, 3, 4]),
            case(&[("groups", "20"), ("padding", "1")], &[2, 20, 5, 6], &[20, 1, 3, 3]),
            case(&[("groups", "70"), ("padding", "2"), ("stride", "2")], &[1, 70, 7, 6], &[70, 1, 5, 5]),
            case(&[("groups", "2")], &[1, 6, 5, 5], &[20, 3, 3, 3]),
        ])
    }

    fn whole(dims: &[usize], seed: usize) -> Tensor {
        let values = (0..dims.iter().product()).map(|at: usize| ((at * 37 + seed) % 255) as i8);
        Tensor::from_vec(values.map(|q| q.max(-127)).collect(), dims).unwrap()
    }

    /// The same elements with the channels last.
    fn last(x: &Tensor) -> Tensor {
        let mut last = Tensor::zeros_with_layout(x.dtype(), Layout::channels_last(*x.shape())).unwrap();
        last.view_mut().unwrap().copy_from(&x.view()).unwrap();
        last
    }

    /// Runs a layer whose tensors have these steps; those without are `f32` and row-major.
    fn run(
        layer: &mut dyn CpuLayer,
        inputs: &[(&Tensor, Option<Step>)],
        step: impl Into<Option<Step>>,
        format: Format,
    ) -> Tensor {
        let step = step.into();
        let meta = |shape: &[usize], step: Option<Step>| {
            let (dtype, format) = match step {
                Some(_) => (DType::I8, format),
                None => (DType::F32, Format::Plain),
            };
            TensorMeta::new(dtype, shape.iter().copied()).with_format(format).with_step(step)
        };
        let float = |(x, _): &(&Tensor, Option<Step>)| TensorMeta::new(DType::F32, x.shape().iter().copied());
        let real: Vec<TensorMeta> = inputs.iter().map(float).collect();
        let shape = layer.infer(&real).unwrap().remove(0).shape().unwrap();
        let metas: Vec<TensorMeta> = inputs.iter().map(|(x, step)| meta(x.shape(), *step)).collect();
        let wanted = meta(&shape, step);
        layer.configure(&metas, std::slice::from_ref(&wanted)).unwrap();
        layer.initialize().unwrap();
        let layout = match wanted.format() {
            Format::ChannelsLast => Layout::channels_last(shape),
            _ => Layout::contiguous(shape),
        };
        let mut output = Tensor::zeros_with_layout(wanted.dtype(), layout).unwrap();
        let (mut workspace, limits) = (Workspace::new().unwrap(), Limits::default());
        workspace.reserve(layer.workspace(&metas, &[wanted])).unwrap();
        let mut context = ForwardContext::new(&mut workspace, &limits);
        let views: Vec<_> = inputs.iter().map(|(x, _)| x.view()).collect();
        let mut outputs = [output.view_mut().unwrap()];
        layer.forward(&mut Io::new(&views, &mut outputs, &mut context)).unwrap();
        output
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn both_orders_of_channels_give_the_same_results(
            case in cases(),
            seed in 0usize..1000,
            epilogue in prop::sample::select(vec![
                None,
                Some("relu(@0)"),
                Some("silu(@0)"),
                Some("relu(add(@0,@1))"),
                Some("add(@1,silu(@0))"),
            ]),
            scales in [1e-3f32..0.1, 1e-2f32..1.0, 1e-2f32..1.0],
            zero_points in prop_oneof![Just([0i8; 3]), any::<[i8; 3]>()],
        ) {
            let mut params = case.params.clone();
            params.extend(epilogue.map(|text| ("epilogue", text)));
            let float = |dims: &[usize]| waves(dims).cast(DType::F32).unwrap();
            let conv = operator("nn.Conv2d", &params).with_names(&["input", "epilogue_1"]);
            let conv = conv.with_attr("weight", float(&case.weight)).with_attr("bias", float(&case.weight[..1]));
            let input = whole(&case.input, seed);
            let adds = epilogue.is_some_and(|text| text.contains("@1"));
            let count = if adds { 2 } else { 1 };
            let step = |at: usize| Step { scale: scales[at], zero_point: zero_points[at] };
            let [step, out_step, added_step] = [0, 1, 2].map(step);
            let plain = operator("nn.Conv2d", &case.params).with_attr("weight", float(&case.weight));
            let mut shape = plain.create(1).unwrap();
            let shape = run(&mut *shape, &[(&input, Some(step))], out_step, Format::Plain);
            let added = whole(shape.shape(), seed + 7);
            let how = quantization(added_step);
            let real: Vec<f32> = added.to_vec::<i8>().unwrap().into_iter().map(|q| how.load(q)).collect();
            let real = Tensor::from_vec(real, added.shape()).unwrap();
            let mut inputs = vec![(&input, Some(step)), (&real, None)];
            inputs.truncate(count);
            let wanted = run(&mut *conv.create(count).unwrap(), &inputs, out_step, Format::Plain);
            let wanted_floats = run(&mut *conv.create(count).unwrap(), &inputs, None::<Step>, Format::Plain);
            let (input, added) = (last(&input), last(&added));
            let mut inputs = vec![(&input, Some(step)), (&added, Some(added_step))];
            inputs.truncate(count);
            let format = TensorFormat::quantized().channels_last();
            let mut layer = conv.create(count).unwrap();
            prop_assert!((0..=count).all(|at| layer.supports(at, &[format; 3][..=at])));
            let found = run(&mut *layer, &inputs, out_step, Format::ChannelsLast);
            prop_assert_eq!(found.to_vec::<i8>().unwrap(), wanted.to_vec::<i8>().unwrap());

            let float = TensorFormat::plain(DType::F32);
            let formats = [&[format; 2][..count], &[float]].concat();
            prop_assert!(layer.supports(count, &formats));
            let floats = run(&mut *conv.create(count).unwrap(), &inputs, None::<Step>, Format::ChannelsLast);
            let comparison = floats.allclose(&wanted_floats, 1e-5, 1e-6, false).unwrap();
            prop_assert!(comparison.holds(), "{comparison}");

            let bytes = layer.serialize().unwrap();
            let (alone, pooled) = on_threads(&[3], || {
                let mut again = conv.create(count).unwrap();
                again.deserialize(&bytes).unwrap();
                again.initialize().unwrap();
                run(&mut *again, &inputs, out_step, Format::ChannelsLast)
            });
            prop_assert_eq!(&alone, &found);
            prop_assert_eq!(&pooled[0], &found);
        }
    }

    #[test]
    fn what_the_kernel_cannot_do_is_refused() {
        let last = TensorFormat::quantized().channels_last();
        let takes = |params: &[(&str, &str)], weight: &[usize]| {
            let weight = waves(weight).cast(DType::F32).unwrap();
            let conv = operator("nn.Conv2d", params).with_attr("weight", weight);
            conv.create(1).unwrap().supports(0, &[last])
        };
        assert!(takes(&[], &[2, 3, 3, 3]));
        assert!(!takes(&[("padding", "1"), ("padding_mode", "reflect")], &[2, 3, 3, 3]));
        assert!(!takes(&[], &[2, 3, 3]) && !takes(&[], &[1, 70_000, 1, 1]));

        let takes_sum = |epilogue: &str| {
            let weight = waves(&[2, 3, 3, 3]).cast(DType::F32).unwrap();
            let conv = operator("nn.Conv2d", &[("epilogue", epilogue)]).with_attr("weight", weight);
            conv.with_names(&["input", "epilogue_1"]).create(2).unwrap().supports(0, &[last])
        };
        assert!(takes_sum("add(@1,silu(@0))") && takes_sum("add(mul(@0,2),@1)"));
        for epilogue in ["add(@1,int(@0))", "add(@1,mul(@0,@1))", "mul(@1,silu(@0))"] {
            assert!(!takes_sum(epilogue), "{epilogue}");
        }

        let weight = waves(&[2, 3, 3, 3]).cast(DType::F32).unwrap();
        let mirrored = operator("nn.Conv2d", &[("padding", "1"), ("padding_mode", "reflect")]);
        let mut layer = mirrored.with_attr("weight", weight).create(1).unwrap();
        let meta = |channels: usize| {
            let meta = TensorMeta::new(DType::I8, [1, channels, 4, 4]);
            meta.with_format(Format::ChannelsLast).with_scale(Some(0.5))
        };
        assert!(layer.configure(&[meta(3)], &[meta(2)]).is_err());
    }

    #[test]
    fn tensors_of_other_shapes_are_not_added() {
        let weight = waves(&[4, 3, 1, 1]).cast(DType::F32).unwrap();
        let conv = operator("nn.Conv2d", &[("epilogue", "add(@0,@1)")]).with_names(&["input", "epilogue_1"]);
        let mut layer = conv.with_attr("weight", weight).create(2).unwrap();
        let meta = |dims: [usize; 4]| {
            let meta = TensorMeta::new(DType::I8, dims);
            meta.with_format(Format::ChannelsLast).with_scale(Some(0.5))
        };
        let (input, output) = (meta([1, 3, 2, 2]), meta([1, 4, 2, 2]));
        assert!(layer.configure(&[input.clone(), output.clone()], &[output.clone()]).is_ok());
        assert!(layer.configure(&[input, meta([1, 4, 1, 1])], &[output]).is_err());
    }
}
