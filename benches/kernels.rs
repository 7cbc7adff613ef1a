//! Measures how well the most important kernels use the processor, on one and on two threads:
//!
//! ```sh
//! cargo bench --bench kernels            # a table
//! cargo bench --bench kernels -- json    # the same as JSON
//! ```
//!
//! Each kernel is an operator run by the engine with packed weights. A convolution is placed between two 1×1 convolutions,
//! which are not measured, so that its layout is that of a network. Operations are counted by definition; Winograd's
//! algorithm needs fewer and may exceed the processor's peak. The shortest of many runs counts, because other load can only
//! make a run longer.

#![allow(missing_docs, clippy::expect_used, reason = "a bench that cannot run should stop")]

use ixion::Limits;
use ixion::engine::{Builder, Context, StepTrace};
use ixion::pnnx::Graph;
use ixion::tensor::Tensor;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[allow(dead_code, reason = "the other bench uses more of it")]
#[path = "roofline/machine.rs"]
mod machine;
#[path = "roofline/peak.rs"]
mod peak;

/// The number of rounds, and how long each kernel runs per round. Rounds spread a temporary slowdown of the machine over all
/// kernels.
const ROUNDS: usize = 10;
const SLICE: Duration = Duration::from_millis(40);

struct Kernel {
    name: String,
    /// Lines of a `.param` file from x to y; the operator named `layer` is measured.
    lines: Vec<String>,
    dims: Vec<usize>,
    /// The number of operations; `None` if elements are counted instead.
    flops: Option<u64>,
}

impl Kernel {
    fn linear(rows: usize, inputs: usize, outputs: usize) -> Self {
        let line = format!(
            "nn.Linear layer 1 1 x y bias=False in_features={inputs} out_features={outputs} @weight=({outputs},{inputs})f32"
        );
        let name = format!("linear {rows}×{inputs}×{outputs}");
        Self {
            name,
            lines: vec![line],
            dims: vec![rows, inputs],
            flops: Some(2 * (rows * inputs * outputs) as u64),
        }
    }

    fn conv(channels: usize, outputs: usize, side: usize, kernel: usize, groups: usize) -> Self {
        let line = |ports: &str, [channels, outputs, kernel, groups]: [usize; 4]| {
            let (per_group, pad) = (channels / groups, kernel / 2);
            format!(
                "nn.Conv2d {ports} bias=False dilation=(1,1) groups={groups} in_channels={channels} kernel_size=({kernel},{kernel}) \
                 out_channels={outputs} padding=({pad},{pad}) padding_mode=zeros stride=(1,1) @weight=({outputs},{per_group},{kernel},{kernel})f32"
            )
        };
        let lines = vec![
            line("before 1 1 x h", [channels, channels, 1, 1]),
            line("layer 1 1 h k", [channels, outputs, kernel, groups]),
            line("after 1 1 k y", [outputs, outputs, 1, 1]),
        ];
        let kind = if groups > 1 { "depthwise" } else { "conv" };
        let name = format!("{kind} {kernel}×{kernel}, {channels} to {outputs}, {side}×{side}");
        let flops = 2 * (side * side * outputs * (channels / groups) * kernel * kernel) as u64;
        Self { name, lines, dims: vec![1, channels, side, side], flops: Some(flops) }
    }

    fn function(name: &str) -> Self {
        let line = format!("nn.{name} layer 1 1 x y");
        Self { name: name.to_owned(), lines: vec![line], dims: vec![1, 64, 32, 32], flops: None }
    }

    fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    fn context(&self, threads: usize) -> Context<'static> {
        let list = self.dims.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let (count, lines) = (self.lines.len() + 2, self.lines.join("\n"));
        let text = format!(
            "7767517\n{count} 0\npnnx.Input in 0 1 x #x=({list})f32\n{lines}\npnnx.Output out 1 0 y\n"
        );
        let graph = Graph::parse(&text, &Limits::default()).expect("the text is a graph");
        let builder = Builder::from_pnnx(graph).with_random_weights(1).with_threads(threads);
        builder.build().and_then(|plan| Context::shared(Arc::new(plan))).expect("it can be built")
    }
}

