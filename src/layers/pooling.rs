//! Pooling with a window that slides: the largest element, the mean or the norm of what the window sees.

use super::choices::PerAxis;
use super::float::{self, with_float};
use crate::graph::{CpuLayer, ForwardContext, Layer, LayerError, Registry, RegistryError, TensorMeta};
use crate::kernels::Float;
use crate::kernels::naive::Divisor;
use crate::kernels::pool::{self, PoolShape};
use crate::kernels::window::Window;
use crate::tensor::{DType, Dim, Layout, Shape, TensorView, TensorViewMut};

/// What becomes of the elements that one output position looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reduction {
    /// The largest, and its place where that is asked for.
    Max {
        /// Whether there is a second output: positions in the flattened plane.
        indices: bool,
    },
    /// The mean.
    Mean(Divisor),
    /// The norm of this order, over windows of so many places.
    Norm {
        /// The order.
        p: f64,
        /// Places of a whole window.
        places: usize,
    },
}

impl Reduction {
    /// How many outputs there are.
    pub(super) fn num_outputs(self) -> usize {
        if self == (Self::Max { indices: true }) { 2 } else { 1 }
    }

    /// The outputs, given their dimensions.
    pub(super) fn metas(self, input: &TensorMeta, dims: Vec<Dim>) -> Vec<TensorMeta> {
        let values = input.with_dims(dims);
        match self {
            Self::Max { indices: true } => vec![values.clone(), values.with_dtype(DType::I64)],
            _ => vec![values],
        }
    }

    /// Computes the outputs.
    pub(super) fn compute<T: Float>(
        self,
        shape: &PoolShape,
        input: &TensorView<'_>,
        outputs: &mut [TensorViewMut<'_>],
    ) -> Result<(), LayerError> {
        let input = float::read::<T>(input)?;
        let (values, indices) = outputs.split_at_mut(1);
        let mut places = vec![0; indices.first().map_or(0, TensorViewMut::num_elements)];
        float::write::<T>(&mut values[0], |values| {
            match self {
                Self::Max { indices: true } => pool::max_pool_with_indices(shape, &input, values, &mut places),
                Self::Max { indices: false } => pool::max_pool(shape, &input, values),
                Self::Mean(divisor) => pool::avg_pool(shape, divisor, &input, values),
                Self::Norm { p, places } => pool::lp_pool(shape, p, places, &input, values),
            }
            Ok(())
        })?;
        if let Some(indices) = indices.first_mut() {
            let layout = Layout::contiguous(*indices.shape());
            indices.copy_from(&TensorView::from_slice(&places, layout)?)?;
        }
        Ok(())
    }
}

/// The number of axes before those that are pooled: channels, and a batch unless the input is a single sample.
pub(super) fn leading_axes(input: &TensorMeta, axes: usize) -> Result<usize, LayerError> {
    float::check("the input", input)?;
    let leading = input.rank().checked_sub(axes).filter(|leading| (1..=2).contains(leading));
    let leading =
        leading.ok_or_else(|| LayerError::shape("the input", format!("{} or {} axes", axes + 1, axes + 2), input))?;
    match input.dims()[leading..].iter().position(|len| *len == 0usize) {
        Some(axis) => Err(LayerError::shape(format!("axis {} of the input", leading + axis), "an element", input)),
        None => Ok(leading),
    }
}

/// A pooling as all its operators understand it.
struct Pool {
    windows: Vec<Window>,
    ceil_mode: bool,
    reduction: Reduction,
}

impl Pool {
    /// One window for each of `axes` axes.
    ///
    /// # Errors
    /// Parameters that have another number of axes, or make no sense.
    fn new(
        axes: usize,
        kernel_size: &PerAxis,
        stride: Option<&PerAxis>,
        padding: &PerAxis,
        dilation: &PerAxis,
        ceil_mode: bool,
        reduction: impl Fn(&[Window]) -> Reduction,
    ) -> Result<Self, LayerError> {
        let per_axis = |key, values: &PerAxis| {
            let reason = format!("one number is needed, or one for each of {axes} axes");
            values.get(axes).ok_or_else(|| invalid(key, values, &reason))
        };
        let kernel = per_axis("kernel_size", kernel_size)?;
        let stride = stride.map(|stride| per_axis("stride", stride)).transpose()?.unwrap_or_else(|| kernel.clone());
        let (dilations, paddings) = (per_axis("dilation", dilation)?, per_axis("padding", padding)?);
        let axes = kernel.into_iter().zip(stride).zip(dilations).zip(paddings);
        let windows: Vec<Window> = axes
            .map(|(((kernel, stride), dilation), pad)| Window {
                kernel,
                stride,
                dilation,
                pad_before: pad,
                pad_after: pad,
            })
            .collect();
        if windows.iter().any(|window| !window.is_sane() || window.dilation == 0) {
            let reason = "window, stride and dilation must be at least 1, and not absurdly large";
            return Err(invalid("kernel_size", kernel_size, reason));
        }
        if windows.iter().any(|window| window.pad_before > window.kernel / 2) {
            return Err(invalid("padding", padding, "it may be at most half of the window"));
        }
        Ok(Self { reduction: reduction(&windows), windows, ceil_mode })
    }

