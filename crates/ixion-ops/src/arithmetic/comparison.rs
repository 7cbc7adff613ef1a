//! Comparisons and logic: operators whose result is bool.

use super::expression::metas_of;
use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{Converted, TensorOrScalar, broadcast, common};
use crate::support::delegation::delegating;
use crate::support::pairs::pairs;
use crate::support::views;
use crate::support::views::write_plain;
use ixion_kernels::{Float, widest};
use ixion_tensor::{Complex, DType, Dim, Element, Scalar, Tensor, TensorView, TensorViewMut};

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

impl Relation {
    fn ordered<T: Element + PartialOrd>(
        self,
        left: &Converted<'_>,
        right: &Converted<'_>,
        output: &mut TensorViewMut<'_>,
    ) -> Result<()> {
        match self {
            Self::Eq => pairs(left, right, output, |a: T, b| a == b),
            Self::Ne => pairs(left, right, output, |a: T, b| a != b),
            Self::Lt => pairs(left, right, output, |a: T, b| a < b),
            Self::Le => pairs(left, right, output, |a: T, b| a <= b),
            Self::Gt => pairs(left, right, output, |a: T, b| a > b),
            Self::Ge => pairs(left, right, output, |a: T, b| a >= b),
        }
    }
}

/// A comparison of the input with another operand.
#[derive(Debug, Clone, Copy)]
struct Comparison(Relation, TensorOrScalar);

impl Layer for Comparison {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let Self(relation, other) = self;
        let dtype = common(inputs, &[TensorOrScalar::Input(0), *other]);
        if dtype.is_complex() && !matches!(relation, Relation::Eq | Relation::Ne) {
            let wanted = "real numbers (complex numbers have no order)";
            return Err(LayerError::dtype("the inputs", wanted, dtype));
        }
        let outcome = TensorMeta::new(DType::Bool, broadcast(inputs[0].dims(), other.dims(inputs))?);
        Ok(vec![match self.known_outcomes(inputs) {
            Some(outcomes) => outcome.with_values(outcomes),
            None => outcome,
        }])
    }
}

impl Relation {
    /// Whether two integers have the relation, if that is the same for all lengths that their symbols stand for.
    fn holds(self, left: &Dim, right: &Dim) -> Option<bool> {
        let (above, below) = (left.clone() - right.clone(), right.clone() - left.clone());
        let is_positive = |dim: &Dim| (dim.clone() - Dim::Fixed(1)).is_natural();
        let equal = match above.fixed() {
            Some(difference) => Some(difference == 0),
            None => (is_positive(&above) || is_positive(&below)).then_some(false),
        };
        let is_less = |less: &Dim, more: &Dim| match is_positive(less) {
            true => Some(true),
            false => more.is_natural().then_some(false),
        };
        match self {
            Self::Eq => equal,
            Self::Ne => equal.map(|equal| !equal),
            Self::Lt => is_less(&below, &above),
            Self::Gt => is_less(&above, &below),
            Self::Le => is_less(&above, &below).map(|greater| !greater),
            Self::Ge => is_less(&below, &above).map(|less| !less),
        }
    }
}

impl Comparison {
    /// The outcomes for integers whose values are known, as 0 and 1, if they do not depend on symbols.
    fn known_outcomes(&self, inputs: &[TensorMeta]) -> Option<Vec<Dim>> {
        let Self(relation, other) = self;
        let of_integers = |input: &TensorMeta| {
            let values = input.values().filter(|_| input.dtype() == DType::I64 && input.rank() < 2);
            values.map(<[Dim]>::to_vec)
        };
        let left = of_integers(inputs.first()?)?;
        let right = match other {
            TensorOrScalar::Input(position) => of_integers(inputs.get(*position)?)?,
            TensorOrScalar::Number(Scalar::Int(number)) => vec![Dim::Fixed(*number)],
            TensorOrScalar::Number(_) => return None,
        };
        let len = if left.len() == 1 { right.len() } else { left.len() };
        let item =
            |values: &[Dim], index: usize| values.get(if values.len() == 1 { 0 } else { index }).cloned();
        let outcome = |index| relation.holds(&item(&left, index)?, &item(&right, index)?);
        (0..len).map(|index| Some(Dim::from(usize::from(outcome(index)?)))).collect()
    }
}

