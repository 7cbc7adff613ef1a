//! Shows where the time of a model goes, compared with the machine's limits.
//!
//! ```sh
//! cargo bench --bench roofline                                         # the detector in model_file/
//! cargo bench --bench roofline -- MODEL.pnnx.param --threads 2 --json roofline.json
//! ```
//!
//! First come the machine's limits: multiply-adds for each instruction set, and the bandwidth of memory and caches. Then follow
//! the shares that each operator of the model reaches, and the sums for each kind of work.
//!
//! An operator far from both limits is inefficient. Algorithms such as Winograd's need fewer multiplications than are counted
//! and may exceed 100 % of the peak; data from caches may exceed 100 % of the memory bandwidth.

#![allow(missing_docs, clippy::expect_used, reason = "a bench that cannot run should stop")]

use bandwidth::Bandwidth;
use operators::{Kind, Row};
use serde_json::{Value, json};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

mod bandwidth;
mod machine;
mod operators;
mod peak;

const USAGE: &str = "usage: roofline [MODEL] [--threads N] [--runs N] [--json FILE]";

/// The version of the JSON file, incremented when the meaning of a field changes.
const VERSION: u32 = 1;

struct Settings {
    model: PathBuf,
    threads: usize,
    runs: usize,
    json: Option<PathBuf>,
}

impl Settings {
    fn parse(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let detector = "model_file/shapes_detector/shapes_detector.pnnx.param";
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join(detector);
        let mut settings = Self { model, threads: 1, runs: 20, json: None };
        // Cargo adds --bench.
        let mut args = args.filter(|arg| arg != "--bench");
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value; {USAGE}"));
            let number = |text: String| match text.parse() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!("expected a positive number, got {text}; {USAGE}")),
            };
            match arg.as_str() {
                "--threads" => settings.threads = number(value()?)?,
                "--runs" => settings.runs = number(value()?)?,
                "--json" => settings.json = Some(value()?.into()),
                flag if flag.starts_with('-') => return Err(format!("unknown option {flag}; {USAGE}")),
                model => settings.model = model.into(),
            }
        }
        Ok(settings)
    }
}

/// The limits of a number of threads.
struct Limits {
    threads: usize,
    /// Operations per second, by instruction set.
    peaks: Vec<(&'static str, f64)>,
    bandwidths: Vec<Bandwidth>,
}

impl Limits {
    fn measure(threads: usize) -> Self {
        let peaks = peak::isas().into_iter().map(|isa| (isa.name, isa.measure(threads))).collect();
        Self { threads, peaks, bandwidths: bandwidth::measure(machine::Caches::read(), threads) }
    }

    fn peak(&self) -> f64 {
        self.peaks.iter().fold(0.0, |most, (_, flops)| most.max(*flops))
    }

    /// The read bandwidth of memory; most operators read more than they write.
    fn memory(&self) -> f64 {
        self.bandwidths.last().map_or(f64::NAN, |memory| memory.read)
    }

    fn print(&self) {
        println!("{}", plural(self.threads));
        for (name, flops) in &self.peaks {
            println!("  {name:<24}{:>9.1} GFLOP/s", flops / 1e9);
        }
        for level in &self.bandwidths {
            let size = format!("{}, {} KiB each", level.name, level.bytes >> 10);
            println!("  {size:<24}{:>9.1} GB/s read {:>9.1} GB/s copied", level.read / 1e9, level.copy / 1e9);
        }
    }

    fn json(&self) -> Value {
        let peaks: Vec<Value> = self
            .peaks
            .iter()
            .map(|(name, flops)| json!({ "name": name, "flops_per_second": flops }))
            .collect();
        let level = |level: &Bandwidth| json!({ "name": level.name, "bytes": level.bytes, "read_bytes_per_second": level.read, "copied_bytes_per_second": level.copy });
        let levels: Vec<Value> = self.bandwidths.iter().map(level).collect();
        json!({ "threads": self.threads, "peaks": peaks, "bandwidths": levels })
    }
}

/// The throughput of an operator, per second and as a share of the limits.
struct Reached {
    flops: f64,
    bytes: f64,
    of_peak: f64,
    of_memory: f64,
    of_time: f64,
}

impl Reached {
    fn new(row: &Row, limits: &Limits, total: Duration) -> Self {
        let seconds = row.time.as_secs_f64().max(1e-9);
        let (flops, bytes) = (row.flops as f64 / seconds, row.bytes as f64 / seconds);
        let of_time = if total.is_zero() { 0.0 } else { row.time.div_duration_f64(total) };
        Self { flops, bytes, of_peak: flops / limits.peak(), of_memory: bytes / limits.memory(), of_time }
    }
}

fn plural(threads: usize) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

fn cells(row: &Row, reached: &Reached) -> [String; 8] {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let has_flops = row.flops > 0;
    [
        row.name.clone(),
        row.op_type.clone(),
        format!("{:.3}", row.time.as_secs_f64() * 1e3),
        if has_flops { format!("{:.1}", reached.flops / 1e9) } else { String::new() },
        if has_flops { percent(reached.of_peak) } else { String::new() },
        format!("{:.1}", reached.bytes / 1e9),
        percent(reached.of_memory),
        percent(reached.of_time),
    ]
}

/// Prints a table with two columns of text and the rest numbers.
fn print_table(head: [&str; 8], rows: Vec<[String; 8]>) {
    let rows: Vec<[String; 8]> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let mut widths = [0; 8];
    for row in &rows {
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = (*width).max(cell.chars().count()));
    }
    for row in &rows {
        let cell = |(index, (cell, width)): (usize, (&String, usize))| match index {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        };
        let line: Vec<String> = row.iter().zip(widths).enumerate().map(cell).collect();
        println!("{}", line.join("  ").trim_end());
    }
}