    /// The number of positions of a window, by PyTorch's rule: with `ceil_mode`, a last position that is only partly
    /// inside counts, if it begins inside of the input or of the padding before it.
    fn positions(&self, window: &Window, len: &Dim) -> Dim {
        let reach = window.dilation * (window.kernel - 1) + 1;
        let room = len.clone() + (window.pad_before + window.pad_after) - reach;
        if !self.ceil_mode {
            return room.floor_div(window.stride) + 1;
        }
        let last_start = (len.clone() + window.pad_before - 1).floor_div(window.stride);
        room.ceil_div(window.stride).min(last_start) + 1
    }

    fn infer(&self, input: &TensorMeta) -> Result<Vec<TensorMeta>, LayerError> {
        let leading = leading_axes(input, self.windows.len())?;
        let mut dims = input.dims()[..leading].to_vec();
        for (axis, window) in self.windows.iter().enumerate() {
            let positions = self.positions(window, &input.dims()[leading + axis]);
            if positions.fixed().is_some_and(|positions| positions < 1) {
                let wanted = format!("room for a window of {} along axis {}", window.kernel, leading + axis);
                return Err(LayerError::shape("the input", wanted, input));
            }
            dims.push(positions);
        }
        Ok(self.reduction.metas(input, dims))
    }

    fn forward(&self, input: &TensorView<'_>, outputs: &mut [TensorViewMut<'_>]) -> Result<(), LayerError> {
        if outputs[0].num_elements() == 0 {
            return Ok(());
        }
        let last = |shape: &Shape| shape[shape.rank() - self.windows.len()..].to_vec();
        let shape = PoolShape::sliding(&last(input.shape()), &self.windows, &last(outputs[0].shape()));
        with_float!(input.dtype(), T => self.reduction.compute::<T>(&shape, input, outputs))
    }
}

fn invalid(key: &'static str, found: &PerAxis, reason: &str) -> LayerError {
    LayerError::InvalidParameter { key, found: format!("{:?}", found.values()), reason: reason.to_owned() }
}

macro_rules! pool_layer {
    ($name:ident) => {
        impl Layer for $name {
            fn num_outputs(&self) -> usize {
                self.pool().map_or(1, |pool| pool.reduction.num_outputs())
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                self.pool()?.infer(&inputs[0])
            }
        }

        impl CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                _: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                self.pool()?.forward(&inputs[0], outputs)
            }
        }
    };
}

