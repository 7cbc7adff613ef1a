//! The source of a weight's elements.

use crate::op::Result;
use ixion_tensor::{DType, Tensor};

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
}

impl WeightSource {
    /// The element type.
    pub fn dtype(&self) -> DType {
        match self {
            Self::File(attribute) => attribute.dtype(),
            Self::Random { dtype, .. } => *dtype,
            Self::Tensor(tensor) => tensor.dtype(),
            Self::Cast(_, dtype) => *dtype,
        }
    }

    /// The shape.
    pub fn shape(&self) -> &[usize] {
        match self {
            Self::File(attribute) => attribute.shape(),
            Self::Random { shape, .. } => shape,
            Self::Tensor(tensor) => tensor.shape(),
            Self::Cast(source, _) => source.shape(),
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
        }
    }
}

/// Reads the bytes of the file directly into the tensor if they need no conversion. Elements of a mapped file are not copied.
fn read(attribute: &ixion_pnnx::Attribute) -> Result<Tensor> {
    if let Some(tensor) = attribute.mapped() {
        return Ok(tensor?);
    }
    if attribute.dtype() == DType::Bool || cfg!(target_endian = "big") {
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
