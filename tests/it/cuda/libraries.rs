//! Products, convolutions and transforms with libraries, on stand-ins for cuBLASLt, cuDNN and cuFFT.
//!
//! Libraries are loaded once per process: each test runs this program again, with one of its ignored tests.

use super::channels_last::{conv, graph, resnet};
use super::nvidia::{compile, libraries, on_stand_ins};
use super::{noise, one, plan, several};
use ixion::Limits;
use ixion::cuda::device::{Device, KernelCache};
use ixion::cuda::{CudaLayers, Tf32};
use ixion::engine::{Builder, Context};
use ixion::graph::RuntimeOperand;
use ixion::pnnx::{Dim, Graph};
use ixion::tensor::{DType, Format, Tensor};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, OnceLock};

/// The folder of the libraries other than the driver's; they are compiled once.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = libraries().join("beside");
        std::fs::create_dir_all(&folder).unwrap();
        let all =
            [("cublaslt", "libcublasLt.so.12"), ("cudnn", "libcudnn.so.9"), ("cufft", "libcufft.so.11")];
        compile(&all, &folder);
        folder
    })
}

/// Makes a program find all of the libraries.
fn beside(command: &mut Command) -> &mut Command {
    let path = format!("{}:{}", folder().display(), libraries().display());
    on_stand_ins(command).env("LD_LIBRARY_PATH", path)
}

/// Runs an ignored test of this program with the libraries and returns the lines that they logged.
fn run(name: &str, settings: &[(&str, &str)]) -> (Output, Vec<String>) {
    let calls = folder().join(format!("{}-{}", name.replace("::", "-"), settings.len()));
    let _ = std::fs::remove_file(&calls);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]);
    let output = beside(&mut command).env("STAND_IN_CALLS", &calls).envs(settings.iter().copied()).output();
    let output = output.unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    let calls = std::fs::read_to_string(&calls).unwrap_or_default();
    (output, calls.lines().map(str::to_owned).collect())
}

/// The GPU of an ignored test.
fn gpu() -> Device {
    let folder = PathBuf::from(std::env::var_os("STAND_IN_FOLDER").unwrap()).join("kernels");
    ixion::cuda::open("cuda", KernelCache::in_folder(folder), false).unwrap()
}

/// Runs a graph on the CPU and on the GPU and compares the results, of the first run and of later runs, which replay a graph.
fn same(graph: &str, inputs: &[Tensor], tf32: Tf32, tolerance: f64) {
    let wanted = Context::shared(Arc::new(plan(graph, None))).unwrap().run(inputs).unwrap();
    let layers = CudaLayers::default().with_tf32(tf32);
    let mut context = Context::shared(Arc::new(plan(graph, Some((&gpu(), &layers))))).unwrap();
    for run in 0..3 {
        let found = context.run(inputs).unwrap_or_else(|error| panic!("{error}\n{graph}"));
        assert!(context.on_cpu().is_empty(), "{graph}");
        for (found, wanted) in found.iter().zip(&wanted) {
            let comparison = found.allclose(wanted, tolerance, tolerance, true).unwrap();
            assert!(comparison.holds(), "run {run}: {comparison}\n{graph}");
        }
    }
}

#[test]
fn libraries_are_listed() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ixion"));
    let listed = beside(command.arg("devices")).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let listed = listed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(listed.contains("NVRTC 12.9, cuBLASLt 12.9, cuDNN 9.2, cuFFT 11.4"), "{listed}");
}

#[test]
fn products_are_the_librarys() {
    let (_, calls) = run("cuda::libraries::compute_products", &[]);
    let count = |text: &str| calls.iter().filter(|call| call.contains(text)).count();
    // Each of them in all three runs.
    for wanted in [
        "product 5x7x6 of 1, compute 68, epilogue 4",
        "product 5x7x6 of 1, compute 68, epilogue 6",
        "product 5x7x6 of 1, compute 68, epilogue 36",
        "product 4x8x6 of 6, compute 68, epilogue 1",
        "product 8x8x16 of 1, compute 77, epilogue 1",
        "product 3x7x7 of 1, compute 68, epilogue 4, sum",
        "product 64x256x256 of 1, compute 68, epilogue 4",
        "product 80x256x256 of 1, compute 68, epilogue 4",
    ] {
        assert!(count(wanted) >= 3, "{wanted}\n{}", calls.join("\n"));
    }
}

