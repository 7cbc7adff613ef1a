//! Arithmetic, comparisons, conversions and reductions of known tensors.

use super::known::{Element, Known, count};
use super::moves::{axes_of, broadcast, expanded};
use half::{bf16, f16};
use ixion_tensor::DType;

/// The function of two tensors, which are broadcast.
pub(super) fn binary(op_type: &str, a: &Known, b: &Known) -> Option<Known> {
    if a.dtype != b.dtype {
        return None;
    }
    let shape = broadcast(&a.shape, &b.shape)?;
    let (left, right) = (expanded(a, &shape)?, expanded(b, &shape)?);
    let is_test = matches!(
        op_type,
        "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "And" | "Or" | "Xor"
    );
    let of = |(a, b): (&Element, &Element)| match is_test {
        true => Some(Element::Int(i64::from(test(op_type, a, b)?))),
        false => Some(rounded(arithmetic(op_type, a, b)?, left.dtype)),
    };
    let elements: Option<Vec<Element>> = left.elements.iter().zip(&right.elements).map(of).collect();
    Some(Known { dtype: if is_test { DType::Bool } else { a.dtype }, shape, elements: elements? })
}

fn test(op_type: &str, a: &Element, b: &Element) -> Option<bool> {
    // A length is not equal to a negative number, and greater than one.
    let is_negative = |element: &Element| element.int().is_some_and(|number| number < 0);
    let order = match (a, b) {
        (Element::Int(a), Element::Int(b)) => Some(a.cmp(b)),
        (Element::Term(a), Element::Term(b)) if a == b => Some(std::cmp::Ordering::Equal),
        (a, b) if a.is_natural() && is_negative(b) => Some(std::cmp::Ordering::Greater),
        (a, b) if is_negative(a) && b.is_natural() => Some(std::cmp::Ordering::Less),
        (Element::Term(_), _) | (_, Element::Term(_)) => return None,
        (a, b) => a.float()?.partial_cmp(&b.float()?),
    };
    Some(match op_type {
        "Equal" => order == Some(std::cmp::Ordering::Equal),
        "Greater" => order == Some(std::cmp::Ordering::Greater),
        "Less" => order == Some(std::cmp::Ordering::Less),
        "GreaterOrEqual" => order.is_some_and(std::cmp::Ordering::is_ge),
        "LessOrEqual" => order.is_some_and(std::cmp::Ordering::is_le),
        "And" => a.int()? != 0 && b.int()? != 0,
        "Or" => a.int()? != 0 || b.int()? != 0,
        "Xor" => (a.int()? != 0) != (b.int()? != 0),
        _ => return None,
    })
}

fn arithmetic(op_type: &str, a: &Element, b: &Element) -> Option<Element> {
    match (a, b) {
        (Element::Int(a), Element::Int(b)) => integers(op_type, *a, *b).map(Element::Int),
        (Element::Float(a), Element::Float(b)) => floats(op_type, *a, *b).map(Element::Float),
        _ => terms(op_type, a, b),
    }
}

fn integers(op_type: &str, a: i64, b: i64) -> Option<i64> {
    Some(match op_type {
        "Add" => a.wrapping_add(b),
        "Sub" => a.wrapping_sub(b),
        "Mul" => a.wrapping_mul(b),
        "Div" => a.checked_div(b)?,
        "Mod" => a.checked_rem_euclid(b).map(|rest| if b < 0 && rest != 0 { rest + b } else { rest })?,
        "Max" => a.max(b),
        "Min" => a.min(b),
        "Pow" => a.checked_pow(u32::try_from(b).ok()?)?,
        _ => return None,
    })
}

fn floats(op_type: &str, a: f64, b: f64) -> Option<f64> {
    Some(match op_type {
        "Add" => a + b,
        "Sub" => a - b,
        "Mul" => a * b,
        "Div" => a / b,
        "Max" | "Min" if a.is_nan() || b.is_nan() => f64::NAN,
        "Max" => a.max(b),
        "Min" => a.min(b),
        "Pow" => a.powf(b),
        _ => return None,
    })
}

