//! Opens any bytes as a `.bin` archive, which must give an error or entries of the right size.

#![no_main]

use ixion::Limits;
use ixion::pnnx::Archive;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let limits = Limits { max_tensor_bytes: 1 << 20, max_total_bytes: 1 << 24, max_ops: 1000, ..Limits::default() };
    let Ok(archive) = Archive::from_bytes(data, &limits) else { return };
    for entry in archive.entries() {
        if let Ok(bytes) = archive.read(entry) {
            assert_eq!(bytes.len() as u64, entry.size());
        }
        let _ = archive.checksum(entry);
    }
});