macro_rules! max_pools {
    ($($(#[doc = $doc:literal])* $name:ident($axes:literal) for $($op_type:literal),+;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $($op_type),+ {
                /// Lengths of the window.
                kernel_size: PerAxis,
                /// Distance between one position of the window and the next; that of the window where absent.
                stride: Option<PerAxis> = None,
                /// Places added on both sides, which are never the largest; at most half of the window.
                padding: PerAxis = PerAxis::all(0),
                /// Distance between the places that the window looks at.
                dilation: PerAxis = PerAxis::all(1),
                /// Whether a last position that is only partly inside counts.
                ceil_mode: bool = false,
                /// Whether a second output (i64) says where each largest element stands in its flattened plane.
                return_indices: bool = false,
            }
            validate |layer| { layer.pool().map(drop) }
        }

        impl $name {
            fn pool(&self) -> Result<Pool, LayerError> {
                let reduction = |_: &[Window]| Reduction::Max { indices: self.return_indices };
                let (kernel, stride, padding) = (&self.kernel_size, self.stride.as_ref(), &self.padding);
                Pool::new($axes, kernel, stride, padding, &self.dilation, self.ceil_mode, reduction)
            }
        }

        pool_layer!($name);
    )*};
}

max_pools! {
    /// `torch.nn.MaxPool1d`: the largest element of each window, N×C×L → N×C×L′ (or without N). NaN counts as largest.
    MaxPool1d(1) for "nn.MaxPool1d", "F.max_pool1d";

    /// `torch.nn.MaxPool2d`: the largest element of each window, N×C×H×W → N×C×H′×W′ (or without N). NaN counts as
    /// largest.
    MaxPool2d(2) for "nn.MaxPool2d", "F.max_pool2d";

    /// `torch.nn.MaxPool3d`: the largest element of each window, N×C×D×H×W → N×C×D′×H′×W′ (or without N). NaN counts
    /// as largest.
    MaxPool3d(3) for "nn.MaxPool3d", "F.max_pool3d";
}

macro_rules! avg_pools {
    ($($(#[doc = $doc:literal])* $name:ident($axes:literal) for $($op_type:literal),+;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $($op_type),+ {
                /// Lengths of the window.
                kernel_size: PerAxis,
                /// Distance between one position of the window and the next; that of the window where absent.
                stride: Option<PerAxis> = None,
                /// Zeros added on both sides; at most half of the window.
                padding: PerAxis = PerAxis::all(0),
                /// Whether a last position that is only partly inside counts.
                ceil_mode: bool = false,
                /// Whether the zeros of the padding count as elements.
                count_include_pad: bool = true,
                /// What sums are divided by instead of the number of elements.
                divisor_override: Option<i64> = None,
            }
            validate |layer| {
                if layer.divisor_override == Some(0) {
                    let reason = "a sum cannot be divided by it".to_owned();
                    return Err(LayerError::InvalidParameter { key: "divisor_override", found: "0".to_owned(), reason });
                }
                layer.pool().map(drop)
            }
        }

        impl $name {
            fn pool(&self) -> Result<Pool, LayerError> {
                let divisor = match (self.divisor_override, self.count_include_pad) {
                    (Some(number), _) => Divisor::Fixed(number),
                    (None, true) => Divisor::ElementsAndPadding,
                    (None, false) => Divisor::Elements,
                };
                let (kernel, stride, padding) = (&self.kernel_size, self.stride.as_ref(), &self.padding);
                let reduction = |_: &[Window]| Reduction::Mean(divisor);
                Pool::new($axes, kernel, stride, padding, &PerAxis::all(1), self.ceil_mode, reduction)
            }
        }

        pool_layer!($name);
    )*};
}

avg_pools! {
    /// `torch.nn.AvgPool1d`: the mean of each window, N×C×L → N×C×L′ (or without N).
    AvgPool1d(1) for "nn.AvgPool1d", "F.avg_pool1d";

    /// `torch.nn.AvgPool2d`: the mean of each window, N×C×H×W → N×C×H′×W′ (or without N).
    AvgPool2d(2) for "nn.AvgPool2d", "F.avg_pool2d";

    /// `torch.nn.AvgPool3d`: the mean of each window, N×C×D×H×W → N×C×D′×H′×W′ (or without N).
    AvgPool3d(3) for "nn.AvgPool3d", "F.avg_pool3d";
}

