//! Arithmetic that depends on element types in another way than PyTorch's: quotients of integers, powers of mixed types, bits.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::fields::ElementType;
use super::lowering::Source;
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::broadcast::TensorOrScalar;
use ixion_tensor::{DType, Dim, Scalar};

/// The first input.
const X: Source = Source::Input(0);

crate::operator! {
    /// `Div` (since 1): the quotient; that of integers is rounded towards 0.
    pub struct Div for "Div" {
        /// The divisor, broadcast.
        b as "B": TensorOrScalar,
    }
}

crate::operator! {
    /// `Pow` (since 1): the power, in the element type of the base.
    pub struct Pow for "Pow" {
        /// The exponent, broadcast.
        y as "Y": TensorOrScalar,
    }
}

crate::operator! {
    /// `BitCast` (since 26): the bits of each element as an element of another type of the same size.
    pub struct BitCast for "BitCast" {
        /// The element type, as its ONNX number.
        to: ElementType,
    }
}

/// The second operand in an expression, and the sources of its inputs.
fn second(operand: TensorOrScalar) -> (String, Vec<Source>) {
    match operand {
        TensorOrScalar::Input(position) => ("@1".to_owned(), vec![X, Source::Input(position)]),
        TensorOrScalar::Number(Scalar::Bool(value)) => (i64::from(value).to_string(), vec![X]),
        TensorOrScalar::Number(Scalar::Float(value)) => (format!("{value:?}"), vec![X]),
        TensorOrScalar::Number(number) => (number.to_string(), vec![X]),
    }
}

/// Returns true if an operand is known not to be negative.
fn is_natural(operand: TensorOrScalar, inputs: &[TensorMeta]) -> bool {
    match operand {
        TensorOrScalar::Number(Scalar::Int(value)) => value >= 0,
        TensorOrScalar::Number(_) => false,
        TensorOrScalar::Input(position) => inputs.get(position).is_some_and(|input| {
            let values = input.values();
            input.dtype() == DType::U8 || values.is_some_and(|values| values.iter().all(Dim::is_natural))
        }),
    }
}

impl Decompose for Div {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let (b, inputs) = second(self.b);
        let is_float = !decomposition.dtype(X)?.is_integer();
        let operands = [TensorOrScalar::Input(0), self.b];
        let expression = if is_float {
            format!("div(@0,{b})")
        } else if operands.iter().all(|operand| is_natural(*operand, decomposition.inputs())) {
            format!("floor_divide(@0,{b})")
        } else {
            // The difference is a multiple of the divisor.
            format!("floor_divide(sub(@0,fmod(@0,{b})),{b})")
        };
        Ok(vec![decomposition.compute(&expression, &inputs)?])
    }
}

impl Decompose for Pow {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let (dtype, (y, mut inputs)) = (decomposition.dtype(X)?, second(self.y));
        let is_float = match self.y {
            TensorOrScalar::Input(position) => decomposition.dtype(Source::Input(position))?.is_float(),
            TensorOrScalar::Number(number) => matches!(number, Scalar::Float(_)),
        };
        if dtype.is_integer() && is_float {
            // f32 would not hold all integers.
            for input in &mut inputs {
                *input = decomposition.cast(*input, DType::F64)?;
            }
        }
        let power = decomposition.compute(&format!("pow(@0,{y})"), &inputs)?;
        Ok(vec![decomposition.cast(power, dtype)?])
    }
}

impl Decompose for BitCast {
    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        if decomposition.dtype(X)? == self.to.0 {
            return Ok(vec![X]);
        }
        Ok(vec![decomposition.step(Reinterpret { to: self.to.0 }, &[X])?])
    }
}

/// The bits of each element as another type of the same size.
#[derive(Debug, Clone)]
struct Reinterpret {
    to: DType,
}

impl Layer for Reinterpret {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let from = inputs[0].dtype();
        // Not all bytes are bools.
        if from.size() != self.to.size() || self.to == DType::Bool {
            let wanted = format!("elements as large as {}, and not bool", self.to);
            return Err(LayerError::dtype("the input", wanted, from));
        }
        Ok(vec![TensorMeta::new(self.to, inputs[0].dims().to_vec())])
    }
}

impl CpuLayer for Reinterpret {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let input = io.inputs[0].to_tensor()?;
        let output = io.outputs[0].bytes_mut()?;
        output.copy_from_slice(input.view().bytes()?);
        Ok(())
    }
}

operators! {
    entry => Div, Pow, BitCast; category Elementwise
}
