//! Reads any bytes as an ONNX file, which must give an error or a graph that survives a round trip.

#![no_main]

use ixion::Limits;
use ixion::pnnx::Graph;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let limits = Limits { max_tensor_bytes: 1 << 20, max_total_bytes: 1 << 24, max_ops: 1000, ..Limits::default() };
    let Ok(model) = ixion_onnx::from_bytes(data, &limits) else { return };
    let text = model.graph.to_param_text();
    let again = Graph::parse(&text, &Limits::default()).expect("graphs that were read must be readable as text");
    assert_eq!(again.to_param_text(), text);
});
