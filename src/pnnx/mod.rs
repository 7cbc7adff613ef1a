//! The PNNX file format.