/// Arithmetic with lengths. Numbers that change nothing are left out.
fn terms(op_type: &str, a: &Element, b: &Element) -> Option<Element> {
    let are_natural = a.is_natural() && b.is_natural();
    match (op_type, a.int(), b.int()) {
        ("Add", Some(0), _) | ("Mul", Some(1), _) => Some(b.clone()),
        ("Add" | "Sub", _, Some(0)) | ("Mul" | "Div", _, Some(1)) => Some(a.clone()),
        ("Mul", Some(0), _) | ("Mul", _, Some(0)) => Some(Element::Int(0)),
        ("Add", ..) => Element::call("add", a, b, are_natural),
        ("Sub", ..) => Element::call("sub", a, b, false),
        ("Mul", ..) => Element::call("mul", a, b, are_natural),
        // ONNX rounds towards 0, and the expression rounds down.
        ("Div", _, Some(1..)) if are_natural => Element::call("floor_divide", a, b, true),
        ("Max", ..) => Element::call("maximum", a, b, a.is_natural() || b.is_natural()),
        ("Min", ..) => Element::call("minimum", a, b, are_natural),
        _ => None,
    }
}

/// The function of one tensor.
pub(super) fn unary(op_type: &str, x: &Known) -> Option<Known> {
    let of = |element: &Element| -> Option<Element> {
        let value = match (op_type, element) {
            ("Not", Element::Int(number)) => Element::Int(i64::from(*number == 0)),
            ("Neg", Element::Int(number)) => Element::Int(number.wrapping_neg()),
            ("Abs", Element::Int(number)) => Element::Int(number.wrapping_abs()),
            ("Neg", Element::Float(number)) => Element::Float(-number),
            ("Abs", Element::Float(number)) => Element::Float(number.abs()),
            ("Ceil", Element::Float(number)) => Element::Float(number.ceil()),
            ("Floor", Element::Float(number)) => Element::Float(number.floor()),
            ("Sqrt", Element::Float(number)) => Element::Float(number.sqrt()),
            ("Neg", Element::Term(_)) => Element::call("sub", &Element::Int(0), element, false)?,
            ("Abs", Element::Term(_)) if element.is_natural() => element.clone(),
            _ => return None,
        };
        Some(rounded(value, x.dtype))
    };
    let elements = x.elements.iter().map(of).collect::<Option<_>>()?;
    Some(Known { elements, ..x.clone() })
}

/// The value as a number of this type.
fn rounded(value: Element, dtype: DType) -> Element {
    match (value, dtype) {
        (Element::Int(number), DType::I32) => Element::Int((number as i32).into()),
        (Element::Int(number), DType::I16) => Element::Int((number as i16).into()),
        (Element::Int(number), DType::I8) => Element::Int((number as i8).into()),
        (Element::Int(number), DType::U8) => Element::Int((number as u8).into()),
        (Element::Float(number), DType::F32) => Element::Float((number as f32).into()),
        (Element::Float(number), DType::F16) => Element::Float(f16::from_f64(number).into()),
        (Element::Float(number), DType::Bf16) => Element::Float(bf16::from_f64(number).into()),
        (value, _) => value,
    }
}

/// The tensor in another type; `None` if a float is out of the range of an integer type.
pub(super) fn cast(x: &Known, dtype: DType) -> Option<Known> {
    let is_integer = matches!(dtype, DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8);
    let of = |element: &Element| -> Option<Element> {
        let value = match element {
            Element::Term(_) if dtype == x.dtype => element.clone(),
            Element::Term(_) => return None,
            _ if dtype == DType::Bool => Element::Int(i64::from(element.float()? != 0.0)),
            _ if dtype.is_float() => Element::Float(element.float()?),
            Element::Int(number) if is_integer => Element::Int(*number),
            Element::Float(number) if is_integer => {
                let limit =
                    2f64.powi(if dtype == DType::U8 { 8 } else { 8 * i32::try_from(dtype.size()).ok()? - 1 });
                let least = if dtype == DType::U8 { -1.0 } else { -limit - 1.0 };
                let whole = number.trunc();
                (least < whole && whole < limit).then_some(Element::Int(whole as i64))?
            }
            _ => return None,
        };
        Some(rounded(value, dtype))
    };
    let elements = x.elements.iter().map(of).collect::<Option<_>>()?;
    Some(Known { dtype, shape: x.shape.clone(), elements })
}

