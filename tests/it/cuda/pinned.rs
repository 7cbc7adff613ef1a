//! Tensors in page-locked memory: they are like others, but are copied to and from a device without a detour.

use super::{emulators, noise, one, plan};
use ixion::cuda::CudaLayers;
use ixion::cuda::device::Device;
use ixion::cuda::emulator::Emulator;
use ixion::engine::Context;
use ixion::tensor::{DType, Tensor, TensorError};
use std::sync::Arc;

/// A copy of a tensor in page-locked memory.
fn pinned(device: &Device, tensor: &Tensor) -> Tensor {
    let mut copy = device.pinned(tensor.dtype(), tensor.shape()).unwrap();
    copy.view_mut().unwrap().copy_from(&tensor.view()).unwrap();
    copy
}

fn context(graph: &str, device: &Device) -> Context<'static> {
    Context::shared(Arc::new(plan(graph, Some((device, &CudaLayers::default()))))).unwrap()
}

#[test]
fn they_are_tensors_like_others() {
    let device = Emulator::new().open().unwrap();
    for dtype in DType::ALL {
        let mut tensor = device.pinned(dtype, &[3, 5]).unwrap();
        assert_eq!(tensor, Tensor::zeros(dtype, &[3, 5]).unwrap());
        let address = tensor.storage_id();
        let content = noise(DType::I64, &[3, 5], 1).cast(dtype).unwrap();
        tensor.view_mut().unwrap().copy_from(&content.view()).unwrap();
        assert_eq!((&tensor, tensor.storage_id()), (&content, address), "it is written in place");
        // A copy is made before one of two owners writes.
        let mut other = tensor.clone();
        other.view_mut().unwrap();
        assert_ne!(other.storage_id(), address);
        assert_eq!(tensor.permute(&[1, 0]).unwrap().permute(&[1, 0]).unwrap(), content);
    }
    assert_eq!(device.pinned(DType::F32, &[2, 0]).unwrap().num_elements(), 0);
    assert!(matches!(device.pinned(DType::F32, &[1 << 40, 1 << 40]), Err(TensorError::SizeOverflow { .. })));
    assert!(matches!(device.pinned(DType::U8, &[1 << 58]), Err(TensorError::OutOfMemory { .. })));
    assert_eq!((device.allocated(), device.allocations()), (0, 0), "none of it is the device's");
}

#[test]
fn results_are_the_same() {
    let inputs = [noise(DType::F32, &[30, 700], 1), noise(DType::F32, &[30, 700], 2)];
    let graph = one("pnnx.Expression e 2 1 x x1 y expr=add(@0,@1)", &inputs);
    let wanted = plan(&graph, None).context().unwrap().run(&inputs).unwrap();
    for device in emulators() {
        let mut context = context(&graph, device);
        let locked = inputs.each_ref().map(|input| pinned(device, input));
        for _ in 0..3 {
            assert_eq!(context.run(&locked).unwrap(), wanted);
            let views = locked.each_ref().map(Tensor::view);
            let found = context.run_reusing(&views).unwrap();
            assert_eq!(found[0].as_ref(), wanted.first());
        }
        // Permuted, in part, or given to `run_into`.
        let turned = pinned(device, &inputs[0].permute(&[1, 0]).unwrap()).permute(&[1, 0]).unwrap();
        assert_eq!(context.run(&[turned, inputs[1].clone()]).unwrap(), wanted);
        let mut output = device.pinned(DType::F32, &[30, 700]).unwrap();
        let views = locked.each_ref().map(Tensor::view);
        context.run_into(&views, &mut [output.view_mut().unwrap()]).unwrap();
        assert_eq!(output, wanted[0]);
    }
}

