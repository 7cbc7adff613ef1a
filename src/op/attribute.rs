//! Weights of the runtime graph, read when a layer asks for them.

mod source;

pub use source::WeightSource;

use super::LayerError;
use crate::pnnx;
use crate::tensor::{DType, Element, Tensor, TensorError};
use std::sync::{Arc, OnceLock};

// ANCHOR: lazy
/// A weight: element type and shape at once, its elements when they are asked for.
///
/// Until [`decode`](RuntimeAttribute::decode) is called, the bytes stay in the file. They are read once, into aligned
/// memory; clones share what was read. [`clear`](RuntimeAttribute::clear) lets go of it.
#[derive(Debug, Clone)]
pub struct RuntimeAttribute {
    source: WeightSource,
    decoded: Arc<OnceLock<Tensor>>,
}

impl RuntimeAttribute {
    /// A weight of which nothing is read yet.
    pub fn new(source: WeightSource) -> Self {
        Self { source, decoded: Arc::default() }
    }

    /// The elements; read or made at the first call.
    ///
    /// # Errors
    /// [`LayerError::Weight`] when the file lacks them, holds another number of bytes or cannot be read.
    pub fn decode(&self) -> Result<&Tensor, LayerError> {
        // ANCHOR: decode_todo -- task 5: what is there already, or load it and keep it
        if let Some(tensor) = self.decoded.get() {
            return Ok(tensor);
        }
        let tensor = self.source.load()?;
        Ok(self.decoded.get_or_init(|| tensor))
        // ANCHOR_END: decode_todo
    }

    /// True once the elements were read and not let go.
    pub fn is_decoded(&self) -> bool {
        self.decoded.get().is_some()
    }

    /// Lets go of the elements. Clones made before keep theirs; the memory is free when the last of them lets go.
    pub fn clear(&mut self) {
        // ANCHOR: clear_todo -- task 5: an empty lock of one's own
        self.decoded = Arc::default();
        // ANCHOR_END: clear_todo
    }
}
// ANCHOR_END: lazy

impl RuntimeAttribute {
    /// The weight that an attribute of the file describes.
    pub fn from_file(attribute: pnnx::Attribute) -> Self {
        Self::new(WeightSource::File(attribute))
    }

    /// A weight of random numbers of the scale that He et al. (2015) derive, `sqrt(2 / fan_in)`, so that activations
    /// neither vanish nor explode in a deep network. Vectors, as biases are, become zeros; integers and bools too.
    pub fn random(dtype: DType, shape: &[usize], seed: u64) -> Self {
        Self::new(WeightSource::Random { dtype, shape: shape.to_vec(), seed })
    }

    /// A weight that is there already.
    pub fn from_tensor(tensor: Tensor) -> Self {
        Self::new(WeightSource::Tensor(tensor))
    }

    /// The elements, for who makes something else of them at once: they are kept only where they are already.
    ///
    /// # Errors
    /// As [`RuntimeAttribute::decode`].
    pub fn load(&self) -> Result<Tensor, LayerError> {
        self.decoded.get().map_or_else(|| self.source.load(), |tensor| Ok(tensor.clone()))
    }

    /// The same weight with nothing read yet, whatever this one holds.
    pub fn detached(&self) -> Self {
        Self::new(self.source.clone())
    }

    /// The same numbers, rounded to a type when they are decoded.
    #[must_use]
    pub fn cast(&self, dtype: DType) -> Self {
        Self::new(WeightSource::Cast(Box::new(self.source.clone()), dtype))
    }

    /// Where the elements come from.
    pub fn source(&self) -> &WeightSource {
        &self.source
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.source.dtype()
    }

    /// The shape.
    pub fn shape(&self) -> &[usize] {
        self.source.shape()
    }

    /// The number of bytes of all elements.
    pub fn byte_len(&self) -> u64 {
        let elements = self.shape().iter().fold(1u64, |product, &dim| product.saturating_mul(dim as u64));
        elements.saturating_mul(self.dtype().size() as u64)
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