/// A kernel, ready to run on one and on two threads, and its shortest runs so far.
struct Measured {
    kernel: Kernel,
    input: Tensor,
    contexts: [Context<'static>; 2],
    best: [Duration; 2],
}

impl Measured {
    fn new(kernel: Kernel) -> Self {
        let numbers = (0..kernel.elements()).map(|i| (i % 101) as f32 * 0.07 - 3.5).collect();
        let input = Tensor::from_vec(numbers, &kernel.dims).expect("as many as its shape");
        let contexts = [1, 2].map(|threads| kernel.context(threads));
        Self { kernel, input, contexts, best: [Duration::MAX; 2] }
    }

    /// Runs the kernel for a while on one thread, then on two.
    fn run(&mut self) {
        for (context, best) in self.contexts.iter_mut().zip(&mut self.best) {
            let start = Instant::now();
            while start.elapsed() < SLICE {
                let trace = context.run_traced(&[self.input.view()]).expect("it runs");
                let graph = context.plan().graph();
                let is_layer = |step: &&StepTrace| graph.operator(step.operator).name() == "layer";
                let step = trace.steps.iter().find(is_layer).expect("the layer is a step of the plan");
                *best = step.time.min(*best);
            }
        }
    }

    /// The measurements, and their share of the given peak of one core.
    fn row(&self, peak: f64) -> Value {
        let [alone, two] = self.best.map(|time| time.as_secs_f64());
        let rate = self.kernel.flops.map(|flops| flops as f64 / alone);
        let each = self.kernel.flops.is_none().then(|| alone * 1e9 / self.kernel.elements() as f64);
        json!({
            "name": self.kernel.name,
            "seconds": [alone, two],
            "flops_per_second": rate,
            "of_peak": rate.map(|rate| rate / peak),
            "nanoseconds_per_element": each,
        })
    }
}

fn kernels() -> Vec<Kernel> {
    let mut all = vec![
        Kernel::linear(1024, 1024, 1024),
        Kernel::linear(256, 256, 256),
        Kernel::linear(197, 768, 3072),
        Kernel::linear(1, 2048, 2048),
    ];
    all.extend([(64, 56), (128, 28), (256, 14), (512, 7)].map(|(n, side)| Kernel::conv(n, n, side, 3, 1)));
    all.extend([(64, 56), (256, 14), (1152, 7)].map(|(n, side)| Kernel::conv(n, n, side, 1, 1)));
    all.extend([(96, 56, 3), (240, 28, 5), (1152, 7, 5)].map(|(n, side, k)| Kernel::conv(n, n, side, k, n)));
    all.extend(["SiLU", "GELU", "Sigmoid", "Tanh", "Hardswish"].map(Kernel::function));
    all
}

fn print(row: &Value) {
    let number = |key: &str| row[key].as_f64();
    let seconds = [0, 1].map(|index| row["seconds"][index].as_f64().unwrap_or(f64::NAN));
    let rate = number("flops_per_second").map_or(String::new(), |rate| format!("{:.1} GFLOP/s", rate / 1e9));
    let share = number("of_peak").map_or(String::new(), |share| format!("{:.0} %", share * 100.0));
    let each = number("nanoseconds_per_element").map_or(String::new(), |ns| format!("{ns:.3} ns each"));
    println!(
        "{:<36}{:>10.1} µs {:>16}{:>8}{:>16}{:>10.2}×",
        row["name"].as_str().unwrap_or_default(),
        seconds[0] * 1e6,
        rate,
        share,
        each,
        seconds[0] / seconds[1]
    );
}

fn main() {
    let is_json = std::env::args().any(|arg| arg == "json");
    let isas = peak::isas();
    let peaks: Vec<f64> = isas.iter().map(|isa| isa.measure(1)).collect();
    let peak = peaks.iter().copied().fold(0.0, f64::max);
    if !is_json {
        let name = isas.iter().zip(&peaks).find(|(_, found)| **found == peak).map_or("", |(isa, _)| isa.name);
        println!("{}: {:.1} GFLOP/s with {name} on one core\n", machine::processor(), peak / 1e9);
        println!("{:<36}{:>13}{:>17}{:>8}{:>16}{:>11}", "", "one thread", "", "of peak", "", "2 threads");
    }
    let mut all: Vec<Measured> = kernels().into_iter().map(Measured::new).collect();
    for _ in 0..ROUNDS {
        all.iter_mut().for_each(Measured::run);
    }
    let rows: Vec<Value> = all.iter().map(|measured| measured.row(peak)).collect();
    if !is_json {
        rows.iter().for_each(print);
    }
    if is_json {
        println!("{}", json!({ "version": 1, "peak_flops_per_second": peak, "kernels": rows }));
    }
}
