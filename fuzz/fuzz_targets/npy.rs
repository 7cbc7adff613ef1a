//! Any bytes as a `.npy` file: an error or a tensor that survives writing and reading.

#![no_main]

use ixion::Limits;
use ixion::tensor::Tensor;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let limits = Limits { max_tensor_bytes: 1 << 20, ..Limits::default() };
    let Ok(tensor) = Tensor::from_npy_bytes(data, &limits) else { return };
    let mut bytes = Vec::new();
    tensor.write_npy(&mut bytes).expect("what was read can be written");
    let again = Tensor::from_npy_bytes(&bytes, &limits).expect("what was written can be read");
    assert_eq!(again.to_le_bytes(), tensor.to_le_bytes());
});
