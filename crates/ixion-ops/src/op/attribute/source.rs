//! The source of a weight's elements.

use crate::op::{LayerError, Result};
use ixion_tensor::{DType, Tensor};
use std::ops::Range;

/// The source of a weight's elements.
#[derive(Debug, Clone)]
pub enum WeightSource {
    /// An attribute of the file's graph.
    File(ixion_pnnx::Attribute),
    /// Normally distributed random numbers with standard deviation `sqrt(2 / fan_in)` (He et al., 2015).
    Random {
        /// The element type.
        dtype: DType,
        /// The shape.
        shape: Vec<usize>,
        /// The seed of the random numbers.
        seed: u64,
    },
    /// A given tensor.
    Tensor(Tensor),
    /// The elements of another source, rounded to a type.
    Cast(Box<WeightSource>, DType),
    /// `f32` elements that are stored as int8, each row in units of its own scale.
    Quantized {
        /// The elements in units of the scale of their row, `i8`.
        values: Box<WeightSource>,
        /// The scale of each row, `f32`.
        scales: Box<WeightSource>,
    },
}

impl WeightSource {
    /// The element type.
    pub fn dtype(&self) -> DType {
        match self {
            Self::File(attribute) => attribute.dtype(),
            Self::Random { dtype, .. } => *dtype,
            Self::Tensor(tensor) => tensor.dtype(),
            Self::Cast(_, dtype) => *dtype,
            Self::Quantized { .. } => DType::F32,
        }
    }

    /// The shape.
    pub fn shape(&self) -> &[usize] {
        match self {
            Self::File(attribute) => attribute.shape(),
            Self::Random { shape, .. } => shape,
            Self::Tensor(tensor) => tensor.shape(),
            Self::Cast(source, _) => source.shape(),
            Self::Quantized { values, .. } => values.shape(),
        }
    }

    /// Reads or generates the elements, on every call.
    ///
    /// # Errors
    /// [`LayerError::Weight`](crate::op::LayerError::Weight) if the file lacks the elements, has the wrong number of bytes or
    /// cannot be read.
    pub fn load(&self) -> Result<Tensor> {
        match self {
            Self::File(attribute) => read(attribute),
            Self::Random { dtype, shape, seed } => he_scaled(*dtype, shape, *seed),
            Self::Tensor(tensor) => Ok(tensor.clone()),
            Self::Cast(source, dtype) => Ok(source.load()?.cast(*dtype)?),
            Self::Quantized { values, scales } => dequantized(&values.load()?, &scales.load()?),
        }
    }

    /// Returns true if some of the elements can be read without the others.
    pub(super) fn has_parts(&self) -> bool {
        matches!(self, Self::File(attribute) if attribute.is_present() && is_native(attribute.dtype()))
    }

    /// Reads or generates some of the elements in row-major order, as a vector.
    ///
    /// # Errors
    /// As [`WeightSource::load`]; an error if there are fewer elements.
    pub(super) fn load_part(&self, elements: Range<usize>) -> Result<Tensor> {
        match self {
            Self::File(attribute) if self.has_parts() => {
                let dtype = attribute.dtype();
                let mut part = Tensor::empty(dtype, &[elements.len()])?;
                let start = elements.start.saturating_mul(dtype.size());
                attribute.read_at(start, part.view_mut()?.bytes_mut()?)?;
                Ok(part)
            }
            _ => part_of(&self.load()?, elements),
        }
    }
}

/// Returns true if elements of this type are stored as they are in memory.
fn is_native(dtype: DType) -> bool {
    dtype != DType::Bool && cfg!(target_endian = "little")
}

/// Some of the elements of a tensor in row-major order, as a vector.
pub(super) fn part_of(tensor: &Tensor, elements: Range<usize>) -> Result<Tensor> {
    let vector = tensor.reshape(&[tensor.num_elements()])?;
    Ok(vector.narrow(0, elements.start, elements.len())?)
}

/// The real elements of int8 values, each row of which has a scale.
fn dequantized(values: &Tensor, scales: &Tensor) -> Result<Tensor> {
    check_scales(values, scales)?;
    let (shape, scales) = (*values.shape(), scales.to_vec::<f32>()?);
    let values = values.to_vec::<i8>()?;
    let depth = values.len().checked_div(scales.len()).unwrap_or(0);
    let rows = values.chunks(depth.max(1)).zip(&scales);
    let real = rows.flat_map(|(row, &scale)| row.iter().map(move |&q| f32::from(q) * scale));
    Ok(Tensor::from_vec(real.collect(), &shape)?)
}

/// Checks the scales of an int8 weight: finite `f32` numbers, one for each row. A weight without a second axis is one row.
///
/// # Errors
/// [`LayerError::Shape`], [`LayerError::DType`] or [`LayerError::Unsupported`] if they are not.
pub(super) fn check_scales(values: &Tensor, scales: &Tensor) -> Result<()> {
    const WHAT: &str = "the scales of an int8 weight";
    let rows = match values.shape().dims() {
        [rows, _, ..] => *rows,
        _ => 1,
    };
    if scales.num_elements() != rows {
        let wanted = format!("one for each row ({rows})");
        return Err(LayerError::shape(WHAT, wanted, scales.num_elements()));
    }
    if scales.dtype() != DType::F32 {
        return Err(LayerError::dtype(WHAT, DType::F32, scales.dtype()));
    }
    match scales.to_vec::<f32>()?.into_iter().find(|scale| !scale.is_finite()) {
        Some(scale) => Err(LayerError::Unsupported(format!("{WHAT} must be finite, but one is {scale}"))),
        None => Ok(()),
    }
}

/// Reads the bytes of the file directly into the tensor if they need no conversion. Elements of a mapped file are not copied.
fn read(attribute: &ixion_pnnx::Attribute) -> Result<Tensor> {
    if let Some(tensor) = attribute.mapped() {
        return Ok(tensor?);
    }
    if !is_native(attribute.dtype()) {
        return Ok(Tensor::from_le_bytes(attribute.dtype(), attribute.shape(), &attribute.bytes()?)?);
    }
    if let Some(defect) = attribute.defect() {
        return Err(defect.into());
    }
    let mut tensor = Tensor::zeros(attribute.dtype(), attribute.shape())?;
    attribute.read_into(tensor.view_mut()?.bytes_mut()?)?;
    Ok(tensor)
}

fn he_scaled(dtype: DType, shape: &[usize], seed: u64) -> Result<Tensor> {
    use rand::SeedableRng;
    use rand_distr::{Distribution, StandardNormal};
    let fan_in = shape.iter().skip(1).fold(1usize, |product, &dim| product.saturating_mul(dim));
    if shape.len() < 2 || !dtype.is_float() || fan_in == 0 {
        return Ok(Tensor::zeros(dtype, shape)?);
    }
    let scale = (2.0 / fan_in as f32).sqrt();
    let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
    let mut tensor = Tensor::zeros(DType::F32, shape)?;
    for element in tensor.view_mut()?.slice::<f32>()? {
        let normal: f32 = StandardNormal.sample(&mut rng);
        *element = scale * normal;
    }
    Ok(tensor.cast(dtype)?)
}
