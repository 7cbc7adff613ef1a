//! Batch, group, instance, layer and RMS normalisation, and that of weights.

pub mod channels;
pub mod last_axes;
pub mod slices;

operators! { of channels, last_axes, slices; category Normalization }
