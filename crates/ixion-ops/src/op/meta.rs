//! Tensor metadata, known before the tensor exists: element type, dimensions, and sometimes values.

use super::format::{Device, TensorFormat};
use super::step::Step;
use ixion_tensor::{DType, Dim, Format, Layout, Shape, TensorError, TensorView};
use std::fmt;

/// The metadata of a tensor: element type, dimensions, format, and the values of short integer vectors.
///
/// A layer's shape rule reads and returns this type. While a model is built, dimensions may be symbolic; while it runs, they
/// are numbers. Values matter if one operator computes the shape that another one uses, as in `x.reshape(x.size(0), -1)`.
/// The format is managed by the engine: shape rules see and return [`Format::Plain`] unless a layer supports other formats,
/// see [`CpuLayer::supports`](super::CpuLayer::supports).
#[derive(Debug, Clone, PartialEq)]
pub struct TensorMeta {
    dtype: DType,
    dims: Vec<Dim>,
    values: Option<Vec<Dim>>,
    format: Format,
    step: Option<Step>,
}

impl TensorMeta {
    /// The metadata of a plain tensor with this element type and these dimensions, and unknown values.
    pub fn new(dtype: DType, dims: impl IntoIterator<Item = impl Into<Dim>>) -> Self {
        // This is instantiated for hundreds of iterator types, and a loop compiles to the least code.
        let mut list = Vec::new();
        for dim in dims {
            list.push(dim.into());
        }
        Self::of_list(dtype, list)
    }

    fn of_list(dtype: DType, dims: Vec<Dim>) -> Self {
        Self { dtype, dims, values: None, format: Format::Plain, step: None }
    }

    /// The metadata of an existing tensor. Values are recorded for i64 scalars and vectors of at most
    /// [`TensorMeta::MAX_VALUES`] elements, from which shapes are computed, and for a single bool, which may decide between them.
    pub fn of(tensor: &TensorView<'_>) -> Self {
        let meta = Self::new(tensor.dtype(), tensor.shape().iter().copied());
        if tensor.dtype() == DType::Bool && tensor.num_elements() == 1 {
            let values = tensor.to_vec::<bool>().ok();
            let number = |value: bool| Dim::Fixed(i64::from(value));
            return Self { values: values.map(|values| values.into_iter().map(number).collect()), ..meta };
        }
        if tensor.dtype() != DType::I64
            || tensor.shape().rank() > 1
            || tensor.num_elements() > Self::MAX_VALUES
        {
            return meta;
        }
        let values = tensor.to_vec::<i64>().ok();
        Self { values: values.map(|values| values.into_iter().map(Dim::Fixed).collect()), ..meta }
    }

