//! Compares convolutions on plain and on blocked tensors, and layers in each element type: `cargo bench --bench layouts`.
//!
//! The values of [`CpuLayer::efficiency`](ixion::op::CpuLayer::efficiency) are based on these measurements.

#![allow(missing_docs, clippy::expect_used, reason = "a bench that cannot run should stop")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ixion::Limits;
use ixion::engine::{Builder, Formats, Precision};
use ixion::kernels::blocked::{BlockedShape, Blocking, DenseConv, DenseMethod, DenseWeights, DepthwiseConv};
use ixion::kernels::conv::{ConvPlan, ConvShape, Factors};
use ixion::kernels::isa;
use ixion::kernels::packed::{Packing, SumEpilogue};
use ixion::kernels::window::Window;
use ixion::pnnx;
use ixion::tensor::Tensor;

/// Input channels, output channels, image size, kernel size and stride; and whether the convolution is depthwise.
const CASES: [(&str, [usize; 5], bool); 7] = [
    ("depthwise 3x3", [96, 96, 56, 3, 1], true),
    ("depthwise 3x3 stride 2", [96, 96, 112, 3, 2], true),
    ("depthwise 5x5", [240, 240, 14, 5, 1], true),
    ("3x3", [64, 64, 56, 3, 1], false),
    ("3x3 small", [256, 256, 14, 3, 1], false),
    ("1x1", [64, 256, 56, 1, 1], false),
    ("3x3 stride 2", [64, 128, 56, 3, 2], false),
];

fn convolutions(criterion: &mut Criterion) {
    let limits = Limits::default();
    for (name, [channels, out_channels, side, kernel, stride], is_depthwise) in CASES {
        let window = Window { kernel, stride, dilation: 1, pad_before: kernel / 2, pad_after: kernel / 2 };
        let groups = if is_depthwise { channels } else { 1 };
        let plain =
            ConvShape { channels, out_channels, groups, lens: vec![side; 2], windows: vec![window; 2] };
        let blocked = BlockedShape { channels, out_channels, groups, lens: [side; 2], windows: [window; 2] };
        let noise = |len: usize| (0..len).map(|i| (i % 17) as f32 * 0.1 - 0.8).collect::<Vec<f32>>();
        let weight = noise(out_channels * channels / groups * kernel * kernel);
        let outputs: usize = blocked.outputs().iter().product();
        let macs = weight.len() * outputs;
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(macs as u64)).sample_size(20);

        let plan = ConvPlan::new(plain, 4);
        let (input, mut output) = (noise(channels * side * side), vec![0.0; out_channels * outputs]);
        let mut scratch = vec![0.0; plan.scratch()];
        group.bench_function(BenchmarkId::from_parameter("plain"), |bencher| {
            let factors = Factors { weight: &weight, bias: None, epilogue: None };
            bencher.iter(|| plan.run(&input, &factors, &mut output, &mut scratch, &limits).expect("it runs"));
        });

        let block = isa().lanes();
        let [inputs, outputs] = blocked.sample(block);
        let (input, mut output) = (noise(inputs), vec![0.0; outputs]);
        if is_depthwise {
            let conv = DepthwiseConv::new(blocked.clone(), block).expect("there is a kernel");
            let weights = conv.weights(&weight, None);
            group.bench_function("blocked", |bencher| {
                let mut run = || conv.run(&input, &weights, &mut output, &SumEpilogue::NONE, &limits);
                bencher.iter(|| run().expect("it runs"));
            });
            continue;
        }
        for (name, packing) in [("blocked", Packing::F32), ("blocked bf16", Packing::Bf16Pairs)] {
            let method = DenseMethod { blocking: Blocking { block, is_input_blocked: true }, packing };
            let Some(weights) = DenseWeights::new(&blocked, (&weight, None), method) else { continue };
            let conv = DenseConv::new(blocked.clone(), method);
            let mut scratch = vec![0.0; conv.scratch()];
            group.bench_function(name, |bencher| {
                let mut run =
                    || conv.run(&input, &weights, &mut output, &mut scratch, &SumEpilogue::NONE, &limits);
                bencher.iter(|| run().expect("it runs"));
            });
        }
    }
}

