//! Tensors and numbers as JSON.

use ixion::tensor::{Complex, DType, Tensor, TensorError};
use serde_json::{Value, json};

/// The maximum number of values of one output; --output saves all of them.
const MAX_VALUES: usize = 1000;

/// The name, shape and element type of an input or output.
pub(super) fn port(name: &str, tensor: &Tensor) -> Value {
    json!({ "name": name, "shape": tensor.shape().dims(), "dtype": tensor.dtype().name() })
}

/// An output with its values, of which at most [`MAX_VALUES`] are listed, and their statistics.
pub(super) fn output((name, tensor): &(String, Tensor)) -> Result<Value, TensorError> {
    let mut object = port(name, tensor);
    let shown = tensor.num_elements().min(MAX_VALUES);
    object["values"] = values(&tensor.reshape(&[tensor.num_elements()])?.narrow(0, 0, shown)?)?;
    object["elided"] = (tensor.num_elements() - shown).into();
    if !tensor.dtype().is_complex() {
        let numbers = tensor.cast(DType::F64)?.to_vec::<f64>()?;
        let (min, max, mean) = statistics(&numbers);
        (object["min"], object["max"], object["mean"]) = (number(min), number(max), number(mean));
    }
    Ok(object)
}

/// The minimum, maximum and mean of all values except NaNs; NaN if there are none.
fn statistics(numbers: &[f64]) -> (f64, f64, f64) {
    let known = || numbers.iter().copied().filter(|number| !number.is_nan());
    let count = known().count() as f64;
    (known().fold(f64::NAN, f64::min), known().fold(f64::NAN, f64::max), known().sum::<f64>() / count)
}

fn values(tensor: &Tensor) -> Result<Value, TensorError> {
    Ok(match tensor.dtype() {
        DType::Bool => tensor.to_vec::<bool>()?.into(),
        dtype if dtype.is_complex() => {
            let pair = |value: &Complex<f64>| json!([number(value.re), number(value.im)]);
            tensor.cast(DType::C128)?.to_vec::<Complex<f64>>()?.iter().map(pair).collect()
        }
        dtype if dtype.is_float() => {
            tensor.cast(DType::F64)?.to_vec::<f64>()?.into_iter().map(number).collect()
        }
        _ => tensor.cast(DType::I64)?.to_vec::<i64>()?.into(),
    })
}

/// A number, or a string for NaN and infinities, which JSON cannot represent as numbers.
pub(super) fn number(value: f64) -> Value {
    match value {
        value if value.is_finite() => value.into(),
        value if value.is_nan() => "nan".into(),
        value if value > 0.0 => "inf".into(),
        _ => "-inf".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_kind() {
        let floats = Tensor::from_vec(vec![1.5f32, f32::NAN, f32::NEG_INFINITY], &[3]).unwrap();
        assert_eq!(values(&floats).unwrap(), json!([1.5, "nan", "-inf"]));
        let bools = Tensor::from_vec(vec![true, false], &[2]).unwrap();
        assert_eq!(values(&bools).unwrap(), json!([true, false]));
        let complex = Tensor::from_vec(vec![Complex::new(1f32, -2.0)], &[1]).unwrap();
        assert_eq!(values(&complex).unwrap(), json!([[1.0, -2.0]]));
        let ints = Tensor::from_vec(vec![i64::MAX], &[1]).unwrap();
        assert_eq!(values(&ints).unwrap(), json!([i64::MAX]));
    }

    #[test]
    fn long_outputs_are_elided_and_empty_ones_have_no_mean() {
        let long = output(&("y".into(), Tensor::ones(DType::F32, &[2, 600]).unwrap())).unwrap();
        assert_eq!((long["values"].as_array().unwrap().len(), long["elided"].as_u64()), (1000, Some(200)));
        assert_eq!((&long["mean"], &long["shape"]), (&json!(1.0), &json!([2, 600])));
        let empty = output(&("y".into(), Tensor::zeros(DType::F32, &[0, 3]).unwrap())).unwrap();
        assert_eq!((&empty["mean"], &empty["values"]), (&json!("nan"), &json!([])));
    }
}
