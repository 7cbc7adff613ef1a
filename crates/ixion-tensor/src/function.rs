//! The functions of the expression language: a table of names and arities.

use crate::DType;
use std::ops::RangeInclusive;

macro_rules! functions {
    ($($(#[$doc:meta])* $function:ident = $name:literal takes $least:literal ..= $most:literal;)*) => {
        /// A function of the expression language. Names and semantics are those of PyTorch's functions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Function {
            $($(#[$doc])* $function,)*
            /// `torch.float`, `torch.long` and the other element types: a conversion to that type.
            Cast(DType),
        }

        impl Function {
            /// All functions except the casts, of which there is one for each element type.
            pub const ALL: &[Function] = &[$(Function::$function),*];

            /// The name in an expression.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$function => $name,)*
                    Self::Cast(dtype) => dtype.torch_name(),
                }
            }

            /// The number of arguments.
            pub fn arity(self) -> RangeInclusive<usize> {
                match self {
                    $(Self::$function => $least..=$most,)*
                    Self::Cast(_) => 1..=1,
                }
            }

            /// The function with the given name. The PyTorch name of an element type is a cast.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$function),)*
                    _ => DType::from_torch_name(name).map(Self::Cast),
                }
            }
        }
    };
}

functions! {
    /// Absolute value.
    Abs = "abs" takes 1..=1;
    /// Inverse cosine.
    Acos = "acos" takes 1..=1;
    /// Inverse hyperbolic cosine.
    Acosh = "acosh" takes 1..=1;
    /// Inverse sine.
    Asin = "asin" takes 1..=1;
    /// Inverse hyperbolic sine.
    Asinh = "asinh" takes 1..=1;
    /// Inverse tangent.
    Atan = "atan" takes 1..=1;
    /// Inverse hyperbolic tangent.
    Atanh = "atanh" takes 1..=1;
    /// Smallest integer not less than the argument.
    Ceil = "ceil" takes 1..=1;
    /// Cosine.
    Cos = "cos" takes 1..=1;
    /// Hyperbolic cosine.
    Cosh = "cosh" takes 1..=1;
    /// Error function.
    Erf = "erf" takes 1..=1;
    /// e to the power of the argument.
    Exp = "exp" takes 1..=1;
    /// `exp(x) - 1`, exact near 0.
    Expm1 = "expm1" takes 1..=1;
    /// Largest integer not greater than the argument.
    Floor = "floor" takes 1..=1;
    /// Conversion of a number to an int, truncating the fraction.
    Int = "int" takes 1..=1;
    /// Natural logarithm.
    Log = "log" takes 1..=1;
    /// Logarithm to base 10.
    Log10 = "log10" takes 1..=1;
    /// `log(1 + x)`, exact near 0.
    Log1p = "log1p" takes 1..=1;
    /// Negation.
    Neg = "neg" takes 1..=1;
    /// `1 / x`.
    Reciprocal = "reciprocal" takes 1..=1;
    /// Nearest integer, ties to even.
    Round = "round" takes 1..=1;
    /// `1 / sqrt(x)`.
    Rsqrt = "rsqrt" takes 1..=1;
    /// -1, 0 or 1.
    Sign = "sign" takes 1..=1;
    /// Sine.
    Sin = "sin" takes 1..=1;
    /// Hyperbolic sine.
    Sinh = "sinh" takes 1..=1;
    /// Square root.
    Sqrt = "sqrt" takes 1..=1;
    /// `x * x`.
    Square = "square" takes 1..=1;
    /// Tangent.
    Tan = "tan" takes 1..=1;
    /// Hyperbolic tangent.
    Tanh = "tanh" takes 1..=1;
    /// The integer part, rounding towards zero.
    Trunc = "trunc" takes 1..=1;
    /// Sum.
    Add = "add" takes 2..=2;
    /// Difference.
    Sub = "sub" takes 2..=2;
    /// Product.
    Mul = "mul" takes 2..=2;
    /// True quotient, a float even for ints.
    Div = "div" takes 2..=2;
    /// Quotient rounded down.
    FloorDivide = "floor_divide" takes 2..=2;
    /// Remainder with the sign of the divisor, Python's `%`.
    Remainder = "remainder" takes 2..=2;
    /// Remainder with the sign of the dividend, C's `fmod`.
    Fmod = "fmod" takes 2..=2;
    /// Power.
    Pow = "pow" takes 2..=2;
    /// Angle of the point (second, first).
    Atan2 = "atan2" takes 2..=2;
    /// Element-wise maximum.
    Max = "max" takes 2..=2;
    /// Element-wise minimum.
    Min = "min" takes 2..=2;
    /// Element-wise maximum.
    Maximum = "maximum" takes 2..=2;
    /// Element-wise minimum.
    Minimum = "minimum" takes 2..=2;
    /// `log(exp(a) + exp(b))` without overflow.
    Logaddexp = "logaddexp" takes 2..=2;
    /// Bitwise and.
    And = "and" takes 2..=2;
    /// Bitwise or.
    Or = "or" takes 2..=2;
    /// Bitwise exclusive or.
    Xor = "xor" takes 2..=2;
    /// Bitwise left shift.
    Lshift = "lshift" takes 2..=2;
    /// Arithmetic right shift, which keeps the sign.
    Rshift = "rshift" takes 2..=2;
    /// `size(x,d)`: the size of axis d as an int; `size(x)`: all sizes as a list.
    Size = "size" takes 1..=2;
    /// `F.relu`. This function and those below are specific to Ixion: PNNX does not write them; Ixion's passes do when
    /// they fuse an activation function into an expression.
    Relu = "relu" takes 1..=1;
    /// `F.relu6`.
    Relu6 = "relu6" takes 1..=1;
    /// `F.sigmoid`.
    Sigmoid = "sigmoid" takes 1..=1;
    /// `F.silu`.
    Silu = "silu" takes 1..=1;
    /// `F.gelu`, computed with the error function.
    Gelu = "gelu" takes 1..=1;
    /// `F.gelu` with `approximate="tanh"`.
    GeluTanh = "gelu_tanh" takes 1..=1;
    /// `F.hardsigmoid`.
    Hardsigmoid = "hardsigmoid" takes 1..=1;
    /// `F.hardswish`.
    Hardswish = "hardswish" takes 1..=1;
    /// `F.softplus` with the default `beta` of 1 and `threshold` of 20.
    Softplus = "softplus" takes 1..=1;
    /// `F.mish`.
    Mish = "mish" takes 1..=1;
    /// `F.leaky_relu` with its slope: `leaky_relu(x,0.01)`.
    LeakyRelu = "leaky_relu" takes 2..=2;
    /// `F.elu` with its scale: `elu(x,1.0)`.
    Elu = "elu" takes 2..=2;
    /// `torch.clamp` and `F.hardtanh`: `clamp(x,low,high)`.
    Clamp = "clamp" takes 3..=3;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_reversible() {
        for &function in Function::ALL {
            assert_eq!(Function::from_name(function.name()), Some(function));
        }
        for dtype in DType::ALL {
            assert_eq!(Function::from_name(dtype.torch_name()), Some(Function::Cast(dtype)));
        }
        assert_eq!(Function::from_name("torch.float32"), Some(Function::Cast(DType::F32)));
        assert_eq!(Function::from_name("torch.contiguous_format"), None);
        assert_eq!(Function::from_name("sinus"), None);
    }

    #[test]
    fn only_size_has_optional_arguments() {
        let choice: Vec<_> = Function::ALL.iter().filter(|f| f.arity().start() != f.arity().end()).collect();
        assert_eq!(choice, [&Function::Size]);
    }
}
