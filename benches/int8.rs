//! int8 convolutions and products compared with `f32`, on one thread. The efficiencies of the layers are based on these
//! measurements: `i8` is row-major, `bytes` has channels innermost and packed weights.
//!
//! ```sh
//! cargo bench --bench int8
//! ```

#![allow(missing_docs, clippy::unwrap_used, reason = "a bench that cannot run should stop")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ixion::Limits;
use ixion::kernels::blocked::BlockedShape;
use ixion::kernels::conv::{ConvPlan, ConvShape, Factors};
use ixion::kernels::gemm::gemm;
use ixion::kernels::quantization::{Quantization, Requantization};
use ixion::kernels::quantized::{
    ByColumn, ByRow, ByteConv, BytePanels, ByteWeights, Bytes, ChannelFactors, Finish, Int8Conv, Outputs,
    PanelKind, Rows, Strips, ZeroPoint, centered, multiply_bytes, product,
};
use ixion::kernels::window::Window;
use ndarray::Array2;
use std::hint::black_box;
use std::sync::Arc;

const LIMITS: Limits = Limits {
    max_tensor_bytes: u64::MAX,
    max_total_bytes: u64::MAX,
    max_ops: usize::MAX,
    max_rank: 8,
    deadline: None,
    cancel: None,
};

fn requantizations(count: usize) -> Vec<Requantization> {
    let output = Quantization { scale: 1.0, zero_point: 0, range: [-127, 127] };
    vec![Requantization { multiplier: 1e-3, bias: 0.0, output }; count]
}

fn int8s(count: usize) -> Vec<i8> {
    (0..count).map(|at| (at * 37 % 255) as i8).collect()
}

fn floats(count: usize) -> Vec<f32> {
    int8s(count).into_iter().map(f32::from).collect()
}

/// Packed weights, in the order of `int8s`.
fn packed(kind: PanelKind) -> ByteWeights {
    let values = int8s(kind.outputs() * kind.depth());
    let panels = BytePanels::new(kind, |output, k| values[output * kind.depth() + k]).unwrap();
    let factors = ChannelFactors { start: 0, offset: 0.0, multiplier: 1e-3 };
    ByteWeights::new(Arc::new(panels), ZeroPoint::I8(0), |_| factors)
}

/// Channels, output channels, groups, length of both axes, kernel and stride.
const CONVS: [[usize; 6]; 8] = [
    [3, 64, 1, 224, 7, 2],
    [64, 64, 1, 56, 3, 1],
    [128, 128, 1, 28, 3, 1],
    [512, 512, 1, 7, 3, 1],
    [256, 64, 1, 56, 1, 1],
    [64, 256, 1, 56, 1, 1],
    [24, 24, 1, 32, 3, 1],
    [96, 96, 96, 56, 3, 1],
];

fn convolutions(c: &mut Criterion) {
    for [channels, out_channels, groups, len, kernel, stride] in CONVS {
        let pad = kernel / 2;
        let window = Window { kernel, stride, dilation: 1, pad_before: pad, pad_after: pad };
        let shape =
            ConvShape { channels, out_channels, groups, lens: vec![len, len], windows: vec![window; 2] };
        let depth = channels / groups * kernel * kernel;
        let name = format!("{channels}x{len}x{len} to {out_channels}, {kernel}x{kernel}/{stride} g{groups}");
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(shape.macs()));
        let plan = ConvPlan::new(shape.clone(), 4);
        let [sample, out_sample] = plan.sample();
        let (input, weight) = (floats(sample), floats(out_channels * depth));
        let (mut output, mut scratch) = (vec![0.0; out_sample], vec![0.0; plan.scratch()]);
        group.bench_function("f32", |b| {
            let factors = Factors { weight: &weight, bias: None, epilogue: None };
            b.iter(|| plan.run(black_box(&input), &factors, &mut output, &mut scratch, &LIMITS).unwrap());
        });
        let conv = Int8Conv::new(shape);
        let weight = Rows::new(&centered(&int8s(out_channels * depth), 0), [out_channels, depth]);
        let (input, how, mut output) =
            (int8s(sample), ByRow(requantizations(out_channels)), vec![0i8; out_sample]);
        group.bench_function("i8", |b| {
            b.iter(|| {
                let input = centered(black_box(&input), 0);
                conv.run(&input, &weight, &how, &mut output, &LIMITS).unwrap();
            });
        });
        let conv = ByteConv::new(BlockedShape {
            channels,
            out_channels,
            groups,
            lens: [len; 2],
            windows: [window; 2],
        });
        let weights = packed(conv.kind());
        group.bench_function("bytes", |b| {
            b.iter(|| {
                let (input, output) = (Bytes::from(black_box(&input[..])), Outputs::I8(&mut output));
                conv.run(input, &weights, &Finish::NONE, output, &LIMITS).unwrap();
            });
        });
        group.finish();
    }
}

/// Rows, features and outputs.
const PRODUCTS: [[usize; 3]; 3] = [[1, 1024, 1024], [64, 512, 512], [197, 768, 3072]];

fn products(c: &mut Criterion) {
    for [rows, depth, outputs] in PRODUCTS {
        let mut group = c.benchmark_group(format!("{rows}x{depth} to {outputs}"));
        group.throughput(Throughput::Elements((rows * depth * outputs) as u64));
        let matrix = |rows, columns| Array2::from_shape_vec((rows, columns), floats(rows * columns)).unwrap();
        let (x, w, mut y) = (matrix(rows, depth), matrix(outputs, depth), matrix(rows, outputs));
        group.bench_function("f32", |b| b.iter(|| gemm(black_box(x.view()), w.t(), y.view_mut(), false)));
        let strips = Strips::of_rows(&Rows::new(&centered(&int8s(outputs * depth), 0), [outputs, depth]));
        let (x, how, mut y) =
            (int8s(rows * depth), ByColumn(requantizations(outputs)), vec![0i8; rows * outputs]);
        group.bench_function("i8", |b| {
            b.iter(|| {
                let x = Rows::new(&centered(black_box(&x), 0), [rows, depth]);
                product(&x, &strips, &how, &mut y, &LIMITS).unwrap();
            });
        });
        let weights = packed(PanelKind::Product { groups: 1, outputs, depth });
        group.bench_function("bytes", |b| {
            b.iter(|| {
                let (x, y) = (Bytes::from(black_box(&x[..])), Outputs::I8(&mut y));
                multiply_bytes(rows, x, &weights, &Finish::NONE, y, &LIMITS).unwrap();
            });
        });
        group.finish();
    }
}

criterion_group!(benches, convolutions, products);
criterion_main!(benches);
