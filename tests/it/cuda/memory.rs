//! A full device: scratch memory is given up first, and after an out-of-memory error a context still runs what fits.

use super::{noise, one};
use ixion::Limits;
use ixion::cuda::device::{CudaError, Device, KernelCache};
use ixion::cuda::emulator::Emulator;
use ixion::cuda::{CudaLayers, Tf32};
use ixion::engine::{Builder, Context, EngineError, TimingCache};
use ixion::pnnx::Graph;
use ixion::tensor::{DType, Tensor};
use std::sync::Arc;

fn device(bytes: u64) -> Device {
    let cache = KernelCache::in_folder(concat!(env!("CARGO_TARGET_TMPDIR"), "/kernels"));
    Emulator::new().with_cache(cache).with_memory(bytes).open().unwrap()
}

fn context(text: &str, device: Option<&Device>) -> Context<'static> {
    let builder = Builder::from_pnnx(Graph::parse(text, &Limits::default()).unwrap()).with_random_weights(1);
    let builder = match device {
        Some(device) => builder.with_device(device.clone(), CudaLayers::default().with_tf32(Tf32::ALL)),
        None => builder,
    };
    Context::shared(Arc::new(builder.build().unwrap())).unwrap()
}

/// A product that would be split along its depth if there were enough memory.
fn deep() -> (String, [Tensor; 2]) {
    let inputs = [noise(DType::F32, &[20, 2000], 1), noise(DType::F32, &[2000, 30], 2)];
    (one("torch.matmul m 2 1 x x1 y $input=x $other=x1", &inputs), inputs)
}

#[test]
fn scratch_memory_is_given_up() {
    let (text, inputs) = deep();
    let wanted = context(&text, None).run(&inputs).unwrap();
    let mut launches = Vec::new();
    // Two inputs of 400 KB, and 2 MB of scratch memory if there is room.
    for bytes in [16 << 20, 1 << 20] {
        let device = device(bytes);
        let mut context = context(&text, Some(&device));
        for _ in 0..3 {
            let found = context.run(&inputs).unwrap();
            let comparison = found[0].allclose(&wanted[0], 2e-2, 2e-2, true).unwrap();
            assert!(comparison.holds(), "{comparison}");
        }
        launches.push(device.launches());
        assert!(device.allocated() as u64 <= bytes);
        drop(context);
        assert_eq!((device.allocated(), device.allocations()), (0, 0));
    }
    assert_eq!(launches, [6, 3], "partial sums are added if there are any");
}

fn is_out_of_memory(error: &EngineError) -> bool {
    let EngineError::Device(source) = error else { return false };
    matches!(source.downcast_ref(), Some(CudaError::OutOfMemory { wanted: 1.., .. }))
}

#[test]
fn a_context_runs_what_fits() {
    let lines = "torch.matmul m 2 1 x w a $input=x $other=w\nF.relu r 1 1 a y";
    let text = format!(
        "7767517\n5 4\npnnx.Input in 0 1 x #x=(?,64)f32\npnnx.Input in1 0 1 w #w=(64,64)f32\n{lines}\npnnx.Output out 1 0 y\n"
    );
    let device = device(1 << 20);
    let mut context = context(&text, Some(&device));
    let w = noise(DType::F32, &[64, 64], 2);
    let mut held = None;
    for (rows, fits) in
        [(8, true), (4000, false), (8, true), (16, true), (4000, false), (9000, false), (8, true)]
    {
        let ended = context.run(&[noise(DType::F32, &[rows, 64], 1), w.clone()]);
        match ended {
            Ok(found) => assert!(fits && found[0].shape().dims() == [rows, 64]),
            Err(error) => assert!(!fits && is_out_of_memory(&error), "{error}"),
        }
        if fits {
            assert_eq!(*held.get_or_insert(device.allocations()), device.allocations());
        }
    }
    drop(context);
    assert_eq!((device.allocated(), device.allocations()), (0, 0));
}

#[test]
fn there_may_be_no_room_for_weights_or_a_context() {
    let line = "nn.Linear l 1 1 x y bias=False in_features=64 out_features=64 @weight=(64,64)f32";
    let text = format!("7767517\n3 2\npnnx.Input in 0 1 x #x=(?,64)f32\n{line}\npnnx.Output out 1 0 y\n");
    let graph = Graph::parse(&text, &Limits::default()).unwrap();
    for (bytes, is_built) in [(1000, false), (16_384, true)] {
        let device = device(bytes);
        let builder = Builder::from_pnnx(graph.clone()).with_random_weights(1);
        match builder.with_device(device.clone(), CudaLayers::default()).build() {
            Err(error) => assert!(!is_built && is_out_of_memory(&error), "{error}"),
            Ok(plan) => assert!(is_built && is_out_of_memory(&plan.context().unwrap_err())),
        }
        assert_eq!((device.allocated(), device.allocations()), (0, 0));
    }
}

#[test]
fn candidates_for_which_there_is_no_room_are_not_measured() {
    let (text, inputs) = deep();
    // Too little for scratch memory: only tactics without it are measured.
    let device = device(1 << 20);
    let builder = Builder::from_pnnx(Graph::parse(&text, &Limits::default()).unwrap());
    let builder = builder.with_device(device.clone(), CudaLayers::default().with_tf32(Tf32::ALL));
    let plan = builder.with_tuning(TimingCache::in_memory()).build().unwrap();
    let names: Vec<&str> = plan.selections()[0].candidates.iter().map(|it| it.tactic.name).collect();
    assert_eq!(names, ["tiles-128", "plain"]);
    plan.context().unwrap().run(&inputs).unwrap();
    drop(plan);
    assert_eq!((device.allocated(), device.allocations()), (0, 0));
}