#[test]
fn a_library_that_does_not_begin_is_done_without() {
    let (output, calls) = run("cuda::libraries::compute_products", &[("STAND_IN_NO_CUBLASLT", "1")]);
    assert!(calls.is_empty(), "{calls:?} {output:?}");
}

#[test]
#[ignore = "run by other tests, with the libraries"]
fn compute_products() {
    let linear = |name: &str, shape: &[usize], dtype: DType, more: &[&str]| {
        let weights = format!("bias=True in_features=6 out_features=7 @weight=(7,6){dtype} @bias=(7){dtype}");
        let line = format!("nn.Linear {name} 1 1 x {} {weights}", if more.is_empty() { "y" } else { "z" });
        let lines: Vec<&str> = std::iter::once(line.as_str()).chain(more.iter().copied()).collect();
        let x = noise(dtype, shape, 1);
        let tolerance = if dtype == DType::F32 { 1e-5 } else { 2e-2 };
        same(&several(&lines, std::slice::from_ref(&x)), &[x], Tf32::NONE, tolerance);
    };
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        linear("linear", &[5, 6], dtype, &[]);
        linear("batched", &[2, 3, 6], dtype, &[]);
        linear("vector", &[6], dtype, &[]);
        linear("relu", &[5, 6], dtype, &["nn.ReLU r 1 1 z y"]);
        linear("tanh", &[5, 6], dtype, &["F.gelu g 1 1 z y approximate=tanh"]);
        // Our own kernel computes a small product with a function that the library does not support.
        linear("silu", &[5, 6], dtype, &["nn.SiLU s 1 1 z y"]);
    }
    // A sum is computed along with a product if the other tensor has the shape of the product at every size of the input.
    let with_sum = |[rows, len]: [usize; 2], dtype: DType, more: &[&str]| {
        let weights = format!("@weight=({len},{len}){dtype} @bias=({len}){dtype}");
        let linear = |[from, to]: [&str; 2]| {
            format!(
                "nn.Linear {to}_ 1 1 {from} {to} bias=True in_features={len} out_features={len} {weights}"
            )
        };
        let products = [linear(["x", "w"]), linear(["w", "z"])];
        let lines: Vec<&str> = products.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let inputs = [noise(dtype, &[rows, len], 1)];
        let tolerance = if dtype == DType::F32 { 1e-4 } else { 2e-2 };
        same(&several(&lines, &inputs), &inputs, Tf32::NONE, tolerance);
    };
    with_sum([3, 7], DType::F32, &["pnnx.Expression e 2 1 z w y expr=add(@0,@1)"]);
    // For a large product, a second pass does what the library does not support.
    let silu = ["pnnx.Expression e 2 1 z w v expr=add(@0,@1)", "nn.SiLU s 1 1 v y"];
    with_sum([64, 256], DType::F32, &silu);
    with_sum([80, 256], DType::F16, &silu);
    let product = |left: &[usize], right: &[usize], line: &str, tf32: Tf32| {
        let inputs = [noise(DType::F32, left, 1), noise(DType::F32, right, 2)];
        let tolerance = if tf32.products { 1e-2 } else { 1e-5 };
        same(&one(line, &inputs), &inputs, tf32, tolerance);
    };
    product(&[2, 3, 4, 6], &[2, 3, 6, 8], "torch.matmul m 2 1 x x1 y", Tf32::NONE);
    // One factor for the whole batch, and batch axes without a common stride.
    product(&[2, 3, 4, 6], &[6, 8], "torch.matmul m 2 1 x x1 y", Tf32::NONE);
    product(&[2, 1, 4, 6], &[1, 3, 6, 8], "torch.matmul m 2 1 x x1 y", Tf32::NONE);
    product(&[8, 16], &[16, 8], "torch.mm m 2 1 x x1 y", Tf32::ALL);
    let turned = ["torch.transpose t 1 1 x1 z dim0=0 dim1=1", "torch.matmul m 2 1 x z y"];
    let inputs = [noise(DType::F32, &[4, 6], 1), noise(DType::F32, &[8, 6], 2)];
    same(&several(&turned, &inputs), &inputs, Tf32::NONE, 1e-5);
    let added = [noise(DType::F32, &[4, 8], 3), noise(DType::F32, &[4, 6], 1), noise(DType::F32, &[6, 8], 2)];
    same(&one("torch.addmm m 3 1 x x1 x2 y beta=0.5 alpha=2.0", &added), &added, Tf32::NONE, 1e-5);
}

