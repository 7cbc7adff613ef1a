//! Any bytes as a `.bin` archive: an error or a directory whose entries can be read.

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
