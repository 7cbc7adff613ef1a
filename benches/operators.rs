//! Measures the time of every operator and its growth: `cargo bench --bench operators`.
//!
//! Each line of `operators.tsv` becomes a model with one operator, which runs on one thread on random inputs of three sizes.
//! The output is the shortest of several runs, in milliseconds. `operators.py` measures the same in PyTorch and compares.
//!
//! Two of the sizes, n and 16 n, are so small that inputs and outputs fit the second-level cache, so their growth is the growth
//! of the work; it is marked if it exceeds 20 without a reason in the list. The third size is a million: most tensors exceed
//! that cache, and operators that only move elements take two to four times as long per element, here and in PyTorch. This
//! growth is shown next to the first one, scaled to 16 times as many elements.
//!
//! `cargo bench --bench operators -- conv` runs the lines that contain `conv`; `--json FILE` writes the times to a file.

#![allow(missing_docs, clippy::expect_used, clippy::panic, reason = "a bench that cannot run should stop")]

use ixion::Limits;
use ixion::graph::{GraphError, RuntimeGraph};
use ixion::tensor::{DType, Tensor};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// The numbers of elements, all of which are squares: n, 16 n and a million.
const SIZES: [usize; 3] = [3_600, 16 * 3_600, 1_000_000];
/// A larger growth is marked.
const MAX_GROWTH: f64 = 20.0;
/// Each line runs for this long, within a minimum and a maximum number of runs.
const TIME: Duration = Duration::from_millis(60);
const RUNS: std::ops::Range<usize> = 5..60;

/// One line of the list.
struct Case<'a> {
    op_type: &'a str,
    outputs: usize,
    inputs: Vec<Input<'a>>,
    params: &'a str,
    reason: &'a str,
}

/// `name:dtype<bound[lengths]@axes`
struct Input<'a> {
    name: &'a str,
    dtype: DType,
    /// The text after the type: an upper bound for integers, or `+`.
    range: &'a str,
    dims: &'a str,
    axes: Option<&'a str>,
}

impl<'a> Case<'a> {
    fn new(line: &'a str) -> Self {
        let mut columns = line.split('\t');
        let mut column = || columns.next().unwrap_or_default();
        let (op_type, outputs, inputs, params) = (column(), column(), column(), column());
        let (_, reason) = (column(), column());
        let outputs = outputs.parse().unwrap_or_else(|_| panic!("no number of outputs: {line}"));
        Self { op_type, outputs, inputs: inputs.split_whitespace().map(Input::new).collect(), params, reason }
    }

    /// The type, inputs and parameters without weights, which identify a line.
    fn name(&self, line: &str) -> String {
        let inputs = line.split('\t').nth(2).unwrap_or_default();
        let params: Vec<&str> =
            self.params.split(' ').filter(|param| !param.starts_with(['@', '$'])).collect();
        [self.op_type, inputs, &params.join(" ")].join(" ").trim().to_owned()
    }

    /// The model for this number of elements.
    fn graph(&self, n: usize) -> Result<RuntimeGraph, GraphError> {
        let mut text = String::new();
        let outputs: Vec<String> = (0..self.outputs).map(|index| format!("out{index}")).collect();
        let names: Vec<&str> = self.inputs.iter().map(|input| input.name).collect();
        let count = names.len() + outputs.len();
        let mut line = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a string grows");
        line(format_args!("7767517\n{} {count}", count + 1));
        names.iter().for_each(|name| line(format_args!("pnnx.Input in_{name} 0 1 {name}")));
        let (op_type, params) = (self.op_type, computed(self.params, n));
        let operands = [names.join(" "), outputs.join(" ")].join(" ");
        line(format_args!("{op_type} op {} {} {operands} {params}", names.len(), outputs.len()));
        outputs.iter().for_each(|name| line(format_args!("pnnx.Output {name}_ 1 0 {name}")));
        let model = ixion::pnnx::Graph::parse(&text, &Limits::default()).expect("the line makes a model");
        let mut graph = RuntimeGraph::from_pnnx(model).with_random_weights(0);
        graph.build()?;
        Ok(graph)
    }

    /// The shortest of several runs.
    fn time(&self, n: usize) -> Result<Duration, GraphError> {
        let mut graph = self.graph(n)?;
        let inputs: Vec<Tensor> = self.inputs.iter().map(|input| input.tensor(n)).collect();
        let (mut best, begin) = (Duration::MAX, Instant::now());
        for run in 0..RUNS.end {
            let (inputs, start) = (inputs.clone(), Instant::now());
            let outputs = graph.run_with(inputs)?;
            best = best.min(start.elapsed());
            drop(outputs);
            if run >= RUNS.start && begin.elapsed() > TIME {
                break;
            }
        }
        Ok(best)
    }
}

