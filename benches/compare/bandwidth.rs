//! Measures the share of a device's bandwidth that memory-bound kernels reach.
//!
//! ```sh
//! cargo run --release --features cuda --example bandwidth -- cuda
//! cargo run --features cuda-emulator --example bandwidth -- cuda-emulator 64
//! ```
//!
//! The first line is the baseline: a kernel that only copies, in words of 16 bytes. All tensors stay on the device, and
//! launches are replayed as a graph, as in a run of a model. The second argument is the size of a tensor in KiB.

use ixion::Limits;
use ixion::cuda::device::{Argument, Device, DeviceTensor, Grid, KernelCache, Memory, Queue, Unit};
use ixion::cuda::{CudaContext, CudaIo, CudaLayer, CudaLayers, Faults};
use ixion::op::{OperatorReader, Registry, RuntimeParameter, TensorMeta};
use ixion::tensor::{DType, Layout, Shape};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

/// A layer, its parameters, its number of inputs, and whether the inputs' last two axes are transposed.
struct Case {
    name: &'static str,
    op_type: &'static str,
    params: &'static [(&'static str, &'static str)],
    inputs: usize,
    is_turned: bool,
}

const fn case(
    name: &'static str,
    op_type: &'static str,
    params: &'static [(&'static str, &'static str)],
    inputs: usize,
) -> Case {
    Case { name, op_type, params, inputs, is_turned: false }
}

/// The length of a row, and the number of rows in a transposed matrix.
const ROW: usize = 1024;
const ROWS: usize = 64;

const NORM: [(&str, &str); 3] =
    [("normalized_shape", "(1024)"), ("eps", "1e-5"), ("elementwise_affine", "False")];
// Flattening transposed axes requires a copy.
const FLAT: [(&str, &str); 2] = [("start_dim", "0"), ("end_dim", "-1")];
const CASES: [Case; 5] = [
    case("add", "pnnx.Expression", &[("expr", "add(@0,@1)")], 2),
    case("SiLU", "nn.SiLU", &[], 1),
    case("LayerNorm", "nn.LayerNorm", &NORM, 1),
    case("softmax", "F.softmax", &[("dim", "-1")], 1),
    Case { is_turned: true, ..case("permute", "torch.flatten", &FLAT, 1) },
];

const COPY: &str = r#"
#include "common.cuh"

extern "C" __global__ void copy_words(const Bytes16* x, Bytes16* y, i64 count) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) y[i] = x[i];
}"#;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A device with memory for three tensors and for the kernels' reports.
struct Bench {
    device: Device,
    memory: Arc<Memory>,
    /// The size of a tensor in bytes.
    bytes: usize,
}

const FAULTS: usize = 256;

impl Bench {
    fn new(device: Device, bytes: usize) -> Result<Self> {
        let memory = Arc::new(device.allocate(3 * bytes + FAULTS)?);
        Ok(Self { device, memory, bytes })
    }

