//! Adaptive pooling: to a given output size, whatever the size of the input.

use super::pooled::{Pooled, Pooling, Reduction, Regions};
use crate::op::{Result, SpatialAxes};
use crate::support::arguments::ParamOrInput;
use crate::support::choices::{PerAxis, per_axis};
use ixion_kernels::naive::Divisor;

fn check(axes: SpatialAxes, output_size: &ParamOrInput<PerAxis>) -> Result<()> {
    match output_size {
        ParamOrInput::Value(size) => per_axis("output_size", size.values(), axes.get()).map(drop),
        ParamOrInput::Input(_) => Ok(()),
    }
}

crate::operator! {
    /// `torch.nn.AdaptiveAvgPool1d`, `AdaptiveAvgPool2d`, `AdaptiveAvgPool3d`: average pooling to a given size: the mean of
    /// each part of the input, N×C×D×H×W → N×C×`output_size` (1, 2 or 3 spatial axes, by the type; N is optional).
    pub struct AdaptiveAvgPool for "nn.AdaptiveAvgPool1d", "F.adaptive_avg_pool1d", "aten::adaptive_avg_pool1d",
        "nn.AdaptiveAvgPool2d", "F.adaptive_avg_pool2d", "aten::adaptive_avg_pool2d",
        "nn.AdaptiveAvgPool3d", "F.adaptive_avg_pool3d", "aten::adaptive_avg_pool3d"
    {
        /// The number of pooled axes.
        axes: SpatialAxes,
        /// Spatial size of the output, or one length for all axes; 0 keeps the input's length.
        output_size: ParamOrInput<PerAxis>,
    }
    validate |layer| { check(layer.axes, &layer.output_size) }
}

crate::operator! {
    /// `torch.nn.AdaptiveMaxPool1d`, `AdaptiveMaxPool2d`, `AdaptiveMaxPool3d`: max pooling to a given size: the maximum of
    /// each part of the input, N×C×D×H×W → N×C×`output_size` (1, 2 or 3 spatial axes, by the type; N is optional).
    pub struct AdaptiveMaxPool for "nn.AdaptiveMaxPool1d", "F.adaptive_max_pool1d", "nn.AdaptiveMaxPool2d",
        "F.adaptive_max_pool2d", "nn.AdaptiveMaxPool3d", "F.adaptive_max_pool3d" {
        /// The number of pooled axes.
        axes: SpatialAxes,
        /// Spatial size of the output, or one length for all axes; 0 keeps the input's length.
        output_size: ParamOrInput<PerAxis>,
        /// Whether to return a second output (i64): the index of each maximum in its flattened plane.
        return_indices: bool = false,
    }
    validate |layer| { check(layer.axes, &layer.output_size) }
}

impl Pooling for AdaptiveAvgPool {
    fn axes(&self) -> SpatialAxes {
        self.axes
    }

    fn method(&self) -> Result<(Regions<'_>, Reduction)> {
        Ok((Regions::Adaptive { output_size: &self.output_size }, Reduction::Mean(Divisor::Elements)))
    }
}

impl Pooling for AdaptiveMaxPool {
    fn axes(&self) -> SpatialAxes {
        self.axes
    }

    fn method(&self) -> Result<(Regions<'_>, Reduction)> {
        let reduction = Reduction::Max { indices: self.return_indices };
        Ok((Regions::Adaptive { output_size: &self.output_size }, reduction))
    }
}

operators! { Pooled<AdaptiveAvgPool>: when_quantized(InFloats(OfMean)), Pooled<AdaptiveMaxPool>: moves(Moved) }

#[cfg(test)]
mod tests {
    use crate::op::TensorMeta;
    use crate::support::testing::{assert_close, operator, waves};
    use ixion_tensor::{DType, Dim};

    #[test]
    fn means_are_those_of_pytorch() {
        let mean = |op_type, size, shape: &[usize]| {
            operator(op_type, &[("output_size", size)]).run_one(&[&waves(shape)]).unwrap()
        };
        assert_close(
            &mean("F.adaptive_avg_pool1d", "3", &[1, 1, 7]),
            &[1, 1, 3],
            &[-1.0, -5.0 / 6.0, -1.0 / 12.0],
        );
        let want = [-1.5, -0.125, -1.0, -0.875, 0.125, 1.75, 1.125, 1.75, 0.125];
        assert_close(&mean("nn.AdaptiveAvgPool2d", "(0,3)", &[1, 1, 3, 4]), &[1, 1, 3, 3], &want);
        let want = [0.125, 0.0, -1.25, -0.9375, 0.125, -0.5625];
        assert_close(&mean("nn.AdaptiveAvgPool3d", "(1,0,2)", &[1, 2, 3, 3]), &[1, 1, 3, 2], &want);
    }

    #[test]
    fn maxima_and_their_indices_are_those_of_pytorch() {
        let params = [("output_size", "(2,3)"), ("return_indices", "True")];
        let outputs = operator("nn.AdaptiveMaxPool2d", &params).run(&[&waves(&[1, 5, 4])]).unwrap();
        assert_close(&outputs[0], &[1, 2, 3], &[2.0, 2.0, 2.0, 2.0, 2.75, 2.75]);
        assert_eq!(outputs[1].to_vec::<i64>().unwrap(), [9, 9, 7, 9, 18, 18]);
        let params = [("output_size", "(6)"), ("return_indices", "False")];
        let more = operator("F.adaptive_max_pool1d", &params).run_one(&[&waves(&[1, 2, 4])]).unwrap();
        let want = [-2.75, -0.25, -0.25, 0.0, 0.0, -2.0, -0.5, -0.5, -1.25, 1.5, 2.0, 2.0];
        assert_close(&more, &[1, 2, 6], &want);
    }

    #[test]
    fn symbols_odd_inputs_and_invalid_sizes() {
        let input = TensorMeta::new(
            DType::F32,
            [Dim::symbol("n"), Dim::Fixed(8), Dim::symbol("h"), Dim::symbol("w")],
        );
        let output = operator("F.adaptive_avg_pool2d", &[("output_size", "(0,3)")]).infer(&[input]).unwrap();
        assert_eq!(output[0].to_string(), "n×8×h×3 f32");
        for size in ["1", "(2,0)", "7"] {
            operator("nn.AdaptiveMaxPool2d", &[("output_size", size), ("return_indices", "True")])
                .survives(1);
            operator("nn.AdaptiveAvgPool2d", &[("output_size", size)]).survives(1);
        }
        let huge = operator("F.adaptive_avg_pool1d", &[("output_size", "9223372036854775807")]);
        assert!(huge.run(&[&waves(&[1, 1, 4])]).is_err());
        assert!(operator("F.adaptive_avg_pool1d", &[("output_size", "(1,2)")]).create(1).is_err());
    }
}