#[test]
fn they_outlive_the_device_and_move_to_other_threads() {
    let x = noise(DType::F32, &[20, 3], 1);
    let graph = one("F.relu r 1 1 x y", std::slice::from_ref(&x));
    let wanted = &plan(&graph, None).context().unwrap().run(std::slice::from_ref(&x)).unwrap();
    let device = Emulator::new().open().unwrap();
    let locked = pinned(&device, &x);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (mut context, locked) = (context(&graph, &device), locked.clone());
            scope.spawn(move || assert_eq!(&context.run(&[locked]).unwrap(), wanted));
        }
    });
    drop(device);
    assert_eq!(locked, x);
    std::thread::spawn(move || drop(locked)).join().unwrap();
}

#[cfg(all(feature = "cuda", feature = "cli", target_os = "linux"))]
mod on_a_gpu {
    use super::super::nvidia::{libraries, on_stand_ins};
    use super::*;
    use ixion::cuda::device::KernelCache;
    use std::path::PathBuf;
    use std::process::Command;

    /// The bytes that are copied at a time from memory that is not page-locked.
    const PART: usize = 512 << 10;

    /// Runs an ignored test of this program on the stand-in for the driver, and returns its copies.
    fn run(name: &str, settings: &[(&str, &str)]) -> Vec<String> {
        let copies = libraries().join(format!("copies-{name}"));
        let _ = std::fs::remove_file(&copies);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("cuda::pinned::on_a_gpu::{name}"), "--ignored", "--nocapture"]);
        let command = on_stand_ins(&mut command).env("STAND_IN_COPIES", &copies);
        let output = command.envs(settings.iter().copied()).output().unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        std::fs::read_to_string(&copies).unwrap().lines().map(str::to_owned).collect()
    }

    fn count(copies: &[String], what: &str, bytes: usize) -> usize {
        let line = format!("{what} of {bytes} bytes");
        copies.iter().filter(|copy| **copy == line).count()
    }

    fn gpu() -> Device {
        let folder = PathBuf::from(std::env::var_os("STAND_IN_FOLDER").unwrap()).join("kernels");
        ixion::cuda::open("cuda", KernelCache::in_folder(folder), false).unwrap()
    }

    /// An input of 3 MiB, the graph of a function of it, and the result.
    fn large() -> (Tensor, String, Vec<f32>) {
        let x = noise(DType::F32, &[6 * PART / 4], 1);
        let graph = one("F.relu r 1 1 x y", std::slice::from_ref(&x));
        let wanted = x.to_vec::<f32>().unwrap().iter().map(|x| x.max(0.0)).collect();
        (x, graph, wanted)
    }

    #[test]
    fn nothing_goes_through_other_memory() {
        let copies = run("copy_directly", &[]);
        assert_eq!(count(&copies, "upload", 6 * PART), 3, "{copies:?}");
        // The first run does not know that there will be others.
        assert_eq!(count(&copies, "download", 6 * PART), 2, "{copies:?}");
        assert_eq!(count(&copies, "download", PART), 6, "{copies:?}");
        assert_eq!(count(&copies, "upload", PART), 0, "{copies:?}");
        assert_eq!(count(&copies, "release", 6 * PART), 2, "{copies:?}");
    }

    #[test]
    #[ignore = "run by another test, with the stand-ins"]
    fn copy_directly() {
        let (x, graph, wanted) = large();
        let device = gpu();
        let mut locked = pinned(&device, &x);
        let mut context = context(&graph, &device);
        for _ in 0..3 {
            let found = context.run_reusing(&[locked.view()]).unwrap();
            assert_eq!(found[0].as_ref().unwrap().to_vec::<f32>().unwrap(), wanted);
            // After the run, the input may be overwritten.
            let mut view = locked.view_mut().unwrap();
            view.slice::<f32>().unwrap().fill(-1.0);
            view.copy_from(&x.view()).unwrap();
        }
        drop((context, device));
        assert_eq!(locked, x);
    }

    #[test]
    fn other_memory_is_copied_in_parts() {
        for name in ["copy_in_parts", "copy_in_parts_on_threads"] {
            let copies = run(name, &[]);
            assert_eq!(count(&copies, "upload", PART), 12, "{copies:?}");
            assert_eq!(count(&copies, "download", PART), 12, "{copies:?}");
            assert_eq!(count(&copies, "upload", 6 * PART), 0, "{copies:?}");
        }
    }

    fn copies_in_parts(threads: usize) {
        let (x, graph, wanted) = large();
        let graph = ixion::pnnx::Graph::parse(&graph, &ixion::Limits::default()).unwrap();
        let builder = ixion::engine::Builder::from_pnnx(graph).with_threads(threads);
        let plan = builder.with_device(gpu(), CudaLayers::default()).build().unwrap();
        let mut context = plan.context().unwrap();
        for _ in 0..2 {
            let found = context.run(std::slice::from_ref(&x)).unwrap();
            assert_eq!(found[0].to_vec::<f32>().unwrap(), wanted);
        }
    }

    #[test]
    #[ignore = "run by another test, with the stand-ins"]
    fn copy_in_parts() {
        copies_in_parts(1);
    }

    #[test]
    #[ignore = "run by another test, with the stand-ins"]
    fn copy_in_parts_on_threads() {
        copies_in_parts(3);
    }

    #[test]
    fn outputs_need_not_be_page_locked() {
        let copies = run("copy_with_little_locked_memory", &[("STAND_IN_LOCKABLE", "1000000")]);
        assert_eq!(count(&copies, "download", PART), 18, "{copies:?}");
        assert_eq!(count(&copies, "download", 6 * PART), 0, "{copies:?}");
    }

    #[test]
    #[ignore = "run by another test, with the stand-ins"]
    fn copy_with_little_locked_memory() {
        let (x, graph, wanted) = large();
        let device = gpu();
        assert!(matches!(device.pinned(x.dtype(), x.shape()), Err(TensorError::OutOfMemory { .. })));
        let mut context = context(&graph, &device);
        for _ in 0..3 {
            let found = context.run_reusing(&[x.view()]).unwrap();
            assert_eq!(found[0].as_ref().unwrap().to_vec::<f32>().unwrap(), wanted);
        }
    }

    #[test]
    fn inputs_have_been_read_when_a_run_fails() {
        run("fail_while_copying", &[("STAND_IN_REFUSED_UPLOAD", "40000")]);
    }

    /// The first input is on its way to the device when the driver refuses the second one.
    #[test]
    #[ignore = "run by another test, with the stand-ins"]
    fn fail_while_copying() {
        let device = gpu();
        let inputs = [noise(DType::F32, &[1000], 1), noise(DType::F32, &[10, 1000], 2)];
        let locked = inputs.each_ref().map(|input| pinned(&device, input));
        let mut context = context(&one("pnnx.Expression e 2 1 x x1 y expr=add(@0,@1)", &inputs), &device);
        context.run(&locked).unwrap_err();
        let copies = std::fs::read_to_string(std::env::var_os("STAND_IN_COPIES").unwrap()).unwrap();
        for step in ["upload", "arrival"] {
            assert!(copies.lines().any(|copy| copy == format!("{step} of 4000 bytes")), "{copies}");
        }
    }

    #[test]
    fn an_input_may_be_dropped_after_a_failed_run() {
        let copies = run("fail_and_drop", &[]);
        assert_eq!(count(&copies, "release", 8 * 1000), 4, "{copies:?}");
    }

    #[test]
    #[ignore = "run by another test, with the stand-ins"]
    fn fail_and_drop() {
        let device = gpu();
        let indices = Tensor::from_vec(vec![9i64; 1000], &[1000]).unwrap();
        let line = "nn.Embedding e 1 1 x y num_embeddings=5 embedding_dim=3 @weight=(5,3)f32";
        let mut context = context(&one(line, std::slice::from_ref(&indices)), &device);
        for _ in 0..4 {
            context.run(&[pinned(&device, &indices)]).unwrap_err();
        }
    }
}
