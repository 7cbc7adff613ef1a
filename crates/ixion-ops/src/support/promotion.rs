//! PyTorch's type promotion: the element type of an operation on operands of different types.

use ixion_tensor::DType;

/// The priority of an operand in type promotion. Within one kind of number (bool, integer, float, complex), tensors with
/// axes decide alone; without them, 0-D tensors do, and then Python numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// A Python number: a literal, or the size of an axis. Its type is bool, i64, f64 or c128.
    Number,
    /// A 0-D tensor.
    Scalar,
    /// A tensor with at least one axis.
    Tensor,
}

/// The smallest type that can hold the values of both, as returned by `torch.promote_types`.
///
/// ```
/// use ixion_ops::arithmetic::expression::promote;
/// use ixion_tensor::DType;
/// assert_eq!(promote(DType::U8, DType::I8), DType::I16);
/// assert_eq!(promote(DType::F16, DType::Bf16), DType::F32);
/// assert_eq!(promote(DType::I64, DType::F16), DType::F16);
/// ```
pub fn promote(a: DType, b: DType) -> DType {
    if a == b {
        return a;
    }
    if a.is_complex() || b.is_complex() {
        return complex(promote(a.real(), b.real()));
    }
    match (a.is_float(), b.is_float()) {
        (true, true) if a == DType::F64 || b == DType::F64 => DType::F64,
        (true, true) => DType::F32,
        (true, false) => a,
        (false, true) => b,
        (false, false) => promote_integers(a, b),
    }
}

fn promote_integers(a: DType, b: DType) -> DType {
    let (small, large) = if a.size() <= b.size() { (a, b) } else { (b, a) };
    match (small, large) {
        (DType::Bool, other) | (other, DType::Bool) => other,
        (DType::U8, DType::I8) | (DType::I8, DType::U8) => DType::I16,
        _ => large,
    }
}

/// The element type of an operation on operands, as returned by `torch.result_type`. Among themselves, Python numbers keep
/// their full precision; with a tensor, a Python float counts as f32 and a complex number as c64.
pub fn result_type(operands: impl IntoIterator<Item = (DType, Standing)>) -> DType {
    let mut groups: [Option<DType>; 3] = [None; 3];
    for (dtype, standing) in operands {
        let group = &mut groups[standing as usize];
        *group = Some(group.map_or(dtype, |known| promote(known, dtype)));
    }
    let [numbers, scalars, tensors] = groups;
    match (tensors, scalars) {
        (None, None) => numbers.unwrap_or(DType::F32),
        _ => {
            [scalars, numbers.map(default_precision)].into_iter().fold(tensors, outrank).unwrap_or(DType::F32)
        }
    }
}

/// The type of a group of operands together with a group of lower standing, which counts only if its kind is wider.
fn outrank(higher: Option<DType>, lower: Option<DType>) -> Option<DType> {
    let (Some(high), Some(low)) = (higher, lower) else { return higher.or(lower) };
    Some(match (NumberKind::of(high), NumberKind::of(low)) {
        (NumberKind::Float, NumberKind::Complex) => complex(high),
        (high_kind, low_kind) if low_kind > high_kind => promote(high, low),
        _ => high,
    })
}

/// The four kinds of numbers, from the narrowest to the widest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NumberKind {
    Bool,
    Integer,
    Float,
    Complex,
}

impl NumberKind {
    pub(crate) fn of(dtype: DType) -> Self {
        match dtype {
            DType::Bool => Self::Bool,
            _ if dtype.is_integer() => Self::Integer,
            _ if dtype.is_float() => Self::Float,
            _ => Self::Complex,
        }
    }
}

/// The type of the tensor that PyTorch creates from a Python number.
pub(crate) fn default_precision(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F32,
        DType::C128 => DType::C64,
        other => other,
    }
}

