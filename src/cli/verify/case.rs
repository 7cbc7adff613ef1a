//! Running one case and comparing its outputs.

use super::folder::{Folder, Set};
use crate::cli::failure::full_message;
use crate::cli::list;
use crate::cli::runner::{EngineArgs, Runner, graph_error, is_misfit};
use ixion::Limits;
use ixion::engine::{EngineError, PlanFile};
use ixion::graph::{GraphError, InputPort, OperandIndex, ReadOptions, RuntimeGraph, Trace, read_model};
use ixion::op::Registry;
use ixion::pnnx::Dim;
use ixion::tensor::{Complex, DType, Tensor, TensorError};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

/// The result of a case.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// All outputs match. Holds the largest absolute difference.
    Pass(f64),
    /// An output does not match.
    Fail(Mismatch),
    /// No outputs could be compared.
    Error { kind: Kind, reason: String, unsupported: Vec<String> },
}

/// An output that does not match.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mismatch {
    pub(super) reason: String,
    /// The largest absolute difference over all outputs that could be compared.
    pub(super) max_abs_diff: f64,
    /// Suspicious operators: the producer of the first wrong output, and one whose output shape contradicts the file.
    pub(super) suspects: Vec<String>,
}

/// The reason why no outputs could be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Files are missing or broken.
    Read,
    /// Operators have no layer, or none on the device although they may not fall back to the CPU.
    Unsupported,
    /// A layer could not be created.
    Build,
    /// An operator failed, or a limit was exceeded.
    Run,
    /// The program itself failed.
    Panic,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Unsupported => "unsupported",
            Kind::Build => "build",
            Kind::Run => "run",
            Kind::Panic => "panic",
        }
    }
}

impl Verdict {
    fn error(kind: Kind, reason: impl Into<String>) -> Self {
        Verdict::Error { kind, reason: reason.into(), unsupported: Vec::new() }
    }

    /// The verdict on a graph that cannot be read or built.
    fn unbuilt(error: &EngineError) -> Self {
        if let EngineError::PlanFile(_) = error {
            return Self::error(Kind::Read, full_message(error));
        }
        let Some(found) = graph_error(error) else { return Self::error(Kind::Build, full_message(error)) };
        match found {
            GraphError::UnknownOperators { operators } => {
                let types: Vec<String> =
                    operators.iter().map(|operator| operator.place.op_type.clone()).collect();
                let mut seen = BTreeSet::new();
                let distinct = types.iter().filter(|op_type| seen.insert(op_type.as_str()));
                let reason = format!("no layer for {}", list(distinct));
                Verdict::Error { kind: Kind::Unsupported, reason, unsupported: types }
            }
            GraphError::Operator { .. } | GraphError::Tuple { .. } | GraphError::Limit { .. } => {
                Self::error(Kind::Build, full_message(error))
            }
            _ => Self::error(Kind::Read, full_message(error)),
        }
    }
}

thread_local! {
    /// The message and location of the last panic, on a thread that runs a case.
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs a panic hook that stores the panics of cases instead of printing them. It stays, since other threads may verify as
/// well; all other panics are left to the hook that was there before.
pub(super) fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_kept = LAST_PANIC.try_with(|last| match &mut *last.borrow_mut() {
                Some(last) => {
                    *last = info.to_string().replace('\n', " ");
                    true
                }
                None => false,
            });
            if !is_kept.unwrap_or(false) {
                print(info);
            }
        }));
    });
}

/// The settings for all cases.
#[derive(Debug, Default)]
pub(super) struct How {
    pub(super) engine: EngineArgs,
    pub(super) registry: Registry,
    pub(super) tolerance: Option<f64>,
    /// Whether the checksums of the weights are verified first.
    pub(super) checksums: bool,
    /// Whether a case is unsupported if the CPU computes any operator.
    pub(super) no_fallback: bool,
}

