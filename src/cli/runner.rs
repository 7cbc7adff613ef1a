//! Running a model: planned by the engine, or interpreted operator by operator.

use super::Failure;
use super::device::DeviceArgs;
use super::formats::FormatArgs;
use clap::{Args, ValueEnum};
use ixion::Limits;
use ixion::engine::{Builder, Context, EngineError, Plan, PlanFile};
use ixion::graph::{GraphError, LayerTrace, OperandIndex, RuntimeGraph, RuntimeOperator, Trace};
use ixion::op::TensorMeta;
use ixion::passes::{PassContext, PassError, Passes};
use ixion::shape::{Contradiction, contradictions, contradictions_in};
use ixion::tensor::{DType, Tensor, TensorView};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The graph to interpret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Interpret {
    /// The graph of the file
    Plain,
    /// The graph of the file after all passes
    Optimised,
}

/// How a model runs: by the engine, with its options, or by the interpreter.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InterpretArgs {
    /// Interpret the file's graph operator by operator, or with =optimised the graph after all passes
    ///
    /// By default the engine runs the model: passes optimise the graph, and memory is planned for the shapes of the inputs.
    #[arg(
        long, value_name = "GRAPH", num_args = 0..=1, require_equals = true, default_missing_value = "plain",
        hide_possible_values = true, conflicts_with_all = ["precision", "scales", "layouts", "tactic", "without_tactic", "tune", "device"]
    )]
    pub(crate) interpret: Option<Interpret>,
    #[command(flatten)]
    pub(crate) formats: FormatArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

/// [`InterpretArgs`], `--threads` and `--without`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct EngineArgs {
    #[command(flatten)]
    pub(crate) mode: InterpretArgs,
    /// The number of threads; 0 uses all processors
    ///
    /// The results do not depend on it.
    #[arg(
        long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(..=1024),
        conflicts_with = "interpret"
    )]
    pub(crate) threads: u16,
    /// Disable a pass, or `all` passes; may be repeated
    #[arg(long, alias = "no-pass", value_name = "PASS")]
    pub(crate) without: Vec<String>,
}

/// A model that is ready to run.
pub(crate) struct Runner {
    kind: Kind,
    /// What contradicts the file, if there is no plan that knows it.
    warnings: Vec<Contradiction>,
    limits: Limits,
}

enum Kind {
    Graph(Box<RuntimeGraph>),
    Engine(Box<Context<'static>>),
}

/// The result of one run.
pub(crate) struct Outcome {
    pub(crate) outputs: Vec<(String, Tensor)>,
    pub(crate) time: Duration,
    pub(crate) record: Option<Record>,
}

/// The trace of one run, and when each operator began.
#[derive(Debug)]
pub struct Record {
    /// What ran, and for how long.
    pub trace: Trace,
    /// The time from the start of the run, for each entry of the trace.
    pub starts: Vec<Duration>,
}

impl EngineArgs {
    /// Checks that the options are consistent.
    ///
    /// # Errors
    /// As [`FormatArgs::check`], or if `--without` is given although the file's graph is interpreted, on which no pass runs.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.mode.formats.check()?;
        if self.mode.interpret != Some(Interpret::Plain) || self.without.is_empty() {
            return Ok(());
        }
        let failure =
            Failure::unusable("--interpret runs the file's graph without passes, so --without has no effect");
        Err(failure.advise("`--interpret=optimised --without …` runs the graph after all passes but these"))
    }

    /// Builds a model from a graph with its files, limits and weights.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub(crate) fn build(&self, source: RuntimeGraph, limits: &Limits) -> Result<Runner, EngineError> {
        match self.mode.interpret {
            Some(Interpret::Plain) => {
                let runner = Runner::interpreted(source, limits)?;
                let warnings = contradictions(runner.graph())?;
                Ok(Runner { warnings, ..runner })
            }
            Some(Interpret::Optimised) => {
                let registry = source.registry().clone();
                let is_random = source.has_random_weights();
                let mut file = source.into_pnnx()?;
                let unchanged = RuntimeGraph::from_pnnx(file.clone()).with_limits(limits.clone());
                let unchanged = unchanged.with_registry(registry.clone());
                let unchanged = if is_random { unchanged.with_random_weights(0) } else { unchanged };
                let warnings = contradictions_in(unchanged);
                let known =
                    PassContext::default().with_limits(limits.clone()).with_registry(registry.clone());
                passes(&self.without)?.run(&mut file, known)?;
                let graph = RuntimeGraph::from_pnnx(file).with_limits(limits.clone());
                let runner = Runner::interpreted(graph.with_registry(registry), limits)?;
                Ok(Runner { warnings, ..runner })
            }
            None => {
                let builder = Builder::from_graph(source)
                    .with_limits(limits.clone())
                    .with_passes(passes(&self.without)?)
                    .with_threads(self.threads.into());
                let builder = self.mode.device.apply(self.mode.formats.apply(builder)?)?;
                Runner::planned(builder.build()?, limits)
            }
        }
    }

    /// Loads a plan, or its graph for the interpreter, to which passes have already been applied.
    ///
    /// # Errors
    /// As [`PlanFile::load`].
    pub(crate) fn load(&self, plan: PlanFile, limits: &Limits) -> Result<Runner, EngineError> {
        if self.mode.interpret.is_some() {
            let graph = RuntimeGraph::from_pnnx(plan.graph()?).with_limits(limits.clone());
            return Runner::interpreted(graph.with_registry(plan.registry().clone()), limits);
        }
        let plan = self.mode.device.apply_to_file(plan.with_threads(self.threads.into()))?;
        Runner::planned(plan.load()?, limits)
    }

    /// The name of the mode in which the model runs.
    pub(crate) fn name(&self) -> &'static str {
        match self.mode.interpret {
            None => "planned",
            Some(Interpret::Plain) => "interpreted",
            Some(Interpret::Optimised) => "interpreted after passes",
        }
    }
}