    /// One of the tensors, shaped as groups of rows.
    fn tensor(&self, position: usize, dtype: DType) -> Result<DeviceTensor<'_>> {
        let groups = self.bytes / dtype.size() / (ROW * ROWS);
        let layout = Layout::contiguous(Shape::new(&[groups, ROWS, ROW])?);
        Ok(self.memory.tensor(dtype, layout, position * self.bytes, self.bytes)?)
    }

    /// The time in seconds of the work that a function enqueues: the shortest of several runs.
    fn seconds(&self, launch: impl FnOnce(&mut Queue) -> Result<()>) -> Result<f64> {
        const TRIES: usize = 5;
        const RUNS: u32 = 20;
        let mut queue = self.device.queue()?;
        queue.record();
        launch(&mut queue)?;
        let recording = queue.recorded();
        let mut graph = queue.graph(recording, vec![Arc::clone(&self.memory)])?;
        let mut least = f64::INFINITY;
        for _ in 0..TRIES {
            queue.synchronize()?;
            let start = Instant::now();
            for _ in 0..RUNS {
                queue.replay(&mut graph)?;
            }
            queue.synchronize()?;
            least = least.min(start.elapsed().as_secs_f64() / f64::from(RUNS));
        }
        Ok(least)
    }

    /// The bandwidth of a copy, in bytes per second.
    fn copy(&self) -> Result<f64> {
        let kernel = self.device.kernel(&Unit::new("copy_words.cu", COPY), "copy_words")?;
        let words = self.bytes / 16;
        let arguments = [
            Argument::Read(self.tensor(0, DType::F32)?),
            Argument::Write(self.tensor(1, DType::F32)?),
            Argument::Long(words as i64),
        ];
        let seconds = self.seconds(|queue| Ok(queue.launch(&kernel, Grid::over(words), &arguments)?))?;
        Ok(2.0 * self.bytes as f64 / seconds)
    }

    /// The bandwidth of a layer, in bytes per second, counting the bytes that it must read and write.
    fn layer(&self, case: &Case, dtype: DType) -> Result<f64> {
        let mut inputs = Vec::new();
        for position in 0..case.inputs {
            let input = self.tensor(position, dtype)?;
            inputs.push(if case.is_turned { turned(&input)? } else { input });
        }
        let output = self.tensor(2, dtype)?;
        let flat = Layout::contiguous(Shape::new(&[output.num_elements()])?);
        let output = if case.is_turned { output.with_layout(flat)? } else { output };
        let mut layer = case.layer(&inputs, &output)?;
        let limits = Limits::default();
        let layout = Layout::contiguous(Shape::new(&[3])?);
        let record = self.memory.tensor(DType::I64, layout, 3 * self.bytes, FAULTS)?;
        let seconds = self.seconds(|queue| {
            let faults = Faults { record, operator_id: 1, is_used: false };
            let mut context = CudaContext::new(queue, None, &[], &limits, faults);
            Ok(layer.forward(&mut CudaIo::new(&inputs, &[output], &mut context))?)
        })?;
        Ok((case.inputs + 1) as f64 * self.bytes as f64 / seconds)
    }
}

impl Case {
    /// Creates the layer for tensors like these.
    fn layer(&self, inputs: &[DeviceTensor<'_>], output: &DeviceTensor<'_>) -> Result<Box<dyn CudaLayer>> {
        let params = self.params.iter().map(|(key, text)| ((*key).to_owned(), RuntimeParameter::parse(text)));
        let params: BTreeMap<String, RuntimeParameter> = params.collect();
        let (attributes, names) = (BTreeMap::new(), vec![None; self.inputs]);
        let registry = Registry::default();
        let reader = OperatorReader::new(&params, &attributes, &names, 1).with_op_type(self.op_type);
        let layer = registry.get(self.op_type)?.create(reader)?;
        let meta =
            |tensor: &DeviceTensor<'_>| TensorMeta::new(tensor.dtype(), tensor.shape().iter().copied());
        let mut layer =
            CudaLayers::default().of(&*layer).ok_or_else(|| format!("{} has no kernel", self.op_type))?;
        let inputs: Vec<TensorMeta> = inputs.iter().map(meta).collect();
        layer.configure(&inputs, &[meta(output)])?;
        Ok(layer)
    }
}

/// A view with the last two axes transposed.
fn turned<'a>(tensor: &DeviceTensor<'a>) -> Result<DeviceTensor<'a>> {
    Ok(tensor.with_layout(tensor.layout().permute(&[0, 2, 1])?)?)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let id = arguments.next().unwrap_or_else(|| "cuda-emulator".to_owned());
    let kibibytes: usize = arguments.next().map_or(Ok(256 * 1024), |text| text.parse())?;
    // Whole groups of rows of the widest type.
    let bytes = (kibibytes * 1024).next_multiple_of(4 * ROW * ROWS);
    let bench = Bench::new(ixion::cuda::open(&id, KernelCache::none(), false)?, bytes)?;
    let copy = bench.copy()?;
    println!("{}: tensors of {} KiB", bench.device.info().name, bytes / 1024);
    println!("{:<10} {:>4} {:>9.1} GB/s", "copy", "", copy / 1e9);
    for case in &CASES {
        for dtype in [DType::F32, DType::F16] {
            let found = bench.layer(case, dtype)?;
            let share = 100.0 * found / copy;
            println!("{:<10} {:>4} {:>9.1} GB/s {share:>5.0} %", case.name, dtype.name(), found / 1e9);
        }
    }
    Ok(())
}
