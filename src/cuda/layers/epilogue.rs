//! Epilogues: operations on a product before it is stored, generated as code of the kernel that computes it.
//!
//! Kernels that support an epilogue contain `EPILOGUE_PARAMETERS` before their parameters, and `EPILOGUE` at the point where a
//! result is in `value`, of type `C`, and the row-major index of its element in `index`.

use super::codegen::{code_of, compute_type};
use super::prelude::*;
use super::support::{input, kernel_shape, strides};
use crate::ops::support::epilogue::Epilogue;
use crate::pnnx::Function;
use crate::tensor::Shape;
use smallvec::SmallVec;
use std::fmt::Write;

/// An epilogue as code of a kernel.
#[derive(Debug, Clone, Default)]
pub(super) struct EpilogueCode {
    parameters: String,
    code: String,
    /// The positions of the inputs that it reads.
    inputs: Vec<usize>,
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
        let unsupported = || LayerError::Unsupported("a function of the epilogue has no kernel".to_owned());
        let (program, value) = epilogue.program(output, inputs)?;
        let (steps, read) = code_of(&program, value, Some("value")).ok_or_else(unsupported)?;
        let form = epilogue
            .function_of_sum()
            .map_or(Form::Other, |(added, function)| Form::FunctionOfSum(added, function));
        let mut generated = Self { form, ..Self::default() };
        for (position, dtype) in read {
            if !generated.inputs.contains(&position) {
                generated.read(position, dtype).ok_or_else(unsupported)?;
            }
        }
        let last = value.position();
        write!(generated.code, "\n{steps}        value = (C)v{last};\n").map_err(|_| unsupported())?;
        generated.code.insert_str(0, "{\n");
        generated.code.push('}');
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

    fn read(&mut self, position: usize, dtype: DType) -> Option<()> {
        let compute_type = compute_type(dtype)?;
        write!(self.parameters, "const {dtype}* e{position}, Strides se{position}, ").ok()?;
        let element = format!("e{position}[offset(index, epilogue_shape, se{position})]");
        writeln!(self.code, "        {compute_type} in{position} = load<{compute_type}>({element});").ok()?;
        self.inputs.push(position);
        Some(())
    }

    /// The source of a kernel with the epilogue.
    pub(super) fn unit(&self, name: &'static str, text: &str) -> Unit {
        let parameters = match self.inputs.is_empty() {
            true => String::new(),
            false => format!("{}Shape epilogue_shape, ", self.parameters),
        };
        let text = text.replace("EPILOGUE_PARAMETERS ", &parameters).replace("EPILOGUE;", &self.code);
        Unit::new(name, text)
    }

    /// The arguments of the kernel for the epilogue, which precede its own.
    ///
    /// # Errors
    /// Returns an error if an input cannot be broadcast to the result.
    pub(super) fn arguments<'a>(&self, inputs: &[DeviceTensor<'a>], output: &Shape) -> Result<Arguments<'a>> {
        let mut arguments = Arguments::new();
        for &position in &self.inputs {
            let input = input(inputs, position)?;
            arguments.push(Argument::Read(input));
            arguments.push(Argument::Strides(strides(&input.layout().expand(output)?)));
        }
        if !self.inputs.is_empty() {
            arguments.push(Argument::Shape(kernel_shape(output)));
        }
        Ok(arguments)
    }
}

/// Tensors as epilogues see them: if `is_int8`, i8 tensors are quantised, and count as f32.
fn dequantized(metas: &[TensorMeta], is_int8: bool) -> Vec<TensorMeta> {
    let dequantized = |meta: &TensorMeta| match meta.dtype() {
        DType::I8 if is_int8 => meta.with_dtype(DType::F32).with_scale(None),
        _ => meta.clone(),
    };
    metas.iter().map(dequantized).collect()
}
