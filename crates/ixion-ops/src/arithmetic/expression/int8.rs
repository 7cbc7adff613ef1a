//! Expressions of quantised (int8) tensors: functions of one tensor, and clamped sums and products of two.

use super::Expression;
use super::formula::{Compiled, Form};
use crate::op::{ForwardContext, LayerError, Result, TensorFormat, TensorMeta};
use crate::support::int8::pointwise::{Pointwise, are_alike, pairs_workspace, run_pairs};
use crate::support::int8::{Lookup, quantization};
use ixion_kernels::quantized::BytePairs;
use ixion_tensor::{DType, Layout, Limits, Shape, TensorView, TensorViewMut};

impl Compiled {
    /// Returns true if the expression is a function of its only input.
    fn is_function(&self) -> bool {
        let reads_input = matches!(&self.form, Form::Value(formula) if formula.reads(0));
        self.input_count() == 1 && reads_input && self.is_pointwise()
    }
}

impl Expression {
    /// Supports quantised tensors, all of them in the same order.
    pub(super) fn supports_int8(&self, position: usize, formats: &[TensorFormat]) -> bool {
        are_alike(position, formats) && (self.expr.is_function() || self.expr.pair().is_some())
    }

    /// Prepares what is computed, if the first input is quantised.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if other tensors are not, or there is no kernel for the expression.
    pub(super) fn configure_int8(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        self.int8 = Pointwise::Nothing;
        let how =
            |metas: &[TensorMeta], at: usize| metas.get(at).and_then(TensorMeta::step).map(quantization);
        let Some(first) = how(inputs, 0) else { return Ok(()) };
        let missing = || {
            let reason =
                "int8: only functions of one tensor, and sums and products of two, all of them quantised";
            LayerError::Unsupported(reason.to_owned())
        };
        if let Some((operation, bounds)) = self.expr.pair() {
            let (second, output) = how(inputs, 1).zip(how(outputs, 0)).ok_or_else(missing)?;
            self.int8 = Pointwise::Pairs(BytePairs { operation, bounds, operands: [first, second], output });
            return Ok(());
        }
        if !self.expr.is_function() || how(outputs, 0).is_none() {
            return Err(missing());
        }
        let mut function = Self::new(self.expr.clone());
        let lookup = Lookup::of(inputs, outputs, &mut |numbers| {
            let layout = Layout::contiguous(Shape::new(&[numbers.len()])?);
            let input = numbers.to_vec();
            let input = TensorView::from_slice(&input, layout)?;
            function.run(&[input], &mut TensorViewMut::from_slice(numbers, layout)?, &Limits::default())
        })?;
        self.int8 = Pointwise::Function(lookup);
        Ok(())
    }

    /// The size of the scratch memory for quantised tensors.
    pub(super) fn int8_workspace(&self, outputs: &[TensorMeta]) -> usize {
        match self.int8 {
            Pointwise::Pairs(_) => outputs.first().map_or(0, pairs_workspace),
            Pointwise::Nothing | Pointwise::Function(_) => 0,
        }
    }

