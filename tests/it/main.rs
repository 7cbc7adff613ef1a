//! Integration tests, with one module per subject. They form a single program, because each further program would be linked
//! with the whole library again.
//!
//!     cargo test --test it                  everything
//!     cargo test --test it engine::         one subject

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod allocations;
mod ancestors;
mod architecture;
#[cfg(feature = "cli")]
mod cases;
mod circles;
#[cfg(feature = "cli")]
mod cli;
mod common;
mod computed_parameters;
#[cfg(feature = "cli")]
mod conformance;
mod contradictions;
#[cfg(feature = "cuda-emulator")]
mod cuda;
mod engine;
mod figures;
mod formats;
mod graph;
mod in_place;
mod int8;
mod kuiper_page;
mod lesson_pictures;
mod lessons;
mod level0;
mod lifecycle;
#[cfg(feature = "linalg")]
mod linalg;
mod misuse;
mod models;
mod mutation;
mod naive_layers;
mod network;
mod numerics;
#[cfg(feature = "cli")]
mod onnx;
mod onnx_lowering;
mod operator_lists;
mod operator_table;
mod packed_weights;
mod pass_table;
#[cfg(feature = "cli")]
mod passes;
mod plan_file;
mod plugin_faults;
mod plugin_header;
mod plugins_bad;
mod plugins_c;
mod plugins_rust;
mod precisions;
mod quantized_models;
mod random_graphs;
#[cfg(feature = "cli")]
mod reported;
mod roundtrip;
#[allow(dead_code, reason = "other programs use the class names")]
#[path = "../../model_file/scenes.rs"]
mod scenes;
mod shapes;
mod sweep;
mod tuning;
mod unknown_sizes;