impl<'a> Input<'a> {
    fn new(text: &'a str) -> Self {
        let (name, rest) = text.split_once(':').expect("an input has a name");
        let (kind, rest) = rest.split_once('[').expect("an input has lengths");
        let (dims, axes) = rest.split_once(']').expect("lengths end");
        let (dtype, range) = kind.split_at(kind.find(['<', '+']).unwrap_or(kind.len()));
        let dtype = DType::from_name(dtype).unwrap_or_else(|| panic!("{dtype} is no element type"));
        Self { name, dtype, range: range.trim_start_matches('<'), dims, axes: axes.strip_prefix('@') }
    }

    /// Random elements.
    fn tensor(&self, n: usize) -> Tensor {
        let dims: Vec<usize> = self.dims.split(',').map(|dim| value(dim, n)).collect();
        let float = match self.range {
            "" if self.dtype == DType::Bool => {
                Tensor::rand_uniform(&dims, 0.0, 2.0, 1).and_then(|x| x.map(|x: f32| x.floor()))
            }
            "" => Tensor::randn(&dims, 1),
            "+" => Tensor::rand_uniform(&dims, 0.01, 1.0, 1),
            bound => {
                let bound = value(bound, n) as f32;
                Tensor::rand_uniform(&dims, 0.0, bound, 1).and_then(|x| x.map(|x: f32| x.min(bound - 1.0)))
            }
        };
        let tensor = float.and_then(|x| x.cast(self.dtype)).expect("there is memory");
        match self.axes {
            Some(axes) => {
                let axes: Vec<i64> = axes.split(',').map(|axis| axis.parse().expect("an axis")).collect();
                tensor.permute(&axes).expect("the axes fit")
            }
            None => tensor,
        }
    }
}

/// Evaluates the formulas in braces.
fn computed(text: &str, n: usize) -> String {
    let mut parts = text.split('{');
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (formula, rest) = part.split_once('}').expect("a brace is closed");
        result += &value(formula, n).to_string();
        result += rest;
    }
    result
}

/// Evaluates a sum of products and quotients of numbers, n and its square root r.
fn value(formula: &str, n: usize) -> usize {
    let number = |text: &str| match text {
        "n" => n,
        "r" => n.isqrt(),
        text => text.parse().unwrap_or_else(|_| panic!("{formula} is no formula")),
    };
    let term = |term: &str| {
        let mut factors = term.split_inclusive(['*', '/']);
        let mut result = 1;
        let mut operator = '*';
        for factor in &mut factors {
            let name = number(factor.trim_end_matches(['*', '/']));
            result = if operator == '*' { result * name } else { result / name };
            operator = factor.chars().last().unwrap_or('*');
        }
        result
    };
    formula.split('+').map(term).sum()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let json = args.iter().position(|arg| arg == "--json").and_then(|at| args.get(at + 1));
    let wanted = args.iter().take_while(|arg| *arg != "--json").last();
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/operators.tsv");
    let list = std::fs::read_to_string(list).expect("the list is beside this file");
    let mut times = serde_json::Map::new();
    println!(
        "{:>9} {:>9} {:>9} {:>7} {:>7}  milliseconds on one thread",
        SIZES[0], SIZES[1], SIZES[2], "growth", "beyond"
    );
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let case = Case::new(line);
        let name = case.name(line);
        if wanted.is_some_and(|wanted| !line.to_lowercase().contains(&wanted.to_lowercase())) {
            continue;
        }
        let milliseconds = |n: usize| case.time(n).map(|time| time.as_secs_f64() * 1e3);
        let [small, large, million] = match SIZES.map(milliseconds) {
            [Ok(small), Ok(large), Ok(million)] => [small, large, million],
            [Err(error), ..] | [_, Err(error), _] | [.., Err(error)] => {
                println!("{:>47}{name}: {error}", "");
                continue;
            }
        };
        let growth = large / small;
        // Scaled to 16 times as many elements.
        let beyond = million / large * (16 * SIZES[1]) as f64 / SIZES[2] as f64;
        let mark = match case.reason {
            _ if growth <= MAX_GROWTH => "",
            "" => "  << grows faster than its work",
            reason => reason,
        };
        println!("{small:9.4} {large:9.4} {million:9.3} {growth:7.1} {beyond:7.1}  {name}{mark}");
        times.insert(name, serde_json::json!([small, large, million]));
    }
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(&times).expect("numbers can be written");
        std::fs::write(file, text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}
