//! Comparisons and logic: operators whose result is bool.

use crate::op::{CpuLayer, ForwardContext, Layer, LayerError, TensorMeta};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{Converted, TensorOrScalar, broadcast, common};
use crate::support::pairs::pairs;
use ixion_tensor::{Complex, DType, Element, TensorView, TensorViewMut};
use ndarray::Zip;
use std::ops::RangeInclusive;

/// A comparison of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// A logical operation on two bools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connective {
    And,
    Or,
    Xor,
}

impl Relation {
    fn run(
        self,
        inputs: &[TensorView<'_>],
        other: TensorOrScalar,
        output: &mut TensorViewMut<'_>,
    ) -> Result<(), LayerError> {
        let metas: Vec<TensorMeta> = inputs.iter().map(meta).collect();
        let factors = [TensorOrScalar::Input(0), other];
        let dtype = common(&metas, &factors);
        // Rounded to the common type first, as in PyTorch, then compared in one of a few types.
        let wide = match dtype {
            DType::F32 | DType::F16 | DType::Bf16 => DType::F32,
            DType::F64 => DType::F64,
            DType::C32 | DType::C64 | DType::C128 => DType::C128,
            DType::I32 | DType::U8 => dtype,
            _ => DType::I64,
        };
        let convert = |factor: TensorOrScalar| match factor.converted(inputs, dtype)? {
            Converted::View(view) => Converted::of(&view, wide),
            Converted::Copy(tensor) => Ok(Converted::Copy(tensor.cast(wide)?)),
        };
        let (left, right) = (convert(factors[0])?, convert(factors[1])?);
        match wide {
            DType::F32 => self.ordered::<f32>(&left, &right, output),
            DType::F64 => self.ordered::<f64>(&left, &right, output),
            DType::I64 => self.ordered::<i64>(&left, &right, output),
            DType::I32 => self.ordered::<i32>(&left, &right, output),
            DType::U8 => self.ordered::<u8>(&left, &right, output),
            _ if self == Self::Eq => pairs(&left, &right, output, |a: Complex<f64>, b| a == b),
            _ => pairs(&left, &right, output, |a: Complex<f64>, b| a != b),
        }
    }

    fn ordered<T: Element + PartialOrd>(
        self,
        left: &Converted<'_>,
        right: &Converted<'_>,
        output: &mut TensorViewMut<'_>,
    ) -> Result<(), LayerError> {
        match self {
            Self::Eq => pairs(left, right, output, |a: T, b| a == b),
            Self::Ne => pairs(left, right, output, |a: T, b| a != b),
            Self::Lt => pairs(left, right, output, |a: T, b| a < b),
            Self::Le => pairs(left, right, output, |a: T, b| a <= b),
            Self::Gt => pairs(left, right, output, |a: T, b| a > b),
            Self::Ge => pairs(left, right, output, |a: T, b| a >= b),
        }
    }

    fn infer(self, inputs: &[TensorMeta], other: TensorOrScalar) -> Result<Vec<TensorMeta>, LayerError> {
        let dtype = common(inputs, &[TensorOrScalar::Input(0), other]);
        if dtype.is_complex() && !matches!(self, Self::Eq | Self::Ne) {
            let wanted = "real numbers (complex numbers have no order)".to_owned();
            return Err(LayerError::DType { what: "the inputs".to_owned(), wanted, found: dtype });
        }
        Ok(vec![TensorMeta::new(DType::Bool, broadcast(inputs[0].dims(), other.dims(inputs))?)])
    }
}

impl Connective {
    fn join(
        self,
        left: &Converted<'_>,
        right: &Converted<'_>,
        output: &mut TensorViewMut<'_>,
    ) -> Result<(), LayerError> {
        match self {
            Self::And => pairs(left, right, output, |a: bool, b: bool| a & b),
            Self::Or => pairs(left, right, output, |a: bool, b: bool| a | b),
            Self::Xor => pairs(left, right, output, |a: bool, b: bool| a ^ b),
        }
    }
}

/// Element type and dimensions of a tensor, without its values.
fn meta(view: &TensorView<'_>) -> TensorMeta {
    TensorMeta::new(view.dtype(), view.shape().iter().copied())
}

macro_rules! comparisons {
    ($($(#[doc = $doc:literal])* $name:ident for $($op_type:literal),+;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            ///
            /// Both operands are first converted to their common element type. If one is NaN, only `ne` is true.
            pub struct $name for $($op_type),+ {
                /// The operand to compare with: a tensor, which is broadcast, or a number.
                other: TensorOrScalar,
            }
        }

        impl Layer for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                let count = 1 + self.other.num_inputs();
                count..=count
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                Relation::$name.infer(inputs, self.other)
            }
        }

        impl CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                _: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                Relation::$name.run(inputs, self.other, &mut outputs[0])
            }
        }
    )*};
}