impl CpuLayer for Comparison {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (relation, operands) = (self.0, [TensorOrScalar::Input(0), self.1]);
        let dtype = common(&metas_of(io.inputs), &operands);
        // Rounded to the common type first, as in PyTorch, then compared in one of a few types.
        let wide = match dtype {
            DType::F32 | DType::F16 | DType::Bf16 => DType::F32,
            DType::F64 => DType::F64,
            DType::C32 | DType::C64 | DType::C128 => DType::C128,
            DType::I32 | DType::U8 => dtype,
            _ => DType::I64,
        };
        let convert = |operand: TensorOrScalar| match operand.converted(io.inputs, dtype)? {
            Converted::View(view) => Converted::of(&view, wide),
            Converted::Copy(tensor) => Ok(Converted::Copy(tensor.cast(wide)?)),
        };
        let (left, right) = (convert(operands[0])?, convert(operands[1])?);
        let output = &mut io.outputs[0];
        match wide {
            DType::F32 => relation.ordered::<f32>(&left, &right, output),
            DType::F64 => relation.ordered::<f64>(&left, &right, output),
            DType::I64 => relation.ordered::<i64>(&left, &right, output),
            DType::I32 => relation.ordered::<i32>(&left, &right, output),
            DType::U8 => relation.ordered::<u8>(&left, &right, output),
            _ if relation == Relation::Eq => pairs(&left, &right, output, |a: Complex<f64>, b| a == b),
            _ => pairs(&left, &right, output, |a: Complex<f64>, b| a != b),
        }
    }
}

delegating! {
    {
        /// The operand to compare with: a tensor, which is broadcast, or a number.
        other: TensorOrScalar,
    }

    /// `torch.eq`: whether each element of the input is equal to `other`.
    ///
    /// Both operands are first converted to their common element type. If one is NaN, only `ne` is true.
    Eq for "torch.eq", "Tensor.eq", "aten::eq" |layer| Comparison(Relation::Eq, layer.other);

    /// `torch.ne`: whether each element of the input is not equal to `other`.
    ///
    /// Both operands are first converted to their common element type. If one is NaN, only `ne` is true.
    Ne for "torch.ne", "Tensor.ne", "aten::ne" |layer| Comparison(Relation::Ne, layer.other);

    /// `torch.lt`: whether each element of the input is less than `other`.
    ///
    /// Both operands are first converted to their common element type. If one is NaN, only `ne` is true.
    Lt for "torch.lt", "Tensor.lt", "aten::lt" |layer| Comparison(Relation::Lt, layer.other);

    /// `torch.le`: whether each element of the input is less than or equal to `other`.
    ///
    /// Both operands are first converted to their common element type. If one is NaN, only `ne` is true.
    Le for "torch.le", "Tensor.le", "aten::le" |layer| Comparison(Relation::Le, layer.other);

    /// `torch.gt`: whether each element of the input is greater than `other`.
    ///
    /// Both operands are first converted to their common element type. If one is NaN, only `ne` is true.
    Gt for "torch.gt", "Tensor.gt", "aten::gt" |layer| Comparison(Relation::Gt, layer.other);

    /// `torch.ge`: whether each element of the input is greater than or equal to `other`.
    ///
    /// Both operands are first converted to their common element type. If one is NaN, only `ne` is true.
    Ge for "torch.ge", "Tensor.ge", "aten::ge" |layer| Comparison(Relation::Ge, layer.other);
}

/// A logical operation on two bools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connective {
    And,
    Or,
    Xor,
}

impl Connective {
    /// The result for two conditions.
    fn holds(self, left: bool, right: bool) -> bool {
        match self {
            Self::And => left && right,
            Self::Or => left || right,
            Self::Xor => left != right,
        }
    }

    /// Writes the result for each pair of elements.
    pub(super) fn join(
        self,
        left: &Converted<'_>,
        right: &Converted<'_>,
        output: &mut TensorViewMut<'_>,
    ) -> Result<()> {
        match self {
            Self::And => pairs(left, right, output, |a: bool, b: bool| a & b),
            Self::Or => pairs(left, right, output, |a: bool, b: bool| a | b),
            Self::Xor => pairs(left, right, output, |a: bool, b: bool| a ^ b),
        }
    }
}