/// The name, the line of a `.param` file, and the shape of the input.
const LAYERS: [(&str, &str, &[usize]); 4] = [
    (
        "linear, 1 row",
        "nn.Linear layer 1 1 x y bias=False in_features=2048 out_features=2048 @weight=(2048,2048)f32",
        &[1, 2048],
    ),
    (
        "linear, 64 rows",
        "nn.Linear layer 1 1 x y bias=False in_features=1024 out_features=1024 @weight=(1024,1024)f32",
        &[64, 1024],
    ),
    (
        "convolution 3x3",
        "nn.Conv2d layer 1 1 x y bias=False dilation=(1,1) groups=1 in_channels=64 kernel_size=(3,3) out_channels=64 \
         padding=(1,1) padding_mode=zeros stride=(1,1) @weight=(64,64,3,3)f32",
        &[1, 64, 56, 56],
    ),
    ("activation", "nn.GELU layer 1 1 x y", &[1, 64, 56, 56]),
];

fn precisions(criterion: &mut Criterion) {
    for (name, line, dims) in LAYERS {
        let mut group = criterion.benchmark_group(name);
        group.sample_size(20);
        for precision in [Precision::F32, Precision::F16, Precision::Bf16] {
            let list = dims.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            let text =
                format!("7767517\n3 0\npnnx.Input in 0 1 x #x=({list})f32\n{line}\npnnx.Output out 1 0 y\n");
            let graph = pnnx::Graph::parse(&text, &Limits::default()).expect("the text is a graph");
            let plan = Builder::from_pnnx(graph)
                .with_random_weights(1)
                .with_precisions([precision])
                .with_formats(if precision == Precision::F32 { Formats::Plain } else { Formats::Narrowest })
                .build()
                .expect("it can be built");
            let input =
                Tensor::from_vec(vec![0.5f32; dims.iter().product()], dims).expect("as many as its shape");
            let mut context = plan.context().expect("there is memory");
            group.bench_function(BenchmarkId::from_parameter(precision), |bencher| {
                bencher.iter(|| context.run(std::slice::from_ref(&input)).expect("it runs"));
            });
        }
        group.finish();
    }
}

/// A thousand operators with branches that join again, all of which support plain and blocked tensors.
fn pools(count: usize) -> pnnx::Graph {
    let pool = "ceil_mode=False count_include_pad=True divisor_override=None kernel_size=(3,3) padding=(1,1) stride=(1,1)";
    let (mut lines, mut last) = (vec!["pnnx.Input in 0 1 x #x=(1,32,16,16)f32".to_owned()], "x".to_owned());
    for step in 0..count / 3 {
        lines.push(format!("nn.AvgPool2d a{step} 1 1 {last} a{step} {pool}"));
        lines.push(format!("nn.AvgPool2d b{step} 1 1 a{step} b{step} {pool}"));
        lines.push(format!("pnnx.Expression c{step} 2 1 b{step} {last} c{step} expr=add(@0,@1)"));
        last = format!("c{step}");
    }
    lines.push(format!("pnnx.Output out 1 0 {last}"));
    let text = format!("7767517\n{} 0\n{}\n", lines.len(), lines.join("\n"));
    pnnx::Graph::parse(&text, &Limits::default()).expect("the text is a graph")
}

/// The cost of selecting formats is the difference between building with one format and with several.
fn format_selection(criterion: &mut Criterion) {
    let graph = pools(1000);
    let mut group = criterion.benchmark_group("build 1000 operators");
    group.sample_size(10);
    for (name, formats, precisions) in [
        ("1 format", Formats::Plain, &[][..]),
        ("3 formats", Formats::Cheapest, &[]),
        ("6 formats", Formats::Cheapest, &[Precision::F16]),
    ] {
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| {
                let builder = Builder::from_pnnx(graph.clone()).with_formats(formats.clone());
                builder.with_precisions(precisions.iter().copied()).build().expect("it can be built")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, convolutions, precisions, format_selection);
criterion_main!(benches);
