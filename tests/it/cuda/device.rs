//! The device interface on the emulator: kernels, their cache, and the errors found by the checker.

use ixion::cuda::device::{Argument, CudaError, Device, DeviceTensor, Grid, KernelCache, Memory, Unit};
use ixion::cuda::emulator::Emulator;
use ixion::tensor::{DType, Layout, Shape};

fn tensor(memory: &Memory, len: usize) -> DeviceTensor<'_> {
    memory.tensor(DType::F32, Layout::contiguous(Shape::new(&[len]).unwrap()), 0, memory.len()).unwrap()
}

fn uploaded(device: &Device, numbers: &[f32]) -> Memory {
    let memory = device.allocate(numbers.len() * 4).unwrap();
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    device.queue().unwrap().upload(&tensor(&memory, numbers.len()), &bytes).unwrap();
    memory
}

fn downloaded(device: &Device, memory: &Memory) -> Vec<f32> {
    let mut bytes = vec![0; memory.len()];
    device.queue().unwrap().download(&mut bytes, &tensor(memory, memory.len() / 4)).unwrap();
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

/// Runs a kernel with the arguments input, output and count.
fn run(device: &Device, text: &'static str, grid: Grid, numbers: &[f32]) -> Result<Vec<f32>, CudaError> {
    let (x, y) = (uploaded(device, numbers), device.allocate(numbers.len() * 4)?);
    let kernel = device.kernel(&Unit::new("test.cu", text), "test")?;
    let mut queue = device.queue()?;
    let arguments = [
        Argument::Read(tensor(&x, numbers.len())),
        Argument::Write(tensor(&y, numbers.len())),
        Argument::Int(numbers.len() as i32),
    ];
    queue.launch(&kernel, grid, &arguments)?;
    queue.synchronize()?;
    Ok(downloaded(device, &y))
}

const DOUBLE: &str = r#"
extern "C" __global__ void test(const float* x, float* y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = 2 * x[i];
}"#;

/// The sum of each block, by a tree reduction in shared memory; `SYNC` is the barrier between its levels.
const SUM: &str = r#"
extern "C" __global__ void test(const float* x, float* y, int count) {
    __shared__ float part[64];
    int i = threadIdx.x;
    part[i] = x[blockIdx.x * 64 + i];
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (i < half) part[i] += part[i + half];
        SYNC
    }
    y[blockIdx.x * 64 + i] = part[0];
}"#;

#[test]
fn a_kernel_runs() {
    let device = Emulator::new().open().unwrap();
    let numbers: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let got = run(&device, DOUBLE, Grid::over(1000), &numbers).unwrap();
    assert!(got.iter().zip(&numbers).all(|(got, x)| *got == 2.0 * x));
    assert_eq!((device.launches(), device.allocations(), device.allocated()), (1, 0, 0));
}

#[test]
fn threads_wait_for_each_other() {
    let unit = Unit::new("sum.cu", SUM).define("SYNC", "__syncthreads();");
    for device in [Emulator::new(), Emulator::new().with_checker(7)].map(|emulator| emulator.open().unwrap())
    {
        let numbers: Vec<f32> = (0..128).map(|i| i as f32).collect();
        let (x, y) = (uploaded(&device, &numbers), device.allocate(512).unwrap());
        let kernel = device.kernel(&unit, "test").unwrap();
        let arguments =
            [Argument::Read(tensor(&x, 128)), Argument::Write(tensor(&y, 128)), Argument::Int(128)];
        device.queue().unwrap().launch(&kernel, Grid::of(2, 64), &arguments).unwrap();
        let got = downloaded(&device, &y);
        assert!(got[..64].iter().all(|sum| *sum == 2016.0) && got[64..].iter().all(|sum| *sum == 6112.0));
    }
}

#[test]
fn lanes_exchange_values() {
    let text = r#"
    extern "C" __global__ void test(const float* x, float* y, int count) {
        float sum = x[threadIdx.x];
        for (int bits = 16; bits; bits /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, bits);
        float up = __shfl_up_sync(0xffffffffu, x[threadIdx.x], 1), down = __shfl_down_sync(0xffffffffu, x[threadIdx.x], 1);
        unsigned odd = __ballot_sync(0xffffffffu, threadIdx.x & 1);
        y[threadIdx.x] = sum + 1000 * up + 100000 * down + (odd == 0xaaaaaaaau);
    }"#;
    for device in [Emulator::new(), Emulator::new().with_checker(3)].map(|emulator| emulator.open().unwrap())
    {
        let numbers: Vec<f32> = (0..64).map(|i| (i % 32) as f32).collect();
        let got = run(&device, text, Grid::of(1, 64), &numbers).unwrap();
        for (i, got) in got.into_iter().enumerate() {
            let (lane, last) = ((i % 32) as f32, 31.0);
            assert_eq!(got, 497.0 + 1000.0 * (lane - 1.0).max(0.0) + 100_000.0 * (lane + 1.0).min(last));
        }
    }
}