/// Whether the elements are not zero, if that is known of all.
pub(crate) fn known_truths(input: &TensorMeta) -> Option<Vec<bool>> {
    let is_true = |value: &Dim| match value.fixed() {
        Some(number) => Some(number != 0),
        None => (value.clone() - Dim::Fixed(1)).is_natural().then_some(true),
    };
    input.values()?.iter().map(is_true).collect()
}

/// A logical operation on the input and another tensor.
#[derive(Debug, Clone, Copy)]
struct Logic(Connective, InputIndex);

impl Layer for Logic {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let Self(connective, other) = self;
        let dims = broadcast(inputs[0].dims(), inputs[other.0].dims())?;
        let joined = TensorMeta::new(DType::Bool, dims);
        // Of single conditions only: those that choose between values.
        let known = known_truths(&inputs[0]).zip(known_truths(&inputs[other.0]));
        Ok(vec![match known.as_ref().map(|(left, right)| (&left[..], &right[..])) {
            Some((&[left], &[right])) => {
                joined.with_values(vec![Dim::from(usize::from(connective.holds(left, right)))])
            }
            _ => joined,
        }])
    }
}

impl CpuLayer for Logic {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let Self(connective, other) = *self;
        let left = Converted::of(&io.inputs[0], DType::Bool)?;
        let right = Converted::of(&io.inputs[other.0], DType::Bool)?;
        connective.join(&left, &right, &mut io.outputs[0])
    }
}

delegating! {
    {
        /// The second operand, which is broadcast.
        other: InputIndex,
    }

    /// `torch.logical_and`: whether both elements are true.
    /// All numbers except zero count as true.
    LogicalAnd for "torch.logical_and", "aten::logical_and" |layer| Logic(Connective::And, layer.other);

    /// `torch.logical_or`: whether at least one of two elements is true.
    /// All numbers except zero count as true.
    LogicalOr for "torch.logical_or", "aten::logical_or" |layer| Logic(Connective::Or, layer.other);

    /// `torch.logical_xor`: whether exactly one of two elements is true.
    /// All numbers except zero count as true.
    LogicalXor for "torch.logical_xor", "aten::logical_xor" |layer| Logic(Connective::Xor, layer.other);
}

/// A property of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Predicate {
    Zero,
    Nan,
    Infinite,
    Finite,
    Real,
}

impl Predicate {
    fn ask_reals<T: Float>(self, input: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<()> {
        match self {
            Self::Zero => ask(input, output, |x: T| x == T::zero()),
            Self::Nan => ask(input, output, T::is_nan),
            Self::Infinite => ask(input, output, T::is_infinite),
            Self::Finite => ask(input, output, T::is_finite),
            Self::Real => ask(input, output, |_: T| true),
        }
    }

    fn ask_complex(self, input: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<()> {
        match self {
            Self::Zero => ask(input, output, |z: Z| (z.re == 0.0) & (z.im == 0.0)),
            Self::Nan => ask(input, output, |z: Z| z.re.is_nan() | z.im.is_nan()),
            Self::Infinite => ask(input, output, |z: Z| z.re.is_infinite() | z.im.is_infinite()),
            Self::Finite => ask(input, output, |z: Z| z.re.is_finite() & z.im.is_finite()),
            Self::Real => ask(input, output, |z: Z| z.im == 0.0),
        }
    }
}

type Z = Complex<f64>;

/// Writes whether each element has a property.
fn ask<T: Element>(
    input: &TensorView<'_>,
    output: &mut TensorViewMut<'_>,
    holds: impl Fn(T) -> bool,
) -> Result<()> {
    let input = views::Plain::of(input)?;
    let numbers = input.view().slice::<T>()?;
    write_plain(output, &mut |output| {
        let answers = output.slice::<bool>()?;
        widest!(|| answers.iter_mut().zip(numbers).for_each(|(answer, &x)| *answer = holds(x)));
        Ok(())
    })
}

/// Writes whether each element is zero or false.
pub(super) fn logical_not(input: &TensorView<'_>, output: &mut TensorViewMut<'_>) -> Result<()> {
    match input.dtype() {
        DType::F32 => Predicate::Zero.ask_reals::<f32>(input, output),
        DType::F64 => Predicate::Zero.ask_reals::<f64>(input, output),
        _ => ask(&Converted::of(input, DType::Bool)?.view(), output, |truth: bool| !truth),
    }
}

impl Layer for Predicate {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let output = inputs[0].with_dtype(DType::Bool);
        Ok(vec![match known_truths(&inputs[0]).filter(|_| *self == Self::Zero) {
            Some(truths) => {
                output.with_values(truths.into_iter().map(|it| Dim::from(usize::from(!it))).collect())
            }
            None => output,
        }])
    }
}

impl CpuLayer for Predicate {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, output) = (&io.inputs[0], &mut io.outputs[0]);
        match (*self, input.dtype()) {
            (Self::Zero, _) => logical_not(input, output),
            (predicate, DType::F64) => predicate.ask_reals::<f64>(input, output),
            (predicate, dtype) if dtype.is_float() => {
                predicate.ask_reals::<f32>(&Converted::of(input, DType::F32)?.view(), output)
            }
            (predicate, dtype) if dtype.is_complex() => {
                predicate.ask_complex(&Converted::of(input, DType::C128)?.view(), output)
            }
            // All integers and bools are finite and real.
            (predicate, _) => {
                views::fill(output, &Tensor::scalar(matches!(predicate, Self::Finite | Self::Real)))
            }
        }
    }
}

