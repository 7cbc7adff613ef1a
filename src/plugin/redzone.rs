//! Guard bytes after a plugin's buffers, which detect writes past the end.

use crate::op::LayerError;

/// The number of guard bytes after a buffer.
const BYTES: usize = 64;
const MARK: u8 = 0xa7;

/// Guard bytes after a buffer.
#[derive(Debug)]
pub(super) struct Redzone {
    start: usize,
}

impl Redzone {
    /// The number of bytes of a buffer together with its guard bytes; 0 if the buffer is empty.
    pub(super) fn around(bytes: usize) -> usize {
        if bytes == 0 { 0 } else { bytes.saturating_add(BYTES) }
    }

    /// Fills everything after the first `bytes` of a buffer with guard bytes.
    pub(super) fn mark(buffer: &mut [u8], bytes: usize) -> Self {
        if let Some(zone) = buffer.get_mut(bytes..) {
            zone.fill(MARK);
        }
        Self { start: bytes }
    }

    /// Checks that the guard bytes are unchanged.
    ///
    /// # Errors
    /// [`LayerError::BrokenPromise`] if they are not.
    pub(super) fn check(&self, buffer: &[u8], what: &str) -> Result<(), LayerError> {
        let zone = buffer.get(self.start..).unwrap_or_default();
        if zone.iter().all(|&byte| byte == MARK) {
            return Ok(());
        }
        let (wanted, found) =
            (format!("{} bytes of {what}", self.start), "a write past their end".to_owned());
        Err(LayerError::BrokenPromise { wanted, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_past_the_end_are_detected() {
        let mut buffer = vec![0; Redzone::around(10)];
        let zone = Redzone::mark(&mut buffer, 10);
        buffer[9] = 1;
        assert!(zone.check(&buffer, "scratch memory").is_ok());
        buffer[10] = 1;
        let error = zone.check(&buffer, "scratch memory").unwrap_err().to_string();
        assert!(
            error.contains("10 bytes of scratch memory") && error.contains("bug in the layer"),
            "{error}"
        );
        assert_eq!((Redzone::around(0), Redzone::around(usize::MAX)), (0, usize::MAX));
    }
}