macro_rules! lp_pools {
    ($($(#[doc = $doc:literal])* $name:ident($axes:literal) for $($op_type:literal),+;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $($op_type),+ {
                /// The order p of the norm: any number but 0.
                norm_type: f64,
                /// Lengths of the window.
                kernel_size: PerAxis,
                /// Distance between one position of the window and the next; that of the window where absent.
                stride: Option<PerAxis> = None,
                /// Whether a last position that is only partly inside counts.
                ceil_mode: bool = false,
            }
            validate |layer| {
                if layer.norm_type == 0.0 {
                    let reason = "there is no norm of order 0".to_owned();
                    return Err(LayerError::InvalidParameter { key: "norm_type", found: "0".to_owned(), reason });
                }
                layer.pool().map(drop)
            }
        }

        impl $name {
            fn pool(&self) -> Result<Pool, LayerError> {
                let reduction = |windows: &[Window]| {
                    let places = windows.iter().fold(1usize, |product, w| product.saturating_mul(w.kernel));
                    Reduction::Norm { p: self.norm_type, places }
                };
                let (none, dense) = (PerAxis::all(0), PerAxis::all(1));
                Pool::new($axes, &self.kernel_size, self.stride.as_ref(), &none, &dense, self.ceil_mode, reduction)
            }
        }

        pool_layer!($name);
    )*};
}

lp_pools! {
    /// `torch.nn.LPPool1d`: (Σ xᵖ)^(1/p) of each window, N×C×L → N×C×L′ (or without N). As in PyTorch, a window that
    /// reaches past the end counts its missing places as if they held the mean, and negative sums give NaN.
    LpPool1d(1) for "nn.LPPool1d", "F.lp_pool1d";

    /// `torch.nn.LPPool2d`: (Σ xᵖ)^(1/p) of each window, N×C×H×W → N×C×H′×W′ (or without N); as [`LpPool1d`] otherwise.
    LpPool2d(2) for "nn.LPPool2d", "F.lp_pool2d";

    /// `torch.nn.LPPool3d`: (Σ xᵖ)^(1/p) of each window, N×C×D×H×W → N×C×D′×H′×W′ (or without N); as [`LpPool1d`]
    /// otherwise.
    LpPool3d(3) for "nn.LPPool3d", "F.lp_pool3d";
}

