//! Loads any bytes as a `.param` text, which must give an error or a graph that survives a round trip. The graph is then
//! built and run on zeros, within tight limits.

#![no_main]

use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::pnnx::{Dim, Graph};
use ixion::tensor::{DType, Tensor};
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

fuzz_target!(|data: &[u8]| {
    let limits = Limits { max_tensor_bytes: 1 << 20, max_total_bytes: 1 << 24, max_ops: 1000, ..Limits::default() };
    let Ok(graph) = Graph::from_bytes(data, None, &limits) else { return };
    let text = graph.to_param_text();
    let again = Graph::parse(&text, &limits).expect("written graphs must load");
    assert_eq!(again.to_param_text(), text);
    let limits = limits.with_timeout(Duration::from_millis(200));
    let mut runtime = RuntimeGraph::from_pnnx(graph).with_random_weights(0).with_limits(limits.clone());
    if runtime.build().is_err() {
        return;
    }
    let inputs: Option<Vec<Tensor>> = runtime.inputs().iter().map(|port| {
        let operand = runtime.operand(port.operand);
        let dims: Vec<usize> = operand.shape().unwrap_or_default().iter().map(|dim| match dim {
            Dim::Fixed(len) => usize::try_from(*len).unwrap_or(usize::MAX),
            _ => 1,
        }).collect();
        let elements = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1)))?;
        (elements < 1 << 16).then(|| Tensor::zeros(operand.dtype().unwrap_or(DType::F32), &dims).ok())?
    }).collect();
    if let Some(inputs) = inputs {
        let _ = runtime.run_with(inputs);
    }
});
