//! Softmax and its variants.

use crate::op::{CpuLayer, ForwardContext, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::arguments::RecordedType;
use crate::support::float;
use crate::support::float::with_float;
use ixion_kernels::Float;
use ixion_kernels::softmax::softmax_within;
use ixion_tensor::{DType, Limits, TensorView, TensorViewMut, resolve_axis};

/// A variant of softmax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// e^x / Σ e^x.
    Softmax,
    /// The logarithm of softmax.
    LogSoftmax,
    /// Softmax of −x.
    Softmin,
}

impl Kind {
    /// Converts the input to the type of the output, and computes it.
    fn forward(self, axis: usize, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, output, limits) = (&io.inputs[0], &mut io.outputs[0], io.context.limits());
        if output.dtype() == input.dtype() {
            return with_float!(output.dtype(), T => self.run::<T>(axis, Some(input), output, limits));
        }
        output.cast_from(input)?;
        self.in_place(axis, output, limits)
    }

    fn in_place(self, axis: usize, data: &mut TensorViewMut<'_>, limits: &Limits) -> Result<()> {
        with_float!(data.dtype(), T => self.run::<T>(axis, None, data, limits))
    }

    /// Runs in place on the output if there is no input.
    fn run<T: Float>(
        self,
        axis: usize,
        input: Option<&TensorView<'_>>,
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let shape = *output.shape();
        let (len, inner) =
            (shape.get(axis).copied().unwrap_or(1), shape.iter().skip(axis + 1).product::<usize>());
        float::transform_rows::<T>(input, output, len * inner, limits, &|_, input, output| {
            self.run_on(input, output, (len, inner), limits)
        })
    }

    fn run_on<T: Float>(
        self,
        input: Option<&[T]>,
        output: &mut [T],
        sizes: (usize, usize),
        limits: &Limits,
    ) -> Result<()> {
        let input = match self {
            Self::LogSoftmax | Self::Softmax => input,
            Self::Softmin => {
                match input {
                    Some(input) => output.iter_mut().zip(input).for_each(|(y, &x)| *y = -x),
                    None => output.iter_mut().for_each(|y| *y = -*y),
                }
                None
            }
        };
        Ok(softmax_within(input, output, sizes, self == Self::LogSoftmax, limits)?)
    }
}

macro_rules! softmax_layers {
    ($($(#[doc = $doc:literal])* $name:ident is $kind:ident for $($op_type:literal),+;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $($op_type),+ {
                /// The axis; may be negative, counting from the end. By default PyTorch's legacy choice: the first axis of
                /// a tensor of 0, 1 or 3 axes, otherwise the second.
                dim: Option<i64> = None,
                /// The element type to which the input is converted first; its own by default.
                dtype: Option<DType> = None,
                /// The recorded element type of the output, for files that do not give `dtype`.
                recorded as "outputs": RecordedType,
            }
        }

        impl $name {
            /// The axis for an input of `rank` axes, counted from 0; without `dim`, it is 0 for rank 0, 1 or 3, otherwise 1.
            ///
            /// # Errors
            /// Returns an error if the axis is out of range.
            pub fn axis(&self, rank: usize) -> Result<usize> {
                let usual = if matches!(rank, 0 | 1 | 3) { 0 } else { 1 };
                Ok(resolve_axis(self.dim.unwrap_or(usual), rank)?)
            }
        }

        impl Layer for $name {
            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
                self.axis(inputs[0].rank())?;
                let dtype = self.dtype.or(self.recorded.0).unwrap_or(inputs[0].dtype());
                let output = inputs[0].with_dtype(dtype);
                float::check("the input", &output)?;
                Ok(vec![output])
            }

            fn in_place(&self, _: usize) -> Option<usize> {
                Some(0)
            }
        }

        impl CpuLayer for $name {
            fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
                Kind::$kind.forward(self.axis(io.inputs[0].shape().rank())?, io)
            }

            fn forward_in_place(
                &mut self,
                data: &mut TensorViewMut<'_>,
                _: &[TensorView<'_>],
                context: &mut ForwardContext<'_>,
            ) -> Result<()> {
                Kind::$kind.in_place(self.axis(data.shape().rank())?, data, context.limits())
            }
        }
    )*};
}

softmax_layers! {
    /// `torch.nn.Softmax`: e^x divided by the sum of e^x along an axis, so that elements are between 0 and 1 and sum to 1.
    /// If the largest element is infinite, the result is NaN.
    Softmax is Softmax for "nn.Softmax", "F.softmax", "aten::softmax";

    /// `torch.nn.LogSoftmax`: the logarithm of softmax along an axis, computed without underflow of small results.
    LogSoftmax is LogSoftmax for "nn.LogSoftmax", "F.log_softmax", "aten::log_softmax";

    /// `torch.nn.Softmin`: softmax of −x along an axis.
    Softmin is Softmin for "nn.Softmin", "F.softmin";
}

