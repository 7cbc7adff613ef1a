//! Weights of the runtime graph, read when a layer asks for them.

use super::LayerError;
use crate::pnnx;
use crate::tensor::{DType, Element, Tensor, TensorError};
use std::sync::{Arc, OnceLock};

/// A weight: element type and shape at once, its elements when they are asked for.
///
/// Until [`decode`](RuntimeAttribute::decode) is called, the bytes stay in the file. They are read once, into aligned
/// memory; clones share what was read. [`clear`](RuntimeAttribute::clear) lets go of it.
#[derive(Debug, Clone)]
pub struct RuntimeAttribute {
    source: Source,
    decoded: Arc<OnceLock<Tensor>>,
}

#[derive(Debug, Clone)]
enum Source {
    /// An attribute of the file's graph.
    File(pnnx::Attribute),
    /// He-scaled random numbers, made from a seed.
    Random { dtype: DType, shape: Vec<usize>, seed: u64 },
    /// A tensor that was given.
    Tensor(Tensor),
}

impl RuntimeAttribute {
    /// The weight that an attribute of the file describes.
    pub fn from_file(attribute: pnnx::Attribute) -> Self {
        Self::new(Source::File(attribute))
    }

    /// A weight of random numbers of the scale that He et al. (2015) derive, `sqrt(2 / fan_in)`, so that activations
    /// neither vanish nor explode in a deep network. Vectors, as biases are, become zeros; integers and bools too.
    pub fn random(dtype: DType, shape: &[usize], seed: u64) -> Self {
        Self::new(Source::Random { dtype, shape: shape.to_vec(), seed })
    }

    /// A weight that is there already.
    pub fn from_tensor(tensor: Tensor) -> Self {
        Self::new(Source::Tensor(tensor))
    }

    fn new(source: Source) -> Self {
        Self { source, decoded: Arc::default() }
    }

    /// The same weight with nothing read yet, whatever this one holds.
    pub fn detached(&self) -> Self {
        Self::new(self.source.clone())
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        match &self.source {
            Source::File(attribute) => attribute.dtype(),
            Source::Random { dtype, .. } => *dtype,
            Source::Tensor(tensor) => tensor.dtype(),
        }
    }

    /// The shape.
    pub fn shape(&self) -> &[usize] {
        match &self.source {
            Source::File(attribute) => attribute.shape(),
            Source::Random { shape, .. } => shape,
            Source::Tensor(tensor) => tensor.shape(),
        }
    }

    /// The number of bytes of all elements.
    pub fn byte_len(&self) -> u64 {
        let elements = self.shape().iter().fold(1u64, |product, &dim| product.saturating_mul(dim as u64));
        elements.saturating_mul(self.dtype().size() as u64)
    }

    /// The elements; read or made at the first call.
    ///
    /// # Errors
    /// [`LayerError::Weight`] when the file lacks them, holds another number of bytes or cannot be read.
    pub fn decode(&self) -> Result<&Tensor, LayerError> {
        if let Some(tensor) = self.decoded.get() {
            return Ok(tensor);
        }
        let tensor = match &self.source {
            Source::File(attribute) => read(attribute)?,
            Source::Random { dtype, shape, seed } => he_scaled(*dtype, shape, *seed)?,
            Source::Tensor(tensor) => tensor.clone(),
        };
        Ok(self.decoded.get_or_init(|| tensor))
    }

    /// The elements as a vector of `T`, in row-major order.
    ///
    /// # Errors
    /// As [`RuntimeAttribute::decode`]; [`TensorError::WrongDType`] for another type; empty data is an error too.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, LayerError> {
        let values = self.decode()?.to_vec::<T>()?;
        if values.is_empty() {
            let shape = self.shape();
            return Err(
                TensorError::InvalidArgument(format!("a weight of shape {shape:?} has no elements")).into()
            );
        }
        Ok(values)
    }

    /// True once the elements were read and not let go.
    pub fn is_decoded(&self) -> bool {
        self.decoded.get().is_some()
    }

    /// Lets go of the elements. Clones made before keep theirs; the memory is free when the last of them lets go.
    pub fn clear(&mut self) {
        self.decoded = Arc::default();
    }
}

/// Reads the bytes of the file straight into the tensor where they are its elements as they stand.
fn read(attribute: &pnnx::Attribute) -> Result<Tensor, LayerError> {
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

fn he_scaled(dtype: DType, shape: &[usize], seed: u64) -> Result<Tensor, LayerError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_weights_have_he_scale_and_depend_on_the_seed() {
        let weight = RuntimeAttribute::random(DType::F32, &[64, 32, 3, 3], 7);
        let values = weight.to_vec::<f32>().unwrap();
        let variance = values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32;
        let wanted = 2.0 / (32.0 * 9.0);
        assert!((variance / wanted - 1.0).abs() < 0.1, "{variance} where {wanted} is expected");
        let again = RuntimeAttribute::random(DType::F32, &[64, 32, 3, 3], 7).to_vec::<f32>().unwrap();
        let other = RuntimeAttribute::random(DType::F32, &[64, 32, 3, 3], 8).to_vec::<f32>().unwrap();
        assert!(values == again && values != other);
        assert_eq!(RuntimeAttribute::random(DType::F32, &[4], 7).to_vec::<f32>().unwrap(), [0.0; 4]);
    }

    #[test]
    fn elements_are_read_once_shared_by_clones_and_let_go() {
        let bytes: Vec<u8> = [1f32, 2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let attribute = pnnx::Attribute::new(DType::F32, vec![2], bytes).unwrap();
        let mut weight = RuntimeAttribute::from_file(attribute);
        let clone = weight.clone();
        assert!(!clone.is_decoded());
        let address = weight.decode().unwrap().slice::<f32>().unwrap().as_ptr();
        assert!(clone.is_decoded() && !weight.detached().is_decoded());
        assert_eq!(clone.decode().unwrap().slice::<f32>().unwrap().as_ptr(), address);
        weight.clear();
        assert!(!weight.is_decoded());
        assert_eq!(weight.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    }

    #[test]
    fn wrong_type_and_empty_data_are_errors() {
        let weight = RuntimeAttribute::from_tensor(Tensor::scalar(1f32));
        assert!(weight.to_vec::<i64>().is_err());
        let empty = RuntimeAttribute::from_tensor(Tensor::zeros(DType::F32, &[0, 3]).unwrap());
        assert!(empty.to_vec::<f32>().is_err() && empty.decode().is_ok());
    }
}
