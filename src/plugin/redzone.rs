//! Memory behind what a plugin may use: what is written there shows that it lied about a size.

use crate::op::LayerError;

/// The bytes that are watched behind a buffer.
const BYTES: usize = 64;
const MARK: u8 = 0xa7;

/// A mark behind a number of bytes.
#[derive(Debug)]
pub(super) struct Redzone {
    start: usize,
}

impl Redzone {
    /// How many bytes are needed for a buffer and the mark behind it; none where there is no buffer.
    pub(super) fn around(bytes: usize) -> usize {
        if bytes == 0 { 0 } else { bytes.saturating_add(BYTES) }
    }

    /// Marks what is behind the first `bytes` of a buffer.
    pub(super) fn mark(buffer: &mut [u8], bytes: usize) -> Self {
        if let Some(zone) = buffer.get_mut(bytes..) {
            zone.fill(MARK);
        }
        Self { start: bytes }
    }

    /// Looks whether the mark is still there.
    ///
    /// # Errors
    /// [`LayerError::BrokenPromise`] when it is not.
    pub(super) fn check(&self, buffer: &[u8], what: &str) -> Result<(), LayerError> {
        let zone = buffer.get(self.start..).unwrap_or_default();
        if zone.iter().all(|&byte| byte == MARK) {
            return Ok(());
        }
        let (wanted, found) =
            (format!("{} bytes of {what}", self.start), "more, as it wrote behind them".to_owned());
        Err(LayerError::BrokenPromise { wanted, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_behind_a_buffer_shows() {
        let mut buffer = vec![0; Redzone::around(10)];
        let zone = Redzone::mark(&mut buffer, 10);
        buffer[9] = 1;
        assert!(zone.check(&buffer, "scratch memory").is_ok());
        buffer[10] = 1;
        let error = zone.check(&buffer, "scratch memory").unwrap_err().to_string();
        assert!(
            error.contains("10 bytes of scratch memory") && error.contains("fault of the layer"),
            "{error}"
        );
        assert_eq!((Redzone::around(0), Redzone::around(usize::MAX)), (0, usize::MAX));
    }
}
