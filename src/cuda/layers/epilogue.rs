//! Epilogues: operations on a product before it is stored, generated as code of the kernel that computes it.
//!
//! Kernels that support an epilogue contain `EPILOGUE_PARAMETERS` before their parameters, and `EPILOGUE` at the point where a
//! result is in `value`, of type `C`, and the row-major index of its element in `index`. After a library call, an element-wise
//! kernel applies the epilogue.

use super::codegen::{code_of, compute_type};
use super::elementwise::Map;
use super::prelude::*;
use super::support::{computed_in, input, kernel_shape, strides};
use crate::ops::support::epilogue::Epilogue;
use crate::pnnx::Function;
use crate::tensor::Shape;
use smallvec::SmallVec;
use std::fmt::Write;

/// An epilogue as code of a kernel.
#[derive(Debug, Clone, Default)]
pub(super) struct EpilogueCode {
    parameters: String,
    /// The lines that load inputs as `in0`, `in1`, …
    loads: String,
    /// The lines that continue from there and from `value`.
    steps: String,
    /// The number of the variable with the result of the steps; `None` if there is no epilogue.
    last: Option<usize>,
    /// The positions of the inputs that it reads, and their element types.
    inputs: Vec<(usize, DType)>,
    form: Form,
}

/// The form of an epilogue, for libraries that support some forms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// No epilogue.
    #[default]
    Nothing,
    /// A function of the result, or of the sum of the result and the input at a position.
    FunctionOfSum(Option<usize>, Option<Function>),
    /// Anything else.
    Other,
}

/// The arguments of a launch.
pub(super) type Arguments<'a> = SmallVec<[Argument<'a>; 24]>;

impl EpilogueCode {
    /// The code for inputs like these and a single output.
    ///
    /// # Errors
    /// [`LayerError::Unsupported`] if a function of the epilogue has no code.
    pub(super) fn of(
        epilogue: Option<&Epilogue>,
        inputs: &[TensorMeta],
        outputs: &[TensorMeta],
    ) -> Result<Self> {
        let output = outputs.first().ok_or_else(|| LayerError::missing_input(0, 0))?;
        let Some(epilogue) = epilogue else { return Ok(Self::default()) };
        let (program, value) = epilogue.program(output, inputs)?;
        let (steps, read) = code_of(&program, value, Some("value")).ok_or_else(unsupported)?;
        let form = epilogue
            .function_of_sum()
            .map_or(Form::Other, |(added, function)| Form::FunctionOfSum(added, function));
        let mut generated = Self { form, steps, last: Some(value.position()), ..Self::default() };
        for input in read {
            if !generated.inputs.contains(&input) {
                generated.read(input).ok_or_else(unsupported)?;
            }
        }
        Ok(generated)
    }

    /// As [`EpilogueCode::of`], for a layer whose tensors are quantised if `is_int8`.
    ///
    /// # Errors
    /// As [`EpilogueCode::of`].
    pub(super) fn of_int8(
        epilogue: Option<&Epilogue>,
        inputs: &[TensorMeta],
        outputs: &[TensorMeta],
        is_int8: bool,
    ) -> Result<Self> {
        Self::of(epilogue, &dequantized(inputs, is_int8), &dequantized(outputs, is_int8))
    }

    /// The form of the epilogue, for libraries.
    pub(super) fn form(&self) -> Form {
        self.form
    }

    fn read(&mut self, (position, dtype): (usize, DType)) -> Option<()> {
        let compute_type = compute_type(dtype)?;
        write!(self.parameters, "const {dtype}* e{position}, Strides se{position}, ").ok()?;
        let element = format!("e{position}[offset(index, epilogue_shape, se{position})]");
        writeln!(self.loads, "        {compute_type} in{position} = load<{compute_type}>({element});")
            .ok()?;
        self.inputs.push((position, dtype));
        Some(())
    }

    /// The source of a kernel with the epilogue.
    pub(super) fn unit(&self, name: &'static str, text: &str) -> Unit {
        let parameters = match self.inputs.is_empty() {
            true => String::new(),
            false => format!("{}Shape epilogue_shape, ", self.parameters),
        };
        let code = self.last.map_or_else(String::new, |last| {
            format!("{{\n{}\n{}        value = (C)v{last};\n}}", self.loads, self.steps)
        });
        let text = text.replace("EPILOGUE_PARAMETERS ", &parameters).replace("EPILOGUE;", &code);
        Unit::new(name, text)
    }

    /// The arguments of the kernel for the epilogue, which precede its own.
    ///
    /// # Errors
    /// Returns an error if an input cannot be broadcast to the result.
    pub(super) fn arguments<'a>(&self, inputs: &[DeviceTensor<'a>], output: &Shape) -> Result<Arguments<'a>> {
        let mut arguments = Arguments::new();
        for &(position, _) in &self.inputs {
            let input = input(inputs, position)?;
            arguments.push(Argument::Read(input));
            arguments.push(Argument::Strides(strides(&input.layout().expand(output)?)));
        }
        if !self.inputs.is_empty() {
            arguments.push(Argument::Shape(kernel_shape(output)));
        }
        Ok(arguments)
    }

    /// Applies the epilogue to each element of a layer's output, in place.
    ///
    /// # Errors
    /// Those of the launch, and as [`EpilogueCode::arguments`].
    pub(super) fn apply(
        &self,
        inputs: &[DeviceTensor<'_>],
        output: &DeviceTensor<'_>,
        context: &mut CudaContext<'_>,
    ) -> Result<()> {
        let Some(last) = self.last else { return Ok(()) };
        let (result, dtype) = (inputs.len(), output.dtype());
        let compute_type = computed_in(dtype)?;
        let read = self.inputs.iter().copied().chain([(result, dtype)]).collect();
        let body = format!("        {compute_type} value = in{result};\n{}", self.steps);
        let map = Map::new(read, dtype, &body, &format!("({compute_type})v{last}"));
        let tensors: Vec<DeviceTensor<'_>> = inputs.iter().chain([output]).copied().collect();
        map.ok_or_else(unsupported)?.run(&tensors, output, context)
    }
}

/// The error for functions and types without kernels.
fn unsupported() -> LayerError {
    LayerError::Unsupported("a function of the epilogue has no kernel".to_owned())
}

/// Tensors as epilogues see them: if `is_int8`, i8 tensors are quantised, and count as f32.
fn dequantized(metas: &[TensorMeta], is_int8: bool) -> Vec<TensorMeta> {
    let dequantized = |meta: &TensorMeta| match meta.dtype() {
        DType::I8 if is_int8 => meta.with_dtype(DType::F32).with_scale(None),
        _ => meta.clone(),
    };
    metas.iter().map(dequantized).collect()
}