/// Registers the layers of this family.
pub(super) fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register::<MaxPool1d>()?;
    registry.register::<MaxPool2d>()?;
    registry.register::<MaxPool3d>()?;
    registry.register::<AvgPool1d>()?;
    registry.register::<AvgPool2d>()?;
    registry.register::<AvgPool3d>()?;
    registry.register::<LpPool1d>()?;
    registry.register::<LpPool2d>()?;
    registry.register::<LpPool3d>()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_close, operator, waves};
    use super::*;
    use crate::tensor::Tensor;

    #[test]
    fn largest_elements_and_their_places_are_those_of_pytorch() {
        let params = [("kernel_size", "3"), ("stride", "2"), ("padding", "1"), ("ceil_mode", "True")];
        let with_indices = [&params[..], &[("return_indices", "True")]].concat();
        let x = waves(&[1, 2, 7]);
        let [values, indices] = &operator("F.max_pool1d", &with_indices).run(&[&x]).unwrap()[..] else { panic!() };
        let want = [-0.25, 0.0, -0.5, 1.5, 2.0, 2.0, 1.5, -0.5];
        assert_close(values, &[1, 2, 4], &want);
        assert_eq!(indices.to_vec::<i64>().unwrap(), [1, 2, 4, 6, 0, 2, 3, 5]);
        assert_close(&operator("nn.MaxPool1d", &params).run_one(&[&x]).unwrap(), &[1, 2, 4], &want);

        let params = [("kernel_size", "(3,2)"), ("stride", "(2,3)"), ("padding", "(1,0)"), ("dilation", "(1,2)")];
        let params = [&params[..], &[("ceil_mode", "True"), ("return_indices", "True")]].concat();
        let outputs = operator("nn.MaxPool2d", &params).run(&[&waves(&[1, 1, 5, 6])]).unwrap();
        assert_close(&outputs[0], &[1, 1, 3, 2], &[1.5, 2.0, 2.75, 2.75, 2.75, 2.75]);
        assert_eq!(outputs[1].to_vec::<i64>().unwrap(), [6, 9, 18, 21, 18, 21]);
    }

    #[test]
    fn samples_without_a_batch_and_volumes() {
        let params = [("kernel_size", "(2)"), ("stride", "None"), ("dilation", "(3)")];
        let flat = operator("F.max_pool1d", &params).run_one(&[&waves(&[2, 6])]).unwrap();
        assert_close(&flat, &[2, 2], &[-2.0, 0.0, 2.0, 0.25]);
        let params = [("kernel_size", "2"), ("stride", "(1,2,1)"), ("padding", "(1,0,1)")];
        let volume = operator("F.max_pool3d", &params).run_one(&[&waves(&[1, 3, 4, 3])]).unwrap();
        let want = [
            -2.0, -0.25, 0.0, 0.0, 2.0, 2.0, 2.0, 0.25, -0.25, -0.25, 0.0, 0.0, 2.75, 2.75, 2.0, 0.25, -0.25, 0.0, 1.5, 1.5,
            2.75, 2.75, 2.0, 2.0, -0.25, 0.0, 1.5, 1.5, 2.0, 2.0, 2.0, 2.0,
        ];
        assert_close(&volume, &[1, 4, 2, 4], &want);
    }

    #[test]
    fn means_divide_as_pytorch_does() {
        let params = [("kernel_size", "3"), ("stride", "2"), ("padding", "1"), ("ceil_mode", "True")];
        let ninths = [-2.75, 1.5, -0.25, -2.5, -1.75, 2.25, -1.0, -3.5, -1.0];
        let counts = [4.0, 6.0, 4.0, 6.0, 9.0, 6.0, 4.0, 6.0, 4.0];
        let cases = [
            (("count_include_pad", "True"), ninths.map(|sum| sum / 9.0)),
            (("count_include_pad", "False"), std::array::from_fn(|i| ninths[i] / counts[i])),
            (("divisor_override", "5"), ninths.map(|sum| sum / 5.0)),
        ];
        for (param, want) in cases {
            let layer = [&params[..], &[param]].concat();
            assert_close(&operator("F.avg_pool2d", &layer).run_one(&[&waves(&[1, 5, 5])]).unwrap(), &[1, 3, 3], &want);
        }
        let partial = [("kernel_size", "3"), ("padding", "1"), ("ceil_mode", "True")];
        let got = operator("nn.AvgPool2d", &partial).run_one(&[&waves(&[1, 1, 4, 4])]).unwrap();
        assert_close(&got, &[1, 1, 2, 2], &[-0.5277777777777778, 0.16666666666666666, -0.027777777777777776, 0.0]);
        let params = [("kernel_size", "4"), ("stride", "3"), ("padding", "2"), ("count_include_pad", "False")];
        let params = [&params[..], &[("ceil_mode", "True")]].concat();
        let got = operator("F.avg_pool1d", &params).run_one(&[&waves(&[1, 1, 6])]).unwrap();
        assert_close(&got, &[1, 1, 3], &[-1.5, -0.6875, -0.875]);
        let params = [("kernel_size", "2"), ("stride", "1")];
        let got = operator("F.avg_pool3d", &params).run_one(&[&waves(&[1, 2, 3, 3])]).unwrap();
        assert_close(&got, &[1, 1, 2, 2], &[-0.5625, -0.46875, -0.5625, -0.75]);
    }

    #[test]
    fn norms_are_those_of_pytorch() {
        let nan = [f64::NAN; 3];
        let cases = [
            ("1", [-3.0, -2.0, -1.0]),
            ("2", [2.7613402542968153, 2.0, 0.7071067811865476]),
            ("3.0", nan),
            ("0.5", nan),
            ("-1", [-0.22916666666666669, 0.0, -0.25]),
        ];
        for (p, want) in cases {
            let params = [("norm_type", p), ("kernel_size", "2"), ("ceil_mode", "True"), ("stride", "None")];
            assert_close(&operator("F.lp_pool1d", &params).run_one(&[&waves(&[1, 5])]).unwrap(), &[1, 3], &want);
        }
        let params = [("norm_type", "2.0"), ("kernel_size", "(2,2)"), ("stride", "1")];
        let want = [
            3.072051431861127, 1.9685019685029528, 3.2015621187164243, 2.4238399287081647, 3.17214438511238, 3.17214438511238,
        ];
        assert_close(&operator("nn.LPPool2d", &params).run_one(&[&waves(&[1, 1, 3, 4])]).unwrap(), &[1, 1, 2, 3], &want);
    }

    #[test]
    fn sizes_may_be_symbols() {
        let rule = |ceil_mode, len: Dim| {
            let params = [("kernel_size", "3"), ("stride", "2"), ("padding", "1"), ("ceil_mode", ceil_mode)];
            let input = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::Fixed(8), len]);
            operator("nn.MaxPool1d", &params).infer(&[input]).unwrap().remove(0).dims()[2].clone()
        };
        assert_eq!(rule("False", Dim::symbol("l")).to_string(), "(l + 2 - 3) / 2 + 1");
        for ceil_mode in ["False", "True"] {
            for len in 1..9 {
                let symbolic = rule(ceil_mode, Dim::symbol("l")).evaluate(&|_| Some(len));
                assert_eq!(symbolic, rule(ceil_mode, Dim::Fixed(len)).fixed());
            }
        }
    }

    #[test]
    fn half_precision_and_odd_inputs() {
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            let x = waves(&[1, 1, 5]).cast(dtype).unwrap();
            let got = operator("nn.AvgPool1d", &[("kernel_size", "3")]).run_one(&[&x]).unwrap();
            assert_eq!(got.dtype(), dtype);
            assert_close(&got, &[1, 1, 1], &[(-2.75 - 0.25 + 0.0) / 3.0]);
        }
        let large = [("kernel_size", "1000000000"), ("stride", "1000000000"), ("padding", "500000000")];
        for name in ["nn.MaxPool1d", "nn.MaxPool2d", "nn.MaxPool3d", "nn.AvgPool1d", "nn.AvgPool2d", "nn.AvgPool3d"] {
            operator(name, &[("kernel_size", "2"), ("padding", "1"), ("ceil_mode", "True")]).survives(1);
            operator(name, &large).survives(1);
        }
        operator("nn.LPPool3d", &[("kernel_size", "2"), ("norm_type", "2")]).survives(1);
    }

    #[test]
    fn senseless_parameters_are_refused() {
        let refused = |params: &[(&str, &str)]| operator("nn.AvgPool2d", params).create(1).unwrap_err().to_string();
        assert_eq!(
            refused(&[("kernel_size", "3"), ("padding", "2")]),
            "parameter `padding` is [2]: it may be at most half of the window"
        );
        assert_eq!(
            refused(&[("kernel_size", "(3,3,3)")]),
            "parameter `kernel_size` is [3, 3, 3]: one number is needed, or one for each of 2 axes"
        );
        refused(&[("kernel_size", "0")]);
        refused(&[("kernel_size", "2"), ("stride", "0")]);
        refused(&[("kernel_size", "2"), ("divisor_override", "0")]);
        refused(&[("kernel_size", "9223372036854775807")]);
        assert!(operator("nn.LPPool1d", &[("kernel_size", "2"), ("norm_type", "0.0")]).create(1).is_err());
        assert!(operator("nn.MaxPool1d", &[("kernel_size", "2"), ("dilation", "0")]).create(1).is_err());
        let small = Tensor::zeros(DType::F32, &[1, 1, 2, 2]).unwrap();
        let error = operator("nn.MaxPool2d", &[("kernel_size", "3")]).run(&[&small]).unwrap_err().to_string();
        assert_eq!(error, "the input: room for a window of 3 along axis 2 needed, but it is 1×1×2×2 f32");
    }
}