#[test]
fn the_checker_finds_a_missing_barrier() {
    let unit = Unit::new("sum.cu", SUM).define("SYNC", "");
    let device = Emulator::new().with_checker(1).open().unwrap();
    let (x, y) = (uploaded(&device, &[1.0; 128]), device.allocate(512).unwrap());
    let kernel = device.kernel(&unit, "test").unwrap();
    let arguments = [Argument::Read(tensor(&x, 128)), Argument::Write(tensor(&y, 128)), Argument::Int(128)];
    let error = device.queue().unwrap().launch(&kernel, Grid::of(2, 64), &arguments).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("no barrier between them") && text.contains("of block (0, 0, 0)"), "{text}");
    // The device remains usable.
    assert_eq!(run(&device, DOUBLE, Grid::of(1, 64), &[2.0; 64]).unwrap(), [4.0; 64]);
}

#[test]
fn the_checker_finds_a_store_that_is_out_of_bounds() {
    let text = r#"
    extern "C" __global__ void test(const float* x, float* y, int count) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i <= count) y[i] = 2 * x[i < count ? i : 0];
    }"#;
    let device = Emulator::new().with_checker(1).open().unwrap();
    let error = run(&device, text, Grid::of(3, 32), &[1.0; 70]).unwrap_err().to_string();
    let want =
        "thread (6, 0, 0) of block (2, 0, 0) writes 4 bytes starting 0 bytes past the end of argument 1";
    assert!(error.contains(want), "{error}");
    let text = r#"
    extern "C" __global__ void test(const float* x, float* y, int count) {
        __shared__ float part[32];
        part[threadIdx.x + 1] = x[threadIdx.x];
        __syncthreads();
        y[threadIdx.x] = part[threadIdx.x];
    }"#;
    let error = run(&device, text, Grid::of(1, 32), &[1.0; 32]).unwrap_err().to_string();
    assert!(error.contains("thread (31, 0, 0)") && error.contains("test.cu:4"), "{error}");
}

#[test]
fn the_checker_finds_deadlocks_and_races_between_blocks() {
    let device = Emulator::new().with_checker(1).open().unwrap();
    let text = r#"
    extern "C" __global__ void test(const float* x, float* y, int count) {
        if (threadIdx.x < 8) __syncwarp(0xffffu);
        else __syncthreads();
    }"#;
    let error = run(&device, text, Grid::of(1, 32), &[1.0; 32]).unwrap_err().to_string();
    assert!(error.contains("waits at"), "{error}");
    let text = r#"
    extern "C" __global__ void test(const float* x, float* y, int count) {
        if (threadIdx.x == 0) y[0] = x[blockIdx.x];
    }"#;
    let error = run(&device, text, Grid::of(2, 32), &[1.0; 64]).unwrap_err().to_string();
    assert!(error.contains("another block"), "{error}");
    let text = r#"
    extern "C" __global__ void test(const float* x, float* y, int count) {
        if (blockIdx.x < 2) atomicAdd(y, x[threadIdx.x]);
    }"#;
    let got = run(&device, text, Grid::of(2, 32), &[1.0; 64]).unwrap();
    assert_eq!(got[0], 64.0);
}

#[test]
fn arguments_are_those_of_the_source() {
    let device = Emulator::new().open().unwrap();
    let memory = uploaded(&device, &[1.0; 4]);
    let kernel = device.kernel(&Unit::new("test.cu", DOUBLE), "test").unwrap();
    let x = tensor(&memory, 4);
    for arguments in [
        &[Argument::Read(x), Argument::Write(x), Argument::Long(4)][..],
        &[Argument::Read(x), Argument::Read(x), Argument::Int(4)],
        &[Argument::Read(x), Argument::Write(x)],
    ] {
        let error = device.queue().unwrap().launch(&kernel, Grid::of(1, 4), arguments).unwrap_err();
        assert!(matches!(error, CudaError::Arguments { .. }), "{error}");
    }
    let missing = device.kernel(&Unit::new("test.cu", DOUBLE), "tset").unwrap_err();
    assert_eq!(missing.to_string(), "there is no kernel `tset` in `test.cu`; it has test");
}

#[test]
fn an_invalid_kernel_is_a_compiler_error() {
    let device = Emulator::new().open().unwrap();
    let text = "extern \"C\" __global__ void test(float* x) {\n    x[0] = nothing;\n}";
    let error = device.kernel(&Unit::new("bad.cu", text), "test").unwrap_err().to_string();
    assert!(error.contains("bad.cu:2") && error.contains("nothing"), "{error}");
}

#[test]
fn memory_is_limited() {
    let device = Emulator::new().with_memory(1000).open().unwrap();
    let some = device.allocate(600).unwrap();
    let error = device.allocate(600).unwrap_err();
    assert!(matches!(error, CudaError::OutOfMemory { wanted: 600, taken: 600, .. }), "{error}");
    assert!(some.tensor(DType::F32, Layout::contiguous(Shape::new(&[151]).unwrap()), 0, 600).is_err());
    drop(some);
    assert!(device.allocate(1000).is_ok());
}