/// All passes except these. No passes if one of the names is `all`.
///
/// # Errors
/// Fails if a name is unknown.
pub(crate) fn passes(without: &[String]) -> Result<Passes, PassError> {
    let mut passes = Passes::default();
    for name in without {
        match name.as_str() {
            "all" => passes.set_all_enabled(false),
            name => passes.set_enabled(name, false)?,
        }
    }
    Ok(passes)
}

impl Runner {
    fn interpreted(mut graph: RuntimeGraph, limits: &Limits) -> Result<Self, EngineError> {
        graph.build()?;
        Ok(Self { kind: Kind::Graph(Box::new(graph)), warnings: Vec::new(), limits: limits.clone() })
    }

    fn planned(plan: Plan, limits: &Limits) -> Result<Self, EngineError> {
        let mut context = Context::shared(Arc::new(plan))?;
        if let Some(cancel) = &limits.cancel {
            context.share_cancel_token(cancel.clone());
        }
        Ok(Self { kind: Kind::Engine(Box::new(context)), warnings: Vec::new(), limits: limits.clone() })
    }

    /// The context of a plan; `None` if the graph is interpreted.
    fn context(&self) -> Option<&Context<'static>> {
        match &self.kind {
            Kind::Graph(_) => None,
            Kind::Engine(context) => Some(context),
        }
    }

    /// The graph that runs.
    pub(crate) fn graph(&self) -> &RuntimeGraph {
        match &self.kind {
            Kind::Graph(graph) => graph,
            Kind::Engine(context) => context.plan().graph(),
        }
    }

    /// The operators of the file that contradict what it records.
    pub(crate) fn warnings(&self) -> &[Contradiction] {
        self.context().map_or(self.warnings.as_slice(), |context| context.plan().warnings())
    }

    /// The operators that the CPU computed in the last run; empty without a plan.
    pub(crate) fn on_cpu(&self) -> Vec<&RuntimeOperator> {
        self.context().map_or_else(Vec::new, |context| context.on_cpu())
    }

    /// The number of threads of one run.
    pub(crate) fn threads(&self) -> usize {
        self.context().map_or(1, |context| context.plan().threads())
    }

    /// The size of the arena in bytes, if there is a plan.
    pub(crate) fn arena_bytes(&self) -> Option<u64> {
        self.context().map(|context| context.arena_bytes() as u64)
    }

    /// The size of all weights in bytes.
    pub(crate) fn weight_bytes(&self) -> u64 {
        let weights = self.graph().operators().iter().map(|operator| operator.weight_bytes());
        weights.fold(0, u64::saturating_add)
    }

    /// Runs the model on inputs in the order of its ports.
    ///
    /// # Errors
    /// As [`Context::run`].
    pub(crate) fn run(&mut self, inputs: &[Tensor], traced: bool) -> Result<Outcome, EngineError> {
        let names: Vec<String> = self.graph().outputs().iter().map(|port| port.name.clone()).collect();
        let deadline = self.limits.deadline;
        let (tensors, time, record) = match &mut self.kind {
            Kind::Graph(graph) => interpret(graph, inputs, traced)?,
            Kind::Engine(context) => {
                context.set_timeout(deadline.map(|end| end.saturating_duration_since(Instant::now())));
                plan(context, inputs, traced)?
            }
        };
        Ok(Outcome { outputs: names.into_iter().zip(tensors).collect(), time, record })
    }

    /// Runs the model as [`Runner::run`] and returns only the time that it took.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub(crate) fn time(&mut self, inputs: &[Tensor]) -> Result<Duration, EngineError> {
        let Kind::Engine(context) = &mut self.kind else { return Ok(self.run(inputs, false)?.time) };
        let views: Vec<TensorView<'_>> = inputs.iter().map(Tensor::view).collect();
        let start = Instant::now();
        context.run_reusing(&views)?;
        Ok(start.elapsed())
    }
}

type Ran = (Vec<Tensor>, Duration, Option<Record>);