    /// The metadata of existing tensors, as [`TensorMeta::of`].
    pub fn of_all(tensors: &[TensorView<'_>]) -> Vec<Self> {
        tensors.iter().map(Self::of).collect()
    }

    /// The largest number of elements whose values are recorded.
    pub const MAX_VALUES: usize = 64;

    /// The same metadata with these values, in row-major order.
    #[must_use]
    pub fn with_values(self, values: Vec<Dim>) -> Self {
        Self { values: Some(values), ..self }
    }

    /// The same element type with other dimensions, in the plain format, with unknown values.
    #[must_use]
    pub fn with_dims(&self, dims: impl IntoIterator<Item = impl Into<Dim>>) -> Self {
        Self::new(self.dtype, dims)
    }

    /// The same dimensions with another element type, in the plain format, with unknown values.
    #[must_use]
    pub fn with_dtype(&self, dtype: DType) -> Self {
        Self::new(dtype, self.dims.iter().cloned())
    }

    /// The same metadata in another format.
    #[must_use]
    pub fn with_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// The same metadata with the scale of a quantised tensor whose zero point is 0: the real value that the quantised value 1
    /// represents.
    #[must_use]
    pub fn with_scale(self, scale: Option<f32>) -> Self {
        self.with_step(scale.map(Step::from))
    }

    /// The same metadata with the step of a quantised tensor.
    #[must_use]
    pub fn with_step(self, step: Option<Step>) -> Self {
        Self { step, ..self }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The memory format: plain, blocked or channels-last.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The scale of a quantised tensor: the distance between the real values that adjacent quantised values represent. A layer
    /// that uses it alone is only given tensors whose zero point is 0, see
    /// [`CpuLayer::takes_zero_points`](super::CpuLayer::takes_zero_points).
    pub fn scale(&self) -> Option<f32> {
        self.step.map(|step| step.scale)
    }

    /// The step of a quantised tensor.
    pub fn step(&self) -> Option<Step> {
        self.step
    }

    /// The element type and format, in CPU memory.
    pub fn tensor_format(&self) -> TensorFormat {
        TensorFormat {
            dtype: self.dtype,
            format: self.format,
            is_quantized: self.step.is_some(),
            device: Device::Cpu,
        }
    }

    /// The dimensions.
    pub fn dims(&self) -> &[Dim] {
        &self.dims
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Returns true if the dimensions may equal `dims` when the model runs: the ranks are equal, and no dimension is known to
    /// differ.
    pub fn may_have_dims(&self, dims: &[Dim]) -> bool {
        self.rank() == dims.len() && !self.dims.iter().zip(dims).any(|(a, b)| a.differs(b))
    }

    /// The values in row-major order, if they are known.
    pub fn values(&self) -> Option<&[Dim]> {
        self.values.as_deref()
    }

    /// Replaces symbols in dimensions and values by the lengths that `value_of` returns; symbols with `None` stay.
    #[must_use]
    pub fn replace(&self, value_of: &dyn Fn(&str) -> Option<Dim>) -> Self {
        let replaced = |dims: &[Dim]| dims.iter().map(|dim| dim.replace(value_of)).collect();
        Self { dims: replaced(&self.dims), values: self.values.as_deref().map(replaced), ..*self }
    }

    /// Returns true if values would be recorded for such a tensor: it is a scalar or a short vector of i64.
    pub fn may_have_values(&self) -> bool {
        let is_short = || match &self.dims[..] {
            [] => true,
            [len] => len.fixed().is_some_and(|len| (0..=Self::MAX_VALUES as i64).contains(&len)),
            _ => false,
        };
        self.dtype == DType::I64 && is_short()
    }

    /// Returns true if nothing is open: every dimension is a number, and so is every value that shapes may be computed from.
    pub fn is_known(&self) -> bool {
        let is_number = |dim: &Dim| dim.fixed().is_some();
        let values_are_known = || self.values.as_ref().is_some_and(|values| values.iter().all(is_number));
        self.is_fixed() && (!self.may_have_values() || values_are_known())
    }

    /// Returns true if every dimension is a number.
    pub fn is_fixed(&self) -> bool {
        self.dims.iter().all(|dim| dim.fixed().is_some())
    }

    /// The size of the tensor in bytes, including the padding of its last blocks, if every dimension is a number.
    pub fn byte_len(&self) -> Option<u64> {
        let number = |(axis, dim): (usize, &Dim)| {
            let len = dim.fixed().and_then(|len| u64::try_from(len).ok())?;
            match self.format {
                Format::Blocked { axis: cut, block } if axis == usize::from(cut) => {
                    Some(len.checked_next_multiple_of(block.into()).unwrap_or(u64::MAX))
                }
                _ => Some(len),
            }
        };
        let lens = self.dims.iter().enumerate().map(number);
        let elements = lens.into_iter().try_fold(1u64, |product, len| Some(product.saturating_mul(len?)))?;
        Some(elements.saturating_mul(self.dtype.size() as u64))
    }

    /// The product of all dimensions.
    pub fn num_elements(&self) -> Dim {
        self.dims.iter().fold(Dim::Fixed(1), |product, dim| product * dim.clone())
    }

    /// The layout of the tensor in its own memory, if every dimension is a number.
    ///
    /// # Errors
    /// As [`TensorMeta::shape`]; an error if the blocked axis does not exist.
    pub fn layout(&self) -> Result<Layout, TensorError> {
        match self.format {
            Format::Plain => Ok(Layout::contiguous(self.shape()?)),
            Format::ChannelsLast => Ok(Layout::channels_last(self.shape()?)),
            Format::Blocked { axis, block } => Layout::blocked(self.shape()?, axis.into(), block.into()),
        }
    }

    /// The shape, if every dimension is a number.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] if a dimension is symbolic or negative; the errors of [`Shape::new`].
    pub fn shape(&self) -> Result<Shape, TensorError> {
        let number = |dim: &Dim| dim.fixed().and_then(|value| usize::try_from(value).ok());
        let dims: Option<Vec<usize>> = self.dims.iter().map(number).collect();
        match dims {
            Some(dims) => Shape::new(&dims),
            None => Err(TensorError::InvalidArgument(format!("{self} is not a concrete shape"))),
        }
    }
}

/// Writes dimensions, element type, and the format if it is not plain: `1×3×224×224 f32`.
impl fmt::Display for TensorMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims.iter().map(Dim::to_factor).collect();
        let dims = if dims.is_empty() { "scalar".to_owned() } else { dims.join("×") };
        f.pad(&format!("{dims} {}", self.tensor_format()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::Tensor;

    #[test]
    fn small_integers_keep_their_values() {
        let sizes = Tensor::from_vec(vec![2i64, -1], &[2]).unwrap();
        let meta = TensorMeta::of(&sizes.view());
        assert_eq!(meta.values(), Some(&[Dim::Fixed(2), Dim::Fixed(-1)][..]));
        let floats = Tensor::from_vec(vec![2f32], &[1]).unwrap();
        assert_eq!(TensorMeta::of(&floats.view()).values(), None);
    }

    #[test]
    fn only_concrete_dimensions_make_a_shape() {
        let fixed = TensorMeta::new(DType::F32, [2, 3]);
        assert_eq!(fixed.shape().unwrap().dims(), &[2, 3]);
        assert_eq!(fixed.to_string(), "2×3 f32");
        let symbolic = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::Fixed(3)]);
        assert!(symbolic.shape().unwrap_err().to_string().contains("n×3"));
        assert!(TensorMeta::new(DType::F32, [-1]).shape().is_err());
    }
}
