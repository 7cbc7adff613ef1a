//! The memory use of live activations.

use crate::tensor::Tensor;
use std::collections::HashMap;

/// Counts the bytes of all live storage. Storage that is shared by several views counts once.
#[derive(Debug, Default)]
pub(super) struct LiveMemory {
    holders: HashMap<usize, (usize, u64)>,
    bytes: u64,
    peak: u64,
}

impl LiveMemory {
    /// Records that a tensor is held.
    pub(super) fn hold(&mut self, tensor: &Tensor) {
        let entry = self.holders.entry(tensor.storage_id()).or_insert((0, tensor.storage_bytes() as u64));
        if entry.0 == 0 {
            self.bytes += entry.1;
        }
        entry.0 += 1;
        self.peak = self.peak.max(self.bytes);
    }

    /// Records that a tensor is released.
    pub(super) fn release(&mut self, tensor: &Tensor) {
        let Some(entry) = self.holders.get_mut(&tensor.storage_id()) else { return };
        entry.0 -= 1;
        if entry.0 == 0 {
            self.bytes -= entry.1;
            self.holders.remove(&tensor.storage_id());
        }
    }

    /// The bytes that are held now.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The largest number of bytes that were held at the same time.
    pub(super) fn peak(&self) -> u64 {
        self.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DType;

    #[test]
    fn views_count_once_and_the_peak_stays() {
        let mut live = LiveMemory::default();
        let x = Tensor::zeros(DType::F32, &[10]).unwrap();
        let view = x.narrow(0, 2, 3).unwrap();
        live.hold(&x);
        live.hold(&view);
        assert_eq!(live.bytes(), 40);
        live.release(&x);
        assert_eq!(live.bytes(), 40);
        live.release(&view);
        assert_eq!((live.bytes(), live.peak()), (0, 40));
    }
}
