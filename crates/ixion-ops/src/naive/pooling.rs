//! Pooling.

use super::window::{check, planes, windows};
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use ixion_kernels::naive::{adaptive_range, max_pool};
use ixion_kernels::window::Window;
use ixion_tensor::Dim;
use ndarray::{Ix4, s};

// ANCHOR: max_pool
crate::operator! {
    /// `torch.nn.MaxPool2d`: slides a window over H and W of an N×C×H×W input. Each output element is the largest element in
    /// the window.
    pub struct MaxPool2d for "nn.MaxPool2d" {
        /// The height and width of the window.
        kernel_size: [usize; 2],
        /// The distance between one position of the window and the next.
        stride: [usize; 2],
        /// The number of positions added on both sides of H and W; they are never the largest.
        padding: [usize; 2] = [0, 0],
        /// The distance between the elements that the window covers.
        dilation: [usize; 2] = [1, 1],
        /// Whether a window may extend past the end; only `False` is supported.
        ceil_mode: bool = false,
        /// Whether to return the positions of the elements as well; only `False` is supported.
        return_indices: bool = false,
    }
    validate |pool| {
        if pool.ceil_mode || pool.return_indices {
            return Err(LayerError::Unsupported("`ceil_mode` and `return_indices` are not implemented".to_owned()));
        }
        check(&pool.windows())
    }
}

impl MaxPool2d {
    /// The windows over rows and over columns.
    fn windows(&self) -> [Window; 2] {
        windows(self.kernel_size, self.stride, self.padding, self.dilation)
    }
}

impl Layer for MaxPool2d {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![inputs[0].with_dims(planes(&inputs[0], &self.windows())?)])
    }
}

impl CpuLayer for MaxPool2d {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        // ANCHOR: max_forward_todo -- task 3: write the values of max_pool, without their positions
        let lens = io.outputs[0].shape()[2..].to_vec();
        let (values, _) = max_pool(io.inputs[0].array::<f32>()?, &self.windows(), &lens);
        io.outputs[0].array::<f32>()?.assign(&values);
        Ok(())
        // ANCHOR_END: max_forward_todo
    }
}
// ANCHOR_END: max_pool

// ANCHOR: adaptive
crate::operator! {
    /// `torch.nn.AdaptiveAvgPool2d`: divides H and W of an N×C×H×W input into a number of parts, and returns the mean of each.
    pub struct AdaptiveAvgPool2d for "nn.AdaptiveAvgPool2d" {
        /// The number of parts along H and along W.
        output_size: [usize; 2],
    }
    validate |pool| {
        if pool.output_size.contains(&0) {
            return Err(LayerError::invalid("output_size", 0, "there must be at least one part"));
        }
        Ok(())
    }
}

impl Layer for AdaptiveAvgPool2d {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        // ANCHOR: adaptive_infer_todo -- task 3: return N×C, followed by the numbers of parts
        let [batch, channels, _, _] = inputs[0].dims() else {
            return Err(LayerError::shape("the input", "N×C×H×W", &inputs[0]));
        };
        let [rows, columns] = self.output_size.map(Dim::from);
        Ok(vec![inputs[0].with_dims([batch.clone(), channels.clone(), rows, columns])])
        // ANCHOR_END: adaptive_infer_todo
    }
}

impl CpuLayer for AdaptiveAvgPool2d {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        // ANCHOR: adaptive_forward_todo -- task 3: write the mean of each part
        let x = io.inputs[0].array::<f32>()?.into_dimensionality::<Ix4>()?;
        let mut output = io.outputs[0].array::<f32>()?.into_dimensionality::<Ix4>()?;
        let ([height, width], [parts_down, parts_across]) = ([x.dim().2, x.dim().3], self.output_size);
        for ((sample, channel, row, column), y) in output.indexed_iter_mut() {
            let rows = adaptive_range(row, parts_down, height);
            let columns = adaptive_range(column, parts_across, width);
            let part = x.slice(s![sample, channel, rows, columns]);
            *y = part.sum() / part.len() as f32;
        }
        Ok(())
        // ANCHOR_END: adaptive_forward_todo
    }
}
// ANCHOR_END: adaptive
