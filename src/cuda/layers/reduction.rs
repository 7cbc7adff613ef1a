//! Reductions along axes, and cumulative sums and products.

use super::family::{Family, Member};
use super::prelude::*;
use super::rows::Rows;
use super::support::{computed_in, is_real, is_real_in_any_order, typed};
use crate::op::CpuLayer;
use crate::ops::reduction::along_axes::{
    All, Amax, Amin, Any, Axes, Deviation, LogSumExp, Mean, Norm, Operation, Product, Reduction, Sum,
    Variance,
};
use crate::ops::reduction::extremes::{Argmax, Argmin, Max, Min};
use crate::ops::reduction::scan::{Cumprod, Cumsum};

/// The layers of this family.
pub(super) const LAYERS: &[&dyn Entry] = &[
    &Reductions::<Sum>(Sum::reduction),
    &Reductions::<Mean>(Mean::reduction),
    &Reductions::<Product>(Product::reduction),
    &Reductions::<Amax>(Amax::reduction),
    &Reductions::<Amin>(Amin::reduction),
    &Reductions::<LogSumExp>(LogSumExp::reduction),
    &Reductions::<Variance>(Variance::reduction),
    &Reductions::<Deviation>(Deviation::reduction),
    &Reductions::<Norm>(Norm::reduction),
    &Simple::<Any>::new(is_real_in_any_order, |layer, io| {
        any_or_all(true, layer.dim.as_deref(), layer.keepdim, io)
    }),
    &Simple::<All>::new(is_real_in_any_order, |layer, io| {
        any_or_all(false, layer.dim.as_deref(), layer.keepdim, io)
    }),
    &Simple::<Max>::new(is_real, |layer, io| {
        let outputs = [io.outputs.first(), io.outputs.get(1)];
        extremes(true, (layer.dim, layer.keepdim), outputs, io)
    }),
    &Simple::<Min>::new(is_real, |layer, io| {
        let outputs = [io.outputs.first(), io.outputs.get(1)];
        extremes(false, (layer.dim, layer.keepdim), outputs, io)
    }),
    &Simple::<Argmax>::new(is_real, |layer, io| {
        extremes(true, (layer.dim, layer.keepdim), [None, io.outputs.first()], io)
    }),
    &Simple::<Argmin>::new(is_real, |layer, io| {
        extremes(false, (layer.dim, layer.keepdim), [None, io.outputs.first()], io)
    }),
    &Simple::<Cumsum>::new(is_real, |layer, io| scan(false, layer.dim, io)),
    &Simple::<Cumprod>::new(is_real, |layer, io| scan(true, layer.dim, io)),
];

/// Layers that are a [`Reduction`].
struct Reductions<L>(fn(&L) -> Reduction<'_>);

impl<L: CpuLayer + Clone + 'static> Family for Reductions<L> {
    type Layer = L;
}

impl<L: CpuLayer + Clone + 'static> CudaLayer for Member<Reductions<L>> {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real_in_any_order(position, formats)
    }

    fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<()> {
        let dtype = inputs.first().map_or(DType::F32, TensorMeta::dtype);
        computed_in((self.entry.0)(&self.layer).computed(dtype)?).map(drop)
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let (x, y) = (&io.inputs[0], &io.outputs[0]);
        let reduction = (self.entry.0)(&self.layer);
        let axes = Axes::new(reduction.dim, reduction.keepdim, x.shape().len())?;
        let computed = reduction.computed(x.dtype())?;
        ReductionCode::of(reduction.operation, computed).run(&axes.reduced, [x, y], computed, io.context)
    }
}

/// The steps of a row's reduction, as kernel code.
struct ReductionCode {
    start: &'static str,
    map: &'static str,
    combine: &'static str,
    finish: &'static str,
    /// A statistic of the row that is needed first.
    centre: &'static str,
    number: f64,
}

impl ReductionCode {
    const SUM: Self =
        Self { start: "0", map: "v", combine: "Sum", finish: "value", centre: "0", number: 0.0 };

    fn of(operation: Operation, computed: DType) -> Self {
        let is_float = computed.is_float();
        match operation {
            Operation::Sum => Self::SUM,
            Operation::Mean => Self { finish: "value / (A)length", ..Self::SUM },
            Operation::Product => Self { start: "1", combine: "Product", ..Self::SUM },
            Operation::Max if is_float => Self { start: "-(C)INFINITY", combine: "Max", ..Self::SUM },
            Operation::Max => Self { start: "(-0x7fffffffffffffffll - 1)", combine: "Max", ..Self::SUM },
            Operation::Min if is_float => Self { start: "(C)INFINITY", combine: "Min", ..Self::SUM },
            Operation::Min => Self { start: "0x7fffffffffffffffll", combine: "Min", ..Self::SUM },
            Operation::Variance { correction } => Self {
                map: "(v - centre) * (v - centre)",
                finish: "value / (A)(length > number ? length - number : 0.0)",
                centre: "MEAN",
                number: correction,
                ..Self::SUM
            },
            Operation::Deviation { correction } => Self {
                finish: "sqrt(value / (A)(length > number ? length - number : 0.0))",
                ..Self::of(Operation::Variance { correction }, computed)
            },
            Operation::LogSumExp => {
                Self { map: "exp(v - centre)", finish: "log(value) + centre", centre: "LARGEST", ..Self::SUM }
            }
            Operation::Norm { p } => Self::norm(p),
        }
    }

