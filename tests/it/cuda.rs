//! GPU layers, run by the emulator and compared with the CPU layers.

mod attention;
mod channel_chunks;
mod channels_last;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod debugger;
mod device;
mod diagonals;
mod elementwise;
mod failures;
mod indexing;
mod layers;
#[cfg(all(feature = "cuda", feature = "cli", target_os = "linux"))]
mod libraries;
mod memory;
mod memory_bound;
#[cfg(all(feature = "cuda", feature = "cli", target_os = "linux"))]
mod nvidia;
mod pinned;
mod plugins;
mod precisions;
mod tactics;
mod tensor_cores;

use ixion::Limits;
use ixion::cuda::device::{Device, KernelCache};
use ixion::cuda::emulator::Emulator;
use ixion::cuda::{CudaLayers, Tf32};
use ixion::engine::{Builder, Context, Plan};
use ixion::pnnx::Graph;
use ixion::tensor::{DType, Tensor};
use std::sync::{Arc, OnceLock};

/// The emulator without and with its checker; compiled kernels are cached in the target folder.
fn emulators() -> &'static [Device; 2] {
    static EMULATORS: OnceLock<[Device; 2]> = OnceLock::new();
    EMULATORS.get_or_init(|| {
        let cache = KernelCache::in_folder(concat!(env!("CARGO_TARGET_TMPDIR"), "/kernels"));
        let emulator = Emulator::new().with_cache(cache);
        [emulator.clone(), emulator.with_checker(5)].map(|emulator| emulator.open().unwrap())
    })
}

/// A plan for a device and its layers, or for the CPU.
fn plan(graph: &str, device: Option<(&Device, &CudaLayers)>) -> Plan {
    let graph = Graph::parse(graph, &Limits::default()).unwrap();
    let builder = Builder::from_pnnx(graph).with_random_weights(1);
    let builder = match device {
        Some((device, layers)) => builder.with_device(device.clone(), layers.clone()),
        None => builder,
    };
    builder.build().unwrap()
}

/// Numbers between -2 and 2 (integers between -20 and 20) that depend on the seed.
fn noise(dtype: DType, shape: &[usize], seed: usize) -> Tensor {
    let len = shape.iter().product::<usize>();
    let number = |i: usize| ((i + 31 * seed) * 37 % 101) as f64 / 25.0 - 2.0;
    let scale = if dtype.is_integer() { 10.0 } else { 1.0 };
    let numbers: Vec<f64> = (0..len).map(|i| number(i) * scale).collect();
    Tensor::from_vec(numbers, shape).unwrap().cast(dtype).unwrap()
}

/// The graph of one operator: `line` is its type, name, counts, operands `x`, `x1`, … → `y` and keys, as in a file. Inputs must
/// have axes, since the text cannot express the shape of a scalar.
fn one(line: &str, inputs: &[Tensor]) -> String {
    several(&[line], inputs)
}

/// The graph of several operators, the last of which produces `y`.
fn several(lines: &[&str], inputs: &[Tensor]) -> String {
    let operators = lines.len();
    // Every operator here has one output.
    let mut text = format!("7767517\n{} {}\n", inputs.len() + operators + 1, inputs.len() + operators);
    for (position, input) in inputs.iter().enumerate() {
        let name = if position == 0 { "x".to_owned() } else { format!("x{position}") };
        let dims: Vec<String> = input.shape().iter().map(ToString::to_string).collect();
        let dims = dims.join(",");
        text.push_str(&format!(
            "pnnx.Input in{position} 0 1 {name} #{name}=({dims}){}\n",
            input.dtype().name()
        ));
    }
    text + &lines.join("\n") + "\npnnx.Output out 1 0 y\n"
}

/// Runs a graph on the CPU and on both emulators. The kernels' results must be near those of the CPU, all operators must run on
/// the device, and later runs, which replay the launches as a graph, must give the same bits.
fn same_as_cpu(graph: &str, inputs: &[Tensor], tolerance: f64) {
    same_as_cpu_with(&CudaLayers::default().with_tf32(Tf32::NONE), graph, inputs, tolerance);
}

/// Like [`same_as_cpu`], with the given layers.
fn same_as_cpu_with(layers: &CudaLayers, graph: &str, inputs: &[Tensor], tolerance: f64) {
    same_as_cpu_on(emulators(), layers, graph, inputs, tolerance);
}

/// Like [`same_as_cpu`], on the given devices.
fn same_as_cpu_on(devices: &[Device], layers: &CudaLayers, graph: &str, inputs: &[Tensor], tolerance: f64) {
    let wanted = Context::shared(Arc::new(plan(graph, None))).unwrap().run(inputs).unwrap();
    for device in devices {
        let mut context = Context::shared(Arc::new(plan(graph, Some((device, layers))))).unwrap();
        let found = context.run(inputs).unwrap_or_else(|error| panic!("{error}\n{graph}"));
        let on_cpu: Vec<String> =
            context.on_cpu().iter().map(|operator| operator.op_type().to_owned()).collect();
        assert!(on_cpu.is_empty(), "the CPU runs {on_cpu:?} of\n{graph}");
        for (found, wanted) in found.iter().zip(&wanted) {
            let comparison = found.allclose(wanted, tolerance, tolerance, true).unwrap();
            assert!(comparison.holds(), "{comparison}\n{graph}");
        }
        for run in 2..4 {
            let again = context.run(inputs).unwrap();
            for (again, first) in again.iter().zip(&found) {
                let bytes = |tensor: &Tensor| tensor.view().bytes().map(<[u8]>::to_vec).unwrap();
                assert_eq!(bytes(again), bytes(first), "run {run} of\n{graph}");
            }
        }
    }
}
