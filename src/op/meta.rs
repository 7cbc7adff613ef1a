//! What is known of a tensor before it exists: element type, dimensions, and sometimes its values.

use super::{Device, TensorFormat};
use crate::tensor::{DType, Dim, Format, Layout, Shape, TensorError, TensorView};
use std::fmt;

/// Element type and dimensions of a tensor, its format, and its values where they are small integers.
///
/// This is what a layer's shape rule reads and returns. While a model is built, dimensions may be symbolic; while it
/// runs, they are numbers. Values matter where one operator computes the shape that another one uses, as in
/// `x.reshape(x.size(0), -1)`. The format is the engine's affair: shape rules see and return [`Format::Plain`] unless a layer
/// takes others, see [`CpuLayer::supports`](super::CpuLayer::supports).
#[derive(Debug, Clone, PartialEq)]
pub struct TensorMeta {
    dtype: DType,
    dims: Vec<Dim>,
    values: Option<Vec<Dim>>,
    format: Format,
    scale: Option<f32>,
}

impl TensorMeta {
    /// A tensor of this element type and these dimensions, its values unknown.
    pub fn new(dtype: DType, dims: impl IntoIterator<Item = impl Into<Dim>>) -> Self {
        // Hundreds of kinds of iterators come here, and a loop is what the compiler makes the least of.
        let mut list = Vec::new();
        for dim in dims {
            list.push(dim.into());
        }
        Self::of_list(dtype, list)
    }

    fn of_list(dtype: DType, dims: Vec<Dim>) -> Self {
        Self { dtype, dims, values: None, format: Format::Plain, scale: None }
    }

    /// The description of a tensor that exists. Values are taken up from integers of at most
    /// [`TensorMeta::MAX_VALUES`] elements, which is what shapes are computed from.
    pub fn of(tensor: &TensorView<'_>) -> Self {
        let meta = Self::new(tensor.dtype(), tensor.shape().iter().copied());
        if tensor.dtype() != DType::I64
            || tensor.shape().rank() > 1
            || tensor.num_elements() > Self::MAX_VALUES
        {
            return meta;
        }
        let values = tensor.to_vec::<i64>().ok();
        Self { values: values.map(|values| values.into_iter().map(Dim::Fixed).collect()), ..meta }
    }

