//! Bitwise operations on integers and bools.

use super::comparison::{Connective, logical_not};
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::broadcast::{TensorOrScalar, broadcast, common};
use crate::support::delegation::delegating;
use ixion_kernels::elementwise::Program;
use ixion_pnnx::Function;
use ixion_tensor::{DType, Scalar};

/// A function of the bits of the input and another operand.
#[derive(Debug, Clone, Copy)]
struct Bitwise(Function, TensorOrScalar);

impl Layer for Bitwise {
    /// Operands are integers, or bools unless the function is a shift.
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let Self(function, other) = self;
        let dtype = common(inputs, &[TensorOrScalar::Input(0), *other]);
        let is_shift = matches!(function, Function::Lshift | Function::Rshift);
        let is_supported = dtype.is_integer() || (dtype == DType::Bool && !is_shift);
        if !is_supported {
            let wanted = if is_shift { "integers" } else { "integers and bool" };
            return Err(LayerError::dtype("the inputs", wanted, dtype));
        }
        Ok(vec![TensorMeta::new(dtype, broadcast(inputs[0].dims(), other.dims(inputs))?)])
    }
}

impl CpuLayer for Bitwise {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (function, operands) = (self.0, [TensorOrScalar::Input(0), self.1]);
        let (mut program, dtype) = (Program::default(), io.outputs[0].dtype());
        if dtype == DType::Bool {
            let [left, right] = operands.map(|operand| operand.converted(io.inputs, DType::Bool));
            let connective = match function {
                Function::And => Connective::And,
                Function::Or => Connective::Or,
                _ => Connective::Xor,
            };
            return connective.join(&left?, &right?, &mut io.outputs[0]);
        }
        let [a, b] = operands.map(|operand| match operand {
            TensorOrScalar::Input(position) => {
                let value = program.input(position, io.inputs[position].dtype());
                program.cast(value, dtype)
            }
            TensorOrScalar::Number(number) => program.constant(number, dtype),
        });
        let value = program.apply(function, dtype, a, b);
        Ok(program.run(value, io.inputs, &mut io.outputs[0], io.context.limits())?)
    }
}

delegating! {
    {
        /// The second operand: a tensor, which is broadcast, or a number.
        other: TensorOrScalar,
    }

    /// `torch.bitwise_and`: the bitwise AND of the operands; the logical AND of bools.
    BitwiseAnd for "torch.bitwise_and", "aten::bitwise_and" |layer| Bitwise(Function::And, layer.other);

    /// `torch.bitwise_or`: the bitwise OR of the operands; the logical OR of bools.
    BitwiseOr for "torch.bitwise_or", "aten::bitwise_or" |layer| Bitwise(Function::Or, layer.other);

    /// `torch.bitwise_xor`: the bitwise XOR of the operands; the logical XOR of bools.
    BitwiseXor for "torch.bitwise_xor", "aten::bitwise_xor" |layer| Bitwise(Function::Xor, layer.other);

    /// `torch.bitwise_left_shift`: shifts the input's bits to the left by `other`.
    LeftShift for "torch.bitwise_left_shift", "aten::bitwise_left_shift" |layer| Bitwise(Function::Lshift, layer.other);

    /// `torch.bitwise_right_shift`: shifts the input's bits to the right by `other`, keeping the sign.
    RightShift for "torch.bitwise_right_shift", "aten::bitwise_right_shift" |layer| Bitwise(Function::Rshift, layer.other);
}

crate::operator! {
    /// `torch.bitwise_not`: inverts all bits of integers; the logical NOT of bools.
    pub struct BitwiseNot for "torch.bitwise_not", "aten::bitwise_not" {}
}

impl Layer for BitwiseNot {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let dtype = inputs[0].dtype();
        if dtype.is_integer() || dtype == DType::Bool {
            return Ok(vec![inputs[0].with_dtype(dtype)]);
        }
        Err(LayerError::dtype("the input", "integers and bool", dtype))
    }
}

impl CpuLayer for BitwiseNot {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if io.inputs[0].dtype() == DType::Bool {
            return logical_not(&io.inputs[0], &mut io.outputs[0]);
        }
        let (mut program, dtype) = (Program::default(), io.inputs[0].dtype());
        let (x, ones) = (program.input(0, dtype), program.constant(Scalar::Int(-1), dtype));
        let inverted = program.apply(Function::Xor, dtype, x, ones);
        Ok(program.run(inverted, io.inputs, &mut io.outputs[0], io.context.limits())?)
    }
}

operators! { BitwiseAnd, BitwiseOr, BitwiseXor, LeftShift, RightShift, BitwiseNot }

#[cfg(test)]
mod tests {
    use crate::support::testing::{operator, tensor};
    use ixion_tensor::{DType, Tensor};

    /// PyTorch's results.
    #[test]
    fn bits() {
        let (x, y) = (tensor(&[3], &[6i32, -5, 9]), tensor(&[2, 1], &[3i8, 1]));
        for (op_type, want) in [
            ("torch.bitwise_and", [2, 3, 1, 0, 1, 1]),
            ("torch.bitwise_or", [7, -5, 11, 7, -5, 9]),
            ("torch.bitwise_xor", [5, -8, 10, 7, -6, 8]),
            ("torch.bitwise_left_shift", [48, -40, 72, 12, -10, 18]),
            ("torch.bitwise_right_shift", [0, -1, 1, 3, -3, 4]),
        ] {
            let got = operator(op_type, &[]).run_one(&[&x, &y]).unwrap();
            assert_eq!((got.dtype(), got.to_vec::<i32>().unwrap()), (DType::I32, want.to_vec()), "{op_type}");
            operator(op_type, &[]).survives(2);
        }
        let (t, f) = (tensor(&[2], &[true, false]), tensor(&[1], &[true]));
        let both = operator("torch.bitwise_xor", &[]).run_one(&[&t, &f]).unwrap();
        assert_eq!(both.to_vec::<bool>().unwrap(), [false, true]);
        assert!(operator("torch.bitwise_left_shift", &[]).run(&[&t, &f]).is_err());
        assert!(operator("torch.bitwise_and", &[]).run(&[&tensor(&[1], &[1f32]), &f]).is_err());
    }

    #[test]
    fn inverted_bits() {
        let invert = |x: &Tensor| operator("torch.bitwise_not", &[]).run_one(&[x]);
        assert_eq!(invert(&tensor(&[2], &[true, false])).unwrap().to_vec::<bool>().unwrap(), [false, true]);
        assert_eq!(invert(&tensor(&[3], &[0u8, 1, 255])).unwrap().to_vec::<u8>().unwrap(), [255, 254, 0]);
        assert!(invert(&tensor(&[1], &[1f32])).is_err());
        operator("torch.bitwise_not", &[]).survives(1);
    }
}