/// The complex type with parts of a float type.
fn complex(dtype: DType) -> DType {
    match dtype {
        DType::F16 => DType::C32,
        DType::F64 => DType::C128,
        _ => DType::C64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `torch.promote_types` and `torch.result_type` of the 13 types by the 13, in the order of [`DType::ALL`].
    fn compare(table: &str, result: impl Fn(DType, DType) -> DType) {
        for (a, row) in DType::ALL.into_iter().zip(table.trim().lines()) {
            for (b, want) in DType::ALL.into_iter().zip(row.split_whitespace()) {
                assert_eq!(result(a, b).name(), want, "{a} with {b}");
            }
        }
    }

    #[test]
    fn all_pairs() {
        compare(PROMOTED, promote);
        compare(PROMOTED, |a, b| promote(b, a));
    }

    #[test]
    fn a_tensor_without_axes_counts_less() {
        compare(WITH_SCALAR, |a, b| result_type([(a, Standing::Tensor), (b, Standing::Scalar)]));
        compare(PROMOTED, |a, b| result_type([(a, Standing::Scalar), (b, Standing::Scalar)]));
    }

    #[test]
    fn python_numbers_count_least() {
        let numbers = [DType::Bool, DType::I64, DType::F64, DType::C128];
        for (dtype, row) in DType::ALL.into_iter().zip(WITH_NUMBERS.trim().lines()) {
            for (number, want) in numbers.into_iter().zip(row.split_whitespace()) {
                for standing in [Standing::Tensor, Standing::Scalar] {
                    let got = result_type([(number, Standing::Number), (dtype, standing)]);
                    assert_eq!(got.name(), want, "{dtype} with {number}");
                }
            }
        }
        let alone = |a, b| result_type([(a, Standing::Number), (b, Standing::Number)]);
        assert_eq!((alone(DType::I64, DType::F64), alone(DType::Bool, DType::I64)), (DType::F64, DType::I64));
    }

    const PROMOTED: &str = "
        f32   f64   f32   f32   f32   f32   f32   f32   f32   f32   c64   c64   c128
        f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   c128  c128  c128
        f32   f64   f16   f32   f16   f16   f16   f16   f16   f16   c32   c64   c128
        f32   f64   f32   bf16  bf16  bf16  bf16  bf16  bf16  bf16  c64   c64   c128
        f32   f64   f16   bf16  i64   i64   i64   i64   i64   i64   c32   c64   c128
        f32   f64   f16   bf16  i64   i32   i32   i32   i32   i32   c32   c64   c128
        f32   f64   f16   bf16  i64   i32   i16   i16   i16   i16   c32   c64   c128
        f32   f64   f16   bf16  i64   i32   i16   i8    i16   i8    c32   c64   c128
        f32   f64   f16   bf16  i64   i32   i16   i16   u8    u8    c32   c64   c128
        f32   f64   f16   bf16  i64   i32   i16   i8    u8    bool  c32   c64   c128
        c64   c128  c32   c64   c32   c32   c32   c32   c32   c32   c32   c64   c128
        c64   c128  c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c128
        c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128";

    /// Rows are tensors with axes. PyTorch gives bf16 with complex scalars a type that PNNX does not have; c64 here.
    const WITH_SCALAR: &str = "
        f32   f32   f32   f32   f32   f32   f32   f32   f32   f32   c64   c64   c64
        f64   f64   f64   f64   f64   f64   f64   f64   f64   f64   c128  c128  c128
        f16   f16   f16   f16   f16   f16   f16   f16   f16   f16   c32   c32   c32
        bf16  bf16  bf16  bf16  bf16  bf16  bf16  bf16  bf16  bf16  c64   c64   c64
        f32   f64   f16   bf16  i64   i64   i64   i64   i64   i64   c32   c64   c128
        f32   f64   f16   bf16  i32   i32   i32   i32   i32   i32   c32   c64   c128
        f32   f64   f16   bf16  i16   i16   i16   i16   i16   i16   c32   c64   c128
        f32   f64   f16   bf16  i8    i8    i8    i8    i8    i8    c32   c64   c128
        f32   f64   f16   bf16  u8    u8    u8    u8    u8    u8    c32   c64   c128
        f32   f64   f16   bf16  i64   i32   i16   i8    u8    bool  c32   c64   c128
        c32   c32   c32   c32   c32   c32   c32   c32   c32   c32   c32   c32   c32
        c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c64   c64
        c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128  c128";

    /// Columns: `True`, `1`, `1.0`, `1j`.
    const WITH_NUMBERS: &str = "
        f32   f32   f32   c64
        f64   f64   f64   c128
        f16   f16   f16   c32
        bf16  bf16  bf16  c64
        i64   i64   f32   c64
        i32   i32   f32   c64
        i16   i16   f32   c64
        i8    i8    f32   c64
        u8    u8    f32   c64
        bool  i64   f32   c64
        c32   c32   c32   c32
        c64   c64   c64   c64
        c128  c128  c128  c128";
}
