//! How a model is run: planned by the engine, or operator by operator as the graph stands.

use super::device::DeviceArgs;
use super::failure::Failure;
use super::formats::FormatArgs;
use clap::{Args, ValueEnum};
use ixion::Limits;
use ixion::engine::{Builder, Context, EngineError, PlanFile};
use ixion::graph::{GraphError, LayerTrace, OperandIndex, RuntimeGraph, RuntimeOperator, Trace};
use ixion::op::TensorMeta;
use ixion::passes::{PassContext, Passes};
use ixion::tensor::{DType, Tensor, TensorView};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The graph that is interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Interpret {
    /// That of the file
    Plain,
    /// That of the file after all passes
    Optimised,
}

/// How a model is run: by the engine, with what it chooses from, or without it.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InterpretArgs {
    /// Runs operator by operator, without a plan: the file's graph, or the one after all passes (=optimised)
    ///
    /// Without it the engine runs: passes improve the graph, and memory is planned for the shapes of the inputs.
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
    /// Threads of the engine; 0 stands for all processors
    ///
    /// Results do not depend on it.
    #[arg(
        long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(..=1024),
        conflicts_with = "interpret"
    )]
    pub(crate) threads: u16,
    /// Leaves out a pass; may be repeated. `all` leaves out all of them
    #[arg(long, alias = "no-pass", value_name = "PASS")]
    pub(crate) without: Vec<String>,
}

/// A model that is ready to run.
pub(crate) struct Runner {
    kind: Kind,
    limits: Limits,
}

enum Kind {
    Graph(Box<RuntimeGraph>),
    Engine(Box<Context<'static>>),
}

/// What one run gave.
pub(crate) struct Outcome {
    pub(crate) outputs: Vec<(String, Tensor)>,
    pub(crate) time: Duration,
    pub(crate) record: Option<Record>,
}

/// What each operator of one run cost, and when it began.
pub(crate) struct Record {
    pub(crate) trace: Trace,
    /// Time from the start of the run, for each entry of the trace.
    pub(crate) starts: Vec<Duration>,
}

impl EngineArgs {
    /// Refuses what would not be heeded.
    ///
    /// # Errors
    /// As [`FormatArgs::check`]; `--without` for the interpreter's graph of the file, which no pass has seen.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.mode.formats.check()?;
        if self.mode.interpret != Some(Interpret::Plain) || self.without.is_empty() {
            return Ok(());
        }
        let failure =
            Failure::unusable("--interpret runs the file's graph, so there are no passes to leave out");
        Err(failure.advise("`--interpret=optimised --without …` runs the graph after the other passes"))
    }

    /// The passes that are left.
    fn passes(&self) -> Result<Passes, EngineError> {
        let mut passes = Passes::default();
        for name in &self.without {
            match name.as_str() {
                "all" => passes.set_all_enabled(false),
                name => passes.set_enabled(name, false)?,
            }
        }
        Ok(passes)
    }

    /// Builds a model whose files, limits and weights are settled.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub(crate) fn build(&self, source: RuntimeGraph, limits: &Limits) -> Result<Runner, EngineError> {
        let limits = limits.clone();
        let kind = match self.mode.interpret {
            Some(Interpret::Plain) => {
                let mut graph = source;
                graph.build()?;
                Kind::Graph(Box::new(graph))
            }
            Some(Interpret::Optimised) => {
                let registry = source.registry().clone();
                let mut file = source.into_pnnx()?;
                let known =
                    PassContext::default().with_limits(limits.clone()).with_registry(registry.clone());
                self.passes()?.run(&mut file, known)?;
                let mut graph =
                    RuntimeGraph::from_pnnx(file).with_limits(limits.clone()).with_registry(registry);
                graph.build()?;
                Kind::Graph(Box::new(graph))
            }
            None => {
                let builder = Builder::from_graph(source)
                    .with_limits(limits.clone())
                    .with_passes(self.passes()?)
                    .with_threads(self.threads.into());
                let plan = self.mode.device.apply(self.mode.formats.apply(builder)?)?.build()?;
                Kind::Engine(Box::new(Context::shared(Arc::new(plan))?))
            }
        };
        Ok(Runner { kind, limits })
    }

    /// Loads a plan, or its graph for the interpreter: what passes do to it they have done.
    ///
    /// # Errors
    /// As [`PlanFile::load`].
    pub(crate) fn load(&self, plan: PlanFile, limits: &Limits) -> Result<Runner, EngineError> {
        let kind = match self.mode.interpret {
            Some(_) => {
                let graph = RuntimeGraph::from_pnnx(plan.graph()?).with_limits(limits.clone());
                let mut graph = graph.with_registry(plan.registry().clone());
                graph.build()?;
                Kind::Graph(Box::new(graph))
            }
            None => {
                let plan = self.mode.device.apply_to_file(plan.with_threads(self.threads.into()))?.load()?;
                Kind::Engine(Box::new(Context::shared(Arc::new(plan))?))
            }
        };
        Ok(Runner { kind, limits: limits.clone() })
    }

    /// In a word, how the model is run.
    pub(crate) fn name(&self) -> &'static str {
        match self.mode.interpret {
            None => "planned",
            Some(Interpret::Plain) => "interpreted",
            Some(Interpret::Optimised) => "interpreted after passes",
        }
    }
}