#[test]
fn kernels_are_cached_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let files = || -> Vec<std::path::PathBuf> {
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let run_once = || {
        let cache = KernelCache::in_folder(folder.path());
        let device = Emulator::new().with_cache(cache).open().unwrap();
        run(&device, DOUBLE, Grid::of(1, 64), &[2.0; 64]).unwrap()
    };
    // Two at a time, then one more.
    std::thread::scope(|scope| {
        let both = [scope.spawn(run_once), scope.spawn(run_once)];
        both.into_iter().for_each(|one| assert_eq!(one.join().unwrap(), [4.0; 64]));
    });
    let path = files().pop().unwrap();
    assert_eq!(files().len(), 1);
    let whole = std::fs::read(&path).unwrap();
    let modified = || path.metadata().unwrap().modified().unwrap();
    let before = modified();
    assert_eq!(run_once(), [4.0; 64]);
    assert_eq!(modified(), before, "it was not recompiled");
    // A damaged file is compiled again.
    for len in [0, 7, 15, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..len]).unwrap();
        assert_eq!(run_once(), [4.0; 64]);
        assert_eq!(std::fs::read(&path).unwrap().len(), whole.len());
    }
    let mut other = whole.clone();
    let last = other.len() - 100;
    other[last] ^= 1;
    std::fs::write(&path, &other).unwrap();
    assert_eq!(run_once(), [4.0; 64]);
}

#[test]
fn nothing_leaks() {
    use ixion::cuda::CudaLayers;
    use ixion::engine::{Builder, Context};
    use ixion::tensor::Tensor;
    use std::sync::Arc;
    let device = Emulator::new().open().unwrap();
    let line = "nn.Embedding e 1 1 x y num_embeddings=5 embedding_dim=3 @weight=(5,3)f32";
    let text = format!("7767517\n3 2\npnnx.Input in 0 1 x #x=(?)i64\n{line}\npnnx.Output out 1 0 y\n");
    for _ in 0..2 {
        let graph = ixion::pnnx::Graph::parse(&text, &ixion::Limits::default()).unwrap();
        let builder = Builder::from_pnnx(graph).with_random_weights(1);
        let plan = Arc::new(builder.with_device(device.clone(), CudaLayers::default()).build().unwrap());
        assert!(device.allocated() > 0);
        let mut contexts = [0, 1].map(|_| Context::shared(Arc::clone(&plan)).unwrap());
        for context in &mut contexts {
            // Graphs, other shapes, and runs that fail.
            for (indices, is_fine) in
                [(vec![1i64, 4], true), (vec![1, 4], true), (vec![0; 999], true), (vec![9], false)]
            {
                let len = indices.len();
                let input = Tensor::from_vec(indices, &[len]).unwrap();
                assert_eq!(context.run(&[input]).is_ok(), is_fine);
            }
        }
        let held = device.allocations();
        drop(contexts);
        assert!(device.allocations() < held);
        drop(plan);
        assert_eq!((device.allocated(), device.allocations()), (0, 0));
    }
}

/// Adds a number to each element.
const ADD: &str = r#"
extern "C" __global__ void test(const float* x, float* y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 16) y[i] = x[i] + count;
}"#;

#[test]
fn a_graph_respects_its_dependencies() {
    for seed in 0..8 {
        let emulator = Emulator::new();
        let device = if seed == 0 { emulator } else { emulator.with_checker(seed) }.open().unwrap();
        let memory = std::sync::Arc::new(uploaded(&device, &[0.0; 64]));
        let part = |at: usize| {
            let layout = Layout::contiguous(Shape::new(&[16]).unwrap());
            memory.tensor(DType::F32, layout, at * 64, 64).unwrap()
        };
        let kernel = device.kernel(&Unit::new("test.cu", ADD), "test").unwrap();
        let mut queue = device.queue().unwrap();
        queue.record();
        // Two chains that have nothing to do with each other, and a last one that waits for one of them.
        for (from, to, number) in [(0, 1, 1), (2, 3, 10), (1, 1, 2), (3, 3, 20), (1, 2, 4)] {
            let arguments = [Argument::Read(part(from)), Argument::Write(part(to)), Argument::Int(number)];
            queue.launch(&kernel, Grid::of(1, 16), &arguments).unwrap();
        }
        let recording = queue.recorded();
        assert_eq!(recording.dependencies(), [vec![], vec![], vec![0], vec![1], vec![2, 1]]);
        let mut graph = queue.graph(recording.clone(), vec![memory.clone()]).unwrap();
        assert_eq!(
            downloaded(&device, &memory)[16..].iter().step_by(16).copied().collect::<Vec<_>>(),
            [3.0, 7.0, 30.0]
        );
        queue.replay(&mut graph).unwrap();
        // The second chain begins with what the first left.
        assert_eq!(
            downloaded(&device, &memory)[16..].iter().step_by(16).copied().collect::<Vec<_>>(),
            [3.0, 7.0, 37.0]
        );
        assert_eq!(queue.launches(), 10);
        let other = std::sync::Arc::new(device.allocate(64).unwrap());
        assert!(matches!(queue.graph(recording, vec![other]), Err(CudaError::OutOfBounds { .. })));
        // A graph keeps its memory alive.
        drop(memory);
        queue.replay(&mut graph).unwrap();
        assert_eq!(device.allocations(), 1);
    }
}
