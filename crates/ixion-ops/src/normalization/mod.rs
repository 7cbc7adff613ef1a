//! Batch, group, instance, layer and RMS normalisation.

pub mod channels;
pub mod last_axes;

operators! { of channels, last_axes; category Normalization }
