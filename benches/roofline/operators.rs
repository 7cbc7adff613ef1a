//! The cost of each operator of a plan in a run, and its kind of work.

use ixion::Limits;
use ixion::engine::{Builder, Context, Plan, PlanFile, StepTrace};
use ixion::graph::{OperandIndex, RuntimeOperator, default_bin_path};
use ixion::op::TensorMeta;
use ixion::pnnx::{Dim, Value};
use ixion::tensor::{DType, Tensor, TensorView};
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a model runs before it is measured.
const WARM_UP: Duration = Duration::from_millis(300);

/// A kind of work, for sums.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Pointwise,
    Square3,
    Depthwise,
    OtherConvolution,
    Linear,
    Attention,
    Other,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Pointwise,
        Self::Square3,
        Self::Depthwise,
        Self::OtherConvolution,
        Self::Linear,
        Self::Attention,
        Self::Other,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pointwise => "1×1 conv",
            Self::Square3 => "3×3 conv",
            Self::Depthwise => "depthwise",
            Self::OtherConvolution => "other conv",
            Self::Linear => "linear",
            Self::Attention => "attention",
            Self::Other => "other",
        }
    }

    fn of(operator: &RuntimeOperator) -> Self {
        let name = operator.op_type();
        let name = name.rsplit('.').next().unwrap_or(name);
        match name.to_lowercase().as_str() {
            name if name.starts_with("conv") => Self::of_convolution(operator),
            "linear" | "matmul" | "mm" | "bmm" | "addmm" | "baddbmm" => Self::Linear,
            "multiheadattention" | "scaled_dot_product_attention" => Self::Attention,
            _ => Self::Other,
        }
    }

    fn of_convolution(operator: &RuntimeOperator) -> Self {
        let ints = |key: &str| match operator.params().get(key).map(|param| param.value()) {
            Some(Value::Int(number)) => vec![*number],
            Some(Value::Ints(numbers)) => numbers.clone(),
            _ => Vec::new(),
        };
        let (kernel, groups) = (ints("kernel_size"), ints("groups"));
        if groups.iter().any(|groups| *groups > 1) {
            return if groups == ints("in_channels") { Self::Depthwise } else { Self::OtherConvolution };
        }
        match kernel.as_slice() {
            [] => Self::OtherConvolution,
            all if all.iter().all(|len| *len == 1) => Self::Pointwise,
            [3, 3] => Self::Square3,
            _ => Self::OtherConvolution,
        }
    }
}

/// One operator in one run, or the sum of several.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) op_type: String,
    pub(crate) kind: Kind,
    pub(crate) count: usize,
    pub(crate) time: Duration,
    /// A multiply-add counts as two operations.
    pub(crate) flops: u64,
    /// Inputs, outputs and weights, each once.
    pub(crate) bytes: u64,
}

impl Row {
    /// Sums rows under one name.
    pub(crate) fn sum<'r>(name: &str, kind: Kind, rows: impl Iterator<Item = &'r Self>) -> Self {
        let (name, op_type) = (name.to_owned(), String::new());
        let mut sum = Self { name, op_type, kind, count: 0, time: Duration::ZERO, flops: 0, bytes: 0 };
        for row in rows {
            sum.count += row.count;
            sum.time += row.time;
            sum.flops += row.flops;
            sum.bytes += row.bytes;
        }
        sum
    }
}

/// Builds the plan of a `.param` file or loads one.
pub(crate) fn plan(model: &Path, threads: usize) -> Result<Plan, Box<dyn Error>> {
    if PlanFile::is_plan(model) {
        return Ok(PlanFile::open(model, &Limits::default())?.with_threads(threads).load()?);
    }
    let builder = Builder::new(model).with_threads(threads);
    let has_weights = default_bin_path(model).is_file();
    Ok(if has_weights { builder } else { builder.with_random_weights(0) }.build()?)
}

/// The files in_0.npy and so on next to the model, or else noise (zeros for integers) in the shapes given by the file.
fn inputs(plan: &Plan, model: &Path) -> Result<Vec<Tensor>, Box<dyn Error>> {
    let input = |(index, port): (usize, &ixion::graph::InputPort)| {
        let beside = model.with_file_name(format!("in_{index}.npy"));
        if beside.is_file() {
            return Ok(Tensor::load_npy(beside, &Limits::default())?);
        }
        let operand = plan.graph().operand(port.operand);
        let shape = operand
            .shape()
            .ok_or_else(|| format!("the file does not contain the shape of `{}`", port.name))?;
        let len = |dim: &Dim| if let Dim::Fixed(len) = dim { *len as usize } else { 1 };
        let dims: Vec<usize> = shape.iter().map(len).collect();
        match operand.dtype().unwrap_or(DType::F32) {
            dtype if dtype.is_float() => Ok(Tensor::randn(&dims, 0)?.cast(dtype)?),
            dtype => Ok(Tensor::zeros(dtype, &dims)?),
        }
    };
    plan.graph().inputs().iter().enumerate().map(input).collect()
}

/// Runs a plan repeatedly and returns the median of each operator, in execution order.
pub(crate) fn measure(plan: &Plan, model: &Path, runs: usize) -> Result<Vec<Row>, Box<dyn Error>> {
    let inputs = inputs(plan, model)?;
    let views: Vec<TensorView<'_>> = inputs.iter().map(Tensor::view).collect();
    let mut context = plan.context()?;
    let start = Instant::now();
    while start.elapsed() < WARM_UP {
        context.run_reusing(&views)?;
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut times: Vec<Vec<Duration>> = Vec::new();
    for _ in 0..runs {
        let trace = context.run_traced(&views)?;
        rows = trace.steps.iter().map(|step| row(&context, step)).collect();
        times.resize(rows.len(), Vec::new());
        times.iter_mut().zip(&rows).for_each(|(times, row)| times.push(row.time));
    }
    for (row, mut times) in rows.iter_mut().zip(times) {
        times.sort_unstable();
        row.time = times.get(times.len() / 2).copied().unwrap_or_default();
    }
    Ok(rows)
}

fn row(context: &Context<'_>, step: &StepTrace) -> Row {
    let operator = context.plan().graph().operator(step.operator);
    let metas = |operands: &[OperandIndex]| -> Option<Vec<TensorMeta>> {
        operands.iter().map(|operand| context.metas().get(operand.position())?.clone()).collect()
    };
    // The cost is unknown unless the sizes of all operands are known.
    let known = metas(operator.inputs()).zip(metas(operator.outputs()));
    let cost = known.and_then(|(inputs, outputs)| operator.cost(&inputs, &outputs).ok()).unwrap_or_default();
    // Only the selected rows of a table are read.
    let is_table = operator.op_type().to_lowercase().ends_with("embedding");
    let weights = if is_table { 0 } else { operator.weight_bytes() };
    Row {
        name: operator.name().to_owned(),
        op_type: operator.op_type().to_owned(),
        kind: Kind::of(operator),
        count: 1,
        time: step.time,
        flops: cost.macs.saturating_mul(2),
        bytes: cost.bytes.saturating_add(weights),
    }
}
