//! The partial inverse of max pooling: maxima return to their positions, and all other elements are 0.

use crate::op::{
    CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, Result, SpatialAxes, TensorMeta, exactly,
};
use crate::support::arguments::{InputIndex, ParamOrInput};
use crate::support::choices;
use crate::support::choices::PerAxis;
use crate::support::float;
use crate::support::float::with_float;
use ixion_kernels::Float;
use ixion_tensor::{DType, Dim, TensorError, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.MaxUnpool1d`, `MaxUnpool2d`, `MaxUnpool3d`: the partial inverse of max pooling, which writes each maximum
    /// back to its position, N×C×D×H×W → N×C×D′×H′×W′ (1, 2 or 3 spatial axes, by the type; N is optional). All other
    /// elements are 0.
    pub struct MaxUnpool for "nn.MaxUnpool1d", "F.max_unpool1d", "nn.MaxUnpool2d", "F.max_unpool2d", "nn.MaxUnpool3d",
        "F.max_unpool3d" {
        /// The number of pooled axes.
        axes: SpatialAxes,
        /// The index of each element in the flattened output plane (i64), which is the second output of the pooling.
        indices: InputIndex,
        /// Size of the window.
        kernel_size: PerAxis,
        /// Stride of the window; its size by default.
        stride: Option<PerAxis> = None,
        /// Padding that the pooling added to both sides of each axis.
        padding: PerAxis = PerAxis::all(0),
        /// Spatial size of the output, or its whole shape; by default the smallest that the window allows.
        output_size: Option<ParamOrInput<Vec<i64>>> = None,
    }
    validate |layer| { layer.window().map(drop) }
}

crate::operator! {
    /// `aten::max_unpool2d`, which `torch.nn.MaxUnpool1d` and `torch.nn.MaxUnpool2d` call, and `aten::max_unpool3d`, which
    /// `torch.nn.MaxUnpool3d` calls: the partial inverse of max pooling.
    pub struct MaxUnpoolTo for "aten::max_unpool2d", "aten::max_unpool3d" {
        /// The number of pooled axes.
        axes: SpatialAxes,
        /// The index of each element in the flattened output plane (i64).
        indices: InputIndex,
        /// Spatial size of the output.
        output_size: ParamOrInput<Vec<i64>>,
        /// Accepted for compatibility; without effect, because `output_size` is given.
        stride: Option<ParamOrInput<Vec<i64>>> = None,
        /// Accepted for compatibility; without effect, because `output_size` is given.
        padding: Option<ParamOrInput<Vec<i64>>> = None,
    }
}

impl MaxUnpool {
    /// The length, stride and padding of the window along each axis.
    fn window(&self) -> Result<Vec<[usize; 3]>> {
        let stride = self.stride.as_ref().unwrap_or(&self.kernel_size);
        let keys = [("kernel_size", &self.kernel_size), ("stride", stride), ("padding", &self.padding)];
        let numbers = keys.map(|(key, numbers)| per_axis(key, numbers, self.axes.get()));
        let [kernel, stride, padding] = numbers;
        let sizes = kernel?.into_iter().zip(stride?).zip(padding?);
        Ok(sizes.map(|((kernel, stride), padding)| [kernel, stride, padding]).collect())
    }
}

impl Layer for MaxUnpool {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let axes = self.axes.get();
        let input = check(inputs, self.indices, axes)?;
        let lens = input.dims().iter().skip(input.rank() - axes);
        let undone = |(len, [kernel, stride, padding]): (&Dim, [usize; 3])| {
            (len.clone() - 1) * stride + kernel - 2 * padding
        };
        let smallest: Vec<Dim> = lens.zip(self.window()?).map(undone).collect();
        let size = match &self.output_size {
            Some(size) => size.dims(inputs)?,
            None => smallest,
        };
        output(input, axes, size)
    }
}

impl Layer for MaxUnpoolTo {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let axes = self.axes.get();
        output(check(inputs, self.indices, axes)?, axes, self.output_size.dims(inputs)?)
    }
}

impl CpuLayer for MaxUnpool {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        unpool(io.inputs, self.indices, io.outputs, self.axes.get(), &mut io.context)
    }
}

impl CpuLayer for MaxUnpoolTo {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        unpool(io.inputs, self.indices, io.outputs, self.axes.get(), &mut io.context)
    }
}

fn per_axis(key: &'static str, numbers: &PerAxis, axes: usize) -> Result<Vec<usize>> {
    let numbers = choices::per_axis(key, numbers.values(), axes)?;
    // Then products of a length and a stride, and sums of these, cannot overflow an i64.
    match numbers.iter().all(|&number| number < 1 << 31) {
        true => Ok(numbers),
        false => Err(LayerError::invalid(key, format!("{numbers:?}"), "it is too large")),
    }
}

/// Checks types and shapes of the elements and their indices; returns the elements.
fn check(inputs: &[TensorMeta], indices: InputIndex, axes: usize) -> Result<&TensorMeta> {
    let (input, indices) = (&inputs[0], &inputs[indices.0]);
    float::check("the input", input)?;
    if indices.dtype() != DType::I64 {
        return Err(LayerError::dtype("the indices", DType::I64, indices.dtype()));
    }
    if !(axes + 1..=axes + 2).contains(&input.rank()) {
        let wanted = format!("{} or {} axes", axes + 1, axes + 2);
        return Err(LayerError::shape("the input", wanted, input));
    }
    if !indices.may_have_dims(input.dims()) {
        return Err(LayerError::shape("the indices", format!("the shape of the input {input}"), indices));
    }
    Ok(input)
}

/// Infers the output, given its spatial size or its whole shape.
fn output(input: &TensorMeta, axes: usize, size: Vec<Dim>) -> Result<Vec<TensorMeta>> {
    let invalid = |reason: String| LayerError::InvalidParameter {
        key: "output_size",
        found: format!("{size:?}"),
        reason,
    };
    if size.len() != axes && size.len() != input.rank() {
        return Err(invalid(format!("expected {axes} lengths")));
    }
    let lens = size.iter().skip(size.len() - axes);
    if lens.clone().any(|len| len.fixed().is_some_and(|len| len < 0)) {
        return Err(invalid("lengths must not be negative".to_owned()));
    }
    let outer = input.dims().iter().take(input.rank() - axes);
    Ok(vec![input.with_dims(outer.chain(lens).cloned())])
}

/// Writes every element to its position. If several have the same position, the last one is kept.
fn unpool(
    inputs: &[TensorView<'_>],
    indices: InputIndex,
    outputs: &mut [TensorViewMut<'_>],
    axes: usize,
    context: &mut ForwardContext<'_>,
) -> Result<()> {
    let plane = |shape: &[usize]| shape.iter().rev().take(axes).product::<usize>();
    let (from, to) = (plane(inputs[0].shape()), plane(outputs[0].shape()));
    let places = inputs[indices.0].to_tensor()?;
    let places = places.slice::<i64>()?;
    let limits = context.limits();
    with_float!(inputs[0].dtype(), T => {
        let input = float::read::<T>(&inputs[0])?;
        float::write::<T>(&mut outputs[0], |output| {
            output.fill(T::of(0.0));
            if from == 0 {
                return Ok(());
            }
            let planes = input.chunks(from).zip(places.chunks(from));
            for (index, (elements, places)) in planes.enumerate() {
                limits.check_deadline()?;
                let plane = output.get_mut(index * to..(index + 1) * to).unwrap_or_default();
                for (&element, &place) in elements.iter().zip(places) {
                    let target = usize::try_from(place).ok().and_then(|place| plane.get_mut(place));
                    let outside = || TensorError::OutOfRange { what: "index", index: place, len: to };
                    *target.ok_or_else(outside)? = element;
                }
            }
            Ok(())
        })
    })
}

operators! { MaxUnpool, MaxUnpoolTo }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::operator;
    use ixion_tensor::Tensor;

    fn unpool(params: &[(&str, &str)], places: [i64; 4]) -> Result<Vec<f32>> {
        let input = Tensor::from_vec(vec![1f32, 2.0, 3.0, 4.0], &[1, 2, 2])?;
        let places = Tensor::from_vec(places.to_vec(), &[1, 2, 2])?;
        let params: Vec<_> = [("kernel_size", "2")].iter().chain(params).copied().collect();
        let operator = operator("F.max_unpool2d", &params).with_names(&["input", "indices"]);
        Ok(operator.run_one(&[&input, &places])?.to_vec()?)
    }

    #[test]
    fn elements_return_to_their_positions() {
        let found = unpool(&[], [5, 6, 9, 10]).unwrap();
        let wanted = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(found, wanted);
        let small = unpool(&[("stride", "1"), ("output_size", "(1,2,3)")], [0, 5, 1, 1]).unwrap();
        assert_eq!(small, [1.0, 4.0, 0.0, 0.0, 0.0, 2.0]);
    }

    #[test]
    fn an_index_outside_the_plane_is_an_error() {
        assert!(unpool(&[], [0, 1, 2, 16]).unwrap_err().to_string().contains("16"));
        assert!(unpool(&[], [0, 1, 2, -1]).is_err());
        assert!(unpool(&[("output_size", "(1,2,3,4)")], [0; 4]).is_err());
        assert!(unpool(&[("kernel_size", "(1,2,3)")], [0; 4]).is_err());
    }
}