delegating! {
    {}

    /// `torch.logical_not`: whether each element is zero or false.
    LogicalNot for "torch.logical_not", "aten::logical_not" |_layer| Predicate::Zero;

    /// `torch.isnan`: whether each element is NaN; a complex element is NaN if one of its parts is.
    IsNan for "torch.isnan", "aten::isnan" |_layer| Predicate::Nan;

    /// `torch.isinf`: whether each element is infinite; a complex element is infinite if one of its parts is.
    IsInf for "torch.isinf", "aten::isinf" |_layer| Predicate::Infinite;

    /// `torch.isfinite`: whether each element is neither NaN nor infinite.
    IsFinite for "torch.isfinite", "aten::isfinite" |_layer| Predicate::Finite;

    /// `torch.isreal`: whether the imaginary part of each element is zero.
    IsReal for "aten::isreal" |_layer| Predicate::Real;
}

operators! {
    Eq: decides().when_quantized(InFloats(Plain)), Ne: decides().when_quantized(InFloats(Plain)),
    Lt: decides().when_quantized(InFloats(Plain)), Le: decides().when_quantized(InFloats(Plain)),
    Gt: decides().when_quantized(InFloats(Plain)), Ge: decides().when_quantized(InFloats(Plain)),
    LogicalAnd: decides(), LogicalOr: decides(), LogicalXor: decides(), LogicalNot: decides(), IsNan, IsInf, IsFinite,
    IsReal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{operator, tensor};
    use ixion_tensor::{Dim, f16};

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

    /// PyTorch's results.
    #[test]
    fn predicates_of_every_kind_of_number() {
        let parts = [(0.0, 0.0), (0.0, -2.0), (f32::NAN, 1.0), (1.0, f32::NEG_INFINITY)];
        let z = tensor(&[4], &parts.map(|(re, im)| Complex::new(re, im)));
        let half = tensor(&[4], &[0.0, -0.0, f32::NAN, f32::INFINITY].map(f16::from_f32));
        let (whole, truths) = (tensor(&[4], &[0i32, 256, -1, 3]), tensor(&[4], &[true, false, false, true]));
        for (op_type, complex, halves, integers, bools) in [
            ("torch.logical_not", [1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 1, 0]),
            ("torch.isnan", [0, 0, 1, 0], [0, 0, 1, 0], [0; 4], [0; 4]),
            ("torch.isinf", [0, 0, 0, 1], [0, 0, 0, 1], [0; 4], [0; 4]),
            ("torch.isfinite", [1, 1, 0, 0], [1, 1, 0, 0], [1; 4], [1; 4]),
            ("aten::isreal", [1, 0, 0, 0], [1; 4], [1; 4], [1; 4]),
        ] {
            for (input, want) in [(&z, complex), (&half, halves), (&whole, integers), (&truths, bools)] {
                let name = format!("{op_type} of {}", input.dtype());
                assert_eq!(compare(op_type, &[], &[input]), want.map(|want| want == 1), "{name}");
            }
        }
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
