//! Element-wise kernels, assembled from the code of each layer.

use super::codegen::{compute_type, converted, literal, rounded};
use super::elementwise::Map;
use super::family::{Family, Member};
use super::prelude::*;
use super::support::{is_real_in_any_order, metas};
use crate::op::CpuLayer;
use crate::ops::support::broadcast::TensorOrScalar;
use crate::tensor::Scalar;

/// The code of an element-wise kernel under construction. Methods return the names of variables, or `None` for types and values
/// that kernels do not support.
#[derive(Debug)]
pub(super) struct KernelBuilder<'a> {
    inputs: &'a [TensorMeta],
    read: Vec<(usize, DType)>,
    body: String,
    variables: usize,
}

impl<'a> KernelBuilder<'a> {
    /// An empty kernel for inputs like these.
    pub(super) fn new(inputs: &'a [TensorMeta]) -> Self {
        Self { inputs, read: Vec::new(), body: String::new(), variables: 0 }
    }

    /// The element types and shapes of the inputs.
    pub(super) fn inputs(&self) -> &'a [TensorMeta] {
        self.inputs
    }

    /// An input, converted to an element type, in a variable of its [`compute_type`].
    pub(super) fn input(&mut self, position: usize, dtype: DType) -> Option<String> {
        let from = self.inputs.get(position)?.dtype();
        if self.read.iter().all(|(read, _)| *read != position) {
            self.read.push((position, from));
        }
        let to = compute_type(dtype)?;
        let text = converted(&format!("in{position}"), from, dtype)?;
        Some(self.assign(to, &text))
    }

    /// A tensor or a scalar, converted to an element type.
    pub(super) fn operand(&mut self, operand: TensorOrScalar, dtype: DType) -> Option<String> {
        match operand {
            TensorOrScalar::Input(position) => self.input(position, dtype),
            TensorOrScalar::Number(scalar) => self.scalar(scalar, dtype),
        }
    }

    /// A scalar of the file, converted to an element type.
    pub(super) fn scalar(&mut self, scalar: Scalar, dtype: DType) -> Option<String> {
        let to = compute_type(dtype)?;
        let text = match (scalar, to) {
            (Scalar::Complex(_), _) => return None,
            // Fractions such as 0.5 are true as well.
            (Scalar::Float(value), _) if dtype == DType::Bool => format!("(i64){}", u8::from(value != 0.0)),
            (Scalar::Bool(value), _) => format!("({to}){}", u8::from(value)),
            (Scalar::Int(value), "i64") => format!("(i64){:#x}ull", value as u64),
            (Scalar::Int(value), _) => literal(value as f64, to),
            (Scalar::Float(value), _) => literal(value, to),
        };
        let text = rounded(&text, dtype);
        Some(self.assign(to, &text))
    }

    /// A constant, rounded to an element type. Half precision is computed in float, as on the CPU, so parameters are usually
    /// constants of [`DType::F32`]: a small one might become 0.
    pub(super) fn constant(&mut self, value: f64, dtype: DType) -> Option<String> {
        self.scalar(Scalar::Float(value), dtype)
    }

    /// Code with the first input, in double, in place of `$x`.
    pub(super) fn of_double(&mut self, text: &str) -> Option<String> {
        let x = self.input(0, DType::F64)?;
        Some(text.replace("$x", &x))
    }

    /// Assigns an expression to a new variable, and returns its name.
    pub(super) fn assign(&mut self, compute_type: &str, text: &str) -> String {
        let name = format!("a{}", self.variables);
        self.variables += 1;
        self.body.push_str(&format!("        {compute_type} {name} = {text};\n"));
        name
    }

    /// Completes the kernel, with this value as the output.
    pub(super) fn map(self, output: DType, value: &str) -> Option<Map> {
        let to = compute_type(output)?;
        Map::new(self.read, output, &self.body, &format!("({to})({value})"))
    }
}

/// Element-wise layers, each with the code for one element, given the layer, the kernel and the element type of the output;
/// `None` for types and values that kernels do not support.
pub(super) struct Pointwise<L>(pub(super) fn(&L, &mut KernelBuilder<'_>, DType) -> Option<String>);

impl<L: CpuLayer + Clone + 'static> Family for Pointwise<L> {
    type Layer = L;
}

impl<L: CpuLayer + Clone + 'static> Member<Pointwise<L>> {
    /// The kernel for tensors like these.
    fn map(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<Map> {
        let Self { layer, entry: Pointwise(code) } = self;
        let map = |output: DType| {
            let mut kernel = KernelBuilder::new(inputs);
            let value = code(layer, &mut kernel, output)?;
            kernel.map(output, &value)
        };
        outputs.first().and_then(|output| map(output.dtype())).ok_or_else(no_kernel)
    }
}

impl<L: CpuLayer + Clone + 'static> CudaLayer for Member<Pointwise<L>> {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        is_real_in_any_order(position, formats)
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        self.map(inputs, outputs).map(drop)
    }

    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        self.map(&metas(io.inputs), &metas(io.outputs))?.run(io.inputs, &io.outputs[0], io.context)
    }
}

/// Writes an input or a scalar, converted to the element type of `to`.
///
/// # Errors
/// [`LayerError::Unsupported`] if kernels do not support the types or the scalar.
pub(super) fn write_operand(
    operand: TensorOrScalar,
    inputs: &[DeviceTensor<'_>],
    to: &DeviceTensor<'_>,
    context: &mut CudaContext<'_>,
) -> Result<()> {
    let metas = metas(inputs);
    let mut kernel = KernelBuilder::new(&metas);
    let value = kernel.operand(operand, to.dtype()).ok_or_else(no_kernel)?;
    kernel.map(to.dtype(), &value).ok_or_else(no_kernel)?.run(inputs, to, context)
}

/// The error for types, values or functions that kernels do not support.
pub(super) fn no_kernel() -> LayerError {
    LayerError::Unsupported("no kernel supports these types and parameters".to_owned())
}
