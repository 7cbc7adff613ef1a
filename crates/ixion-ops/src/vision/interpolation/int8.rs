//! Resampling of quantised (int8) images whose channels are innermost.

use crate::op::{LayerError, Result};
use crate::support::int8::{bytes_last, write_last};
use ixion_kernels::resample::PixelResampler;
use ixion_tensor::{Limits, TensorView, TensorViewMut};

/// Resamples an image.
///
/// # Errors
/// Returns an error if there are no scales, or the deadline has passed.
pub(super) fn run(
    resampler: &PixelResampler,
    scales: Option<[f32; 2]>,
    (input, output): (&TensorView<'_>, &mut TensorViewMut<'_>),
    limits: &Limits,
) -> Result<()> {
    let scales = scales.ok_or_else(missing)?;
    let channels = input.shape().get(1).copied().unwrap_or(0);
    let input = bytes_last(input)?;
    write_last(output, |output| Ok(resampler.run(channels, scales, &input, output, limits)?))
}

/// The error for images that have no kernel.
pub(super) fn missing() -> LayerError {
    let reason = "int8: only images are resampled, by copies of pixels or by linear interpolation";
    LayerError::Unsupported(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::op::{ForwardContext, Io, TensorFormat, TensorMeta};
    use crate::support::testing::{operator, waves};
    use ixion_kernels::reformat::Stored;
    use ixion_tensor::{DType, Format, Layout, Limits, Tensor, Workspace};

    fn last(values: Vec<i8>, dims: &[usize]) -> Tensor {
        let plain = Tensor::from_vec(values, dims).unwrap();
        let layout = Layout::channels_last(*plain.shape());
        let mut last = Tensor::zeros_with_layout(DType::I8, layout).unwrap();
        last.view_mut().unwrap().copy_from(&plain.view()).unwrap();
        last
    }

    #[test]
    fn int8_is_resampled_like_the_numbers_that_it_represents() {
        let cases: [(&str, &[(&str, &str)]); 5] = [
            ("F.upsample_nearest", &[("scale_factor", "2")]),
            ("nn.Upsample", &[("scale_factor", "2.0"), ("mode", "nearest")]),
            ("F.interpolate", &[("size", "(5,9)"), ("mode", "nearest-exact")]),
            ("F.interpolate", &[("size", "(5,9)"), ("mode", "bilinear"), ("align_corners", "False")]),
            ("F.upsample_bilinear", &[("scale_factor", "2")]),
        ];
        let format = TensorFormat::quantized().channels_last();
        for (op_type, params) in cases {
            let dims = [2, 5, 3, 4];
            let x = waves(&dims).cast(DType::F32).unwrap().to_vec::<f32>().unwrap();
            let x = last(x.into_iter().map(|x| i8::store(x, 0.05)).collect(), &dims);
            let real: Vec<f32> = x.to_vec::<i8>().unwrap().into_iter().map(|q| q.load(0.05)).collect();
            let real = Tensor::from_vec(real, &dims).unwrap();
            let resize = operator(op_type, params);
            let wanted = resize.run_one(&[&real]).unwrap();
            let mut layer = resize.create(1).unwrap();
            assert!(layer.supports(0, &[format]) && layer.supports(1, &[format, format]), "{op_type}");
            for scale in [0.05, 0.03] {
                let meta = |shape: &[usize], scale| {
                    let meta = TensorMeta::new(DType::I8, shape.iter().copied());
                    meta.with_format(Format::ChannelsLast).with_scale(Some(scale))
                };
                let (input, output) = (meta(&dims, 0.05), meta(wanted.shape(), scale));
                layer.configure(std::slice::from_ref(&input), std::slice::from_ref(&output)).unwrap();
                assert_eq!(layer.workspace(&[input], &[output]), 0);
                let mut found = last(vec![0; wanted.num_elements()], wanted.shape());
                let (mut workspace, limits) = (Workspace::new().unwrap(), Limits::default());
                let mut context = ForwardContext::new(&mut workspace, &limits);
                let mut outputs = [found.view_mut().unwrap()];
                layer.forward(&mut Io::new(&[x.view()], &mut outputs, &mut context)).unwrap();
                let pairs = found.to_vec::<i8>().unwrap().into_iter().zip(wanted.to_vec::<f32>().unwrap());
                for (found, wanted) in pairs {
                    let off = (found.load(scale) - wanted.clamp(-127.0 * scale, 127.0 * scale)).abs();
                    assert!(off <= 0.501 * scale, "{op_type}: {} instead of {wanted}", found.load(scale));
                }
            }
        }
    }

    #[test]
    fn what_has_no_kernel_is_refused() {
        let last = TensorFormat::quantized().channels_last();
        let takes = |params: &[(&str, &str)], format| {
            operator("F.interpolate", params).create(1).unwrap().supports(0, &[format])
        };
        let size = ("size", "(5,9)");
        assert!(takes(&[size], last) && !takes(&[size], TensorFormat::quantized()));
        for mode in ["bicubic", "area"] {
            assert!(!takes(&[size, ("mode", mode)], last), "{mode}");
        }
        assert!(!takes(&[size, ("mode", "bilinear"), ("antialias", "True")], last));
    }
}
