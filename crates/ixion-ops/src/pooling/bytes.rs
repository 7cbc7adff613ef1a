//! Pooling of quantised (int8) tensors whose channels are innermost.

use crate::op::{Result, TensorFormat};
use crate::support::int8;
use ixion_kernels::pool::{ByteReduction, PoolShape, pool_bytes};
use ixion_kernels::quantization::Quantization;
use ixion_tensor::{Limits, TensorView, TensorViewMut};

/// Returns true if the tensor at a position may have its format: all are quantised, with the channels last.
pub(super) fn supports(axes: usize, position: usize, formats: &[TensorFormat]) -> bool {
    axes == 2 && formats.get(position) == Some(&TensorFormat::quantized().channels_last())
}

/// Pools a tensor, given how input and output are quantised.
///
/// # Errors
/// Fails if the deadline has passed.
pub(super) fn compute(
    shape: &PoolShape,
    how: (ByteReduction, [Quantization; 2]),
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    limits: &Limits,
) -> Result<()> {
    let channels = input.shape().get(1).copied().unwrap_or(0);
    let input = int8::bytes_last(input)?;
    int8::write_last(output, |output| Ok(pool_bytes(shape, channels, how, &input, output, limits)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{CpuLayer, ForwardContext, Io, Step, TensorMeta};
    use crate::support::testing::{operator, waves};
    use ixion_kernels::reformat::Stored;
    use ixion_tensor::{DType, Format, Layout, Tensor, Workspace};

    /// A tensor of int8 with the channels last.
    fn quantized(x: &Tensor, scale: f32) -> Tensor {
        let values: Vec<i8> = x.to_vec::<f32>().unwrap().into_iter().map(|x| i8::store(x, scale)).collect();
        let plain = Tensor::from_vec(values, x.shape()).unwrap();
        let layout = Layout::channels_last(*x.shape());
        let mut last = Tensor::zeros_with_layout(DType::I8, layout).unwrap();
        last.view_mut().unwrap().copy_from(&plain.view()).unwrap();
        last
    }

    fn run(layer: &mut dyn CpuLayer, input: &Tensor, steps: [Step; 2]) -> Tensor {
        let meta = |shape: &[usize], step| {
            let meta = TensorMeta::new(DType::I8, shape.iter().copied());
            meta.with_format(Format::ChannelsLast).with_step(Some(step))
        };
        let float = TensorMeta::new(DType::F32, input.shape().iter().copied());
        let shape = layer.infer(&[float]).unwrap()[0].shape().unwrap();
        layer.configure(&[meta(input.shape(), steps[0])], &[meta(&shape, steps[1])]).unwrap();
        layer.initialize().unwrap();
        let mut output = Tensor::zeros_with_layout(DType::I8, Layout::channels_last(shape)).unwrap();
        let (mut workspace, limits) = (Workspace::new().unwrap(), Limits::default());
        let mut context = ForwardContext::new(&mut workspace, &limits);
        let mut outputs = [output.view_mut().unwrap()];
        layer.forward(&mut Io::new(&[input.view()], &mut outputs, &mut context)).unwrap();
        output
    }

    #[test]
    fn int8_is_pooled_like_the_numbers_that_it_represents() {
        let window = [("kernel_size", "3"), ("stride", "2"), ("padding", "1")];
        for (op_type, params) in [
            ("F.max_pool2d", &window[..]),
            ("nn.AvgPool2d", &window[..]),
            ("F.adaptive_avg_pool2d", &[("output_size", "1")]),
            ("nn.AdaptiveMaxPool2d", &[("output_size", "(2,3)")]),
        ] {
            let x = waves(&[2, 5, 6, 7]).cast(DType::F32).unwrap();
            let x = quantized(&x, 0.25);
            let mut layer = operator(op_type, params).create(1).unwrap();
            let last = TensorFormat::quantized().channels_last();
            assert!(layer.supports(0, &[last]) && layer.supports(1, &[last, last]), "{op_type}");
            let zero_points = [[0, 0], [0, -128], [-40, 0], [9, 20], [9, 9]];
            let all = [0.25, 0.02, 0.5].into_iter().flat_map(|scale| zero_points.map(|zeros| (scale, zeros)));
            for (scale, [zero_point, out_zero_point]) in all {
                let step = Step { scale: 0.25, zero_point };
                let out_step = Step { scale, zero_point: out_zero_point };
                let [how, out_how] = [step, out_step].map(int8::quantization);
                let real = x.to_vec::<i8>().unwrap().into_iter().map(|q| how.load(q)).collect::<Vec<f32>>();
                let real = Tensor::from_vec(real, x.shape()).unwrap();
                let wanted = operator(op_type, params).run_one(&[&real]).unwrap().to_vec::<f32>().unwrap();
                let found = run(&mut *layer, &x, [step, out_step]).to_vec::<i8>().unwrap();
                let [least, most] = out_step.range().map(|end| out_how.load(end));
                for (found, wanted) in found.into_iter().map(|q| out_how.load(q)).zip(wanted) {
                    let off = (found - wanted.clamp(least, most)).abs();
                    assert!(off <= 0.5001 * scale, "{op_type}: {found} instead of {wanted}");
                }
            }
        }
    }

    #[test]
    fn what_has_no_kernel_is_refused() {
        let last = TensorFormat::quantized().channels_last();
        let takes = |op_type, params: &[(&str, &str)], format| {
            operator(op_type, params).create(1).unwrap().supports(0, &[format])
        };
        let window = ("kernel_size", "2");
        assert!(takes("F.max_pool2d", &[window], last));
        assert!(!takes("F.max_pool2d", &[window], TensorFormat::quantized()));
        assert!(!takes("F.max_pool3d", &[window], last) && !takes("F.max_pool1d", &[window], last));
        assert!(!takes("F.lp_pool2d", &[window, ("norm_type", "2")], last));
    }
}
