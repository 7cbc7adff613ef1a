//! Reductions along axes, and cumulative sums and products.

use super::rows::Rows;
use super::support::{computed_in, is_real, row_major};
use crate::cuda::device::{Argument, DeviceTensor, Grid, KernelStrides, Unit};
use crate::cuda::{CudaContext, CudaLayer, CudaLayers};
use crate::op::{LayerError, TensorFormat, TensorMeta};
use crate::ops::reduction::along_axes::{
    All, Amax, Amin, Any, Axes, Deviation, LogSumExp, Mean, Norm, Operation, Product, Reduction, Sum,
    Variance,
};
use crate::ops::reduction::extremes::{Argmax, Argmin, Max, Min};
use crate::ops::reduction::scan::{Cumprod, Cumsum};
use crate::tensor::{DType, Layout};

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
    ) -> Result<(), LayerError> {
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
        let kernel = context.kernel(&schedule.define(unit), "reduce")?;
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
        context.launch(&kernel, schedule.grid, &arguments)
    }
}

/// The rows along the reduced axes of a tensor, and of outputs with one element for each row.
fn rows_of(
    reduced: &[bool],
    x: &DeviceTensor<'_>,
    outputs: &[&DeviceTensor<'_>],
) -> Result<Rows, LayerError> {
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

macro_rules! reductions {
    ($($layer:ident),*) => {$(
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                is_real(position, &row_major(formats))
            }

            fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<(), LayerError> {
                let dtype = inputs.first().map_or(DType::F32, TensorMeta::dtype);
                let reduction = self.reduction();
                computed_in(reduction.computed(dtype)?).map(drop)
            }

            fn forward(
                &mut self,
                inputs: &[DeviceTensor<'_>],
                outputs: &[DeviceTensor<'_>],
                context: &mut CudaContext<'_>,
            ) -> Result<(), LayerError> {
                reduce(&self.reduction(), &inputs[0], &outputs[0], context)
            }
        }
    )*

        /// Registers the layers of this family.
        pub(super) fn register(layers: &mut CudaLayers) {
            $(layers.register::<$layer>();)*
            layers.register::<Any>();
            layers.register::<All>();
            layers.register::<Max>();
            layers.register::<Min>();
            layers.register::<Argmax>();
            layers.register::<Argmin>();
            layers.register::<Cumsum>();
            layers.register::<Cumprod>();
        }
    };
}

fn reduce(
    reduction: &Reduction<'_>,
    x: &DeviceTensor<'_>,
    y: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let axes = Axes::new(reduction.dim, reduction.keepdim, x.shape().len())?;
    let computed = reduction.computed(x.dtype())?;
    ReductionCode::of(reduction.operation, computed).run(&axes.reduced, [x, y], computed, context)
}

reductions!(Sum, Mean, Product, Amax, Amin, LogSumExp, Variance, Deviation, Norm);

macro_rules! quantifiers {
    ($($layer:ident is $is_any:literal),*) => {$(
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                is_real(position, &row_major(formats))
            }

            fn forward(
                &mut self,
                inputs: &[DeviceTensor<'_>],
                outputs: &[DeviceTensor<'_>],
                context: &mut CudaContext<'_>,
            ) -> Result<(), LayerError> {
                let (x, y) = (&inputs[0], &outputs[0]);
                let axes = Axes::new(self.dim.as_deref(), self.keepdim, x.shape().len())?;
                ReductionCode::any_or_all($is_any).run(&axes.reduced, [x, y], x.dtype(), context)
            }
        }
    )*};
}

quantifiers!(Any is true, All is false);

/// The extremes of rows, and their indices.
fn extremes(
    is_largest: bool,
    reduced: &[bool],
    x: &DeviceTensor<'_>,
    [y, indices]: [Option<&DeviceTensor<'_>>; 2],
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let unit = Unit::new("extremes.cu", include_str!("../kernels/extremes.cu"))
        .define("T", x.dtype().name())
        .define("C", computed_in(x.dtype())?)
        .define("LARGEST", u8::from(is_largest));
    let kernel = context.kernel(&unit, "extremes")?;
    let outputs: Vec<&DeviceTensor<'_>> = [y, indices].into_iter().flatten().collect();
    let rows = rows_of(reduced, x, &outputs)?;
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
    context.launch(&kernel, rows.grid(), &arguments)
}

macro_rules! extreme_layers {
    ($($layer:ident is $is_largest:literal, |$outputs:ident| $targets:expr;)*) => {$(
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                is_real(position, formats)
            }

            fn forward(
                &mut self,
                inputs: &[DeviceTensor<'_>],
                $outputs: &[DeviceTensor<'_>],
                context: &mut CudaContext<'_>,
            ) -> Result<(), LayerError> {
                let dim = self.dim.as_ref().map(std::slice::from_ref);
                let axes = Axes::new(dim, self.keepdim, inputs[0].shape().len())?;
                extremes($is_largest, &axes.reduced, &inputs[0], $targets, context)
            }
        }
    )*};
}

extreme_layers! {
    Max is true, |outputs| [outputs.first(), outputs.get(1)];
    Min is false, |outputs| [outputs.first(), outputs.get(1)];
    Argmax is true, |outputs| [None, outputs.first()];
    Argmin is false, |outputs| [None, outputs.first()];
}

macro_rules! scans {
    ($($layer:ident is $is_product:literal),*) => {$(
        impl CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
                is_real(position, formats)
            }

            fn forward(
                &mut self,
                inputs: &[DeviceTensor<'_>],
                outputs: &[DeviceTensor<'_>],
                context: &mut CudaContext<'_>,
            ) -> Result<(), LayerError> {
                scan($is_product, self.dim, &inputs[0], &outputs[0], context)
            }
        }
    )*};
}

scans!(Cumsum is false, Cumprod is true);

fn scan(
    is_product: bool,
    dim: i64,
    x: &DeviceTensor<'_>,
    y: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<(), LayerError> {
    let axes: Vec<usize> = if x.shape().is_empty() { Vec::new() } else { vec![x.shape().axis(dim)?] };
    let compute_type = computed_in(y.dtype())?;
    let unit = Unit::new("scan.cu", include_str!("../kernels/scan.cu"))
        .define("X", x.dtype().name())
        .define("T", y.dtype().name())
        .define("C", compute_type)
        .define("W", if compute_type == "i64" { "unsigned long long" } else { "double" })
        .define("IS_PRODUCT", u8::from(is_product));
    let kernel = context.kernel(&unit, "scan")?;
    let rows = Rows::along(&axes, &[*x.layout(), *y.layout()])?;
    let arguments = rows.arguments(x, y);
    context.launch(&kernel, Grid::over(rows.count), &arguments)
}