fn print_model(rows: &[Row], kinds: &[Row], limits: &Limits) {
    let total: Duration = rows.iter().map(|row| row.time).sum();
    let lines = |rows: &[Row]| rows.iter().map(|row| cells(row, &Reached::new(row, limits, total))).collect();
    print_table(
        ["operator", "type", "ms", "GFLOP/s", "of peak", "GB/s", "of memory", "of time"],
        lines(rows),
    );
    println!();
    print_table(["kind", "count", "ms", "GFLOP/s", "of peak", "GB/s", "of memory", "of time"], lines(kinds));
}

/// The sum for each kind of work, the longest first, and the total.
fn by_kind(rows: &[Row]) -> Vec<Row> {
    let sum = |kind: Kind| Row::sum(kind.name(), kind, rows.iter().filter(|row| row.kind == kind));
    let mut kinds: Vec<Row> = Kind::ALL.into_iter().map(sum).filter(|row| row.count > 0).collect();
    kinds.sort_by_key(|row| std::cmp::Reverse(row.time));
    kinds.push(Row::sum("all", Kind::Other, rows.iter()));
    kinds.iter_mut().for_each(|row| row.op_type = row.count.to_string());
    kinds
}

fn as_json(settings: &Settings, limits: &[Limits], rows: &[Row], kinds: &[Row], own: &Limits) -> Value {
    let total: Duration = rows.iter().map(|row| row.time).sum();
    let row = |row: &Row| {
        let reached = Reached::new(row, own, total);
        json!({
            "name": row.name, "count": row.count, "ms": row.time.as_secs_f64() * 1e3, "flops": row.flops,
            "bytes": row.bytes, "flops_per_second": reached.flops, "bytes_per_second": reached.bytes,
            "of_peak": reached.of_peak, "of_memory": reached.of_memory, "of_time": reached.of_time,
        })
    };
    let operator = |operator: &Row| {
        let mut object = row(operator);
        object["type"] = operator.op_type.clone().into();
        object["kind"] = operator.kind.name().into();
        object
    };
    json!({
        "version": VERSION,
        "model": settings.model.display().to_string(),
        "processor": machine::processor(),
        "threads": settings.threads,
        "runs": settings.runs,
        "machine": limits.iter().map(Limits::json).collect::<Vec<_>>(),
        "operators": rows.iter().map(operator).collect::<Vec<_>>(),
        "kinds": kinds.iter().map(row).collect::<Vec<_>>(),
    })
}

fn main() -> ExitCode {
    let settings = match Settings::parse(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::from(2);
        }
    };
    match run(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if settings.threads > cores {
        return Err(format!("there are {cores} cores for {} threads", settings.threads).into());
    }
    // Load the model first, so that errors are reported before minutes of measuring.
    let plan = operators::plan(&settings.model, settings.threads)?;

    println!("{}", machine::processor());
    let mut threads: Vec<usize> = [1, 2].into_iter().filter(|threads| *threads <= cores).collect();
    if !threads.contains(&settings.threads) {
        threads.push(settings.threads);
    }
    let limits: Vec<Limits> = threads.into_iter().map(Limits::measure).collect();
    limits.iter().for_each(Limits::print);

    let rows = operators::measure(&plan, &settings.model, settings.runs)?;
    let kinds = by_kind(&rows);
    let own = limits.iter().find(|limits| limits.threads == settings.threads);
    let own = own.expect("the plan's number of threads was measured");
    let Settings { model, threads, runs, .. } = settings;
    println!("\n{}, {}, medians of {runs} runs", model.display(), plural(*threads));
    print_model(&rows, &kinds, own);
    if let Some(path) = &settings.json {
        let text = serde_json::to_string_pretty(&as_json(settings, &limits, &rows, &kinds, own))?;
        std::fs::write(path, text)?;
    }
    Ok(())
}
