//! The time of each operator: `Model.profile` and `Model.timeline`.

use crate::error::{InputError, OrRaise};
use crate::pickling::{Reduced, reduced};
use crate::process::interruptible;
use ixion::cli::{self, Record, Row, WARM_UP, numbers};
use ixion::engine::{Context, EngineError};
use ixion::{Plan, Tensor};
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of operators that a printed profile shows.
const SHOWN: usize = 10;

/// Adds the classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<OperatorTime>()?;
    module.add_class::<Profile>()?;
    module.add_function(wrap_pyfunction!(restore_time, module)?)?;
    module.add_function(wrap_pyfunction!(restore_profile, module)?)
}

/// The time of an operator, or of all operators of a type, in one run.
///
/// Attributes
/// ----------
/// name : str
///     The operator's name; empty for a type.
/// type : str
///     The type of the operators, such as ``nn.Conv2d``.
/// count : int
///     The number of operators.
/// seconds : float
///     The median time of an operator, or the sum of the medians of a type.
/// share : float
///     The share of all operators' time, from 0 to 1.
/// macs : int
///     The multiply-accumulate operations.
/// bytes : int
///     The bytes of inputs, outputs and weights, each counted once.
/// gflops : float
///     Billions of floating-point operations per second; a multiply-accumulate counts as two.
/// gigabytes : float
///     Billions of bytes per second.
/// inputs, outputs : list of str
///     Shapes and element types, such as ``1×64×56×56 f32``; empty for a type.
#[pyclass(frozen, get_all, module = "ixion")]
#[derive(Debug, Clone)]
pub(crate) struct OperatorTime {
    name: String,
    #[pyo3(name = "type")]
    op_type: String,
    count: usize,
    seconds: f64,
    share: f64,
    macs: u64,
    bytes: u64,
    gflops: f64,
    gigabytes: f64,
    inputs: Vec<String>,
    outputs: Vec<String>,
}

impl OperatorTime {
    fn new(row: &Row, total: Duration) -> Self {
        Self {
            name: row.name.clone(),
            op_type: row.op_type.clone(),
            count: row.count,
            seconds: row.time.as_secs_f64(),
            share: row.share(total),
            macs: row.macs,
            bytes: row.bytes,
            gflops: row.gflops(),
            gigabytes: row.gigabytes(),
            inputs: row.inputs.iter().map(ToString::to_string).collect(),
            outputs: row.outputs.iter().map(ToString::to_string).collect(),
        }
    }

    /// The times of operators that together take `total`.
    fn list(rows: &[Row], total: Duration) -> Vec<Self> {
        rows.iter().map(|row| Self::new(row, total)).collect()
    }

    fn of(fields: TimeFields) -> Self {
        let (name, op_type, count, seconds, share, macs, bytes, gflops, gigabytes, inputs, outputs) = fields;
        Self { name, op_type, count, seconds, share, macs, bytes, gflops, gigabytes, inputs, outputs }
    }

    fn fields(&self) -> TimeFields {
        let Self { name, op_type, count, seconds, share, macs, bytes, gflops, gigabytes, inputs, outputs } =
            self.clone();
        (name, op_type, count, seconds, share, macs, bytes, gflops, gigabytes, inputs, outputs)
    }
}

/// The fields of an operator's time, in their order.
type TimeFields = (String, String, usize, f64, f64, u64, u64, f64, f64, Vec<String>, Vec<String>);

/// A number of seconds as a duration; 0 for numbers that are none, which only something unpickled can have.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[pymethods]
impl OperatorTime {
    fn __repr__(&self) -> String {
        let name = if self.name.is_empty() { format!("×{}", self.count) } else { self.name.clone() };
        let (time, share) = (numbers::time(duration(self.seconds)), numbers::percent(self.share));
        format!("<ixion.OperatorTime {} {name}: {time}, {share}>", self.op_type)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduced(py, "_restore_time", self.fields())
    }
}