    /// Computes a quantised output; without the first input, from itself. Returns false, and does nothing, if the tensors are
    /// not quantised.
    ///
    /// # Errors
    /// Returns an error if an input is missing, or the deadline has passed.
    pub(super) fn run_int8(
        &self,
        (first, others): (Option<&TensorView<'_>>, &[TensorView<'_>]),
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<bool> {
        match (&self.int8, first) {
            _ if output.dtype() != DType::I8 => Ok(false),
            (Pointwise::Nothing, _) => Ok(false),
            (Pointwise::Function(lookup), Some(first)) => lookup.run(first, output, context.limits()),
            (Pointwise::Function(lookup), None) => lookup.run_in_place(output, context.limits()),
            (Pointwise::Pairs(pairs), first) => {
                let second = others.first().ok_or_else(|| LayerError::missing_input(1, 1))?;
                run_pairs(pairs, (first, second), output, context)?;
                Ok(true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::op::{ForwardContext, Io, Step, TensorFormat, TensorMeta};
    use crate::support::int8::quantization;
    use crate::support::testing::{Operator, operator};
    use ixion_tensor::{DType, Format, Limits, Tensor, Workspace};
    use proptest::prelude::*;

    /// The steps of two inputs and an output, without and with zero points.
    const STEPS: [[Step; 3]; 2] =
        [[step(0.02, 0), step(0.03, 0), step(0.05, 0)], [step(0.02, -128), step(0.03, 17), step(0.05, -60)]];

    const fn step(scale: f32, zero_point: i8) -> Step {
        Step { scale, zero_point }
    }

    fn whole(dims: &[usize], seed: usize, format: Format) -> Tensor {
        let count: usize = dims.iter().product();
        let values = (0..count).map(|at| (((at * 37 + seed) % 255) as i16 - 127) as i8).collect();
        let plain = Tensor::from_vec(values, dims).unwrap();
        let mut tensor = empty(dims, format);
        tensor.view_mut().unwrap().copy_from(&plain.view()).unwrap();
        tensor
    }

    fn empty(dims: &[usize], format: Format) -> Tensor {
        let layout = meta(dims, format, step(1.0, 0)).layout().unwrap();
        Tensor::zeros_with_layout(DType::I8, layout).unwrap()
    }

    fn meta(dims: &[usize], format: Format, step: Step) -> TensorMeta {
        TensorMeta::new(DType::I8, dims.iter().copied()).with_format(format).with_step(Some(step))
    }

    /// The numbers that a tensor represents.
    fn real(tensor: &Tensor, step: Step) -> Tensor {
        let how = quantization(step);
        let values = tensor.to_vec::<i8>().unwrap().into_iter().map(|q| how.load(q)).collect();
        Tensor::from_vec::<f32>(values, tensor.shape()).unwrap()
    }

    /// Runs a layer on quantised inputs, also in place if it can, and compares it with the same layer in floats.
    fn compare(operator: &Operator<'_>, inputs: &[Tensor], format: Format) {
        STEPS.into_iter().for_each(|steps| compare_in_steps(operator, inputs, format, steps));
    }

    fn compare_in_steps(operator: &Operator<'_>, inputs: &[Tensor], format: Format, steps: [Step; 3]) {
        let reals: Vec<Tensor> = inputs.iter().zip(steps).map(|(input, step)| real(input, step)).collect();
        let wanted = operator.run_one(&reals.iter().collect::<Vec<_>>()).unwrap();
        let how = quantization(steps[2]);
        let wanted_values: Vec<i8> =
            wanted.to_vec::<f32>().unwrap().into_iter().map(|x| how.store(x)).collect();

        let mut layer = operator.create(inputs.len()).unwrap();
        let quantized = TensorFormat { format, ..TensorFormat::quantized() };
        let formats = vec![quantized; inputs.len() + 1];
        assert!((0..formats.len()).all(|at| layer.supports(at, &formats[..=at])));
        assert!(!layer.supports(1, &[quantized, TensorFormat::plain(DType::F32)]));
        let metas: Vec<TensorMeta> =
            inputs.iter().zip(steps).map(|(input, step)| meta(input.shape(), format, step)).collect();
        let out_meta = meta(wanted.shape(), format, steps[2]);
        layer.configure(&metas, std::slice::from_ref(&out_meta)).unwrap();
        layer.initialize().unwrap();
        // A context has a clone.
        let mut layer = layer.clone_layer();
        let (mut workspace, limits) = (Workspace::new().unwrap(), Limits::default());
        workspace.reserve(layer.workspace(&metas, &[out_meta])).unwrap();
        let mut context = ForwardContext::new(&mut workspace, &limits);
        let mut output = empty(wanted.shape(), format);
        let views: Vec<_> = inputs.iter().map(Tensor::view).collect();
        let mut outputs = [output.view_mut().unwrap()];
        layer.forward(&mut Io::new(&views, &mut outputs, &mut context)).unwrap();
        assert_eq!(output.to_vec::<i8>().unwrap(), wanted_values);
        if layer.in_place(0) == Some(0) && inputs[0].shape() == wanted.shape() {
            let mut data = inputs[0].clone();
            layer.forward_in_place(&mut data.view_mut().unwrap(), &views[1..], &mut context).unwrap();
            assert_eq!(data.to_vec::<i8>().unwrap(), wanted_values);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn int8_is_computed_like_the_numbers_that_it_represents(
            dims in [1usize..4, 1usize..40, 1usize..6, 1usize..6],
            ones in any::<[u8; 2]>(),
            text in prop::sample::select(vec!["add(@0,@1)", "relu(add(@1,@0))", "mul(@0,@1)", "relu6(mul(@1,@0))"]),
            is_last in any::<bool>(),
            seed in 0usize..1000,
        ) {
            let format = if is_last { Format::ChannelsLast } else { Format::Plain };
            let expression = operator("pnnx.Expression", &[("expr", text)]);
            let of = |ones: u8, seed| {
                let shape: Vec<usize> =
                    dims.iter().enumerate().map(|(axis, &len)| if ones >> axis & 1 == 1 { 1 } else { len }).collect();
                whole(&shape, seed, format)
            };
            let gate = [dims[0], dims[1], 1, 1];
            for pair in [
                [of(0, seed), of(0, seed + 1)],
                [whole(&gate, seed, format), of(0, seed + 1)],
                [of(0, seed), whole(&gate, seed + 1, format)],
                [of(0, seed), of(0b1101, seed + 1)],
                [of(ones[0], seed), of(ones[1], seed + 1)],
            ] {
                compare(&expression, &pair, format);
            }
        }
    }

    #[test]
    fn functions_are_computed_like_those_of_the_numbers() {
        let functions: [(&str, &[(&str, &str)]); 9] = [
            ("pnnx.Expression", &[("expr", "mul(@0,sigmoid(mul(@0,1.702)))")]),
            ("nn.SiLU", &[]),
            ("nn.Hardswish", &[]),
            ("F.sigmoid", &[]),
            ("nn.ReLU", &[]),
            ("nn.Hardtanh", &[("max_val", "2")]),
            ("nn.LeakyReLU", &[("negative_slope", "0.1")]),
            ("nn.ELU", &[("alpha", "2")]),
            ("nn.Mish", &[]),
        ];
        for (op_type, params) in functions {
            for format in [Format::Plain, Format::ChannelsLast] {
                compare(&operator(op_type, params), &[whole(&[2, 5, 7, 9], 3, format)], format);
            }
        }
    }

    #[test]
    fn other_expressions_stay_floats() {
        let takes = |text: &str| {
            let layer = operator("pnnx.Expression", &[("expr", text)]).create(2).unwrap();
            layer.supports(0, &[TensorFormat::quantized()])
        };
        for text in ["add(@0,@1)", "sqrt(@0)", "add(@0,@0)"] {
            assert!(takes(text), "{text}");
        }
        for text in ["sub(@0,@1)", "add(@0,mul(@1,@0))", "size(@0)", "[@0,@1]", "gelu(mul(@0,@1))"] {
            assert!(!takes(text), "{text}");
        }
    }

    #[test]
    fn integers_without_a_scale_are_integers() {
        let relu = operator("F.relu", &[]);
        let input = Tensor::from_vec(vec![-5i8, 7], &[2]).unwrap();
        assert_eq!(relu.run_one(&[&input]).unwrap().to_vec::<i8>().unwrap(), [0, 7]);
    }
}