/// Runs a case.
pub(super) fn run(path: &Path, how: &How, limits: &Limits) -> Verdict {
    catch_panic(|| attempt(path, how, limits).unwrap_or_else(|verdict| verdict))
}

/// Turns a panic, which is a bug in the program, into an error of this case.
fn catch_panic(run: impl FnOnce() -> Verdict) -> Verdict {
    LAST_PANIC.set(Some(String::new()));
    let verdict = catch_unwind(AssertUnwindSafe(run));
    let panic = LAST_PANIC.take().unwrap_or_default();
    verdict.unwrap_or_else(|_| Verdict::error(Kind::Panic, panic))
}

/// Runs a case. An early verdict is returned as an error, for the sake of `?`.
fn attempt(path: &Path, how: &How, limits: &Limits) -> Result<Verdict, Verdict> {
    let unreadable = |reason: String| Verdict::error(Kind::Read, reason);
    let folder = Folder::open(path, how.tolerance).map_err(unreadable)?;
    if how.checksums {
        check_archive(&folder, limits)?;
    }
    let mut runner = built(&folder, how, limits).map_err(|error| Verdict::unbuilt(&error))?;
    let sets = folder.sets().map_err(unreadable)?;
    let mut max_abs_diff = 0f64;
    for set in &sets {
        match run_set(&folder, set, &mut runner, limits)? {
            Verdict::Pass(diff) if !how.no_fallback || runner.on_cpu().is_empty() => {
                max_abs_diff = max_abs_diff.max(diff);
            }
            Verdict::Pass(_) => return Ok(fallback(&runner)),
            other => return Ok(other),
        }
    }
    Ok(Verdict::Pass(max_abs_diff))
}

/// The verdict on a case of which the CPU computed some operators.
fn fallback(runner: &Runner) -> Verdict {
    let types: Vec<String> = runner.on_cpu().iter().map(|operator| operator.op_type().to_owned()).collect();
    let reason = format!("no kernel for {}", list(types.iter().collect::<BTreeSet<_>>()));
    Verdict::Error { kind: Kind::Unsupported, reason, unsupported: types }
}

fn built(folder: &Folder, how: &How, limits: &Limits) -> Result<Runner, EngineError> {
    let How { engine, registry, .. } = how;
    if PlanFile::is_plan(&folder.param) {
        return engine.load(PlanFile::open(&folder.param, limits)?.with_registry(registry.clone()), limits);
    }
    let graph = RuntimeGraph::new(&folder.param).with_limits(limits.clone());
    engine.build(graph.with_registry(registry.clone()), limits)
}

/// Runs the model on one set of inputs.
fn run_set(folder: &Folder, set: &Set, runner: &mut Runner, limits: &Limits) -> Result<Verdict, Verdict> {
    let unreadable = |reason: String| Verdict::error(Kind::Read, reason);
    let (inputs, wanted) = set.load(runner.graph().inputs().len(), limits).map_err(unreadable)?;
    let ports = runner.graph().inputs().iter().zip(&inputs);
    let is_sample = ports.into_iter().all(|(port, tensor)| fits_file(runner.graph(), port, tensor));
    let failed = |error: EngineError| match graph_error(&error) {
        Some(misfit) if is_misfit(misfit) => unreadable(full_message(misfit)),
        _ => {
            let place = set.name().map_or_else(String::new, |name| format!("{name}: "));
            let kind = if matches!(error, EngineError::Panic { .. }) { Kind::Panic } else { Kind::Run };
            Verdict::error(kind, format!("{place}{}", full_message(&error)))
        }
    };
    let outcome = runner.run(&inputs, true).map_err(failed)?;
    let found: Vec<Tensor> = outcome.outputs.into_iter().map(|(_, tensor)| tensor).collect();
    let graph = runner.graph();
    let record = outcome.record.filter(|_| is_sample);
    let contradiction = record.and_then(|record| contradiction(graph, &record.trace));
    let verdict = compare(folder, graph, &found, &wanted, contradiction);
    Ok(match (verdict, set.name()) {
        (Verdict::Fail(mismatch), Some(name)) => {
            Verdict::Fail(Mismatch { reason: format!("{name}: {}", mismatch.reason), ..mismatch })
        }
        (verdict, _) => verdict,
    })
}

