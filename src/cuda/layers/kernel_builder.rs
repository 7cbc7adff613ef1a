//! Element-wise kernels, assembled from the code of each layer.

use super::codegen::{compute_type, converted, literal, rounded};
use super::elementwise::Map;
use crate::op::TensorMeta;
use crate::ops::support::broadcast::TensorOrScalar;
use crate::tensor::{DType, Scalar};

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

    /// An input, converted to an element type.
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

    /// A constant of an element type.
    pub(super) fn constant(&mut self, value: f64, dtype: DType) -> Option<String> {
        self.scalar(Scalar::Float(value), dtype)
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

/// Layers that compute each element from those of the inputs at the same position.
pub(super) trait Pointwise {
    /// The kernel for tensors like these, or `None` if an element type has no kernel.
    fn map_of(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Option<Map>;
}

/// Declares element-wise layers by the code for one element, given the layer, the kernel and the output's element type.
macro_rules! pointwise {
    ($($layer:ident |$this:ident, $kernel:ident, $dtype:ident| $value:expr;)*) => {$(
        impl $crate::cuda::layers::kernel_builder::Pointwise for $layer {
            fn map_of(&self, inputs: &[$crate::op::TensorMeta], outputs: &[$crate::op::TensorMeta]) -> Option<$crate::cuda::layers::elementwise::Map> {
                let ($this, $dtype) = (self, outputs.first()?.dtype());
                let _ = ($this, $dtype);
                let mut kernel = $crate::cuda::layers::kernel_builder::KernelBuilder::new(inputs);
                let $kernel = &mut kernel;
                let value: String = $value;
                kernel.map($dtype, &value)
            }
        }

        impl $crate::cuda::CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[$crate::op::TensorFormat]) -> bool {
                use $crate::cuda::layers::support::{is_real, row_major};
                is_real(position, &row_major(formats))
            }

            fn configure(&mut self, inputs: &[$crate::op::TensorMeta], outputs: &[$crate::op::TensorMeta]) -> Result<(), $crate::op::LayerError> {
                $crate::cuda::layers::kernel_builder::Pointwise::map_of(self, inputs, outputs).map(drop).ok_or_else($crate::cuda::layers::kernel_builder::no_kernel)
            }

            fn forward(
                &mut self,
                inputs: &[$crate::cuda::device::DeviceTensor<'_>],
                outputs: &[$crate::cuda::device::DeviceTensor<'_>],
                context: &mut $crate::cuda::CudaContext<'_>,
            ) -> Result<(), $crate::op::LayerError> {
                use $crate::cuda::layers::product::metas;
                let map = $crate::cuda::layers::kernel_builder::Pointwise::map_of(self, &metas(inputs), &metas(outputs));
                map.ok_or_else($crate::cuda::layers::kernel_builder::no_kernel)?.run(inputs, &outputs[0], context)
            }
        }
    )*

        /// Registers the layers of this family.
        pub(super) fn register(layers: &mut $crate::cuda::CudaLayers) {
            $(layers.register::<$layer>();)*
            register_others(layers);
        }
    };
}
pub(super) use pointwise;

/// The error for types, values or functions that kernels do not support.
pub(super) fn no_kernel() -> crate::op::LayerError {
    crate::op::LayerError::Unsupported("no kernel supports these types and parameters".to_owned())
}
