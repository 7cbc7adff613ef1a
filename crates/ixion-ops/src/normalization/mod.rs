//! Batch, group, instance, layer and RMS normalisation, and that of weights.

pub mod channels;
pub mod last_axes;
pub mod native;
pub mod slices;

operators! { of channels, last_axes, native, slices; category Normalization }