/// Verifies the checksum of every weight.
fn check_archive(folder: &Folder, limits: &Limits) -> Result<(), Verdict> {
    if PlanFile::is_plan(&folder.param) {
        let verified = PlanFile::open(&folder.param, limits).map_err(EngineError::from);
        let verified = verified.and_then(|plan| plan.verify());
        return verified.map_err(|error| Verdict::unbuilt(&error));
    }
    let options = ReadOptions { bin: folder.bin.clone(), limits: limits.clone(), ..ReadOptions::default() };
    let graph = read_model(&folder.param, &options);
    let graph = graph.map_err(|error| Verdict::error(Kind::Read, full_message(&error)))?;
    match graph.verify_checksums().first() {
        None => Ok(()),
        Some(damage) => Err(Verdict::error(Kind::Read, full_message(damage))),
    }
}

fn compare(
    folder: &Folder,
    graph: &RuntimeGraph,
    found: &[Tensor],
    wanted: &[Tensor],
    contradiction: Option<String>,
) -> Verdict {
    let mut max_abs_diff = 0f64;
    let mut problems = Vec::new();
    for (index, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        match difference(folder, found, wanted) {
            Ok(diff) => max_abs_diff = max_abs_diff.max(diff),
            Err((problem, diff)) => {
                max_abs_diff = max_abs_diff.max(diff);
                problems.push((index, problem));
            }
        }
    }
    if found.len() != wanted.len() {
        let reason = format!("expected {} outputs, got {}", wanted.len(), found.len());
        let suspects = contradiction.into_iter().collect();
        return Verdict::Fail(Mismatch { reason, max_abs_diff, suspects });
    }
    let Some((index, problem)) = problems.first() else {
        return Verdict::Pass(max_abs_diff);
    };
    let operand = |index: usize| graph.outputs().get(index).map(|port| port.operand);
    let producers =
        problems.iter().filter_map(|&(index, _)| operand(index)).filter_map(|at| producer(graph, at));
    let first =
        producers.min_by_key(|(place, _)| *place).map(|(_, name)| format!("the output comes from {name}"));
    let reason = match problems.len() {
        1 => format!("output {index}: {problem}"),
        count => format!("{count} of {} outputs; output {index}: {problem}", found.len()),
    };
    let suspects = contradiction.into_iter().chain(first).collect();
    Verdict::Fail(Mismatch { reason, max_abs_diff, suspects })
}

/// The largest absolute difference of two tensors. If they do not match, the error also holds the reason.
fn difference(folder: &Folder, found: &Tensor, wanted: &Tensor) -> Result<f64, (String, f64)> {
    let unread = |error: TensorError| (error.to_string(), f64::INFINITY);
    let tolerance = folder.tolerance_of(wanted.dtype());
    let compare = |more| found.allclose(wanted, tolerance, tolerance + more, true);
    let comparison = compare(0.0).map_err(unread)?;
    let alike = comparison.dtypes[0] == comparison.dtypes[1] && comparison.shapes[0] == comparison.shapes[1];
    match alike {
        true if !folder.values => Ok(0.0),
        _ if comparison.holds() => Ok(comparison.max_abs_diff),
        true if compare(rounding(wanted, tolerance).map_err(unread)?).map_err(unread)?.holds() => {
            Ok(comparison.max_abs_diff)
        }
        _ => Err((comparison.to_string(), if alike { comparison.max_abs_diff } else { 0.0 })),
    }
}

/// The maximum rounding error to accept, in tolerances. Without a maximum, a mask value of −10³⁰⁰ would excuse any error in
/// small numbers.
const MAX_ROUNDING: f64 = 100.0;