crate::operator! {
    /// `torch.nn.Softmax2d`: softmax over the channels of an N×C×H×W or C×H×W input.
    pub struct Softmax2d for "nn.Softmax2d" {}
}

impl Layer for Softmax2d {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        if !matches!(inputs[0].rank(), 3 | 4) {
            return Err(LayerError::shape("the input", "3 or 4 axes", &inputs[0]));
        }
        float::same_as_input(inputs)
    }

    fn in_place(&self, _: usize) -> Option<usize> {
        Some(0)
    }
}

impl CpuLayer for Softmax2d {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        Kind::Softmax.forward(io.inputs[0].shape().axis(-3)?, io)
    }

    fn forward_in_place(
        &mut self,
        data: &mut TensorViewMut<'_>,
        _: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        Kind::Softmax.in_place(data.shape().axis(-3)?, data, context.limits())
    }
}

operators! { Softmax, LogSoftmax, Softmin, Softmax2d }

#[cfg(test)]
mod tests {
    use crate::support::testing::{assert_close, operator, tensor, waves};
    use ixion_tensor::Tensor;

    #[test]
    fn values_are_those_of_pytorch() {
        let want = [
            0.038269648965318044,
            0.6486542370516473,
            0.598638031101573,
            0.11271920470830459,
            0.36309231993310903,
            0.23862655824004825,
            0.4373487435378189,
            0.49049080381663274,
            0.12530251292436217,
            0.49049080381663274,
            0.4373487435378189,
            0.019018392366734502,
        ];
        let x = waves(&[2, 3, 2]);
        assert_close(&operator("F.softmax", &[("dim", "1")]).run_one(&[&x]).unwrap(), &[2, 3, 2], &want);
        let want = [
            -3.3612474319701073,
            -0.8612474319701074,
            -0.6112474319701074,
            -2.02797574385531,
            -0.5279757438553099,
            -1.2779757438553099,
        ];
        let x = waves(&[2, 3]);
        assert_close(&operator("nn.LogSoftmax", &[("dim", "-1")]).run_one(&[&x]).unwrap(), &[2, 3], &want);
        let want = [
            0.679178699175393,
            0.4378234991142019,
            0.22270013882530884,
            0.32082130082460697,
            0.5621765008857981,
            0.7772998611746911,
        ];
        assert_close(&operator("F.softmin", &[("dim", "0")]).run_one(&[&x]).unwrap(), &[2, 3], &want);
    }

    #[test]
    fn infinities_are_treated_as_in_pytorch() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let x = tensor(&[3, 3], &[1.0, -inf, -inf, 2.0, -inf, inf, -inf, -inf, -inf]);
        let got = operator("F.softmax", &[("dim", "1")]).run_one(&[&x]).unwrap();
        assert_close(&got, &[3, 3], &[1.0, 0.0, 0.0, nan, nan, nan, nan, nan, nan]);
        let got = operator("F.log_softmax", &[("dim", "1")]).run_one(&[&x]).unwrap();
        assert_close(&got, &[3, 3], &[0.0, -inf, -inf, nan, nan, nan, nan, nan, nan]);
    }

    #[test]
    fn default_axes_and_types() {
        for (shape, axis) in
            [(&[][..], "0"), (&[4], "0"), (&[2, 3], "1"), (&[2, 3, 2], "0"), (&[2, 3, 2, 1], "1")]
        {
            let x = waves(shape);
            let usual = operator("nn.Softmax", &[("dim", "None")]).run_one(&[&x]).unwrap();
            assert_eq!(usual, operator("nn.Softmax", &[("dim", axis)]).run_one(&[&x]).unwrap());
        }
        let planes = operator("nn.Softmax2d", &[]).run_one(&[&waves(&[3, 2, 2])]).unwrap();
        assert_eq!(planes, operator("F.softmax", &[("dim", "0")]).run_one(&[&waves(&[3, 2, 2])]).unwrap());
        let integers = operator("F.softmax", &[("dim", "0"), ("dtype", "torch.double")])
            .run_one(&[&tensor(&[2], &[1, 2])]);
        assert_close(&integers.unwrap(), &[2], &[0.2689414213699951, 0.7310585786300049]);
        assert_close(&operator("F.softmax", &[]).run_one(&[&Tensor::scalar(3f64)]).unwrap(), &[], &[1.0]);
    }

    #[test]
    fn odd_inputs() {
        for op_type in ["F.softmax", "F.log_softmax", "F.softmin"] {
            operator(op_type, &[("dim", "1")]).survives(1);
            operator(op_type, &[("dim", "-1"), ("dtype", "torch.half")]).survives(1);
        }
        operator("nn.Softmax2d", &[]).survives(1);
        assert!(operator("F.softmax", &[("dtype", "torch.int")]).run(&[&waves(&[2])]).is_err());
    }
}