#[test]
fn convolutions_are_the_librarys() {
    let (_, calls) = run("cuda::libraries::compute_convolutions", &[]);
    for wanted in [
        "convolution to 2 16 12 10, groups 1",
        "convolution to 2 16 6 5, groups 1, relu",
        "convolution to 2 16 6 5, groups 1, sum, relu",
        "convolution to 2 32 3 3, groups 1",
        "convolution to 1 16 1 9, groups 1",
        "convolution to 1 16 5 14 12, groups 1",
        "convolution to 1 48 20 20, groups 1",
    ] {
        let count = calls.iter().filter(|call| call.contains(wanted)).count();
        assert!(count >= 3, "{wanted}\n{}", calls.join("\n"));
    }
}

#[test]
fn kernels_do_what_a_library_refuses_late() {
    let (output, calls) = run("cuda::libraries::compute_convolutions", &[("STAND_IN_CUDNN_REFUSES", "1")]);
    assert!(calls.iter().all(|call| call.starts_with("product")), "{calls:?} {output:?}");
}

#[test]
#[ignore = "run by other tests, with the libraries"]
fn compute_convolutions() {
    for (dtype, tolerance) in [(DType::F16, 3e-2), (DType::F32, 2e-2)] {
        let inputs = [noise(dtype, &[2, 3, 12, 10], 1)];
        same(&graph(&resnet(dtype), &inputs), &inputs, Tf32::default(), tolerance);
    }
    // A picture whose three channels are adjacent.
    let inputs = [noise(DType::F16, &[2, 12, 10, 3], 1)];
    let lines = [
        "torch.permute p 1 1 x v dims=(0,3,1,2)".to_owned(),
        conv("c", ["v", "a"], [3, 16, 3, 1], 1, DType::F16),
        "nn.ReLU r 1 1 a b".to_owned(),
        "torch.permute q 1 1 b y dims=(0,2,3,1)".to_owned(),
    ];
    same(&graph(&lines, &inputs), &inputs, Tf32::default(), 3e-2);
    // If there is much to compute, the channels of any picture are made adjacent.
    let inputs = [noise(DType::F16, &[1, 3, 8, 8], 1)];
    let lines = [
        conv("c", ["x", "a"], [3, 64, 7, 1], 2, DType::F16),
        conv("d", ["a", "y"], [64, 64, 3, 1], 1, DType::F16),
    ];
    let large = graph(&lines, &inputs).replace("(1,3,8,8)", "(64,3,224,224)");
    let planned = plan(&large, Some((&gpu(), &CudaLayers::default())));
    let is_picture = |it: &&RuntimeOperand| {
        let channels = it.shape().and_then(|dims| dims.get(1));
        channels == Some(&Dim::Fixed(3)) && it.format() == Format::ChannelsLast
    };
    assert!(planned.graph().operands().iter().any(|it| is_picture(&it)));
    // One and three spatial axes, dilated, and between two others, so that tensors are channels-last.
    let usual = "bias=True padding_mode=zeros in_channels=16 out_channels=16";
    let line = |name: &str, [x, y]: [&str; 2], axes: usize, keys: &str, weights: &str| {
        format!("nn.Conv{axes}d {name} 1 1 {x} {y} {usual} {keys} @bias=(16)f16 @weight=({weights})f16")
    };
    let plane = "groups=1 kernel_size=(3) stride=(1) padding=(2) dilation=(2)";
    let between = [("a", ["x", "v"]), ("b", ["v", "w"]), ("c", ["w", "y"])];
    let lines = between.map(|(name, places)| line(name, places, 1, plane, "16,16,3"));
    let inputs = [noise(DType::F16, &[1, 16, 9], 1)];
    same(&graph(&lines, &inputs), &inputs, Tf32::default(), 3e-2);
    let solid = "groups=1 kernel_size=(1,3,3) stride=(1,1,1) padding=(0,1,1) dilation=(1,1,1)";
    let lines = between.map(|(name, places)| line(name, places, 3, solid, "16,16,1,3,3"));
    let inputs = [noise(DType::F16, &[1, 16, 5, 14, 12], 1)];
    same(&graph(&lines, &inputs), &inputs, Tf32::default(), 3e-2);
    // A second pass, over channels-last tensors, does what the library does not support.
    let lines = [
        conv("a", ["x", "u"], [16, 32, 1, 1], 1, DType::F16),
        conv("b", ["u", "v"], [32, 48, 3, 1], 1, DType::F16),
        "nn.SiLU s 1 1 v w".to_owned(),
        conv("c", ["w", "y"], [48, 16, 1, 1], 1, DType::F16),
    ];
    let inputs = [noise(DType::F16, &[1, 16, 20, 20], 1)];
    same(&graph(&lines, &inputs), &inputs, Tf32::default(), 3e-2);
}

