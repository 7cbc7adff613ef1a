//! The weights of recurrent networks, in PyTorch's order.

use crate::OnnxError;
use crate::lower::Constant;
use ixion_pnnx::Attribute;

/// Keys of a module's weights: of the input and of the state, then the biases of both; for each direction.
const KEYS: [[&str; 4]; 2] = [
    ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"],
    ["weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse"],
];

/// A network with one layer.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) weights: Vec<(&'static str, Attribute)>,
    pub(super) directions: usize,
    pub(super) input_size: usize,
    pub(super) hidden_size: usize,
    pub(super) has_bias: bool,
}

/// For each of PyTorch's gates, its place among ONNX's.
fn order(op_type: &str) -> &'static [usize] {
    match op_type {
        // Input, forget, cell and output; ONNX has input, output, forget and cell.
        "LSTM" => &[0, 2, 3, 1],
        // Reset, update and new; ONNX has update, reset and hidden.
        "GRU" => &[1, 0, 2],
        _ => &[0],
    }
}

/// The network with these weights of the input and of the state, directions×gates·H×I and directions×gates·H×H, and biases of
/// both, directions×2·gates·H. `None` if their shapes do not fit.
///
/// # Errors
/// [`OnnxError::Weight`] if they cannot be read.
pub(super) fn network(
    op_type: &str,
    [input, state]: [&Constant; 2],
    bias: Option<&Constant>,
) -> Result<Option<Network>, OnnxError> {
    let order = order(op_type);
    let (&[directions, rows, input_size], &[_, _, hidden_size]) = (input.shape(), state.shape()) else {
        return Ok(None);
    };
    let fits = rows == order.len().saturating_mul(hidden_size)
        && rows > 0
        && state.shape() == [directions, rows, hidden_size]
        && bias.is_none_or(|bias| bias.shape() == [directions, rows.saturating_mul(2)]);
    let Some(keys) = KEYS.get(..directions).filter(|_| fits && directions > 0) else { return Ok(None) };
    let mut weights = Vec::new();
    for (direction, [input_key, state_key, input_bias, state_bias]) in keys.iter().enumerate() {
        for (key, weight) in [(*input_key, input), (*state_key, state)] {
            weights.push((key, sorted(weight, direction, directions, order, weight.shape().get(1..))?));
        }
        for (half, key) in [*input_bias, *state_bias].into_iter().enumerate() {
            if let Some(bias) = bias {
                weights
                    .push((key, sorted(bias, direction * 2 + half, directions * 2, order, Some(&[rows]))?));
            }
        }
    }
    Ok(Some(Network { weights, directions, input_size, hidden_size, has_bias: bias.is_some() }))
}

/// One of `parts` equal parts of a tensor, with its gates sorted.
fn sorted(
    weight: &Constant,
    part: usize,
    parts: usize,
    order: &[usize],
    shape: Option<&[usize]>,
) -> Result<Attribute, OnnxError> {
    let bytes = weight.attribute().bytes()?;
    let part = nth(&bytes, part, parts);
    let gates = order.iter().flat_map(|gate| nth(part, *gate, order.len()));
    Ok(Attribute::new(
        weight.dtype(),
        shape.unwrap_or_default().to_vec(),
        gates.copied().collect::<Vec<u8>>(),
    )?)
}

/// One of `parts` equal parts.
fn nth(bytes: &[u8], part: usize, parts: usize) -> &[u8] {
    bytes.chunks_exact((bytes.len() / parts.max(1)).max(1)).nth(part).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_tensor::DType;

    #[test]
    fn gates_are_sorted() {
        let bytes = |shape: Vec<usize>| {
            let count: usize = shape.iter().product();
            Constant::new(
                "w",
                Attribute::new(DType::U8, shape, (0..count as u8).collect::<Vec<u8>>()).unwrap(),
            )
        };
        let (input, state, bias) = (bytes(vec![2, 4, 2]), bytes(vec![2, 4, 1]), bytes(vec![2, 8]));
        let network = network("LSTM", [&input, &state], Some(&bias)).unwrap().unwrap();
        let of = |key: &str| {
            let found = network.weights.iter().find(|weight| weight.0 == key).unwrap();
            (found.1.shape().to_vec(), found.1.bytes().unwrap().to_vec())
        };
        assert_eq!(of("weight_ih_l0"), (vec![4, 2], vec![0, 1, 4, 5, 6, 7, 2, 3]));
        assert_eq!(of("weight_hh_l0_reverse"), (vec![4, 1], vec![4, 6, 7, 5]));
        assert_eq!(of("bias_hh_l0"), (vec![4], vec![4, 6, 7, 5]));
        assert_eq!((network.hidden_size, network.input_size, network.directions), (1, 2, 2));
        assert!(super::network("GRU", [&input, &state], None).unwrap().is_none());
    }
}