/// The rounding error of the largest finite element of a tensor of f32, f64 or complex numbers of these; 0 for other types.
/// The expected results were computed from sums of numbers of this size. If these cancel out, the result has an error of
/// this size itself.
fn rounding(wanted: &Tensor, tolerance: f64) -> Result<f64, TensorError> {
    let epsilon = match wanted.dtype() {
        DType::F32 | DType::C64 => f64::from(f32::EPSILON),
        DType::F64 | DType::C128 => f64::EPSILON,
        _ => return Ok(0.0),
    };
    let numbers = wanted.cast(DType::C128)?.to_vec::<Complex<f64>>()?;
    let parts = numbers.iter().flat_map(|number| [number.re.abs(), number.im.abs()]);
    let largest = parts.filter(|part| part.is_finite()).fold(0.0, f64::max);
    Ok((epsilon * largest).min(MAX_ROUNDING * tolerance))
}

/// The operator that computed a tensor, and its position in execution order.
fn producer(graph: &RuntimeGraph, operand: OperandIndex) -> Option<(usize, String)> {
    let operator = graph.operator(graph.operand(operand).producer()?);
    let place = graph.operators().iter().position(|other| other.name() == operator.name())?;
    Some((place, format!("{} `{}`", operator.op_type(), operator.name())))
}

/// The first operator whose output does not have the shape or element type that the file recorded at export.
fn contradiction(graph: &RuntimeGraph, trace: &Trace) -> Option<String> {
    for layer in &trace.layers {
        let Some(operator) = graph.operator_named(&layer.name) else { continue };
        for (&output, meta) in operator.outputs().iter().zip(&layer.outputs) {
            let operand = graph.operand(output);
            let (Some(dtype), Some(shape)) = (operand.dtype(), operand.shape()) else {
                continue;
            };
            let sizes: Vec<Option<i64>> = meta.dims().iter().map(|dim| dim.fixed()).collect();
            // That of a quantised tensor was chosen by the engine.
            let is_other = dtype != meta.dtype() && operand.scale().is_none();
            if is_other || !fits(shape, &sizes) {
                let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
                let (op_type, name, wanted) = (operator.op_type(), operator.name(), dims.join("×"));
                let specified = format!("but the file specifies {wanted} {dtype}");
                return Some(format!("{op_type} `{name}` returns {meta}, {specified}"));
            }
        }
    }
    None
}

/// Returns true if an input has the shape of the sample that the model was exported with, so that the shapes in the file apply.
fn fits_file(graph: &RuntimeGraph, port: &InputPort, tensor: &Tensor) -> bool {
    let sizes: Vec<Option<i64>> = tensor.shape().iter().map(|&size| i64::try_from(size).ok()).collect();
    graph.operand(port.operand).shape().is_none_or(|shape| fits(shape, &sizes))
}

