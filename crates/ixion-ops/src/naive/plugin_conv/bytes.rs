//! Serialisation of a configuration.

use super::{Configuration, QuantizedWeights};
use std::sync::Arc;

// ANCHOR: bytes
/// The first byte: the version of the layout.
const VERSION: u8 = 1;

/// Serialises a configuration; all numbers are little-endian.
///
/// ```text
/// 1: u8 │ input, output: 8 × u64
/// and, for int8:
/// scales: 2 × f32 │ channels: u64 │ steps: f64… │ bias: i32… │ weights: i8…
/// ```
pub fn encode(configuration: &Configuration) -> Vec<u8> {
    // ANCHOR: encode_todo -- task 5: write the version, all lengths, and the quantised weights, if there are any
    let lens = configuration.input.into_iter().chain(configuration.output);
    let lens = lens.flat_map(|len| (len as u64).to_le_bytes());
    let mut bytes: Vec<u8> = [VERSION].into_iter().chain(lens).collect();
    if let Some(quantized) = &configuration.int8 {
        bytes.extend(quantized.scales.iter().flat_map(|scale| scale.to_le_bytes()));
        bytes.extend((quantized.steps.len() as u64).to_le_bytes());
        bytes.extend(quantized.steps.iter().flat_map(|step| step.to_le_bytes()));
        bytes.extend(quantized.bias.iter().flat_map(|bias| bias.to_le_bytes()));
        bytes.extend(quantized.weights.iter().map(|&weight| weight as u8));
    }
    bytes
    // ANCHOR_END: encode_todo
}

/// Deserialises a configuration that [`encode`] wrote; `None` for any other bytes.
pub fn decode(bytes: &[u8]) -> Option<Configuration> {
    // ANCHOR: decode_todo -- task 5: read what `encode` wrote, in the same order; the remaining bytes are the weights
    let mut rest = Rest(bytes);
    if rest.take()? != [VERSION] {
        return None;
    }
    let (input, output) = (rest.lens()?, rest.lens()?);
    if rest.0.is_empty() {
        return Some(Configuration { input, output, int8: None });
    }
    let scales = [f32::from_le_bytes(rest.take()?), f32::from_le_bytes(rest.take()?)];
    let channels = rest.len()?;
    let steps = rest.all(channels, f64::from_le_bytes)?;
    let bias = rest.all(channels, i32::from_le_bytes)?;
    let weights = rest.0.iter().map(|&byte| byte as i8).collect();
    Some(Configuration {
        input,
        output,
        int8: Some(Arc::new(QuantizedWeights { scales, steps, bias, weights })),
    })
    // ANCHOR_END: decode_todo
}
// ANCHOR_END: bytes

// ANCHOR: rest
/// The bytes that are left to read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// The next `N` bytes; `None` if there are fewer.
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    /// The next 8 bytes, as a length.
    fn len(&mut self) -> Option<usize> {
        usize::try_from(u64::from_le_bytes(self.take()?)).ok()
    }

    /// The next four lengths.
    fn lens(&mut self) -> Option<[usize; 4]> {
        Some([self.len()?, self.len()?, self.len()?, self.len()?])
    }

    /// The next `count` numbers of `N` bytes each; `None` if there are fewer, without allocating memory.
    fn all<T, const N: usize>(&mut self, count: usize, read: fn([u8; N]) -> T) -> Option<Vec<T>> {
        let (taken, rest) = self.0.split_at_checked(count.checked_mul(N)?)?;
        self.0 = rest;
        Some(taken.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect())
    }
}
// ANCHOR_END: rest
