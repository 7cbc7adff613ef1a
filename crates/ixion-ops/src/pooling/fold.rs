//! Unfold and fold: sliding windows as columns (im2col), and their sum back to an image (col2im).

use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::ParamOrInput;
use crate::support::choices::{PerAxis, per_axis};
use crate::support::float;
use crate::support::float::with_float;
use ixion_kernels::folding::{self, FoldShape};
use ixion_kernels::window::Window;
use ixion_tensor::{Dim, Shape};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.functional.unfold` and `torch.nn.Unfold`: the sliding windows of an N×C×H×W or C×H×W input as columns
    /// (im2col): one row per channel and window element, one column per window position. Output: N×(C·kernel)×positions, or
    /// without N, where kernel is the number of window elements.
    pub struct Unfold for "F.unfold", "nn.Unfold" {
        /// Height and width of the window, or one length for both.
        kernel_size: PerAxis,
        /// Spacing between kernel elements.
        dilation: PerAxis = PerAxis::all(1),
        /// Zero padding added to both sides of each axis.
        padding: PerAxis = PerAxis::all(0),
        /// Stride of the sliding window.
        stride: PerAxis = PerAxis::all(1),
    }
    validate |layer| { layer.windows().map(drop) }
}

crate::operator! {
    /// `torch.nn.functional.fold` and `torch.nn.Fold`: sums sliding windows, given as columns like those of [`Unfold`],
    /// into an image (col2im); N×(C·kernel)×positions or (C·kernel)×positions gives N×C×H×W or C×H×W.
    pub struct Fold for "F.fold", "nn.Fold" {
        /// Height and width of the output, or one length for both.
        output_size: ParamOrInput<Vec<i64>>,
        /// Height and width of the window, or one length for both.
        kernel_size: PerAxis,
        /// Spacing between kernel elements.
        dilation: PerAxis = PerAxis::all(1),
        /// Padding at both sides of each axis that the columns cover, but not the output.
        padding: PerAxis = PerAxis::all(0),
        /// Stride of the sliding window.
        stride: PerAxis = PerAxis::all(1),
    }
    validate |layer| { layer.windows().map(drop) }
}

/// The window along both axes.
fn windows(keys: [(&'static str, &PerAxis); 4]) -> Result<[Window; 2]> {
    let invalid = |key, values: &PerAxis, reason: &str| {
        Err(LayerError::invalid(key, format!("{:?}", values.values()), reason))
    };
    let pair = |(key, values): (&'static str, &PerAxis)| per_axis(key, values.values(), 2);
    let [kernel, dilation, padding, stride] = keys.map(pair);
    let (kernel, dilation, padding, stride) = (kernel?, dilation?, padding?, stride?);
    let window = |axis: usize| Window {
        kernel: kernel[axis],
        stride: stride[axis],
        dilation: dilation[axis],
        pad_before: padding[axis],
        pad_after: padding[axis],
    };
    let windows = [window(0), window(1)];
    let zero = keys.iter().find(|(key, values)| *key != "padding" && values.values().contains(&0));
    match zero {
        Some((key, values)) => invalid(key, values, "it must be at least 1"),
        None if windows.iter().all(Window::is_sane) => Ok(windows),
        None => invalid("kernel_size", keys[0].1, "the window or its padding is too large"),
    }
}

/// The number of positions of a window along an axis.
fn positions(window: &Window, len: &Dim) -> Result<Dim> {
    let reach = window.dilation * (window.kernel - 1) + 1;
    let room = len.clone() + 2 * window.pad_before - reach;
    if room.fixed().is_some_and(|room| room < 0) {
        let wanted = format!("at least {} elements", reach.saturating_sub(2 * window.pad_before));
        return Err(LayerError::shape("an axis that the window slides over", wanted, len));
    }
    Ok(room.floor_div(window.stride) + 1)
}

/// The number of elements of a window of two axes.
fn taps(windows: &[Window; 2]) -> usize {
    windows[0].kernel.saturating_mul(windows[1].kernel)
}

/// Checks that no axis but the batch is empty.
fn not_empty(input: &TensorMeta, axes: usize) -> Result<()> {
    match input.dims().iter().rev().take(axes).any(|len| *len == 0usize) {
        true => Err(LayerError::shape("the input", "elements along each axis but the batch", input)),
        false => Ok(()),
    }
}

/// The last two lengths of an image, and the windows that slide over them.
fn fold_shape(image: &Shape, windows: [Window; 2]) -> FoldShape {
    let rank = image.rank();
    FoldShape { lens: [image[rank - 2], image[rank - 1]], windows }
}

impl Unfold {
    /// The windows along height and width, with the same padding on both sides.
    ///
    /// # Errors
    /// Returns an error if a parameter has neither one nor two values, if one other than `padding` contains 0, or if a window
    /// is too large.
    pub fn windows(&self) -> Result<[Window; 2]> {
        windows([
            ("kernel_size", &self.kernel_size),
            ("dilation", &self.dilation),
            ("padding", &self.padding),
            ("stride", &self.stride),
        ])
    }
}

impl Layer for Unfold {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let input = &inputs[0];
        float::check("the input", input)?;
        let (batch, [channels, height, width]) = match input.dims() {
            [batch @ .., channels, height, width] if batch.len() < 2 => (batch, [channels, height, width]),
            _ => return Err(LayerError::shape("the input", "N×C×H×W or C×H×W", input)),
        };
        not_empty(input, 3)?;
        let windows = self.windows()?;
        let count = positions(&windows[0], height)? * positions(&windows[1], width)?;
        let rows = channels.clone() * taps(&windows);
        Ok(vec![input.with_dims(batch.iter().cloned().chain([rows, count]))])
    }
}

impl CpuLayer for Unfold {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let shape = fold_shape(io.inputs[0].shape(), self.windows()?);
        with_float!(io.inputs[0].dtype(), T => {
            let input = float::read::<T>(&io.inputs[0])?;
            float::write::<T>(&mut io.outputs[0], |output| {
                Ok(folding::unfold(&shape, &input, output, io.context.limits())?)
            })
        })
    }
}

impl Fold {
    /// The windows along height and width of the output, with the same padding on both sides.
    ///
    /// # Errors
    /// Returns an error if a parameter has neither one nor two values, if one other than `padding` contains 0, or if a window
    /// is too large.
    pub fn windows(&self) -> Result<[Window; 2]> {
        windows([
            ("kernel_size", &self.kernel_size),
            ("dilation", &self.dilation),
            ("padding", &self.padding),
            ("stride", &self.stride),
        ])
    }

    /// Height and width of the output.
    fn size(&self, inputs: &[TensorMeta]) -> Result<[Dim; 2]> {
        let size = self.output_size.dims(inputs)?;
        let pair = match size.as_slice() {
            [both] => Some([both.clone(), both.clone()]),
            [height, width] => Some([height.clone(), width.clone()]),
            _ => None,
        };
        let pair = pair.filter(|pair| pair.iter().all(|len| len.fixed().is_none_or(|len| len >= 1)));
        pair.ok_or_else(|| LayerError::InvalidParameter {
            key: "output_size",
            found: format!("{size:?}"),
            reason: "expected height and width, both at least 1".to_owned(),
        })
    }
}

impl Layer for Fold {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let input = &inputs[0];
        float::check("the input", input)?;
        let (batch, [rows, columns]) = match input.dims() {
            [batch @ .., rows, columns] if batch.len() < 2 => (batch, [rows, columns]),
            _ => return Err(LayerError::shape("the input", "N×(C·kernel)×positions, or without N", input)),
        };
        not_empty(input, 2)?;
        let (windows, [height, width]) = (self.windows()?, self.size(inputs)?);
        let taps = taps(&windows);
        if rows.fixed().is_some_and(|rows| usize::try_from(rows).is_ok_and(|rows| rows % taps != 0)) {
            let wanted = format!("a multiple of the {taps} window elements");
            return Err(LayerError::shape("the number of rows", wanted, rows));
        }
        let count = positions(&windows[0], &height)? * positions(&windows[1], &width)?;
        if let (Some(wanted), Some(found)) = (count.fixed(), columns.fixed())
            && wanted != found
        {
            return Err(LayerError::shape("the number of positions", wanted, found));
        }
        let channels = rows.clone().floor_div(taps);
        Ok(vec![input.with_dims(batch.iter().cloned().chain([channels, height, width]))])
    }
}

impl CpuLayer for Fold {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let shape = fold_shape(io.outputs[0].shape(), self.windows()?);
        with_float!(io.inputs[0].dtype(), T => {
            let input = float::read::<T>(&io.inputs[0])?;
            float::write::<T>(&mut io.outputs[0], |output| {
                Ok(folding::fold(&shape, &input, output, io.context.limits())?)
            })
        })
    }
}

operators! { Unfold, Fold }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{assert_close, operator, tensor, waves};
    use ixion_tensor::DType;

    #[test]
    fn columns_are_those_of_pytorch() {
        let got = operator("F.unfold", &[("kernel_size", "(2,3)")]).run_one(&[&waves(&[1, 3, 4])]).unwrap();
        let want = [
            -2.75, -0.25, -0.5, -1.25, -0.25, 0.0, -1.25, 1.5, 0.0, -2.0, 1.5, 2.0, -0.5, -1.25, 0.25, 2.0,
            -1.25, 1.5, 2.0, 1.5, 1.5, 2.0, 1.5, -1.25,
        ];
        assert_close(&got, &[6, 4], &want);
        let params = [("kernel_size", "(2,1)"), ("dilation", "(1,2)"), ("padding", "(0,1)"), ("stride", "2")];
        let got = operator("nn.Unfold", &params).run_one(&[&waves(&[2, 2, 3, 3])]).unwrap();
        let want = [
            0.0, -0.25, 0.0, 0.0, -0.5, 0.0, 0.0, 1.5, 0.0, 0.0, -2.0, 0.0, 0.0, -0.75, 0.0, 0.0, -1.75, 0.0,
            0.0, -1.25, 0.0, 0.0, 0.25, 0.0,
        ];
        assert_close(&got, &[2, 4, 3], &want);
    }

    #[test]
    fn images_are_those_of_pytorch() {
        let params = [("output_size", "(3,4)"), ("kernel_size", "2")];
        let want = [-2.75, 1.25, 2.0, 0.25, -2.5, 2.25, -0.5, -2.0, -0.25, 0.0, -3.5, -2.75];
        for dtype in [DType::F64, DType::F32, DType::F16, DType::Bf16] {
            let columns = waves(&[4, 6]).cast(dtype).unwrap();
            assert_close(&operator("F.fold", &params).run_one(&[&columns]).unwrap(), &[1, 3, 4], &want);
        }
        let params = [("output_size", "3"), ("kernel_size", "(2,1)")];
        let want = [
            -2.75, -0.25, 0.0, -0.5, 1.5, -1.0, 2.0, 1.5, -1.25, -0.5, -2.0, 0.0, 2.5, -3.5, -2.5, 2.75,
            -1.75, -2.75, -0.25, 0.0, -2.0, 1.5, -1.0, 3.5, 1.5, -1.25, -0.5, -2.0, 0.0, -0.25, -3.5, -2.5,
            5.5, -1.75, -2.75, -0.25,
        ];
        let got = operator("nn.Fold", &params).run_one(&[&waves(&[2, 4, 6])]).unwrap();
        assert_close(&got, &[2, 2, 3, 3], &want);
        let params = [("kernel_size", "(2,3)"), ("dilation", "(2,1)"), ("padding", "1"), ("stride", "2")];
        let fold = operator("F.fold", &params).with_names(&["input", "output_size"]);
        let got = fold.run_one(&[&waves(&[1, 6, 4]), &tensor(&[2], &[4i64, 4])]).unwrap();
        let want =
            [0.0, 0.0, 0.0, 0.0, -1.25, -3.25, 0.25, 1.5, 0.0, 0.0, 0.0, 0.0, 2.75, -2.0, -0.75, -2.75];
        assert_close(&got, &[1, 1, 4, 4], &want);
    }

    #[test]
    fn sizes_are_symbols_until_they_are_known() {
        let dims = [Dim::symbol("n"), Dim::Fixed(3), Dim::symbol("h"), Dim::Fixed(7)];
        let image = TensorMeta::new(DType::F32, dims);
        let unfold = operator("F.unfold", &[("kernel_size", "(1,3)"), ("stride", "2")]);
        assert_eq!(unfold.infer(&[image]).unwrap()[0].to_string(), "n×9×(((h + 1) / 2) * 3) f32");
        let columns = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::Fixed(8), Dim::symbol("l")]);
        let fold = operator("F.fold", &[("kernel_size", "2"), ("output_size", "(3,4)")]);
        assert_eq!(fold.infer(&[columns]).unwrap()[0].to_string(), "n×2×3×4 f32");
    }

    #[test]
    fn mismatches_are_rejected() {
        let refused = |op_type, params: &[(&str, &str)], shape: &[usize]| {
            let error = operator(op_type, params).run(&[&waves(shape)]).unwrap_err().to_string();
            assert!(!error.is_empty());
            error
        };
        refused("F.unfold", &[("kernel_size", "0")], &[1, 4, 4]);
        refused("F.unfold", &[("kernel_size", "(1,2,3)")], &[1, 4, 4]);
        refused("F.unfold", &[("kernel_size", "2"), ("stride", "0")], &[1, 4, 4]);
        refused("F.unfold", &[("kernel_size", "2"), ("padding", "99999999999")], &[1, 4, 4]);
        let error = refused("F.unfold", &[("kernel_size", "5")], &[1, 4, 4]);
        assert_eq!(error, "an axis that the window slides over: expected at least 5 elements, got 4");
        let fold = |size| [("kernel_size", "2"), ("output_size", size)];
        let error = refused("F.fold", &fold("(3,4)"), &[4, 5]);
        assert_eq!(error, "the number of positions: expected 6, got 5");
        refused("F.fold", &fold("(3,4)"), &[3, 6]);
        refused("F.fold", &fold("(3,0)"), &[4, 6]);
        refused("F.fold", &fold("(3,3,3)"), &[4, 6]);
        refused("F.fold", &fold("(99999999999,99999999999)"), &[4, 6]);
        operator("F.unfold", &[("kernel_size", "(2,1)"), ("padding", "1")]).survives(1);
        operator("F.fold", &[("kernel_size", "(2,1)"), ("output_size", "(2,3)")]).survives(1);
    }
}