/// How long each operator takes. Printed, it shows the slowest operators; in a notebook, it is a timeline.
///
/// Attributes
/// ----------
/// operators : list of OperatorTime
///     The operators, in the order in which they run.
/// types : list of OperatorTime
///     The sums over all operators of each type, the slowest type first.
/// runs : int
///     The number of runs; times are medians over them.
/// seconds : float
///     The sum of the operators' times.
/// settings : str
///     How the model ran, and on what.
#[pyclass(frozen, module = "ixion")]
#[derive(Debug, Clone)]
pub(crate) struct Profile {
    name: String,
    /// The operators, in the order in which they run.
    #[pyo3(get)]
    operators: Vec<OperatorTime>,
    /// The sums over all operators of each type, the slowest type first.
    #[pyo3(get)]
    types: Vec<OperatorTime>,
    #[pyo3(get)]
    runs: usize,
    #[pyo3(get)]
    settings: String,
    svg: String,
}

impl Profile {
    fn total(&self) -> f64 {
        self.operators.iter().map(|row| row.seconds).sum()
    }

    /// The slowest operators, in the order in which they run.
    fn slowest(&self) -> Vec<&OperatorTime> {
        let mut rows: Vec<(usize, &OperatorTime)> = self.operators.iter().enumerate().collect();
        rows.sort_by(|(_, one), (_, other)| other.seconds.total_cmp(&one.seconds));
        rows.truncate(SHOWN);
        rows.sort_by_key(|(place, _)| *place);
        rows.into_iter().map(|(_, row)| row).collect()
    }
}

#[pymethods]
impl Profile {
    /// The sum of the operators' times.
    #[getter]
    fn seconds(&self) -> f64 {
        self.total()
    }

    /// The timeline of the last run, as SVG.
    #[getter]
    fn timeline(&self) -> &str {
        &self.svg
    }

    fn _repr_svg_(&self) -> &str {
        &self.svg
    }

    fn __len__(&self) -> usize {
        self.operators.len()
    }

    fn __repr__(&self) -> String {
        let time = numbers::time(duration(self.total()));
        let operators = numbers::plural(self.operators.len(), "operator");
        format!("<ixion.Profile {}: {time} for {operators}; {}>", self.name, self.settings)
    }

    fn __str__(&self) -> String {
        let rows = self.slowest();
        let widest = |text: fn(&OperatorTime) -> &str| {
            rows.iter().map(|row| text(row).chars().count()).max().unwrap_or(0)
        };
        let (names, types) = (widest(|row| &row.name), widest(|row| &row.op_type));
        let line = |row: &&OperatorTime| {
            let (time, share) = (numbers::time(duration(row.seconds)), numbers::percent(row.share));
            let rate = if row.macs > 0 { format!("  {:.1} GFLOP/s", row.gflops) } else { String::new() };
            format!("{:names$}  {:types$}  {time:>9}  {share:>6}{rate}\n", row.name, row.op_type)
        };
        let lines: String = rows.iter().map(line).collect();
        let operators = match rows.len() {
            shown if shown == self.operators.len() => numbers::plural(shown, "operator"),
            shown => format!(
                "{}, of which the slowest {shown} are shown",
                numbers::plural(self.operators.len(), "operator")
            ),
        };
        let runs = numbers::plural(self.runs, "run");
        format!(
            "{}: {}\n{lines}total: {} for {operators}; medians of {runs}",
            self.name,
            self.settings,
            numbers::time(duration(self.total()))
        )
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        let Self { name, operators, types, runs, settings, svg } = self.clone();
        let list = |times: &[OperatorTime]| times.iter().map(OperatorTime::fields).collect();
        let fields: ProfileFields = (name, list(&operators), list(&types), runs, settings, svg);
        reduced(py, "_restore_profile", fields)
    }
}

/// The fields of a profile, in their order.
type ProfileFields = (String, Vec<TimeFields>, Vec<TimeFields>, usize, String, String);

/// Unpickles the time of an operator.
#[pyfunction]
#[pyo3(name = "_restore_time")]
fn restore_time(fields: TimeFields) -> OperatorTime {
    OperatorTime::of(fields)
}

