//! Reads any bytes as a `.npy` file, which must give an error or a tensor that survives a round trip.

#![no_main]

use ixion::Limits;
use ixion::tensor::Tensor;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let limits = Limits { max_tensor_bytes: 1 << 20, ..Limits::default() };
    let Ok(tensor) = Tensor::from_npy_bytes(data, &limits) else { return };
    let mut bytes = Vec::new();
    tensor.write_npy(&mut bytes).expect("tensors that were read must be writable");
    let again = Tensor::from_npy_bytes(&bytes, &limits).expect("written tensors must be readable");
    assert_eq!(again.to_le_bytes(), tensor.to_le_bytes());
});