impl Runner {
    /// The graph that runs.
    pub(crate) fn graph(&self) -> &RuntimeGraph {
        match &self.kind {
            Kind::Graph(graph) => graph,
            Kind::Engine(context) => context.plan().graph(),
        }
    }

    /// Operators that the CPU ran in the last run, where it had something to do; none without a plan.
    pub(crate) fn on_cpu(&self) -> Vec<&RuntimeOperator> {
        match &self.kind {
            Kind::Graph(_) => Vec::new(),
            Kind::Engine(context) => context.on_cpu(),
        }
    }

    /// The number of threads of one run.
    pub(crate) fn threads(&self) -> usize {
        match &self.kind {
            Kind::Graph(_) => 1,
            Kind::Engine(context) => context.plan().threads(),
        }
    }

    /// Bytes of the arena, where there is a plan.
    pub(crate) fn arena_bytes(&self) -> Option<u64> {
        match &self.kind {
            Kind::Graph(_) => None,
            Kind::Engine(context) => Some(context.arena_bytes() as u64),
        }
    }

    /// Bytes of all weights.
    pub(crate) fn weight_bytes(&self) -> u64 {
        let weights = self.graph().operators().iter().map(|operator| operator.weight_bytes());
        weights.fold(0, u64::saturating_add)
    }

    /// Runs the model on inputs in its order.
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

    /// Runs the model as [`Runner::run`], and keeps nothing but the time that it took.
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
    let output_bytes = outputs.iter().map(|output| output.byte_len() as u64).sum::<u64>();
    let record = Record {
        starts: trace.steps.iter().map(|step| step.start).collect(),
        trace: Trace {
            layers: trace.steps.iter().map(|step| layer_trace(context, step)).collect(),
            total: trace.total,
            peak_bytes: (context.arena_bytes() as u64).saturating_add(output_bytes),
        },
    };
    Ok((outputs, time, Some(record)))
}

fn layer_trace(context: &Context<'_>, step: &ixion::engine::StepTrace) -> LayerTrace {
    let operator = context.plan().graph().operator(step.operator);
    let meta = |operand: &OperandIndex| context.metas().get(operand.position())?.clone();
    let inputs: Vec<TensorMeta> = operator.inputs().iter().filter_map(meta).collect();
    let outputs: Vec<TensorMeta> = operator.outputs().iter().filter_map(meta).collect();
    // Without the sizes of all operands nothing is known of the cost.
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

/// The error of the graph behind an error of the engine.
pub(crate) fn graph_error(error: &EngineError) -> Option<&GraphError> {
    match error {
        EngineError::Graph(error) => Some(error),
        _ => None,
    }
}

/// The failure of a run: exit code 2 for inputs that do not fit the model's ports, else 1.
pub(crate) fn run_failure(error: EngineError) -> Failure {
    match graph_error(&error) {
        Some(GraphError::InputDType { wanted, .. }) => {
            let advice = numpy_name(*wanted)
                .map(|name| format!("in Python: numpy.save(\"x.npy\", x.astype(\"{name}\"))"));
            let failure = Failure::unusable(error);
            match advice {
                Some(advice) => failure.advise(advice),
                None => failure,
            }
        }
        Some(found) if is_misfit(found) => Failure::unusable(error),
        _ => Failure::failed(error),
    }
}

/// Whether inputs do not fit the model's ports.
pub(crate) fn is_misfit(error: &GraphError) -> bool {
    matches!(
        error,
        GraphError::InputDType { .. }
            | GraphError::InputShape { .. }
            | GraphError::MissingInputs { .. }
            | GraphError::TooManyInputs { .. }
            | GraphError::UnknownName { .. }
    )
}

/// NumPy's name of an element type, where it has it.
fn numpy_name(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::F16 => "float16",
        DType::I64 => "int64",
        DType::I32 => "int32",
        DType::I16 => "int16",
        DType::I8 => "int8",
        DType::U8 => "uint8",
        DType::Bool => "bool",
        DType::C64 => "complex64",
        DType::C128 => "complex128",
        _ => return None,
    })
}
