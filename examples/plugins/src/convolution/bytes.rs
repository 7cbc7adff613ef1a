//! The serialised configuration, in little-endian byte order.
//!
//! ```text
//! u32 version = 1 │ u32 is quantised: 0 or 1 │ input 4×u64 │ output 4×u64 │ kernel, stride, padding, dilation 2×u64 each │ groups u64
//! and, if quantised:
//! x_scale f32 │ y_scale f32, 0 for an output of f32 │ channels u64 │ weights u64 │ weight_scales f32… │ bias i32… │ weights i8…
//! ```

use super::Configuration;
use super::geometry::Geometry;
use super::quantized::Quantized;
use ixion::op::{LayerError, Result};
use std::sync::Arc;

const VERSION: u32 = 1;

/// Serialises a configuration.
pub(super) fn encode(configuration: &Configuration) -> Vec<u8> {
    let Configuration { geometry, quantized } = configuration;
    let Geometry { input, output, kernel, stride, padding, dilation, groups } = *geometry;
    let mut bytes = Vec::new();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(u32::from(quantized.is_some()).to_le_bytes());
    let pairs = [kernel, stride, padding, dilation].concat();
    for number in input.into_iter().chain(output).chain(pairs).chain([groups]) {
        bytes.extend((number as u64).to_le_bytes());
    }
    if let Some(quantized) = quantized {
        let Quantized { x_scale, y_scale, weight_scales, weights, bias } = &**quantized;
        let scales = [*x_scale, y_scale.unwrap_or(0.0)];
        bytes.extend(scales.iter().flat_map(|scale| scale.to_le_bytes()));
        bytes.extend((bias.len() as u64).to_le_bytes());
        bytes.extend((weights.len() as u64).to_le_bytes());
        bytes.extend(weight_scales.iter().flat_map(|scale| scale.to_le_bytes()));
        bytes.extend(bias.iter().flat_map(|bias| bias.to_le_bytes()));
        bytes.extend(weights.iter().map(|&weight| weight as u8));
    }
    bytes
}

/// Deserialises the bytes that [`encode`] returned.
///
/// # Errors
/// [`LayerError::Unsupported`] if the bytes are not a valid configuration.
pub(super) fn decode(bytes: &[u8]) -> Result<Configuration> {
    let mut rest = Reader(bytes);
    let configuration = rest.configuration().filter(|_| rest.0.is_empty());
    configuration
        .ok_or_else(|| LayerError::Unsupported("the stored state does not belong to this layer".to_owned()))
}

/// The unread bytes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn configuration(&mut self) -> Option<Configuration> {
        let [version, is_quantized] = [self.take()?, self.take()?].map(u32::from_le_bytes);
        if version != VERSION || is_quantized > 1 {
            return None;
        }
        let geometry = Geometry {
            input: self.numbers()?,
            output: self.numbers()?,
            kernel: self.numbers()?,
            stride: self.numbers()?,
            padding: self.numbers()?,
            dilation: self.numbers()?,
            groups: self.number()?,
        };
        let quantized = if is_quantized == 1 { Some(Arc::new(self.quantized()?)) } else { None };
        Some(Configuration { geometry, quantized })
    }

    fn quantized(&mut self) -> Option<Quantized> {
        let [x_scale, y_scale] = [self.take()?, self.take()?].map(f32::from_le_bytes);
        let (channels, count) = (self.number()?, self.number()?);
        // `all` checks each length against the remaining bytes, which bounds the memory that is allocated.
        let weight_scales = self.all(channels, f32::from_le_bytes)?;
        let bias = self.all(channels, i32::from_le_bytes)?;
        let weights = self.all(count, i8::from_le_bytes)?;
        let is_scale = |scale: &f32| scale.is_finite() && *scale > 0.0;
        let y_scale = Some(y_scale).filter(|&scale| scale != 0.0);
        let are_scales = weight_scales.iter().chain([&x_scale]).chain(&y_scale).all(is_scale);
        are_scales.then_some(Quantized { x_scale, y_scale, weight_scales, weights, bias })
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<usize> {
        usize::try_from(u64::from_le_bytes(self.take()?)).ok()
    }

    fn numbers<const N: usize>(&mut self) -> Option<[usize; N]> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.number()?;
        }
        Some(numbers)
    }

    fn all<T, const N: usize>(&mut self, count: usize, read: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
        let (taken, rest) = self.0.split_at_checked(count.checked_mul(N)?)?;
        self.0 = rest;
        Some(taken.chunks_exact(N).filter_map(|chunk| Some(read(chunk.try_into().ok()?))).collect())
    }
}