/// The sum, product, maximum or minimum along axes; along all of them if `axes` is empty.
pub(super) fn reduced(op_type: &str, x: &Known, axes: &[i64], keeps: bool) -> Option<Known> {
    let rank = x.shape.len();
    let axes = if axes.is_empty() { (0..rank).collect() } else { axes_of(axes, rank)? };
    let (step, start) = match (op_type, x.dtype.is_float()) {
        ("ReduceSum", false) => ("Add", Some(Element::Int(0))),
        ("ReduceSum", true) => ("Add", Some(Element::Float(0.0))),
        ("ReduceProd", false) => ("Mul", Some(Element::Int(1))),
        ("ReduceProd", true) => ("Mul", Some(Element::Float(1.0))),
        ("ReduceMax", _) => ("Max", None),
        ("ReduceMin", _) => ("Min", None),
        _ => return None,
    };
    let kept: Vec<usize> =
        (0..rank).map(|axis| if axes.contains(&axis) { 1 } else { x.shape[axis] }).collect();
    let mut sums: Vec<Option<Element>> = vec![start; count(&kept)?];
    for (position, element) in x.elements.iter().enumerate() {
        let mut rest = position;
        let (mut place, mut step_len) = (0, 1);
        for axis in (0..rank).rev() {
            let index = rest % x.shape[axis];
            rest /= x.shape[axis];
            place += if axes.contains(&axis) { 0 } else { index * step_len };
            step_len *= kept[axis];
        }
        let sum = sums.get_mut(place)?;
        let joined = match sum.take() {
            Some(sum) => rounded(arithmetic(step, &sum, element)?, x.dtype),
            None => element.clone(),
        };
        *sum = Some(joined);
    }
    let shape = match keeps {
        true => kept,
        false => (0..rank).filter(|axis| !axes.contains(axis)).map(|axis| x.shape[axis]).collect(),
    };
    Some(Known { dtype: x.dtype, shape, elements: sums.into_iter().collect::<Option<_>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(dtype: DType, numbers: &[i64]) -> Known {
        let elements = numbers.iter().copied().map(Element::Int).collect();
        Known { dtype, shape: vec![numbers.len()], elements }
    }

    #[test]
    fn integers_are_computed_in_their_type() {
        let computed = |op_type, a, b| {
            binary(op_type, &ints(DType::U8, &[a]), &ints(DType::U8, &[b])).and_then(|result| result.ints())
        };
        assert_eq!(computed("Add", 250, 10), Some(vec![4]));
        let wide = |op_type, a, b| {
            binary(op_type, &ints(DType::I64, &[a]), &ints(DType::I64, &[b])).and_then(|result| result.ints())
        };
        assert_eq!(wide("Div", -7, 2), Some(vec![-3]));
        assert_eq!(wide("Mod", -7, 2), Some(vec![1]));
        assert_eq!(wide("Mod", 7, -2), Some(vec![-1]));
        assert_eq!(wide("Div", 1, 0), None);
    }

    #[test]
    fn floats_out_of_range_are_not_converted() {
        let floats = Known { dtype: DType::F32, shape: vec![1], elements: vec![Element::Float(1e10)] };
        assert!(cast(&floats, DType::I32).is_none());
        assert_eq!(cast(&floats, DType::I64).unwrap().ints().unwrap(), [10_000_000_000]);
    }

    #[test]
    fn reductions_keep_axes_if_asked() {
        let x = Known { shape: vec![2, 2], ..ints(DType::I64, &[1, 2, 3, 4]) };
        assert_eq!(reduced("ReduceSum", &x, &[0], true).unwrap().shape, [1, 2]);
        assert_eq!(reduced("ReduceProd", &x, &[], false).unwrap().ints().unwrap(), [24]);
        assert_eq!(reduced("ReduceMax", &x, &[-1], false).unwrap().ints().unwrap(), [2, 4]);
    }
}