#[test]
fn transforms_are_the_librarys() {
    let (_, calls) = run("cuda::libraries::compute_transforms", &[]);
    let count = |text: &str| calls.iter().filter(|call| *call == text).count();
    let counts = ["transform of 10", "transform of 12", "transform of 2100"].map(count);
    assert!(counts[0] >= 12 && counts[1] >= 12 && counts[2] >= 12, "{counts:?}\n{}", calls.join("\n"));
}

#[test]
#[ignore = "run by other tests, with the libraries"]
fn compute_transforms() {
    let run = |dtype: DType, shape: &[usize], lines: &[&str]| {
        let x = noise(dtype, shape, 1);
        same(&several(lines, std::slice::from_ref(&x)), &[x], Tf32::NONE, 1e-4);
    };
    for dtype in [DType::F32, DType::F64] {
        // Along each of three axes; for the middle one, the data is copied.
        for axis in 0..3 {
            let forward = format!("torch.fft.rfft a 1 1 x v dim={axis} n=10 norm=ortho");
            let back = format!("torch.fft.irfft b 1 1 v y dim={axis} n=10 norm=backward");
            run(dtype, &[10, 11, 12], &[&forward, &back]);
        }
        let all = "torch.fft.fftn b 1 1 v y dim=(0,1,2) norm=forward s=None";
        run(dtype, &[10, 3, 12], &["torch.fft.fft a 1 1 x v dim=0 n=None norm=None", all]);
        run(
            dtype,
            &[12, 10],
            &[
                "torch.fft.rfft2 a 1 1 x v dim=(0,1) norm=None s=None",
                "torch.fft.ifft2 b 1 1 v y dim=(0,1) norm=None s=None",
            ],
        );
        // Too long for a block's shared memory.
        let long = "torch.fft.irfft b 1 1 v y dim=0 n=2100 norm=None";
        run(dtype, &[2100], &["torch.fft.rfft a 1 1 x v dim=0 n=None norm=None", long]);
        // Signals that are transposed, or not aligned to complex numbers.
        let turned = "torch.transpose t 1 1 x v dim0=0 dim1=1";
        run(dtype, &[3, 2, 2100], &[turned, "torch.fft.rfft a 1 1 v y dim=2 n=None norm=None"]);
        let odd = ["F.relu r 1 1 x u", "Tensor.slice s 1 1 u v dim=1 start=1 end=11 step=1"];
        run(dtype, &[2, 11], &[odd[0], odd[1], "torch.fft.rfft a 1 1 v y dim=1 n=None norm=None"]);
        // Signals shorter than the transform are padded with zeros.
        run(
            dtype,
            &[4, 6],
            &[
                "torch.fft.rfft a 1 1 x v dim=1 n=10 norm=None",
                "torch.fft.hfft b 1 1 v y dim=1 n=12 norm=None",
            ],
        );
    }
}

#[test]
fn other_tactics_do_without() {
    let (_, calls) = run("cuda::libraries::compute_by_kernels", &[]);
    assert!(calls.is_empty(), "{calls:?}");
}

#[test]
#[ignore = "run by other tests, with the libraries"]
fn compute_by_kernels() {
    for (dtype, tactic) in [(DType::F32, "plain"), (DType::F16, "tiles-64")] {
        let inputs = [noise(dtype, &[5, 6], 1), noise(dtype, &[6, 7], 2)];
        let graph = one("torch.mm m 2 1 x x1 y", &inputs);
        let wanted = plan(&graph, None).context().unwrap().run(&inputs).unwrap();
        let builder = Builder::from_pnnx(Graph::parse(&graph, &Limits::default()).unwrap());
        let builder = builder.with_device(gpu(), CudaLayers::default()).with_tactics([tactic]);
        let plan = builder.build().unwrap();
        assert!(plan.selections()[0].candidates.iter().all(|candidate| candidate.tactic.name == tactic));
        let found = plan.context().unwrap().run(&inputs).unwrap();
        let comparison = found[0].allclose(&wanted[0], 2e-2, 2e-2, true).unwrap();
        assert!(comparison.holds(), "{tactic}: {comparison}");
    }
}