    fn norm(p: f64) -> Self {
        let magnitudes = Self { map: "fabs(v)", ..Self::SUM };
        match p {
            f64::INFINITY => Self { combine: "Max", ..magnitudes },
            f64::NEG_INFINITY => Self { start: "(C)INFINITY", combine: "Min", ..magnitudes },
            0.0 => Self { map: "(C)(v != 0)", ..Self::SUM },
            1.0 => magnitudes,
            2.0 => Self { map: "v * v", finish: "sqrt(value)", ..Self::SUM },
            p => Self {
                map: "pow(fabs(v), (C)number)",
                finish: "pow(value, (A)(1 / number))",
                number: p,
                ..Self::SUM
            },
        }
    }

    /// True if any element is non-zero, or if all are.
    fn any_or_all(is_any: bool) -> Self {
        let (start, combine) = if is_any { ("0", "Max") } else { ("1", "Min") };
        Self { start, combine, map: "(C)(v != 0)", ..Self::SUM }
    }

    fn run(
        &self,
        reduced: &[bool],
        [x, y]: [&DeviceTensor<'_>; 2],
        computed: DType,
        context: &mut CudaContext<'_>,
    ) -> Result<()> {
        let rows = rows_of(reduced, x, &[y])?;
        let (schedule, compute_type) = (rows.schedule(&[x], |_| true), computed_in(computed)?);
        let unit = Unit::new("reduce.cu", include_str!("../kernels/reduce.cu"))
            .define("X", x.dtype().name())
            .define("S", computed.name())
            .define("T", y.dtype().name())
            .define("C", compute_type)
            .define(
                "A",
                if self.combine == "Sum" && compute_type == "float" { "double" } else { compute_type },
            )
            .define("START", self.start)
            .define("MAP", self.map)
            .define("COMBINE", self.combine)
            .define("FINISH", self.finish)
            .define("CENTRE", self.centre);
        let arguments = [
            Argument::Read(*x),
            rows.outer_strides(0),
            rows.row_strides(0),
            Argument::Write(*y),
            rows.outer_strides(1),
            Argument::Shape(rows.outer),
            Argument::Shape(rows.row),
            Argument::Long(rows.count as i64),
            Argument::Long(rows.length as i64),
            Argument::Double(self.number),
        ];
        context.run(&schedule.define(unit), "reduce", schedule.grid, &arguments)
    }
}

/// The rows along the reduced axes of a tensor, and of outputs with one element for each row.
fn rows_of(reduced: &[bool], x: &DeviceTensor<'_>, outputs: &[&DeviceTensor<'_>]) -> Result<Rows> {
    let axes: Vec<usize> = (0..reduced.len()).filter(|&axis| reduced[axis]).collect();
    let mut layouts: Vec<Layout> = vec![*x.layout()];
    for y in outputs {
        let mut layout = *y.layout();
        for &axis in &axes {
            layout = match layout.shape().len() < reduced.len() {
                true => layout.unsqueeze(axis)?,
                false => layout,
            };
        }
        layouts.push(layout.expand(x.shape())?);
    }
    Rows::along(&axes, &layouts)
}

/// Writes whether any element of each row is non-zero, or whether all are.
fn any_or_all(is_any: bool, dim: Option<&[i64]>, keepdim: bool, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let (x, y) = (&io.inputs[0], &io.outputs[0]);
    let axes = Axes::new(dim, keepdim, x.shape().len())?;
    ReductionCode::any_or_all(is_any).run(&axes.reduced, [x, y], x.dtype(), io.context)
}

/// The extremes of rows, and their indices.
fn extremes(
    is_largest: bool,
    (dim, keepdim): (Option<i64>, bool),
    [y, indices]: [Option<&DeviceTensor<'_>>; 2],
    io: &mut CudaIo<'_, '_>,
) -> Result<()> {
    let x = &io.inputs[0];
    let axes = Axes::new(dim.as_ref().map(std::slice::from_ref), keepdim, x.shape().len())?;
    let unit = typed(Unit::new("extremes.cu", include_str!("../kernels/extremes.cu")), x.dtype())?
        .define("LARGEST", u8::from(is_largest));
    let outputs: Vec<&DeviceTensor<'_>> = [y, indices].into_iter().flatten().collect();
    let rows = rows_of(&axes.reduced, x, &outputs)?;
    let of = |tensor: Option<&DeviceTensor<'_>>, position: usize| match tensor {
        Some(_) => rows.outer_strides(position),
        None => Argument::Strides(KernelStrides::default()),
    };
    let arguments = [
        Argument::Read(*x),
        rows.outer_strides(0),
        rows.row_strides(0),
        y.map_or(Argument::None, |y| Argument::Write(*y)),
        of(y, 1),
        indices.map_or(Argument::None, |indices| Argument::Write(*indices)),
        of(indices, 1 + usize::from(y.is_some())),
        Argument::Shape(rows.outer),
        Argument::Shape(rows.row),
        Argument::Long(rows.count as i64),
        Argument::Long(rows.length as i64),
    ];
    io.context.run(&unit, "extremes", rows.grid(), &arguments)
}

/// The cumulative sums or products of rows.
fn scan(is_product: bool, dim: i64, io: &mut CudaIo<'_, '_>) -> Result<()> {
    let (x, y) = (&io.inputs[0], &io.outputs[0]);
    let axes: Vec<usize> = if x.shape().is_empty() { Vec::new() } else { vec![x.shape().axis(dim)?] };
    let compute_type = computed_in(y.dtype())?;
    let unit = Unit::new("scan.cu", include_str!("../kernels/scan.cu"))
        .define("X", x.dtype().name())
        .define("T", y.dtype().name())
        .define("C", compute_type)
        .define("W", if compute_type == "i64" { "unsigned long long" } else { "double" })
        .define("IS_PRODUCT", u8::from(is_product));
    let rows = Rows::along(&axes, &[*x.layout(), *y.layout()])?;
    let arguments = rows.arguments(x, y);
    io.context.run(&unit, "scan", Grid::over(rows.count), &arguments)
}
