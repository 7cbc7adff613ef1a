//! Bitwise operations on integers and bools.

use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta};
use crate::support::broadcast::{TensorOrScalar, broadcast, common};
use crate::support::pairs::pairs;
use ixion_kernels::elementwise::Program;
use ixion_pnnx::Function;
use ixion_tensor::{DType, Scalar, TensorView, TensorViewMut};
use ndarray::Zip;
use std::ops::RangeInclusive;

/// The shape rule: operands are integers, or bools unless the function is a shift.
fn infer(
    inputs: &[TensorMeta],
    other: TensorOrScalar,
    function: Function,
) -> Result<Vec<TensorMeta>, LayerError> {
    let dtype = common(inputs, &[TensorOrScalar::Input(0), other]);
    let is_shift = matches!(function, Function::Lshift | Function::Rshift);
    let is_supported = dtype.is_integer() || (dtype == DType::Bool && !is_shift);
    if !is_supported {
        let wanted = if is_shift { "integers" } else { "integers and bool" };
        return Err(LayerError::DType {
            what: "the inputs".to_owned(),
            wanted: wanted.to_owned(),
            found: dtype,
        });
    }
    Ok(vec![TensorMeta::new(dtype, broadcast(inputs[0].dims(), other.dims(inputs))?)])
}

macro_rules! bitwise {
    ($($(#[doc = $doc:literal])* $name:ident is $function:ident for $op_type:literal;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $op_type {
                /// The second operand: a tensor, which is broadcast, or a number.
                other: TensorOrScalar,
            }
        }

        impl Layer for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                let count = 1 + self.other.num_inputs();
                count..=count
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                infer(inputs, self.other, Function::$function)
            }
        }

        impl CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                context: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                if outputs[0].dtype() == DType::Bool {
                    return of_bools(Function::$function, self.other, inputs, &mut outputs[0]);
                }
                let (mut program, dtype) = (Program::default(), outputs[0].dtype());
                let [a, b] = [TensorOrScalar::Input(0), self.other].map(|factor| match factor {
                    TensorOrScalar::Input(position) => {
                        let value = program.input(position, inputs[position].dtype());
                        program.cast(value, dtype)
                    }
                    TensorOrScalar::Number(number) => program.constant(number, dtype),
                });
                let value = program.apply(Function::$function, dtype, a, b);
                Ok(program.run(value, inputs, &mut outputs[0], context.limits())?)
            }
        }
    )*};
}

bitwise! {
    /// `torch.bitwise_and`: the bitwise AND of the operands; the logical AND of bools.
    BitwiseAnd is And for "torch.bitwise_and";

    /// `torch.bitwise_or`: the bitwise OR of the operands; the logical OR of bools.
    BitwiseOr is Or for "torch.bitwise_or";

    /// `torch.bitwise_xor`: the bitwise XOR of the operands; the logical XOR of bools.
    BitwiseXor is Xor for "torch.bitwise_xor";

    /// `torch.bitwise_left_shift`: shifts the input's bits to the left by `other`.
    LeftShift is Lshift for "torch.bitwise_left_shift";

    /// `torch.bitwise_right_shift`: shifts the input's bits to the right by `other`, keeping the sign.
    RightShift is Rshift for "torch.bitwise_right_shift";
}

/// The same for bools, which are stored as bytes.
fn of_bools(
    function: Function,
    other: TensorOrScalar,
    inputs: &[TensorView<'_>],
    output: &mut TensorViewMut<'_>,
) -> Result<(), LayerError> {
    let left = TensorOrScalar::Input(0).converted(inputs, DType::Bool)?;
    let right = other.converted(inputs, DType::Bool)?;
    match function {
        Function::And => pairs(&left, &right, output, |a: bool, b: bool| a & b),
        Function::Or => pairs(&left, &right, output, |a: bool, b: bool| a | b),
        _ => pairs(&left, &right, output, |a: bool, b: bool| a ^ b),
    }
}

crate::operator! {
    /// `torch.bitwise_not`: inverts all bits of integers; the logical NOT of bools.
    pub struct BitwiseNot for "torch.bitwise_not" {}
}

impl Layer for BitwiseNot {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        let dtype = inputs[0].dtype();
        if dtype.is_integer() || dtype == DType::Bool {
            return Ok(vec![inputs[0].with_dtype(dtype)]);
        }
        Err(LayerError::DType {
            what: "the input".to_owned(),
            wanted: "integers and bool".to_owned(),
            found: dtype,
        })
    }
}

impl CpuLayer for BitwiseNot {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        if inputs[0].dtype() == DType::Bool {
            return logical_not(&inputs[0], &mut outputs[0]);
        }
        let (mut program, dtype) = (Program::default(), inputs[0].dtype());
        let (x, ones) = (program.input(0, dtype), program.constant(Scalar::Int(-1), dtype));
        let inverted = program.apply(Function::Xor, dtype, x, ones);
        Ok(program.run(inverted, inputs, &mut outputs[0], context.limits())?)
    }
}

fn logical_not(input: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<(), LayerError> {
    Zip::from(output.array::<bool>()?).and(input.array::<bool>()?).for_each(|y, &x| *y = !x);
    Ok(())
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