fn interpret(graph: &mut RuntimeGraph, inputs: &[Tensor], traced: bool) -> Result<Ran, EngineError> {
    let names: Vec<String> = graph.inputs().iter().map(|port| port.name.clone()).collect();
    for (name, input) in names.iter().zip(inputs) {
        graph.set_input(name, input.clone())?;
    }
    let start = Instant::now();
    let trace = match traced {
        true => Some(graph.run_traced()?),
        false => graph.run().map(|()| None)?,
    };
    let time = start.elapsed();
    let record = trace.map(|trace| {
        let end = |sum: &mut Duration, time: Duration| {
            let start = *sum;
            *sum += time;
            Some(start)
        };
        let starts = trace.layers.iter().map(|layer| layer.time).scan(Duration::ZERO, end).collect();
        Record { trace, starts }
    });
    Ok((graph.output_values()?, time, record))
}

fn plan(context: &mut Context<'static>, inputs: &[Tensor], traced: bool) -> Result<Ran, EngineError> {
    let start = Instant::now();
    if !traced {
        let outputs = context.run(inputs)?;
        return Ok((outputs, start.elapsed(), None));
    }
    let views: Vec<TensorView<'_>> = inputs.iter().map(Tensor::view).collect();
    let trace = context.run_traced(&views)?;
    let time = start.elapsed();
    let outputs: Vec<Tensor> = context.outputs().iter().flatten().cloned().collect();
    Ok((outputs, time, Some(record(context, trace))))
}

/// The record of a context's last run, which was traced.
pub fn record(context: &Context<'_>, trace: ixion::engine::Trace) -> Record {
    let output_bytes = context.outputs().iter().flatten().map(|output| output.byte_len() as u64).sum::<u64>();
    Record {
        starts: trace.steps.iter().map(|step| step.start).collect(),
        trace: Trace {
            layers: trace.steps.iter().map(|step| layer_trace(context, step)).collect(),
            total: trace.total,
            peak_bytes: (context.arena_bytes() as u64).saturating_add(output_bytes),
        },
    }
}

fn layer_trace(context: &Context<'_>, step: &ixion::engine::StepTrace) -> LayerTrace {
    let operator = context.plan().graph().operator(step.operator);
    let meta = |operand: &OperandIndex| context.metas().get(operand.position())?.clone();
    let inputs: Vec<TensorMeta> = operator.inputs().iter().filter_map(meta).collect();
    let outputs: Vec<TensorMeta> = operator.outputs().iter().filter_map(meta).collect();
    // The cost is unknown unless the sizes of all operands are known.
    let is_known = inputs.len() == operator.inputs().len() && outputs.len() == operator.outputs().len();
    let cost = Some(operator).filter(|_| is_known).and_then(|it| it.cost(&inputs, &outputs).ok());
    LayerTrace {
        name: operator.name().to_owned(),
        op_type: operator.op_type().to_owned(),
        time: step.time,
        inputs,
        outputs,
        cost: cost.unwrap_or_default(),
    }
}

/// The graph error that caused an engine error, if any.
pub(crate) fn graph_error(error: &EngineError) -> Option<&GraphError> {
    match error {
        EngineError::Graph(error) => Some(error),
        _ => None,
    }
}

/// The failure of a run: exit code 2 if the inputs do not fit the model's ports, else 1.
pub(crate) fn run_failure(error: EngineError) -> Failure {
    match graph_error(&error) {
        Some(GraphError::InputDType { wanted, .. }) => {
            let (name, failure) = (numpy_name(*wanted), Failure::unusable(error));
            match name {
                Some(name) => {
                    failure.advise(format!("in Python: numpy.save(\"x.npy\", x.astype(\"{name}\"))"))
                }
                None => failure,
            }
        }
        Some(found) if is_misfit(found) => Failure::unusable(error),
        _ => Failure::failed(error),
    }
}

/// Returns true if an error means that the inputs do not fit the model's ports.
pub(crate) fn is_misfit(error: &GraphError) -> bool {
    matches!(
        error,
        GraphError::InputDType { .. }
            | GraphError::InputLengths { .. }
            | GraphError::InputShape { .. }
            | GraphError::MissingInputs { .. }
            | GraphError::TooManyInputs { .. }
            | GraphError::UnknownName { .. }
    )
}

/// NumPy's name of an element type, if NumPy has the type.
fn numpy_name(dtype: DType) -> Option<&'static str> {
    (!matches!(dtype, DType::Bf16 | DType::C32)).then(|| python_name(dtype))
}

/// The name of an element type in PyTorch and, except for bf16 and c32, in NumPy, such as `float32`.
pub fn python_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::F16 => "float16",
        DType::Bf16 => "bfloat16",
        DType::I64 => "int64",
        DType::I32 => "int32",
        DType::I16 => "int16",
        DType::I8 => "int8",
        DType::U8 => "uint8",
        DType::Bool => "bool",
        DType::C32 => "complex32",
        DType::C64 => "complex64",
        DType::C128 => "complex128",
    }
}
