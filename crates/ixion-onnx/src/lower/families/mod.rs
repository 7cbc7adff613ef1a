//! The operators by family.

mod arguments;
mod attention;
mod bits;
mod casts;
mod control;
mod convolution;
mod creation;
mod elementwise;
mod functions;
mod indexing;
mod linear_models;
mod literals;
mod losses;
mod microsoft;
mod microsoft_attention;
mod microsoft_quantized;
mod normalization;
mod norms;
mod pooling;
mod products;
mod quantization;
mod quantized_weights;
mod random;
mod recurrent;
mod recurrent_weights;
mod reductions;
mod resizing;
mod rotary;
mod scan;
mod scores;
mod sequences;
mod shapes;
mod softmax;
mod spectra;
mod stacking;
mod tree_nodes;
mod trees;
mod types;
mod vision;
mod windows;

use super::call::Table;

/// The tables of all families, each with the domain of its operators.
pub(super) const TABLES: &[(&str, Table)] = &[
    ("ai.onnx", attention::TABLE),
    ("ai.onnx", casts::TABLE),
    ("ai.onnx", control::TABLE),
    ("ai.onnx", convolution::TABLE),
    ("ai.onnx", creation::TABLE),
    ("ai.onnx", elementwise::TABLE),
    ("ai.onnx", functions::TABLE),
    ("ai.onnx", indexing::TABLE),
    ("ai.onnx", losses::TABLE),
    ("ai.onnx", microsoft::UNDER_ONNX),
    ("ai.onnx", normalization::TABLE),
    ("ai.onnx", pooling::TABLE),
    ("ai.onnx", products::TABLE),
    ("ai.onnx", quantization::TABLE),
    ("ai.onnx", random::TABLE),
    ("ai.onnx", recurrent::TABLE),
    ("ai.onnx", reductions::TABLE),
    ("ai.onnx", resizing::TABLE),
    ("ai.onnx", scan::TABLE),
    ("ai.onnx", sequences::TABLE),
    ("ai.onnx", shapes::TABLE),
    ("ai.onnx", softmax::TABLE),
    ("ai.onnx", spectra::TABLE),
    ("ai.onnx", vision::TABLE),
    ("ai.onnx.ml", linear_models::TABLE),
    ("ai.onnx.ml", trees::TABLE),
    ("com.microsoft", microsoft::TABLE),
    ("com.microsoft", quantization::MICROSOFT),
];