/// Unpickles a profile.
#[pyfunction]
#[pyo3(name = "_restore_profile")]
fn restore_profile(fields: ProfileFields) -> Profile {
    let (name, operators, types, runs, settings, svg) = fields;
    let list = |times: Vec<TimeFields>| times.into_iter().map(OperatorTime::of).collect();
    Profile { name, operators: list(operators), types: list(types), runs, settings, svg }
}

/// Runs a model `runs` times, after runs that warm it up, and measures each operator. `name` is the heading.
///
/// # Errors
/// `InputError` if there is no run; otherwise as [`Context::run`], and what a signal's handler raises.
pub(crate) fn profile(
    py: Python<'_>,
    plan: &Arc<Plan>,
    name: &str,
    inputs: Vec<Tensor>,
    runs: usize,
) -> PyResult<Profile> {
    if runs == 0 {
        return Err(InputError::new_err("runs: expected a number above 0, got 0"));
    }
    let settings = settings(plan, &inputs);
    let measured = traced(py, plan, move |context| measure(context, &inputs, runs))?;
    let svg = cli::timeline(name.to_owned(), &settings, &measured.record, None).to_svg();
    let rows = cli::rows(plan.graph(), &measured.record, measured.times);
    let total = rows.iter().map(|row| row.time).sum();
    let (operators, types) =
        (OperatorTime::list(&rows, total), OperatorTime::list(&cli::by_type(&rows), total));
    Ok(Profile { name: name.to_owned(), operators, types, runs, settings, svg })
}

/// Draws when each operator of one run began and ended, after runs that warm the model up; with `top`, only the slowest.
///
/// # Errors
/// `InputError` if `top` is 0; otherwise as [`profile`].
pub(crate) fn timeline(
    py: Python<'_>,
    plan: &Arc<Plan>,
    name: &str,
    inputs: Vec<Tensor>,
    top: Option<u32>,
) -> PyResult<String> {
    if top == Some(0) {
        return Err(InputError::new_err("top: expected a number above 0, got 0"));
    }
    let settings = settings(plan, &inputs);
    let measured = traced(py, plan, move |context| measure(context, &inputs, 1))?;
    Ok(cli::timeline(name.to_owned(), &settings, &measured.record, top).to_svg())
}

/// The record of the last run, and the times of all runs for each of its entries.
struct Measured {
    record: Record,
    times: Vec<Vec<Duration>>,
}

/// Calls `work` with a new context, without the interpreter's lock. Ctrl-C ends a run.
fn traced(
    py: Python<'_>,
    plan: &Arc<Plan>,
    work: impl FnOnce(&mut Context<'static>) -> Result<Measured, EngineError> + Send,
) -> PyResult<Measured> {
    let mut context = py.detach(|| Context::shared(Arc::clone(plan))).or_raise()?;
    let cancel = context.cancel_token();
    interruptible(py, &cancel, || work(&mut context))?.or_raise()
}

fn measure(context: &mut Context<'static>, inputs: &[Tensor], runs: usize) -> Result<Measured, EngineError> {
    let views: Vec<_> = inputs.iter().map(Tensor::view).collect();
    let (start, mut warm) = (Instant::now(), 0);
    while warm < WARM_UP.0 || start.elapsed() < WARM_UP.1 {
        context.run_reusing(&views)?;
        warm += 1;
    }
    let mut times: Vec<Vec<Duration>> = Vec::new();
    let mut run = || -> Result<Record, EngineError> {
        let trace = context.run_traced(&views)?;
        let record = cli::record(context, trace);
        times.resize(record.trace.layers.len(), Vec::new());
        times.iter_mut().zip(&record.trace.layers).for_each(|(times, layer)| times.push(layer.time));
        Ok(record)
    };
    let mut record = run()?;
    for _ in 1..runs {
        record = run()?;
    }
    Ok(Measured { record, times })
}

/// How a plan runs, and on what.
fn settings(plan: &Plan, inputs: &[Tensor]) -> String {
    let named = plan.inputs().iter().zip(inputs);
    let inputs = named.map(|(port, tensor)| format!("{} {} {}", port.name, tensor.shape(), tensor.dtype()));
    let threads = numbers::plural(plan.threads(), "thread");
    format!("planned, {threads}, {}", inputs.collect::<Vec<_>>().join(", "))
}