comparisons! {
    /// `torch.eq`: whether each element of the input is equal to `other`.
    Eq for "torch.eq", "Tensor.eq";

    /// `torch.ne`: whether each element of the input is not equal to `other`.
    Ne for "torch.ne", "Tensor.ne";

    /// `torch.lt`: whether each element of the input is less than `other`.
    Lt for "torch.lt", "Tensor.lt";

    /// `torch.le`: whether each element of the input is less than or equal to `other`.
    Le for "torch.le", "Tensor.le";

    /// `torch.gt`: whether each element of the input is greater than `other`.
    Gt for "torch.gt", "Tensor.gt";

    /// `torch.ge`: whether each element of the input is greater than or equal to `other`.
    Ge for "torch.ge", "Tensor.ge";
}

macro_rules! connectives {
    ($($(#[doc = $doc:literal])* $name:ident is $connective:ident for $op_type:literal;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            /// All numbers except zero count as true.
            pub struct $name for $op_type {
                /// The second operand, which is broadcast.
                other: InputIndex,
            }
        }

        impl Layer for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                2..=2
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                let dims = broadcast(inputs[0].dims(), inputs[self.other.0].dims())?;
                Ok(vec![TensorMeta::new(DType::Bool, dims)])
            }
        }

        impl CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                _: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                let left = Converted::of(&inputs[0], DType::Bool)?;
                let right = Converted::of(&inputs[self.other.0], DType::Bool)?;
                Connective::$connective.join(&left, &right, &mut outputs[0])
            }
        }
    )*};
}

connectives! {
    /// `torch.logical_and`: whether both elements are true.
    LogicalAnd is And for "torch.logical_and";

    /// `torch.logical_or`: whether at least one of two elements is true.
    LogicalOr is Or for "torch.logical_or";

    /// `torch.logical_xor`: whether exactly one of two elements is true.
    LogicalXor is Xor for "torch.logical_xor";
}

