//! Measures shape inference for ResNet-50: the first time, with unchanged shapes, and with a changed input.
//!
//! The network has an eighth of the original's channels, because weights do not matter here.

#![allow(missing_docs, clippy::unwrap_used, reason = "a bench fails by panicking")]

use criterion::{Criterion, criterion_group, criterion_main};
use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::op::TensorMeta;
use ixion::pnnx::Graph;
use ixion::shape::Shapes;
use ixion::tensor::DType;
use std::fmt::Write;
use std::hint::black_box;

/// The lines of a graph; the last operand is the one that the next operator reads.
struct Lines {
    text: String,
    operators: usize,
    last: usize,
}

impl Lines {
    fn add(&mut self, op_type: &str, inputs: &[usize], params: &str) -> usize {
        self.operators += 1;
        let names: Vec<String> = inputs.iter().map(usize::to_string).collect();
        let (name, output, count) = (self.operators, self.operators, inputs.len());
        writeln!(self.text, "{op_type} op_{name} {count} 1 {} {output} {params}", names.join(" ")).unwrap();
        self.last = output;
        output
    }

    fn conv(&mut self, x: usize, [inputs, outputs]: [usize; 2], kernel: usize, stride: usize) -> usize {
        let padding = kernel / 2;
        let params = format!(
            "in_channels={inputs} out_channels={outputs} kernel_size=({kernel},{kernel}) stride=({stride},{stride}) \
             padding=({padding},{padding}) dilation=(1,1) groups=1 padding_mode=zeros bias=True \
             @weight=({outputs},{inputs},{kernel},{kernel})f32 @bias=({outputs})f32"
        );
        self.add("nn.Conv2d", &[x], &params)
    }
}

fn resnet50() -> RuntimeGraph {
    let mut lines = Lines { text: String::new(), operators: 0, last: 0 };
    let stem = lines.conv(0, [3, 8], 7, 2);
    let params =
        "kernel_size=(3,3) stride=(2,2) padding=(1,1) dilation=(1,1) return_indices=False ceil_mode=False";
    let mut x = lines.add("nn.MaxPool2d", &[stem], params);
    let mut channels = 8;
    for (stage, blocks) in [3usize, 4, 6, 3].into_iter().enumerate() {
        let (narrow, wide) = (8 << stage, 32 << stage);
        for block in 0..blocks {
            let stride = if block == 0 && stage > 0 { 2 } else { 1 };
            let a = lines.conv(x, [channels, narrow], 1, 1);
            let b = lines.conv(a, [narrow, narrow], 3, stride);
            let c = lines.conv(b, [narrow, wide], 1, 1);
            let shortcut = if block == 0 { lines.conv(x, [channels, wide], 1, stride) } else { x };
            x = lines.add("pnnx.Expression", &[c, shortcut], "expr=relu(add(@0,@1))");
            channels = wide;
        }
    }
    let pooled = lines.add("nn.AdaptiveAvgPool2d", &[x], "output_size=(1,1)");
    let flat = lines.add("torch.flatten", &[pooled], "start_dim=1 end_dim=-1");
    let params = "in_features=256 out_features=100 bias=True @weight=(100,256)f32 @bias=(100)f32";
    let logits = lines.add("nn.Linear", &[flat], params);
    let (text, count) = (lines.text, lines.operators + 2);
    let text = format!(
        "7767517\n{count} 0\npnnx.Input x 0 1 0 #0=(?,3,?,?)f32\n{text}pnnx.Output out 1 0 {logits}\n"
    );
    let file = Graph::parse(&text, &Limits::default()).unwrap();
    let mut graph = RuntimeGraph::from_pnnx(file).with_random_weights(1);
    graph.build().unwrap();
    graph
}

fn picture(batch: usize, size: usize) -> [TensorMeta; 1] {
    [TensorMeta::new(DType::F32, [batch, 3, size, size])]
}

fn shapes(criterion: &mut Criterion) {
    let graph = resnet50();
    let mut group = criterion.benchmark_group(format!("shapes of {} operators", graph.operators().len()));
    group.bench_function("first", |bencher| {
        bencher.iter(|| Shapes::infer(&graph, black_box(&picture(1, 224))).unwrap());
    });
    group.bench_function("with symbols", |bencher| {
        bencher.iter(|| Shapes::symbolic(black_box(&graph)).unwrap());
    });
    let mut shapes = Shapes::infer(&graph, &picture(1, 224)).unwrap();
    let same = picture(1, 224);
    group.bench_function("unchanged", |bencher| {
        bencher.iter(|| shapes.update(&graph, black_box(&same)).unwrap());
    });
    let (small, large) = (picture(1, 224), picture(4, 256));
    group.bench_function("changed", |bencher| {
        let mut is_large = false;
        bencher.iter(|| {
            is_large = !is_large;
            shapes.update(&graph, black_box(if is_large { &large } else { &small })).unwrap()
        });
    });
    group.finish();
}

criterion_group!(benches, shapes);
criterion_main!(benches);
