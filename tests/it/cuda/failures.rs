//! Failures outside of models: kernels that do not compile, and kernel folders that are unusable or shared.

use super::noise;
use super::tactics::{BROKEN, built};
use ixion::cuda::device::{Argument, CudaError, Device, Grid, KernelCache, Unit};
use ixion::cuda::emulator::Emulator;
use ixion::engine::EngineError;
use ixion::graph::GraphError;
use ixion::op::LayerError;
use ixion::tensor::{DType, Layout, Shape};
use std::path::Path;
use std::process::Command;

/// Returns true if an operator failed with a compiler error that states the line.
fn is_of_compiler(error: &EngineError) -> bool {
    let EngineError::Graph(GraphError::Operator { place, source, .. }) = error else { return false };
    let LayerError::Device(source) = &**source else { return false };
    let Some(CudaError::Compile { unit, log }) = source.downcast_ref() else { return false };
    place.name == "copy" && unit.starts_with("mine.cu") && log.contains("nothing")
}

#[test]
fn a_kernel_of_a_layer_that_cannot_be_compiled() {
    let device = Emulator::new().open().unwrap();
    let (plan, _) = built(&device, &[BROKEN], None);
    let mut context = plan.context().unwrap();
    let held = device.allocations();
    for rows in [2, 2, 50, 3] {
        let error = context.run(&[noise(DType::F32, &[rows, 3], 1)]).unwrap_err();
        assert!(is_of_compiler(&error), "{error}");
    }
    assert!(device.allocations() <= held + 1, "an arena, and nothing for each failure");
    assert_eq!(device.launches(), 0);
    drop(context);
    drop(plan);
    assert_eq!((device.allocated(), device.allocations()), (0, 0));
}

const KERNEL: &str = "extern \"C\" __global__ void fill(float* y) { y[threadIdx.x] = 7; }";

/// Runs a kernel on a new device that caches its kernels in this folder.
fn run(folder: &Path) -> Result<Vec<u8>, CudaError> {
    let device: Device = Emulator::new().with_cache(KernelCache::in_folder(folder)).open()?;
    let memory = device.allocate(128)?;
    let y = memory.tensor(DType::F32, Layout::contiguous(Shape::new(&[32]).unwrap()), 0, 128)?;
    let mut queue = device.queue()?;
    queue.launch(
        &device.kernel(&Unit::new("fill.cu", KERNEL), "fill")?,
        Grid::of(1, 32),
        &[Argument::Write(y)],
    )?;
    let mut bytes = vec![0; 128];
    queue.download(&mut bytes, &y)?;
    drop((queue, memory));
    assert_eq!(device.allocations(), 0);
    Ok(bytes)
}

#[test]
fn an_unusable_folder_only_costs_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    // Below a file, in a file, and with folders in place of its files.
    let sevens = 7f32.to_le_bytes().repeat(32);
    assert_eq!(run(&file.join("kernels")).unwrap(), sevens);
    assert_eq!(run(&file).unwrap(), sevens);
    let taken = folder.path().join("kernels");
    assert_eq!(run(&taken).unwrap(), sevens);
    for entry in std::fs::read_dir(&taken).unwrap() {
        let path = entry.unwrap().path();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
    }
    assert_eq!(run(&taken).unwrap(), sevens);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "no folder");
}

/// The variable that passes the folder to the processes of [`processes_race_for_one_folder`].
const FOLDER: &str = "IXION_TEST_KERNELS";

#[test]
fn a_process_of_a_race() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    assert_eq!(run(Path::new(&folder)).unwrap(), 7f32.to_le_bytes().repeat(32));
}

#[test]
fn processes_race_for_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "cuda::failures::a_process_of_a_race"]).env(FOLDER, folder.path());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let files = || -> Vec<_> {
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    for damage in [false, true] {
        // Also if each process finds a damaged file.
        files()
            .iter()
            .filter(|_| damage)
            .for_each(|path| std::fs::write(path, "ixionk01 and no more").unwrap());
        let racing: Vec<_> = (0..4).map(|_| start()).collect();
        for process in racing {
            let ended = process.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.success() && said.contains("1 passed"), "{said}");
        }
        let left = files();
        assert_eq!(left.len(), 1, "{left:?}");
        let written = left[0].metadata().unwrap().modified().unwrap();
        assert_eq!(run(folder.path()).unwrap(), 7f32.to_le_bytes().repeat(32));
        assert_eq!(left[0].metadata().unwrap().modified().unwrap(), written, "the file was complete");
    }
}
