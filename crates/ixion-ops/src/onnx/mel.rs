//! Filters that are evenly spaced on the mel scale.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::ElementType;
use super::lowering::Source;
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::TensorOrScalar;
use ixion_tensor::{DType, Layout, Limits, Scalar, TensorView};
use std::ops::RangeInclusive;

crate::operator! {
    /// `MelWeightMatrix` (since 17): weights of triangular filters that are evenly spaced on the mel scale, frequencies × bands.
    /// The first input is the number of bands.
    pub struct MelWeightMatrix for "MelWeightMatrix" {
        /// Element type of the output, as its ONNX number.
        output_datatype: ElementType = ElementType(DType::F32),
        /// Length of the transform whose frequencies are weighted.
        dft_length: InputIndex,
        /// Number of samples in a second.
        sample_rate: InputIndex,
        /// Lowest frequency.
        lower_edge_hertz: InputIndex,
        /// Highest frequency.
        upper_edge_hertz: InputIndex,
    }
}

impl Decompose for MelWeightMatrix {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let length = |source: usize, key: &'static str| -> Result<usize> {
            let found = match decomposition.meta(Source::Input(source))?.values() {
                Some([value]) => value.fixed(),
                _ => None,
            };
            let found = found
                .ok_or_else(|| LayerError::Unsupported(format!("`{key}` must be a single known value")))?;
            let len = usize::try_from(found).ok().filter(|len| (1..=1 << 24).contains(len));
            len.ok_or_else(|| LayerError::invalid(key, found, "it must be between 1 and 16777216"))
        };
        let bands = length(0, "num_mel_bins")?;
        let frequencies = length(self.dft_length.0, "dft_length")?;
        let bank = MelBank { bands, transform_len: frequencies, dtype: self.output_datatype.0 };
        let inputs = [self.sample_rate, self.lower_edge_hertz, self.upper_edge_hertz];
        Ok(vec![decomposition.step(bank, &inputs.map(|input| Source::Input(input.0)))?])
    }
}

/// The filters. The inputs are the sample rate, and the lowest and highest frequency.
#[derive(Debug, Clone)]
struct MelBank {
    bands: usize,
    transform_len: usize,
    dtype: DType,
}

impl MelBank {
    /// The number of frequencies of a transform of real numbers.
    fn bins(&self) -> usize {
        self.transform_len / 2 + 1
    }

    /// The frequencies where the filters begin, peak and end, as indices of the transform.
    fn corners(&self, sample_rate: f64, lowest: f64, highest: f64) -> Vec<i64> {
        let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
        let (low, high) = (mel(lowest), mel(highest));
        let step = (high - low) / (self.bands + 2) as f64;
        let hertz = (0..self.bands + 2).map(|index| {
            let mel = index as f64 * step + low;
            700.0 * (10f64.powf(mel / 2595.0) - 1.0)
        });
        let len = (self.transform_len + 1) as f64;
        hertz.map(|hertz| (len * hertz / sample_rate).floor() as i64).collect()
    }

    /// The weights, frequencies × bands. Frequencies beyond the transform are left out.
    fn weights(&self, corners: &[i64], limits: &Limits) -> Result<Vec<f64>> {
        let bins = self.bins() as i64;
        let mut weights = vec![0f64; self.bins() * self.bands];
        for (band, corners) in corners.windows(3).enumerate() {
            limits.check_deadline()?;
            let &[low, peak, high] = corners else { continue };
            let mut set = |bin: i64, weight: f64| {
                let place = usize::try_from(bin).ok().filter(|bin| *bin < self.bins());
                if let Some(slot) = place.and_then(|bin| weights.get_mut(bin * self.bands + band)) {
                    *slot = weight;
                }
            };
            set(peak, 1.0);
            for bin in low.max(0)..peak.min(bins) {
                set(bin, (bin as f64 - low as f64) / (peak as f64 - low as f64));
            }
            for bin in peak.max(0)..high.min(bins) {
                set(bin, (high as f64 - bin as f64) / (high as f64 - peak as f64));
            }
        }
        Ok(weights)
    }
}

impl Layer for MelBank {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(3)
    }

    fn infer(&self, _: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        if !self.dtype.is_float() {
            return Err(LayerError::dtype("a filter", "floats", self.dtype));
        }
        Ok(vec![TensorMeta::new(self.dtype, [self.bins(), self.bands])])
    }
}

impl CpuLayer for MelBank {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let mut numbers = [0.0; 3];
        for (position, number) in numbers.iter_mut().enumerate() {
            *number = match TensorOrScalar::Input(position).item(io.inputs)? {
                Scalar::Int(value) => value as f64,
                Scalar::Float(value) => value,
                _ => f64::NAN,
            };
        }
        let limits = io.context.limits();
        let count = (io.outputs[0].num_elements() as u64).saturating_mul(8);
        limits.check_tensor("the weights of the filters", count)?;
        let [sample_rate, lowest, highest] = numbers;
        let weights = self.weights(&self.corners(sample_rate, lowest, highest), limits)?;
        let layout = Layout::contiguous(*io.outputs[0].shape());
        Ok(io.outputs[0].cast_from(&TensorView::from_slice(&weights, layout)?)?)
    }
}

operators! {
    entry => MelWeightMatrix
}
