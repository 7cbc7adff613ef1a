//! Mistakes in a call.

use super::call::{Call, Input};
use ixion::tensor::{DType, Tensor};
use rand::Rng;
use rand::rngs::StdRng;

/// Values that are invalid for any parameter.
const NONSENSE: &[&str] = &["!nonsense!", "(1,x!,2)", "%%"];

/// Values that may be of the wrong kind, too large or too small.
const TRAPS: &[&str] = &[
    "0",
    "-1",
    "1",
    "7",
    "-7",
    "65536",
    "2147483647",
    "-2147483648",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "0.5",
    "-0.5",
    "1e308",
    "1e309",
    "nan",
    "-inf",
    "None",
    "True",
    "()",
    "(1)",
    "(-1,-1)",
    "(0,0,0)",
    "(1,2,3,4,5,6,7,8,9)",
    "(99999999,99999999)",
    "(2147483647,2147483647,2147483647)",
    "torch.float",
    "sum",
    "[[1,2],[3]]",
    "@0",
    "@9",
    "1.0e+00-2.0e+00j",
];

/// A mistake in a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mistake {
    MissingParameter(String),
    Nonsense { key: String, value: String },
    Trap { key: String, value: String },
    UnknownParameter(&'static str),
    MissingWeight(String),
    WeightShape(String),
    WeightType(String),
    UnknownWeight(&'static str),
    FewerInputs,
    MoreInputs,
    SwappedInputs,
    InputType(usize),
    InputShape(usize),
    MoreOutputs,
    FewerOutputs,
}

fn choose<'a, T>(of: &'a [T], rng: &mut StdRng) -> Option<&'a T> {
    of.get(rng.random_range(0..of.len().max(1)))
}

fn choose_mut<'a, T>(of: &'a mut [T], rng: &mut StdRng) -> Option<&'a mut T> {
    of.get_mut(rng.random_range(0..of.len().max(1)))
}

impl Mistake {
    /// Makes a random mistake in a call; `None` if the call has nothing of the selected kind.
    pub(crate) fn make(call: &mut Call, rng: &mut StdRng) -> Option<Self> {
        match rng.random_range(0..16) {
            0 => {
                let index = rng.random_range(0..call.params.len().max(1));
                (index < call.params.len()).then(|| Self::MissingParameter(call.params.remove(index).0))
            }
            1 => Self::set_param(call, NONSENSE, rng).map(|(key, value)| Self::Nonsense { key, value }),
            2..6 => Self::set_param(call, TRAPS, rng).map(|(key, value)| Self::Trap { key, value }),
            6 => {
                call.params.push(("sharpness".to_owned(), "1".to_owned()));
                Some(Self::UnknownParameter("sharpness"))
            }
            7 => Self::spoil_weight(call, rng),
            8 => call.inputs.pop().map(|_| Self::FewerInputs),
            9 => {
                let input = Input { key: None, dtype: DType::F32, shape: vec![2, 3] };
                call.inputs.push(input);
                Some(Self::MoreInputs)
            }
            10 if call.inputs.len() > 1 => {
                call.inputs.swap(0, 1);
                Some(Self::SwappedInputs)
            }
            11 | 12 => Self::change_input_type(call, rng),
            13 | 14 => Self::change_input_shape(call, rng),
            15 if rng.random() => {
                call.outputs += 1;
                Some(Self::MoreOutputs)
            }
            15 if call.outputs > 1 => {
                call.outputs -= 1;
                Some(Self::FewerOutputs)
            }
            _ => None,
        }
    }

    fn set_param(call: &mut Call, values: &[&str], rng: &mut StdRng) -> Option<(String, String)> {
        let (key, value) = choose_mut(&mut call.params, rng)?;
        *value = (*choose(values, rng)?).to_owned();
        Some((key.clone(), value.clone()))
    }

    fn spoil_weight(call: &mut Call, rng: &mut StdRng) -> Option<Self> {
        let index = rng.random_range(0..call.weights.len().max(1));
        let weight = call.weights.get_mut(index)?;
        let key = weight.key.clone();
        Some(match rng.random_range(0..4) {
            0 => {
                call.weights.remove(index);
                Self::MissingWeight(key)
            }
            1 => {
                spoil_shape(&mut weight.shape, rng);
                Self::WeightShape(key)
            }
            2 => {
                weight.dtype = *choose(&DType::ALL, rng)?;
                Self::WeightType(key)
            }
            _ => {
                let mut other = weight.clone();
                other.key = "sharpness".to_owned();
                call.weights.push(other);
                Self::UnknownWeight("sharpness")
            }
        })
    }

    fn change_input_type(call: &mut Call, rng: &mut StdRng) -> Option<Self> {
        let index = rng.random_range(0..call.inputs.len().max(1));
        call.inputs.get_mut(index)?.dtype = *choose(&DType::ALL, rng)?;
        Some(Self::InputType(index))
    }

    fn change_input_shape(call: &mut Call, rng: &mut StdRng) -> Option<Self> {
        let index = rng.random_range(0..call.inputs.len().max(1));
        spoil_shape(&mut call.inputs.get_mut(index)?.shape, rng);
        Some(Self::InputShape(index))
    }

    /// The key that the error must name, if it is certainly at fault.
    pub(crate) fn key_that_must_be_named(&self) -> Option<&str> {
        match self {
            Self::Nonsense { key, .. } => Some(key),
            Self::UnknownParameter(key) | Self::UnknownWeight(key) => Some(key),
            _ => None,
        }
    }

    /// Returns true if any result would be wrong.
    pub(crate) fn must_fail(&self) -> bool {
        matches!(self, Self::Nonsense { .. } | Self::UnknownParameter(_) | Self::UnknownWeight(_))
    }
}

fn spoil_shape(shape: &mut Vec<usize>, rng: &mut StdRng) {
    let axis = rng.random_range(0..shape.len().max(1));
    match rng.random_range(0..6) {
        0 if shape.len() < 8 => shape.insert(axis.min(shape.len()), rng.random_range(0..3)),
        1 if !shape.is_empty() => drop(shape.remove(axis)),
        2 => *shape = vec![1; 8],
        3 => shape.clear(),
        _ => {
            let sizes = [0, 1, 2, 3, 17];
            shape
                .iter_mut()
                .skip(axis)
                .take(1)
                .for_each(|size| *size = sizes[rng.random_range(0..sizes.len())]);
        }
    }
}

/// Random values: small integers, which may be indices, and occasionally huge ones.
pub(crate) fn values(input: &Input, seed: u64) -> Tensor {
    use rand::SeedableRng;
    let mut rng = StdRng::seed_from_u64(seed);
    let count: usize = input.shape.iter().product();
    let huge = rng.random_range(0..8) == 0;
    let number = |rng: &mut StdRng| match (input.dtype.is_float() || input.dtype.is_complex(), huge) {
        (true, false) => rng.random_range(-2.0..2.0),
        (true, true) => [f64::NAN, f64::INFINITY, 1e308, -1e30, 0.0][rng.random_range(0..5)],
        (false, false) => f64::from(rng.random_range(0..3)),
        (false, true) => [-1.0, 9.3e18, -9.3e18, 2_147_483_647.0, 0.0][rng.random_range(0..5)],
    };
    let numbers: Vec<f64> = (0..count).map(|_| number(&mut rng)).collect();
    let tensor = Tensor::from_vec(numbers, &input.shape).unwrap();
    tensor.cast(input.dtype).unwrap()
}
