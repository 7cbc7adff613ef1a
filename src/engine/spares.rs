//! Memory of tensors that are no longer needed, for others whose sizes were unknown before the run.

use crate::tensor::{DType, Layout, Result, Tensor};

/// The maximum number of tensors that are kept.
const MAX_KEPT: usize = 4;

/// The minimum size of a tensor that is kept, in bytes: the allocator itself keeps smaller ones.
const MIN_BYTES: usize = 1 << 16;

/// Tensors whose memory may be used again. Without them, large tensors would come from the system, which clears every page: that
/// takes longer than most element-wise operators.
#[derive(Debug, Default)]
pub(super) struct Spares {
    tensors: Vec<Tensor>,
}

impl Spares {
    /// Keeps the memory of a tensor, instead of that of the oldest one if there are too many. The tensor should have no other
    /// owner: memory with two owners is copied when it is written.
    pub(super) fn give(&mut self, tensor: Tensor) {
        let is_kept = self.tensors.iter().any(|kept| kept.shares_storage(&tensor));
        if is_kept || tensor.storage_bytes() < MIN_BYTES {
            return;
        }
        if self.tensors.len() >= MAX_KEPT {
            self.tensors.remove(0);
        }
        self.tensors.push(tensor);
    }

    /// A tensor of arbitrary elements in a dense layout, in the memory of one that is at most twice as large, if there is one.
    ///
    /// # Errors
    /// [`TensorError::SizeOverflow`](crate::tensor::TensorError::SizeOverflow) or
    /// [`TensorError::OutOfMemory`](crate::tensor::TensorError::OutOfMemory).
    pub(super) fn take(&mut self, dtype: DType, layout: Layout) -> Result<Tensor> {
        let unrolled = layout.unrolled()?;
        let bytes = unrolled.shape().num_elements().saturating_mul(dtype.size());
        let room = bytes..=bytes.saturating_mul(2);
        let fits = |kept: &Tensor| kept.dtype() == dtype && room.contains(&kept.storage_bytes());
        let tensor = match self.tensors.iter().position(fits) {
            Some(position) => self.tensors.remove(position),
            None => Tensor::empty(dtype, unrolled.shape())?,
        };
        tensor.with_layout(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Shape;

    fn plain(dims: &[usize]) -> Layout {
        Layout::contiguous(Shape::new(dims).unwrap())
    }

    fn taken(spares: &mut Spares, layout: Layout) -> usize {
        spares.take(DType::F32, layout).unwrap().storage_id()
    }

    #[test]
    fn memory_is_used_again_for_tensors_of_the_same_type_and_a_similar_size() {
        let mut spares = Spares::default();
        let tensor = Tensor::zeros(DType::F32, &[3, 20, 400]).unwrap();
        let id = tensor.storage_id();
        let blocked = Layout::blocked(Shape::new(&[3, 20, 300]).unwrap(), 1, 16).unwrap();
        for (layout, is_used) in [
            (plain(&[3, 20, 400]), true),
            (plain(&[12_000]), true),
            (blocked, false),
            (plain(&[11_999]), false),
            (plain(&[24_001]), false),
        ] {
            spares.give(tensor.clone());
            assert_eq!(taken(&mut spares, layout) == id, is_used, "{layout:?}");
            spares.tensors.clear();
        }
        spares.give(tensor);
        let other = spares.take(DType::I32, plain(&[24_000])).unwrap();
        assert!(other.storage_id() != id && spares.tensors.len() == 1);
    }

    #[test]
    fn little_is_kept() {
        let mut spares = Spares::default();
        let tensors: Vec<Tensor> = (0..6).map(|_| Tensor::zeros(DType::F32, &[20_000]).unwrap()).collect();
        spares.give(Tensor::zeros(DType::F32, &[100]).unwrap());
        tensors.iter().for_each(|tensor| spares.give(tensor.clone()));
        spares.give(tensors[5].reshape(&[200, 100]).unwrap());
        let kept: Vec<usize> = spares.tensors.iter().map(Tensor::storage_id).collect();
        assert_eq!(kept, tensors[2..].iter().map(Tensor::storage_id).collect::<Vec<_>>());
    }

    #[test]
    fn memory_with_another_owner_is_left_as_it_is() {
        let mut spares = Spares::default();
        let tensor = Tensor::ones(DType::F32, &[20_000]).unwrap();
        spares.give(tensor.clone());
        let mut other = spares.take(DType::F32, plain(&[20_000])).unwrap();
        other.fill(7.0f32).unwrap();
        assert_eq!(tensor, Tensor::ones(DType::F32, &[20_000]).unwrap());
    }
}