    /// The descriptions of tensors that exist, as [`TensorMeta::of`].
    pub fn of_all(tensors: &[TensorView<'_>]) -> Vec<Self> {
        tensors.iter().map(Self::of).collect()
    }

    /// The largest number of elements whose values are kept.
    pub const MAX_VALUES: usize = 64;

    /// The same with known values, in row-major order.
    #[must_use]
    pub fn with_values(self, values: Vec<Dim>) -> Self {
        Self { values: Some(values), ..self }
    }

    /// The same with other dimensions and unknown values.
    #[must_use]
    pub fn with_dims(&self, dims: impl IntoIterator<Item = impl Into<Dim>>) -> Self {
        Self::new(self.dtype, dims)
    }

    /// The same with another element type and unknown values.
    #[must_use]
    pub fn with_dtype(&self, dtype: DType) -> Self {
        Self::new(dtype, self.dims.iter().cloned())
    }

    /// The same in another format.
    #[must_use]
    pub fn with_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// The same with the real number that 1 stands for, of a tensor whose whole numbers stand for real ones.
    #[must_use]
    pub fn with_scale(self, scale: Option<f32>) -> Self {
        Self { scale, ..self }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Plain, blocked, or with the channels last.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The real number that 1 stands for, where whole numbers stand for real ones.
    pub fn scale(&self) -> Option<f32> {
        self.scale
    }

    /// Element type and format.
    pub fn tensor_format(&self) -> TensorFormat {
        TensorFormat {
            dtype: self.dtype,
            format: self.format,
            is_quantized: self.scale.is_some(),
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

    /// Whether the dimensions may be these when the model runs: as many, and none that is known to differ.
    pub fn may_have_dims(&self, dims: &[Dim]) -> bool {
        self.rank() == dims.len() && !self.dims.iter().zip(dims).any(|(a, b)| a.differs(b))
    }

    /// The values in row-major order, where they are known.
    pub fn values(&self) -> Option<&[Dim]> {
        self.values.as_deref()
    }

    /// The same with other lengths in the place of some symbols, in dimensions and values.
    #[must_use]
    pub fn replace(&self, value_of: &dyn Fn(&str) -> Option<Dim>) -> Self {
        let replaced = |dims: &[Dim]| dims.iter().map(|dim| dim.replace(value_of)).collect();
        Self { dims: replaced(&self.dims), values: self.values.as_deref().map(replaced), ..*self }
    }

    /// Whether the values are ones that would be kept: a scalar or a short vector of i64.
    pub fn may_have_values(&self) -> bool {
        let is_short = || match &self.dims[..] {
            [] => true,
            [len] => len.fixed().is_some_and(|len| (0..=Self::MAX_VALUES as i64).contains(&len)),
            _ => false,
        };
        self.dtype == DType::I64 && is_short()
    }

    /// Whether nothing is open: every dimension is a number, and so is every value that shapes could be computed from.
    pub fn is_known(&self) -> bool {
        let is_number = |dim: &Dim| dim.fixed().is_some();
        let values_are_known = || self.values.as_ref().is_some_and(|values| values.iter().all(is_number));
        self.is_fixed() && (!self.may_have_values() || values_are_known())
    }

    /// Whether every dimension is a number.
    pub fn is_fixed(&self) -> bool {
        self.dims.iter().all(|dim| dim.fixed().is_some())
    }

    /// How many bytes the tensor takes, with what fills up its last blocks, where every dimension is a number.
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

    /// Where the elements lie in memory of their own, when every dimension is a number.
    ///
    /// # Errors
    /// As [`TensorMeta::shape`]; a blocked axis that is not there.
    pub fn layout(&self) -> Result<Layout, TensorError> {
        match self.format {
            Format::Plain => Ok(Layout::contiguous(self.shape()?)),
            Format::ChannelsLast => Ok(Layout::channels_last(self.shape()?)),
            Format::Blocked { axis, block } => Layout::blocked(self.shape()?, axis.into(), block.into()),
        }
    }

    /// The shape, when every dimension is a number.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] for a symbolic or negative dimension, and whatever [`Shape::new`] refuses.
    pub fn shape(&self) -> Result<Shape, TensorError> {
        let number = |dim: &Dim| dim.fixed().and_then(|value| usize::try_from(value).ok());
        let dims: Option<Vec<usize>> = self.dims.iter().map(number).collect();
        match dims {
            Some(dims) => Shape::new(&dims),
            None => Err(TensorError::InvalidArgument(format!("{self} is not the shape of a tensor"))),
        }
    }
}

/// Writes dimensions, element type and what is special about the format: `1×3×224×224 f32`.
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
    use crate::tensor::Tensor;

    #[test]
    fn small_integers_keep_their_values() {
        let sizes = Tensor::from_vec(vec![2i64, -1], &[2]).unwrap();
        let meta = TensorMeta::of(&sizes.view());
        assert_eq!(meta.values(), Some(&[Dim::Fixed(2), Dim::Fixed(-1)][..]));
        let floats = Tensor::from_vec(vec![2f32], &[1]).unwrap();
        assert_eq!(TensorMeta::of(&floats.view()).values(), None);
    }

    #[test]
    fn only_numbers_make_a_shape() {
        let fixed = TensorMeta::new(DType::F32, [2, 3]);
        assert_eq!(fixed.shape().unwrap().dims(), &[2, 3]);
        assert_eq!(fixed.to_string(), "2×3 f32");
        let symbolic = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::Fixed(3)]);
        assert!(symbolic.shape().unwrap_err().to_string().contains("n×3"));
        assert!(TensorMeta::new(DType::F32, [-1]).shape().is_err());
    }
}