fn fits(shape: &[Dim], sizes: &[Option<i64>]) -> bool {
    let fits = |(dim, size): (&Dim, &Option<i64>)| match dim {
        Dim::Fixed(wanted) => size.is_none_or(|size| u64::try_from(size) == Ok(*wanted)),
        _ => true,
    };
    shape.len() == sizes.len() && shape.iter().zip(sizes).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const RELU: &str = "7767517\n3 2\npnnx.Input in 0 1 x #x=(2)f32\nnn.ReLU relu 1 1 x y #y=(2)f32\npnnx.Output out 1 0 y\n";

    fn case(text: &str, input: Tensor, wanted: Tensor, settings: &str) -> Verdict {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.param"), text).unwrap();
        fs::write(folder.path().join("case.toml"), settings).unwrap();
        input.save_npy(folder.path().join("in_0.npy")).unwrap();
        wanted.save_npy(folder.path().join("out_0.npy")).unwrap();
        run(folder.path(), &How { checksums: true, ..How::default() }, &Limits::default())
    }

    fn floats(values: &[f32]) -> Tensor {
        Tensor::from_vec(values.to_vec(), &[values.len()]).unwrap()
    }

    fn reason(verdict: Verdict) -> (String, Vec<String>) {
        match verdict {
            Verdict::Fail(mismatch) => (mismatch.reason, mismatch.suspects),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_tolerance_is_relative_and_absolute() {
        assert_eq!(case(RELU, floats(&[-1.0, 2.0]), floats(&[0.0, 2.0]), ""), Verdict::Pass(0.0));
        let close = case(RELU, floats(&[0.0, 100.0]), floats(&[0.0, 100.005]), "");
        assert!(matches!(close, Verdict::Pass(diff) if diff > 0.004));
        let far = |settings| case(RELU, floats(&[0.0, 1.0]), floats(&[0.0, 1.001]), settings);
        let (why, suspects) = reason(far(""));
        assert!(why.starts_with("output 0: 1 of 2 elements"), "{why}");
        assert_eq!(suspects, ["the output comes from nn.ReLU `relu`"]);
        assert!(matches!(far("tolerance = 1e-2"), Verdict::Pass(_)));
        assert!(matches!(far("values = false"), Verdict::Pass(diff) if diff == 0.0));
    }

    /// Sums of numbers up to 40,000 have an error of 0.004 if they cancel out.
    #[test]
    fn results_are_as_exact_as_their_largest_element() {
        let off = |by: f32, largest: f32| case(RELU, floats(&[by, largest]), floats(&[0.0, largest]), "");
        assert!(matches!(off(0.004, 4e4), Verdict::Pass(diff) if diff > 0.003));
        assert!(matches!(off(0.006, 4e4), Verdict::Fail(_)));
        assert!(matches!(off(0.004, 400.0), Verdict::Fail(_)));
        assert!(matches!(off(0.004, f32::INFINITY), Verdict::Fail(_)));
        assert!(matches!(off(0.02, f32::MIN), Verdict::Fail(_)), "a mask of the smallest number is no sum");
    }

    #[test]
    fn other_shapes_and_types_fail_even_without_values() {
        for wanted in [floats(&[0.0]), Tensor::from_vec(vec![0i64, 2], &[2]).unwrap()] {
            reason(case(RELU, floats(&[0.0, 2.0]), wanted, "values = false"));
        }
    }

    #[test]
    fn a_contradiction_to_the_file_is_a_suspect() {
        let text = RELU.replace("#y=(2)f32", "#y=(3)f32");
        let (_, suspects) = reason(case(&text, floats(&[0.0, 2.0]), floats(&[9.0, 9.0]), ""));
        assert_eq!(suspects[0], "nn.ReLU `relu` returns 2 f32, but the file specifies 3 f32");
    }

    #[test]
    fn errors_have_a_kind() {
        let kind = |verdict| match verdict {
            Verdict::Error { kind, .. } => kind,
            other => panic!("{other:?}"),
        };
        let one = || floats(&[1.0, 2.0]);
        assert_eq!(kind(case("", one(), one(), "")), Kind::Read);
        assert_eq!(kind(case(RELU, one(), one(), "x = 1")), Kind::Read);
        assert_eq!(kind(case(&RELU.replace("nn.ReLU", "my.Own"), one(), one(), "")), Kind::Unsupported);
        assert_eq!(kind(case(&RELU.replace(" #y", " sharp=1 #y"), one(), one(), "")), Kind::Build);
        assert_eq!(kind(case(RELU, Tensor::scalar(1f32), one(), "")), Kind::Read);
        let conv = RELU.replace("nn.ReLU relu 1 1 x y", "F.conv2d conv 2 1 x x y");
        assert_eq!(kind(case(&conv, one(), one(), "")), Kind::Run);
        assert_eq!(kind(catch_panic(|| panic!("a fault"))), Kind::Panic);
    }
}