macro_rules! questions {
    ($($(#[doc = $doc:literal])* $name:ident for $($op_type:literal),+ asks |$x:ident| $answer:expr;)*) => {$(
        crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $($op_type),+ {}
        }

        impl Layer for $name {
            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                Ok(vec![inputs[0].with_dtype(DType::Bool)])
            }
        }

        impl CpuLayer for $name {
            fn forward(
                &mut self,
                inputs: &[TensorView<'_>],
                outputs: &mut [TensorViewMut<'_>],
                _: &mut ForwardContext<'_>,
            ) -> Result<(), LayerError> {
                ask(&inputs[0], &mut outputs[0], &|$x: Complex<f64>| $answer)
            }
        }
    )*};
}

/// Applies a predicate to every element.
fn ask(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    question: &dyn Fn(Complex<f64>) -> bool,
) -> Result<(), LayerError> {
    if input.dtype() == DType::Bool {
        let [no, yes] = [0.0, 1.0].map(|x| question(Complex::new(x, 0.0)));
        let output = Zip::from(output.array::<bool>()?);
        output.and(input.array::<bool>()?).for_each(|y, &x| *y = if x { yes } else { no });
        return Ok(());
    }
    let wide = if input.dtype().is_complex() { DType::C128 } else { DType::F64 };
    let input = Converted::of(input, wide)?;
    let (input, output) = (input.view(), Zip::from(output.array::<bool>()?));
    match wide {
        DType::C128 => output.and(input.array::<Complex<f64>>()?).for_each(|y, &x| *y = question(x)),
        _ => output.and(input.array::<f64>()?).for_each(|y, &x| *y = question(Complex::new(x, 0.0))),
    }
    Ok(())
}

questions! {
    /// `torch.logical_not`: whether each element is zero or false.
    LogicalNot for "torch.logical_not" asks |x| x.re == 0.0 && x.im == 0.0;

    /// `torch.isnan`: whether each element is NaN; a complex element is NaN if one of its parts is.
    IsNan for "torch.isnan", "aten::isnan" asks |x| x.is_nan();

    /// `torch.isinf`: whether each element is infinite; a complex element is infinite if one of its parts is.
    IsInf for "torch.isinf", "aten::isinf" asks |x| x.re.is_infinite() || x.im.is_infinite();

    /// `torch.isfinite`: whether each element is neither NaN nor infinite.
    IsFinite for "torch.isfinite", "aten::isfinite" asks |x| x.is_finite();

    /// `torch.isreal`: whether the imaginary part of each element is zero.
    IsReal for "aten::isreal" asks |x| x.im == 0.0;
}

operators! {
    Eq, Ne, Lt, Le, Gt, Ge, LogicalAnd, LogicalOr, LogicalXor, LogicalNot, IsNan, IsInf, IsFinite, IsReal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{operator, tensor};
    use ixion_tensor::{Dim, Tensor};

    fn compare(op_type: &str, params: &[(&str, &str)], inputs: &[&Tensor]) -> Vec<bool> {
        operator(op_type, params).run_one(inputs).unwrap().to_vec().unwrap()
    }

    #[test]
    fn relations() {
        let (x, y) = (tensor(&[4], &[1f32, 2.0, 3.0, f32::NAN]), tensor(&[1, 4], &[2f32, 2.0, 2.0, 2.0]));
        for (op_type, want) in [
            ("torch.eq", [false, true, false, false]),
            ("torch.ne", [true, false, true, true]),
            ("torch.lt", [true, false, false, false]),
            ("torch.le", [true, true, false, false]),
            ("torch.gt", [false, false, true, false]),
            ("torch.ge", [false, true, true, false]),
        ] {
            assert_eq!(compare(op_type, &[], &[&x, &y]), want, "{op_type}");
            assert_eq!(compare(op_type, &[("other", "2")], &[&x]), want, "{op_type} with a number");
            assert_eq!(
                compare(op_type, &[("other", "2.0")], &[&x.cast(DType::F16).unwrap()]),
                want,
                "{op_type}"
            );
        }
    }

    /// `torch.tensor(…, dtype=…) == …` for pairs whose result depends on the common type.
    #[test]
    fn the_common_type_decides() {
        let tenth = tensor(&[1], &[0.1f32]);
        assert_eq!(compare("torch.eq", &[("other", "0.1")], &[&tenth]), [true]);
        assert_eq!(compare("torch.eq", &[], &[&tenth, &tensor(&[1], &[0.1f64])]), [false]);
        let large = tensor(&[1], &[(1i64 << 53) + 1]);
        assert_eq!(compare("torch.eq", &[], &[&large, &tensor(&[1], &[1i64 << 53])]), [false]);
        assert_eq!(compare("torch.gt", &[("other", "0.5")], &[&tensor(&[2], &[0i64, 1])]), [false, true]);
        assert_eq!(compare("torch.eq", &[("other", "True")], &[&tensor(&[2], &[0i64, 1])]), [false, true]);
        assert_eq!(compare("torch.lt", &[("other", "inf")], &[&tenth]), [true]);
        let complex = tensor(&[1], &[Complex::new(1f32, 2.0)]);
        assert_eq!(compare("torch.ne", &[], &[&complex, &complex]), [false]);
        assert!(operator("torch.lt", &[]).run(&[&complex, &complex]).is_err());
    }

    #[test]
    fn logic() {
        let (x, y) = (tensor(&[4], &[0f32, 0.0, f32::NAN, -2.0]), tensor(&[4], &[0i8, 3, 0, 1]));
        assert_eq!(compare("torch.logical_and", &[], &[&x, &y]), [false, false, false, true]);
        assert_eq!(compare("torch.logical_or", &[], &[&x, &y]), [false, true, true, true]);
        assert_eq!(compare("torch.logical_xor", &[], &[&x, &y]), [false, true, true, false]);
        assert_eq!(compare("torch.logical_not", &[], &[&x]), [true, true, false, false]);
        assert_eq!(compare("torch.isnan", &[], &[&x]), [false, false, true, false]);
        let z = tensor(&[3], &[f64::INFINITY, f64::NAN, 1.0]);
        assert_eq!(compare("torch.isinf", &[], &[&z]), [true, false, false]);
        assert_eq!(compare("torch.isfinite", &[], &[&z]), [false, false, true]);
    }

    #[test]
    fn symbols_and_odd_inputs() {
        let n = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::Fixed(1)]);
        let output = operator("torch.ge", &[]).infer(&[n, TensorMeta::new(DType::I64, [3])]).unwrap();
        assert_eq!(output[0].to_string(), "n×3 bool");
        assert!(
            operator("torch.eq", &[]).run(&[&tensor(&[2], &[1f32; 2]), &tensor(&[3], &[1f32; 3])]).is_err()
        );
        assert!(operator("torch.eq", &[("other", "zero")]).create(1).is_err());
        for op_type in ["torch.eq", "torch.lt", "torch.logical_and"] {
            operator(op_type, &[]).survives(2);
        }
        for op_type in ["torch.logical_not", "torch.isnan"] {
            operator(op_type, &[]).survives(1);
        }
    }
}
