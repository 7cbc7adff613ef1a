//! Kernels of one element each, put together from what a layer does with numbers.

use super::elementwise::Map;
use super::formula::{converted, literal, number, rounded};
use crate::op::TensorMeta;
use crate::ops::support::broadcast::Factor;
use crate::tensor::{DType, Scalar};

/// What a kernel reads and computes. Texts that it returns are names of numbers; none stands for what kernels do not compute in.
#[derive(Debug)]
pub(super) struct Recipe<'a> {
    inputs: &'a [TensorMeta],
    read: Vec<(usize, DType)>,
    body: String,
    names: usize,
}

impl<'a> Recipe<'a> {
    /// One for inputs like these.
    pub(super) fn new(inputs: &'a [TensorMeta]) -> Self {
        Self { inputs, read: Vec::new(), body: String::new(), names: 0 }
    }

    /// Element types and shapes of the inputs.
    pub(super) fn inputs(&self) -> &'a [TensorMeta] {
        self.inputs
    }

    /// An input as a number of some type.
    pub(super) fn input(&mut self, position: usize, dtype: DType) -> Option<String> {
        let from = self.inputs.get(position)?.dtype();
        if self.read.iter().all(|(read, _)| *read != position) {
            self.read.push((position, from));
        }
        let to = number(dtype)?;
        let text = converted(&format!("in{position}"), from, dtype)?;
        Some(self.name(to, &text))
    }

    /// A tensor or a number, as a number of some type.
    pub(super) fn factor(&mut self, factor: Factor, dtype: DType) -> Option<String> {
        match factor {
            Factor::Input(position) => self.input(position, dtype),
            Factor::Number(scalar) => self.scalar(scalar, dtype),
        }
    }

    /// A number of the file as one of some type.
    pub(super) fn scalar(&mut self, scalar: Scalar, dtype: DType) -> Option<String> {
        let to = number(dtype)?;
        let text = match (scalar, to) {
            (Scalar::Complex(_), _) => return None,
            // Half a number is true as well.
            (Scalar::Float(value), _) if dtype == DType::Bool => format!("(i64){}", u8::from(value != 0.0)),
            (Scalar::Bool(value), _) => format!("({to}){}", u8::from(value)),
            (Scalar::Int(value), "i64") => format!("(i64){:#x}ull", value as u64),
            (Scalar::Int(value), _) => literal(value as f64, to),
            (Scalar::Float(value), _) => literal(value, to),
        };
        let text = rounded(&text, dtype);
        Some(self.name(to, &text))
    }

    /// A constant.
    pub(super) fn constant(&mut self, value: f64, dtype: DType) -> Option<String> {
        self.scalar(Scalar::Float(value), dtype)
    }

    /// Gives a name to what a text computes.
    pub(super) fn name(&mut self, number: &str, text: &str) -> String {
        let name = format!("a{}", self.names);
        self.names += 1;
        self.body.push_str(&format!("        {number} {name} = {text};\n"));
        name
    }

    /// The kernel whose output is this value.
    pub(super) fn map(self, output: DType, value: &str) -> Option<Map> {
        let made = number(output)?;
        Map::new(self.read, output, &self.body, &format!("({made})({value})"))
    }
}

/// Declares layers by what becomes of each element: a text, given the layer, the recipe and the type of the output.
macro_rules! pointwise {
    ($($layer:ident |$this:ident, $recipe:ident, $dtype:ident| $value:expr;)*) => {$(
        impl $layer {
            fn map_of(&self, inputs: &[$crate::op::TensorMeta], outputs: &[$crate::op::TensorMeta]) -> Option<$crate::cuda::layers::elementwise::Map> {
                let ($this, $dtype) = (self, outputs.first()?.dtype());
                let _ = ($this, $dtype);
                let mut recipe = $crate::cuda::layers::recipe::Recipe::new(inputs);
                let $recipe = &mut recipe;
                let value: String = $value;
                recipe.map($dtype, &value)
            }
        }

        impl $crate::cuda::CudaLayer for $layer {
            fn supports(&self, position: usize, formats: &[$crate::op::TensorFormat]) -> bool {
                use $crate::cuda::layers::support::{is_real, row_major};
                is_real(position, &row_major(formats))
            }

            fn configure(&mut self, inputs: &[$crate::op::TensorMeta], outputs: &[$crate::op::TensorMeta]) -> Result<(), $crate::op::LayerError> {
                self.map_of(inputs, outputs).map(drop).ok_or_else($crate::cuda::layers::recipe::no_kernel)
            }

            fn forward(
                &mut self,
                inputs: &[$crate::cuda::device::DeviceTensor<'_>],
                outputs: &[$crate::cuda::device::DeviceTensor<'_>],
                context: &mut $crate::cuda::CudaContext<'_>,
            ) -> Result<(), $crate::op::LayerError> {
                use $crate::cuda::layers::product::metas;
                let map = self.map_of(&metas(inputs), &metas(outputs));
                map.ok_or_else($crate::cuda::layers::recipe::no_kernel)?.run(inputs, &outputs[0], context)
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

/// Numbers or functions that kernels do not compute.
pub(super) fn no_kernel() -> crate::op::LayerError {
    crate::op::LayerError::Unsupported("there is no kernel for these numbers".to_owned())
}
