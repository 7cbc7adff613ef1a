//! Layers that run again with inputs of the same shapes do not allocate; building a plan takes little more than its weights.

use crate::common::calls::{Call, each_call};
use crate::common::parallel::each_of;
use crate::common::runnable_cases;
use ixion::engine::Builder;
use ixion::pnnx::ArchiveWriter;
use ixion::tensor::{DType, Tensor};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Cursor;

/// The system allocator, with a count of the allocations of each thread, and of their bytes.
struct Counting;

/// The bytes that a thread has allocated and not freed. Another thread may have allocated what it frees.
#[derive(Clone, Copy)]
struct Bytes {
    now: isize,
    most: isize,
}

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<Bytes> = const { Cell::new(Bytes { now: 0, most: 0 }) };
}

fn count_one(layout: Layout) {
    COUNT.set(COUNT.get() + 1);
    let Bytes { now, most } = BYTES.get();
    let now = now.wrapping_add_unsigned(layout.size());
    BYTES.set(Bytes { now, most: most.max(now) });
}

fn count_freed(layout: Layout) {
    let bytes = BYTES.get();
    BYTES.set(Bytes { now: bytes.now.wrapping_sub_unsigned(layout.size()), ..bytes });
}

// SAFETY: all calls are forwarded to the system allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one(layout);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_one(layout);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_freed(layout);
        // SAFETY: guaranteed by the caller.
        count_one(unsafe { Layout::from_size_align_unchecked(size, layout.align()) });
        // SAFETY: guaranteed by the caller.
        unsafe { System.realloc(place, layout, size) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count_freed(layout);
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts the allocations of a function.
fn allocations(run: impl FnOnce()) -> usize {
    let before = COUNT.get();
    run();
    COUNT.get() - before
}

/// The most bytes that a function has allocated at any time.
fn most_bytes(run: impl FnOnce()) -> isize {
    let before = BYTES.get().now;
    BYTES.set(Bytes { now: before, most: before });
    run();
    BYTES.get().most - before
}

/// Returns true if all inputs are contiguous and either f32 or indices, as in typical networks.
fn is_usual(call: &Call) -> bool {
    let usual = |dtype| matches!(dtype, DType::F32 | DType::I64 | DType::Bool);
    let is_usual = call.inputs.iter().all(|input| usual(input.dtype()) && input.layout().is_contiguous());
    is_usual && call.outputs.first().is_some_and(|output| output.dtype() == DType::F32)
}

/// Returns true if all outputs are views, so that nothing is computed.
fn is_view(call: &Call) -> bool {
    let layouts: Vec<_> = call.inputs.iter().map(|input| (input.dtype(), *input.layout())).collect();
    let view = call.layer.view_of(0, &layouts, call.outputs[0].shape());
    call.inputs.is_empty() || view.unwrap().is_some()
}

/// The maximum number of allocations in a second run, per operator type.
fn steady_allocations() -> BTreeMap<String, (usize, String)> {
    let counts = each_of(&runnable_cases(), |folder| {
        let mut counts = Vec::new();
        each_call(folder, |mut call| {
            if !is_usual(&call) || call.layer.is_data_dependent() || is_view(&call) {
                return;
            }
            let count = call.forward_within(|forward| allocations(|| forward().unwrap()));
            counts.push((call.op_type, (count, call.place)));
        });
        counts
    });
    let mut most: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for (op_type, count) in counts.into_iter().flatten() {
        let entry = most.entry(op_type).or_default();
        if count.0 >= entry.0 {
            *entry = count;
        }
    }
    most
}

#[test]
fn allocations_are_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
    assert_eq!(allocations(|| _ = std::hint::black_box(1)), 0);
    let twice = || (0..2).for_each(|_| drop(std::hint::black_box(vec![1u8; 1000])));
    assert_eq!(most_bytes(twice), 1000);
}

/// Operator types that never allocate after their first run.
const STEADY: &[&str] = &[
    "nn.ReLU",
    "nn.GELU",
    "nn.SiLU",
    "nn.Hardswish",
    "nn.LeakyReLU",
    "nn.Sigmoid",
    "nn.Tanh",
    "nn.PReLU",
    "nn.BatchNorm2d",
    "nn.LayerNorm",
    "nn.GroupNorm",
    "nn.InstanceNorm2d",
    "nn.RMSNorm",
    "nn.Softmax",
    "nn.LogSoftmax",
    "nn.AvgPool2d",
    "nn.AdaptiveAvgPool2d",
    "nn.Upsample",
    "torch.sum",
    "torch.amax",
    "torch.var",
    "nn.Embedding",
    "torch.index_select",
    "torch.clamp",
];

/// The whole engine: a run with known shapes into existing buffers.
#[test]
fn a_steady_run_of_a_model_allocates_nothing() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file");
    for (file, shape) in [
        ("linear/linear.pnnx.param", &[1, 32][..]),
        ("conv3/conv3.pnnx.param", &[1, 3, 32, 32]),
        ("digits/digits.pnnx.param", &[1, 1, 8, 8]),
        ("digits/digits.pnnx.param", &[7, 1, 8, 8]),
        ("shapes_unet/shapes_unet.pnnx.param", &[1, 3, 128, 128]),
        ("resnet18/resnet18.pnnx.param", &[1, 3, 64, 64]),
    ] {
        let builder = Builder::new(root.join(file));
        let has_weights = root.join(file).with_extension("bin").is_file();
        let plan = if has_weights { builder } else { builder.with_random_weights(1) }.build().unwrap();
        let mut context = plan.context().unwrap();
        let input = Tensor::randn(shape, 7).unwrap();
        let mut run = || {
            let outputs = context.run_reusing(&[input.view()]);
            assert!(outputs.is_ok(), "{file}: {outputs:?}");
        };
        run();
        run();
        let count = allocations(&mut run);
        assert_eq!(count, 0, "{file} allocates {count} times");
    }
}

/// Building a plan needs memory for the packed weights, but not for all those of the file at the same time.
#[test]
fn weights_of_a_file_are_read_a_few_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let param = folder.path().join("linear.pnnx.param");
    let text = "7767517\n3 2\npnnx.Input x 0 1 x #x=(1,1024)f32\n\
        nn.Linear a 1 1 x y bias=False in_features=1024 out_features=2048 @weight=(2048,1024)f32 #y=(1,2048)f32\n\
        pnnx.Output y 1 0 y\n";
    std::fs::write(&param, text).unwrap();
    let weights = vec![0u8; 2048 * 1024 * 4];
    let mut archive = ArchiveWriter::new(Cursor::new(Vec::new()));
    archive.add("a.weight", &weights).unwrap();
    std::fs::write(param.with_extension("bin"), archive.finish().unwrap().into_inner()).unwrap();
    let mut plan = None;
    let most = most_bytes(|| plan = Some(Builder::new(&param).with_threads(1).build().unwrap()));
    assert_eq!(plan.unwrap().weight_bytes(), weights.len() as u64);
    let len = weights.len() as isize;
    assert!((len..len + len / 2).contains(&most), "{most} bytes for {len} of weights");
}

#[test]
fn a_second_run_allocates_nothing() {
    let counts = steady_allocations();
    for &op_type in STEADY {
        let (count, place) = counts.get(op_type).unwrap_or_else(|| panic!("no case of {op_type}"));
        assert_eq!(*count, 0, "{place} allocates");
    }
}
