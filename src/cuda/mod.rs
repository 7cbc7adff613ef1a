//! The same operators on a GPU.
//!
//! [`device`] is the hardware behind one interface: memory, kernels that are compiled when they are first needed, and queues of
//! work. There are two kinds of it: GPUs, by the libraries of their driver, which are looked for when a program asks (feature
//! `cuda`); and an emulator that runs the same kernels on the CPU, for those who learn or test without a GPU (feature
//! `cuda-emulator`).

pub mod device;
#[cfg(feature = "cuda-emulator")]
pub mod emulator;
